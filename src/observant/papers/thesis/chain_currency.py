"""Currency in discrete time, by the age chain of Brewington chapter 2.

Each object has an age, a whole number of time units since its last update. In one unit it changes
with probability `p_reset[age]` and its age goes back to 0; otherwise the age grows by one. The last
state N stands for N and more (errata B-1). An object was last seen `elapsed` units ago with the age
`age`. Give one `p_reset` of shape (N+1,) for all objects, or one row for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.currency.age_models import Array, not_negative, unwrapped
from observant.errors import InputError
from observant.papers.thesis.chain import AgeChain

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "chain_changed",
    "chain_currency",
    "chain_time_out_of_date",
    "expected_out_of_date",
    "expected_time_out_of_date",
]


def expected_out_of_date(p_reset: ArrayLike, age: ArrayLike, elapsed: ArrayLike) -> np.float64:
    """Expected number of objects out of date, the cost C₍₁₎ of Brewington (2.20).

    >>> print(expected_out_of_date([0.5, 0.1], age=[0, 1, 1], elapsed=[1, 1, 2]).round(3))
    0.79
    """
    return np.sum(chain_changed(p_reset, age, elapsed))


def chain_currency(
    p_reset: ArrayLike, age: ArrayLike, elapsed: ArrayLike, importance: ArrayLike | None = None
) -> np.float64:
    """Probability that an object picked at random is up to date: Brewington (2.21).

    >>> print(chain_currency([0.5, 0.1], age=[0, 1, 1], elapsed=[1, 1, 2]).round(4))
    0.7367
    """
    current = 1.0 - np.atleast_1d(chain_changed(p_reset, age, elapsed))
    if importance is None:
        return np.float64(np.mean(current))
    weights = np.broadcast_to(not_negative("importance", importance), current.shape)
    if not 0.0 < weights.sum() < np.inf:
        raise InputError("the importance of the objects must be finite and not all zero")
    return np.float64((weights * current).sum() / weights.sum())


def expected_time_out_of_date(p_reset: ArrayLike, age: ArrayLike, elapsed: ArrayLike) -> np.float64:
    """Expected time out of date summed over all objects, the cost C₍₂₎ of Brewington (2.22).

    >>> print(expected_time_out_of_date([0.5, 0.1], age=[0, 1, 1], elapsed=[1, 1, 2]).round(3))
    0.89
    """
    return np.sum(chain_time_out_of_date(p_reset, age, elapsed))


def chain_changed(p_reset: ArrayLike, age: ArrayLike, elapsed: ArrayLike) -> Array:
    """Probability that each object has changed since it was seen: Brewington (2.19).

    It is one minus the product of 1 − p_reset over the ages passed, with the last state repeated
    (errata B-5: the power of the matrix is wrong beyond the last state).

    >>> print(chain_changed([0.1, 0.3, 0.2, 0.4, 0.25], age=1, elapsed=6).round(3))
    0.858
    """
    chain, first, units = _checked(p_reset, age, elapsed)
    return unwrapped(np.asarray(chain.change_probability(first, units)))


def chain_time_out_of_date(p_reset: ArrayLike, age: ArrayLike, elapsed: ArrayLike) -> Array:
    """Expected time units out of date Z(i, k) of each object: Brewington (2.23), (2.31).

    An object that changed in the first of k units has been out of date for k of them, one that
    changed in the last for 1. The indices are those of (2.26): P(i, i) = p_reset(i) (errata B-6).

    >>> print(chain_time_out_of_date([0.5, 0.1], age=0, elapsed=[1, 2, 3]).round(3))
    [0.5   1.05  1.645]
    """
    chain, first, units = _checked(p_reset, age, elapsed)
    last = chain.states - 1
    first = np.minimum(first, last)
    before = np.minimum(units, last - first)  # units spent before the last state
    rest = units - before

    # Z(i, k) is the sum of S_1 to S_k (2.31), where S_k is the probability of a change in k units.
    late = np.zeros(np.broadcast_shapes(chain.p_reset.shape[:-1], before.shape))
    for unit in range(1, int(before.max(initial=0)) + 1):
        late += np.where(unit <= before, chain.change_probability(first, unit), 0.0)

    # In the last state p_reset is constant and the rest of the sum is geometric.
    changed, same = chain.change_probability(first, before), chain.survival(first, before)
    chance = chain.p_reset[..., last]
    with np.errstate(divide="ignore", invalid="ignore"):
        # Σ (1 − p)ⁿ for n from 1 to the rest.
        current = (1.0 - chance) * chain.change_probability(last, rest) / chance
    current = np.where(chance > 0.0, current, rest)
    return unwrapped(np.asarray(late + rest * changed + same * (rest - current)))


def _checked(
    p_reset: ArrayLike, age: ArrayLike, elapsed: ArrayLike
) -> tuple[AgeChain, NDArray[np.int64], NDArray[np.int64]]:
    chances = np.atleast_1d(not_negative("p_reset", p_reset))
    if not chances.size:
        raise InputError("p_reset must hold probabilities, from 0 to 1, one for each age")
    return AgeChain(chances), _whole("age", age), _whole("elapsed", elapsed)


def _whole(name: str, value: ArrayLike) -> NDArray[np.int64]:
    values = not_negative(name, value)
    if not np.all(values == np.floor(values)) or not np.all(values < 2.0**53):
        raise InputError(f"the {name} counts time units of the chain: give whole numbers")
    return values.astype(np.int64)
