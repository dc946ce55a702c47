"""The collection as prior: what a source's neighbours say when its own visits are few.

A rate λ is drawn from the collection's own distribution, a history from λ. `priors` estimates that
distribution on a grid of rates; each source then has the posterior pᵢ(λ) ∝ g(λ) Lᵢ(λ): its means,
its quantiles, and the whole of it for planning. The rate reported is exp(E[log λ]), the best guess
when errors count by their ratio; the mean of λ itself is beside it. `pooled` takes a nonparametric
prior, `pooled-gamma` a Gamma distribution.

**Forgetting.** Real sources change in bursts and drift, so old visits say less about the rate to
come than the Poisson likelihood claims. What was learned fades: a rate lasts `drift` days on
average (`observant.estimation.belief` makes the posterior, for this table as for the observer).
A plan is for the time to come, so it mixes what is known of a rate with the prior, by how long
rates last in this collection (`observant.estimation.persistence`).

Groups (hosts, folders, tags) have priors of their own, each shrunk towards that of the whole
collection as if `strength` more sources of the parent belonged to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import EstimationError
from observant.estimation.belief import DRIFT, Beliefs, Likelihoods
from observant.estimation.evidence import Evidence
from observant.estimation.firth import Totals
from observant.estimation.persistence import kept, persistence_scores
from observant.estimation.priors import (
    FEWEST,
    Prior,
    first,
    fit_collection,
    shrink_to_parent,
)
from observant.estimation.rates import RateTable, rate_table, run_blocks
from observant.tables import Note

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.arrays import Floats, Integers
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
"""From which the prior is learned, evenly spread over the alphabet: enough to know it well."""
_SOURCES_OF_A_GROUP = 500


@dataclass(frozen=True, eq=False)
class RatePosterior:
    """The posterior of every source's rate. Plans take its `points`, for the time to come."""

    prior: Prior
    mean: Floats
    variance: Floats
    log_mean: Floats
    """Exponential of the mean of log λ: the best guess when errors count by their ratio."""
    _log: VisitLog = field(repr=False)
    _group: Integers | None = field(repr=False)
    _use_first_age: bool = field(repr=False)
    _drift: float = field(repr=False)

    def __len__(self) -> int:
        return len(self.mean)

    def beliefs(self, first: int = 0, last: int | None = None, *, ahead: bool = False) -> Beliefs:
        """The posteriors of the sources ``first:last``, now or for the time to come."""
        last = len(self) if last is None else last
        evidence = Evidence.from_log(self._log, first, last, use_first_age=self._use_first_age)
        group = None if self._group is None else self._group[first:last]
        seen, rows = Likelihoods.of(evidence, self._drift), self.prior.rows()
        if not ahead:
            return seen.under(rows, group)
        return seen.ahead(rows, group, kept(self.prior.lasting, evidence, self._drift))

    def points(self, first: int = 0, last: int | None = None) -> tuple[Floats, Floats]:
        """Rates in the time to come and their probabilities for ``first:last``, a row a source."""
        found = self.beliefs(first, last, ahead=True)
        return found.rates, found.weights

    def gamma(self) -> tuple[Floats, Floats]:
        """Shapes a and rates b of the Gamma distributions with the same E[λ] and E[log λ].

        Not the variance: what was forgotten leaves a thin tail of high rates, which rules it.
        """
        from scipy.special import digamma, polygamma

        d = np.maximum(np.log(self.mean / self.log_mean), 1e-12)  # log a − ψ(a)
        a = (3 - d + np.sqrt((d - 3) ** 2 + 24 * d)) / (12 * d)
        for _ in range(4):
            a -= (np.log(a) - digamma(a) - d) / (1 / a - polygamma(1, a))
        return a, a / self.mean


def estimate_pooled(
    log: VisitLog,
    method: str = "pooled",
    *,
    confidence: float = 0.95,
    notes: list[str] | None = None,
    use_first_age: bool = False,
    zero_truncated: bool = False,
    drift: float = DRIFT,
    strength: float = STRENGTH,
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> RateTable:
    """Posterior means and quantiles of all rates; see `observant.estimate_rates`."""
    prior, told = learn_prior(
        log, method, use_first_age=use_first_age, zero_truncated=zero_truncated
    )
    return rates_under(
        log,
        prior,
        method,
        confidence=confidence,
        notes=[*(log.notes if notes is None else notes), *told],
        use_first_age=use_first_age,
        drift=drift,
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
) -> tuple[Prior, list[str]]:
    """Learn the prior of the whole collection, and what is to be said of it.

    It is fitted to whole histories, with nothing forgotten: an old rate, too, is one that sources
    of this collection have. The histories of `sampled_ranks` are enough: a log of those sources
    alone has the same prior.
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
    notes: list[str] = []
    if len(sample.counts) < FEWEST:
        return first(), ["so few sources say little of a collection: a general prior is taken"]
    likelihood = Likelihoods.of(sample, np.inf).on_grid()
    likelihood /= likelihood.max(axis=1, keepdims=True)
    exposure = Totals.of(sample).time if zero_truncated else None
    prior = fit_collection(likelihood, exposure, gamma=method == "pooled-gamma")
    prior = replace(prior, lasting=persistence_scores(sample, prior.weights))
    if zero_truncated:
        notes.append("taken as a collection of sources that changed at least once")
    return prior, notes


def sampled_ranks(sources: int) -> Integers:
    """Places in the alphabet of the sources from which the prior of so many is learned.

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
    drift: float = DRIFT,
    strength: float = STRENGTH,
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> RateTable:
    """Posterior rates of a collection, or of a part that holds its groups whole, under a prior."""
    notes = list(log.notes if notes is None else notes)
    group: Integers | None = None
    if log.groups is not None and method == "pooled":
        prior, group = _fit_groups(log, prior, strength, use_first_age=use_first_age)
        notes.append(Note("{n} groups have priors of their own", len(prior.groups)))
    rows = prior.rows()
    tail = (1 - confidence) / 2

    def one_block(evidence: Evidence, _totals: Totals, sources: slice) -> tuple[Floats, ...]:
        own = None if group is None else group[sources]
        seen = Likelihoods.of(evidence, drift)
        beliefs = seen.under(rows, own)
        ahead = seen.ahead(rows, own, kept(prior.lasting, evidence, drift))
        return (
            *beliefs.summary((tail, 1 - tail)),
            *beliefs.moments(),
            ahead.summary(())[0],
            ahead.moments()[0],
        )

    columns, conflicts = run_blocks(
        log, one_block, use_first_age=use_first_age, threads=threads, progress=progress
    )
    changes, exposure_days, code, log_mean, low, high, mean, variance, *ahead = columns
    posterior = RatePosterior(
        prior=prior,
        mean=mean,
        variance=variance,
        log_mean=log_mean,
        _log=log,
        _group=group,
        _use_first_age=use_first_age,
        _drift=drift,
    )
    return rate_table(
        log,
        [changes, exposure_days, code, log_mean, low, high],
        method,
        confidence,
        conflicts,
        notes,
        posterior=posterior,
        rate_ahead=ahead[0],
        rate_mean=ahead[1],
    )


def grid_quantiles(weights: Floats, rates: Floats, levels: tuple[float, ...]) -> list[Floats]:
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
) -> tuple[Prior, Integers]:
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
    begin = 0
    while begin < len(names):  # some groups at a time, so that memory stays bounded
        before = taken[begin - 1] if begin else 0
        last = max(begin + 1, int(np.searchsorted(taken, before + 50_000, side="right")))
        part = chosen & (group >= begin) & (group < last)
        evidence = Evidence.from_log(log.select(part), use_first_age=use_first_age)
        likelihood = Likelihoods.of(evidence, np.inf).on_grid()
        fitted[begin:last] = shrink_to_parent(
            likelihood / likelihood.max(axis=1, keepdims=True),
            group[part] - begin,
            last - begin,
            prior,
            strength,
        )
        begin = last
    return replace(prior, groups=names, group_weights=fitted), group + 1
