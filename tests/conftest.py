"""Fixtures for all tests: stores on both engines, a site and a browser that looks at it."""

from .postgres_server import place, postgres, shared_postgres, store
from .rendering_world import pages, rendering

__all__ = ["pages", "place", "postgres", "rendering", "shared_postgres", "store"]
