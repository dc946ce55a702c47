"""Comparison sampling with a constant gap Δ between visits. Li's M3, M4 and M5.

All they see are multiples of Δ, so G is estimated there and nowhere between. F needs the slope of
G inside a gap, which these visits cannot show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.errors import EstimationError, InputError
from observant.estimation.intervals.curve import AgeCurve, Floats, positive, visits_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["common_gap", "m3", "m3_samples", "m4", "m5"]

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

    It tends to Li (40) (`theory.m3_tail`), between F and G, and is neither unless updates are
    Poisson. Kept for comparison; use `m4`, or `m5` where only such samples are left.
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


def _multiples(samples: Floats, gap: float) -> NDArray[np.int64]:
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
