"""The audit itself: currency for each grace, with bands, and the period it points to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.currency import RateMixture, WeibullPopulation, required_period
from observant.currency.audit.claims import Claims, Entries
from observant.currency.audit.hidden import Aliasing, printed_forgiveness
from observant.errors import InputError
from observant.tables import Table
from observant.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

    from observant.arrays import Floats


def audit_claims(
    claims: Claims,
    grace: ArrayLike = (0.0, 1.0, 7.0, 30.0),
    *,
    skew: float = 1.0,
    population: tuple[float, float] | None = None,
    target: float = 0.95,
    confidence: float = 0.95,
    resamples: int = 200,
    seed: int = 0,
) -> Audit:
    """Measure the currency α of an index for each grace β, in days, from what it claims.

    Parameters
    ----------
    claims
        For each entry of the index what it claims, what is true, and when it was checked.
    skew
        Dates that differ by no more than this many days are the same (clocks, rounding; the thesis
        allows one day). Staleness of less than that is forgiven, so keep it small for fast sources.
    population
        Shape and scale of a Weibull population, to turn the crossing of `target` into the period
        of the index (3.4.3). When not given, the rates found in the entries themselves serve.
    resamples
        The bands are percentiles over so many bootstrap samples of sources; each sample finds its
        own rates and periods.

    Assumes that sources change at random (Poisson), each at its own rate, and that the index was
    checked at a moment it did not choose. Rates and periods may depend on each other, though what
    one look at each source tells of that is little.

    >>> rng = np.random.default_rng(1)
    >>> now, day = np.full(500, 20_000.0), np.arange(500)
    >>> index_looked = now - rng.uniform(0.0, 30.0, 500)  # every 30 days
    >>> known = index_looked - rng.exponential(5.0, 500)  # sources change every 5 days or so
    >>> last = now - rng.exponential(5.0, 500)
    >>> claims = Claims.from_columns(
    ...     day, known, np.where(last > index_looked, last, known), now, time_unit="d"
    ... )
    >>> print(audit_claims(claims, [0, 7], skew=0.0, resamples=50))  # truly 0.17 and 0.40
    grace  currency    95 % interval  printed (3.20)  uncorrected
       0s     0.156   0.126 to 0.191           0.156        0.156
       7d     0.399   0.366 to 0.427           0.256        0.850
    reaches 0.95 at a grace of 25.7d (24.5d to 26.8d),
    like an index that looks at each source every 30.1d (28.8d to 31.4d)
    """
    graces = np.atleast_1d(np.asarray(grace, float))
    if graces.ndim != 1 or not graces.size or not np.all(np.isfinite(graces) & (graces >= 0.0)):
        raise InputError("graces must be finite numbers of days, not negative")
    if not 0.0 <= skew < np.inf:
        raise InputError(f"skew must be a finite number of days, not negative: {skew!r}")
    for name, share in (("target", target), ("confidence", confidence)):
        if not 0.0 < share < 1.0:
            raise InputError(f"{name} is a share between 0 and 1, not {share!r}")
    if resamples < 1:
        raise InputError("resamples must be 1 or more: the bands are made of them")
    entries = Entries.of(claims, skew)
    found = Aliasing.of(entries, np.unique(graces), resamples, np.random.default_rng(seed))
    tails = [0.5 - confidence / 2.0, 0.5 + confidence / 2.0]

    def bands(samples: Floats) -> Floats:
        """The estimate, then the low and the high end of its band."""
        return np.append(samples[0], np.quantile(samples[1:], tails))

    alpha = np.stack([bands(found.currency(b)) for b in graces], axis=1)
    plain = np.stack([bands(found.uncorrected(b)) for b in graces], axis=1)
    strict = np.array([printed_forgiveness(entries, b) for b in graces])
    printed = 1.0 - (entries.stale_count - strict) / len(entries)

    model: RateMixture | WeibullPopulation
    model = found.rates if population is None else WeibullPopulation(*population)
    longest = float(entries.known.max())

    def crossing_of(end: int) -> tuple[float, float]:
        """Grace at which one end of the band reaches the target, and the period it points to."""
        grace = _crossing(lambda b: float(bands(found.currency(b))[end]) - target, longest)
        if np.isnan(grace) or not entries.stale_count:
            return np.nan, np.nan
        wanted = target if grace else float(bands(found.currency(0.0))[end])
        return grace, float(required_period(model, wanted, grace))

    # A high currency is reached at a short grace, so the ends of the interval change places.
    crossing, period = zip(*(crossing_of(end) for end in (0, 2, 1)), strict=True)
    return Audit(
        grace_days=graces,
        alpha=alpha[0],
        low=alpha[1],
        high=alpha[2],
        printed=printed,
        uncorrected=plain[0],
        uncorrected_low=plain[1],
        uncorrected_high=plain[2],
        rows_used=len(entries),
        stale=entries.stale_count,
        skew_days=skew,
        target=target,
        confidence=confidence,
        crossing_days=crossing[0],
        crossing_interval=(crossing[1], crossing[2]),
        period_days=period[0],
        period_interval=(period[1], period[2]),
        method="aliasing averaged over rates and visit times found in the entries; "
        f"bootstrap over sources, {resamples} samples",
        notes=(*claims.notes, *entries.notes),
    )


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Table):
    """The currency of an index, one row a grace, and the period at which it seems to look."""

    figure: ClassVar[str] = "observant.figures.currency:audit_figure"

    columns: ClassVar[tuple[str, ...]] = (
        "grace_days",
        "alpha",
        "low",
        "high",
        "printed",
        "uncorrected",
        "uncorrected_low",
        "uncorrected_high",
    )

    grace_days: Floats
    """β: how late an entry may be and still count as current."""
    alpha: Floats
    """Share of entries that are current within the grace, corrected for aliasing."""
    low: Floats
    high: Floats
    printed: Floats
    """The same with (3.20) as printed; it is too low."""
    uncorrected: Floats
    """The same with every recent update forgiven; it is too high."""
    uncorrected_low: Floats
    uncorrected_high: Floats
    rows_used: int
    stale: int
    """Rows whose claim is older than the truth."""
    skew_days: float
    target: float
    confidence: float
    crossing_days: float
    """The grace at which the currency reaches the target; NaN if it never does."""
    crossing_interval: tuple[float, float]
    period_days: float
    """Period of a regular index with that currency at that grace (3.4.3)."""
    period_interval: tuple[float, float]
    method: str
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The audit in plain values; None where there is no answer."""
        return {
            "currency": list(self.rows()),
            "rows": self.rows_used,
            "stale": self.stale,
            "skew_days": self.skew_days,
            "confidence": self.confidence,
            "target": self.target,
            **_with_interval("crossing_days", self.crossing_days, self.crossing_interval),
            **_with_interval("period_days", self.period_days, self.period_interval),
            "method": self.method,
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        return f"<Audit: {self.rows_used:,} rows, {self.stale:,} stale>"

    def __str__(self) -> str:
        percent = f"{100 * self.confidence:g} % interval"
        lines = [f"grace  currency  {percent:>15}  printed (3.20)  uncorrected"]
        lines += [
            f"{format_duration(b):>5}  {alpha:8.3f}  {f'{low:.3f} to {high:.3f}':>15}  "
            f"{printed:14.3f}  {plain:11.3f}"
            for b, alpha, low, high, printed, plain in zip(
                self.grace_days,
                self.alpha,
                self.low,
                self.high,
                self.printed,
                self.uncorrected,
                strict=True,
            )
        ]
        if not np.isnan(self.period_days):
            crossing = _told(self.crossing_days, self.crossing_interval)
            period = _told(self.period_days, self.period_interval)
            lines.append(f"reaches {self.target:g} at a grace of {crossing},")
            lines.append(f"like an index that looks at each source every {period}")
        return "\n".join(lines)


def _crossing(above_target: Callable[[float], float], longest: float) -> float:
    """Return where a rising curve passes 0: at once, between, or (NaN) it does not."""
    from scipy.optimize import brentq

    if above_target(0.0) >= 0.0:
        return 0.0
    if above_target(longest) < 0.0:
        return np.nan
    return float(brentq(above_target, 0.0, longest, xtol=1e-4 * longest, rtol=1e-3))


def _with_interval(name: str, value: float, interval: Sequence[float]) -> dict[str, float | None]:
    values = (value, *interval)
    return {
        key: None if not np.isfinite(number) else float(number)
        for key, number in zip((name, f"{name}_low", f"{name}_high"), values, strict=True)
    }


def _told(value: float, interval: tuple[float, float]) -> str:
    low, high = (format_duration(end) for end in interval)
    return f"{format_duration(value)} ({low} to {high})"
