"""Our policy: everything that is learned, put to use at once.

`AdaptivePolicy` is the scheduler of `observant.planning.schedule` as the observer runs it, set up
to learn all it needs while it visits: the distribution of rates (of the collection, and of groups
that are large enough), each source's posterior, how long rates last, how far the age at a first
visit can be believed, and which sources change together. Nothing has to be known beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.planning.schedule import Scheduler

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["AdaptivePolicy", "Replayed"]


@dataclass(frozen=True, eq=False)
class Replayed:
    """The visits of a replay, in order."""

    source: NDArray[np.int64]
    time: NDArray[np.float64]
    failed: NDArray[np.bool_]


@dataclass(frozen=True)
class AdaptivePolicy:
    """Visit what is worth most now, by a posterior that is learned on the way.

    Each ingredient can be left out, to see what it adds: `siblings` (sources of a group share a
    clock), `ages` (of dated first visits), and forgetting (`drift`: days that a rate lasts on
    average; infinite never forgets).
    """

    siblings: bool = True
    ages: bool = True
    drift: float = 1_000.0
    jitter: float = 0.0
    max_period: float = np.inf
    name: str = "observant"

    def scheduler(self, budget: float, **options: Any) -> Scheduler:
        """The scheduler of this policy, without sources."""
        return Scheduler(
            budget,
            prior="learn",
            drift=self.drift,
            explore=0.0,
            jitter=self.jitter,
            max_period=self.max_period,
            **options,
        )

    def replay(self, world: Any) -> Replayed:
        """Visit a recorded world (`observant.simulation.World`), one source a slot."""
        from observant.planning.schedule import driving

        scheduler = self.scheduler(
            world.budget,
            objective=world.objective,
            grace=world.grace if world.objective == "currency" else 0.0,
            burst=1.0,
            seed=world.seed,
            start=world.start,
        )
        n = world.sources
        # Those that are equal go in the order in which they were added, so that is drawn.
        order = world.rng(1).permutation(n)
        seen = None
        if world.known:
            _, age = world.look(order, np.full(n, -np.inf), np.full(n, world.start))
            seen = np.where(np.isnan(age) | (not self.ages), -1.0, age)
        groups = None
        if self.siblings:
            labels = world.groups or ("",)
            groups = [labels[g] for g in world.group[order]]
        scheduler.add(
            range(n),
            importance=world.importance[order],
            last=world.start if world.known else None,
            group=groups,
            age=seen,
        )
        lengths = np.diff(world.offsets)[order]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.arange(offsets[-1]) + np.repeat(world.offsets[order] - offsets[:-1], lengths)
        times = world.times[rows]
        before = np.concatenate([[0], np.cumsum(times <= world.start)])
        known_by_start = before[offsets[1:]] - before[offsets[:-1]]
        pointer = offsets[:-1] + (known_by_start if world.known else 0)
        who, when, failed = scheduler.drive(
            driving.drive,
            world.slots,
            (times, offsets, pointer, world.dated[order]),
            (world.start, world.budget, world.failure),
        )
        return Replayed(order[who], when, failed)
