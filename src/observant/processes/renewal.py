"""Renewal processes: independent intervals with one distribution F.

A model draws intervals and residual lives; this module lines them up for many sources at once.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from observant.processes.base import Process
from observant.processes.updates import Updates, check_request, generator, offsets_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.arrays import Floats, Integers
    from observant.processes.updates import Seed

# Intervals held in one block of the sampler: enough for speed, little enough for the cache.
BLOCK = 1 << 20


class Renewal(Process):
    """A source whose intervals are independent draws from one distribution. Brewington 2.1.3."""

    @property
    def rate(self) -> float:
        """Updates per day."""
        return 1.0 / self.mean

    def sample(
        self, horizon: float, sources: int = 1, *, seed: Seed = None, stationary: bool = True
    ) -> Updates:
        horizon, sources = check_request(horizon, sources)
        rng = generator(seed)
        first = self._draw_residuals(rng, sources) if stationary else self._draw(rng, (sources,))
        return renewal_updates(
            first, lambda rows, columns: self._draw(rng, (rows.size, columns)), horizon, self.mean
        )

    @abstractmethod
    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draw intervals."""

    @abstractmethod
    def _draw_residuals(self, rng: np.random.Generator, sources: int) -> Floats:
        """Draw from G.

        A random moment falls into an interval with probability proportional to its length, and
        uniformly within it; so a model may draw a length-biased interval times a uniform number.
        """


def renewal_updates(
    first: Floats, draw: Callable[[Integers, int], Floats], horizon: float, mean: float
) -> Updates:
    """Continue each source from its first update with intervals from `draw(sources, columns)`.

    `columns` is always even, so that a caller may alternate between two kinds of intervals.
    """
    rows = max(1, int(BLOCK / (horizon / mean + 8.0)))
    parts = [
        _block(first[low : low + rows], low, draw, horizon, mean)
        for low in range(0, first.size, rows)
    ]
    times = np.concatenate([np.empty(0), *(part[0] for part in parts)])
    counts = np.concatenate([np.empty(0, dtype=np.int64), *(part[1] for part in parts)])
    return Updates(times, offsets_of(counts))


def _block(
    first: Floats, base: int, draw: Callable[[Integers, int], Floats], horizon: float, mean: float
) -> tuple[Floats, Integers]:
    alive = np.flatnonzero(first <= horizon)
    now = first[alive]
    counts = np.zeros(first.size, dtype=np.int64)
    counts[alive] = 1
    # Each round adds a table of further times to the sources that have not passed the horizon:
    # (sources, how many updates they had before, times, how many of each row are inside).
    rounds = [(alive, np.zeros_like(alive), now[:, None], np.ones_like(alive))]
    least = 2
    while alive.size:
        expected = (horizon - float(now.mean())) / mean
        columns = max(least, int(expected + 2.0 * expected**0.5) + 2)
        columns = max(2, min(columns, BLOCK // alive.size)) // 2 * 2
        least *= 2  # bursty sources need many more intervals than the mean says
        times = now[:, None] + np.cumsum(draw(alive + base, columns), axis=1)
        found = np.count_nonzero(times <= horizon, axis=1)
        rounds.append((alive, counts[alive], times, found))
        counts[alive] += found
        going = found == columns
        alive, now = alive[going], times[going, -1]
    offsets = offsets_of(counts)
    out = np.empty(int(offsets[-1]))
    for sources, before, times, found in rounds:
        inside = np.arange(times.shape[1]) < found[:, None]
        start = offsets[sources] + before
        # start of the row, plus the place within the row
        place = np.repeat(start - offsets_of(found)[:-1], found) + np.arange(int(found.sum()))
        out[place] = times[inside]
    return out, counts
