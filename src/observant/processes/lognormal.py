"""Lognormal intervals: many people's work arrives like this."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.processes.base import finite, positive, require
from observant.processes.renewal import Renewal

if TYPE_CHECKING:
    from observant.arrays import Floats


@dataclass(frozen=True)
class Lognormal(Renewal):
    """log U is normal(mu, sigma): F = Φ(w) with w = (log x − mu)/sigma.

    G = Φ(w − sigma) + (x/m) Φ(−w), where m = exp(mu + sigma²/2).

    >>> source = Lognormal.with_mean(1.0, sigma=1.0)
    >>> round(source.interval_cdf(1.0), 4), round(source.age_cdf(1.0), 4)
    (0.6915, 0.6171)
    """

    mu: float
    sigma: float

    def __post_init__(self) -> None:
        require(self, mu=finite, sigma=positive)
        # mu + 2 sigma² is the exponent of the second moment.
        if abs(self.mu) + 2.0 * self.sigma**2 > 700:
            raise InputError(
                f"Lognormal: the second moment of mu {self.mu} and sigma {self.sigma} is beyond "
                "floating point; check that both are those of the logarithm of days"
            )

    @classmethod
    def with_mean(cls, mean: float, sigma: float = 1.0) -> Lognormal:
        """Make the process whose mean interval is `mean` days."""
        spread = positive("Lognormal: sigma", sigma)
        return cls(math.log(positive("mean", mean)) - spread**2 / 2.0, spread)

    @property
    def mean(self) -> float:
        return math.exp(self.mu + self.sigma**2 / 2.0)

    @property
    def mean_age(self) -> float:
        return math.exp(self.mu + 1.5 * self.sigma**2) / 2.0

    def scaled(self, factor: float) -> Lognormal:
        return Lognormal(self.mu + math.log(positive("factor", factor)), self.sigma)

    def _standard(self, x: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return (np.log(x) - self.mu) / self.sigma

    def _cdf(self, x: Floats) -> Floats:
        from scipy.special import ndtr

        return ndtr(self._standard(x))

    def _sf(self, x: Floats) -> Floats:
        from scipy.special import ndtr

        return ndtr(-self._standard(x))

    def _log_pdf(self, x: Floats) -> Floats:
        w = np.maximum(self._standard(x), -1e150)  # finite, so that x = 0 is not ∞ − ∞
        with np.errstate(divide="ignore"):
            return (
                -0.5 * w * w
                - np.log(np.maximum(x, 5e-324))
                - math.log(self.sigma * math.sqrt(2.0 * math.pi))
            )

    def _pdf(self, x: Floats) -> Floats:
        return np.exp(self._log_pdf(x))

    def _hazard(self, x: Floats) -> Floats:
        from scipy.special import log_ndtr

        return np.exp(self._log_pdf(x) - log_ndtr(-self._standard(x)))

    def _age_cdf(self, x: Floats) -> Floats:
        from scipy.special import ndtr

        return ndtr(self._standard(x) - self.sigma) + x / self.mean * self._sf(x)

    def _age_sf(self, x: Floats) -> Floats:
        from scipy.special import ndtr

        difference = ndtr(self.sigma - self._standard(x)) - x / self.mean * self._sf(x)
        return np.maximum(difference, 0.0)

    def _integrated_age_sf(self, x: Floats) -> Floats:
        from scipy.special import ndtr

        w = self._standard(x)
        below = 0.5 * x * (x / self.mean) * self._sf(x) + self.mean_age * ndtr(w - 2.0 * self.sigma)
        return x * self._age_sf(x) + below

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return rng.lognormal(self.mu, self.sigma, shape)

    def _draw_residuals(self, rng: np.random.Generator, sources: int) -> Floats:
        biased = rng.lognormal(self.mu + self.sigma**2, self.sigma, sources)
        return biased * (1.0 - rng.random(sources))
