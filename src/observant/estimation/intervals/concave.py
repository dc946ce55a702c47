"""The whole distribution of intervals from any visits, dated or not: concave G by likelihood.

Every visit tells two things: the last update lies in a known window before it, the next one in a
known window after it. Ages of a stationary source have a falling density, so G is concave and a
mixture of uniform ages (one for each length θ of the interval around the visit). The weights of
the mixture are fitted by maximum likelihood, a convex problem with one optimum; intervals follow
without differentiation, since P(U = θ) ∝ w/θ.

The likelihood is a composite one: each visit counts as one observation, although visits between
the same two updates see the same interval. The estimate is consistent; its uncertainty comes from
blocks (`diagnostics.block_bands`). Three choices keep it calm where the data are few:

- θ lives in cells of a geometric grid, so F has a density and no window falls between two atoms.
- Cells are blurred by log-normal kernels, whose width is chosen by cross-validation over stretches
  of consecutive visits. A source like clockwork gets no blur, a bursty one much.
- The slope of G at 0, which is 1/E[U], is charged as in Woodroofe and Sun (1993): a concave
  estimate is inconsistent at 0 otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from observant.errors import EstimationError, InputError
from observant.estimation.intervals.em_parts import (
    FOLDS,
    AgeHistogram,
    Rectangles,
    Weights,
    fitting,
    folded,
    likeliest_weights,
)
from observant.processes.base import Times, floats
from observant.units import counted, format_duration, format_share

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Floats

BLURS = (0.0, 0.1, 0.25, 0.5, 1.0)
"""Standard deviations of log θ that `smoothing="auto"` tries."""
CHARGE = 0.05
"""Charge on the slope of G at 0, times the median gap and n^(−2/3)."""
MOST_COMPARED = 10_000
"""Distinct rectangles on which blurs are compared; more would not choose better."""
FEW = 10
"""Changes below which a fit is a first guess, and says so."""
HIDDEN = 0.2
"""F and the mean count as identified while at most this share of ages is below the resolution."""


class Pairs(NamedTuple):
    """Age in [a1, a2) and residual life in (r1, r2] at each visit; infinite where open."""

    a1: Floats
    a2: Floats
    r1: Floats
    r2: Floats


def censored_pairs(times: ArrayLike, changed: ArrayLike, ages: ArrayLike | None = None) -> Pairs:
    """What the visits to one source say about the age and the residual life at each of them.

    `times` are days in ascending order; `changed` says whether each visit found a change (the
    first entry is ignored); `ages` are days since the last update, NaN where not dated. A dated
    visit has a1 = a2: the age is known.

    >>> pairs = censored_pairs([0, 1, 3, 4], [False, True, False, True])
    >>> pairs.a1.tolist(), pairs.a2.tolist()
    ([0.0, 0.0, 2.0, 0.0], [inf, 1.0, 3.0, 1.0])
    >>> pairs.r1.tolist(), pairs.r2.tolist()
    ([0.0, 2.0, 0.0, 0.0], [1.0, 3.0, 1.0, inf])
    """
    s, found, age = checked_visits(times, changed, ages)
    n = len(s)
    here = np.arange(n)
    hits = np.flatnonzero(found)
    after = np.searchsorted(hits, here, side="right")  # changes up to and at each visit
    last = np.append(-1, hits)[after]
    then = np.append(hits, n)[after]
    begin = np.where(last > 0, s[np.maximum(last, 0)], s[0])
    earliest = np.where(last > 0, s[np.maximum(last - 1, 0)], -np.inf)
    # A date anywhere between two changes tells when the update before it was.
    date = np.full(len(hits) + 1, np.nan)
    dated = np.flatnonzero(~np.isnan(age))
    date[after[dated][::-1]] = (s - age)[dated][::-1]
    known = ~np.isnan(date[after])
    a1 = np.where(known, s - date[after], s - begin)
    a2 = np.where(known, a1, s - earliest)
    # The date of the next change tells the last update of its window, and the residual life ends
    # with the first: to take it for a bound would favour short intervals.
    latest = np.append(s[hits], np.inf)
    r1 = s[np.minimum(then - 1, n - 1)] - s
    r2 = latest[after] - s
    return Pairs(np.maximum(a1, 0.0), np.maximum(a2, 0.0), r1, r2)


def fit_concave(
    times: ArrayLike,
    changed: ArrayLike,
    ages: ArrayLike | None = None,
    *,
    atoms: int = 150,
    smoothing: float | Literal["auto"] = "auto",
    max_iterations: int = 100,
    tolerance: float = 1e-6,
    scale: float | None = None,
) -> ConcaveFit:
    """Fit G and F to the visits of one source, whatever their gaps, dated or not.

    With `scale`, all times are divided by it first: use the mean interval to compare shapes.
    `smoothing` is the blur of log θ; 0 is the plain maximum of the likelihood.

    >>> from observant.processes import Poisson
    >>> visits = np.cumsum(np.random.default_rng(1).exponential(1.0, 2000))
    >>> updates = Poisson(rate=1.0).sample(visits[-1], seed=2).times
    >>> changed = np.diff(np.searchsorted(updates, visits), prepend=0) > 0
    >>> fit = fit_concave(visits, changed)
    >>> bool(abs(fit.age_cdf(1.0) - (1 - np.exp(-1))) < 0.05)
    True
    """
    pairs = censored_pairs(times, changed, ages)
    _, found, _ = checked_visits(times, changed, ages)
    if not found.any() and not (pairs.a1 == pairs.a2).any():
        raise EstimationError(
            f"none of {counted(len(found), 'visit')} found a change, so nothing is known of the "
            "intervals but that they are long; keep visiting, or use a rate with an upper bound"
        )
    unit = 1.0 if scale is None else scale
    if not (np.isfinite(unit) and unit > 0.0):
        raise InputError(f"scale must be a positive number of days, not {scale!r}")
    notes = []
    changes = int(np.count_nonzero(found))
    if changes < FEW:
        notes.append(f"only {counted(changes, 'change')}: this is a first guess")
    if found[1:].all():
        notes.append(
            "every visit found a change: intervals shorter than the gaps cannot be told apart, "
            "and the mean may be much shorter than it seems; visit more often"
        )
    return fit_concave_pairs(
        *(side / unit for side in pairs),
        atoms=atoms,
        smoothing=smoothing,
        max_iterations=max_iterations,
        tolerance=tolerance,
        notes=tuple(notes),
    )


def fit_concave_pairs(
    a1: ArrayLike,
    a2: ArrayLike,
    r1: ArrayLike,
    r2: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    atoms: int = 150,
    smoothing: float | Literal["auto"] = "auto",
    max_iterations: int = 100,
    tolerance: float = 1e-6,
    notes: tuple[str, ...] = (),
) -> ConcaveFit:
    """Fit G and F to pairs of windows, as `censored_pairs` makes them, of one or many sources.

    Concatenate the pairs of sources that share a shape, each divided by its mean interval. Keep
    the visits of a source together: cross-validation leaves out stretches of neighbours.
    """
    rectangles, gap = _rectangles(a1, a2, r1, r2, weights)
    if not (np.isfinite(rectangles.wide) | np.isfinite(rectangles.narrow)).any():
        raise EstimationError("no visit found a change, so nothing is known of the intervals")
    if atoms < 2:
        raise InputError(f"atoms must be at least 2, not {atoms}")
    if smoothing != "auto" and not 0.0 <= smoothing <= 3.0:
        raise InputError(f"smoothing must be 'auto' or between 0 and 3, not {smoothing!r}")
    total = rectangles.total
    finest = weighted_quantile(rectangles.gap, total, 0.05)
    smallest = max(0.1 * weighted_quantile(gap[gap > 0.0], None, 0.05), 1e-7 * rectangles.longest)
    top = max(rectangles.longest, 2.0 * smallest) * 1.0001
    charge = CHARGE * float(np.median(gap)) * total.sum() ** (-2.0 / 3.0)
    edges = np.append(0.0, np.geomspace(smallest, top, atoms))
    limits = max_iterations, tolerance
    blur, best = _chosen(rectangles, edges, charge, smoothing, *limits)
    source = AgeHistogram(edges, best.probability)
    identified = finest == 0.0 or float(source.age_cdf(finest)) <= HIDDEN
    if not identified:
        # Nothing shorter than the finest gap: G is a straight line up to there, and the mean the
        # longest that agrees with the visits.
        edges = np.geomspace(finest, max(top, 2.0 * finest), atoms + 1)
        blur, best = _chosen(rectangles, edges, 0.0, 0.0, *limits)
        source = AgeHistogram(edges, best.probability)
        notes += (
            (
                f"visits do not resolve times below {format_duration(finest)}, where "
                f"{format_share(source.age_cdf(finest), 0)} of the ages lie: G is known from there "
                f"on, but the mean interval only to be at most {format_duration(source.mean)}, and "
                "F only from below; vary the gaps between visits, some of them short"
            ),
        )
    if best.weights.excess > tolerance:
        notes += (
            (
                f"the likelihood was not quite at its maximum after {max_iterations} steps "
                f"(gradient {best.weights.excess:.1e} above the bound)"
            ),
        )
    return ConcaveFit(
        source=source,
        log_likelihood=best.weights.log_likelihood + _constant(rectangles),
        smoothing=blur,
        identified=bool(identified),
        identified_from=finest,
        iterations=best.weights.iterations,
        excess=best.weights.excess,
        notes=notes,
    )


@dataclass(frozen=True, eq=False)
class ConcaveFit:
    """A fitted source: G always; F, its mean, quantiles and hazard where the visits identify them.

    It has what currency and planning ask of a source (`age_cdf`, `integrated_age_sf`), and
    `process()` gives it as a `Process` to simulate.
    """

    source: AgeHistogram
    log_likelihood: float
    """Composite: one term for each visit, also where visits saw the same interval."""
    smoothing: float
    """Standard deviation of the blur of log θ."""
    identified: bool
    """Whether the visits are close enough to tell F and the mean."""
    identified_from: float
    """Shortest time that the visits resolve, in days; 0 where updates are dated."""
    iterations: int
    excess: float
    """How far the gradient exceeds its bound at the optimum; at most the tolerance."""
    notes: tuple[str, ...] = ()

    @property
    def theta(self) -> Floats:
        """Lengths θ of the mixture: the middle of each cell."""
        return (self.source.edges[1:] + self.source.edges[:-1]) / 2.0

    @property
    def weights(self) -> Floats:
        """Weights w of the mixture G(x) = Σ w min(x/θ, 1): share of time in intervals of θ."""
        return self.source.probability * self.theta / self.source.mean

    def age_cdf(self, x: Times) -> Times:
        """G(x)."""
        return self.source.age_cdf(x)

    def integrated_age_sf(self, x: Times) -> Times:
        """∫₀ˣ (1 − G), which is what currency needs."""
        return self.source.integrated_age_sf(x)

    @property
    def mean(self) -> float | None:
        """E[U], or None where it is not identified; see `mean_bounds`."""
        return self.source.mean if self.identified else None

    @property
    def mean_bounds(self) -> tuple[float, float]:
        """What the visits say of E[U] without assuming anything below their resolution.

        By concavity 1/E[U] is at least the slope of G from 0 to the resolution.
        """
        return (self.source.mean, self.source.mean) if self.identified else (0.0, self.source.mean)

    def interval_cdf(self, x: Times) -> Times:
        """F(x); refused where it is not identified."""
        self._must_be_identified()
        return self.source.interval_cdf(x)

    def interval_cdf_bounds(self, x: ArrayLike) -> tuple[Floats, Floats]:
        """Lowest and highest F(x) that agree with G; equal where F is identified."""
        at = np.asarray(x, np.float64)
        low = floats(self.source.interval_cdf(at))
        return low, (low.copy() if self.identified else np.where(at > 0.0, 1.0, low))

    def quantile(self, q: ArrayLike) -> Floats:
        """Shortest length that a share q of the intervals does not exceed."""
        self._must_be_identified()
        return self.source.quantile(q)

    def hazard(self, x: Times) -> Times:
        """f/(1 − F): rate of an update x days after the last one; infinite beyond the longest."""
        self._must_be_identified()
        return self.source.hazard(x)

    def process(self) -> AgeHistogram:
        """The source as a process. Where F is not identified, the one with the longest mean."""
        return self.source

    def _must_be_identified(self) -> None:
        if not self.identified:
            raise EstimationError(
                f"F is not identified: the visits resolve nothing below "
                f"{format_duration(self.identified_from)}. Use age_cdf, interval_cdf_bounds and "
                "mean_bounds, or vary the gaps between visits"
            )


class _Fitted(NamedTuple):
    weights: Weights
    probability: Floats


def _chosen(
    rectangles: Rectangles,
    edges: Floats,
    charge: float,
    smoothing: float | Literal["auto"],
    max_iterations: int,
    tolerance: float,
) -> tuple[float, _Fitted]:
    """Fit with the given blur, or with the one that predicts left-out stretches best."""
    blurs = BLURS if smoothing == "auto" else (smoothing,)
    if smoothing == "auto" and rectangles.total.sum() < 2 * FOLDS:
        blurs = (0.5,)  # too little to leave anything out
    blur = blurs[0]
    if len(blurs) > 1:
        some = rectangles.thinned(MOST_COMPARED)
        scores = []
        for tried in blurs:
            likelihood, _, _ = _likelihood(some, edges, charge, tried)
            fit = likeliest_weights(likelihood, some.total, tolerance=1e-4)
            scores.append(_predicted(likelihood, some, fit))
        blur = blurs[int(np.argmax(scores))]
    likelihood, kernel, length = _likelihood(rectangles, edges, charge, blur)
    fit = likeliest_weights(
        likelihood, rectangles.total, max_iterations=max_iterations, tolerance=tolerance
    )
    probability = kernel @ (fit.weights / length)
    return blur, _Fitted(fit, probability / probability.sum())


def _likelihood(
    rectangles: Rectangles, edges: Floats, charge: float, blur: float
) -> tuple[Floats, Floats, Floats]:
    """Likelihood of each component, its cells, and its mean length with the charge on short ones.

    To divide by θ + charge in place of θ is to charge the slope of G at 0.
    """
    kernel = _kernel(edges, blur)
    length = ((edges[1:] + edges[:-1]) / 2.0 + charge) @ kernel
    likelihood = fitting(rectangles, edges)
    likelihood = (likelihood if blur == 0.0 else likelihood @ kernel) / length
    # A rectangle outside the grid, by rounding, must not forbid everything.
    likelihood[likelihood.max(axis=1) <= 0.0] = 1e-300
    return likelihood, kernel, length


def _predicted(likelihood: Floats, rectangles: Rectangles, full: Weights) -> float:
    """Log-likelihood of each fold under the fit to the others."""
    score = 0.0
    floor = 1e-3 * likelihood.mean(axis=1)
    for fold in range(FOLDS):
        left_out = rectangles.counts[:, fold]
        kept = rectangles.total - left_out
        rows, tried = kept > 0.0, left_out > 0.0
        if not rows.any() or not tried.any():
            continue
        fit = likeliest_weights(likelihood[rows], kept[rows], start=full.weights, tolerance=1e-4)
        chance = 0.999 * (likelihood[tried] @ fit.weights) + floor[tried]
        score += float(left_out[tried] @ np.log(chance))
    return score


def _kernel(edges: Floats, blur: float) -> Floats:
    """Probability of each cell (rows) in each component (columns)."""
    from scipy.special import ndtr

    cells = len(edges) - 1
    if blur == 0.0:
        return np.eye(cells)
    # Two kernels a standard deviation say all that the blur lets through.
    first, last = np.log(edges[1]), np.log(edges[-1])
    centres = np.linspace(first, last, min(cells, int((last - first) / (0.5 * blur)) + 2))
    with np.errstate(divide="ignore"):
        below = ndtr((np.log(edges)[:, None] - centres) / blur)
    kernel = np.diff(below, axis=0)
    return floats(kernel / kernel.sum(axis=0))


def _rectangles(
    a1: ArrayLike, a2: ArrayLike, r1: ArrayLike, r2: ArrayLike, weights: ArrayLike | None
) -> tuple[Rectangles, Floats]:
    """Check the pairs; return their rectangles and the finite widths of their windows."""
    a1, a2, r1, r2 = (np.asarray(side, np.float64).ravel() for side in (a1, a2, r1, r2))
    if not len(a1) == len(a2) == len(r1) == len(r2) or not len(a1):
        raise InputError("pairs need a1, a2, r1 and r2 of the same length, at least one")
    if not (
        np.all((a1 >= 0.0) & (r1 >= 0.0) & (a2 >= a1) & (r2 >= r1))
        and np.isfinite(a1).all()
        and np.isfinite(r1).all()
    ):
        raise InputError("pairs need 0 ≤ a1 ≤ a2 and 0 ≤ r1 ≤ r2, with a1 and r1 finite")
    counts = np.ones(len(a1)) if weights is None else np.asarray(weights, np.float64).ravel()
    if counts.shape != a1.shape or not np.all(counts >= 0.0) or not counts.sum() > 0.0:
        raise InputError("weights must be as many as pairs, not negative and not all zero")
    before, after = a2 - a1, r2 - r1
    widths = np.concatenate([before, after])
    widths = widths[np.isfinite(widths)]
    lengths = np.concatenate([widths, a1 + r1])
    unit = float(np.median(lengths[lengths > 0.0])) if (lengths > 0.0).any() else 0.0
    if unit == 0.0:
        raise InputError("all pairs have length zero; check the times of the visits")
    # An interval known exactly still needs a width to fall into a cell.
    after = np.maximum(after, np.where(before > 0.0, 0.0, 1e-6 * unit))
    positive = widths[widths > 0.0]
    kept = counts > 0.0
    rectangles = folded((a1 + r1)[kept], before[kept], after[kept], counts[kept], unit)
    return rectangles, positive if len(positive) else np.array([unit])


def _constant(rectangles: Rectangles) -> float:
    """Log-likelihood left out of `fitting`: the height of each trapezium, where it has one."""
    height = np.where(np.isfinite(rectangles.narrow), rectangles.narrow, 1.0)
    return float(rectangles.total @ np.log(np.where(height > 0.0, height, 1.0)))


def weighted_quantile(values: Floats, weights: Floats | None, q: float) -> float:
    """Smallest value with at least a share q of the weight at or below it."""
    order = np.argsort(values)
    mass = np.ones(len(values)) if weights is None else weights
    share = np.cumsum(mass[order])
    return float(values[order][np.searchsorted(share, q * share[-1])])


def checked_visits(
    times: ArrayLike, changed: ArrayLike, ages: ArrayLike | None
) -> tuple[Floats, np.ndarray[tuple[int], np.dtype[np.bool_]], Floats]:
    """Check times, changes and ages of one source; the first visit compares with nothing."""
    s = np.asarray(times, np.float64)
    found = np.array(changed, bool)
    age = np.full(s.shape, np.nan) if ages is None else np.array(ages, np.float64)
    if s.ndim != 1 or found.shape != s.shape or age.shape != s.shape:
        raise InputError("times, changed and ages must be flat and of the same length")
    if len(s) < 2:
        raise EstimationError("one visit tells nothing about intervals; at least two are needed")
    if not np.isfinite(s).all():
        raise InputError("times of visits must be finite numbers of days")
    if not np.all(np.diff(s) > 0.0):
        raise InputError("times of visits must ascend, and no two may be the same")
    if np.any(age < 0.0):
        raise InputError("an age must not be negative: the source was updated before the visit")
    found[0] = False
    # A date must lie in the window in which the change was seen; others are set aside.
    window = np.append(np.inf, np.diff(s))
    age[found & (age >= window)] = np.nan
    return s, found, age
