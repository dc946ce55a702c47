"""Siblings change together: a shared clock for every group of sources. Compiled.

Sources of one folder, host or template are often updated at once (a deploy, an edit of a series).
So each group keeps an **activity**: how much faster than usual its sources changed, bin of time
after bin of time. A source's own time is then not the time on the wall, but what the clock of its
group shows, which runs fast where the group was active. The index is taken at that time; rates are
learned in the time on the wall. When a visit finds a change, the bins between it and the visit
before become more active, and every sibling that was last visited before them is wanted earlier.
One that was visited since is not.

Groups form a tree: the whole collection, hosts, folders. The activity of a group in a bin is

    (K · activity of its parent + changes found there) / (K + changes expected there)

so a group speaks for itself only as far as its own visits say something. A change found in a window
of several bins is shared among them in proportion to their activity.
What a group's own visits weigh against the group above, K, is learned: several K are kept side by
side, with ordinary time beside them, and each counts by how well it would have predicted the
outcomes so far. Where sources change together K is small; where they do not, their own time is the
ordinary one. Whether a change belongs where its date says is found out in the same way.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201

import math

import numpy as np

from observant.compiled import borrowing

BINS = 256
"""Bins of time that are remembered; what is older counts as usual."""

STEP = 8
"""What a clock shows is kept for the start of each bin of so many; between them it is added up."""

BELIEFS = np.array([0.3, 3.0, 20.0, 0.3, 3.0])
"""The K that are tried: expected changes for which the group above stands."""

SPREAD = 3
"""So many of them share a change among all bins in which it may have been. The others put it where
the source says that it was: better where updates come at once, worse where busy times last."""

BLEND = len(BELIEFS)
"""Of `activity` and `shown`: the place of what is believed, after those of each K."""

_ENOUGH = 30.0
"""Changes that must be expected before it counts that more or fewer were found."""

_OPEN = 80
"""Bins back that are still judged anew; of what is older, nearly all is known."""

SHARED = np.dtype(
    [
        ("width", "f8"),  # of a bin, in days
        ("memory", "f8"),  # visits after which a judgement has faded to 1/e
        ("score", "f8", (BLEND + 1,)),  # log score of each K, and of ordinary time
        ("weight", "f8", (BLEND + 1,)),  # how far each is believed
        ("level", "f8"),  # changes found for each that was expected
        ("bin", "i8"),  # the newest bin, counted from time 0
        ("oldest", "i8"),
        ("due", "f8"),  # when to refresh next
        ("round", "f8"),  # when to move everybody next
        ("slack", "f8"),  # days by which a clock may be put right before its sources move
        ("stale", "i8"),  # sources came or went since the groups were listed
        ("owed", "i8"),  # places before this one are still to be moved in the round under way
        ("nodes", "i8"),
        ("dated", "i8"),  # some source has told when it changed
    ]
)


@borrowing
def elapsed(shared, activity, shown, since, now):
    """What a clock shows between two times. `shown` is what it shows at the start of some bins."""
    first = math.floor(since / shared.width)
    newest = shared.bin % BINS  # it goes on until the next refresh
    if first >= shared.bin:
        return (now - since) * activity[newest]
    rest = max(now - shared.bin * shared.width, 0.0) * activity[newest]
    if first < shared.oldest:  # before we remember: an ordinary time
        ordinary = shared.oldest * shared.width - since
        return ordinary + since_bin(shared, activity, shown, shared.oldest) + rest
    inside = since - first * shared.width
    return since_bin(shared, activity, shown, first) + rest - inside * activity[first % BINS]


@borrowing
def since_bin(shared, activity, shown, first):
    """What a clock shows from the start of a bin to that of the newest."""
    after, before = -(-first // STEP) * STEP, shared.bin // STEP * STEP
    if after >= before:
        after = before = shared.bin
    total = 0.0
    for b in range(first, after):
        total += activity[b % BINS]
    for b in range(before, shared.bin):
        total += activity[b % BINS]
    if after < before:
        kept = BINS // STEP
        total += (shown[before // STEP % kept] - shown[after // STEP % kept]) / shared.width
    return total * shared.width


@borrowing
def attribute(
    shared, node, parent, found, placed, expected, activity, news, since, now, changes, chance, at
):
    """Share a comparison among the bins it covers, for the group and all groups above it.

    `changes` is what was found, 0 or 1; `chance` what was expected of an ordinary time. `at` is
    when the update was, where that is known: `placed` has it there, `found` shares it as ever.
    """
    if shared.dated == 0 and not math.isnan(at):
        shared.dated = 1
        for j in range(SPREAD, BLEND):
            shared.score[j] = shared.score[j - SPREAD]
    first = max(math.floor(since / shared.width), shared.oldest)
    last = min(math.floor(now / shared.width), shared.bin)
    if last < first:
        return
    total = 0.0
    for b in range(first, last + 1):
        total += overlap(shared, b, last, since, now) * activity[node, b % BINS, BLEND]
    begin = max(since, first * shared.width)
    if not (total > 0 and now > begin):
        return
    chance *= (now - begin) / (now - since)
    for b in range(first, last + 1):
        inside = overlap(shared, b, last, since, now)
        usual = chance * inside / (now - begin)
        seen = told = changes * inside * activity[node, b % BINS, BLEND] / total
        if not math.isnan(at):
            told = 1.0 if b == min(max(math.floor(at / shared.width), first), last) else 0.0
        above = node
        while above >= 0:
            news[above] |= changes > 0
            expected[above, b % BINS] += usual
            found[above, b % BINS] += seen
            placed[above, b % BINS] += told
            above = parent[above]


@borrowing
def overlap(shared, b, last, since, now):
    """Days of a bin within a window; the newest bin goes on until the next refresh."""
    stop = now if b == last else min(now, (b + 1) * shared.width)
    return max(stop - max(since, b * shared.width), 0.0)


@borrowing
def refresh(shared, parent, found, placed, expected, activity, shown, moved, news, now):
    """Begin new bins, and find the activity of every group anew; parents come before children.

    `moved` adds up by how much the clock of each group was put right. Between two rounds, only
    groups with `news` are looked at, and those below a group that moved.
    """
    newest = math.floor(now / shared.width)
    whole = newest > shared.bin or now >= shared.round
    # After a long pause there are many new bins, and none may keep what its place held before.
    reach = min(shared.bin, newest - _OPEN)
    if newest > shared.bin:
        for b in range(max(shared.bin + 1, newest - BINS + 1), newest + 1):
            for node in range(shared.nodes):
                found[node, b % BINS] = placed[node, b % BINS] = expected[node, b % BINS] = 0.0
        shared.bin = newest
        shared.oldest = max(shared.oldest, newest - BINS + 1)
    set_level(shared, found[0], expected[0])
    for node in range(shared.nodes):
        above = parent[node]
        if not (whole or news[node] or (above >= 0 and moved[above] > shared.slack)):
            continue
        news[node] = False
        for b in range(max(shared.oldest, reach), shared.bin + 1):
            k = b % BINS
            believed = shared.weight[BLEND]
            for j in range(BLEND if shared.dated else SPREAD):
                usual = 1.0 if above < 0 else activity[above, k, j]
                seen = found[node, k] if j < SPREAD else placed[node, k]
                own = (BELIEFS[j] * usual + seen) / (BELIEFS[j] + shared.level * expected[node, k])
                activity[node, k, j] = own
                believed += shared.weight[j] * own
            moved[node] += shared.width * abs(believed - activity[node, k, BLEND])
            activity[node, k, BLEND] = believed
        note_shown(shared, activity[node], shown[node], max(shared.oldest, reach))


@borrowing
def note_shown(shared, activity, shown, first):
    """Note what clocks show after a bin from which on their activity was found anew.

    Only differences between two times are ever read: the first that is remembered may be anything.
    """
    kept = BINS // STEP
    begin = max(first // STEP, -(-shared.oldest // STEP))
    if begin >= shared.bin // STEP:
        return
    for j in range(BLEND + 1):
        total = shown[begin % kept, j]
        for at in range(begin, shared.bin // STEP):
            for b in range(at * STEP, (at + 1) * STEP):
                total += shared.width * activity[b % BINS, j]
            shown[(at + 1) % kept, j] = total


@borrowing
def set_level(shared, found, expected):
    """Expectations may be too high or too low everywhere; that says nothing of any one bin."""
    seen = foreseen = _ENOUGH
    for b in range(shared.oldest, shared.bin + 1):
        seen += found[b % BINS]
        foreseen += expected[b % BINS]
    shared.level = seen / foreseen


@borrowing
def score(shared, j, chance, changed):
    """Judge a belief by the chance it gave to what happened."""
    shared.score[j] *= 1.0 - 1.0 / shared.memory
    shared.score[j] += math.log(chance if changed else 1 - chance)


@borrowing
def weigh(shared):
    """Believe each K, and ordinary time, as far as the scores speak for it."""
    best = shared.score[BLEND]
    for j in range(BLEND if shared.dated else SPREAD):
        best = max(best, shared.score[j])
    total = 0.0
    for j in range(BLEND + 1):
        idle = SPREAD <= j < BLEND and shared.dated == 0
        shared.weight[j] = 0.0 if idle else math.exp(shared.score[j] - best)
        total += shared.weight[j]
    for j in range(BLEND + 1):
        shared.weight[j] /= total
