"""One visit of a source at a time, whoever wants it: in one process, and across processes.

A source is visited by the holder of its shard, and by nobody else. Who wants a visit now, and does
not hold the shard, takes it for that visit if it is free. If an observer holds it, it is asked
for the visit, and the record of that visit, or of one that was under way, is the answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from observant.errors import BusyError, ObservantError
from observant.store.visit import Comparison

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from observant.store import Store
    from observant.store.patience import Patience
    from observant.store.requests import VisitRequest
    from observant.store.visit import Visit

log = logging.getLogger("observant.observer")

T = TypeVar("T")

_LEASE_SECONDS = 150.0
"""For one visit: longer than nearly all take. What is committed later is refused."""
_TO_A_LEASE = 50
"""Visits of one shard at most that are made under one lease: of one host that is about a minute."""
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


class Checks:
    """Visits that somebody asks for now, of many sources: those of a shard that no observer holds
    together, under one lease.

    `take_up(shard, names)` makes ready for them, and `visit(name, fence)` makes one.
    """

    def __init__(
        self,
        desk: VisitDesk,
        take_up: Callable[[int, Sequence[str]], Awaitable[None]],
        visit: Callable[[str, int], Awaitable[Visit]],
        on_visit: Callable[[Visit], None] | None = None,
    ) -> None:
        self._desk, self._take_up, self._visit, self._on_visit = desk, take_up, visit, on_visit
        self._found: dict[str, Visit | ObservantError] = {}

    async def make(self, shard: int, names: Sequence[str]) -> None:
        """Visit these sources of one shard."""
        for at, name in enumerate(names):
            if name not in self._found:  # with those before it
                some = names[at : at + _TO_A_LEASE]
                await self._note(name, self._desk.ask(name, shard, partial(self._all, shard, some)))

    def of(self, names: Sequence[str]) -> list[Visit]:
        """The visits of these; the first error, if there was one."""
        found = [self._found[name] for name in names]
        for one in found:
            if isinstance(one, ObservantError):
                raise one
        return [one for one in found if not isinstance(one, ObservantError)]

    async def _all(self, shard: int, names: Sequence[str], fence: int) -> Visit:
        await self._take_up(shard, names)
        left = [name for name in names if name not in self._found]
        await asyncio.gather(*(self._note(name, self._visit(name, fence)) for name in left))
        return self.of(names[:1])[0]

    async def _note(self, name: str, visit: Awaitable[Visit]) -> None:
        found: Visit | ObservantError
        try:
            found = await visit
        except ObservantError as problem:
            found = problem
        if name not in self._found:
            self._found[name] = found
            if self._on_visit is not None and not isinstance(found, ObservantError):
                self._on_visit(found)
