"""Whole collections: how current they are, and what it costs to keep them so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from observant.currency.age_models import Source, as_model, not_negative
from observant.currency.measures import currency
from observant.errors import InputError
from observant.times import DAY

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Floats


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


def performance_surface(source: Source, periods: ArrayLike, graces: ArrayLike) -> Floats:
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

    pages_per_day: Floats
    bytes_per_day: Floats
    bits_per_second: Floats


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
