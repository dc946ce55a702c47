"""Compiled loops of the replay: what is visited when, what a visit sees, what the truth was.

Import this only where it is used: numba takes a second to load.
"""

import numpy as np

from observant.compiled import jit
from observant.visits.kernels import sort_stretch

# -- what is visited when -------------------------------------------------------------------------


@jit
def carousel(rank, slots, start, budget):
    """Every source once a round, in the same order: visit k goes to the source of rank k mod n."""
    n = len(rank)
    offsets = np.empty(n + 1, np.int64)
    offsets[0] = 0
    for i in range(n):
        count = (slots - rank[i] + n - 1) // n if slots > rank[i] else 0
        offsets[i + 1] = offsets[i] + count
    time = np.empty(offsets[n])
    for i in range(n):
        k = rank[i]
        for at in range(offsets[i], offsets[i + 1]):
            time[at] = start + (k + 0.5) / budget
            k += n
    return offsets, time


@jit
def repeat_periods(phase, period, until):
    """The times phase, phase + period, … below `until`, source after source."""
    n = len(phase)
    offsets = np.empty(n + 1, np.int64)
    offsets[0] = 0
    for i in range(n):
        count = 0
        if phase[i] < until:
            count = int((until - phase[i]) / period[i]) + 1
            # Rounding may put the last one on the wrong side.
            while count > 0 and phase[i] + (count - 1) * period[i] >= until:
                count -= 1
        offsets[i + 1] = offsets[i] + count
    time = np.empty(offsets[n])
    for i in range(n):
        for k in range(offsets[i + 1] - offsets[i]):
            time[offsets[i] + k] = phase[i] + k * period[i]
    return offsets, time


@jit
def ranks(time, until):
    """Place of each time in the order of all; ties in the order given. Times lie in [0, until)."""
    total = len(time)
    first = np.zeros(total + 1, np.int64)
    scale = total / until
    for k in range(total):
        first[min(int(time[k] * scale), total - 1) + 1] += 1
    for b in range(total):
        first[b + 1] += first[b]
    filled = first[:total].copy()
    order = np.empty(total, np.int64)
    for k in range(total):
        b = min(int(time[k] * scale), total - 1)
        order[filled[b]] = k
        filled[b] += 1
    for b in range(total):
        if first[b + 1] - first[b] > 1:
            sort_stretch(order, time, first[b], first[b + 1])
    place = np.empty(total, np.int64)
    for k in range(total):
        place[order[k]] = k
    return place


@jit
def _sink(heap, due, at):
    """Let the source at this place of the heap sink to where it belongs."""
    n = len(heap)
    moved = heap[at]
    key = due[moved]
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n and due[heap[child + 1]] < due[heap[child]]:
            child += 1
        if due[heap[child]] >= key:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = moved


@jit
def queue(due, period, first_slot, last_slot, start, budget):
    """Visit the earliest due in every slot; it is due again one period later. Changes `due`."""
    n = len(due)
    heap = np.arange(n)
    for at in range(n // 2, -1, -1):
        _sink(heap, due, at)
    source = np.empty(last_slot - first_slot, np.int64)
    time = np.empty(last_slot - first_slot)
    for slot in range(first_slot, last_slot):
        i = heap[0]
        now = start + (slot + 0.5) / budget
        source[slot - first_slot] = i
        time[slot - first_slot] = now
        due[i] = now + period[i]
        _sink(heap, due, 0)
    return source, time


@jit
def group(source, time, sources):
    """Put visits in order of source, keeping the order in which they were given."""
    offsets = np.zeros(sources + 1, np.int64)
    for k in range(len(source)):
        offsets[source[k] + 1] += 1
    for i in range(sources):
        offsets[i + 1] += offsets[i]
    filled = offsets[:sources].copy()
    place = np.empty(len(source), np.int64)
    grouped = np.empty(len(source))
    for k in range(len(source)):
        at = filled[source[k]]
        filled[source[k]] += 1
        place[at] = k
        grouped[at] = time[k]
    return offsets, grouped, place


# -- what a visit sees ----------------------------------------------------------------------------


@jit
def _after(times, low, high, at):
    """First place in low:high whose time is after `at`."""
    while low < high:
        middle = (low + high) // 2
        if times[middle] <= at:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def look(times, offsets, source, since, at):
    """Whether a source had an update in (since, at], and its age at `at` (NaN: no update yet)."""
    changed = np.empty(len(source), np.bool_)
    age = np.empty(len(source))
    for k in range(len(source)):
        low, high = offsets[source[k]], offsets[source[k] + 1]
        last = _after(times, low, high, at[k]) - 1
        if last < low:
            changed[k] = False
            age[k] = np.nan
        else:
            changed[k] = times[last] > since[k]
            age[k] = at[k] - times[last]
    return changed, age


@jit
def _mixed(word):
    """The finishing steps of splitmix64."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@jit
def failures(source, number, seed, share):
    """Whether visit `number` to a source fails: the same for every policy with this seed."""
    failed = np.empty(len(source), np.bool_)
    for k in range(len(source)):
        word = _mixed(np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15))
        word = _mixed(word ^ (np.uint64(source[k]) * np.uint64(0x9E3779B97F4A7C15)))
        word = _mixed(word ^ (np.uint64(number[k]) * np.uint64(0xD1B54A32D192ED03)))
        failed[k] = (word >> np.uint64(11)) * 2.0**-53 < share
    return failed


# -- what the truth was ---------------------------------------------------------------------------


@jit
def _spread(begin, end, weight, start, width, totals):
    """Add a stretch of time to the slices it touches."""
    if end <= begin:
        return
    last = len(totals) - 1
    k = min(int((begin - start) / width), last)
    while k < last:
        edge = start + (k + 1) * width
        if end <= edge:
            break
        totals[k] += weight * (edge - begin)
        begin = edge
        k += 1
    totals[k] += weight * (end - begin)


@jit
def account(
    times,
    offsets,
    visit_offsets,
    visit_time,
    visit_failed,
    weight,
    start,
    score_from,
    end,
    latency,
    known,
    graces,
    slices,
):
    """Account for the truth, source by source; see `outcomes.Score` for what each number means.

    The copy made by a visit at v holds what the source was at v, from v + latency until the copy
    of the next successful visit is there.
    """
    n = len(offsets) - 1
    some_failed = len(visit_failed) > 0
    fresh, age, delay, longest = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    current = np.zeros((n, len(graces)))
    updates, updates_seen = np.zeros(n, np.int64), np.zeros(n, np.int64)
    visits, compared, found = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    detected = np.zeros(n, np.int64)
    # Rows: fresh time, visits, changes found, updates, and changes by when they happened; weighted.
    curve = np.zeros((5, slices))
    width = (end - start) / slices
    for i in range(n):
        high = offsets[i + 1]
        place = _after(times, offsets[i], high, start)
        for k in range(place, high):
            if times[k] > end:
                break
            at = min(int((times[k] - start) / width), slices - 1)
            curve[3, at] += weight[i]
            if times[k] > score_from:
                updates[i] += 1
        have = known
        begin, last = start, start
        for j in range(visit_offsets[i], visit_offsets[i + 1] + 1):
            over = j == visit_offsets[i + 1]
            now = end if over else visit_time[j]
            if not over:
                if now < start or now > end:
                    continue
                curve[1, min(int((now - start) / width), slices - 1)] += weight[i]
                if now > score_from:
                    visits[i] += 1
                    longest[i] = max(longest[i], now - last)
                last = now
                if some_failed and visit_failed[j]:
                    continue
            else:
                longest[i] = max(longest[i], end - last)
            until = end if over else min(now + latency, end)
            # The copy in place during [begin, until) misses every update from `place` on.
            missed = times[place] if place < high else np.inf
            if have:
                low = max(begin, score_from)
                fresh[i] += max(min(missed, until) - low, 0.0)
                for b in range(len(graces)):
                    current[i, b] += max(min(missed + graces[b], until) - low, 0.0)
                _spread(begin, min(missed, until), weight[i], start, width, curve[0])
            else:
                missed = start
            stale = max(missed, begin, score_from)
            if until > stale:
                age[i] += 0.5 * ((until - missed) ** 2 - (stale - missed) ** 2)
            begin = until
            if over:
                break
            # What the visit found.
            changed = counts = False
            while place < high and times[place] <= now:
                changed = True
                if times[place] > score_from:
                    counts = True
                    if now + latency <= end:
                        updates_seen[i] += 1
                        delay[i] += now + latency - times[place]
                    else:
                        delay[i] += end - times[place]
                place += 1
            if have:
                if now > score_from:
                    compared[i] += 1
                    found[i] += changed
                    detected[i] += counts
                if changed:
                    curve[2, min(int((now - start) / width), slices - 1)] += weight[i]
                    happened = min(int((times[place - 1] - start) / width), slices - 1)
                    curve[4, happened] += weight[i]
            have = True
        while place < high and times[place] <= end:
            if times[place] > score_from:
                delay[i] += end - times[place]
            place += 1
    return (
        fresh,
        current,
        age,
        delay,
        longest,
        updates,
        updates_seen,
        visits,
        compared,
        found,
        detected,
        curve,
    )
