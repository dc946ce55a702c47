"""When to change the interval while a rate is being estimated (Cho, 7.1 and example 7).

A visit after a gap t tells most about the rate λ when λt is about 1.6, and next to nothing when
λt is far above or below. At first there is only a guess of λ. After each visit the posterior says
which gap would now tell most:

    information of a gap t about log λ = E[x² / (eˣ − 1)], x = λt, over the posterior of λ

Changing at once follows chance; waiting wastes visits. So the gap is kept as long as another would
tell less than `patience` times as much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.estimation.bayes import GRID, BayesEstimator, as_weights
from observant.estimation.design import PEAK_RATIO
from observant.estimation.evidence import Evidence
from observant.units import parse_rate

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

__all__ = ["first_gap", "next_gap"]

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
