"""Are these the updates of a Poisson source? Tests of known update times.

A Poisson process has exponential intervals that are independent of each other, so there are two
ways to fail. Li (VII.A) looks at the coefficient of variation first, which is 1 for exponential
intervals, and then at the autocorrelation of those that pass. `poisson_test` gives both with
p-values, for any number of sources at once. For visits instead of update times see `diagnostics`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.errors import InputError
from observant.tables import Table

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from observant.arrays import Flags, Floats, Integers

VERDICTS = ("too-few", "possible", "not-exponential", "dependent", "neither")
"""Of `PoissonTest`: cannot say, no objection, or which of the two properties fails (or both)."""

_LAGS = 10
_FEWEST = 10
_FEWEST_FOR_HURST = 64
_FEWEST_BLOCKS = 8

# Upper tail of the Lilliefors statistic of exponential samples in Stephens' form, from 300,000
# samples of 50 (fixed seed); it depends on the size of the sample in the third digit only.
_STEPHENS = np.array(
    [0.0, 0.375, 0.484, 0.592, 0.685, 0.795, 0.871, 0.985, 1.088, 1.209, 1.295, 1.373, 1.539]
)
_TAIL = np.array([1.0, 0.99, 0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001])


@dataclass(frozen=True, eq=False, repr=False)
class PoissonTest(Table):
    """For every source: how far its intervals are from exponential and independent ones."""

    columns: ClassVar[tuple[str, ...]] = (
        "source",
        "intervals",
        "mean_days",
        "cv",
        "cv_low",
        "cv_high",
        "ks",
        "exponential_p",
        "autocorrelation",
        "independence_p",
        "hurst",
        "verdict",
    )

    source: Any
    intervals: Integers
    """Complete intervals between updates."""
    mean_days: Floats
    """Their mean."""
    cv: Floats
    """Coefficient of variation: 1 for Poisson, 0 for a clock, above 1 for bursts."""
    cv_low: Floats
    """Where the coefficient lies with probability 1 − level for a Poisson source so short."""
    cv_high: Floats
    ks: Floats
    """Largest distance between the intervals' CDF and the exponential CDF of the same mean."""
    exponential_p: Floats
    """Of that distance, the mean being estimated (Lilliefors)."""
    autocorrelation: Floats
    """Of neighbouring intervals."""
    independence_p: Floats
    """Ljung and Box's, over log n lags (at most ten), of the normal scores of the intervals."""
    hurst: Floats
    """About ½ without long memory, near 1 with much; NaN under 64 intervals."""
    verdict_code: NDArray[np.int8]
    """Index into `VERDICTS`."""
    level: float

    @property
    def verdict(self) -> NDArray[np.str_]:
        """One of `VERDICTS` for every source."""
        return np.array(VERDICTS)[self.verdict_code]

    @property
    def tested(self) -> Flags:
        """Sources with enough intervals to say anything."""
        return self.verdict_code > 0

    @property
    def share_failing(self) -> float:
        """Share of the tested sources that are not Poisson; NaN when none was tested."""
        return float(np.mean(self.verdict_code[self.tested] > 1)) if self.tested.any() else np.nan

    def __repr__(self) -> str:
        return (
            f"<PoissonTest: {len(self):,} sources, {int(self.tested.sum()):,} tested, "
            f"{100 * self.share_failing:.0f} % are not Poisson>"
        )


def poisson_test(
    gaps: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    sources: Any = None,
    level: float = 0.05,
) -> PoissonTest:
    """Test whether intervals between updates are those of a Poisson process, as Li does in VII.A.

    Parameters
    ----------
    gaps
        Intervals in days, in their order; of one source, or of many by `offsets`.
    offsets
        The intervals of source ``i`` are ``gaps[offsets[i]:offsets[i + 1]]``.
    sources
        Names for the answer.
    level
        A Poisson source fails with this probability: half of it is spent on the shape, half on
        the independence.

    The shape is judged by the distance between the empirical and the exponential CDF, with
    Stephens' correction for the estimated mean. Independence is judged on normal scores of the
    ranks, so that heavy tails do not pass for dependence, nor hide it. The Hurst exponent comes
    from the variance of block means, Var ∝ m^(2H−2), of the same scores; a trend raises it too.
    A source with fewer than 10 intervals is not tested.

    >>> from observant.processes import Pareto
    >>> updates = Pareto.with_mean(1.0).sample(500.0, seed=1)
    >>> test = poisson_test(np.diff(updates.times))
    >>> print(test.verdict, test.cv.round(2), test.exponential_p < 1e-3)
    ['not-exponential'] [1.88] [ True]
    """
    u = np.asarray(gaps, np.float64)
    starts = np.array([0, len(u)]) if offsets is None else np.asarray(offsets, np.int64)
    if u.ndim != 1 or starts.ndim != 1 or len(starts) < 2 or starts[-1] != len(u):
        raise InputError("give the intervals as one array, and offsets that end at its length")
    if not np.all(u > 0) or not np.all(np.isfinite(u)):
        raise InputError("intervals must be positive, finite numbers of days")
    if not 0.0 < level < 1.0:
        raise InputError(f"the level must lie between 0 and 1, not {level!r}")
    n = np.diff(starts)
    owner = np.repeat(np.arange(len(n)), n)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.bincount(owner, u, len(n)) / n
        cv = np.sqrt(np.bincount(owner, (u / mean[owner] - 1.0) ** 2, len(n)) / n)
    order = np.lexsort((u, owner))
    ks = _exponential_distance(u[order] / mean[owner], owner, starts, n)
    scores = _normal_scores(u, owner, order, starts, n)
    rank_p = _independence(scores, owner, n)
    raw = _correlation(u - mean[owner], owner, n, 1)
    low, high = cv_range_if_poisson(n, 1.0 - level)
    few = n < _FEWEST
    with np.errstate(invalid="ignore", divide="ignore"):
        shape_p = np.where(few, np.nan, _lilliefors(ks, n))
        fails_shape, fails_order = shape_p < level / 2, rank_p < level / 2
    code = np.where(few, 0, 1 + fails_shape + 2 * fails_order).astype(np.int8)
    return PoissonTest(
        source=np.arange(len(n)) if sources is None else sources,
        intervals=n,
        mean_days=mean,
        cv=cv,
        cv_low=low,
        cv_high=high,
        ks=ks,
        exponential_p=shape_p,
        autocorrelation=np.where(few, np.nan, raw),
        independence_p=rank_p,
        hurst=_hurst(scores, starts, n),
        verdict_code=code,
        level=level,
    )


def cv_range_if_poisson(intervals: ArrayLike, probability: float = 0.95) -> tuple[Floats, Floats]:
    """Where the coefficient of variation of so many exponential intervals lies.

    The coefficient is a function of Greenwood's statistic Σ(Uᵢ/ΣU)², whose moments are those of
    Dirichlet's distribution; a shifted lognormal with the first three of them is used (right to
    about 0.01 from 20 intervals on). Li's rule |v − 1| ≤ 0.1 (VII.A) fits 400 intervals.

    >>> low, high = cv_range_if_poisson([20, 100, 400])
    >>> print(low.round(2), high.round(2))
    [0.65 0.83 0.91] [1.35 1.2  1.1 ]
    """
    from scipy.special import ndtri

    n = np.maximum(np.asarray(intervals, np.float64), 2.0)
    two, four, six = n * (n + 1), n * (n + 1) * (n + 2) * (n + 3), n
    for k in range(1, 6):
        six = six * (n + k)
    first = 2 * n / two
    second = (24 * n + 4 * n * (n - 1)) / four
    third = (720 * n + 144 * n * (n - 1) + 8 * n * (n - 1) * (n - 2)) / six
    variance = second - first**2
    skew = (third - 3 * first * second + 2 * first**3) / variance**1.5
    root = np.cbrt((2 + skew**2 + np.sqrt(skew**4 + 4 * skew**2)) / 2)
    w = root + 1 / root - 1  # e^σ² of the lognormal with that skewness
    width = np.sqrt(variance / (w * (w - 1)))
    shift = first - width * np.sqrt(w)

    def quantile(p: float) -> Floats:
        greenwood = shift + width * np.exp(np.sqrt(np.log(w)) * ndtri(p))
        return np.asarray(np.sqrt(np.maximum(n * greenwood - 1.0, 0.0)))

    return quantile((1 - probability) / 2), quantile((1 + probability) / 2)


def autocorrelation(gaps: ArrayLike, lags: int = 50) -> tuple[Integers, Floats, float]:
    """The curve ρ(h) of Li's figure 18b: how alike intervals are that lie h updates apart.

    Returns the lags h = 1, 2, …, ρ(h), and the size that chance alone exceeds at one lag in
    twenty, 1.96/√n. A Poisson source stays within it; a slow power-law decay, ρ(h) ∝ h^−a, is
    long-range dependence with the Hurst exponent 1 − a/2. Intervals are taken as they are, as Li
    does; `poisson_test` judges by their ranks, which heavy tails do not mislead.

    >>> lags, rho, noise = autocorrelation([1, 5, 1, 5, 1, 5, 1, 5], lags=2)
    >>> print(lags, rho.round(3), round(noise, 2))
    [1 2] [-0.875  0.75 ] 0.69
    """
    u = np.asarray(gaps, np.float64)
    if u.ndim != 1 or len(u) < 2 or not np.isfinite(u).all():
        raise InputError("an autocorrelation needs two intervals or more, all finite")
    if lags < 1:
        raise InputError(f"lags must be 1 or more, not {lags!r}")
    centred = u - u.mean()
    power = np.abs(np.fft.rfft(centred, 2 * len(u))) ** 2
    products = np.fft.irfft(power)[: min(lags, len(u) - 1) + 1]
    rho = products[1:] / products[0] if products[0] > 0 else np.zeros(len(products) - 1)
    return np.arange(1, len(products)), np.asarray(rho), float(1.96 / np.sqrt(len(u)))


# -- the shape -----------------------------------------------------------------------------------


def _exponential_distance(scaled: Floats, owner: Integers, starts: Integers, n: Integers) -> Floats:
    """Kolmogorov's distance to the exponential CDF, for sorted values of mean 1."""
    rank = np.arange(len(scaled)) - starts[owner]
    cdf, size = -np.expm1(-scaled), n[owner]
    apart = np.maximum((rank + 1) / size - cdf, cdf - rank / size)
    return _reduced(np.maximum, apart, starts, n)


def _lilliefors(distance: Floats, n: Integers) -> Floats:
    """Probability that exponential intervals lie farther from their fitted CDF."""
    statistic = (distance - 0.2 / n) * (np.sqrt(n) + 0.26 + 0.5 / np.sqrt(n))
    inside = np.interp(statistic, _STEPHENS, np.log(_TAIL))
    # Beyond the table the tail falls like that of a Gaussian.
    beyond = np.log(_TAIL[-1]) * (statistic / _STEPHENS[-1]) ** 2
    log_p = np.where(statistic > _STEPHENS[-1], np.maximum(beyond, -700.0), inside)
    return np.asarray(np.exp(log_p))


# -- independence --------------------------------------------------------------------------------


def _normal_scores(
    u: Floats, owner: Integers, order: Integers, starts: Integers, n: Integers
) -> Floats:
    """Ranks within each source as normal quantiles; equal intervals share their mean rank."""
    from scipy.special import ndtri

    rank = np.arange(len(u)) - starts[owner] + 0.5
    values = u[order]
    fresh = np.ones(len(u), bool)
    fresh[1:] = (values[1:] != values[:-1]) | (owner[1:] != owner[:-1])
    tie = np.cumsum(fresh) - 1
    shared = (np.bincount(tie, rank) / np.bincount(tie))[tie]
    scores = np.empty(len(u))
    scores[order] = ndtri(shared / n[owner])
    return scores


def _correlation(centred: Floats, owner: Integers, n: Integers, lag: int) -> Floats:
    products = np.where(owner[lag:] == owner[:-lag], centred[lag:] * centred[:-lag], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(
            np.bincount(owner[lag:], products, len(n)) / np.bincount(owner, centred**2, len(n))
        )


def _independence(scores: Floats, owner: Integers, n: Integers) -> Floats:
    from scipy.special import chdtrc

    lags = np.clip(np.log(np.maximum(n, 1)).astype(np.int64), 1, _LAGS)
    q = np.zeros(len(n))
    for lag in range(1, _LAGS + 1):
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = -(n - lag) / (n * (n - 1.0))  # of ranks in random order
            term = (_correlation(scores, owner, n, lag) - expected) ** 2 / (n - lag)
        q += np.where(lag <= lags, np.nan_to_num(term), 0.0)
    p = np.asarray(chdtrc(lags, n * (n + 2) * q), np.float64)
    constant = np.bincount(owner, scores**2, len(n)) < 1e-12
    return np.where((n < _FEWEST) | constant, np.nan, p)


def _hurst(scores: Floats, starts: Integers, n: Integers) -> Floats:
    """Slope of log Var(block mean) against log size, weighted with the number of blocks."""
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    moments = np.zeros((5, len(n)))  # Σw, Σwx, Σwy, Σwxx, Σwxy
    size = 1
    while size * _FEWEST_BLOCKS <= n.max(initial=0):
        blocks = np.where(n >= size * _FEWEST_BLOCKS, n // size, 0)
        owner = np.repeat(np.arange(len(n)), blocks)
        place = np.arange(len(owner)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
        at = starts[owner] + place * size
        mean = (sums[at + size] - sums[at]) / size
        with np.errstate(divide="ignore", invalid="ignore"):
            middle = np.bincount(owner, mean, len(n)) / blocks
            spread = np.bincount(owner, (mean - middle[owner]) ** 2, len(n)) / (blocks - 1)
            y = np.where((blocks > 0) & (spread > 0), np.log(spread), np.nan)
        w, x = np.where(np.isnan(y), 0.0, blocks), np.log(size)
        y = np.nan_to_num(y)
        moments += np.array([w, w * x, w * y, w * x * x, w * x * y])
        size *= 2
    s, sx, sy, sxx, sxy = moments
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (s * sxy - sx * sy) / (s * sxx - sx * sx)
    return np.where(n < _FEWEST_FOR_HURST, np.nan, 1.0 + slope / 2.0)


def _reduced(how: np.ufunc, values: Floats, starts: Integers, n: Integers) -> Floats:
    answer = np.full(len(n), np.nan)
    filled = n > 0
    if len(values):
        answer[filled] = how.reduceat(values, starts[:-1][filled])
    return answer
