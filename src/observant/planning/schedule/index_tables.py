"""The index of a posterior, looked up instead of computed. Compiled.

Of a Poisson source every index (without grace) is W(s) = λ⁻ᵐ·w(λs), m = 0, 1 or 2. The rates of a
posterior are 2^(q/FINE), q whole (`observant.estimation.belief`), and time is looked at every
quarter of an octave. So λs is a place in one table of w for all rates and times: the average over a
posterior is a sum of products, and between two times the index is very nearly a power of time.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201

import math
from functools import cache

import numpy as np

from observant.compiled import borrowing
from observant.estimation.belief_loops import CELL, FINE, OFFSETS, POINTS, RATES
from observant.planning.objectives.own import PenaltyTable
from observant.planning.schedule.crossing import CODES, limit, value

_BOTTOM, _TOP = -44, 44  # octaves of λs, from nothing at all to everything
_POWERS = {"freshness": 1, "currency": 1, "harmonic": 1, "age": 2, "delay": 1, "detected": 0}
_COARSE = 2  # up to this level of zoom all points are in the coarse table
_ZERO = -_BOTTOM * FINE  # the place of λs = 1
_EARLIEST, _LATEST = -160, 160  # times that are looked at, in quarters of an octave of days


@cache
def make_tables(objective):
    """Tables of w and e⁻ˣ over x = λs, each whole and coarse, and λ⁻ᵐ over the rates.

    An objective is a name, or a penalty c(x). All schedulers of a process share them: they are
    only read.
    """
    x = 2.0 ** (np.arange(_BOTTOM * FINE, _TOP * FINE + 1) / FINE)
    if callable(objective):
        w = PenaltyTable.of(objective, x).gain
    else:
        w = np.array([value(CODES[objective], 1.0, 0.0, at)[0] for at in x])
    left, power = np.exp(-x), _POWERS.get(objective, 1)
    return w, w[::CELL].copy(), left, left[::CELL].copy(), RATES ** -float(power)


@borrowing
def at_time(table, coarse, place, weights, j):
    """Σ weight·table at time 2^(j/4), kept within the table; `coarse` is every 64th of it."""
    level = max(place[1], 0)
    offsets = OFFSETS[level]
    base, last = place[0] + CELL * j + _ZERO, len(table) - 1
    total = 0.0
    if base + offsets[0] < 0 or base + offsets[POINTS - 1] > last:
        for k in range(POINTS):
            total += weights[k] * table[min(max(base + offsets[k], 0), last)]
    elif level <= _COARSE:
        for k in range(POINTS):
            total += weights[k] * coarse[(base + offsets[k]) // CELL]
    else:
        for k in range(POINTS):
            total += weights[k] * table[base + offsets[k]]
    return total


@borrowing
def index_of(known, place, s):
    """W(s), averaged over the posterior (`known.worths`: its weights times λ⁻ᵐ)."""
    if s <= 0:
        return 0.0
    y = math.log2(s) * (FINE // CELL)
    j = min(max(math.floor(y), _EARLIEST), _LATEST)
    low = at_time(known.table, known.coarse, place, known.worths, j)
    high = at_time(known.table, known.coarse, place, known.worths, j + 1)
    if low <= 0:
        return 0.0
    return low * (high / low) ** (y - j)


@borrowing
def remains(known, place, s):
    """Probability that nothing has changed after s, read from the table."""
    if s <= 0:
        return 1.0
    y = math.log2(s) * (FINE // CELL)
    j = min(max(math.floor(y), _EARLIEST), _LATEST)
    low = at_time(known.left, known.left_coarse, place, known.weights, j)
    high = at_time(known.left, known.left_coarse, place, known.weights, j + 1)
    return low + (y - j) * (high - low)


@borrowing
def crossing_of(known, place, code, price, guess):
    """Smallest s with W(s) >= price, infinite where there is none."""
    if price <= 0:
        return 0.0
    most = limit(code, 1.0, 0.0)
    if most < math.inf:
        total = 0.0
        for k in range(POINTS):
            total += known.worths[k]
        if price >= most * total * (1 - 1e-12):
            return math.inf
    j = 0
    if 0 < guess < math.inf:
        j = min(max(math.floor(math.log2(guess) * (FINE // CELL)), _EARLIEST), _LATEST - 1)
    low = at_time(known.table, known.coarse, place, known.worths, j)
    high, step = 0.0, 1
    if low < price:
        over = j  # a time that is too late, when one is found
        while over < _LATEST:
            over = min(over + step, _LATEST)
            high = at_time(known.table, known.coarse, place, known.worths, over)
            if high >= price:
                break
            low, j, step = high, over, 2 * step
        else:
            return math.inf
    else:
        over = j
        while low >= price and j > _EARLIEST:
            high, over, j, step = low, j, max(j - step, _EARLIEST), 2 * step
            low = at_time(known.table, known.coarse, place, known.worths, j)
    while over - j > 1:  # the price has moved far: halve what lies between
        middle = (j + over) // 2
        at_middle = at_time(known.table, known.coarse, place, known.worths, middle)
        if at_middle < price:
            low, j = at_middle, middle
        else:
            high, over = at_middle, middle
    part = math.log(price / low) / math.log(high / low) if 0 < low < high else 1.0
    return 2.0 ** ((j + part) * CELL / FINE)
