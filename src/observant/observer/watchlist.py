"""The sources that one observer watches, in its schedule, with the settings that are in force.

What somebody changes by hand, a source or a setting, is taken up soon.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np

from observant.errors import InputError
from observant.observer.config import SourceSettings
from observant.observer.costs import VisitCosts, is_rendered
from observant.observer.events import Standing
from observant.observer.first_visits import FirstVisits
from observant.observer.permission import objective_of
from observant.observer.query_members import retire_orphans
from observant.observer.schedule import Planned, Schedule
from observant.observer.settings import CHANGED_BY_HAND, HOURS_LEARNED, settings_of
from observant.observer.sources import host_of
from observant.observer.sources.base import origin_of
from observant.observer.watched import Watched, own_settings
from observant.planning.schedule.pace import joined
from observant.store import STATES
from observant.store.subscriptions import Wishes
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from observant.observer.active_hours import ActiveHours
    from observant.observer.clock import Clock
    from observant.observer.config import Config
    from observant.observer.outage import Outage
    from observant.observer.permission import Permission
    from observant.observer.settings import InForce
    from observant.store import Scheduled, Store, StoredSource
    from observant.store.patience import Patience
    from observant.store.visit import Visit


log = logging.getLogger("observant.observer")
T = TypeVar("T")

_AT_ONCE = 1000
_FEW = 1e-3
"""Share of the sources that may come at the price of now: finding another is work for all."""
_ANEW = object()
_SLACK = 3600.0
"""Seconds that an edit of many sources may take, and by which clocks may differ."""
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
        self._shards: set[int] = set()
        """Those of all sources here, or more."""
        self._wishes = Wishes()
        self._seen_change: Any = None
        self._unchanged_at = 0.0
        """When nothing was left to be read, by the clock of the store, or ours if it is behind."""
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
        return await self.patience.call(self._read, shards, ("active",))

    def _read(
        self, shards: Collection[int], states: Sequence[str], since: float | None = None
    ) -> list[Scheduled]:
        return list(self.store.sources.scheduled(set(shards), states=states, since=since))

    async def take_up(self, rows: Sequence[Scheduled]) -> None:
        """Watch these sources too; some at a time, so that nobody has to wait for long."""
        for some in _parts(rows):
            planned = self._planned(some)
            if not self.firsts_only:
                self.schedule.place(planned)
            await asyncio.sleep(0)
        many = len(self._watched) > _AT_ONCE
        self._outage.hosts = len(await asyncio.to_thread(self.hosts) if many else self.hosts())
        if not self.firsts_only and not 0 < len(rows) < _FEW * len(self._watched):
            await self.settle()

    async def keep_distance(self, rows: Sequence[Scheduled]) -> None:
        """A visit that saw nothing, of the observer before us, counts for the shortest period.

        Not one that the guard refused: nobody was asked, and the network may be allowed by now.
        """
        for some in _parts(rows):
            now = self.clock.time()
            for row in (scheduled.source for scheduled in some):
                last = row.visited_at
                if last is None or (row.good_at or 0.0) >= last or row.error == "refused-address":
                    continue
                watched = self._watched.get(row.name)
                if watched is None:
                    continue
                free = min(last, now) + watched.settings.shortest * DAY
                if free > now:
                    self.schedule.rest(row.name, free, refund=False)
            await asyncio.sleep(0)

    def forget(self, name: str) -> None:
        """Watch it no more."""
        self.schedule.remove(name)
        self.firsts.done(name)
        self._watched.pop(name, None)

    def keep(self, shards: Collection[int]) -> None:
        """Watch the sources of these shards only."""
        if not self._shards <= set(shards):
            for name in [n for n, w in self._watched.items() if w.row.shard not in shards]:
                self.forget(name)
        self._shards &= set(shards)

    async def settle(self) -> None:
        """Find the price of a visit anew, some sources at a time."""
        for _ in self.schedule.settling():
            await asyncio.sleep(0)

    def _planned(self, rows: Iterable[Scheduled]) -> list[Planned]:
        planned, now = [], self.clock.time()  # a wrong clock may have put a visit after that
        read: dict[Any, tuple[SourceSettings, ActiveHours | None, dict[str, float]]] = {}
        refused: dict[Any, InputError] = {}
        shares_headers, counts_cost = self.config.shares_headers, self.config.counts_cost
        for scheduled in rows:
            row = scheduled.source
            if not row.host:
                row = msgspec.structs.replace(row, host=host_of(row.kind, row.url or row.name))
            own = own_settings(row)
            url = row.url or row.name
            origin = origin_of(url) if shares_headers else ""
            alike = (tuple(row.tags), msgspec.json.encode(own) if own else b"", origin)
            try:
                if alike not in read:  # most of many sources have the same settings
                    settings = self.config.settings_of(row.tags, own, row.name, url)
                    limits = self.config.limits_of(settings)
                    read[alike] = settings, settings.hours, limits
            except InputError as error:
                log.warning("this source cannot be visited", extra={"reason": str(error)})
                usual = SourceSettings()
                read[alike] = usual, None, self.config.limits_of(usual)
                refused[alike] = error.with_traceback(None)  # it would keep all that is here
            if row.name in self._watched:
                continue
            self._shards.add(row.shard)
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
                    cost=self.cost(self._watched[row.name]) if counts_cost else 1.0,
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
        if not self.config.counts_cost:
            return 1.0
        costs = [*map(self.cost, self._watched.values())]
        return sum(costs) / len(costs) if costs else 1.0

    def pay(self, watched: Watched, visit: Visit) -> None:
        """Learn from a visit what the next one costs, if that was measured."""
        if visit.cpu is None and not is_rendered(visit):
            return
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
        self._seen_change = _ANEW

    async def refresh(self, shards: Collection[int]) -> None:
        """Take up the sources of our shards that somebody has added, changed or removed.

        Only those are read: a reading of all is for other wishes, and for when the numbers differ.
        """
        now = min(await self.patience.call(self.store.engine.now), self.clock.time())
        seen = await self.patience.call(self.store.settings.get, CHANGED_BY_HAND)
        wishes = await self.patience.call(self.store.subscriptions.wishes)
        since, self._unchanged_at = self._unchanged_at - _SLACK, now
        if seen == self._seen_change and wishes == self._wishes:
            return
        all_of_them = self._seen_change is _ANEW or wishes != self._wishes
        self._seen_change = seen
        if any(watched.row.kind == "query" for watched in self._watched.values()):
            await self.patience.call(retire_orphans, self.store)
        if all_of_them:
            rows = await self.rows(shards)
            here = self._watched.copy()
        else:
            rows = await self.patience.call(self._read, shards, (*STATES, "removed"), since)
            here = {n: w for row in rows if (w := self.get(n := row.source.name)) is not None}
        gone, changed = await asyncio.to_thread(self._differences, rows, here)
        await let_go(rows)
        for name in [*gone, *(row.source.name for row in changed)]:
            self.forget(name)
        await self.take_up(changed)
        if not all_of_them:
            count = await self.patience.call(self.store.sources.active, shards)
            if count != len(self._watched):  # somebody's clock was wrong, say
                self.look_again()

    def _differences(
        self, rows: Sequence[Scheduled], here: dict[str, Watched]
    ) -> tuple[list[str], list[Scheduled]]:
        """Who is in the store no more, and who is there anew or otherwise than here."""
        changed = []
        for row in rows:
            if row.source.state != "active":
                continue
            watched = here.pop(row.source.name, None)
            if (
                watched is None
                or watched.row.updated_at < row.source.updated_at
                or watched.wish != self._wish(watched.row)
            ):
                changed.append(row)
        return list(here), changed

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
            pace = self.schedule.pace
            self.schedule = self._new_schedule()
            self.schedule.restore_prior(prior)
            self.schedule.pace.restore(pace.kept, pace.news())
            self.schedule.signals.restore(learned)
            self._watched.clear()
            await self.take_up(rows)
        return True

    def _new_schedule(self) -> Schedule:
        return Schedule(
            self.config.budget_per_day,
            objective=objective_of(self.config),
            grace=self.config.grace_days,
            host_delay=self.config.host_delay_days,
            speed=self.clock.speed,
            sampling=self.config.sampling,
            seed=self._seed,
            start=self.clock.time(),
        )

    # -- what the store is told -------------------------------------------------------------------

    async def share_hours(self) -> None:
        """Keep what was learned of the hours, and take up what other observers have."""
        pace, now = self.schedule.pace, self.clock.time() / DAY
        news, visits, shared = pace.news(), pace.visits, dict[str, Any]()

        def join(kept: Any) -> Any:
            shared.update(joined(kept, news, now, visits))
            return shared

        await self.patience.call(self.store.settings.change, HOURS_LEARNED, join)
        pace.restore(shared, np.maximum(pace.news() - news, 0.0))  # visits were made meanwhile

    async def write_rates(self) -> None:
        """Write down the rates of all sources, since another prior has moved them."""
        for some in _parts(list(self._watched)):  # visits are recorded in between
            known = [n for n in some if (w := self.get(n)) is not None and w.row.rate is not None]
            if rates := self.schedule.beliefs(known):
                await self.patience.call(self.store.sources.set_rates, rates)
            await asyncio.sleep(0)

    async def write_due_times(self) -> None:
        """Write down when sources are due, where another budget or prior has moved that."""
        for some in _parts(list(self._watched)):  # visits are recorded in between
            moved = {}
            for name in some:
                watched = self.get(name)
                if watched is None or watched.standing.good_at is None or name not in self.schedule:
                    continue
                at = self.schedule.due_at(name)
                if abs(at - (watched.due_at or 0.0)) > _MOVED:
                    watched.due_at = moved[name] = at
            if moved:
                await self.patience.call(self.store.sources.set_due, moved)
            await asyncio.sleep(0)


async def let_go(rows: list[Any]) -> None:
    """Empty a list, some at a time: to free a million rows at once takes half a second."""
    while rows:
        del rows[-_AT_ONCE:]
        await asyncio.sleep(0)


def _parts(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """Some at a time, so that nobody has to wait for long."""
    return (rows[some : some + _AT_ONCE] for some in range(0, len(rows), _AT_ONCE))
