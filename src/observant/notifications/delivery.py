"""The deliverer: every event reaches every subscriber who wants it, at least once.

Events leave the outbox in one transaction with the deliveries they turn into; a delivery is marked
when the receiver has taken the message, and not before. Whatever dies in between, the message is
sent again with the same id. A receiver that is down is left alone for longer and longer, and what
it misses waits. What it refuses again and again, or misses for days, becomes a dead letter: kept,
shown, and sent again when somebody asks for it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import InputError, ObservantError, StoreError
from observant.notifications.alarms import Alarms, silences
from observant.notifications.channels import SendResult, class_of, way_of
from observant.notifications.messages import compose
from observant.notifications.subscriptions import due_at, masked, quiet_until, wants
from observant.observer.clock import SteadyClock
from observant.observer.content.diffs import changed_lines
from observant.observer.events import event_id
from observant.store import Event
from observant.times import DAY
from observant.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from observant.notifications.channels import Channel
    from observant.observer.clock import Clock
    from observant.observer.config import Config, Notify
    from observant.observer.loop import Observer
    from observant.store import Batch, Delivery, Store, StoredEvent, StoredSubscription


log = logging.getLogger("observant.notifications")

_TICK = 1.0
_AT_A_TIME = 500
"""Events that are fanned out in one transaction."""
_IN_MESSAGE = 500
"""The most events in one digest."""
_WORKERS = 4
LEASE = 180.0
"""Seconds for which a subscription is taken; a batch begins no message after half of them."""
_LONGEST_WISH = DAY
"""However long a receiver asks to be left alone, it is asked again after a day."""


class Deliverer:
    """Sends what is due. Several may work on one store: a subscription is served by one at a time.

    Give a `clock`, or `channels` by their way (webhook, mail, apprise), to replace the real ones.
    """

    def __init__(
        self,
        store: Store,
        config: Config,
        *,
        clock: Clock | None = None,
        channels: Mapping[str, Channel] | None = None,
        lease: float = LEASE,
        seed: int | None = None,
    ) -> None:
        self.store, self.config, self.lease = store, config, lease
        self.clock: Clock = clock or SteadyClock()
        self._given = channels
        self._channels: dict[str, Channel] = {}
        self._chance = random.Random(seed)  # noqa: S311 (jitter)
        self.sent = 0
        """Messages that were taken by their receivers."""

    @property
    def _notify(self) -> Notify:
        return self.config.notify

    @property
    def _store_now(self) -> float | None:
        """Our time for the store: its own, unless ours is another."""
        return self.clock.time() if self.clock.speed != 1.0 else None

    # -- running ------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until somebody says stop. Nothing that the world does ends this."""
        try:
            while not stop.is_set():
                try:
                    await self.deliver_due()
                except ObservantError as error:
                    log.warning("events wait for the store", extra={"reason": str(error)})
                except Exception:
                    log.exception("a delivery broke down")
                try:
                    await asyncio.wait_for(stop.wait(), _TICK)
                except TimeoutError:
                    continue
        finally:
            await self.close()

    async def deliver_due(self) -> int:
        """Fan out all pending events and send what is due; returns how many messages were taken."""
        await self.fan_out()
        before = self.sent
        await asyncio.gather(*(self._work() for _ in range(_WORKERS)))
        return self.sent - before

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    # -- from the outbox to deliveries --------------------------------------------------------

    async def fan_out(self) -> int:
        """Queue every pending event for those who want it; returns how many events there were."""
        done = 0
        while True:
            number = await asyncio.to_thread(self._fan_out_some)
            done += number
            if number < _AT_A_TIME:
                return done

    def _fan_out_some(self) -> int:
        events = self.store.outbox.pending(limit=_AT_A_TIME, now=self._store_now)
        if not events:
            return 0
        subscribers = [one for one in self.store.subscriptions.list() if one.enabled]
        now = self.clock.time()
        wanted: dict[str, dict[int, float]] = {}
        for event in events:
            text = _Text(self.store, event)
            wanted[event.id] = {
                one.id: _due(one, now)
                for one in subscribers
                # Whoever subscribes is not told of what was before.
                if event.created_at >= one.created_at and wants(one.filter, event, text)
            }
        self.store.deliveries.fan_out(wanted, now=self._store_now)
        return len(events)

    # -- from deliveries to receivers ---------------------------------------------------------

    async def _work(self) -> None:
        while True:
            batch = await asyncio.to_thread(
                lambda: self.store.deliveries.take(
                    seconds=self.lease * self.clock.speed, now=self._store_now
                )
            )
            if batch is None:
                return
            await self._serve(batch)

    async def _serve(self, batch: Batch) -> None:
        """Send the messages of one subscription in their order, until one finds nobody there."""
        subscriber = batch.subscription
        state: dict[str, Any] = {"failures": subscriber.failures, "error": subscriber.error}
        try:
            awake = _quiet_until(subscriber, self.clock.time())
            if awake > self.clock.time():
                state["rests_until"] = awake
                return
            end = asyncio.get_running_loop().time() + self.lease / 2
            for identity, parts in await self._messages(batch):
                if asyncio.get_running_loop().time() > end:
                    return
                answer = await self._send(identity, subscriber, [part.event for part in parts])
                ids = [part.id for part in parts]
                if answer.ok:
                    await asyncio.to_thread(self.store.deliveries.sent, ids, now=self._store_now)
                    self.sent += 1
                    state = {"failures": 0, "error": answer.error or None}
                    continue
                attempts = 1 + max(part.attempts for part in parts)
                if answer.down:
                    state = await self._rest(subscriber, state["failures"] + 1, answer, ids)
                    return
                await self._refused(ids, attempts, answer)
                state = {"failures": 0, "error": answer.error}
        except ObservantError as error:  # one bad subscription never stops the others
            failures = subscriber.failures + 1
            state = {
                "failures": failures,
                "error": str(error),
                "rests_until": self.clock.time() + self._pause(failures, None),
            }
        finally:
            await asyncio.to_thread(
                self.store.deliveries.release, subscriber.id, now=self._store_now, **state
            )

    async def _messages(self, batch: Batch) -> list[tuple[str, list[Delivery]]]:
        """What belongs together, with the id it has or gets now, on every attempt the same."""
        subscriber = batch.subscription
        messages: dict[str, list[Delivery]] = {}
        fresh: list[Delivery] = []
        for delivery in batch.deliveries:
            if delivery.message is not None:
                messages.setdefault(delivery.message, []).append(delivery)
            elif parse_duration(subscriber.digest):
                fresh.append(delivery)
            else:
                messages[delivery.event.id] = [delivery]
        for start in range(0, len(fresh), _IN_MESSAGE):
            parts = fresh[start : start + _IN_MESSAGE]
            identity = event_id("digest", subscriber.id, *(part.event.id for part in parts))
            await asyncio.to_thread(
                self.store.deliveries.compose, identity, [part.id for part in parts]
            )
            messages[identity] = parts
        return list(messages.items())

    async def _send(
        self, identity: str, subscriber: StoredSubscription, events: Sequence[StoredEvent]
    ) -> SendResult:
        try:
            message = compose(identity, subscriber, events)
            channel = await self._channel(way_of(subscriber.channel))
            answer = await channel.send(subscriber.channel, subscriber.secret, message)
        except InputError as error:
            answer = SendResult(error=str(error), down=True)
        except Exception as error:
            log.exception("a channel broke down", extra={"subscription": subscriber.name})
            answer = SendResult(error=f"{type(error).__name__}: {error}", down=True)
        told = _without_secrets(answer.error, subscriber)
        log.debug(
            "told" if answer.ok else "not told",
            extra={"subscription": subscriber.name, "message_id": identity, "reason": told},
        )
        return msgspec.structs.replace(answer, error=told)

    async def _rest(
        self, subscriber: StoredSubscription, failures: int, answer: SendResult, ids: list[int]
    ) -> dict[str, Any]:
        """Nobody there: leave the receiver alone for a while, and give up what is too old."""
        now = self.clock.time()
        until = now + self._pause(failures, answer.retry_after)
        await asyncio.to_thread(
            self.store.deliveries.failed, ids, error=answer.error, until=until, now=self._store_now
        )
        await asyncio.to_thread(
            self.store.deliveries.bury,
            subscriber.id,
            queued_before=now - self._notify.seconds("give_up"),
            error=answer.error,
            now=self._store_now,
        )
        log.warning(
            "a receiver takes nothing",
            extra={
                "subscription": subscriber.name,
                "reason": answer.error,
                "seconds": round(until - now),
            },
        )
        return {"failures": failures, "error": answer.error, "rests_until": until}

    async def _refused(self, ids: list[int], attempts: int, answer: SendResult) -> None:
        """Only this message was not taken: try it again later, or never."""
        dead = answer.final or attempts >= self._notify.attempts
        until = self.clock.time() + self._pause(attempts, answer.retry_after)
        await asyncio.to_thread(
            self.store.deliveries.failed,
            ids,
            error=answer.error,
            until=None if dead else until,
            now=self._store_now,
        )

    def _pause(self, failures: int, wish: float | None) -> float:
        """Seconds to the next attempt: twice as long each time, never for all at one moment."""
        if wish is not None:
            return min(wish, _LONGEST_WISH) * (1.0 + 0.1 * self._chance.random())
        first, longest = self._notify.seconds("retry"), self._notify.seconds("longest_retry")
        whole = min(first * 2.0 ** min(failures - 1, 60), longest)
        return whole * (0.5 + 0.5 * self._chance.random())

    async def _channel(self, way: str) -> Channel:
        if self._given is not None and way in self._given:
            return self._given[way]
        if way == "mail":  # its server may have been entered just now, and it keeps nothing open
            from observant.notifications.channels.mail import with_server

            config = await asyncio.to_thread(with_server, self.store, self.config)
            return self._made(way, config)
        if way not in self._channels:
            self._channels[way] = self._made(way, self.config)
        return self._channels[way]

    def _made(self, way: str, config: Config) -> Channel:
        from observant.observer.transport import Guard

        guard = Guard(allow=(*config.allow, *config.notify.allow))
        return class_of(way).made(guard, self.clock, config)

    # -- trying a channel ---------------------------------------------------------------------

    async def test(self, subscriber: StoredSubscription) -> SendResult:
        """Send one message that says it is a test, now and once."""
        at = self.clock.time()
        event = _test_event(at)
        return await self._send(event.id, subscriber, [event])


class _Text:
    """What came and went with an event, looked up once and only when somebody asks."""

    def __init__(self, store: Store, event: StoredEvent) -> None:
        self._store, self._event = store, event
        self._found: str | None = None

    def __call__(self) -> str:
        if self._found is None:
            self._found = self._look()
        return self._found

    def _look(self) -> str:
        told = self._event.payload if isinstance(self._event.payload, dict) else {}
        source, at = told.get("source"), told.get("at")
        if told.get("cut") and isinstance(source, str) and isinstance(at, int | float):
            # The event holds the beginning only; the versions hold all of it.
            versions = [
                self._store.snapshots.at(source, moment) for moment in (at - 1e-6, at + 1e-6)
            ]
            old, new = (None if v is None else v.decode("utf-8", "replace") for v in versions)
            if old is not None and new is not None:
                return "\n".join(changed_lines(old, new))
        parts = [told.get(name) for name in ("added", "removed", "title")]
        return "\n".join(part for part in parts if isinstance(part, str))


def _due(subscriber: StoredSubscription, now: float) -> float:
    try:
        return due_at(subscriber, now)
    except ObservantError:  # from a file that somebody else wrote; better now than never
        return now


def _quiet_until(subscriber: StoredSubscription, now: float) -> float:
    try:
        return quiet_until(subscriber, now)
    except ObservantError:
        return now


def _without_secrets(error: str, subscriber: StoredSubscription) -> str:
    told = error.replace(subscriber.channel, masked(subscriber.channel))
    return told.replace(subscriber.secret, "•••") if subscriber.secret else told


def _test_event(at: float) -> StoredEvent:
    from observant.store import StoredEvent

    plain = Event(
        id=event_id("test", at),
        topic="test",
        payload={"title": "observant", "reason": "This is a test. It works.", "at": at},
    )
    return StoredEvent(
        id=plain.id, topic=plain.topic, payload=plain.payload, source=None, created_at=at
    )


# -- delivering beside an observer ----------------------------------------------------------------


_LOOK = 60.0
"""Seconds of the clock between two looks at the observer."""
_ROUND = 3600.0
"""Seconds of the clock between two rounds over silent sources and old events."""
_ENDING = 20.0
_LAST_WORDS = 5.0


@asynccontextmanager
async def notifying(
    store: Store, config: Config, *, observer: Observer | None = None, clock: Clock | None = None
) -> AsyncIterator[Deliverer]:
    """Deliver events as long as the block runs, and what its last visits caused at its end.

    With an observer its lateness and budget are watched too.
    """
    clock = clock or (observer.clock if observer is not None else None)
    deliverer = Deliverer(store, config, clock=clock)
    stop = asyncio.Event()
    tasks = [
        asyncio.create_task(deliverer.run(stop)),
        asyncio.create_task(_keep_watch(deliverer, observer, stop)),
    ]
    try:
        yield deliverer
    finally:
        stop.set()
        _, late = await asyncio.wait(tasks, timeout=_ENDING)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            async with asyncio.timeout(_LAST_WORDS):
                await deliverer.deliver_due()
        except TimeoutError:
            log.info("events wait for the next start")
        except StoreError as error:
            log.warning("events wait for the store: %s", error)
        except Exception:
            log.exception("the last events could not be delivered")
        finally:
            await deliverer.close()


async def _keep_watch(deliverer: Deliverer, observer: Observer | None, stop: asyncio.Event) -> None:
    """Look at the observer now and then, and at silent sources and old events more rarely."""
    store, clock = deliverer.store, deliverer.clock
    alarms = Alarms(store, deliverer.config.notify, "" if observer is None else observer.name)
    next_round = clock.time() + _LOOK
    while True:
        try:
            await asyncio.wait_for(stop.wait(), _LOOK / clock.speed)
        except TimeoutError:
            pass
        else:
            return
        try:
            if observer is not None:
                await asyncio.to_thread(alarms.look, observer.status())
            if clock.time() >= next_round:
                next_round = clock.time() + _ROUND
                await asyncio.to_thread(_round, deliverer)
        except Exception:  # a fault here must not end the telling
            log.exception("the alarms could not be looked at")


def _round(deliverer: Deliverer) -> None:
    notify, now = deliverer.config.notify, deliverer.clock.time()
    silences(deliverer.store, notify.overdue, now)
    deliverer.store.outbox.prune(before=now - notify.seconds("keep"))
