"""Bursts: a source that switches at random between a busy and a quiet time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.processes.base import Process, floats, not_negative, positive, require
from observant.processes.renewal import renewal_updates
from observant.processes.updates import (
    Updates,
    check_request,
    generator,
    offsets_of,
    sorted_uniforms,
)

if TYPE_CHECKING:
    from observant.arrays import Flags, Floats, Integers
    from observant.processes.updates import Seed


@dataclass(frozen=True)
class Bursts(Process):
    """Poisson updates at `on_rate` in bursts and at `off_rate` between them (two-state MMPP).

    Bursts last `on_time` days on average and the quiet between them `off_time`, both exponential;
    the switching rates are their inverses. With off_rate = 0 it is the interrupted Poisson
    process, which is a renewal process; otherwise successive intervals are correlated.

    F and G are mixtures of the same two exponentials, e^{−ax} and e^{−bx}, where a > b are the
    eigenvalues of the matrix of leaving rates; 1 − F = φ e^{D₀x} 1 and 1 − G = π e^{D₀x} 1 with
    the state at an update φ and at a random moment π.

    >>> source = Bursts(on_rate=24.0, off_rate=0.0, on_time=0.5, off_time=5.5)
    >>> source.rate
    2.0
    >>> round(source.interval_cdf(0.5), 3), round(source.age_cdf(0.5), 3)
    (0.928, 0.146)
    """

    on_rate: float
    off_rate: float
    on_time: float
    off_time: float

    def __post_init__(self) -> None:
        require(self, on_rate=positive, off_rate=not_negative, on_time=positive, off_time=positive)

    @classmethod
    def with_mean(cls, mean: float, on_time: float, off_time: float, quiet: float = 0.0) -> Bursts:
        """Make the process with this mean interval; `quiet` is off_rate as a part of on_rate."""
        part = not_negative("Bursts: quiet", quiet)
        on, off = positive("Bursts: on_time", on_time), positive("Bursts: off_time", off_time)
        if part > 1:
            raise InputError(f"Bursts: quiet must be at most 1, not {quiet}")
        on_rate = (on + off) / (positive("mean", mean) * (on + part * off))
        return cls(on_rate, part * on_rate, on, off)

    @property
    def rate(self) -> float:
        on = self._share_on
        return on * self.on_rate + (1.0 - on) * self.off_rate

    @property
    def mean(self) -> float:
        return 1.0 / self.rate

    @property
    def mean_age(self) -> float:
        (fast, slow), _, share = self._mixture
        return share / fast + (1.0 - share) / slow

    def scaled(self, factor: float) -> Bursts:
        by = positive("factor", factor)
        return Bursts(self.on_rate / by, self.off_rate / by, self.on_time * by, self.off_time * by)

    @property
    def _share_on(self) -> float:
        return self.on_time / (self.on_time + self.off_time)

    @cached_property
    def _mixture(self) -> tuple[tuple[float, float], float, float]:
        """The two decay rates, and the share of the faster in 1 − F and in 1 − G."""
        on, off = self.on_rate + 1.0 / self.on_time, self.off_rate + 1.0 / self.off_time
        switch = 1.0 / (self.on_time * self.off_time)
        root = math.sqrt((on - off) ** 2 + 4.0 * switch)
        fast = (on + off + root) / 2.0
        # The smaller root from the product of both: their difference would lose its digits.
        product = (
            self.on_rate * self.off_rate
            + self.on_rate / self.off_time
            + self.off_rate / self.on_time
        )
        slow = product / fast
        # The shares follow from the densities at 0: f(0) = E[λ²]/E[λ] and g(0) = E[λ].
        second = self._share_on * self.on_rate**2 + (1.0 - self._share_on) * self.off_rate**2
        intervals = (second / self.rate - slow) / root
        ages = (self.rate - slow) / root
        return (fast, slow), min(max(intervals, 0.0), 1.0), min(max(ages, 0.0), 1.0)

    def _sf(self, x: Floats) -> Floats:
        (fast, slow), share, _ = self._mixture
        return share * np.exp(-fast * x) + (1.0 - share) * np.exp(-slow * x)

    def _cdf(self, x: Floats) -> Floats:
        (fast, slow), share, _ = self._mixture
        return -share * np.expm1(-fast * x) - (1.0 - share) * np.expm1(-slow * x)

    def _pdf(self, x: Floats) -> Floats:
        (fast, slow), share, _ = self._mixture
        return share * fast * np.exp(-fast * x) + (1.0 - share) * slow * np.exp(-slow * x)

    def _hazard(self, x: Floats) -> Floats:
        (fast, slow), share, _ = self._mixture
        # Both parts divided by the slower exponential, which underflows in neither.
        faded, rest = share * np.exp((slow - fast) * x), 1.0 - share
        late = np.full_like(x, slow)
        return np.divide(fast * faded + slow * rest, faded + rest, out=late, where=faded + rest > 0)

    def _age_sf(self, x: Floats) -> Floats:
        (fast, slow), _, share = self._mixture
        return share * np.exp(-fast * x) + (1.0 - share) * np.exp(-slow * x)

    def _age_cdf(self, x: Floats) -> Floats:
        (fast, slow), _, share = self._mixture
        return -share * np.expm1(-fast * x) - (1.0 - share) * np.expm1(-slow * x)

    def _integrated_age_sf(self, x: Floats) -> Floats:
        (fast, slow), _, share = self._mixture
        return -share * np.expm1(-fast * x) / fast - (1.0 - share) * np.expm1(-slow * x) / slow

    def sample(
        self, horizon: float, sources: int = 1, *, seed: Seed = None, stationary: bool = True
    ) -> Updates:
        horizon, sources = check_request(horizon, sources)
        rng = generator(seed)
        on = self._share_on
        begin_on = rng.random(sources) < (on if stationary else on * self.on_rate / self.rate)
        starts, ends, state, segments = self._switches(begin_on, horizon, rng)
        counts = rng.poisson(np.where(state, self.on_rate, self.off_rate) * (ends - starts))
        places = sorted_uniforms(counts, rng)
        times = np.repeat(starts, counts) + places * np.repeat(ends - starts, counts)
        return Updates(times, offsets_of(counts)[segments])

    def _switches(
        self, begin_on: Flags, horizon: float, rng: np.random.Generator
    ) -> tuple[Floats, Floats, Flags, Integers]:
        """Cut (0, horizon] into busy and quiet times: start, end, whether busy; source offsets."""
        durations = np.array([self.off_time, self.on_time])
        begin = begin_on.astype(np.int64)

        def draw(rows: Integers, columns: int) -> Floats:
            state = (begin[rows, None] + 1 + np.arange(columns)) % 2
            return floats(durations[state] * rng.standard_exponential((rows.size, columns)))

        first = durations[begin] * rng.standard_exponential(begin.size)
        switches = renewal_updates(first, draw, horizon, float(durations.mean()))
        segments = switches.offsets + np.arange(begin.size + 1)
        opens = np.zeros(int(segments[-1]), dtype=np.bool_)
        closes = np.zeros_like(opens)
        opens[segments[:-1]] = True
        closes[segments[1:] - 1] = True
        starts, ends = np.zeros(opens.size), np.full(opens.size, horizon)
        starts[~opens] = ends[~closes] = switches.times
        number = np.arange(opens.size) - np.repeat(segments[:-1], np.diff(segments))
        state = (np.repeat(begin, np.diff(segments)) + number) % 2 == 1
        return starts, ends, state, segments
