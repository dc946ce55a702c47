"""What every objective has: a penalty, its mean over a period, and the index W."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

from observant.errors import InputError
from observant.planning.objectives.numerics import crossing

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Flags, Floats, Integers

Choice: TypeAlias = "slice | Flags | Integers"

LONG = 1e9
"""Days: what counts as for ever where no formula gives the limit."""


class Objective(ABC):
    """An expected penalty for each of many sources.

    A subclass gives `penalty`, `mean_penalty`, `select` and the number of sources; what follows
    from them is here, by numerical means. Times broadcast against one entry per source.
    """

    name: ClassVar[str] = "custom"

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def penalty(self, s: ArrayLike) -> Floats:
        """c(s), the expected penalty s days after a visit; it never falls with s."""

    @abstractmethod
    def mean_penalty(self, period: ArrayLike) -> Floats:
        """(1/T) ∫₀ᵀ c, what a source visited with this period costs; c(∞) at T = ∞."""

    @abstractmethod
    def select(self, which: Choice) -> Objective:
        """Return the objective of some of the sources."""

    def mean_penalty_variance(self, period: ArrayLike) -> Floats | None:
        """Variance of `mean_penalty` over what is not known of each rate; None: all is known."""
        return None

    @property
    def limit(self) -> Floats:
        """W(∞): no price above it is worth a visit. Infinite where the index has no bound."""
        return self.index(np.full(len(self), LONG))

    def index(self, s: ArrayLike) -> Floats:
        """W(s) = s·c(s) − ∫₀ˢ c, the gain of a visit s days after the last."""
        s = np.asarray(s, float)
        gain: Floats = s * (self.penalty(s) - self.mean_penalty(s))
        return np.maximum(gain, 0.0)

    def period_at(self, price: ArrayLike, start: Floats | None = None) -> Floats:
        """Return the smallest s with W(s) ≥ price, infinite where there is none.

        At a price of 0 it is the time before which a visit gains nothing. `start`, a guess, only
        saves time.
        """
        price = np.broadcast_to(np.asarray(price, float), (len(self),))
        return crossing(self.index, price, self.limit, start)


def checked_rates(rates: ArrayLike) -> Floats:
    try:
        checked = np.atleast_1d(np.asarray(rates, float))
    except (TypeError, ValueError) as error:
        raise InputError("the rates must be an array of numbers") from error
    if checked.ndim != 1:
        raise InputError(f"the rates must be one array, not of shape {checked.shape}")
    bad = ~(np.isfinite(checked) & (checked >= 0.0))
    if bad.any():
        i = int(np.argmax(bad))
        raise InputError(
            f"the rate of source number {i + 1} is {checked[i]:g}: a rate is a finite number of "
            "updates a day, not negative"
        )
    return checked


def checked_grace(grace: ArrayLike, count: int) -> Floats:
    checked = np.asarray(grace, float)
    if checked.ndim and checked.shape != (count,):
        raise InputError(f"give one grace for all or one for each of the {count:,} sources")
    if not np.all(np.isfinite(checked) & (checked >= 0.0)):
        raise InputError("the grace must be finite and not negative")
    return checked
