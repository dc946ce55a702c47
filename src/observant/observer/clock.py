"""Time for the observer: never backwards, whatever happens to the clock of the machine.

`SteadyClock.time` is the wall clock as long as that behaves. When the wall clock is set back, the
steady clock goes on at half speed until the wall clock has caught up, so that no two visits change
their order. When it leaps ahead (set, or the machine slept), the steady clock follows, and the leap
is told: the schedule must not answer hours of sleep with a burst.

`AcceleratedClock` runs many times faster than the world, for demonstrations and tests.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

_LEAP = 30.0
"""Seconds by which wall and monotonic clock may differ before we speak of a leap."""
_CATCHING_UP = 0.5


class Clock(Protocol):
    """What the observer asks of a clock."""

    speed: float
    """Seconds on this clock in a second of the world."""

    def time(self) -> float:
        """Seconds since 1970, never less than before."""

    def monotonic(self) -> float:
        """Seconds that have passed since some moment."""

    async def sleep(self, seconds: float) -> None:
        """Wait for so many seconds of this clock."""


@dataclass
class SteadyClock:
    """The clock of the machine, made steady.

    >>> wall, monotonic = iter([1000.0, 1010.0, 410.0, 420.0]), iter([0.0, 10.0, 20.0, 30.0])
    >>> clock = SteadyClock(wall=lambda: next(wall), ticks=lambda: next(monotonic))
    >>> clock.time(), clock.time(), clock.time()  # set back by ten minutes: on at half speed
    (1010.0, 1015.0, 1020.0)
    >>> clock.leaps
    [-610.0]
    """

    wall: Callable[[], float] = time.time
    ticks: Callable[[], float] = time.monotonic
    speed: float = 1.0
    leaps: list[float] = field(default_factory=list)
    """Every leap of the wall clock against the monotonic one, in seconds."""

    def __post_init__(self) -> None:
        self._now, self._wall, self._ticks = self.wall(), 0.0, self.ticks()
        self._wall = self._now

    def time(self) -> float:
        wall, ticks = self.wall(), self.ticks()
        passed = max(ticks - self._ticks, 0.0)
        leap = (wall - self._wall) - passed
        if abs(leap) > _LEAP:
            self.leaps.append(leap)
        self._now = max(wall, self._now + _CATCHING_UP * passed)
        self._wall, self._ticks = wall, ticks
        return self._now

    def monotonic(self) -> float:
        return self.ticks()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass
class AcceleratedClock:
    """A clock on which `speed` seconds pass in every second.

    >>> clock = AcceleratedClock(speed=1000.0, start=0.0, ticks=iter([5.0, 7.0]).__next__)
    >>> clock.time()
    2000.0
    """

    speed: float
    start: float = field(default_factory=time.time)
    ticks: Callable[[], float] = time.monotonic
    origin: float | None = None
    """Reading of `ticks` at `start`; processes that share it share the clock."""

    def __post_init__(self) -> None:
        if self.origin is None:
            self.origin = self.ticks()

    def restart(self) -> None:
        """Begin again at `start`."""
        self.origin = self.ticks()

    def time(self) -> float:
        return self.start + self.speed * (self.ticks() - (self.origin or 0.0))

    def monotonic(self) -> float:
        return self.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.speed)
