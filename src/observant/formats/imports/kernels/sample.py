# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, PLR1714, SIM109 - numba compiles loops, not generators
"""A sample of sources of a fixed size, taken while rows pass by."""

import numpy as np

from observant.formats.imports.kernels.text import jit

__all__ = ["take_sample"]

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
