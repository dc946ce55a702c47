"""A Poisson source with a weekly rhythm: the rate depends on the hour of the week."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from observant.errors import InputError
from observant.processes.base import Times, evaluate, floats, not_negative, positive, require
from observant.processes.intensity import Intensity
from observant.processes.updates import Updates, check_request, generator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

    from observant.arrays import Floats, Integers
    from observant.processes.updates import Seed

NODES = 16
Mean: TypeAlias = "Callable[[Floats, Floats], Floats]"


@dataclass(frozen=True, repr=False)
class Seasonal(Intensity):
    """Mean rate times a weight that repeats every `period` days, constant within equal bins.

    With 168 weights and the period of 7 days each bin is an hour of the week; 24 weights and
    period 1.0 are the hours of a day. Weights are scaled to a mean of one. Time 0 of `intensity`
    and `cumulative` is the beginning of the first bin.

    F and G are those of a random phase, for an observer who does not look at the clock:
    1 − G(x) averages e^{Λ(φ) − Λ(φ+x)} over φ, and 1 − F(x) does so in proportion to λ(φ). Both
    shrink by e^{−rate·period} with every period, so one period tells everything.

    >>> office = Seasonal(rate=1.0, weights=[0] * 8 + [1] * 10 + [0] * 6, period=1.0)
    >>> office
    Seasonal(rate=1.0, weights=<24 from 0 to 2.4>, period=1.0)
    >>> office.intensity(0.5), office.intensity(1.9)
    (2.4, 0.0)
    >>> round(office.age_cdf(0.5), 4), round(1 - 2.718281828**-0.5, 4)
    (0.3592, 0.3935)
    """

    rate: float
    weights: Sequence[float]
    period: float = 7.0

    def __post_init__(self) -> None:
        require(self, rate=positive, period=positive)
        weights = np.array([not_negative("Seasonal: a weight", weight) for weight in self.weights])
        if weights.size == 0 or not weights.any():
            raise InputError("Seasonal: give at least one weight above zero")
        object.__setattr__(self, "weights", tuple((weights / weights.mean()).tolist()))

    @classmethod
    def with_mean(cls, mean: float, weights: ArrayLike, period: float = 7.0) -> Seasonal:
        """Make the process whose mean interval is `mean` days."""
        bins = tuple(np.asarray(weights, dtype=np.float64).tolist())
        return cls(1.0 / positive("mean", mean), bins, period)

    def __repr__(self) -> str:
        low, high = min(self.weights), max(self.weights)
        bins = f"<{len(self.weights)} from {low:.4g} to {high:.4g}>"
        return f"Seasonal(rate={self.rate}, weights={bins}, period={self.period})"

    @property
    def mean(self) -> float:
        return 1.0 / self.rate

    @property
    def mean_age(self) -> float:
        return float(self._integral_to_bin[-1] / -np.expm1(-self.rate * self.period))

    def scaled(self, factor: float) -> Seasonal:
        by = positive("factor", factor)
        return Seasonal(self.rate / by, self.weights, self.period * by)

    def sample(
        self,
        horizon: float,
        sources: int = 1,
        *,
        seed: Seed = None,
        stationary: bool = True,
        phase: ArrayLike | None = None,
    ) -> Updates:
        """Draw the update times of many independent sources in (0, horizon].

        Every source begins at its own random phase of the cycle: any phase for a stationary start,
        the phase of an update otherwise. Give `phase` in days after the beginning of the cycle,
        one number or one a source, to begin at a known time.
        """
        horizon, sources = check_request(horizon, sources)
        rng = generator(seed)
        if phase is not None:
            start = np.broadcast_to(np.asarray(phase, dtype=np.float64), (sources,))
            if not np.isfinite(start).all():
                raise InputError("a phase must be a finite number of days")
            start = np.mod(start, self.period)
        elif stationary:
            start = self.period * rng.random(sources)
        else:
            start = self._inverse(self.rate * self.period * (1.0 - rng.random(sources)))
        return self._sample_from(start, horizon, rng)

    def intensity(self, t: Times) -> Times:
        # The rhythm has no beginning, so times before 0 have a rate too.
        _, rest = self._turn(t)
        return evaluate(self._intensity, rest, before=0.0, at_infinity=np.nan)

    def cumulative(self, t: Times) -> Times:
        whole, rest = self._turn(t)
        within = evaluate(self._cumulative, rest, before=0.0, at_infinity=np.nan)
        return within + whole * (self.rate * self.period)

    def _turn(self, t: Times) -> tuple[Times, Times]:
        """Whole periods, and the time within the period."""
        with np.errstate(invalid="ignore"):
            return np.divmod(t, self.period)

    @cached_property
    def _bins(self) -> tuple[float, Floats, Floats]:
        """Width, rate of each bin, and Λ at the bin edges of one period."""
        width = self.period / len(self.weights)
        rates = self.rate * np.array(self.weights)
        return width, rates, np.concatenate([[0.0], np.cumsum(rates * width)])

    def _intensity(self, t: Floats) -> Floats:
        width, rates, _ = self._bins
        return rates[np.minimum((t // width).astype(np.int64), rates.size - 1)]

    def _cumulative(self, t: Floats) -> Floats:
        width, rates, edges = self._bins
        whole, rest = np.divmod(t, self.period)
        place = np.minimum((rest // width).astype(np.int64), rates.size - 1)
        return floats(whole * edges[-1] + edges[place] + rates[place] * (rest - place * width))

    def _inverse(self, expected: Floats) -> Floats:
        width, rates, edges = self._bins
        whole, rest = np.divmod(expected, edges[-1])
        # From the left, the bin found is one in which Λ rises: its rate is not zero. A whole
        # number of periods is reached where the last such bin ends.
        turn = (rest == 0) & (whole > 0)
        whole, rest = whole - turn, np.where(turn, edges[-1], rest)
        place = np.maximum(np.searchsorted(edges, rest, side="left") - 1, 0)
        within = np.divide(
            rest - edges[place], rates[place], out=np.zeros_like(rest), where=rates[place] > 0
        )
        return floats(whole * self.period + place * width + within)

    def _age_sf(self, x: Floats) -> Floats:
        return self._whole(x) * self._average(_mean_exponential, x % self.period, updates=0)

    def _age_cdf(self, x: Floats) -> Floats:
        whole = self._whole(x)
        return 1.0 - whole + whole * self._average(_mean_rise, x % self.period, updates=0)

    def _sf(self, x: Floats) -> Floats:
        return self._whole(x) * self._average(_mean_exponential, x % self.period, updates=1)

    def _cdf(self, x: Floats) -> Floats:
        whole = self._whole(x)
        return 1.0 - whole + whole * self._average(_mean_rise, x % self.period, updates=1)

    def _pdf(self, x: Floats) -> Floats:
        return self._whole(x) * self._average(_mean_exponential, x % self.period, updates=2)

    def _hazard(self, x: Floats) -> Floats:
        rest = x % self.period
        density = self._average(_mean_exponential, rest, updates=2)
        return density / self._average(_mean_exponential, rest, updates=1)

    def _integrated_age_sf(self, x: Floats) -> Floats:
        width, _, _ = self._bins
        rest = x % self.period
        place = np.minimum((rest // width).astype(np.int64), len(self.weights) - 1)
        within = self._integral_to_bin[place] + self._integral(place * width, rest)
        # The periods before, as a geometric series, and then the part of the last one.
        whole = self._whole(x)
        return self.mean_age * (1.0 - whole) + whole * within

    def _whole(self, x: Floats) -> Floats:
        return np.exp(-self.rate * self.period * (x // self.period))

    @cached_property
    def _integral_to_bin(self) -> Floats:
        """∫₀ˣ (1 − G) at the bin edges of one period."""
        width, rates, _ = self._bins
        edges = floats(width * np.arange(rates.size + 1))
        return np.concatenate([[0.0], np.cumsum(self._integral(edges[:-1], edges[1:]))])

    def _integral(self, low: Floats, high: Floats) -> Floats:
        """Integrate 1 − G within bins, by Gauss and Legendre.

        1 − G is a sum of exponentials that decay from the beginning of the bin; panels that
        halve towards it follow the steepest.
        """
        width, rates, _ = self._bins
        halvings = max(0, int(np.ceil(np.log2(np.max(rates) * width / 2.0))))
        cuts = np.concatenate([[0.0], 0.5 ** np.arange(halvings, -1, -1)])
        nodes, weights = np.polynomial.legendre.leggauss(NODES)
        steps = np.diff(cuts)[:, None] / 2.0
        inside = (cuts[:-1, None] + steps * (nodes + 1.0)).ravel()
        share = (steps * weights).ravel()
        points = (low[:, None] + np.outer(high - low, inside)).ravel()
        values = self._average(_mean_exponential, points, updates=0)
        return floats((high - low) * (values.reshape(-1, inside.size) * share).sum(axis=1))

    def _average(self, mean_of: Mean, x: Floats, updates: int) -> Floats:
        """Average e^{Λ(φ) − Λ(φ+x)}, or 1 minus it, over the phase, for 0 ≤ x ≤ period.

        Weighted with the rate of an update at φ (updates = 1), and with that of another at φ + x
        (updates = 2): 1 − G, 1 − F and f.
        """
        chunk = 1024  # tables of chunk × bins stay in the cache
        parts = [
            self._average_of(mean_of, x[low : low + chunk], updates)
            for low in range(0, x.size, chunk)
        ]
        return np.concatenate([np.empty(0), *parts])

    def _average_of(self, mean_of: Mean, x: Floats, updates: int) -> Floats:
        width, rates, edges = self._bins
        bins = rates.size
        begin = np.arange(bins)
        steps = (x // width).astype(np.int64)[:, None]
        beyond = x[:, None] - steps * width

        # While φ crosses its bin, φ + x crosses the edge between two others: two pieces, in each
        # of which the exponent is linear in φ.
        def reached(bin_: Integers) -> Floats:
            return floats(edges[bin_ % bins] + (bin_ // bins) * edges[-1])

        here, there, after = rates, rates[(begin + steps) % bins], rates[(begin + steps + 1) % bins]
        at_start = reached(begin + steps) - edges[:-1] + there * beyond
        at_turn = reached(begin + steps + 1) - edges[1:] + here * beyond
        at_end = reached(begin + steps + 1) - edges[1:] + after * beyond
        before = mean_of(at_start, at_turn) * (width - beyond)
        behind = mean_of(at_turn, at_end) * beyond
        if updates == 2:
            before, behind = before * there, behind * after
        total = before + behind
        if updates == 0:
            return floats(total.sum(axis=1) / self.period)
        return floats((total * here).sum(axis=1) / (self.rate * self.period))


def _mean_exponential(start: Floats, end: Floats) -> Floats:
    """Mean of e^{−z} for z from start to end: the quotient of differences, also when they meet."""
    gap = np.abs(end - start)
    shrink = np.divide(-np.expm1(-gap), gap, out=1.0 - gap / 2.0, where=gap > 1e-9)
    return floats(np.exp(-np.minimum(start, end)) * shrink)


def _mean_rise(start: Floats, end: Floats) -> Floats:
    """Mean of 1 − e^{−z} for z from start to end, with all its digits for small z."""
    gap, low = np.abs(end - start), np.minimum(start, end)
    series = gap * (1 / 2 - gap * (1 / 6 - gap * (1 / 24 - gap * (1 / 120 - gap / 720))))
    rise = np.divide(gap + np.expm1(-gap), gap, out=series, where=gap > 0.01)
    return floats(np.exp(-low) * rise - np.expm1(-low))
