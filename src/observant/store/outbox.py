"""The outbox: events that must be delivered at least once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from observant.errors import InputError, UnknownSourceError
from observant.store.engine import Columns, StorePiece, chunks
from observant.store.types import Event, StoredEvent
from observant.store.validation import checked_event, clean
from observant.times import micros

if TYPE_CHECKING:
    from collections.abc import Iterable

    from observant.store.engine import Session

__all__ = ["Outbox"]


class Outbox(StorePiece):
    """Events, and whether they are delivered."""

    def add(
        self, events: Iterable[Event], *, source: str | None = None, now: float | None = None
    ) -> int:
        """Put events into the outbox without a visit; returns how many were new."""
        given = sorted(events, key=lambda event: event.id)
        instant = self._engine.now(now)

        def work(session: Session) -> int:
            number = None
            if source is not None:
                number = session.value("source_id", name=source)
                if number is None:
                    raise UnknownSourceError(f"there is no source {source!r}")
            return session.many("add_event", [checked_event(e, number, instant) for e in given])

        return self._engine.write(work)

    def pending(
        self, *, limit: int = 100, now: float | None = None, topic: str | None = None
    ) -> list[StoredEvent]:
        """Events that may be delivered now, oldest first."""
        given: dict[str, Any] = {"now": micros(self._engine.now(now)), "most": limit}
        where = "e.delivered_at IS NULL AND e.due_at <= :now AND e.taken_until <= :now"
        if topic is not None:
            where, given["topic"] = f"{where} AND e.topic = :topic", topic
        return self._engine.read(
            lambda session: _events(session, f"{where} ORDER BY e.due_at, e.id LIMIT :most", given)
        )

    def take(
        self, *, limit: int = 100, seconds: float = 60.0, now: float | None = None
    ) -> list[StoredEvent]:
        """Like `pending`, but nobody else is given them for so many seconds."""

        def work(session: Session) -> list[StoredEvent]:
            instant = self._engine.now(now, session)
            ids = [row[0] for row in session.all("take_pending", now=micros(instant), most=limit)]
            if not ids:
                return []
            session.run("take_events", ids=ids, until=micros(instant + seconds))
            return _events(session, "e.id IN :ids ORDER BY e.due_at, e.id", {"ids": ids})

        return self._engine.write(work)

    def delivered(self, ids: Iterable[str], *, now: float | None = None) -> int:
        """These were delivered; returns how many were still pending."""
        instant = micros(self._engine.now(now))
        wanted = sorted(ids)

        def work(session: Session) -> int:
            return sum(
                session.run("deliver", ids=list(some), now=instant) for some in chunks(wanted)
            )

        return self._engine.write(work)

    def postpone(self, event: str, *, until: float, error: str | None = None) -> None:
        """Delivery failed: try again at `until`; counts an attempt."""
        told = None if error is None else clean(error, 2000)
        self._engine.write(
            lambda session: session.run("postpone", event=event, until=micros(until), error=told)
        )

    def prune(self, *, before: float) -> int:
        """Drop events delivered before an instant."""
        return self._engine.write(
            lambda session: session.run("prune_events", before=micros(before))
        )

    def list(
        self,
        *,
        topic: str | None = None,
        source: str | None = None,
        tag: str | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> list[StoredEvent]:
        """All events, newest first; `after` is the number of the last one of the page before."""
        if limit < 1:
            raise InputError("a page has at least one event")
        where, given = ["1 = 1"], {"most": limit}
        for condition, name, value in (
            ("e.topic = :topic", "topic", topic),
            ("e.source = (SELECT id FROM sources WHERE name = :source)", "source", source),
            ("e.source IN (SELECT source FROM tags WHERE tag = :tag)", "tag", tag),
            ("e.id < :after", "after", after),
        ):
            if value is not None:
                where.append(condition)
                given[name] = value  # type: ignore[assignment]
        condition = f"{' AND '.join(where)} ORDER BY e.id DESC LIMIT :most"
        return self._engine.read(lambda session: _events(session, condition, given))


def _events(session: Session, where: str, given: dict[str, Any]) -> list[StoredEvent]:
    rows = session.sql(f"{session.text('select_events')}\nWHERE {where}", given)
    return _EVENT.all(rows)


_EVENT = Columns(
    StoredEvent,
    "id topic payload:json not_before:at source created_at attempts error delivered_at number "
    "source_id",
)
