"""What the scheduler believes of a source's rate, and what a visit teaches. Compiled.

Import only where it is used. The belief is that of `observant.estimation.belief`; here are the
clocks of siblings (`siblings`), on which a source may live.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201

import math

from observant.compiled import borrowing, inner
from observant.estimation.belief_kernels import learn as learn_rate
from observant.estimation.belief_kernels import weigh as weigh_rates
from observant.estimation.belief_loops import FINE, FLOOR, OFFSETS, POINTS
from observant.planning.schedule.heard import (
    LEVELS,
    changed_by,
    combined,
    covered,
    false_of,
    false_rate,
    judge_channel,
    record_of,
    state_of_signals,
)
from observant.planning.schedule.hours import note_hours, through_of, visit_time
from observant.planning.schedule.index_tables import remains
from observant.planning.schedule.siblings import BLEND, SPREAD, attribute, elapsed, score, weigh

_SAMPLE = 5_000  # members of a list that are looked at to find what a read is worth
_DOUBT = 0.02  # of the worth of a list that is not believed, so that it can prove honest


@inner
def believe(source, clock, known, i):
    """Find the posterior of a source's rate, into `known.weights` and `known.worths`."""
    place, sums = known.place[i], known.sums[source.group]
    weigh_rates(known.values[i], place, sums, source.age, clock.age_weight, known.weights)
    offsets = OFFSETS[max(place[1], 0)]
    base = place[0] - FLOOR * FINE
    for k in range(POINTS):
        known.worths[k] = known.weights[k] * known.factors[base + offsets[k]]


@inner
def learn(source, clock, known, i, time, outcome, age):
    """Add a comparison to what is known of the source's rate, and of its siblings."""
    gap = time - source.last
    if clock.learning == 0 or outcome < 0 or not 0 < gap < math.inf:
        return
    dated = outcome == 1 and 0 <= age < gap
    recall, false, told, span, share = 0.0, 0.0, math.inf, 0.0, 1.0
    if listens(clock, known, i):
        heard = known.heard[i]
        channel = known.channels[heard.channel - 1]
        recall, false = LEVELS[channel.level], false_rate(known, i)
        if heard.next > 0:
            recall, false, _, _ = combined(known, i)
        if heard.count > 0:
            span = min(heard.span, heard.first - source.last)
            told = max(heard.first - source.last - span, 0.0)
        else:
            share = covered(channel, source.last, time)
            at = heard.next
            while at > 0:
                one = known.more[at - 1]
                share = max(share, covered(known.channels[one.channel - 1], source.last, time))
                at = one.next
    chance = 0.0
    if source.node >= 0:
        chance = judge(source, clock, known, i, time, outcome == 1)
        attribute(
            known.shared[0],
            source.node,
            known.parent,
            known.found,
            known.placed,
            known.expected,
            known.activity,
            known.news,
            source.last,
            time,
            outcome,
            chance,
            time - age if dated else math.nan,
        )
    told_age = age if dated or (outcome == 0 and age >= gap) else math.nan
    if gap < 1.0 or told_age >= 0:
        if source.node < 0:
            believe(source, clock, known, i)
            chance = chance_of(source, clock, known, i, gap, time)
        note_hours(known.daily[0], source.last, time, outcome == 1, chance, told_age)
    if listens(clock, known, i):
        believe(source, clock, known, i)
        at = known.heard[i].next
        if at == 0:
            judge_channel(known, i, known.heard[i], gap, told, span, share, outcome == 1)
        while at > 0:
            one = known.more[at - 1]
            said, before, part = math.inf, 0.0, 1.0
            if one.count > 0:
                before = min(one.span, one.first - source.last)
                said = max(one.first - source.last - before, 0.0)
            else:
                part = covered(known.channels[one.channel - 1], source.last, time)
            judge_channel(known, i, one, gap, said, before, part, outcome == 1)
            known.heard[i].rate = one.rate
            at = one.next
    known_age = age if dated else math.nan
    learn_rate(
        known.values[i],
        known.place[i],
        gap,
        outcome == 1,
        known_age,
        clock.drift,
        known.weights,
        recall * share,
        false,
        told,
        span,
    )


@inner
def judge(source, clock, known, i, time, changed):
    """Score every belief about siblings by an outcome, and weigh them by that.

    Returns the probability of a change in an ordinary time.
    """
    believe(source, clock, known, i)
    shared = known.shared[0]
    for belief in range(BLEND + 1):
        if SPREAD <= belief < BLEND and shared.dated == 0:
            continue
        own = time - source.last
        if belief < BLEND:
            own = clock_of(source, known, belief, source.last, time)
        usual = chance_of(source, clock, known, i, own * shared.level, time)
        score(shared, belief, min(max(usual, 1e-6), 1 - 1e-6), changed)
    weigh(shared)
    return chance_of(source, clock, known, i, time - source.last, time)


@inner
def chance_of(source, clock, known, i, own, time):
    """Probability of a change after so many days of its own, with what signals say."""
    if not listens(clock, known, i):
        return 1 - remains(known, known.place[i], own)
    share = own / max(time - source.last, 1e-12)
    first = share * (known.heard[i].first - source.last)
    signals = state_of_signals(known, i, own, time - source.last, first)
    return changed_by(known, known.place[i], signals, own)


@inner
def listens(clock, known, i):
    """Whether a channel announces the changes of a source."""
    return clock.channels > 0 and known.heard[i].channel > 0


@inner
def signals_at(source, known, i, now):
    """What signals have said of a source, on its own clock."""
    own, plain = time_of(source, known, now), now - source.last
    first = 0.0
    if known.heard[i].count > 0:
        first = max(own - time_between(source, known, known.heard[i].first, now), 0.0)
    return state_of_signals(known, i, own, plain, first)


@borrowing
def weigh_list(sources, clocks, known, listing, members, place):
    """Let a list be read as often as that is worth for its members (`Signals.weigh`)."""
    step = max(-(-len(members) // _SAMPLE), 1)  # of a long list every so many
    weight = pace = toll = 0.0
    channel = known.channels[place]
    for i in members[::step]:
        said = record_of(known, i, place)
        if said.channel != place + 1:
            continue
        recall = 1.0 if channel.blind else LEVELS[channel.level]
        believe(sources[i], clocks[0], known, i)
        offsets, base = OFFSETS[max(known.place[i, 1], 0)], known.place[i, 0] - FLOOR * FINE
        octaves = total = 0.0
        for k in range(POINTS):
            total += known.weights[k]
            octaves += known.weights[k] * (FLOOR + (base + offsets[k]) / FINE)
        rate, own = 2.0 ** (octaves / total), sources[i].importance
        if recall == 0:
            own, recall = own * _DOUBT, 0.5
        elif channel.blind == 0:
            own *= recall * rate / (recall * rate + false_of(known, said))
        weight += own
        pace += own * recall * rate
        toll += sources[i].cost * rate * own / sources[i].importance
    heard = known.heard[listing]
    heard.lists = step * weight if pace > 0 else 0.0
    heard.pace, heard.toll = pace / max(weight, 1e-9), toll / max(weight, 1e-9)


@inner
def time_of(source, known, now):
    """Time since the last visit as the source lives it: on the clock of its siblings, and at the
    hours at which visits are made.
    """
    plain = now - source.last
    if not 0 < plain < math.inf:
        return plain
    more, daily = 0.0, known.daily[0]
    if daily.on:
        through = through_of(daily, source.wait)
        more = visit_time(through, now) - visit_time(through, source.last) - plain
    if source.node < 0:
        return plain + more
    return max(clock_of(source, known, BLEND, source.last, now) + more, 0.0)


@inner
def time_between(source, known, since, now):
    """The time between two moments as the source lives it."""
    if source.node < 0 or now <= since:
        return now - since
    return clock_of(source, known, BLEND, since, now)


@inner
def clock_of(source, known, belief, since, now):
    """What the clock of a source's siblings shows between two times, by one of the beliefs."""
    activity, shown = known.activity[source.node, :, belief], known.shown[source.node, :, belief]
    return elapsed(known.shared[0], activity, shown, since, now)
