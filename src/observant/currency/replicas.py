"""How many replicas to ask, so that one of them is current (Li, III.B).

Each of k replicas refreshes itself every T days, at a phase of its own. The best is the one that
looked last: R days ago, the least of k even chances on [0, T]. So it is β-current with probability

    1 − E[G((R − β)⁺)],  R = T (1 − (1 − U)^(1/k)),  U even on [0, 1]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.currency.age_models import as_model, not_negative
from observant.errors import InputError

if TYPE_CHECKING:
    from observant.currency.age_models import Source

_POINTS = 20_000
MOST = 1_000_000


def replica_currency(source: Source, period: float, replicas: int = 1, grace: float = 0.0) -> float:
    """Probability that the best of so many replicas is current, each refreshed every `period`.

    >>> from observant.currency import currency
    >>> print(round(replica_currency(1.0, 1.0), 4), currency(1.0, 1.0).round(4))
    0.6321 0.6321
    >>> [round(replica_currency(1.0, 1.0, k), 3) for k in (2, 5, 20)]
    [0.736, 0.854, 0.954]
    """
    model = as_model(source)
    for name, value in (("period", period), ("grace", grace)):
        not_negative(name, value, finite=True)
    if replicas < 1:
        raise InputError(f"there is at least one replica, not {replicas!r}")
    u = (np.arange(_POINTS) + 0.5) / _POINTS
    ago = period * -np.expm1(np.log1p(-u) / replicas)
    return float(1.0 - np.mean(model.age_cdf(np.maximum(ago - grace, 0.0))))


def replicas_needed(source: Source, period: float, target: float, grace: float = 0.0) -> int:
    """How many replicas to ask so that the best is current with probability `target`.

    >>> replicas_needed(1.0, 1.0, 0.95)
    19
    """
    if not 0 < target < 1:
        raise InputError(f"the target is a probability between 0 and 1, not {target!r}")
    low, high = 0, 1
    while replica_currency(source, period, high, grace) < target:
        low, high = high, 2 * high
        if high > MOST:
            raise InputError(f"no number of replicas up to {MOST:,} is enough")
    while high - low > 1:
        middle = (low + high) // 2
        enough = replica_currency(source, period, middle, grace) >= target
        low, high = (low, middle) if enough else (middle, high)
    return high
