"""The sources that one observer watches, in its schedule, with the settings that are in force.

What somebody changes by hand, a source or a setting, is taken up soon.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import InputError
from observant.observer.config import SourceSettings
from observant.observer.costs import VisitCosts
from observant.observer.events import Standing
from observant.observer.first_visits import FirstVisits
from observant.observer.query_members import retire_orphans
from observant.observer.schedule import Planned, Schedule
from observant.observer.settings import CHANGED_BY_HAND, settings_of
from observant.observer.sources import host_of
from observant.observer.sources.base import origin_of
from observant.observer.watched import Watched, own_settings
from observant.store.subscriptions import Wishes
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from observant.observer.clock import Clock
    from observant.observer.config import Config
    from observant.observer.hours import ActiveHours
    from observant.observer.outage import Outage
    from observant.observer.permission import Permission
    from observant.observer.settings import InForce
    from observant.store import Scheduled, Store, StoredSource
    from observant.store.patience import Patience
    from observant.store.visit import Visit

__all__ = ["Watchlist"]


log = logging.getLogger("observant.observer")

_AT_ONCE = 2000
_FEW = 1e-3
"""Share of the sources that may come at the price of now: finding another is work for all."""
_MOVED = 60.0
"""Seconds by which a due time may differ from the one in the store, and nobody minds."""


class Watchlist:
    """Sources by name: `watchlist[name]` is a `Watched`, and `schedule` says when it is due."""

    def __init__(
        self,
        store: Store,
        config: Config,
        *,
        patience: Patience,
        clock: Clock,
        permission: Permission,
        outage: Outage,
        seed: int,
    ) -> None:
        self.store, self.patience, self.clock = store, patience, clock
        self._given, self.config = config, config
        """The configuration as given, and as it is in force."""
        self._permission, self._outage, self._seed = permission, outage, seed
        self.schedule = self._new_schedule()
        self.costs = VisitCosts()
        self.firsts = FirstVisits(config.first_visits)
        self.firsts_only = False
        """Whether it ends after first visits: those need no schedule, which takes long to start."""
        self._watched: dict[str, Watched] = {}
        self._wishes = Wishes()
        self._seen_change: Any = None
        self._seen_settings: InForce | None = None

    def __len__(self) -> int:
        return len(self._watched)

    def __iter__(self) -> Iterator[str]:
        return iter(self._watched)

    def __contains__(self, name: object) -> bool:
        return name in self._watched

    def __getitem__(self, name: str) -> Watched:
        return self._watched[name]

    def get(self, name: str) -> Watched | None:
        """A source, if it is watched here."""
        return self._watched.get(name)

    def hosts(self) -> set[str]:
        """The hosts of all sources; may be asked from a thread."""
        return {watched.row.host for watched in list(self._watched.values())}

    # -- sources --------------------------------------------------------------------------------

    async def rows(self, shards: Collection[int]) -> list[Scheduled]:
        """The sources of some shards, as the store has them."""
        self._wishes = await self.patience.call(self.store.subscriptions.wishes)
        return await self.patience.call(lambda: list(self.store.sources.scheduled(set(shards))))

    async def take_up(self, rows: Sequence[Scheduled]) -> None:
        """Watch these sources too; some at a time, so that nobody has to wait for long."""
        for some in range(0, len(rows), _AT_ONCE):
            planned = self._planned(rows[some : some + _AT_ONCE])
            if not self.firsts_only:
                self.schedule.place(planned)
            await asyncio.sleep(0)
        self._outage.hosts = len(self.hosts())
        if not self.firsts_only and not 0 < len(rows) < _FEW * len(self._watched):
            await self.settle()

    def keep_distance(self, rows: Iterable[Scheduled]) -> None:
        """A visit that saw nothing, of the observer before us, counts for the shortest period."""
        now = self.clock.time()
        for row in (scheduled.source for scheduled in rows):
            watched, last = self._watched.get(row.name), row.visited_at
            if watched is None or last is None or (row.good_at or 0.0) >= last:
                continue
            free = min(last, now) + watched.settings.shortest * DAY
            if free > now:
                self.schedule.rest(row.name, free, refund=False)

    def forget(self, name: str) -> None:
        """Watch it no more."""
        self.schedule.remove(name)
        self.firsts.done(name)
        self._watched.pop(name, None)

    def keep(self, shards: Collection[int]) -> None:
        """Watch the sources of these shards only."""
        for name in [n for n, w in self._watched.items() if w.row.shard not in shards]:
            self.forget(name)

    async def settle(self) -> None:
        """Find the price of a visit anew, some sources at a time."""
        for _ in self.schedule.settling():
            await asyncio.sleep(0)

    def _planned(self, rows: Iterable[Scheduled]) -> list[Planned]:
        planned, now = [], self.clock.time()  # a wrong clock may have put a visit after that
        read: dict[Any, tuple[SourceSettings, ActiveHours | None, dict[str, float]]] = {}
        refused: dict[Any, InputError] = {}
        for scheduled in rows:
            row = scheduled.source
            if not row.host:
                row = msgspec.structs.replace(row, host=host_of(row.kind, row.url or row.name))
            own = own_settings(row)
            url = row.url or row.name
            origin = origin_of(url) if self.config.shares_headers else ""
            alike = (tuple(row.tags), msgspec.json.encode(own), origin)
            try:
                if alike not in read:  # most of many sources have the same settings
                    settings = self.config.settings_of(row.tags, own, row.name, url)
                    limits = self.config.limits_of(settings)
                    read[alike] = settings, settings.hours, limits
            except InputError as error:
                log.warning("this source cannot be visited", extra={"reason": str(error)})
                usual = SourceSettings()
                read[alike] = usual, None, self.config.limits_of(usual)
                refused[alike] = error
            if row.name in self._watched:
                continue
            settings, hours, limits = read[alike]
            wish = self._wish(row)
            self._watched[row.name] = Watched(
                row,
                settings,
                hours,
                standing=Standing.of(row),
                due_at=row.due_at,
                cost=row.cost,
                refused=refused.get(alike),
                wish=wish,
            )
            if wish < limits["max_period"]:
                limits = limits | {"max_period": max(wish, limits["min_period"])}
            if reason := self._permission.refusal(row):
                found = {"source": row.name, "reason": reason}
                log.warning("this source is not visited", extra=found)
                continue
            if row.visited_at is None:
                self.firsts.note(row.name)
            planned.append(
                Planned(
                    row.name,
                    row.host,
                    importance=settings.importance,
                    **limits,
                    last_at=None if row.good_at is None else min(row.good_at, now),
                    likelihood=scheduled.posterior,
                    cost=self.cost(self._watched[row.name]),
                )
            )
        return [p for p in planned if p.name not in self.schedule]

    def cost(self, watched: Watched) -> float:
        """What a visit to a source takes of the budget: itself, or its cost where that counts."""
        if not self.config.counts_cost:
            return 1.0
        if watched.cost is not None:
            return watched.cost
        return self.costs.first(browser=watched.settings.needs_browser)

    def mean_cost(self) -> float:
        """What a visit to a source takes of the budget, on average; 1 where there is none."""
        costs = [*map(self.cost, self._watched.values())]
        return sum(costs) / len(costs) if costs else 1.0

    def pay(self, watched: Watched, visit: Visit) -> None:
        """Learn from a visit what the next one costs."""
        watched.cost = self.costs.after(watched.cost, watched.selection, visit)
        if self.config.counts_cost:
            self.schedule.set_cost(watched.row.name, self.cost(watched))

    def _wish(self, row: StoredSource) -> float:
        """Days after which somebody wants this source to be visited again."""
        return self._wishes.period(row.name, row.tags, row.host)

    # -- what somebody changes by hand ------------------------------------------------------------

    async def begin(self) -> None:
        """What was changed by hand before now is no news."""
        self._seen_change = await self.patience.call(self.store.settings.get, CHANGED_BY_HAND)

    def look_again(self) -> None:
        """Read the sources anew at the next `refresh`, once for all that were forgotten till then.

        When leases run out it is hundreds at a time, and a reading for each would hold up the
        renewal of the leases.
        """
        self._seen_change = object()

    async def refresh(self, shards: Collection[int]) -> None:
        """Take up the sources of our shards that somebody has added, changed or removed."""
        seen = await self.patience.call(self.store.settings.get, CHANGED_BY_HAND)
        wishes = await self.patience.call(self.store.subscriptions.wishes)
        if seen == self._seen_change and wishes == self._wishes:
            return
        self._seen_change = seen
        if any(watched.row.kind == "query" for watched in self._watched.values()):
            await self.patience.call(retire_orphans, self.store)
        rows = await self.rows(shards)
        there = {row.source.name for row in rows}
        for name in [n for n in self._watched if n not in there]:
            self.forget(name)
        changed = []
        for row in rows:
            watched = self._watched.get(row.source.name)
            if (
                watched is None
                or watched.row.updated_at < row.source.updated_at
                or watched.wish != self._wish(watched.row)
            ):
                self.forget(row.source.name)
                changed.append(row)
        await self.take_up(changed)

    async def take_up_settings(self, shards: Collection[int]) -> bool:
        """Take up budget, objective, grace and retention if somebody has changed them meanwhile."""
        found = await self.patience.call(settings_of, self.store, self._given)
        if found == self._seen_settings:
            return False
        self._seen_settings = found
        for name, reason in found.refused.items():
            log.error("a kept setting cannot be used", extra={"setting": name, "reason": reason})
        before, after = self.config, found.config
        measures = [(c.objective, c.grace_days, c.counts_cost) for c in (before, after)]
        another = measures[0] != measures[1]
        rows = await self.rows(shards) if another else []
        self.config = after  # from here on nobody sees half of it
        if another:
            prior, learned = self.schedule.prior, self.schedule.signals.learned()
            self.schedule = self._new_schedule()
            self.schedule.restore_prior(prior)
            self.schedule.signals.restore(learned)
            self._watched.clear()
            await self.take_up(rows)
        return True

    def _new_schedule(self) -> Schedule:
        return Schedule(
            self.config.budget_per_day,
            objective=self.config.objective,
            grace=self.config.grace_days,
            host_delay=self.config.host_delay_days,
            speed=self.clock.speed,
            sampling=self.config.sampling,
            seed=self._seed,
            start=self.clock.time(),
        )

    # -- what the store is told -------------------------------------------------------------------

    async def write_rates(self) -> None:
        """Write down the rates of all sources, since another prior has moved them."""
        beliefs = self.schedule.beliefs()
        known = [n for n, w in self._watched.items() if w.row.rate is not None and n in beliefs]
        for some in range(0, len(known), _AT_ONCE):  # visits are recorded in between
            rates = {name: beliefs[name] for name in known[some : some + _AT_ONCE]}
            await self.patience.call(self.store.sources.set_rates, rates)

    async def write_due_times(self) -> None:
        """Write down when sources are due, where another budget or prior has moved that."""
        moved = []
        for name, watched in self._watched.items():
            if watched.standing.good_at is not None and name in self.schedule:
                at = self.schedule.due_at(name)
                if abs(at - (watched.due_at or 0.0)) > _MOVED:
                    watched.due_at = at
                    moved.append((name, at))
        for some in range(0, len(moved), _AT_ONCE):  # visits are recorded in between
            due = dict(moved[some : some + _AT_ONCE])
            await self.patience.call(self.store.sources.set_due, due)
