"""The estimators of Cho's sections 4 and 5, and the exact laws of their estimates.

A source is visited n times at regular intervals, with r updates expected in each. X of the visits
find a change; dated visits also tell T, the time in which no update was seen: the whole interval of
an unchanged visit, the age at a changed one. An estimator is a function of n, X and T; `moments`
and `within` say what its estimates are worth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast, get_args

import numpy as np

from observant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from observant.arrays import Flags, Floats


Method = Literal["naive", "improved", "bayes-beta", "last-modified", "last-modified-raw"]

FEW = 13  # ages in a sum whose law is summed term by term


class EstimatorOptions(TypedDict, total=False):
    """The parameters of the estimators, named as in `estimate_rates`."""

    offsets: tuple[float, float]  # improved: (a, b) of appendix B, (½, ½)
    beta_prior: tuple[float, float]  # bayes-beta: (α, β) of the prior for a change, (1, 1)


@dataclass(frozen=True)
class Estimator:
    """A method with its parameters: −log((n−X+a)/(n+b)) unless it is ``naive`` or dated."""

    method: Method
    a: float
    b: float

    @property
    def dated(self) -> bool:
        return self.method in ("last-modified", "last-modified-raw")

    def value(self, n: Floats, changes: Floats) -> Floats:
        """Estimate r without dates."""
        if self.method == "naive":
            return changes / n
        return -np.log((n - changes + self.a) / (n + self.b))

    def changes_at(self, n: Floats, r: Floats) -> Floats:
        """Return the (fractional) changes that lead to the estimate r."""
        if self.method == "naive":
            return n * r
        return (self.a - self.b) - (n + self.b) * np.expm1(-r)

    def numerator(self, n: Floats, changes: Floats) -> Any:
        """X of figure 10 or X' of figure 13, to be divided by the time T."""
        if self.method == "last-modified-raw":
            return changes
        x = changes / n
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(x > 0, changes - 1 - x / np.log1p(-x), 0.0)


def choose_estimator(method: str, options: EstimatorOptions) -> Estimator:
    if method not in get_args(Method):
        raise InputError(f"unknown method {method!r}; choose from {', '.join(get_args(Method))}")
    for option, belongs in (("offsets", "improved"), ("beta_prior", "bayes-beta")):
        if option in options and method != belongs:
            raise InputError(f"{option} belongs to the method {belongs!r}, not to {method!r}")
    a, b = options.get("offsets", (0.5, 0.5))
    if method == "bayes-beta":
        alpha, beta = options.get("beta_prior", (1.0, 1.0))
        a, b = beta, alpha + beta
    if not 0 < a <= b < math.inf:
        raise InputError(
            "the estimator needs offsets 0 < a <= b (a beta_prior above zero); otherwise a rate "
            "could be negative or infinite"
        )
    return Estimator(cast("Method", method), a, b)


# What an estimate is worth


def moments(estimator: Estimator, n: Floats, r: Floats) -> tuple[Floats, ...]:
    """Mean and standard deviation of the estimated r, and the derivative of the mean by r."""
    return _by_rows(_dated_moments if estimator.dated else _undated_moments, estimator, n, r)


def within(estimator: Estimator, n: Floats, r: Floats, precision: Floats) -> Floats:
    """Probability that the estimated r differs from r by at most the precision times r."""
    law = _dated_probability if estimator.dated else _undated_probability
    return _by_rows(law, estimator, n, r, precision)[0]


# The laws of X and T, in rows: one row for each pair of n and r


def _undated_moments(estimator: Estimator, n: Floats, r: Floats) -> tuple[Floats, ...]:
    changes, weight = _binomial(n, _log_odds(r))
    value = estimator.value(n[:, None], changes)
    mean = (weight * value).sum(axis=1)
    off = value - mean[:, None]
    changed = -np.expm1(-r)
    # The score of the binomial by r is (X − n(1−e⁻ʳ)) / (1−e⁻ʳ).
    slope = (weight * off * (changes - (n * changed)[:, None])).sum(axis=1) / changed
    return mean, np.sqrt((weight * off**2).sum(axis=1)), slope


def _undated_probability(
    estimator: Estimator, n: Floats, r: Floats, precision: Floats
) -> tuple[Floats, ...]:
    from scipy.special import betainc

    bounds = (r * np.maximum(1 - precision, 0), r * (1 + precision))  # no estimate is negative
    low, high = (estimator.changes_at(n, bound) for bound in bounds)
    slack = 1e-9 + 1e-14 * n  # ties count as within, whatever the rounding
    low, high = np.ceil(low - slack), np.floor(high + slack)

    def at_most(k: Floats) -> Floats:
        k = np.clip(k, -1, n)
        tail = betainc(np.maximum(n - k, 0.5), np.maximum(k + 1, 0.5), np.exp(-r))
        return np.where(k < 0, 0.0, np.where(k >= n, 1.0, tail))

    return (np.maximum(at_most(high) - at_most(low - 1), 0.0),)


def _dated_moments(estimator: Estimator, n: Floats, r: Floats) -> tuple[Floats, ...]:
    """E[c/T] = ∫ E[c e⁻ˢᵀ] ds and E[c²/T²] = ∫ s E[c² e⁻ˢᵀ] ds, where T counts intervals.

    One visit contributes e⁻ˢᵗ = B = e^{−(r+s)} if unchanged and A = r(1−B)/(r+s) if changed, so
    that under the integral X is binomial again, with odds A/B. The trapezoid rule in
    log s converges geometrically; its ends leave 1e-16.
    """
    scale = r / (n * -np.expm1(-r))
    tail = 17 * math.log(10) / max(float(n.min()) - 2, 1.0)
    step = 0.15
    u = np.arange(-3.7, math.log(n.min() * math.expm1(tail)) + step, step)
    s = scale[:, None] * np.exp(u - np.exp(-u))
    ds = s * (1 + np.exp(-u)) * step
    both = r[:, None] + s
    gone = -np.expm1(-both) * s / both  # 1 − A − B
    left = np.log((r[:, None] + s * np.exp(-both)) / both)
    transform = np.exp(n[:, None] * np.where(gone < 0.5, np.log1p(-np.minimum(gone, 0.5)), left))
    odds = _log_odds(both) + np.log(r[:, None] / both)
    nodes = np.repeat(n, u.size)
    changes, weight = _binomial(nodes, odds.ravel())
    c = estimator.numerator(nodes[:, None], changes)
    first, second = ((weight * c**power).sum(axis=1).reshape(s.shape) for power in (1, 2))
    mean = (transform * first * ds).sum(axis=1)
    square = (transform * second * s * ds).sum(axis=1)
    # The k-th moment of c/T exists only for n > k, unless c(n) = 0 as in figure 13 at n = 1.
    heavy = n > (0 if estimator.method == "last-modified-raw" else 1)
    sd = np.sqrt(np.maximum(square - mean**2, 0))
    return (
        np.where(heavy & (n == 1), np.inf, mean),
        np.where(heavy & (n <= 2), np.inf, sd),
        np.full(n.shape, np.nan),
    )


def _dated_probability(
    estimator: Estimator, n: Floats, r: Floats, precision: Floats
) -> tuple[Floats, ...]:
    changes, weight = _binomial(n, _log_odds(r))
    row, column = np.nonzero(weight > 1e-14)
    k, weight = changes[row, column], weight[row, column]
    c = estimator.numerator(n[row], k)
    low, high = (1 - precision[row]) * r[row], (1 + precision[row]) * r[row]
    chance = np.where(low <= 0, 1.0, 0.0)  # of an estimate of zero
    # The estimate is c/T with T = n − k + the sum of k ages; both ends of T at once.
    ages = np.stack((c / high, c / np.maximum(low, 1e-290))) - (n[row] - k)
    ages = np.clip(ages, 0, k)
    for law, size in ((_sum_of_few, k < FEW), (_sum_of_many, k >= FEW)):
        mine = size & (c > 0)
        if mine.any():
            below, above = law(ages[:, mine], k[mine], r[row][mine])
            chance[mine] = above - below
    return (np.bincount(row, weight * chance, minlength=n.size).clip(0, 1),)


def _sum_of_few(t: Floats, k: Floats, r: Floats) -> Floats:
    """P(S ≤ t) for the sum S of k ages at changed visits, appendix D with erratum C-8 mended.

    Each age has density r e⁻ʳᵗ/(1−e⁻ʳ) on [0, 1]. Expanding the k-th power of its transform gives
    Σⱼ (−1)ʲ C(k, j) e⁻ʳʲ P(Gamma(k, r) ≤ t−j) / (1−e⁻ʳ)ᵏ. The terms cancel: 3e-9 is left at k = 12.
    """
    from scipy.special import binom, gammainc

    j = np.arange(float(FEW))
    k, r = k[:, None], r[:, None]
    gamma: Floats = gammainc(k, r * np.maximum(t[..., None] - j, 0.0))
    share = np.where(j % 2, -1.0, 1.0) * binom(k, j) * np.exp(-r * j) / (-np.expm1(-r)) ** k
    total: Floats = (share * gamma).sum(axis=-1)
    return total


def _sum_of_many(t: Floats, k: Floats, r: Floats) -> Floats:
    """The same law for k ≥ 13, by Fourier inversion over ±12 standard deviations, to 1e-10."""
    x = np.maximum(r, 1e-3)
    q = np.exp(-x) / -np.expm1(-x)
    mean = k * np.where(r < 1e-3, 0.5 - r / 12, 1 / x - q)
    sd = np.sqrt(k * np.where(r < 1e-3, 1 / 12 - r**2 / 240, 1 / x**2 - q * (1 + q)))
    t = np.clip(t, mean - 12 * sd, mean + 12 * sd)
    # No age has a longer tail than an exponential one, (1 + ω²σ²)^(−k/2); it ends below 1e-12.
    fewest = float(k.min())
    highest = math.sqrt(fewest * math.expm1(24 * math.log(10) / fewest))
    frequency = np.arange(math.pi / 24, highest + 1, math.pi / 12)
    at = r[:, None] - 1j * frequency / sd[:, None]
    log_transform = np.log(-np.expm1(-at) / at) - np.log(-np.expm1(-r) / r)[:, None]
    waves = np.exp(k[:, None] * log_transform - 1j * frequency * (t / sd)[..., None])
    total: Floats = (waves.imag / frequency).sum(axis=-1)
    return 0.5 - total / 12


def _binomial(n: Floats, log_odds: Floats) -> tuple[Floats, Floats]:
    """Outcomes and their probabilities, a row for each n, all but 1e-18 of each (Bernstein)."""
    from scipy.special import expit

    p = expit(log_odds)
    reach = 28 + 9.2 * np.sqrt(n * p * expit(-log_odds))
    first, last = np.maximum(np.floor(n * p - reach), 0), np.minimum(np.ceil(n * p + reach), n)
    k = first[:, None] + np.arange(float((last - first).max()) + 1)
    outside = k > last[:, None]
    k = np.minimum(k, last[:, None])
    # Ratios of neighbours do not cancel as factorials do; so it stays exact for any n.
    log_p = np.zeros(k.shape)
    step = np.log((n[:, None] - k[:, 1:] + 1) / np.maximum(k[:, 1:], 1)) + log_odds[:, None]
    np.cumsum(step, axis=1, out=log_p[:, 1:])
    log_p[outside] = -np.inf
    weight = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    return k, weight / weight.sum(axis=1, keepdims=True)


def _log_odds(r: Floats) -> Floats:
    """Return log(eʳ − 1), the log odds of a change."""
    return r + np.log(-np.expm1(-r))


def _by_rows(
    law: Callable[..., tuple[Floats, ...]], estimator: Estimator, *columns: Floats
) -> tuple[Floats, ...]:
    """Apply a law to columns of any one shape, so many rows at a time that memory stays small."""
    shape, columns = columns[0].shape, tuple(np.ravel(column) for column in columns)
    width = 60 + 10 * math.sqrt(columns[0].max())
    rows = max(1, int(2e6 / (width * (250 if estimator.dated else 1))))
    parts = [
        law(estimator, *(column[start : start + rows] for column in columns))
        for start in range(0, columns[0].size, rows)
    ]
    return tuple(np.concatenate(part).reshape(shape)[()] for part in zip(*parts, strict=True))


# Turning a law round


def turning_point(
    go_right: Callable[[Floats], Flags], low: ArrayLike, high: ArrayLike, shape: tuple[int, ...]
) -> Floats:
    """Find where `go_right` turns false, everywhere at once, to 1e-14 of the bracket."""
    left, right = np.broadcast_to(low, shape).copy(), np.broadcast_to(high, shape).copy()
    for _ in range(46):
        middle = (left + right) / 2
        right_of = go_right(middle)
        left, right = np.where(right_of, middle, left), np.where(right_of, right, middle)
    return right


# What is accepted


def visits_and_ratios(visits: ArrayLike, ratio: ArrayLike) -> tuple[Floats, Floats]:
    n, r = np.asarray(visits, dtype=float), positive(ratio, "the ratio (rate × interval)")
    if n.size == 0 or not np.all((n >= 1) & (n == np.floor(n)) & np.isfinite(n)):
        raise InputError(f"the number of visits must be a whole number, at least 1: {visits!r}")
    n, r = np.broadcast_arrays(n, r)
    return n, r


def positive(value: ArrayLike | None, name: str) -> Floats:
    given = np.asarray(np.nan if value is None else value, dtype=float)
    if given.size == 0 or not np.all((given > 0) & np.isfinite(given)):
        raise InputError(f"{name} must be a finite number above zero: {value!r}")
    return given


def between_0_and_1(value: ArrayLike) -> Floats:
    given = np.asarray(value, dtype=float)
    if given.size == 0 or not np.all((given > 0) & (given < 1)):
        raise InputError(f"the probability must lie between 0 and 1: {value!r}")
    return given


def wilson(share: ArrayLike, count: ArrayLike) -> tuple[Floats, Floats]:
    """The 95 % interval of a share that so many independent draws have found (Wilson 1927).

    >>> [round(float(end), 3) for end in wilson(1.0, 100)]
    [0.963, 1.0]
    """
    p, n = np.asarray(share, float), np.asarray(count, float)
    square = 1.959963984540054**2
    middle = (p + square / (2 * n)) / (1 + square / n)
    half = np.sqrt(square * (p * (1 - p) / n + square / (4 * n * n))) / (1 + square / n)
    return np.maximum(np.minimum(middle - half, p), 0.0), np.minimum(
        np.maximum(middle + half, p), 1.0
    )
