"""A rate that is not known exactly, or differs from source to source: mixtures of Poisson sources.

The same mathematics serves both. A posterior says how likely each rate of one source is; a
population says how common each rate is in a collection, and its currency is that of a source
picked at random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from observant.currency.age_models import AgeModel, PoissonRates, not_negative, unwrapped
from observant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from observant.arrays import Floats


@dataclass(frozen=True, eq=False)
class GammaRates(AgeModel):
    """Rates with a Gamma(a, b) distribution, a = `shape`, b = `exposure` in days.

    It is what is known after about a updates in b days of watching.

    G(x) = 1 − (b/(b+x))^a, and ∫₀ˣ (1 − G) = b/(a−1) · (1 − (b/(b+x))^(a−1)), with the limit
    b log(1 + x/b) at a = 1. Arrays give one posterior for each of many sources.

    >>> print(GammaRates(shape=[1, 3], exposure=10).integrated_age_sf(10).round(4))
    [6.9315 3.75  ]
    """

    shape: Floats
    exposure: Floats

    def __init__(self, shape: ArrayLike, exposure: ArrayLike) -> None:
        for name, value in (("shape", shape), ("exposure", exposure)):
            checked = not_negative(name, value)
            if np.any(checked == 0.0):
                raise InputError(f"the {name} of a Gamma distribution must be more than 0")
            object.__setattr__(self, name, checked)

    @property
    def mean_rate(self) -> Floats:
        return self.shape / self.exposure

    def age_cdf(self, x: ArrayLike) -> Floats:
        return -np.expm1(-self.shape * self._log_growth(x))

    def integrated_age_sf(self, x: ArrayLike) -> Floats:
        power, growth = self.shape - 1.0, self._log_growth(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            wait = np.where(power == 0.0, growth, -np.expm1(-power * growth) / power)
        return self.exposure * wait

    def integrated_age_cdf(self, x: ArrayLike) -> Floats:
        plain = np.asarray(np.asarray(x, float) - self.integrated_age_sf(x))
        growth = self._log_growth(x)
        cancels = np.broadcast_to(self.shape * growth < 1.0, plain.shape)
        if not cancels.any():
            return unwrapped(plain)
        # In u = log(1 + x/b) the integrand is smooth and has one sign: no digits are lost.
        nodes, weights = np.polynomial.legendre.leggauss(32)
        total = np.zeros(plain.shape)
        for node, weight in zip((nodes + 1.0) / 2.0, weights / 2.0, strict=True):
            u = node * growth
            total += weight * np.exp(u) * -np.expm1(-self.shape * u)
        return unwrapped(np.where(cancels, self.exposure * growth * total, plain))

    def age_quantile(self, p: ArrayLike) -> Floats:
        quantile: Floats = self.exposure * np.expm1(-np.log1p(-np.asarray(p, float)) / self.shape)
        return quantile

    def _log_growth(self, x: ArrayLike) -> Floats:
        return np.log1p(np.asarray(x, float) / self.exposure)


@dataclass(frozen=True, eq=False)
class RateMixture(AgeModel):
    """Rates on a grid with a weight each, along the last axis; the weights are made to sum to 1.

    One grid `rates` of shape (k,) with `weights` of shape (n, k) are the posteriors of n sources.

    >>> mixture = RateMixture(rates=[0.1, 1.0], weights=[[3, 1], [1, 1]])
    >>> print(mixture.mean_rate, mixture.age_cdf(10).round(4))
    [0.325 0.55 ] [0.7241 0.816 ]
    """

    rates: Floats
    weights: Floats

    def __init__(self, rates: ArrayLike, weights: ArrayLike | None = None) -> None:
        rates = np.atleast_1d(not_negative("rates", rates))
        weights = np.ones(rates.shape) if weights is None else not_negative("weights", weights)
        try:
            rates, weights = np.broadcast_arrays(rates, weights)
        except ValueError as error:
            raise InputError(
                f"rates of shape {rates.shape} and weights of shape {weights.shape} do not fit: "
                "give one weight for each rate, along the last axis"
            ) from error
        total = weights.sum(axis=-1, keepdims=True)
        if not (np.all(total > 0.0) and np.all(np.isfinite(total))):
            raise InputError("the weights of the rates must be finite and not all zero")
        object.__setattr__(self, "rates", rates)
        object.__setattr__(self, "weights", weights / total)

    @property
    def mean_rate(self) -> Floats:
        mean: Floats = (self.weights * self.rates).sum(axis=-1)
        return mean

    def age_cdf(self, x: ArrayLike) -> Floats:
        return self._average(PoissonRates.age_cdf, x)

    def integrated_age_sf(self, x: ArrayLike) -> Floats:
        return self._average(PoissonRates.integrated_age_sf, x)

    def integrated_age_cdf(self, x: ArrayLike) -> Floats:
        return self._average(PoissonRates.integrated_age_cdf, x)

    def twice_integrated_age_cdf(self, x: ArrayLike) -> Floats:
        return self._average(PoissonRates.twice_integrated_age_cdf, x)

    def _average(self, answer: Callable[[PoissonRates, Floats], Floats], x: ArrayLike) -> Floats:
        """Average over the rates, a block of them at a time, so that memory stays bounded."""
        x = np.asarray(x, float)[..., None]
        total = np.zeros(np.broadcast_shapes(x.shape, (*self.rates.shape[:-1], 1))[:-1])
        step = max(1, _BLOCK // max(total.size, 1))
        for start in range(0, self.rates.shape[-1], step):
            block = np.s_[..., start : start + step]
            values = answer(PoissonRates(self.rates[block]), x)
            total += (self.weights[block] * values).sum(axis=-1)
        return unwrapped(total)


@dataclass(frozen=True)
class WeibullPopulation(AgeModel):
    """A collection whose mean times between updates are Weibull: Brewington (3.9), (3.16).

    `shape` is σ and `scale` is δ in days. What it says of currency is (3.17), the average over
    the population, accurate to about twelve digits.

    >>> web = WeibullPopulation(1.4, 152.2)
    >>> print(round(web.mean, 1), round(web.median, 1), round(web.mode, 1))
    138.7 117.1 62.2
    """

    shape: float
    scale: float

    def __post_init__(self) -> None:
        for name in ("shape", "scale"):
            value = getattr(self, name)
            if not (np.ndim(value) == 0 and 0.0 < value < math.inf):
                raise InputError(f"the {name} of a Weibull population must be a number above 0")

    @property
    def mean(self) -> float:
        """Mean of the mean times, in days."""
        try:
            return self.scale * math.gamma(1.0 + 1.0 / self.shape)
        except OverflowError:  # of shapes near zero
            return math.inf

    @property
    def median(self) -> float:
        """Half of the sources change more often than once in this many days."""
        return float(self.scale * math.log(2.0) ** (1.0 / self.shape))

    @property
    def mode(self) -> float:
        """The most common mean time; 0 when the shape is not above 1."""
        return float(self.scale * max(0.0, 1.0 - 1.0 / self.shape) ** (1.0 / self.shape))

    @property
    def mean_rate(self) -> Floats:
        """Mean updates per day, Γ(1 − 1/σ)/δ; infinite when the shape is not above 1."""
        mean = math.gamma(1.0 - 1.0 / self.shape) / self.scale if self.shape > 1.0 else math.inf
        return unwrapped(np.asarray(mean))

    def age_cdf(self, x: ArrayLike) -> Floats:
        return self.mixture.age_cdf(x)

    def integrated_age_sf(self, x: ArrayLike) -> Floats:
        return self.mixture.integrated_age_sf(x)

    def integrated_age_cdf(self, x: ArrayLike) -> Floats:
        return self.mixture.integrated_age_cdf(x)

    def twice_integrated_age_cdf(self, x: ArrayLike) -> Floats:
        return self.mixture.twice_integrated_age_cdf(x)

    @cached_property
    def mixture(self) -> RateMixture:
        """The population as a few hundred rates.

        In the logarithm of the mean time the integrand is analytic in a strip and dies away at both
        ends, so the plain trapezoidal sum converges exponentially fast: its step is chosen for
        1e-15. The rare fast sources are kept down to a share of 1e-26, because a small probability
        of staleness hangs on them.
        """
        step = 0.28 / max(1.0, self.shape)
        log_times = np.arange(-60.0 / self.shape, math.log(45.0) / self.shape, step)
        power = np.exp(self.shape * log_times)
        return RateMixture(np.exp(-log_times) / self.scale, power * np.exp(-power))


_BLOCK = 1 << 18
