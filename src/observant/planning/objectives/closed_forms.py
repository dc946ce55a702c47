"""Objectives of Poisson sources whose rates are known, in closed form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.currency.shares import share_lost, share_lost_twice
from observant.planning.objectives.index import Choice, Objective, checked_grace, checked_rates
from observant.planning.objectives.numerics import (
    currency_crossing,
    ein,
    newton_crossing,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Floats


class _Poisson(Objective):
    """What the objectives of Poisson sources share: W(s) = w(λs)/λᵖ with one function w."""

    def __init__(self, rates: ArrayLike) -> None:
        self.rates = checked_rates(rates)

    def __len__(self) -> int:
        return len(self.rates)

    def select(self, which: Choice) -> Objective:
        chosen = type(self).__new__(type(self))
        chosen.__dict__.update(
            {
                name: value[which] if isinstance(value, np.ndarray) and value.ndim else value
                for name, value in self.__dict__.items()
            }
        )
        return chosen

    @property
    def limit(self) -> Floats:
        return np.where(self.rates > 0.0, np.inf, 0.0)

    def _updates(self, s: ArrayLike) -> Floats:
        """λs, where a source that never changes has none in any time."""
        s = np.asarray(s, float)
        with np.errstate(invalid="ignore", over="ignore"):
            product: Floats = self.rates * s
        if np.isnan(np.max(product, initial=0.0)):
            product = np.where(np.isnan(product) & ~np.isnan(s), 0.0, product)
        return product


class Currency(_Poisson):
    """Out of date by more than the grace β: Brewington's (α, β)-currency, 1 − α (2.40).

    >>> objective = Currency([0.3], grace=2)
    >>> print((1 - objective.mean_penalty(10)).round(3), objective.limit.round(3))
    [0.503] [5.333]
    """

    name = "currency"

    def __init__(self, rates: ArrayLike, grace: ArrayLike = 0.0) -> None:
        super().__init__(rates)
        self.grace = checked_grace(grace, len(self.rates))

    def penalty(self, s: ArrayLike) -> Floats:
        return -np.expm1(-self._updates(self._late(s)))

    def mean_penalty(self, period: ArrayLike) -> Floats:
        late, period = self._late(period), np.asarray(period, float)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(np.isfinite(period) & (period > 0.0), late / period, 1.0)
        return share * share_lost(self._updates(late))

    def index(self, s: ArrayLike) -> Floats:
        late = self._late(s)
        x = self._updates(late)
        # c·β + (∫ of what a fresh source gains); stable also where x is tiny.
        with np.errstate(invalid="ignore", divide="ignore"):
            gain = np.where(
                x < 1.0, late * (-np.expm1(-x) - share_lost(x)), _one_less(x) / self.rates
            )
        gain = np.where(self.rates == 0.0, 0.0, gain)
        return gain + self.grace * -np.expm1(-x)

    @property
    def limit(self) -> Floats:
        with np.errstate(divide="ignore"):
            return np.where(self.rates > 0.0, 1.0 / self.rates + self.grace, 0.0)

    def period_at(self, price: ArrayLike, start: Floats | None = None) -> Floats:
        price = np.asarray(price, float)
        guess = None if start is None else start - self.grace
        return self.grace + currency_crossing(price, self.rates, self.grace, guess)

    def _late(self, s: ArrayLike) -> Floats:
        return np.maximum(np.asarray(s, float) - self.grace, 0.0)


class Freshness(Currency):
    """Out of date at all: 1 − freshness, the penalty of Cho and Garcia-Molina.

    >>> print((1 - Freshness([1.0]).mean_penalty(1.0)).round(3))
    [0.632]
    """

    name = "freshness"

    def __init__(self, rates: ArrayLike) -> None:
        super().__init__(rates, 0.0)


class DetectedChanges(_Poisson):
    """Updates a day that stay unseen because another hides them: Cho's section 6.4.

    The optimal visits are proportional to the rates (errata C-13).

    >>> print(DetectedChanges([1.0, 2.0]).period_at(0.5).round(4))
    [1.6783 0.8392]
    """

    name = "detected"

    def penalty(self, s: ArrayLike) -> Floats:
        return self.rates * -np.expm1(-self._updates(s))

    def mean_penalty(self, period: ArrayLike) -> Floats:
        return self.rates * share_lost(self._updates(period))

    def index(self, s: ArrayLike) -> Floats:
        x = self._updates(s)
        with np.errstate(invalid="ignore"):
            return np.where(x < 1.0, x * (-np.expm1(-x) - share_lost(x)), _one_less(x))

    @property
    def limit(self) -> Floats:
        return np.where(self.rates > 0.0, 1.0, 0.0)

    def period_at(self, price: ArrayLike, start: Floats | None = None) -> Floats:
        # W = λ · W of freshness, so the price is that of freshness divided by the rate.
        with np.errstate(divide="ignore", invalid="ignore"):
            price = np.where(self.rates > 0.0, np.asarray(price, float) / self.rates, np.inf)
        return currency_crossing(price, self.rates, np.zeros(()))


class Harmonic(_Poisson):
    """Kolobov's harmonic staleness: N missed updates cost 1 + 1/2 + … + 1/N."""

    name = "harmonic"

    def penalty(self, s: ArrayLike) -> Floats:
        return ein(self._updates(s))

    def mean_penalty(self, period: ArrayLike) -> Floats:
        x = self._updates(period)
        return ein(x) - share_lost(x)

    def index(self, s: ArrayLike) -> Floats:
        s = np.asarray(s, float)
        return _times(s, share_lost(self._updates(s)))

    def period_at(self, price: ArrayLike, start: Floats | None = None) -> Floats:
        price = np.asarray(price, float)
        # w(x) = x − 1 + e⁻ˣ lies between x²/2 − x³/6 and x²/2, and above x − 1.
        return newton_crossing(
            price,
            self.rates,
            1,
            lambda x: x * share_lost(x),
            lambda x: -np.expm1(-x),
            lambda q: np.sqrt(2.0 * q) + np.minimum(q, np.sqrt(q)) / 2.0,
        )


class OldestMissed(_Poisson):
    """Days since the oldest update the copy has missed: Cho's age of a page."""

    name = "age"

    def penalty(self, s: ArrayLike) -> Floats:
        s = np.asarray(s, float)
        return _times(s, share_lost(self._updates(s)))

    def mean_penalty(self, period: ArrayLike) -> Floats:
        period = np.asarray(period, float)
        return _times(period, share_lost_twice(self._updates(period)))

    def index(self, s: ArrayLike) -> Floats:
        s = np.asarray(s, float)
        x = self._updates(s)
        return _times(s, _times(s, share_lost(x) - share_lost_twice(x)))

    def period_at(self, price: ArrayLike, start: Floats | None = None) -> Floats:
        price = np.asarray(price, float)
        return newton_crossing(
            price,
            self.rates,
            2,
            lambda x: x * x * (share_lost(x) - share_lost_twice(x)),
            lambda x: x * -np.expm1(-x),
            lambda q: np.cbrt(3.0 * q) + np.sqrt(2.0 * q + 2.0),
        )


class Delay(_Poisson):
    """All missed updates wait: items of a feed, each as late as it is old. c(s) = λs."""

    name = "delay"

    def penalty(self, s: ArrayLike) -> Floats:
        return self._updates(s)

    def mean_penalty(self, period: ArrayLike) -> Floats:
        return self._updates(period) / 2.0

    def index(self, s: ArrayLike) -> Floats:
        return _times(np.asarray(s, float), self._updates(s) / 2.0)

    def period_at(self, price: ArrayLike, start: Floats | None = None) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            period = np.sqrt(2.0 * np.asarray(price, float) / self.rates)
        return np.where(self.rates > 0.0, period, np.inf)


def _one_less(x: Floats) -> Floats:
    """1 − (1 + x)e⁻ˣ, for x that is not small; 1 at infinity."""
    x = np.minimum(x, 800.0)
    return -np.expm1(-x) - x * np.exp(-x)


def _times(s: Floats, value: Floats) -> Floats:
    """Return s · value, where 0 × ∞ is 0: a source that never changes costs nothing for ever."""
    with np.errstate(invalid="ignore", over="ignore"):
        product: Floats = s * value
    return np.where(value == 0.0, 0.0, product)


POISSON = {
    "freshness": Freshness,
    "currency": Currency,
    "harmonic": Harmonic,
    "age": OldestMissed,
    "delay": Delay,
    "detected": DetectedChanges,
}
"""The objectives of Poisson sources, by name."""
