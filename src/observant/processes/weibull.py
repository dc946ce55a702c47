"""Weibull intervals: bursty below shape 1, Poisson at 1, ever more regular above."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.processes.base import floats, positive, require
from observant.processes.renewal import Renewal

if TYPE_CHECKING:
    from observant.arrays import Floats


@dataclass(frozen=True)
class Weibull(Renewal):
    """1 − F = e^{−z} with z = (x/scale)^shape; 1 − G = Q(1/shape, z), the upper gamma ratio.

    New is worse than used (Li section IV) only for shape at most 1; errata L-3.

    >>> bursty = Weibull.with_mean(7.0, shape=0.5)
    >>> bursty.scale, round(bursty.mean_age, 9)
    (3.5, 21.0)
    """

    shape: float
    scale: float

    def __post_init__(self) -> None:
        require(self, shape=positive, scale=positive)
        # Γ(1 + 2/shape) must be a floating-point number, or there is no mean age to compute with.
        if self.shape < 0.012:
            raise InputError(f"Weibull: shape {self.shape} is too small to compute with (0.012)")

    @classmethod
    def with_mean(cls, mean: float, shape: float = 1.0) -> Weibull:
        """Make the process whose mean interval is `mean` days."""
        unit = cls(shape, 1.0)
        return unit.scaled(positive("mean", mean) / unit.mean)

    @property
    def mean(self) -> float:
        return self.scale * math.gamma(1.0 + 1.0 / self.shape)

    @property
    def mean_age(self) -> float:
        return self.scale * math.exp(math.lgamma(2.0 / self.shape) - math.lgamma(1.0 / self.shape))

    def scaled(self, factor: float) -> Weibull:
        return Weibull(self.shape, self.scale * positive("factor", factor))

    def _power(self, x: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return (x / self.scale) ** self.shape

    def _cdf(self, x: Floats) -> Floats:
        return -np.expm1(-self._power(x))

    def _sf(self, x: Floats) -> Floats:
        return np.exp(-self._power(x))

    def _pdf(self, x: Floats) -> Floats:
        survival = self._sf(x)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.where(survival > 0, self._hazard(x) * survival, 0.0)

    def _hazard(self, x: Floats) -> Floats:
        with np.errstate(divide="ignore", over="ignore"):
            return self.shape / self.scale * (x / self.scale) ** (self.shape - 1.0)

    def _age_cdf(self, x: Floats) -> Floats:
        from scipy.special import gammainc

        return floats(gammainc(1.0 / self.shape, self._power(x)))

    def _age_sf(self, x: Floats) -> Floats:
        from scipy.special import gammaincc

        return floats(gammaincc(1.0 / self.shape, self._power(x)))

    def _integrated_age_sf(self, x: Floats) -> Floats:
        from scipy.special import gammainc

        # x(1 − G(x)) plus the ages below x: two positive terms, nothing cancels.
        return x * self._age_sf(x) + self.mean_age * gammainc(2.0 / self.shape, self._power(x))

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return self.scale * rng.weibull(self.shape, shape)

    def _draw_residuals(self, rng: np.random.Generator, sources: int) -> Floats:
        return self.scale * rng.standard_gamma(1.0 / self.shape, sources) ** (1.0 / self.shape)
