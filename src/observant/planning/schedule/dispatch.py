"""Which source is next? Compiled: a heap of crossing times, and a savings that fills at the budget.

Import only where it is used. Every decision costs O(log n). The rules, in the order of `due`:

- The source whose crossing time comes first is visited when that time has come and the savings hold
  the cost of the visit. The savings never exceed `burst`, so a backlog cannot burst.
- When enough is saved (`ready`), the first source is visited before its time: no budget is lost.
  The same holds for what the savings cannot hold, where somebody asks only now and then.
- Crossing times are those of the price (`keys`), and the price follows what happens (`pricing`).
  Where it rests, every source is visited exactly on its crossing time.
- A host that was visited rests. Its next source waits at the head of a queue; a host that
  is always waited for gets a price of its own.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201

import math

import numpy as np

from observant.compiled import borrowing, inner, jit
from observant.planning.schedule.beliefs import learn, listens
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
)
from observant.planning.schedule.heard import RECENT, believed, record_of, review
from observant.planning.schedule.hours import real_time, visit_time
from observant.planning.schedule.keys import PRICE_SLACK, announced, key_of, mend_another, turn
from observant.planning.schedule.pricing import index_now, learn_price, own_price

_HOST_CREDIT = 4.0  # visits that a host has saved up may follow at its shortest delay
_RETRIES_DOUBLE = 10
_FEW = 64.0  # signals after which a channel is looked at anew
_OTHERS, _NEARLY = 64, 0.9  # others that are looked at when the first is worth less than the price
_ROUNDING = 1e-9  # of time, where it is asked just when there is enough
_MENDED = 64  # keys that are mended for one visit at most, however many are late


# -- decisions ------------------------------------------------------------------------------------


@borrowing
def due(sources, heaps, hosts, clocks, known, now, out):
    """Fill `out` with the sources to visit now; return how many."""
    clock = clocks[0]
    spare = advance(clock, now)
    ours = clock.savings  # for those that are due; what is spare is for others
    turn(sources, heaps, hosts, clocks, known, now)
    found = mended = 0
    while found < len(out):
        which = first(heaps, clock)
        if which < 0:
            break
        if heaps[which, 0].key > now and clock.length[PRICED] > 0:
            which = PRICED  # nobody is due; only these may come early
        i = np.int64(heaps[which, 0].source)  # one type, so that all is compiled once
        source = sources[i]
        own = own_price(source, hosts, clock)
        slack = PRICE_SLACK * own if clock.learning else 0.0
        moved = abs(source.priced - own) > slack
        if announced(clock, known, i) and known.heard[i].level > 0 and not believed(known, i):
            moved, known.heard[i].level = True, 0  # what was said of it is worth nothing by now
        if source.state == WAITING and moved and source.why != POLITE and mended < _MENDED:
            key_of(sources, hosts, clock, known, i)
            put(sources, heaps, clock, i)
            mended += 1
            continue
        full = spare + clock.savings >= clock.ready * (1 - 1e-12)
        early = source.key > now
        if early:
            clock.starved = 0
            if not full or which == TIMED:
                break
            i = better(sources, hosts, clock, known, i, now)
            source = sources[i]
        if (spare + clock.savings if early else ours) < min(source.cost, clock.burst) * (1 - 1e-12):
            clock.starved = 1
            break
        if early and now - source.last < source.minimum:  # nor does it wait for its host, then
            break
        queued = source.why == POLITE
        if source.host >= 0 and hosts[source.host].free > now:
            wait_for_host(sources, heaps, hosts, clock, i)
            continue
        if (queued or source.why == CROSSING) and source.state != AWAY:
            learn_price(sources, hosts, clock, known, i, now, early, queued)
        ours -= source.cost
        clock.savings -= max(source.cost - spare, 0.0)
        spare = max(spare - source.cost, 0.0)
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
        mend_another(sources, heaps, hosts, clock, known)
    else:  # `out` is full: whoever is due as well must wait
        which = first(heaps, clock)
        clock.starved = 1 if which >= 0 and heaps[which, 0].key <= now else 0
    return found


@inner
def better(sources, hosts, clock, known, i, now):
    """Which source is visited before its time: the first, unless a visit to others is worth more.

    After the price fell, many keys still are as late as the old price made them, and the first may
    be one that was visited a moment ago. So some others are looked at, by turns.
    """
    best = index_now(sources[i], clock, known, i, now)
    if clock.learning == 0 or best > _NEARLY * own_price(sources[i], hosts, clock):
        return i
    for _ in range(_OTHERS):
        clock.cursor = (clock.cursor + 1) % clock.slots
        other = sources[clock.cursor]
        if other.state != WAITING or other.why > BOUND or now - other.last < other.minimum:
            continue
        if other.why == BOUND and not listens(clock, known, clock.cursor):
            continue
        if other.host >= 0 and hosts[other.host].free > now:
            continue
        index = index_now(other, clock, known, clock.cursor, now)
        if index > best:
            best, i = index, clock.cursor
    return i


@inner
def advance(clock, now):
    """Let time pass: the savings fill. Returns what they do not hold, at most as much again.

    That is for visits before their time, when somebody asks only now and then and nobody is due.
    Where they are made for less than all savings (`ready`), there is nothing to return.
    """
    if now <= clock.time:
        return 0.0
    passed = now - clock.time
    if clock.paced and clock.time > -math.inf:
        passed = visit_time(clock.through, now) - visit_time(clock.through, clock.time)
    total = clock.savings + clock.budget * passed
    clock.savings, clock.time = min(clock.burst, total), now
    spare = min(total - clock.savings, clock.burst)
    return spare if clock.ready >= clock.burst and spare > _ROUNDING * clock.burst else 0.0


@borrowing
def next_time(sources, heaps, clocks):
    """When `due` may have something: the first is due and can be paid, or the savings are full."""
    clock = clocks[0]
    which = first(heaps, clock)
    if which < 0:
        return math.inf
    top = sources[heaps[which, 0].source]
    needed = min(top.cost, clock.burst)
    soonest = max(saved_at(clock, needed), top.key)
    if clock.length[PRICED] > 0:
        top = sources[heaps[PRICED, 0].source]
        soonest = min(soonest, max(saved_at(clock, clock.ready), top.last + top.minimum))
    # A shade later, so that rounding cannot leave the savings short of what was waited for.
    return soonest + 1e-12 * max(1.0, abs(soonest))


@borrowing
def saved_at(clock, needed):
    """When so much is saved."""
    days = max(needed - clock.savings, 0.0) / clock.budget
    if clock.paced and days > 0:
        return real_time(clock.through, visit_time(clock.through, clock.time) + days)
    return clock.time + days


# -- what comes in --------------------------------------------------------------------------------


@borrowing
def visited(sources, heaps, hosts, clocks, known, i, time, outcome, age):
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
        learn(source, clock, known, i, time, outcome, age)
        source.last = time
        source.visits += 1
        source.failures = 0
        if clock.learning == 0:
            known.given[i].signals = 0
        elif listens(clock, known, i):
            heard = known.heard[i]
            heard.owed = outcome == 1 and heard.count == 0
            heard.count = 0
            at = heard.next
            while at > 0:
                one = known.more[at - 1]
                one.owed = outcome == 1 and one.count == 0
                one.count = 0
                at = one.next
        source.why = CROSSING
    if not queued:
        source.state = WAITING
        key_of(sources, hosts, clock, known, i)
        put(sources, heaps, clock, i)
    return True


@jit
def hear(sources, heaps, hosts, clocks, known, which, when, about, place):
    """Take in signals, in the order of time; `about` is when each says that its source changed.

    They are of the channel at this place, or of the only one that a source listens to, if negative.
    Each source is keyed anew once, when all have come.
    """
    clock, taken = clocks[0], 0
    moved = np.empty(len(which), np.int64)
    for row in range(len(which)):
        i, time = which[row], when[row]
        source = sources[i]
        if clock.learning == 0:  # rates are given, and how good signals are
            advance(clock, time)
            if time > source.last and not about[row] <= source.last:
                known.given[i].signals += 1
                moved[taken] = i
                taken += 1
            continue
        heard = record_of(known, i, place)
        if source.state == GONE or heard.channel == 0:
            continue
        if place >= 0 and heard.channel != place + 1:
            continue
        advance(clock, time)
        channel = known.channels[heard.channel - 1]
        passed = max(time - channel.begun, 0.0)
        channel.exposure += channel.members * passed
        channel.came[0] = channel.came[0] * math.exp(-passed / RECENT) + 1
        channel.came[1] = channel.came[1] * math.exp(-passed / RECENT) + channel.members * passed
        channel.begun = max(channel.begun, time)
        channel.signals += 1
        if channel.signals < _FEW or channel.signals % _FEW == 0:
            review(known.channels, heard.channel - 1)
        late = about[row] <= source.last
        if about[row] <= time:
            channel.delay, channel.delays = channel.delay + time - about[row], channel.delays + 1
        elif heard.owed and channel.delays > 0:  # the change that the last visit had found
            late = time - source.last < channel.delay / channel.delays
        if time <= source.last or late:
            heard.owed = 0
            continue
        moved[taken] = i
        taken += 1
        if heard.count == 0:
            heard.first, heard.span = time, 0.0
            if channel.lag > 0:  # it stands in a list, and may be from any time since it was read
                known_at = channel.before if channel.before < time else -math.inf
                heard.span = min(time - max(known_at, source.last), 1e6)
        heard.count += 1
        heard.owed = 0
        both = known.heard[i]
        if both.next > 0 and (channel.level > 0 or channel.blind):
            if both.count == 0:
                both.first, both.span = time, heard.span if heard.count == 1 else 0.0
            both.count += 1
    moved[:taken].sort()
    for row in range(taken):
        i = moved[row]
        source = sources[i]
        silent = known.given[i].signal <= 0 if clock.learning == 0 else deaf(known, i)
        if (row > 0 and moved[row - 1] == i) or silent:
            continue
        if source.state == WAITING and source.why <= BOUND:
            key_of(sources, hosts, clock, known, i)
            put(sources, heaps, clock, i)
    return taken


@inner
def deaf(known, i):
    """Whether nothing that is said of a source moves it."""
    channel = known.channels[known.heard[i].channel - 1]
    return channel.level == 0 and channel.blind == 0 and known.heard[i].next == 0


@borrowing
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


# -- hosts that rest ------------------------------------------------------------------------------


@borrowing
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


@inner
def release_host(sources, heaps, hosts, clock, h, now, i):
    """A visit begins: the host rests from now, and the next of its queue moves up."""
    host = hosts[h]
    host.booked = max(host.booked, now) + host.interval
    host.free = max(now + host.delay, host.booked - _HOST_CREDIT * host.interval)
    if host.front == i:
        advance_queue(sources, heaps, hosts, clock, h)


@inner
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
