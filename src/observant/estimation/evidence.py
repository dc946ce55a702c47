"""What the visits to each source say about its rate: one gap and one outcome per comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.times import MICROSECONDS_PER_DAY, SECOND
from observant.visits.columns import MISSING, numbers_in
from observant.visits.log import succeeded

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from observant.arrays import Flags, Floats, Integers
    from observant.visits import VisitLog

__all__ = ["CHANGED", "DATED", "Evidence", "successful_visits"]

CHANGED, DATED = 1, 2
"""Bits of `Evidence.kind`: the source had changed; its date of modification was known."""

RESOLUTION = 0.5 * SECOND
"""Dates of modification are told to the second, so no age is known to be less than half of one."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Comparisons of consecutive successful visits, source after source.

    The comparisons of source ``i`` are ``offsets[i]:offsets[i + 1]``. A visit that failed observes
    nothing, and the gap runs on to the next one. A visit whose outcome cannot be known ends a gap
    that says nothing, and begins the next.
    """

    offsets: Integers
    gaps: Floats
    """Days since the last successful visit; infinite for the age at a dated first visit."""
    kind: NDArray[np.int8]
    """Sum of `CHANGED` and `DATED`. Not changed but dated: a change would have been dated."""
    ages: Floats
    """Days from the last update to the visit, where the source had changed and was dated."""
    weight: Floats | None = None
    """How often each comparison counts; once where not given."""
    conflicts: int = 0
    """Changes dated before the visit that did not see them yet; their dates were set aside."""
    announced: Floats | None = None
    """What signals say of each comparison, as in `VisitLog.announced`."""

    @classmethod
    def from_gaps(
        cls,
        gaps: ArrayLike,
        changed: ArrayLike,
        ages: ArrayLike | None = None,
        offsets: ArrayLike | None = None,
    ) -> Evidence:
        """Build evidence from gaps in days and outcomes; `ages` are NaN where not dated.

        Two-dimensional arrays are one source a row; flat ones one source, or many by `offsets`.

        >>> Evidence.from_gaps([6 / 24, 4 / 24], [True, False]).kind.tolist()
        [1, 0]
        """
        t = np.asarray(gaps, np.float64)
        x = np.asarray(changed, bool)
        x = np.broadcast_to(x, t.shape) if x.shape != t.shape else x
        if (t <= 0).any() or np.isnan(t).any():
            raise InputError("gaps between visits must be positive numbers of days")
        if offsets is None:
            rows, width = (1, t.size) if t.ndim == 1 else t.shape
            offsets = np.arange(rows + 1) * width
        age = np.zeros(t.shape) if ages is None else np.asarray(ages, np.float64)
        dated = np.zeros(t.shape, bool) if ages is None else ~np.isnan(age)
        kind = x * np.int8(CHANGED) + dated * np.int8(DATED)
        return cls(
            offsets=np.asarray(offsets, np.int64),
            gaps=t.ravel(),
            kind=kind.astype(np.int8).ravel(),
            ages=np.where(x & dated, np.maximum(age, np.minimum(RESOLUTION, t / 2)), 0.0).ravel(),
        )

    @classmethod
    def from_log(
        cls,
        log: VisitLog,
        first: int = 0,
        last: int | None = None,
        *,
        use_first_age: bool = False,
        use_dates: bool = True,
    ) -> Evidence:
        """Evidence in the log about the sources ``first:last``.

        With `use_first_age`, the age at a dated first visit counts too. That is right for sources
        much older than the time between their updates.
        """
        last = len(log.sources) if last is None else last
        rows, owner, is_first = successful_visits(log, first, last)
        time, changed = log.time[rows], log.changed[rows]
        since = np.empty(len(rows), np.int64)
        since[1:] = time[:-1]
        dates = log.last_modified[rows] if use_dates and log.last_modified is not None else None

        gaps = (time - np.where(is_first, time, since)) / MICROSECONDS_PER_DAY
        kind = np.where(changed == 1, np.int8(CHANGED), np.int8(0))
        ages = np.zeros(len(rows))
        used, conflicts = ~is_first & (changed >= 0), 0
        if dates is not None:
            dated = dates != MISSING
            after = dated & ~is_first & (dates > since)
            conflict = used & dated & (after != (changed == 1))
            conflicts = int(np.count_nonzero(conflict & (changed == 1)))
            kind[dated & ~conflict] |= DATED
            known = (time[dated] - dates[dated]) / MICROSECONDS_PER_DAY
            ages[dated] = np.maximum(known, np.minimum(RESOLUTION, gaps[dated] / 2))
            ages[kind != CHANGED | DATED] = 0.0
            if use_first_age:
                first_age = is_first & dated
                used |= first_age
                gaps[first_age] = np.inf
                kind[first_age] = CHANGED | DATED
                ages[first_age] = np.maximum(
                    (time[first_age] - dates[first_age]) / MICROSECONDS_PER_DAY, RESOLUTION
                )
        counts = np.bincount(owner[used], minlength=last - first)
        return cls(
            offsets=np.concatenate([[0], np.cumsum(counts)]),
            gaps=gaps[used],
            kind=kind[used],
            ages=ages[used],
            conflicts=conflicts,
            announced=None if log.announced is None else log.announced[rows][used],
        )

    @property
    def counts(self) -> Integers:
        """Comparisons of each source."""
        return np.diff(self.offsets)

    def sums(self, values: Floats) -> Floats:
        """Add up one value per comparison within each source."""
        if self.weight is not None:
            values = values * self.weight
        filled = self.counts > 0
        totals = np.zeros(len(filled))
        if len(values):
            totals[filled] = np.add.reduceat(values, self.offsets[:-1][filled])
        return totals

    def select(self, sources: Flags) -> Evidence:
        """Return the evidence about some of the sources."""
        found = self.only(np.repeat(sources, self.counts))
        return replace(found, offsets=np.append(0, np.cumsum(self.counts[sources])))

    def only(self, rows: Flags) -> Evidence:
        """Return some of the comparisons of every source."""
        return Evidence(
            offsets=np.append(0, np.cumsum(rows))[self.offsets],
            gaps=self.gaps[rows],
            kind=self.kind[rows],
            ages=self.ages[rows],
            weight=None if self.weight is None else self.weight[rows],
            announced=None if self.announced is None else self.announced[rows],
        )


def successful_visits(log: VisitLog, first: int, last: int) -> tuple[Integers, Integers, Flags]:
    """Visits to the sources ``first:last`` that did not fail.

    Returns their rows in the log, the source of each, counted from `first`, and whether it is the
    first one of its source.
    """
    start, stop = int(log.offsets[first]), int(log.offsets[last])
    rows = np.arange(start, stop)
    status = log.extras.get("status")
    if status is not None:
        told = numbers_in(status.slice(start, stop - start), 200)
        rows = rows[succeeded(told, log.changed[start:stop])]
    owner = np.searchsorted(log.offsets[first : last + 1], rows, side="right") - 1
    is_first = np.ones(len(rows), bool)
    is_first[1:] = owner[1:] != owner[:-1]
    return rows, owner, is_first
