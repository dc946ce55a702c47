"""How far an estimated distribution is from the true one. Li (53), (54) and (36)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["ks", "relative_error_of_mean", "wmrd"]


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


def _pair(estimate: ArrayLike, truth: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
