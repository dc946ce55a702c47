"""An objective of your own: what a copy costs by the updates that are expected since it was made.

For Poisson sources every objective without a grace is a penalty c(x) of x = λs. So a function of x
is all that a plan or a schedule needs: the index W(s) = w(λs)/λ, w(x) = x·c(x) − ∫₀ˣ c, is added
up once, and looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from observant.arrays import Floats
from observant.errors import InputError
from observant.planning.objectives.index import Choice, Objective, checked_rates

Penalty: TypeAlias = Callable[[Floats], ArrayLike]
"""What a copy costs when so many updates (λs) are expected since it was made."""

_OCTAVES, _FINE = 44, 1024
"""The places of x in a table: from 2⁻⁴⁴ to 2⁴⁴, so many in an octave."""


def name_of(objective: str | Penalty) -> str:
    """The name of an objective, for people."""
    return objective if isinstance(objective, str) else getattr(objective, "__name__", "own")


class PenaltyTable(NamedTuple):
    """A penalty at many places x = λs, and what follows from it."""

    x: Floats
    penalty: Floats
    gain: Floats
    """w(x) = x·c(x) − ∫₀ˣ c."""

    @classmethod
    def of(cls, penalty: Penalty, x: Floats) -> PenaltyTable:
        """An `InputError` if it is none: not as many finite numbers that rise with x, or stay."""
        try:
            c = np.asarray(penalty(x), np.float64)
        except Exception as error:
            raise InputError(f"the penalty {name_of(penalty)} cannot be used: {error}") from error
        falls = c.shape == x.shape and np.diff(c) < -1e-9 * np.abs(c[:-1])  # more than by rounding
        if c.shape != x.shape or not np.isfinite(c).all() or np.any(falls) or c[-1] <= c[0]:
            raise InputError(
                "a penalty takes an array of expected updates λs, and gives as many finite "
                "numbers that rise with them, or stay"
            )
        steps = np.maximum(np.diff(c), 0.0)
        w = np.concatenate([[0.0], np.cumsum((x[:-1] + x[1:]) / 2 * steps)])
        return cls(x, c, w)

    @property
    def slope(self) -> Floats:
        """c'(x)."""
        return np.maximum(np.gradient(self.penalty, self.x), 0.0)

    def at(self, column: Floats, x: Floats) -> Floats:
        """One of the columns between its places."""
        with np.errstate(divide="ignore"):
            place = np.log2(np.clip(x, self.x[0], self.x[-1]))
        return np.asarray(np.interp(place, np.log2(self.x), column))


@cache
def _table(penalty: Penalty) -> PenaltyTable:
    places = np.arange(-_OCTAVES * _FINE, _OCTAVES * _FINE + 1) / _FINE
    return PenaltyTable.of(penalty, 2.0**places)


class OwnObjective(Objective):
    """A penalty of one's own, for Poisson sources of these rates.

    >>> late = OwnObjective(lambda x: 1 - np.exp(-x), [0.5, 2.0])  # freshness, once more
    >>> print(late.period_at(0.1).round(4))
    [0.7107 0.4122]
    """

    name = "own"

    def __init__(self, penalty: Penalty, rates: ArrayLike) -> None:
        self.kind: Any = penalty
        self.rates = checked_rates(rates)
        self._table = _table(penalty)

    def __len__(self) -> int:
        return len(self.rates)

    def penalty(self, s: ArrayLike) -> Floats:
        x = np.clip(self._expected(s), self._table.x[0], self._table.x[-1])
        return np.asarray(self.kind(x.ravel()), float).reshape(x.shape)

    def mean_penalty(self, period: ArrayLike) -> Floats:
        table = self._table
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._at(table.penalty - table.gain / table.x, period)

    def index(self, s: ArrayLike) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            worth = self._at(self._table.gain, s) / self.rates
        return np.where(self.rates > 0, worth, 0.0)

    @property
    def limit(self) -> Floats:
        return self.index(np.inf)

    def select(self, which: Choice) -> Objective:
        return OwnObjective(self.kind, self.rates[which])

    def _at(self, column: Floats, s: ArrayLike) -> Floats:
        return self._table.at(column, self._expected(s))

    def _expected(self, s: ArrayLike) -> Floats:
        """The updates λs that are expected since a visit."""
        with np.errstate(invalid="ignore"):
            return np.where(self.rates > 0, self.rates * np.asarray(s, float), 0.0)
