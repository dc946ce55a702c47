"""The distribution of rates over a collection, estimated from all its histories.

On a grid of log-rates, the prior g is the one that makes the histories likeliest (empirical Bayes):

    maximise Σᵢ log Σₖ gₖ Lᵢ(λₖ),   Lᵢ(λ) = λ^(dated changes) e^(−λ · quiet) Π (1 − e^(−λt))

`fit_mixture` lets g be any mixture of bumps of width `SMOOTHNESS` on the grid: Kiefer and
Wolfowitz's nonparametric estimator, made smooth so that its intervals can be believed; a convex
problem, solved by EM. `fit_gamma` and `fit_lognormal` take distributions with two parameters.

A collection from which the sources that never changed were removed is fitted by the likelihood of
what is left, Lᵢ / P(at least one change): give `exposure`, the days each source was observed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.estimation.belief import GRID, OLD_GRID, first_prior, regrid
from observant.estimation.evidence import CHANGED, DATED, Evidence
from observant.estimation.firth import Totals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from observant.arrays import Floats, Integers

__all__ = [
    "FEWEST",
    "Prior",
    "first",
    "fit_collection",
    "fit_gamma",
    "fit_lognormal",
    "fit_mixture",
    "grid_likelihood",
    "rate_grid",
    "shrink_to_parent",
]

POINTS_PER_OCTAVE = 4
SMOOTHNESS = 0.5
"""Width of a bump of the prior, as a standard deviation of log λ."""

_START_WIDTH = 1.5
"""Of a group's first guess, as a standard deviation of log λ."""
FEWEST = 20
"""Fewer sources than this say nothing about a distribution."""
_STEPS = 60
_FLOOR = 1e-3
_ROUGHNESS_MUST_EARN = 6.0
"""Log-likelihood by which a rough prior must beat a smooth one: its parameters more (Akaike)."""


@dataclass(frozen=True, eq=False)
class Prior:
    """Distribution of rates over a collection, on a grid; one row of weights per group."""

    rates: Floats
    """The grid, updates per day, `POINTS_PER_OCTAVE` to a doubling."""
    weights: Floats
    """Probability of each rate over the whole collection."""
    groups: tuple[str, ...] = ()
    group_weights: Floats | None = None
    """Probability of each rate within each group."""
    log_likelihood: float = np.nan
    """Mean log marginal likelihood of a source, for comparing priors on one log."""
    gamma: tuple[float, float] | None = None
    """Shape and rate of the Gamma prior, where one was fitted."""
    lasting: Floats | None = None
    """Log likelihood of each time that rates may last (`lasting.DAYS`), where that was learned."""

    def rows(self) -> Floats:
        """The priors of the collection and of each group, on `belief.GRID`, a row each."""
        every = [self.weights, *(() if self.group_weights is None else self.group_weights)]
        return np.array([regrid(self.rates, row) for row in every])

    def row_of(self, groups: Sequence[str]) -> Integers:
        """The row of each group, given as a path; a group that has none has that of its parent."""
        if not len(self.groups):
            return np.zeros(len(groups), np.int64)
        places = {group: 1 + i for i, group in enumerate(self.groups)}
        known: dict[str, int] = {}
        for group in set(groups):
            parts = [part for part in group.split("/") if part]
            while parts and "/".join(parts) not in places:
                parts.pop()
            known[group] = places.get("/".join(parts), 0) if parts else 0
        return np.array([known[group] for group in groups], np.int64)

    def state(self) -> dict[str, Any]:
        """All of it as plain values that JSON can hold, for `restore`."""
        rows = [] if self.group_weights is None else self.group_weights.tolist()
        return {
            "rates": self.rates.tolist(),
            "weights": self.weights.tolist(),
            "groups": dict(zip(self.groups, rows, strict=True)),
        }

    @classmethod
    def restore(cls, state: Any) -> Prior:
        """A prior that was kept; of a store of version 0.1, the weights alone."""
        if isinstance(state, list):
            return cls(OLD_GRID, np.array(state)) if len(state) == len(OLD_GRID) else first()
        groups = state["groups"]
        return cls(
            np.array(state["rates"]),
            np.array(state["weights"]),
            groups=tuple(groups),
            group_weights=np.array(list(groups.values())) if groups else None,
        )


def first() -> Prior:
    """The prior before anything is learned."""
    return Prior(GRID, first_prior())


def fit_mixture(
    likelihood: Floats,
    rates: Floats,
    exposure: Floats | None = None,
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

    def improve(w: Floats) -> tuple[Floats, float]:
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


def fit_collection(
    likelihood: Floats, exposure: Floats | None = None, *, gamma: bool = False
) -> Prior:
    """The prior of a collection from its likelihoods on `belief.GRID`, for batch and observer.

    A small share stays with the first prior: nothing is impossible.
    """
    low, high = _seen(likelihood)
    if exposure is not None:  # slower sources would all be among those that are left out
        low = max(low, int(np.searchsorted(GRID, 0.1 / exposure.max())))
    seen = slice(low, high + 1)
    part = likelihood[:, seen], GRID[seen], exposure
    found = fit_gamma(*part) if gamma else fit_mixture(*part, iterations=_STEPS, tolerance=1e-5)
    weights = _FLOOR * first_prior()
    weights[seen] += (1 - _FLOOR) * found.weights / found.weights.sum()
    return replace(found, rates=GRID, weights=weights)


def _seen(likelihood: Floats) -> tuple[int, int]:
    """First and last rate that these visits can tell from slower and from faster ones.

    A source that never changed is as likely at any rate below one in its whole history, one that
    always changed at any rate far above its visits. Beyond, a fit would be free to put anything.
    """
    last = likelihood.shape[1] - 1
    best = likelihood.max(axis=1)
    slow, fast = likelihood[:, 0] > 0.5 * best, likelihood[:, last] > 0.5 * best
    left = np.where(slow, likelihood[:, 0] * 0.9, 0.25 * best)[:, None]
    begins = np.where(slow[:, None], likelihood < left, likelihood > left).argmax(axis=1)
    right = np.where(fast, likelihood[:, last] * 0.9, 0.01 * best)[:, None]
    ends = np.where(fast[:, None], likelihood < right, likelihood > right)[:, ::-1].argmax(axis=1)
    # The slowest and the fastest that have shown their rate are within.
    shown = likelihood.argmax(axis=1)[~slow & ~fast]
    low = min(int(begins.min()), int(shown.min(initial=last))) - 1
    high = last - int(np.quantile(ends, 0.1)) + 3 * POINTS_PER_OCTAVE
    low = max(low, 0)
    high = min(max(high, int(shown.max(initial=0)) + POINTS_PER_OCTAVE), last)
    return low, max(high, min(low + 4 * POINTS_PER_OCTAVE, last))


def fit_gamma(likelihood: Floats, rates: Floats, exposure: Floats | None = None) -> Prior:
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


def fit_lognormal(likelihood: Floats, rates: Floats, exposure: Floats | None = None) -> Prior:
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
    log_density: Callable[[Floats], Floats],
    start: list[float],
    likelihood: Floats,
    rates: Floats,
    exposure: Floats | None,
) -> tuple[Prior, Floats]:
    from scipy.optimize import minimize

    silent = None if exposure is None else np.exp(-np.outer(exposure, rates))

    def weights(at: Floats) -> Floats:
        density = log_density(at)
        density = np.exp(density - density.max())
        total: Floats = density / density.sum()
        return total

    def cost(at: Floats) -> float:
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


def _middle(likelihood: Floats, rates: Floats) -> float:
    """Return a rate in the middle of the likelihoods, to start a search from."""
    share = likelihood / likelihood.sum(axis=1, keepdims=True)
    return float(np.exp(share.mean(axis=0) @ np.log(rates))) * (1 + 1e-9)


def shrink_to_parent(
    likelihood: Floats, group: Integers, groups: int, parent: Prior, strength: float
) -> Floats:
    """Mixtures of parent and bumps, one per group, with `strength` sources for the parent.

    Each group ends when it has settled, so that its answer does not depend on the others.
    """
    seen = np.flatnonzero(parent.weights > 2 * _FLOOR * first_prior())  # where the parent's lie
    part = _bumps(parent.rates[seen[0] : seen[-1] + 1], SMOOTHNESS)
    bumps = np.zeros((len(part), len(parent.rates)))
    bumps[:, seen[0] : seen[-1] + 1] = part
    order = np.argsort(group, kind="stable")
    begins = np.searchsorted(group[order], np.arange(groups))
    under = np.column_stack([likelihood @ parent.weights, likelihood @ bumps.T])[order]
    own = group[order]
    # Where the visits cannot tell rates apart, EM keeps the proportions that it starts from: those
    # around the one rate that suits the whole group best.
    logs = np.log(np.maximum(likelihood[order], 1e-300))
    centres = np.log(parent.rates)
    best = centres[np.add.reduceat(logs, begins, axis=0).argmax(axis=1)]
    start = np.exp(-0.5 * ((bumps @ centres - best[:, None]) / _START_WIDTH) ** 2) + 1e-6
    w = np.full((groups, under.shape[1]), 0.5)
    w[:, 1:] = 0.5 * start / start.sum(axis=1, keepdims=True)
    settled = np.zeros(groups, bool)
    for _ in range(100):
        share = under * w[own]
        share /= share.sum(axis=1, keepdims=True)
        new = np.add.reduceat(share, begins, axis=0)
        new[:, 0] += strength
        new /= new.sum(axis=1, keepdims=True)
        new[settled] = w[settled]
        settled |= np.abs(new - w).max(axis=1) < 1e-3
        w = new
        if settled.all():
            break
    return np.asarray(w[:, :1] * parent.weights + w[:, 1:] @ bumps)


def _bumps(rates: Floats, smoothness: float) -> Floats:
    """One row a bump: a normal density in log λ around every second grid point."""
    position = np.log(rates)
    if smoothness == 0:
        return np.eye(len(rates))
    centres = position[:: max(1, POINTS_PER_OCTAVE // 2)]
    bumps = np.exp(-0.5 * ((position - centres[:, None]) / smoothness) ** 2)
    bumps /= bumps.sum(axis=1, keepdims=True)
    return np.asarray(bumps)


def _accelerated_em(
    improve: Callable[[Floats], tuple[Floats, float]], w: Floats, iterations: int, tolerance: float
) -> tuple[Floats, float]:
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


# -- the likelihood on the grid ------------------------------------------------------------------


def rate_grid(evidence: Evidence) -> Floats:
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
    # Beyond 40 octaves (12 decades) nothing can be learned that the ends do not say.
    low = max(low, high - 40)
    return np.asarray(2.0 ** np.arange(low, high + 0.5 / POINTS_PER_OCTAVE, 1 / POINTS_PER_OCTAVE))


def grid_likelihood(evidence: Evidence, rates: Floats) -> Floats:
    """Lᵢ(λₖ), one row a source, scaled so that its largest value is 1."""
    quiet = np.where(evidence.kind & CHANGED, evidence.ages, evidence.gaps)
    dated = (evidence.kind & (CHANGED | DATED)) == CHANGED | DATED
    undated = (evidence.kind & (CHANGED | DATED)) == CHANGED
    log_l = -np.outer(evidence.sums(quiet), rates)
    log_l += np.outer(evidence.sums(dated.astype(float)), np.log(rates))
    owner = np.repeat(np.arange(len(log_l)), evidence.counts)[undated]
    weight = None if evidence.weight is None else evidence.weight[undated]
    _add_changes(log_l, owner, evidence.gaps[undated], weight, rates)
    log_l -= log_l.max(axis=1, keepdims=True)
    return np.exp(log_l, out=log_l)


def _add_changes(
    log_l: Floats, owner: Integers, gaps: Floats, weight: Floats | None, rates: Floats
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
