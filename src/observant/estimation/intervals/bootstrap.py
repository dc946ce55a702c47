"""How sure is an estimate from dependent visits? Resample whole stretches of the log.

Visits between two updates see the same interval, and neighbouring intervals may be alike. So the
log is cut at its changes, and stretches of consecutive cycles (from one change to the next) are
drawn with replacement and put end to end until there are as many visits as before.

Bands of 90 % held the truth in 79 to 91 % of 33 logs of 500 visits for G, 85 to 94 % for F, 91 %
for the mean and 73 to 94 % for quantiles (Li's Pareto source, exponential gaps): a little too
narrow in the far tail, where a log holds few intervals, and at the shortest intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import EstimationError, InputError
from observant.estimation.intervals.concave import checked_visits

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from observant.processes.base import Floats
    from observant.processes.updates import Seed

    Estimator = Callable[[Floats, NDArray[np.bool_], Floats, Floats], ArrayLike]

__all__ = ["PointBands", "block_bands"]

FEWEST_CYCLES = 5
"""With fewer changes there is nothing to resample."""


@dataclass(frozen=True, eq=False)
class PointBands:
    """An estimate with bounds, point by point."""

    x: Floats
    estimate: Floats
    low: Floats
    high: Floats
    level: float
    replicates: int
    """Resampled logs that had an answer."""
    block: int
    """Cycles, from one change to the next, in a stretch."""
    notes: tuple[str, ...] = ()


def block_bands(
    times: ArrayLike,
    changed: ArrayLike,
    ages: ArrayLike | None,
    estimator: Estimator,
    x: ArrayLike,
    *,
    replicates: int = 200,
    level: float = 0.9,
    block: int | None = None,
    seed: Seed = None,
) -> PointBands:
    """Bounds of any estimate by the block bootstrap, from percentiles of the resampled logs.

    `estimator(times, changed, ages, x)` returns one number for each x. A stretch has `block`
    cycles; where it is not given, the cube root of their number, rounded up, the usual rate for
    the variance of a mean of dependent values. The same seed gives the same bounds.

    >>> visits = np.arange(300.0)
    >>> share = lambda times, changed, ages, x: [changed[1:].mean()]
    >>> bands = block_bands(visits, visits % 3 == 0, None, share, [0.0], seed=1)
    >>> bands.estimate.round(2).tolist(), bands.low.round(2).tolist(), bands.block
    ([0.33], [0.32], 5)
    """
    s, found, age = checked_visits(times, changed, ages)
    at = np.atleast_1d(np.asarray(x, np.float64))
    if not 0.0 < level < 1.0:
        raise InputError(f"level must be between 0 and 1, not {level}")
    if replicates < 20:
        raise InputError(f"replicates must be at least 20, not {replicates}")
    ends = np.flatnonzero(found)
    if len(ends) < FEWEST_CYCLES:
        raise EstimationError(
            f"bands need at least {FEWEST_CYCLES} changes, and the visits found {len(ends)}"
        )
    length = block or int(np.ceil(len(ends) ** (1.0 / 3.0)))
    if not 1 <= length <= len(ends):
        raise InputError(f"block must be from 1 to the {len(ends)} changes, not {block}")
    estimate = np.asarray(estimator(s, found, age, at), np.float64)
    rng = np.random.default_rng(seed)
    answers = []
    for _ in range(replicates):
        rows = _resampled(ends, len(s), length, rng)
        steps = np.diff(s, prepend=s[0])
        start = np.append(0.0, steps[rows]).cumsum()
        try:
            answer = np.asarray(
                estimator(start, np.append(False, found[rows]), np.append(np.nan, age[rows]), at),
                np.float64,
            )
        except EstimationError:
            continue
        if np.isfinite(answer).all():
            answers.append(answer)
    if len(answers) < 20:
        raise EstimationError(
            f"only {len(answers)} of {replicates} resampled logs had an answer; visit for longer"
        )
    low, high = np.quantile(answers, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
    notes: tuple[str, ...] = ()
    if len(answers) < replicates:
        notes = (f"{replicates - len(answers)} of {replicates} resampled logs had no answer",)
    return PointBands(at, estimate, low, high, level, len(answers), length, notes)


def _resampled(
    ends: NDArray[np.intp], visits: int, length: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Rows of the visits after the first, in stretches that end with a change.

    The log is closed to a ring: what follows the last change joins what precedes the first.
    """
    starts = np.append(ends[-1], ends[:-1])
    sizes = (ends - starts) % (visits - 1)
    sizes[sizes == 0] = visits - 1
    rows: list[NDArray[np.intp]] = []
    total = 0
    while total < visits - 1:
        first = int(rng.integers(len(ends)))
        for cycle in np.arange(first, first + length) % len(ends):
            # Row r of the ring is visit 1 + r: the first visit ends no gap.
            rows.append(1 + (starts[cycle] + np.arange(sizes[cycle])) % (visits - 1))
            total += int(sizes[cycle])
    return np.concatenate(rows)[: visits - 1]
