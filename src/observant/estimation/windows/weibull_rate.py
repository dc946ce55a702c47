"""The rate within a window: Singh's estimators, and their corrected forms.

Times t₁ < … < tₙ are counted from the beginning of the window, and the window ends with its last
point. With S = Σ ln(tₙ/tᵢ), β̂ = n/S is the maximum-likelihood shape of the power law
λ(t) = (β/η)(t/η)^{β−1} (Singh 3 to 5; the logarithm of the likelihood ends in (β−1)Σ ln tᵢ,
erratum S-1). What is exact about it, for a window that was not chosen by looking at the data:

    2nβ/β̂ = 2βS    is chi-square with 2(n−1) degrees of freedom, so β̃ = (n−2)/S is unbiased
    (tₙ/η)^β        is Gamma(n), and independent of S

so λ(tₙ) = β(tₙ/η)^β/tₙ has the exact interval of a product of two Gammas, and the unbiased
estimator (n−1)(n−2)/(S tₙ) = (n−1)(n−2)β̂/(n tₙ). Singh's λ̌ has the mean
n(n−3)/((n−1)(n−2)) λ there, not λ (erratum S-3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.names import ESTIMATORS

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Floats, Integers
    from observant.estimation.windows.consistent import Windows


__all__ = [
    "ESTIMATORS",
    "log_sum",
    "mse",
    "rate_interval",
    "rates_at_points",
    "shape_interval",
    "trend_p_value",
]


def log_sum(windows: Windows) -> Floats:
    """S = Σ ln(tₙ/tᵢ) of each window; β̂ = n/S and β̃ = (n−2)/S."""
    return windows.sums(np.log(windows.end[windows.window] / windows.t))


def rates_at_points(windows: Windows, estimator: str, unit: float = 1.0) -> Floats:
    """λ(tᵢ) at every point, fitted to the window the point is in; `unit` is τ of cho and matloff.

    NaN where a window has too few points: four for λ̌ and λ̄, three for the corrected form, two for
    the others.
    """
    if estimator not in ESTIMATORS:
        raise InputError(f"unknown estimator {estimator!r}; choose one of {', '.join(ESTIMATORS)}")
    if not unit > 0:
        raise InputError(f"the unit τ must be a positive number of days, not {unit}")
    n = windows.n.astype(float)
    each = windows.window
    if estimator == "count":
        return (n / windows.end)[each]
    if estimator.startswith("weibull"):
        return _power_law(windows, estimator, n)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if estimator.startswith("duane"):
            x = np.log(windows.t)
            slope, level = _line(windows, x, x - np.log(windows.rank))
            rate = np.exp(-level[each] - slope[each] * x)
            return rate if estimator == "duane" else (1 - slope[each]) * rate
        if estimator == "linear":
            slope, level = _line(windows, windows.t, windows.gaps)
            return 1 / np.maximum(level[each] + slope[each] * windows.t, 0.0)
        tried, hit = _intervals(windows, unit)
        half = 0.5 if estimator == "cho" else 0.0
        rate = -np.log((tried - hit + half) / (tried + half)) / unit
        return rate[each]


def _power_law(windows: Windows, estimator: str, n: Floats) -> Floats:
    least = {"weibull": 4, "weibull-bar": 4, "weibull-corrected": 3}.get(estimator, 2)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        s = log_sum(windows)
        tilde = (n - 2) / s
        shape, factor = {
            "weibull": (tilde, (n - 3) / (n - 2)),
            "weibull-ml": (n / s, np.ones(len(n))),
            "weibull-bar": (n / s, (n - 3) / n),
            "weibull-corrected": (tilde, (n - 1) / n),
        }[estimator]
        level = np.where(n >= least, factor * n * shape / windows.end, np.nan)
        each = windows.window
        later = windows.t / windows.end[each]
        return level[each] * later ** (shape[each] - 1)


def _line(windows: Windows, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Slope and intercept of the straight line closest to the points of each window."""
    n, each = windows.n, windows.window
    mean_x, mean_y = windows.sums(x) / n, windows.sums(y) / n
    dx = x - mean_x[each]
    slope = windows.sums(dx * (y - mean_y[each])) / windows.sums(dx * dx)
    return slope, mean_y - slope * mean_x


def _intervals(windows: Windows, unit: float) -> tuple[Floats, Floats]:
    """Intervals of length τ in each window, and those with at least one point: Cho's n and X.

    They are half open, (0, τ], (τ, 2τ], …, so that a point on an edge belongs to the visit there.
    """
    box = np.ceil(windows.t / unit - 1e-9)
    new = np.ones(len(box))
    new[1:] = (box[1:] != box[:-1]) | (windows.window[1:] != windows.window[:-1])
    return box[windows.offsets[1:] - 1], windows.sums(new)


def mse(windows: Windows, rates: Floats, error: str = "gap") -> Floats:
    """Mean square error of each window, in days², with MTBU(t) ≈ 1/λ(t).

    ``gap`` is Singh 3.5: 1/λ(tᵢ) − (tᵢ − tᵢ₋₁). ``position`` is Singh 5: the points regenerated one
    after the other, Σⱼ≤ᵢ 1/λ(tⱼ) − tᵢ (erratum S-10).
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        off = 1 / rates - windows.gaps
        if error == "position":
            off = _running_sums(windows, off)
        elif error != "gap":
            raise InputError(f"error is gap or position, not {error!r}")
        return windows.sums(off * off) / windows.n


def _running_sums(windows: Windows, values: Floats) -> Floats:
    """Sum up within each window, without losing digits to the windows before."""
    finite = np.where(np.isfinite(values), values, 0.0)
    total = np.cumsum(finite)
    before = (total - finite)[windows.offsets[:-1]]
    out = total - before[windows.window]
    broken = windows.sums((~np.isfinite(values)).astype(float)) > 0
    return np.where(broken[windows.window], np.nan, out)


# -- what is exact ------------------------------------------------------------------------------


def shape_interval(n: ArrayLike, s: ArrayLike, confidence: float) -> tuple[Floats, Floats]:
    """Exact interval for β, from 2βS ~ χ²(2(n−1)) (Singh, lemma 1).

    >>> [bound.round(3).item() for bound in shape_interval(10, 10.0, 0.95)]
    [0.412, 1.576]
    """
    from scipy.special import gammaincinv

    n, s = np.asarray(n, float), np.asarray(s, float)
    tail = (1 - confidence) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (gammaincinv(np.maximum(n - 1, 0.5), q) / s for q in (tail, 1 - tail))
    known = n >= 2
    return np.where(known, low, 0.0), np.where(known, high, np.inf)


def rate_interval(
    n: ArrayLike, s: ArrayLike, end: ArrayLike, confidence: float
) -> tuple[Floats, Floats]:
    """Exact interval for λ(tₙ): S tₙ λ(tₙ) is a Gamma(n−1) times an independent Gamma(n).

    >>> [bound.round(3).item() for bound in rate_interval(10, 10.0, 5.0, 0.95)]
    [0.609, 3.868]
    """
    n, s, end = np.broadcast_arrays(
        np.asarray(n, np.int64), np.asarray(s, float), np.asarray(end, float)
    )
    tail = (1 - confidence) / 2
    sizes, back = np.unique(n, return_inverse=True)
    back = back.reshape(n.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (_product_quantile(sizes, q)[back] / (s * end) for q in (tail, 1 - tail))
    known = n >= 2
    return np.where(known, low, 0.0), np.where(known, high, np.inf)


def _product_quantile(n: Integers, probability: float) -> Floats:
    """Quantile of Gamma(n−1)·Gamma(n), by quadrature over the first and bisection."""
    from scipy.special import gammainc, gammaincinv

    node, weight = np.polynomial.legendre.leggauss(96)
    # Squared at both ends, the nodes crowd where the other factor must be large or small.
    u = (1 + node) / 2
    share = u * u * (3 - 2 * u)
    weight = weight / 2 * 6 * u * (1 - u)
    size = np.maximum(n, 2)[:, None].astype(float)
    first = gammaincinv(size - 1, share)
    spread = 12 / np.sqrt(size[:, 0])
    low, high = 2 * np.log(size[:, 0]) - spread - 3, 2 * np.log(size[:, 0]) + spread
    for _ in range(60):
        middle = (low + high) / 2
        below = (weight * gammainc(size, np.exp(middle)[:, None] / first)).sum(axis=1)
        low, high = (
            np.where(below < probability, middle, low),
            np.where(below < probability, high, middle),
        )
    return np.asarray(np.exp((low + high) / 2))


def trend_p_value(n: ArrayLike, s: ArrayLike) -> Floats:
    """Two-sided p-value of a constant rate: under it, 2S ~ χ²(2(n−1)).

    >>> trend_p_value([10, 10], [9.0, 3.0]).round(4)
    array([0.9..., 0.0076])
    """
    from scipy.special import gammainc, gammaincc

    n, s = np.asarray(n, float), np.asarray(s, float)
    shape = np.maximum(n - 1, 0.5)
    p = 2 * np.minimum(gammainc(shape, s), gammaincc(shape, s))
    return np.where(n >= 2, np.minimum(p, 1.0), np.nan)
