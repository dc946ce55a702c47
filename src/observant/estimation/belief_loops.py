"""The loops of `belief`, in plain Python that numba compiles too (`belief_kernels`).

The rates that are looked at are 2^(q/FINE) a day, q whole. The likelihood of one source is kept in
`values` at `POINTS` rates, and `place` says which: their centre q, and their level of zoom (−1
before the first comparison). Around the centre the steps are even; outside they become longer, so
that what cannot be ruled out is kept as well.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from observant.arrays import Floats, Integers

FINE = 256
"""Parts of an octave: the rates that are looked at are 2^(q/FINE) a day, q a whole number."""
CELL = 64
"""Parts of an octave between two rates of `GRID`."""
LOWEST, HIGHEST = -16, 20
"""Octaves: once in 180 years, and twelve times a second."""
GRID = 2.0 ** np.arange(LOWEST, HIGHEST + 0.01, CELL / FINE)
"""The rates of a prior, a quarter of an octave apart."""
SIDE, POINTS, CORE = 11, 23, 5
"""Points on each side of the centre, all together, and steps on each side that are even."""
SIZE = 8 * POINTS + 4
"""Bytes of one source's likelihood as it is stored."""
FINEST = 8
"""Levels of zoom: at level z the points around the centre are FINE / 2^z parts apart."""
DRIFT = 1_000.0
"""Days that a rate lasts, on average, before it is another."""

CLOSE, WIDE = 0.9, 2.2
"""Standard deviations of a posterior, in steps, below and above which it is zoomed."""
OFF_CENTRE = 2.0
"""Steps by which its mean may be off the centre."""
LEAST = 1e-290
HALF_A_SECOND = 0.5 / 86_400
FIRST_CENTRE = -2
"""Octaves: the centre to begin with, higher where visits are so dense that they can see more."""
BEYOND = 64.0
"""Visits t days apart cannot tell rates above so many in t days apart."""
STEEP = 1.5
"""Where logarithms are read between the points: by how much a slope may differ from the flatter of
those beside it, in one step."""
SUBSTEPS = 4


SUM_STEP, SUM_LEVEL = 8, 4
"""Parts of an octave between two sums of a prior, and the level up to which no border lies between
two of them."""
FLOOR, CEILING = LOWEST - 14, HIGHEST + 14
"""Octaves: the rates of any point lie in between."""
RATES = 2.0 ** (np.arange(FLOOR * FINE, CEILING * FINE + 1) / FINE)


def first_prior() -> Floats:
    """Probability of each rate of `GRID` before anything is learned.

    A lognormal distribution around one update in ten days, so broad that 95 % lie between one in
    four years and thirteen a day.
    """
    weights = np.exp(-0.5 * ((np.log(GRID) - math.log(0.1)) / 2.5) ** 2)
    return np.asarray(weights / weights.sum())


def regrid(rates: Floats, weights: Floats) -> Floats:
    """Probabilities of other rates, evenly spaced in log λ, as probabilities on `GRID`.

    The mass of each rate is spread over its surroundings, so that shape and moments stay.
    """
    if len(rates) == len(GRID) and np.array_equal(rates, GRID):
        return np.asarray(weights / weights.sum())
    octaves = np.log2(rates)
    step = octaves[1] - octaves[0] if len(octaves) > 1 else 1.0
    edges = np.append(octaves - step / 2, octaves[-1] + step / 2)
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    half = CELL / FINE / 2
    cells = np.append(np.log2(GRID) - half, HIGHEST + half)
    made = np.diff(np.interp(cells, edges, sums))
    return np.asarray(made / made.sum())


def _offsets() -> Integers:
    """How far each point is from the centre, in parts of an octave, a row a level.

    Even steps around the centre, then longer and longer ones, to `SIDE` octaves on either side.
    """
    rows = []
    for level in range(FINEST + 1):
        core = CORE if level else SIDE
        reach = SIDE * 2**level
        tail = core * (reach / core) ** (np.arange(1, SIDE - core + 1) / max(SIDE - core, 1))
        side = np.concatenate([np.arange(1, core + 1), np.round(tail)]).astype(np.int64)
        rows.append(np.concatenate([-side[::-1], [0], side]) * (FINE >> level))
    return np.array(rows)


def cumulated(prior: Floats) -> Floats:
    """Rows of probabilities on `GRID`, added up in steps of `SUM_STEP` parts: for `spread`."""
    places = np.arange(FLOOR * FINE, CEILING * FINE + 1, SUM_STEP)
    edges = np.append(
        LOWEST * FINE - CELL // 2, LOWEST * FINE + CELL * np.arange(len(GRID)) + CELL // 2
    )
    rows = np.atleast_2d(prior)
    sums = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rows, axis=1)], axis=1)
    fine = np.array([np.interp(places, edges, row) for row in sums])
    return fine if np.ndim(prior) > 1 else fine[0]


OFFSETS = _offsets()
BORDERS = (OFFSETS[:, 1:] + OFFSETS[:, :-1]) // 2
"""Where the surroundings of one point end and those of the next begin."""
FIRST = cumulated(first_prior())


# -- one source: what numba compiles --------------------------------------------------------------


def clear(values, place):
    """Nothing is known yet."""
    for k in range(POINTS):
        values[k] = 1.0
    place[0] = FIRST_CENTRE * FINE
    place[1] = -1


def spread(place, sums, weights):
    """Fill `weights` with the prior probability of the surroundings of each point."""
    level = max(place[1], 0)
    borders = BORDERS[level]
    base = place[0] - FLOOR * FINE
    below = 0.0
    for k in range(POINTS - 1):
        at = base + borders[k]
        j = at // SUM_STEP
        upto = sums[j]
        if level > SUM_LEVEL:
            upto += (at - j * SUM_STEP) / SUM_STEP * (sums[j + 1] - upto)
        weights[k] = upto - below
        below = upto
    weights[POINTS - 1] = sums[len(sums) - 1] - below


def learn(
    values,
    place,
    gap,
    changed,
    age,
    lasting,
    weights,
    recall=0.0,
    false=0.0,
    told=math.inf,
    span=0.0,
):
    """Take in a comparison with the visit `gap` days before: it found a change, or none.

    `age` says how old the change was, where that is known. A rate lasts `lasting` days on average:
    since the visit before it is another with probability 1 - `kept`. `weights` is scratch.

    Where changes are announced with probability `recall`, with `false` signals a day, the first
    signal came `told` days after the visit before, or at any time in the `span` of days from then,
    or never (`planning.schedule.heard`).
    """
    lie = false if span <= 0 else -math.expm1(-false * span) / span
    if place[1] < 0:
        top = math.ceil(math.log2(BEYOND / min(gap, 1e6)))
        place[0] = min(max(top - SIDE, FIRST_CENTRE), HIGHEST - SIDE // 2) * FINE
        place[1] = 0
    offsets = OFFSETS[place[1]]
    kept = math.exp(-gap / lasting) if gap < math.inf else 1.0  # no end: the age at a first visit
    best = 0.0
    for k in range(POINTS):
        rate = RATES[place[0] + offsets[k] - FLOOR * FINE]
        if not changed:
            seen = math.exp(-rate * gap)
        elif 0 <= age < gap:  # told to the second, so no age is less than half of one
            seen = rate * math.exp(-rate * max(age, min(HALF_A_SECOND, gap / 2)))
            if recall > 0:
                seen *= math.exp(-recall * rate * min(told, gap - age))
                seen *= recall * rate + false if told < gap - age else 1.0
        elif recall > 0 and told < gap:
            signal = recall * rate + false
            signal = signal if span <= 0 else -math.expm1(-signal * span) / span
            seen = math.exp(-recall * rate * told) * signal - lie * math.exp(-rate * gap)
        elif recall > 0:
            seen = math.exp(-recall * rate * gap) * -math.expm1(-(1 - recall) * rate * gap)
        else:
            seen = -math.expm1(-rate * gap)
        values[k] = (kept * values[k] + (1.0 - kept)) * seen
        best = max(best, values[k])
    if not best > 0:  # impossible at every rate that was looked at: begin anew
        clear(values, place)
        return
    for k in range(POINTS):
        values[k] = max(values[k] / best, LEAST)
    spread(place, FIRST, weights)
    follow(values, place, weights)
    level_out(values, weights)


def level_out(values, weights):
    """Scale a likelihood to mean 1 under the first prior: as that of a rate just drawn from it."""
    total = 0.0
    for k in range(POINTS):
        total += weights[k] * values[k]
    for k in range(POINTS):
        values[k] = max(values[k] / total, LEAST)


def follow(values, place, weights):
    """Keep the points where the posterior is: move them, or change how close they are.

    The even steps in the middle hold what is believed most; the long ones outside hold what cannot
    be ruled out, such as another rate since yesterday. When that becomes likelier, the points go
    there.
    """
    for _ in range(2 * FINEST):
        level = place[1]
        offsets, step = OFFSETS[level], FINE >> level
        total, inside, first, second = 0.0, 0.0, 0.0, 0.0
        for k in range(POINTS):
            p = weights[k] * values[k]
            total += p
            if abs(offsets[k]) <= CORE * step or level == 0:
                inside += p
                first += p * offsets[k]
                second += p * offsets[k] * offsets[k]
        if inside < 0.5 * total:
            k, below = 0, weights[0] * values[0]
            while below < 0.5 * total:
                k += 1
                below += weights[k] * values[k]
            centre, level = place[0] + offsets[k], level - 1
        else:
            mean = first / inside
            deviation = math.sqrt(max(second / inside - mean * mean, 0.0)) / step
            centre = place[0] + mean
            if deviation < CLOSE and level < FINEST:
                level += 1
            elif deviation > WIDE and level > 0:
                level -= 1
            elif abs(mean) <= OFF_CENTRE * step:
                return
        move(values, place, centre, level)
        spread(place, FIRST, weights)


def move(values, place, centre, level):
    """Put the points around another centre, as close together as `level` says."""
    old, new, step = OFFSETS[place[1]], OFFSETS[level], FINE >> level
    middle = round(min(max(centre, (LOWEST - 1) * FINE), (HIGHEST + 1) * FINE) / step) * step
    logs, moved = np.empty(POINTS), np.empty(POINTS)
    for k in range(POINTS):
        logs[k] = math.log(max(values[k], LEAST))
    top = -math.inf
    for k in range(POINTS):
        moved[k] = log_at(logs, old, middle + new[k] - place[0])
        top = max(top, moved[k])
    for k in range(POINTS):
        values[k] = max(math.exp(moved[k] - top), LEAST)
    place[0], place[1] = middle, level


def log_at(logs, offsets, at):
    """Read logarithms between the points, by a cubic; beyond them they never rise."""
    last = POINTS - 1
    if at <= offsets[0]:
        fall = max(logs[1] - logs[0], 0.0) / (offsets[1] - offsets[0])
        return logs[0] - (offsets[0] - at) * fall
    if at >= offsets[last]:
        fall = max(logs[last - 1] - logs[last], 0.0) / (offsets[last] - offsets[last - 1])
        return logs[last] - (at - offsets[last]) * fall
    j = int(np.searchsorted(offsets, at, side="right")) - 1
    if offsets[j] == at:
        return logs[j]
    width = offsets[j + 1] - offsets[j]
    f = (at - offsets[j]) / width
    rise = logs[j + 1] - logs[j]
    left = slope_at(logs, offsets, j) * width
    right = slope_at(logs, offsets, j + 1) * width
    return logs[j] + f * (left + f * (3 * rise - 2 * left - right + f * (left + right - 2 * rise)))


def slope_at(logs, offsets, j):
    """Slope of the parabola through a point and its neighbours, unless that is far too steep."""
    if j == 0 or j == POINTS - 1:
        k = max(j - 1, 0)
        return (logs[k + 1] - logs[k]) / (offsets[k + 1] - offsets[k])
    a, b = offsets[j] - offsets[j - 1], offsets[j + 1] - offsets[j]
    before, after = (logs[j] - logs[j - 1]) / a, (logs[j + 1] - logs[j]) / b
    slope = (before * b + after * a) / (a + b)
    least, most = before, STEEP / a
    if abs(after) < abs(before):
        least, most = after, STEEP / b
    return min(max(slope, least - most), least + most)


def weigh(values, place, sums, age, age_weight, weights):
    """Fill `weights` with the posterior of the points: prior times likelihood.

    A source that was updated `age` days before its first visit (below 0: that is not known) is of
    that age with density λe^(−λ·age), which counts by its power `age_weight`.
    """
    spread(place, sums, weights)
    offsets = OFFSETS[max(place[1], 0)]
    total = 0.0
    for k in range(POINTS):
        weights[k] *= values[k]
        if age >= 0 and age_weight > 0:
            rate = RATES[place[0] + offsets[k] - FLOOR * FINE]
            seen = rate * math.exp(-rate * age)
            weights[k] *= seen if age_weight == 1 else seen**age_weight  # a power takes long
        total += weights[k]
    for k in range(POINTS):
        weights[k] /= total


def unchanged(place, weights, days):
    """Probability that nothing has changed after so many days."""
    offsets = OFFSETS[max(place[1], 0)]
    still = 0.0
    for k in range(POINTS):
        still += weights[k] * math.exp(-RATES[place[0] + offsets[k] - FLOOR * FINE] * days)
    return min(still, 1.0)


def summarise(place, weights, levels, answer):
    """Write the rate and its quantiles at `levels` into `answer`."""
    offsets = OFFSETS[max(place[1], 0)]
    logs = np.empty(POINTS)
    mean = 0.0
    for k in range(POINTS):
        mean += weights[k] * offsets[k]
        before, after = offsets[max(k - 1, 0)], offsets[min(k + 1, POINTS - 1)]
        logs[k] = math.log(max(weights[k] / (after - before), LEAST))
    answer[0] = 2.0 ** ((place[0] + mean) / FINE)
    # The density between the points, to read its quantiles without steps.
    many = (POINTS - 1) * SUBSTEPS + 1
    at, below = np.empty(many), np.empty(many)
    total, density = 0.0, 0.0
    for j in range(many):
        k = min(j // SUBSTEPS, POINTS - 2)
        at[j] = offsets[k] + (j - k * SUBSTEPS) / SUBSTEPS * (offsets[k + 1] - offsets[k])
        here = math.exp(log_at(logs, offsets, at[j]))
        if j > 0:
            total += (density + here) / 2 * (at[j] - at[j - 1])
        below[j] = total
        density = here
    for m in range(len(levels)):
        wanted = levels[m] * total
        j = 1
        while j < many - 1 and below[j] < wanted:
            j += 1
        part = (wanted - below[j - 1]) / max(below[j] - below[j - 1], LEAST)
        q = at[j - 1] + min(max(part, 0.0), 1.0) * (at[j] - at[j - 1])
        answer[1 + m] = 2.0 ** ((place[0] + q) / FINE)


# -- many sources ---------------------------------------------------------------------------------


def learn_histories(starts, gaps, kind, ages, lasting, values, place, announced):
    """Take in all comparisons of every source, in their order.

    `announced` is empty, or says recall, false signals and the first signal of each (`learn`).
    """
    scratch = np.empty(POINTS)
    for i in range(len(starts) - 1):
        clear(values[i], place[i])
        for j in range(starts[i], starts[i + 1]):
            if gaps[j] > 0:
                age = ages[j] if kind[j] & 2 else math.nan
                changed = kind[j] & 1 == 1
                gap, recall, false, told = gaps[j], 0.0, 0.0, math.inf
                if len(announced) > 0 and gap < math.inf:
                    recall, false, told = announced[j, 0], announced[j, 1], announced[j, 2]
                # All of them: without the last, numba would compile it once more.
                said = recall, false, told, 0.0
                learn(values[i], place[i], gap, changed, age, lasting, scratch, *said)


def weigh_all(values, place, sums, group, age, age_weight, weights):
    for i in range(len(values)):
        weigh(values[i], place[i], sums[group[i]], age[i], age_weight, weights[i])


def summarise_all(place, weights, levels, answer):
    for i in range(len(weights)):
        summarise(place[i], weights[i], levels, answer[i])


def unchanged_all(place, weights, days, answer):
    for i in range(len(weights)):
        answer[i] = unchanged(place[i], weights[i], days[i])


def grid_rows(values, place, answer):
    """Average each likelihood over the surroundings of every rate of `GRID`."""
    last = answer.shape[1] - 1
    logs = np.empty(POINTS)
    for i in range(len(values)):
        offsets = OFFSETS[max(place[i, 1], 0)]
        for k in range(POINTS):
            logs[k] = math.log(max(values[i, k], LEAST))
        begin = (place[i, 0] + offsets[0] - LOWEST * FINE) / CELL
        end = (place[i, 0] + offsets[POINTS - 1] - LOWEST * FINE) / CELL
        for j in range(last + 1):  # beyond the points, and where none is nearer than a cell
            answer[i, j] = 0.0
            if j <= begin or j >= end or place[i, 1] <= 2:
                answer[i, j] = math.exp(
                    log_at(logs, offsets, CELL * j + LOWEST * FINE - place[i, 0])
                )
        if place[i, 1] <= 2:
            continue
        before, density, at = 0.0, 0.0, 0.0
        for k in range(POINTS - 1):
            width = offsets[k + 1] - offsets[k]
            many = max(SUBSTEPS, width // 16)
            for m in range(many):
                at = offsets[k] + (m + 0.5) / many * width
                density = math.exp(log_at(logs, offsets, at)) * width / many / CELL
                before = (place[i, 0] + at - LOWEST * FINE) / CELL
                j = math.floor(before)
                if 0 <= j <= last and j > begin and j < end:
                    answer[i, j] += density * (1 - (before - j))
                if 0 <= j + 1 <= last and j + 1 > begin and j + 1 < end:
                    answer[i, j + 1] += density * (before - j)
