"""At which times of the day, or the week, should a source be visited?

A source that follows the clock is best visited after its busy hours, not evenly. With visits at
t_1 < … < t_n of a cycle and intensity λ, the delays add up to Σ_j ∫ λ(u)(t_j − u) du over the time
between visits. At the optimum (Sia, Cho and Cho 2007)

    λ(t_j)·(t_{j+1} − t_j) = ∫ λ from t_{j−1} to t_j        for every j:

moving a visit later gains on what comes before it as much as it loses on what follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from observant.errors import InputError
from observant.estimation.season import Season
from observant.processes import Seasonal
from observant.tables import Drawn
from observant.units import format_duration, parse_duration

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Floats, Integers

__all__ = ["VisitTimes", "best_times", "mean_delay"]

_GRID = 168
_FINEST = 1e-8  # days
_NEIGHBOURS = np.arange(-3, 4)


@dataclass(frozen=True, eq=False, repr=False)
class VisitTimes(Drawn):
    """Times of a cycle at which to visit, and what they achieve."""

    figure: ClassVar[str] = "observant.figures.season:visit_times_figure"

    times: Floats
    """Days after the beginning of the cycle (midnight, or Monday 00:00), on the local clock."""
    period: float
    delay: float
    """Mean days from an update to the visit that sees it."""
    even_delay: float
    """The same with evenly spaced visits that do not look at the clock."""
    weights: Floats
    """The relative intensity that was planned for."""
    time_zone: str = "UTC"

    @property
    def clock(self) -> list[str]:
        """The times as a clock shows them."""
        days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
        minutes = np.rint(self.times * 1440).astype(int) % round(self.period * 1440)
        weekly = self.period > 1
        return [
            (f"{days[m // 1440 % 7]} " if weekly else "") + f"{m // 60 % 24:02d}:{m % 60:02d}"
            for m in minutes.tolist()
        ]

    def __repr__(self) -> str:
        gain = f"{format_duration(self.delay)}, evenly {format_duration(self.even_delay)}"
        return f"<VisitTimes: {', '.join(self.clock)}; mean delay {gain}>"


def best_times(
    intensity: Season | Seasonal | ArrayLike,
    n: int,
    period: float | str | None = None,
    *,
    min_gap: float | str = 0.0,
) -> VisitTimes:
    """Find the n visits in a cycle that see updates soonest on average.

    Parameters
    ----------
    intensity
        A `Season`, a `Seasonal` process, or relative intensities of equal parts of the cycle.
    n
        Visits in a cycle.
    period
        The cycle, 1 day or 7 days. A season of hours of the week is averaged over its days when
        the visits are to be the same every day.
    min_gap
        Shortest time between two visits.

    The search is dynamic programming over the round clock, exact on a grid of 168 points, and then
    again around the answer on finer and finer grids until the condition above holds.

    >>> office = np.repeat([0.0, 1.0, 0.0], [8, 10, 6])
    >>> best_times(office, 2, period=1)
    <VisitTimes: 13:00, 18:00; mean delay 2.5h, evenly 6h>
    """
    weights, days, zone = _intensity(intensity, period)
    gap = parse_duration(min_gap)
    if not float(n).is_integer() or n < 1:
        raise InputError(f"the number of visits is a whole number of at least 1, not {n!r}")
    if n * gap > days * (1 + 1e-12):
        raise InputError(
            f"{n} visits with {format_duration(gap)} between them do not fit into "
            f"{format_duration(days)}"
        )
    cost = _Delay(weights, days)
    times = _coarse(cost, int(n), gap)
    step = days / max(_GRID, weights.size, n) / 2
    while step > _FINEST:
        times, moved = _refined(cost, times, step, gap)
        if not moved:
            step /= 3
    times = np.sort(np.mod(times, days))
    return VisitTimes(
        times=times,
        period=days,
        delay=cost.mean(times),
        even_delay=days / (2 * n),
        weights=weights,
        time_zone=zone,
    )


def mean_delay(
    times: ArrayLike,
    intensity: Season | Seasonal | ArrayLike,
    period: float | str | None = None,
) -> float:
    """Mean days from an update to the next of the visits at `times` of every cycle.

    >>> office = np.repeat([0.0, 1.0, 0.0], [8, 10, 6])
    >>> round(24 * mean_delay([13 / 24, 18 / 24], office, period=1), 6)
    2.5
    """
    weights, days, _ = _intensity(intensity, period)
    at = np.asarray(times, np.float64).ravel()
    if not at.size or not np.isfinite(at).all():
        raise InputError("give at least one visit, as days after the beginning of the cycle")
    return _Delay(weights, days).mean(np.unique(np.mod(at, days)))


class _Delay:
    """Delay added up between two visits, exact for a piecewise constant intensity.

    With Λ the integral of λ and S that of Λ, ∫_a^b λ(u)(b − u) du = S(b) − S(a) − Λ(a)(b − a).
    """

    def __init__(self, weights: Floats, period: float) -> None:
        self.weights, self.period = weights, period
        self.width = period / weights.size
        self.first = np.concatenate([[0.0], np.cumsum(weights * self.width)])
        inside = self.first[:-1] * self.width + weights * self.width**2 / 2
        self.second = np.concatenate([[0.0], np.cumsum(inside)])
        self.total = float(self.first[-1])

    def integrals(self, t: Floats) -> tuple[Floats, Floats]:
        """Λ and S at t ≥ 0."""
        turn, rest = np.divmod(t, self.period)
        bin_ = np.minimum((rest / self.width).astype(np.int64), self.weights.size - 1)
        beyond = rest - bin_ * self.width
        first = self.first[bin_] + self.weights[bin_] * beyond
        second = self.second[bin_] + self.first[bin_] * beyond + self.weights[bin_] * beyond**2 / 2
        whole = self.second[-1] * turn + self.total * self.period * turn * (turn - 1) / 2
        return first + turn * self.total, second + whole + turn * self.total * rest

    def between(self, a: Floats, b: Floats) -> Floats:
        """Delay of all updates after the visit at a that the visit at b sees."""
        turn = np.floor(a / self.period) * self.period  # small numbers keep their digits
        (first, start), (_, stop) = self.integrals(a - turn), self.integrals(b - turn)
        return np.asarray(stop - start - first * (b - a))

    def mean(self, times: Floats) -> float:
        after = np.append(times[1:], times[0] + self.period)
        return float(self.between(times, after).sum() / self.total)


def _coarse(cost: _Delay, n: int, gap: float) -> Floats:
    """The best visits on a grid round the clock, for every place of the first one."""
    bins = cost.weights.size
    size = bins * max(1, -(-max(min(_GRID, 24 * 7), 3 * n) // bins))
    step = cost.period / size
    if n * max(1, int(np.ceil(gap / step - 1e-9))) > size:
        return cost.period * np.arange(n) / n  # no room on the grid
    least = max(1, int(np.ceil(gap / step - 1e-9)))
    grid = np.asarray(step * np.arange(2 * size), np.float64)
    # pay[i, j]: visit at i, the next j steps later.
    steps = np.arange(size + 1)
    pay = cost.between(grid[:size, None], grid[:size, None] + steps * step)
    pay[:, :least] = np.inf
    best, answer = np.inf, grid[:n]
    for first in _first_places(cost, size, n):
        row = np.roll(pay, -first, axis=0)  # row i: i steps after the first visit
        # ahead[i, j]: cost from place i to place j > i, in steps after the first visit.
        ahead = np.full((size, size + 1), np.inf)
        for i in range(size):
            ahead[i, i:] = row[i, : size + 1 - i]
        reach, back = ahead[0], []
        for _ in range(n - 1):
            through = reach[:size, None] + ahead
            chosen = np.argmin(through, axis=0)
            back.append(chosen)
            reach = through[chosen, np.arange(size + 1)]
        if reach[size] < best:
            best, place, places = float(reach[size]), size, []
            for chosen in reversed(back):
                place = int(chosen[place])
                places.append(place)
            answer = np.asarray(step * (first + np.array([0, *reversed(places)])), np.float64)
    return answer


def _first_places(cost: _Delay, size: int, n: int) -> Integers:
    """Places to try for the first visit: all, unless that takes too long.

    Where the source is busiest visits are closest, at most a share 1/n of the cycle apart. So one
    of many visits lies within that share after the busiest bin begins.
    """
    if size * n * size**2 <= 2e8:
        return np.arange(size)
    busiest = int(np.argmax(cost.weights)) * size // cost.weights.size
    return (busiest + np.arange(max(size // n, size // cost.weights.size) + 1)) % size


def _refined(cost: _Delay, times: Floats, step: float, gap: float) -> tuple[Floats, bool]:
    """Move every visit by up to three steps, all at once and for the best."""
    n, moves = len(times), _NEIGHBOURS * step
    choices = times[:, None] + moves
    # Edges of bins are where an intensity jumps, and often where the optimum is.
    edge = np.rint(times / cost.width) * cost.width
    near = np.abs(edge - times) <= 3 * step
    choices = np.concatenate([choices, np.where(near, edge, times)[:, None]], axis=1)
    after = np.roll(choices, -1, axis=0)
    after[-1] += cost.period
    ahead = after[:, None, :] - choices[:, :, None]
    low = choices.min()
    turn = -np.floor(low / cost.period) * cost.period
    pay = cost.between(
        np.broadcast_to(choices[:, :, None] + turn, ahead.shape), after[:, None, :] + turn
    )
    pay = np.where(ahead >= max(gap, 0.0) - 1e-12, pay, np.inf)
    now = _path_cost(pay, [len(_NEIGHBOURS) // 2] * n)
    best, chosen = now, [len(_NEIGHBOURS) // 2] * n
    for first in range(choices.shape[1]):
        reach, back = np.full(choices.shape[1], np.inf), []
        reach[first] = 0.0
        for j in range(n - 1):
            through = reach[:, None] + pay[j]
            back.append(np.argmin(through, axis=0))
            reach = through.min(axis=0)
        total = reach + pay[n - 1][:, first]
        place = int(np.argmin(total)) if n > 1 else first
        if total[place] < best * (1 - 1e-13):
            best, path = float(total[place]), [place]
            for options in reversed(back):
                path.append(int(options[path[-1]]))
            chosen = path[::-1]
    return choices[np.arange(n), chosen], bool(best < now * (1 - 1e-13))


def _path_cost(pay: Floats, path: list[int]) -> float:
    return float(sum(pay[j][path[j], path[(j + 1) % len(path)]] for j in range(len(path))))


def _intensity(
    given: Season | Seasonal | ArrayLike, period: float | str | None
) -> tuple[Floats, float, str]:
    """Relative intensities of equal parts of the cycle, its length, and whose clock it follows."""
    days = None if period is None else parse_duration(period)
    zone = "UTC"
    if isinstance(given, Season):
        zone = given.time_zone
        days = given.period if days is None else days
        if days not in {1.0, 7.0}:
            raise InputError("visits repeat every day or every week: period is 1 or 7 days")
        table = given.by_hour()
        return (table.mean(axis=0) if days == 1.0 else table.ravel()), days, zone
    if isinstance(given, Seasonal):
        if days is not None and days != given.period:
            raise InputError(f"the process repeats every {given.period:g} days, not {days:g}")
        return np.array(given.weights), given.period, zone
    weights = np.asarray(given, np.float64)
    if weights.ndim != 1 or not weights.size:
        raise InputError("relative intensities are one list, a number for each part of the cycle")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise InputError("intensities are finite and not negative, and at least one is above zero")
    if days is None:
        days = 7.0 if weights.size in {7, 168} else 1.0
    if days <= 0:
        raise InputError("a cycle has a length above zero")
    return weights / weights.mean(), days, zone
