"""What is believed of a source's rate: the one home of grid, likelihood, forgetting and posterior.

The posterior of a rate λ is p(λ) ∝ g(λ) L(λ). The prior g is a row of probabilities on `GRID`: the
same for all before anything is learned (`first_prior`), later that of the collection or of a group
(`observant.estimation.priors`). The likelihood L of one source is kept at `POINTS` rates, evenly
spaced in log λ, around where its posterior lies. The more the visits say, the closer together they
are: from an octave apart at first down to 1/256 of one. So 200 bytes hold what was learned from
three visits or from a million, of a source that changes every second or once in a century.

A comparison with the visit t days before multiplies L by

    e^(−λt)          it found no change
    1 − e^(−λt)      it found one
    λ e^(−λa)        it found one, a days old

and before that L is forgotten a little, since rates do not last: after t days the rate is another,
with probability 1 − e^(−t/drift). The likelihood depends on the visits alone, not on what others
have taught meanwhile (forgetting, too, goes by the first prior). So a source that is imported,
watched, replayed or estimated from its export has one likelihood, and under one prior one
posterior:

- **the rate** of a source is exp(E[log λ]), the guess whose error is least when errors count by
  their ratio. It is as far below some rates as above others, and 1/rate is the period, which no
  mean of λ and no mean of 1/λ achieves for both. Its interval is that of the quantiles.
- **P(changed by now)** is `1 − Σ p(λ) e^(−λs)`, s days after the last visit (`unchanged`).

The loops are plain Python that numba compiles too: few sources need no compiler.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from observant.estimation import belief_loops as loops
from observant.estimation.belief_loops import (
    CLOSE,
    DRIFT,
    FINE,
    FIRST_CENTRE,
    GRID,
    OFFSETS,
    POINTS,
    SIZE,
    cumulated,
    first_prior,
    regrid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from observant.arrays import Floats, Integers
    from observant.estimation.evidence import Evidence

__all__ = [
    "DRIFT",
    "GRID",
    "OLD_GRID",
    "POINTS",
    "SIZE",
    "Beliefs",
    "Likelihoods",
    "RateBelief",
    "first_prior",
    "regrid",
]

_FEW = 64
"""Comparisons, or sources, that are quicker read by Python than numba is loaded."""
OLD_GRID = 2.0 ** np.arange(-12.0, 11.0, 0.25)
"""The rates at which stores of version 0.1 kept the logarithm of a likelihood, as float32."""
LEVELS = (0.025, 0.975)
"""Of the interval that is shown with a rate."""


def _kernels(many: int) -> Any:
    """The loops: compiled where that is worth it."""
    if many <= _FEW and "observant.estimation.belief_kernels" not in sys.modules:
        return loops
    from observant.estimation import belief_kernels

    return belief_kernels


class RateBelief(NamedTuple):
    """The rate of a source, updates per day, with its 95 % interval."""

    rate: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Likelihoods:
    """What the visits of many sources say about their rates, a row each."""

    values: Floats
    place: NDArray[np.int16]
    """The centre of the points, in parts of an octave, and the level of zoom; −1 before any."""

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def empty(cls, many: int) -> Likelihoods:
        """So many sources of which nothing is known."""
        place = np.full((many, 2), -1, np.int16)
        place[:, 0] = FIRST_CENTRE * FINE
        return cls(np.ones((many, POINTS)), place)

    @classmethod
    def of(cls, evidence: Evidence, drift: float = DRIFT) -> Likelihoods:
        """Take in all comparisons of every source, in their order."""
        new = cls.empty(len(evidence.offsets) - 1)
        _kernels(len(evidence.gaps)).learn_histories(
            evidence.offsets,
            evidence.gaps,
            evidence.kind,
            evidence.ages,
            drift,
            new.values,
            new.place,
            np.empty((0, 3)) if evidence.announced is None else evidence.announced,
        )
        return new

    def learn(
        self, row: int, gap: float, changed: bool, age: float | None = None, drift: float = DRIFT
    ) -> None:
        """Take in a comparison of one source with the visit `gap` days before."""
        known = math.nan if age is None else age
        said = 0.0, 0.0, math.inf, 0.0
        one, scratch = (self.values[row], self.place[row]), np.empty(POINTS)
        _kernels(1).learn(*one, gap, changed, known, drift, scratch, *said)

    @classmethod
    def unpack(cls, stored: Sequence[bytes | None]) -> Likelihoods:
        """Likelihoods as `pack` gave them; nothing is known where there are none."""
        new = cls.empty(len(stored))
        for i, data in enumerate(stored):
            if data is None:
                continue
            if len(data) == SIZE:
                new.values[i] = np.frombuffer(data, np.float64, POINTS)
                new.place[i] = np.frombuffer(data, np.int16, 2, 8 * POINTS)
            elif len(data) == 4 * len(OLD_GRID):
                old = np.frombuffer(data, np.float32).astype(np.float64)
                new.values[i], new.place[i] = _read_old(old)
        return new

    def pack(self, row: int) -> bytes:
        """One source in `SIZE` bytes."""
        return bytes(self.values[row].tobytes() + self.place[row].tobytes())

    def on_grid(self) -> Floats:
        """The likelihoods at the rates of `GRID`, a row a source."""
        rows = np.empty((len(self), len(GRID)))
        _kernels(len(self) * POINTS).grid_rows(self.values, self.place, rows)
        return rows

    def under(self, prior: Floats, group: Integers | None = None) -> Beliefs:
        """What is believed under this prior, or under row `group` of these priors."""
        return self.weighed(np.atleast_2d(cumulated(prior)), group)

    def ahead(self, prior: Floats, group: Integers | None, kept: Floats) -> Beliefs:
        """The same for a time to come, `kept` of which a rate is what it is now: then any other."""
        now, anew = self.under(prior, group), Likelihoods(np.ones_like(self.values), self.place)
        others = anew.under(prior, group).weights
        return Beliefs(self.place, others + kept[:, None] * (now.weights - others))

    def weighed(
        self,
        sums: Floats,
        group: Integers | None = None,
        *,
        age: Floats | None = None,
        age_weight: float = 0.0,
    ) -> Beliefs:
        """The same under priors that are `cumulated` already."""
        many = len(self)
        weights = np.empty((many, POINTS))
        _kernels(many * POINTS).weigh_all(
            self.values,
            self.place,
            sums,
            np.zeros(many, np.int64) if group is None else group,
            np.full(many, -1.0) if age is None else age,
            age_weight,
            weights,
        )
        return Beliefs(self.place, weights)


@dataclass(frozen=True, eq=False)
class Beliefs:
    """The posteriors of many sources: probabilities of `POINTS` rates, a row each."""

    place: NDArray[np.int16]
    weights: Floats

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def rates(self) -> Floats:
        """The rates that the weights are of, a row a source."""
        offsets = OFFSETS[np.maximum(self.place[:, 1], 0)]
        return np.asarray(2.0 ** ((self.place[:, :1].astype(np.int64) + offsets) / FINE))

    def summary(self, levels: tuple[float, ...] = LEVELS) -> tuple[Floats, ...]:
        """The rate of every source, and the quantiles of its posterior at these levels."""
        answer = np.empty((len(self), 1 + len(levels)))
        _kernels(len(self) * POINTS).summarise_all(
            self.place, self.weights, np.array(levels), answer
        )
        return tuple(answer.T)

    def moments(self) -> tuple[Floats, Floats]:
        """Mean and variance of every rate."""
        rates = self.rates
        mean = np.einsum("ij,ij->i", self.weights, rates)
        square = np.einsum("ij,ij->i", self.weights, rates**2)
        return mean, np.maximum(square - mean**2, np.finfo(float).tiny)

    def unchanged(self, days: ArrayLike) -> Floats:
        """Probability that each source is as it was so many days ago; 1 minus it: P(changed)."""
        answer = np.empty(len(self))
        waited = np.broadcast_to(np.asarray(days, np.float64), answer.shape)
        _kernels(len(self) * POINTS).unchanged_all(self.place, self.weights, waited, answer)
        return answer

    def fresh_share(self, period: ArrayLike, grace: ArrayLike = 0.0) -> Floats:
        """Share of the time in which each source is current to within `grace` days, if it is
        visited once in `period` days: Brewington's (2.40) averaged over the posterior.
        """
        period = np.broadcast_to(np.asarray(period, np.float64), (len(self),))
        beyond = np.maximum(period - np.asarray(grace, np.float64), 1e-12)
        x = beyond[:, None] * self.rates
        fresh = np.einsum("ij,ij->i", self.weights, -np.expm1(-x) / x)
        share = (np.minimum(grace, period) + beyond * fresh) / np.maximum(period, 1e-12)
        return np.asarray(np.minimum(share, 1.0))

    def one(self, row: int) -> RateBelief:
        """The rate of one source, with its interval."""
        few = Beliefs(self.place[row : row + 1], self.weights[row : row + 1])
        return RateBelief(*(float(column[0]) for column in few.summary()))


def _read_old(logs: Floats) -> tuple[Floats, tuple[int, int]]:
    """The likelihood of a store of version 0.1, on points around where its posterior lies."""
    parts = np.log2(OLD_GRID) * FINE
    logs = np.clip(logs - logs.max(), -600.0, 0.0)
    weights = np.exp(logs) * regrid(GRID, first_prior())[np.searchsorted(GRID, OLD_GRID)]
    weights /= weights.sum()
    mean = float(weights @ parts)
    deviation = math.sqrt(max(float(weights @ parts**2) - mean**2, 0.0))
    level = 0
    while level < 2 and deviation < CLOSE * (FINE >> level):
        level += 1
    step = FINE >> level
    centre = round(mean / step) * step
    values, weights = np.exp(np.interp(centre + OFFSETS[level], parts, logs)), np.empty(POINTS)
    kernels = _kernels(1)
    kernels.spread(np.array([centre, level]), loops.FIRST, weights)
    kernels.level_out(values, weights)
    return values, (centre, level)
