"""The observer: visit, compare, learn, schedule, again, for as long as it runs.

Two tiers (Brewington 4.3.4): the schedule says who is due, the multiplexer sees to it that they are
visited whatever the latency. A visit, its comparison, what it taught, the next due time and
the events it caused are one transaction of the store, so a killed observer loses nothing that was
committed, and the next one goes on from there.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from observant.errors import InputError, ObservantError
from observant.observer.clock import SteadyClock
from observant.observer.content import learned_noise
from observant.observer.events import told_of
from observant.observer.first_visits import FirstVisits
from observant.observer.metrics import Status, Tally
from observant.observer.multiplexer import Multiplexer
from observant.observer.outage import NETWORK_ERRORS
from observant.observer.query_members import follow_members, retire_orphans
from observant.observer.schedule import warm_up
from observant.observer.shards import Watched, Watching, make_transport, touch
from observant.observer.visit_requests import OneAtATime, VisitDesk
from observant.store import KEEP, SHARDS, Entry, GroupCommit, Posterior, Recorded, StoreAwayError
from observant.store.groups import GroupRead
from observant.store.patience import Patience
from observant.store.visit import Comparison, Previous, Visit
from observant.times import DAY
from observant.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.estimation.belief import RateBelief
    from observant.observer.clock import Clock
    from observant.observer.config import Config
    from observant.observer.events import Standing
    from observant.observer.transport import Transport
    from observant.store import Event, Store

__all__ = ["Observer", "make_transport", "touch"]

log = logging.getLogger("observant.observer")

_REFRESH = 2.0
_SAVE = 30.0
_SWEEP = 3600.0
_STOPPING = 4.0
"""Seconds that visits under way are given to end when the observer stops."""
_LONGEST_VISIT = 600.0
_RECENT = 5.0
_LONGEST_TEXT = 1 << 16
_PATIENCE = 60.0
"""A visit waits so many seconds for its host; for longer rests it goes back into the schedule."""
_STORE_FAILURES = 5


class Observer(Watching):
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
        super().__init__(
            store,
            config,
            clock=clock or SteadyClock(),
            transport=transport,
            functions=functions or {},
            name=name or f"{socket.gethostname()}:{os.getpid()}:{os.urandom(3).hex()}",
            want=want,
            lease=config.lease_seconds if lease is None else lease,
            seed=seed,
        )
        self.tally = Tally()
        self._multiplexer: Multiplexer[str] = Multiplexer(self._visit, most=config.downloaders)
        self._reach_store()
        self._wake = asyncio.Event()
        self._stopping = False
        self._probe_at = 0.0
        self._broken: ObservantError | None = None
        self._store_failures = 0
        self._ends: deque[float] = deque(maxlen=10_000)
        self._leaps_told = 0
        self._learning = self._serving = None  # type: asyncio.Task[None] | None
        self._one_at_a_time: OneAtATime[Visit] = OneAtATime()
        self._on_visit: Callable[[Visit], None] | None = None
        self._has_run = False
        self.ticks = time.monotonic  # of what is done now and then beside the visits
        self.problem = ""
        """Why it does not run at the moment, if an error ended it and somebody starts it again."""

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
            self._start_over()
        self._firsts_only = firsts_only
        self._has_run = True
        self._on_visit = on_visit
        try:
            await self._begin()
            end = until if seconds is None else self.clock.time() + seconds
            self.problem = ""
            try:
                await self._loop(end, visits)
            finally:
                await self._finish()
        except StoreAwayError as error:
            if not self._stopping:
                raise
            log.warning("ended while the store was away", extra={"reason": str(error)})
        if self._broken is not None:
            raise self._broken
        return self.status()

    def _start_over(self) -> None:
        """Forget what the run before held in memory."""
        self.config, self._seen_settings = self._given, None
        self.schedule = self._new_schedule()
        self._watched.clear()
        self.firsts = FirstVisits(self.config.first_visits)
        self._fences.clear()
        self._under_way.clear()
        self._reach_store()
        self._stopping, self._broken, self._store_failures = False, None, 0

    def _reach_store(self) -> None:
        self.patience = Patience(self.store)
        self._commits = GroupCommit(self.store, patience=self.patience)
        self._reads = GroupRead(self.store, patience=self.patience)
        self._desk = VisitDesk(self.store, self.patience, self.name, lambda: self._store_now)

    def stop(self) -> None:
        """Ask the observer to end: visits under way may end, then it commits and returns."""
        self._stopping = True
        self.patience.give_up()
        self._wake.set()

    async def check(self, name: str) -> Visit:
        """Visit one source now, whether it is due or not, and record it."""
        self.patience.give_up()  # somebody waits for the answer: none is one too
        shard = (await self.patience.call(self.store.sources.get, name)).shard

        async def visit(fence: int) -> Visit:
            rows = [row for row in await self._rows({shard}) if row.source.name == name]
            if not rows:
                raise InputError("this source is paused: observant resume", source=name)
            await self._restore()
            await self._watch(rows)
            return await self._visit_and_record(self._watched[name], fence)

        try:
            return await self._desk.ask(name, shard, visit)
        finally:
            await self._commits.close()
            await self._close_transport()

    async def visit_now(self, name: str) -> Visit:
        """Visit a source of this running observer now, or get the visit that is under way."""
        watched = self._watched.get(name)
        if watched is None or watched.row.shard not in self._fences:
            raise InputError("this source is paused, or another observer watches it", source=name)
        return await self._one_at_a_time.run(name, lambda: self._visit_held(watched))

    # -- what it knows ------------------------------------------------------------------------

    def status(self) -> Status:
        """One look at what is going on."""
        now = self.clock.time()
        expected = self.schedule.expectation(now)
        late, latest = self.schedule.lateness(now)
        horizon = time.monotonic() - _RECENT
        recent = sum(1 for end in self._ends if end > horizon)
        return Status(
            at=now,
            sources=len(self._watched),
            visits=self.tally.visits,
            changes=self.tally.changes,
            failures=self.tally.outcomes["failed"],
            visits_per_second=recent / _RECENT,
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
            unseen=len(self.firsts),
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
        if not self._firsts_only:
            await asyncio.to_thread(warm_up)  # not in the loop, which may serve pages already
        await self._restore()
        await self.patience.call(retire_orphans, self.store)
        await self._hold_shards()
        if not self._fences:
            log.info("other observers hold all sources; waiting for a share of them")
        await self._learn_priors()
        await self._tell_due_times()
        self._serving = asyncio.create_task(
            self._desk.serve(lambda asked: asked.source in self._watched, self.visit_now)
        )

    async def _loop(self, end: float | None, visits: int | None) -> None:
        leased = refreshed = saved = self.ticks()
        swept = -math.inf
        while not self._stopping:
            now, tick = self.clock.time(), self.ticks()
            if (
                (end is not None and now >= end)
                or (visits is not None and self.tally.visits >= visits)
                or (self._firsts_only and not self.firsts)
            ):
                break
            if tick - leased > self.lease / 4:
                leased = tick
                await self._hold_shards()
            if tick - refreshed > _REFRESH:
                refreshed = tick
                await self._refresh()
                await self._exchange(_REFRESH)
            if tick - saved > _SAVE:
                saved = tick
                await self.patience.call(self._save, self.schedule.signals.learned())
            if self.config.retention.limits() and tick - swept > _SWEEP:
                swept = tick
                await self.patience.call(self._sweep)
            if self._wants_to_learn and (self._learning is None or self._learning.done()):
                self._learning = asyncio.create_task(self._learn_priors())
            await self._note_trouble()
            self._look_first(now)
            pause = 1.0 if self._firsts_only else self._dispatch(now)
            if end is not None:
                pause = min(pause, end - now)
            await self._rest(pause)

    def _look_first(self, now: float) -> None:
        """Hand out first visits, which no budget pays for."""
        room = 2 * self.config.downloaders - self._multiplexer.backlog
        for name in self.firsts.take(0 if self.outage.on else room):
            watched = self._watched[name]
            if self._free_at(watched, now) > now:  # then it is for the schedule
                self.firsts.done(name)
                continue
            self.schedule.rest(name, now + _LONGEST_VISIT, refund=False)
            self._multiplexer.submit(name, watched.row.host or name)

    def _dispatch(self, now: float) -> float:
        """Hand out what is due; return how long to rest, in seconds of the clock."""
        if self.outage.on:
            return self._probe()
        room = 2 * self.config.downloaders - self._multiplexer.backlog
        for name in self.schedule.due(now, min(room, 1000)) if room > 0 else ():
            watched = self._watched.get(name)
            if watched is None:
                continue
            if (free := self._free_at(watched, now)) > now:
                self.schedule.rest(name, free)
            else:
                self._multiplexer.submit(name, watched.row.host or name)
        if (picked := self.spot_checks.pick(now, self._watched)) is not None:
            watched = self._watched[picked]
            early = now - self.schedule.last_at(picked) < watched.settings.shortest * DAY
            if not early and self._free_at(watched, now) <= now:
                watched.spot_check = self.spot_checks.expected(len(self._watched))
                self._multiplexer.submit(picked, watched.row.host or picked)
        soon = min(self.schedule.next_at(), self.spot_checks.next_at)
        return max(soon - self.clock.time(), 0.0)

    def _free_at(self, watched: Watched, now: float) -> float:
        """When a source may be visited: now, or when its hours or its host allow it."""
        if watched.hours is not None and not watched.hours.allows(now):
            return watched.hours.next(now)
        free = self._transport.hosts.free_at(watched.row.host) if self._transport else now
        # A host that wants a longer rest: 429, Retry-After, no answer.
        return free if free - now > _PATIENCE else now

    def _probe(self) -> float:
        """During an outage: one visit now and then, until somebody answers."""
        now = self.clock.time()
        if now >= self._probe_at and self._multiplexer.busy == 0:
            for name in self._multiplexer.forget_waiting():
                self.schedule.put_back(name)
            suspects = [name for name in self.outage.suspects() if name in self._watched]
            if not suspects:
                self.outage.on = False
                return 0.0
            name = suspects[self.tally.visits % len(suspects)]
            self._multiplexer.submit(name, self._watched[name].row.host or name)
            self._probe_at = now + self.outage.pause(now)
            if self._transport is not None:
                self._transport.hosts.forgive()
        return max(self._probe_at - now, 0.01)

    async def _rest(self, seconds: float) -> None:
        """Sleep for so many seconds of the clock, or until something happens."""
        # A loop that never sleeps would leave nothing for the visits.
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
        for name in self._multiplexer.forget_waiting():
            self.schedule.put_back(name)
        if not await self._multiplexer.join(_STOPPING):
            log.warning("visits were abandoned", extra={"number": self._multiplexer.busy})
        await self._multiplexer.close()
        await self._commits.close()
        await self._close_transport()
        self.patience.give_up()
        await self.patience.call(self._save, self.schedule.signals.learned())
        await self.patience.call(self.store.leases.release, self.name, None)
        await self.patience.call(self._note, "stop", {"visits": self.tally.visits})

    # -- one visit ----------------------------------------------------------------------------

    async def _visit(self, name: str) -> None:
        watched = self._watched.get(name)
        if self._stopping or watched is None or watched.row.shard not in self._fences:
            return
        # A spot check and a visit that was due may meet: the second of them comes too early.
        last = self.schedule.last_at(name) if name in self.schedule else 0.0
        free = last + watched.settings.shortest * DAY
        if self.clock.time() < free - 1e-6 and not self.outage.on:
            self.schedule.rest(name, free)
            return
        host = self._transport.hosts[watched.row.host] if self._transport else None
        if host is not None:
            host.hurried = name in self.firsts
        try:
            await self._one_at_a_time.run(name, lambda: self._visit_held(watched))
        except StoreAwayError:  # and nobody waits for it any more: the visit is made another time
            self.schedule.put_back(name)
        finally:
            self.firsts.done(name)
            if host is not None:
                host.hurried = False
            self._wake.set()

    async def _visit_held(self, watched: Watched) -> Visit:
        """Visit a source whose shard we hold; until it ends, the shard is not given away."""
        shard = watched.row.shard
        self._under_way[shard] += 1
        try:
            return await self._visit_and_record(watched, self._fences[shard])
        finally:
            self._under_way[shard] -= 1

    async def _visit_and_record(self, watched: Watched, fence: int) -> Visit:
        visit = await self._look(watched)
        if self._transport is not None and watched.row.host in self._transport.hosts:
            self.schedule.set_delay(watched.row.host, self._transport.hosts[watched.row.host].delay)
        await self._record(watched, visit, fence)
        return visit

    async def _look(self, watched: Watched) -> Visit:
        """Visit a source; whatever happens, there is a visit to tell of."""
        name = watched.row.name
        started = self.clock.time()
        previous, looked_back = None, False
        try:
            previous = await self._previous(watched)
            looked_back = True
            watched.noise = len(learned_noise(previous))
            watched.selection = previous.selection_version if previous else ""
            watched.text = previous.text if previous else None
            if len(watched.text or "") > _LONGEST_TEXT:  # the worker that reads it takes the part
                watched.text = None
            self.permission.check(watched.row)
            if watched.source is None:
                watched.source = self._make(watched)
            async with asyncio.timeout(_LONGEST_VISIT):
                return await watched.source.visit(previous)
        except TimeoutError:
            message, error = f"the visit took longer than {_LONGEST_VISIT:g} s", "timeout"
        except StoreAwayError:
            raise
        except ObservantError as problem:
            message, error = str(problem), "content"
        except Exception as problem:  # one bad source never stops the others
            log.exception("a visit broke down", extra={"source": name})
            message, error = f"{type(problem).__name__}: {problem}", "content"
        # The memory of the comparer is kept as it was: nothing was learned.
        found = Comparison(
            outcome="failed",
            error=error,  # type: ignore[arg-type]
            reason=message,
            memory=previous.memory if previous else {},
            selection_version=previous.selection_version if previous else "",
        )
        return Visit(
            source=name,
            started_at=started,
            ended_at=self.clock.time(),
            outcome="failed",
            status=0,
            bytes=0,
            error=found.error,
            comparison=found if looked_back else None,
        )

    async def _previous(self, watched: Watched) -> Previous | None:
        known = await self._reads.previous(watched.row.name)
        if known.is_empty:
            return None
        self.schedule.adopt(watched.row.name, known.visited_at or 0.0, known.posterior)
        return known

    async def _record(self, watched: Watched, visit: Visit, fence: int | None) -> None:
        """Learn from a visit and commit it with all that follows from it."""
        name = watched.row.name
        self._learn(watched, visit)
        blamed = not (self.outage.on and visit.error in NETWORK_ERRORS)
        standing = watched.standing.after(visit, blamed=blamed)
        belief = self.schedule.belief(name) if name in self.schedule else None
        entry = Entry(
            visit=visit,
            posterior=KEEP
            if belief is None
            else Posterior(
                data=self.schedule.likelihood(name),
                rate=belief.rate,
                rate_low=belief.low,
                rate_high=belief.high,
            ),
            due_at=self.schedule.due_at(name) if belief else KEEP,
            outbox=await self._told(watched, visit, standing),
            anew=watched.begins_anew(visit),
            fence=fence,
            spot_check=watched.spot_check,
        )
        watched.spot_check = None
        await self._announce(watched, visit)
        watched.text = None  # it was read for this visit: it is not to stay in memory
        try:
            recorded = await self._commits.record(entry)
        except StoreAwayError:
            raise
        except ObservantError as error:
            self._store_failed(error)
            return
        self._store_failures = 0
        if recorded in (Recorded.FENCED, Recorded.UNKNOWN):
            self.tally.refused += 1
            if recorded is Recorded.FENCED and watched.row.shard in self._fences:
                # The lease ran out under the visit, and is ours again: what it learned is void.
                self._forget(name)
                await self._watch(await self._rows({watched.row.shard}))
            else:
                self._forget(name)
            return
        watched.standing = standing
        if isinstance(entry.due_at, float):
            watched.due_at = entry.due_at
        self._count(visit)
        if watched.row.kind == "query" and visit.outcome != "failed":
            await self._follow_members(watched)

    async def _told(self, watched: Watched, visit: Visit, standing: Standing) -> tuple[Event, ...]:
        """What others are to be told of a visit; the store is asked in another thread."""
        given = self.store, watched.row, visit, watched.standing, standing, self.config.notify
        asks = visit.outcome != "same" or watched.standing.failed or watched.row.kind == "query"
        if not asks:
            return told_of(*given, text_before=watched.text)
        return await self.patience.call(told_of, *given, text_before=watched.text)

    async def _follow_members(self, watched: Watched) -> None:
        """Watch the members of a standing query that are its results now, and no others."""
        try:
            changed = await self.patience.call(
                follow_members, self.store, self.config, watched.row, watched.settings
            )
            if changed:
                await self.patience.call(touch, self.store)
        except ObservantError as error:  # the next visit of the query tries again
            log.warning("members could not be taken up", extra={"reason": str(error)})

    def _learn(self, watched: Watched, visit: Visit) -> None:
        name, host = watched.row.name, watched.row.host or watched.row.name
        now, was_out = self.clock.time(), self.outage.on
        begins = self.outage.note(host, name, visit.error, now)
        if was_out and not self.outage.on and self._transport is not None:
            self._transport.hosts.forgive()
        if begins:
            self.tally.outages += 1
            suspects = self.outage.suspects()
            log.error("the network seems to be out", extra={"hosts": len(suspects)})
            for suspect in suspects:
                self.schedule.put_back(suspect)
            self._probe_at = now + self.outage.pause(now)
            return
        if self.outage.on and visit.error in NETWORK_ERRORS:
            self.schedule.put_back(name)
        elif visit.outcome == "unconfirmed":
            pause = parse_duration(watched.settings.confirm_after) * DAY
            self.schedule.rest(name, visit.ended_at + pause, refund=False)
        elif visit.outcome == "failed":
            self.schedule.visited(name, visit.started_at, "failed")
        else:
            if watched.begins_anew(visit):
                self.schedule.forget(name)
            self.schedule.visited(name, visit.started_at, visit.changed, visit.age)

    def _count(self, visit: Visit) -> None:
        self.tally.outcomes[visit.outcome] += 1
        if visit.error:
            self.tally.errors[visit.error] += 1
        self.tally.bytes += visit.bytes or 0
        self.tally.not_modified += visit.status == 304
        self.tally.seconds += max(visit.ended_at - visit.started_at, 0.0) / self.clock.speed
        self._ends.append(time.monotonic())
        told = ("source", "outcome", "status", "error", "bytes")
        log.debug("visited", extra={name: getattr(visit, name) for name in told})
        if self._on_visit is not None:
            self._on_visit(visit)

    def _store_failed(self, error: ObservantError) -> None:
        self._store_failures += 1
        log.error("a visit could not be stored", extra={"reason": str(error)})
        if self._store_failures >= _STORE_FAILURES:
            self._broken = error
            self.stop()

    async def _note_trouble(self) -> None:
        while self.patience.absences:
            away = round(self.patience.absences.pop(), 1)
            await self.patience.call(self._note, "store-away", {"seconds": away})
        leaps = getattr(self.clock, "leaps", [])
        for leap in leaps[self._leaps_told :]:
            self.tally.leaps += 1
            log.warning("the clock of this machine leapt", extra={"seconds": round(leap, 1)})
            await self.patience.call(self._note, "clock-leap", {"seconds": leap})
        self._leaps_told = len(leaps)
