"""How often, and how many times, must we look to know the rate of a source?

Each question is answered by the exact laws of `observant.estimation.accuracy`, so all its words and
assumptions hold: n visits at regular intervals, the ratio r = rate × interval, a Poisson process,
and a first look that is not counted.

>>> print(design_visits("1/7d", visits=10, interval="10.5d", precision=0.35))
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
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from observant.errors import EstimationError, InputError
from observant.estimation.accuracy import (
    accuracy,
    information,
    precision_reached,
    probability_within,
)
from observant.estimation.bayes import GRID, BayesEstimator, as_weights
from observant.estimation.evidence import Evidence
from observant.estimation.exact import (
    between_0_and_1,
    choose_estimator,
    moments,
    positive,
    turning_point,
    visits_and_ratios,
    within,
)
from observant.units import format_duration, format_share, parse_duration, parse_rate

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Flags, Floats, Integers
    from observant.estimation.exact import Estimator, EstimatorOptions, Method


__all__ = [
    "VisitDesign",
    "best_ratio",
    "design_visits",
    "first_gap",
    "largest_ratio",
    "next_gap",
    "visits_needed",
]


PEAK_RATIO = 1.5936242600400401
"""Where an existence-only visit tells most about the rate: the root of x = 2(1 − e⁻ˣ)."""

DATED_RATIO = -math.log(0.05)
"""Where a dated visit tells 95 % of what it could tell after an endless interval."""

MOST_VISITS = 10_000_000  # as far as we search


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
        times = "once" if self.visits == 1 else f"{self.visits:,} times"
        every, overall = format_duration(self.interval_days), format_duration(self.duration_days)
        near = f"within {_percent(self.precision)} of the true rate with probability "
        near += f"{_percent(self.probability)}"
        wanted = self.wanted_probability
        if wanted is None and self.probability in (0.75, 0.95):
            near = ""  # the next line says it
        elif wanted is not None and self.visits_needed is None:
            near += f"; {_percent(wanted)} is out of reach at this interval"
        elif wanted is not None and self.visits_needed != self.visits:
            near += f"; {_percent(wanted)} takes {self.visits_needed:,} visits"
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


def design_visits(
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

    >>> series = design_visits("1/7d", precision=0.35, probability=0.75)
    >>> series.visits, round(series.interval_days, 1), round(series.probability, 3)
    (18, 9.7, 0.809)
    """
    if dated and method not in ("improved", "last-modified", "last-modified-raw"):
        raise InputError(f"the method {method!r} cannot use dates; leave out `dated` or the method")
    estimator = choose_estimator("last-modified" if dated and method == "improved" else method, {})
    method = estimator.method
    if visits is None and precision is None:
        raise InputError("say how many visits you can make, or what precision you want (0.35)")
    wanted = float(between_0_and_1(0.95 if probability is None else probability))
    if precision is not None:
        precision = float(positive(precision, "the precision"))
    per_day = float(positive(parse_rate(rate), "the rate"))
    days = None if interval is None else float(positive(parse_duration(interval), "the interval"))

    needed = None
    if visits is not None:
        n, _ = visits_and_ratios(visits, 1.0)
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
        n, _ = visits_and_ratios(needed, 1.0)

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


def visits_needed(
    ratio: ArrayLike,
    *,
    precision: float | None = None,
    probability: float = 0.95,
    relative_sd: float | None = None,
    method: Method = "improved",
    **options: Unpack[EstimatorOptions],
) -> Integers:
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
    positive(precision if relative_sd is None else relative_sd, f"the wanted {wish}")
    between_0_and_1(probability)
    estimator = choose_estimator(method, options)
    _, ratios = visits_and_ratios(1, ratio)
    found = [
        _visits_needed(estimator, r, precision, probability, relative_sd)
        for r in ratios.ravel().tolist()
    ]
    return np.array(found, dtype=np.int64).reshape(ratios.shape)[()]


def _visits_needed(
    estimator: Estimator,
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
            f"no number of visits gives {format_share(wish, 0)}: at r = {r:.3g} the method "
            f"{estimator.method!r} stays biased by {format_share(stays, 0)}; visit more often, or "
            "use the method 'improved'"
        )
    deviations = wish
    if precision is not None:
        deviations = (wish - abs(stays)) / float(ndtri((1 + probability) / 2))
    if estimator.method == "naive":
        variance = changed * (1 - changed) / r**2
    else:
        variance = 1 / max(float(information(r, dated=estimator.dated)), 1e-300)

    def fails(n: Floats) -> Flags:
        rs = np.full(n.shape, r)
        if precision is None:
            mean, sd, _ = moments(estimator, n, rs)
            return np.maximum(sd / r, np.abs(mean / r - 1)) > wish
        return within(estimator, n, rs, np.full(n.shape, precision)) < probability

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


def best_ratio(
    visits: ArrayLike,
    *,
    bias: float = 0.10,
    method: Method = "improved",
    **options: Unpack[EstimatorOptions],
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
    estimator = choose_estimator(method, options)
    n, _ = visits_and_ratios(visits, 1.0)
    if estimator.dated:
        return np.full(n.shape, DATED_RATIO)[()]
    grid = np.arange(0.30, 1.80, 0.02)
    _, sd, slope = moments(estimator, *np.broadcast_arrays(n[..., None], grid))
    spread, blunt = sd / grid, sd / (grid * slope)
    dips = (spread[..., 1:-1] < spread[..., :-2]) & (spread[..., 1:-1] <= spread[..., 2:])
    dipped = dips.any(axis=-1)
    start = np.where(dipped, dips.argmax(axis=-1) + 1, blunt.argmin(axis=-1))

    def falling(log_ratio: Floats) -> Flags:
        (_, sd1, slope1), (_, sd2, slope2) = (
            moments(estimator, n, np.exp(log_ratio + step)) for step in (-1e-4, 1e-4)
        )
        gain = np.where(dipped, 2e-4, 2e-4 + np.log(slope2 / slope1))
        return np.log(sd2 / sd1) < gain

    middle = np.log(grid[start])
    best = np.exp(turning_point(falling, middle - 0.07, middle + 0.07, n.shape))
    best = np.where(dipped, best, np.minimum(best, PEAK_RATIO))
    return np.fmin(best, largest_ratio(n, bias, method=method, **options))[()]


def largest_ratio(
    visits: ArrayLike,
    bias: float = 0.10,
    *,
    method: Method = "improved",
    **options: Unpack[EstimatorOptions],
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
    estimator = choose_estimator(method, options)
    n, _ = visits_and_ratios(visits, 1.0)

    def too_biased(log_ratio: Floats) -> Flags:
        r = np.exp(log_ratio)
        off = moments(estimator, n, r)[0] / r - 1
        # Without dates an estimate is bounded, so that the bias falls to −1 in the end; with
        # dates it levels off on one side.
        return np.abs(off) > bias if estimator.dated else off < -bias

    edges = np.log(1e-6), np.log(1e3)
    always, at_last = (too_biased(np.full(n.shape, edge)) for edge in edges)
    edge = np.exp(turning_point(lambda x: ~too_biased(x), *edges, n.shape))
    return np.where(always, np.nan, np.where(at_last, edge, np.inf))[()]


def _percent(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return "unlimited"
    return f"{100 * value:{'.0f' if abs(value) >= 9.995 else '.3g'}} %"


# -- when to look ---------------------------------------------------------------------------------
# A visit after a gap t tells most about the rate λ when λt is about 1.6, and next to nothing when
# λt is far above or below. At first there is only a guess of λ. After each visit the posterior says
# which gap would now tell most:
#
#     information of a gap t about log λ = E[x² / (eˣ − 1)], x = λt, over the posterior of λ
#
# Changing at once follows chance; waiting wastes visits. So the gap is kept as long as another
# would tell less than `patience` times as much.


_GAPS = PEAK_RATIO / GRID[::-4]
"""Gaps that are weighed, in days: the best one of every fourth rate."""
SPREAD, PATIENCE = 1.0, 1.25


def first_gap(guess: str | float, spread: float = SPREAD) -> float:
    """The gap to begin with, in days, if the rate is guessed to be `guess`, give or take e^±spread.

    >>> round(first_gap("1/7d"), 1), round(first_gap("1/7d", spread=0.01), 1)
    (8.9, 11.2)
    """
    density = -0.5 * (np.log(GRID / _guess(guess)) / _positive("spread", spread)) ** 2 - np.log(
        GRID
    )
    return float(_best(as_weights(density[None, :] - density.max()))[0][0])


def next_gap(
    guess: str | float,
    gaps: ArrayLike,
    changed: ArrayLike,
    *,
    spread: float = SPREAD,
    patience: float = PATIENCE,
) -> Floats:
    """The gap before the next visit, in days, after visits with these gaps and outcomes.

    One source, or one a row. The last gap is kept unless another tells `patience` times as much.

    Cho's example 7: a page is guessed to change weekly and is visited every ten days. It changed
    at the first four visits.

    >>> [float(next_gap("1/7d", [10.0] * n, [True] * n).round(1)) for n in (1, 2, 3, 4)]
    [10.0, 10.0, 10.0, 4.5]
    >>> float(next_gap("1/7d", [10.0] * 4, [True, True, False, True]).round(1))
    10.0
    """
    given = np.asarray(gaps, np.float64)
    seen = np.asarray(changed, bool)
    if given.shape != seen.shape or given.size == 0 or not np.all(given > 0):
        raise InputError("give as many gaps, above 0, as outcomes, and at least one")
    rows = np.atleast_2d(given)
    prior = BayesEstimator(f"lognormal:{_guess(guess)},{_positive('spread', spread)}")
    _, density = prior.log_posterior(Evidence.from_gaps(rows, np.atleast_2d(seen)))
    weights = as_weights(density)
    best, most = _best(weights)
    now = (weights * _information(GRID * rows[:, -1:])).sum(axis=1)
    answer = np.where(most > patience * now, best, rows[:, -1])
    return np.asarray(answer if given.ndim == 2 else answer[0])


def _best(weights: Floats) -> tuple[Floats, Floats]:
    """For each row the gap that tells most, and how much that is."""
    told = weights @ _information(np.outer(GRID, _GAPS))
    at = np.argmax(told, axis=1)
    return np.asarray(_GAPS[at]), np.asarray(told[np.arange(len(at)), at])


def _information(x: Floats) -> Floats:
    """About log λ, of a visit after x expected updates."""
    with np.errstate(over="ignore"):
        return np.asarray(np.where(x < 1e-9, x, x**2 / np.expm1(np.minimum(x, 700.0))))


def _guess(guess: str | float) -> float:
    return _positive("the guess", parse_rate(guess))


def _positive(name: str, value: float) -> float:
    if not 0 < value < np.inf:
        raise InputError(f"{name} must be above 0, not {value!r}")
    return float(value)
