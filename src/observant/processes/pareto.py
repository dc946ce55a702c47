"""Pareto intervals of the second kind (Lomax): heavy tails, as in Li's experiments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.processes.base import positive, require
from observant.processes.renewal import Renewal

if TYPE_CHECKING:
    from observant.arrays import Floats


@dataclass(frozen=True)
class Pareto(Renewal):
    """1 − F = (1 + x/scale)^{−shape}; ages are Pareto too, 1 − G = (1 + x/scale)^{1−shape}.

    The shape must exceed 1, or there is no mean interval and no age distribution. The mean age
    is infinite up to shape 2. Li's Pareto(3, 1) has a mean of half a day:

    >>> Pareto(shape=3.0, scale=1.0).mean
    0.5
    """

    shape: float
    scale: float

    def __post_init__(self) -> None:
        require(self, shape=positive, scale=positive)
        if self.shape <= 1:
            raise InputError(
                f"Pareto: shape must be above 1, not {self.shape}; the mean interval is infinite "
                "otherwise"
            )

    @classmethod
    def with_mean(cls, mean: float, shape: float = 3.0) -> Pareto:
        """Make the process whose mean interval is `mean` days."""
        unit = cls(shape, 1.0)
        return unit.scaled(positive("mean", mean) / unit.mean)

    @property
    def mean(self) -> float:
        return self.scale / (self.shape - 1.0)

    @property
    def mean_age(self) -> float:
        return self.scale / (self.shape - 2.0) if self.shape > 2 else float("inf")

    def scaled(self, factor: float) -> Pareto:
        return Pareto(self.shape, self.scale * positive("factor", factor))

    def _cdf(self, x: Floats) -> Floats:
        return -np.expm1(-self.shape * np.log1p(x / self.scale))

    def _sf(self, x: Floats) -> Floats:
        return np.exp(-self.shape * np.log1p(x / self.scale))

    def _pdf(self, x: Floats) -> Floats:
        return self._hazard(x) * self._sf(x)

    def _hazard(self, x: Floats) -> Floats:
        return self.shape / (self.scale + x)

    def _age_cdf(self, x: Floats) -> Floats:
        return -np.expm1((1.0 - self.shape) * np.log1p(x / self.scale))

    def _age_sf(self, x: Floats) -> Floats:
        return np.exp((1.0 - self.shape) * np.log1p(x / self.scale))

    def _integrated_age_sf(self, x: Floats) -> Floats:
        over, log = self.shape - 2.0, np.log1p(x / self.scale)
        # At shape 2 the quotient below tends to the logarithm.
        return self.scale * (log if over == 0 else -np.expm1(-over * log) / over)

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return self.scale * rng.pareto(self.shape, shape)

    def _draw_residuals(self, rng: np.random.Generator, sources: int) -> Floats:
        return self.scale * rng.pareto(self.shape - 1.0, sources)
