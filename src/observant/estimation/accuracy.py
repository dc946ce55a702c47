"""How good is an estimate going to be?

Cho's regular-interval estimators see a source n times, one visit every interval I. With the ratio
r = rate × I they depend on n and r alone, so bias, spread and the probability of a given precision
are sums over the number X of visits that find a change, X ~ Binomial(n, 1 − e⁻ʳ). Nothing here is
simulated and nothing is asymptotic. All assume a source that changes as a Poisson process.

A visit counts once per interval: the first look, which has nothing to compare with, is not counted.
How often, and how many times, one must look is the question of `observant.estimation.design`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

import numpy as np

from observant.estimation.exact import (
    between_0_and_1,
    choose_estimator,
    moments,
    positive,
    turning_point,
    visits_and_ratios,
    within,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Flags, Floats
    from observant.estimation.exact import EstimatorOptions, Method


__all__ = [
    "Accuracy",
    "accuracy",
    "information",
    "precision_reached",
    "probability_within",
    "singularity_offset",
]


@dataclass(frozen=True)
class Accuracy:
    """Exact properties of an estimator of the ratio r, in the common shape of visits and ratio."""

    method: str
    visits: Floats
    ratio: Floats
    expected: Floats  # E[r̂]
    bias: Floats  # (E[r̂] − r) / r
    sd: Floats  # σ[r̂]
    relative_sd: Floats  # σ[r̂] / r


def accuracy(
    method: Method, visits: ArrayLike, ratio: ArrayLike, **options: Unpack[EstimatorOptions]
) -> Accuracy:
    """Bias and spread of an estimator after so many regular visits; arguments broadcast.

    The sums are those of Cho's theorem 4.1 and corollaries 4.2 and 4.3, with appendix B's (a, b) in
    ``improved`` and (α, β) in ``bayes-beta``. For ``last-modified`` the joint law of changes X and
    time T is appendix D's with errata C-7 and C-8 mended; E[X'/T] and E[(X'/T)²] are integrals of
    its Laplace transform. What is infinite is returned as infinite: σ of two dated visits, and the
    mean of ``last-modified-raw``, figure 10's X/T, after one. Relative errors of mean and
    spread are below 1e-10 up to ten thousand visits, and below 1e-8 up to a million.

    >>> naive = accuracy("naive", 10, 2.0)  # example 3
    >>> print(f"{naive.bias:.2f}")
    -0.57
    >>> accuracy("improved", [10, 40], 1.5).relative_sd.round(2)  # figure 7
    array([0.4, 0.2])
    >>> without, dated = accuracy("improved", 5, 4.0), accuracy("last-modified", 5, 4.0)
    >>> print(f"{without.bias:.3f} {dated.bias:.5f}")  # example 6
    -0.425 -0.00085
    """
    n, r = visits_and_ratios(visits, ratio)
    expected, sd, _ = moments(choose_estimator(method, options), n, r)
    return Accuracy(method, n[()], r[()], expected, expected / r - 1, sd, sd / r)


def probability_within(
    method: Method,
    visits: ArrayLike,
    ratio: ArrayLike,
    precision: ArrayLike,
    **options: Unpack[EstimatorOptions],
) -> Floats:
    """Probability that the estimate differs from the truth by at most `precision`, relatively.

    Exact: the estimates within reach are counted, ties included. An existence-only estimator
    knows only n + 1 values, so the probability jumps as ratio or visits change: example 4's 75 %
    at r = 1.5 is 53 % at r = 10/7 (erratum C-5). The spread σ/r is the steadier guide.

    >>> probability_within("improved", 10, [10 / 7, 1.5], 0.35).round(3)
    array([0.531, 0.755])
    """
    estimator = choose_estimator(method, options)
    n, r = visits_and_ratios(visits, ratio)
    near = positive(precision, "the precision")
    return within(estimator, *np.broadcast_arrays(n, r, near))


def precision_reached(
    method: Method,
    visits: ArrayLike,
    ratio: ArrayLike,
    probability: ArrayLike = 0.95,
    **options: Unpack[EstimatorOptions],
) -> Floats:
    """Smallest relative precision that is reached with at least this probability.

    >>> precision_reached("improved", [10, 40], 1.5, 0.75).round(3)
    array([0.297, 0.22 ])
    """
    estimator = choose_estimator(method, options)
    n, r = visits_and_ratios(visits, ratio)
    n, r, wanted = np.broadcast_arrays(n, r, between_0_and_1(probability))

    def falls_short(log_precision: Floats) -> Flags:
        return within(estimator, n, r, np.exp(log_precision)) < wanted

    # An estimate a billion times too large: no wanted probability asks for more than that.
    return np.exp(turning_point(falls_short, np.log(1e-12), np.log(1e9), n.shape))[()]


def information(ratio: ArrayLike, *, dated: bool = False) -> Floats:
    """Fisher information about log rate in one visit: x²/(eˣ − 1), or 1 − e⁻ˣ with a date.

    No unbiased estimate from n visits has σ/r below 1/√(n × information). Without dates a visit
    tells most at x = 1.5936.

    >>> information([0.1, 1.5936, 5.0]).round(3), information(3.0, dated=True).round(2)
    (array([0.095, 0.648, 0.17 ]), np.float64(0.95))
    """
    _, x = visits_and_ratios(1, ratio)
    unchanged = np.exp(-x)
    return -np.expm1(-x) if dated else x**2 * unchanged / -np.expm1(-x)


def singularity_offset(visits: ArrayLike) -> Floats:
    """The a of appendix B (figure 19): −log((n−X+a)/(n+a)) is then unbiased as r → 0.

    a = 1/(e^{1/n} − 1) − n + 1, the root of n log((n+a)/(n−1+a)) = 1 (erratum C-2); it tends to ½.

    >>> singularity_offset([1, 2, 10, 1000]).round(4)
    array([0.582 , 0.5415, 0.5083, 0.5001])
    """
    n, _ = visits_and_ratios(visits, 1.0)
    # For large n the closed form subtracts nearly equal numbers; its series does not.
    series = 0.5 + 1 / (12 * n) - 1 / (720 * n**3)
    return np.where(n > 100, series, 1 / np.expm1(1 / n) - n + 1)[()]
