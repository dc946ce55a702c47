"""How current a collection is believed to be: now, and in the long run as it is visited."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from observant.estimation.belief import Beliefs

__all__ = ["ExpectedCurrency", "expected_currency", "promised_currency"]

_NORMAL = 1.96


class ExpectedCurrency(NamedTuple):
    """α as it is expected now, with its 95 % interval."""

    alpha: float
    low: float
    high: float


def expected_currency(
    beliefs: Beliefs,
    importance: NDArray[np.float64],
    waited: NDArray[np.float64],
    grace: ArrayLike = 0.0,
    total: int | None = None,
) -> ExpectedCurrency:
    """Expect α of the copies as they are, so many days after their last visits (infinite: none).

    The sources may be an even sample of `total`; then what the others are like is uncertain too.
    """
    if not len(beliefs):
        return ExpectedCurrency(math.nan, math.nan, math.nan)
    late = np.maximum(np.where(np.isfinite(waited), waited, 1e12) - np.asarray(grace, float), 0.0)
    fresh = beliefs.unchanged(late)
    share = importance / max(importance.sum(), 1e-300)
    alpha = float(share @ fresh)
    own = float(np.sum(share**2 * fresh * (1 - fresh)))
    left_out = 0.0 if total is None else 1.0 - len(beliefs) / max(total, 1)
    sampled = float(np.sum(share**2 * (fresh - alpha) ** 2)) * left_out
    spread = _NORMAL * math.sqrt(own * (1.0 - left_out) + sampled)
    return ExpectedCurrency(alpha, max(alpha - spread, 0.0), min(alpha + spread, 1.0))


def promised_currency(
    beliefs: Beliefs,
    importance: NDArray[np.float64],
    period: NDArray[np.float64],
    grace: ArrayLike = 0.0,
) -> float:
    """α in the long run, if every source keeps the period (in days) that it has now."""
    if not len(beliefs):
        return math.nan
    share = importance / max(importance.sum(), 1e-300)
    return float(share @ beliefs.fresh_share(period, grace))
