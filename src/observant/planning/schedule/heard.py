"""Signals of change: what they say of a source, and how far they are believed. Compiled.

A source may be announced by a channel: a kind of signal (sitemap, feed, hook …) of a group (host).
A change is announced with probability r (the recall), false signals come at rate φ. For a rate λ,
the last visit s days ago, n signals since, the first of them after t days,

    P(fresh) = e^(−(1−r)λs) · (φ/(rλ+φ))ⁿ            (Busa-Fekete et al. 2025)

and the signals say of λ itself e^(−rλs) where there was none, e^(−rλt)·(rλ+φ) where there was one.
Only the first counts for that: sources change in bursts, and so do their signals. The index is
that of a cycle that ends when P(fresh) has fallen so low (`signal_tables`), averaged over λ.

What a visit finds teaches the channel: r by its likelihood on `LEVELS`, φ by its expected number
of false signals (the E step), both drawn to those of the kind, both forgotten in time. φ may be the
same for all sources or in proportion to λ; visits that found no change tell which.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202

import math

import numpy as np

from observant.compiled import borrowing, inner, jit
from observant.estimation.belief_loops import FINE, FLOOR, OFFSETS, POINTS, RATES
from observant.planning.schedule.crossing import cycle, value

LEVELS = np.array([0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98])
"""The recalls that are looked at."""
CHANNEL = np.dtype(
    [
        ("kind", "i4"),  # its place among the channels, or −1 for a kind itself
        ("level", "i4"),  # the recall that is used, of `LEVELS`
        ("blind", "i4"),  # whoever is announced is visited at once
        ("members", "i8"),
        ("begun", "f8"),
        ("signals", "f8"),  # that came, and
        ("exposure", "f8"),  # the days of all members together until `begun`
        ("came", "f8", (2,)),  # the same two of the last days alone
        ("logs", "f8", (len(LEVELS),)),  # log likelihood of each recall
        ("visits", "f8"),  # that found a change
        ("announced", "f8"),  # of these, those that a signal had announced
        ("told", "f8"),  # visits after a signal, and
        ("lied", "f8"),  # those of them whose signal was false
        ("falses", "f8"),  # false signals, and in how many days of watching
        ("days", "f8"),
        ("doubt", "f8"),  # log odds, by the last visits after a signal, that it says nothing,
        ("doubts", "f8"),  # and by all of them
        ("false", "f8"),  # φ of a usual source, as it is used
        ("expected", "f8"),  # changes in the days of watching, by what is believed of the rates
        ("before", "f8"),  # the last but one read of a list, and the last; and the mean
        ("read", "f8"),
        ("lag", "f8"),  # time since then at any moment; 0 where signals come by themselves
        ("odds", "f8"),  # log odds that false signals are as frequent as changes
        ("compared", "f8"),  # visits, whether they found a change or not, and the days between them
        ("gaps", "f8"),
        ("delay", "f8"),  # sum and number of known delays
        ("delays", "f8"),
    ]
)
HEARD = np.dtype(
    [
        ("channel", "i4"),  # 1 + its place, or 0
        ("count", "i4"),  # signals since the last visit
        ("first", "f8"),  # when the first of them came, and the
        ("span", "f4"),  # days before that from which it may be: since a list was read before
        ("falses", "f4"),
        ("days", "f4"),
        ("owed", "i4"),  # the last visit found a change that had not been announced
        ("rate", "f4"),  # its mean rate when it was last judged
        ("lists", "f4"),  # importance of all that it announces itself, and how often one of these
        ("pace", "f4"),  # has a change that it announces; what visits that follow take of a price
        ("toll", "f4"),
        ("level", "i4"),  # the recall that its key was found with
        ("next", "i4"),  # of several channels: 1 + the place of the first in `Known.more`
    ]
)
_KIND_STANDS_FOR = 10.0  # visits, or false signals, of a channel of its own
_KIND_OF_LISTS = 0.5  # false signals of a list: liars and honest ones are of one kind
_CHANNEL_STANDS_FOR = 1.0  # false signals of a source of its own
_MEMORY = 1_000.0  # visits after which a channel's lesson has faded to 1/e
_LATELY = 20.0  # visits after a signal that show what it is worth now
_DOUBTED = 3.0  # log odds that they say nothing, and not the truth half of the time
_FLOOD = 1.5  # times the signals that are expected
_REFUTED, _MOST = 2.0, 4.0  # the same by all visits, and so high at most: it may become honest
RECENT = 3.0  # days whose signals say how many come now
_BURST = 3.0  # signals that one change may bring
_LASTING = 200.0  # days after which a source's has
_WORTHLESS = 0.1  # precision below which a channel weighs nothing
_USUAL = 0.1  # changes a day, or signals, of a source of which nothing is known
_SILENT = 0.25  # prior probability that a channel announces nothing
_RHO_LOW, _RHO_HIGH, _X_LOW, _X_HIGH, _X_STEP = -14, 14, -24, 24, 4  # octaves of φ/λ and λs
_MOST_TERMS = 30  # signals in a cycle that are counted one by one
_FINER = 4  # parts of a step of the integral
_SLOPE_LOW, _SLOPE_STEP = -40, 64  # octaves of λs, and places in one


def slope_places():
    """The λs for which `signal_tables` takes the slope of a penalty."""
    return 2.0 ** (np.arange((_X_HIGH - _SLOPE_LOW) * _SLOPE_STEP + 1) / _SLOPE_STEP + _SLOPE_LOW)


@jit
def signal_tables(code, slopes):
    """λᵐ·V over (recall, φ/λ, λs), and the worth λb of a signal over (recall, φ/λ).

    `slopes` is c' of an objective of somebody's own, at `slope_places`; empty for the others.
    Where every missed change counts, not only the first, a signal counts as the changes it stands
    for, instead of what it says of the first.
    """
    counting = 1 <= code <= 3
    rhos, xs = _RHO_HIGH - _RHO_LOW + 1, (_X_HIGH - _X_LOW) * _X_STEP + 1
    table, worths = np.zeros((len(LEVELS), rhos, xs)), np.zeros((len(LEVELS), rhos))
    for level in range(len(LEVELS)):
        for j in range(rhos):
            recall, rho = LEVELS[level], 2.0 ** (_RHO_LOW + j)
            silent, signal = 1 - recall, recall + rho
            worths[level, j] = (recall / signal if counting else math.log(signal / rho)) / silent
            total, before = 0.0, 0.0
            for m in range(xs):
                upto = 2.0 ** (_X_LOW + m / _X_STEP)
                for part in range(_FINER):
                    u = before + (part + 0.5) / _FINER * (upto - before)
                    if len(slopes) > 0:
                        place = round((math.log2(silent * u) - _SLOPE_LOW) * _SLOPE_STEP)
                        slope = slopes[min(max(place, 0), len(slopes) - 1)]
                    else:
                        slope = value(code, 1.0, 0.0, silent * u)[1] / (silent * u) ** 2
                    length = _length(silent, signal, worths[level, j], u)
                    total += length * slope * silent * (upto - before) / _FINER
                table[level, j, m] = total
                before = upto
    return table, worths


@borrowing
def _length(silent, signal, worth, iota):
    """ψ(ι): the expected length of a cycle."""
    if worth * _MOST_TERMS < iota:
        return iota / (1 + worth * signal)
    # A false rate that gives this worth: then the cycle is that of `crossing`.
    return cycle(silent, signal, signal * math.exp(-silent * worth), iota)[0]


@borrowing
def _cell(octaves):
    """The place of φ/λ, given its logarithm, and the part of a step beyond it."""
    y = min(max(octaves - _RHO_LOW, 0.0), _RHO_HIGH - _RHO_LOW - 1e-9)
    j = int(y)
    return j, y - j


@borrowing
def _look_up(table, level, j, part, octaves):
    """V between the places of φ/λ and λs, the latter by its logarithm."""
    y = min(max((octaves - _X_LOW) * _X_STEP, 0.0), (_X_HIGH - _X_LOW) * _X_STEP - 1e-9)
    m = int(y)
    f = y - m
    low = table[level, j, m] * (1 - part) + table[level, j + 1, m] * part
    high = table[level, j, m + 1] * (1 - part) + table[level, j + 1, m + 1] * part
    return low + f * (high - low)


# -- one source -----------------------------------------------------------------------------------


@borrowing
def arrivals(rate, span):
    """Signals a day at this rate, or the chance of one in a `span` of so many days, per day."""
    return rate if span <= 0 else -math.expm1(-rate * span) / span


@inner
def false_rate(known, i):
    return false_of(known, known.heard[i])


@inner
def false_of(known, heard):
    """φ of a source: what its visits found, drawn to what is usual in its channel.

    Usual is the same for all, or as much more as a source changes more often than others: as far
    as one or the other has foretold the false signals better.
    """
    own = known.channels[heard.channel - 1]
    usual = own.false * ratio(own, heard) ** (1 / (1 + math.exp(-own.odds)))
    return drawn_rate(heard, usual)


@borrowing
def drawn_rate(heard, usual):
    stands = _CHANNEL_STANDS_FOR
    return (stands + heard.falses) / (stands / max(usual, 1e-9) + heard.days)


@borrowing
def ratio(channel, heard):
    """How much more often a source changes than others of its channel."""
    if heard.rate <= 0 or channel.expected <= 0:
        return 1.0
    return min(max(heard.rate * channel.days / channel.expected, 1e-3), 1e3)


@inner
def state_of_signals(known, i, own, plain, first):
    """(level, φ, signals, first, lag, span): what is needed below, on the source's own clock.

    `own` and `plain` are the time since the last visit on that clock and on the wall, `first` the
    time of the first signal on its own.
    """
    heard = known.heard[i]
    scale = plain / own if 0 < plain < math.inf and own > 0 else 1.0
    scale = min(max(scale, 1e-3), 1e3)
    span = heard.span / scale
    if heard.next > 0:
        recall, phi, count, lag = combined(known, i)
        return nearest_level(recall), phi * scale, count, first, lag / scale, span
    channel = known.channels[heard.channel - 1]
    phi, count = false_rate(known, i) * scale, np.int64(heard.count)
    if channel.level == 0:  # who is not believed says nothing: not even when it did
        count = np.int64(0)
    return np.int64(channel.level), phi, count, first, channel.lag / scale, span


@borrowing
def nearest_level(recall):
    """Which of `LEVELS` is nearest."""
    nearest = np.int64(0)
    for level in range(1, len(LEVELS)):
        if abs(LEVELS[level] - recall) < abs(LEVELS[nearest] - recall):
            nearest = np.int64(level)
    return nearest


@inner
def record_of(known, i, place):
    """What the channel at this place said of a source; that of another if it does not listen."""
    heard = known.heard[i]
    at = heard.next
    while at > 0:
        heard = known.more[at - 1]
        at = heard.next if place >= 0 and heard.channel != place + 1 else 0
    return heard


@inner
def combined(known, i):
    """(recall, φ, signals, lag) of all the channels of a source that are believed, as if one.

    A change is silent if it is so in all of them; φ is such that the signals that came are as far
    from being all false as they are in their own channels, at the mean rate of the source.
    """
    silent, phi, count, logs, lag = 1.0, 0.0, 0, 0.0, math.inf
    rate = known.heard[i].rate if known.heard[i].rate > 0 else _USUAL
    at = known.heard[i].next
    while at > 0:
        heard = known.more[at - 1]
        channel = known.channels[heard.channel - 1]
        at = heard.next
        if channel.level == 0:
            continue
        recall, own = LEVELS[channel.level], false_of(known, heard)
        silent, phi, lag = silent * (1 - recall), phi + own, min(lag, channel.lag)
        if heard.count > 0:
            came = arrivals(recall * rate + own, heard.span)
            lie = math.log(arrivals(own, heard.span) / came) - recall * rate * heard.span
            count, logs = count + heard.count, logs + heard.count * lie
    if count > 0:
        span, true = known.heard[i].span, (1 - silent) * rate
        still = math.exp(-true * span)  # that none was true in the span of the first
        false = min(math.exp(logs / count), 0.999 * still)
        if span > 0:
            phi = -math.log((still - false) / (still * (1 - false))) / span
        else:
            phi = true * false / (1 - false)
    return 1 - silent, max(phi, 1e-9), count, lag if lag < math.inf else 0.0


@inner
def believed(known, i):
    """Whether a signal about a source would move it."""
    if known.heard[i].next == 0:
        return known.channels[known.heard[i].channel - 1].level > 0
    return combined(known, i)[0] > 0


@borrowing
def covered(channel, last, time):
    """The share of the time between two visits in which silence says something: until a read."""
    if channel.lag <= 0:
        return 1.0
    return min(max((channel.read - last) / (time - last), 0.0), 1.0)


@inner
def heard_index(known, place, grace, signals, s):
    """W of a source with signals, averaged over the posterior that `believe` has weighed."""
    level, phi, count, first, lag, span = signals
    if count > 0 and s - grace < first:
        count = 0
    recall = LEVELS[level]
    offsets, base = OFFSETS[max(place[1], 0)], place[0] - FLOOR * FINE
    y = max(s - grace, 0.0)
    if y <= 0 and count == 0:
        return 0.0
    of_phi, of_y = math.log2(phi), math.log2(y) if y > 0 else -math.inf
    unread = min(y, lag) if recall > 0 and count == 0 else 0.0
    total = index = 0.0
    for k in range(POINTS):
        weight = known.weights[k]
        if weight < 1e-9:
            continue
        rate = RATES[base + offsets[k]]
        of_rate = FLOOR + (base + offsets[k]) / FINE
        j, part = _cell(of_phi - of_rate)
        octaves = of_y + of_rate
        if count == 0:
            weight *= math.exp(-recall * rate * max(s - lag, 0.0))
        else:
            came = arrivals(recall * rate + phi, span)
            weight *= math.exp(-recall * rate * max(first - span, 0.0)) * came
            m, rest = j, part
            if span > 0 and recall > 0:  # as a signal that comes by itself and is as often false
                false = min(arrivals(phi, span) / came * math.exp(-recall * rate * span), 0.999)
                m, rest = _cell(math.log2(recall * false / (1 - false)))
            worth = known.worths_of[level, m] * (1 - rest) + known.worths_of[level, m + 1] * rest
            octaves = math.log2(rate * y + count * worth)
        total += weight
        one = known.factors[base + offsets[k]] * _look_up(known.signalled, level, j, part, octaves)
        if unread > 0:  # of what a list will announce at its next read nothing is known yet
            of_unread = math.log2(unread) + of_rate
            one += (
                recall
                * known.factors[base + offsets[k]]
                * (_look_up(known.signalled, 0, j, part, of_unread))
            )
        if grace > 0:
            one += grace * -math.expm1(-(1 - recall) * 2.0**octaves)
        index += weight * one
    return index / total if total > 0 else 0.0


@inner
def heard_crossing(known, place, grace, signals, price, guess):
    """Smallest s at which the index reaches the price, not before the first signal."""
    start = signals[3] + grace if signals[2] > 0 else grace
    if price <= 0 or (signals[2] > 0 and heard_index(known, place, grace, signals, start) >= price):
        return start
    low = start
    high = guess if start < guess < 1e6 else max(2 * start, 0.1)
    at_high = heard_index(known, place, grace, signals, high)
    while at_high < price:
        low, high = high, 2 * high
        if high > 1e7:
            return math.inf
        at_high = heard_index(known, place, grace, signals, high)
    for _ in range(40):
        if high - low < 2e-3 * high:
            break
        middle = 0.5 * (low + high) if low > 0.05 * high else 0.25 * high
        if heard_index(known, place, grace, signals, middle) < price:
            low = middle
        else:
            high = middle
    return high


@inner
def changed_by(known, place, signals, s):
    """P(changed by now), averaged over the posterior that `believe` has weighed."""
    level, phi, count, first, lag, span = signals
    recall = LEVELS[level]
    offsets, base = OFFSETS[max(place[1], 0)], place[0] - FLOOR * FINE
    total = fresh = 0.0
    for k in range(POINTS):
        rate = RATES[base + offsets[k]]
        weight = known.weights[k]
        still = math.exp(-(1 - recall) * rate * s)
        if count == 0:
            weight *= math.exp(-recall * rate * max(s - lag, 0.0))
            still *= math.exp(-recall * rate * min(s, lag))
        else:
            came = arrivals(recall * rate + phi, span)
            weight *= math.exp(-recall * rate * max(first - span, 0.0)) * came
            still *= (arrivals(phi, span) / came * math.exp(-recall * rate * span)) ** count
        total += weight
        fresh += weight * still
    return 1.0 - fresh / total if total > 0 else 0.0


# -- lists that are read --------------------------------------------------------------------------


@borrowing
def read_list(channels, c, time):
    """A list was read that names what changed: silence counts until then, and no further."""
    own = channels[c]
    half = (time - own.read) / 2
    if own.lag == 0:
        own.lag = 1e-6
    elif half > 0:
        own.lag = half if own.lag == 1e-6 else own.lag + 0.2 * (half - own.lag)
    if time > own.read:
        own.before, own.read = own.read, time


@borrowing
def list_weight(heard, price):
    """What a list counts for: its members, less what the visits that it brings will cost.

    Of a member that changes λ times a day (1 − price·λ)⁺ is left, which is averaged here as if the
    rates of members were distributed exponentially.
    """
    x = price * heard.toll
    return heard.lists * (1 + x * math.expm1(-1 / x)) if x > 0 else heard.lists


# -- what a visit teaches -------------------------------------------------------------------------


@inner
def judge_channel(known, i, heard, gap, first, span, share, changed):
    """Add a comparison to what is known of a channel; the posterior of the source is weighed.

    `heard` is what the channel said of the source, `gap` the time since the visit before; the first
    signal is of the `span` of time that follows `first`, infinite if there was none; in a `share`
    of the gap silence would have said something.
    A recall is judged by how well it foretells the signals and what visits find. Signals decide who
    is visited, so that a low recall with a high rate foretells them as well as the truth: those
    of a list, which are known less well in time, count only half (as a square root).
    """
    own = known.channels[heard.channel - 1]
    kind = known.channels[own.kind]
    recall, phi = LEVELS[own.level], false_of(known, heard)
    told = first < gap
    first = max(min(first, share * gap), 1e-9)
    lie = arrivals(phi, span)
    place = known.place[i]
    offsets, base = OFFSETS[max(place[1], 0)], place[0] - FLOOR * FINE
    false = 1.0 if told and not changed else 0.0  # how far the first signal was
    weight = seen = 0.0
    if told and changed:
        for k in range(POINTS):
            rate = RATES[base + offsets[k]]
            signal = arrivals(recall * rate + phi, span)
            left = math.exp(-(1 - recall) * rate * first - rate * (gap - first))
            only = lie * math.exp(-recall * rate * span)  # false signals, and no true one
            part = known.weights[k] * math.exp(-recall * rate * first)
            weight += part * (only - lie * left)
            seen += part * (signal - lie * left)
    if seen > 0:
        false = weight / seen
    mean = 0.0
    for k in range(POINTS):
        mean += known.weights[k] * RATES[base + offsets[k]]
    heard.rate = mean
    odds = 0.0
    if not changed:  # only false signals could have come
        usual = drawn_rate(heard, own.false)
        scaled = drawn_rate(heard, own.false * ratio(own, heard))
        odds = -(scaled - usual) * first
        if told:
            odds += math.log(arrivals(scaled, span) / arrivals(usual, span))
    watched = first + told * span
    x = phi * span  # of a list one signal is seen, however many there were since it was read
    falses = false * (x / -math.expm1(-x) if x > 1e-9 else 1.0)
    kept = math.exp(-gap / _LASTING)
    heard.falses = kept * heard.falses + falses
    heard.days = kept * heard.days + watched
    if told:
        anyway = 0.0  # the chance of a change without any signal
        for k in range(POINTS):
            anyway -= known.weights[k] * math.expm1(-RATES[base + offsets[k]] * gap)
        anyway = min(max(anyway, 1e-3), 1 - 1e-3)
        half = (1 + anyway) / 2  # the same where half of the signals are true
        lesson = math.log(anyway / half if changed else (1 - anyway) / (1 - half))
        own.doubt = max((1 - 1 / _LATELY) * own.doubt + lesson, -_DOUBTED)
        own.doubts = min((1 - 1 / _MEMORY) * own.doubts + lesson, _MOST)
    for channel in (own, kind):
        channel.falses = (1 - 1 / _MEMORY) * channel.falses + falses
        channel.lied = (1 - 1 / _MEMORY) * channel.lied + false
        channel.days = (1 - 1 / _MEMORY) * channel.days + watched
        channel.expected = (1 - 1 / _MEMORY) * channel.expected + watched * mean
        channel.odds = (1 - 1 / _MEMORY) * channel.odds + odds
        channel.told = (1 - 1 / _MEMORY) * channel.told + told
        channel.compared = (1 - 1 / _MEMORY) * channel.compared + 1
        channel.gaps = (1 - 1 / _MEMORY) * channel.gaps + gap
    for level in range(len(LEVELS)):
        r = LEVELS[level]
        said = same = 0.0  # chance of what was said, and that nothing has changed as well
        for k in range(POINTS):
            rate = RATES[base + offsets[k]]
            part = known.weights[k] * math.exp(-r * rate * first)
            said += part * (arrivals(r * rate + phi, span) if told else 1.0)
            same += known.weights[k] * math.exp(-rate * gap) * (lie if told else 1.0)
        chance = said - same if changed else same
        if own.lag > 0:
            chance /= math.sqrt(said)
        elif not changed:
            break
        log = math.log(max(chance, 1e-300))
        own.logs[level] = (1 - 1 / _MEMORY) * own.logs[level] + log
        kind.logs[level] = (1 - 1 / _MEMORY) * kind.logs[level] + log
    if changed:
        for channel in (own, kind):
            channel.visits = (1 - 1 / _MEMORY) * channel.visits + 1
            channel.announced = (1 - 1 / _MEMORY) * channel.announced + told
    review(known.channels, heard.channel - 1)


@jit
def review(channels, c):
    """Find the recall and the false rate of a channel that are used from now on."""
    own, kind = channels[c], channels[channels[c].kind]
    weights = posterior(channels, c)
    mean = 0.0
    for level in range(len(LEVELS)):
        mean += weights[level] * LEVELS[level]
    own.level = nearest_level(mean)
    # Before visits say more: a third of the signals is false, and all that are far too many.
    # In its first days it has sent as many as usual, however soon the first of them came.
    came = (own.signals + 1) / (own.exposure + 1 / _USUAL) if own.signals > 0 else 0.0
    rate = mean_rate(kind)
    usual = max(came / 3, came - 2 * rate, 1e-6)
    others, days = max(kind.falses - own.falses, 0.0), kind.days - own.days
    if days > 0:
        usual = max((1 + others) / (1 / usual + days), came - 2 * rate)
    stands = stands_for(own.lag)
    own.false = (stands + own.falses) / (stands / usual + own.days)
    # Far more than changes could bring, now: whatever it was worth before.
    now = own.came[0] / (own.came[1] + own.members) if own.members > 0 else 0.0
    own.false = max(own.false, now / _BURST - 2 * (mean_rate(own) if own.compared > 0 else rate))
    true = mean * (mean_rate(own) if own.compared > 0 else rate)
    # Who was honest for long and floods now is not believed for what was. Without more signals than
    # expected it is no flood: changes come in bursts, and between these many signals are false.
    floods = own.doubt > _DOUBTED and now > _FLOOD * (true + own.false)
    if floods or own.doubts > _REFUTED or true < _WORTHLESS * (true + own.false):
        own.level = 0


@borrowing
def stands_for(lag):
    """False signals that the kind of a channel stands for; those of lists have a lag."""
    return _KIND_OF_LISTS if lag > 0 else _KIND_STANDS_FOR


@borrowing
def mean_rate(channel):
    """About how often its sources change; without visits it is not known that they do not."""
    if channel.compared == 0:
        return math.inf
    share = min((channel.visits + 0.5) / (channel.compared + 1), 0.98)
    return -math.log(1 - share) * channel.compared / channel.gaps


@jit
def posterior(channels, c):
    """Probability of each recall; other channels of the kind stand for some visits."""
    own, kind = channels[c], channels[channels[c].kind]
    others = max(kind.visits - own.visits, 0.0)
    share = min(1.0, _KIND_STANDS_FOR / others) if others > 0 else 0.0
    weights = own.logs + share * (kind.logs - own.logs)
    weights = np.exp(weights - weights.max())
    weights[1:] *= (1 - _SILENT) / (len(LEVELS) - 1)
    weights[0] *= _SILENT
    return weights / weights.sum()
