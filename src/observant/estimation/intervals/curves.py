"""Estimated age distributions G as curves, and the intervals that follow from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from observant.errors import EstimationError, InputError
from observant.estimation.intervals.em_parts import AgeHistogram
from observant.units import format_duration, format_share

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Flags, Floats, Integers
    from observant.processes import Process


@dataclass(frozen=True, eq=False)
class AgeCurve:
    """An estimate of G, the distribution of the age of a source at a random moment.

    G is known at the points `x` and is read in straight lines between them, from 0 at age 0. It
    is what the method measured, biased methods included; only M6 may fall here and there, by the
    noise of its bins.

    >>> AgeCurve("m2", np.array([1.0, 3.0]), np.array([0.5, 1.0]), 2, 1.0).age_cdf([0.5, 2.0, 9.0])
    array([0.25, 0.75, 1.  ])
    """

    method: str
    x: Floats
    """Days, above zero and increasing."""
    values: Floats
    """G at `x`, between 0 and 1, never NaN."""
    observations: int
    """How many ages, comparisons or pairs of visits were counted."""
    resolution: float
    """Days below which the curve says nothing: a bin, a gap, or the first handful of ages."""
    notes: tuple[str, ...] = ()
    counts: Integers | None = None
    """Pairs behind each point (M6); none where each point rests on all observations."""

    def age_cdf(self, at: ArrayLike) -> Floats:
        """G at any ages: straight lines between the points, and the last value after the last."""
        ages = np.asarray(at, np.float64)
        values = np.interp(ages, np.append(0.0, self.x), np.append(0.0, self.values))
        return np.asarray(values, np.float64)

    def age_sf(self, at: ArrayLike) -> Floats:
        """1 − G, the tails that Li draws."""
        return 1.0 - self.age_cdf(at)


def visits_of(times: ArrayLike, changed: ArrayLike) -> tuple[Floats, Flags]:
    """Check the visits to one source: two or more, in order, one outcome for each.

    The outcome at a visit tells whether it found the source different from the visit before. That
    of the first visit is ignored, and returned as unchanged.
    """
    t = np.asarray(times, np.float64)
    if t.ndim != 1 or not np.isfinite(t).all():
        raise InputError("the times of the visits must be one flat array of finite days")
    outcome = np.asarray(changed)
    if outcome.shape != t.shape:
        raise InputError(
            f"give one outcome for each visit: there are {t.size} times and outcomes of the shape "
            f"{outcome.shape}"
        )
    if t.size < 2:
        raise EstimationError("one visit compares nothing: at least two visits are needed")
    steps = np.diff(t)
    if (steps <= 0).any():
        row = int(np.argmax(steps <= 0)) + 1
        raise InputError(
            f"visit {row} is not later than the one before ({t[row]} after {t[row - 1]}): sort the "
            "visits and keep one of those at the same time"
        )
    if outcome.dtype != np.bool_ and not np.isin(outcome, (0, 1)).all():
        raise InputError("outcomes are true or false; leave out visits whose outcome is unknown")
    changes = outcome.astype(np.bool_)  # a copy, so the caller's first outcome stays
    changes[0] = False
    return t, changes


def empirical_curve(
    method: str,
    samples: Floats,
    *,
    step: float | None = None,
    maximum: float | None = None,
    notes: tuple[str, ...] = (),
) -> AgeCurve:
    """The share of the samples up to each age: at every sample, or at multiples of `step`.

    Below the tenth smallest sample the curve stands on fewer than ten, and that is its resolution.
    """
    ordered = np.sort(samples)
    if ordered[-1] <= 0:
        raise EstimationError(
            "every age is zero: the dates of modification are those of the visits, as scripts "
            "answer, and tell nothing; compare the contents instead (m4, m6)"
        )
    resolution = float(ordered[min(10, ordered.size) - 1])
    if step is None:
        # An age of zero belongs to the first age above: G itself is 0 there.
        x = np.unique(ordered[ordered > 0])
        x = x if maximum is None else x[: max(1, np.searchsorted(x, maximum, side="right"))]
    else:
        positive("step", step)
        until = float(ordered[-1]) if maximum is None else positive("maximum", maximum)
        x = step * np.arange(1, bins_in(until, step) + 1, dtype=np.float64)
        resolution = max(resolution, step)
    values = np.searchsorted(ordered, x * (1 + 1e-12), side="right") / ordered.size
    return AgeCurve(
        method, x, values, ordered.size, max(resolution, float(np.spacing(x[0]))), notes
    )


def bins_in(maximum: float, step: float) -> int:
    """How many bins reach `maximum`; refused when no memory would hold them."""
    bins = max(1, int(np.ceil(maximum / step - 1e-9)))
    if bins > 50_000_000:
        raise InputError(
            f"{bins:,} bins of {format_duration(step)} up to {format_duration(maximum)} are too "
            "many: take longer bins or a shorter maximum"
        )
    return bins


def positive(name: str, value: float) -> float:
    number = float(value)
    if not (np.isfinite(number) and number > 0):
        raise InputError(f"{name} must be a finite number of days above zero, not {value!r}")
    return number


# -- From the age distribution G to intervals: F = 1 − g/g(0) and E[U] = 1/g(0). Li, IV.E ---------
#
# A derivative of an estimate is noise when it looks too near, and wrong when it looks too far. The
# step h decides, and figure 9 of Li finds it where E[U] stays the same for smaller and larger h.


def interval_curve(
    curve: AgeCurve, h: float | None = None, points: int = 5
) -> tuple[Floats, Floats, float, tuple[str, ...]]:
    """F at multiples of h, and the mean interval: ``(x, interval_cdf, mean_days, notes)``.

    g comes from `points` values of G spaced h apart: at 0 all of them lie to the right, elsewhere
    as many left as right, as far as the curve reaches. Without an h, that of `flat_region`.

    F is cut to [0, 1] and made monotone by the nearest rising curve in the sense of least squares
    (pool adjacent violators), which keeps its level where noise goes up and down; F(0) is 0.

    >>> x = np.linspace(0.01, 10, 1000)
    >>> exponential = AgeCurve("m2", x, 1 - np.exp(-x / 2), 10_000, 0.01)
    >>> at, F, mean, notes = interval_curve(exponential, h=0.2)
    >>> round(mean, 3), F[10].round(2), round(1 - np.exp(-1), 2).item()
    (2.0, np.float64(0.63), 0.63)
    """
    from scipy.optimize import isotonic_regression

    _check(curve, points)
    notes = list(curve.notes)
    if h is None:
        h, noise = flat_region(curve, points)
        notes.append(f"differentiated with {points} points, h = {h:.4g} d from the flat region")
        if noise > 0.1:
            notes.append(
                f"the mean interval is uncertain: its noise alone is about {format_share(noise, 0)}"
            )
    elif positive("h", h) < curve.resolution * (1 - 1e-9):
        notes.append(f"h = {h:g} d is below the data's resolution, {curve.resolution:.4g} d: noise")
    steps = int(curve.x[-1] / h * (1 + 1e-9))
    if steps < points - 1:
        raise InputError(
            f"h = {h:g} d is too long: {points} points must fit into the curve's {curve.x[-1]:g} d"
        )
    x = h * np.arange(steps + 1, dtype=np.float64)
    G = curve.age_cdf(x)
    mean = float(mean_by_step(curve, h, points)[()])
    if not 0 < mean < np.inf:
        raise EstimationError(
            f"G does not rise at 0 when looked at in steps of {h:g} d: take a longer h"
        )
    raw = np.clip(1.0 - mean * _slopes(G, h, points), 0.0, 1.0)
    raw[0] = 0.0
    F = np.clip(isotonic_regression(raw).x, 0.0, 1.0)
    return x, F, mean, tuple(notes)


def mean_by_step(curve: AgeCurve, h: ArrayLike, points: int = 5) -> Floats:
    """E[U] = 1/g(0) by the one-sided difference of each step h, Li's figure 9a.

    Infinite where the difference is not positive.
    """
    steps = np.asarray(h, np.float64)
    weights = difference_weights(0, points)
    slope = curve.age_cdf(np.arange(points) * steps[..., None]) @ weights / steps
    with np.errstate(divide="ignore"):
        return np.where(slope > 0, 1.0 / slope, np.inf)


def flat_region(curve: AgeCurve, points: int = 5) -> tuple[float, float]:
    """The h at which E[U] depends on h the least, and the relative noise of E[U] there.

    Steps are halved from the longest that fits down to the data's resolution, and no further
    (errata L-12). Taken is the step at which the change of E[U] on halving, plus twice the sampling
    noise, is least: a region is flat only beyond its noise.
    """
    _check(curve, points)
    longest = float(curve.x[-1]) / (points - 1)
    halvings = max(0.0, 2 * math.log2(longest / curve.resolution))
    h = longest * 2.0 ** (-np.arange(int(halvings + 1e-9) + 1) / 2)
    means = mean_by_step(curve, h, points)
    finer = mean_by_step(curve, np.maximum(h / 2, curve.resolution), points)
    usable = np.isfinite(means) & np.isfinite(finer)
    if not usable.any():
        raise EstimationError("G does not rise at 0, so no mean interval can be read from it")
    h, means, finer = h[usable], means[usable], finer[usable]
    noise = _relative_noise(curve, h, means, points)
    best = int(np.argmin(np.abs(means - finer) / finer + 2 * noise))
    return float(h[best]), float(noise[best])


def difference_weights(place: int, points: int) -> Floats:
    """Weights of values at 0, 1, …, points − 1 for the slope at `place`, exact to that degree.

    >>> difference_weights(0, 3).round(12)
    array([-1.5,  2. , -0.5])
    """
    powers = np.arange(points, dtype=np.float64)
    slope = np.zeros(points)
    slope[1] = 1.0
    weights = np.linalg.solve((powers - place) ** powers[:, None], slope)
    return np.asarray(weights, np.float64)


def _slopes(G: Floats, h: float, points: int) -> Floats:
    half = points // 2
    slopes = np.convolve(G, difference_weights(half, points)[::-1], mode="same")
    last = G.size - 1
    for place in range(half):
        slopes[place] = G[:points] @ difference_weights(place, points)
        slopes[last - place] = G[-points:] @ difference_weights(points - 1 - place, points)
    return slopes / h


def _relative_noise(curve: AgeCurve, h: Floats, means: Floats, points: int) -> Floats:
    """Standard error of 1/E[U] over its size, as if observations were independent."""
    weights = difference_weights(0, points)
    if curve.counts is None:
        # Counts of disjoint steps are nearly independent, each about n·h/E[U].
        tails = np.cumsum(weights[::-1])[::-1][1:]
        noise = np.sqrt((tails**2).sum() * means / h / curve.observations)
    else:
        at = np.arange(points) * h[:, None]
        G = np.clip(curve.age_cdf(at), 0.0, 1.0)
        pairs = np.interp(at, curve.x, curve.counts)
        noise = np.sqrt((weights**2 * G * (1 - G) / pairs).sum(axis=1)) * means / h
    return np.asarray(noise, np.float64)


def _check(curve: AgeCurve, points: int) -> None:
    if points < 2:
        raise InputError(f"a difference needs two points or more, not {points}")
    if not (curve.values > 0).any():
        raise EstimationError("no change was seen, so nothing can be said about intervals")


# -- A measured age curve as a process: the nearest source that could have made it ----------------


_MOST_POINTS = 400
_CELLS = 150


def nearest_concave(
    x: ArrayLike, age_cdf: ArrayLike, weights: ArrayLike | None = None
) -> AgeHistogram:
    """Find the source whose G is nearest to a measured curve, by least squares.

    A measured curve need be neither concave nor reach 1; that of a stationary source is and does.
    What is missing to 1 at the last x is put beyond it, where nothing was seen. `weights` say how
    much each point counts. Without noise the curve itself comes back:

    >>> at = np.linspace(0.05, 20, 400)
    >>> source = nearest_concave(at, 1 - np.exp(-at))
    >>> print(source.age_cdf(np.array([0.5, 1.0, 3.0])).round(3), round(source.mean, 2))
    [0.393 0.632 0.95 ] 0.98
    """
    from scipy.optimize import nnls

    points, G = np.asarray(x, np.float64), np.asarray(age_cdf, np.float64)
    counts = np.ones(len(points)) if weights is None else np.asarray(weights, np.float64)
    points, G, counts = _thinned(points, G, counts)
    edges = np.append(0.0, np.geomspace(points[0], points[-1] * 1.0001, _CELLS))
    edges = np.append(edges, points[-1] * np.array([2.0, 4.0, 16.0, 64.0]))
    scale = np.sqrt(counts / counts.max())
    closing = 10.0 * np.sqrt(len(points))  # the weights must add up to 1
    matrix = np.vstack([_shapes(points, edges) * scale[:, None], np.full(len(edges) - 1, closing)])
    share, _ = nnls(matrix, np.append(G * scale, closing), maxiter=100 * len(edges))
    return AgeHistogram(edges, share / (edges[1:] + edges[:-1]))


def _shapes(x: Floats, edges: Floats) -> Floats:
    """G of a source whose intervals all lie in one cell, for each cell."""
    low, high = edges[:-1], edges[1:]
    width = high - low
    inside = np.clip(x[:, None] - low, 0.0, width)
    lasted = np.minimum(x[:, None], low) + inside - inside**2 / (2.0 * width)
    return np.asarray(lasted / ((low + high) / 2.0))


def _thinned(x: Floats, G: Floats, counts: Floats) -> tuple[Floats, Floats, Floats]:
    """Few enough points, evenly spread over the logarithm of x; the first and last stay."""
    if len(x) <= _MOST_POINTS:
        return x, G, counts
    wanted = np.geomspace(x[0], x[-1], _MOST_POINTS)
    at = np.unique(np.minimum(np.searchsorted(x, wanted * (1 - 1e-12)), len(x) - 1))
    if np.ptp(counts) == 0.0:
        return x[at], G[at], counts[at]
    total = np.add.reduceat(counts, at)  # bins are averaged, so that no pair is lost
    return (
        np.add.reduceat(x * counts, at) / total,
        np.add.reduceat(G * counts, at) / total,
        total,
    )


# -- One face for what the methods give: a measured curve or a fitted process ---------------------
#
# Each has G (`age_cdf`), F (`interval_cdf`, NaN where the visits cannot show it), the mean
# interval, and itself as a process.


class Model(Protocol):
    """What an estimate is made of."""

    @property
    def mean(self) -> float:
        """Days; NaN where the visits cannot show it."""

    @property
    def identified(self) -> bool:
        """Whether F and the mean can be known at all."""

    def age_cdf(self, x: ArrayLike) -> Floats: ...

    def integrated_age_sf(self, x: ArrayLike) -> Floats: ...

    def interval_cdf(self, x: ArrayLike) -> Floats: ...

    def hazard(self, x: ArrayLike) -> Floats: ...

    def process(self) -> Process: ...


@dataclass(frozen=True, eq=False)
class CurveModel:
    """G as a method of Li measured it, and F as read from it."""

    curve: AgeCurve
    interval_x: Floats | None
    """Where F is known; None where it is not identified."""
    interval_values: Floats | None
    mean: float

    @property
    def identified(self) -> bool:
        return self.interval_values is not None

    def age_cdf(self, x: ArrayLike) -> Floats:
        return self.curve.age_cdf(x)

    def integrated_age_sf(self, x: ArrayLike) -> Floats:
        at = np.asarray(x, np.float64)
        knots = np.append(0.0, self.curve.x)
        values = 1.0 - np.append(0.0, self.curve.values)
        whole = np.append(0.0, np.cumsum(np.diff(knots) * (values[1:] + values[:-1]) / 2.0))
        cell = np.searchsorted(knots, at, side="right") - 1
        here = np.interp(at, knots, values)
        return np.asarray(whole[cell] + (values[cell] + here) / 2.0 * (at - knots[cell]))

    def interval_cdf(self, x: ArrayLike) -> Floats:
        at = np.asarray(x, np.float64)
        if self.interval_x is None or self.interval_values is None:
            return np.full(at.shape, np.nan)
        return np.asarray(np.interp(at, self.interval_x, self.interval_values))

    def hazard(self, x: ArrayLike) -> Floats:
        return local_hazard(self.interval_cdf, x)

    def process(self) -> Process:
        return nearest_concave(self.curve.x, self.curve.values, self.curve.counts)


@dataclass(frozen=True, eq=False)
class ProcessModel:
    """A fitted process: a formula, or the histogram of `concave`."""

    fitted: Process
    known: bool = True

    @property
    def mean(self) -> float:
        return float(self.fitted.mean) if self.known else math.nan

    @property
    def identified(self) -> bool:
        return self.known

    def age_cdf(self, x: ArrayLike) -> Floats:
        return np.asarray(self.fitted.age_cdf(np.asarray(x, np.float64)))

    def integrated_age_sf(self, x: ArrayLike) -> Floats:
        return np.asarray(self.fitted.integrated_age_sf(np.asarray(x, np.float64)))

    def interval_cdf(self, x: ArrayLike) -> Floats:
        at = np.asarray(x, np.float64)
        if not self.known:
            return np.full(at.shape, np.nan)
        return np.asarray(self.fitted.interval_cdf(at))

    def hazard(self, x: ArrayLike) -> Floats:
        at = np.asarray(x, np.float64)
        return np.asarray(self.fitted.hazard(at)) if self.known else np.full(at.shape, np.nan)

    def process(self) -> Process:
        return self.fitted


def local_hazard(interval_cdf: Any, x: ArrayLike, factor: float = 1.5) -> Floats:
    """Mean hazard between x/factor and x·factor: the fall of log(1 − F) over it.

    An estimated F has steps, so that a hazard at one point would be 0 or infinite. It is infinite
    where F reaches 1 inside, and not a number where F was 1 before.
    """
    at = np.asarray(x, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        before = np.log1p(-np.asarray(interval_cdf(at / factor)))
        after = np.log1p(-np.asarray(interval_cdf(at * factor)))
        return np.asarray((before - after) / (at * factor - at / factor))
