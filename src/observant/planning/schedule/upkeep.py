"""What a scheduler sees to after a change: the prior, the price, and the keys of all sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.planning.schedule.knowledge import Knowledge
from observant.planning.schedule.learning import learn_prior
from observant.times import DAY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from observant.planning.schedule.learning import Learned

__all__ = ["Upkeep"]

_SAMPLE = 4096
"""Sources that are looked at to find the price after a large change."""
_LARGE_CHANGE = 0.1
_LOWEST, _HIGHEST = 0.002, 400.0
"""Rates that are told apart where the prior is learned: updates per mean period."""
_FIRST_LOOK = 0.1
"""Visits per source after which the prior is learned for the first time; then at every doubling."""
_BINS_PER_PERIOD = 10
_SLACK = 0.03
_MEMORY = 3_000.0
"""Of `siblings`: bins of time in a mean period, how far (in mean periods) a clock may be put right
before its sources move, and visits that a judgement lasts."""
_GAIN = 0.02
"""Of the price where rates are learned: groups wake up together, and the price must follow."""


class Upkeep(Knowledge):
    """The part of `Scheduler` that keeps prior, price and keys in line with what it was told."""

    def __init__(
        self,
        grid: NDArray[np.float64],
        weights: NDArray[np.float64],
        objective: str,
        *,
        adapting: bool,
        burst: float | None,
    ) -> None:
        from observant.planning.schedule import beliefs, keys, pricing

        super().__init__(grid, weights)
        self._beliefs: Any = beliefs
        self._keys: Any = keys
        self._pricing: Any = pricing
        self._objective, self._adapting, self._given_burst = objective, adapting, burst
        self._rows = np.zeros(1, np.int64)
        self._seen = self._touched = 0
        self._next_look = 0.0

    # -- the prior ----------------------------------------------------------------------------

    def learn_prior(self) -> None:
        """Learn from all sources how their rates are distributed; done by itself with "learn".

        It takes a moment with many sources. A loop that must not wait asks for a `lesson`, learns
        in another thread (`learning.learn_prior`), and lets the scheduler `take_in` the result.
        """
        self.take_in(learn_prior(self.lesson()))

    def take_in(self, learned: Learned) -> None:
        """Use this prior from now on."""
        self._prior, self._rows = learned.prior, learned.rows
        self._sources["group"] = self._rows_for(self._sources["node"])
        self._clock["age_weight"] = learned.age_weight
        self._gather()
        self._beliefs.believe_all(self._sources, self._clock, self._state[4])
        self._next_look = max(2 * self._seen / max(len(self), 1), _FIRST_LOOK)
        self._settle()

    # -- inside -------------------------------------------------------------------------------

    def _scale(self) -> None:
        """Once the number of sources is known: which rates matter, and how long a bin is."""
        period = len(self) / self.budget
        if self._seen:
            return
        if self._adapting:
            self._grid[:] = np.geomspace(_LOWEST / period, _HIGHEST / period, len(self._grid))
            self._next_look = _FIRST_LOOK
            self._tabulate()
        tide = self._tides[0]
        tide["width"] = min(period / _BINS_PER_PERIOD, 1.0)
        tide["memory"], tide["weight"], tide["level"] = _MEMORY, 1 / len(tide["weight"]), 1.0
        tide["bin"] = tide["oldest"] = np.floor(self.now / tide["width"])
        tide["due"] = tide["round"] = -np.inf
        tide["slack"] = _SLACK * period

    def _rows_for(self, node: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of the prior for sources of these groups; a new group has that of its parent."""
        place = np.array(node)
        while (fresh := place >= len(self._rows)).any():
            place[fresh] = self._parent[place[fresh]]
        return np.where(place >= 0, self._rows[place], 0)

    def _tabulate(self) -> None:
        """Prepare what is looked up rather than computed, for the rates as they are."""
        from observant.planning.schedule import grids

        prepare: Any = grids
        if len(self._grid):
            *found, zero = prepare.tables(self._objective, self._grid)
            self._tables = (found[0], found[1], found[2])
            self._clock["step"], self._clock["zero"] = prepare.step_of(self._grid), zero
        self._gather()

    def _changed(self, slots: NDArray[np.int64], touched: int | None = None) -> None:
        """Key these sources anew; after a large change find the price again."""
        self._touched += len(slots) if touched is None else touched
        self._tides["stale"] = 1
        if self._touched > _LARGE_CHANGE * len(self):
            self._settle()
        else:
            self._keys.place(*self._state, slots)

    def _settle(self) -> None:
        """Find the price on a sample, and key every source at it."""
        self._touched = 0
        here = self._here()
        if not len(here):
            return
        clock = self._clock[0]
        costs = self._sources["cost"][here]
        # What a second brings is never lost: whoever asks may be busy for a while.
        burst = max(np.sqrt(len(here)) * costs.mean(), clock["budget"] / DAY)
        clock["burst"] = burst if self._given_burst is None else self._given_burst
        clock["purse"] = min(clock["purse"], clock["burst"])
        clock["gain"] = _GAIN if len(self._grid) else min(0.05, 1 / np.sqrt(len(here)))
        sample = here[:: -(-len(here) // _SAMPLE)]
        share = costs.sum() / self._sources["cost"][sample].sum()
        sources, _, _, clocks, *rest = self._state
        clock["price"] = self._pricing.solve_price(
            sources, clocks, sample, *rest, clock["budget"] / share
        )
        self._keys.rekey_all(*self._state)
