"""A source whose intervals have a histogram for a density: F is made of straight lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.processes.base import floats, positive
from observant.processes.renewal import Renewal

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.processes.base import Floats

__all__ = ["AgeHistogram"]


@dataclass(frozen=True, eq=False)
class AgeHistogram(Renewal):
    """Intervals drawn evenly from the cell between two edges, the cell with its probability.

    G is a mixture of uniform ages, so it is concave; F is piecewise linear, so there is a hazard.

    >>> source = AgeHistogram([0.0, 1.0, 3.0], [0.5, 0.5])
    >>> source.mean, source.interval_cdf(2.0), source.age_cdf(1.0)
    (1.25, 0.75, 0.6)
    """

    edges: Floats
    probability: Floats

    if TYPE_CHECKING:
        _survival: Floats
        _ahead: Floats
        _waited: Floats
        _slope: Floats

    def __init__(self, edges: ArrayLike, probability: ArrayLike) -> None:
        at, mass = floats(edges), floats(probability)
        if at.ndim != 1 or mass.shape != (len(at) - 1,) or not len(mass):
            raise InputError("a histogram needs one edge more than cells")
        if not (at[0] >= 0.0 and np.all(np.diff(at) > 0.0) and np.isfinite(at[-1])):
            raise InputError("the edges of a histogram must be finite, ascending, not negative")
        if not (np.all(mass >= 0.0) and 0.0 < mass.sum() < np.inf):
            raise InputError("the probabilities of a histogram must not be negative, nor all zero")
        if at[0] > 0.0:
            at, mass = np.append(0.0, at), np.append(0.0, mass)
        mass = mass / mass.sum()
        width = np.diff(at)
        survival = np.append(np.cumsum(mass[::-1])[::-1], 0.0)
        ahead = np.append(np.cumsum(((survival[1:] + survival[:-1]) / 2.0 * width)[::-1])[::-1], 0)
        slope = np.append(mass / width, 0.0)
        waited = ahead[:-1] * width - survival[:-1] * width**2 / 2.0 + slope[:-1] * width**3 / 6.0
        for name, value in (
            ("edges", at),
            ("probability", mass),
            ("_survival", survival),  # 1 − F at each edge,
            ("_ahead", ahead),  # its integral from there on,
            ("_waited", np.append(0.0, np.cumsum(waited))),  # and the integral of that from 0
            ("_slope", slope),
        ):
            object.__setattr__(self, name, value)

    @property
    def mean(self) -> float:
        return float(self._ahead[0])

    @property
    def mean_age(self) -> float:
        return float(self._waited[-1]) / self.mean

    def scaled(self, factor: float) -> AgeHistogram:
        return AgeHistogram(self.edges * positive("factor", factor), self.probability)

    def quantile(self, q: ArrayLike) -> Floats:
        """Shortest length that a share q of the intervals does not exceed."""
        share = np.asarray(q, np.float64)
        if np.any((share < 0.0) | (share > 1.0) | np.isnan(share)):
            raise InputError("a quantile is asked for by a share between 0 and 1")
        below = np.append(0.0, np.cumsum(self.probability))
        filled = np.flatnonzero(self.probability)
        # The cell in which F reaches q; rounding of the sum may leave a share beyond the last.
        place = np.searchsorted(below[1:][filled], share, side="left")
        cell = filled[np.minimum(place, len(filled) - 1)]
        within = np.clip((share - below[cell]) / self.probability[cell], 0.0, 1.0)
        answer = self.edges[cell] + within * np.diff(self.edges)[cell]
        return np.asarray(answer, np.float64)[()]

    def _cell(self, x: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        k = np.searchsorted(self.edges, x, side="right") - 1
        y = np.where(k < len(self.probability), x - self.edges[k], 0.0)
        return y, self._survival[k], self._slope[k], self._ahead[k], self._waited[k]

    def _sf(self, x: Floats) -> Floats:
        y, survival, slope, _, _ = self._cell(x)
        return np.maximum(survival - slope * y, 0.0)

    def _pdf(self, x: Floats) -> Floats:
        return self._cell(x)[2]

    def _hazard(self, x: Floats) -> Floats:
        survival = self._sf(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(survival > 0.0, self._pdf(x) / survival, np.inf)

    def _age_sf(self, x: Floats) -> Floats:
        y, survival, slope, ahead, _ = self._cell(x)
        return np.maximum(ahead - survival * y + slope * y**2 / 2.0, 0.0) / self.mean

    def _integrated_age_sf(self, x: Floats) -> Floats:
        y, survival, slope, ahead, waited = self._cell(x)
        return (waited + ahead * y - survival * y**2 / 2.0 + slope * y**3 / 6.0) / self.mean

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        cell = rng.choice(len(self.probability), shape, p=self.probability)
        return self.edges[cell] + np.diff(self.edges)[cell] * rng.random(shape)

    def _draw_residuals(self, rng: np.random.Generator, sources: int) -> Floats:
        low, high = self.edges[:-1], self.edges[1:]
        hit = self.probability * (low + high)
        cell = rng.choice(len(hit), sources, p=hit / hit.sum())
        length = np.sqrt(low[cell] ** 2 + rng.random(sources) * (high**2 - low**2)[cell])
        return length * (1.0 - rng.random(sources))
