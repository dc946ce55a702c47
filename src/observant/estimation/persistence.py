"""How long a rate lasts, learned from the two halves of histories.

A plan is made for the time to come, and by then a rate may be another: drawn anew from the
collection with probability 1 − e^(−t/D) after t days. Then the second half of a history has, with
probability r(D), the rate that the first half tells, and otherwise that of any source:

    maximise Σᵢ log(r p(second | first) + (1 − r) p(second))        r = q(first) q(second)

q(h) = (D/h)(1 − e^(−h/D)) is the mean of e^(−t/D) over h days. All rates may move together between
the halves, by any factor: that changes no plan, so it is averaged out.

What is learned is weighed with what is thought of D beforehand (`belief.DRIFT`, give or take a
factor of e). A plan holds for a while: for as long as `TIMES` what was watched, and no less than
`TIMES` times `VISITS` visits. The share of that time in which a rate is still the same is `kept`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.estimation.belief import GRID, Likelihoods
from observant.estimation.priors import FEWEST

if TYPE_CHECKING:
    from observant.arrays import Floats
    from observant.estimation.evidence import Evidence


DAYS = 2.0 ** np.arange(4.0, 18.0, 0.5)
"""How long rates may last: from a fortnight to centuries."""
TIMES, VISITS = 2.0, 20.0
_SPREAD = 1.0
"""Standard deviation of log D before anything is learned."""
_TOGETHER = 0.7
"""Standard deviation of the logarithm of the factor by which all rates move together."""
_STEPS = 8
"""Of the grid of rates, in which the factor is tried to either side."""
_SOURCES = 2_000


def persistence_scores(evidence: Evidence, prior: Floats) -> Floats | None:
    """Log likelihood of each D of `DAYS`; nothing where too few sources have two comparisons."""
    several = np.flatnonzero(evidence.counts > 1)
    if len(several) < FEWEST:
        return None
    chosen = np.zeros(len(evidence.counts), bool)
    chosen[several[:: 1 + len(several) // _SOURCES]] = True
    evidence = evidence.select(chosen)
    days = np.where(np.isfinite(evidence.gaps), evidence.gaps, 0.0)
    total = evidence.sums(days)
    until = np.cumsum(days) - np.repeat(np.cumsum(total) - total, evidence.counts)
    early = until - days / 2 < np.repeat(total, evidence.counts) / 2
    halves = [evidence.only(early), evidence.only(~early)]
    same = np.prod([_share(half.sums(days[which]), DAYS) for half, which in zip(
        halves, (early, ~early), strict=True)], axis=0)  # fmt: skip
    first, second = (Likelihoods.of(half, np.inf).on_grid() for half in halves)
    first *= prior
    first /= first.sum(axis=1, keepdims=True)
    second /= second.max(axis=1, keepdims=True)
    scores = []
    for step in range(-_STEPS, _STEPS + 1):
        moved = second[:, np.clip(np.arange(len(GRID)) + step, 0, len(GRID) - 1)]
        foretold, any_rate = np.einsum("ij,ij->i", first, moved)[:, None], (moved @ prior)[:, None]
        chance = np.maximum(same * foretold + (1.0 - same) * any_rate, np.finfo(float).tiny)
        factor = step * np.log(GRID[1] / GRID[0])
        scores.append(np.log(chance).sum(axis=0) - 0.5 * (factor / _TOGETHER) ** 2)
    return np.asarray(np.logaddexp.reduce(scores, axis=0))


def kept(scores: Floats | None, evidence: Evidence, drift: float) -> Floats:
    """Share of the time to come in which each source still has the rate that its visits tell."""
    if scores is None or not np.isfinite(drift):
        return np.ones(len(evidence.counts))
    logs = scores - 0.5 * (np.log(DAYS / drift) / _SPREAD) ** 2
    weights = np.exp(logs - logs.max())
    days = evidence.sums(np.where(np.isfinite(evidence.gaps), evidence.gaps, 0.0))
    ahead = TIMES * days * np.maximum(VISITS / np.maximum(evidence.counts, 1), 1.0)
    return np.asarray(_share(ahead, DAYS) @ (weights / weights.sum()))


def _share(days: Floats, lasting: Floats) -> Floats:
    """Mean of e^(−t/D) over so many days, a row for each number of them and a column for each D."""
    x = np.maximum(np.divide.outer(days, lasting), 1e-12)
    return np.asarray(-np.expm1(-x) / x)
