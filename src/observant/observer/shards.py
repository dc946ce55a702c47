"""The shards that one observer holds.

Several observers can share a store. Hosts are hashed into shards, and a shard belongs to one
observer at a time, by a lease that it renews.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from observant.store import SHARDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.observer.clock import Clock
    from observant.store import Store
    from observant.store.patience import Patience


class Shards:
    """The shards held, each with the fence that shows the store that they still are."""

    def __init__(
        self, store: Store, patience: Patience, clock: Clock, *, name: str, want: int, lease: float
    ) -> None:
        self._store, self._patience, self._clock = store, patience, clock
        self.name, self.lease, self._want = name, lease, want
        self._fences: dict[int, int] = {}
        self.under_way: Counter[int] = Counter()
        """Visits under way in each shard."""
        self.alone = True
        """Whether no other observer lives."""

    def __len__(self) -> int:
        return len(self._fences)

    def __iter__(self) -> Iterator[int]:
        return iter(self._fences)

    def __contains__(self, shard: object) -> bool:
        return shard in self._fences

    def __getitem__(self, shard: int) -> int:
        return self._fences[shard]

    @property
    def store_now(self) -> float | None:
        """Our time for the store: its own, unless ours is another."""
        return self._clock.time() if self._clock.speed != 1.0 else None

    async def renew(self, offer: Any) -> tuple[dict[int, int], dict[int, int]]:
        """Renew the leases: those of the shards to hold, a fair share, and those to give back."""
        held = await self._patience.call(self._lease, offer)
        ours = dict(sorted(held.items())[: await self._patience.call(self._fair_share)])
        return ours, {shard: fence for shard, fence in held.items() if shard not in ours}

    async def hold(self, ours: dict[int, int], others: dict[int, int]) -> None:
        """Hold these, and give the others back in which no visit is under way any more."""
        self._fences = ours
        leaving = {shard: fence for shard, fence in others.items() if not self.under_way[shard]}
        if leaving:
            await self._patience.call(
                self._store.leases.release, self.name, leaving, self.store_now
            )

    async def exchange(self, offer: Any) -> list[Any]:
        """Publish our offer; the other observers, with theirs."""
        return await self._patience.call(
            self._store.leases.exchange, self.name, offer, self._recently, self.store_now
        )

    def _lease(self, offer: Any) -> dict[int, int]:
        return self._store.leases.take(
            self.name,
            self._fair_share(),
            self.store_now,
            self.lease * self._clock.speed,
            offer=offer,
        )

    def _fair_share(self) -> int:
        """How many shards we may hold, since others want theirs."""
        recent = self._store.leases.observers(since=self._recently, living=True, now=self._now)
        others = sum(other.name != self.name for other in recent)
        self.alone = not others
        return min(self._want, -(-SHARDS // (1 + others)))

    @property
    def _now(self) -> float:
        return time.time() if self.store_now is None else self.store_now

    @property
    def _recently(self) -> float:
        """Who was not seen since then is no observer any more."""
        return self._now - self.lease / 2 * self._clock.speed
