"""Compiled loop of the filters: one source after the other, all methods side by side.

A run is a stretch of visits with one rate. What is known of the rate within a run depends on where
the run began, not on the hazard; so the runs are shared by all hazards, and only their weights are
kept for each. The constant rate is the hazard 0.

Import this only where it is used: numba takes a second to load.
"""

import math

import numpy as np

from observant.compiled import jit, vector

CHANGED, DATED = 1, 2
FLOOR = 1e-250  # no rate is ever impossible, so that any later visit can be taken in
SLOPE, PATIENCE = 0.06, 2  # how far the stretch of a change of rate goes on: see `grown`
NEGLIGIBLE = 1e-6  # a run of less weight than this under every hazard is dropped


@jit
def follow(
    offsets,
    gaps,
    kind,
    ages,
    rates,
    start,  # prior of the first run, one row a group
    restart,  # prior of later runs, one row a group
    group,
    hazards,
    discounts,
    share,  # of each method before the first visit: hazards, then discounts
    keep,
    score,  # out: log probability of the history under each method
    now,  # out: what is known of each rate after the last visit
    after,  # out: the same for the time after it, when the rate may have changed again
    settled,  # out: what was known before the last visit that saw a change
    chance,  # out, or empty: probability of a change before each visit was made
    belief,  # out, or empty: what was known of the rate after each visit
    boundary,  # out, or empty: probability that a run begins at each visit, seen from the end
):
    """Filter every source of a block; see `experts` for the meaning."""
    points, many, fading = len(rates), len(hazards), len(discounts)
    methods = many + fading
    longest = 0
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    looking_back = len(boundary) > 0
    kept = longest if looking_back else 0

    log_rates, log_fresh = np.log(rates), np.empty(points)
    runs = np.empty((keep, points))
    weight = np.empty((many, keep))
    begun = np.empty(keep, np.int64)
    faded = np.empty((fading, points))  # logarithms
    shown = np.empty((fading, points))  # the same, as probabilities
    likelihood, log_l = np.empty(points), np.empty(points)
    hit, mixed = np.empty(points), np.empty(points)
    of_run, hit_of_run = np.empty(keep), np.empty(keep)
    of_method, hit_of_method = np.empty(methods), np.empty(methods)
    log_share, part = np.empty(methods), np.empty(methods)
    held = np.empty(kept, np.int64)
    held_begun = np.empty((kept, keep), np.int32)
    held_weight = np.empty((kept, many, keep), np.float32)
    begins = np.empty(kept)

    for i in range(len(offsets) - 1):
        first, n = offsets[i], offsets[i + 1] - offsets[i]
        prior, fresh = start[group[i]], restart[group[i]]
        log_fresh[:] = np.log(np.maximum(fresh, FLOOR))
        alive = np.int64(1)  # a plain 1 would be a type of its own: all is compiled for it, too
        runs[0] = prior
        weight[:, 0] = 1.0
        begun[0] = 0
        for d in range(fading):
            faded[d] = np.log(np.maximum(prior, FLOOR))
            shown[d] = prior
        for m in range(methods):
            log_share[m] = math.log(share[m]) if share[m] > 0 else -math.inf
            score[i, m] = 0.0

        before_change = n - 2  # the comparison before the last one that saw a change
        while before_change >= 0 and not kind[first + before_change + 1] & CHANGED:
            before_change -= 1
        settled[i] = prior

        for j in range(n):
            dated_change = observe(
                kind[first + j],
                gaps[first + j],
                ages[first + j],
                rates,
                log_rates,
                likelihood,
                log_l,
                hit,
            )
            if j > 0:
                alive = branch(runs, weight, begun, alive, hazards, fresh, j)
                for d in range(fading):
                    fade(faded[d], shown[d], discounts[d], log_fresh)

            for r in range(alive):
                of_run[r] = max(dot(runs[r], likelihood), FLOOR)
                hit_of_run[r] = dot(runs[r], hit) if dated_change else 0.0
                times(runs[r], likelihood)
            for h in range(many):
                p = q = 0.0
                for r in range(alive):
                    p += weight[h, r] * of_run[r]
                    q += weight[h, r] * hit_of_run[r]
                    weight[h, r] *= of_run[r]
                for r in range(alive):
                    weight[h, r] /= p
                of_method[h], hit_of_method[h] = p, q if dated_change else p
            for d in range(fading):
                of_method[many + d] = max(dot(shown[d], likelihood), FLOOR)
                p = of_method[many + d]
                hit_of_method[many + d] = dot(shown[d], hit) if dated_change else p
                for k in range(points):
                    faded[d, k] += log_l[k]

            if len(chance) > 0:
                normalised(log_share, part)
                p = min(dot(part, hit_of_method), 1.0)
                chance[first + j] = p if kind[first + j] & CHANGED else 1.0 - p
            for m in range(methods):
                gained = math.log(of_method[m])
                log_share[m] += gained
                score[i, m] += gained
            alive = drop_negligible(runs, weight, begun, alive)
            if looking_back:
                held[j] = alive
                for r in range(alive):
                    held_begun[j, r] = begun[r]
                    for h in range(many):
                        held_weight[j, h, r] = weight[h, r]
            if len(belief) > 0 or j == before_change:
                normalised(log_share, part)
                for d in range(fading):
                    to_probabilities(faded[d], shown[d])
                mix(runs, weight, alive, shown, part, mixed)
                if len(belief) > 0:
                    belief[first + j] = mixed
                if j == before_change:
                    settled[i] = mixed

        normalised(log_share, part)
        for d in range(fading):
            to_probabilities(faded[d], shown[d])
        mix(runs, weight, alive, shown, part, mixed)
        now[i] = mixed
        if n > 0:
            alive = branch(runs, weight, begun, alive, hazards, fresh, n)
            for d in range(fading):
                fade(faded[d], shown[d], discounts[d], log_fresh)
            mix(runs, weight, alive, shown, part, mixed)
        after[i] = mixed

        if looking_back and n > 0:
            boundary[first : first + n] = 0.0
            total = 0.0
            for h in range(many):
                total += part[h]
            for h in range(many):
                if hazards[h] > 0 and total > 0:
                    look_back(n, h, held, held_begun, held_weight, begins)
                    for j in range(1, n):
                        boundary[first + j] += part[h] / total * begins[j]


@jit
def observe(kind, gap, age, rates, log_rates, likelihood, log_l, hit):
    """Probability of one comparison under each rate, and of a change in its gap."""
    changed, dated = kind & CHANGED, kind & DATED
    for k in range(len(rates)):
        quiet = math.exp(-rates[k] * gap)
        hit[k] = -math.expm1(-rates[k] * gap)
        if not changed:
            log_l[k] = -rates[k] * gap
            likelihood[k] = quiet
        elif dated:
            log_l[k] = log_rates[k] - rates[k] * age
            likelihood[k] = math.exp(log_l[k])
        else:
            log_l[k] = math.log(hit[k])
            likelihood[k] = hit[k]
    return changed and dated


@jit
def branch(runs, weight, begun, alive, hazards, fresh, j):
    """Let a new run begin at comparison j; the least likely one makes room if need be."""
    if hazards.max() <= 0:
        return alive
    slot = alive
    if alive == len(runs):
        slot, least = 0, math.inf
        for r in range(alive):
            most = weight[:, r].max()
            if most < least:
                slot, least = r, most
        for h in range(len(hazards)):
            rest = 1.0 - weight[h, slot]
            for r in range(alive):
                weight[h, r] /= rest
    else:
        alive += 1
    runs[slot] = fresh
    begun[slot] = j
    for h in range(len(hazards)):
        weight[h, slot] = 0.0
        for r in range(alive):
            weight[h, r] *= 1.0 - hazards[h]
        weight[h, slot] = hazards[h]
    return alive


@jit
def fade(faded, shown, discount, log_fresh):
    for k in range(len(faded)):
        faded[k] = discount * faded[k] + (1.0 - discount) * log_fresh[k]
    to_probabilities(faded, shown)


@jit
def to_probabilities(logs, shown):
    """Probabilities from logarithms, which are shifted so that these add up to one."""
    highest = logs.max()
    total = 0.0
    for k in range(len(logs)):
        shown[k] = math.exp(logs[k] - highest)
        total += shown[k]
    shift = highest + math.log(total)
    for k in range(len(logs)):
        logs[k] -= shift
        shown[k] /= total


@jit
def normalised(logs, shown):
    highest = logs.max()
    total = 0.0
    for m in range(len(logs)):
        shown[m] = math.exp(logs[m] - highest)
        total += shown[m]
    shown /= total


@jit
def drop_negligible(runs, weight, begun, alive):
    r = alive - 1
    while r >= 0:
        if weight[:, r].max() < NEGLIGIBLE:
            alive -= 1
            runs[r] = runs[alive]
            begun[r] = begun[alive]
            weight[:, r] = weight[:, alive]
        r -= 1
    return alive


@vector
def dot(a, b):
    total = 0.0
    for k in range(len(a)):
        total += a[k] * b[k]
    return total


@vector
def times(run, likelihood):
    """Bayes' rule."""
    total = 0.0
    for k in range(len(run)):
        run[k] *= likelihood[k]
        total += run[k]
    scale = 1.0 / max(total, FLOOR)
    for k in range(len(run)):
        run[k] = max(run[k] * scale, FLOOR)


@jit
def mix(runs, weight, alive, shown, part, mixed):
    """What all methods together know of the rate."""
    many = len(weight)
    mixed[:] = 0.0
    for r in range(alive):
        share = 0.0
        for h in range(many):
            share += part[h] * weight[h, r]
        if share > 0:
            for k in range(len(mixed)):
                mixed[k] += share * runs[r, k]
    for d in range(len(shown)):
        share = part[many + d]
        for k in range(len(mixed)):
            mixed[k] += share * shown[d, k]
    mixed /= mixed.sum()


@jit
def look_back(n, h, held, held_begun, held_weight, begins):
    """Probability that a run begins at each comparison, given all of them.

    Where a run begins, what came before does not depend on what comes after. So the run before it
    is distributed as the filter knew it at that moment, and one pass backward is exact.
    """
    begins[:n] = 0.0
    for r in range(held[n - 1]):
        begins[held_begun[n - 1, r]] += held_weight[n - 1, h, r]
    for j in range(n - 1, 0, -1):
        if begins[j] > 1e-12:
            for r in range(held[j - 1]):
                begins[held_begun[j - 1, r]] += begins[j] * held_weight[j - 1, h, r]


@jit
def grown(mass, edge, step, limit, least):
    """Go on from an edge while there is some mass within the next few visits."""
    j, lower = edge + step, 0
    while j != limit and lower < PATIENCE:
        if mass[j] > least:
            edge, lower = j, 0
        else:
            lower += 1
        j += step
    return edge


@jit
def find_peaks(offsets, boundary, longest, found, low, middle, high, probability):
    """Stretches of at most `longest` visits in which a run began more likely than not.

    The shortest stretch that holds probability ½ comes first; it then grows down its slopes, is
    written down and wiped out, until no such stretch is left. `found` is counted per source; the
    rest is written one after the other, in order of time within a source.
    """
    total = 0
    mass = boundary.copy()
    for i in range(len(offsets) - 1):
        begin, end = offsets[i], offsets[i + 1]
        of_source = total
        while True:
            best, at, upto, inside = longest + 1, -1, -1, 0.0
            b, held = begin, 0.0
            for a in range(begin, end):
                while b < end and held < 0.5:
                    held += mass[b]
                    b += 1
                if held < 0.5:
                    break
                if b - a < best or (b - a == best and held > inside):
                    best, at, upto, inside = b - a, a, b, held
                held -= mass[a]
            if at < 0:
                break
            least = SLOPE * mass[at:upto].max()
            at = grown(mass, at, -1, begin - 1, least)
            upto = grown(mass, upto - 1, 1, end, least) + 1
            inside = mass[at:upto].sum()
            place = total
            while place > of_source and middle[place - 1] > at:
                for column in (low, middle, high):
                    column[place] = column[place - 1]
                probability[place] = probability[place - 1]
                place -= 1
            probability[place] = min(inside, 1.0)
            passed = 0.0
            low[place] = middle[place] = high[place] = upto - 1
            for j in range(upto - 1, at - 1, -1):
                passed += mass[j]
                if passed <= 0.05 * inside:
                    high[place] = j - 1
                if passed <= 0.5 * inside:
                    middle[place] = j - 1
                if passed <= 0.95 * inside:
                    low[place] = j - 1
            mass[at:upto] = 0.0
            total += 1
            if total == len(low):
                found[i] = total - of_source
                return total
        found[i] = total - of_source
    return total
