"""Uniform intervals: never shorter than one bound, never longer than another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.processes.base import not_negative, positive, require
from observant.processes.renewal import Renewal

if TYPE_CHECKING:
    from observant.arrays import Floats


@dataclass(frozen=True)
class Uniform(Renewal):
    """F rises linearly from 0 at `low` to 1 at `high`; 1 − G = 1 − x/m up to `low`, then
    (high − x)²/(high² − low²), with m = (low + high)/2.

    >>> Uniform(low=0.0, high=2.0).age_cdf(1.0)
    0.75
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        require(self, low=not_negative, high=positive)
        if self.low >= self.high:
            raise InputError(
                f"Uniform: low must be below high, not {self.low} and {self.high}; "
                "for equal intervals use Constant"
            )

    @classmethod
    def with_mean(cls, mean: float, spread: float = 1.0) -> Uniform:
        """Make the process with intervals from mean·(1 − spread) to mean·(1 + spread)."""
        middle, part = positive("mean", mean), positive("Uniform: spread", spread)
        if part > 1:
            raise InputError(f"Uniform: spread must be at most 1, not {spread}")
        return cls(middle * (1.0 - part), middle * (1.0 + part))

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2.0

    @property
    def mean_age(self) -> float:
        return (self.low**2 + self.low * self.high + self.high**2) / (6.0 * self.mean)

    def scaled(self, factor: float) -> Uniform:
        by = positive("factor", factor)
        return Uniform(self.low * by, self.high * by)

    def _cdf(self, x: Floats) -> Floats:
        return np.clip((x - self.low) / (self.high - self.low), 0.0, 1.0)

    def _sf(self, x: Floats) -> Floats:
        return np.clip((self.high - x) / (self.high - self.low), 0.0, 1.0)

    def _pdf(self, x: Floats) -> Floats:
        inside = (x >= self.low) & (x < self.high)
        return np.where(inside, 1.0 / (self.high - self.low), 0.0)

    def _hazard(self, x: Floats) -> Floats:
        """Infinite from `high` on: an update is then certain to have come."""
        with np.errstate(divide="ignore"):
            return np.where(x < self.low, 0.0, 1.0 / np.maximum(self.high - x, 0.0))

    def _age_cdf(self, x: Floats) -> Floats:
        width, over = self.high - self.low, np.clip(x, self.low, self.high) - self.low
        late = (2.0 * width * self.low + over * (2.0 * width - over)) / (2.0 * width * self.mean)
        return np.where(x < self.low, x / self.mean, late)

    def _age_sf(self, x: Floats) -> Floats:
        left = np.maximum(self.high - x, 0.0)
        late = left * left / (2.0 * (self.high - self.low) * self.mean)
        return np.where(x < self.low, 1.0 - x / self.mean, late)

    def _integrated_age_sf(self, x: Floats) -> Floats:
        width, over = self.high - self.low, np.clip(x, self.low, self.high) - self.low
        first = np.minimum(x, self.low)
        late = over * (3.0 * width * (width - over) + over**2) / (6.0 * width * self.mean)
        return first - first**2 / (2.0 * self.mean) + late

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return rng.uniform(self.low, self.high, shape)

    def _draw_residuals(self, rng: np.random.Generator, sources: int) -> Floats:
        low, high = self.low**2, self.high**2
        biased = np.sqrt(low + (high - low) * rng.random(sources))
        return biased * (1.0 - rng.random(sources))
