"""What the visits were worth: the truth, accounted for source by source.

The copy of a source is fresh as long as the source had no update since the visit that made it, and
β-current as long as every update it misses is younger than β (Brewington 2.36, errata B-7).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from observant.arrays import Floats, Integers
    from observant.simulation.world import World, WorldVisits


@dataclass(frozen=True, eq=False, repr=False)
class Score(Table):
    """What became of each source from `score_from` to the end, in days and counts.

    A *weighted mean* below is weighted with the importance of the sources.
    """

    columns: ClassVar[tuple[str, ...]] = (
        "source",
        "importance",
        "updates",
        "visits",
        "compared",
        "found",
        "updates_seen",
        "freshness",
        "mean_age_days",
        "delay_days",
        "longest_wait_days",
    )

    source: Integers
    """Number of the source, in the order of the trace."""
    group: Integers
    importance: Floats
    updates: Integers
    """Updates that really happened."""
    visits: Integers
    """All of them, those that failed too."""
    compared: Integers
    """Visits that succeeded and had something to compare with."""
    found: Integers
    """Visits that found a change."""
    detected: Integers
    """Those whose change was an update of the time that counts, not only one before it."""
    updates_seen: Integers
    """Updates that some visit came after, before the end."""
    fresh_days: Floats
    current_days: Floats
    """One column for each of `graces`."""
    age_days: Floats
    """Integral of the copy's age: the time since the oldest update it misses, 0 when fresh."""
    delay_days: Floats
    """Sum over the updates of the time until they were seen, or until the end."""
    longest_wait_days: Floats
    """Longest time between two visits, counted from the start and to the end."""
    curve: Floats
    """Fresh time, visits, changes found, updates, and the changes once more by when they happened:
    in equal slices from start to end, weighted."""
    graces: tuple[float, ...]
    start: float
    score_from: float
    end: float
    reads: int = 0
    """Of lists of signals, each instead of a visit."""

    @property
    def span(self) -> float:
        """Days that count."""
        return self.end - self.score_from

    @property
    def freshness(self) -> Floats:
        """Share of time the copy of each source was fresh."""
        return self.fresh_days / self.span

    @property
    def mean_age_days(self) -> Floats:
        """Mean age of the copy of each source."""
        return self.age_days / self.span

    @property
    def currency(self) -> Floats:
        """Share of time the copy was β-current, a column for each grace."""
        return self.current_days / self.span

    def summary(self) -> dict[str, Any]:
        """The collection in a few numbers; shares of nothing are not-a-number."""
        return {**self._summary(np.ones(len(self.source), bool)), "reads": self.reads}

    def by_group(self) -> list[dict[str, Any]]:
        """The same numbers for each group, by its number."""
        return [{"group": int(g), **self._summary(self.group == g)} for g in np.unique(self.group)]

    def _summary(self, some: Any) -> dict[str, Any]:
        weight = self.importance[some]
        total = float(weight.sum())

        def mean(values: Floats) -> float:
            return _share(float(weight @ values[some]), total)

        updates = float(weight @ self.updates[some])
        visits, compared = int(self.visits[some].sum()), int(self.compared[some].sum())
        found, detected = self.found[some], self.detected[some]
        return {
            "sources": int(np.count_nonzero(some)),
            "freshness": mean(self.freshness),
            "currency": {grace: mean(self.currency[:, b]) for b, grace in enumerate(self.graces)},
            "mean_age_days": mean(self.mean_age_days),
            "updates": int(self.updates[some].sum()),
            "detected": int(detected.sum()),
            "detected_share": _share(float(weight @ detected), updates),
            "seen_share": _share(float(weight @ self.updates_seen[some]), updates),
            "mean_delay_days": _share(float(weight @ self.delay_days[some]), updates),
            "visits": visits,
            "premature": compared - int(found.sum()),
            "precision": _share(int(found.sum()), compared),
            "starved": int(np.count_nonzero(self.visits[some] == 0)),
            "longest_wait_days": float(self.longest_wait_days[some].max(initial=0.0)),
        }

    def learning_curve(self) -> list[dict[str, float]]:
        """Freshness, share detected and visits a day in each slice of time, from the start."""
        slices = self.curve.shape[1]
        width = (self.end - self.start) / slices
        total = float(self.importance.sum())
        fresh, visits, found, updates, detected = self.curve
        return [
            {
                "day": (k + 0.5) * width,
                "freshness": _share(float(fresh[k]), total * width),
                "detected_share": _share(float(detected[k]), float(updates[k])),
                "precision": _share(float(found[k]), float(visits[k])),
            }
            for k in range(slices)
        ]


def account(
    visits: WorldVisits,
    world: World,
    *,
    score_from: float | None = None,
    graces: Sequence[float] = (),
    latency: float = 0.0,
    slices: int = 24,
) -> Score:
    """Account for the truth behind some visits, from `score_from` (the start, unless told) on.

    With a `latency`, a visit sees the source as it was when the visit began, and its copy is in
    place that many days later.

    >>> from observant.simulation import WorldVisits, World
    >>> world = World(
    ...     times=np.array([1.0, 6.0]),
    ...     offsets=np.array([0, 2]),
    ...     group=np.zeros(1, int),
    ...     importance=np.ones(1),
    ...     dated=np.zeros(1, bool),
    ...     budget=0.2,
    ...     start=0.0,
    ...     end=10.0,
    ... )
    >>> score = account(WorldVisits(np.array([0, 2]), np.array([2.0, 8.0])), world, graces=[1.5])
    >>> score.freshness, score.currency, score.delay_days  # stale from 1 to 2 and from 6 to 8
    (array([0.7]), array([[0.95]]), array([3.]))
    """
    from observant.simulation import kernels

    begin = world.start if score_from is None else score_from
    failed = np.empty(0, bool) if visits.failed is None else visits.failed
    fresh, current, age, delay, longest, updates, seen, paid, compared, found, detected, curve = (
        kernels.account(
            world.times,
            world.offsets,
            visits.offsets,
            visits.time,
            failed,
            world.importance,
            world.start,
            begin,
            world.end,
            latency,
            world.known,
            np.asarray(graces, float),
            slices,
        )
    )
    return Score(
        source=np.arange(world.sources),
        group=world.group,
        importance=world.importance,
        updates=updates,
        visits=paid,
        compared=compared,
        found=found,
        detected=detected,
        updates_seen=seen,
        fresh_days=fresh,
        current_days=current,
        age_days=age,
        delay_days=delay,
        longest_wait_days=longest,
        curve=curve,
        graces=tuple(float(g) for g in graces),
        start=world.start,
        score_from=begin,
        end=world.end,
        reads=0 if visits.reads is None else int(np.count_nonzero(visits.reads > begin)),
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else float("nan")
