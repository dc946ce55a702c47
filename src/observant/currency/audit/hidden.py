"""The updates that hide: earlier ones, behind the last one, outside the grace (figure 3.25)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from observant.currency import RateMixture
from observant.times import SECOND

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Flags, Floats, Integers
    from observant.currency.audit.claims import Entries


def forgiven(
    age: ArrayLike, known: ArrayLike, grace: float, rate: Floats, period: Floats
) -> Floats:
    """Probability that a stale entry is current within `grace`, at a given rate and period.

    The last update is `age` days old, not more than the grace, and the last one the index knew of
    is `known` days old. The index looked at a moment unknown, uniform over the last `period` days,
    after the one and before the other; that no update came between `known` and its visit is what
    (3.20) overlooks. With y = λ(C − β), D = λ(C − age) and C = min(known, period) it is

        1 − (1 − (1 + y) e^(−y)) / (1 − e^(−D))

    >>> forgiven(1.0, 20.0, grace=5.0, rate=np.array([0.01, 0.3, 3.0]), period=np.array([30.0]))
    array([[0.94113629, 0.05794741, 0.        ]])
    """
    age = np.asarray(age, float).reshape(-1, 1)
    known = np.asarray(known, float).reshape(-1, 1)
    reach = np.minimum(known, period)
    outside = rate * np.maximum(reach - grace, 0.0)
    window = rate * np.maximum(reach - age, SECOND * 1e-6)
    two_or_more = -np.expm1(-outside) - outside * np.exp(-outside)
    hidden: Floats = np.clip(two_or_more / -np.expm1(-window), 0.0, 1.0)
    return 1.0 - hidden


def printed_forgiveness(entries: Entries, grace: float) -> float:
    """Stale entries that (3.20) forgives, each with its probability, the rate being 1/age."""
    recent = entries.stale & (entries.age <= grace)
    hidden = np.maximum(entries.known[recent] - grace, 0.0)
    return float(np.exp(-hidden / entries.age[recent]).sum())


@dataclass(frozen=True, eq=False)
class Aliasing:
    """The mixture of rates and periods that explains the entries best, and what it says of them.

    Any way of visiting that does not depend on the moment of the check leaves a time since the
    last visit whose density falls; such a density is a mixture of uniform ones, each the mark of
    one period. So a grid of (rate, period) pairs with weights can describe every such index. The
    weights are found by maximum likelihood (EM); see `forgiven` for what they are used for.
    """

    age: Floats
    known: Floats
    stale: Flags
    share: Floats
    """Share of each entry among all: in the first column as it is, then in bootstrap samples."""
    rate: Floats
    period: Floats
    likelihood: Floats
    """One row an entry, one column a pair of rate and period."""
    weights: Floats
    """One row a pair; the columns are those of `share`, each with its own best mixture."""

    @classmethod
    def of(
        cls, entries: Entries, graces: Floats, resamples: int, rng: np.random.Generator
    ) -> Aliasing:
        """Find the mixture; `graces` are those that will be asked for exactly."""
        cell, age, known, stale = _cells(entries, graces)
        counts = _resampled_counts(entries.source, cell, len(age), resamples, rng)
        share = counts / counts.sum(axis=0)
        rate, period = _pairs(age, known, stale)
        likelihood = _likelihood(age, known, stale, rate, period)
        best = np.full((len(rate), 1), 1.0 / len(rate))
        for steps in _EM_STEPS:
            best = _climb(likelihood, share[:, :1], best, steps)
            # Most pairs soon have no weight to speak of, and need not be carried along.
            kept = best[:, 0] > _NO_WEIGHT
            rate, period, best = rate[kept], period[kept], best[kept]
            likelihood = np.ascontiguousarray(likelihood[:, kept])
        # Each sample starts from the common answer and needs few steps to its own.
        each = _climb(likelihood, share[:, 1:], np.repeat(best, resamples, 1), _RESAMPLE_STEPS)
        weights = np.concatenate([best, each], axis=1)
        return cls(age, known, stale, share, rate, period, likelihood, weights)

    def currency(self, grace: float) -> Floats:
        """α at a grace: first of all entries, then of each bootstrap sample of them."""
        recent = self.stale & (self.age <= grace)
        chance = forgiven(self.age[recent], self.known[recent], grace, self.rate, self.period)
        chance *= self.likelihood[recent]
        each = (chance @ self.weights) * self._share_by_evidence[recent]
        alpha: Floats = self._current + each.sum(axis=0)
        return alpha

    def uncorrected(self, grace: float) -> Floats:
        """The same with every recent update forgiven."""
        recent = self.stale & (self.age <= grace)
        alpha: Floats = self._current + self.share[recent].sum(axis=0)
        return alpha

    @property
    def rates(self) -> RateMixture:
        """How fast the sources change, as far as one look at each can tell."""
        return RateMixture(self.rate, self.weights[:, 0])

    @cached_property
    def _current(self) -> Floats:
        share: Floats = self.share[~self.stale].sum(axis=0)
        return share

    @cached_property
    def _share_by_evidence(self) -> Floats:
        return self.share / np.maximum(self.likelihood @ self.weights, _LEAST)


def _cells(entries: Entries, graces: Floats) -> tuple[Integers, Floats, Floats, Flags]:
    """Put like entries together, so that work does not grow with their number.

    Graces are borders between cells: no entry is moved across one.
    """
    if len(entries) <= _MOST_CELLS:
        return np.arange(len(entries)), entries.age, entries.known, entries.stale
    by_age, by_known = (
        np.floor(np.log10(days) * _CELLS_PER_DECADE).astype(np.int64) + 1_000
        for days in (entries.age, entries.known)
    )
    by_grace = np.searchsorted(graces, entries.age)
    key = ((by_age * 10_000 + by_known) * 2 + entries.stale) * (len(graces) + 1) + by_grace
    _, cell = np.unique(key, return_inverse=True)
    size = np.bincount(cell)
    age, known = (np.bincount(cell, days) / size for days in (entries.age, entries.known))
    return cell, age, known, np.bincount(cell, entries.stale) > 0


def _resampled_counts(
    source: Integers, cell: Integers, cells: int, resamples: int, rng: np.random.Generator
) -> Floats:
    """Entries in each cell: first as they are, then in bootstrap samples of whole sources."""
    _, place = np.unique(source, return_inverse=True)
    sources = int(place.max()) + 1
    counts = np.empty((cells, resamples + 1))
    counts[:, 0] = np.bincount(cell, minlength=cells)
    for column in range(1, resamples + 1):
        drawn = np.bincount(rng.integers(sources, size=sources), minlength=sources)
        counts[:, column] = np.bincount(cell, drawn[place], minlength=cells)
    return counts


def _pairs(age: Floats, known: Floats, stale: Flags) -> tuple[Floats, Floats]:
    """Return a grid of rates and periods that spans what the entries could come from."""
    slowest = 0.1 / np.quantile(known, 0.999)
    fastest = max(5.0 / np.quantile(age, 0.005), 10.0 * slowest)
    rates = np.geomspace(slowest, fastest, _RATES)
    longest = 1.5 * float(known.max())
    shortest = min(0.5 * float(np.quantile(known[stale] if stale.any() else known, 0.005)), longest)
    rate, period = np.meshgrid(rates, np.geomspace(shortest, longest, _PERIODS), indexing="ij")
    return rate.ravel(), period.ravel()


def _likelihood(age: Floats, known: Floats, stale: Flags, rate: Floats, period: Floats) -> Floats:
    """How likely each entry is for each pair, up to a factor for the entry.

    Current: an update at `age`, none since, the index looked after it: λ e^(−λ age) min(age, T)/T.
    Stale: an update at `known`, one at `age` and none since, the index looked in between and saw
    none after `known`: (λ/T) e^(−λ(age + known − C)) (1 − e^(−λ(C − age))) with C = min(known, T).
    """
    age, known = age[:, None], known[:, None]
    reach = np.minimum(known, period)
    with np.errstate(divide="ignore"):
        missed = -np.expm1(-rate * np.maximum(reach - age, 0.0))
        logs = np.log(rate / period) + np.where(
            stale[:, None],
            np.log(missed) - rate * (age + known - reach),
            np.log(np.minimum(age, period)) - rate * age,
        )
    likelihood: Floats = np.exp(logs - logs.max(axis=1, keepdims=True))
    return likelihood


def _climb(likelihood: Floats, share: Floats, weights: Floats, steps: int) -> Floats:
    """EM for the weights of a mixture, one column a problem."""
    for _ in range(steps):
        evidence = np.maximum(likelihood @ weights, _LEAST)
        weights = weights * (likelihood.T @ (share / evidence))
    answer: Floats = weights / weights.sum(axis=0)
    return answer


_MOST_CELLS, _CELLS_PER_DECADE = 2_000, 20
_RATES, _PERIODS = 16, 48
_EM_STEPS, _RESAMPLE_STEPS = (50, 100, 150), 20
_NO_WEIGHT = 1e-7
_LEAST = 1e-300
