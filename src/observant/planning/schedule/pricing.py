# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202
"""What a visit is worth now, and the price at which all visits together spend the budget. Compiled.

The price is found on a sample after a large change (`solve_price`) and follows what happens in
between (`learn_price`): it moves towards the index of sources that were visited late for want of
budget, when it was too low, or early, when it was too high.
"""

import math

import numba

from observant.planning.schedule.beliefs import time_of
from observant.planning.schedule.crossing import (
    average,
    crossing,
    cycle,
    hinted,
    hinted_crossing,
    value,
    worth_of_hint,
)
from observant.planning.schedule.grids import crossing_on_grid, index_on_grid

__all__ = ["index_now", "learn_price", "own_price", "period_at", "price_of", "solve_price"]

jit = numba.njit(cache=True, nogil=True, error_model="numpy")

_HOST_GAIN = 0.05
_LEARNED = 1e-3  # to which a crossing is found where rates are learned, and known far less well


# -- the price of a source ------------------------------------------------------------------------


@jit
def own_price(source, hosts, clock):
    """The price of all, or that of its host where that is higher."""
    return max(clock.price, hosts[source.host].price if source.host >= 0 else 0.0)


@jit
def price_of(source, hosts, clock):
    price = clock.price
    if source.host >= 0:
        price = max(price, hosts[source.host].price)
    return price * source.cost / source.importance if source.importance > 0 else math.inf


@jit
def period_at(source, clock, price, mind, i):
    """Effective time at which the source crosses the price, before jitter and bounds."""
    if source.signal > 0:
        return hinted_crossing(source.silent, source.signal, source.false, price)
    if clock.learning == 0:
        mind.rates[0], mind.weights[0] = source.rate, 1.0
        return crossing(clock.code, mind.rates, mind.weights, source.grace, price, source.period)
    if clock.step > 0 and source.grace == 0:
        return crossing_on_grid(
            mind, mind.posterior[i], clock.code, clock.step, clock.zero, price, source.period
        )
    return crossing(
        clock.code, mind.grid, mind.posterior[i], source.grace, price, source.period, _LEARNED
    )


# -- what a visit is worth ------------------------------------------------------------------------


@jit
def index_now(source, clock, mind, i, now):
    """importance·W/cost at this moment."""
    s = time_of(source, mind, now)
    if source.signal > 0:
        if source.hints > 0:
            s += source.hints * worth_of_hint(source.silent, source.signal, source.false)
        w = hinted(source.silent, source.signal, source.false, min(s, 1e9))
    else:
        w = worth(source, clock, mind, i, s)
    return w * source.importance / source.cost


@jit
def worth(source, clock, mind, i, s):
    """W(s) of a source without hints."""
    if clock.learning == 0:
        return value(clock.code, source.rate, source.grace, s)[0]
    if clock.step > 0 and source.grace == 0:
        return index_on_grid(mind, mind.posterior[i], clock.step, clock.zero, s)
    return average(clock.code, mind.grid, mind.posterior[i], source.grace, s)[0]


# -- the price of all -----------------------------------------------------------------------------


@jit
def learn_price(sources, hosts, clock, mind, i, now, early, queued):
    source = sources[i]
    if not queued and not early and clock.starved == 0 and source.host < 0:
        return
    index = index_now(source, clock, mind, i, now)
    if index <= 0:
        return
    if source.host >= 0:
        host = hosts[source.host]
        if queued:
            host.price = max(host.price, clock.price)
            host.price *= math.exp(_HOST_GAIN * min(max(math.log(index / host.price), -1.0), 1.0))
            return
        host.price *= 1 - _HOST_GAIN
        if host.price < 0.5 * clock.price:
            host.price = 0.0
    if early or clock.starved:
        step = min(max(math.log(index / clock.price), -1.0), 1.0)
        clock.price *= math.exp(clock.gain * step)


@jit
def solve_price(sources, clocks, chosen, mind, budget):
    """The price at which the chosen sources spend the budget; by bisection of its logarithm."""
    clock = clocks[0]
    middle = math.log(clock.price)
    low, high, step = -math.inf, math.inf, 1.0
    for _ in range(200):
        spent = spending(sources, clock, chosen, mind, math.exp(middle))
        if spent > budget:
            low = middle
            middle = middle + step if high == math.inf else 0.5 * (low + high)
        else:
            high = middle
            middle = middle - step if low == -math.inf else 0.5 * (low + high)
        step *= 1.5
        if abs(middle) > 600:
            break
        if high - low < 1e-9:
            break
    return math.exp(min(max(middle, -600.0), 600.0))


@jit
def spending(sources, clock, chosen, mind, price):
    """Cost per day of the chosen sources at a price."""
    total = 0.0
    for i in chosen:
        source = sources[i]
        if source.importance <= 0:
            period = math.inf
        else:
            own = price * source.cost / source.importance
            period = period_at(source, clock, own, mind, i)
            if source.signal > 0 and period < math.inf:
                period = cycle(source.silent, source.signal, source.false, period)[0]
        period = max(min(period, source.maximum), source.minimum)
        if period > 0:
            total += source.cost / period
        else:
            return math.inf
    return total
