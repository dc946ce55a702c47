"""How a day's budget is spent over its hours: learned while visits are made (`hours`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from observant.planning.schedule.state import State

__all__ = ["Hours", "Pace"]

_ENOUGH = 100.0
"""Changes, on even days and on odd ones, before hours are compared."""
_MORE = 1.1
"""Times the changes of before: then they are compared again."""
_GAIN = 0.035
"""By how much updates must wait less, on days that the hours were not learned from."""
_OFTEN = 0.2
"""Visits per source and day below which all hours are alike."""
_SAMPLE = 4096
"""Sources, at most, that say what each pace spends."""


class Hours(NamedTuple):
    """The hours of a day (UTC), a number each; 1 is as usual."""

    busy: NDArray[np.float64]
    """Changes."""
    visits: NDArray[np.float64]


class Pace:
    """Moves the visits of a day to the hours at which they are worth most, as far as there are any.

    What is learned on even days must be worth something on odd ones, and the other way round:
    whoever publishes a hundred pages one morning has no hours.
    """

    def __init__(self, state: State, *, follows: bool = True) -> None:
        from observant.planning.schedule import hours

        self._state = state
        self._hours: Any = hours
        self.follows = follows
        """Whether it does; if not, all hours are alike."""

    @property
    def hours(self) -> Hours:
        """When changes happen, and when visits are made."""
        daily, clock = self._state.daily[0], self._state.clock[0]
        even = np.ones(self._hours.HOURS)
        busy = self._hours.hour_shape(daily["found"].sum(axis=0), daily["expected"].sum(axis=0))
        spent = np.diff(clock["through"]) * self._hours.HOURS if clock["paced"] else even
        return Hours(busy, spent)

    def follow(self, now: float) -> None:
        """Look at the hours, with every new day on which there is more to learn from; at first of
        every pace, and then of one a day.

        With less than a visit in five days per source all hours are alike: what is a day, then?
        """
        state, daily, clock = self._state, self._state.daily[0], self._state.clock[0]
        if not self.follows or np.floor(now) <= daily["day"]:
            return
        daily["day"] = np.floor(now)
        found = daily["found"].sum(axis=1)
        if clock["budget"] < _OFTEN * len(state.slot):
            daily["on"] = clock["paced"] = False
            daily["enough"] = 0.0
            return
        if (found < _ENOUGH).any():
            return
        even = self._hours.through_at(np.full(self._hours.HOURS, 1 / self._hours.HOURS))
        spent, steps = self._spent(), np.array([daily["day"] % len(self._hours.PACES)])
        if not daily["enough"].any():
            daily["through"], steps = even, np.arange(len(spent))
        steps = steps[(spent[steps] > 0) & (daily["enough"][steps] <= found.sum())]
        if not len(steps):
            return
        daily["enough"][steps] = _MORE * found.sum()
        for step in steps:
            daily["through"][step] = self._best(self._hours.PACES[step])
        daily["on"] = clock["paced"] = bool(np.abs(daily["through"] - even).max() > 1e-9)
        clock["through"] = spent @ daily["through"] / spent.sum()
        clock["through"][-1] = 1.0

    def _best(self, n: float) -> NDArray[np.float64]:
        """The share of a day's n visits that is made by each hour; all alike if nothing is won."""
        daily, kernel = self._state.daily[0], self._hours
        halves = [kernel.hour_shape(daily["found"][k], daily["expected"][k]) for k in range(2)]
        even = np.full(kernel.HOURS, 1 / kernel.HOURS)
        for k, busy in enumerate(halves):
            share, _ = kernel.best_hours(busy, n)
            other = halves[1 - k]
            if kernel.mean_wait(other, share, n) > (1 - _GAIN) * kernel.mean_wait(other, even, n):
                return np.asarray(kernel.through_at(even))
        share, _ = kernel.best_hours(self.hours.busy, n)
        return np.asarray(kernel.through_at(share))

    def _spent(self) -> NDArray[np.float64]:
        """What the sources of each pace spend."""
        here = self._state.here()
        rows = self._state.sources[here[:: max(-(-len(here) // _SAMPLE), 1)]]
        rows = rows[rows["period"] > 0]
        period = np.clip(rows["period"], np.maximum(rows["minimum"], 1e-9), rows["maximum"])
        which = [self._hours.pace_of(days) for days in period.tolist()]
        paces = len(self._hours.PACES)
        return np.bincount(np.array(which, int), rows["cost"] / period, paces).astype(np.float64)

    def state(self) -> list[list[list[float]]]:
        """What was learned, as plain values, for `restore`."""
        daily = self._state.daily[0]
        return [daily[name].round(3).tolist() for name in ("found", "expected")]

    def restore(self, kept: Any) -> None:
        """Go on with what was learned before; what is not that is left aside."""
        try:
            found, expected = np.array(kept, float).reshape(2, 2, self._hours.HOURS)
        except (TypeError, ValueError):
            return
        both = np.stack([found, expected])
        if np.isfinite(both).all() and (both >= 0).all():
            self._state.daily["found"][0], self._state.daily["expected"][0] = found, expected
