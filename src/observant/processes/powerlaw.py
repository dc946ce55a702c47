"""Singh's Weibull process: a rate that rises or fades as a power of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from observant.processes.base import positive, require
from observant.processes.intensity import NonStationary

if TYPE_CHECKING:
    from observant.arrays import Floats


@dataclass(frozen=True)
class PowerLaw(NonStationary):
    """Intensity coefficient·shape·t^{shape−1}, so Λ(t) = coefficient·t^shape. Singh (3).

    Shape 1 is a Poisson process; below 1 the rate fades, above 1 it rises. It is the intensity,
    not the intervals, that follows Weibull's formula; for Weibull intervals see `Weibull`.

    >>> fading = PowerLaw.from_scale(scale=4.0, shape=0.5)
    >>> fading.cumulative(16.0), fading.intensity(16.0)
    (2.0, 0.0625)
    """

    coefficient: float
    shape: float

    def __post_init__(self) -> None:
        require(self, coefficient=positive, shape=positive)

    @classmethod
    def from_scale(cls, scale: float, shape: float) -> PowerLaw:
        """Make the process of Singh's η and β: one update is expected until time `scale`."""
        return cls(positive("scale", scale) ** -positive("shape", shape), shape)

    @classmethod
    def with_expected(cls, updates: float, horizon: float, shape: float) -> PowerLaw:
        """Make the process that has so many updates on average in (0, horizon]."""
        power = positive("horizon", horizon) ** positive("shape", shape)
        return cls(positive("updates", updates) / power, shape)

    def scaled(self, factor: float) -> PowerLaw:
        return PowerLaw(self.coefficient / positive("factor", factor) ** self.shape, self.shape)

    def _intensity(self, t: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return self.coefficient * self.shape * t ** (self.shape - 1.0)

    def _cumulative(self, t: Floats) -> Floats:
        return self.coefficient * t**self.shape

    def _inverse(self, expected: Floats) -> Floats:
        return (expected / self.coefficient) ** (1.0 / self.shape)
