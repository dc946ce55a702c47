"""What a visit is worth now, and the price at which all visits together spend the budget. Compiled.

The price is found on a sample after a large change (`solve_price`) and follows what happens in
between (`learn_price`): it moves towards the index of sources that were visited late for want of
budget, when it was too low, or early, when it was too high.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201

import math

from observant.compiled import borrowing, inner
from observant.estimation.belief_loops import FINE, FLOOR, OFFSETS, POINTS, RATES
from observant.planning.schedule.beliefs import believe, listens, signals_at, time_of
from observant.planning.schedule.crossing import (
    average,
    crossing,
    cycle,
    signalled,
    signalled_crossing,
    value,
    worth_of_signal,
)
from observant.planning.schedule.heard import (
    LEVELS,
    combined,
    heard_crossing,
    heard_index,
    list_weight,
)
from observant.planning.schedule.index_tables import crossing_of, index_of
from observant.planning.schedule.price import EXTREME, HOPELESS

_HOST_GAIN = 0.05
_OF_SIGNALS = 0.1  # of a step where many were announced at once: that says little of the price
_LEARNED = 1e-3  # to which a crossing is found where rates are learned, and known far less well


# -- the price of a source ------------------------------------------------------------------------


@inner
def own_price(source, hosts, clock):
    """The price of all, or that of its host where that is higher."""
    return max(clock.price, hosts[source.host].price if source.host >= 0 else 0.0)


@inner
def price_of(source, hosts, clock):
    price = clock.price
    if source.host >= 0:
        price = max(price, hosts[source.host].price)
    return price * source.cost / source.importance if source.importance > 0 else math.inf


@inner
def period_at(source, clock, price, known, i):
    """Effective time at which the source crosses the price, before jitter and bounds."""
    if clock.learning == 0:
        given = known.given[i]
        if given.signal > 0:
            return signalled_crossing(given.silent, given.signal, given.false, price)
        known.rates[0], known.weights[0] = given.rate, 1.0
        return crossing(
            clock.code, known.rates[:1], known.weights[:1], source.grace, price, source.period
        )
    believe(source, clock, known, i)
    place = known.place[i]
    if listens(clock, known, i):
        signals = signals_at(source, known, i, max(clock.time, source.last))
        period = heard_crossing(known, place, source.grace, signals, price, source.period)
    elif source.grace == 0:
        period = crossing_of(known, place, clock.code, price, source.period)
    else:
        list_rates(known, i)
        period = crossing(
            clock.code, known.rates, known.weights, source.grace, price, source.period, _LEARNED
        )
    if clock.channels > 0 and known.heard[i].lists > 0:  # or earlier, for what it announces
        known.rates[0], known.weights[0] = known.heard[i].pace, 1.0
        price *= source.importance
        price /= list_weight(known.heard[i], price / source.cost)
        read = crossing(clock.code, known.rates[:1], known.weights[:1], 0.0, price, source.period)
        period = min(period, read)
        believe(source, clock, known, i)
    return period


@inner
def longest_wait(source, clock, known, i, period):
    """Days that a source waits at most; right after `period_at`, with its belief.

    Where it changes so often that visits cannot keep it current, none of them is worth its price.
    It gets its least share of them all the same; of changes that are announced it will hear.
    """
    if clock.learning == 0 or source.importance <= 0:
        return source.maximum
    longest = clock.longest * max(clock.importance / source.importance, 1.0)
    if period <= longest:
        return source.maximum
    mean = mean_rate(known, i)
    if listens(clock, known, i):
        mean *= 1 - announced_of(known, i)[0]
    return min(source.maximum, max(longest, source.grace + HOPELESS / mean))


@inner
def announced_of(known, i):
    """The share of its changes that is announced, and how many false signals come a day."""
    heard = known.heard[i]
    if heard.next > 0:
        recall, false, _, _ = combined(known, i)
        return recall, false
    channel = known.channels[heard.channel - 1]
    return LEVELS[channel.level], channel.false


@inner
def mean_rate(known, i):
    """The mean of the rates that `believe` has weighed."""
    list_rates(known, i)
    mean = 0.0
    for k in range(POINTS):
        mean += known.weights[k] * known.rates[k]
    return mean


@inner
def list_rates(known, i):
    """Write down the rates that `believe` has weighed."""
    offsets, base = OFFSETS[max(known.place[i, 1], 0)], known.place[i, 0] - FLOOR * FINE
    for k in range(POINTS):
        known.rates[k] = RATES[base + offsets[k]]


# -- what a visit is worth ------------------------------------------------------------------------


@inner
def index_now(source, clock, known, i, now):
    """importance·W/cost at this moment."""
    s = time_of(source, known, now)
    if clock.learning and listens(clock, known, i):
        believe(source, clock, known, i)
        signals = signals_at(source, known, i, now)
        w = heard_index(known, known.place[i], source.grace, signals, s)
    else:
        w = worth(source, clock, known, i, s)
    w *= source.importance
    if clock.channels > 0 and known.heard[i].lists > 0:
        heard = known.heard[i]
        of_all = list_weight(heard, clock.price)
        w = max(w, of_all * value(clock.code, heard.pace, 0.0, min(s, 1e9))[0])
    return w / source.cost


@inner
def worth(source, clock, known, i, s):
    """W(s)."""
    if clock.learning == 0:
        given = known.given[i]
        if given.signal > 0:
            if given.signals > 0:
                s += given.signals * worth_of_signal(given.silent, given.signal, given.false)
            return signalled(given.silent, given.signal, given.false, min(s, 1e9))
        return value(clock.code, given.rate, source.grace, s)[0]
    believe(source, clock, known, i)
    if source.grace == 0:
        return index_of(known, known.place[i], s)
    list_rates(known, i)
    return average(clock.code, known.rates, known.weights, source.grace, s)[0]


# -- the price of all -----------------------------------------------------------------------------


@inner
def learn_price(sources, hosts, clock, known, i, now, early, queued):
    source = sources[i]
    if not queued and not early and clock.starved == 0 and source.host < 0:
        return
    index = index_now(source, clock, known, i, now)
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
        if not early and listens(clock, known, i) and known.heard[i].count > 0:
            step *= _OF_SIGNALS
        clock.price *= math.exp(clock.gain * step)


@borrowing
def solve_price(sources, clocks, chosen, known, budget):
    """The price at which the chosen sources spend the budget; by bisection of its logarithm."""
    clock = clocks[0]
    middle = math.log(clock.price)
    low, high, step = -math.inf, math.inf, 1.0
    for _ in range(200):
        spent = spending(sources, clock, chosen, known, math.exp(middle))
        if spent > budget:
            low = middle
            middle = middle + step if high == math.inf else 0.5 * (low + high)
        else:
            high = middle
            middle = middle - step if low == -math.inf else 0.5 * (low + high)
        step *= 1.5
        if abs(middle) > EXTREME:
            break
        if high - low < 1e-9:
            break
    return math.exp(min(max(middle, -EXTREME), EXTREME))


@inner
def cycle_of(known, i, period):
    """How long a cycle is on average that ends then, or before by signals."""
    recall, false = announced_of(known, i)
    mean = mean_rate(known, i)
    true = recall * mean
    return cycle(mean - true, true + false, false, period)[0]


@borrowing
def spending(sources, clock, chosen, known, price):
    """Cost per day of the chosen sources at a price."""
    total = 0.0
    for i in chosen:
        source = sources[i]
        if source.importance <= 0:
            period = math.inf
        else:
            own = price * source.cost / source.importance
            period = period_at(source, clock, own, known, i)
            longest = longest_wait(source, clock, known, i, period)
            if clock.learning == 0 and period < math.inf:
                given = known.given[i]
                if given.signal > 0:
                    period = cycle(given.silent, given.signal, given.false, period)[0]
            elif period < math.inf and listens(clock, known, i):
                period = cycle_of(known, i, period)
            period = min(period, longest)
        period = max(min(period, source.maximum), source.minimum)
        if period > 0:
            total += source.cost / period
        else:
            return math.inf
    return total
