"""`estimate_windows`: windows of every source with their trend, their rate, what was due next."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.errors import InputError
from observant.estimation.windows.consistent import STATES, Windows, consistent_windows
from observant.estimation.windows.points import instants, update_points
from observant.estimation.windows.prediction import next_after
from observant.estimation.windows.weibull_rate import (
    log_sum,
    mse,
    rate_interval,
    rates_at_points,
    shape_interval,
    trend_p_value,
)
from observant.tables import Table
from observant.units import counted, format_rate

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import ArrayLike, NDArray

    from observant.arrays import Flags, Floats, Integers
    from observant.estimation.windows.points import History
    from observant.processes.updates import Seed


TRENDS = ("falling", "none", "rising")
"""The verdict of the test against a constant rate."""


@dataclass(frozen=True, eq=False, repr=False)
class Trends(Table):
    """One power law over a whole history or window, and the test whether its rate is constant."""

    columns: ClassVar[tuple[str, ...]] = (
        "source",
        "points",
        "beta",
        "beta_low",
        "beta_high",
        "p_value",
        "trend",
    )

    source: pa.Array
    points: Integers
    """Updates that were seen."""
    beta: Floats
    """β̃, the unbiased shape: above 1 the rate rises. NaN with fewer than three points."""
    beta_low: Floats
    beta_high: Floats
    p_value: Floats
    """Of a constant rate, two-sided: how often chance alone makes so strong a trend."""
    confidence: float
    """Of the interval; a verdict other than ``none`` needs a p-value below one minus it."""

    @property
    def trend(self) -> NDArray[np.str_]:
        """``rising``, ``falling`` or ``none``."""
        clear = self.p_value < 1 - self.confidence
        return np.array(TRENDS)[np.where(clear, np.where(self.beta > 1, 2, 0), 1)]

    def __repr__(self) -> str:
        return f"<Trends: {counted(len(self), 'source')}>"


@dataclass(frozen=True, eq=False, repr=False)
class LocalRates(Table):
    """A row a window: what the rate did in it, how fast it was at its end, what was due next.

    The p-value of a window is that of a stretch fixed beforehand. Windows are chosen because they
    look consistent, so theirs comes out small too often; `overall` is the honest test of a history.
    """

    figure: ClassVar[str] = "observant.figures.trend:trend_figure"

    columns: ClassVar[tuple[str, ...]] = (
        "source",
        "window",
        "state",
        "start",
        "end",
        "points",
        "mean_rate",
        "beta",
        "beta_low",
        "beta_high",
        "p_value",
        "trend",
        "rate_at_end",
        "rate_low",
        "rate_high",
        "mtbu_days",
        "cumulative_mtbu_days",
        "mse",
        "predicted_next",
        "next_low",
        "next_high",
    )

    windows: Windows
    within: Trends
    """The power law of each window."""
    overall: Trends
    """The power law of each source's history until watching ended; sources without points have
    none."""
    rate_at_end: Floats
    """Updates per day at the end of the window."""
    rate_low: Floats
    """Interval of the rate at the end, exact for a power law (for ``count``: a constant rate)."""
    rate_high: Floats
    mse: Floats
    """Mean of (1/λ(tᵢ) − gap)² over the window, in days² (Singh 3.5)."""
    predicted: tuple[Floats, Floats, Floats]
    """Median and interval of the next update, in days, as the window's end let expect it."""
    estimator: str
    confidence: float
    notes: tuple[str, ...] = ()

    @property
    def source(self) -> pa.Array:
        return self.within.source

    @property
    def window(self) -> Integers:
        """Number of the window within its source, from 1."""
        owner = self.windows.owner
        begins = np.ones(len(owner), bool)
        begins[1:] = owner[1:] != owner[:-1]
        first = np.maximum.accumulate(np.where(begins, np.arange(len(owner)), 0))
        return np.arange(len(owner)) - first + 1

    @property
    def state(self) -> NDArray[np.str_]:
        """One of `STATES`: what the window was opened with."""
        return np.array(STATES)[self.windows.state + 1]

    @property
    def start(self) -> Any:
        """Time of the update before the window."""
        return instants(self.windows.origin, self.windows.points.calendar)

    @property
    def end(self) -> Any:
        """Time of the window's last point."""
        return instants(self.windows.last, self.windows.points.calendar)

    @property
    def points(self) -> Integers:
        """Updates that were seen in the window."""
        return self.windows.n

    @property
    def mean_rate(self) -> Floats:
        """N(t)/t over the window."""
        return self.windows.n / self.windows.end

    @property
    def beta(self) -> Floats:
        """β̃ of the window, the unbiased shape: above 1 the rate rises."""
        return self.within.beta

    @property
    def beta_low(self) -> Floats:
        return self.within.beta_low

    @property
    def beta_high(self) -> Floats:
        return self.within.beta_high

    @property
    def p_value(self) -> Floats:
        """Of a constant rate within the window, two-sided."""
        return self.within.p_value

    @property
    def trend(self) -> NDArray[np.str_]:
        """``rising``, ``falling`` or ``none``."""
        return self.within.trend

    @property
    def mtbu_days(self) -> Floats:
        """Instantaneous mean time between updates at the end, 1/λ(tₙ)."""
        with np.errstate(divide="ignore"):
            return 1 / self.rate_at_end

    @property
    def cumulative_mtbu_days(self) -> Floats:
        """tₙ/n of the window (Singh, property 1)."""
        return self.windows.end / self.windows.n

    @property
    def predicted_next(self) -> Any:
        """When the window's end let expect the next update: the median."""
        return instants(self.predicted[0], self.windows.points.calendar)

    @property
    def next_low(self) -> Any:
        return instants(self.predicted[1], self.windows.points.calendar)

    @property
    def next_high(self) -> Any:
        return instants(self.predicted[2], self.windows.points.calendar)

    @cached_property
    def latest(self) -> Flags:
        """Which rows are the latest window of their source."""
        return self.windows.is_last

    def __repr__(self) -> str:
        return (
            f"<LocalRates: {counted(len(self), 'window')} of "
            f"{counted(int(self.latest.sum()), 'source')}, estimator {self.estimator}>"
        )

    def __str__(self) -> str:
        shown = min(len(self), 12)
        columns = (self.source, self.window, self.state, self.points, self.beta, self.p_value)
        rows = zip(*(column[:shown] for column in columns), strict=True)
        lines = ["source            window  state       points   beta  p-value    rate at the end"]
        lines += [
            f"{str(source)[:16]:16}  {window:6}  {state:10}  {points:6}  {beta:5.2f}  {p:7.3f}  "
            f"{format_rate(rate):>17}"
            for (source, window, state, points, beta, p), rate in zip(
                rows, self.rate_at_end[:shown], strict=True
            )
        ]
        if shown < len(self):
            lines.append(f"… and {len(self) - shown:,} more windows")
        return "\n".join(line.rstrip() for line in lines)


def estimate_windows(
    data: History,
    *,
    estimator: str = "weibull-corrected",
    threshold: float = 3.0,
    measure: str = "gap",
    limit: str = "points",
    direction: str = "forward",
    unit: ArrayLike | None = None,
    tolerance: float = 0.01,
    smallest: int = 4,
    tau: float = 1.0,
    confidence: float = 0.95,
    place: str = "middle",
    start: ArrayLike | None = None,
    seed: Seed = 0,
) -> LocalRates:
    """Cut each history into consistent windows, and estimate the rate within each.

    Parameters
    ----------
    data
        A `VisitLog`, `Updates`, or the sorted update times of one source in days.
    estimator
        One of `ESTIMATORS`, for the rate at the end of each window and its error. A window too
        short for it gets N(t)/t.
    threshold, measure, limit, direction, unit, tolerance, smallest
        How windows are cut; see `consistent_windows`.
    tau
        Length in days of the intervals that ``cho`` and ``matloff`` count.
    confidence
        Of the intervals, and one minus the level of the trend verdict.
    place, start, seed
        How update points are made; see `update_points`.

    >>> from observant.processes import Piecewise
    >>> awake = Piecewise(starts=(0, 40), rates=(0.2, 4.0)).sample(50.0, seed=3)
    >>> answer = estimate_windows(awake, start=0.0)
    >>> answer
    <LocalRates: 4 windows of 1 source, estimator weibull-corrected>
    >>> print(*answer.mean_rate.round(1))
    0.3 3.0 3.7 2.8
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence lies between 0 and 1, not {confidence}")
    points = update_points(data, place=place, start=start, seed=seed)
    windows = consistent_windows(
        points,
        threshold=threshold,
        measure=measure,
        limit=limit,
        direction=direction,
        unit=unit,
        tolerance=tolerance,
        smallest=smallest,
    )
    rates = rates_at_points(windows, estimator, tau)
    short = ~np.isfinite(rates[windows.offsets[1:] - 1])
    if short.any():
        rates = np.where(short[windows.window], (windows.n / windows.end)[windows.window], rates)
    s = log_sum(windows)
    low, high = (
        _constant_interval(windows, confidence)
        if estimator == "count"
        else rate_interval(windows.n, s, windows.end, confidence)
    )
    notes = list(points.notes)
    if short.any():
        many = counted(int(short.sum()), "window")
        notes.append(f"{many} without an answer from {estimator}: the rate is N(t)/t")
    silent = int((points.counts == 0).sum())
    if silent:
        notes.append(f"no update to go by: {counted(silent, 'source')}")
    whole = consistent_windows(points, threshold=np.inf, limit="points", smallest=1)
    return LocalRates(
        windows=windows,
        within=trends_of(windows, confidence),
        overall=trends_of(whole, confidence, points.until[whole.owner]),
        rate_at_end=rates[windows.offsets[1:] - 1],
        rate_low=low,
        rate_high=high,
        mse=mse(windows, rates),
        predicted=next_after(windows, confidence, "count" if estimator == "count" else "weibull"),
        estimator=estimator,
        confidence=confidence,
        notes=tuple(notes),
    )


def trends_of(windows: Windows, confidence: float, until: Floats | None = None) -> Trends:
    """The power law of each window, and the test of a constant rate.

    With `until`, watching went on after the last point, and that silence counts: T takes the place
    of tₙ in S, and 2βS then has 2n degrees of freedom, as if there were one point more.
    """
    n, s = windows.n, log_sum(windows)
    if until is not None:
        longer = until > windows.last
        stretched = np.log(np.where(longer, until - windows.origin, windows.end) / windows.end)
        n, s = n + longer, s + n * stretched
    low, high = shape_interval(n, s, confidence)
    with np.errstate(divide="ignore", invalid="ignore"):
        beta = np.where(n > 2, (n - 2) / s, np.nan)
    return Trends(
        source=windows.points.names(windows.owner),
        points=windows.n,
        beta=beta,
        beta_low=low,
        beta_high=high,
        p_value=trend_p_value(n, s),
        confidence=confidence,
    )


def _constant_interval(windows: Windows, confidence: float) -> tuple[Floats, Floats]:
    """Of a constant rate λ, λtₙ is Gamma(n)."""
    from scipy.special import gammaincinv

    tail = (1 - confidence) / 2
    return (
        gammaincinv(windows.n, tail) / windows.end,
        gammaincinv(windows.n, 1 - tail) / windows.end,
    )
