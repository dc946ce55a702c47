"""The loops over single points, in plain Python that numba can compile.

Short histories run as they stand, which needs no compiler; `kernels` compiles the same functions
for long ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from observant.arrays import Flags, Floats, Integers

AMOUNT, TOTAL, COUNT = 0, 1, 2
"""What the threshold limits: each violation, their sum, or how many points violate."""

BY_COUNT, WEIBULL, CORRECTED, DUANE, CHO, MATLOFF = 0, 1, 2, 3, 4, 5


def split(
    gaps: Floats,
    offsets: Integers,
    unit: Floats,
    threshold: float,
    tolerance: float,
    cumulative: bool,
    limits: int,
    backward: bool,
    smallest: int,
    begins: Flags,
    state: NDArray[np.int8],
    sizes: Integers,
    signs: NDArray[np.int8],
) -> None:
    """Cut each source's gaps into consistent windows. Singh, section 4.

    Marks in `begins` the first point of every window and writes the state of its rate there.
    `sizes` and `signs` are scratch of the length of the longest source.
    """
    for source in range(len(offsets) - 1):
        low, high = offsets[source], offsets[source + 1]
        n = high - low
        allowed, equal = threshold * unit[source], tolerance * unit[source]
        windows, i = 0, 0
        while i < n:
            # Three points open a window, and say its state.
            j, total, first, previous = i, 0.0, 0.0, 0.0
            while j < n and j < i + 3:
                gap = gaps[high - 1 - j] if backward else gaps[low + j]
                total += gap
                previous = total / (j - i + 1) if cumulative else gap
                if j == i:
                    first = previous
                j += 1
            sign = 0
            if previous - first > equal:
                sign = 1
            elif first - previous > equal:
                sign = -1
            used = 0.0
            while j < n:
                gap = gaps[high - 1 - j] if backward else gaps[low + j]
                total += gap
                value = total / (j - i + 1) if cumulative else gap
                against = abs(value - previous) if sign == 0 else (previous - value) * sign
                if against > equal:
                    if limits == 0:
                        if against > allowed:
                            break
                    elif limits == 1:
                        used += against
                        if used > allowed:
                            break
                    else:
                        used += 1.0
                        if used > threshold:
                            break
                previous = value
                j += 1
            sizes[windows], signs[windows] = j - i, sign
            windows += 1
            i = j
        # Windows that are too small are halved between their neighbours.
        kept, carried = 0, 0
        for w in range(windows):
            size = sizes[w] + carried
            carried = 0
            if size >= smallest or (w == windows - 1 and kept == 0):
                sizes[kept], signs[kept] = size, signs[w]
                kept += 1
            elif w == windows - 1:
                sizes[kept - 1] += size
            elif kept == 0:
                carried = size
            else:
                sizes[kept - 1] += size // 2
                carried = size - size // 2
        at = 0
        for w in range(kept):
            # Longer gaps are a falling rate; backward in time, a rising one.
            if backward:
                place = high - at - sizes[w]
                state[place] = signs[w]
            else:
                place = low + at
                state[place] = -signs[w]
            begins[place] = True
            at += sizes[w]


def roll(
    times: Floats,
    offsets: Integers,
    start: Floats,
    opening: Integers,
    until: Floats,
    estimator: int,
    unit: float,
    stretch: float,
    shortest: float,
    out: Integers,
) -> None:
    """Visit when the next update is predicted, learn what is found, predict again. Singh, 5.

    For each source, `out` receives updates after the opening window, visits, and visits that found
    one. `opening` is how many points open the history.
    """
    for source in range(len(offsets) - 1):
        low, high = offsets[source], offsets[source + 1]
        known = opening[source]
        if known == 0 or low + known >= high:
            continue
        origin, last = start[source], 0.0
        n, logs, bins, box = 0, 0.0, 0, -1
        sx, sy, sxx, sxy = 0.0, 0.0, 0.0, 0.0
        next_point = low
        visit = origin
        while True:
            # Learn: the points found so far, one at a time.
            while n < known:
                t = times[next_point] - origin
                if n > 0:
                    logs += n * math.log(t / last)
                n += 1
                x, y = math.log(t), math.log(t / n)
                sx, sy, sxx, sxy = sx + x, sy + y, sxx + x * x, sxy + x * y
                here = math.ceil(t / unit - 1e-9)
                if here != box:
                    bins, box = bins + 1, here
                last = t
                next_point += 1
                visit = max(visit, origin + t)
            rate = 0.0
            if estimator == 0:
                rate = n / last
            elif estimator == 1:
                rate = (n - 3) / logs * n / last if n > 3 else 0.0
            elif estimator == 2:
                rate = (n - 2) / logs * (n - 1) / last
            elif estimator == 3:
                spread = n * sxx - sx * sx
                slope = (n * sxy - sx * sy) / spread if spread > 0 else 0.0
                rate = math.exp(-(sy - slope * sx) / n - slope * math.log(last))
            else:
                trials = max(box, bins)
                half = 0.5 if estimator == 4 else 0.0
                left = (trials - bins + half) / (trials + half)
                rate = -math.log(left) / unit if left > 0 else math.inf
            wait = stretch / rate if rate > 0 else until[source] - origin
            visit += max(wait, shortest)
            if visit > until[source]:
                break
            out[source, 1] += 1
            found = next_point
            while found < high and times[found] <= visit:
                found += 1
            if found > next_point:
                out[source, 2] += 1
                next_point = found - 1  # only the last of them has a date
                known += 1
        out[source, 0] = high - low - opening[source]
