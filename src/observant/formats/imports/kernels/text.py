# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, SIM110 - numba compiles loops, not generators
"""Bytes: where lines and strings end, whether they spell a word, and the numbers they spell."""

import numba
import numpy as np
from numba.core import cgutils, types

from observant.visits.kernels import word

__all__ = [
    "MINUS",
    "NINE",
    "QUOTE",
    "ZERO",
    "contains",
    "inlined",
    "is_blank",
    "is_text",
    "jit",
    "line_end",
    "starts_with",
    "string_end",
    "whole",
    "without_return",
]

jit = numba.njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
# Not inline="always": LLVM does it as well, and numba takes twice the time to compile.
inlined = numba.njit(nogil=True, boundscheck=False, error_model="numpy")

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
