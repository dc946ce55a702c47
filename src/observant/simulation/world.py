"""What a replay is made of: the world as it was, and the visits somebody paid to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Flags, Floats, Integers
    from observant.simulation.world_signals import WorldSignals


@dataclass(frozen=True, eq=False)
class World:
    """Everything that a replay is about. Only `look` may tell a policy what a visit would see.

    Times are days since 1970. The budget is spent in slots, one visit each, at the times
    `slot_time(0)`, `slot_time(1)` …, a constant rate from start to end.
    """

    times: Floats
    """Update times, source after source: source i owns times[offsets[i]:offsets[i + 1]]."""
    offsets: Integers
    group: Integers
    """The group of each source, as a number from 0; all 0 where there are no groups."""
    importance: Floats
    dated: Flags
    """Which sources tell when they were last updated."""
    budget: float
    """Visits a day, or what they cost a day, for all sources together."""
    start: float
    end: float
    objective: str = "freshness"
    grace: float = 0.0
    seed: int = 0
    failure: float = 0.0
    """Share of visits that fail. A failed visit costs as much and sees nothing."""
    queue: str = "due"
    """Who gets a slot that several rules' waits compete for: see `observant.simulation.replay`."""
    groups: tuple[str, ...] = ()
    """The names of the groups; a name with slashes is a path, and groups are part of groups."""
    signals: WorldSignals | None = None
    """What was said of changes, true or not."""
    cost: Floats | None = None
    """What a visit to each source takes of the budget; 1 unless given."""
    known: bool = True
    """Every source was visited at the start, as in a first crawl that is not counted. Otherwise
    nothing is there yet, and every source is visited once in the first round."""

    @property
    def sources(self) -> int:
        return len(self.offsets) - 1

    @property
    def slots(self) -> int:
        """How many visits the budget pays for."""
        return int(self.budget * (self.end - self.start) + 1e-6)

    def in_turn(self, source: Integers) -> tuple[Integers, Floats]:
        """Visits in this order, as many as the budget pays for, and the times when it does."""
        cost = np.ones(len(source)) if self.cost is None else self.cost[source]
        paid = np.cumsum(cost)
        upto = int(np.searchsorted(paid, self.slots * (1 + 1e-12), side="right"))
        return source[:upto], self.start + (paid - 0.5 * cost)[:upto] / self.budget

    def slot_time(self, slot: ArrayLike) -> Floats:
        return np.asarray(self.start + (np.asarray(slot) + 0.5) / self.budget)

    @property
    def mean_period(self) -> float:
        """Days between visits to a source if all are visited alike."""
        return (self.sources if self.cost is None else float(self.cost.sum())) / self.budget

    def rng(self, purpose: int = 0) -> np.random.Generator:
        """Random numbers of this seed, a stream for each purpose."""
        return np.random.default_rng([self.seed, purpose])

    def look(self, source: ArrayLike, since: ArrayLike, at: ArrayLike) -> tuple[Flags, Floats]:
        """What visits see: has the source changed since then, and how old is it?

        The age is not-a-number where the source does not tell, or was never updated.
        """
        from observant.simulation import kernels

        which = np.ascontiguousarray(source, np.int64)
        since_ = np.broadcast_to(np.asarray(since, float), which.shape)
        at_ = np.broadcast_to(np.asarray(at, float), which.shape)
        changed, age = kernels.look(
            self.times, self.offsets, which, np.ascontiguousarray(since_), np.ascontiguousarray(at_)
        )
        return changed, np.where(self.dated[which], age, np.nan)

    def fails(self, source: ArrayLike, number: ArrayLike) -> Flags:
        """Whether the visit `number` (from 0) to each of some sources fails."""
        from observant.simulation import kernels

        which = np.ascontiguousarray(source, np.int64)
        if not self.failure:
            return np.zeros(which.shape, bool)
        counted = np.ascontiguousarray(number, np.int64)
        failed: Flags = kernels.failures(which, counted, self.seed, self.failure)
        return failed

    @cached_property
    def rates(self) -> Floats:
        """Updates a day of each source between start and end: what only a clairvoyant knows."""
        from observant.processes import Updates

        updates = Updates(self.times, self.offsets)
        count = updates.count_until(self.end) - updates.count_until(self.start)
        return np.asarray(count / (self.end - self.start))


@dataclass(frozen=True, eq=False)
class WorldVisits:
    """Visits grouped by source, in order of time within each."""

    offsets: Integers
    time: Floats
    failed: Flags | None = None
    reads: Floats | None = None
    """When lists of signals were read, each instead of a visit."""

    @classmethod
    def of(cls, given: Any, world: World) -> WorldVisits:
        """Take visits in any form: grouped, or flat with the columns `source` and `time`."""
        if isinstance(given, WorldVisits):
            return given.with_failures(world)
        source, time = (
            given if isinstance(given, tuple) else (given.source, given.time)
        )  # fmt: skip
        failed = None if isinstance(given, tuple) else getattr(given, "failed", None)
        made = cls.from_flat(source, time, failed, sources=world.sources)
        return replace(made, reads=getattr(given, "reads", None)).with_failures(world)

    @classmethod
    def from_flat(
        cls,
        source: ArrayLike,
        time: ArrayLike,
        failed: ArrayLike | None = None,
        *,
        sources: int,
    ) -> WorldVisits:
        """Group visits that were listed in the order of time, or in any order.

        >>> visits = WorldVisits.from_flat([1, 0, 1], [2.0, 3.0, 1.0], sources=2)
        >>> visits.offsets, visits.time
        (array([0, 1, 3]), array([3., 1., 2.]))
        """
        from observant.simulation import kernels

        which = np.ascontiguousarray(source, np.int64)
        at = np.ascontiguousarray(time, np.float64)
        if which.shape != at.shape or which.ndim != 1:
            raise InputError("give one source and one time for each visit")
        if which.size and not (which.min() >= 0 and which.max() < sources):
            raise InputError(f"the sources of visits are numbers from 0 to {sources - 1}")
        if not np.isfinite(at).all():
            raise InputError("the time of a visit must be a finite number of days")
        if (np.diff(at) < 0).any():
            order = np.argsort(at, kind="stable")
            which, at = which[order], at[order]
            failed = None if failed is None else np.asarray(failed, bool)[order]
        offsets, grouped, place = kernels.group(which, at, sources)
        return cls(offsets, grouped, None if failed is None else np.asarray(failed, bool)[place])

    def __len__(self) -> int:
        return len(self.time)

    @property
    def source(self) -> Integers:
        """The source of each visit, as a column beside `time`."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def with_failures(self, world: World) -> WorldVisits:
        """The same visits, with those marked that fail in this world."""
        if self.failed is not None or not world.failure:
            return self
        source = self.source
        number = np.arange(len(self.time)) - self.offsets[source]
        return replace(self, failed=world.fails(source, number))
