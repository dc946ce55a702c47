"""What the visits to each source revealed, in the form the interval estimators take.

A visit is a time in days, whether it found a change, and the age of the source where its date of
modification is known. Failed visits observe nothing and are left out. A visit whose outcome
cannot be known begins a new segment: nothing is said about the time before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.estimation.evidence import RESOLUTION
from observant.times import MICROSECONDS_PER_DAY
from observant.visits.columns import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from observant.arrays import Flags, Floats, Integers
    from observant.visits import VisitLog


@dataclass(frozen=True, eq=False)
class Observations:
    """Successful visits, source after source; of source ``i`` rows ``offsets[i]:offsets[i + 1]``.

    >>> from observant import VisitLog
    >>> log = VisitLog.from_columns(
    ...     ["a"] * 4, [0, 1, 2, 4], [None, True, None, False], time_unit="d"
    ... )
    >>> seen = Observations.from_log(log)
    >>> print(seen.times, seen.changed, [len(times) for times, *_ in seen.segments(0)])
    [0. 1. 2. 4.] [-1  1 -1  0] [2, 2]
    """

    offsets: Integers
    times: Floats
    """Days since the first visit to the source."""
    changed: NDArray[np.int8]
    """1 changed, 0 not, -1 where a segment begins: there is nothing to compare with."""
    ages: Floats
    """Days since the last update; NaN where no date is known."""
    conflicts: int = 0
    """Dates that contradict what the visit found; they were set aside."""
    failed: int = 0
    """Visits that did not see the source."""

    @classmethod
    def from_log(cls, log: VisitLog) -> Observations:
        """Take the successful visits of a log, and the dates that agree with what they found."""
        kept = log.succeeded
        owner = np.repeat(np.arange(len(log.sources)), log.visits_per_source)[kept]
        counts = np.bincount(owner, minlength=len(log.sources))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        time, changed = log.time[kept], log.changed[kept].copy()
        first = np.zeros(len(time), bool)
        first[offsets[:-1][counts > 0]] = True
        changed[first] = -1
        since = np.concatenate([[0], time[:-1]])
        ages = np.full(len(time), np.nan)
        conflicts = 0
        if log.last_modified is not None:
            dates = log.last_modified[kept]
            dated = (dates != MISSING) & (dates <= time)
            wrong = dated & (changed >= 0) & ((dates > since) != (changed == 1))
            conflicts = int(np.count_nonzero(wrong))
            dated &= ~wrong
            known = (time[dated] - dates[dated]) / MICROSECONDS_PER_DAY
            gap = np.where(first, np.inf, (time - since) / MICROSECONDS_PER_DAY)[dated]
            # A date is told to the second: no age is known to be less than half of one.
            ages[dated] = np.maximum(known, np.minimum(RESOLUTION, gap / 2))
        origin = np.repeat(time[offsets[:-1][counts > 0]], counts[counts > 0])
        return cls(
            offsets=offsets,
            times=(time - origin) / MICROSECONDS_PER_DAY,
            changed=changed,
            ages=ages,
            conflicts=conflicts,
            failed=int(np.count_nonzero(~kept)),
        )

    def segments(self, source: int) -> Iterator[tuple[Floats, Flags, Floats]]:
        """Times, outcomes and ages of one source, cut where an outcome is not known.

        The first outcome of a segment means nothing.
        """
        rows = slice(int(self.offsets[source]), int(self.offsets[source + 1]))
        times, changed, ages = self.times[rows], self.changed[rows], self.ages[rows]
        starts = np.flatnonzero(changed < 0)
        for start, stop in zip(starts, [*starts[1:], len(times)], strict=True):
            part = slice(int(start), int(stop))
            yield times[part], changed[part] == 1, ages[part]


def find_source(log: VisitLog, source: str) -> int:
    """Position of a source in the log; where it is not there, the error names those near it."""
    import difflib

    import pyarrow.compute as pc

    at = pc.index(log.sources, source).as_py()
    if at >= 0:
        return int(at)
    names = log.sources[:100_000].to_pylist()
    near = difflib.get_close_matches(source, names, n=3, cutoff=0.5)
    near = near or [name for name in names if source.lower() in name.lower()][:3]
    if near:
        hint = f"did you mean {' or '.join(repr(name) for name in near)}?"
    else:
        some = ", ".join(repr(name) for name in names[:3])
        hint = f"it has {some}{', …' if len(log.sources) > 3 else ''}"
    raise InputError(f"not in this log; {hint}", source=source)
