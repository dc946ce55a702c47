"""A growing population by age, in continuous time with discrete ages. Brewington 2.1.2.

S[i] counts the sources of age i. They grow older at the rate C[i], are updated (back to age 0) at
the rate R[i], and new ones are born at age 0 at the rate K of the whole population.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.processes.base import floats, not_negative, positive

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Floats
    from observant.papers.thesis.chain import AgeChain


@dataclass(frozen=True, eq=False)
class GrowingPopulation:
    """Rates of ageing C (ages 0 to N − 1), of update R (ages 0 to N) and of growth K, per day.

    The oldest age N is "N or more" and has nowhere to go, so it has no C: with the C_N of the
    thesis (2.10) sources leak out and (2.11) fails (errata B-4). R[0] changes nothing.

    >>> population = GrowingPopulation(ageing=[1.0, 1.0], updating=[0.0, 0.5, 0.5], growth=0.1)
    >>> population.matrix()
    array([[-0.9,  0.6,  0.6],
           [ 1. , -1.5,  0. ],
           [ 0. ,  1. , -0.5]])
    >>> population.matrix().sum(axis=0)  # conservation (2.11): every column sums to K
    array([0.1, 0.1, 0.1])
    """

    ageing: Floats
    updating: Floats
    growth: float = 0.0

    def __post_init__(self) -> None:
        ageing = np.array(self.ageing, dtype=np.float64, ndmin=1)
        updating = np.array(self.updating, dtype=np.float64, ndmin=1)
        rates = np.concatenate([ageing.ravel(), updating.ravel()])
        if ageing.ndim != 1 or updating.shape != (ageing.size + 1,):
            raise InputError(
                "give a flat array of ageing rates for the ages 0 to N − 1, and one of updating "
                f"rates for the ages 0 to N; not the shapes {ageing.shape} and {updating.shape}"
            )
        if not (np.isfinite(rates) & (rates >= 0)).all():
            raise InputError("rates of ageing and updating must be finite, zero or more")
        ageing.flags.writeable = updating.flags.writeable = False
        object.__setattr__(self, "ageing", ageing)
        object.__setattr__(self, "updating", updating)
        object.__setattr__(self, "growth", not_negative("growth", self.growth))

    @classmethod
    def from_chain(cls, chain: AgeChain, step: float, growth: float = 0.0) -> GrowingPopulation:
        """The population whose members leave each age after `step` days on average, by an update
        with the chance p_reset of the chain and for the next age otherwise: C + R = 1/step.
        """
        p, per_day = chain.p_reset, 1.0 / positive("step", step)
        if p.ndim != 1:
            raise InputError("a population takes the chain of one source")
        return cls((1.0 - p[:-1]) * per_day, p * per_day, growth)

    def matrix(self) -> Floats:
        """A of S′ = A S, (2.10) with C_N = 0."""
        return self._exchange() + self.growth * self._births()

    def solve(self, initial: ArrayLike, times: ArrayLike) -> Floats:
        """S(t) = e^{At} S(0), (2.13), one row for each time."""
        start, days = self._start(initial), np.asarray(times, dtype=np.float64)
        size = start.sum() * np.exp(self.growth * days)
        return floats(size[..., None] * self.age_distribution(start, days))

    def age_distribution(self, initial: ArrayLike, times: ArrayLike) -> Floats:
        """g(i, t) of (2.14), one row for each time; every row sums to 1.

        The population is divided by its size P₀e^{Kt} (2.15) before it is computed, not after, so
        that it may grow for as long as it likes.
        """
        start, days = self._start(initial), np.asarray(times, dtype=np.float64)
        if not (np.isfinite(days) & (days >= 0)).all():
            raise InputError("times must be finite, zero or more")
        shares = _flow(self.matrix() - self.growth * np.eye(start.size), start / start.sum(), days)
        shares = np.maximum(shares, 0.0)
        return floats(shares / shares.sum(axis=-1, keepdims=True))

    def limiting_ages(self) -> Floats:
        """The age distribution that a population tends to: C[i−1] g[i−1] = (C[i] + R[i] + K) g[i].

        Growth makes a population younger: it is the discrete form of g ∝ e^{−Kx}(1 − F(x)).

        >>> population = GrowingPopulation([1.0, 1.0], [0.0, 0.5, 0.5], growth=0.1)
        >>> population.limiting_ages().round(4)
        array([0.375 , 0.2344, 0.3906])
        """
        leaving = np.append(self.ageing[1:], 0.0) + self.updating[1:] + self.growth
        if (leaving[:-1] == 0).any() or (self.growth == 0 and self.updating[-1] == 0):
            raise InputError("the limit is not unique: some age is never left")
        shares = np.cumprod(np.append(1.0, self.ageing / leaving))
        return floats(shares / shares.sum())

    def _exchange(self) -> Floats:
        """Ageing and updates: every column sums to zero."""
        leave = np.append(self.ageing, 0.0)
        leave[1:] += self.updating[1:]
        matrix = np.diag(self.ageing, -1) - np.diag(leave)
        matrix[0, 1:] += self.updating[1:]
        return matrix

    def _births(self) -> Floats:
        births = np.zeros((self.updating.size, self.updating.size))
        births[0] = 1.0
        return births

    def _start(self, initial: ArrayLike) -> Floats:
        start = np.asarray(initial, dtype=np.float64)
        if start.shape != self.updating.shape:
            raise InputError(
                f"the first population needs one number for each of {self.updating.size} ages"
            )
        if not (np.isfinite(start) & (start >= 0)).all() or not start.any():
            raise InputError("the first population must be finite, not negative, and not empty")
        return start


def _flow(matrix: Floats, start: Floats, days: Floats) -> Floats:
    """e^{matrix·t} start for each t."""
    if start.size <= 128:
        from scipy.linalg import expm

        moved = expm(matrix * days[..., None, None]) @ start
        return np.asarray(moved, dtype=np.float64)
    # Large matrices are nearly empty: act on the vector, from one time to the next.
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import expm_multiply

    sparse = csr_array(matrix)
    moments, back = np.unique(days, return_inverse=True)
    rows, now, before = np.empty((moments.size, start.size)), start, 0.0
    for place, moment in enumerate(moments):
        now = expm_multiply(sparse * (moment - before), now)
        rows[place], before = now, float(moment)
    return rows[back].reshape(*days.shape, start.size)
