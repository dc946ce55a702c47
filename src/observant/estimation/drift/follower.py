"""From a visit log to filtered sources: the prior, the shares of the methods, and the blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from observant.errors import EstimationError, InputError
from observant.estimation.drift.experts import DISCOUNTS, HAZARDS, KEEP, Experts
from observant.estimation.evidence import Evidence, successful_visits
from observant.estimation.pooling import estimate_pooled
from observant.estimation.priors import Prior, rate_grid
from observant.estimation.rates import run_blocks
from observant.times import MICROSECONDS_PER_DAY
from observant.visits.columns import MISSING
from observant.visits.log import require_log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from observant.arrays import Floats, Integers
    from observant.visits import VisitLog

_COMPARISONS_TO_LEARN = 400_000


@runtime_checkable
class SeasonLike(Protocol):
    """What a season must know: how many average days a stretch of time is worth.

    `observant.estimation.season.Season` knows it.
    """

    def exposure(self, start: Floats, stop: Floats, /) -> Floats:
        """Average days between two times, given in days since 1970."""
        ...


@runtime_checkable
class SeasonsLike(Protocol):
    """Seasons of groups of sources, such as `estimate_seasons` finds."""

    @property
    def seasons(self) -> Sequence[SeasonLike]:
        """One for each group."""
        ...

    @property
    def group_code(self) -> Integers:
        """Index of the season of each source, in the order of the log."""
        ...


@dataclass(frozen=True)
class Comparisons:
    """When each comparison of an `Evidence` began and ended, in microseconds since 1970."""

    start: Integers
    end: Integers

    @classmethod
    def of(cls, log: VisitLog, first: int = 0, last: int | None = None) -> Comparisons:
        """In the order of `Evidence.from_log`."""
        stop = len(log.sources) if last is None else last
        rows, _, is_first = successful_visits(log, first, stop)
        time = log.time[rows]
        used = ~is_first & (log.changed[rows] >= 0)
        since = np.empty_like(time)
        since[1:] = time[:-1]
        return cls(start=since[used], end=time[used])


@dataclass(frozen=True, eq=False)
class Follower:
    """The methods, ready to follow every source of one log."""

    log: VisitLog
    experts: Experts
    group: Integers | None
    seasons: Sequence[SeasonLike]
    """None, one for all sources, or one for each group of them."""
    season_code: Integers
    """Index of the season of each source."""
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        log: VisitLog,
        method: str = "auto",
        *,
        prior: str | Prior = "pooled",
        hazards: float | Sequence[float] = HAZARDS,
        discounts: float | Sequence[float] = DISCOUNTS,
        keep: int = KEEP,
        season: SeasonLike | SeasonsLike | None = None,
    ) -> Follower:
        """Fit what has to be fitted: the prior, unless it is given, and the shares of methods."""
        require_log(log)
        blank = Prior(rates=np.ones(1), weights=np.ones(1))
        experts = Experts.of(blank, method, hazards=hazards, discounts=discounts, keep=keep)
        found, group = _prior_and_groups(log, prior)
        seasons, code = _seasons(log, season)
        ready = cls(log, replace(experts, prior=found), group, seasons, code, log.notes)
        if np.count_nonzero(experts.share) == 1:
            return ready
        return replace(ready, experts=ready._learnt())

    def on(self, log: VisitLog) -> Follower:
        """Follow another log with what was learned from this one."""
        if len(self.seasons) > 1:
            raise InputError("the seasons of groups cannot be carried over to another log")
        prior, group = _prior_and_groups(log, self.experts.prior)
        code = np.zeros(len(log.sources), np.int64)
        experts = replace(self.experts, prior=prior)
        return replace(
            self, log=log, experts=experts, group=group, season_code=code, notes=log.notes
        )

    def _learnt(self) -> Experts:
        comparisons = len(Comparisons.of(self.log).end)
        every = max(-(-comparisons // _COMPARISONS_TO_LEARN), 1)
        chosen = np.arange(len(self.log.sources)) % every == 0
        part = self.log if every == 1 else self.log.select(chosen)
        code = self.season_code[chosen]
        evidence = self._seasonal(Evidence.from_log(part), Comparisons.of(part), code)
        group = None if self.group is None else self.group[chosen]
        score = self.experts.follow(evidence, group).score
        return self.experts.learn(score[evidence.counts > 0])

    def evidence(self, first: int, last: int) -> Evidence:
        """Evidence about the sources ``first:last``, in average days."""
        found, times = (
            Evidence.from_log(self.log, first, last),
            Comparisons.of(self.log, first, last),
        )
        return self._seasonal(found, times, self.season_code[first:last])

    def blocks(
        self,
        one_block: Callable[[Evidence, Integers | None, slice], tuple[NDArray[Any], ...]],
        *,
        threads: int | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> tuple[list[Floats], int]:
        """Run a function over all sources, as `rates.run_blocks` does."""

        def seasonal_block(
            evidence: Evidence, _totals: object, sources: slice
        ) -> tuple[Floats, ...]:
            if self.seasons:
                times = Comparisons.of(self.log, sources.start, sources.stop)
                evidence = self._seasonal(evidence, times, self.season_code[sources])
            group = None if self.group is None else self.group[sources]
            return one_block(evidence, group, sources)

        return run_blocks(
            self.log, seasonal_block, use_first_age=False, threads=threads, progress=progress
        )

    def waited(self, start: Integers, end: int) -> Floats:
        """Average days from a time of each source to one of all; NaN where it has none."""
        known = start != MISSING
        days = np.full(len(start), np.nan)
        begun = start[known] / MICROSECONDS_PER_DAY
        stop = np.full(len(begun), end / MICROSECONDS_PER_DAY)
        days[known] = self._exposure(begun, stop, self.season_code[known])
        return days

    def _seasonal(self, evidence: Evidence, times: Comparisons, code: Integers) -> Evidence:
        if not self.seasons or not len(evidence.gaps):
            return evidence
        code = np.repeat(code, evidence.counts)
        start, end = times.start / MICROSECONDS_PER_DAY, times.end / MICROSECONDS_PER_DAY
        aged = evidence.ages > 0
        ages = np.zeros(len(start))
        ages[aged] = self._exposure((end - evidence.ages)[aged], end[aged], code[aged])
        gaps = self._exposure(start, end, code)
        # A gap in which nothing ever happens must not make a change in it impossible.
        return replace(evidence, gaps=np.maximum(gaps, 1e-3 * evidence.gaps), ages=ages)

    def _exposure(self, start: Floats, stop: Floats, code: Integers) -> Floats:
        days = stop - start
        for i, season in enumerate(self.seasons):
            days[code == i] = season.exposure(start[code == i], stop[code == i])
        return days


def last_visits(log: VisitLog) -> Integers:
    """Microseconds since 1970 of the last successful visit to each source; `MISSING` if none."""
    rows, owner, is_first = successful_visits(log, 0, len(log.sources))
    last = np.full(len(log.sources), MISSING)
    if len(rows):
        is_last = np.append(is_first[1:], True)
        last[owner[is_last]] = log.time[rows[is_last]]
    return last


def _told_apart(prior: Prior, evidence: Evidence) -> Prior:
    """The prior at the rates that these visits can tell apart; those beyond go to the ends."""
    wanted = rate_grid(evidence)
    low = int(np.searchsorted(prior.rates, wanted[0] * 0.999))
    high = min(int(np.searchsorted(prior.rates, wanted[-1] * 1.001)), len(prior.rates))

    def cut(weights: Floats) -> Floats:
        kept = weights[..., low:high].copy()
        kept[..., 0] += weights[..., :low].sum(axis=-1)
        kept[..., -1] += weights[..., high:].sum(axis=-1)
        return kept

    groups = None if prior.group_weights is None else cut(prior.group_weights)
    return replace(
        prior, rates=prior.rates[low:high], weights=cut(prior.weights), group_weights=groups
    )


def _prior_and_groups(log: VisitLog, prior: str | Prior) -> tuple[Prior, Integers | None]:
    if isinstance(prior, str):
        if prior == "pooled":
            fitted = estimate_pooled(log, drift=np.inf).posterior
            prior = _told_apart(fitted.prior, Evidence.from_log(log))  # type: ignore[union-attr]
        elif prior == "broad":
            evidence = Evidence.from_log(log)
            if not len(evidence.gaps):
                raise EstimationError("no source has two visits that can be compared")
            rates = rate_grid(evidence)
            prior = Prior(rates=rates, weights=np.full(len(rates), 1 / len(rates)))
        else:
            raise InputError(f"the prior is 'pooled', 'broad' or a fitted Prior, not {prior!r}")
    if log.groups is None or prior.group_weights is None:
        return prior, None
    place = {name: i for i, name in enumerate(prior.groups)}
    names = log.groups.to_pylist()
    unknown = set(names) - set(place)
    if unknown:
        raise InputError(f"the prior knows nothing of the group {min(map(str, unknown))!r}")
    return prior, np.array([place[name] for name in names], np.int64)


def _seasons(
    log: VisitLog, season: SeasonLike | SeasonsLike | None
) -> tuple[Sequence[SeasonLike], Integers]:
    alone = np.zeros(len(log.sources), np.int64)
    if season is None:
        return (), alone
    if isinstance(season, SeasonsLike):
        if len(season.group_code) != len(log.sources):
            raise InputError(
                f"the seasons are those of {len(season.group_code):,} sources, and the log has "
                f"{len(log.sources):,}"
            )
        return season.seasons, season.group_code
    if not isinstance(season, SeasonLike):
        raise InputError(
            f"a {type(season).__name__} is no season: give what estimate_seasons found"
        )
    return (season,), alone
