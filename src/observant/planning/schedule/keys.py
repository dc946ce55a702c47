"""When is a source due? Compiled: its key in the heap, at the price of now and on its own clock.

A key made at an older price is mended when it reaches the top, and one more by turns with every
decision, so that all are new after n decisions. Sources with siblings live on the clock of their
group (`siblings`), which is read anew every so often; then all keys move.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201

import math

import numpy as np

from observant.compiled import borrowing, inner
from observant.planning.schedule.beliefs import believe, listens, signals_at, time_of
from observant.planning.schedule.crossing import worth_of_signal
from observant.planning.schedule.heaps import (
    BOUND,
    CROSSING,
    GONE,
    POLITE,
    PRICED,
    TIMED,
    WAITING,
    put,
    settle_at,
    sink,
)
from observant.planning.schedule.hours import real_time, through_of, visit_time
from observant.planning.schedule.pricing import (
    index_now,
    list_rates,
    longest_wait,
    own_price,
    period_at,
    price_of,
)
from observant.planning.schedule.siblings import refresh

_BEST_WINDOW = 1.5936  # λ · days at which one visit teaches most about λ
_TURNS = 8  # times in a bin that the clocks of siblings are read
_MANY = 100_000  # with more sources than this, a round is made in parts:
_MOVED, _LOOKED_AT = 5_000, 50_000  # so many are moved, or looked at, for one question
PRICE_SLACK = 0.05  # the price may move so far before a learned crossing is found anew


@inner
def key_of(sources, hosts, clock, known, i):
    """Set when a waiting source is due, at the price of now."""
    source = sources[i]
    source.priced = own_price(source, hosts, clock)
    if source.why > BOUND:
        return
    period = period_at(source, clock, price_of(source, hosts, clock), known, i)
    longest = longest_wait(source, clock, known, i, period)
    source.period = min(period, longest)
    swing = 2 * chance(clock.seed, i, source.visits, 0) - 1
    begin = 0.0
    if announced(clock, known, i):
        signals = signals_at(source, known, i, max(clock.time, source.last))
        known.heard[i].level = signals[0]
        begin = signals[3] if signals[2] > 0 else 0.0
        if known.channels[known.heard[i].channel - 1].blind:  # before everybody else
            source.why, source.wait = BOUND, source.minimum
            source.key = known.heard[i].first - 1e6
            return
    period = begin + (period - begin) * (1 + clock.jitter * swing)
    if clock.learning == 0 and period < math.inf:
        given = known.given[i]
        if given.signals > 0 and given.signal > 0:
            worth = worth_of_signal(given.silent, given.signal, given.false)
            period = max(period - given.signals * worth, 0.0)
    source.why = CROSSING
    if clock.learning and clock.explore > chance(clock.seed, i, source.visits, 1):
        believe(source, clock, known, i)
        list_rates(known, i)
        mean, square = 0.0, 0.0
        for k in range(len(known.rates)):
            mean += known.weights[k] * known.rates[k]
            square += known.weights[k] * known.rates[k] ** 2
        # Its rate is known to less than half of itself: look when one visit teaches most.
        if square - mean**2 > (0.5 * mean) ** 2 and mean * period > _BEST_WINDOW:
            period = _BEST_WINDOW / mean
            source.why = BOUND
    ceiling = longest * (1 - 0.5 * clock.jitter * (1 + swing))
    if period > ceiling or period < source.minimum:
        period = max(min(period, ceiling), source.minimum)
        source.why = BOUND
    source.wait = period
    wake(source, clock, known)
    if begin > 0 and source.why == CROSSING and source.key <= known.heard[i].first:
        # Worth more than the price at once: before others that are due.
        index = index_now(source, clock, known, i, max(clock.time, known.heard[i].first))
        lead = clock.slots / clock.budget * (1 - source.priced / max(index, source.priced))
        source.key = known.heard[i].first - lead


@inner
def announced(clock, known, i):
    """Whether there was a signal since the last visit."""
    return clock.learning and listens(clock, known, i) and known.heard[i].count > 0


@inner
def wake(source, clock, known):
    """Turn how long a source waits after its last visit into the time at which it is due.

    The clock of siblings is read for what has passed; what comes counts as an ordinary time. Where
    hours differ, time passes as visits are made (`hours`).
    """
    begin, passed = source.last, 0.0
    if source.node >= 0 and source.why == CROSSING and clock.time > begin:
        begin, passed = clock.time, time_of(source, known, clock.time)
    due = begin + source.wait - passed
    if known.daily[0].on and -math.inf < due < math.inf:
        through = through_of(known.daily[0], source.wait)
        due = real_time(through, visit_time(through, begin) + source.wait - passed)
    if begin > source.last:
        due = min(max(due, source.last + source.minimum), source.last + source.maximum)
    source.key = due


@borrowing
def chance(seed, i, visit, which):
    """A number in [0, 1) that is always the same for the same visit (splitmix64)."""
    x = np.uint64(seed) ^ (np.uint64(i) * np.uint64(0x9E3779B97F4A7C15))
    x ^= np.uint64(2 * visit + which) * np.uint64(0xD1B54A32D192ED03)
    for _ in range(2):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return np.float64(x >> np.uint64(11)) * 2.0**-53


# -- many keys at once ----------------------------------------------------------------------------


@borrowing
def place(sources, heaps, hosts, clocks, known, slots):
    """Key these sources anew and put them into the heap."""
    for i in slots:
        if sources[i].state == WAITING and sources[i].why != POLITE:
            key_of(sources, hosts, clocks[0], known, i)
            put(sources, heaps, clocks[0], i)


@borrowing
def rekey_all(sources, heaps, hosts, clocks, known):
    """Key every waiting source anew; those that were added come into the heap."""
    clock = clocks[0]
    for i in range(clock.slots):
        source = sources[i]
        if source.state == WAITING and source.why != POLITE:
            key_of(sources, hosts, clock, known, i)
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


@inner
def mend_another(sources, heaps, hosts, clock, known):
    clock.cursor = (clock.cursor + 1) % clock.slots
    i = clock.cursor
    source = sources[i]
    if source.state != WAITING or source.why == POLITE:
        return
    own = own_price(source, hosts, clock)
    if abs(source.priced - own) > (PRICE_SLACK if clock.learning else 1e-6) * own:
        key_of(sources, hosts, clock, known, i)
        put(sources, heaps, clock, i)


# -- the clocks of siblings -----------------------------------------------------------------------


@inner
def turn(sources, heaps, hosts, clocks, known, now):
    """Read the clocks of the siblings anew, and move those to whom they say something new.

    Once in a bin everybody is moved, and the price is looked at again; very many by and by.
    """
    clock, shared = clocks[0], known.shared[0]
    if clock.learning and shared.owed > 0:
        move_some(sources, heaps, hosts, clock, known)
    if clock.learning == 0 or now < shared.due:
        return
    shared.due = now + shared.width / _TURNS
    refresh(
        shared,
        known.parent,
        known.found,
        known.placed,
        known.expected,
        known.activity,
        known.shown,
        known.moved,
        known.news,
        now,
    )
    if now >= shared.round:
        shared.round = now + shared.width
        known.moved[:] = 0.0
        if shared.owed > 0:
            pass  # the round before goes on: those whose turn is still to come get it
        elif clock.slots > _MANY:
            shared.owed = clock.slots
        else:
            move_all(sources, heaps, hosts, clock, known)
        return
    if shared.stale:
        list_siblings(sources, clock, known)
    for node in range(shared.nodes):
        if known.moved[node] > shared.slack:
            known.moved[node] = 0.0
            i = known.first_of[node]
            while i >= 0:
                if sources[i].state == WAITING and sources[i].why == CROSSING:
                    if announced(clock, known, i):  # it keeps its place before others
                        key_of(sources, hosts, clock, known, i)
                    else:
                        wake(sources[i], clock, known)
                    put(sources, heaps, clock, i)
                i = sources[i].sibling


@inner
def move_all(sources, heaps, hosts, clock, known):
    length = clock.length[PRICED]
    heap = heaps[PRICED]
    for at in range(length):
        i = np.int64(heap[at].source)
        read_anew(sources, hosts, clock, known, i)
        heap[at].key = sources[i].key
    for at in range(length // 2 - 1, -1, -1):
        sink(sources, heap, length, at)


@inner
def move_some(sources, heaps, hosts, clock, known):
    """Go on with a round of very many sources, as far as one question can wait for it."""
    shared = known.shared[0]
    i, moved = min(shared.owed, clock.slots), 0
    last = max(i - _LOOKED_AT, 0)
    while i > last and moved < _MOVED:
        i -= 1
        source = sources[i]
        if source.state == WAITING and source.why <= BOUND and source.position >= 0:
            read_anew(sources, hosts, clock, known, i)
            put(sources, heaps, clock, i)
            moved += 1
    shared.owed = i


@inner
def read_anew(sources, hosts, clock, known, i):
    """Set when a source is due by the clocks of now, and by the price where that has moved far."""
    source = sources[i]
    moved = abs(source.priced - own_price(source, hosts, clock))
    if moved > PRICE_SLACK * source.priced or announced(clock, known, i):
        key_of(sources, hosts, clock, known, i)
    else:
        wake(source, clock, known)


@borrowing
def list_siblings(sources, clock, known):
    """Chain the sources of each group."""
    known.first_of[:] = -1
    for i in range(clock.slots):
        node = sources[i].node
        if node >= 0 and sources[i].state != GONE:
            sources[i].sibling = known.first_of[node]
            known.first_of[node] = i
    known.shared[0].stale = 0
