"""Comparison sampling with random gaps between visits. Li's M6, and G-M4, which is biased.

M6 asks of every pair of visits whether the source changed between them. The pairs that it did not
are those inside one run of unchanged visits. So both counts of M6, of all pairs and of changed
ones, are counts of distances: in the whole log, and in each of its runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from observant.errors import EstimationError, InputError
from observant.estimation.intervals.comparisons import LATTICE
from observant.estimation.intervals.curve import (
    AgeCurve,
    Floats,
    bins_in,
    empirical_curve,
    positive,
    visits_of,
)
from observant.units import counted

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Integers = NDArray[np.int64]

__all__ = ["g_m4", "m6", "pair_counts"]


def m6(
    times: ArrayLike,
    changed: ArrayLike,
    step: float | None = None,
    maximum: float | None = None,
    *,
    at: Literal["middle", "right"] = "middle",
) -> AgeCurve:
    """G from all pairs of visits: the share with a change among those one distance apart. Li (59).

    Distances are rounded up to multiples of `step` and followed up to `maximum`. Consistent for any
    updates when the gaps are independent, not lattice, and can be arbitrarily short, Li (60).

    A bin shows G averaged over it, so its value stands at its middle; `at="right"` puts it at the
    right end, as printed, which is off by up to half a bin (errata L-9). Bins without a pair are
    left out. With a constant gap a bin holds one distance, and the value stands there.

    Not given, the step is a twentieth of the mean gap, and the maximum 100 mean gaps or half of the
    log, whichever is less.

    >>> curve = m6([0.0, 0.6, 1.0], [False, False, True], step=0.5, maximum=1.0)
    >>> curve.x, curve.values  # 0.4: changed; 0.6: not; 1.0: changed
    (array([0.25, 0.75]), array([1. , 0.5]))
    """
    t, changes = visits_of(times, changed)
    length, gap = float(t[-1] - t[0]), float(t[-1] - t[0]) / (t.size - 1)
    step = gap / 20 if step is None else positive("step", step)
    longest = min(100 * gap, length / 2) if maximum is None else positive("maximum", maximum)
    notes = []
    if longest > length * (1 + 1e-9):
        notes.append(f"no pair of visits is {longest:g} d apart: cut at the log's {length:g} d")
        longest = length
    if at not in ("middle", "right"):
        raise InputError(f"a value stands at the middle or the right of its bin, not at {at!r}")
    pairs, updated = pair_counts(t, changes, step, bins_in(longest, step))
    filled = pairs > 0
    if not filled.any():
        raise EstimationError(
            f"no two visits are within {longest:g} d of each other: take a longer maximum"
        )
    right = step * (np.flatnonzero(filled) + 1.0)
    constant = bool(np.abs(np.diff(t) - gap).max() <= 1e-6 * gap)
    if constant:
        notes.append(LATTICE.format(gap=gap))
        # the mean of the multiples of the gap that fall into the bin, most often one
        x = gap * (np.floor(right / gap + 1e-6) + np.floor((right - step) / gap + 1e-6) + 1) / 2
    else:
        x = right - step / 2 if at == "middle" else right
        empty = pairs.size - right.size
        if empty:
            notes.append(f"{counted(empty, 'bin')} of {pairs.size:,} without a pair, left out")
    if not changes.any():
        notes.append("no change was seen: the curve is 0 as far as the log reaches")
    elif changes[1:].all():
        notes.append("every visit found a change: ages are shorter than the gaps between visits")
    W, Z = pairs[filled], updated[filled]
    resolution = max(gap, step) if constant else step
    return AgeCurve("m6", x, Z / W, int(W.sum()), resolution, tuple(notes), W)


def pair_counts(
    times: Floats, changed: NDArray[np.bool_], step: float, bins: int
) -> tuple[Integers, Integers]:
    """Pairs of visits in each of the bins ((n−1)h, nh], and those of them with a change between.

    Li (57), (58). A distance that differs from a multiple of the step by rounding alone counts as
    that multiple.
    """
    # A change begins a run, which lasts until the next.
    ends = np.append(np.flatnonzero(changed), times.size)
    end_of_run = ends[np.cumsum(changed)]
    slack = 1e-9 * step + 4 * float(np.spacing(np.abs(times).max()))
    reach = np.searchsorted(times, times + (bins * step + 2 * slack), side="right")
    pairs = _distances(times, reach, step, slack, bins)
    unchanged = _distances(times, np.minimum(reach, end_of_run), step, slack, bins)
    return pairs, pairs - unchanged


def _distances(times: Floats, last: Integers, step: float, slack: float, bins: int) -> Integers:
    """Count the distances between visits i < j < last[i] in each bin.

    Two ways give the same counts: walk over the pairs within reach, or sweep once over the log for
    each edge. The cheaper one is taken.
    """
    from observant.estimation.intervals import kernels

    counts = np.zeros(bins, np.int64)
    # A step of the sweep waits for the one before, and takes as long as some 16 pairs of a walk.
    walk = int((last - np.arange(times.size)).sum()) <= 16 * times.size * bins
    count = kernels.count_by_walking if walk else kernels.count_by_edges
    count(times, last, step, slack, counts)
    return counts


def g_m4(
    times: ArrayLike,
    changed: ArrayLike,
    *,
    step: float | None = None,
    maximum: float | None = None,
) -> AgeCurve:
    """M4 for random gaps: ages rounded up to the visit before the last change. Li (55); biased.

    With exponential gaps of rate λ it measures the age plus an exponential time of that rate
    (errata L-11, `theory.g_m4_tail`). With a constant gap it is M4. Kept for comparison; use `m6`.

    >>> g_m4([0.0, 1.0, 3.0], [False, True, False]).x
    array([1., 3.])
    """
    t, changes = visits_of(times, changed)
    place = np.arange(t.size)
    latest = np.maximum.accumulate(np.where(changes, place, 0))
    known = latest > 0
    if not known.any():
        raise EstimationError("no change was seen, so g_m4 has no age to count")
    samples = t[known] - t[latest[known] - 1]
    notes = ("g_m4 is biased when gaps are random: ages are rounded up to long gaps; use m6",)
    return empirical_curve("g_m4", samples, step=step, maximum=maximum, notes=notes)
