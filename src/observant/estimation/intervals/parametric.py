"""Formulas for the intervals: exponential, Weibull, Pareto, gamma and lognormal, by likelihood.

The likelihood is that of `concave`: at each visit the last update lies in one window and the next
in another, which has the probability

    1 − G(c) − [1 − G(c + v)] − [1 − G(c + w)] + 1 − G(c + v + w)

for a quiet time c between windows of widths v and w (it follows from Li (5), integrated twice).
So a family is fitted by its age distribution alone. The likelihood is composite: visits between
two changes repeat each other, and the plain AIC would take repetition for evidence. So the
log-likelihood is divided by the dispersion, trace(J H⁻¹) over the number of parameters, with J
from blocks of consecutive visits (Varin and Vidoni 2005): the quasi-AIC of Burnham and Anderson.
Even so a difference of two or three decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import EstimationError, InputError
from observant.estimation.intervals.concave import ConcaveFit, censored_pairs, fit_concave
from observant.processes.gamma import Gamma
from observant.processes.lognormal import Lognormal
from observant.processes.pareto import Pareto
from observant.processes.poisson import Poisson
from observant.processes.weibull import Weibull

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

    from observant.arrays import Floats, Integers
    from observant.processes.base import Process
    from observant.processes.updates import Seed

# Each family by the logarithm of its mean and one number for its shape, free on the whole line.
FAMILIES: dict[str, Callable[[Floats], Process]] = {
    "exponential": lambda p: Poisson(float(np.exp(-p[0]))),
    "weibull": lambda p: Weibull.with_mean(float(np.exp(p[0])), float(np.exp(p[1]))),
    "pareto": lambda p: Pareto.with_mean(float(np.exp(p[0])), 1.0 + float(np.exp(p[1]))),
    "gamma": lambda p: Gamma.with_mean(float(np.exp(p[0])), float(np.exp(p[1]))),
    "lognormal": lambda p: Lognormal.with_mean(float(np.exp(p[0])), float(np.exp(p[1]))),
}
BLOCKS = 30
"""Blocks of consecutive visits from which the dependence of the scores is estimated."""
WIDEST = 4.0
"""A shape beyond e^±4 is a limit of its family, not an estimate."""


@dataclass(frozen=True, eq=False)
class ParametricFit:
    """One family at its likeliest parameters."""

    family: str
    process: Process
    log_likelihood: float
    """Composite, one term for each visit."""
    aic: float
    """−2 log-likelihood / dispersion + 2 parameters."""
    plain_aic: float
    """−2 log-likelihood + 2 parameters: too sure, since visits repeat each other."""
    dispersion: float
    """How many times over the visits repeat each other: the median over the families, 1 or more."""
    ks: float
    """Largest distance between this G and the concave one."""
    p_value: float | None
    """Chance of so large a distance if the family were right; None where not asked for."""
    notes: tuple[str, ...] = ()


def fit_parametric(
    times: ArrayLike,
    changed: ArrayLike,
    ages: ArrayLike | None = None,
    families: Sequence[str] = tuple(FAMILIES),
    *,
    concave: ConcaveFit | None = None,
    replicates: int = 0,
    seed: Seed = None,
) -> list[ParametricFit]:
    """Fit families of intervals to the visits of one source, the best by AIC first.

    With `replicates` (99 is usual), each fit gets a p-value: logs are drawn from the fitted
    process at the same visit times, and both fits and their distance are made again.

    >>> visits = np.cumsum(np.random.default_rng(1).exponential(1.0, 2000))
    >>> updates = Weibull.with_mean(1.0, shape=3.0).sample(visits[-1], seed=2).times
    >>> changed = np.diff(np.searchsorted(updates, visits), prepend=0) > 0
    >>> best = fit_parametric(visits, changed)[0]
    >>> best.family, bool(abs(best.process.mean - 1.0) < 0.05)
    ('weibull', True)
    """
    unknown = [name for name in families if name not in FAMILIES]
    if unknown or not len(families):
        raise InputError(f"unknown families {unknown}; there are {', '.join(FAMILIES)}")
    reference = fit_concave(times, changed, ages) if concave is None else concave
    s = np.asarray(times, np.float64)
    seen = _Seen.of(s, changed, ages)
    rng = np.random.default_rng(seed)
    fits = []
    for name in families:
        parameters, value = _likeliest(name, seen, reference)
        process = FAMILIES[name](parameters)
        effective, doubts = _effective_parameters(name, parameters, seen)
        ks = _distance(process, reference)
        chance = None
        if replicates:
            chance = _p_value(name, process, s, reference, ages is not None, ks, replicates, rng)
        fits.append(
            ParametricFit(
                family=name,
                process=process,
                log_likelihood=value,
                aic=np.nan,  # once the dispersion of all families is known
                plain_aic=2.0 * (len(parameters) - value),
                dispersion=effective / len(parameters),
                ks=ks,
                p_value=chance,
                notes=doubts,
            )
        )
    dispersion = float(np.median([fit.dispersion for fit in fits]))
    fits = [
        replace(
            fit,
            dispersion=dispersion,
            aic=fit.plain_aic + 2.0 * fit.log_likelihood * (1.0 - 1.0 / dispersion),
        )
        for fit in fits
    ]
    return sorted(fits, key=lambda fit: fit.aic)


@dataclass(frozen=True, eq=False)
class _Seen:
    """Quiet times and widths of the windows, one row for each run of visits between changes."""

    quiet: Floats
    narrow: Floats
    wide: Floats
    counts: Floats
    block: Integers

    @classmethod
    def of(cls, times: ArrayLike, changed: ArrayLike, ages: ArrayLike | None) -> _Seen:
        a1, a2, r1, r2 = censored_pairs(times, changed, ages)
        before, after, quiet = a2 - a1, r2 - r1, a1 + r1
        if not (np.isfinite(before) | np.isfinite(after)).any():
            raise EstimationError("no visit found a change, so no formula can be fitted")
        # All visits of a run say the same; r2 + a2 and the next change tell the runs apart.
        run = np.append(0, np.cumsum(np.diff(r1) >= 0.0))
        first = np.append(0, np.flatnonzero(np.diff(run)) + 1)
        counts = np.diff(np.append(first, len(run))).astype(np.float64)
        before, after, quiet = before[first], after[first], quiet[first]
        return cls(
            quiet,
            np.minimum(before, after),
            np.maximum(before, after),
            counts,
            np.arange(len(first)) * BLOCKS // len(first),
        )

    def log_chances(self, process: Process) -> Floats:
        """Logarithm of the probability of each rectangle; of a density where an update is dated."""
        c, v, w = self.quiet, self.narrow, self.wide
        dated = v == 0.0
        width = np.where(dated, 1.0, v)
        sf = process.age_sf
        chance = sf(c) - sf(c + width) - sf(c + w) + sf(c + width + w)
        exact = process.age_pdf(c) - process.age_pdf(c + w)
        chance = np.where(dated, exact, chance)
        # Small differences of large numbers drown in rounding; narrow windows have a density.
        closed = np.isfinite(w) & (chance < 1e-9 * np.where(dated, process.age_pdf(c), sf(c)))
        if closed.any():
            at = c[closed] + np.where(dated[closed], w[closed], v[closed] + w[closed]) / 2.0
            density = process.interval_pdf(at) / process.mean
            chance[closed] = width[closed] * np.maximum(w[closed], 1e-12) * density
        return np.log(np.maximum(chance, 1e-300))


def _likeliest(name: str, seen: _Seen, reference: ConcaveFit) -> tuple[Floats, float]:
    from scipy.optimize import minimize

    middle = np.log(reference.source.mean)

    def loss(parameters: Floats) -> float:
        beyond = max(0.0, abs(parameters[0] - middle) - 12.0)
        if len(parameters) > 1:
            beyond += max(0.0, abs(parameters[1]) - WIDEST)
        if beyond > 0.0:
            inside = np.clip(
                parameters,
                [middle - 12.0, -WIDEST][: len(parameters)],
                [middle + 12.0, WIDEST][: len(parameters)],
            )
            return loss(inside) + 1e3 * float(beyond)
        try:
            chances = seen.log_chances(FAMILIES[name](parameters))
        except InputError:
            return 1e12
        return -float(seen.counts @ chances)

    start = np.array([middle] if name == "exponential" else [middle, 0.0])
    simplex = np.vstack([start, start + 0.5 * np.eye(len(start))])
    answer = minimize(
        loss,
        start,
        method="Nelder-Mead",
        options={"initial_simplex": simplex, "xatol": 1e-4, "fatol": 1e-3, "maxfev": 400},
    )
    return np.asarray(answer.x, np.float64), -float(answer.fun)


def _effective_parameters(
    name: str, parameters: Floats, seen: _Seen, step: float = 1e-2
) -> tuple[float, tuple[str, ...]]:
    """trace(J H⁻¹): J from sums of scores over blocks, H from second differences."""
    size = len(parameters)
    if size > 1 and abs(parameters[1]) > WIDEST - 0.5:
        return float(size), (f"the shape of {name} ran to its limit: another family fits better",)

    def terms(shift: Floats) -> Floats:
        return seen.counts * seen.log_chances(FAMILIES[name](parameters + shift))

    axes = np.eye(size) * step
    ahead, behind = [terms(axis) for axis in axes], [terms(-axis) for axis in axes]
    scores = np.array([(up - down) / (2.0 * step) for up, down in zip(ahead, behind, strict=True)])
    sums = np.array([np.bincount(seen.block, score) for score in scores])
    sums -= sums.mean(axis=1, keepdims=True)
    variability = sums @ sums.T
    here = terms(np.zeros(size)).sum()
    curvature = np.empty((size, size))
    for i in range(size):
        curvature[i, i] = -(ahead[i].sum() - 2.0 * here + behind[i].sum()) / step**2
        for j in range(i):
            mixed = sum(
                a * b * terms(a * axes[i] + b * axes[j]).sum() for a in (1, -1) for b in (1, -1)
            )
            curvature[i, j] = curvature[j, i] = -mixed / (4.0 * step**2)
    if np.linalg.eigvalsh(curvature).min() <= 0.0:
        return float(size), ("the likelihood is flat: the plain penalty of AIC was used",)
    return max(float(np.trace(np.linalg.solve(curvature, variability))), float(size)), ()


def _distance(process: Process, reference: ConcaveFit) -> float:
    """Largest |G − Ĝ| over the times that the visits resolve."""
    low = max(reference.identified_from, 1e-3 * reference.source.mean)
    at = np.geomspace(low, max(float(reference.source.edges[-1]), 2.0 * low), 400)
    return float(np.abs(process.age_cdf(at) - reference.age_cdf(at)).max())


def _p_value(
    name: str,
    process: Process,
    times: Floats,
    reference: ConcaveFit,
    dated: bool,
    ks: float,
    replicates: int,
    rng: np.random.Generator,
) -> float:
    """Share of logs drawn from the fitted process that lie as far from their own concave fit."""
    from_start = times - times[0]
    as_far, drawn = 1, 1
    for _ in range(replicates):
        updates = process.sample(float(from_start[-1]), seed=rng).times
        count = np.searchsorted(updates, from_start, side="right")
        changed = np.diff(count, prepend=0) > 0
        ages = None
        if dated:
            last = np.append(np.nan, updates)[count]
            ages = from_start - last
        try:
            concave = fit_concave(times, changed, ages, smoothing=reference.smoothing)
            parameters, _ = _likeliest(name, _Seen.of(times, changed, ages), concave)
        except EstimationError:
            continue
        drawn += 1
        as_far += _distance(FAMILIES[name](parameters), concave) >= ks
    return as_far / drawn
