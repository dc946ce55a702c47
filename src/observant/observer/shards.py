"""Which sources an observer watches: those of the shards it holds, as somebody has described them.

Several observers can share a store. Hosts are hashed into shards, and a shard belongs to one
observer at a time, by a lease that it renews. What somebody changes by hand is taken up soon.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import InputError
from observant.estimation.priors import Prior
from observant.observer.browser.engine import Browser
from observant.observer.browser.settings import available
from observant.observer.config import SourceSettings
from observant.observer.content import Comparer, Rules, learned_noise
from observant.observer.events import Standing
from observant.observer.first_visits import FirstVisits
from observant.observer.fleet import Offer, divide
from observant.observer.honesty import Audits
from observant.observer.outage import Outage
from observant.observer.permission import Permission
from observant.observer.query_members import retire_orphans
from observant.observer.schedule import Planned, Schedule
from observant.observer.settings import settings_of
from observant.observer.signals import LISTING, announced, members_of
from observant.observer.sources import Surroundings, host_of, make_source
from observant.observer.sources.base import origin_of
from observant.observer.spot_checks import SpotChecks
from observant.planning.schedule.learning import SAMPLE, learn_prior
from observant.store import SHARDS
from observant.store.patience import Patience
from observant.store.subscriptions import Wishes
from observant.store.visit import Previous
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from observant.observer.clock import Clock
    from observant.observer.config import Config
    from observant.observer.hours import ActiveHours
    from observant.observer.settings import InForce
    from observant.observer.sources import SourceKind
    from observant.observer.transport import Transport
    from observant.store import Scheduled, Store, StoredSource
    from observant.store.visit import Visit

__all__ = ["Watched", "Watching", "make_transport", "own_settings", "touch"]

log = logging.getLogger("observant.observer")

CHANGED_BY_HAND = "sources.changed"
_AT_ONCE = 2000
_SIGNALS_KEPT = 90.0
"""Days after which a signal is dropped."""
_MOVED = 60.0
"""Seconds by which a due time may differ from the one in the store, and nobody minds."""


def touch(store: Store) -> None:
    """Tell running observers that somebody has added, changed or removed sources."""
    store.settings.set(CHANGED_BY_HAND, os.urandom(8).hex())


@dataclass
class Watched:
    """A source that this observer visits."""

    row: StoredSource
    settings: SourceSettings
    hours: ActiveHours | None
    source: SourceKind | None = None
    noise: int = 0
    """Fields that were known to be noise before the last visit."""
    selection: str = ""
    """Which rules the version before was compared by."""
    text: str | None = None
    """The version before, while a visit is under way."""
    standing: Standing = field(default_factory=Standing)
    due_at: float | None = None
    """When it is due, as the store has it."""

    def begins_anew(self, visit: Visit) -> bool:
        """Whether what earlier visits said counts no more: for the rate, for charts, for exports.

        It does not when somebody has edited what is compared, and when this visit has unmasked
        noise: earlier changes may have been nothing else.
        """
        found = visit.comparison
        if found is None or visit.outcome == "failed":
            return False
        if self.selection and found.selection_version != self.selection:
            return True
        if found.outcome != "same" or not found.noise:
            return False
        return len(learned_noise(Previous(memory=found.memory))) > self.noise

    refused: InputError | None = None
    """Why its settings cannot be used: every visit fails with that until somebody mends them."""
    wish: float = math.inf
    """Days after which somebody wants it to be visited again."""
    spot_check: float | None = None
    """How many spot checks a day it could expect, while the visit under way is one."""


def own_settings(row: StoredSource) -> dict[str, Any]:
    """The settings of a source itself; an importance of 1 leaves the word to its tags."""
    return row.config | ({"importance": row.importance} if row.importance != 1.0 else {})


class Watching:
    """The sources of one observer, in its schedule."""

    def __init__(
        self,
        store: Store,
        config: Config,
        *,
        clock: Clock,
        transport: Transport | None,
        functions: dict[str, Callable[..., Any]],
        name: str,
        want: int,
        lease: float,
        seed: int,
    ) -> None:
        self.store, self.config, self.clock, self.name = store, config, clock, name
        self.lease, self._want = lease, want
        self.patience = Patience(store)
        self.audits = Audits(seed)
        self.outage = Outage()
        self.permission = Permission(config, functions)
        self._given, self._seed = config, seed
        self._seen_settings: InForce | None = None
        self.spot_checks = SpotChecks(seed)
        self.firsts = FirstVisits(config.first_visits)
        self._firsts_only = False
        """Whether it ends after first visits: those need no schedule, which takes long to start."""
        self.schedule = self._new_schedule()
        self._transport, self._owns_transport = transport, transport is None
        self._browser: Browser | None = None
        self._functions = functions
        self._watched: dict[str, Watched] = {}
        self._fences: dict[int, int] = {}
        self._under_way: Counter[int] = Counter()
        """Visits under way in each shard."""
        self._seen_change: Any = None
        self._heard = 0
        """The number of the last signal that was taken up."""
        self._wishes = Wishes()
        self._alone, self._total = True, 0.0
        """Whether no other observer lives, and the budget of all as we have taken it up."""
        self._offer: Offer | None = None
        self._made, self._learned_from = 0.0, 0.0
        """Visits that all observers have made together, and of them those the prior knows."""

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

    async def _hold_shards(self) -> None:
        """Hold a fair share of the shards; take up and drop their sources.

        A shard that others are to have is given back when no visit to it is under way any more.
        """
        held = await self.patience.call(self._lease)
        staying = dict(sorted(held.items())[: await self.patience.call(self._fair_share)])
        for name in [n for n, w in self._watched.items() if w.row.shard not in staying]:
            self._forget(name)
        new = set(staying) - set(self._fences)
        before, held_now = len(self._fences), len(staying)
        if held_now != before and staying:
            self._share_budget(held_now)
        self._fences = staying
        leaving = {
            shard: fence
            for shard, fence in held.items()
            if shard not in staying and not self._under_way[shard]
        }
        if leaving:
            await self.patience.call(self.store.leases.release, self.name, leaving, self._store_now)
        if new:
            await self._watch(await self._rows(new))
        if before != held_now and {before, held_now} != {0, SHARDS}:  # we are not alone
            told = {"shards": f"{held_now}/{SHARDS}", "sources": len(self._watched)}
            log.info("the observers share the work anew", extra=told)

    def _lease(self) -> dict[int, int]:
        return self.store.leases.take(
            self.name,
            self._fair_share(),
            self._store_now,
            self.lease * self.clock.speed,
            offer=self._offer,
        )

    def _fair_share(self) -> int:
        """How many shards we may hold, since others want theirs."""
        now = self._store_now if self._store_now is not None else time.time()
        recent = self.store.leases.observers(since=self._recently(now), living=True, now=now)
        others = sum(other.name != self.name for other in recent)
        self._alone = not others
        return min(self._want, -(-SHARDS // (1 + others)))

    def _recently(self, now: float) -> float:
        """Who was not seen since then is no observer any more."""
        return now - self.lease / 2 * self.clock.speed

    @property
    def _store_now(self) -> float | None:
        """Our time for the store: its own, unless ours is another."""
        return self.clock.time() if self.clock.speed != 1.0 else None

    async def _refresh(self) -> None:
        """Take up what somebody has changed by hand."""
        if await self._take_up_settings():
            await self._tell_due_times()
        await self._hear()
        seen = await self.patience.call(self.store.settings.get, CHANGED_BY_HAND)
        wishes = await self.patience.call(self.store.subscriptions.wishes)
        if seen == self._seen_change and wishes == self._wishes:
            return
        self._seen_change = seen
        if any(watched.row.kind == "query" for watched in self._watched.values()):
            await self.patience.call(retire_orphans, self.store)
        rows = await self._rows(set(self._fences))
        there = {row.source.name for row in rows}
        for name in [n for n in self._watched if n not in there]:
            self._forget(name)
        changed = []
        for row in rows:
            watched = self._watched.get(row.source.name)
            if (
                watched is None
                or watched.row.updated_at < row.source.updated_at
                or watched.wish != self._wish(watched.row)
            ):
                self._forget(row.source.name)
                changed.append(row)
        await self._watch(changed)

    async def _hear(self) -> None:
        """Take up the signals that have come."""
        while new := await self.patience.call(self.store.signals.after, self._heard):
            self._heard = new[-1].id
            here = [one for one in new if one.source in self._watched]
            self.schedule.hear(here, {s.source: self._watched[s.source].row.host for s in here})

    async def _announce(self, watched: Watched, visit: Visit) -> None:
        """A sitemap or a feed was read: what it says of others is kept, and taken up."""
        kind, name = watched.row.kind, watched.row.name
        found = visit.comparison
        if kind not in LISTING or found is None or found.text is None:
            return
        members = [one for one in members_of(kind, found.text) if one in self._watched]
        self.schedule.listen(members, kind, {m: self._watched[m].row.host for m in members})
        before = watched.text
        if before is None and visit.outcome == "changed":
            kept = await self.patience.call(self.store.snapshots.at, name)
            before = None if kept is None else kept.decode("utf-8", "replace")
        if before is not None and visit.outcome == "changed":
            said = announced(kind, before, found.text, visit.ended_at)
            await self.patience.call(self.store.signals.add, said)

    async def _take_up_settings(self) -> bool:
        """Take up budget, objective, grace and retention if somebody has changed them meanwhile."""
        found = await self.patience.call(settings_of, self.store, self._given)
        if found == self._seen_settings:
            return False
        self._seen_settings = found
        for name, reason in found.refused.items():
            log.error("a kept setting cannot be used", extra={"setting": name, "reason": reason})
        before, after = self.config, found.config
        another = (after.objective, after.grace_days) != (before.objective, before.grace_days)
        rows = await self._rows(set(self._fences)) if another else []
        self.config = after  # from here on nobody sees half of it
        if another:
            prior, learned = self.schedule.prior, self.schedule.signals.learned()
            self.schedule = self._new_schedule()
            self.schedule.restore_prior(prior)
            self.schedule.signals.restore(learned)
            self._heard = 0
            self._watched.clear()
            await self._watch(rows)
        self._share_budget(len(self._fences) or SHARDS)
        return True

    def _share_budget(self, held: int) -> None:
        """The budget is one for all observers of a store: each begins with the part of its shards,
        and then they find one price for all (`_exchange`). A small share goes into spot checks.
        """
        checks = self.config.spot_checks_per_day
        total = self.config.budget_per_day - checks
        begins = self._alone or not self._fences
        part = held / SHARDS if begins else self.schedule.spends / self._total
        self._total = total
        self.schedule.set_budget(total * part)
        self.spot_checks.set_rate(checks * held / SHARDS, self.clock.time())

    async def _exchange(self, seconds: float) -> None:
        """Find the price of a visit together with the other observers, and spend what is worth it
        here, until we ask again after so many seconds.
        """
        if (self._alone and self._offer is None) or not self._fences:
            return
        schedule = self.schedule
        own = self._offer = schedule.offer() if len(schedule) else None
        now = self._store_now if self._store_now is not None else time.time()
        others = await self.patience.call(
            self.store.leases.exchange, self.name, own, self._recently(now), self._store_now
        )
        if own is None or schedule is not self.schedule:
            return
        theirs = [offer for row in others if (offer := Offer.of(row.detail))]
        self._made = sum(offer.visits for offer in (own, *theirs))
        schedule.take(divide(own, theirs, self._total, seconds * self.clock.speed / DAY))
        if self._alone and not theirs:  # all of it is ours: nobody needs to know
            self._offer = None

    @property
    def _wants_to_learn(self) -> bool:
        """Whether the visits, ours or those of all, have doubled since the prior was learned."""
        all_of_them = not self._alone and self._made > 2 * self._learned_from
        return len(self.schedule) > 0 and (all_of_them or self.schedule.wants_to_learn)

    async def _learn_priors(self) -> None:
        """Learn how rates are distributed here, and tell the store what follows for each source."""
        if self._firsts_only:
            return
        schedule, taught = self.schedule, ()  # type: tuple[Schedule, Any]
        self._learned_from = self._made
        if not self._alone:
            taught = await self.patience.call(self._taught_elsewhere)
        lesson = schedule.lesson(*taught)
        try:
            learned = await asyncio.to_thread(learn_prior, lesson)
        except Exception:  # the priors of before will do
            log.exception("the priors could not be learned")
            return
        if schedule is self.schedule:  # somebody may have changed the objective meanwhile
            schedule.take_in(learned)
            await self._settle()
            await self.patience.call(self._save_prior)
            await self._tell_rates()

    def _taught_elsewhere(self) -> tuple[list[bytes], int]:
        """What the sources of other observers have shown: the prior is one for all."""
        one_in = -(-self.store.sources.count() // SAMPLE)
        shards = set(range(SHARDS)) - set(self._fences)
        found = self.store.sources.sampled_likelihoods(shards, max(one_in, 1))
        return found, max(one_in, 1)

    def _save_prior(self) -> None:
        own = self.schedule.prior.state()
        hosts = {watched.row.host for watched in self._watched.values()}

        def join(kept: Any) -> Any:
            """The groups of other observers stay as they have left them."""
            if isinstance(kept, dict) and not self._alone:
                theirs = kept.get("groups", {}).items()
                others = {name: row for name, row in theirs if name.split("/")[0] not in hosts}
                return own | {"groups": others | own["groups"]}
            return own

        self.store.settings.change("observer.prior", join)

    async def _tell_rates(self) -> None:
        """Write down the rates of all sources, since another prior has moved them."""
        beliefs = self.schedule.beliefs()
        known = [n for n, w in self._watched.items() if w.row.rate is not None and n in beliefs]
        for some in range(0, len(known), _AT_ONCE):  # visits are recorded in between
            rates = {name: beliefs[name] for name in known[some : some + _AT_ONCE]}
            await self.patience.call(self.store.sources.set_rates, rates)

    async def _tell_due_times(self) -> None:
        """Write down when sources are due, where another budget or prior has moved that."""
        moved = {}
        for name, watched in self._watched.items():
            if watched.standing.good_at is not None and name in self.schedule:
                at = self.schedule.due_at(name)
                if abs(at - (watched.due_at or 0.0)) > _MOVED:
                    moved[name] = watched.due_at = at
        told = list(moved.items())
        for some in range(0, len(told), _AT_ONCE):  # visits are recorded in between
            await self.patience.call(self.store.sources.set_due, dict(told[some : some + _AT_ONCE]))

    def _wish(self, row: StoredSource) -> float:
        """Days after which somebody wants this source to be visited again."""
        return self._wishes.period(row.name, row.tags, row.host)

    async def _rows(self, shards: set[int] | None) -> list[Scheduled]:
        self._wishes = await self.patience.call(self.store.subscriptions.wishes)
        return await self.patience.call(lambda: list(self.store.sources.scheduled(shards)))

    async def _watch(self, rows: Sequence[Scheduled]) -> None:
        """Take up these sources, some at a time, so that nobody has to wait for long."""
        for some in range(0, len(rows), _AT_ONCE):
            planned = self._planned(rows[some : some + _AT_ONCE])
            if not self._firsts_only:
                self.schedule.place(planned)
            await asyncio.sleep(0)
        self.outage.hosts = len({w.row.host for w in self._watched.values()})
        if not self._firsts_only:
            await self._settle()

    async def _restore(self) -> None:
        kept = await self.patience.call(self.store.settings.all, "observer.")
        if "observer.prior" in kept:
            self.schedule.restore_prior(Prior.restore(kept["observer.prior"]))
        if "observer.audits" in kept:
            self.audits.restore(kept["observer.audits"])
        self.schedule.signals.restore(kept.get("observer.signals", {}))
        old = self.clock.time() - _SIGNALS_KEPT * DAY
        await self.patience.call(self.store.signals.drop, old)
        self._seen_change = await self.patience.call(self.store.settings.get, CHANGED_BY_HAND)
        await self._take_up_settings()

    def _save(self, channels: dict[str, Any]) -> None:
        """Runs in a thread, so what the loop may change meanwhile is given: the `channels`."""
        self._save_prior()
        if channels["channels"]:
            self.store.settings.set("observer.signals", channels)
        self.store.settings.set("observer.audits", self.audits.state())

    def _sweep(self) -> None:
        """Drop the versions that are not to be kept."""
        gone = self.store.snapshots.retain(**self.config.retention.limits(), now=self._store_now)
        if gone.versions:
            log.info("old versions dropped", extra={"versions": gone.versions})

    def _note(self, action: str, detail: Any) -> None:
        self.store.journal.add(self.name, action, detail, now=self.clock.time())

    async def _settle(self) -> None:
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
            self._watched[row.name] = Watched(
                row,
                settings,
                hours,
                standing=Standing.of(row),
                due_at=row.due_at,
                refused=refused.get(alike),
            )
            self._watched[row.name].wish = wish = self._wish(row)
            if wish < limits["max_period"]:
                limits = limits | {"max_period": max(wish, limits["min_period"])}
            if reason := self.permission.refusal(row):
                told = {"source": row.name, "reason": reason}
                log.warning("this source is not visited", extra=told)
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
                )
            )
        return [p for p in planned if p.name not in self.schedule]

    def _forget(self, name: str) -> None:
        self.schedule.remove(name)
        self.firsts.done(name)
        self._watched.pop(name, None)

    def _make(self, watched: Watched) -> SourceKind:
        if watched.refused is not None:
            raise InputError(watched.refused.message, source=watched.row.name)
        row, settings = watched.row, watched.settings
        rules = msgspec.convert(settings.compare, Rules)
        made: Any = make_source(
            row.kind, row.name, row.url or row.name, settings, Comparer(rules), self._around(row)
        )
        if row.name in self._functions:
            made.function = self._functions[row.name]
        return made  # type: ignore[no-any-return]

    def _around(self, row: StoredSource) -> Surroundings:
        reason = self.permission.refusal(row)
        if self._transport is None and self._owns_transport and row.kind not in _WITHOUT_NETWORK:
            self._transport = make_transport(self.config, self.clock)
        return Surroundings(
            self._transport,
            time=self.clock.time,
            audits=self.audits,
            trusted=not reason,
            reason=reason,
            browser=self._get_browser if available(self.config.browser) else None,
        )

    def _get_browser(self) -> Browser:
        """The browser of this observer, which starts when the first page needs it."""
        if self._browser is None:
            if self._transport is None:
                raise RuntimeError("a browser needs a transport, and there is none")
            self._browser = Browser(self._transport, self.config.browser)
        return self._browser

    async def _close_transport(self) -> None:
        browser, self._browser = self._browser, None
        if browser is not None:
            await browser.close()
        if self._owns_transport and self._transport is not None:
            await self._transport.close()
            self._transport = None


_WITHOUT_NETWORK = frozenset({"file", "command", "callable"})


def make_transport(config: Config, clock: Clock | None = None) -> Transport:
    """The way to the network that a configuration asks for."""
    from observant.observer.transport import Guard, Limits, Politeness, Transport

    return Transport(
        contact=config.contact or None,
        limits=msgspec.convert(config.limits, Limits, strict=False),
        guard=Guard(allow=config.allow),
        politeness=Politeness(floor=config.host_delay_days * DAY),
        clock=clock,
    )
