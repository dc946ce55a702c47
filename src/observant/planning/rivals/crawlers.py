"""The revisit rules of crawlers: Nutch, StormCrawler, news-crawl, Heritrix 1.

They lengthen the interval when a visit saw nothing new and shorten it when it saw a change. Away
from their bounds they all end up visiting in proportion to the rate, whatever the budget.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.planning.rivals.rule import (
    CHANGED,
    FAILED,
    GONE,
    SAME,
    UNKNOWN,
    Adaptive,
    RuleState,
    Seen,
)
from observant.times import DAY

if TYPE_CHECKING:
    from observant.arrays import Floats

_MINUTES = 1_440.0  # of a day


@dataclass(frozen=True)
class NutchDefault(Adaptive):
    """Nutch's `DefaultFetchSchedule`: the same interval always, 30 days as shipped.

    A failed visit is tried again after a day; the third failure in a row counts as gone. A source
    that is gone is looked for again 1.5 times later, at most 81 days.
    """

    interval: float = 30.0
    longest: float = 90.0
    """`db.fetch.interval.max`"""
    retries: int = 3
    name: str = "nutch"

    def first_period(self) -> float:
        return self.interval

    def after(self, state: RuleState, seen: Seen) -> tuple[Floats, RuleState]:
        return _nutch_failures(self, state, seen, state.period, state.period)


@dataclass(frozen=True)
class NutchAdaptive(Adaptive):
    """Nutch's `AdaptiveFetchSchedule`. The defaults are those of the shipped configuration.

    The interval grows by `up` after a visit that saw nothing new and shrinks by `down` after a
    change. With `sync` it is at least the time since the last seen change, and the visit is drawn
    back by `sync_share` of that time. All in whole seconds, as in the code. An interval above
    `longest` is cut to 0.9 of it and the copy forgotten, so that the next visit compares with
    nothing. The next visit is then still due after the long interval, unless that lies more than
    `longest` ahead: then the source is due at the next run of the generator, `cycle` days later.
    """

    up: float = 0.4
    down: float = 0.2
    shortest: float = 60.0 / DAY
    bound: float = 365.0
    """`max_interval` of the adaptive schedule"""
    sync: bool = True
    sync_share: float = 0.3
    interval: float = 30.0
    longest: float = 90.0
    """`db.fetch.interval.max`"""
    cycle: float = 1.0
    retries: int = 3
    name: str = "nutch_adaptive"

    def __post_init__(self) -> None:
        _check_factors(self.up, self.down)

    @classmethod
    def as_coded(cls) -> NutchAdaptive:
        """The values in the code, used when the configuration does not set them."""
        return cls(up=0.2, down=0.2, sync_share=0.2, name="nutch_adaptive_code")

    def first_period(self) -> float:
        return self.interval

    def after(self, state: RuleState, seen: Seen) -> tuple[Floats, RuleState]:
        time = np.asarray(seen.time)
        outcome = np.where(
            state.known | (np.asarray(seen.outcome) > UNKNOWN), seen.outcome, UNKNOWN
        )
        interval = np.where(state.period == 0.0, self.interval, state.period)
        last = np.where(np.isnan(state.changed), time, state.changed)
        last = np.where(outcome == CHANGED, time, last)
        interval = np.where(outcome == CHANGED, interval * (1.0 - self.down), interval)
        interval = np.where(outcome == SAME, interval * (1.0 + self.up), interval)
        shift = np.zeros_like(interval)
        if self.sync:
            idle = np.floor((time - last) * DAY + 1e-6) / DAY
            interval = np.maximum(interval, idle)
            shift = _whole_seconds(self.sync_share * idle)
            shift = np.where(shift > self.bound, 0.0, shift)
        interval = _whole_seconds(np.clip(interval, self.shortest, self.bound))
        wait = interval - shift
        too_long = interval > self.longest
        interval = np.where(too_long, 0.9 * self.longest, interval)
        # A record that is due too far ahead is taken up by the next run of the generator.
        wait = np.where(wait > self.longest, self.cycle, wait)
        wait = np.maximum(wait, self.shortest)
        period, after = _nutch_failures(self, state, seen, interval, wait)
        succeeded = outcome <= UNKNOWN
        changed = np.where(too_long, np.nan, last)
        return period, replace(
            after,
            changed=np.where(succeeded, changed, state.changed),
            known=np.where(succeeded, ~too_long, state.known),
        )


def _nutch_failures(
    rule: NutchDefault | NutchAdaptive, state: RuleState, seen: Seen, period: Floats, wait: Floats
) -> tuple[Floats, RuleState]:
    outcome = np.asarray(seen.outcome)
    gone = (outcome == GONE) | ((outcome == FAILED) & (state.failures + 1 >= rule.retries))
    later = np.where(state.period < rule.longest, 1.5 * state.period, 0.9 * rule.longest)
    failed = outcome == FAILED
    period = np.where(gone, later, np.where(failed, state.period, period))
    wait = np.where(gone, later, np.where(failed, 1.0, wait))
    failures = np.where(outcome <= UNKNOWN, 0, np.where(gone, 0, state.failures + 1))
    return wait, state.after(seen, period, wait, failures=failures)


@dataclass(frozen=True)
class StormCrawler(Adaptive):
    """StormCrawler's `AdaptiveScheduler`, in whole minutes. Intervals are given in minutes here.

    After a change the interval goes the share `down` of the way to the shortest; after none it
    grows by `up`, to the longest. A failure forgets interval and copy.
    """

    shortest: float = 60.0
    longest: float = 20_160.0
    up: float = 0.5
    down: float = 0.5
    first: float = 1_440.0
    after_failure: float = 120.0
    after_error: float = np.inf
    """When gone, or failed `retries` times in a row; as shipped never again."""
    retries: int = 3
    name: str = "stormcrawler"

    def __post_init__(self) -> None:
        _check_factors(self.up, self.down)

    @classmethod
    def news_crawl(cls, kind: str = "feed") -> StormCrawler:
        """Common Crawl's news-crawl, for a feed, news-sitemap, sitemap-index or sitemap."""
        first = {
            "feed": 720.0,
            "news-sitemap": 1_440.0,
            "sitemap-index": 10_080.0,
            "sitemap": 259_200.0,
        }
        if kind not in first:
            raise InputError(f"news-crawl revisits {', '.join(first)}, not {kind!r}")
        return cls(
            shortest=90.0,
            longest=129_600.0,
            down=0.2,
            first=first[kind],
            after_failure=4_320.0,
            after_error=DAY,
            name="news_crawl",
        )

    def first_period(self) -> float:
        return self.first / _MINUTES

    def after(self, state: RuleState, seen: Seen) -> tuple[Floats, RuleState]:
        outcome = np.asarray(seen.outcome)
        minutes = np.round(state.period * _MINUTES)
        shorter = np.floor((1.0 - self.down) * minutes + self.down * self.shortest + 1e-9)
        longer = np.minimum(np.floor(minutes * (1.0 + self.up) + 1e-9), self.longest)
        compared = state.known & (outcome <= CHANGED)
        minutes = np.where(compared, np.where(outcome == CHANGED, shorter, longer), self.first)
        failed = outcome >= FAILED
        error = (outcome == GONE) | (failed & (state.failures + 1 >= self.retries))
        pause = np.where(error, self.after_error, self.after_failure)
        wait = np.where(failed, pause, minutes) / _MINUTES
        return wait, state.after(seen, minutes / _MINUTES, wait, known=~failed)


@dataclass(frozen=True)
class Heritrix(Adaptive):
    """Heritrix 1's adaptive frontier, `WaitEvaluator`. Heritrix 3 has no such rule.

    The wait is divided by `factor` after a change and multiplied after none. `overdue` adds the
    time by which a visit came late to the wait before that; it is off as shipped.
    """

    interval: float = 1.0
    factor: float = 1.5
    unknown: float = 3.0
    shortest: float = 1.0 / 24.0
    longest: float = 28.0
    overdue: bool = False
    name: str = "heritrix"

    def __post_init__(self) -> None:
        if not self.factor > 1.0:
            raise InputError(f"the factor must be above 1, not {self.factor!r}")

    def first_period(self) -> float:
        return self.interval

    def after(self, state: RuleState, seen: Seen) -> tuple[Floats, RuleState]:
        outcome, wait = np.asarray(seen.outcome), state.period
        if self.overdue:
            wait = wait + np.nan_to_num(np.maximum(np.asarray(seen.time) - state.due, 0.0))
        wait = np.where(outcome == CHANGED, wait / self.factor, wait)
        wait = np.where(outcome == SAME, wait * self.factor, wait)
        wait = np.where(outcome == UNKNOWN, self.unknown, wait)
        wait = np.clip(wait, self.shortest, self.longest)
        wait = np.where(outcome >= FAILED, state.period, wait)
        return wait, state.after(seen, wait, wait)


def _whole_seconds(days: Floats) -> Floats:
    return np.floor(days * DAY + 0.5) / DAY


def _check_factors(up: float, down: float) -> None:
    if not (up >= 0.0 and 0.0 <= down < 1.0):
        raise InputError("the growth must not be negative, the shrinkage between 0 and 1")
