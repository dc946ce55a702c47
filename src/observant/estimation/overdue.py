"""Has it changed by now? The probability, and what is overdue.

A source was last visited w days ago. With p(λ) what is believed of its rate (`belief`),

    P(changed by now) = Σ p(λ) (1 − e^(−λw))

the same number as on the dashboard and in the schedule. By the methods of `drift`, which look for
changes of the rate and know seasons, it can be asked for too; `drift.prequential` makes that
prediction before each visit of a log and holds it against what the visit then saw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.errors import InputError
from observant.estimation.belief import Likelihoods
from observant.estimation.drift.follower import Follower, SeasonLike, SeasonsLike, last_visits
from observant.estimation.drift.table import DriftTable
from observant.estimation.evidence import CHANGED, Evidence
from observant.estimation.pooling import learn_prior
from observant.tables import Table, first_rows
from observant.times import MICROSECONDS_PER_DAY
from observant.units import counted, format_duration
from observant.visits.columns import MISSING, column_of, times_in
from observant.visits.log import require_log

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from observant.arrays import Floats, Integers
    from observant.estimation.priors import Prior
    from observant.visits import VisitLog

__all__ = [
    "ChangeTable",
    "OverdueTable",
    "change_probability",
    "overdue",
]

REASONS = ("silent", "unvisited")
"""Why something is overdue: the source should have changed; we should have looked."""


@dataclass(frozen=True, eq=False, repr=False)
class ChangeTable(Table):
    """For every source: how likely it has changed by now, and how unlikely its silence is."""

    columns: ClassVar[tuple[str, ...]] = (
        "source",
        "last_visit",
        "waited_days",
        "probability",
        "quiet_days",
        "silence_probability",
    )

    source: pa.Array
    last_visit: NDArray[np.datetime64]
    """The last successful one; not-a-time where there is none."""
    waited_days: Floats
    """From the last visit to `at`."""
    probability: Floats
    """That the source has changed since its last visit."""
    quiet_days: Floats
    """Time before the last visit in which visits saw no change."""
    silence_probability: Floats
    """Of so long a silence or a longer one, at the rate known before the source last changed."""
    at: np.datetime64
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        expected = np.nansum(self.probability)
        return f"<ChangeTable: {len(self):,} sources, {expected:.1f} expected to have changed>"


@dataclass(frozen=True, eq=False, repr=False)
class OverdueTable(Table):
    """What should have happened long ago, the most surprising first."""

    columns: ClassVar[tuple[str, ...]] = ("source", "reason", "days", "probability", "last_visit")

    source: pa.Array
    reason_code: NDArray[np.int8]
    """Index into `REASONS`."""
    days: Floats
    """How long it has been silent, or not visited."""
    probability: Floats
    """Of no change in so long a time."""
    last_visit: NDArray[np.datetime64]
    """The last successful one."""
    sources: int
    """How many sources were looked at."""
    epsilon: float
    at: np.datetime64
    notes: tuple[str, ...] = ()

    @property
    def reason(self) -> NDArray[np.str_]:
        """Why each is overdue: one of `REASONS`."""
        return np.array(REASONS)[self.reason_code]

    def __repr__(self) -> str:
        silent = int(np.count_nonzero(self.reason_code == 0))
        return (
            f"<OverdueTable: {silent:,} silent and {len(self) - silent:,} unvisited "
            f"of {counted(self.sources, 'source')}>"
        )

    def __str__(self) -> str:
        if not len(self):
            return "nothing is overdue"

        def row(i: int) -> str:
            days = format_duration(self.days[i])
            return f"{self.reason[i]:9}  {days:>7}  {self.probability[i]:.2g}"

        heading = f"{'reason':9}  {'for':>7}  probability of no change"
        return first_rows(self.source, heading, row)


def change_probability(
    log: VisitLog | DriftTable,
    at: Any = None,
    method: str = "pooled",
    *,
    prior: str | Prior = "pooled",
    season: SeasonLike | SeasonsLike | None = None,
    threads: int | None = None,
) -> ChangeTable:
    """How likely has each source changed since it was last visited?

    `at` is the moment asked about (a datetime, ISO 8601 text, or seconds since 1970); the last
    visit of the log by default. `method` is "pooled", the belief of `estimate_rates`, or one of
    `drift` ("auto" weighs them), whose `prior` and `season` go with it; give a `DriftTable` instead
    of the log, and what it has learned is used.

    >>> from observant import VisitLog
    >>> seen = [None] + [1, 0] * 15
    >>> log = VisitLog.from_columns(["page"] * 31, range(31), seen, time_unit="d")
    >>> table = change_probability(log, at="1970-02-02")  # two days after the last visit
    >>> table.waited_days, table.probability.round(2)
    (array([2.]), array([0.73]))
    """
    if method == "pooled" and season is None and not isinstance(log, DriftTable):
        return _believed(log, at, prior)
    drifting = "auto" if method == "pooled" else method
    follower = _follower(log, drifting, prior=prior, season=season)
    last = last_visits(follower.log)
    moment = _moment(at, follower.log, last)
    waited = follower.waited(last, moment)
    experts, rates = follower.experts, follower.experts.prior.rates

    def one_block(evidence: Evidence, group: Integers | None, sources: slice) -> tuple[Floats, ...]:
        found = experts.follow(evidence, group)
        quiet = _quiet(evidence)
        still = _unchanged(found.after, rates, np.nan_to_num(waited[sources]))
        return 1 - still, quiet, _unchanged(found.settled, rates, quiet)

    columns, _ = follower.blocks(one_block, threads=threads)
    _, _, _, probability, quiet, silence = columns
    never = last == MISSING
    notes = list(follower.notes)
    if never.any():
        notes.append(f"{counted(int(never.sum()), 'source')} without a successful visit")
    return ChangeTable(
        source=follower.log.sources,
        last_visit=last.view("M8[us]"),
        waited_days=np.where(never, np.nan, (moment - last) / MICROSECONDS_PER_DAY),
        probability=np.where(never, np.nan, probability),
        quiet_days=quiet,
        silence_probability=silence,
        at=np.datetime64(moment, "us"),
        notes=tuple(notes),
    )


def overdue(
    log: VisitLog | DriftTable,
    at: Any = None,
    epsilon: float = 0.01,
    method: str = "pooled",
    *,
    prior: str | Prior = "pooled",
    season: SeasonLike | SeasonsLike | None = None,
    threads: int | None = None,
) -> OverdueTable:
    """What should have changed long ago: no change in so long a time has probability below ε.

    - ``silent``: visits go on, but have seen no change for longer than the rate known before the
      source last changed would allow. It has died, slowed down, or its changes are no longer seen.
      Of sources whose rate is constant, at most a share ε is called silent.
    - ``unvisited``: nobody looked for so long that it has changed almost surely.

    >>> from observant import VisitLog
    >>> seen = [None] + [1, 0] * 15 + [0] * 15
    >>> log = VisitLog.from_columns(["page"] * 46, range(46), seen, time_unit="d")
    >>> print(overdue(log))
    source  reason         for  probability of no change
    page    silent         16d  0.0012
    """
    if not 0 < epsilon < 1:
        raise InputError(f"epsilon lies between 0 and 1, not {epsilon}")
    table = change_probability(log, at, method, prior=prior, season=season, threads=threads)
    unchanged = 1 - table.probability
    silent = np.flatnonzero(table.silence_probability < epsilon)
    unvisited = np.flatnonzero(unchanged < epsilon)
    which = np.concatenate([silent, unvisited])
    reason = np.repeat(np.array([0, 1], np.int8), [len(silent), len(unvisited)])
    chance = np.concatenate([table.silence_probability[silent], unchanged[unvisited]])
    days = np.concatenate([table.quiet_days[silent], table.waited_days[unvisited]])
    order = np.argsort(chance, kind="stable")
    return OverdueTable(
        source=table.source.take(which[order]),
        reason_code=reason[order],
        days=days[order],
        probability=chance[order],
        last_visit=table.last_visit[which[order]],
        sources=len(table),
        epsilon=epsilon,
        at=table.at,
        notes=table.notes,
    )


def _believed(log: VisitLog, at: Any, prior: str | Prior) -> ChangeTable:
    """`change_probability` by the belief of `estimate_rates` and of the observer."""
    require_log(log)
    last = last_visits(log)
    moment = _moment(at, log, last)
    waited = (moment - last) / MICROSECONDS_PER_DAY
    notes: list[str] = list(log.notes)
    if isinstance(prior, str):
        if prior != "pooled":
            raise InputError(f"the prior of this method is 'pooled' or a Prior, not {prior!r}")
        prior, told = learn_prior(log)
        notes += told
    rows, evidence = prior.rows(), Evidence.from_log(log)
    never = last == MISSING
    believed = Likelihoods.of(evidence).under(rows)
    settled = Likelihoods.of(evidence.only(_since_last_change(evidence) < 0)).under(rows)
    quiet = _quiet(evidence)
    if never.any():
        notes.append(f"{counted(int(never.sum()), 'source')} without a successful visit")
    return ChangeTable(
        source=log.sources,
        last_visit=last.view("M8[us]"),
        waited_days=np.where(never, np.nan, waited),
        probability=np.where(never, np.nan, 1 - believed.unchanged(np.where(never, 0.0, waited))),
        quiet_days=quiet,
        silence_probability=settled.unchanged(quiet),
        at=np.datetime64(moment, "us"),
        notes=tuple(notes),
    )


def _follower(log: VisitLog | DriftTable, method: str, **settings: Any) -> Follower:
    return log.follower if isinstance(log, DriftTable) else Follower.of(log, method, **settings)


def _moment(at: Any, log: VisitLog, last: Integers) -> int:
    """`at` in microseconds since 1970; not before the last visit."""
    latest = int(log.time.max())
    if at is None:
        return latest
    given = np.array([at], "M8[us]") if isinstance(at, np.datetime64) else [at]
    moment = int(times_in(column_of(given, "at"), "at")[0])
    if moment == MISSING:
        raise InputError("the moment asked about is missing: give a time, or leave `at` out")
    if moment < int(last.max()):
        raise InputError(
            f"the log holds visits after {np.datetime64(moment, 'us')}: leave them out, or ask "
            f"about {np.datetime64(latest, 'us')} or later"
        )
    return moment


def _quiet(evidence: Evidence) -> Floats:
    """Days of the comparisons after the last one that saw a change."""
    return evidence.sums(np.where(_since_last_change(evidence) > 0, evidence.gaps, 0.0))


def _since_last_change(evidence: Evidence) -> Integers:
    """How many comparisons after the last one of its source that saw a change each is: below 0
    before it, and above 0 where none did.
    """
    place = np.arange(len(evidence.gaps))
    owner = np.repeat(np.arange(len(evidence.counts)), evidence.counts)
    last = evidence.offsets[:-1] - 1
    hit = evidence.kind & CHANGED == CHANGED
    np.maximum.at(last, owner[hit], place[hit])
    return np.asarray(place - last[owner])


def _unchanged(belief: NDArray[np.float32], rates: Floats, days: Floats) -> Floats:
    """Σₖ p(λₖ) e^(−λₖ · days) of each source."""
    weights = belief / belief.sum(axis=1, keepdims=True, dtype=np.float64)
    still: Floats = np.einsum("ij,ij->i", weights, np.exp(-np.outer(days, rates)))
    return still
