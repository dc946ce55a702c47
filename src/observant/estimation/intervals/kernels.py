"""Compiled counting of pairs of visits by their distance. Called by `pairs`, which explains."""

import numpy as np

from observant.compiled import jit


@jit
def count_by_walking(times, last, step, slack, counts):
    """Add each pair (i, j), i < j < last[i], to the first bin whose edge it does not pass.

    The edge of bin k is step·(k + 1) + slack. Where no distance is so near to an edge that rounding
    could mislead, a division tells the bins, many at a time; otherwise the edges decide.
    """
    inverse = 1.0 / step
    longest = step * counts.size + slack
    near = 1e-6 + 8.0 * slack * inverse
    widest = 0
    for i in range(times.size):
        widest = max(widest, last[i] - i)
    bins = np.empty(widest, np.int32)
    for i in range(times.size):
        later = times[i + 1 : last[i]]
        start = times[i] + slack
        doubtful = 0
        for j in range(later.size):
            scaled = (later[j] - start) * inverse
            k = np.int32(scaled)
            bins[j] = k
            part = scaled - k
            doubtful += (part < near) | (part > 1.0 - near)
        if doubtful == 0 and later.size > 0 and bins[later.size - 1] < counts.size:
            for j in range(later.size):
                counts[bins[j]] += 1
            continue
        for j in range(later.size):
            distance = later[j] - times[i]
            if distance > longest:
                break
            k = np.int64(bins[j])
            while k > 0 and distance <= step * k + slack:
                k -= 1
            while distance > step * (k + 1) + slack:
                k += 1
            counts[k] += 1


@jit
def count_by_edges(times, last, step, slack, counts):
    """The same counts: pairs not passing an edge, less those not passing the edge before."""
    before = 0
    for k in range(counts.size):
        edge = step * (k + 1) + slack
        up_to = 0
        i = 0
        j = 0
        # One step of a merge: either visit j is still within the edge of visit i, or i is done.
        while j < times.size:
            within = 1 if times[j] - times[i] <= edge else 0
            up_to += (1 - within) * max(min(j, last[i]) - i - 1, 0)
            j += within
            i += 1 - within
        while i < times.size:
            up_to += last[i] - i - 1
            i += 1
        counts[k] += up_to - before
        before = up_to
