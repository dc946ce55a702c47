"""Age sampling: each visit tells when the source was last updated. Li's M1 and M2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.errors import EstimationError, InputError
from observant.estimation.intervals.curve import AgeCurve, Floats, empirical_curve
from observant.units import counted

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["m1", "m2"]


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
    kept: NDArray[np.bool_] = flags[1:].astype(np.bool_)
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
