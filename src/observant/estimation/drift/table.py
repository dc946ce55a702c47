"""How often does each source change now? Rates that drift, from visits alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.errors import InputError
from observant.estimation.drift.experts import (
    DISCOUNTS,
    HAZARDS,
    KEEP,
    METHODS,
)
from observant.estimation.drift.follower import Comparisons, Follower, SeasonLike, SeasonsLike
from observant.estimation.drift.moments import RateChanges, find_rate_changes, instants
from observant.estimation.pooling import grid_quantiles
from observant.estimation.rates import conflicts_told
from observant.tables import Table, first_rows
from observant.units import counted, format_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from observant.arrays import Flags, Floats, Integers
    from observant.estimation.evidence import Evidence
    from observant.estimation.priors import Prior
    from observant.visits import VisitLog


@dataclass(frozen=True, eq=False)
class DriftPosterior:
    """What is known of every source's rate now: `weights` gives it on the grid.

    It has the shape of the posterior of a pooled `RateTable`, so plans take it the same way.
    """

    rates: Floats
    prior: Prior
    mean: Floats
    variance: Floats
    log_mean: Floats
    """Exponential of the mean of log λ: the best guess when errors count by their ratio."""
    _weights: NDArray[np.float32] = field(repr=False)

    def __len__(self) -> int:
        return len(self.mean)

    def weights(self, first: int = 0, last: int | None = None) -> Floats:
        """Probability of each grid rate for the sources ``first:last``, one row a source."""
        rows = self._weights[first:last].astype(np.float64)
        return np.asarray(rows / rows.sum(axis=1, keepdims=True))

    def points(self, first: int = 0, last: int | None = None) -> tuple[Floats, Floats]:
        """The rates of the grid, and `weights`."""
        return self.rates, self.weights(first, last)

    def gamma(self) -> tuple[Floats, Floats]:
        """Shapes a and rates b of the Gamma distributions with the same means and variances."""
        b = self.mean / self.variance
        return self.mean * b, b


@dataclass(frozen=True, eq=False, repr=False)
class RatePath(Table):
    """The rate of one source as it was known after each visit, with its band."""

    figure: ClassVar[str] = "observant.figures.drift:rate_path_figure"

    columns: ClassVar[tuple[str, ...]] = ("time", "rate_per_day", "rate_low", "rate_high")

    source: str
    time: NDArray[np.datetime64]
    rate_per_day: Floats
    rate_low: Floats
    rate_high: Floats
    changed: Flags
    """What the visit saw."""
    gaps: Floats
    """Days since the visit before."""
    rate_changed: Floats
    """Seen from the end: the probability that the rate changed just before this gap."""
    confidence: float

    def __repr__(self) -> str:
        return f"<RatePath: {self.source}, {counted(len(self), 'comparison')}>"


@dataclass(frozen=True, eq=False, repr=False)
class DriftTable(Table):
    """The rate of every source now, what it was believed by, and when it changed."""

    columns: ClassVar[tuple[str, ...]] = (
        "source",
        "visits",
        "changes",
        "rate_per_day",
        "rate_low",
        "rate_high",
        "method",
        "score_constant",
        "score_forgetting",
        "score_changepoints",
        "score",
        "rate_changes",
        "last_rate_change",
    )

    source: pa.Array
    visits: Integers
    """Successful visits, the first one included."""
    changes: Integers
    """How many of them found a change."""
    rate_per_day: Floats
    """The rate now: after the last visit."""
    rate_low: Floats
    rate_high: Floats
    method_code: NDArray[np.int8]
    """Index into `METHODS`: what the source believes most. That its rate may change does not say
    that it did: see `rate_changes`."""
    score_constant: Floats
    """Log probability that the method gave to the history, visit before visit."""
    score_forgetting: Floats
    """The same for the method that forgets."""
    score_changepoints: Floats
    """The same for the method with change points."""
    score: Floats
    """That of the methods weighed together, which made the rate."""
    rate_changes: Integers
    """How often the rate changed, more likely than not."""
    last_rate_change: NDArray[np.datetime64]
    """When it last did; not-a-time where it never did."""
    change_points: RateChanges
    shares: dict[str, float]
    """What the collection makes of each method, before a source is looked at."""
    posterior: DriftPosterior
    confidence: float
    asked: str
    """The method asked for."""
    notes: tuple[str, ...]
    follower: Follower = field(repr=False)
    """What was learned, ready for `path` and for predictions."""

    @property
    def method(self) -> NDArray[np.str_]:
        """What each source believes most: one of `METHODS`."""
        return np.array(METHODS)[self.method_code]

    def path(self, source: str) -> RatePath:
        """The rate of one source as it was known after each of its visits."""
        names = self.source.to_pylist()
        if source not in names:
            raise InputError(f"there is no source {source!r} in this log")
        i = names.index(source)
        evidence = self.follower.evidence(i, i + 1)
        if not len(evidence.gaps):
            raise InputError("it has no two visits that can be compared", source=source)
        group = None if self.follower.group is None else self.follower.group[i : i + 1]
        experts = self.follower.experts
        found = experts.follow(evidence, group, each_visit=True, boundaries=True)
        low, high = _band(found.belief, experts.prior.rates, self.confidence)
        return RatePath(
            source=source,
            time=instants(Comparisons.of(self.follower.log, i, i + 1).end),
            rate_per_day=np.exp(found.belief @ np.log(experts.prior.rates)),
            rate_low=low,
            rate_high=high,
            changed=evidence.kind & 1 == 1,
            gaps=evidence.gaps,
            rate_changed=found.boundary,
            confidence=self.confidence,
        )

    def summary(self) -> dict[str, Any]:
        """The collection in a few numbers."""
        per_visit = np.maximum(self.visits - 1, 1).sum()
        return {
            "sources": len(self),
            "visits": int(self.visits.sum()),
            "changes": int(self.changes.sum()),
            "rate_changes": int(self.rate_changes.sum()),
            "sources_with_rate_changes": int(np.count_nonzero(self.rate_changes)),
            "shares": self.shares,
            "gain_per_visit": float((self.score - self.score_constant).sum() / per_visit),
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        moments = counted(len(self.change_points), "change")
        return f"<DriftTable: {counted(len(self), 'source')}, {moments} of rate>"

    def __str__(self) -> str:
        def row(i: int) -> str:
            interval = f"{format_rate(self.rate_low[i])} to {format_rate(self.rate_high[i])}"
            rate = format_rate(self.rate_per_day[i])
            return f"{self.visits[i]:6}  {rate:>9}  {interval:>21}  {self.method[i]}"

        percent = f"{100 * self.confidence:g} % interval"
        return first_rows(self.source, f"visits  {'rate now':>9}  {percent:>21}  believed", row)


def estimate_drift(
    log: VisitLog,
    method: str = "auto",
    *,
    prior: str | Prior = "pooled",
    hazards: float | Sequence[float] = HAZARDS,
    discounts: float | Sequence[float] = DISCOUNTS,
    keep: int = KEEP,
    confidence: float = 0.95,
    season: SeasonLike | SeasonsLike | None = None,
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> DriftTable:
    """The rate of each source now, when rates may drift, from visits of any kind.

    Parameters
    ----------
    log
        The visits. Where sources have groups, each group has its own prior.
    method
        ``constant``, ``forgetting`` or ``changepoints`` (see `experts`), or ``auto``: all three,
        weighed for each source by how well they foretold its visits, and by what they are worth
        over the collection.
    prior
        ``pooled``: the collection's own distribution of rates; ``broad``: flat in log λ over
        all rates the visits could see; or a `Prior` fitted elsewhere.
    hazards, discounts
        The settings of ``changepoints`` and ``forgetting``. Several are weighed like methods.
    keep
        Beginnings of the present run that are kept.
    confidence
        Of the band around each rate.
    season
        What `estimate_seasons` found, or one `Season` for all: at quiet hours time runs slower.
    threads
        How many blocks are worked on at once; all cores unless told. The answer is the same.
    progress
        Called with the number of sources done, block by block.

    A page that changed once in ten days, and now changes daily:

    >>> from observant import VisitLog
    >>> seen = [None] + [day % 10 == 0 for day in range(1, 61)] + [True] * 15
    >>> log = VisitLog.from_columns(["page"] * 76, range(76), seen, time_unit="d")
    >>> table = estimate_drift(log)
    >>> print(table)
    source  visits   rate now          95 % interval  believed
    page        76     7.81/d          1.9/d to 33/d  changepoints
    >>> [str(time)[:10] for time in table.change_points.time]
    ['1970-03-01']
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence lies between 0 and 1, not {confidence}")
    follower = Follower.of(
        log,
        method,
        prior=prior,
        hazards=hazards,
        discounts=discounts,
        keep=keep,
        season=season,
    )
    experts, rates = follower.experts, follower.experts.prior.rates

    def one_block(
        evidence: Evidence, group: Integers | None, sources: slice
    ) -> tuple[NDArray[Any], ...]:
        found = experts.follow(evidence, group, boundaries=True)
        points = find_rate_changes(evidence, found, experts, group)
        points[0][:] += sources.start
        first = Comparisons.of(log, sources.start, sources.stop)
        points[1][:] = first.start[points[1]]
        points[2][:] = first.start[points[2]]
        points[3][:] = first.end[points[3]]
        weights = found.now.astype(np.float64)
        weights /= weights.sum(axis=1, keepdims=True)
        mean = weights @ rates
        variance = np.maximum(weights @ rates**2 - mean**2, np.finfo(float).tiny)
        low, high = _band(weights, rates, confidence)
        return (
            np.exp(weights @ np.log(rates)),
            low,
            high,
            mean,
            variance,
            experts.scores(found.score),
            np.argmax(experts.weights(found.score), axis=1),
            found.now,
            *points,
        )

    columns, conflicts = follower.blocks(one_block, threads=threads, progress=progress)
    changes, _days, _code, rate, low, high, mean, variance, scores, best, now, *points = columns
    owner, times, times_low, times_high, probability, before, after = points
    owner = owner.astype(np.int64)
    moments = RateChanges(
        source=log.sources.take(owner),
        time=instants(times),
        time_low=instants(times_low),
        time_high=instants(times_high),
        probability=probability,
        rate_before=before,
        rate_after=after,
    )
    last = np.full(len(rate), np.datetime64("NaT", "us"))
    last[owner] = moments.time  # in order of time, so the last one stays
    return DriftTable(
        source=log.sources,
        visits=log.successes_per_source,
        changes=changes.astype(np.int64),
        rate_per_day=rate,
        rate_low=low,
        rate_high=high,
        method_code=best.astype(np.int8),
        score_constant=scores[:, 0],
        score_forgetting=scores[:, 1],
        score_changepoints=scores[:, 2],
        score=scores[:, 3],
        rate_changes=np.bincount(owner, minlength=len(rate)),
        last_rate_change=last,
        change_points=moments,
        shares={
            name: float(experts.share[experts.family == code].sum())
            for code, name in enumerate(METHODS)
        },
        posterior=DriftPosterior(
            rates=rates,
            prior=experts.prior,
            mean=mean,
            variance=variance,
            log_mean=rate,
            _weights=now,  # type: ignore[arg-type]
        ),
        confidence=confidence,
        asked=method,
        notes=(*follower.notes, *conflicts_told(conflicts)),
        follower=follower,
    )


def _band(weights: Floats, rates: Floats, confidence: float) -> tuple[Floats, Floats]:
    tail = (1 - confidence) / 2
    low, high = grid_quantiles(weights, rates, (tail, 1 - tail))
    return low, high
