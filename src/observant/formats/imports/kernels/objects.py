"""Lines of CDXJ, or of JSON alone: one flat object each."""

# ruff: noqa: ANN001, ANN201, PLR1714, SIM109
# mypy: ignore-errors

import numpy as np

from observant.formats.imports.kernels.text import (
    BLANK,
    CAREFUL,
    DIGEST,
    KEY,
    MIME,
    NINE,
    QUOTE,
    SIZE,
    SLOTS,
    STATUS,
    TIME,
    TRUNC,
    URL,
    VISIT,
    WIDEST,
    ZERO,
    digest,
    inlined,
    is_text,
    jit,
    line_end,
    settle,
    string_end,
    without_return,
)

# -- Names and digests of many rows, one behind the other, as Arrow keeps them --------------------


@jit
def gather(data, names, rows, out, offsets):
    """Copy the bytes of these rows' names one behind the other."""
    at = 0
    for k in range(len(rows)):
        begin, end = names[rows[k], 0], names[rows[k], 1]
        offsets[k] = at
        for i in range(begin, end):
            out[at] = data[i]
            at += 1
    offsets[len(rows)] = at


@jit
def pack(digests, digest_size, rows, out, offsets):
    """Copy the digests of these rows one behind the other."""
    at = 0
    for k in range(len(rows)):
        offsets[k] = at
        for i in range(digest_size[rows[k]]):
            out[at] = digests[WIDEST * rows[k] + i]
            at += 1
    offsets[len(rows)] = at


@jit
def spell(data, offsets, out, sizes):
    """Write the bytes that each digest spells; a size of -1 marks an unusual one."""
    for row in range(len(offsets) - 1):
        sizes[row] = digest(data, offsets[row], offsets[row + 1], out, WIDEST * row)


SPACE, TAB, COMMA, COLON, OPEN, CLOSE = 32, 9, 44, 58, 123, 125


@jit
def scan_json(
    data, bare, by_key, states, lines, names, times, status, size, flags, digests, digest_size
):
    """Read a block of whole lines of CDXJ, or with `bare` of JSON alone; returns their number."""
    values = names, times, status, size, flags, digests, digest_size
    spans = np.zeros((SLOTS, 2), np.int64)
    # Not plain zeros: numba would compile what they are given to once more, for those alone.
    row, begin, total = np.int64(0), np.int64(0), len(data)
    while begin < total:
        stop = line_end(data, begin)
        end = without_return(data, begin, stop)
        lines[row, 0], lines[row, 1] = begin, end
        state = CAREFUL
        spans[:] = 0
        if end == begin:
            state = BLANK
        elif bare:
            if read_object(data, begin, end, spans, bare):
                state = VISIT
        elif data[begin] != SPACE and data[begin] != 33 and data[begin] != 64:
            at = begin
            while at < end and data[at] != SPACE:
                at += 1
            key_end = at
            at += 1
            time_begin = at
            while at < end and data[at] != SPACE:
                at += 1
            if at < end:
                spans[TIME, 0], spans[TIME, 1] = time_begin, at
                if read_object(data, at + 1, end, spans, bare):
                    spans[KEY, 0], spans[KEY, 1] = begin, key_end
                    spans[TIME, 0], spans[TIME, 1] = time_begin, at
                    state = VISIT
        if state == VISIT:
            state = settle(data, spans, by_key, False, row, values)
        states[row] = state
        row += 1
        begin = stop + 1
    return row


@jit
def read_object(data, at, end, spans, inner):
    """Find the values of one flat JSON object that fills `at` to `end`; false if not certain.

    Without `inner`, a time and a key in the object are passed over: the line has its own.
    """
    plain = np.zeros(SLOTS, np.bool_)
    at = past_spaces(data, at, end)
    if at >= end or data[at] != OPEN:
        return False
    at = past_spaces(data, at + 1, end)
    if at < end and data[at] == CLOSE:
        return past_spaces(data, at + 1, end) == end
    while True:
        if at >= end or data[at] != QUOTE:
            return False
        key = at + 1
        at = string_end(data, key)
        if data[at] != QUOTE:
            return False
        slot = slot_of(data, key, at)
        if slot == -2:
            return False
        at = past_spaces(data, at + 1, end)
        if at >= end or data[at] != COLON:
            return False
        at = past_spaces(data, at + 1, end)
        if at >= end:
            return False
        quoted = data[at] == QUOTE
        if quoted:
            value = at + 1
            stop = string_end(data, value)
            if data[stop] != QUOTE:
                return False
            at = stop + 1
        else:
            value = at
            while at < end and ZERO <= data[at] <= NINE:
                at += 1
            stop = at
            if stop == value or stop - value > 15 or (data[value] == ZERO and stop - value > 1):
                return False
        at = past_spaces(data, at, end)
        if at >= end:
            return False
        if slot >= 0:
            which, other_name = slot // 2, slot % 2 == 1
            if not quoted and which != STATUS and which != SIZE:
                return False
            if inner or (which != TIME and which != KEY):
                if not other_name:
                    spans[which, 0], spans[which, 1] = value, stop
                    plain[which] = True
                elif not plain[which]:
                    spans[which, 0], spans[which, 1] = value, stop
        if data[at] == COMMA:
            at = past_spaces(data, at + 1, end)
        elif data[at] == CLOSE:
            return past_spaces(data, at + 1, end) == end
        else:
            return False


@inlined
def slot_of(data, begin, end):
    """Which slot a key of the JSON fills, times two, plus one for its short or other name."""
    size = end - begin
    if size == 1:
        sign = data[begin]
        if sign == 117:  # u
            return 2 * URL + 1
        if sign == 109:  # m
            return 2 * MIME + 1
        if sign == 115:  # s
            return 2 * STATUS + 1
        if sign == 100:  # d
            return 2 * DIGEST + 1
        if sign == 108:  # l
            return 2 * SIZE + 1
        if sign == 116:  # t
            return 2 * TIME + 1
        if sign == 107:  # k
            return 2 * KEY + 1
        return -1
    if size == 3:
        return 2 * URL if is_text(data, begin, end, b"url") else -1
    if size == 4:
        return 2 * MIME if is_text(data, begin, end, b"mime") else -1
    if size == 6:
        if is_text(data, begin, end, b"status"):
            return 2 * STATUS
        if is_text(data, begin, end, b"digest"):
            return 2 * DIGEST
        if is_text(data, begin, end, b"length"):
            return 2 * SIZE
        return 2 * KEY if is_text(data, begin, end, b"urlkey") else -1
    if size == 8:
        # Three names for one thing are rare enough for the careful reader.
        if is_text(data, begin, end, b"original") or is_text(data, begin, end, b"mimetype"):
            return -2
        return -1
    if size == 9:
        if is_text(data, begin, end, b"truncated"):
            return 2 * TRUNC
        return 2 * TIME if is_text(data, begin, end, b"timestamp") else -1
    return -2 if is_text(data, begin, end, b"statuscode") else -1


@inlined
def past_spaces(data, at, end):
    while at < end and (data[at] == SPACE or data[at] == TAB):
        at += 1
    return at


# -- A sample of sources of a fixed size, taken while rows pass by --------------------------------


UNKNOWN, UNCHANGED, CHANGED = 0, 1, 2
"""What is known of the content that a visit saw; larger numbers are hashes of digests."""


@jit
def take_sample(hashes, contents, times, slots, held, level, units, tallies):
    """Take rows into a sample of sources; returns how many it holds, and its level.

    A source is in the sample of level k if the lowest k bits of its hash are 0. `slots` has the
    hash, time and content of the last visit of each (hash 0: free). ``tallies`` counts pairs of
    visits: compared, equal; and for each unit of time, how many were in one and the same unit,
    and how many would be if the units began anywhere.
    """
    mask = np.uint64(len(slots) - 1)
    for row in range(len(hashes)):
        h = hashes[row]
        if h & ((np.uint64(1) << np.uint64(level)) - np.uint64(1)):
            continue
        slot = (h >> np.uint64(20)) & mask
        while slots[slot, 0] != 0 and slots[slot, 0] != h:
            slot = (slot + np.uint64(1)) & mask
        known = slots[slot, 0] == h
        content = contents[row]
        if content == UNCHANGED or content == CHANGED:
            tallies[0] += 1
            tallies[1] += content == UNCHANGED
        elif known and content != UNKNOWN and slots[slot, 2] != UNKNOWN:
            tallies[0] += 1
            tallies[1] += content == slots[slot, 2]
        if known:
            before = np.int64(slots[slot, 1])
            gap = abs(times[row] - before)
            for k in range(len(units)):
                if gap < units[k]:
                    tallies[3 + 2 * k] += 1.0 - gap / units[k]
                    if times[row] // units[k] == before // units[k]:
                        tallies[2 + 2 * k] += 1
        else:
            slots[slot, 0] = h
            held += 1
        slots[slot, 1] = np.uint64(times[row])
        if content > CHANGED:
            slots[slot, 2] = content
        if 2 * held > len(slots):
            level += 1
            kept = slots.copy()
            slots[:] = 0
            held = 0
            for old in range(len(kept)):
                h = kept[old, 0]
                if h == 0 or h & ((np.uint64(1) << np.uint64(level)) - np.uint64(1)):
                    continue
                slot = (h >> np.uint64(20)) & mask
                while slots[slot, 0] != 0:
                    slot = (slot + np.uint64(1)) & mask
                slots[slot] = kept[old]
                held += 1
    return held, level
