"""Groups: many visits in one commit, and many looks back in one read, for a loop
that awaits each of them.

Visits that end while a commit is on its way to the disk go into the next one. So a quiet loop
commits each visit at once, and a busy one hundreds at a time; nobody waits for a timer. It is the
same with what visits must know before they begin.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from observant.errors import StoreError, UnknownSourceError

if TYPE_CHECKING:
    from observant.store.patience import Patience
    from observant.store.store import Store
    from observant.store.visit import Entry, Previous, Recorded

__all__ = ["GroupCommit", "GroupRead"]


class GroupCommit:
    """Commits entries of many tasks together. Use it from one event loop.

    >>> from observant.store import Entry, Source, Visit, open_store
    >>> async def two_visits():
    ...     with open_store(":memory:") as store:
    ...         store.sources.add([Source(name="a"), Source(name="b")])
    ...         group = GroupCommit(store)
    ...         visits = [
    ...             Visit(source=name, started_at=1.0, ended_at=2.0, outcome="first")
    ...             for name in "ab"
    ...         ]
    ...         told = await asyncio.gather(*(group.record(Entry(visit=v)) for v in visits))
    ...         await group.close()
    ...         return told
    >>> asyncio.run(two_visits())
    [<Recorded.NEW: 'new'>, <Recorded.NEW: 'new'>]
    """

    def __init__(self, store: Store, *, most: int = 500, patience: Patience | None = None) -> None:
        self._store, self._most = store, most
        self._call = asyncio.to_thread if patience is None else patience.call
        self._waiting: list[tuple[Entry, asyncio.Future[Recorded]]] = []
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def record(self, entry: Entry) -> Recorded:
        """Wait until this visit is committed, and tell what became of it.

        Once begun, the commit goes on even when the waiting task is cancelled.
        """
        if self._closed:
            raise StoreError("the store is closing: no more visits are taken")
        future: asyncio.Future[Recorded] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._commit())
        return await future

    async def close(self) -> None:
        """Commit what is waiting, and take no more. The store stays open."""
        self._closed = True
        if self._task is not None:
            await asyncio.shield(self._task)

    async def _commit(self) -> None:
        await asyncio.sleep(0)  # tasks that are ready now join the first group
        while self._waiting:
            group, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            try:
                told = await self._call(
                    self._store.visits.record_many, [entry for entry, _ in group]
                )
            except Exception as error:  # noqa: BLE001 - each waiting task is told
                if len(group) > 1 and not isinstance(error, StoreError):
                    await self._one_by_one(group)  # one bad entry must not take the others along
                else:  # a store that is full or busy for one is so for all
                    for _, future in group:
                        _tell(future, error)
                continue
            for (_, future), result in zip(group, told, strict=True):
                _tell(future, result)

    async def _one_by_one(self, group: list[tuple[Entry, asyncio.Future[Recorded]]]) -> None:
        for entry, future in group:
            try:
                (told,) = await self._call(self._store.visits.record_many, [entry])
            except Exception as error:  # noqa: BLE001 - told to the one who waits
                _tell(future, error)
            else:
                _tell(future, told)


class GroupRead:
    """Looks up what is known of sources, for many tasks together. Use it from one event loop.

    >>> from observant.store import Source, open_store
    >>> async def two_sources():
    ...     with open_store(":memory:") as store:
    ...         store.sources.add([Source(name="a"), Source(name="b")])
    ...         group = GroupRead(store)
    ...         return await asyncio.gather(*(group.previous(name) for name in "ab"))
    >>> [known.visited_at for known in asyncio.run(two_sources())]
    [None, None]
    """

    def __init__(self, store: Store, *, most: int = 100, patience: Patience | None = None) -> None:
        self._store, self._most = store, most
        self._call = asyncio.to_thread if patience is None else patience.call
        self._waiting: list[tuple[str, asyncio.Future[Previous]]] = []
        self._task: asyncio.Task[None] | None = None

    async def previous(self, name: str) -> Previous:
        """What `Store.sources.previous` says of this source."""
        future: asyncio.Future[Previous] = asyncio.get_running_loop().create_future()
        self._waiting.append((name, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._read())
        return await future

    async def _read(self) -> None:
        await asyncio.sleep(0)  # tasks that are ready now join the first group
        while self._waiting:
            group, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            names = {name for name, _ in group}
            try:
                found = await self._call(self._store.sources.previous_many, names)
            except Exception as error:  # noqa: BLE001 - each waiting task is told
                for _, future in group:
                    _tell(future, error)
                continue
            for name, future in group:
                unknown = UnknownSourceError(f"there is no source {name!r}")
                _tell(future, found.get(name, unknown))


def _tell(future: asyncio.Future[Any], result: Recorded | Previous | Exception) -> None:
    if future.done():  # its task was cancelled
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
