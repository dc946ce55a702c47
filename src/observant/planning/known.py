"""What a table of rates tells of each rate, so that a plan need not take one number for the truth.

A plan averages over what is not known. From visits it has the whole posterior of every rate; from a
table it has two numbers of it, the geometric mean (`rate_per_day` of the pooled methods) and the
mean (`rate_mean`). The log-normal distribution with these two, on Gauss and Hermite's nodes, stands
for the posterior: plans made with it are as good as those from the whole, to a thousandth
(a few thousandths where sources have one visit that can be compared).

A table of a method that looks at each source alone has no mean. Its counts tell how much is behind
each rate, and the collection itself is the prior (`from_counts`): a source that was never seen to
change has some rate below what its visits would have shown, and not the rate 0.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from observant.currency import RateMixture

__all__ = ["FROM_COUNTS", "known_rates", "posterior_of"]

Array: TypeAlias = NDArray[np.float64]

FROM_COUNTS = (
    "a rate of this method says nothing of how well it is known, so the plan takes the counts of "
    "visits and changes, and the collection as prior (`estimate --method pooled` does it better)"
)

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
_NODES, _WEIGHTS = _NODES[_WEIGHTS > 1e-9], _WEIGHTS[_WEIGHTS > 1e-9]
_VAGUE = 3.0
"""Sources of any rate at all that are added to a collection, so that a few do not seem certain."""
_POINTS_PER_OCTAVE = 4
_SOURCES_TO_FIT = 20_000


def posterior_of(table: Any) -> tuple[Any, tuple[str, ...]]:
    """What is known of the rates of a `RateTable`, and what is to be said of that."""
    if table.posterior is not None:
        return table.posterior, ()
    if table.rate_mean is not None:
        return known_rates(table.rate_per_day, table.rate_mean), ()
    rate, mean = from_counts(table)
    return known_rates(rate, mean), (FROM_COUNTS,)


def known_rates(rate: Array, mean: Array | None) -> Array | RateMixture:
    """Posteriors with these geometric means and means; the rates themselves where both agree.

    >>> from observant.currency import RateMixture
    >>> known = known_rates(np.array([0.1, 1.0]), np.array([0.2, 1.0]))
    >>> print(known.mean_rate.round(6), np.exp((known.weights * np.log(known.rates)).sum(axis=1)))
    [0.2 1. ] [0.1 1. ]
    """
    if mean is None or np.all(mean <= rate):
        return rate
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.sqrt(2.0 * np.log(np.maximum(mean / rate, 1.0)))
    spread = np.where(rate > 0.0, spread, 0.0)
    return RateMixture(rate[:, None] * np.exp(np.multiply.outer(spread, _NODES)), _WEIGHTS)


def from_counts(table: Any) -> tuple[Array, Array]:
    """Geometric mean and mean of each rate, from the counts of visits and changes of a table.

    n comparisons of which X saw a change are taken as regular: their gap is the one at which the
    bias-reduced estimate of such visits, −log((n − X + ½)/(n + ½)), is the rate of the table, or
    where another method made it the mean gap. Where every visit saw a change and dates tell the
    rate all the same, it is X updates in X/λ̂ days. The prior is the smooth mixture that makes the
    collection likeliest.
    """
    from observant.estimation.priors import fit_mixture

    rate, time = np.asarray(table.rate_per_day, float), np.asarray(table.exposure_days, float)
    n = np.maximum(np.asarray(table.visits, float) - 1.0, 0.0)
    changes = np.minimum(np.asarray(table.changes, float), n)
    told = (n > 0.0) & np.isfinite(time) & (time > 0.0)
    if not told.any():
        return rate, rate
    fitting = told & (changes > 0.0) & (rate > 0.0) & np.isfinite(rate)
    dated = fitting & (changes == n) & (table.evidence == "ok")
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.where(told, time / n, 1.0)
        if table.method == "bias-reduced":
            alike = -np.log((n - changes + 0.5) / (n + 0.5)) / rate
            gap = np.where(fitting, alike, gap)
        quiet = np.where(dated, changes / rate, (n - changes) * gap)
    n = np.where(told, n, 0.0)
    changes, quiet = np.where(told, changes, 0.0), np.where(told, quiet, 0.0)
    rates = _grid(gap[told & (changes > 0.0)], time[told])

    def likelihood(rows: Any) -> Array:
        x = np.multiply.outer(gap[rows], rates)
        chance = np.where(dated[rows, None], np.log(rates), np.log(-np.expm1(-x)))
        logs = changes[rows, None] * chance - np.multiply.outer(quiet[rows], rates)
        return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))

    some = np.flatnonzero(told)
    fitted = fit_mixture(likelihood(some[:: 1 + len(some) // _SOURCES_TO_FIT]), rates).weights
    prior = (len(some) * fitted + _VAGUE / len(rates)) / (len(some) + _VAGUE)
    log_mean, mean = np.empty(len(rate)), np.empty(len(rate))
    for start in range(0, len(rate), 8_192):
        rows = slice(start, start + 8_192)
        weights = likelihood(rows) * prior
        weights /= weights.sum(axis=1, keepdims=True)
        log_mean[rows], mean[rows] = np.exp(weights @ np.log(rates)), weights @ rates
    return log_mean, mean


def _grid(gaps: Array, exposure: Array) -> Array:
    """Rates from well below one update in the longest watch to well above one in a changed gap."""
    low = np.floor(np.log2(0.1 / exposure.max()))
    high = np.ceil(np.log2(20.0 / min(exposure.max(), gaps.min(initial=np.inf))))
    steps = (min(high, low + 40) - low) * _POINTS_PER_OCTAVE
    return np.asarray(2.0 ** (low + np.arange(steps + 1) / _POINTS_PER_OCTAVE))
