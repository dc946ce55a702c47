"""At what rate was this page updated last January? The rate over any stretch of the calendar."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.errors import InputError
from observant.estimation.evidence import CHANGED, DATED, RESOLUTION, Evidence
from observant.estimation.firth import Totals, bias_reduced_rates
from observant.estimation.rates import EVIDENCE, evidence_codes, solve
from observant.estimation.windows.points import VisitGaps, instants, update_points
from observant.tables import Table
from observant.times import DAY, utc
from observant.units import counted
from observant.visits import VisitLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from numpy.typing import ArrayLike, NDArray

    from observant.arrays import Floats, Integers
    from observant.estimation.windows.points import History


_EPOCH = date(1970, 1, 1)
_PART = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_EVERY_YEAR = re.compile(r"\*-(\d{1,2})")
_EXAMPLES = "write for example 2026, 2026-01, 2026-01-15, 2026-01..2026-03, or *-01 for every year"


@dataclass(frozen=True)
class CalendarWindow:
    """A stretch of the calendar, from the beginning of `start` to the beginning of `end`."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, eq=False, repr=False)
class CalendarRates(Table):
    """A row a source and stretch of the calendar."""

    figure: ClassVar[str] = "observant.figures.trend:calendar_figure"

    columns: ClassVar[tuple[str, ...]] = (
        "source",
        "window",
        "start",
        "end",
        "observed_days",
        "comparisons",
        "changes",
        "rate_per_day",
        "rate_low",
        "rate_high",
        "evidence",
    )

    source: pa.Array
    window: NDArray[np.str_]
    """Name of the stretch."""
    bounds: tuple[Floats, Floats]
    observed_days: Floats
    """How much of the stretch lies between visits that could be compared."""
    comparisons: Integers
    """Visit gaps that reach into the stretch; for update times, the updates in it."""
    changes: Floats
    """Changes seen; of an undated change in a gap that straddles an edge, the share inside."""
    rate_per_day: Floats
    rate_low: Floats
    rate_high: Floats
    evidence_code: NDArray[np.int8]
    confidence: float
    notes: tuple[str, ...] = ()

    @property
    def start(self) -> Any:
        return instants(self.bounds[0], calendar=True)

    @property
    def end(self) -> Any:
        return instants(self.bounds[1], calendar=True)

    @property
    def evidence(self) -> NDArray[np.str_]:
        """What can be said: one of `observant.estimation.rates.EVIDENCE`."""
        return np.array(EVIDENCE)[self.evidence_code]

    def __repr__(self) -> str:
        return f"<CalendarRates: {counted(len(self), 'row')}>"


def calendar_rates(
    data: History,
    windows: str | Sequence[str],
    *,
    confidence: float = 0.95,
    start: ArrayLike | None = None,
    until: ArrayLike | None = None,
) -> CalendarRates:
    """Estimate the rate of each source within stretches of the calendar (UTC).

    A stretch is written ``2026``, ``2026-01``, ``2026-01-15`` or ``2026-01..2026-03`` (both ends
    included); ``*-01`` is January of every year that the data reach into.

    **From visits**, the likelihood of the visit gaps within the stretch, bias-reduced as in
    `estimate_rates`. A gap that straddles an edge is shared:

    - it saw no change: the part inside is a gap without a change. This is exact.
    - it saw a dated change: inside the stretch the change is taken with its date, and what is known
      to be quiet after it. A date before the stretch leaves a quiet part; a date after it says
      nothing about the part inside.
    - it saw a change without a date: the whole gap counts with the weight of its part inside,
      which leaves the estimating equation unbiased if the rate is about the same on both sides
      of the edge. The interval assumes nothing: its lower bound puts the change outside, its
      upper bound inside.

    **From update times**, updates over days, with the exact Poisson interval. Watching is taken
    to last from the first update to the last, unless `start` and `until` say otherwise.

    >>> log = VisitLog.from_columns(
    ...     ["page"] * 5,
    ...     ["2025-12-30", "2026-01-10", "2026-01-20", "2026-01-30", "2026-02-08"],
    ...     [None, False, True, True, False],
    ... )
    >>> january = calendar_rates(log, "2026-01")
    >>> january.observed_days, january.changes, january.rate_per_day.round(3)
    (array([31.]), array([2.]), array([0.083]))
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence lies between 0 and 1, not {confidence}")
    if isinstance(data, VisitLog):
        gaps = VisitGaps.of(data)
        span = (float(gaps.begin.min()), float(gaps.end.max())) if len(gaps.begin) else (0.0, 0.0)
        stretches = parse_windows(windows, span)
        parts = [_from_visits(gaps, len(data.sources), w, confidence) for w in stretches]
        names, notes = data.sources, list(data.notes)
    else:
        points = update_points(data, start=start, until=until)
        span = (float(points.start.min()), float(points.until.max())) if len(points) else (0.0, 0.0)
        stretches = parse_windows(windows, span)
        parts = [_from_points(points, w, confidence) for w in stretches]
        names, notes = points.names(np.arange(len(points))), list(points.notes)
        if not points.bounded:
            notes.append(
                "watching is taken to last from the first update to the last; if it was longer, "
                "the rate at the edges is too high"
            )
    rows = [len(stretches), len(names)]
    observed, comparisons, changes, rate, low, high, code = (
        np.array(column).T.ravel() for column in zip(*parts, strict=True)
    )
    order = np.repeat(np.arange(rows[1]), rows[0])
    import pyarrow as pa

    return CalendarRates(
        source=names.take(pa.array(order)),
        window=np.tile([w.name for w in stretches], rows[1]),
        bounds=(
            np.tile([w.start for w in stretches], rows[1]),
            np.tile([w.end for w in stretches], rows[1]),
        ),
        observed_days=observed,
        comparisons=comparisons.astype(np.int64),
        changes=changes,
        rate_per_day=rate,
        rate_low=low,
        rate_high=high,
        evidence_code=code.astype(np.int8),
        confidence=confidence,
        notes=tuple(notes),
    )


def parse_windows(windows: str | Iterable[str], span: tuple[float, float]) -> list[CalendarWindow]:
    """Read stretches of the calendar; ``*-MM`` becomes that month of every year in the span.

    >>> [(w.name, w.end - w.start) for w in parse_windows("2026-01..2026-03", (0, 0))]
    [('2026-01..2026-03', 90.0)]
    """
    found = []
    for text in [windows] if isinstance(windows, str) else windows:
        every = _EVERY_YEAR.fullmatch(text.strip())
        if every:
            first, last = (utc(DAY * day).year for day in span)
            names = [f"{year}-{int(every[1]):02}" for year in range(first, last + 1)]
            inside = map(_parse_window, names)
            found += [w for w in inside if w.end > span[0] and w.start < span[1]]
        else:
            found.append(_parse_window(text))
    if not found:
        raise InputError(f"no stretch of the calendar to look at; {_EXAMPLES}")
    return found


def _parse_window(text: str) -> CalendarWindow:
    first, dots, last = (part.strip() for part in text.partition(".."))
    start, end = _dates(first, text)[0], _dates(last if dots else first, text)[1]
    if end <= start:
        raise InputError(f"the calendar window {text!r} ends before it begins")
    return CalendarWindow(text.strip(), float((start - _EPOCH).days), float((end - _EPOCH).days))


def _dates(text: str, whole: str) -> tuple[date, date]:
    """First day of a year, month or day, and the first day after it."""
    match = _PART.fullmatch(text)
    if match is None:
        raise InputError(f"this is not a stretch of the calendar: {whole!r}; {_EXAMPLES}")
    year, month, day = (int(part) if part else None for part in match.groups())
    assert year is not None  # noqa: S101 - the pattern needs it
    try:
        first = date(year, month or 1, day or 1)
        if day is not None:
            return first, first + timedelta(days=1)
        if month is not None:
            return first, date(year + month // 12, month % 12 + 1, 1)
        return first, date(year + 1, 1, 1)
    except (ValueError, OverflowError):
        raise InputError(f"there is no such date: {whole!r}; {_EXAMPLES}") from None


# -- from visits ----------------------------------------------------------------------------------


def _from_visits(
    gaps: VisitGaps, sources: int, window: CalendarWindow, confidence: float
) -> tuple[Floats, ...]:
    begin, end = np.maximum(gaps.begin, window.start), np.minimum(gaps.end, window.end)
    reaching = end > begin
    begin, end, owner = begin[reaching], end[reaching], gaps.owner[reaching]
    changed, date_ = gaps.changed[reaching], gaps.date[reaching]
    dated = gaps.dated[reaching]
    whole = (gaps.end - gaps.begin)[reaching]
    with np.errstate(invalid="ignore"):
        inside = changed & (date_ > begin) & (date_ <= end)
        before = changed & (date_ <= begin)
        after = changed & (date_ > end)
    silent = ~after  # a later date hides what happened inside
    straddling = changed & np.isnan(date_) & (end - begin < whole)
    kind = np.where(inside, np.int8(CHANGED), np.int8(0))
    kind |= np.where(changed & np.isnan(date_), np.int8(CHANGED), np.int8(0))
    kind |= np.where(inside | before | (dated & ~changed), np.int8(DATED), np.int8(0))
    length = end - begin
    ages = np.where(inside, end - np.where(inside, date_, 0.0), 0.0)
    ages = np.where(inside, np.maximum(ages, np.minimum(RESOLUTION, length / 2)), 0.0)
    share = np.where(straddling, length / whole, 1.0)
    counts = np.bincount(owner[silent], minlength=sources)

    def evidence(kinds: NDArray[np.int8], lengths: Floats, weight: Floats | None) -> Evidence:
        return Evidence(
            offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            gaps=lengths[silent],
            kind=kinds[silent],
            ages=ages[silent],
            weight=None if weight is None else weight[silent],
        )

    weighted = evidence(kind, np.where(straddling, whole, length), share)
    changes = np.where(kind & CHANGED == CHANGED, share, 0.0)
    rate = bias_reduced_rates(weighted)
    outside = evidence(np.where(straddling, np.int8(0), kind), length, None)
    within = evidence(kind, length, None)
    fast = len(begin) >= 20_000
    low = solve(outside, confidence, fast=fast)[1]
    high = solve(within, confidence, fast=fast)[2]
    code = evidence_codes(Totals.of(within))
    return (
        Totals.of(within).time,
        counts.astype(float),
        outside.sums(changes[silent]),
        rate,
        np.fmin(low, rate),
        np.fmax(high, rate),
        code.astype(float),
    )


# -- from update times ----------------------------------------------------------------------------


def _from_points(points: Any, window: CalendarWindow, confidence: float) -> tuple[Floats, ...]:
    from scipy.special import gammaincinv

    owner = np.repeat(np.arange(len(points)), points.counts)
    inside = (points.times > window.start) & (points.times <= window.end)
    count = np.bincount(owner[inside], minlength=len(points)).astype(float)
    observed = np.minimum(points.until, window.end) - np.maximum(points.start, window.start)
    observed = np.maximum(observed, 0.0)
    tail = (1 - confidence) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(observed > 0, count / observed, np.nan)
        low = np.where(count > 0, gammaincinv(np.maximum(count, 1), tail), 0.0) / observed
        high = gammaincinv(count + 1, 1 - tail) / observed
    known = observed > 0
    code = np.select([~known, count == 0], [EVIDENCE.index("too-few"), 1], 0)
    return (
        observed,
        count,
        count,
        rate,
        np.where(known, low, 0.0),
        np.where(known, high, np.inf),
        code.astype(float),
    )
