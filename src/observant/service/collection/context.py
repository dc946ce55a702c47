"""What every piece of the collection works with: store, settings in force, observer, clock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

from observant.errors import InputError, ObservantError
from observant.observer.settings import settings_of, touch
from observant.service.cache import Cache
from observant.service.posteriors import read_beliefs

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from observant.observer.config import Config
    from observant.observer.loop import Observer
    from observant.observer.metrics import Status
    from observant.service.cache import Cached
    from observant.service.posteriors import ActiveSources
    from observant.store import Store, StoredSource, StoreTotals

T = TypeVar("T")
_FRESH_SECONDS = 15.0
_PATIENCE_SECONDS = 20.0
_LARGE = 5000
"""Sources from which on an answer takes longer than somebody who waits for a page may notice."""


class Context:
    """A store with its settings and (perhaps) its running observer.

    Its methods block and are safe to call from several threads. `observer` is the one that runs in
    this process, if any, in the event loop `loop`.
    """

    def __init__(
        self,
        store: Store,
        config: Config,
        observer: Observer | None = None,
        clock: Callable[[], float] = time.time,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        cache: Cache | None = None,
    ) -> None:
        self.store, self.given, self.observer, self.now = store, config, observer, clock
        self.loop = loop
        self.cache = cache or Cache(workers=4)

    @property
    def config(self) -> Config:
        """The configuration with what was changed while it ran."""
        return settings_of(self.store, self.given).config

    def find(self, source: int | str) -> StoredSource:
        """A source by its number or its name."""
        if isinstance(source, int):
            return self.store.sources.numbered(source)
        return self.store.sources.get(source)

    def beliefs(self) -> ActiveSources:
        """What is believed of all sources, a few seconds old at most."""
        return _there(self._read(_FRESH_SECONDS, _PATIENCE_SECONDS))

    def _read(self, max_age: float, wait: float) -> Cached[ActiveSources]:
        def read() -> ActiveSources:
            return read_beliefs(self.store, self.config, self.now())

        return self.cache.get("beliefs", read, max_age=max_age, wait=wait)

    def totals(self) -> StoreTotals:
        """The whole store in numbers, a few seconds old at most."""
        found = self.cache.get(
            "totals", self.store.totals, max_age=_FRESH_SECONDS / 3, wait=_PATIENCE_SECONDS
        )
        return _there(found)

    def changed(self) -> None:
        """Somebody has changed the collection: tell observers, and whoever keeps an answer.

        Of a large collection the answers of before stand until the new ones are there.
        """
        touch(self.store)
        if self.store.sources.count() < _LARGE:
            self.cache.forget()
            return
        self.cache.get("totals", self.store.totals, max_age=0.0, wait=0.0)
        self._read(0.0, 0.0)

    def status(self) -> Status | None:
        """What the observer of this process is doing; None without one, or while it is busy.

        It goes through all sources in the observer's own loop: once a second, whoever asks.
        """
        observer = self.observer
        if observer is None or self.loop is None or not self.loop.is_running():
            return None

        async def look() -> Status:
            return observer.status()

        def ask() -> Status | None:
            try:
                return self.in_loop(look(), seconds=2.0)
            except TimeoutError:
                return None

        return self.cache.get("status", ask, max_age=1.0, wait=2.0).value

    def in_loop(self, work: Coroutine[Any, Any, T], *, seconds: float) -> T:
        """Run a coroutine in the observer's event loop, and wait for it here."""
        import asyncio

        if self.loop is None:
            work.close()
            raise RuntimeError("the collection has no event loop")
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(seconds)


class CollectionPiece:
    """A part of what the service offers of a collection."""

    def __init__(self, context: Context) -> None:
        self._in = context


def some(number: int, what: str) -> int:
    """How many can be asked for at once."""
    if not 1 <= number <= 1000:
        raise InputError(f"from 1 to 1000 {what} can be asked for at once, not {number}")
    return number


def _there(found: Cached[T]) -> T:
    if found.value is None:
        raise ObservantError(found.error or "the collection is being read: ask again soon")
    return found.value
