"""Is there a season at all? A test of flat against anything smooth.

The score of log θ at flat, U, is a sum over windows with mean 0 and the information V as its
variance, when the source is Poisson without a season. Q = U'KU with the covariance K of the
candidate seasons is the locally best test against them, and has the distribution of a weighted sum
of χ²₁, weights the eigenvalues of V^½KV^½. Its tail is taken by Kuonen's saddlepoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from observant.estimation.season.priors import SeasonPrior
    from observant.estimation.season.shape import Likelihood

__all__ = ["flat_p_value", "quadratic_tail"]

_VISIBLE = 1e-6


def flat_p_value(likelihood: Likelihood, priors: list[SeasonPrior]) -> float:
    """P-value of "this source has no season"; 1 where the visits cannot show one."""
    basis = priors[0].basis
    # Candidates differ in scale; each counts for the same.
    kernel = sum(p.covariance / np.trace(p.covariance) for p in priors)
    flat = likelihood.at(np.zeros(likelihood.clock.count), profile=True)
    score = basis.T @ flat.gradient
    variance = basis.T @ flat.information @ basis
    if np.trace(variance) < _VISIBLE:
        return 1.0
    root = np.linalg.cholesky(kernel)
    weights = np.linalg.eigvalsh(root.T @ variance @ root)
    return quadratic_tail(float(score @ kernel @ score), weights.astype(np.float64))


def quadratic_tail(q: float, weights: NDArray[np.float64]) -> float:
    """P(Σ wᵢ χ²₁ > q), by the saddlepoint of Kuonen (1999).

    >>> round(quadratic_tail(3.8415, np.array([1.0])), 3)  # exactly 0.050
    0.052
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr

    w = weights[weights > 1e-9 * max(weights.max(), 0.0)]
    if not w.size or q <= 0:
        return 1.0
    w, q = w / w.sum(), q / w.sum()  # now the mean is 1

    def slope(z: float) -> float:
        return float((w / (1 - 2 * z * w)).sum() - q)

    if abs(q - 1) < 1e-3:  # the formula has a hole at the mean; its sides meet
        return 0.5 * (quadratic_tail(1.002, w) + quadratic_tail(0.998, w))
    high = (0.5 / w.max()) * (1 - 1e-12)
    low = -1.0
    while slope(low) > 0:
        low *= 4
    z = brentq(slope, low, high, xtol=1e-14)
    generating = -0.5 * np.log1p(-2 * z * w).sum()
    bend = 2 * (w**2 / (1 - 2 * z * w) ** 2).sum()
    r = np.sign(z) * np.sqrt(max(2 * (z * q - generating), 0.0))
    v = z * np.sqrt(bend)
    return float(ndtr(-(r + np.log(v / r) / r)))
