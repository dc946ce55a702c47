"""The price of a visit after a change of sources, budget or prior, and the keys that follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.arrays import Integers
    from observant.planning.schedule.state import State

HOPELESS = 10.0
"""Changes that are expected before the next visit to a source which visits cannot keep current."""
EXTREME = 600.0
"""Logarithm of the highest price, and minus that of the lowest: with these nobody is worth a visit,
or everybody is. Numbers can be somewhat larger and smaller than that."""
_SAMPLE, _FEWER = 4096, 1024
"""Sources that are looked at to find the price; fewer where nobody is to wait."""
_LARGE_CHANGE = 0.1
_AT_ONCE = 10_000
"""Sources that are keyed anew before `settling` gives way."""
_FEWEST, _AROUND, _POWERS = 256, 0.2, (0.1, 5.0)
"""Sources that say how spending follows the price, in logarithms of it around the price of now, and
the least and the greatest power of it that is believed."""
_GAIN = 0.02
"""Of the price where rates are learned: groups wake up together, and the price must follow."""


class Price:
    """Finds the price at which all visits together spend the budget."""

    def __init__(
        self,
        state: State,
        *,
        burst: float | None,
        ready: float | None,
        least_share: float,
        patient: bool,
    ) -> None:
        from observant.planning.schedule import keys, pricing

        self._state = state
        self._keys: Any = keys
        self._solve: Any = pricing.solve_price
        self._spending: Any = pricing.spending
        self.burst, self.ready, self.patient = burst, ready, patient
        self.least_share = least_share
        self.touched = 0
        """Sources that came, went or changed since the price was found."""

    def changed(self, slots: Integers, touched: int | None = None) -> None:
        """Key these sources anew; after a large change find the price again."""
        self.touched += len(slots) if touched is None else touched
        self._state.groups.shared["stale"] = 1
        if self.touched > _LARGE_CHANGE * len(self._state.slot) and not self.patient:
            self.settle()
        else:
            self._keys.place(*self._state.all, slots)

    def settle(self) -> None:
        """Find the price and key every source at it, all at once."""
        for _ in self.settling():
            pass

    def settling(self, budget: float | None = None) -> Iterator[None]:
        """Find the price on a sample, and key every source at it, some at a time.

        It is the price at which the budget is spent, or another one that is given.
        """
        state = self._state
        self.touched = 0
        here = state.here()
        if not len(here):
            return
        clock = state.clock[0]
        costs = state.sources["cost"][here]
        # What a second brings is never lost: whoever asks may be busy for a while.
        burst = max(np.sqrt(len(here)) * costs.mean(), clock["budget"] / DAY)
        clock["burst"] = burst if self.burst is None else self.burst
        clock["ready"] = clock["burst"] if self.ready is None else min(self.ready, clock["burst"])
        clock["savings"] = min(clock["savings"], clock["burst"])
        self._grant(here)
        clock["gain"] = _GAIN if state.learning else min(0.05, 1 / np.sqrt(len(here)))
        sample = here[:: -(-len(here) // (_FEWER if self.patient else _SAMPLE))].copy()
        share = costs.sum() / state.sources["cost"][sample].sum()
        sources, _, _, clocks, known = state.all
        wanted = clock["budget"] if budget is None else budget
        clock["price"] = self._solve(sources, clocks, sample, known, wanted / share)
        if not self.patient:
            self._keys.rekey_all(*state.all)
            return
        for some in range(0, len(here), _AT_ONCE):
            self._keys.place(*state.all, here[some : some + _AT_ONCE])
            yield

    def share(self, price: float, budget: float, burst: float) -> None:
        """Go on at this price and with this budget; keys are mended as they come up."""
        clock, self.burst = self._state.clock[0], burst
        clock["price"], clock["budget"], clock["burst"] = price, budget, burst
        clock["ready"] = burst if self.ready is None else min(self.ready, burst)
        clock["savings"] = min(clock["savings"], burst)
        self._grant(self._state.here())

    def _grant(self, here: Integers) -> None:
        """How long a source waits at most that gets its least share of visits."""
        if self.least_share and len(here):
            clock, some = self._state.clock[0], here[:: -(-len(here) // _SAMPLE)]
            costs, importance = (self._state.sources[name][some] for name in ("cost", "importance"))
            clock["longest"] = costs.mean() * len(here) / clock["budget"] / self.least_share
            clock["importance"] = importance.mean()

    def elasticity(self) -> float:
        """By what power of the price spending falls, near the price of now."""
        here = self._state.here()
        if not len(here):
            return 1.0
        sources, _, _, clocks, known = self._state.all
        price, sample = float(clocks["price"][0]), here[:: -(-len(here) // _FEWEST)].copy()
        spent = [
            self._spending(sources, clocks[0], sample, known, price * np.exp(x))
            for x in (-_AROUND, _AROUND)
        ]
        if not 0 < spent[1] <= spent[0] < np.inf:
            return 1.0
        return float(np.clip(np.log(spent[0] / spent[1]) / (2 * _AROUND), *_POWERS))
