"""How often next January? From past Januaries and the latest year (Singh, section 5).

Singh leaves it for later: the trend of past Januaries, alone or with the recent trend, should
foretell the next one. Here a January is held against the twelve months before it. With x updates in
it, in d days, and L the rate of those months,

    x ~ Poisson(ρ L d),  ρ ~ Gamma, over all Januaries that were watched

so ρ says how busy a January is, whatever the level; next January's rate is ρ times the rate of the
last twelve months, which carries growth and decline. Sources that were watched for less than a
January and the year before it borrow ρ = 1 ± 0.5, the prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.errors import InputError
from observant.estimation.windows.calendar import calendar_rates, parse_windows
from observant.tables import Table
from observant.times import DAY, utc
from observant.units import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from observant.arrays import Floats, Integers
    from observant.estimation.windows.points import History


PRIOR = 4.0
"""Shape and rate of the prior of ρ: a mean of 1 and a standard deviation of a half."""
_DRAWS = 4_000


@dataclass(frozen=True, eq=False, repr=False)
class MonthForecast(Table):
    """A row a source: how often it will be updated in a month to come."""

    columns: ClassVar[tuple[str, ...]] = (
        "source",
        "window",
        "rate_per_day",
        "rate_low",
        "rate_high",
        "level_per_day",
        "ratio",
        "years",
    )

    source: pa.Array
    window: NDArray[np.str_]
    """The month that is foretold."""
    rate_per_day: Floats
    rate_low: Floats
    rate_high: Floats
    level_per_day: Floats
    """Rate of the last twelve months."""
    ratio: Floats
    """How much busier than the twelve months before it that month has been: ρ."""
    years: Integers
    """Past years that could be compared."""
    confidence: float
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<MonthForecast: {counted(len(self), 'source')}>"


def forecast_month(data: History, month: int, *, confidence: float = 0.95) -> MonthForecast:
    """Foretell the rate of each source in the next such month after the data (1: January).

    >>> days = [*range(0, 31, 3), *range(31, 365, 10)]
    >>> years = [0, 365, 730]  # a busy January, three times
    >>> updates = [year + day for year in years for day in days]
    >>> answer = forecast_month(updates, 1)
    >>> print(answer.window[0], answer.ratio.round(1), answer.rate_per_day.round(2))
    1973-01 [2.2] [0.28]
    """
    if not 1 <= month <= 12:
        raise InputError(f"a month is a number from 1 to 12, not {month!r}")
    every = calendar_rates(data, f"*-{month:02}")
    names = list(dict.fromkeys(every.window.tolist()))
    until = _end(data)
    past = [name for name in names if parse_windows(name, (0.0, 0.0))[0].start <= until - 28]
    before = calendar_rates(data, [_year_before(name) for name in past] or ["1970"])
    sources = len(every) // max(len(names), 1)

    def table(values: Any, stretches: int) -> Floats:
        return np.asarray(values, np.float64).reshape(sources, stretches)

    count, days = (
        table(v, len(names))[:, : len(past)] for v in (every.changes, every.observed_days)
    )
    year, year_days = (table(v, max(len(past), 1)) for v in (before.changes, before.observed_days))
    known = (days > 20) & (year_days[:, : len(past)] > 180) & (year[:, : len(past)] > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.where(known, year[:, : len(past)] / year_days[:, : len(past)] * days, 0.0)
    shape = PRIOR + np.where(known, count, 0.0).sum(axis=1)
    rate = PRIOR + expected.sum(axis=1)
    latest = calendar_rates(data, _last_year(until))
    low, middle, high = _quantiles(shape, rate, latest.changes, latest.observed_days, confidence)
    following = _next(month, until - 1)
    level = np.divide(
        latest.changes,
        latest.observed_days,
        where=latest.observed_days > 0,
        out=np.full(sources, np.nan),
    )
    return MonthForecast(
        source=latest.source,
        window=np.full(sources, following),
        rate_per_day=np.where(np.isnan(level), np.nan, middle),
        rate_low=np.where(np.isnan(level), 0.0, low),
        rate_high=np.where(np.isnan(level), np.inf, high),
        level_per_day=level,
        ratio=shape / rate,
        years=known.sum(axis=1),
        confidence=confidence,
        notes=latest.notes,
    )


def _quantiles(
    shape: Floats, rate: Floats, count: Floats, days: Floats, confidence: float
) -> tuple[Floats, Floats, Floats]:
    """Of ρL: both are Gamma; their product is drawn, with the same numbers for every source."""
    from scipy.special import gammaincinv

    rng = np.random.default_rng(1)
    one, two = (rng.permutation((np.arange(_DRAWS) + 0.5) / _DRAWS) for _ in range(2))
    ends = np.empty((3, len(shape)))
    for i in range(len(shape)):
        exposure = max(float(days[i]), 1e-9)
        drawn = gammaincinv(shape[i], one) / rate[i] * gammaincinv(count[i] + 0.5, two) / exposure
        ends[::2, i] = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
        ends[1, i] = shape[i] / rate[i] * count[i] / exposure
    return ends[0], ends[1], ends[2]


def _end(data: History) -> float:
    """The last moment that the data reach."""
    from observant.estimation.windows.points import VisitGaps, update_points
    from observant.visits import VisitLog

    if isinstance(data, VisitLog):
        gaps = VisitGaps.of(data)
        return float(gaps.end.max()) if len(gaps.end) else 0.0
    points = update_points(data)
    return float(points.until.max()) if len(points) else 0.0


def _year_before(name: str) -> str:
    year, month = map(int, name.split("-"))
    return f"{year - 1}-{month:02}..{year - (month == 1)}-{(month - 2) % 12 + 1:02}"


def _last_year(until: float) -> str:
    """The last 365 days, as a stretch of the calendar."""
    first, last = (utc(DAY * day).date() for day in (until - 365, until - 1))
    return f"{first.isoformat()}..{last.isoformat()}"


def _next(month: int, until: float) -> str:
    now = utc(DAY * until)
    return f"{now.year + (month <= now.month)}-{month:02}"
