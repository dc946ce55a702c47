"""Is a Weibull a fair description of a collection? Beside it, a prior that assumes no form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from observant.errors import InputError
from observant.tables import Table
from observant.units import format_duration

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["PriorComparison", "compare_prior"]

Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class PriorComparison(Table):
    """Two distributions of the mean time between updates: a prior on a grid, and a Weibull."""

    columns: ClassVar[tuple[str, ...]] = ("days", "prior", "weibull")

    days: Array
    """Mean time between updates."""
    prior: Array
    """Share of sources up to that mean time, by the prior."""
    weibull: Array
    """The same by the Weibull distribution."""
    distance: float
    """Largest difference between the two (Kolmogorov-Smirnov)."""
    at: float
    """The mean time, in days, where they differ most."""
    shape: float
    scale: float

    def to_dict(self) -> dict[str, Any]:
        """The comparison in plain values."""
        return {
            "distance": self.distance,
            "at_days": self.at,
            "poor": self.distance > _POOR,
            "curve": list(self.rows()),
        }

    def __str__(self) -> str:
        place = int(np.searchsorted(self.days, self.at))
        verdict = "poor" if self.distance > _POOR else "fair"
        return (
            f"Weibull ({self.shape:.3g}, {format_duration(self.scale)}): a {verdict} description\n"
            f"change more often than once in {format_duration(self.at)}: "
            f"{100 * self.weibull[place]:.0f} % of the Weibull's sources, "
            f"{100 * self.prior[place]:.0f} % of the prior's (distance {self.distance:.3f})"
        )


def compare_prior(
    rates: ArrayLike, weights: ArrayLike, shape: float, scale: float
) -> PriorComparison:
    """Show a population prior on a grid of rates in the terms of a Weibull population.

    `rates` per day and `weights`, one each, are what empirical Bayes found without assuming a
    form. Each weight is spread over the cell of its rate on a logarithmic scale, so that a fine
    enough grid of Weibull weights has distance 0. Where the distance is large, the Weibull is a
    poor description of the collection and its currency should be computed from the prior itself.

    >>> print(compare_prior([0.001, 0.01, 0.1, 1.0, 10.0], [3, 0, 0, 1, 0], 0.6, 300.0))
    Weibull (0.6, 300d): a poor description
    change more often than once in 316d: 64 % of the Weibull's sources, 25 % of the prior's \
(distance 0.394)
    """
    per_day = np.ravel(np.asarray(rates, float))
    mass = np.ravel(np.asarray(weights, float))
    if per_day.shape != mass.shape or len(mass) < 2:
        raise InputError("give one weight for each rate, and two rates or more")
    if not (np.all(np.isfinite(per_day)) and np.all(per_day > 0.0)):
        raise InputError("the rates of a prior must be finite and above 0")
    if not (np.all(mass >= 0.0) and 0.0 < mass.sum() < math.inf):
        raise InputError("the weights of a prior must be finite, not negative, and not all 0")
    order = np.argsort(per_day)[::-1]
    times, mass = 1.0 / per_day[order], mass[order] / mass.sum()
    # The cells of the grid meet half-way between neighbouring rates, on the logarithmic scale.
    edges = np.sqrt(times[1:] * times[:-1])
    prior = np.cumsum(mass)[:-1]
    weibull = -np.expm1(-((edges / scale) ** shape))
    worst = int(np.argmax(np.abs(prior - weibull)))
    return PriorComparison(
        days=edges,
        prior=prior,
        weibull=weibull,
        distance=float(abs(prior - weibull)[worst]),
        at=float(edges[worst]),
        shape=shape,
        scale=scale,
    )


_POOR = 0.1
"""Beyond this distance one source in ten is misplaced, and the currency of a plan with it."""
