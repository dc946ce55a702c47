"""What a rule sees, what it remembers, and the one thing it does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from observant.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Flags, Floats, Integers


SAME, CHANGED, UNKNOWN, FAILED, GONE = 0, 1, 2, 3, 4
"""Outcomes of a visit. Unknown: it succeeded, but there was nothing to compare it with, as on a
first visit. Failed: a passing error. Gone: the source answered that it is no more."""


@dataclass(frozen=True, eq=False)
class Seen:
    """One visit to each of some sources. Not-a-number says: this source does not tell.

    >>> Seen(time=3.0, outcome=[CHANGED, SAME]).time
    array([3., 3.])
    """

    time: ArrayLike
    """Start of the visit, in days."""
    outcome: ArrayLike
    """SAME, CHANGED, UNKNOWN, FAILED or GONE."""
    age: ArrayLike = np.nan
    """Days since the source says it was modified (Last-Modified)."""
    entry_gap: ArrayLike = np.nan
    """Mean days between the entries of a feed; for Miniflux those of the last seven days."""
    entry_age: ArrayLike = np.nan
    """Days since the newest entry of a feed."""
    at_least: ArrayLike = 0.0
    """Days the source asks to be left alone: ttl of a feed, Cache-Control, Expires."""

    def __post_init__(self) -> None:
        outcome = np.atleast_1d(np.asarray(self.outcome))
        if not np.isin(outcome, (SAME, CHANGED, UNKNOWN, FAILED, GONE)).all():
            raise InputError("an outcome is one of SAME, CHANGED, UNKNOWN, FAILED and GONE")
        object.__setattr__(self, "outcome", outcome)
        for part in fields(self):
            if part.name == "outcome":
                continue
            values = np.asarray(getattr(self, part.name), float)
            try:
                values = np.broadcast_to(values, outcome.shape)
            except ValueError:
                raise InputError(
                    f"give one {part.name} for each of {outcome.size} visits"
                ) from None
            object.__setattr__(self, part.name, values)
        if not np.isfinite(self.time).all():
            raise InputError("the time of a visit must be a finite number of days")


@dataclass(frozen=True, eq=False)
class RuleState:
    """What a rule remembers of each source."""

    period: Floats
    """The interval the rule keeps adjusting, in days."""
    changed: Floats
    """When the rule last saw a change; not-a-number when it never did."""
    due: Floats
    """When the next visit is due; not-a-number before the first."""
    known: Flags
    """Whether there is a copy to compare with."""
    failures: Integers
    """Failed visits in a row."""

    @classmethod
    def fresh(cls, sources: int, period: ArrayLike) -> RuleState:
        if sources < 1:
            raise InputError(f"a policy needs at least one source, not {sources!r}")
        never = np.full(sources, np.nan)
        periods = np.broadcast_to(np.asarray(period, float), sources).copy()
        return cls(
            periods, never, never.copy(), np.zeros(sources, bool), np.zeros(sources, np.int64)
        )

    def __len__(self) -> int:
        return len(self.period)

    def take(self, which: Any) -> RuleState:
        """The state of some sources, by indices or mask."""
        return RuleState(*(np.atleast_1d(getattr(self, part.name)[which]) for part in fields(self)))

    def put(self, which: Any, part: RuleState) -> RuleState:
        """The same state with those sources replaced."""
        columns = {}
        for column in fields(self):
            columns[column.name] = getattr(self, column.name).copy()
            columns[column.name][which] = getattr(part, column.name)
        return RuleState(**columns)

    def after(self, seen: Seen, period: Floats, wait: Floats, **changes: Any) -> RuleState:
        """The state after a visit that leaves this interval and this wait until the next."""
        outcome = np.asarray(seen.outcome)
        succeeded = outcome <= UNKNOWN
        values = {
            "changed": np.where(outcome == CHANGED, seen.time, self.changed),
            "known": self.known | succeeded,
            "failures": np.where(succeeded, 0, self.failures + 1),
        } | changes
        return replace(self, period=period, due=np.asarray(seen.time) + wait, **values)


@runtime_checkable
class Rule(Protocol):
    """A policy that turns outcomes into next visits, for many sources at once."""

    @property
    def name(self) -> str: ...

    def start(self, sources: int) -> RuleState:
        """The state before any visit. All sources are due at once."""

    def next_period(
        self, state: RuleState, seen: Seen, rng: np.random.Generator | None = None
    ) -> tuple[Floats, RuleState]:
        """Days from this visit to the next, and the state after it; infinite means never again."""


class Adaptive(ABC):
    """A rule whose next visit follows from this one and from what it remembers, not from chance."""

    def start(self, sources: int) -> RuleState:
        return RuleState.fresh(sources, self.first_period())

    def next_period(
        self,
        state: RuleState,
        seen: Seen,
        rng: np.random.Generator | None = None,
    ) -> tuple[Floats, RuleState]:
        return self.after(state, seen)

    @abstractmethod
    def first_period(self) -> float:
        """Days that a source counts as waiting for before its first visit."""

    @abstractmethod
    def after(self, state: RuleState, seen: Seen) -> tuple[Floats, RuleState]:
        """As `next_period`."""


@dataclass(frozen=True, eq=False)
class FixedPeriods:
    """Visit every source with its own fixed period; the form in which an allocation is run.

    `jitter` moves each visit by up to this share of the period, either way, when `rng` is given.
    """

    periods: Floats
    jitter: float = 0.0
    name: str = "fixed"

    def __post_init__(self) -> None:
        periods = np.asarray(self.periods, float)
        if not (periods > 0).all():
            raise InputError("a period must be more than 0 days; infinite means never")
        if not 0.0 <= self.jitter < 1.0:
            raise InputError(f"jitter is a share of the period, below 1, not {self.jitter!r}")
        object.__setattr__(self, "periods", periods)

    @classmethod
    def spending(
        cls, visits_per_day: ArrayLike, *, jitter: float = 0.0, name: str = "fixed"
    ) -> FixedPeriods:
        """The periods of an allocation; a source without visits is never visited again."""
        visits = np.asarray(visits_per_day, float)
        periods = np.divide(1.0, visits, out=np.full(visits.shape, np.inf), where=visits > 0)
        return cls(periods, jitter, name)

    def start(self, sources: int) -> RuleState:
        return RuleState.fresh(sources, self.periods)

    def next_period(
        self, state: RuleState, seen: Seen, rng: np.random.Generator | None = None
    ) -> tuple[Floats, RuleState]:
        wait = state.period
        if rng is not None and self.jitter:
            wait = wait * (1.0 + self.jitter * rng.uniform(-1.0, 1.0, wait.shape))
        return wait, state.after(seen, state.period, wait)
