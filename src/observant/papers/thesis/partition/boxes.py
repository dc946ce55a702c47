"""The boxes between the grid lines of a partition, and what visiting them is worth.

Lines are given as positions among the cells of the density: 2.5 is the middle of the third cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.planning.objectives.numerics import crossing

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.arrays import Floats
    from observant.papers.thesis.partition.density import Grace, SourceDensity


class Boxes:
    """Boxes of NT × NV; `sources` is the share of the sources in each.

    When the grace does not depend on τ, the cells of a box in one row are added up beforehand.
    """

    def __init__(self, density: SourceDensity, grace: Grace, t: Floats, v: Floats) -> None:
        self.density, self.t, self.v = density, t, v
        self.graces = density.graces(grace)
        self.rows = cover(t, len(density.change_times))
        self.columns = cover(v, len(density.access_times))
        ends = np.floor(t[:-1]).astype(int), np.ceil(t[1:]).astype(int)
        self.near = [slice(first, last) for first, last in zip(*ends, strict=True)]
        self.folds = self.graces.shape[1] == 1
        self.sources: Floats = self.rows @ density.sources @ self.columns.T
        self.by_column: Floats = density.accesses @ self.columns.T
        # Row after row of boxes, the cells that each is made of: `_sum` takes all at once.
        self._cells = np.concatenate([np.arange(near.start, near.stop) for near in self.near])
        self._box = np.repeat(np.arange(len(self.near)), ends[1] - ends[0])
        self._parts = np.zeros((len(self.near), len(self._cells)))
        self._parts[self._box, np.arange(len(self._cells))] = self.rows[self._box, self._cells]

    def value(self, i: int, j: int, period: float) -> float:
        """P_ij·α_ij of one box, (4.27)."""
        near = self.near[i]
        t, graces = self.density.change_times[near], self.graces[near]
        if self.folds:
            mass = self.rows[i, near] * self.by_column[near, j]
            return float(mass @ current(period, t, graces[:, 0]))
        mass = self.density.accesses[near] * self.columns[j]
        return float(self.rows[i, near] @ (mass * current(period, t[:, None], graces)).sum(axis=1))

    def values(self, periods: Floats) -> Floats:
        return self._sum(current, periods)

    def best_periods(self, period: float) -> tuple[Floats, float]:
        """The periods that spend 1/T₀ where it is worth most, and the price of a visit."""
        some = (self.sources > 0).ravel()

        def index(periods: Floats) -> Floats:
            full = np.full(self.sources.size, np.inf)
            full[some] = periods
            total = self._sum(_index, full.reshape(self.sources.shape))
            return total.ravel()[some] / self.sources.ravel()[some]

        limit = index(np.full(some.sum(), np.inf))
        last = np.full(some.sum(), float(period))

        def periods_at(price: float) -> Floats:
            nonlocal last
            found = crossing(index, np.full(some.sum(), price), limit, start=last)
            last = np.where(np.isfinite(found), found, last)
            return found

        best, price = at_budget(periods_at, limit, self.sources.ravel()[some], 1.0 / period)
        periods = np.full(self.sources.size, np.inf)
        periods[some] = best
        return periods.reshape(self.sources.shape), price

    def slopes(self, periods: Floats, price: float) -> tuple[Floats, Floats]:
        """What α gains, less the price of the visits, when each inner line moves up by one cell."""
        density, visits = self.density, ratio(np.ones_like(periods), periods)
        along_t = np.zeros(len(self.t) - 2)
        for k in range(len(along_t)):
            row = min(int(self.t[k + 1]), len(density.change_times) - 1)
            cell = slice(row, row + 1)
            below, above = (self._strip(cell, periods[k + side]) for side in (0, 1))
            moved = (density.sources[cell] @ self.columns.T)[0]
            along_t[k] = (below - above - price * moved * (visits[k] - visits[k + 1])).sum()
        along_v = np.zeros(len(self.v) - 2)
        for k in range(len(along_v)):
            cell_v = min(int(self.v[k + 1]), len(density.access_times) - 1)
            mass = self.rows * density.accesses[:, cell_v]
            g = self.graces[:, 0 if self.folds else cell_v]
            below, above = (
                (mass * current(periods[:, k + side, None], density.change_times, g)).sum(axis=1)
                for side in (0, 1)
            )
            moved = self.rows @ density.sources[:, cell_v]
            along_v[k] = (below - above - price * moved * (visits[:, k] - visits[:, k + 1])).sum()
        return along_t, along_v

    def _strip(self, cell: slice, periods: Floats) -> Floats:
        """Currency of one row of cells, for each column of boxes with its own period."""
        t, g = self.density.change_times[cell], self.graces[cell]
        if self.folds:
            return np.asarray(self.by_column[cell][0] * current(periods, t, g[0]))
        mass = self.density.accesses[cell] * self.columns
        return np.asarray((mass * current(periods[:, None], t, g)).sum(axis=1))

    def _sum(self, function: Callable[[Any, Any, Any], Floats], periods: Floats) -> Floats:
        """Add up a function of period, t and grace over the accesses of every box."""
        if self.folds:
            t, g = self.density.change_times[self._cells, None], self.graces[self._cells]
            each = self.by_column[self._cells] * function(periods[self._box], t, g)
            return np.asarray(self._parts @ each)
        total = np.empty(self.sources.shape)
        for i, near in enumerate(self.near):
            t, g = self.density.change_times[near, None], self.graces[near]
            for j, column in enumerate(self.columns):
                each = self.density.accesses[near] * function(periods[i, j], t, g)
                total[i, j] = self.rows[i, near] @ each @ column
        return total


def at_budget(
    periods_at: Callable[[float], Floats], limit: Floats, sources: Floats, budget: float
) -> tuple[Floats, float]:
    """The price at which the periods spend the budget, and those periods.

    Near the limit of a source its period hangs on digits of the price that a float does not have.
    So the visits at two neighbouring prices, one too low and one too high, are mixed.
    """
    from scipy.optimize import brentq

    def visits_at(log_price: float) -> Floats:
        return sources / periods_at(float(np.exp(log_price)))

    def over(log_price: float) -> float:
        return float(visits_at(log_price).sum()) / budget - 1.0

    high = float(np.log(limit.max()))
    low, width = high, 1.0
    while over(low) < 0.0:
        high, low, width = low, low - width, 2.0 * width
    root = float(brentq(over, low, high, xtol=1e-14))
    gap = 1e-15 * (1.0 + abs(root))
    while over(root - gap) < 0.0 or over(root + gap) > 0.0:
        gap *= 2.0
    more, less = visits_at(root - gap), visits_at(root + gap)
    spare = float(more.sum() - less.sum())
    share = (budget - float(less.sum())) / spare if spare > 0.0 else 0.0
    return ratio(sources, less + share * (more - less)), float(np.exp(root))


# -- formulas -------------------------------------------------------------------------------------


def current(period: Any, t: Any, grace: Any) -> Floats:
    """α of a source of mean change time t, (2.40); 1 within the grace, 0 when never visited."""
    late = np.maximum(period - grace, 0.0)
    with np.errstate(invalid="ignore"):
        value = (np.minimum(grace, period) - t * np.expm1(-late / t)) / period
    return np.asarray(np.where(np.isinf(period), 0.0, value))


def _index(period: Any, t: Any, grace: Any) -> Floats:
    """The index W of currency with grace, for the mean change time t = 1/λ."""
    late = np.maximum(period - grace, 0.0)
    kept = np.exp(-late / t)
    lost = np.where(kept > 0.0, late, 0.0) * kept
    return np.asarray((grace + t) * (1.0 - kept) - lost)


# -- lines among cells ----------------------------------------------------------------------------


def positions(edges: Floats, lines: Floats) -> Floats:
    """Where times lie among the cells: 2.5 is the middle of the third."""
    return np.asarray(np.interp(lines, edges, np.arange(len(edges), dtype=float)))


def times(edges: Floats, places: Floats) -> Floats:
    return np.asarray(np.interp(places, np.arange(len(edges), dtype=float), edges))


def cover(places: Floats, cells: int) -> Floats:
    """Share of each cell that lies between two lines: one row a box, one column a cell."""
    below = np.clip(places[:, None] - np.arange(cells), 0.0, 1.0)
    return np.asarray(np.diff(below, axis=0))


def ratio(a: Floats, b: Floats) -> Floats:
    out = np.full(np.broadcast_shapes(a.shape, b.shape), np.inf)
    return np.asarray(np.divide(a, b, out=out, where=b > 0))
