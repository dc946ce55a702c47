"""Three ways to believe in a rate, run side by side, and weighed by what they foretold.

On the grid of log-rates of `priors`, with g the collection's own distribution of rates:

- **constant**: p ← p · L. Every visit counts alike, however old.
- **forgetting**: p ← p^d · r^(1−d) · L. Before each visit, what was known fades towards r: a visit
  counts d, d², d³ ... after one, two, three more.
- **changepoints**: Adams and MacKay's run lengths. Before each visit, with probability h, the rate
  is drawn anew from r. The filter keeps the likeliest `keep` beginnings of the present run, each
  with its own posterior.

L is the likelihood of one comparison (DESIGN section 4: existence only, dated, or mixed), and
r the restart prior: half of it g, half g stretched, a normal curve in log λ around the mean of g
and wider than g by `STRETCH`. A collection of sources that are all alike could
not see one of them become ten times faster if r were g alone.

**Weighing.** Each method m foretells each visit before it is made. The product of what it gave to
what then happened is Lᵢₘ, its prequential score. A source weighs the methods by πₘ Lᵢₘ, where π is
what does best over the collection, Σᵢ log Σₘ πₘ Lᵢₘ → max. With few visits a source follows its
collection; with many, its own history. Since π may put all its weight on one method, the mixture
is over the collection at least as good as the best method, but for the one pseudo-source that keeps
every πₘ above zero; and for a single source worse by at most −log πₘ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from observant.arrays import Floats, Integers
    from observant.estimation.evidence import Evidence
    from observant.estimation.priors import Prior

METHODS = ("constant", "forgetting", "changepoints")
"""The ways to believe in a rate."""

DISCOUNTS = (0.95, 0.8)
"""How much a visit counts after one more; several are weighed like methods."""
HAZARDS = (1 / 320, 1 / 80, 1 / 20)
"""Probability that the rate is drawn anew between two visits; several are weighed like methods."""
KEEP = 60
"""Beginnings of the present run that are kept."""
STRETCH = float(np.log(10.0))
"""Standard deviation by which the restart prior is wider than the collection, in log λ."""

_PSEUDO_SOURCES = 1.0


@dataclass(frozen=True, eq=False)
class Followed:
    """What the filters leave behind of each source, and where asked for of each comparison."""

    score: Floats
    """Log probability of the history under each expert, one row a source."""
    now: NDArray[np.float32]
    """Probability of each rate after the last visit."""
    after: NDArray[np.float32]
    """The same from then on, when the rate may change again."""
    settled: NDArray[np.float32]
    """The same before the last visit that saw a change; the prior where none did."""
    chance: Floats
    """Before each visit: the probability that it would see a change."""
    belief: Floats
    """After each visit: the probability of each rate."""
    boundary: Floats
    """Seen from the end: the probability that the rate changed before each visit."""


@dataclass(frozen=True, eq=False)
class Experts:
    """The methods with their settings, and the share of each before the first visit."""

    prior: Prior
    hazards: Floats
    """The first is 0: the constant rate."""
    discounts: Floats
    share: Floats
    """One for each hazard, then one for each discount."""
    keep: int = KEEP

    @classmethod
    def of(
        cls,
        prior: Prior,
        method: str = "auto",
        *,
        hazards: float | Sequence[float] = HAZARDS,
        discounts: float | Sequence[float] = DISCOUNTS,
        keep: int = KEEP,
    ) -> Experts:
        """Check the settings; the share is even over the methods, and over each one's settings."""
        if method not in {"auto", *METHODS}:
            raise InputError(f"unknown method {method!r}; choose auto, {', '.join(METHODS)}")
        hazard = np.atleast_1d(np.asarray(hazards, np.float64))
        discount = np.atleast_1d(np.asarray(discounts, np.float64))
        if not len(hazard) or not np.all((hazard > 0) & (hazard < 1)):
            raise InputError(f"a hazard lies between 0 and 1, not {_told(hazard)}")
        if not len(discount) or not np.all((discount > 0) & (discount < 1)):
            raise InputError(f"a discount lies between 0 and 1, not {_told(discount)}")
        if keep < 2:
            raise InputError(f"at least 2 runs must be kept, not {keep}")
        hazard = np.concatenate([[0.0], hazard])
        family = _families(len(hazard), len(discount))
        wanted = np.arange(3) if method == "auto" else np.array([METHODS.index(method)])
        each = np.isin(np.arange(3), wanted) / len(wanted)
        return cls(
            prior=prior,
            hazards=hazard,
            discounts=discount,
            share=each[family] / np.bincount(family)[family],
            keep=keep,
        )

    @property
    def family(self) -> Integers:
        """Which of `METHODS` each expert belongs to."""
        return _families(len(self.hazards), len(self.discounts))

    def follow(
        self,
        evidence: Evidence,
        group: Integers | None = None,
        *,
        each_visit: bool = False,
        boundaries: bool = False,
        chances: bool = False,
    ) -> Followed:
        """Run all experts over the evidence; `group` is the row of each source's prior."""
        from observant.estimation.drift import kernels

        start = np.atleast_2d(self.prior.weights)
        if group is None or self.prior.group_weights is None:
            group = np.zeros(len(evidence.offsets) - 1, np.int64)
        else:
            start = self.prior.group_weights
        sources, visits, points = len(evidence.offsets) - 1, len(evidence.gaps), len(start[0])
        left = Followed(
            score=np.empty((sources, len(self.share))),
            now=np.empty((sources, points), np.float32),
            after=np.empty((sources, points), np.float32),
            settled=np.empty((sources, points), np.float32),
            chance=np.empty(visits if chances else 0),
            belief=np.empty((visits if each_visit else 0, points)),
            boundary=np.empty(visits if boundaries else 0),
        )
        many = len(self.hazards)
        used = self.share > 0
        used[0] = True  # the constant rate is what the others are measured by
        score = np.empty((sources, np.count_nonzero(used)))
        kernels.follow(
            evidence.offsets,
            evidence.gaps,
            evidence.kind,
            evidence.ages,
            self.prior.rates,
            start,
            restart_prior(start, self.prior.rates),
            group,
            self.hazards[used[:many]],
            self.discounts[used[many:]],
            self.share[used],
            self.keep,
            score,
            left.now,
            left.after,
            left.settled,
            left.chance,
            left.belief,
            left.boundary,
        )
        left.score[:] = -np.inf
        left.score[:, used] = score
        return left

    def learn(self, score: Floats) -> Experts:
        """Shares that make the histories of the collection likeliest, by EM."""
        known = self.share > 0
        top = score[:, known].max(axis=1, keepdims=True)
        likelihood = np.where(known, np.exp(np.where(known, score, top) - top), 0.0)
        share = self.share
        for _ in range(500):
            part = likelihood * share
            part /= part.sum(axis=1, keepdims=True)
            new = part.sum(axis=0) + _PSEUDO_SOURCES * self.share
            new /= new.sum()
            moved = np.abs(new - share).max()
            share = new
            if moved < 1e-6:
                break
        return replace(self, share=share)

    def scores(self, score: Floats) -> Floats:
        """Log probability of each history under each of `METHODS`, and under the mixture.

        Not-a-number for a method that was not run. One that was run, but only to be compared
        with, has no part in the mixture.
        """
        family = self.family
        answer = np.full((len(score), len(METHODS) + 1), np.nan)
        answer[:, 0] = score[:, 0]
        for column, of_method in enumerate([*(family == f for f in range(3)), family >= 0]):
            share = np.where(of_method, self.share, 0.0)
            if share.any():
                answer[:, column] = _log_mean_exp(score, share / share.sum())
        return answer

    def weights(self, score: Floats) -> Floats:
        """How much each source believes each of `METHODS` after its last visit."""
        told = self.scores(score)
        share = np.array([self.share[self.family == f].sum() for f in range(3)])
        part = np.where(share > 0, share * np.exp(told[:, :3] - told[:, 3:]), 0.0)
        return np.asarray(part)


def _log_mean_exp(logs: Floats, weights: Floats) -> Floats:
    used = weights > 0
    top = logs[:, used].max(axis=1)
    return np.asarray(top + np.log(np.exp(logs[:, used] - top[:, None]) @ weights[used]))


def restart_prior(start: Floats, rates: Floats, stretch: float = STRETCH) -> Floats:
    """Half the prior, half a normal curve in log λ around its mean and wider by `stretch`."""
    at = np.log(rates)
    mean = start @ at
    variance = start @ at**2 - mean**2 + stretch**2
    curve = np.exp(-0.5 * (at - mean[:, None]) ** 2 / variance[:, None])
    return np.asarray(0.5 * start + 0.5 * curve / curve.sum(axis=1, keepdims=True))


def _families(hazards: int, discounts: int) -> Integers:
    return np.array([0] + [2] * (hazards - 1) + [1] * discounts)


def _told(values: Floats) -> str:
    return ", ".join(f"{value:g}" for value in values) or "none"
