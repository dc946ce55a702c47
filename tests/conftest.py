"""Fixtures for all tests: stores on both engines."""

from .postgres_server import place, postgres, shared_postgres, store

__all__ = ["place", "postgres", "shared_postgres", "store"]
