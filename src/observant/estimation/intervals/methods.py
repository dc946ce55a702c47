"""Li's sampling methods: ages (M1, M2), comparisons (M3 to M5) and pairs (M6), and their theory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from observant.errors import EstimationError, InputError
from observant.estimation.intervals.curves import (
    AgeCurve,
    bins_in,
    empirical_curve,
    positive,
    visits_of,
)
from observant.units import counted

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from observant.arrays import Flags, Floats, Integers
    from observant.processes import Process


def m2(ages: ArrayLike, *, step: float | None = None, maximum: float | None = None) -> AgeCurve:
    """G from all ages that visits found. Li (33); consistent for any updates, Li (34).

    Ages are days from the last update to the visit, NaN where it was not dated. The curve has a
    point at each age, or at multiples of `step` up to `maximum`.

    It assumes that visits do not follow the updates: at least one of both must be random enough
    (Li, assumption 2), and visits dated or not must not depend on the age.

    >>> m2([0.5, 1.5, 0.2, np.nan]).age_cdf([0.2, 0.5, 1.5])
    array([0.33333333, 0.66666667, 1.        ])
    """
    known, notes = _dated(ages)
    return empirical_curve("m2", known, step=step, maximum=maximum, notes=notes)


def m1(
    ages: ArrayLike,
    changed: ArrayLike,
    *,
    step: float | None = None,
    maximum: float | None = None,
) -> AgeCurve:
    """The last age seen before each detected change, as older work kept them. Li (11); biased.

    What it tends to lies between F and G, by Li (12) (`theory.m1_tail`), and is neither unless
    updates are Poisson. Kept for comparison; use `m2`.

    `changed` says of each visit whether it found the source different from the visit before.

    >>> m1([0.5, 1.5, 0.2, 0.1], [False, False, True, True]).x
    array([0.2, 1.5])
    """
    flags = np.asarray(changed)
    values = np.asarray(ages, np.float64)
    if flags.shape != values.shape or flags.ndim != 1:
        raise InputError("give one outcome and one age (or NaN) for each visit")
    kept: Flags = flags[1:].astype(np.bool_)
    if not kept.any():
        raise EstimationError("no change was seen, and m1 keeps ages only before changes; use m2")
    known, notes = _dated(values[:-1][kept])
    bias = "m1 is biased unless updates are Poisson: it lies between F and G; m2 does not"
    return empirical_curve("m1", known, step=step, maximum=maximum, notes=(bias, *notes))


def _dated(ages: ArrayLike) -> tuple[Floats, tuple[str, ...]]:
    values = np.asarray(ages, np.float64)
    if values.ndim != 1:
        raise InputError("ages must be one flat array of days, NaN where a visit was not dated")
    known = values[~np.isnan(values)]
    if known.size == 0:
        raise EstimationError("no visit was dated: compare the contents instead (m4, m6)")
    if (known < 0).any() or np.isinf(known).any():
        raise InputError("ages must be finite days, zero or more: an update after its visit?")
    missing = values.size - known.size
    return known, (f"{counted(missing, 'visit')} not dated, left out",) if missing else ()


# -- Comparison sampling with a constant gap Δ between visits. Li's M3, M4 and M5 -----------------
#
# All they see are multiples of Δ, so G is estimated there and nowhere between. F needs the slope of
# G inside a gap, which these visits cannot show.


LATTICE = (
    "visits are a constant gap apart: G is known at multiples of {gap:g} d only; between them it "
    "is a straight line, and F inside one gap is not identified"
)


def m4(times: ArrayLike, changed: ArrayLike, *, tolerance: float = 0.01) -> AgeCurve:
    """G at multiples of Δ, from the rounded-up age at every visit. Li (44), (45).

    Consistent there for any updates, Li (46). Visits before the first change have no age yet and
    are left out.

    >>> curve = m4([0, 1, 2, 3, 4], [False, True, False, False, True])
    >>> curve.x, curve.values  # rounded-up ages 1, 2, 3, 1
    (array([1., 2., 3.]), array([0.5 , 0.75, 1.  ]))
    """
    t, changes = visits_of(times, changed)
    gap = common_gap(t, tolerance)
    place = np.arange(t.size)
    latest = np.maximum.accumulate(np.where(changes, place, -1))
    known = latest >= 0
    _require_a_change(known, "m4")
    counts = np.bincount(place[known] - latest[known])  # at the change itself the age is one gap
    return _lattice_curve("m4", np.cumsum(counts) / counts.sum(), gap, int(counts.sum()))


def m3(times: ArrayLike, changed: ArrayLike, *, tolerance: float = 0.01) -> AgeCurve:
    """The gaps between detected changes, as older work took for intervals. Li (39); biased.

    It tends to Li (40) (`m1_tail` at whole gaps), between F and G, and is neither unless updates
    are Poisson. Kept for comparison; use `m4`, or `m5` where only such samples are left.
    """
    samples, gap = m3_samples(times, changed, tolerance=tolerance)
    counts = np.bincount(_multiples(samples, gap))[1:]
    bias = "m3 is biased unless updates are Poisson: it lies between F and G; m4 does not"
    return _lattice_curve("m3", np.cumsum(counts) / samples.size, gap, samples.size, (bias,))


def m3_samples(
    times: ArrayLike, changed: ArrayLike, *, tolerance: float = 0.01
) -> tuple[Floats, float]:
    """What M3 keeps: days between consecutive detected changes; and Δ. Li (38).

    >>> m3_samples([0, 1, 2, 3, 4], [False, True, False, False, True])
    (array([3.]), 1.0)
    """
    t, changes = visits_of(times, changed)
    gap = common_gap(t, tolerance)
    found = np.flatnonzero(changes)
    _require_a_change(found, "m3")
    if found.size < 2:
        raise EstimationError("only one change was seen; m3 and m5 need two, to count between them")
    return np.diff(found) * gap, gap


def m5(samples: ArrayLike, gap: float, *, duration: float | None = None) -> AgeCurve:
    """G at multiples of Δ, from the samples that M3 left behind. Li (49).

    Consistent there for any updates, Li (50). With the `duration` of the log it is (49) as printed,
    a little low in short logs because the cycles cut off at both ends count in the duration only
    (errata L-6). Without it the samples' own sum is taken, which has no such loss.

    >>> m5([3.0, 1.0], 1.0).values
    array([0.5 , 0.75, 1.  ])
    """
    positive("gap", gap)
    multiples = _multiples(np.asarray(samples, np.float64), gap)
    if multiples.size == 0:
        raise EstimationError("m5 needs at least one sample of m3")
    sampled = float(multiples.sum())
    total = sampled if duration is None else positive("duration", duration) / gap
    if total < sampled * (1 - 1e-9):
        raise InputError(
            f"the samples add up to {sampled * gap:g} d, more than duration={duration}"
        )
    # Each multiple up to a sample counts it once: the sum of min(x, sample) over all samples.
    reaching = multiples.size - np.cumsum(np.bincount(multiples))
    return _lattice_curve("m5", np.cumsum(reaching[:-1]) / total, gap, multiples.size)


def common_gap(times: Floats, tolerance: float = 0.01) -> float:
    """The constant gap of visits, in days; refused when gaps differ by more than `tolerance`."""
    gaps = np.diff(times)
    gap = float(times[-1] - times[0]) / gaps.size
    spread = np.abs(gaps - gap).max()
    if spread > tolerance * gap:
        raise InputError(
            f"gaps between visits run from {gaps.min():.6g} to {gaps.max():.6g} days, and this "
            "method needs a constant one; use m6"
        )
    return gap


def _multiples(samples: Floats, gap: float) -> Integers:
    if samples.ndim != 1 or not np.isfinite(samples).all():
        raise InputError("samples must be one flat array of finite days")
    whole = np.rint(samples / gap).astype(np.int64)
    if (whole < 1).any() or (np.abs(samples / gap - whole) > 0.01).any():
        raise InputError(f"samples of m3 are multiples of the gap, {gap:g} d, from one gap on")
    return whole


def _require_a_change(found: NDArray[np.generic], method: str) -> None:
    if not np.any(found):
        raise EstimationError(
            f"no change was seen, so {method} has no age to count; m6 gives what can be said"
        )


def _lattice_curve(
    method: str, values: Floats, gap: float, observations: int, notes: tuple[str, ...] = ()
) -> AgeCurve:
    x = gap * np.arange(1, values.size + 1, dtype=np.float64)
    notes = (*notes, LATTICE.format(gap=gap))
    return AgeCurve(method, x, np.minimum(values, 1.0), observations, gap, notes)


# -- Comparison sampling with random gaps between visits. Li's M6, and G-M4, which is biased ------
#
# M6 asks of every pair of visits whether the source changed between them. The pairs that it did not
# are those inside one run of unchanged visits. So both counts of M6, of all pairs and of changed
# ones, are counts of distances: in the whole log, and in each of its runs.


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


def pair_counts(times: Floats, changed: Flags, step: float, bins: int) -> tuple[Integers, Integers]:
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


# -- What the sampling methods tend to in long logs, for a known process: Li's formulas -----------
#
# `updates` is the process of the source, `gaps` that of the visits: a process whose intervals are
# the gaps, or a number of days for a constant gap.


def changed_share(updates: Process, gaps: Process | float) -> float:
    """p, the share of visits that find a change, which M1 and M3 keep. E[G(S)], Li (9).

    >>> from observant.processes import Pareto
    >>> round(changed_share(Pareto(3.0, 1.0), 1.0), 12)
    0.75
    """
    return float(_mass_after(updates, gaps, np.zeros(1))[0])


def m1_tail(updates: Process, gaps: Process | float, x: ArrayLike) -> Floats:
    """1 − G₁(x), what M1 measures: E[G(x + S) − G(x)]/E[G(S)]. Li (12)."""
    ages = np.asarray(x, np.float64)
    mass = _mass_after(updates, gaps, np.append(0.0, ages.ravel()))
    return np.reshape(mass[1:] / mass[0], ages.shape)


def m3_mean(updates: Process, gap: float) -> float:
    """E[D₃], the mean sample of M3: Δ/G(Δ). Li (42).

    >>> from observant.processes import Pareto
    >>> round(m3_mean(Pareto(3.0, 1.0), 1.0), 12)
    1.333333333333
    """
    return gap / updates.age_cdf(positive("gap", gap))


def m4_mean(updates: Process, gap: float) -> float:
    """E[D₄], the mean sample of M4: Δ Σ (1 − G(nΔ)) from n = 0 on. Infinite with the mean age.

    For Li's Pareto(3, 1) and Δ = 1 it is π²/6 = 1.645. Li prints 1.63, the mean of a simulation,
    which need not come near: the samples have no finite variance (errata L-4).

    >>> from observant.processes import Pareto
    >>> round(m4_mean(Pareto(3.0, 1.0), 1.0), 9)
    1.644934067
    """
    n = 2000
    head = updates.age_sf(positive("gap", gap) * np.arange(n, dtype=np.float64)).sum() * gap
    # Beyond, the sum is its integral and two terms of Euler and Maclaurin.
    end = gap * n
    tail = updates.mean_age - updates.integrated_age_sf(end)
    tail += gap * updates.age_sf(end) / 2 + gap**2 * updates.age_pdf(end) / 12
    return float(head + tail)


def g_m4_tail(updates: Process, rate: float, x: ArrayLike) -> Floats:
    """What G-M4 measures under exponential gaps: the tail of the age plus Exp(rate). Errata L-11.

    >>> from observant.processes import Pareto
    >>> g_m4_tail(Pareto(3.0, 1.0), 1.0, [1.0, 10.0]).round(4)
    array([0.6498, 0.0106])
    """
    ages = np.asarray(x, np.float64)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    share = (nodes + 1) / 2
    y = ages[..., None] * share
    # The exponential part is longer than what the age y leaves of x.
    left = updates.age_pdf(y) * np.exp(-positive("rate", rate) * (ages[..., None] - y))
    return np.asarray(updates.age_sf(ages) + ages / 2 * (left @ weights), np.float64)


def _mass_after(updates: Process, gaps: Process | float, x: Floats) -> Floats:
    """E[G(x + S) − G(x)], which is the integral of g(x + s)·P(S > s) over s."""
    if isinstance(gaps, int | float):
        # From the tails, which keep their digits far out.
        return updates.age_sf(x) - updates.age_sf(x + positive("gap", gaps))
    # Panels in the logarithm of s: beginnings and tails of any length are equally near.
    nodes, weights = np.polynomial.legendre.leggauss(12)
    edges = np.arange(-40.0, 30.0, 0.5)
    y = (edges[:, None] + 0.25 * (nodes + 1)).ravel()
    s = np.exp(y)
    weight = np.tile(0.25 * weights, edges.size) * s * gaps.interval_sf(s)
    return np.array([updates.age_pdf(start + s) @ weight for start in x])


# -- How far an estimated distribution is from the true one. Li (53), (54) and (36) ---------------


def wmrd(estimate: ArrayLike, truth: ArrayLike) -> float:
    """Weighted mean relative difference of two distributions at the same points. Li (53).

    The sum of |H − G| over the mean of both sums. It is between 0 and 2: 0 when they are equal, 2
    when one is zero wherever the other is not. It depends much on the points, since far out both
    are near 1 and only make it smaller; say them beside it (Li's tables: x = 1, …, 10, errata L-8).

    >>> wmrd([0.5, 1.0], [0.25, 1.0])
    0.18181818181818182
    """
    H, G = _pair(estimate, truth)
    size = (H + G).sum() / 2
    return float(np.abs(H - G).sum() / size) if size > 0 else 0.0


def ks(estimate: ArrayLike, truth: ArrayLike) -> float:
    """Kolmogorov-Smirnov distance at the given points, the largest |H − G|. Li (54).

    It is between 0 and 1, and 1 only when one distribution is 0 where the other is 1.

    >>> ks([0.5, 1.0], [0.25, 1.0])
    0.25
    """
    H, G = _pair(estimate, truth)
    return float(np.abs(H - G).max())


def relative_error_of_mean(means: ArrayLike, truth: float) -> float:
    """Mean of |1 − estimate/truth| over runs. Li (36).

    It is 0 or more, without an upper end; estimates that are all 0 have an error of 1.

    >>> round(relative_error_of_mean([0.9, 1.3], 1.0), 12)
    0.2
    """
    values = np.asarray(means, np.float64)
    if values.size == 0 or not np.isfinite(values).all():
        raise InputError("give one finite mean for each run, and at least one run")
    if not (np.isfinite(truth) and truth > 0):
        raise InputError(f"the true mean must be finite and above zero, not {truth!r}")
    return float(np.abs(1.0 - values / truth).mean())


def _pair(estimate: ArrayLike, truth: ArrayLike) -> tuple[Floats, Floats]:
    H, G = np.asarray(estimate, np.float64), np.asarray(truth, np.float64)
    if H.shape != G.shape or H.size == 0:
        raise InputError(
            f"both distributions must be given at the same points, one or more; the shapes are "
            f"{H.shape} and {G.shape}"
        )
    for values in (H, G):
        # NaN is no comparison
        if not ((values >= -1e-9) & (values <= 1 + 1e-9)).all():
            raise InputError("values of a distribution lie between 0 and 1")
    return H, G
