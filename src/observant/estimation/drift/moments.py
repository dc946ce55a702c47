"""When did the rate of a source change? Moments, told from the end of the history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.estimation.drift.experts import Experts, Followed, restart_prior
from observant.estimation.evidence import Evidence
from observant.estimation.priors import grid_likelihood
from observant.tables import Table
from observant.units import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from observant.arrays import Floats, Integers

_MORE_SURE_THAN_BY_CHANCE = 0.25
_LONGEST_STRETCH = 20


@dataclass(frozen=True, eq=False, repr=False)
class RateChanges(Table):
    """Moments at which the rate of a source changed more likely than not."""

    columns: ClassVar[tuple[str, ...]] = (
        "source",
        "time",
        "time_low",
        "time_high",
        "probability",
        "rate_before",
        "rate_after",
    )

    source: pa.Array
    time: NDArray[np.datetime64]
    """The visit after which the rate was another, as likely before as after."""
    time_low: NDArray[np.datetime64]
    time_high: NDArray[np.datetime64]
    """The change lies between these two with probability 0.9, if there was one."""
    probability: Floats
    """That there was a change of rate about then."""
    rate_before: Floats
    """Rate between the change of rate before this one and this one."""
    rate_after: Floats
    """Rate from this one to the next."""

    def __repr__(self) -> str:
        return f"<RateChanges: {counted(len(self), 'change')} of rate>"


def find_rate_changes(
    evidence: Evidence, found: Followed, experts: Experts, group: Integers | None
) -> list[NDArray[Any]]:
    """Owner, and places of the middle and the ends of each change of rate; its probability, and
    the rates around it.
    """
    from observant.estimation.drift import kernels

    room = len(evidence.gaps)
    number = np.zeros(len(evidence.offsets) - 1, np.int64)
    low, middle, high = (np.empty(room, np.int64) for _ in range(3))
    probability = np.empty(room)
    total = kernels.find_peaks(
        evidence.offsets,
        found.boundary,
        _longest_stretch(experts),
        number,
        low,
        middle,
        high,
        probability,
    )
    owner = np.repeat(np.arange(len(number)), number)
    # The sum over a stretch counts changes; there can be none at all, if the rate is constant.
    chance = np.minimum(probability[:total], _not_constant(found, experts)[owner])
    kept = np.flatnonzero(chance >= 0.5)
    owner, total = owner[kept], len(kept)
    low, middle, high, probability = low[kept], middle[kept], high[kept], chance[kept]
    cuts = np.unique(np.concatenate([evidence.offsets, middle]))
    pieces = Evidence(
        offsets=cuts, gaps=evidence.gaps, kind=evidence.kind, ages=evidence.ages
    ).select(np.ones(len(cuts) - 1, bool))
    after = np.searchsorted(cuts, middle)
    wanted = np.unique(np.concatenate([after - 1, after]))
    chosen = np.zeros(len(cuts) - 1, bool)
    chosen[wanted] = True
    prior = experts.prior
    weights = np.atleast_2d(prior.weights)
    if group is not None and prior.group_weights is not None and total:
        belongs = np.searchsorted(evidence.offsets, cuts[:-1][chosen], side="right") - 1
        weights = prior.group_weights[group[belongs]]
    weights = restart_prior(weights, prior.rates)
    rate = np.full(len(cuts) - 1, np.nan)
    if total:
        known = grid_likelihood(pieces.select(chosen), prior.rates) * weights
        known /= known.sum(axis=1, keepdims=True)
        rate[chosen] = np.exp(known @ np.log(prior.rates))
    return [owner, middle, low, high, probability, rate[after - 1], rate[after]]


def _not_constant(found: Followed, experts: Experts) -> Floats:
    """How likely each history is to have changes of rate at all, rather than one constant rate."""
    score = experts.scores(found.score)
    share = np.bincount(experts.family, experts.share, 3)
    odds = share[0] / share[2] if share[0] > 0 and share[2] > 0 else 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        answer = 1 / (1 + odds * np.exp(score[:, 0] - score[:, 2]))
    return np.asarray(np.nan_to_num(answer))


def _longest_stretch(experts: Experts) -> int:
    """Visits over which a change of rate may be smeared out and still be called one.

    Short enough that no such stretch would be found where the visits say nothing at all.
    """
    share = experts.share[: len(experts.hazards)]
    by_chance = float(share @ experts.hazards) / max(float(share.sum()), 1e-12)
    if by_chance == 0:
        return _LONGEST_STRETCH
    return int(np.clip(_MORE_SURE_THAN_BY_CHANCE / by_chance, 1, _LONGEST_STRETCH))


def instants(microseconds: NDArray[Any]) -> NDArray[np.datetime64]:
    return microseconds.astype(np.int64).view("M8[us]")
