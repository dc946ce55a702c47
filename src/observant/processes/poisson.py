"""The Poisson process: no memory, exponential intervals, one rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.processes.base import Process, positive, require
from observant.processes.updates import (
    Updates,
    check_request,
    generator,
    offsets_of,
    sorted_uniforms,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Floats
    from observant.processes.updates import Seed


@dataclass(frozen=True)
class Poisson(Process):
    """Updates at a constant rate λ, whatever happened before: F = G = 1 − e^{−λx}.

    The only source whose intervals and ages have the same distribution, Brewington (2.18).

    >>> source = Poisson(rate=0.5)
    >>> source.mean, source.interval_cdf(2.0) == source.age_cdf(2.0)
    (2.0, True)
    >>> source.sample(10.0, sources=3, seed=1)
    Updates(3 sources, 14 updates)
    """

    rate: float

    def __post_init__(self) -> None:
        require(self, rate=positive)

    @classmethod
    def with_mean(cls, mean: float) -> Poisson:
        """Make the process whose mean interval is `mean` days."""
        return cls(1.0 / positive("mean", mean))

    @property
    def mean(self) -> float:
        return 1.0 / self.rate

    @property
    def mean_age(self) -> float:
        return 1.0 / self.rate

    def scaled(self, factor: float) -> Poisson:
        return Poisson(self.rate / positive("factor", factor))

    def sample(
        self, horizon: float, sources: int = 1, *, seed: Seed = None, stationary: bool = True
    ) -> Updates:
        horizon, sources = check_request(horizon, sources)
        return sample_poisson(np.full(sources, self.rate), horizon, seed)

    def _cdf(self, x: Floats) -> Floats:
        return -np.expm1(-self.rate * x)

    def _sf(self, x: Floats) -> Floats:
        return np.exp(-self.rate * x)

    def _pdf(self, x: Floats) -> Floats:
        return self.rate * np.exp(-self.rate * x)

    def _hazard(self, x: Floats) -> Floats:
        return np.full_like(x, self.rate)

    _age_cdf = _cdf
    _age_sf = _sf

    def _integrated_age_sf(self, x: Floats) -> Floats:
        return -np.expm1(-self.rate * x) / self.rate


# The same process, by the name of its intervals.
Exponential = Poisson


def sample_poisson(rates: ArrayLike, horizon: ArrayLike, seed: Seed = None) -> Updates:
    """Draw a whole population: one Poisson source for each rate, updates in (0, horizon].

    The horizon is one number of days or one a source. A rate of zero is a source that never
    changes.

    >>> updates = sample_poisson([0.0, 1.0, 10.0], horizon=5.0, seed=7)
    >>> updates.counts
    array([ 0,  6, 57])
    """
    per_day = np.asarray(rates, dtype=np.float64)
    days = np.asarray(horizon, dtype=np.float64)
    if per_day.ndim != 1 or not (np.isfinite(per_day) & (per_day >= 0)).all():
        raise InputError("rates must be a flat array of finite numbers, zero or more")
    if not (np.isfinite(days) & (days > 0)).all() or days.shape not in {(), per_day.shape}:
        raise InputError("horizon must be one number of days above zero, or one for each rate")
    rng = generator(seed)
    counts = rng.poisson(per_day * days)
    times = sorted_uniforms(counts, rng)
    return Updates(
        times * np.repeat(np.broadcast_to(days, per_day.shape), counts), offsets_of(counts)
    )
