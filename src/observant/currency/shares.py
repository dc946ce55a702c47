"""Shares of a period that are lost, with all their digits, for few and for many updates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.arrays import Floats


def share_lost(x: Floats) -> Floats:
    """1 − (1 − e⁻ˣ)/x: the share of a period lost when x updates are expected in it.

    >>> print(share_lost(np.array([0.0, 1e-9, 1.0, np.inf])).round(12))
    [0.00000000e+00 5.00000000e-10 3.67879441e-01 1.00000000e+00]
    """
    return below_one(x, lambda x: x * _series(x, 1), lambda x: 1.0 + np.expm1(-x) / x)


def share_lost_twice(x: Floats) -> Floats:
    """1/2 − 1/x + (1 − e⁻ˣ)/x², the same for the time since the oldest missed update."""
    return below_one(x, lambda x: x * _series(x, 2), lambda x: 0.5 - (1.0 + np.expm1(-x) / x) / x)


def below_one(
    x: Floats, near: Callable[[Floats], Floats], far: Callable[[Floats], Floats]
) -> Floats:
    """Use one formula below 1 and another from 1 on."""
    x = np.asarray(x, float)
    small = x < 1.0
    if small.all():
        return near(x)
    if not small.any():
        return far(x)
    return np.where(small, near(np.minimum(x, 1.0)), far(np.maximum(x, 1.0)))


def _series(x: Floats, order: int) -> Floats:
    """Σ (−x)ⁿ / (n + 1 + order)!, for x up to 1."""
    total = np.zeros_like(x)
    for n in range(16, -1, -1):
        total = 1.0 / math.factorial(n + 1 + order) - x * total
    return total
