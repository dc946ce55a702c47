"""The collection as prior: what a source's neighbours say when its own visits are few.

A rate λ is drawn from an unknown distribution g over the collection, a history from λ. On a grid
of log-rates, g is estimated from all histories by maximum marginal likelihood (empirical Bayes):

    maximise Σᵢ log Σₖ gₖ Lᵢ(λₖ),   Lᵢ(λ) = λ^(dated changes) e^(−λ · quiet) Π (1 − e^(−λt))

`pooled` lets g be any mixture of bumps of width `SMOOTHNESS` on the grid (Kiefer and Wolfowitz's
nonparametric estimator, made smooth so that its intervals can be believed; a convex problem, solved
by EM). `pooled-gamma` takes a Gamma distribution. Each source then has the posterior
pᵢₖ ∝ gₖ Lᵢ(λₖ): its means, its quantiles, and the whole of it for planning. The rate reported is
exp(E[log λ]), the best guess when errors count by their ratio; the mean of λ itself is beside it.

**Trust.** Real sources change in bursts and drift, so their visits say less about the rate to come
than the Poisson likelihood claims. `pooled` raises Lᵢ to a power, the trust, between ½ and 1: the
one with which the first half of each history, over the collection, best predicts the second. On
Poisson sources it comes out as 1.

Groups (hosts, folders, tags) have priors of their own, each shrunk towards that of the whole
collection as if `strength` more sources of the parent belonged to it.

A collection from which the sources that never changed were removed is fitted by the likelihood of
what is left, Lᵢ / P(at least one change), when `zero_truncated` is set.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import EstimationError
from observant.estimation.evidence import CHANGED, DATED, Evidence
from observant.estimation.rates import RateTable, rate_table, run_blocks
from observant.estimation.score import Totals

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from observant.visits import VisitLog

__all__ = ["Prior", "RatePosterior", "estimate_pooled", "fit_gamma", "fit_mixture", "rate_grid"]

POINTS_PER_OCTAVE = 4
SMOOTHNESS = 0.5
"""Width of a bump of the prior, as a standard deviation of log λ."""
STRENGTH = 10.0
"""Sources of the parent that a group's prior starts from."""

_TRUSTS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
_ROUGHNESS_MUST_EARN = 6.0
"""Log-likelihood by which a rough prior must beat a smooth one: its parameters more (Akaike)."""

_SOURCES_TO_FIT = 20_000
_SOURCES_TO_TRUST = 5_000
_SOURCES_OF_A_GROUP = 500


@dataclass(frozen=True, eq=False)
class Prior:
    """Distribution of rates over a collection, on a grid; one row of weights per group."""

    rates: NDArray[np.float64]
    """The grid, updates per day, `POINTS_PER_OCTAVE` to a doubling."""
    weights: NDArray[np.float64]
    """Probability of each rate over the whole collection."""
    groups: tuple[str, ...] = ()
    group_weights: NDArray[np.float64] | None = None
    """Probability of each rate within each group."""
    log_likelihood: float = np.nan
    """Mean log marginal likelihood of a source, for comparing priors on one log."""
    gamma: tuple[float, float] | None = None
    """Shape and rate of the Gamma prior, where one was fitted."""
    trust: float = 1.0
    """Power of the likelihood in the posterior."""


@dataclass(frozen=True, eq=False)
class RatePosterior:
    """The posterior of every source's rate: `weights` gives it on the grid, block by block."""

    rates: NDArray[np.float64]
    prior: Prior
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    log_mean: NDArray[np.float64]
    """Exponential of the mean of log λ: the best guess when errors count by their ratio."""
    _log: VisitLog = field(repr=False)
    _group: NDArray[np.int64] | None = field(repr=False)
    _use_first_age: bool = field(repr=False)

    def __len__(self) -> int:
        return len(self.mean)

    def weights(self, first: int = 0, last: int | None = None) -> NDArray[np.float64]:
        """Probability of each grid rate for the sources ``first:last``, one row a source."""
        last = len(self) if last is None else last
        evidence = Evidence.from_log(self._log, first, last, use_first_age=self._use_first_age)
        group = None if self._group is None else self._group[first:last]
        return _posterior(evidence, self.prior, group)

    def gamma(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Shapes a and rates b of the Gamma distributions with the same means and variances."""
        with np.errstate(divide="ignore", invalid="ignore"):
            b = self.mean / self.variance
        return self.mean * b, b


def estimate_pooled(
    log: VisitLog,
    method: str = "pooled",
    *,
    confidence: float = 0.95,
    notes: list[str] | None = None,
    use_first_age: bool = False,
    zero_truncated: bool = False,
    trust: float | None = None,
    strength: float = STRENGTH,
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> RateTable:
    """Posterior means and quantiles of all rates; see `observant.estimate_rates`."""
    notes = list(log.notes if notes is None else notes)
    sample = _evidence_sample(log, use_first_age=use_first_age)
    if not len(sample.gaps):
        raise EstimationError(
            "no source has two visits that can be compared, so there is nothing to pool"
        )
    rates = rate_grid(sample)
    exposure = Totals.of(sample).time if zero_truncated else None
    if method == "pooled-gamma":
        prior = fit_gamma(grid_likelihood(sample, rates), rates, exposure)
    else:
        trust = learn_trust(sample, rates) if trust is None else trust
        prior = fit_mixture(grid_likelihood(sample, rates, trust), rates, exposure)
        prior = replace(prior, trust=trust)
        if trust < 1:
            notes.append(
                f"a visit counts as {trust:g} of one: histories here predict themselves less well "
                "than those of sources with a constant rate"
            )
    group: NDArray[np.int64] | None = None
    if log.groups is not None and method == "pooled":
        prior, group = _fit_groups(log, prior, strength, use_first_age=use_first_age)
        notes.append(f"{len(prior.groups):,} groups have priors of their own")
    if zero_truncated:
        notes.append("taken as a collection of sources that changed at least once")

    tail = (1 - confidence) / 2

    def one_block(
        evidence: Evidence, _totals: Totals, sources: slice
    ) -> tuple[NDArray[np.float64], ...]:
        own = None if group is None else group[sources]
        weights = _posterior(evidence, prior, own)
        mean = weights @ rates
        variance = np.maximum(weights @ rates**2 - mean**2, np.finfo(float).tiny)
        low, high = grid_quantiles(weights, rates, (tail, 1 - tail))
        return np.exp(weights @ np.log(rates)), low, high, mean, variance

    columns, conflicts = run_blocks(
        log, one_block, use_first_age=use_first_age, threads=threads, progress=progress
    )
    changes, exposure_days, code, log_mean, low, high, mean, variance = columns
    posterior = RatePosterior(
        rates=rates,
        prior=prior,
        mean=mean,
        variance=variance,
        log_mean=log_mean,
        _log=log,
        _group=group,
        _use_first_age=use_first_age,
    )
    return rate_table(
        log,
        [changes, exposure_days, code, log_mean, low, high],
        method,
        confidence,
        conflicts,
        notes,
        posterior,
    )


# -- the likelihood on the grid ------------------------------------------------------------------


def rate_grid(evidence: Evidence) -> NDArray[np.float64]:
    """Rates from well below one update in the longest history to well above one in the shortest
    gap that saw a change, `POINTS_PER_OCTAVE` to a doubling.

    >>> grid = rate_grid(Evidence.from_gaps([1.0, 1.0], [True, False]))
    >>> len(grid), float(grid[0]), float(grid[POINTS_PER_OCTAVE] / grid[0])
    (41, 0.03125, 2.0)
    """
    longest = Totals.of(evidence).time.max()
    shortest = np.min(evidence.gaps[evidence.gaps > 0])
    low = np.floor(np.log2(0.1 / longest))
    high = np.ceil(np.log2(20.0 / shortest))
    # Beyond 40 octaves (12 decades) nothing can be learnt that the ends do not say.
    low = max(low, high - 40)
    return np.asarray(2.0 ** np.arange(low, high + 0.5 / POINTS_PER_OCTAVE, 1 / POINTS_PER_OCTAVE))


def grid_likelihood(
    evidence: Evidence, rates: NDArray[np.float64], trust: float = 1.0
) -> NDArray[np.float64]:
    """Lᵢ(λₖ) to the power `trust`, one row a source, scaled so that its largest value is 1."""
    quiet = np.where(evidence.kind & CHANGED, evidence.ages, evidence.gaps)
    dated = (evidence.kind & (CHANGED | DATED)) == CHANGED | DATED
    undated = (evidence.kind & (CHANGED | DATED)) == CHANGED
    log_l = -np.outer(evidence.sums(quiet), rates)
    log_l += np.outer(evidence.sums(dated.astype(float)), np.log(rates))
    owner = np.repeat(np.arange(len(log_l)), evidence.counts)[undated]
    weight = None if evidence.weight is None else evidence.weight[undated]
    _add_changes(log_l, owner, evidence.gaps[undated], weight, rates)
    log_l -= log_l.max(axis=1, keepdims=True)
    if trust != 1:
        log_l *= trust
    return np.exp(log_l, out=log_l)


def _add_changes(
    log_l: NDArray[np.float64],
    owner: NDArray[np.int64],
    gaps: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    rates: NDArray[np.float64],
) -> None:
    """Add Σ log(1 − e^(−λₖt)) over each source's changes without a date."""
    rows = 1 + (1 << 22) // len(rates)
    for start in range(0, len(gaps), rows):
        part = slice(start, start + rows)
        chance = np.log(-np.expm1(-np.outer(gaps[part], rates)))
        if weight is not None:
            chance *= weight[part, None]
        begins = np.flatnonzero(np.diff(owner[part], prepend=-1))
        log_l[owner[part][begins]] += np.add.reduceat(chance, begins, axis=0)


def grid_quantiles(
    weights: NDArray[np.float64], rates: NDArray[np.float64], levels: tuple[float, ...]
) -> list[NDArray[np.float64]]:
    """Quantiles of each row, with the mass of a grid point spread evenly over its cell of log λ.

    >>> [q.round(3) for q in grid_quantiles(np.array([[0.5, 0.5]]), np.array([1.0, 2.0]), (0.5,))]
    [array([1.414])]
    """
    step = np.log(rates[1] / rates[0])
    below = np.cumsum(weights, axis=1)
    found = []
    for level in levels:
        cell = np.minimum((below < level).sum(axis=1), len(rates) - 1)
        rows = np.arange(len(weights))
        mass = np.maximum(weights[rows, cell], np.finfo(float).tiny)
        into = np.clip((level - (below[rows, cell] - mass)) / mass, 0.0, 1.0)
        found.append(rates[cell] * np.exp((into - 0.5) * step))
    return found


def _posterior(
    evidence: Evidence, prior: Prior, group: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    likelihood = grid_likelihood(evidence, prior.rates, prior.trust)
    weights = prior.weights
    if group is not None and prior.group_weights is not None:
        weights = prior.group_weights[group]
    joint = likelihood * weights
    joint /= joint.sum(axis=1, keepdims=True)
    return joint


# -- fitting the prior ---------------------------------------------------------------------------


def fit_mixture(
    likelihood: NDArray[np.float64],
    rates: NDArray[np.float64],
    exposure: NDArray[np.float64] | None = None,
    *,
    smoothness: float = SMOOTHNESS,
    iterations: int = 1000,
    tolerance: float = 5e-7,
) -> Prior:
    """Nonparametric prior: weights of bumps on the grid, by accelerated EM.

    With `exposure` (observed days of each source) the zero-truncated likelihood is maximised:
    each source stands also for the unseen ones that by chance never changed.
    """
    bumps = _bumps(rates, smoothness)
    under = likelihood @ bumps.T
    silent = None if exposure is None else np.exp(-np.outer(exposure, rates)) @ bumps.T

    def improve(w: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        marginal = under @ w
        new = w * (under / marginal[:, None]).mean(axis=0)
        value = float(np.log(marginal).mean())
        if silent is not None:
            hidden = np.minimum(silent @ w, 1 - 1e-6)
            new += w * (silent / (1 - hidden)[:, None]).mean(axis=0)
            new /= new.sum()
            value -= float(np.log1p(-hidden).mean())
        return new, value

    # Where the visits cannot tell rates apart (all much faster than any visit, or much slower than
    # any history), EM keeps the proportions it starts from. So it starts from a good smooth guess.
    guesses = [fit(likelihood, rates, exposure) for fit in (fit_gamma, fit_lognormal)]
    start = max(guesses, key=lambda prior: prior.log_likelihood).weights @ bumps.T
    smooth = start / start.sum()
    for _ in range(25):
        smooth, smooth_value = improve(smooth)
    rough, rough_value = _accelerated_em(improve, smooth, iterations, tolerance)
    if (rough_value - smooth_value) * len(likelihood) < _ROUGHNESS_MUST_EARN:
        rough, rough_value = smooth, smooth_value
    return Prior(rates=rates, weights=rough @ bumps, log_likelihood=rough_value)


def learn_trust(evidence: Evidence, rates: NDArray[np.float64]) -> float:
    """Find the power of the likelihood with which first halves best predict second halves."""
    chosen = evidence.counts > 1
    chosen &= np.cumsum(chosen) % (1 + np.count_nonzero(chosen) // _SOURCES_TO_TRUST) == 0
    if np.count_nonzero(chosen) < 2:
        return 1.0
    sample = evidence.select(chosen)
    place = np.arange(len(sample.gaps)) - np.repeat(sample.offsets[:-1], sample.counts)
    early = place < np.repeat((sample.counts + 1) // 2, sample.counts)
    first = grid_likelihood(replace(sample, weight=early.astype(np.float64)), rates)
    second = grid_likelihood(replace(sample, weight=(~early).astype(np.float64)), rates)
    whole = grid_likelihood(sample, rates)
    best, best_score = 1.0, -np.inf
    for trust in _TRUSTS:
        prior = fit_mixture(whole**trust, rates).weights
        known = first**trust * prior
        score = float(np.log((known * second).sum(axis=1) / known.sum(axis=1)).sum())
        if score > best_score:
            best, best_score = trust, score
        elif trust < best - 0.15:
            break  # two steps without a gain
    return best


def fit_gamma(
    likelihood: NDArray[np.float64],
    rates: NDArray[np.float64],
    exposure: NDArray[np.float64] | None = None,
) -> Prior:
    """Gamma(a, b) prior by maximum marginal likelihood, taken on the grid."""
    prior, (a, b) = _fit_parametric(
        # λᵃ e^(−bλ) is the density of log λ.
        lambda at: np.exp(at[0]) * np.log(rates) - np.exp(at[1]) * rates,
        [0.0, -np.log(_middle(likelihood, rates))],
        likelihood,
        rates,
        exposure,
    )
    return replace(prior, gamma=(float(np.exp(a)), float(np.exp(b))))


def fit_lognormal(
    likelihood: NDArray[np.float64],
    rates: NDArray[np.float64],
    exposure: NDArray[np.float64] | None = None,
) -> Prior:
    """Lognormal prior by maximum marginal likelihood, taken on the grid."""
    prior, _ = _fit_parametric(
        lambda at: -0.5 * ((np.log(rates) - at[0]) / np.exp(at[1])) ** 2,
        [np.log(_middle(likelihood, rates)), 0.0],
        likelihood,
        rates,
        exposure,
    )
    return prior


def _fit_parametric(
    log_density: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    start: list[float],
    likelihood: NDArray[np.float64],
    rates: NDArray[np.float64],
    exposure: NDArray[np.float64] | None,
) -> tuple[Prior, NDArray[np.float64]]:
    from scipy.optimize import minimize

    silent = None if exposure is None else np.exp(-np.outer(exposure, rates))

    def weights(at: NDArray[np.float64]) -> NDArray[np.float64]:
        density = log_density(at)
        density = np.exp(density - density.max())
        total: NDArray[np.float64] = density / density.sum()
        return total

    def cost(at: NDArray[np.float64]) -> float:
        g = weights(at)
        value = np.log(np.maximum(likelihood @ g, np.finfo(float).tiny)).mean()
        if silent is not None:
            value -= np.log1p(-np.minimum(silent @ g, 1 - 1e-12)).mean()
        return -float(value)

    best = minimize(
        cost,
        start,
        method="Nelder-Mead",
        bounds=[(at - 12.0, at + 12.0) if at else (-4.0, 4.0) for at in start],
        options={"xatol": 1e-4, "fatol": 1e-8, "maxiter": 2000},
    )
    return Prior(rates=rates, weights=weights(best.x), log_likelihood=-float(best.fun)), best.x


def _middle(likelihood: NDArray[np.float64], rates: NDArray[np.float64]) -> float:
    """Return a rate in the middle of the likelihoods, to start a search from."""
    share = likelihood / likelihood.sum(axis=1, keepdims=True)
    return float(np.exp(share.mean(axis=0) @ np.log(rates))) * (1 + 1e-9)


def _fit_groups(
    log: VisitLog, prior: Prior, strength: float, *, use_first_age: bool
) -> tuple[Prior, NDArray[np.int64]]:
    """A prior for each group, from at most `_SOURCES_OF_A_GROUP` of its sources."""
    encoded = log.groups.dictionary_encode()  # type: ignore[union-attr]
    names = tuple(encoded.dictionary.to_pylist())
    group = np.asarray(encoded.indices).astype(np.int64)
    sizes = np.bincount(group, minlength=len(names))
    order = np.argsort(group, kind="stable")
    place = np.empty(len(group), np.int64)
    place[order] = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    chosen = place % (1 + sizes[group] // _SOURCES_OF_A_GROUP) == 0

    bumps = _bumps(prior.rates, SMOOTHNESS)
    fitted = np.empty((len(names), len(prior.rates)))
    taken = np.cumsum(np.bincount(group[chosen], minlength=len(names)))
    first = 0
    while first < len(names):  # some groups at a time, so that memory stays bounded
        before = taken[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(taken, before + 50_000, side="right")))
        part = chosen & (group >= first) & (group < last)
        evidence = Evidence.from_log(log.select(part), use_first_age=use_first_age)
        fitted[first:last] = _shrunken(
            grid_likelihood(evidence, prior.rates, prior.trust),
            group[part] - first,
            last - first,
            bumps,
            prior.weights,
            strength,
        )
        first = last
    return replace(prior, groups=names, group_weights=fitted), group


def _shrunken(
    likelihood: NDArray[np.float64],
    group: NDArray[np.int64],
    groups: int,
    bumps: NDArray[np.float64],
    parent: NDArray[np.float64],
    strength: float,
) -> NDArray[np.float64]:
    """Mixtures of parent and bumps, one per group, with `strength` sources for the parent."""
    order = np.argsort(group, kind="stable")
    begins = np.searchsorted(group[order], np.arange(groups))
    under = np.column_stack([likelihood @ parent, likelihood @ bumps.T])[order]
    own = group[order]
    w = np.full((groups, under.shape[1]), 0.5 / len(bumps))
    w[:, 0] = 0.5
    for _ in range(100):
        share = under * w[own]
        share /= share.sum(axis=1, keepdims=True)
        new = np.add.reduceat(share, begins, axis=0)
        new[:, 0] += strength
        new /= new.sum(axis=1, keepdims=True)
        moved = np.abs(new - w).max()
        w = new
        if moved < 1e-3:
            break
    return np.asarray(w[:, :1] * parent + w[:, 1:] @ bumps)


def _bumps(rates: NDArray[np.float64], smoothness: float) -> NDArray[np.float64]:
    """One row a bump: a normal density in log λ around every second grid point."""
    position = np.log(rates)
    if smoothness == 0:
        return np.eye(len(rates))
    centres = position[:: max(1, POINTS_PER_OCTAVE // 2)]
    bumps = np.exp(-0.5 * ((position - centres[:, None]) / smoothness) ** 2)
    bumps /= bumps.sum(axis=1, keepdims=True)
    return np.asarray(bumps)


def _accelerated_em(
    improve: Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], float]],
    w: NDArray[np.float64],
    iterations: int,
    tolerance: float,
) -> tuple[NDArray[np.float64], float]:
    """EM with squared extrapolation (Varadhan and Roland); never leaves the simplex."""
    best = -np.inf
    for _ in range(iterations // 3):
        w1, before = improve(w)
        w2, _ = improve(w1)
        r, v = w1 - w, (w2 - w1) - (w1 - w)
        size = float(np.linalg.norm(v))
        stretch = max(1.0, float(np.linalg.norm(r)) / size) if size > 0 else 1.0
        leap = np.maximum(w + 2 * stretch * r + stretch**2 * v, 0.0)
        leap /= leap.sum()
        after_leap, value = improve(leap)
        if value < before:
            after_leap, value = improve(w2)
        w = after_leap
        if value - best < tolerance:
            best = max(best, value)
            break
        best = value
    return w, best


def _evidence_sample(log: VisitLog, *, use_first_age: bool) -> Evidence:
    """Evidence of every k-th source in alphabetical order: enough to know the prior well."""
    sources = len(log.sources)
    if sources <= _SOURCES_TO_FIT:
        return _with_evidence(Evidence.from_log(log, use_first_age=use_first_age))
    chosen = np.zeros(sources, bool)
    chosen[np.linspace(0, sources - 1, _SOURCES_TO_FIT).astype(np.int64)] = True
    return _with_evidence(Evidence.from_log(log.select(chosen), use_first_age=use_first_age))


def _with_evidence(evidence: Evidence) -> Evidence:
    return evidence.select(evidence.counts > 0)
