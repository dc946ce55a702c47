"""Whole collections: how current they are, and what it costs to keep them so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.currency.age_models import Array, Source, as_model, not_negative, unwrapped
from observant.currency.measures import currency
from observant.errors import InputError
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from observant.currency.age_models import Source

__all__ = [
    "Bandwidth",
    "bandwidth",
    "collection_currency",
    "growing_period",
    "irregular_gaps",
    "over_gaps",
    "performance_surface",
    "replica_currency",
    "replicas_needed",
]


def collection_currency(
    source: Source,
    period: ArrayLike,
    grace: ArrayLike = 0.0,
    importance: ArrayLike | None = None,
) -> np.float64:
    """Probability that an entry of the collection, asked for at random, is β-current.

    Brewington (2.33) for a joint distribution of rate and period given as arrays: one entry for
    each source (or each cell of a histogram of sources), with its `importance` or share as weight.
    Without importance every entry counts the same.

    >>> rates, periods = [0.01, 0.1, 1.0], [30, 10, 3]
    >>> print(collection_currency(rates, periods, grace=1).round(4))
    0.7291
    >>> print(collection_currency(rates, periods, grace=1, importance=[1, 1, 8]).round(4))
    0.6538
    """
    alpha = np.atleast_1d(currency(source, period, grace))
    if importance is None:
        return np.float64(np.mean(alpha))
    weights = not_negative("importance", importance)
    try:
        alpha, weights = np.broadcast_arrays(alpha, weights)
    except ValueError as error:
        raise InputError(
            f"{weights.size} values of importance do not fit {alpha.size} sources"
        ) from error
    total = weights.sum()
    if not 0.0 < total < np.inf:
        raise InputError("the importance of the sources must be finite and not all zero")
    return np.float64((weights * alpha).sum() / total)


def performance_surface(source: Source, periods: ArrayLike, graces: ArrayLike) -> Array:
    """Return α(T₀, β), one row for each period and one column for each grace: Brewington (3.17).

    For figure 3.23, where the grace is a fraction ν of the period, ask `currency` for the graces
    ν × period instead.

    >>> from observant.currency import WeibullPopulation
    >>> web = WeibullPopulation(1.4, 152.2)
    >>> print(performance_surface(web, periods=[8.5, 18], graces=[1, 7]).round(3))
    [[0.951 0.998]
     [0.895 0.953]]
    """
    model = as_model(source)
    rows, columns = np.atleast_1d(periods), np.atleast_1d(graces)
    if np.ndim(model.age_cdf(1.0)):
        raise InputError("a performance surface is drawn for one source or one population")
    return currency(model, rows[:, None], columns[None, :])


@dataclass(frozen=True)
class Bandwidth:
    """What visiting a collection costs; arrays when the question was asked with arrays."""

    pages_per_day: Array
    bytes_per_day: Array
    bits_per_second: Array


def bandwidth(pages: ArrayLike, period: ArrayLike, page_bytes: ArrayLike) -> Bandwidth:
    """Cost of visiting every one of `pages` once a period: Brewington (3.18), (3.19).

    `page_bytes` is the mean size of a page in bytes; a kilobyte is 1000 bytes (errata B-13).

    >>> cost = bandwidth(pages=800e6, period=8.5, page_bytes=12_000)
    >>> print((cost.pages_per_day / 1e6).round(1), (cost.bits_per_second / 1e6).round(1))
    94.1 104.6
    """
    pages, page_bytes = not_negative("pages", pages), not_negative("page_bytes", page_bytes)
    period = not_negative("period", period)
    if np.any(period == 0.0):
        raise InputError("a period of 0 needs an infinite bandwidth; give a longer one")
    per_day = pages / period
    bytes_per_day = per_day * page_bytes
    return Bandwidth(per_day, bytes_per_day, bytes_per_day * 8.0 / DAY)


# -- visits that are not periodic, collections that grow (3.4.1) ----------------------------------


_POINTS = 4000


def over_gaps(
    measure: Callable[..., Any], source: Any, gaps: ArrayLike, *more: Any, **options: Any
) -> float:
    """A measure of one source (or population) where its visits come after these gaps, in days.

    A random moment lies in a gap in proportion to its length, so whatever is a mean over a period
    T (`currency`, `stale_probability`, `mean_staleness`, `mean_missed_updates`, `hidden_share`) is
    here Σ T·m(T) / Σ T: the integral over T that (2.33) leaves open. Visits at random times:

    >>> from observant.currency import currency
    >>> print(round(over_gaps(currency, 0.3, irregular_gaps(10.0, 1.0)), 3), 0.1 / (0.1 + 0.3))
    0.25 0.25
    """
    lengths = np.atleast_1d(not_negative("gap", gaps, finite=True))
    if not np.any(lengths > 0.0):
        raise InputError("currency needs a gap between visits that is longer than 0")
    lengths = lengths[lengths > 0.0]
    return float(np.average(measure(source, lengths, *more, **options), weights=lengths))


def irregular_gaps(mean: float, variation: float) -> Array:
    """Gaps with this mean and this standard deviation over the mean, equally likely each.

    0 is a fixed period, 1 visits at random times; between them, and beyond, gaps are Gamma.
    """
    not_negative("period", mean, finite=True)
    spread = float(not_negative("variation", variation, finite=True))
    if spread < 1e-6:
        return np.array([mean])
    from scipy.special import gammainc, gammaincinv

    shape = spread**-2
    edges = gammaincinv(shape, np.linspace(0.0, 1.0, _POINTS + 1))
    within = np.diff(gammainc(shape + 1.0, edges))  # the mean of each of equally likely parts
    return np.asarray(mean * _POINTS * within)


def growing_period(period: ArrayLike, growth: ArrayLike) -> Array:
    """How old the oldest copy is when a collection grows at the rate ξ and the visits do not.

    One round takes `period` days at the size of now. The copy that is visited next was visited S
    days ago, when the round took S days: S e^(ξS) = T, so S = W(ξT)/ξ with Lambert's W. Copies are
    evenly between 0 and S days old, so every measure of a fixed period holds with S for T.

    >>> print(growing_period(100.0, [0.0, 0.00176]).round(1))
    [100.  86.]
    """
    from scipy.special import lambertw

    period, growth = not_negative("period", period), not_negative("growth", growth, finite=True)
    x: Any = np.asarray(period * growth, float)
    with np.errstate(invalid="ignore", divide="ignore"):
        oldest = np.where(x > 1e-12, lambertw(x).real / growth, period)
    return unwrapped(oldest)


# -- how many replicas to ask, so that one is current (Li, III.B) ---------------------------------
# Each of k replicas refreshes itself every T days, at a phase of its own. The best is the one that
# looked last: R days ago, the least of k even chances on [0, T]. So it is β-current with
# probability
#
#     1 − E[G((R − β)⁺)],  R = T (1 − (1 − U)^(1/k)),  U even on [0, 1]


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
