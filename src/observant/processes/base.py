"""What every model of change promises: intervals, ages, and samples of update times.

Two distributions describe a stationary source. F is the distribution of the interval from one
update to the next. G is the distribution of the age (the time since the last update) found at a
random moment, and of the residual life (the time to the next update) as well. They are tied by

    G(x) = (1/m) ∫₀ˣ (1 − F)        Brewington (2.17), Li (5); m is the mean interval.

A model states F and G for finite x ≥ 0 in its underscored methods; this module takes care of
scalars, negative times and infinity.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np

from observant.arrays import Floats
from observant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from observant.processes.updates import Seed, Updates

# A number in, a number out; an array in, an array out.
Times = TypeVar("Times", float, Floats)


class Process(ABC):
    """A model of how one source changes. Frozen, comparable, picklable; days and rates per day.

    Every function of a time x takes a number or an array and returns the same. A source that was
    not yet updated has F = G = 0, so negative x is welcome everywhere.
    """

    has_density: ClassVar[bool] = True

    @property
    @abstractmethod
    def mean(self) -> float:
        """Mean interval between updates, in days."""

    if TYPE_CHECKING:
        # A field in some models and 1/mean in the others. A property here would be taken by
        # dataclass as the default value of the field.
        @property
        def rate(self) -> float:
            """Updates per day."""

    @property
    @abstractmethod
    def mean_age(self) -> float:
        """Mean age at a random moment, E[U²]/(2m); infinite for heavy tails."""

    @abstractmethod
    def sample(
        self, horizon: float, sources: int = 1, *, seed: Seed = None, stationary: bool = True
    ) -> Updates:
        """Draw the update times of many independent sources in (0, horizon].

        A stationary start looks at each source at a random moment of its life: its first update
        comes after a residual life. Otherwise each source had an update at time 0 (not listed),
        and its first update comes after an interval. The same seed gives the same sample.
        """

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """Return the same process with all times stretched by `factor`."""

    def interval_cdf(self, x: Times) -> Times:
        """F(x): probability that an interval is at most x."""
        return evaluate(self._cdf, x, before=0.0, at_infinity=1.0)

    def interval_sf(self, x: Times) -> Times:
        """1 − F(x): probability that an interval is longer than x."""
        return evaluate(self._sf, x, before=1.0, at_infinity=0.0)

    def interval_pdf(self, x: Times) -> Times:
        """f(x) = F′(x): density of the intervals."""
        return evaluate(self._pdf, x, before=0.0, at_infinity=0.0)

    def hazard(self, x: Times) -> Times:
        """f(x)/(1 − F(x)): rate of an update x days after the last one, knowing only that."""
        return evaluate(self._hazard, x, before=0.0, at_infinity=math.nan)

    def age_cdf(self, x: Times) -> Times:
        """G(x): probability that the age at a random moment is at most x. Brewington (2.17)."""
        return evaluate(self._age_cdf, x, before=0.0, at_infinity=1.0)

    def age_sf(self, x: Times) -> Times:
        """1 − G(x): probability that x days from a random moment bring no update."""
        return evaluate(self._age_sf, x, before=1.0, at_infinity=0.0)

    def age_pdf(self, x: Times) -> Times:
        """g(x) = (1 − F(x))/m: density of the ages. Brewington (2.17)."""
        return evaluate(lambda t: self._sf(t) / self.mean, x, before=0.0, at_infinity=0.0)

    def integrated_age_sf(self, x: Times) -> Times:
        """∫₀ˣ (1 − G), which is what currency needs; it is x for negative x.

        A copy visited every T days is current within grace β with probability
        (β + integrated_age_sf(T − β))/T, also when T < β.
        """
        start = np.asarray(x, dtype=np.float64)
        return evaluate(self._integrated_age_sf, x, before=start, at_infinity=self.mean_age)

    # What a model states, for flat arrays of finite x ≥ 0.

    @abstractmethod
    def _sf(self, x: Floats) -> Floats: ...

    @abstractmethod
    def _pdf(self, x: Floats) -> Floats: ...

    @abstractmethod
    def _age_sf(self, x: Floats) -> Floats: ...

    @abstractmethod
    def _integrated_age_sf(self, x: Floats) -> Floats: ...

    # What a model may state better: 1 − S loses the digits of a small F.

    def _cdf(self, x: Floats) -> Floats:
        return 1.0 - self._sf(x)

    def _age_cdf(self, x: Floats) -> Floats:
        return 1.0 - self._age_sf(x)

    def _hazard(self, x: Floats) -> Floats:
        return self._pdf(x) / self._sf(x)


def evaluate(
    function: Callable[[Floats], Floats], x: Times, *, before: float | Floats, at_infinity: float
) -> Times:
    """Apply a function of finite x ≥ 0 to any x, with given values outside that range."""
    times = np.asarray(x, dtype=np.float64)
    usual = (times >= 0) & (times < np.inf)
    if usual.all():
        values = function(times.ravel()).reshape(times.shape)
    else:
        values = np.where(times < 0, before, np.where(np.isnan(times), np.nan, at_infinity))
        values[usual] = function(times[usual])
    return cast("Times", float(values) if values.ndim == 0 else values)


def floats(values: Any) -> Floats:
    """Return the values as float64, whatever a library says about their type."""
    return np.asarray(values, dtype=np.float64)


def require(process: object, **rules: Callable[[str, Any], float]) -> None:
    """Check the fields of a new frozen process and store them as plain floats."""
    for field, rule in rules.items():
        name = f"{type(process).__name__}: {field}"
        object.__setattr__(process, field, rule(name, getattr(process, field)))


def positive(name: str, value: Any) -> float:
    number = finite(name, value)
    if number <= 0:
        raise InputError(f"{name} must be a finite number above zero, not {value!r}")
    return number


def not_negative(name: str, value: Any) -> float:
    number = finite(name, value)
    if number < 0:
        raise InputError(f"{name} must be a finite number, zero or more, not {value!r}")
    return number


def finite(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(
            f"{name} must be one number, not {value!r}; one process describes one source"
        ) from None
    if not math.isfinite(number):
        raise InputError(f"{name} must be a finite number, not {value!r}")
    return number
