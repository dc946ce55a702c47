"""Answers that take a while, by name: made once in the background, kept, and given with their age.

Each function returns a `Cached`: a page shows it, or says that it is being computed. What an
answer depends on is its key, so it is made anew when that changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np

from observant.errors import InputError, ObservantError
from observant.observer.permission import objective_of
from observant.visits.columns import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from observant.arrays import Floats
    from observant.estimation.belief import RateBelief
    from observant.estimation.intervals import IntervalEstimate
    from observant.estimation.intervals.choice import ChosenModel
    from observant.estimation.population import Population, Turnover
    from observant.estimation.season.table import Season
    from observant.service.cache import Cached
    from observant.service.collection.context import Context
    from observant.service.plan import PlanAnswer, Rivals
    from observant.store import StoredSource
    from observant.visits import VisitLog


T = TypeVar("T")

# -- The whole collection as its visits show it: how old, how fast, at which hours ----------------
#
# Everything here is computed from one visit log: that of all sources, or of an even sample of them.


@dataclass(frozen=True, eq=False)
class PopulationAnswer:
    """Brewington's chapter 3 for this collection."""

    sources: int
    """Active sources in the store."""
    sampled: int
    visits: int
    fits: Population | None = field(repr=False)
    hours: Floats = field(repr=False)
    """Changes by hour of the week, Monday 00:00 UTC first."""
    hours_from: str
    """dates of modification, or visits that found a change."""
    rot: Turnover | None
    """Births, deaths and link rot."""
    notes: tuple[str, ...]


def population(
    log: VisitLog | None, sources: int, answered: VisitLog | None = None
) -> PopulationAnswer:
    """Describe a collection of so many active sources by the log of all or some of them.

    `answered` is the same log with the status that was answered, 404 where one was gone.
    """
    from observant.estimation.population import fit_population, turnover

    if log is None or not len(log):
        raise InputError("there are no visits yet: run the observer for a while")
    notes: list[str] = []
    fits = None
    try:
        fits = fit_population(log)
    except ObservantError as error:
        notes.append(str(error))
    hours, origin = change_hours(log)
    return PopulationAnswer(
        sources=sources,
        sampled=len(log.sources),
        visits=len(log),
        fits=fits,
        hours=hours,
        hours_from=origin,
        rot=turnover(answered) if answered is not None and answered.succeeded.any() else None,
        notes=tuple(notes),
    )


def change_hours(log: VisitLog) -> tuple[Floats, str]:
    """Changes by hour of the week, each spread over the hours in which it may have happened.

    Where sources date their updates, the dates are counted instead.
    """
    owner = np.searchsorted(log.offsets, np.arange(len(log)), side="right") - 1
    good = np.flatnonzero(log.succeeded)
    dates = None if log.last_modified is None else log.last_modified[good]
    changed = log.changed[good] == 1
    if dates is not None and (dated := changed & (dates != MISSING)).sum() > 0.5 * changed.sum():
        hour = dates[dated] // (3_600_000_000) + 3 * 24
        return np.bincount(hour % 168, minlength=168).astype(float), "dates of modification"
    time, who = log.time[good] / 3.6e9, owner[good]
    rows = np.flatnonzero(changed[1:] & (who[1:] == who[:-1])) + 1
    # A gap of more than two days says nothing of the hour.
    rows = rows[time[rows] - time[rows - 1] <= 48][:200_000]
    first = time[rows - 1].astype(np.int64)
    hours = time[rows].astype(np.int64) - first + 1
    within = np.arange(hours.sum()) - np.repeat(np.cumsum(hours) - hours, hours)
    counts = np.bincount(
        (np.repeat(first, hours) + within + 3 * 24) % 168, np.repeat(1.0 / hours, hours), 168
    )
    return np.asarray(counts, np.float64), "visits that found a change"


QUICK = 0.15
"""Seconds that a page waits for an answer that is not there yet."""
_HOUR = 3600.0
_SAMPLE = 2000
"""Sources whose visits stand for all."""
_MOST_VISITS = 2000
"""Visits of one source that are looked at in depth; the latest."""


@dataclass(frozen=True, eq=False)
class PlannedPeriods:
    """A plan, the one in force for the same beliefs, and what other budgets would buy."""

    answer: PlanAnswer
    now: PlanAnswer
    curve: list[dict[str, float]]


def plan_study(
    collection: Context,
    *,
    budget: float | None = None,
    cost: bool | None = None,
    grace: float | None = None,
    objective: str | None = None,
    importance: Mapping[str, float] | None = None,
    wait: float = QUICK,
) -> Cached[PlannedPeriods]:
    """The plan in force, or with other settings before they are applied.

    Whatever is said of a plan (what it promises, its price, what other budgets would buy) is said
    of this one.
    """
    from observant.service.plan import what_if

    config = collection.config
    in_force: dict[str, Any] = {
        "budget": config.budget_per_day,
        "cost": config.counts_cost,
        "grace": config.grace_days,
        "objective": config.objective,
    }
    asked = {"budget": budget, "cost": cost, "grace": grace, "objective": objective}
    wanted = in_force | {name: value for name, value in asked.items() if value is not None}
    more = tuple(sorted((importance or {}).items()))

    def make() -> PlannedPeriods:
        beliefs, own = collection.beliefs(), {"objective": objective_of(config)}
        asked = own if wanted["objective"] == config.objective else {}
        answer = what_if(beliefs, **wanted | asked, importance=dict(more))
        other = more or wanted != in_force
        now = what_if(beliefs, **in_force | own) if other else answer
        return PlannedPeriods(answer, now, answer.curve())

    key = ("plan", *wanted.values(), more, *in_force.values())
    return collection.cache.get(key, make, max_age=600.0, wait=wait, heavy=True)


def rivals_study(collection: Context, *, wait: float = QUICK) -> Cached[Rivals]:
    """Rival rules on the history of this collection."""
    from observant.service.plan import replay_rivals

    return collection.cache.get(
        "rivals",
        lambda: replay_rivals(_sample(collection)),
        max_age=6 * _HOUR,
        wait=wait,
        heavy=True,
    )


def population_study(collection: Context, *, wait: float = QUICK) -> Cached[PopulationAnswer]:
    """Ages, lifetimes, rates and hours of the whole collection."""

    def make() -> PopulationAnswer:
        ids = collection.store.sources.columns(_SAMPLE).id.tolist()
        answered = collection.store.visits.log_of(ids, raw=True)
        return population(_sample(collection), collection.beliefs().total, answered)

    return collection.cache.get("population", make, max_age=_HOUR, wait=wait, heavy=True)


def intervals(
    collection: Context, source: StoredSource, *, wait: float = QUICK
) -> Cached[IntervalEstimate]:
    """The distribution of the time between updates of a source, with what to doubt."""

    def make() -> IntervalEstimate:
        from observant.estimation.intervals import estimate_intervals

        log = _own_log(collection, source)
        return cast("IntervalEstimate", estimate_intervals(log, source.name, bands=40))

    return _of_source(collection, "intervals", source, make, wait)


_CLEAR = 1e-3
"""Below which p a source is clearly not Poisson, as for a plan of visits."""


def chosen(
    collection: Context, source: StoredSource, *, wait: float = QUICK
) -> Cached[ChosenModel]:
    """The rate of a source, or the ages that its visits show where it is clearly not Poisson."""

    def make() -> ChosenModel:
        from observant.estimation.intervals import chosen_model

        return chosen_model(_own_log(collection, source), source.name, level=_CLEAR)

    return _of_source(collection, "chosen", source, make, wait)


_AGEING = {
    "memoryless": "nothing speaks against Poisson: it forgets its age",
    "bursty": "not Poisson but bursts: an update makes the next one likelier",
    "regular": "not Poisson but regular: the longer ago the last update, the nearer the next",
    "mixed": "not Poisson: regular at some ages, bursty at others",
}


def verdict(found: IntervalEstimate) -> str:
    """Whether a source is Poisson, in a sentence."""
    told = found.diagnostics
    if told is None or told.ageing is None:
        return "Too few changes to say whether it is Poisson"
    p = f" (p = {told.memory_p:.2g})" if math.isfinite(told.memory_p) else ""
    return f"{_AGEING[told.ageing].capitalize()}{p}"


class KnownRate(NamedTuple):
    """The rate of a source as it was known after one of its visits."""

    at: np.datetime64
    changed: bool
    rate: RateBelief


def history(
    collection: Context, source: StoredSource, *, wait: float = QUICK
) -> Cached[list[KnownRate]]:
    """The rate of a source as it was known after each of its visits; at last, as it is known."""

    def make() -> list[KnownRate]:
        from observant.estimation.drift.follower import Comparisons
        from observant.estimation.drift.moments import instants
        from observant.estimation.evidence import CHANGED, DATED, Evidence
        from observant.estimation.online import OnlinePosterior
        from observant.planning.policy import group_of
        from observant.service.posteriors import beliefs_of, kept_prior

        log, store = _own_log(collection, source), collection.store
        known = OnlinePosterior(kept_prior(store), group_of(source.name, source.host))
        seen, found = Evidence.from_log(log, 0, 1), []
        for at, gap, kind, age in zip(
            instants(Comparisons.of(log, 0, 1).end), seen.gaps, seen.kind, seen.ages, strict=True
        ):
            changed = bool(kind & CHANGED)
            known.visit(gap, changed, age if kind & DATED else None)
            found.append(KnownRate(at, changed, known.belief()))
        if not found:
            raise InputError("no two of its visits can be compared")
        kept = store.sources.previous(source.name, text=False).posterior
        now = beliefs_of(store, [source.name], [source.host], [kept]).one(0)
        return [*found[:-1], found[-1]._replace(rate=now)]

    return _of_source(collection, "history", source, make, wait)


def season(collection: Context, source: StoredSource, *, wait: float = QUICK) -> Cached[Season]:
    """The hours of the day at which a source changes, if it has such hours."""

    def make() -> Season:
        from observant.estimation.season import estimate_seasons

        return estimate_seasons(_own_log(collection, source), bins="hour-of-day").season

    return _of_source(collection, "season", source, make, wait)


def _of_source(
    collection: Context, name: str, source: StoredSource, make: Callable[[], T], wait: float
) -> Cached[T]:
    """A study of one source, made anew after each of its visits."""
    key = (name, source.id, source.visits)
    return collection.cache.get(key, make, max_age=_HOUR, wait=wait, heavy=True)


def _sample(collection: Context) -> VisitLog | None:
    """The visits of an even sample of the active sources."""

    def make() -> VisitLog | None:
        ids = collection.store.sources.columns(_SAMPLE).id
        return collection.store.visits.log_of(ids.tolist())

    return collection.cache.get("sample", make, max_age=_HOUR, wait=300.0, heavy=True).value


def _own_log(collection: Context, source: StoredSource) -> VisitLog:
    from observant.visits import VisitLog

    rows = collection.store.visits.list(source.name, limit=_MOST_VISITS)
    if len(rows) < _FEWEST:
        raise InputError(f"this needs {_FEWEST} visits or more, and there are {len(rows)}")
    saw_nothing = {"failed", "unconfirmed"}
    return VisitLog.from_columns(
        [source.name] * len(rows),
        [row.started_at for row in rows],
        [row.changed for row in rows],
        [row.last_modified for row in rows],
        status=[0 if row.outcome in saw_nothing else 200 for row in rows],
        on_duplicate="first",
    )


_FEWEST = 5
