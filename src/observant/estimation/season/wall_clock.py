"""The clock on the wall: where a time falls in the day or the week, time zones included."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.times import DAY, zone_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from observant.arrays import Floats, Integers

BINS = {"hour-of-week": (168, 7.0), "hour-of-day": (24, 1.0), "weekday": (7, 7.0)}
"""How a cycle can be divided: the number of bins, and the days in a cycle."""

_EPOCH_IS_THURSDAY = 3.0  # days from the Monday before to 1970-01-01
_YEARS = (1970, 2070)
_ROUNDING = 1e-8  # of a bin


@dataclass(frozen=True)
class WallClock:
    """Bins of a day or a week in a time zone; weeks begin on Monday.

    >>> clock = WallClock("hour-of-week", "Europe/Berlin")
    >>> clock.bin([19723.0, 19905.0])  # midnight UTC of two Mondays: 01:00 and 02:00 in Berlin
    array([1, 2])
    """

    bins: str = "hour-of-week"
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        if self.bins not in BINS:
            raise InputError(f"unknown bins {self.bins!r}; choose one of {', '.join(BINS)}")
        _clock_changes(self.time_zone)

    @property
    def count(self) -> int:
        """Bins in a cycle."""
        return BINS[self.bins][0]

    @property
    def period(self) -> float:
        """Days in a cycle."""
        return BINS[self.bins][1]

    @property
    def width(self) -> float:
        """Days in a bin."""
        return self.period / self.count

    def zone(self, time: ArrayLike) -> NDArray[np.int32]:
        """Which of the periods between clock changes each time falls in."""
        times, _ = _clock_changes(self.time_zone)
        return np.searchsorted(times, np.asarray(time, np.float64), side="right").astype(np.int32)

    def position(self, time: ArrayLike) -> Floats:
        """Bins passed on the local clock at times in days since 1970 UTC.

        Modulo the bins of a cycle it is the bin, and its fraction the part of it gone by.
        """
        t = np.asarray(time, np.float64)
        _, ahead = _clock_changes(self.time_zone)
        exact = (t + ahead[self.zone(t)] + _EPOCH_IS_THURSDAY) * (self.count / self.period)
        # A date of 09:00:00 belongs to the hour it begins, however it was rounded.
        whole = np.rint(exact)
        return np.asarray(np.where(np.abs(exact - whole) < _ROUNDING, whole, exact))

    def bin(self, time: ArrayLike) -> Integers:
        """Bin of each time."""
        return np.asarray(np.floor(self.position(time)).astype(np.int64) % self.count)

    def integral(self, weights: Floats, time: ArrayLike) -> Floats:
        """∫ of weights that repeat every cycle, up to each time; only differences mean anything."""
        within = self.width * _reached(weights, self.position(time))
        return within + (self.corrections @ weights)[self.zone(time)]

    @cached_property
    def corrections(self) -> Floats:
        """Days to add to each bin after each change of the clock, so that time runs on steadily.

        An hour that the clock skips is taken away again, one that it repeats is put back.
        """
        times, ahead = _clock_changes(self.time_zone)
        shift = np.zeros((len(ahead), self.count))
        for k, time in enumerate(times):
            before, after = (
                self.width * _reached(np.eye(self.count), np.full(1, place))[:, 0]
                for place in (time + _EPOCH_IS_THURSDAY + ahead[k : k + 2]) / self.width
            )
            shift[k + 1] = shift[k] + before - after
        return shift


def _reached(weights: Floats, position: Floats) -> Floats:
    """∫ of the weights up to a position, in bins. Weights may be rows of a matrix."""
    bins = weights.shape[-1]
    whole = np.floor(position)
    cycle, bin_ = np.divmod(whole, bins)
    bin_ = bin_.astype(np.int64)
    start = np.zeros((*weights.shape[:-1], 1))
    edges = np.concatenate([start, np.cumsum(weights, axis=-1)], axis=-1)
    return np.asarray(
        cycle * edges[..., -1:] + edges[..., bin_] + weights[..., bin_] * (position - whole)
    ).reshape(weights.shape[:-1] + position.shape)


@lru_cache(maxsize=64)
def _clock_changes(time_zone: str) -> tuple[Floats, Floats]:
    """When the clock of a zone changes (days since 1970 UTC), and how far it is ahead between."""
    zone = zone_of(time_zone)
    first = datetime(_YEARS[0], 1, 1, tzinfo=UTC)
    days = (datetime(_YEARS[1], 1, 1, tzinfo=UTC) - first).days

    def ahead(seconds: float) -> float:
        offset = (first + timedelta(seconds=seconds)).astimezone(zone).utcoffset()
        return 0.0 if offset is None else offset.total_seconds()

    daily = [ahead(day * DAY) for day in range(days + 1)]
    times = []
    for day in np.flatnonzero(np.diff(daily)):
        low, high = int(day) * DAY, (int(day) + 1) * DAY
        while high - low > 1:  # to the second
            middle = (low + high) // 2
            low, high = (middle, high) if ahead(middle) == daily[day] else (low, middle)
        times.append(high / DAY)
    offsets = [daily[0], *(daily[day + 1] for day in np.flatnonzero(np.diff(daily)))]
    return np.array(times), np.array(offsets) / DAY
