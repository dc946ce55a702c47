"""What a source is worth: how often people ask for it, from a log of accesses.

The mean of N exponential times between accesses has Brewington's Erlang distribution (4.30), so
the rate of accesses is known to about one part in √N. Few sources have many accesses; as with
rates of change, the collection is the prior: rates of access are taken as Gamma distributed, with
the shape and scale that make the counts most likely, and each source's posterior is Gamma again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.errors import InputError
from observant.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from observant.arrays import Floats, Integers


@dataclass(frozen=True, eq=False)
class AccessTable(Table):
    """How often each source is asked for: give `importance` to `plan`."""

    columns: ClassVar[tuple[str, ...]] = ("accesses", "importance", "low", "high", "gap_days")

    accesses: Floats
    """How often each source was asked for."""
    importance: Floats
    """Accesses a day."""
    low: Floats
    high: Floats
    gap_days: Floats
    """Mean time between accesses, τ; its error is that of (4.30)."""
    shape: float
    """Of the Gamma prior; 0 where the sources were not pooled."""
    exposure: float
    """Days of watching that the prior is worth."""


def access_importance(
    accesses: ArrayLike,
    days: ArrayLike,
    *,
    pooled: bool = True,
    confidence: float = 0.95,
) -> AccessTable:
    """Accesses a day from the number of accesses in so many days, with an interval.

    Not pooled, the interval is the exact one of the Erlang distribution (4.30). Pooled, it is that
    of the posterior, and a source never asked for still has some importance.

    >>> few = access_importance([0, 1, 2, 40], days=10)
    >>> print(few.importance.round(2), access_importance([4], 10, pooled=False).importance)
    [0.03 0.13 0.22 3.92] [0.4]
    """
    counts, time = np.atleast_1d(np.asarray(accesses, float)), np.asarray(days, float)
    if not np.all(np.isfinite(counts) & (counts >= 0.0)):
        raise InputError("the number of accesses must be finite and not negative")
    if not np.all(np.isfinite(time) & (time > 0.0)):
        raise InputError("the days over which accesses were counted must be finite and above 0")
    time = np.broadcast_to(time, counts.shape)
    if not 0.0 < confidence < 1.0:
        raise InputError(f"the confidence must lie between 0 and 1, not {confidence:g}")
    from scipy.special import gammaincinv

    tail = (1.0 - confidence) / 2.0
    shape, exposure = _gamma_prior(counts, time) if pooled else (0.0, 0.0)
    known, total = counts + shape, time + exposure
    upper = known if pooled else counts + 1.0  # Garwood's exact bounds for a count
    low = np.where(known > 0.0, gammaincinv(np.maximum(known, 1e-300), tail), 0.0) / total
    high = gammaincinv(upper, 1.0 - tail) / total
    rate = known / total
    with np.errstate(divide="ignore"):
        gap = 1.0 / rate
    return AccessTable(counts, rate, low, high, gap, float(shape), float(exposure))


def count_accesses(source: Sequence[str], accessed: Sequence[str] | Any) -> Integers:
    """Count how often each source occurs in a list of accesses; what is not a source is ignored.

    >>> print(count_accesses(["a", "b", "c"], ["b", "a", "b", "elsewhere"]))
    [1 2 0]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    where = pc.index_in(pa.array(accessed), value_set=pa.array(source)).drop_null()
    return np.bincount(np.asarray(where).astype(np.int64), minlength=len(source))


def _gamma_prior(counts: Floats, time: Floats) -> tuple[float, float]:
    """The Gamma(a, b) under which the counts, negative binomial then, are most likely."""
    if not np.any(counts > 0.0):
        raise InputError("no source was accessed, so nothing tells their importance")
    from scipy.optimize import minimize_scalar
    from scipy.special import gammaln

    mean = counts.sum() / time.sum()

    def loss(log_shape: float) -> float:
        # For each shape the mean rate is kept; it is the maximum for equal times.
        a = np.exp(log_shape)
        b = a / mean
        fit = gammaln(counts + a) - gammaln(a) + a * np.log(b / (b + time))
        return -float(np.sum(fit - counts * np.log(b + time)))

    shape = float(np.exp(minimize_scalar(loss, bounds=(-7.0, 7.0), method="bounded").x))
    return shape, shape / mean
