"""Patience with a store that is away: an observer's calls wait until it is back.

A page that somebody looks at is told at once that the database is away. An observer waits, however
long it takes, and no thread is held while it waits: one call after the other looks whether the
store is there again, and then all go on.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING, Any, TypeVar

from observant.errors import StoreAwayError, StoreBusyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.store.store import Store

log = logging.getLogger("observant.store")

T = TypeVar("T")

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 3.0
"""Seconds between two looks at a store that is away."""


class Patience:
    """Calls a store from a coroutine. Use it from one event loop.

    >>> from observant.store import open_store
    >>> with open_store(":memory:") as store:
    ...     asyncio.run(Patience(store).call(store.sources.count))
    0
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._there = asyncio.Event()
        self._there.set()
        self._enough = False
        self._looking: asyncio.Task[None] | None = None
        self.away_since: float | None = None
        """When the store was found to be away (seconds since 1970); None while it is there."""
        self.absences: list[float] = []
        """Seconds that it was away, each time; whoever reports them takes them out."""

    async def call(self, work: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
        """What `work` gives, in a thread; it is called again if the store was away.

        So it must be one that may be called twice, as all that visits need are.
        """
        while True:
            await self._there.wait()
            try:
                return await asyncio.to_thread(self._unless_away, work, *arguments, **named)
            except (StoreAwayError, StoreBusyError) as error:
                if self._enough:
                    raise
                self._lost(error)

    def _unless_away(self, work: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
        """Many calls may have come here before the first of them found out: it need not be each."""
        if self.away_since is not None and not self._enough:
            raise StoreAwayError("the store is away")
        return work(*arguments, **named)

    def give_up(self) -> None:
        """Wait no longer: whoever waits is told that the store is away."""
        self._enough = True
        if self._looking is not None:
            self._looking.cancel()
        self._there.set()

    def _lost(self, error: Exception) -> None:
        if self._looking is not None and not self._looking.done():
            return
        self._there.clear()
        self.away_since = time.time()
        log.warning("the store cannot be used; waiting for it", extra={"reason": str(error)})
        self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        pause, began = _SHORTEST_PAUSE, time.monotonic()
        while True:
            await asyncio.sleep(pause * (0.5 + random.random()))  # noqa: S311 - spreads observers
            try:
                await asyncio.to_thread(self._store.engine.version)
            except (StoreAwayError, StoreBusyError):
                pause = min(2 * pause, _LONGEST_PAUSE)
            except Exception:  # whoever waits will be told of it
                log.exception("the store answers, but not as it should")
                break
            else:
                break
        self.absences.append(time.monotonic() - began)
        log.warning("the store is back", extra={"seconds": round(self.absences[-1], 1)})
        self.away_since, self._looking = None, None
        self._there.set()
