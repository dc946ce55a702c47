"""Fixtures for all tests: stores on both engines, a site and a browser that looks at it."""

from .postgres_server import place, postgres, shared_postgres, store
from .rendering_world import pages, patient_steps, rendering

__all__ = ["pages", "patient_steps", "place", "postgres", "rendering", "shared_postgres", "store"]
