"""How good is an estimate going to be, and how often must we look to make it good?

Cho's regular-interval estimators see a source n times, one visit every interval I. With the ratio
r = rate × I they depend on n and r alone, so bias, spread and the probability of a given precision
are sums over the number X of visits that find a change, X ~ Binomial(n, 1 − e⁻ʳ). Nothing here is
simulated and nothing is asymptotic. All assume a source that changes as a Poisson process.

A visit counts once per interval: the first look, which has nothing to compare with, is not counted.

>>> print(design("1/7d", visits=10, interval="10.5d", precision=0.35))
A source that changes about once every 7d, visited 10 times, once every 10.5d (r = 1.5), for 105d:
  estimator improved: bias -0.298 %, spread σ/r 40.2 %
  within 35 % of the true rate with probability 75.5 %; 95 % takes 52 visits
  within 29.7 % with probability 75 %, within 103 % with probability 95 %
  best interval 11.2d; bias under 10 % up to 18.5d
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast, get_args

import numpy as np

from observant.errors import EstimationError, InputError
from observant.units import format_duration, parse_duration, parse_rate

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

__all__ = [
    "Accuracy",
    "Method",
    "VisitDesign",
    "accuracy",
    "best_ratio",
    "design",
    "information",
    "largest_ratio",
    "precision_reached",
    "probability_within",
    "singularity_offset",
    "visits_needed",
]

Method = Literal["naive", "improved", "bayes-beta", "last-modified", "last-modified-raw"]

PEAK_RATIO = 1.5936242600400401
"""Where an existence-only visit tells most about the rate: the root of x = 2(1 − e⁻ˣ)."""

DATED_RATIO = -math.log(0.05)
"""Where a dated visit tells 95 % of what it could tell after an endless interval."""

MOST_VISITS = 10_000_000  # as far as we search
FEW = 13  # ages in a sum whose law is summed term by term


class Options(TypedDict, total=False):
    """The parameters of the estimators, named as in `estimate_rates`."""

    offsets: tuple[float, float]  # improved: (a, b) of appendix B, (½, ½)
    beta_prior: tuple[float, float]  # bayes-beta: (α, β) of the prior for a change, (1, 1)


# The user's question


@dataclass(frozen=True)
class VisitDesign:
    """A series of visits, and what the estimated rate will be worth after it."""

    rate_per_day: float
    visits: int
    interval_days: float
    ratio: float  # rate × interval
    duration_days: float
    method: str
    dated: bool  # each visit reports when the source was last modified
    bias: float  # (E[estimate] − rate) / rate
    relative_sd: float  # σ/r; infinite for two dated visits
    precision: float  # the estimate is this close to the rate, relative to the rate ...
    probability: float  # ... with at least this probability
    precision_75: float
    precision_95: float
    best_interval_days: float
    unbiased_interval_days: float  # the longest interval with a bias of at most 10 %
    wanted_probability: float | None  # given with a precision
    visits_needed: int | None  # for that wish at this interval; None if not asked or out of reach

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what JSON cannot say (infinite, not a number) is None."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in asdict(self).items()
        }

    def __str__(self) -> str:
        often = f"once every {format_duration(1 / self.rate_per_day)}"
        if self.rate_per_day > 1:
            often = f"{self.rate_per_day:.3g} times a day"
        times = "once" if self.visits == 1 else f"{self.visits} times"
        every, overall = format_duration(self.interval_days), format_duration(self.duration_days)
        near = f"within {_percent(self.precision)} of the true rate with probability "
        near += f"{_percent(self.probability)}"
        wanted = self.wanted_probability
        if wanted is None and self.probability in (0.75, 0.95):
            near = ""  # the next line says it
        elif wanted is not None and self.visits_needed is None:
            near += f"; {_percent(wanted)} is out of reach at this interval"
        elif wanted is not None and self.visits_needed != self.visits:
            near += f"; {_percent(wanted)} takes {self.visits_needed} visits"
        near_75, near_95 = _percent(self.precision_75), _percent(self.precision_95)
        spread, longest = _percent(self.relative_sd), self.unbiased_interval_days
        limit = f"under 10 % up to {format_duration(longest)}"
        if not math.isfinite(longest):
            limit = f"{'over' if math.isnan(longest) else 'under'} 10 % at any interval"
        lines = (
            f"estimator {self.method}: bias {_percent(self.bias)}, spread σ/r {spread}",
            near,
            f"within {near_75} with probability 75 %, within {near_95} with probability 95 %",
            f"best interval {format_duration(self.best_interval_days)}; bias {limit}",
        )
        head = f"A source that changes about {often}, visited {times}, once every {every}"
        head += f" (r = {self.ratio:.3g}), for {overall}:"
        return "\n  ".join((head, *filter(None, lines)))


def design(
    rate: float | str,
    *,
    visits: int | None = None,
    precision: float | None = None,
    probability: float | None = None,
    interval: float | str | None = None,
    method: Method = "improved",
    dated: bool = False,
) -> VisitDesign:
    """Answer Cho's example 4: how often, and how many times, must I look at this source?

    Give `visits`, and learn the best interval and the precision it buys. Give a `precision` (0.35
    is 35 %) and a `probability` (0.95 unless said), and learn how many visits it takes. Give both,
    and an `interval` if you like, and the series is judged as it stands. `rate` is what you guess
    before you look: a number per day, or text such as ``"1/7d"``. `dated` says that each visit
    reports when the source was last modified; it stands for the method ``last-modified``.

    >>> series = design("1/7d", precision=0.35, probability=0.75)
    >>> series.visits, round(series.interval_days, 1), round(series.probability, 3)
    (18, 9.7, 0.809)
    """
    if dated and method not in ("improved", "last-modified", "last-modified-raw"):
        raise InputError(f"the method {method!r} cannot use dates; leave out `dated` or the method")
    estimator = _estimator("last-modified" if dated and method == "improved" else method, {})
    method = estimator.method
    if visits is None and precision is None:
        raise InputError("say how many visits you can make, or what precision you want (0.35)")
    wanted = float(_probability(0.95 if probability is None else probability))
    if precision is not None:
        precision = float(_positive(precision, "the precision"))
    per_day = float(_positive(parse_rate(rate), "the rate"))
    days = None if interval is None else float(_positive(parse_duration(interval), "the interval"))

    needed = None
    if visits is not None:
        n, _ = _pairs(visits, 1.0)
        ratio = float(best_ratio(n, method=method)) if days is None else per_day * days
    else:
        # The best ratio depends a little on the visits and the visits on the ratio. After a few
        # rounds they agree; if not, the last count was still made for the last ratio.
        ratio = PEAK_RATIO if days is None else per_day * days
        for _ in range(5):
            needed = _visits_needed(estimator, ratio, precision, wanted)
            better = ratio if days else float(best_ratio(needed, method=method))
            if better == ratio:
                break
            ratio = better
        else:
            needed = _visits_needed(estimator, ratio, precision, wanted)
        n, _ = _pairs(needed, 1.0)

    days = ratio / per_day if days is None else days
    reached_75, reached_95, reached = precision_reached(method, n, ratio, [0.75, 0.95, wanted])
    chance = wanted
    if precision is not None:
        chance = float(probability_within(method, n, ratio, precision))
        with contextlib.suppress(EstimationError):
            needed = needed or _visits_needed(estimator, ratio, precision, wanted)
    result = accuracy(method, n, ratio)
    return VisitDesign(
        rate_per_day=per_day,
        visits=int(n),
        interval_days=days,
        ratio=ratio,
        duration_days=int(n) * days,
        method=method,
        dated=estimator.dated,
        bias=float(result.bias),
        relative_sd=float(result.relative_sd),
        precision=float(reached) if precision is None else precision,
        probability=chance,
        precision_75=float(reached_75),
        precision_95=float(reached_95),
        best_interval_days=float(best_ratio(n, method=method)) / per_day,
        unbiased_interval_days=float(largest_ratio(n, method=method)) / per_day,
        wanted_probability=None if precision is None else wanted,
        visits_needed=needed,
    )


# What the answer is made of


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
    method: Method, visits: ArrayLike, ratio: ArrayLike, **options: Unpack[Options]
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
    n, r = _pairs(visits, ratio)
    expected, sd, _ = _moments(_estimator(method, options), n, r)
    return Accuracy(method, n[()], r[()], expected, expected / r - 1, sd, sd / r)


def probability_within(
    method: Method,
    visits: ArrayLike,
    ratio: ArrayLike,
    precision: ArrayLike,
    **options: Unpack[Options],
) -> Floats:
    """Probability that the estimate differs from the truth by at most `precision`, relatively.

    Exact: the estimates within reach are counted, ties included. An existence-only estimator
    knows only n + 1 values, so the probability jumps as ratio or visits change: example 4's 75 %
    at r = 1.5 is 53 % at r = 10/7 (erratum C-5). The spread σ/r is the steadier guide.

    >>> probability_within("improved", 10, [10 / 7, 1.5], 0.35).round(3)
    array([0.531, 0.755])
    """
    estimator = _estimator(method, options)
    n, r = _pairs(visits, ratio)
    near = _positive(precision, "the precision")
    return _within(estimator, *np.broadcast_arrays(n, r, near))


def precision_reached(
    method: Method,
    visits: ArrayLike,
    ratio: ArrayLike,
    probability: ArrayLike = 0.95,
    **options: Unpack[Options],
) -> Floats:
    """Smallest relative precision that is reached with at least this probability.

    >>> precision_reached("improved", [10, 40], 1.5, 0.75).round(3)
    array([0.297, 0.22 ])
    """
    estimator = _estimator(method, options)
    n, r = _pairs(visits, ratio)
    n, r, wanted = np.broadcast_arrays(n, r, _probability(probability))

    def falls_short(log_precision: Floats) -> Bools:
        return _within(estimator, n, r, np.exp(log_precision)) < wanted

    # An estimate a billion times too large: no wanted probability asks for more than that.
    return np.exp(_turning_point(falls_short, np.log(1e-12), np.log(1e9), n.shape))[()]


def visits_needed(
    ratio: ArrayLike,
    *,
    precision: float | None = None,
    probability: float = 0.95,
    relative_sd: float | None = None,
    method: Method = "improved",
    **options: Unpack[Options],
) -> NDArray[np.int64]:
    """Smallest number of visits from which on the wish is fulfilled, and stays fulfilled.

    The wish is a `precision` with a `probability`, or a spread σ/r of at most `relative_sd` with
    a bias no larger than that. Both can come true by luck at a smaller number: the probability
    jumps with n, and the spread of a few visits is small because the estimator cannot reach far.
    Such numbers do not count. Every number up to at least twice the expected answer is tried. Where
    that is too slow (a precision from 300 dated visits on, a spread from 1000 on) an even sample
    of them is tried, and every number around the last that failed.

    >>> visits_needed([0.5, 1.5], precision=0.35, probability=0.75)
    array([33, 20])
    >>> visits_needed([0.5, 1.5], relative_sd=0.2)
    array([66, 41])
    """
    if (precision is None) == (relative_sd is None):
        raise InputError("give either a precision or a relative_sd, and not both")
    wish = "precision" if relative_sd is None else "spread"
    _positive(precision if relative_sd is None else relative_sd, f"the wanted {wish}")
    _probability(probability)
    estimator = _estimator(method, options)
    _, ratios = _pairs(1, ratio)
    found = [
        _visits_needed(estimator, r, precision, probability, relative_sd)
        for r in ratios.ravel().tolist()
    ]
    return np.array(found, dtype=np.int64).reshape(ratios.shape)[()]


def largest_ratio(
    visits: ArrayLike,
    bias: float = 0.10,
    *,
    method: Method = "improved",
    **options: Unpack[Options],
) -> Floats:
    """Largest r at which the bias is no more than `bias` either way: the edge in Cho's figure 6.

    Beyond it, the estimator without dates misses more than that. Up to it, the bias of ``naive``
    and ``improved`` is within the bound all the way down to r = 0 if it is there, which is so from
    one visit on at 10 %. Infinite for ``last-modified`` from two visits on. Not-a-number where the
    bias is larger at every r.

    >>> largest_ratio([20, 80]).round(2)
    array([3.48, 5.14])
    >>> print(f"{largest_ratio(10, method='naive'):.3f}")
    0.215
    """
    if not 0 < bias < 1:
        raise InputError(f"the bound on the bias must lie between 0 and 1: {bias!r}")
    estimator = _estimator(method, options)
    n, _ = _pairs(visits, 1.0)

    def too_biased(log_ratio: Floats) -> Bools:
        r = np.exp(log_ratio)
        off = _moments(estimator, n, r)[0] / r - 1
        # Without dates an estimate is bounded, so that the bias falls to −1 in the end; with
        # dates it levels off on one side.
        return np.abs(off) > bias if estimator.dated else off < -bias

    edges = np.log(1e-6), np.log(1e3)
    always, at_last = (too_biased(np.full(n.shape, edge)) for edge in edges)
    edge = np.exp(_turning_point(lambda x: ~too_biased(x), *edges, n.shape))
    return np.where(always, np.nan, np.where(at_last, edge, np.inf))[()]


def best_ratio(
    visits: ArrayLike,
    *,
    bias: float = 0.10,
    method: Method = "improved",
    **options: Unpack[Options],
) -> Floats:
    """The r at which so many visits tell most about the rate: best interval = r / rate.

    It is the local minimum of σ/r, as in Cho's figure 7, never beyond `largest_ratio`. For
    ``improved`` there is one from 18 visits on (erratum C-6): 1.35 at 20 visits, 1.44 at 40, and
    1.594 in the limit, where the Fisher information of a visit peaks. With fewer visits σ/r falls
    all through the unbiased region only because the estimator saturates. We then minimise
    σ / (dE[r̂]/d log r), the spread measured by how much the estimate answers to the rate, up to the
    limit of 1.594. With dates a longer interval always tells more, up to all of one lifetime
    a visit; we stop at 95 % of that, r = 3.

    >>> best_ratio([3, 10, 20, 40, 80, 1000]).round(2)
    array([1.3 , 1.59, 1.35, 1.44, 1.52, 1.59])
    """
    estimator = _estimator(method, options)
    n, _ = _pairs(visits, 1.0)
    if estimator.dated:
        return np.full(n.shape, DATED_RATIO)[()]
    grid = np.arange(0.30, 1.80, 0.02)
    _, sd, slope = _moments(estimator, *np.broadcast_arrays(n[..., None], grid))
    spread, blunt = sd / grid, sd / (grid * slope)
    dips = (spread[..., 1:-1] < spread[..., :-2]) & (spread[..., 1:-1] <= spread[..., 2:])
    dipped = dips.any(axis=-1)
    start = np.where(dipped, dips.argmax(axis=-1) + 1, blunt.argmin(axis=-1))

    def falling(log_ratio: Floats) -> Bools:
        (_, sd1, slope1), (_, sd2, slope2) = (
            _moments(estimator, n, np.exp(log_ratio + step)) for step in (-1e-4, 1e-4)
        )
        gain = np.where(dipped, 2e-4, 2e-4 + np.log(slope2 / slope1))
        return np.log(sd2 / sd1) < gain

    middle = np.log(grid[start])
    best = np.exp(_turning_point(falling, middle - 0.07, middle + 0.07, n.shape))
    best = np.where(dipped, best, np.minimum(best, PEAK_RATIO))
    return np.fmin(best, largest_ratio(n, bias, method=method, **options))[()]


def information(ratio: ArrayLike, *, dated: bool = False) -> Floats:
    """Fisher information about log rate in one visit: x²/(eˣ − 1), or 1 − e⁻ˣ with a date.

    No unbiased estimate from n visits has σ/r below 1/√(n × information). Without dates a visit
    tells most at x = 1.5936.

    >>> information([0.1, 1.5936, 5.0]).round(3), information(3.0, dated=True).round(2)
    (array([0.095, 0.648, 0.17 ]), np.float64(0.95))
    """
    _, x = _pairs(1, ratio)
    unchanged = np.exp(-x)
    return -np.expm1(-x) if dated else x**2 * unchanged / -np.expm1(-x)


def singularity_offset(visits: ArrayLike) -> Floats:
    """The a of appendix B (figure 19): −log((n−X+a)/(n+a)) is then unbiased as r → 0.

    a = 1/(e^{1/n} − 1) − n + 1, the root of n log((n+a)/(n−1+a)) = 1 (erratum C-2); it tends to ½.

    >>> singularity_offset([1, 2, 10, 1000]).round(4)
    array([0.582 , 0.5415, 0.5083, 0.5001])
    """
    n, _ = _pairs(visits, 1.0)
    # For large n the closed form subtracts nearly equal numbers; its series does not.
    series = 0.5 + 1 / (12 * n) - 1 / (720 * n**3)
    return np.where(n > 100, series, 1 / np.expm1(1 / n) - n + 1)[()]


# The estimators


@dataclass(frozen=True)
class _Estimator:
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


def _estimator(method: str, options: Options) -> _Estimator:
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
    return _Estimator(cast("Method", method), a, b)


def _visits_needed(
    estimator: _Estimator,
    r: float,
    precision: float | None,
    probability: float = 0.95,
    relative_sd: float | None = None,
) -> int:
    from scipy.special import ndtri

    changed = -math.expm1(-r)
    stays = changed / r - 1 if estimator.method == "naive" else 0.0
    wish = relative_sd or precision or 0.0
    if abs(stays) >= wish:
        raise EstimationError(
            f"no number of visits gives {wish:.0%}: at r = {r:.3g} the method "
            f"{estimator.method!r} stays biased by {stays:.0%}; visit more often, or use "
            "the method 'improved'"
        )
    deviations = wish
    if precision is not None:
        deviations = (wish - abs(stays)) / float(ndtri((1 + probability) / 2))
    if estimator.method == "naive":
        variance = changed * (1 - changed) / r**2
    else:
        variance = 1 / max(float(information(r, dated=estimator.dated)), 1e-300)

    def fails(n: Floats) -> Bools:
        rs = np.full(n.shape, r)
        if precision is None:
            mean, sd, _ = _moments(estimator, n, rs)
            return np.maximum(sd / r, np.abs(mean / r - 1)) > wish
        return _within(estimator, n, rs, np.full(n.shape, precision)) < probability

    # The central limit theorem says about where to look; the last failure decides.
    about = min(variance / deviations**2, MOST_VISITS)
    first, last = (1, int(3 * about) + 200) if about < 300 else (int(about / 3), int(2 * about))
    tries = 200_000 if precision is not None else 2000
    if estimator.dated and about >= 300:
        tries = 200
    while last < MOST_VISITS:
        step = max(1, (last - first) // tries)
        n = np.arange(first, last + 1, step, dtype=float)
        failed = n[fails(n)]
        if failed.size and failed[-1] > 0.8 * last:
            last *= 2
        elif failed.size:
            close = failed[-1] + np.arange(step, dtype=float)
            return int(close[fails(close)][-1]) + 1
        elif first > 1:
            first, last = 1, first
        else:
            return 1
    raise EstimationError(
        f"more than {MOST_VISITS // 2:,} visits would be needed at r = {r:.3g}; ask for less, or "
        "choose an interval closer to the best one"
    )


# The laws of X and T, in rows: one row for each pair of n and r


def _moments(estimator: _Estimator, n: Floats, r: Floats) -> tuple[Floats, ...]:
    """Mean and standard deviation of the estimated r, and the derivative of the mean by r."""
    return _by_rows(_dated_moments if estimator.dated else _undated_moments, estimator, n, r)


def _within(estimator: _Estimator, n: Floats, r: Floats, precision: Floats) -> Floats:
    """Probability that the estimated r differs from r by at most the precision times r."""
    law = _dated_probability if estimator.dated else _undated_probability
    return _by_rows(law, estimator, n, r, precision)[0]


def _undated_moments(estimator: _Estimator, n: Floats, r: Floats) -> tuple[Floats, ...]:
    changes, weight = _binomial(n, _log_odds(r))
    value = estimator.value(n[:, None], changes)
    mean = (weight * value).sum(axis=1)
    off = value - mean[:, None]
    changed = -np.expm1(-r)
    # The score of the binomial by r is (X − n(1−e⁻ʳ)) / (1−e⁻ʳ).
    slope = (weight * off * (changes - (n * changed)[:, None])).sum(axis=1) / changed
    return mean, np.sqrt((weight * off**2).sum(axis=1)), slope


def _undated_probability(
    estimator: _Estimator, n: Floats, r: Floats, precision: Floats
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


def _dated_moments(estimator: _Estimator, n: Floats, r: Floats) -> tuple[Floats, ...]:
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
    estimator: _Estimator, n: Floats, r: Floats, precision: Floats
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
    law: Callable[..., tuple[Floats, ...]], estimator: _Estimator, *columns: Floats
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


def _turning_point(
    go_right: Callable[[Floats], Bools], low: ArrayLike, high: ArrayLike, shape: tuple[int, ...]
) -> Floats:
    """Find where `go_right` turns false, everywhere at once, to 1e-14 of the bracket."""
    left, right = np.broadcast_to(low, shape).copy(), np.broadcast_to(high, shape).copy()
    for _ in range(46):
        middle = (left + right) / 2
        right_of = go_right(middle)
        left, right = np.where(right_of, middle, left), np.where(right_of, right, middle)
    return right


def _pairs(visits: ArrayLike, ratio: ArrayLike) -> tuple[Floats, Floats]:
    n, r = np.asarray(visits, dtype=float), _positive(ratio, "the ratio (rate × interval)")
    if n.size == 0 or not np.all((n >= 1) & (n == np.floor(n)) & np.isfinite(n)):
        raise InputError(f"the number of visits must be a whole number, at least 1: {visits!r}")
    n, r = np.broadcast_arrays(n, r)
    return n, r


def _positive(value: ArrayLike | None, name: str) -> Floats:
    given = np.asarray(np.nan if value is None else value, dtype=float)
    if given.size == 0 or not np.all((given > 0) & np.isfinite(given)):
        raise InputError(f"{name} must be a finite number above zero: {value!r}")
    return given


def _probability(value: ArrayLike) -> Floats:
    given = np.asarray(value, dtype=float)
    if given.size == 0 or not np.all((given > 0) & (given < 1)):
        raise InputError(f"the probability must lie between 0 and 1: {value!r}")
    return given


def _percent(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return "unlimited"
    return f"{100 * value:{'.0f' if abs(value) >= 9.995 else '.3g'}} %"
