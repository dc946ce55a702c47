# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202
"""The index of a posterior on a geometric grid of rates, without a single exponential. Compiled.

Of a Poisson source every index (without grace) is W(s) = λ⁻ᵐ·w(λs), m = 0, 1 or 2. When the rates
are λ₀·eᵏᵈ, and time is looked at on the grid s = eʲᵈ/λ₀, then λs = e⁽ʲ⁺ᵏ⁾ᵈ: one table of w for all
rates and times. The average over a posterior is a sum of products, and between two times of the
grid the index is very nearly a power of time. So a crossing costs a few hundred multiplications.
"""

import math

import numba
import numpy as np

from observant.planning.schedule.crossing import CODES, limit, value

__all__ = ["crossing_on_grid", "index_on_grid", "stays", "step_of", "tables"]

jit = numba.njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"}
)

_LOW, _HIGH = 1e-13, 1e5  # of λs, from nothing at all to everything
_POWERS = {"freshness": 1, "currency": 1, "harmonic": 1, "age": 2, "delay": 1, "detected": 0}


def step_of(grid):
    """Logarithmic step d of a geometric grid; 0 where it is none."""
    if len(grid) < 2 or grid[0] <= 0:
        return 0.0
    steps = np.diff(np.log(grid))
    return float(steps.mean()) if np.ptp(steps) < 1e-6 * steps.mean() else 0.0


def tables(objective, grid):
    """Tables of w and e⁻ˣ for the grid, weights λ⁻ᵐ, and the place of λs = 1 in the tables."""
    step = step_of(grid)
    if step == 0:
        return np.zeros(1), np.zeros(1), np.ones(len(grid)), 0
    low = math.floor(math.log(_LOW) / step)
    high = math.ceil(math.log(_HIGH) / step)
    # So long that every rate finds its place at the earliest and the latest time.
    x = np.exp(step * np.arange(low, high + len(grid) + 2))
    w = np.array([value(CODES[objective], 1.0, 0.0, at)[0] for at in x])
    return w, np.exp(-x), grid ** -float(_POWERS[objective]), -low


@jit
def at_step(table, weights, factors, zero, j):
    """Σ weight·factor·table at time j of the grid, kept within the table."""
    first = min(max(j + zero, 0), len(table) - len(weights))
    total = 0.0
    for k in range(len(weights)):
        total += weights[k] * factors[k] * table[first + k]
    return total


@jit
def index_on_grid(mind, weights, step, zero, s):
    """W(s), averaged over the posterior."""
    if s <= 0:
        return 0.0
    y = math.log(mind.grid[0] * s) / step
    j = math.floor(y)
    low = at_step(mind.table, weights, mind.factors, zero, j)
    high = at_step(mind.table, weights, mind.factors, zero, j + 1)
    if low <= 0:
        return 0.0
    return low * (high / low) ** (y - j)


@jit
def stays(mind, weights, step, zero, s):
    """Probability that nothing has changed after s."""
    if s <= 0:
        return 1.0
    y = math.log(mind.grid[0] * s) / step
    j = math.floor(y)
    first = min(max(j + zero, 0), len(mind.left) - len(weights) - 1)
    low = high = 0.0
    for k in range(len(weights)):
        low += weights[k] * mind.left[first + k]
        high += weights[k] * mind.left[first + k + 1]
    return low + (y - j) * (high - low)


@jit
def crossing_on_grid(mind, weights, code, step, zero, price, guess):
    """Smallest s with W(s) >= price, infinite where there is none."""
    if price <= 0:
        return 0.0
    most = limit(code, 1.0, 0.0)
    if most < math.inf:
        total = 0.0
        for k in range(len(weights)):
            total += weights[k] * mind.factors[k]
        if price >= most * total * (1 - 1e-12):
            return math.inf
    last = len(mind.table) - len(weights) - zero
    j = 0
    if 0 < guess < math.inf:
        j = min(max(math.floor(math.log(mind.grid[0] * guess) / step), -zero), last - 1)
    low = at_step(mind.table, weights, mind.factors, zero, j)
    high = 0.0
    if low < price:
        while j < last:
            high = at_step(mind.table, weights, mind.factors, zero, j + 1)
            if high >= price:
                break
            low, j = high, j + 1
        else:
            return math.inf
    else:
        while low >= price and j > -zero:
            high, j = low, j - 1
            low = at_step(mind.table, weights, mind.factors, zero, j)
    part = math.log(price / low) / math.log(high / low) if 0 < low < high else 1.0
    return math.exp((j + part) * step) / mind.grid[0]
