"""A trace from visits: what a collection's own history says of its updates.

A policy can then be tried on it without asking anybody. A change that came with a date of
modification is an update at that date; one without is put into the middle of the gap in which it
was found. Of two updates between visits only one was seen, so every copy looks fresher than it was.
With rates, the hidden updates are drawn: what the sources may really have done, in accord with
every visit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError
from observant.processes.updates import generator
from observant.simulation.traces.trace import Trace
from observant.times import MICROSECONDS_PER_DAY

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Floats, Integers
    from observant.processes.updates import Seed
    from observant.visits import VisitLog


def trace_of_visits(log: VisitLog, *, rates: ArrayLike | None = None, seed: Seed = None) -> Trace:
    """The updates that visits have found; it begins with the first visit and ends with the last.

    With `rates`, the updates a day of each source of the log, hidden ones are drawn too, as a
    Poisson source would have made them: at least one in a gap that ended with a change, none in
    one that did not.

    >>> from observant import VisitLog
    >>> log = VisitLog.from_columns(
    ...     ["a"] * 4, [10.0, 12.0, 14.0, 18.0], [None, True, False, True], time_unit="d"
    ... )
    >>> trace_of_visits(log).updates[0]
    array([11., 16.])
    >>> trace_of_visits(log, rates=[1.0], seed=1).updates[0].round(1)
    array([10.6, 16.7, 17.2, 17.8])
    """
    rows = np.flatnonzero(log.succeeded)
    if not len(rows):
        raise InputError("there are no visits that succeeded")
    owner = np.searchsorted(log.offsets, rows, side="right") - 1
    time = log.time[rows] / MICROSECONDS_PER_DAY
    before = np.concatenate([[np.nan], time[:-1]])
    before[np.concatenate([[True], owner[1:] != owner[:-1]])] = np.nan
    dated = np.full(len(rows), np.nan)
    if log.last_modified is not None:
        claimed = log.last_modified[rows] / MICROSECONDS_PER_DAY
        dated = np.where((claimed > before) & (claimed <= time), claimed, np.nan)
    found = (log.changed[rows] == 1) & np.isfinite(before)
    of, since, at, date = owner[found], before[found], time[found], dated[found]
    if rates is None:
        when = np.where(np.isnan(date), 0.5 * (since + at), date)
    else:
        each = _checked(rates, len(log.sources))[of]
        which, when = _drawn(each, since, at, date, generator(seed))
        of = of[which]
    names = np.array(log.sources.to_pylist(), object)
    return Trace.from_columns(
        np.concatenate([names, names[of]]),
        np.concatenate([np.full(len(names), np.nan), when]),
        start=float(time.min()),
        end=float(time.max()),
    )


def _drawn(
    rate: Floats, since: Floats, at: Floats, date: Floats, rng: Any
) -> tuple[Integers, Floats]:
    """Updates of gaps that ended with a change: which gap, and when.

    A gap has a sure update: its date, or the first one, exponential and known to lie in the gap.
    The others are Poisson before the date, or after the first.
    """
    gap = at - since
    first = since - np.log1p(rng.random(len(gap)) * np.expm1(-rate * gap)) / rate
    known = np.isfinite(date)
    sure = np.where(known, date, np.minimum(first, at))
    low, high = np.where(known, since, sure), np.where(known, date, at)
    more = rng.poisson(rate * (high - low))
    which = np.repeat(np.arange(len(gap)), more)
    others = low[which] + rng.random(len(which)) * (high - low)[which]
    return np.concatenate([np.arange(len(gap)), which]), np.concatenate([sure, others])


def _checked(rates: ArrayLike, sources: int) -> Floats:
    each = np.asarray(rates, float)
    if each.shape != (sources,):
        raise InputError(f"{each.size} rates for {sources} sources: give one for each")
    # A source without a rate has no change either; any number will do for it.
    return np.where(np.isfinite(each) & (each > 0.0), each, 1.0)
