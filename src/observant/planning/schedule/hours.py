"""At which hours is the budget of a day spent? Compiled.

Collections follow the clock of the people behind them. A visit after the busy hours sees more than
one before them, at the same cost (Sia, Cho and Cho 2007). So it is learned at which hours changes
happen, and a day's visits are moved to the hours at which they are worth most. Every day still has
its budget, no more and no less.

Let F be the share of a day's visits that were made by an hour. A source with n visits a day is
visited whenever F has moved on by 1/n, at a phase of its own, so that an update at u waits

    n · ∫ from 0 to 1/n of (F⁻¹(F(u) + x) − u) dx

on average. `best_hours` finds the F for which the updates of a day wait least. Where they come at
all hours alike, the best F is the clock on the wall.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201

import math

import numpy as np

from observant.compiled import borrowing, jit
from observant.times import HOURS

PACES = np.array([1.0, 4.0, 16.0])
"""Visits a day for which hours are found; rarer visits follow those of one a day."""
_SELDOM, _OFTEN = 0.5, 0.125
"""Days between visits above which a source follows the first pace, or else the second."""
_LEAST, _MOST = 0.25, 3.0
"""Of the visits of an hour, relative to all alike: every hour is looked at now and then, and none
takes the budget of many."""
_PHASES = 4
"""Places within a gap between visits at which a wait is looked at."""
_AROUND = (0.7, 1.0, 1.4)
"""Times its visits a day: sources of about one pace, so that no hours are made for one alone."""
_PIECES = (0.5, 0.25, 0.125)
"""Of the visits of an hour: what is moved at once to find the best hours."""
_STANDS = 10.0
"""Expected changes of an hour for which an ordinary hour stands."""
_TOUCHED = 5 / 1440
"""Days: an age as short as that is when the page was made for us."""

DAILY = np.dtype(
    [
        # For each pace: changes at each hour, on even and on odd days, and if all were alike.
        ("found", "f8", (len(PACES), 2, HOURS)),
        ("expected", "f8", (len(PACES), 2, HOURS)),
        ("through", "f8", (len(PACES), HOURS + 1)),  # share of a day's visits, for each pace
        ("on", "i8"),  # whether the hours differ
        ("enough", "f8", (len(PACES),)),  # changes after which they are looked at again
        ("day", "i8"),  # when they were
    ]
)


@borrowing
def visit_time(through, t):
    """The time that counts visits. `through` is the share of a day that has passed at each hour."""
    day = math.floor(t)
    inside = (t - day) * HOURS
    hour = min(int(inside), HOURS - 1)
    return day + through[hour] + (inside - hour) * (through[hour + 1] - through[hour])


@borrowing
def real_time(through, visit):
    """The time on the wall at which so many visits were made: the inverse of `visit_time`."""
    day = math.floor(visit)
    inside = visit - day
    hour = min(np.searchsorted(through, inside, side="right") - 1, HOURS - 1)
    return day + (hour + (inside - through[hour]) / (through[hour + 1] - through[hour])) / HOURS


@jit
def through_at(share):
    """The share of a day's visits that are made by each hour."""
    through = np.zeros(HOURS + 1)
    for hour in range(HOURS):
        through[hour + 1] = through[hour] + share[hour]
    through[HOURS] = 1.0
    return through


@borrowing
def pace_of(wait):
    """Which of the paces a source has that is visited after so many days."""
    return 0 if wait > _SELDOM else 1 if wait > _OFTEN else 2


@jit
def through_of(daily, wait):
    """The hours of a source that is visited after so many days."""
    return daily.through[pace_of(wait)]


@jit
def mean_wait(busy, share, n):
    """Days that an update waits on average, with about n visits a day in these shares of the hours.

    `busy` is how many updates come at each hour, relative to each other.
    """
    through = through_at(share)
    waits = total = 0.0
    for hour in range(HOURS):
        at = (hour + 0.5) / HOURS
        begin = visit_time(through, at)
        ahead = 0.0
        for times in _AROUND:
            for k in range(_PHASES):
                ahead += real_time(through, begin + (k + 0.5) / (_PHASES * times * n)) - at
        waits += busy[hour] * ahead / (_PHASES * len(_AROUND))
        total += busy[hour]
    return waits / total


@jit
def best_hours(busy, n):
    """The share of each hour in the visits of a day, and the wait: n visits a day.

    Visits are moved from one hour to another as long as that helps, in ever smaller pieces.
    """
    share = np.full(HOURS, 1 / HOURS)
    best = mean_wait(busy, share, n)
    for size in _PIECES:
        piece, moved = size / HOURS, True
        while moved:
            moved = False
            for giver in range(HOURS):
                for taker in range(HOURS):
                    if share[giver] - piece < _LEAST / HOURS:
                        break
                    if giver == taker or share[taker] + piece > _MOST / HOURS:
                        continue
                    share[giver] -= piece
                    share[taker] += piece
                    wait = mean_wait(busy, share, n)
                    if wait < best * (1 - 1e-4):
                        best, moved = wait, True
                    else:
                        share[giver] += piece
                        share[taker] -= piece
    return share, best


# -- what visits tell of the hours ----------------------------------------------------------------


@jit
def hour_shape(found, expected):
    """How much busier than usual each hour is, with mean 1; neighbours speak for each other."""
    busy = np.empty(HOURS)
    level = (found.sum() + 1.0) / (expected.sum() + 1.0)
    for hour in range(HOURS):
        before, after = (hour - 1) % HOURS, (hour + 1) % HOURS
        seen = (found[before] + 2 * found[hour] + found[after]) / 4
        usual = level * (expected[before] + 2 * expected[hour] + expected[after]) / 4
        busy[hour] = (_STANDS + seen) / (_STANDS + usual)
    return busy / busy.mean()


@borrowing
def note_hours(daily, since, now, changed, chance, age):
    """Take in a comparison of two visits within a day, or one that tells an age.

    Sources teach only the pace at which they are visited: those that change most often, and have
    most to say, may have other hours than the rest.

    `chance` is what was expected of ordinary hours. An age says that nothing happened for so long,
    and when the last update was, unless it is that of the visit itself, as servers like to say.
    Without one, a change is shared among the hours between, more to those that were busy so far.
    """
    half = np.int64(math.floor(now)) & 1
    pace = pace_of(now - since)
    found, expected = daily.found[pace, half], daily.expected[pace, half]
    if age >= 0 and (age > _TOUCHED or not changed):
        begin = max(now - age, since)
        per_day = -math.log1p(-min(chance, 0.999)) / (now - since)
        days = math.floor(now - begin)  # whole days have every hour once
        expected += per_day * days / HOURS
        for one in range(math.floor((begin + days) * HOURS), math.floor(now * HOURS) + 1):
            inside = min(now, (one + 1) / HOURS) - max(begin + days, one / HOURS)
            expected[one % HOURS] += per_day * inside
        if changed:
            found[math.floor(begin * HOURS) % HOURS] += 1.0
    elif now - since < 1.0:
        first, last = math.floor(since * HOURS), math.floor(now * HOURS)
        total = 0.0
        for adding in range(2):
            for one in range(first, last + 1):
                hour = one % HOURS
                inside = min(now, (one + 1) / HOURS) - max(since, one / HOURS)
                weight = inside * (_STANDS + found[hour]) / (_STANDS + expected[hour])
                if adding == 0:
                    total += weight
                    continue
                if changed and total > 0:
                    found[hour] += weight / total
                expected[hour] += chance * inside / (now - since)
