"""One visit: look at a source, learn from what was found, and record it with all that follows.

A visit, its comparison, what it taught, the next due time and the events it caused are one
transaction of the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from observant.errors import ObservantError
from observant.observer.content import learned_noise
from observant.observer.costs import Spent, is_rendered
from observant.observer.events import events_of, look_up_events
from observant.observer.outage import NETWORK_ERRORS
from observant.observer.query_members import follow_members
from observant.observer.settings import touch
from observant.store import KEEP, Entry, GroupCommit, Posterior, Recorded, StoreAwayError
from observant.store.groups import GroupRead
from observant.store.visit import Comparison, Previous, Visit
from observant.times import DAY
from observant.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.observer.connections import Connections
    from observant.observer.events import Standing
    from observant.observer.metrics import Tally
    from observant.observer.outage import Outage
    from observant.observer.permission import Permission
    from observant.observer.schedule import Schedule
    from observant.observer.shards import Shards
    from observant.observer.signals import Listener
    from observant.observer.sources import SourceKind
    from observant.observer.watched import Watched
    from observant.observer.watchlist import Watchlist
    from observant.observer.websub import HubSubscriber
    from observant.store import Event

log = logging.getLogger("observant.observer")

LONGEST_VISIT = 600.0
"""Seconds."""
_RECENT = 5.0
_LONGEST_TEXT = 1 << 16
_STORE_FAILURES = 5
_METERED = 8
"""One visit in so many is measured where the budget counts visits and not their cost."""


class Visitor:
    """Visits the sources of a watchlist, one at a time as it is asked to."""

    def __init__(
        self,
        watchlist: Watchlist,
        shards: Shards,
        connections: Connections,
        listener: Listener,
        websub: HubSubscriber,
        *,
        permission: Permission,
        outage: Outage,
        tally: Tally,
    ) -> None:
        self._watchlist, self._shards, self._connections = watchlist, shards, connections
        self._listener, self._websub, self._permission = listener, websub, permission
        self._outage, self._tally = outage, tally
        self._store, self._patience = watchlist.store, watchlist.patience
        self._clock = watchlist.clock
        self._commits = GroupCommit(self._store, patience=self._patience)
        self._reads = GroupRead(self._store, patience=self._patience)
        self._ends: deque[float] = deque(maxlen=10_000)
        self._store_failures = self._looks = 0
        self.broken: ObservantError | None = None
        """Why no visit can be recorded any more."""
        self.on_visit: Callable[[Visit], None] | None = None

    async def visit_held(self, watched: Watched) -> Visit:
        """Visit a source whose shard we hold; until it ends, the shard is not given away."""
        shard = watched.row.shard
        self._shards.under_way[shard] += 1
        try:
            return await self.visit(watched, self._shards[shard])
        finally:
            self._shards.under_way[shard] -= 1

    async def visit(self, watched: Watched, fence: int) -> Visit:
        """Visit a source and record it under a fence."""
        visit = await self._look(watched)
        self._watchlist.pay(watched, visit)
        transport, host = self._connections.transport, watched.row.host
        if transport is not None and host in transport.hosts:
            self._schedule.set_delay(host, transport.hosts[host].delay)
        await self._record(watched, visit, fence)
        return visit

    def _is_metered(self, watched: Watched) -> bool:
        """Whether the processor time of this visit is measured: a twentieth of it is measuring."""
        self._looks += 1
        counts = self._watchlist.config.counts_cost
        return counts or watched.cost is None or self._looks % _METERED == 0

    @property
    def _schedule(self) -> Schedule:
        return self._watchlist.schedule

    def per_second(self) -> float:
        """Visits a second of late."""
        horizon = time.monotonic() - _RECENT
        return sum(1 for end in self._ends if end > horizon) / _RECENT

    async def close(self) -> None:
        """Commit what is still to be committed."""
        await self._commits.close()

    async def _look(self, watched: Watched) -> Visit:
        """Visit a source; whatever happens, there is a visit to tell of."""
        name = watched.row.name
        started = self._clock.time()
        previous, looked_back = None, False
        try:
            previous = await self._previous(watched)
            looked_back = True
            watched.noise = len(learned_noise(previous))
            watched.selection = previous.selection_version if previous else ""
            watched.text = previous.text if previous else None
            if len(watched.text or "") > _LONGEST_TEXT:  # the worker that reads it takes the part
                watched.text = None
            self._permission.check(watched.row)
            source = self._connections.source(watched)
            look = _metered if self._is_metered(watched) else _unmetered
            async with asyncio.timeout(LONGEST_VISIT):
                return await look(source, previous)
        except TimeoutError:
            message, error = f"the visit took longer than {LONGEST_VISIT:g} s", "timeout"
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
            ended_at=self._clock.time(),
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
        self._schedule.adopt(watched.row.name, known.visited_at or 0.0, known.posterior)
        if picture := known.memory.get("picture"):
            with contextlib.suppress(KeyError):  # it is not kept any more
                get = self._store.snapshots.get
                shot = await self._patience.call(get, bytes.fromhex(picture))
                known = msgspec.structs.replace(known, shot=shot)
        return known

    async def _record(self, watched: Watched, visit: Visit, fence: int | None) -> None:
        """Learn from a visit and commit it with all that follows from it."""
        name = watched.row.name
        self._learn(watched, visit)
        blamed = not (self._outage.on and visit.error in NETWORK_ERRORS)
        standing = watched.standing.after(visit, blamed=blamed)
        belief = self._schedule.belief(name) if name in self._schedule else None
        entry = Entry(
            visit=visit,
            posterior=KEEP
            if belief is None
            else Posterior(
                data=self._schedule.likelihood(name),
                rate=belief.rate,
                rate_low=belief.low,
                rate_high=belief.high,
            ),
            due_at=self._schedule.due_at(name) if belief else KEEP,
            outbox=await self._events(watched, visit, standing),
            anew=watched.begins_anew(visit),
            fence=fence,
            spot_check=watched.spot_check,
            cost=watched.cost,
        )
        watched.spot_check = None
        await self._listener.announce(watched, visit)
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
            self._tally.refused += 1
            self._watchlist.forget(name)
            if recorded is Recorded.FENCED and watched.row.shard in self._shards:
                # The lease ran out under the visit, and is ours again: what it learned is void.
                self._watchlist.look_again()
            return
        watched.standing = standing
        if isinstance(entry.due_at, float):
            watched.due_at = entry.due_at
        self._count(visit)
        await self._websub.note(watched, visit)
        if watched.row.kind == "query" and visit.outcome != "failed":
            await self._follow_members(watched)

    async def _events(
        self, watched: Watched, visit: Visit, standing: Standing
    ) -> tuple[Event, ...]:
        """The events of a visit; the store is asked in another thread, for many visits at once
        where all that it has to say is whose result a changed source is.
        """
        notify, found = self._watchlist.config.notify, visit.comparison
        given = watched.row, visit, watched.standing, standing, notify
        plain = visit.members is None and watched.row.kind != "query"
        if plain and not watched.standing.failed:
            if visit.outcome in {"same", "first"}:
                return events_of(*given)
            if visit.outcome == "changed" and found is not None and found.excerpt is not None:
                queries = await self._reads.memberships(watched.row.name)
                return events_of(*given, memberships=queries)
        return await self._patience.call(
            look_up_events, self._store, *given, text_before=watched.text
        )

    async def _follow_members(self, watched: Watched) -> None:
        """Watch the members of a standing query that are its results now, and no others."""
        try:
            changed = await self._patience.call(
                follow_members, self._store, self._watchlist.config, watched.row, watched.settings
            )
            if changed:
                await self._patience.call(touch, self._store)
        except ObservantError as error:  # the next visit of the query tries again
            log.warning("members could not be taken up", extra={"reason": str(error)})

    def _learn(self, watched: Watched, visit: Visit) -> None:
        name, host = watched.row.name, watched.row.host or watched.row.name
        now, was_out = self._clock.time(), self._outage.on
        begins = self._outage.note(host, name, visit.error, now)
        if was_out and not self._outage.on and self._connections.transport is not None:
            self._connections.transport.hosts.forgive()
        if begins:
            self._tally.outages += 1
            suspects = self._outage.suspects()
            log.error("the network seems to be out", extra={"hosts": len(suspects)})
            for suspect in suspects:
                self._schedule.put_back(suspect)
            self._outage.probe_at = now + self._outage.pause(now)
            return
        if self._outage.on and visit.error in NETWORK_ERRORS:
            self._schedule.put_back(name)
        elif visit.outcome == "unconfirmed":
            pause = parse_duration(watched.settings.confirm_after) * DAY
            self._schedule.rest(name, visit.ended_at + pause, refund=False)
        elif visit.outcome == "failed":
            self._schedule.visited(name, visit.started_at, "failed")
        else:
            if watched.begins_anew(visit):
                self._schedule.forget(name)
            self._schedule.visited(name, visit.started_at, visit.changed, visit.age)

    def _count(self, visit: Visit) -> None:
        self._tally.outcomes[visit.outcome] += 1
        if visit.error:
            self._tally.errors[visit.error] += 1
        self._tally.bytes += visit.bytes or 0
        self._tally.not_modified += visit.status == 304
        self._tally.seconds += max(visit.ended_at - visit.started_at, 0.0) / self._clock.speed
        self._ends.append(time.monotonic())
        fields = ("source", "outcome", "status", "error", "bytes")
        log.debug("visited", extra={name: getattr(visit, name) for name in fields})
        if self.on_visit is not None:
            self.on_visit(visit)

    def _store_failed(self, error: ObservantError) -> None:
        self._store_failures += 1
        log.error("a visit could not be stored", extra={"reason": str(error)})
        if self._store_failures >= _STORE_FAILURES:
            self.broken = error


async def _unmetered(source: SourceKind, previous: Previous | None) -> Visit:
    return await source.visit(previous)


async def _metered(source: SourceKind, previous: Previous | None) -> Visit:
    """A visit with the processor time that it took; what a browser elsewhere took is not known."""
    spent = Spent()
    visit = await spent.by(source.visit(previous))
    if not visit.cpu and is_rendered(visit):
        return visit
    return msgspec.structs.replace(visit, cpu=(visit.cpu or 0.0) + spent.seconds)
