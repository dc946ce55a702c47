"""Visits at uneven gaps, and collections that grow (Brewington, 3.4.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.currency.age_models import not_negative, unwrapped
from observant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from observant.arrays import Floats

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


def irregular_gaps(mean: float, variation: float) -> Floats:
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


def growing_period(period: ArrayLike, growth: ArrayLike) -> Floats:
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
