# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202
"""Who is next? Compiled: a heap of crossing times, a purse that fills at the budget, and the price.

Import only where it is used. Every decision costs O(log n). The rules, in the order of `due`:

- The source whose crossing time comes first is visited when that time has come and the purse holds
  the cost of the visit. The purse never holds more than `burst`, so a backlog cannot burst.
- When the purse is full, the first source is visited before its time: no budget is lost.
- The price follows what happens: it moves towards the index of sources that were visited late for
  want of budget (the price was too low) or early (too high). In between it rests, and every source
  is visited exactly on its crossing time.
- Keys made at an older price are mended when they reach the top, and one more by turns with
  every decision, so that all are new after n decisions.
- Sources with siblings live on the clock of their group (`siblings`), which is read anew every so
  often; then all keys move.
- A host that was visited rests. Its next source waits at the head of a queue; a host that
  is always waited for gets a price of its own (saturated hosts, frontier 12.2).
"""

import math

import numba
import numpy as np

from observant.planning.schedule.beliefs import believe, learn, time_of
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
from observant.planning.schedule.heaps import (
    AWAY,
    BOUND,
    CROSSING,
    GONE,
    LEAVING,
    POLITE,
    PRICED,
    QUEUED,
    RETRY,
    TIMED,
    WAITING,
    first,
    pull,
    put,
    settle_at,
    sink,
)
from observant.planning.schedule.siblings import refresh

__all__ = [
    "due",
    "hint",
    "next_time",
    "place",
    "rekey_all",
    "solve_price",
    "take_out",
    "visited",
]

jit = numba.njit(cache=True, nogil=True, error_model="numpy")

_BEST_WINDOW = 1.5936  # λw at which one visit teaches most about λ (frontier 3)
_HOST_GAIN = 0.05
_HOST_CREDIT = 4.0  # visits that a host has saved up may follow at its shortest delay
_RETRIES_DOUBLE = 10
_TURNS = 8  # times in a bin that the clocks of siblings are read
_OTHERS, _NEARLY = 64, 0.9  # others that are looked at when the first is worth less than the price
_MENDED = 64  # keys that are mended for one visit at most, however many are late
_PRICE_SLACK = 0.05  # the price may move so far before a learned crossing is found anew
_LEARNED = 1e-3  # to which a crossing is found where rates are learned, and known far less well


# -- keys -----------------------------------------------------------------------------------------


@jit
def chance(seed, i, visit, which):
    """A number in [0, 1) that is always the same for the same visit (splitmix64)."""
    x = np.uint64(seed) ^ (np.uint64(i) * np.uint64(0x9E3779B97F4A7C15))
    x ^= np.uint64(2 * visit + which) * np.uint64(0xD1B54A32D192ED03)
    for _ in range(2):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return np.float64(x >> np.uint64(11)) * 2.0**-53


@jit
def price_of(source, hosts, clock):
    price = clock.price
    if source.host >= 0:
        price = max(price, hosts[source.host].price)
    return price * source.cost / source.importance if source.importance > 0 else math.inf


@jit
def planned(source, clock, price, mind, i):
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


@jit
def own_price(source, hosts, clock):
    """The price of all, or that of its host where that is higher."""
    return max(clock.price, hosts[source.host].price if source.host >= 0 else 0.0)


@jit
def key_of(sources, hosts, clock, mind, i):
    """Set when a waiting source is due, at the price of now."""
    source = sources[i]
    source.priced = own_price(source, hosts, clock)
    if source.why > BOUND:
        return
    period = planned(source, clock, price_of(source, hosts, clock), mind, i)
    source.period = period
    swing = 2 * chance(clock.seed, i, source.visits, 0) - 1
    period *= 1 + clock.jitter * swing
    if source.hints > 0 and source.signal > 0 and period < math.inf:
        worth = worth_of_hint(source.silent, source.signal, source.false)
        period = max(period - source.hints * worth, 0.0)
    source.why = CROSSING
    if (
        clock.learning
        and source.signal <= 0
        and clock.explore > chance(clock.seed, i, source.visits, 1)
    ):
        mean, square = 0.0, 0.0
        for k in range(len(mind.grid)):
            mean += mind.posterior[i, k] * mind.grid[k]
            square += mind.posterior[i, k] * mind.grid[k] ** 2
        # Its rate is known to less than half of itself: look when one visit teaches most.
        if square - mean**2 > (0.5 * mean) ** 2 and mean * period > _BEST_WINDOW:
            period = _BEST_WINDOW / mean
            source.why = BOUND
    ceiling = source.maximum * (1 - 0.5 * clock.jitter * (1 + swing))
    if period > ceiling or period < source.minimum:
        period = max(min(period, ceiling), source.minimum)
        source.why = BOUND
    source.ripe = period
    wake(source, clock, mind)


@jit
def wake(source, clock, mind):
    """Turn the age at which a source is ripe into the time at which it is due.

    The clock of siblings is read for what has passed; what comes counts as an ordinary time.
    """
    if source.node < 0 or source.why != CROSSING or clock.time <= source.last:
        source.key = source.last + source.ripe
        return
    due = clock.time + source.ripe - time_of(source, mind, clock.time)
    source.key = min(max(due, source.last + source.minimum), source.last + source.maximum)


@jit
def turn(sources, heaps, hosts, clocks, mind, now):
    """Read the clocks of the siblings anew, and move those to whom they say something new.

    Once in a bin everybody is moved, and the price is looked at again.
    """
    clock, tide = clocks[0], mind.tides[0]
    if clock.learning == 0 or now < tide.due:
        return
    tide.due = now + tide.width / _TURNS
    refresh(
        tide,
        mind.parent,
        mind.found,
        mind.expected,
        mind.activity,
        mind.shown,
        mind.moved,
        mind.news,
        now,
    )
    if now >= tide.round:
        tide.round = now + tide.width
        mind.moved[:] = 0.0
        move_all(sources, heaps, hosts, clock, mind)
        return
    if tide.stale:
        list_siblings(sources, clock, mind)
    for node in range(tide.nodes):
        if mind.moved[node] > tide.slack:
            mind.moved[node] = 0.0
            i = mind.eldest[node]
            while i >= 0:
                if sources[i].state == WAITING and sources[i].why == CROSSING:
                    wake(sources[i], clock, mind)
                    put(sources, heaps, clock, i)
                i = sources[i].sibling


@jit
def move_all(sources, heaps, hosts, clock, mind):
    length = clock.length[PRICED]
    heap = heaps[PRICED]
    for at in range(length):
        i = heap[at].source
        source = sources[i]
        if abs(source.priced - own_price(source, hosts, clock)) > _PRICE_SLACK * source.priced:
            key_of(sources, hosts, clock, mind, i)
        else:
            wake(source, clock, mind)
        heap[at].key = source.key
    for at in range(length // 2 - 1, -1, -1):
        sink(sources, heap, length, at)


@jit
def list_siblings(sources, clock, mind):
    """Chain the sources of each group."""
    mind.eldest[:] = -1
    for i in range(clock.slots):
        node = sources[i].node
        if node >= 0 and sources[i].state != GONE:
            sources[i].sibling = mind.eldest[node]
            mind.eldest[node] = i
    mind.tides[0].stale = 0


@jit
def place(sources, heaps, hosts, clocks, mind, slots):
    """Key these sources anew and put them into the heap."""
    for i in slots:
        if sources[i].state == WAITING and sources[i].why != POLITE:
            key_of(sources, hosts, clocks[0], mind, i)
            put(sources, heaps, clocks[0], i)


@jit
def rekey_all(sources, heaps, hosts, clocks, mind):
    """Key every waiting source anew; those that were added come into the heap."""
    clock = clocks[0]
    for i in range(clock.slots):
        source = sources[i]
        if source.state == WAITING and source.why != POLITE:
            key_of(sources, hosts, clock, mind, i)
            which = PRICED if source.why <= BOUND else TIMED
            at = source.position
            if at < 0:
                at = clock.length[which]
                clock.length[which] += 1
            source.heap = which
            settle_at(sources, heaps[which], at, source.key, i)
    for which in range(2):
        length = clock.length[which]
        for at in range(length // 2 - 1, -1, -1):
            sink(sources, heaps[which], length, at)


# -- decisions ------------------------------------------------------------------------------------


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


@jit
def advance(clock, now):
    """Let time pass: the purse fills."""
    if now > clock.time:
        clock.purse = min(clock.burst, clock.purse + clock.budget * (now - clock.time))
        clock.time = now


@jit
def hint(sources, heaps, hosts, clocks, mind, i, time):
    """Count a hint, and bring its source forward by what hints are worth."""
    source, clock = sources[i], clocks[0]
    advance(clock, time)
    if time > source.last:
        source.hints += 1
        if source.signal > 0 and source.state == WAITING and source.why <= BOUND:
            key_of(sources, hosts, clock, mind, i)
            put(sources, heaps, clock, i)


@jit
def due(sources, heaps, hosts, clocks, mind, now, out):
    """Fill `out` with the sources to visit now; return how many."""
    clock = clocks[0]
    advance(clock, now)
    turn(sources, heaps, hosts, clocks, mind, now)
    found = mended = 0
    while found < len(out):
        which = first(heaps, clock)
        if which < 0:
            break
        if heaps[which, 0].key > now and clock.length[PRICED] > 0:
            which = PRICED  # nobody is due; only these may come early
        i = heaps[which, 0].source
        source = sources[i]
        own = own_price(source, hosts, clock)
        slack = _PRICE_SLACK * own if clock.learning else 0.0
        moved = abs(source.priced - own) > slack
        if source.state == WAITING and moved and source.why != POLITE and mended < _MENDED:
            key_of(sources, hosts, clock, mind, i)
            put(sources, heaps, clock, i)
            mended += 1
            continue
        full = clock.purse >= clock.burst * (1 - 1e-12)
        early = source.key > now
        if early:
            clock.starved = 0
            if not full or which == TIMED:
                break
            i = better(sources, hosts, clock, mind, i, now)
            source = sources[i]
        if clock.purse < min(source.cost, clock.burst) * (1 - 1e-12):
            clock.starved = 1
            break
        queued = source.why == POLITE
        if source.host >= 0 and hosts[source.host].free > now:
            wait_for_host(sources, heaps, hosts, clock, i)
            continue
        if early and now - source.last < source.minimum:
            break
        if (queued or source.why == CROSSING) and source.state != AWAY:
            learn_price(sources, hosts, clock, mind, i, now, early, queued)
        clock.purse -= source.cost
        clock.spent += source.cost
        if source.host >= 0:
            release_host(sources, heaps, hosts, clock, source.host, now, i)
        # It stays in the heap until it is reported, and comes back if it never is.
        source.state = AWAY
        source.key = now + clock.lease
        put(sources, heaps, clock, i)
        out[found] = i
        found += 1
        mended = 0
        mend_another(sources, heaps, hosts, clock, mind)
    return found


@jit
def better(sources, hosts, clock, mind, i, now):
    """Who is to be visited before its time: the first, unless a visit to others is worth more.

    After the price fell, many keys still are as late as the old price made them, and the first may
    be one that was visited a moment ago. So some others are looked at, by turns.
    """
    best = index_now(sources[i], clock, mind, i, now)
    if clock.learning == 0 or best > _NEARLY * own_price(sources[i], hosts, clock):
        return i
    for _ in range(_OTHERS):
        clock.cursor = (clock.cursor + 1) % clock.slots
        other = sources[clock.cursor]
        if other.state != WAITING or other.why != CROSSING or now - other.last < other.minimum:
            continue
        if other.host >= 0 and hosts[other.host].free > now:
            continue
        index = index_now(other, clock, mind, clock.cursor, now)
        if index > best:
            best, i = index, clock.cursor
    return i


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
def wait_for_host(sources, heaps, hosts, clock, i):
    """The host rests: become its front, which waits in the heap, or queue behind it."""
    host = hosts[sources[i].host]
    if host.front < 0 or host.front == i:
        if host.front < 0:
            host.front, host.tail = i, i
        sources[i].why = POLITE
        sources[i].key = host.free
        put(sources, heaps, clock, i)
        return
    pull(sources, heaps, clock, i)
    sources[i].state = QUEUED
    sources[i].follower = -1
    sources[host.tail].follower = i
    host.tail = i


@jit
def release_host(sources, heaps, hosts, clock, h, now, i):
    """A visit begins: the host rests from now, and the next of its queue moves up."""
    host = hosts[h]
    host.booked = max(host.booked, now) + host.interval
    host.free = max(now + host.delay, host.booked - _HOST_CREDIT * host.interval)
    if host.front == i:
        advance_queue(sources, heaps, hosts, clock, h)


@jit
def advance_queue(sources, heaps, hosts, clock, h):
    host = hosts[h]
    following = sources[host.front].follower
    sources[host.front].follower = -1
    while following >= 0 and sources[following].state == LEAVING:
        sources[following].state = GONE
        following = sources[following].follower
    host.front = following
    if following < 0:
        host.tail = -1
        return
    sources[following].state = WAITING
    sources[following].why = POLITE
    sources[following].key = host.free
    put(sources, heaps, clock, following)


@jit
def mend_another(sources, heaps, hosts, clock, mind):
    clock.cursor = (clock.cursor + 1) % clock.slots
    i = clock.cursor
    source = sources[i]
    if source.state != WAITING or source.why == POLITE:
        return
    own = own_price(source, hosts, clock)
    if abs(source.priced - own) > (_PRICE_SLACK if clock.learning else 1e-6) * own:
        key_of(sources, hosts, clock, mind, i)
        put(sources, heaps, clock, i)


@jit
def visited(sources, heaps, hosts, clocks, mind, i, time, outcome, age):
    """Take in a visit: 1 changed, 0 not, −1 unknown, −2 failed. False if it is too early.

    `age` is the time since the last update where the source tells it, else not-a-number.
    """
    clock = clocks[0]
    source = sources[i]
    if not source.last < time < math.inf:
        return False
    queued = source.state == QUEUED  # visited by somebody, though it waited: it keeps its place
    if source.why == POLITE and hosts[source.host].front == i:
        advance_queue(sources, heaps, hosts, clock, source.host)
    if outcome == -2:
        source.failures += 1
        source.why = RETRY
        source.key = time + clock.retry * 2.0 ** min(source.failures - 1, _RETRIES_DOUBLE)
    else:
        if source.last == -math.inf and age >= 0 and clock.learning:
            source.age = age
            believe(source, clock, mind, i)
        learn(source, clock, mind, i, time, outcome, age)
        source.last = time
        source.visits += 1
        source.failures = 0
        source.hints = 0
        source.why = CROSSING
    if not queued:
        source.state = WAITING
        key_of(sources, hosts, clock, mind, i)
        put(sources, heaps, clock, i)
    return True


@jit
def next_time(sources, heaps, clocks):
    """When `due` may have something: the first is due and can be paid, or the purse is full."""
    clock = clocks[0]
    which = first(heaps, clock)
    if which < 0:
        return math.inf
    top = sources[heaps[which, 0].source]
    needed = min(top.cost, clock.burst)
    soonest = max(clock.time + max(needed - clock.purse, 0.0) / clock.budget, top.key)
    if clock.length[PRICED] > 0:
        top = sources[heaps[PRICED, 0].source]
        full = clock.time + (clock.burst - clock.purse) / clock.budget
        soonest = min(soonest, max(full, top.last + top.minimum))
    # A shade later, so that rounding cannot leave the purse short of what was waited for.
    return soonest + 1e-12 * max(1.0, abs(soonest))


@jit
def take_out(sources, heaps, hosts, clocks, i):
    clock = clocks[0]
    source = sources[i]
    if source.state == QUEUED:
        source.state = LEAVING
        return
    pull(sources, heaps, clock, i)
    if source.host >= 0 and hosts[source.host].front == i:
        advance_queue(sources, heaps, hosts, clock, source.host)
    source.state = GONE


# -- the price at the start -----------------------------------------------------------------------


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
            period = planned(source, clock, own, mind, i)
            if source.signal > 0 and period < math.inf:
                period = cycle(source.silent, source.signal, source.false, period)[0]
        period = max(min(period, source.maximum), source.minimum)
        if period > 0:
            total += source.cost / period
        else:
            return math.inf
    return total


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
