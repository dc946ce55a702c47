"""One face for what the methods give: a measured curve or a fitted process.

Each has G (`age_cdf`), F (`interval_cdf`, NaN where the visits cannot show it), the mean interval,
and itself as a process.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observant.estimation.intervals.nearest import nearest_concave

if TYPE_CHECKING:
    from observant.estimation.intervals.curve import AgeCurve
    from observant.processes import Process

__all__ = ["CurveModel", "Model", "ProcessModel", "local_hazard"]

Floats: TypeAlias = NDArray[np.float64]


class Model(Protocol):
    """What an estimate is made of."""

    @property
    def mean(self) -> float:
        """Days; NaN where the visits cannot show it."""

    @property
    def identified(self) -> bool:
        """Whether F and the mean can be known at all."""

    def age_cdf(self, x: ArrayLike) -> Floats: ...

    def integrated_age_sf(self, x: ArrayLike) -> Floats: ...

    def interval_cdf(self, x: ArrayLike) -> Floats: ...

    def hazard(self, x: ArrayLike) -> Floats: ...

    def process(self) -> Process: ...


@dataclass(frozen=True, eq=False)
class CurveModel:
    """G as a method of Li measured it, and F as read from it."""

    curve: AgeCurve
    interval_x: Floats | None
    """Where F is known; None where it is not identified."""
    interval_values: Floats | None
    mean: float

    @property
    def identified(self) -> bool:
        return self.interval_values is not None

    def age_cdf(self, x: ArrayLike) -> Floats:
        return self.curve.age_cdf(x)

    def integrated_age_sf(self, x: ArrayLike) -> Floats:
        at = np.asarray(x, np.float64)
        knots = np.append(0.0, self.curve.x)
        values = 1.0 - np.append(0.0, self.curve.values)
        whole = np.append(0.0, np.cumsum(np.diff(knots) * (values[1:] + values[:-1]) / 2.0))
        cell = np.searchsorted(knots, at, side="right") - 1
        here = np.interp(at, knots, values)
        return np.asarray(whole[cell] + (values[cell] + here) / 2.0 * (at - knots[cell]))

    def interval_cdf(self, x: ArrayLike) -> Floats:
        at = np.asarray(x, np.float64)
        if self.interval_x is None or self.interval_values is None:
            return np.full(at.shape, np.nan)
        return np.asarray(np.interp(at, self.interval_x, self.interval_values))

    def hazard(self, x: ArrayLike) -> Floats:
        return local_hazard(self.interval_cdf, x)

    def process(self) -> Process:
        return nearest_concave(self.curve.x, self.curve.values, self.curve.counts)


@dataclass(frozen=True, eq=False)
class ProcessModel:
    """A fitted process: a formula, or the histogram of `concave`."""

    fitted: Process
    known: bool = True

    @property
    def mean(self) -> float:
        return float(self.fitted.mean) if self.known else math.nan

    @property
    def identified(self) -> bool:
        return self.known

    def age_cdf(self, x: ArrayLike) -> Floats:
        return np.asarray(self.fitted.age_cdf(np.asarray(x, np.float64)))

    def integrated_age_sf(self, x: ArrayLike) -> Floats:
        return np.asarray(self.fitted.integrated_age_sf(np.asarray(x, np.float64)))

    def interval_cdf(self, x: ArrayLike) -> Floats:
        at = np.asarray(x, np.float64)
        if not self.known:
            return np.full(at.shape, np.nan)
        return np.asarray(self.fitted.interval_cdf(at))

    def hazard(self, x: ArrayLike) -> Floats:
        at = np.asarray(x, np.float64)
        return np.asarray(self.fitted.hazard(at)) if self.known else np.full(at.shape, np.nan)

    def process(self) -> Process:
        return self.fitted


def local_hazard(interval_cdf: Any, x: ArrayLike, factor: float = 1.5) -> Floats:
    """Mean hazard between x/factor and x·factor: the fall of log(1 − F) over it.

    An estimated F has steps, so that a hazard at one point would be 0 or infinite. It is infinite
    where F reaches 1 inside, and not a number where F was 1 before.
    """
    at = np.asarray(x, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        before = np.log1p(-np.asarray(interval_cdf(at / factor)))
        after = np.log1p(-np.asarray(interval_cdf(at * factor)))
        return np.asarray((before - after) / (at * factor - at / factor))
