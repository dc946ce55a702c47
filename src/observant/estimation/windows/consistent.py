"""Consistent windows: stretches in which the rate rises, falls or stays. Singh, section 4."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError
from observant.estimation.windows import scan_loops as scanning
from observant.names import MEASURES

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from observant.arrays import Flags, Floats, Integers
    from observant.estimation.windows.points import UpdatePoints


STATES = ("decreasing", "constant", "increasing")
"""What the rate does in a window; entry ``state + 1`` of a state −1, 0 or 1."""

LIMITS = {"points": scanning.COUNT, "each": scanning.AMOUNT, "total": scanning.TOTAL}
"""What the threshold limits: points that violate, each violation, or the sum of them."""

DIRECTIONS = ("forward", "backward")
COMPILED_FROM = 20_000
"""Below so many points, plain Python answers sooner than numba can load."""


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of many sources: window w owns the points ``offsets[w]:offsets[w + 1]``.

    Times within a window are counted from the update before its first point, so that a window of
    n points holds n gaps, and the windows of a source hold all of its gaps.
    """

    points: UpdatePoints
    offsets: Integers
    owner: Integers
    """Source of each window."""
    state: NDArray[np.int8]
    """−1 the rate falls, 0 it stays, 1 it rises: what the first three points say."""

    def __len__(self) -> int:
        return len(self.owner)

    @cached_property
    def n(self) -> Integers:
        """Points of each window."""
        return np.diff(self.offsets)

    @cached_property
    def window(self) -> Integers:
        """Window of each point."""
        return np.repeat(np.arange(len(self)), self.n)

    @cached_property
    def rank(self) -> Integers:
        """Number of each point within its window, from 1: Singh's N(t)."""
        return np.arange(len(self.window)) - self.offsets[self.window] + 1

    @cached_property
    def gaps(self) -> Floats:
        """Days from each point to the one before."""
        return self.points.gaps

    @cached_property
    def origin(self) -> Floats:
        """Time of the update before each window."""
        first = self.offsets[:-1]
        return self.points.times[first] - self.gaps[first]

    @cached_property
    def t(self) -> Floats:
        """Time of each point within its window."""
        return self.points.times - self.origin[self.window]

    @cached_property
    def end(self) -> Floats:
        """Length of each window: the time tₙ of its last point within it."""
        return self.t[self.offsets[1:] - 1]

    @cached_property
    def last(self) -> Floats:
        """Time of each window's last point."""
        return self.points.times[self.offsets[1:] - 1]

    @cached_property
    def is_last(self) -> Flags:
        """Which windows are the latest of their source."""
        last = np.ones(len(self), bool)
        last[:-1] = self.owner[1:] != self.owner[:-1]
        return last

    def sums(self, values: Floats) -> Floats:
        """Add up one value per point within each window."""
        return np.add.reduceat(values, self.offsets[:-1]) if len(self) else np.zeros(0)

    def select(self, which: Flags) -> Windows:
        """Return some of the windows; sources keep their numbers."""
        rows = np.repeat(which, self.n)
        owner = self.owner[which]
        offsets = np.concatenate([[0], np.cumsum(self.n[which])]).astype(np.int64)
        times = self.points.times[rows]
        chosen = Windows(
            points=replace(self.points, times=times, offsets=np.array([0, len(times)])),
            offsets=offsets,
            owner=owner,
            state=self.state[which],
        )
        for name in ("gaps", "t"):
            chosen.__dict__[name] = getattr(self, name)[rows]
        chosen.__dict__["origin"] = self.origin[which]
        return chosen


def consistent_windows(
    points: UpdatePoints,
    *,
    threshold: float = 3.0,
    measure: str = "gap",
    limit: str = "points",
    direction: str = "forward",
    unit: ArrayLike | None = None,
    tolerance: float = 0.01,
    smallest: int = 4,
) -> Windows:
    """Cut the history of each source into windows of consistent behaviour.

    The procedure, in the reading of it that is chosen by the options:

    1. Three points open a window. Its state is the sign of m₃ − m₁: m grows, the rate falls.
       If they differ by at most `tolerance` units, the window is constant.
    2. The next point j is consistent if mⱼ − mⱼ₋₁ has that sign, or is zero within the tolerance
       (in a constant window only this). Else |mⱼ − mⱼ₋₁| is its discrepancy.
    3. `limit` says what the threshold is of. ``points``: at most `threshold` points of a window are
       inconsistent, by however much. ``each``: no discrepancy is more than `threshold` units.
       ``total``: their sum in the window is not. A point beyond the limit opens the next window.
    4. A window with fewer than `smallest` points is shared: half of its points, rounded down, go
       to the window before, the rest to the one after. At an end of the history all go to the
       one neighbour there is.

    m is the ``gap`` before the point, or the ``cumulative`` mean time between updates, the mean of
    the window's gaps so far. A `unit` is so many days (the paper: its visit period τ = 1 day);
    by default it is the mean gap of each source, so that the answer does not depend on how time
    is measured. ``backward`` starts with the latest three points and walks into the past.

    The paper does not say which reading it used; see the page on trends.
    """
    _check(threshold, measure, limit, direction, tolerance, smallest)
    count = len(points.times)
    gaps = points.gaps
    begins, state = np.zeros(count, bool), np.zeros(count, np.int8)
    longest = int(points.counts.max(initial=0))
    compiled = count >= COMPILED_FROM
    run: Any = scanning.split
    if compiled:
        from observant.estimation.windows import kernels

        run = kernels.split
    run(
        gaps if compiled else gaps.tolist(),
        points.offsets if compiled else points.offsets.tolist(),
        _units(points, unit),
        float(threshold),
        float(tolerance),
        measure == "cumulative",
        LIMITS[limit],
        direction == "backward",
        int(smallest),
        begins,
        state,
        np.zeros(longest, np.int64),
        np.zeros(longest, np.int8),
    )
    first = np.flatnonzero(begins)
    return Windows(
        points=points,
        offsets=np.append(first, count).astype(np.int64),
        owner=np.searchsorted(points.offsets, first, side="right") - 1,
        state=state[first],
    )


def _units(points: UpdatePoints, unit: ArrayLike | None) -> Floats:
    if unit is not None:
        given = np.asarray(unit, float)
        if not (np.isfinite(given) & (given > 0)).all():
            raise InputError("a unit of the threshold is a positive number of days")
        return np.array(np.broadcast_to(given, len(points)))
    last = np.zeros(len(points))
    filled = points.counts > 0
    last[filled] = points.times[points.offsets[1:][filled] - 1]
    mean = np.ones(len(points))
    mean[filled] = (last - points.start)[filled] / points.counts[filled]
    return mean


def _check(
    threshold: float, measure: str, limit: str, direction: str, tolerance: float, smallest: int
) -> None:
    for name, value, allowed in (
        ("measure", measure, MEASURES),
        ("limit", limit, tuple(LIMITS)),
        ("direction", direction, DIRECTIONS),
    ):
        if value not in allowed:
            raise InputError(f"{name} is one of {', '.join(allowed)}, not {value!r}")
    if not threshold >= 0 or not tolerance >= 0:
        raise InputError("threshold and tolerance must not be negative")
    if smallest < 1:
        raise InputError(f"a window has at least 1 point, not {smallest}")
