"""Compiled loops of the line readers: they find the fields of a visit in a block of lines.

A loop only takes a line that it is certain of, and marks every other one for the careful reader
in Python, which alone decides what is malformed. So both give the same visits.

Import this only where it is used: numba takes a second to load.
"""

# ruff: noqa: PLR1714, SIM109, SIM110 - numba compiles loops and comparisons, not generators
import numba
import numpy as np
from numba.core import cgutils, types

from observant.visits.kernels import word

__all__ = [
    "BLANK",
    "CAREFUL",
    "LEFT_OUT",
    "REVISIT",
    "TRUNCATED",
    "VISIT",
    "gather",
    "pack",
    "scan_fields",
    "scan_json",
    "spell",
    "take_sample",
]

jit = numba.njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
# Not inline="always": LLVM does it as well, and numba takes twice the time to compile.
inlined = numba.njit(nogil=True, boundscheck=False, error_model="numpy")

VISIT, BLANK, CAREFUL, LEFT_OUT = 0, 1, 2, 3
REVISIT, TRUNCATED = 1, 2
NO_STATUS, NO_SIZE = -32768, -1
WIDEST = 64
"""Bytes that are kept for the digest of a row."""

QUOTE, BACKSLASH, SPACE, TAB, COMMA, COLON = 34, 92, 32, 9, 44, 58
OPEN, CLOSE, MINUS, ZERO, NINE = 123, 125, 45, 48, 57

# What is known of the content that a visit saw; larger numbers are hashes of digests.
UNKNOWN, UNCHANGED, CHANGED = 0, 1, 2

# Slots of a line.
URL, KEY, DIGEST, STATUS, SIZE, MIME, TRUNC, TIME, FILE, NOTES, SLOTS = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
)


@numba.extending.intrinsic
def zeros_below(_context, number):  # noqa: ARG001 - numba wants the names
    """How many zeros follow the lowest one of the bits of a number that is not 0."""

    def count(_context, builder, _signature, arguments):
        return builder.cttz(arguments[0], cgutils.false_bit)

    return types.uint64(types.uint64), count


ONES = np.uint64(0x0101010101010101)
HIGHS = np.uint64(0x8080808080808080)
QUOTES, BACKSLASHES, SPACES, NEWLINES = (ONES * np.uint64(sign) for sign in (34, 92, 32, 10))


@inlined
def zero_bytes(number):
    """Marks the zero bytes of a word; only the lowest mark is certain, and it is all we need."""
    return (number - ONES) & ~number & HIGHS


@inlined
def line_end(data, at):
    """Where the line ends; there is an end, always."""
    while at + 8 <= len(data):
        found = zero_bytes(word(data, at) ^ NEWLINES)
        if found:
            return at + np.int64(zeros_below(found) >> np.uint64(3))
        at += 8
    while data[at] != 10:
        at += 1
    return at


@inlined
def string_end(data, at):
    """Where the string ends: at a quote, or at a backslash or control sign it should not have."""
    while at + 8 <= len(data):
        eight = word(data, at)
        found = zero_bytes(eight ^ QUOTES) | zero_bytes(eight ^ BACKSLASHES)
        found |= (eight - SPACES) & ~eight & HIGHS
        if found:
            return at + np.int64(zeros_below(found) >> np.uint64(3))
        at += 8
    while data[at] != QUOTE and data[at] != BACKSLASH and data[at] >= 32:
        at += 1
    return at


@inlined
def is_text(data, begin, end, text):
    if end - begin != len(text):
        return False
    for i in range(len(text)):
        if data[begin + i] != text[i]:
            return False
    return True


@inlined
def starts_with(data, begin, end, text):
    return end - begin >= len(text) and is_text(data, begin, begin + len(text), text)


@inlined
def contains(data, begin, end, text):
    for at in range(begin, end - len(text) + 1):
        if is_text(data, at, at + len(text), text):
            return True
    return False


@jit
def instant(data, begin, end):
    """Microseconds since 1970 of 14 digits, or 17 with milliseconds; -1 for all else."""
    size = end - begin
    if size != 14 and size != 17:
        return np.int64(-1)
    for i in range(begin, end):
        if data[i] < ZERO or data[i] > NINE:
            return np.int64(-1)
    year = np.int64(0)
    for i in range(begin, begin + 4):
        year = year * 10 + data[i] - ZERO
    month = np.int64(data[begin + 4] - ZERO) * 10 + data[begin + 5] - ZERO
    day = np.int64(data[begin + 6] - ZERO) * 10 + data[begin + 7] - ZERO
    hour = np.int64(data[begin + 8] - ZERO) * 10 + data[begin + 9] - ZERO
    minute = np.int64(data[begin + 10] - ZERO) * 10 + data[begin + 11] - ZERO
    second = np.int64(data[begin + 12] - ZERO) * 10 + data[begin + 13] - ZERO
    if year < 1970 or year > 2199 or month < 1 or month > 12 or day < 1 or day > 28:
        # The last days of a month are looked at by somebody with a calendar.
        if year < 1970 or year > 2199 or month < 1 or month > 12 or day < 1:
            return np.int64(-1)
        longest = 31
        if month == 4 or month == 6 or month == 9 or month == 11:
            longest = 30
        elif month == 2:
            leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
            longest = 29 if leap else 28
        if day > longest:
            return np.int64(-1)
    if hour > 23 or minute > 59 or second > 59:
        return np.int64(-1)
    # Days since 1970 by counting years from March (Hinnant's days_from_civil).
    y = year - 1 if month <= 2 else year
    era = y // 400
    of_era = y - era * 400
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    days = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
    micros = ((days * 24 + hour) * 60 + minute) * 60 + second
    micros *= 1_000_000
    if size == 17:
        thousandths = np.int64(0)
        for i in range(begin + 14, end):
            thousandths = thousandths * 10 + data[i] - ZERO
        micros += thousandths * 1000
    return micros


@inlined
def hexadecimal(sign):
    if ZERO <= sign <= NINE:
        return np.int64(sign) - ZERO
    if 97 <= sign <= 102:
        return np.int64(sign) - 87
    if 65 <= sign <= 70:
        return np.int64(sign) - 55
    return np.int64(-1)


@jit
def digest(data, begin, end, out, at):
    """Write the bytes that a digest spells; return how many, 0 for none, -1 for unusual ones."""
    if end == begin or (end - begin == 1 and data[begin] == MINUS):
        return np.int64(0)
    sha1 = sha256 = False
    if starts_with(data, begin, end, b"sha1:"):
        begin += 5
        sha1 = True
    elif starts_with(data, begin, end, b"sha256:"):
        begin += 7
        sha256 = True
    size = end - begin
    if size == 32 and not sha256:
        for group in range(4):
            bits = np.uint64(0)
            for i in range(begin + 8 * group, begin + 8 * group + 8):
                sign = data[i]
                if 65 <= sign <= 90:
                    bits = (bits << np.uint64(5)) | np.uint64(sign - 65)
                elif 50 <= sign <= 55:
                    bits = (bits << np.uint64(5)) | np.uint64(sign - 24)
                else:
                    return np.int64(-1)
            for k in range(5):
                out[at + 5 * group + k] = np.uint8((bits >> np.uint64(32 - 8 * k)) & np.uint64(255))
        return np.int64(20)
    if (size == 40 and not sha256) or (size == 64 and not sha1):
        for k in range(size // 2):
            high, low = hexadecimal(data[begin + 2 * k]), hexadecimal(data[begin + 2 * k + 1])
            if high < 0 or low < 0:
                return np.int64(-1)
            out[at + k] = np.uint8(high * 16 + low)
        return np.int64(size // 2)
    return np.int64(-1)


@inlined
def whole(data, begin, end, longest):
    """A whole number without sign or leading zero; -1 for nothing or a dash, -2 for all else."""
    if end == begin or (end - begin == 1 and data[begin] == MINUS):
        return np.int64(-1)
    if end - begin > longest or (data[begin] == ZERO and end - begin > 1):
        return np.int64(-2)
    number = np.int64(0)
    for i in range(begin, end):
        if data[i] < ZERO or data[i] > NINE:
            return np.int64(-2)
        number = number * 10 + data[i] - ZERO
    return number


@jit
def settle(data, spans, row, times, status, size, flags, digests, digest_size, allow_negative):
    """From the spans of a line's fields to its values; says what kind of line it is."""
    begin, end = spans[URL, 0], spans[URL, 1]
    if end <= begin or (end - begin == 1 and data[begin] == MINUS):
        return CAREFUL
    if (
        starts_with(data, begin, end, b"dns:")
        or starts_with(data, begin, end, b"whois:")
        or starts_with(data, begin, end, b"filedesc:")
        or starts_with(data, begin, end, b"warcinfo:")
    ):
        return CAREFUL
    micros = instant(data, spans[TIME, 0], spans[TIME, 1])
    if micros < 0:
        return CAREFUL
    negative = (
        allow_negative
        and spans[STATUS, 1] - spans[STATUS, 0] > 1
        and data[spans[STATUS, 0]] == MINUS
    )
    code = whole(data, spans[STATUS, 0] + (1 if negative else 0), spans[STATUS, 1], 4)
    if code == -2:
        return CAREFUL
    length = whole(data, spans[SIZE, 0], spans[SIZE, 1], 15)
    if length == -2:
        return CAREFUL
    found = digest(data, spans[DIGEST, 0], spans[DIGEST, 1], digests, WIDEST * row)
    if found < 0:
        return CAREFUL
    flag = 0
    if is_text(data, spans[MIME, 0], spans[MIME, 1], b"warc/revisit"):
        flag |= REVISIT
    if spans[TRUNC, 1] > spans[TRUNC, 0] and not is_text(
        data, spans[TRUNC, 0], spans[TRUNC, 1], b"-"
    ):
        flag |= TRUNCATED
    begin, end = spans[NOTES, 0], spans[NOTES, 1]
    if end > begin + 1:
        if contains(data, begin, end, b"duplicate:"):
            flag |= REVISIT
        if contains(data, begin, end, b"Trunc"):
            flag |= TRUNCATED
    times[row] = micros
    status[row] = NO_STATUS if code == -1 else (-code if negative else code)
    size[row] = length
    flags[row] = flag
    digest_size[row] = found
    return VISIT


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


@jit
def scan_json(
    data, bare, by_key, states, lines, names, times, status, size, flags, digests, digest_size
):
    """Read a block of whole lines of CDXJ, or with `bare` of JSON alone; returns their number."""
    spans = np.zeros((SLOTS, 2), np.int64)
    row, begin, total = 0, 0, len(data)
    while begin < total:
        stop = line_end(data, begin)
        end = stop
        if end > begin and data[end - 1] == 13:
            end -= 1
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
            if by_key:
                if spans[KEY, 1] <= spans[KEY, 0]:
                    state = CAREFUL
                elif spans[URL, 1] <= spans[URL, 0]:
                    spans[URL, 0], spans[URL, 1] = spans[KEY, 0], spans[KEY, 1]
            if state == VISIT:
                state = settle(
                    data, spans, row, times, status, size, flags, digests, digest_size, False
                )
            which = KEY if by_key else URL
            names[row, 0], names[row, 1] = spans[which, 0], spans[which, 1]
        states[row] = state
        row += 1
        begin = stop + 1
    return row


@jit
def scan_fields(
    data,
    delimiter,
    runs,
    layouts,
    by_key,
    allow_negative,
    states,
    lines,
    names,
    times,
    status,
    size,
    flags,
    digests,
    digest_size,
):
    """Read a block of whole lines of fields; returns their number.

    ``layouts[n, slot]`` is the field of a line of n fields that fills the slot, or -1. With
    `runs`, many delimiters in a row are one. A time ends at a plus sign.
    """
    spans = np.zeros((SLOTS, 2), np.int64)
    most = layouts.shape[0] - 1
    fields = np.zeros((most + 1, 2), np.int64)
    row, begin, total = 0, 0, len(data)
    while begin < total:
        stop = line_end(data, begin)
        end = stop
        if end > begin and data[end - 1] == 13:
            end -= 1
        lines[row, 0], lines[row, 1] = begin, end
        state = CAREFUL
        count, at = 0, begin
        while at <= end and count <= most:
            if runs:
                while at < end and data[at] == delimiter:
                    at += 1
                if at == end:
                    break
            fields[count, 0] = at
            while at < end and data[at] != delimiter:
                at += 1
            fields[count, 1] = at
            count += 1
            at += 1
        if end == begin:
            state = BLANK
        elif count <= most and layouts[count, TIME] >= 0 and data[begin] != delimiter:
            for slot in range(SLOTS):
                spans[slot, 0] = spans[slot, 1] = 0
                if layouts[count, slot] >= 0:
                    spans[slot, 0] = fields[layouts[count, slot], 0]
                    spans[slot, 1] = fields[layouts[count, slot], 1]
            state = VISIT
            for i in range(spans[TIME, 0], spans[TIME, 1]):
                if data[i] == 43:
                    spans[TIME, 1] = i
                    break
            if by_key:
                if spans[KEY, 1] <= spans[KEY, 0] or is_text(
                    data, spans[KEY, 0], spans[KEY, 1], b"-"
                ):
                    state = CAREFUL
                elif spans[URL, 1] <= spans[URL, 0]:
                    spans[URL, 0], spans[URL, 1] = spans[KEY, 0], spans[KEY, 1]
        if state == VISIT:
            state = settle(
                data, spans, row, times, status, size, flags, digests, digest_size, allow_negative
            )
            which = KEY if by_key else URL
            names[row, 0], names[row, 1] = spans[which, 0], spans[which, 1]
            if state == VISIT and is_text(data, spans[FILE, 0], spans[FILE, 1], b"-"):
                flags[row] |= REVISIT
        states[row] = state
        row += 1
        begin = stop + 1
    return row


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
