"""Update points: when each source was updated, as far as its visits tell. Singh 1.1 and 1.2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from observant.errors import InputError
from observant.names import PLACES
from observant.processes.updates import Updates, generator, offsets_of
from observant.times import LATEST, MICROSECONDS_PER_DAY
from observant.units import counted
from observant.visits import VisitLog
from observant.visits.columns import MISSING

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import ArrayLike

    from observant.arrays import Flags, Floats, Integers
    from observant.processes.updates import Seed

    History: TypeAlias = "VisitLog | Updates | UpdatePoints | ArrayLike"


@dataclass(frozen=True, eq=False, repr=False)
class UpdatePoints:
    """Update points of many sources: source i owns ``times[offsets[i]:offsets[i + 1]]``.

    Times are days, strictly increasing within a source and later than its `start`, Singh's t(0).
    With a calendar they are days since 1970 UTC.
    """

    times: Floats
    offsets: Integers
    start: Floats
    """When watching each source began; an update may have happened then, and is not counted."""
    until: Floats
    """When watching each source ended."""
    ids: pa.Array | None = None
    """The sources; numbered from 0 where they have no names."""
    calendar: bool = False
    """Whether times are days since 1970, or only days since some beginning."""
    bounded: bool = False
    """Whether start and end of watching are known, not guessed from the first and last update."""
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Number of sources."""
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"<UpdatePoints: {len(self.times):,} points of {counted(len(self), 'source')}>"

    @property
    def counts(self) -> Integers:
        """Points of each source."""
        return np.diff(self.offsets)

    @property
    def gaps(self) -> Floats:
        """Days from each point to the one before; of the first one, to the start."""
        before = np.empty_like(self.times)
        before[1:] = self.times[:-1]
        filled = self.counts > 0
        before[self.offsets[:-1][filled]] = self.start[filled]
        return self.times - before

    def names(self, which: ArrayLike) -> pa.Array:
        """Ids of the sources with these numbers."""
        import pyarrow as pa

        numbers = pa.array(np.asarray(which, np.int64))
        return numbers.cast(pa.string()) if self.ids is None else self.ids.take(numbers)


def update_points(
    data: History,
    *,
    place: str = "middle",
    start: ArrayLike | None = None,
    until: ArrayLike | None = None,
    seed: Seed = 0,
) -> UpdatePoints:
    """Update points from a visit log, or from update times.

    Of a visit that found a change, the point is the date of modification where it is known and
    falls into the gap before the visit; else the ``middle`` of that gap (Singh's choice), its
    ``end``, or a ``random`` place in it. Updates beyond one in a gap stay unseen, as in the paper.
    Watching starts with the first successful visit.

    Of update times (`Updates`, or the sorted times of one source), the first update is taken as
    the `start`, because what came before it is unknown; say `start`, in the same days, if it is
    known. It is the origin of the power law, so it matters.

    >>> log = VisitLog.from_columns(
    ...     ["page"] * 4, [0, 2, 3, 7], [None, True, False, True], time_unit="d"
    ... )
    >>> update_points(log).times, update_points(log, place="end").times
    (array([1., 5.]), array([2., 7.]))
    >>> update_points([1.0, 4.0, 6.0]).times, update_points([1.0, 4.0, 6.0], start=0.0).times
    (array([4., 6.]), array([1., 4., 6.]))
    """
    if place not in PLACES:
        raise InputError(f"place is one of {', '.join(PLACES)}, not {place!r}")
    if isinstance(data, UpdatePoints):
        return data
    if isinstance(data, VisitLog):
        if start is not None or until is not None:
            raise InputError("a visit log says itself when watching started and ended")
        return _from_log(data, place, seed)
    updates = data if isinstance(data, Updates) else _one_source(data)
    return from_updates(updates, start=start, until=until)


def from_updates(
    updates: Updates,
    *,
    start: ArrayLike | None = None,
    until: ArrayLike | None = None,
    ids: Any = None,
    calendar: bool = False,
    notes: tuple[str, ...] = (),
) -> UpdatePoints:
    """Update points from known update times; see `update_points`."""
    times, counts, owner = updates.times, updates.counts, updates.sources
    first = np.zeros(len(updates))
    last = np.zeros(len(updates))
    first[counts > 0] = times[updates.offsets[:-1][counts > 0]]
    last[counts > 0] = times[updates.offsets[1:][counts > 0] - 1]
    begin = first if start is None else np.broadcast_to(np.asarray(start, float), first.shape)
    early = (counts > 0) & (begin > first)
    if early.any():
        raise InputError(f"source {int(np.argmax(early))} was updated before the start given")
    end = last if until is None else np.broadcast_to(np.asarray(until, float), last.shape)
    if (end < last).any():
        raise InputError(
            f"source {int(np.argmax(end < last))} was updated after watching is said to have ended"
        )
    kept = times > begin[owner]
    kept[1:] &= (times[1:] > times[:-1]) | (owner[1:] != owner[:-1])
    dropped = times.size - int(kept.sum()) - (int((counts > 0).sum()) if start is None else 0)
    if dropped > 0:
        told = f"{counted(dropped, 'update')} at the time of another one of the same source"
        notes = (*notes, f"set aside: {told}")
    return UpdatePoints(
        times=times[kept],
        offsets=offsets_of(np.bincount(owner[kept], minlength=len(updates))),
        start=np.array(begin),
        until=np.array(end),
        ids=ids,
        calendar=calendar,
        bounded=start is not None and until is not None,
        notes=notes,
    )


@dataclass(frozen=True, eq=False)
class VisitGaps:
    """Comparisons of successive successful visits with their times, in days since 1970."""

    owner: Integers
    begin: Floats
    end: Floats
    changed: Flags
    date: Floats
    """Of the last update, where the gap saw a change and it is known; else NaN."""
    dated: Flags
    """Whether a change in the gap has, or would have had, a date."""

    @classmethod
    def of(cls, log: VisitLog) -> VisitGaps:
        """Walk through the log as `Evidence.from_log` does, and keep the times."""
        rows = np.flatnonzero(log.succeeded)
        owner = np.searchsorted(log.offsets, rows, side="right") - 1
        time, changed = log.time[rows], log.changed[rows]
        used = np.zeros(len(rows), bool)
        used[1:] = (owner[1:] == owner[:-1]) & (changed[1:] >= 0)
        at = np.flatnonzero(used)
        since, now, seen = time[at - 1], time[at], changed[at] == 1
        date = np.full(len(at), np.nan)
        dated = np.zeros(len(at), bool)
        if log.last_modified is not None:
            told = log.last_modified[rows][at]
            # A date that contradicts what was seen is set aside.
            dated = (told != MISSING) & ((told > since) == seen)
            date[dated & seen] = told[dated & seen] / MICROSECONDS_PER_DAY
        return cls(
            owner=owner[at],
            begin=since / MICROSECONDS_PER_DAY,
            end=now / MICROSECONDS_PER_DAY,
            changed=seen,
            date=date,
            dated=dated,
        )


def _from_log(log: VisitLog, place: str, seed: Seed) -> UpdatePoints:
    gaps = VisitGaps.of(log)
    share: Any = {"middle": 0.5, "end": 1.0}.get(place)
    if share is None:
        # 1 − U is never zero: the visit that saw no change yet keeps its moment.
        share = 1.0 - generator(seed).random(len(gaps.begin))
    guess = gaps.begin + share * (gaps.end - gaps.begin)
    times = np.where(np.isnan(gaps.date), guess, gaps.date)[gaps.changed]
    counts = np.bincount(gaps.owner[gaps.changed], minlength=len(log.sources))
    good = log.succeeded
    moment = log.time / MICROSECONDS_PER_DAY
    starts = log.offsets[:-1]
    undated = int(np.count_nonzero(gaps.changed & np.isnan(gaps.date)))
    notes = list(log.notes)
    if undated:
        at = {"middle": "the middle", "end": "the end", "random": "a random place"}[place]
        notes.append(f"{counted(undated, 'change')} without a date: put at {at} of the visit gap")
    if undated > 0.5 * len(gaps.begin):
        notes.append(
            "more than half of the visits found a change: several updates hide in one gap, so "
            "rates from update points are too low"
        )
    return UpdatePoints(
        times=times,
        offsets=offsets_of(counts),
        start=np.minimum.reduceat(np.where(good, moment, np.inf), starts),
        until=np.maximum.reduceat(np.where(good, moment, -np.inf), starts),
        ids=log.sources,
        calendar=True,
        bounded=True,
        notes=tuple(notes),
    )


def _one_source(data: Any) -> Updates:
    try:
        times = np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"a {type(data).__name__} is neither a VisitLog nor update times; give a VisitLog, "
            "Updates, or the sorted update times of one source in days"
        ) from None
    if times.ndim != 1:
        raise InputError("the update times of one source are a flat list; use Updates for many")
    return Updates.from_lists([times])


def instants(days: Floats, calendar: bool) -> Any:
    """Days since 1970 as Arrow timestamps, none beyond 2200; without a calendar, as they are."""
    if not calendar:
        return days
    import pyarrow as pa

    known = np.isfinite(days) & (days < LATEST)
    micros = np.where(known, days, 0.0) * MICROSECONDS_PER_DAY
    return pa.array(np.round(micros).astype(np.int64), mask=~known).cast(pa.timestamp("us", "UTC"))
