"""The question turned round: what period, or what grace, does a wanted currency allow?

Both answers solve one equation. The time lost to staleness in a period, J(T − β) with J = ∫ G,
must be the share q = 1 − α of the period. J is convex, so Newton's method from the right comes
down to the answer without ever passing it, for every source at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.currency.age_models import Source, as_model, not_negative, unwrapped
from observant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from observant.arrays import Floats
    from observant.currency.age_models import AgeModel


def required_period(source: Source, target: ArrayLike, grace: ArrayLike = 0.0) -> Floats:
    """Longest period, in days, that keeps the currency at or above `target`.

    Over an array of graces this is a level set of the performance surface (Brewington figure
    3.24). It is infinite where the target is met without visits: a target of 0, or a source that
    changes too seldom ever to miss it. A target of 1 allows no more than the grace itself.

    >>> print(required_period([0.01, 0.1, 1.0], target=0.9, grace=1.0).round(3))
    [23.484  3.948  1.631]
    """
    model, target = as_model(source), _probability(target)
    grace = not_negative("grace", grace, finite=True)
    lost = 1.0 - target
    never = _ever_changes(model) <= lost
    period = grace + _first_guess(_rate_scale(model), lost, grace)

    def excess(period: Floats) -> tuple[Floats, Floats]:
        exposed = np.maximum(period - grace, 0.0)
        return model.integrated_age_cdf(exposed) - lost * period, model.age_cdf(exposed) - lost

    settled = never | (lost == 0.0)
    period = _newton_from_the_right(excess, np.where(settled, 1.0, period), settled)
    return unwrapped(np.where(never, np.inf, np.where(lost == 0.0, grace, period)))


def required_grace(source: Source, target: ArrayLike, period: ArrayLike) -> Floats:
    """Shortest grace, in days, with which a period reaches the currency `target`.

    As the period grows it tends to target × period: the updates are then so many that the only
    way to be current is to forgive them (Brewington figure 3.24).

    >>> print(required_grace(0.1, target=0.95, period=[0.5, 10, 1000]).round(2))
    [  0.     6.66 940.02]
    """
    model, target = as_model(source), _probability(target)
    period = not_negative("period", period, finite=True)
    lost = 1.0 - target

    def excess(exposed: Floats) -> tuple[Floats, Floats]:
        return model.integrated_age_cdf(exposed) - lost * period, model.age_cdf(exposed)

    shape = np.broadcast_shapes(np.shape(model.age_cdf(1.0)), lost.shape, period.shape)
    # The whole period exposed is either right of the root, or current enough without grace.
    exposed = _newton_from_the_right(excess, np.broadcast_to(period, shape), settled=True)
    return unwrapped(np.where(lost == 0.0, period, np.maximum(period - exposed, 0.0)))


def _newton_from_the_right(
    excess: Callable[[Floats], tuple[Floats, Floats]], start: Floats, settled: ArrayLike
) -> Floats:
    """Root of a convex function, given with its slope.

    `start` doubles until it is right of the root, but for those that are `settled`.
    """
    x = np.asarray(start, float)
    value, slope = excess(x)
    for _ in range(_MOST_DOUBLINGS):
        left = (value < 0.0) & ~np.asarray(settled)
        if not left.any():
            break
        x = np.where(left, 2.0 * x, x)
        value, slope = excess(x)
    for _ in range(_MOST_STEPS):
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.where((value > 0.0) & (slope > 0.0), value / slope, 0.0)
        x = np.maximum(x - step, 0.0)
        if not np.any(step > _CLOSE * x):
            break
        value, slope = excess(x)
    return x


def _first_guess(rate: Floats, lost: Floats, grace: Floats) -> Floats:
    """T − β just above the answer for a Poisson source.

    It solves the equation with e^(−y) replaced by its Padé approximant (2−y)/(2+y), which is below
    it, so that the answer is above.
    """
    missed = rate * grace
    linear = lost * (2.0 + missed)
    with np.errstate(divide="ignore", invalid="ignore"):
        root = linear + np.sqrt(linear**2 + 8.0 * lost * missed * (1.0 - lost))
        return root / (2.0 * (1.0 - lost)) / rate


def _rate_scale(model: AgeModel) -> Floats:
    """Return a rate of about the right size, to start from; any will do."""
    rough = np.maximum(model.age_cdf(1.0), 1e-12)
    try:
        rate = model.mean_rate
    except InputError:
        return rough
    return np.where((rate > 0.0) & np.isfinite(rate), rate, rough)


def _ever_changes(model: AgeModel) -> Floats:
    with np.errstate(all="ignore"):
        return model.age_cdf(np.inf)


def _probability(target: ArrayLike) -> Floats:
    values = not_negative("target", target)
    if np.any(values > 1.0):
        raise InputError(f"the target is a probability; {np.nanmax(values):g} is above 1")
    return values


# A source that stays left after so many doublings has changed too rarely for any clock.
_MOST_DOUBLINGS, _MOST_STEPS, _CLOSE = 200, 200, 1e-15


# -- How long may a cache serve a copy before it must look again? ---------------------------------


def time_to_live(source: Source, risk: ArrayLike, grace: ArrayLike = 0.0) -> Floats:
    """Longest time, in days, that a copy may be served with probability of staleness ≤ `risk`.

    It is the time at which G, the probability of a change since the fetch, reaches the risk; the
    last answer served is the worst one. With a grace a copy counts as stale only when it missed an
    update longer ago than that. To bound the mean over all answers instead of the worst, ask
    `required_period` for the target 1 − risk. The age of the source at the fetch is taken as
    unknown, which costs nothing for a Poisson source.

    >>> print(time_to_live([0.01, 1.0], risk=0.05).round(3))
    [5.129 0.051]
    """
    model, risk, grace = (
        as_model(source),
        not_negative("risk", risk),
        not_negative("grace", grace, finite=True),
    )
    if np.any(risk >= 1.0):
        raise InputError("the risk is a probability below 1; at 1 a copy may be served for ever")
    return grace + model.age_quantile(risk)


def heuristic_time_to_live(
    age: ArrayLike, fraction: float = 0.1, longest: float = np.inf
) -> Floats:
    """Time to live that caches guess from Last-Modified: a tenth of the age (RFC 9111, 4.2.2).

    For comparison. It is `time_to_live` of someone who knows one age and nothing else, the
    posterior Gamma(1, age), at a risk of fraction / (1 + fraction), 9.1 %. A Poisson source fetched
    at random moments is stale with just that probability when its guess runs out, whatever its
    rate; a user who wants another risk, or has a history, does better.

    >>> from observant.currency import GammaRates
    >>> print(heuristic_time_to_live(30), time_to_live(GammaRates(1, 30), risk=1 / 11).round(12))
    3.0 3.0
    """
    if not (fraction > 0.0 and longest > 0.0):
        raise InputError("the fraction and the longest time to live must be more than 0")
    return np.minimum(fraction * not_negative("age", age), longest)
