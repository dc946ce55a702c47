"""Brewington's partition: few classes of sources, one period each (4.2.2 to 4.3).

A collection is a density f(t, τ) of sources over the mean time t between changes and the mean time
τ between accesses. Somebody who looks at a random entry of the index draws from the access density
h = C·f/τ instead (4.26). A partition cuts the plane into NT × NV boxes by grid lines and visits all
sources of a box with the same period. Its value is the probability α that an access finds a
β-current copy, (4.27) to (4.29). It spends as many visits as one queue of period T₀: Σ P_ij/T_ij =
1/T₀, where P_ij is the share of *sources* in the box (errata B-21).

`anneal` searches for the best partition the way of the thesis. `refine` finds the best periods for
given grid lines exactly and moves the lines uphill. `exact_optimum` drops the partition and gives
every source its own period.

>>> web = SourceDensity.independent(cut=0.1)  # the thesis's web population, see errata B-26
>>> start = equiprobable(web, period=100, grid=(6, 6), grace=1)
>>> best = refine(start)
>>> print(round(start.alpha, 3), round(best.alpha, 3), round(exact_optimum(web, 100, 1).alpha, 3))
0.624 0.669 0.672
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.papers.thesis.partition.boxes import (
    Boxes,
    at_budget,
    cover,
    current,
    positions,
    ratio,
    times,
)
from observant.papers.thesis.partition.density import SourceDensity, grace_plane
from observant.planning.objectives import Currency

if TYPE_CHECKING:
    from observant.arrays import Floats
    from observant.papers.thesis.partition.density import Grace

__all__ = [
    "ExactOptimum",
    "Partition",
    "SourceDensity",
    "anneal",
    "equiprobable",
    "exact_optimum",
    "grace_plane",
    "refine",
    "single_queue",
]


@dataclass(frozen=True, eq=False)
class Partition:
    """A solution: grid lines and the period of each box. NT rows along t, NV columns along τ."""

    density: SourceDensity
    period: float
    """T₀, the period of one queue that spends as much."""
    grace: Grace
    change_lines: Floats
    """NT + 1 mean change times; the first and last are the ends of the density."""
    access_lines: Floats
    """NV + 1 mean access times."""
    rates: Floats
    """λ_ij, visits per day spent in each box, for each source of the whole collection."""
    history: Floats = field(default_factory=lambda: np.zeros(0))
    """α along the search, one value now and then."""

    @cached_property
    def alpha(self) -> float:
        """Probability that an access finds a β-current copy: Brewington (4.29)."""
        return float(self.currency.sum())

    @cached_property
    def currency(self) -> Floats:
        """P_ij·α_ij, what each box adds to α."""
        boxes = Boxes(self.density, self.grace, *self.places())
        return boxes.values(self.periods)

    @cached_property
    def sources(self) -> Floats:
        """The share of the sources in each box."""
        rows, columns = self._shares()
        return np.asarray(rows @ self.density.sources @ columns.T)

    @cached_property
    def accesses(self) -> Floats:
        """P_ij of (4.28), the share of the accesses in each box."""
        rows, columns = self._shares()
        return np.asarray(rows @ self.density.accesses @ columns.T)

    @cached_property
    def periods(self) -> Floats:
        """T_ij, days between two visits of a source in the box; infinite where none is made."""
        return ratio(self.sources, self.rates)

    @property
    def visits(self) -> float:
        """Visits per day and source, all boxes together: it equals 1/T₀."""
        return float(self.rates.sum())

    def places(self) -> tuple[Floats, Floats]:
        """The grid lines as positions among the cells of the density."""
        return (
            positions(self.density.change_edges, self.change_lines),
            positions(self.density.access_edges, self.access_lines),
        )

    def _shares(self) -> tuple[Floats, Floats]:
        t, v = self.places()
        return cover(t, len(self.density.change_times)), cover(v, len(self.density.access_times))


@dataclass(frozen=True, eq=False)
class ExactOptimum:
    """Every source with a period of its own: the best that any partition can come near to."""

    alpha: float
    price: float
    """What one more visit per day and source would add to α."""
    periods: Floats
    """Of the sources in each cell of the density; infinite where they are never visited."""


def single_queue(density: SourceDensity, period: float, grace: Grace = 0.0) -> float:
    """α₀, all sources visited with the same period.

    >>> web = SourceDensity.independent(cut=0.1)
    >>> [round(single_queue(web, period, 1), 3) for period in (10, 100, 600)]
    [0.941, 0.624, 0.216]
    """
    _check_period(period)
    each = current(period, density.change_times[:, None], density.graces(grace))
    return float((density.accesses * each).sum())


def equiprobable(
    density: SourceDensity, period: float, grid: tuple[int, int] = (6, 6), grace: Grace = 0.0
) -> Partition:
    """The start of the search: lines that split both marginals of the accesses evenly, figure 4.6,
    and the same period in every box.
    """
    _check_period(period)
    if min(grid) < 1:
        raise InputError(f"a grid has at least one row and one column, not {grid!r}")
    lines = []
    for axis, edges, count in (
        (1, density.change_edges, grid[0]),
        (0, density.access_edges, grid[1]),
    ):
        total = np.append(0.0, np.cumsum(density.accesses.sum(axis=axis)))
        inner = np.interp(np.arange(1, count) / count * total[-1], total, edges)
        lines.append(np.r_[edges[0], inner, edges[-1]])
    start = Partition(density, period, grace, lines[0], lines[1], np.zeros(grid))
    return replace(start, rates=start.sources / period)


# -- simulated annealing --------------------------------------------------------------------------


def anneal(
    start: Partition,
    steps: int = 100_000,
    *,
    seed: int = 0,
    damping: tuple[float, float] = (0.25, 0.02),
    temperature: tuple[float, float] = (1e-4, 1e-8),
) -> Partition:
    """Search with the neighbourhood of Brewington 4.2.3, and return the best partition met.

    A step moves some of the rate of one box to another, or with probability 1/(NT·NV) (errata B-24)
    nudges a grid line, the rates of the boxes beside it kept. The largest share moved is `damping`;
    a worse solution is taken with probability exp(Δα/temperature). Both fall geometrically from
    their first value to their second.
    """
    if steps < 1 or min(*damping, *temperature) <= 0 or max(damping) > 1:
        raise InputError("give at least one step, damping in (0, 1] and temperatures above 0")
    rng = np.random.default_rng(seed)
    density, (rows, columns) = start.density, start.rates.shape
    lines = [line.copy() for line in start.places()]
    boxes = Boxes(density, start.grace, *lines)
    rates, sources = start.rates.copy(), start.sources.copy()
    values = boxes.values(ratio(sources, rates))
    alpha = best = float(values.sum())
    kept = (lines[0].copy(), lines[1].copy(), rates.copy())
    fall = np.linspace(0.0, 1.0, steps)
    damp = damping[0] * (damping[1] / damping[0]) ** fall
    heat = temperature[0] * (temperature[1] / temperature[0]) ** fall
    every = max(1, steps // 200)
    history = np.empty(-(-steps // every))
    nudgeable = [axis for axis, count in enumerate((rows, columns)) if count > 1]
    count = rows * columns

    for step, (part, hot) in enumerate(zip(damp.tolist(), heat.tolist(), strict=True)):
        if step % every == 0:
            history[step // every] = alpha
        if nudgeable and (count == 1 or rng.random() < 1.0 / count):
            axis = nudgeable[int(rng.integers(len(nudgeable)))]
            line = int(rng.integers(1, len(lines[axis]) - 1))
            old, (low, high) = lines[axis][line], lines[axis][[line - 1, line + 1]]
            shift = part * rng.uniform(-1.0, 1.0)
            lines[axis][line] = old + shift * (high - old if shift > 0 else old - low)
            moved = Boxes(density, start.grace, *lines)
            new_sources = moved.sources
            new_values = moved.values(ratio(new_sources, rates))
            gain = float(new_values.sum()) - alpha
            if gain >= 0 or rng.random() < np.exp(gain / hot):
                boxes, sources, values, alpha = moved, new_sources, new_values, alpha + gain
            else:
                lines[axis][line] = old
        elif count > 1:
            one, other = rng.integers(count), rng.integers(count - 1)
            a, b = (divmod(int(box), columns) for box in (one, other + (other >= one)))
            amount = part * rng.random() * min(rates[a], rates[b])
            less, more = rates[a] - amount, rates[b] + amount
            value_a = boxes.value(a[0], a[1], sources[a] / less if less > 0 else np.inf)
            value_b = boxes.value(b[0], b[1], sources[b] / more if more > 0 else np.inf)
            gain = value_a + value_b - values[a] - values[b]
            if gain >= 0 or rng.random() < np.exp(gain / hot):
                rates[a], rates[b], values[a], values[b] = less, more, value_a, value_b
                alpha += gain
        if alpha > best:
            best = alpha
            kept = (lines[0].copy(), lines[1].copy(), rates.copy())
    return _with_lines(start, kept[0], kept[1], kept[2], history)


# -- exact answers --------------------------------------------------------------------------------


def refine(start: Partition, *, iterations: int = 60) -> Partition:
    """Best rates for the grid lines, found exactly, and the lines moved uphill (L-BFGS).

    For given lines the best periods are those at which the index W of every box reaches one price.
    Moving a line hands a strip of sources to the next box, and the change of α minus its price is
    the slope. The lines end in a local optimum; 0 iterations leave them where they are.
    """
    from scipy.optimize import minimize

    density, grid = start.density, start.rates.shape
    first = start.places()
    sizes = [len(line) - 2 for line in first]

    def lines_of(x: Floats) -> tuple[Floats, Floats]:
        parts = np.split(x, [sizes[0] + 1])
        out = []
        for part, line in zip(parts, first, strict=True):
            share = np.exp(part - part.max())
            place = np.cumsum(share / share.sum())[:-1]
            out.append(line[0] + (line[-1] - line[0]) * np.r_[0.0, place, 1.0])
        return out[0], out[1]

    def loss(x: Floats) -> tuple[float, Floats]:
        lines = lines_of(x)
        boxes = Boxes(density, start.grace, *lines)
        periods, price = boxes.best_periods(start.period)
        slopes = boxes.slopes(periods, price)
        gradient = []
        for part, line, slope in zip(np.split(x, [sizes[0] + 1]), lines, slopes, strict=True):
            share = np.exp(part - part.max())
            share /= share.sum()
            # Line k lies at the sum of the first k shares.
            below = np.append(np.cumsum(slope[::-1])[::-1], 0.0) * (line[-1] - line[0])
            gradient.append(share * (below - (share * below).sum()))
        return -float(boxes.values(periods).sum()), -np.concatenate(gradient)

    x = np.concatenate([np.log(np.diff(line)) for line in first])
    if iterations and grid != (1, 1):
        x = minimize(loss, x, jac=True, method="L-BFGS-B", options={"maxiter": iterations}).x
    t, v = lines_of(x)
    boxes = Boxes(density, start.grace, t, v)
    periods, _ = boxes.best_periods(start.period)
    return _with_lines(start, t, v, boxes.sources / periods, start.history)


def exact_optimum(density: SourceDensity, period: float, grace: Grace = 0.0) -> ExactOptimum:
    """The best periods when every source may have its own, for the same density and budget."""
    _check_period(period)
    some = (density.accesses > 0) & (density.sources > 0)
    shape = density.sources.shape
    times = np.broadcast_to(density.change_times[:, None], shape)
    graces = np.broadcast_to(density.graces(grace), shape)
    importance = density.accesses[some] / density.sources[some]
    objective = Currency(1.0 / times[some], graces[some])
    best, price = at_budget(
        lambda price: objective.period_at(price / importance),
        importance * objective.limit,
        density.sources[some],
        1.0 / period,
    )
    periods = np.full(shape, np.inf)
    periods[some] = best
    alpha = float((density.accesses * current(periods, times, graces)).sum())
    return ExactOptimum(alpha, price, periods)


def _with_lines(
    start: Partition, t: Floats, v: Floats, rates: Floats, history: Floats
) -> Partition:
    return Partition(
        start.density,
        start.period,
        start.grace,
        times(start.density.change_edges, t),
        times(start.density.access_edges, v),
        rates,
        history,
    )


def _check_period(period: float) -> None:
    if not 0.0 < period < np.inf:
        raise InputError(f"the period of the single queue must be more than 0 days: {period!r}")
