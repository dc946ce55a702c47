"""Bytes: where lines and strings end, whether they spell a word, and the numbers they spell."""

# ruff: noqa: ANN001, ANN201, ANN202, PLR1714, SIM110
# mypy: ignore-errors

import numba
import numpy as np
from numba.core import cgutils, types

from observant.compiled import jit
from observant.visits.kernels import word

# Not inline="always": LLVM does it as well, and numba takes twice the time to compile.
inlined = numba.njit(nogil=True, error_model="numpy")

QUOTE, BACKSLASH, MINUS, ZERO, NINE = 34, 92, 45, 48, 57
ONES = np.uint64(0x0101010101010101)
HIGHS = np.uint64(0x8080808080808080)
QUOTES, BACKSLASHES, SPACES, NEWLINES = (ONES * np.uint64(sign) for sign in (34, 92, 32, 10))


@numba.extending.intrinsic
def zeros_below(_context, number):  # noqa: ARG001 - numba wants the names
    """How many zeros follow the lowest one of the bits of a number that is not 0."""

    def count(_context, builder, _signature, arguments):
        return builder.cttz(arguments[0], cgutils.false_bit)

    return types.uint64(types.uint64), count


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
def without_return(data, begin, end):
    """Where the line ends that may have a carriage return before its newline."""
    return end - 1 if end > begin and data[end - 1] == 13 else end


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


@inlined
def is_blank(data, begin, end):
    """Whether a field says nothing: it is empty, or a dash."""
    return end <= begin or (end - begin == 1 and data[begin] == MINUS)


@inlined
def whole(data, begin, end, longest):
    """A whole number without sign or leading zero; -1 for nothing or a dash, -2 for all else."""
    if is_blank(data, begin, end):
        return np.int64(-1)
    if end - begin > longest or (data[begin] == ZERO and end - begin > 1):
        return np.int64(-2)
    number = np.int64(0)
    for i in range(begin, end):
        if data[i] < ZERO or data[i] > NINE:
            return np.int64(-2)
        number = number * 10 + data[i] - ZERO
    return number


# -- From the fields of a line to the values of a visit: time, status, size, digest, what it was --


VISIT, BLANK, CAREFUL = 0, 1, 2
"""What a line is: a visit, nothing, or a matter for the careful reader."""
REVISIT, TRUNCATED = 1, 2
NO_STATUS = -32768
WIDEST = 64
"""Bytes that are kept for the digest of a row."""
URL, KEY, DIGEST, STATUS, SIZE, MIME, TRUNC, TIME, FILE, NOTES = range(10)
SLOTS = 10
"""Of a line: the fields that say something of a visit."""


@jit
def settle(data, spans, by_key, allow_negative, row, values):
    """From the spans of a line's fields to its values; says what kind of line it is.

    With `by_key` its key is its name, and stands for the URL where there is none.
    """
    names, times, status, size, flags, digests, digest_size = values
    if by_key:
        if is_blank(data, spans[KEY, 0], spans[KEY, 1]):
            return CAREFUL
        if spans[URL, 1] <= spans[URL, 0]:
            spans[URL, 0], spans[URL, 1] = spans[KEY, 0], spans[KEY, 1]
    begin, end = spans[URL, 0], spans[URL, 1]
    if is_blank(data, begin, end):
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
    if not is_blank(data, spans[TRUNC, 0], spans[TRUNC, 1]):
        flag |= TRUNCATED
    begin, end = spans[NOTES, 0], spans[NOTES, 1]
    if end > begin + 1:
        if contains(data, begin, end, b"duplicate:"):
            flag |= REVISIT
        if contains(data, begin, end, b"Trunc"):
            flag |= TRUNCATED
    which = KEY if by_key else URL
    names[row, 0], names[row, 1] = spans[which, 0], spans[which, 1]
    times[row] = micros
    status[row] = NO_STATUS if code == -1 else (-code if negative else code)
    size[row] = length
    flags[row] = flag
    digest_size[row] = found
    return VISIT


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


@jit
def digest(data, begin, end, out, at):
    """Write the bytes that a digest spells; return how many, 0 for none, -1 for unusual ones."""
    if is_blank(data, begin, end):
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
def hexadecimal(sign):
    if ZERO <= sign <= NINE:
        return np.int64(sign) - ZERO
    if 97 <= sign <= 102:
        return np.int64(sign) - 87
    if 65 <= sign <= 70:
        return np.int64(sign) - 55
    return np.int64(-1)


# -- Lines of fields between spaces or other delimiters: CDX, and the logs of crawlers ------------


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
    values = names, times, status, size, flags, digests, digest_size
    spans = np.zeros((SLOTS, 2), np.int64)
    most = layouts.shape[0] - 1
    fields = np.zeros((most + 1, 2), np.int64)
    row, begin, total = np.int64(0), np.int64(0), len(data)  # see `objects.scan_json`
    while begin < total:
        stop = line_end(data, begin)
        end = without_return(data, begin, stop)
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
            for i in range(spans[TIME, 0], spans[TIME, 1]):
                if data[i] == 43:
                    spans[TIME, 1] = i
                    break
            state = settle(data, spans, by_key, allow_negative, row, values)
            if state == VISIT and is_text(data, spans[FILE, 0], spans[FILE, 1], b"-"):
                flags[row] |= REVISIT
        states[row] = state
        row += 1
        begin = stop + 1
    return row
