"""What every sampling method of Li answers with: an estimated age distribution G, as a curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observant.errors import EstimationError, InputError
from observant.units import format_duration

__all__ = ["AgeCurve", "Floats", "empirical_curve", "visits_of"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AgeCurve:
    """An estimate of G, the distribution of the age of a source at a random moment.

    G is known at the points `x` and is read in straight lines between them, from 0 at age 0. It
    is what the method measured, biased methods included; only M6 may fall here and there, by the
    noise of its bins.

    >>> AgeCurve("m2", np.array([1.0, 3.0]), np.array([0.5, 1.0]), 2, 1.0).age_cdf([0.5, 2.0, 9.0])
    array([0.25, 0.75, 1.  ])
    """

    method: str
    x: Floats
    """Days, above zero and increasing."""
    values: Floats
    """G at `x`, between 0 and 1, never NaN."""
    observations: int
    """How many ages, comparisons or pairs of visits were counted."""
    resolution: float
    """Days below which the curve says nothing: a bin, a gap, or the first handful of ages."""
    notes: tuple[str, ...] = ()
    counts: NDArray[np.int64] | None = None
    """Pairs behind each point (M6); none where each point rests on all observations."""

    def age_cdf(self, at: ArrayLike) -> Floats:
        """G at any ages: straight lines between the points, and the last value after the last."""
        ages = np.asarray(at, np.float64)
        values = np.interp(ages, np.append(0.0, self.x), np.append(0.0, self.values))
        return np.asarray(values, np.float64)

    def age_sf(self, at: ArrayLike) -> Floats:
        """1 − G, the tails that Li draws."""
        return 1.0 - self.age_cdf(at)


def visits_of(times: ArrayLike, changed: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
    """Check the visits to one source: two or more, in order, one outcome for each.

    The outcome at a visit tells whether it found the source different from the visit before. That
    of the first visit is ignored, and returned as unchanged.
    """
    t = np.asarray(times, np.float64)
    if t.ndim != 1 or not np.isfinite(t).all():
        raise InputError("the times of the visits must be one flat array of finite days")
    outcome = np.asarray(changed)
    if outcome.shape != t.shape:
        raise InputError(
            f"give one outcome for each visit: there are {t.size} times and outcomes of the shape "
            f"{outcome.shape}"
        )
    if t.size < 2:
        raise EstimationError("one visit compares nothing: at least two visits are needed")
    steps = np.diff(t)
    if (steps <= 0).any():
        row = int(np.argmax(steps <= 0)) + 1
        raise InputError(
            f"visit {row} is not later than the one before ({t[row]} after {t[row - 1]}): sort the "
            "visits and keep one of those at the same time"
        )
    if outcome.dtype != np.bool_ and not np.isin(outcome, (0, 1)).all():
        raise InputError("outcomes are true or false; leave out visits whose outcome is unknown")
    changes = outcome.astype(np.bool_)  # a copy, so the caller's first outcome stays
    changes[0] = False
    return t, changes


def empirical_curve(
    method: str,
    samples: Floats,
    *,
    step: float | None = None,
    maximum: float | None = None,
    notes: tuple[str, ...] = (),
) -> AgeCurve:
    """The share of the samples up to each age: at every sample, or at multiples of `step`.

    Below the tenth smallest sample the curve stands on fewer than ten, and that is its resolution.
    """
    ordered = np.sort(samples)
    if ordered[-1] <= 0:
        raise EstimationError(
            "every age is zero: the dates of modification are those of the visits, as scripts "
            "answer, and tell nothing; compare the contents instead (m4, m6)"
        )
    resolution = float(ordered[min(10, ordered.size) - 1])
    if step is None:
        # An age of zero belongs to the first age above: G itself is 0 there.
        x = np.unique(ordered[ordered > 0])
        x = x if maximum is None else x[: max(1, np.searchsorted(x, maximum, side="right"))]
    else:
        positive("step", step)
        until = float(ordered[-1]) if maximum is None else positive("maximum", maximum)
        x = step * np.arange(1, bins_in(until, step) + 1, dtype=np.float64)
        resolution = max(resolution, step)
    values = np.searchsorted(ordered, x * (1 + 1e-12), side="right") / ordered.size
    return AgeCurve(
        method, x, values, ordered.size, max(resolution, float(np.spacing(x[0]))), notes
    )


def bins_in(maximum: float, step: float) -> int:
    """How many bins reach `maximum`; refused when no memory would hold them."""
    bins = max(1, int(np.ceil(maximum / step - 1e-9)))
    if bins > 50_000_000:
        raise InputError(
            f"{bins:,} bins of {format_duration(step)} up to {format_duration(maximum)} are too "
            "many: take longer bins or a shorter maximum"
        )
    return bins


def positive(name: str, value: float) -> float:
    number = float(value)
    if not (np.isfinite(number) and number > 0):
        raise InputError(f"{name} must be a finite number of days above zero, not {value!r}")
    return number
