"""The collection: one path from the store to pages, API and commands."""

from observant.service.collection.collection import Collection
from observant.service.collection.entries import BulkChange, NewSource, SourceChanges
from observant.store import SourceQuery

__all__ = ["BulkChange", "Collection", "NewSource", "SourceChanges", "SourceQuery"]
