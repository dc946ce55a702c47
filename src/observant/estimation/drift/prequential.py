"""Predictions made before each visit, held against what it saw: are the probabilities right?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.errors import EstimationError, InputError
from observant.estimation.drift.experts import DISCOUNTS, HAZARDS, KEEP
from observant.estimation.drift.follower import Comparisons, Follower, SeasonLike, SeasonsLike
from observant.estimation.drift.table import DriftTable
from observant.estimation.evidence import CHANGED, Evidence
from observant.estimation.exact import wilson
from observant.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from observant.arrays import Flags, Floats, Integers
    from observant.estimation.priors import Prior
    from observant.visits import VisitLog


def prequential(
    log: VisitLog | DriftTable,
    method: str = "auto",
    *,
    prior: str | Prior = "pooled",
    hazards: float | Sequence[float] = HAZARDS,
    discounts: float | Sequence[float] = DISCOUNTS,
    keep: int = KEEP,
    season: SeasonLike | SeasonsLike | None = None,
    learnt: DriftTable | None = None,
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> Prequential:
    """Predict each visit of a log from the visits to the same source before it.

    The prior and, for ``auto``, the shares of the methods are those of the whole log. They are
    few numbers for many sources, and the same for every method. For a test without them, learn
    from other sources: ``learnt`` is the `drift` of another log, with all its settings.

    >>> from observant.testing import synthetic_visits
    >>> log, _ = synthetic_visits(sources=200, seed=5)
    >>> prequential(log)
    <Prequential: auto, 2,628 visits, log loss 0.4443, Brier 0.1446>
    """
    if isinstance(log, DriftTable):
        follower, method = log.follower, log.asked
    elif learnt is not None:
        follower, method = learnt.follower.on(log), learnt.asked
    else:
        follower = Follower.of(
            log,
            method,
            prior=prior,
            hazards=hazards,
            discounts=discounts,
            keep=keep,
            season=season,
        )
    experts = follower.experts

    def one_block(
        evidence: Evidence, group: Integers | None, sources: slice
    ) -> tuple[NDArray[Any], ...]:
        found = experts.follow(evidence, group, chances=True)
        owner = np.repeat(np.arange(sources.start, sources.stop), evidence.counts)
        return found.chance, (evidence.kind & CHANGED) == CHANGED, owner

    columns, _ = follower.blocks(one_block, threads=threads, progress=progress)
    _, _, _, chance, changed, owner = columns
    if not len(owner):
        raise EstimationError("no source has two visits that can be compared")
    return Prequential(
        sources=follower.log.sources,
        owner=owner.astype(np.int64),
        time=Comparisons.of(follower.log).end.view("M8[us]"),
        probability=chance,
        changed=changed.astype(bool),
        method=method,
    )


@dataclass(frozen=True, eq=False, repr=False)
class Prequential(Table):
    """Before each visit the probability that it sees a change, from the visits before; and what
    it saw.
    """

    figure: ClassVar[str] = "observant.figures.drift:reliability_figure"

    columns: ClassVar[tuple[str, ...]] = ("source", "time", "probability", "changed")

    sources: pa.Array
    owner: Integers
    """Index into `sources`."""
    time: NDArray[np.datetime64]
    probability: Floats
    """That the visit sees a change, as believed just before it."""
    changed: Flags
    """Whether it did."""
    method: str

    def __len__(self) -> int:
        return len(self.owner)

    @property
    def source(self) -> pa.Array:
        """The source of each visit."""
        return self.sources.take(self.owner)

    @property
    def losses(self) -> Floats:
        """−log of the probability given to what each visit saw."""
        given = np.where(self.changed, self.probability, 1 - self.probability)
        return np.asarray(-np.log(np.maximum(given, 1e-12)))

    @property
    def log_loss(self) -> float:
        """Mean of `losses`, in nats."""
        return float(self.losses.mean())

    @property
    def brier(self) -> float:
        """Mean squared distance of the probability from what happened (1 or 0)."""
        return float(np.mean((self.probability - self.changed) ** 2))

    def gain_over(self, other: Prequential) -> tuple[float, float]:
        """By how much the log loss is below another's on the same visits, and its standard error.

        The error takes sources as independent of each other, not the visits of one source.
        """
        if len(self) != len(other) or np.any(self.time != other.time):
            raise InputError("only predictions of the same visits can be compared")
        gained = np.bincount(self.owner, other.losses - self.losses)
        visits = np.bincount(self.owner)
        mean = gained.sum() / visits.sum()
        spread = np.sqrt(np.sum((gained - mean * visits) ** 2)) / visits.sum()
        return float(mean), float(spread)

    def calibration(self, bins: int = 10) -> Calibration:
        """Gather the visits into bins of equal width that hold any."""
        if bins < 1:
            raise InputError(f"at least one bin is needed, not {bins}")
        place = np.minimum((self.probability * bins).astype(np.int64), bins - 1)
        visits = np.bincount(place, minlength=bins)
        some = np.flatnonzero(visits)
        n = visits[some]
        predicted = np.bincount(place, self.probability, bins)[some] / n
        observed = np.bincount(place, self.changed, bins)[some] / n
        low, high = wilson(observed, n)
        return Calibration(
            predicted_low=some / bins,
            predicted_high=(some + 1) / bins,
            visits=n,
            predicted=predicted,
            observed=observed,
            observed_low=low,
            observed_high=high,
        )

    def __repr__(self) -> str:
        return (
            f"<Prequential: {self.method}, {len(self):,} visits, log loss {self.log_loss:.4f}, "
            f"Brier {self.brier:.4f}>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Table):
    """Visits gathered by what was predicted of them, and how many then saw a change."""

    columns: ClassVar[tuple[str, ...]] = (
        "predicted_low",
        "predicted_high",
        "visits",
        "predicted",
        "observed",
        "observed_low",
        "observed_high",
    )

    predicted_low: Floats
    predicted_high: Floats
    visits: Integers
    predicted: Floats
    """Mean of the predictions in the bin."""
    observed: Floats
    """Share of visits that saw a change."""
    observed_low: Floats
    observed_high: Floats
    """Wilson's 95 % interval of that share, as if visits were independent."""

    @property
    def error(self) -> float:
        """Mean distance of predicted from observed, each visit counting once."""
        return float(np.abs(self.predicted - self.observed) @ self.visits / self.visits.sum())
