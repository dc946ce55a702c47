"""What the scheduler keeps of each source and host, in flat records, and its two heaps. Compiled.

One heap holds the sources that wait for the price: they may be visited before their time when
there is budget to spare. The other holds those that wait for a time: new ones, failed ones, those
whose host rests, and those on their way. Every source knows its place, so moving it costs O(log n).
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201

import numpy as np

from observant.compiled import borrowing, inner
from observant.times import HOURS

SOURCE = np.dtype(
    [
        ("last", "f8"),  # time of the last good visit; −inf before the first
        ("key", "f8"),  # when it is due
        ("priced", "f8"),  # the price its key was made at
        ("period", "f8"),  # the last crossing found: a start for the next search
        ("wait", "f8"),  # the time since the last visit at which it is due
        ("importance", "f8"),
        ("cost", "f8"),
        ("grace", "f4"),
        ("age", "f4"),  # at the first visit, where it was told; else −1
        ("minimum", "f8"),  # shortest and longest period
        ("maximum", "f4"),
        ("visits", "i4"),
        ("host", "i4"),
        ("group", "i4"),  # whose prior it has
        ("node", "i4"),  # its group in the tree of siblings, or −1
        ("sibling", "i4"),  # another source of its group, or −1
        ("position", "i4"),  # in its heap, or −1
        ("follower", "i4"),  # next in the queue of its host, or −1
        ("failures", "i1"),  # in a row
        ("heap", "i1"),  # PRICED or TIMED
        ("state", "i1"),
        ("why", "i1"),
    ]
)
GIVEN = np.dtype(
    [
        ("rate", "f8"),
        ("silent", "f8"),  # a of `crossing`: changes a day that no signal announces
        ("signal", "f8"),  # g: signals a day, true and false
        ("false", "f8"),  # ν: those of them that are false
        ("signals", "i8"),  # since the last visit
    ]
)
HOST = np.dtype(
    [
        ("free", "f8"),  # when it may be visited again
        ("delay", "f8"),  # at least, between two visits
        ("interval", "f8"),  # on average, between two visits
        ("booked", "f8"),  # until when its average is used up
        ("price", "f8"),  # of its own, at least the price of all
        ("front", "i8"),  # the waiting source that is in the heap, or −1
        ("tail", "i8"),  # the end of the queue behind it
    ]
)
HEAP = np.dtype([("key", "f8"), ("source", "i4")])
CLOCK = np.dtype(
    [
        ("time", "f8"),
        ("budget", "f8"),
        ("burst", "f8"),
        ("savings", "f8"),
        ("ready", "f8"),  # savings at which a source may be visited before its time
        ("price", "f8"),
        ("spent", "f8"),
        ("gain", "f8"),  # of the price controller, per visit
        ("jitter", "f8"),
        ("explore", "f8"),
        ("lease", "f8"),
        ("retry", "f8"),
        ("longest", "f8"),  # days that a source waits which visits cannot keep current
        ("importance", "f8"),  # of all sources, on average
        ("drift", "f8"),  # days after which a rate is drawn anew, on average
        ("age_weight", "f8"),  # how far the age at the first visit is believed
        ("code", "i8"),
        ("learning", "i8"),
        ("channels", "i8"),  # of signals
        ("starved", "i8"),  # nothing was saved when somebody was due
        ("length", "i8", (2,)),  # of the heaps
        ("slots", "i8"),
        ("cursor", "i8"),
        ("seed", "i8"),
        ("paced", "i8"),  # whether the budget of a day is spent at other hours than evenly
        ("through", "f8", (HOURS + 1,)),  # then: the share of it that is spent by each hour
    ]
)
GONE, WAITING, AWAY, QUEUED, LEAVING = 0, 1, 2, 3, 4
PRICED, TIMED = 0, 1  # waits for the price, or for a time that cannot be brought forward
CROSSING, BOUND, NEW, RETRY, POLITE = 0, 1, 2, 3, 4


@borrowing
def before(key, i, other):
    """Earlier key first; equal keys in order of their slots, so that runs repeat exactly."""
    return key < other.key or (key == other.key and i < other.source)


@inner
def settle_at(sources, heap, at, key, i):
    heap[at].key, heap[at].source = key, i
    sources[i].position = at


@inner
def rise(sources, heap, at):
    key, i = heap[at].key, heap[at].source
    while at > 0 and before(key, i, heap[(at - 1) >> 1]):
        above = heap[(at - 1) >> 1]
        settle_at(sources, heap, at, above.key, above.source)
        at = (at - 1) >> 1
    settle_at(sources, heap, at, key, i)


@inner
def sink(sources, heap, length, at):
    key, i = heap[at].key, heap[at].source
    while True:
        child = 2 * at + 1
        if child >= length:
            break
        below = heap[child]
        if child + 1 < length and before(heap[child + 1].key, heap[child + 1].source, below):
            child += 1
            below = heap[child]
        if before(key, i, below):
            break
        settle_at(sources, heap, at, below.key, below.source)
        at = child
    settle_at(sources, heap, at, key, i)


@inner
def put(sources, heaps, clock, i):
    """Into its heap, or to its new place there."""
    source = sources[i]
    which = PRICED if source.state == WAITING and source.why <= BOUND else TIMED
    if source.position >= 0 and source.heap != which:
        pull(sources, heaps, clock, i)
    source.heap = which
    at = source.position
    if at < 0:
        at = clock.length[which]
        clock.length[which] += 1
    settle_at(sources, heaps[which], at, source.key, i)
    rise(sources, heaps[which], at)
    sink(sources, heaps[which], clock.length[which], source.position)


@inner
def pull(sources, heaps, clock, i):
    at, which = sources[i].position, sources[i].heap
    if at < 0:
        return
    heap = heaps[which]
    clock.length[which] -= 1
    length = clock.length[which]
    sources[i].position = -1
    if at < length:
        moved = np.int64(heap[length].source)
        settle_at(sources, heap, at, heap[length].key, moved)
        rise(sources, heap, at)
        sink(sources, heap, length, sources[moved].position)


@borrowing
def first(heaps, clock):
    """The heap whose top comes first, or −1 when both are empty."""
    if clock.length[PRICED] == 0:
        return TIMED if clock.length[TIMED] > 0 else -1
    if clock.length[TIMED] == 0 or heaps[PRICED, 0].key <= heaps[TIMED, 0].key:
        return PRICED
    return TIMED
