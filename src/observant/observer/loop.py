"""The observer: visit, compare, learn, schedule, again, for as long as it runs.

Two tiers (Brewington 4.3.4): the schedule says what is due, the multiplexer sees to it that it is
visited whatever the latency. A visit, its comparison, what it taught, the next due time and
the events it caused are one transaction of the store, so a killed observer loses nothing that was
committed, and the next one goes on from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import os
import socket
import time
from typing import TYPE_CHECKING, Any

from observant.errors import InputError
from observant.observer.clock import SteadyClock
from observant.observer.connections import Connections
from observant.observer.fleet import BudgetShare
from observant.observer.honesty import Audits
from observant.observer.metrics import Status, Tally
from observant.observer.multiplexer import Multiplexer
from observant.observer.outage import Outage
from observant.observer.permission import Permission
from observant.observer.prior import SharedPrior
from observant.observer.query_members import retire_orphans
from observant.observer.schedule import warm_up
from observant.observer.settings import HOURS_LEARNED
from observant.observer.shards import Shards
from observant.observer.signals import Listener
from observant.observer.spot_checks import SpotChecks
from observant.observer.visit_requests import Checks, OneAtATime, VisitDesk
from observant.observer.visitor import LONGEST_VISIT, Visitor
from observant.observer.watchlist import Watchlist, let_go
from observant.observer.websub import HubSubscriber
from observant.store import SHARDS, StoreAwayError
from observant.store.patience import Patience
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from observant.estimation.belief import RateBelief
    from observant.observer.clock import Clock
    from observant.observer.config import Config
    from observant.observer.schedule import Schedule
    from observant.observer.transport import Transport
    from observant.observer.watched import Watched
    from observant.store import Store
    from observant.store.visit import Visit

__all__ = ["Observer"]

log = logging.getLogger("observant.observer")

_REFRESH = 2.0
_SAVE = 30.0
_SWEEP = 3600.0
_STOPPING = 4.0
"""Seconds that visits under way are given to end when the observer stops."""
_MANY = 1000
"""Sources from which on the collector of garbage passes over what stands."""
_BUSY, _TOGETHER = 16, 0.005
"""Visits under way from which on, and seconds for which, what ends is taken together."""
_PATIENCE = 60.0
"""A visit waits so many seconds for its host; for longer rests it goes back into the schedule."""


class Observer:
    """Watches the sources of a store.

    `functions` are callables by the names of their sources. Give a `transport` or a `clock` to
    replace the real ones.
    """

    def __init__(
        self,
        store: Store,
        config: Config,
        *,
        clock: Clock | None = None,
        transport: Transport | None = None,
        functions: dict[str, Callable[..., Any]] | None = None,
        name: str | None = None,
        want: int = SHARDS,
        lease: float | None = None,
        seed: int = 0,
    ) -> None:
        self.store, self.clock = store, clock or SteadyClock()
        self.name = name or f"{socket.gethostname()}:{os.getpid()}:{os.urandom(3).hex()}"
        self.lease = config.lease_seconds if lease is None else lease
        self._given, self._want, self._seed = config, want, seed
        self.tally, self.audits, self.spot_checks = Tally(), Audits(seed), SpotChecks(seed)
        self.permission = Permission(config, functions or {})
        self.connections = Connections(
            config,
            self.clock,
            transport=transport,
            functions=functions or {},
            permission=self.permission,
            audits=self.audits,
        )
        self._multiplexer: Multiplexer[str] = Multiplexer(self._visit, most=config.downloaders)
        self._one_at_a_time: OneAtATime[Visit] = OneAtATime()
        self._wake = asyncio.Event()
        self._leaps_noted = 0
        self._learning = self._serving = None  # type: asyncio.Task[None] | None
        self._has_run = False
        self.ticks = time.monotonic  # of what is done now and then beside the visits
        self.problem = ""
        """Why it does not run at the moment, if an error ended it and somebody starts it again."""
        self._set_up()

    def _set_up(self) -> None:
        """Make the pieces that hold what one run knows; all else is in the store."""
        self._stopping = False
        self.patience, self.outage = Patience(self.store), Outage()
        self.watchlist = Watchlist(
            self.store,
            self._given,
            patience=self.patience,
            clock=self.clock,
            permission=self.permission,
            outage=self.outage,
            seed=self._seed,
        )
        self.shards = Shards(
            self.store,
            self.patience,
            self.clock,
            name=self.name,
            want=self._want,
            lease=self.lease,
        )
        self.budget = BudgetShare(self.shards, self.watchlist, self.spot_checks)
        self.prior = SharedPrior(self.shards, self.watchlist, self.budget)
        self.listener = Listener(self.watchlist)
        self.websub = HubSubscriber(self.watchlist, self.connections)
        self.visitor = Visitor(
            self.watchlist,
            self.shards,
            self.connections,
            self.listener,
            self.websub,
            permission=self.permission,
            outage=self.outage,
            tally=self.tally,
        )
        self._desk = VisitDesk(self.store, self.patience, self.name, lambda: self.shards.store_now)

    @property
    def config(self) -> Config:
        """The configuration that is in force."""
        return self.watchlist.config

    @property
    def schedule(self) -> Schedule:
        """When which source is due."""
        return self.watchlist.schedule

    # -- running ------------------------------------------------------------------------------

    async def run(
        self,
        *,
        seconds: float | None = None,
        until: float | None = None,
        visits: int | None = None,
        firsts_only: bool = False,
        on_visit: Callable[[Visit], None] | None = None,
    ) -> Status:
        """Watch for so many seconds (of the clock) from when all is ready, or until an instant of
        the clock, or until so many visits, or (`firsts_only`) until new sources were looked at, or
        until `stop`.

        After an error it can be called again, and goes on from what the store holds.
        """
        if self._has_run:
            self._set_up()
        self._has_run = True
        self.watchlist.firsts_only = firsts_only
        self.visitor.on_visit = on_visit
        try:
            await self._begin()
            end = until if seconds is None else self.clock.time() + seconds
            self.problem = ""
            try:
                with _set_aside(len(self.watchlist)):
                    await self._loop(end, visits)
            finally:
                await self._finish()
        except StoreAwayError as error:
            if not self._stopping:
                raise
            log.warning("ended while the store was away", extra={"reason": str(error)})
        if self.visitor.broken is not None:
            raise self.visitor.broken
        return self.status()

    def stop(self) -> None:
        """Ask the observer to end: visits under way may end, then it commits and returns."""
        self._stopping = True
        self.patience.give_up()
        self._wake.set()

    async def check(self, name: str) -> Visit:
        """Visit one source now, whether it is due or not, and record it."""
        return (await self.check_all([name]))[0]

    async def check_all(
        self,
        names: Sequence[str],
        on_visit: Callable[[Visit], None] | None = None,
        *,
        firsts_only: bool = False,
    ) -> list[Visit]:
        """Visit these sources now, whether they are due or not, many at a time; hosts are asked as
        politely as ever. All are tried before an error is raised. With `firsts_only` none of them
        was read so far, and an observer plans the visits that follow.
        """
        self.watchlist.firsts_only = firsts_only
        self.patience.give_up()  # somebody waits for the answer: none is one too
        shards: dict[int, list[str]] = {}
        for name in names:
            row = await self.patience.call(self.store.sources.get, name)
            shards.setdefault(row.shard, []).append(name)
        checks = Checks(self._desk, self._take_up, self._visit_once, on_visit)
        try:
            await self._restore()
            await asyncio.gather(*(checks.make(shard, some) for shard, some in shards.items()))
            return checks.of(names)
        finally:
            await self.visitor.close()
            await self.connections.close()

    async def _take_up(self, shard: int, names: Collection[str]) -> None:
        rows = await self.watchlist.rows({shard})
        await self.watchlist.take_up([row for row in rows if row.source.name in names])

    async def _visit_once(self, name: str, fence: int) -> Visit:
        if name not in self.watchlist:
            raise InputError(
                "this source is paused; observant edit --resume goes on with it", source=name
            )
        return await self.visitor.visit(self.watchlist[name], fence)

    async def visit_now(self, name: str) -> Visit:
        """Visit a source of this running observer now, or get the visit that is under way."""
        watched = self.watchlist.get(name)
        if watched is None or watched.row.shard not in self.shards:
            raise InputError("this source is paused, or another observer watches it", source=name)
        return await self._one_at_a_time.run(name, lambda: self.visitor.visit_held(watched))

    # -- what it knows ------------------------------------------------------------------------

    def status(self) -> Status:
        """One look at what is going on."""
        now = self.clock.time()
        expected = self.schedule.expectation(now)
        late, latest = self.schedule.lateness(now)
        return Status(
            at=now,
            sources=len(self.watchlist),
            visits=self.tally.visits,
            changes=self.tally.changes,
            failures=self.tally.outcomes["failed"],
            visits_per_second=self.visitor.per_second(),
            alpha=expected.alpha,
            alpha_low=expected.low,
            alpha_high=expected.high,
            alpha_planned=expected.planned,
            price=self.schedule.price,
            budget_per_day=self.schedule.budget + self.spot_checks.per_day,
            spent=self.schedule.spent,
            lateness=late,
            lateness_max=latest,
            next_due_at=self.schedule.next_at(),
            downloaders=self._multiplexer.downloaders,
            under_way=self._multiplexer.busy,
            backlog=self._multiplexer.backlog,
            outage=self.outage.on,
            store_away=self.patience.away_since is not None,
            lies=self.audits.lies,
            unseen=len(self.watchlist.firsts),
        )

    @property
    def peak(self) -> int:  # the most downloaders that were up at once
        return self._multiplexer.peak

    def beliefs(self) -> dict[str, RateBelief]:
        """The rate of every source, with its interval."""
        return self.schedule.beliefs()

    # -- the loop -----------------------------------------------------------------------------

    async def _begin(self) -> None:
        await self.patience.call(self._note, "start", {"budget": self.config.budget_per_day})
        if not self.watchlist.firsts_only:
            await asyncio.to_thread(warm_up)  # not in the loop, which may serve pages already
        await self._restore()
        await self.patience.call(retire_orphans, self.store)
        leased = self.ticks()
        await self._hold_shards()
        if not self.shards:
            log.info("other observers hold all sources; waiting for a share of them")
        await self.prior.learn()
        await self.watchlist.write_due_times()
        if self.ticks() - leased > self.lease / 4:  # very many sources were taken up meanwhile
            await self._hold_shards()
        self._serving = asyncio.create_task(
            self._desk.serve(lambda asked: asked.source in self.watchlist, self.visit_now)
        )

    async def _loop(self, end: float | None, visits: int | None) -> None:
        leased = refreshed = saved = self.ticks()
        swept = -math.inf
        while not self._stopping and self.visitor.broken is None:
            now, tick = self.clock.time(), self.ticks()
            if (
                (end is not None and now >= end)
                or (visits is not None and self.tally.visits >= visits)
                or (self.watchlist.firsts_only and not self.watchlist.firsts)
            ):
                break
            if tick - leased > self.lease / 4:
                leased = tick
                await self._hold_shards()
            if tick - refreshed > _REFRESH:
                refreshed = tick
                await self._refresh()
                await self.budget.exchange(_REFRESH)
            if tick - saved > _SAVE:
                saved = tick
                await self._save()
            if self.config.retention.limits() and tick - swept > _SWEEP:
                swept = tick
                await self.patience.call(self._sweep)
            if self.prior.is_old and (self._learning is None or self._learning.done()):
                self._learning = asyncio.create_task(self.prior.learn())
            await self._note_trouble()
            self._look_first(now)
            pause = 1.0 if self.watchlist.firsts_only else self._dispatch(now)
            if end is not None:
                pause = min(pause, end - now)
            await self._rest(pause)

    def _look_first(self, now: float) -> None:
        """Hand out first visits, which no budget pays for."""
        room = 2 * self.config.downloaders - self._multiplexer.backlog
        for name in self.watchlist.firsts.take(0 if self.outage.on else room):
            watched = self.watchlist[name]
            if self._free_at(watched, now) > now:  # then it is for the schedule
                self.watchlist.firsts.done(name)
                continue
            self.schedule.rest(name, now + LONGEST_VISIT, refund=False)
            self._multiplexer.submit(name, watched.row.host or name)

    def _dispatch(self, now: float) -> float:
        """Hand out what is due; return how long to rest, in seconds of the clock."""
        if self.outage.on:
            return self._probe()
        room = 2 * self.config.downloaders - self._multiplexer.backlog
        for name in self.schedule.due(now, min(room, 1000)) if room > 0 else ():
            watched = self.watchlist.get(name)
            if watched is None:
                continue
            if (free := self._free_at(watched, now)) > now:
                self.schedule.rest(name, free)
            else:
                self._multiplexer.submit(name, watched.row.host or name)
        if (picked := self.spot_checks.pick(now, self.schedule.places)) is not None:
            watched = self.watchlist[picked]
            early = now - self.schedule.last_at(picked) < watched.settings.shortest * DAY
            if not early and self._free_at(watched, now) <= now:
                watched.spot_check = self.spot_checks.expected(len(self.schedule))
                self._multiplexer.submit(picked, watched.row.host or picked)
        soon = min(self.schedule.next_at(), self.spot_checks.next_at)
        return max(soon - self.clock.time(), 0.0)

    def _free_at(self, watched: Watched, now: float) -> float:
        """When a source may be visited: now, or when its hours or its host allow it."""
        if watched.hours is not None and not watched.hours.allows(now):
            return watched.hours.next(now)
        free = (
            self.connections.transport.hosts.free_at(watched.row.host)
            if self.connections.transport
            else now
        )
        # A host that wants a longer rest: 429, Retry-After, no answer.
        return free if free - now > _PATIENCE else now

    def _probe(self) -> float:
        """During an outage: one visit now and then, until somebody answers."""
        now = self.clock.time()
        if now >= self.outage.probe_at and self._multiplexer.busy == 0:
            for name in self._multiplexer.forget_waiting():
                self.schedule.put_back(name)
            suspects = [name for name in self.outage.suspects() if name in self.watchlist]
            if not suspects:
                self.outage.on = False
                return 0.0
            name = suspects[self.tally.visits % len(suspects)]
            self._multiplexer.submit(name, self.watchlist[name].row.host or name)
            self.outage.probe_at = now + self.outage.pause(now)
            if self.connections.transport is not None:
                self.connections.transport.hosts.forgive()
        return max(self.outage.probe_at - now, 0.01)

    async def _rest(self, seconds: float) -> None:
        """Sleep for so many seconds of the clock, or until something happens."""
        # A loop that never sleeps would leave nothing for the visits; when they end by the hundred,
        # it looks for all of them together. What the budget brings meanwhile is saved.
        if self.clock.speed == 1.0 and self._multiplexer.busy >= _BUSY:
            await asyncio.sleep(_TOGETHER)
        real = min(max(seconds / self.clock.speed, 0.001), 1.0)
        if self._multiplexer.backlog >= 2 * self.config.downloaders:
            real = max(real, 0.01)
        try:
            async with asyncio.timeout(real):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _finish(self) -> None:
        """Let visits under way end, or abandon them; commit; give the shards back."""
        for task in filter(None, (self._learning, self._serving)):
            task.cancel()
        self.websub.close()
        for name in self._multiplexer.forget_waiting():
            self.schedule.put_back(name)
        if not await self._multiplexer.join(_STOPPING):
            log.warning("visits were abandoned", extra={"number": self._multiplexer.busy})
        await self._multiplexer.close()
        await self.visitor.close()
        await self.connections.close()
        self.patience.give_up()
        await self._save()
        await self.patience.call(self.store.leases.release, self.name, None)
        await self.patience.call(self._note, "stop", {"visits": self.tally.visits})

    async def _visit(self, name: str) -> None:
        watched = self.watchlist.get(name)
        if (
            self._stopping
            or self.visitor.broken
            or watched is None
            or watched.row.shard not in self.shards
        ):
            return
        # A spot check and a visit that was due may meet: the second of them comes too early.
        last = self.schedule.last_at(name) if name in self.schedule else 0.0
        free = last + watched.settings.shortest * DAY
        if self.clock.time() < free - 1e-6 and not self.outage.on:
            self.schedule.rest(name, free)
            return
        host = (
            self.connections.transport.hosts[watched.row.host]
            if self.connections.transport
            else None
        )
        if host is not None:
            host.hurried = name in self.watchlist.firsts
        try:
            await self._one_at_a_time.run(name, lambda: self.visitor.visit_held(watched))
        except StoreAwayError:  # and nobody waits for it any more: the visit is made another time
            self.schedule.put_back(name)
        finally:
            self.watchlist.firsts.done(name)
            if host is not None:
                host.hurried = False
            self._wake.set()

    # -- what it shares, takes up and keeps -----------------------------------------------------

    async def _hold_shards(self) -> None:
        """Hold a fair share of the shards; take up and drop their sources.

        A shard that others are to have is given back when no visit to it is under way any more.
        """
        ours, others = await self.shards.renew(self.budget.offer)
        self.watchlist.keep(ours)
        new, before, held = set(ours) - set(self.shards), len(self.shards), len(ours)
        if held != before and ours:
            self.budget.begin(held)
        await self.shards.hold(ours, others)
        if new:
            rows = await self.watchlist.rows(new)
            await self.watchlist.take_up(rows)
            await self.watchlist.keep_distance(rows)
            await let_go(rows)
        if before != held and {before, held} != {0, SHARDS}:  # we are not alone
            shared = {"shards": f"{held}/{SHARDS}", "sources": len(self.watchlist)}
            log.info("the observers share the work anew", extra=shared)

    async def _refresh(self) -> None:
        """Take up what somebody has changed by hand, and what signals have come."""
        if await self._take_up_settings():
            await self.watchlist.write_due_times()
        await self.listener.hear()
        self.websub.turn(self.shards)
        await self.watchlist.refresh(self.shards)

    async def _take_up_settings(self) -> bool:
        changed = await self.watchlist.take_up_settings(self.shards)
        if changed:
            self.budget.begin(len(self.shards) or SHARDS)
        return changed

    async def _restore(self) -> None:
        kept = await self.patience.call(self.store.settings.all, "observer.")
        self.prior.restore(kept)
        if "observer.audits" in kept:
            self.audits.restore(kept["observer.audits"])
        self.watchlist.costs.restore(kept.get("observer.costs", {}))
        self.watchlist.schedule.pace.restore(kept.get(HOURS_LEARNED))
        await self.listener.restore(kept)
        await self.watchlist.begin()
        await self._take_up_settings()

    async def _save(self) -> None:
        await self.patience.call(self.prior.save)
        await self.listener.save()
        await self.patience.call(self.store.settings.change, "observer.audits", self.audits.joined)
        costs = self.watchlist.costs.state()
        await self.patience.call(self.store.settings.set, "observer.costs", costs)
        await self.watchlist.share_hours()

    def _sweep(self) -> None:
        """Drop the versions that are not to be kept."""
        limits = self.config.retention.limits()
        gone = self.store.snapshots.retain(**limits, now=self.shards.store_now)
        if gone.versions:
            log.info("old versions dropped", extra={"versions": gone.versions})

    def _note(self, action: str, detail: Any) -> None:
        self.store.journal.add(self.name, action, detail, now=self.clock.time())

    async def _note_trouble(self) -> None:
        while self.patience.absences:
            away = round(self.patience.absences.pop(), 1)
            await self.patience.call(self._note, "store-away", {"seconds": away})
        leaps = getattr(self.clock, "leaps", [])
        for leap in leaps[self._leaps_noted :]:
            self.tally.leaps += 1
            log.warning("the clock of this machine leapt", extra={"seconds": round(leap, 1)})
            await self.patience.call(self._note, "clock-leap", {"seconds": leap})
        self._leaps_noted = len(leaps)


@contextlib.contextmanager
def _set_aside(sources: int) -> Iterator[None]:
    """What stands when many sources have been taken up is no garbage: to go through it again and
    again would hold up the loop, for 0.06 s each time (0.1 s with very many sources).
    """
    if sources < _MANY:
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
