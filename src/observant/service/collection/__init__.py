"""`Collection`: every read and every change the service offers, for pages, API and commands."""

from __future__ import annotations

from observant.service.collection.changing import Changing
from observant.service.collection.entries import BulkChange, NewSource, SourceChanges
from observant.service.collection.reading import SourceQuery
from observant.service.collection.settings import Settings
from observant.service.collection.telling import Telling
from observant.service.collection.transfer import Transfer

__all__ = ["BulkChange", "Collection", "NewSource", "SourceChanges", "SourceQuery"]


class Collection(Changing, Settings, Telling, Transfer):
    """A store, its settings and (perhaps) its running observer, as the service sees them.

    >>> from observant.observer.config import Config
    >>> from observant.store import open_store
    >>> with open_store(":memory:") as store:
    ...     collection = Collection(store, Config())
    ...     added = collection.add(NewSource(url="https://example.org/a", tags=("news",)))
    ...     collection.sources(SourceQuery(tag="news")).total
    1
    """
