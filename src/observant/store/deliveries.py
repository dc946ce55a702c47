"""Deliveries: each event for each subscriber, until it is sent or given up.

An event goes out in two steps, each a transaction. *Fanning out* turns a pending event of the
outbox into a delivery for every subscriber who wants it. Then somebody takes a subscription by a
lease, sends what is due, and marks each delivery. Whoever dies in between leaves the delivery
waiting: it is sent again, with the same ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import InputError
from observant.names import DELIVERY_STATES
from observant.store.engine import Columns, StorePiece, chunks
from observant.store.subscriptions import (
    StoredSubscription,
    Subscription,
    select_subscriptions,
)
from observant.store.types import StoredEvent, Value
from observant.store.validation import checked_name, clean, instant
from observant.times import micros

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from observant.store.engine import Row, Session

__all__ = ["DELIVERY_STATES", "Batch", "Deliveries", "Delivery"]


class Delivery(Value, frozen=True, kw_only=True):
    """One event for one subscriber."""

    id: int
    subscription: str
    event: StoredEvent
    state: str
    """waiting, sent, or dead: given up, until somebody has it tried again."""
    queued_at: float
    due_at: float
    attempts: int
    error: str | None = None
    message: str | None = None
    """The id of the message that it is part of: on every attempt the same."""
    done_at: float | None = None


class Batch(Value, frozen=True, kw_only=True):
    """What is due for one subscription, for whoever holds its lease."""

    subscription: StoredSubscription
    deliveries: tuple[Delivery, ...]


class Deliveries(StorePiece):
    """What was told to whom, and what still waits."""

    def fan_out(
        self, wanted: Mapping[str, Mapping[int, float]], *, now: float | None = None
    ) -> int:
        """Queue these events for these subscriptions (by number), each with its due time, and
        take them out of the outbox; all or nothing. Returns how many deliveries are new.
        """
        at = micros(self._engine.now(now))
        rows = [
            {"event": event, "subscription": number, "due_at": instant(due, "due_at"), "now": at}
            for event, due_at in sorted(wanted.items())
            for number, due in sorted(due_at.items())
        ]

        def work(session: Session) -> int:
            new = session.many("queue_delivery", rows)
            for some in chunks(sorted(wanted)):
                session.run("deliver", ids=list(some), now=at)
            return new

        return self._engine.write(work)

    def take(
        self, *, limit: int = 100, seconds: float = 120.0, now: float | None = None
    ) -> Batch | None:
        """Due deliveries of the subscription that was served longest ago; nobody else is given
        it for so many seconds, or until `release`. None if nothing is due.

        Deliveries of one message come together, even beyond the limit.
        """

        def work(session: Session) -> Batch | None:
            moment = self._engine.now(now, session)
            at = micros(moment)
            number = session.value("take_subscription", now=at)
            if number is None:
                return None
            session.run("hold_subscription", subscription=number, until=micros(moment + seconds))
            due = session.all("due_deliveries", subscription=number, now=at, most=limit)
            ids = {row[0] for row in due}
            messages = sorted({row[1] for row in due if row[1] is not None})
            if messages:
                rows = session.all("of_messages", subscription=number, messages=messages)
                ids |= {row[0] for row in rows}
            where = "d.id IN :ids ORDER BY d.due_at, d.id"
            (subscription,) = select_subscriptions(session, "id = :id", {"id": number})
            found = _deliveries(session, where, {"ids": sorted(ids)})
            return Batch(subscription=subscription, deliveries=tuple(found))

        return self._engine.write(work)

    def compose(self, message: str, ids: Iterable[int]) -> None:
        """These deliveries are one message from now on."""
        checked_name(message, "message", 500)
        rows = [{"id": number, "message": message} for number in sorted(ids)]
        self._engine.write(lambda session: session.many("compose", rows))

    def sent(self, ids: Iterable[int], *, now: float | None = None) -> int:
        """These reached their receiver; returns how many were still waiting."""
        at = micros(self._engine.now(now))
        rows = [{"id": number, "now": at} for number in sorted(ids)]
        return self._engine.write(lambda session: session.many("mark_sent", rows))

    def failed(
        self, ids: Iterable[int], *, error: str, until: float | None, now: float | None = None
    ) -> None:
        """An attempt failed: try again at `until`, or never (None: a dead letter)."""
        at = micros(self._engine.now(now))
        rows = [
            {
                "id": number,
                "error": clean(error, 2000),
                "state": "dead" if until is None else "waiting",
                "due_at": None if until is None else micros(until),
                "done_at": at if until is None else None,
            }
            for number in sorted(ids)
        ]
        self._engine.write(lambda session: session.many("mark_failed", rows))

    def release(
        self,
        subscription: int,
        *,
        failures: int = 0,
        rests_until: float = 0.0,
        error: str | None = None,
        now: float | None = None,
    ) -> None:
        """Give a taken subscription back, and say how it stands with its receiver."""
        self._engine.write(
            lambda session: session.run(
                "release_subscription",
                subscription=subscription,
                failures=failures,
                rests_until=micros(rests_until),
                error=None if error is None else clean(error, 2000),
                now=micros(self._engine.now(now, session)),
            )
        )

    def bury(
        self, subscription: int, *, queued_before: float, error: str, now: float | None = None
    ) -> int:
        """Give up everything that has been waiting for its receiver since before an instant."""
        return self._engine.write(
            lambda session: session.run(
                "bury",
                subscription=subscription,
                before=micros(queued_before),
                error=clean(error, 2000),
                now=micros(self._engine.now(now, session)),
            )
        )

    def retry(
        self,
        ids: Iterable[int] | None = None,
        *,
        subscription: str | None = None,
        now: float | None = None,
    ) -> int:
        """Have dead letters tried again: these, those of a subscription, or all; how many."""
        wanted = None if ids is None else sorted(ids)

        def work(session: Session) -> int:
            at = micros(self._engine.now(now, session))
            where, given = "state = 'dead'", {"now": at}
            if wanted is not None:
                where, given["ids"] = f"{where} AND id IN :ids", wanted  # type: ignore[assignment]
            if subscription is not None:
                where += " AND subscription = (SELECT id FROM subscriptions WHERE name = :name)"
                given["name"] = subscription  # type: ignore[assignment]
            session.run("wake_subscriptions")
            return session.change(f"{session.text('requeue')}\nWHERE {where}", given)

        return self._engine.write(work)

    def count(self) -> dict[str, dict[str, int]]:
        """How many deliveries are in each state, by the name of the subscription."""
        found: dict[str, dict[str, int]] = {}
        for name, state, number in self._engine.read(lambda s: s.all("count_deliveries")):
            found.setdefault(name, {})
            if state is not None:
                found[name][state] = number
        return found

    def list(
        self,
        *,
        state: str | None = None,
        subscription: str | None = None,
        limit: int = 100,
        after: int | None = None,
    ) -> list[Delivery]:
        """The delivery log, newest first. `after` is the id of the last one of the page before."""
        if state is not None and state not in DELIVERY_STATES:
            raise InputError(f"no state {state!r}; one of {', '.join(DELIVERY_STATES)}")
        where: list[str] = ["1 = 1"]
        given: dict[str, Any] = {"most": limit}
        for condition, name, value in (
            ("d.state = :state", "state", state),
            ("u.name = :subscription", "subscription", subscription),
            ("d.id < :after", "after", after),
        ):
            if value is not None:
                where.append(condition)
                given[name] = value
        text = f"{' AND '.join(where)} ORDER BY d.id DESC LIMIT :most"
        return self._engine.read(lambda session: _deliveries(session, text, given))


def _deliveries(session: Session, where: str, given: dict[str, Any]) -> list[Delivery]:
    rows = session.sql(f"{session.text('select_deliveries')}\nWHERE {where}", given)
    return [_delivery(row) for row in rows]


def _delivery(row: Row) -> Delivery:
    return _DELIVERY(row[:9], event=_EVENT(row[9:]))


_DELIVERY = Columns(
    Delivery, "id subscription state queued_at due_at attempts error message done_at"
)
_EVENT = Columns(StoredEvent, "id topic payload:json source created_at number source_id")


def check_delivery(row: dict[str, Any]) -> None:
    """A row of a backup."""
    if row["state"] not in DELIVERY_STATES:
        raise InputError("a delivery has an impossible state")


def check_subscription(row: dict[str, Any]) -> None:
    """A row of a backup. Whoever delivered from the old store has no lease here."""
    checked_name(row["name"], "subscription", 200)
    msgspec.json.decode(row["definition"], type=Subscription)
    row["taken_until"] = 0
