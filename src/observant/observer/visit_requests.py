"""One visit of a source at a time, whoever wants it: in one process, and across processes.

A source is visited by the holder of its shard, and by nobody else. Who wants a visit now, and does
not hold the shard, takes it for that visit if it is free. If an observer holds it, it is asked
for the visit, and the record of that visit, or of one that was under way, is the answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from observant.errors import BusyError, ObservantError
from observant.store.visit import Comparison

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from observant.store import Store
    from observant.store.patience import Patience
    from observant.store.requests import VisitRequest
    from observant.store.visit import Visit

__all__ = ["OneAtATime", "VisitDesk"]

log = logging.getLogger("observant.observer")

T = TypeVar("T")

_LEASE_SECONDS = 150.0
"""For one visit: longer than nearly all take. What is committed later is refused."""
_WAIT_SECONDS = 110.0
"""So long somebody waits for a visit of another observer."""
_LOOK_SECONDS, _SERVE_SECONDS = 0.1, 0.5
_CLOCKS_DIFFER = 60.0


class OneAtATime(Generic[T]):
    """Work by key, of which one is under way at a time: who comes meanwhile gets its result.

    >>> async def main():
    ...     visits, calls = OneAtATime(), []
    ...
    ...     async def visit():
    ...         calls.append("visit")
    ...         await asyncio.sleep(0.01)
    ...         return len(calls)
    ...
    ...     return await asyncio.gather(*(visits.run("a", visit) for _ in range(3)))
    >>> asyncio.run(main())
    [1, 1, 1]
    """

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Future[T]] = {}

    async def run(self, key: str, work: Callable[[], Awaitable[T]]) -> T:
        """What `work` gives, or what the work gives that is under way."""
        under_way = self._under_way.get(key)
        if under_way is not None:
            return await asyncio.shield(under_way)
        mine = self._under_way[key] = asyncio.get_running_loop().create_future()
        try:
            result = await work()
        except BaseException as error:
            told = error if isinstance(error, Exception) else ObservantError("it was abandoned")
            mine.set_exception(told)
            mine.exception()  # nobody may have waited for it
            raise
        else:
            mine.set_result(result)
            return result
        finally:
            del self._under_way[key]


class VisitDesk:
    """Where visits are asked for, and where an observer that runs finds what others ask of it."""

    def __init__(
        self, store: Store, patience: Patience, name: str, now: Callable[[], float | None]
    ) -> None:
        self._store, self._call = store, patience.call
        self._name, self._now = name, now

    async def ask(self, source: str, shard: int, visit: Callable[[int], Awaitable[Visit]]) -> Visit:
        """A visit of this source: by `visit(fence)` if nobody watches it, else by who does."""
        before = await self._last(source)
        began = time.monotonic()
        request: VisitRequest | None = None
        while True:
            fence = await self._call(
                self._store.leases.take_one, self._name, shard, self._now(), _LEASE_SECONDS
            )
            try:
                last = await self._last(source)
                if last is not None and (before is None or last.id > before.id):
                    if request is not None:
                        await self._call(self._store.requests.answered, request)
                    return last
                if fence is not None:
                    return await visit(fence)
            finally:
                if fence is not None:
                    await self._call(
                        self._store.leases.release, self._name, {shard: fence}, journal=False
                    )
            if request is None:
                request = await self._call(self._store.requests.add, source, now=self._now())
            if time.monotonic() - began > _WAIT_SECONDS:
                raise BusyError(
                    f"the observer that watches {source!r} has not visited it: look again later"
                )
            await asyncio.sleep(_LOOK_SECONDS)

    async def serve(
        self, holds: Callable[[VisitRequest], bool], visit: Callable[[str], Awaitable[Visit]]
    ) -> None:
        """Make the visits that others ask for, of the sources that we watch; without end."""
        tasks: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                await asyncio.sleep(_SERVE_SECONDS)
                for request in await self._call(self._store.requests.list):
                    if request.source not in tasks and holds(request):
                        tasks[request.source] = asyncio.create_task(self._serve(request, visit))
                for name in [name for name, task in tasks.items() if task.done()]:
                    del tasks[name]
        finally:
            for task in tasks.values():
                task.cancel()

    async def _serve(self, request: VisitRequest, visit: Callable[[str], Awaitable[Visit]]) -> None:
        try:
            if (
                abs(self._instant() - request.asked_at) < _WAIT_SECONDS + _CLOCKS_DIFFER
            ):  # else nobody waits for it any more
                await visit(request.source)
        except ObservantError as error:
            log.warning("a visit that was asked for failed", extra={"reason": str(error)})
        await self._call(self._store.requests.answered, request)

    def _instant(self) -> float:
        now = self._now()
        return time.time() if now is None else now

    async def _last(self, source: str) -> Visit | None:
        """The last visit in the log, with what can be said of its comparison."""
        found = await self._call(
            self._store.visits.list,
            source,
            until=self._instant() + 3600.0,  # what lies beyond was made by a wrong clock
            limit=1,
            details=True,
        )
        if not found:
            return None
        last, detail = found[0], found[0].detail or {}
        said = Comparison(outcome=last.outcome, reason=str(detail.get("reason", "")))
        return msgspec.structs.replace(last, comparison=said)
