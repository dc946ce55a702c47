"""The revisit rules of page watchers, caches and feed readers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from observant.currency import heuristic_time_to_live
from observant.errors import InputError
from observant.planning.rivals.rule import CHANGED, FAILED, UNKNOWN, Adaptive, RuleState, Seen
from observant.times import SECOND

if TYPE_CHECKING:
    from observant.arrays import Floats

_MINUTE = 1.0 / 1_440.0
_HOUR = 1.0 / 24.0


@dataclass(frozen=True)
class ChangeDetection:
    """changedetection.io: a fixed interval, 3 hours by default, jittered by at most `jitter` days
    when `rng` is given, and never less than 3 seconds.
    """

    interval: float = 3.0 * _HOUR
    jitter: float = 0.0
    shortest: float = 3.0 * SECOND
    name: str = "changedetection"

    def start(self, sources: int) -> RuleState:
        return RuleState.fresh(sources, self.interval)

    def next_period(
        self, state: RuleState, seen: Seen, rng: np.random.Generator | None = None
    ) -> tuple[Floats, RuleState]:
        wait = state.period
        if rng is not None and self.jitter:
            wait = wait + rng.uniform(-self.jitter, self.jitter, wait.shape)
        wait = np.maximum(wait, self.shortest)
        return wait, state.after(seen, state.period, wait)


@dataclass(frozen=True)
class HttpHeuristic(Adaptive):
    """The guess of browsers and caches: look again after a tenth of the age (RFC 9111, 4.2.2).

    The age is the time since Last-Modified, or where the source does not say, since the last
    change that was seen (before any: since the first visit). `shortest` and `longest` keep it from
    asking all the time or never; they are ours, the heuristic has none. `at_least` counts as an
    explicit lifetime and goes before the guess.
    """

    fraction: float = 0.1
    shortest: float = _HOUR
    longest: float = 365.0
    name: str = "http_heuristic"

    def first_period(self) -> float:
        return self.shortest

    def after(self, state: RuleState, seen: Seen) -> tuple[Floats, RuleState]:
        time, outcome = np.asarray(seen.time), np.asarray(seen.outcome)
        last = np.where(np.isnan(state.changed) | (outcome == CHANGED), time, state.changed)
        age = np.where(np.isnan(seen.age), time - last, seen.age)
        guess = heuristic_time_to_live(np.maximum(age, 0.0), self.fraction)
        stated = np.asarray(seen.at_least)
        wait = np.clip(np.where(stated > 0.0, stated, guess), self.shortest, self.longest)
        wait = np.where(outcome >= FAILED, state.period, wait)
        changed = np.where(outcome <= UNKNOWN, last, state.changed)
        return wait, state.after(seen, wait, wait, changed=changed)


@dataclass(frozen=True)
class Miniflux(Adaptive):
    """Miniflux with POLLING_SCHEDULER=entry_frequency: as often as entries came last week.

    w = ⌈7 d ÷ mean gap⌉ entries a week, the wait is 7 d ÷ (w·factor) between 5 minutes and a day,
    raised to what the feed asks for, a day at most. `entry_gap` is the mean gap of the entries of
    the last seven days; fewer than two of them are not-a-number, and the wait is a day.
    """

    factor: float = 1.0
    shortest: float = 5.0 * _MINUTE
    longest: float = 1.0
    name: str = "miniflux"

    def __post_init__(self) -> None:
        if not self.factor > 0.0:
            raise InputError(f"the factor must be above 0, not {self.factor!r}")

    def first_period(self) -> float:
        return self.longest

    def after(self, state: RuleState, seen: Seen) -> tuple[Floats, RuleState]:
        gap = np.asarray(seen.entry_gap)
        some = gap > 0.0
        a_week = np.ceil(7.0 / np.where(some, gap, 1.0) - 1e-9)
        wait = np.clip(7.0 / (a_week * self.factor), self.shortest, self.longest)
        # A gap of zero is a week with all its entries at one moment: as often as allowed.
        wait = np.where(some, wait, np.where(gap == 0.0, self.shortest, self.longest))
        wait = np.minimum(np.maximum(wait, seen.at_least), self.longest)
        wait = np.where(np.asarray(seen.outcome) >= FAILED, state.period, wait)
        return wait, state.after(seen, wait, wait)


@dataclass(frozen=True)
class CommaFeed(Adaptive):
    """CommaFeed's empirical interval: half the mean gap of the entries, by how long ago the last
    one came.

    Thirty days or more: 4 h; fourteen: 2 h; seven: 1 h; else half the mean gap between 5 minutes
    and 1 h; no entries: 4 h. Errors: three are free, then an hour for each beyond the second, or
    what the source asks for with Retry-After, given as `at_least`.
    """

    shortest: float = 5.0 * _MINUTE
    longest: float = 4.0 * _HOUR
    free_errors: int = 3
    name: str = "commafeed"

    def first_period(self) -> float:
        return self.longest

    def after(self, state: RuleState, seen: Seen) -> tuple[Floats, RuleState]:
        age, gap = np.asarray(seen.entry_age), np.asarray(seen.entry_gap)
        lively = np.clip(gap / 2.0, self.shortest, _HOUR)
        wait = np.select(
            [np.isnan(age), age >= 30.0, age >= 14.0, age >= 7.0, np.isnan(gap)],
            [self.longest, 4.0 * _HOUR, 2.0 * _HOUR, _HOUR, self.longest],
            lively,
        )
        wait = np.maximum(wait, seen.at_least)
        errors = state.failures + 1
        backoff = np.where(errors <= self.free_errors, state.period, _HOUR * (errors - 2))
        backoff = np.maximum(backoff, seen.at_least)
        failed = np.asarray(seen.outcome) >= FAILED
        period = np.clip(np.where(failed, state.period, wait), self.shortest, self.longest)
        wait = np.clip(np.where(failed, backoff, wait), self.shortest, self.longest)
        return wait, state.after(seen, period, wait)
