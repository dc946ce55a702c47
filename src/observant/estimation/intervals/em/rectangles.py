"""What visits say about the interval around them: where it began, where it ended.

An age in [a1, a2) and a residual life in (r1, r2] put the last update into a window of width
a2 − a1, the next one into a window of width r2 − r1, with a quiet time of a1 + r1 between. An
interval of length θ fits in |[a1, a2) ∩ [θ − r2, θ − r1)| ways, so only the quiet time and the two
widths matter, and all visits between two changes say the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from observant.processes.base import floats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from observant.processes.base import Floats

__all__ = ["Rectangles", "fitting", "folded"]

FOLDS = 5
STRETCHES = 10
"""Most stretches of consecutive visits per fold of the cross-validation; fewer when short."""


@dataclass(frozen=True, eq=False)
class Rectangles:
    """Distinct quiet times and widths, the narrower window first, and how often each was seen."""

    quiet: Floats
    narrow: Floats
    wide: Floats
    counts: NDArray[np.float64]
    """One row a rectangle, one column a fold of the cross-validation."""

    @property
    def total(self) -> Floats:
        return np.asarray(self.counts.sum(axis=1), np.float64)

    def thinned(self, most: int) -> Rectangles:
        """At most so many of the rectangles, evenly chosen."""
        rows = np.arange(0, len(self.quiet), -(-len(self.quiet) // most))
        return Rectangles(self.quiet[rows], self.narrow[rows], self.wide[rows], self.counts[rows])

    @property
    def gap(self) -> Floats:
        """Shortest distance between visits in the rectangle; zero where an update is dated."""
        return np.minimum(self.narrow, np.where(self.quiet > 0.0, self.quiet, self.wide))

    @property
    def longest(self) -> float:
        """Longest interval the data ask for."""
        narrow = np.where(np.isfinite(self.narrow), self.narrow, self.quiet)
        wide = np.where(np.isfinite(self.wide), self.wide, 0.0)
        return float((self.quiet + narrow + wide).max())


def folded(
    quiet: Floats, before: Floats, after: Floats, weights: Floats, unit: float
) -> Rectangles:
    """Collect equal rectangles; times closer than a billionth of `unit` are equal."""
    step = 1e-9 * unit
    table = np.column_stack([quiet, np.minimum(before, after), np.maximum(before, after)])
    table = np.round(table / step)
    order = np.lexsort(table.T)
    ordered = table[order]
    fresh = np.ones(len(order), bool)
    fresh[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    index = np.empty(len(order), np.int64)
    index[order] = np.cumsum(fresh) - 1
    # Visits that saw the same interval stay together, or they would predict one another.
    seen = np.append(0, np.cumsum(index[1:] != index[:-1]))
    stretches = FOLDS * min(STRETCHES, 1 + int(seen[-1]) // (4 * FOLDS))
    fold = seen * stretches // (int(seen[-1]) + 1) % FOLDS
    counts = np.bincount(index * FOLDS + fold, weights, minlength=int(fresh.sum()) * FOLDS)
    quiet, narrow, wide = (ordered[fresh] * step).T
    return Rectangles(quiet, narrow, wide, floats(counts.reshape(-1, FOLDS)))


def fitting(rectangles: Rectangles, edges: Floats) -> Floats:
    """Mean ways in which an interval drawn evenly from each cell fits each rectangle.

    A trapezium in θ: it rises over the narrower width, stays, and falls over it again. The top is
    set to 1, so that a date of zero width is as good as any; where both windows are open it rises
    for ever.
    """
    out = np.empty((len(rectangles.quiet), len(edges) - 1))
    block = max(1, (1 << 22) // len(edges))
    for low in range(0, len(out), block):
        rows = slice(low, low + block)
        x = edges - rectangles.quiet[rows, None]
        narrow, wide = rectangles.narrow[rows, None], rectangles.wide[rows, None]
        open_both = np.isinf(narrow)
        width = np.where(open_both | (narrow == 0.0), 1.0, narrow)
        rise = np.clip(x, 0.0, np.where(open_both, np.inf, narrow))
        ways = np.where(narrow == 0.0, 0.0, rise**2 / (2.0 * width))
        flat = np.clip(x - np.where(open_both, np.inf, narrow), 0.0, None)
        ways += np.minimum(flat, np.where(np.isinf(wide), np.inf, wide - narrow_or_zero(narrow)))
        fall = np.clip(x - wide, 0.0, narrow_or_zero(narrow))
        ways += fall - fall**2 / (2.0 * width)
        out[rows] = np.maximum(np.diff(ways, axis=1), 0.0)
    out /= np.diff(edges)
    return out


def narrow_or_zero(narrow: Floats) -> Floats:
    """The width of a closed window."""
    return np.where(np.isinf(narrow), 0.0, narrow)
