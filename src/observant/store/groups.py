"""Groups: many visits in one commit, many looks back in one read, for tasks that await their own.

Visits that end while a commit is on its way to the disk go into the next one. So a quiet loop
commits each visit at once, and a busy one hundreds at a time; nobody waits for a timer (a pause of
20 ms before each commit halved the visits a second). It is the same with what visits must know
before they begin.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

from observant.errors import StoreError, UnknownSourceError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from observant.store.members import StoredMember
    from observant.store.patience import Patience
    from observant.store.store import Store
    from observant.store.visit import Entry, Previous, Recorded

A = TypeVar("A")
B = TypeVar("B")


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
        self._record = store.visits.record_many
        self._call = asyncio.to_thread if patience is None else patience.call
        self._group = _Group(self._commit, most)
        self._closed = False

    async def record(self, entry: Entry) -> Recorded:
        """Wait until this visit is committed, and tell what became of it.

        Once begun, the commit goes on even when the waiting task is cancelled.
        """
        if self._closed:
            raise StoreError("the store is closing: no more visits are taken")
        return await self._group.ask(entry)

    async def close(self) -> None:
        """Commit what is waiting, and take no more. The store stays open."""
        self._closed = True
        if self._group.task is not None:
            await asyncio.shield(self._group.task)

    async def _commit(self, entries: list[Entry]) -> Sequence[Recorded | Exception]:
        try:
            return await self._call(self._record, entries)
        except StoreError:
            raise  # a store that is full or busy for one is so for all
        except Exception:
            if len(entries) == 1:
                raise
        told: list[Recorded | Exception] = []
        for entry in entries:  # one bad entry must not take the others along
            try:
                told += await self._call(self._record, [entry])
            except Exception as error:  # noqa: BLE001 - told to the one who waits
                told.append(error)
        return told


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
        self._store = store
        self._call = asyncio.to_thread if patience is None else patience.call
        self._group = _Group(self._read, most)
        self._members = _Group(self._read_members, most)
        self._any_members = True

    async def previous(self, name: str) -> Previous:
        """What `Store.sources.previous` says of this source."""
        return await self._group.ask(name)

    async def memberships(self, name: str) -> list[StoredMember]:
        """The standing queries that have this source among their results.

        Nobody is asked where there was no result of any query when a group last looked back.
        """
        return [] if not self._any_members else await self._members.ask(name)

    async def _read(self, names: list[str]) -> list[Previous | Exception]:
        found, self._any_members = await self._call(self._look_back, set(names))
        return [
            found.get(name) or UnknownSourceError(f"there is no source {name!r}") for name in names
        ]

    def _look_back(self, names: set[str]) -> tuple[dict[str, Previous], bool]:
        return self._store.sources.previous_many(names), self._store.members.exist()

    async def _read_members(self, names: list[str]) -> list[list[StoredMember] | Exception]:
        found = await self._call(self._store.members.by_urls, set(names))
        return [found[name] for name in names]


class _Group(Generic[A, B]):
    """What tasks ask for while the work for others is under way is done together, in their order.

    `work` answers each of them; what it raises is told to all.
    """

    def __init__(
        self, work: Callable[[list[A]], Awaitable[Sequence[B | Exception]]], most: int
    ) -> None:
        self._work, self._most = work, most
        self._waiting: list[tuple[A, asyncio.Future[B]]] = []
        self.task: asyncio.Task[None] | None = None

    async def ask(self, one: A) -> B:
        future: asyncio.Future[B] = asyncio.get_running_loop().create_future()
        self._waiting.append((one, future))
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        await asyncio.sleep(0)  # tasks that are ready now join the first group
        while self._waiting:
            group, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            told: Sequence[B | Exception]
            try:
                told = await self._work([one for one, _ in group])
            except Exception as error:  # noqa: BLE001 - each waiting task is told
                told = [error] * len(group)
            for (_, future), result in zip(group, told, strict=True):
                if future.done():  # its task was cancelled
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)
