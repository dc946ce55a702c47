"""Constant intervals: the source that changes like clockwork."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NoReturn

import numpy as np

from observant.errors import InputError
from observant.processes.base import positive, require
from observant.processes.renewal import Renewal
from observant.processes.updates import Updates, check_request, generator, offsets_of

if TYPE_CHECKING:
    from observant.arrays import Floats
    from observant.processes.updates import Seed


@dataclass(frozen=True)
class Constant(Renewal):
    """Every interval is the same, and the age is uniform: G = min(x/interval, 1).

    The intervals are lattice (Li, definition 1): visits in step with them see one age for ever.
    They have no density; `interval_pdf` says so.

    >>> Constant(interval=2.0).age_cdf(0.5)
    0.25
    """

    interval: float
    has_density: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require(self, interval=positive)

    @classmethod
    def with_mean(cls, mean: float) -> Constant:
        """Make the process whose interval is `mean` days."""
        return cls(mean)

    @property
    def mean(self) -> float:
        return self.interval

    @property
    def mean_age(self) -> float:
        return self.interval / 2.0

    def scaled(self, factor: float) -> Constant:
        return Constant(self.interval * positive("factor", factor))

    def sample(
        self, horizon: float, sources: int = 1, *, seed: Seed = None, stationary: bool = True
    ) -> Updates:
        # Multiples of the interval instead of sums: no rounding piles up.
        horizon, sources = check_request(horizon, sources)
        first = self.interval * (
            1.0 - generator(seed).random(sources) if stationary else np.ones(sources)
        )
        further = (horizon - first) / self.interval
        # 0.3 is the third tenth of a day, though 0.3/0.1 is a little less than 3.
        further = np.floor(further + 1e-12 * np.maximum(further, 1.0))
        counts = np.maximum(further + 1.0, 0.0).astype(np.int64)
        offsets = offsets_of(counts)
        step = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], counts)
        times = np.repeat(first, counts) + step * self.interval
        return Updates(np.minimum(times, horizon), offsets)

    def _cdf(self, x: Floats) -> Floats:
        return np.where(x >= self.interval, 1.0, 0.0)

    def _sf(self, x: Floats) -> Floats:
        return np.where(x < self.interval, 1.0, 0.0)

    def _pdf(self, x: Floats) -> NoReturn:
        raise InputError("constant intervals have no density; use interval_cdf or hazard")

    def _hazard(self, x: Floats) -> Floats:
        """Zero until the update is due, infinite from then on."""
        return np.where(x < self.interval, 0.0, np.inf)

    def _age_cdf(self, x: Floats) -> Floats:
        return np.minimum(x / self.interval, 1.0)

    def _age_sf(self, x: Floats) -> Floats:
        return np.maximum(1.0 - x / self.interval, 0.0)

    def _integrated_age_sf(self, x: Floats) -> Floats:
        until = np.minimum(x, self.interval)
        return until * (1.0 - until / (2.0 * self.interval))

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return np.full(shape, self.interval)

    def _draw_residuals(self, rng: np.random.Generator, sources: int) -> Floats:
        return self.interval * (1.0 - rng.random(sources))
