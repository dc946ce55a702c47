"""The scheduler over recorded updates. Compiled; the same kernels as live.

Every slot pays for one visit. Where visits differ in cost a slot is as long as the cheapest takes,
and a visit that costs more is followed by empty slots.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201

import math

import numpy as np

from observant.compiled import jit
from observant.planning.schedule.beliefs import weigh_list
from observant.planning.schedule.dispatch import due, hear, visited
from observant.planning.schedule.heard import LEVELS, read_list, state_of_signals
from observant.planning.schedule.hours import real_time
from observant.planning.schedule.keys import chance

_FAILURE = 7  # a stream of chance of its own


@jit
def drive(
    sources,
    heaps,
    hosts,
    clocks,
    known,
    times,
    offsets,
    pointer,
    dated,
    pushed,
    lists,
    begin,
    stop,
    start,
    budget,
    failure,
    out,
    who,
    when,
    failed,
):
    """Fill slots `begin` to `stop`; return how many visits were paid.

    `pointer` stands at the first update that no visit has seen yet, for each source. `pushed` are
    signals that come by themselves: their sources, when they came, in the order of time, and when
    they say that the change was. `lists` are those that stand in lists (`read`).
    """
    paid = 0
    # With a type: for a constant numba would compile all that is called once more.
    any_channel, no_answer = np.int64(-1), np.int64(-2)
    heard, heard_at, about = pushed
    pages = len(pointer)
    came = np.searchsorted(heard_at, start + (begin - 0.5) / budget, side="right") if begin else 0
    clock = clocks[0]
    even, slot_cost = (sources[: clock.slots].cost == 1.0).all(), clock.budget / budget
    for slot in range(begin, stop):
        now = start + (slot + 0.5) / budget
        if clock.paced:
            now = max(real_time(clock.through, now), clock.time)
        more = came
        while more < len(heard_at) and heard_at[more] <= now:
            more += 1
        if more > came:
            new = slice(came, more)
            said = heard[new], heard_at[new], about[new]
            hear(sources, heaps, hosts, clocks, known, *said, any_channel)
            came = more
        clock.savings = clock.burst if even else min(clock.savings + slot_cost, clock.burst)
        clock.time = max(clock.time, now)
        if due(sources, heaps, hosts, clocks, known, now, out) == 0:
            continue
        i = out[0]
        who[paid], when[paid] = i, now
        if i >= pages:
            read(sources, heaps, hosts, clocks, known, lists, i, i - pages, now)
            failed[paid] = False
            paid += 1
            continue
        number = sources[i].visits + sources[i].failures
        if failure > 0 and chance(clocks[0].seed + _FAILURE, i, number, 0) < failure:
            visited(sources, heaps, hosts, clocks, known, i, now, no_answer, math.nan)
            failed[paid] = True
            paid += 1
            continue
        at, end = pointer[i], offsets[i + 1]
        changed = at < end and times[at] <= now
        while at < end and times[at] <= now:
            at += 1
        pointer[i] = at
        age = now - times[at - 1] if dated[i] and at > offsets[i] else math.nan
        outcome = int(changed)
        if sources[i].last == -math.inf:
            outcome = -1
        visited(sources, heaps, hosts, clocks, known, i, now, outcome, age)
        failed[paid] = False
        paid += 1
    return paid


@jit
def read(sources, heaps, hosts, clocks, known, lists, i, which, now) -> None:
    """Read a list: of every source that it names it shows the last date, and costs a visit.

    `lists` has the signals, list after list, each in the order of time, as sources, times and
    dates; where each list begins and ends; where those begin that no read has shown yet; the same
    for its members; and its channel.
    """
    of, at, about, ends, shown, members, bounds, channel = lists
    first = last = shown[which]
    while last < ends[which] and at[last] <= now:
        last += 1
    shown[which] = last
    new = np.unique(of[first:last])
    dates = np.empty(len(new))
    for row in range(first, last):
        dates[np.searchsorted(new, of[row])] = about[row]
    c = channel[which]
    read_list(known.channels, c, now)
    hear(sources, heaps, hosts, clocks, known, new, np.full(len(new), now), dates, c)
    some = members[bounds[which] : bounds[which + 1]]
    weigh_list(sources, clocks, known, i, some, c)
    outcome = -1 if sources[i].last == -math.inf else int(last > first)
    visited(sources, heaps, hosts, clocks, known, i, now, outcome, math.nan)


@jit
def retrace(sources, heaps, hosts, clocks, known, visits, signals, announced):
    """Take in visits and signals that were recorded, both in the order of time.

    `visits` are sources, times and outcomes, `signals` sources, times, dates and channels. Fills
    `announced`, a row a visit, as `VisitLog.announced` has it, by what is believed in the end.
    """
    who, when, outcome = visits
    of, at, about, place = signals
    came = 0
    for row in range(len(who)):
        i, time = who[row], when[row]
        while came < len(at) and at[came] <= time:
            one = slice(came, came + 1)
            hear(sources, heaps, hosts, clocks, known, of[one], at[one], about[one], place[came])
            came += 1
        heard, last = known.heard[i], sources[i].last
        announced[row, 2] = heard.first - last if heard.count > 0 else math.inf
        clocks[0].time = max(clocks[0].time, time)
        visited(sources, heaps, hosts, clocks, known, i, time, outcome[row], math.nan)
    for row in range(len(who)):
        if known.heard[who[row]].channel > 0:
            level, false, _, _, _, _ = state_of_signals(known, who[row], 1.0, 1.0, 0.0)
            announced[row, 0], announced[row, 1] = LEVELS[level], false
