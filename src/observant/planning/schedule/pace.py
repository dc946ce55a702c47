"""How a day's budget is spent over its hours: learned while visits are made (`hours`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from observant.times import HOURS

if TYPE_CHECKING:
    from observant.arrays import Floats
    from observant.planning.schedule.state import State

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
_KEPT = 40_000.0
"""Expected changes beyond which half of what was learned is forgotten, at the end of a day: all
hours weigh alike, however many changes a day has."""


class Hours(NamedTuple):
    """The hours of a day (UTC), a number each; 1 is as usual."""

    busy: Floats
    """Changes."""
    visits: Floats


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
        self._shared = np.zeros_like(self._counts())
        self.kept = joined(None, self._shared, 0.0)
        """What all observers of the collection had learned, when it was last restored."""

    @property
    def visits(self) -> Floats | None:
        """Of `hours`; None while all are alike."""
        clock = self._state.clock[0]
        return np.diff(clock["through"]) * HOURS if clock["paced"] else None

    @property
    def hours(self) -> Hours:
        """When changes happen, and when visits are made."""
        found, expected = self._counts().sum(axis=(1, 2))
        visits = np.ones(HOURS) if self.visits is None else self.visits
        return Hours(self._hours.hour_shape(found, expected), visits)

    def follow(self, now: float) -> None:
        """Look at the hours, with every new day on which there is more to learn from; at first of
        every pace, and then of one a day.

        With less than a visit in five days per source all hours are alike: what is a day, then?
        """
        state, daily, clock = self._state, self._state.daily[0], self._state.clock[0]
        if not self.follows or np.floor(now) <= daily["day"]:
            return
        daily["day"] = np.floor(now)
        if daily["expected"].sum() > _KEPT:
            for counts in (daily["found"], daily["expected"], daily["enough"], self._shared):
                counts[:] = counts / 2
        if clock["budget"] < _OFTEN * len(state.slot):
            daily["on"] = clock["paced"] = False
            daily["enough"] = 0.0
            return
        found = daily["found"].sum(axis=(1, 2))
        known = (daily["found"].sum(axis=2) >= _ENOUGH).all(axis=1)
        if not known.any():
            return
        even = self._hours.through_at(np.full(HOURS, 1 / HOURS))
        spent, steps = self._spent(), np.array([daily["day"] % len(self._hours.PACES)])
        if not daily["enough"].any():
            daily["through"], steps = even, np.arange(len(spent))
        steps = steps[known[steps] & (spent[steps] > 0) & (daily["enough"][steps] <= found[steps])]
        if not len(steps):
            return
        daily["enough"][steps] = _MORE * found[steps]
        for step in steps:
            daily["through"][step] = self._best(step)
        daily["on"] = clock["paced"] = bool(np.abs(daily["through"] - even).max() > 1e-9)
        clock["through"] = spent @ daily["through"] / spent.sum()
        clock["through"][-1] = 1.0

    def _best(self, step: int) -> Floats:
        """The share of a day's visits that is made by each hour; all alike if nothing is won."""
        daily, kernel, n = self._state.daily[0], self._hours, self._hours.PACES[step]
        found, expected = daily["found"][step], daily["expected"][step]
        halves = [kernel.hour_shape(found[k], expected[k]) for k in range(2)]
        even = np.full(HOURS, 1 / HOURS)
        for k, busy in enumerate(halves):
            share, _ = kernel.best_hours(busy, n)
            other = halves[1 - k]
            if kernel.mean_wait(other, share, n) > (1 - _GAIN) * kernel.mean_wait(other, even, n):
                return np.asarray(kernel.through_at(even))
        share, _ = kernel.best_hours(kernel.hour_shape(found.sum(0), expected.sum(0)), n)
        return np.asarray(kernel.through_at(share))

    def _spent(self) -> Floats:
        """What the sources of each pace spend."""
        here = self._state.here()
        rows = self._state.sources[here[:: max(-(-len(here) // _SAMPLE), 1)]]
        rows = rows[rows["period"] > 0]
        period = np.clip(rows["period"], np.maximum(rows["minimum"], 1e-9), rows["maximum"])
        which = [self._hours.pace_of(days) for days in period.tolist()]
        paces = len(self._hours.PACES)
        return np.bincount(np.array(which, int), rows["cost"] / period, paces).astype(np.float64)

    def _counts(self) -> Floats:
        """Changes found and expected: of each pace, on even days and on odd ones, at each hour."""
        daily = self._state.daily[0]
        return np.stack([daily["found"], daily["expected"]])

    def news(self) -> Floats:
        """What was learned here since `restore`: what `joined` adds to what others have learned."""
        return np.maximum(self._counts() - self._shared, 0.0)

    def restore(self, kept: Any, news: Floats | float = 0.0) -> None:
        """Go on with what `joined` has made, and with `news` that are not in it yet.

        What cannot be read is left aside.
        """
        here = self._counts()
        day, counts = _read(kept, here.shape)
        if day is None:
            return
        daily, before = self._state.daily[0], here[0].sum()
        daily["found"], daily["expected"] = counts + news
        if before > 0:  # others may have forgotten half
            daily["enough"] *= min(daily["found"].sum() / before, 1.0)
        self.kept, self._shared = kept, counts


def joined(kept: Any, news: Floats, now: float, visits: Floats | None = None) -> dict[str, Any]:
    """What is kept of the hours of a collection, with the news of one of its observers: plain
    values, for `Pace.restore`. `visits` is how that one spends a day, for people to see.

    A collection forgets as `Pace.follow` does, with the first news of a day.
    """
    today, (day, counts) = int(now), _read(kept, news.shape)
    if day is not None and day < today and counts[1].sum() > _KEPT:
        counts *= 0.5
    found, expected = (counts + news).round(6).tolist()
    spent = None if visits is None else visits.round(3).tolist()
    return {"day": max(day or 0, today), "found": found, "expected": expected, "visits": spent}


def visits_by_hour(kept: Any) -> list[float]:
    """How a day is spent by what `joined` has made: 1 is as usual; empty where all are alike."""
    try:
        visits = np.array(kept["visits"], float)
    except (TypeError, ValueError, KeyError, IndexError):
        return []
    sound = visits.shape == (HOURS,) and np.isfinite(visits).all() and (visits >= 0).all()
    return [float(one) for one in visits] if sound else []


def _read(kept: Any, shape: tuple[int, ...]) -> tuple[int | None, Floats]:
    """The day of what was kept, and its counts; no day and no counts of what is nothing of ours."""
    nothing = np.zeros(shape)
    try:
        counts = np.array([kept["found"], kept["expected"]], float).reshape(nothing.shape)
        day = int(kept["day"])
    except (TypeError, ValueError, KeyError, IndexError, OverflowError):
        return None, nothing
    return (day, counts) if np.isfinite(counts).all() and (counts >= 0).all() else (None, nothing)
