"""What a visit log shows before any model: ages, lifetimes, change ratios, hours of the week.

`describe` gives the statistics of Brewington's chapter 3 for any visit log, and the plain arrays
(ages, lifetimes, spans) that the fits of `observant.estimation.population` start from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.errors import InputError
from observant.tables import Table
from observant.times import MICROSECONDS_PER_DAY, SECOND
from observant.units import format_duration
from observant.visits.columns import MISSING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from observant.arrays import Flags, Floats, Integers
    from observant.visits import VisitLog


@dataclass(frozen=True, eq=False)
class Histogram(Table):
    """Durations counted in bins whose width grows with the duration.

    >>> bins = Histogram.of([1.0, 3.0, 30.0, 300.0], per_decade=1)
    >>> print(bins.left, bins.count, bins.cumulative)
    [  1.  10. 100.] [2 1 1] [0.5  0.75 1.  ]
    """

    columns: ClassVar[tuple[str, ...]] = ("left", "right", "count", "density", "cumulative")

    left: Floats
    """Beginning of the bin, in days."""
    right: Floats
    """End of the bin, in days."""
    count: Integers
    """Durations in the bin."""
    density: Floats
    """Share of all durations per day of bin width: an estimate of the probability density."""
    cumulative: Floats
    """Share of all durations up to the right end of the bin."""

    @classmethod
    def of(cls, days: Any, per_decade: int = 10) -> Histogram:
        """Count durations, `per_decade` bins to a factor of ten.

        Those under a second are counted as a second: no date of modification is finer.
        """
        logs = np.log10(np.maximum(np.asarray(days, np.float64), SECOND)) * per_decade
        if not logs.size:
            empty = np.empty(0)
            return cls(empty, empty, np.empty(0, np.int64), empty, empty)
        # The tiny shift keeps whole powers of ten in the bin that begins with them.
        bins = np.floor(logs + 1e-9).astype(np.int64)
        count = np.bincount(bins - bins.min())
        edges = 10.0 ** (np.arange(bins.min(), bins.max() + 2) / per_decade)
        share = count / count.sum()
        return cls(edges[:-1], edges[1:], count, share / np.diff(edges), np.cumsum(share))


@dataclass(frozen=True, eq=False)
class Description:
    """A visit log in the terms of Brewington's chapter 3. Durations in days."""

    sources: int
    visits: int
    """Visits that saw the source; failed ones are left out of everything."""
    dated_visits: int
    """Visits that came with a date of modification."""
    change_share_dated: float
    """Share of comparisons that found a change, among visits with a date of modification."""
    change_share_undated: float
    """The same among visits without; 3.1.1 found it twice as high."""

    ages: Floats
    """Age at the first dated visit of each source that has one."""
    lifetimes: Floats
    """Differences of successive dates of modification, source after source, in order of time."""
    lifetime_sources: Integers
    """Which source each lifetime belongs to: a place in `spans` and `dated_spans`."""
    unfinished: int
    """Dated sources whose last lifetime was still running at the last visit (censored)."""
    spans: Floats
    """Time from the first to the last visit, of every source."""
    dated_spans: Floats
    """The same from the first to the last visit with a date: lifetimes can be seen in these."""
    median_gap: float
    """Half of the gaps between visits are shorter; lifetimes shorter than a gap can be missed."""

    change_ratios: Floats
    """Changes over repeat visits, of each source with `least_visits` or more, in rising order."""
    least_visits: int
    hours_of_week: Integers
    """Dates of modification by hour of the week, Monday 00:00 UTC first (figure 3.1)."""
    notes: tuple[str, ...] = ()

    @property
    def dated_share(self) -> float:
        """Share of visits that came with a date of modification."""
        return self.dated_visits / max(self.visits, 1)

    @property
    def age_histogram(self) -> Histogram:
        """Density and distribution of the ages on logarithmic bins (figures 3.7 and 3.8)."""
        return Histogram.of(self.ages)

    @property
    def lifetime_histogram(self) -> Histogram:
        """Density and distribution of the lifetimes seen (figure 3.18)."""
        return Histogram.of(self.lifetimes)

    @property
    def span_histogram(self) -> Histogram:
        """Density and distribution of the observation timespans (figure 3.17)."""
        return Histogram.of(self.spans)

    @property
    def change_ratio_cdf(self) -> tuple[Floats, Floats]:
        """Change ratios and the share of sources that do not exceed them (figure 3.6)."""
        ratios, counts = np.unique(self.change_ratios, return_counts=True)
        return ratios, np.cumsum(counts) / max(counts.sum(), 1)

    def summary(self) -> dict[str, Any]:
        """The whole description in a few plain numbers; None where the log cannot tell."""
        ratios = self.change_ratios
        return {
            "sources": self.sources,
            "visits": self.visits,
            "dated_share": self.dated_share,
            "change_share_dated": _plain(self.change_share_dated),
            "change_share_undated": _plain(self.change_share_undated),
            "median_age_days": _median(self.ages),
            "lifetimes": len(self.lifetimes),
            "median_lifetime_days": _median(self.lifetimes),
            "unfinished_lifetimes": self.unfinished,
            "mean_span_days": _plain(float(self.spans.mean())),
            "median_gap_days": _plain(self.median_gap),
            "sources_with_change_ratio": len(ratios),
            "never_changed_share": _plain(float((ratios == 0).mean()) if len(ratios) else np.nan),
            "always_changed_share": _plain(float((ratios == 1).mean()) if len(ratios) else np.nan),
            "notes": list(self.notes),
        }

    def curves(self) -> dict[str, Any]:
        """What figures 3.1, 3.6 to 3.8, 3.17 and 3.18 show, as plain lists."""
        ratios = np.linspace(0.0, 1.0, 101)
        below = np.searchsorted(self.change_ratios, ratios + 1e-9) / max(len(self.change_ratios), 1)
        return {
            "change_ratio": {"ratio": ratios.tolist(), "cumulative": below.tolist()},
            "age": list(self.age_histogram.rows()),
            "lifetime": list(self.lifetime_histogram.rows()),
            "span": list(self.span_histogram.rows()),
            "hour_of_week": self.hours_of_week.tolist(),
        }

    def __str__(self) -> str:
        told = self.summary()

        def days(name: str) -> str:
            return "?" if told[name] is None else format_duration(told[name])

        def share(name: str) -> str:
            return "?" if told[name] is None else f"{100 * told[name]:.0f} %"

        rows = [
            ("sources", f"{self.sources:,}"),
            (
                "visits",
                f"{self.visits:,}, a gap of {days('median_gap_days')} between them (median)",
            ),
            ("watched for", f"{days('mean_span_days')} (mean)"),
            ("visits with a date", share("dated_share")),
            (
                "visits that found a change",
                ", ".join(
                    f"{share(f'change_share_{kind}')} {how}"
                    for kind, how in (("dated", "with a date"), ("undated", "without a date"))
                    if told[f"change_share_{kind}"] is not None
                )
                or "?",
            ),
            (
                f"sources with {self.least_visits}+ visits",
                (
                    f"{len(self.change_ratios):,}: {share('never_changed_share')} never changed, "
                    f"{share('always_changed_share')} changed at every visit"
                ),
            ),
            ("age at the first visit", f"{days('median_age_days')} (median)"),
            (
                "lifetimes seen",
                (
                    f"{len(self.lifetimes):,}, {days('median_lifetime_days')} (median), "
                    f"{self.unfinished:,} still running"
                ),
            ),
        ]
        if not self.ages.size and not self.lifetimes.size:
            rows = rows[:-2]  # no visit has a date, as a note says
        width = max(len(label) for label, _ in rows)
        return "\n".join(f"{label:<{width}}  {value}" for label, value in rows)


def age_densities(log: VisitLog, windows: int = 4) -> list[tuple[float, Histogram]]:
    """The density of ages in parts of the time of observation (figure 3.3): does its tail lengthen?

    Each part has as many dated visits as the others. Of each, the middle in days since 1970, and
    the ages that its visits saw.
    """
    if log.last_modified is None:
        raise InputError("ages need dates of modification: the column last_modified")
    rows = np.flatnonzero(log.succeeded & (log.last_modified != MISSING))
    if len(rows) < windows:
        raise InputError(f"{windows} parts of the time need as many dated visits or more")
    time = log.time[rows]
    age = np.maximum(time - log.last_modified[rows], 0) / MICROSECONDS_PER_DAY
    order = np.argsort(time, kind="stable")
    parts = np.array_split(order, windows)
    middles = [float(np.median(time[part])) / MICROSECONDS_PER_DAY for part in parts]
    return [(m, Histogram.of(age[part], 4)) for m, part in zip(middles, parts, strict=True)]


def describe(log: VisitLog, *, least_visits: int = 6) -> Description:
    """Describe a visit log as Brewington's chapter 3 does.

    A lifetime is the difference of two successive dates of modification that visits saw. Updates
    between two visits hide all but the last date, so lifetimes shorter than the gap between visits
    are missed and some seen are the sum of several. Change ratios are given for sources with
    `least_visits` visits or more (figure 3.6 has six).

    >>> from observant import VisitLog
    >>> log = VisitLog.from_columns(
    ...     source=["a", "a", "a", "b"],
    ...     time=[10, 20, 30, 10],
    ...     last_modified=[4, 4, 27, 9],
    ...     time_unit="d",
    ... )
    >>> shown = describe(log, least_visits=3)
    >>> print(shown.ages, shown.lifetimes, shown.spans, shown.change_ratios)
    [6. 1.] [23.] [20.  0.] [0.5]
    """
    if least_visits < 2:
        raise InputError("a change ratio needs two visits or more: least_visits")
    rows = np.flatnonzero(log.succeeded)
    owner = np.searchsorted(log.offsets, rows, side="right") - 1
    counts = np.bincount(owner, minlength=len(log.sources))
    time, changed = log.time[rows], log.changed[rows]
    dates = np.full(len(rows), MISSING) if log.last_modified is None else log.last_modified[rows]
    dated = dates != MISSING
    lifetimes, lifetime_sources, backwards = _lifetimes(owner[dated], dates[dated])
    first_dated = _firsts(owner[dated])
    same = owner[1:] == owner[:-1]
    gaps = np.diff(time)[same] / MICROSECONDS_PER_DAY
    compared = np.bincount(owner, changed >= 0, minlength=len(counts))
    changes = np.bincount(owner, changed == 1, minlength=len(counts))
    enough = (counts >= least_visits) & (compared > 0)
    return Description(
        sources=len(log.sources),
        visits=len(rows),
        dated_visits=int(np.count_nonzero(dated)),
        change_share_dated=_share(changed[dated]),
        change_share_undated=_share(changed[~dated]),
        ages=(time[dated] - dates[dated])[first_dated] / MICROSECONDS_PER_DAY,
        lifetimes=lifetimes,
        lifetime_sources=lifetime_sources,
        unfinished=int(np.count_nonzero(first_dated)),
        spans=_spans(time, owner, len(counts)),
        dated_spans=_spans(time[dated], owner[dated], len(counts)),
        median_gap=float(np.median(gaps)) if gaps.size else np.nan,
        change_ratios=np.sort(changes[enough] / compared[enough]),
        least_visits=least_visits,
        hours_of_week=_hours_of_week(owner[dated], dates[dated]),
        notes=(*log.notes, *_notes(log, rows, dated, backwards)),
    )


def _lifetimes(owner: Integers, dates: Integers) -> tuple[Floats, Integers, int]:
    """Differences of successive dates of one source; a date that went back ends nothing."""
    elapsed = np.diff(dates) / MICROSECONDS_PER_DAY
    same = owner[1:] == owner[:-1]
    seen = same & (elapsed > 0)
    return elapsed[seen], owner[1:][seen], int(np.count_nonzero(same & (elapsed < 0)))


def _firsts(owner: Integers) -> Flags:
    first = np.ones(len(owner), bool)
    first[1:] = owner[1:] != owner[:-1]
    return first


def _spans(time: Integers, owner: Integers, sources: int) -> Floats:
    spans = np.zeros(sources)
    first = _firsts(owner)
    last = np.roll(first, -1)
    spans[owner[first]] = (time[last] - time[first]) / MICROSECONDS_PER_DAY
    return spans


def _hours_of_week(owner: Integers, dates: Integers) -> Integers:
    """Count each date of each source once; 1970 began on a Thursday."""
    new = np.ones(len(dates), bool)
    new[1:] = (owner[1:] != owner[:-1]) | (dates[1:] != dates[:-1])
    hours = dates[new] // (MICROSECONDS_PER_DAY // 24) + 3 * 24
    return np.bincount(hours % 168, minlength=168)


def _share(changed: NDArray[np.int8]) -> float:
    known = changed[changed >= 0]
    return float(known.mean()) if known.size else np.nan


def _notes(log: VisitLog, rows: Integers, dated: Flags, backwards: int) -> list[str]:
    notes = []
    if len(rows) < len(log):
        notes.append(f"{len(log) - len(rows):,} visits failed and were left out")
    if not dated.any():
        notes.append("no visit has a date of modification: ages and lifetimes are not known")
    if backwards:
        notes.append(
            f"{backwards:,} dates of modification were older than the one before; the lifetimes "
            "they would end were left out"
        )
    return notes


def _median(values: Floats) -> float | None:
    return float(np.median(values)) if values.size else None


def _plain(value: float) -> float | None:
    return value if np.isfinite(value) else None
