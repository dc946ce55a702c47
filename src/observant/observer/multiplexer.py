"""The second tier (Brewington 4.3.4): it gives due visits to downloaders, as many as it takes.

- A visit goes to a downloader that has finished its last one.
- If all are busy, a new downloader is started.
- A downloader that stays idle for a while is retired.

So the number of visits under way follows the latency, and the rate of visits follows the schedule:
at ten times the latency there are ten times as many downloaders, and no fewer visits. A host is
visited by one downloader at a time; visits to a busy host wait for it without holding a downloader.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from observant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = logging.getLogger("observant.observer")

Item = TypeVar("Item")


class Multiplexer(Generic[Item]):
    """Runs `work(item)` for every submitted item, one at a time for items of the same key.

    >>> async def main():
    ...     seen = []
    ...
    ...     async def work(item):
    ...         await asyncio.sleep(0.01)
    ...         seen.append(item)
    ...
    ...     multiplexer = Multiplexer(work, idle=0.02)
    ...     for number in range(6):
    ...         multiplexer.submit(number, key=f"host {number % 3}")
    ...     grown = multiplexer.downloaders
    ...     await multiplexer.join()
    ...     while multiplexer.downloaders:  # until the idle ones have gone
    ...         await asyncio.sleep(0.02)
    ...     return sorted(seen), grown, multiplexer.downloaders
    >>> asyncio.run(main())
    ([0, 1, 2, 3, 4, 5], 3, 0)
    """

    def __init__(
        self, work: Callable[[Item], Awaitable[None]], *, most: int = 256, idle: float = 5.0
    ) -> None:
        if most < 1:
            raise InputError(f"there must be at least one downloader, not {most}")
        self._work, self._most, self._idle = work, most, idle
        self._ready: deque[tuple[str, Item]] = deque()
        self._waiting: dict[str, deque[Item]] = {}
        """Items of the keys that are being worked on."""
        self._idlers: deque[asyncio.Future[None]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.busy = 0
        """Downloaders at work."""
        self.backlog = 0
        """Items that wait for a downloader or for their host."""
        self.started = self.retired = self.done = self.peak = 0

    @property
    def downloaders(self) -> int:
        return len(self._tasks)

    def submit(self, item: Item, key: str) -> None:
        """Have the item worked on, as soon as its key is free and a downloader is."""
        self._quiet.clear()
        self.backlog += 1
        if key in self._waiting:
            self._waiting[key].append(item)
            return
        self._waiting[key] = deque()
        self._offer(key, item)

    async def join(self, patience: float | None = None) -> bool:
        """Wait until everything is done; False if that takes longer than `patience` seconds."""
        try:
            await asyncio.wait_for(self._quiet.wait(), patience)
        except TimeoutError:
            return False
        return True

    def forget_waiting(self) -> list[Item]:
        """Take back what no downloader has begun."""
        items = [item for _, item in self._ready]
        for key, _ in self._ready:
            items.extend(self._waiting.pop(key))
        self._ready.clear()
        for queue in self._waiting.values():
            items.extend(queue)
            queue.clear()
        self.backlog = 0
        self._settle()
        return items

    async def close(self) -> None:
        """Abandon what is under way and end all downloaders."""
        self.forget_waiting()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        self._quiet.set()

    def _offer(self, key: str, item: Item) -> None:
        self._ready.append((key, item))
        while self._idlers:
            idler = self._idlers.pop()  # the one idle for the shortest time: the others may retire
            if not idler.done():
                idler.set_result(None)
                return
        if len(self._tasks) < self._most:
            task = asyncio.get_running_loop().create_task(self._downloader())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            self.started += 1
            self.peak = max(self.peak, len(self._tasks))

    async def _downloader(self) -> None:
        while await self._something_to_do():
            key, item = self._ready.popleft()
            self.busy += 1
            self.backlog -= 1
            try:
                await self._work(item)
            except Exception:
                # One bad source never stops the others. What belongs to a visit is handled there.
                log.exception("a visit broke down", extra={"source": str(item)})
            finally:
                self.busy -= 1
                self.done += 1
                self._free(key)
                self._settle()
        self.retired += 1

    async def _something_to_do(self) -> bool:
        if self._ready:
            return True
        idler: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idlers.append(idler)
        try:
            await asyncio.wait_for(idler, self._idle)
        except TimeoutError:
            if idler in self._idlers:
                self._idlers.remove(idler)
        return bool(self._ready)

    def _free(self, key: str) -> None:
        queue = self._waiting.get(key)
        if queue:
            self._offer(key, queue.popleft())
        else:
            self._waiting.pop(key, None)

    def _settle(self) -> None:
        if not self.busy and not self._ready and not self._waiting:
            self._quiet.set()
