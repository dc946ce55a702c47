# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201 - numba compiles loops, not generators
"""Lines of fields between spaces or other delimiters: CDX, and the logs of crawlers."""

import numpy as np

from observant.formats.imports.kernels.text import is_text, jit, line_end, without_return
from observant.formats.imports.kernels.values import (
    BLANK,
    CAREFUL,
    FILE,
    REVISIT,
    SLOTS,
    TIME,
    VISIT,
    settle,
)

__all__ = ["scan_fields"]


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
    row, begin, total = 0, 0, len(data)
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
