"""Gamma intervals: a whole shape k is every k-th event of a Poisson process."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from observant.processes.base import floats, positive, require
from observant.processes.renewal import Renewal

if TYPE_CHECKING:
    from observant.arrays import Floats


@dataclass(frozen=True)
class Gamma(Renewal):
    """1 − F = Q(k, z) with z = x/scale and shape k; G = P(k + 1, z) + (z/k) Q(k, z).

    P and Q are the lower and upper gamma ratios.

    >>> Gamma.with_mean(7.0, shape=2.0)
    Gamma(shape=2.0, scale=3.5)
    """

    shape: float
    scale: float

    def __post_init__(self) -> None:
        require(self, shape=positive, scale=positive)

    @classmethod
    def with_mean(cls, mean: float, shape: float = 1.0) -> Gamma:
        """Make the process whose mean interval is `mean` days."""
        return cls(shape, positive("mean", mean) / positive("Gamma: shape", shape))

    @property
    def mean(self) -> float:
        return self.shape * self.scale

    @property
    def mean_age(self) -> float:
        return self.scale * (self.shape + 1.0) / 2.0

    def scaled(self, factor: float) -> Gamma:
        return Gamma(self.shape, self.scale * positive("factor", factor))

    def _cdf(self, x: Floats) -> Floats:
        from scipy.special import gammainc

        return floats(gammainc(self.shape, x / self.scale))

    def _sf(self, x: Floats) -> Floats:
        from scipy.special import gammaincc

        return floats(gammaincc(self.shape, x / self.scale))

    def _pdf(self, x: Floats) -> Floats:
        return _unit_density(self.shape, x / self.scale) / self.scale

    def _hazard(self, x: Floats) -> Floats:
        survival = self._sf(x)
        far = survival < 1e-280
        out = np.empty_like(x)
        out[~far] = self._pdf(x[~far]) / survival[~far]
        out[far] = _far_hazard(self.shape, x[far] / self.scale) / self.scale
        return out

    def _age_cdf(self, x: Floats) -> Floats:
        from scipy.special import gammainc, gammaincc

        z = x / self.scale
        return floats(gammainc(self.shape + 1.0, z) + z / self.shape * gammaincc(self.shape, z))

    def _age_sf(self, x: Floats) -> Floats:
        from scipy.special import gammaincc

        z = x / self.scale
        # The difference is positive; in the far tail its rounding is not.
        difference = gammaincc(self.shape + 1.0, z) - z / self.shape * gammaincc(self.shape, z)
        return np.maximum(difference, 0.0)

    def _integrated_age_sf(self, x: Floats) -> Floats:
        from scipy.special import gammainc, gammaincc

        z, k = x / self.scale, self.shape
        below = 0.5 * z * z / k * gammaincc(k, z) + 0.5 * (k + 1.0) * gammainc(k + 2.0, z)
        return x * self._age_sf(x) + self.scale * below

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return self.scale * rng.standard_gamma(self.shape, shape)

    def _draw_residuals(self, rng: np.random.Generator, sources: int) -> Floats:
        biased = rng.standard_gamma(self.shape + 1.0, sources)
        return self.scale * biased * (1.0 - rng.random(sources))


def _unit_density(k: float, z: Floats) -> Floats:
    from scipy.special import xlogy

    with np.errstate(divide="ignore", over="ignore"):
        return np.exp(xlogy(k - 1.0, z) - z - math.lgamma(k))


def _far_hazard(k: float, z: Floats) -> Floats:
    """z^{k−1}e^{−z}/Γ(k, z) by Legendre's continued fraction, where both underflow."""
    tail = np.zeros_like(z)
    for n in range(60, 0, -1):
        tail = n * (n - k) / (z + 2.0 * n + 1.0 - k - tail)
    return (z + 1.0 - k - tail) / z
