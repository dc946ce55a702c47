"""How long may a cache serve a copy before it must look again?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.currency.age_models import Array, Source, as_model, not_negative
from observant.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["heuristic_time_to_live", "time_to_live"]


def time_to_live(source: Source, risk: ArrayLike, grace: ArrayLike = 0.0) -> Array:
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


def heuristic_time_to_live(age: ArrayLike, fraction: float = 0.1, longest: float = np.inf) -> Array:
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
