"""What is known of how a source changes, in the one form currency needs: its age distribution.

G(x) is the probability that the source, looked at at a random moment, changed within the last x
days; by stationarity also that it changes within the next x days. An `AgeModel` gives G, its
integrals and the rate. `as_model` makes one of whatever the user has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from observant.currency.shares import share_lost, share_lost_twice
from observant.errors import InputError
from observant.units import in_days, per_day

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from observant.arrays import Floats


@runtime_checkable
class AgeProcess(Protocol):
    """Anything with an age distribution, such as a process of `observant.processes`.

    If it also has `integrated_age_sf`, the integral of 1 − G from 0, that is used and is faster.
    """

    def age_cdf(self, x: Any) -> Any: ...


@runtime_checkable
class Rated(Protocol):
    """A table of rates, such as `observant.estimate_rates` makes."""

    @property
    def rate_per_day(self) -> Floats: ...


Source: TypeAlias = "ArrayLike | AgeProcess | Rated | Callable[[Floats], Floats]"


def as_model(source: Source) -> AgeModel:
    """Read rates, a table of them, a process, or G as a function, as one model of the age."""
    if isinstance(source, AgeModel):
        return source
    if isinstance(source, AgeProcess):
        return _Process(source)
    if callable(source):
        return _Function(source)
    return PoissonRates(source.rate_per_day if isinstance(source, Rated) else per_day(source))


class AgeModel(ABC):
    """The age distribution G of a stationary source and what follows from it.

    Only `age_cdf` must be given; the integrals default to quadrature that follows G over nine
    orders of magnitude below x. Arguments and parameters broadcast.
    """

    @abstractmethod
    def age_cdf(self, x: ArrayLike) -> Floats:
        """G(x), also at x = infinity, where it is the share of sources that ever change."""

    @property
    def mean_rate(self) -> Floats:
        """Updates per day."""
        raise InputError(
            "the rate of this source is not known: give it as rates, a posterior, a population or "
            "a process that has a rate or a mean"
        )

    def integrated_age_sf(self, x: ArrayLike) -> Floats:
        """∫₀ˣ (1 − G), the expected time until the next update or x, whichever comes first."""
        x = np.asarray(x, float)
        return x * _mean_over_unit(lambda u: 1.0 - self.age_cdf(x * u))

    def integrated_age_cdf(self, x: ArrayLike) -> Floats:
        """∫₀ˣ G, without the cancellation in x − ∫₀ˣ (1 − G)."""
        x = np.asarray(x, float)
        return x * _mean_over_unit(lambda u: self.age_cdf(x * u))

    def twice_integrated_age_cdf(self, x: ArrayLike) -> Floats:
        """∫₀ˣ (x − s) G(s) ds."""
        x = np.asarray(x, float)
        return x**2 * _mean_over_unit(lambda u: (1.0 - u) * self.age_cdf(x * u))

    def age_quantile(self, p: ArrayLike) -> Floats:
        """Return the largest x with G(x) ≤ p, infinite when every x has it."""
        p = np.asarray(p, float)
        low, high = np.asarray(-_ANY_LOG), np.asarray(_ANY_LOG)
        for _ in range(64):  # 1400 / 2⁶⁴ in the logarithm is all that a float can hold
            middle = (low + high) / 2.0
            inside = self.age_cdf(np.exp(middle)) <= p
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
        answer = np.where(low > -_ANY_LOG, np.exp(low), 0.0)
        return unwrapped(np.where(high < _ANY_LOG, answer, np.inf))


@dataclass(frozen=True, eq=False)
class PoissonRates(AgeModel):
    """Poisson sources of known rates: G(x) = 1 − e^(−λx), exact however small or large λx is."""

    rate: Floats

    def __init__(self, rate: ArrayLike) -> None:
        object.__setattr__(self, "rate", not_negative("rate", rate))

    @property
    def mean_rate(self) -> Floats:
        return self.rate

    def age_cdf(self, x: ArrayLike) -> Floats:
        return -np.expm1(-self._expected_updates(x))

    def integrated_age_sf(self, x: ArrayLike) -> Floats:
        # One transcendental pass and few others: this is the loop that runs over millions.
        x = np.asarray(x, float)
        wait = np.asarray(self._expected_updates(x))
        np.negative(wait, out=wait)
        np.expm1(wait, out=wait)
        np.negative(wait, out=wait)
        with np.errstate(divide="ignore", invalid="ignore"):
            np.divide(wait, self.rate, out=wait)
        if not np.all(self.rate):
            wait = np.where(self.rate == 0.0, x, wait)
        return unwrapped(wait)

    def integrated_age_cdf(self, x: ArrayLike) -> Floats:
        x = np.asarray(x, float)
        return x * share_lost(self._expected_updates(x))

    def twice_integrated_age_cdf(self, x: ArrayLike) -> Floats:
        x = np.asarray(x, float)
        return x**2 * share_lost_twice(self._expected_updates(x))

    def age_quantile(self, p: ArrayLike) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            quantile = -np.log1p(-np.asarray(p, float)) / self.rate
        # 0/0: a source that never changes.
        return unwrapped(np.where(self.rate == 0.0, np.inf, quantile))

    def _expected_updates(self, x: ArrayLike) -> Floats:
        """Return λx, where 0 × infinity is 0: the one never changes, the other has had no time."""
        x = np.asarray(x, float)
        with np.errstate(invalid="ignore"):
            product: Floats = self.rate * x
        if np.isnan(np.max(product, initial=0.0)):
            product = np.where((self.rate == 0.0) | (x == 0.0), 0.0, product)
        return product


@dataclass(frozen=True, eq=False)
class AgeTable(AgeModel):
    """G measured at some ages, for example by the methods of Li: straight lines in between.

    G is 0 at age 0 and keeps its last value beyond the last age.

    >>> table = AgeTable(ages=[5, 10], cdf=[0.5, 1.0])
    >>> print(table.age_cdf([2.5, 20]), table.integrated_age_sf(10))
    [0.25 1.  ] 5.0
    """

    ages: Floats
    cdf: Floats

    def __init__(self, ages: ArrayLike, cdf: ArrayLike) -> None:
        ages, cdf = np.asarray(ages, float), np.asarray(cdf, float)
        if ages.ndim != 1 or ages.shape != cdf.shape or not ages.size:
            raise InputError("an age table needs as many values of the CDF as ages, at least one")
        if not (ages[0] >= 0.0 and np.all(np.diff(ages) > 0.0) and np.isfinite(ages[-1])):
            raise InputError("the ages of an age table must be finite, ascending and not negative")
        if not (cdf[0] >= 0.0 and np.all(np.diff(cdf) >= 0.0) and cdf[-1] <= 1.0):
            raise InputError("the CDF of an age table must lie between 0 and 1 and never fall")
        if ages[0] > 0.0:
            ages, cdf = np.append(0.0, ages), np.append(0.0, cdf)
        object.__setattr__(self, "ages", ages)
        object.__setattr__(self, "cdf", cdf)

    @property
    def mean_rate(self) -> Floats:
        """The slope of G at age 0, as far as the table resolves it."""
        if self.cdf[0] > 0.0 or self.ages.size == 1:
            return unwrapped(np.asarray(np.inf if self.cdf[0] > 0.0 else 0.0))
        return unwrapped(np.asarray(self.cdf[1] / self.ages[1]))

    def age_cdf(self, x: ArrayLike) -> Floats:
        return np.asarray(np.interp(np.asarray(x, float), self.ages, self.cdf), float)

    def integrated_age_sf(self, x: ArrayLike) -> Floats:
        return _integral_of_lines(self.ages, 1.0 - self.cdf, x)

    def integrated_age_cdf(self, x: ArrayLike) -> Floats:
        return _integral_of_lines(self.ages, self.cdf, x)


class _Function(AgeModel):
    """G as a plain function."""

    def __init__(self, cdf: Callable[[Floats], Floats]) -> None:
        self.cdf = cdf

    def age_cdf(self, x: ArrayLike) -> Floats:
        return np.asarray(self.cdf(np.asarray(x, float)), float)


class _Process(_Function):
    """A process that brings its own G, perhaps its integral, and perhaps its rate."""

    def __init__(self, process: AgeProcess) -> None:
        super().__init__(process.age_cdf)
        self.process = process

    @property
    def mean_rate(self) -> Floats:
        for name in ("rate", "mean_rate"):
            if (rate := getattr(self.process, name, None)) is not None:
                return unwrapped(np.asarray(rate() if callable(rate) else rate, float))
        if (mean := getattr(self.process, "mean", None)) is not None:
            return 1.0 / unwrapped(np.asarray(mean() if callable(mean) else mean, float))
        return super().mean_rate

    def integrated_age_sf(self, x: ArrayLike) -> Floats:
        integral = getattr(self.process, "integrated_age_sf", None)
        if integral is None:
            return super().integrated_age_sf(x)
        return np.asarray(integral(np.asarray(x, float)), float)

    def integrated_age_cdf(self, x: ArrayLike) -> Floats:
        if not hasattr(self.process, "integrated_age_sf"):
            return super().integrated_age_cdf(x)
        return np.maximum(np.asarray(x, float) - self.integrated_age_sf(x), 0.0)


def not_negative(name: str, value: ArrayLike, *, finite: bool = False) -> Floats:
    """Check a quantity. Not-a-number passes: it means that nothing is known."""
    try:
        values = np.asarray(in_days(value), float)
    except (TypeError, ValueError) as error:
        raise InputError(f"the {name} must be a number or an array of numbers") from error
    if np.any(values < 0.0):
        raise InputError(f"the {name} must not be negative; the smallest is {np.nanmin(values):g}")
    if finite and np.any(np.isinf(values)):
        raise InputError(f"the {name} must be finite")
    return values


def unwrapped(values: Floats) -> Floats:
    """A plain number where the array has no dimensions, as NumPy's own functions answer."""
    answer: Floats = values[()]
    return answer


def _integral_of_lines(knots: Floats, values: Floats, x: ArrayLike) -> Floats:
    """Integrate from 0 to x the function of straight lines through the points, then constant."""
    x = np.asarray(x, float)
    pieces = np.diff(knots) * (values[1:] + values[:-1]) / 2.0
    whole = np.append(0.0, np.cumsum(pieces))
    cell = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, knots.size - 1)
    within = (values[cell] + np.interp(x, knots, values)) / 2.0 * (x - knots[cell])
    return unwrapped(np.asarray(whole[cell] + within))


def _graded_nodes() -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes on (0, 1), in panels that halve towards 0.

    G rises within a few multiples of the mean interval, however short that is beside x; panels
    that halve see it at every scale down to 2⁻³⁰ of x.
    """
    nodes, weights = np.polynomial.legendre.leggauss(12)
    edges = np.append(0.0, 0.5 ** np.arange(30, -1, -1))
    low, width = edges[:-1, None], np.diff(edges)[:, None]
    return (low + width * (nodes + 1.0) / 2.0).ravel(), (width * weights / 2.0).ravel()


NODES, WEIGHTS = _graded_nodes()
"""For a mean over (0, 1) of what may rise at any scale."""
_ANY_LOG = 700.0


def _mean_over_unit(function: Callable[[float], Floats]) -> Floats:
    """Mean of a function over (0, 1). One node at a time, so that arrays broadcast as they like."""
    total = np.zeros(())
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        total = total + weight * function(float(node))
    return total
