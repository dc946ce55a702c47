"""The parts of the shape-constrained EM: histogram, rectangles of evidence, mixture weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from observant.errors import InputError
from observant.processes.base import floats, positive
from observant.processes.renewal import Renewal

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Floats


# -- A source whose intervals have a histogram for a density: F is made of straight lines ---------


@dataclass(frozen=True, eq=False)
class AgeHistogram(Renewal):
    """Intervals drawn evenly from the cell between two edges, the cell with its probability.

    G is a mixture of uniform ages, so it is concave; F is piecewise linear, so there is a hazard.

    >>> source = AgeHistogram([0.0, 1.0, 3.0], [0.5, 0.5])
    >>> source.mean, source.interval_cdf(2.0), source.age_cdf(1.0)
    (1.25, 0.75, 0.6)
    """

    edges: Floats
    probability: Floats

    if TYPE_CHECKING:
        _survival: Floats
        _ahead: Floats
        _waited: Floats
        _slope: Floats

    def __init__(self, edges: ArrayLike, probability: ArrayLike) -> None:
        at, mass = floats(edges), floats(probability)
        if at.ndim != 1 or mass.shape != (len(at) - 1,) or not len(mass):
            raise InputError("a histogram needs one edge more than cells")
        if not (at[0] >= 0.0 and np.all(np.diff(at) > 0.0) and np.isfinite(at[-1])):
            raise InputError("the edges of a histogram must be finite, ascending, not negative")
        if not (np.all(mass >= 0.0) and 0.0 < mass.sum() < np.inf):
            raise InputError("the probabilities of a histogram must not be negative, nor all zero")
        if at[0] > 0.0:
            at, mass = np.append(0.0, at), np.append(0.0, mass)
        mass = mass / mass.sum()
        width = np.diff(at)
        survival = np.append(np.cumsum(mass[::-1])[::-1], 0.0)
        ahead = np.append(np.cumsum(((survival[1:] + survival[:-1]) / 2.0 * width)[::-1])[::-1], 0)
        slope = np.append(mass / width, 0.0)
        waited = ahead[:-1] * width - survival[:-1] * width**2 / 2.0 + slope[:-1] * width**3 / 6.0
        for name, value in (
            ("edges", at),
            ("probability", mass),
            ("_survival", survival),  # 1 − F at each edge,
            ("_ahead", ahead),  # its integral from there on,
            ("_waited", np.append(0.0, np.cumsum(waited))),  # and the integral of that from 0
            ("_slope", slope),
        ):
            object.__setattr__(self, name, value)

    @property
    def mean(self) -> float:
        return float(self._ahead[0])

    @property
    def mean_age(self) -> float:
        return float(self._waited[-1]) / self.mean

    def scaled(self, factor: float) -> AgeHistogram:
        return AgeHistogram(self.edges * positive("factor", factor), self.probability)

    def quantile(self, q: ArrayLike) -> Floats:
        """Shortest length that a share q of the intervals does not exceed."""
        share = np.asarray(q, np.float64)
        if np.any((share < 0.0) | (share > 1.0) | np.isnan(share)):
            raise InputError("a quantile is asked for by a share between 0 and 1")
        below = np.append(0.0, np.cumsum(self.probability))
        filled = np.flatnonzero(self.probability)
        # The cell in which F reaches q; rounding of the sum may leave a share beyond the last.
        place = np.searchsorted(below[1:][filled], share, side="left")
        cell = filled[np.minimum(place, len(filled) - 1)]
        within = np.clip((share - below[cell]) / self.probability[cell], 0.0, 1.0)
        answer = self.edges[cell] + within * np.diff(self.edges)[cell]
        return np.asarray(answer, np.float64)[()]

    def _cell(self, x: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        k = np.searchsorted(self.edges, x, side="right") - 1
        y = np.where(k < len(self.probability), x - self.edges[k], 0.0)
        return y, self._survival[k], self._slope[k], self._ahead[k], self._waited[k]

    def _sf(self, x: Floats) -> Floats:
        y, survival, slope, _, _ = self._cell(x)
        return np.maximum(survival - slope * y, 0.0)

    def _pdf(self, x: Floats) -> Floats:
        return self._cell(x)[2]

    def _hazard(self, x: Floats) -> Floats:
        survival = self._sf(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(survival > 0.0, self._pdf(x) / survival, np.inf)

    def _age_sf(self, x: Floats) -> Floats:
        y, survival, slope, ahead, _ = self._cell(x)
        return np.maximum(ahead - survival * y + slope * y**2 / 2.0, 0.0) / self.mean

    def _integrated_age_sf(self, x: Floats) -> Floats:
        y, survival, slope, ahead, waited = self._cell(x)
        return (waited + ahead * y - survival * y**2 / 2.0 + slope * y**3 / 6.0) / self.mean

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        cell = rng.choice(len(self.probability), shape, p=self.probability)
        return self.edges[cell] + np.diff(self.edges)[cell] * rng.random(shape)

    def _draw_residuals(self, rng: np.random.Generator, sources: int) -> Floats:
        low, high = self.edges[:-1], self.edges[1:]
        hit = self.probability * (low + high)
        cell = rng.choice(len(hit), sources, p=hit / hit.sum())
        length = np.sqrt(low[cell] ** 2 + rng.random(sources) * (high**2 - low**2)[cell])
        return length * (1.0 - rng.random(sources))


# -- What visits say about the interval around them: where it began, where it ended ---------------
#
# An age in [a1, a2) and a residual life in (r1, r2] put the last update into a window of width a2 −
# a1, the next one into a window of width r2 − r1, with a quiet time of a1 + r1 between. An interval
# of length θ fits in |[a1, a2) ∩ [θ − r2, θ − r1)| ways, so only the quiet time and the two widths
# matter, and all visits between two changes say the same.


FOLDS = 5
STRETCHES = 10
"""Most stretches of consecutive visits per fold of the cross-validation; fewer when short."""


@dataclass(frozen=True, eq=False)
class Rectangles:
    """Distinct quiet times and widths, the narrower window first, and how often each was seen."""

    quiet: Floats
    narrow: Floats
    wide: Floats
    counts: Floats
    """One row a rectangle, one column a fold of the cross-validation."""

    @property
    def total(self) -> Floats:
        return np.asarray(self.counts.sum(axis=1), np.float64)

    def thinned(self, most: int) -> Rectangles:
        """At most so many of the rectangles, evenly chosen."""
        rows = np.arange(0, len(self.quiet), -(-len(self.quiet) // most))
        return Rectangles(self.quiet[rows], self.narrow[rows], self.wide[rows], self.counts[rows])

    @property
    def gap(self) -> Floats:
        """Shortest distance between visits in the rectangle; zero where an update is dated."""
        return np.minimum(self.narrow, np.where(self.quiet > 0.0, self.quiet, self.wide))

    @property
    def longest(self) -> float:
        """Longest interval the data ask for."""
        narrow = np.where(np.isfinite(self.narrow), self.narrow, self.quiet)
        wide = np.where(np.isfinite(self.wide), self.wide, 0.0)
        return float((self.quiet + narrow + wide).max())


def folded(
    quiet: Floats, before: Floats, after: Floats, weights: Floats, unit: float
) -> Rectangles:
    """Collect equal rectangles; times closer than a billionth of `unit` are equal."""
    step = 1e-9 * unit
    table = np.column_stack([quiet, np.minimum(before, after), np.maximum(before, after)])
    table = np.round(table / step)
    order = np.lexsort(table.T)
    ordered = table[order]
    fresh = np.ones(len(order), bool)
    fresh[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    index = np.empty(len(order), np.int64)
    index[order] = np.cumsum(fresh) - 1
    # Visits that saw the same interval stay together, or they would predict one another.
    seen = np.append(0, np.cumsum(index[1:] != index[:-1]))
    stretches = FOLDS * min(STRETCHES, 1 + int(seen[-1]) // (4 * FOLDS))
    fold = seen * stretches // (int(seen[-1]) + 1) % FOLDS
    counts = np.bincount(index * FOLDS + fold, weights, minlength=int(fresh.sum()) * FOLDS)
    quiet, narrow, wide = (ordered[fresh] * step).T
    return Rectangles(quiet, narrow, wide, floats(counts.reshape(-1, FOLDS)))


def fitting(rectangles: Rectangles, edges: Floats) -> Floats:
    """Mean ways in which an interval drawn evenly from each cell fits each rectangle.

    A trapezium in θ: it rises over the narrower width, stays, and falls over it again. The top is
    set to 1, so that a date of zero width is as good as any; where both windows are open it rises
    for ever.
    """
    out = np.empty((len(rectangles.quiet), len(edges) - 1))
    block = max(1, (1 << 22) // len(edges))
    for low in range(0, len(out), block):
        rows = slice(low, low + block)
        x = edges - rectangles.quiet[rows, None]
        narrow, wide = rectangles.narrow[rows, None], rectangles.wide[rows, None]
        open_both = np.isinf(narrow)
        width = np.where(open_both | (narrow == 0.0), 1.0, narrow)
        rise = np.clip(x, 0.0, np.where(open_both, np.inf, narrow))
        ways = np.where(narrow == 0.0, 0.0, rise**2 / (2.0 * width))
        flat = np.clip(x - np.where(open_both, np.inf, narrow), 0.0, None)
        ways += np.minimum(flat, np.where(np.isinf(wide), np.inf, wide - narrow_or_zero(narrow)))
        fall = np.clip(x - wide, 0.0, narrow_or_zero(narrow))
        ways += fall - fall**2 / (2.0 * width)
        out[rows] = np.maximum(np.diff(ways, axis=1), 0.0)
    out /= np.diff(edges)
    return out


def narrow_or_zero(narrow: Floats) -> Floats:
    """The width of a closed window."""
    return np.where(np.isinf(narrow), 0.0, narrow)


# -------------------------------------------------------------------------------------------------
# The weights of a mixture that make the data likeliest: a convex problem, solved to its optimum
#
# A few EM passes find the region; then Newton steps, each a least-squares problem with weights that
# must not be negative (Wang 2007, the constrained Newton method), with a line search so that no
# step loses likelihood. The answer is checked: at the optimum no component's gradient exceeds 1.


EM_PASSES = 30
# Components this far below the optimality bound, and without weight, sit a Newton step out.
IDLE = 0.2


class Weights(NamedTuple):
    """Weights on the simplex, and how far they are from the optimum."""

    weights: Floats
    log_likelihood: float
    iterations: int
    excess: float
    """Largest gradient above 1, of the mean log-likelihood; 0 at the optimum."""


def likeliest_weights(
    likelihood: Floats,
    counts: Floats,
    *,
    start: Floats | None = None,
    max_iterations: int = 100,
    tolerance: float = 1e-6,
) -> Weights:
    """Maximise Σ counts·log(likelihood @ w) over w ≥ 0 with Σ w = 1.

    Rows are observations, columns components. Every row must have a positive entry.

    >>> answer = likeliest_weights(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([3.0, 1.0]))
    >>> answer.weights.round(6).tolist()
    [0.75, 0.25]
    """
    total, size = float(counts.sum()), likelihood.shape[1]
    even = np.full(size, 1.0 / size)
    # A start that gave a row no chance at all could never be divided by.
    weights = even if start is None else 0.99 * start + 0.01 * even
    for _ in range(EM_PASSES if start is None else 3):
        weights = _em(likelihood, counts, weights, total)
    value, root, excess, iterations = -np.inf, np.sqrt(counts), np.inf, 0
    for iterations in range(max_iterations + 1):
        chance = likelihood @ weights
        value = float(counts @ np.log(chance)) - total * float(weights.sum())
        gradient = likelihood.T @ (counts / chance)
        excess = float(gradient.max()) / total - 1.0
        if excess <= tolerance or iterations == max_iterations:
            break
        busy = np.flatnonzero((weights > 1e-10) | (gradient > (1.0 - IDLE) * total))
        target = _newton(likelihood[:, busy] * (root / chance)[:, None], gradient[busy], total)
        step = -weights
        step[busy] += target
        weights = np.maximum(
            weights + _length(likelihood, counts, weights, step, value, total) * step, 0.0
        )
        weights = _em(likelihood, counts, weights, total)
    return Weights(weights, value + total, iterations, max(excess, 0.0))


def _em(likelihood: Floats, counts: Floats, weights: Floats, total: float) -> Floats:
    """One pass of EM: each component takes its share of every observation."""
    shares: Floats = weights * (likelihood.T @ (counts / (likelihood @ weights))) / total
    return floats(shares / shares.sum())


def _newton(scaled: Floats, gradient: Floats, total: float) -> Floats:
    """Maximise the quadratic approximation over w ≥ 0.

    With Σ w charged at its multiplier, the number of observations, the optimum sums to 1 by
    itself.
    """
    from scipy.linalg import cholesky, solve_triangular
    from scipy.optimize import nnls

    curvature = scaled.T @ scaled
    curvature[np.diag_indices_from(curvature)] += 1e-9 * np.trace(curvature) / len(curvature)
    factor = cholesky(curvature)
    aim = solve_triangular(factor, 2.0 * gradient - total, trans=1)
    return np.asarray(nnls(factor, aim, maxiter=100 * len(aim))[0], np.float64)


def _length(
    likelihood: Floats, counts: Floats, weights: Floats, step: Floats, value: float, total: float
) -> float:
    """Halve the step until it gains."""
    chance, change = likelihood @ weights, likelihood @ step
    mass, growth = float(weights.sum()), float(step.sum())
    length = 1.0
    while length > 1e-9:
        reached = chance + length * change
        if reached.min() > 0.0:
            gained = float(counts @ np.log(reached)) - total * (mass + length * growth) - value
            if gained >= 0.0:
                return length
        length /= 2.0
    return 0.0
