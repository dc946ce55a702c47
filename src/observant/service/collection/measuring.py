"""Currency as the visits found it, beside what was expected of the same time.

Between two good visits a copy is current until the first update that it misses (plus the grace).
Nothing changed: it was current all the time. Something changed: the first update came at some
moment τ of the gap T, and for a source of rate λ its mean time of being current is

    E[min(τ + β, T) | τ < T]

which needs λ only for the shape of τ within one gap: uniform when λT is small. So the answer leans
on what the visits saw, not on what was believed; `expected` is the model's word on the very same
gaps, ∫₀ᵀ e^(−λ (t−β)⁺) dt. Sources are picked at random, each counts with its importance, and the
interval comes from the spread between sources (a ratio estimate).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.service.answers import Measured
from observant.times import DAY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from observant.service.beliefs import Beliefs
    from observant.store import Store

__all__ = ["current_time", "expected_time", "measured"]


SOURCES = 400
WINDOW_DAYS = 28.0
_LEAST = 20
"""Gaps below which nothing is said."""


def measured(
    store: Store, beliefs: Beliefs, grace: float, *, sources: int = SOURCES, seed: int = 0
) -> Measured | None:
    """Measure α on the visits of some sources; None while there are too few."""
    rng = np.random.default_rng(seed)
    seen = np.flatnonzero(np.isfinite(beliefs.columns.good_at) & (beliefs.importance > 0))
    if not len(seen):
        return None
    picked = rng.permutation(seen)[:sources]
    numbers = beliefs.columns.id[picked]
    since = beliefs.at - WINDOW_DAYS * DAY
    table = store.visits.timelines(numbers.tolist(), since=since, limit=200_000)
    if len(table) < 2:
        return None
    same = table[1:, 0] == table[:-1, 0]
    gap = np.diff(table[:, 1])[same] / DAY
    changed = table[1:, 2][same]
    owner = table[1:, 0][same]
    known = np.isfinite(changed) & (gap > 0)
    gap, changed, owner = gap[known], changed[known] == 1, owner[known]
    if len(gap) < _LEAST:
        return None
    order = np.argsort(numbers)
    place = order[np.searchsorted(numbers[order], owner.astype(np.int64))]
    weight, rate = beliefs.importance[picked], beliefs.rate[picked]
    found = np.where(changed, current_time(gap, rate[place], grace), gap)
    totals = {
        "time": gap,
        "found": found,
        "expected": expected_time(gap, rate[place], grace),
        "least": np.where(changed, np.minimum(grace, gap), gap),
        "most": gap,
    }
    by_source = {
        name: np.bincount(place, values, minlength=len(picked)) for name, values in totals.items()
    }
    # Every source counts with its importance, however long it was watched.
    watched = by_source["time"] > 0
    share = weight[watched] / weight[watched].sum()

    def alpha(name: str) -> float:
        return float(share @ (by_source[name][watched] / by_source["time"][watched]))

    value = alpha("found")
    residual = by_source["found"][watched] / by_source["time"][watched] - value
    count = int(watched.sum())
    error = float(np.sqrt(np.sum((share * residual) ** 2) * count / max(count - 1, 1)))
    return Measured(
        alpha=value,
        low=max(value - 1.96 * error, 0.0),
        high=min(value + 1.96 * error, 1.0),
        expected=alpha("expected"),
        least=alpha("least"),
        most=alpha("most"),
        window_days=WINDOW_DAYS,
        sources=count,
        visits=len(gap),
        method=f"{len(gap):,} gaps between good visits of {count:,} sources picked at random, "
        f"over {WINDOW_DAYS:g} days; 95 % interval from the spread between sources",
    )


def current_time(
    gap: NDArray[np.float64], rate: NDArray[np.float64], grace: float
) -> NDArray[np.float64]:
    """Mean time in a gap for which a copy was current, given that something changed in it.

    With u = min(T, T − β)⁺ the copy is current for β + E[min(τ, u)], and for τ exponential and
    below T: E[min(τ, u) | τ < T] = (∫₀ᵘ e^(−λt) dt − u e^(−λT)) / (1 − e^(−λT)).

    >>> print(current_time(np.array([2.0]), np.array([1e-9]), 0.0).round(6))
    [1.]
    """
    late = np.maximum(gap - grace, 0.0)
    x = np.maximum(rate * gap, 1e-7)
    lam = x / np.maximum(gap, 1e-300)
    mean = (-np.expm1(-lam * late) / lam - late * np.exp(-x)) / -np.expm1(-x)
    small = late * (1.0 - late / (2.0 * np.maximum(gap, 1e-300)))  # the limit for λT → 0
    mean = np.where(x < 1e-4, small, mean)
    return np.asarray(np.minimum(np.minimum(grace, gap) + mean, gap))


def expected_time(
    gap: NDArray[np.float64], rate: NDArray[np.float64], grace: float
) -> NDArray[np.float64]:
    """Mean time in a gap for which a copy of a source of this rate is current.

    >>> print(expected_time(np.array([1.0]), np.array([1.0]), 0.0).round(4))
    [0.6321]
    """
    late = np.maximum(gap - grace, 0.0)
    rate = np.maximum(rate, 1e-12)
    return np.asarray(np.minimum(grace, gap) - np.expm1(-rate * late) / rate)
