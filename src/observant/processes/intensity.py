"""Poisson processes whose rate is a function of time, sampled exactly by inversion.

With Λ(t) = ∫₀ᵗ λ, the times Λ(tᵢ) of a process with intensity λ(t) are a Poisson process of rate
one. So draw the number of updates, spread them uniformly over Λ, and map them back.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from observant.errors import InputError
from observant.processes.base import Process, Times, evaluate
from observant.processes.updates import (
    Updates,
    check_request,
    generator,
    offsets_of,
    sorted_uniforms,
)

if TYPE_CHECKING:
    from observant.arrays import Floats
    from observant.processes.updates import Seed


class Intensity(Process):
    """A Poisson process with intensity λ(t), in updates per day at time t."""

    def intensity(self, t: Times) -> Times:
        """λ(t), updates per day at time t."""
        return evaluate(self._intensity, t, before=0.0, at_infinity=np.nan)

    def cumulative(self, t: Times) -> Times:
        """Λ(t) = ∫₀ᵗ λ, expected updates until time t."""
        return evaluate(self._cumulative, t, before=0.0, at_infinity=np.nan)

    def no_update(self, start: Times, end: Times) -> Times:
        """Probability e^{Λ(start) − Λ(end)} that nothing happens between two times."""
        between = self.cumulative(end) - self.cumulative(start)
        if np.any(np.asarray(end) < np.asarray(start)):
            raise InputError("the end of an interval must not lie before its start")
        return evaluate(lambda x: np.exp(-x), between, before=1.0, at_infinity=0.0)

    @abstractmethod
    def _intensity(self, t: Floats) -> Floats: ...

    @abstractmethod
    def _cumulative(self, t: Floats) -> Floats: ...

    @abstractmethod
    def _inverse(self, expected: Floats) -> Floats:
        """Return the time at which Λ reaches `expected`."""

    def _sample_from(self, start: Floats, horizon: float, rng: np.random.Generator) -> Updates:
        """Draw the updates of one source per start, in (0, horizon] after its start."""
        begin = self._cumulative(start)
        expected = self._cumulative(start + horizon) - begin
        counts = rng.poisson(expected)
        reached = np.repeat(begin, counts)
        reached += sorted_uniforms(counts, rng) * np.repeat(expected, counts)
        times = self._inverse(reached) - np.repeat(start, counts)
        return Updates(np.clip(times, np.finfo(np.float64).tiny, horizon), offsets_of(counts))


class NonStationary(Intensity):
    """An intensity that does not repeat: it has no typical interval and no typical age.

    Time 0 is the beginning of the source, so a sample has no stationary start either.
    """

    def sample(
        self, horizon: float, sources: int = 1, *, seed: Seed = None, stationary: bool = False
    ) -> Updates:
        """Draw the updates of many independent sources in (0, horizon], all begun at time 0."""
        if stationary:
            self._refuse()
        horizon, sources = check_request(horizon, sources)
        return self._sample_from(np.zeros(sources), horizon, generator(seed))

    @property
    def mean(self) -> float:
        self._refuse()

    @property
    def rate(self) -> float:
        self._refuse()

    @property
    def mean_age(self) -> float:
        self._refuse()

    def _sf(self, x: Floats) -> NoReturn:
        self._refuse(x)

    def _pdf(self, x: Floats) -> NoReturn:
        self._refuse(x)

    def _age_sf(self, x: Floats) -> NoReturn:
        self._refuse(x)

    def _integrated_age_sf(self, x: Floats) -> NoReturn:
        self._refuse(x)

    def _refuse(self, *_: object) -> NoReturn:
        raise InputError(
            f"{type(self).__name__} is not stationary: its rate depends on the time since it "
            "began, so it has no mean interval, no interval distribution F and no age distribution "
            "G. Use intensity, cumulative, no_update and sample(..., stationary=False)"
        )
