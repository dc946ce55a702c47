"""Currency and its companions, of one source or of millions.

Two kinds of question. At one moment, `elapsed` days after a visit: has the source changed, how
long has the copy been stale, how many updates has it missed? And on average over a whole `period`
between visits: the same, with currency first. Visits come at a fixed period and the process is
stationary: a visit tells nothing about where in its cycle the source is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from observant.currency.age_models import Source, as_model, not_negative, unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from observant.arrays import Floats
    from observant.estimation.belief import Beliefs


def currency(source: Source, period: ArrayLike, grace: ArrayLike = 0.0) -> Floats:
    """Probability α that the copy is β-current at a random moment: Brewington (2.40).

    The copy is β-current when no update happened between the last visit and β before now (errata
    B-7). It is 1 where the period is not longer than the grace (errata B-8). For a Poisson source

        α = β/T + (1 − e^(−λ(T−β))) / (λT)

    and for any other β/T + ∫₀^(T−β) (1 − G) / T. Arguments broadcast. A period of infinity is a
    source that is never visited. A rate that is not a number gives a currency that is not one.

    >>> print(currency([0.1, 0.3, 3.0], period=10).round(4))
    [0.6321 0.3167 0.0333]
    >>> from observant.currency import GammaRates
    >>> print(currency(GammaRates(shape=3, exposure=10), period=10, grace=2).round(4))
    0.5457
    """
    model = as_model(source)
    period, grace = not_negative("period", period), not_negative("grace", grace, finite=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        exposed = np.maximum(period - grace, 0.0)
        alpha = (grace + model.integrated_age_sf(exposed)) / period
    alpha = np.where(period <= grace, 1.0, alpha)
    return _for_ever(alpha, period, lambda: 1.0 - model.age_cdf(np.inf))


def stale_probability(source: Source, period: ArrayLike, grace: ArrayLike = 0.0) -> Floats:
    """Probability 1 − α that the copy is not β-current, exact also where it is tiny.

    Subtracting `currency` from one loses the digits of a small probability; this does not, but for
    a process that brings its own integral of 1 − G, where it cannot help it.

    >>> print(stale_probability(1e-20, period=1.0), 1 - currency(1e-20, period=1.0))
    5e-21 0.0
    """
    model = as_model(source)
    period, grace = not_negative("period", period), not_negative("grace", grace, finite=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        stale = model.integrated_age_cdf(np.maximum(period - grace, 0.0)) / period
    stale = np.where(period <= grace, 0.0, stale)
    return _for_ever(stale, period, lambda: model.age_cdf(np.inf))


def mean_staleness(source: Source, period: ArrayLike) -> Floats:
    """Mean age of the oldest missed update at a random moment, in days; 0 while there is none.

    This is the "age" of Cho and Garcia-Molina: (1/T) ∫₀ᵀ (T − s) G(s) ds, for a Poisson source
    T/2 − 1/λ + (1 − e^(−λT)) / (λ²T).

    >>> print(mean_staleness([0.0, 0.1, 1000.0], period=10).round(3))
    [0.    1.321 4.999]
    """
    model, period = as_model(source), not_negative("period", period)
    with np.errstate(divide="ignore", invalid="ignore"):
        stale = model.twice_integrated_age_cdf(period) / period
    stale = np.where(period == 0.0, 0.0, stale)
    return _for_ever(stale, period, lambda: np.where(model.age_cdf(np.inf) > 0.0, np.inf, 0.0))


def mean_missed_updates(source: Source, period: ArrayLike) -> Floats:
    """Mean number of updates the copy lacks at a random moment: λT/2.

    >>> print(mean_missed_updates(0.3, period=10))
    1.5
    """
    return missed_updates(source, period) / 2.0


def hidden_share(source: Source, period: ArrayLike) -> Floats:
    """Share of all updates that no visit ever sees, because another one follows before it.

    Visits find 1 change or none in a period T, and G(T) on average, of λT updates: 1 − G(T)/(λT).

    >>> print(hidden_share([0.01, 0.1, 1.0], period=10).round(3))
    [0.048 0.368 0.9  ]
    """
    model, period = as_model(source), not_negative("period", period)
    updates = missed_updates(model, period)
    with np.errstate(divide="ignore", invalid="ignore"):
        hidden = np.maximum(1.0 - model.age_cdf(period) / updates, 0.0)
    return unwrapped(np.where(updates == 0.0, 0.0, hidden))


def changed_probability(source: Source, elapsed: ArrayLike) -> Floats:
    """Probability G(s) that the source has changed by now, s = `elapsed` days after the visit.

    >>> print(changed_probability(0.1, elapsed=[0, 1, 10]).round(4))
    [0.     0.0952 0.6321]
    """
    return as_model(source).age_cdf(not_negative("elapsed", elapsed))


def staleness(source: Source, elapsed: ArrayLike) -> Floats:
    """Expected age of the oldest missed update now, `elapsed` days after the visit: ∫₀ˢ G.

    It counts 0 while nothing was missed.

    >>> print(staleness(0.1, elapsed=[0, 1, 10]).round(4))
    [0.     0.0484 3.6788]
    """
    return as_model(source).integrated_age_cdf(not_negative("elapsed", elapsed))


def missed_updates(source: Source, elapsed: ArrayLike) -> Floats:
    """Expected number of updates since the visit, `elapsed` days ago: λs for every stationary one.

    >>> print(missed_updates(0.1, elapsed=[0, 1, 10]))
    [0.  0.1 1. ]
    """
    rate, elapsed = as_model(source).mean_rate, not_negative("elapsed", elapsed)
    with np.errstate(invalid="ignore"):
        missed = rate * elapsed
    return unwrapped(np.where((rate == 0.0) | (elapsed == 0.0), 0.0, missed))


def _for_ever(answer: Floats, period: Floats, limit: Callable[[], Floats]) -> Floats:
    """Put the limit where the period is infinite: there the formulas are infinity by infinity."""
    never_visited = np.isinf(period)
    if never_visited.any():
        answer = np.where(never_visited, limit(), answer)
    return unwrapped(answer)


# -- How current a collection is believed to be: now, and in the long run as it is visited --------


_NORMAL = 1.96


class ExpectedCurrency(NamedTuple):
    """α as it is expected now, with its 95 % interval."""

    alpha: float
    low: float
    high: float


def expected_currency(
    beliefs: Beliefs,
    importance: Floats,
    waited: Floats,
    grace: ArrayLike = 0.0,
    total: int | None = None,
) -> ExpectedCurrency:
    """Expect α of the copies as they are, so many days after their last visits (infinite: none).

    The sources may be an even sample of `total`; then what the others are like is uncertain too.
    """
    if not len(beliefs):
        return ExpectedCurrency(math.nan, math.nan, math.nan)
    late = np.maximum(np.where(np.isfinite(waited), waited, 1e12) - np.asarray(grace, float), 0.0)
    fresh = beliefs.unchanged(late)
    share = importance / max(importance.sum(), 1e-300)
    alpha = float(share @ fresh)
    own = float(np.sum(share**2 * fresh * (1 - fresh)))
    left_out = 0.0 if total is None else 1.0 - len(beliefs) / max(total, 1)
    sampled = float(np.sum(share**2 * (fresh - alpha) ** 2)) * left_out
    spread = _NORMAL * math.sqrt(own * (1.0 - left_out) + sampled)
    return ExpectedCurrency(alpha, max(alpha - spread, 0.0), min(alpha + spread, 1.0))


def promised_currency(
    beliefs: Beliefs, importance: Floats, period: Floats, grace: ArrayLike = 0.0
) -> float:
    """α in the long run, if every source keeps the period (in days) that it has now."""
    if not len(beliefs):
        return math.nan
    share = importance / max(importance.sum(), 1e-300)
    return float(share @ beliefs.fresh_share(period, grace))
