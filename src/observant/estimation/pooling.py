"""The collection as prior: what a source's neighbours say when its own visits are few.

A rate λ is drawn from the collection's own distribution, a history from λ. `priors` estimates that
distribution on a grid of rates; each source then has the posterior pᵢₖ ∝ gₖ Lᵢ(λₖ): its means, its
quantiles, and the whole of it for planning. The rate reported is exp(E[log λ]), the best guess when
errors count by their ratio; the mean of λ itself is beside it. `pooled` takes a nonparametric
prior, `pooled-gamma` a Gamma distribution.

**Trust.** Real sources change in bursts and drift, so their visits say less about the rate to come
than the Poisson likelihood claims. `pooled` raises Lᵢ to a power, the trust, between ½ and 1: the
one with which the first half of each history, over the collection, best predicts the second. On
Poisson sources it comes out as 1.

Groups (hosts, folders, tags) have priors of their own, each shrunk towards that of the whole
collection as if `strength` more sources of the parent belonged to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import EstimationError
from observant.estimation.evidence import Evidence
from observant.estimation.firth import Totals
from observant.estimation.priors import (
    Prior,
    fit_gamma,
    fit_mixture,
    grid_likelihood,
    learn_trust,
    rate_grid,
    shrink_to_parent,
)
from observant.estimation.rates import RateTable, rate_table, run_blocks
from observant.tables import Note

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from observant.visits import VisitLog

__all__ = [
    "RatePosterior",
    "estimate_pooled",
    "grid_quantiles",
    "learn_prior",
    "rates_under",
    "sampled_ranks",
]

STRENGTH = 10.0
"""Sources of the parent that a group's prior starts from."""

_SOURCES_TO_FIT = 20_000
"""From which the prior is learnt, evenly spread over the alphabet: enough to know it well."""
_SOURCES_OF_A_GROUP = 500


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
    prior, told = learn_prior(
        log, method, use_first_age=use_first_age, zero_truncated=zero_truncated, trust=trust
    )
    return rates_under(
        log,
        prior,
        method,
        confidence=confidence,
        notes=[*(log.notes if notes is None else notes), *told],
        use_first_age=use_first_age,
        strength=strength,
        threads=threads,
        progress=progress,
    )


def learn_prior(
    log: VisitLog,
    method: str = "pooled",
    *,
    use_first_age: bool = False,
    zero_truncated: bool = False,
    trust: float | None = None,
) -> tuple[Prior, list[str]]:
    """Learn the prior of the whole collection, and what is to be said of it.

    The histories of `sampled_ranks` are enough: a log of those sources alone has the same prior.
    """
    chosen = np.zeros(len(log.sources), bool)
    chosen[sampled_ranks(len(log.sources))] = True
    sample = Evidence.from_log(
        log if chosen.all() else log.select(chosen), use_first_age=use_first_age
    )
    sample = sample.select(sample.counts > 0)
    if not len(sample.gaps):
        raise EstimationError(
            "no source has two visits that can be compared, so there is nothing to pool"
        )
    notes = []
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
    if zero_truncated:
        notes.append("taken as a collection of sources that changed at least once")
    return prior, notes


def sampled_ranks(sources: int) -> NDArray[np.int64]:
    """Places in the alphabet of the sources from which the prior of so many is learnt.

    >>> sampled_ranks(3).tolist(), len(sampled_ranks(1_000_000))
    ([0, 1, 2], 20000)
    """
    if sources <= _SOURCES_TO_FIT:
        return np.arange(sources)
    return np.unique(np.linspace(0, sources - 1, _SOURCES_TO_FIT).astype(np.int64))


def rates_under(
    log: VisitLog,
    prior: Prior,
    method: str = "pooled",
    *,
    confidence: float = 0.95,
    notes: list[str] | None = None,
    use_first_age: bool = False,
    strength: float = STRENGTH,
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> RateTable:
    """Posterior rates of a collection, or of a part that holds its groups whole, under a prior."""
    notes = list(log.notes if notes is None else notes)
    rates = prior.rates
    group: NDArray[np.int64] | None = None
    if log.groups is not None and method == "pooled":
        prior, group = _fit_groups(log, prior, strength, use_first_age=use_first_age)
        notes.append(Note("{n} groups have priors of their own", len(prior.groups)))
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

    fitted = np.empty((len(names), len(prior.rates)))
    taken = np.cumsum(np.bincount(group[chosen], minlength=len(names)))
    first = 0
    while first < len(names):  # some groups at a time, so that memory stays bounded
        before = taken[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(taken, before + 50_000, side="right")))
        part = chosen & (group >= first) & (group < last)
        evidence = Evidence.from_log(log.select(part), use_first_age=use_first_age)
        fitted[first:last] = shrink_to_parent(
            grid_likelihood(evidence, prior.rates, prior.trust),
            group[part] - first,
            last - first,
            prior,
            strength,
        )
        first = last
    return replace(prior, groups=names, group_weights=fitted), group
