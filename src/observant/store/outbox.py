"""The outbox: events that must be delivered at least once, and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from observant.store.door import as_json, checked_event, checked_name, clean, from_json
from observant.store.engine import micros, seconds
from observant.store.errors import UnknownSourceError
from observant.store.part import Part, chunks
from observant.store.types import Event, PendingEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from observant.store.engine import Row, Session

__all__ = ["Outbox"]


class Outbox(Part):
    """The part of the store that keeps events and settings."""

    def add_events(
        self, events: Iterable[Event], *, source: str | None = None, now: float | None = None
    ) -> int:
        given = sorted(events, key=lambda event: event.id)
        instant = self._now(now)

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
    ) -> list[PendingEvent]:
        given: dict[str, Any] = {"now": micros(self._now(now)), "most": limit}
        where = "e.delivered_at IS NULL AND e.due_at <= :now AND e.taken_until <= :now"
        if topic is not None:
            where, given["topic"] = f"{where} AND e.topic = :topic", topic
        return self._engine.read(
            lambda session: _events(session, f"{where} ORDER BY e.due_at, e.id LIMIT :most", given)
        )

    def take_events(
        self, *, limit: int = 100, seconds: float = 60.0, now: float | None = None
    ) -> list[PendingEvent]:
        def work(session: Session) -> list[PendingEvent]:
            instant = self._now(now, session)
            ids = [row[0] for row in session.all("take_pending", now=micros(instant), most=limit)]
            if not ids:
                return []
            session.run("take_events", ids=ids, until=micros(instant + seconds))
            return _events(session, "e.id IN :ids ORDER BY e.due_at, e.id", {"ids": ids})

        return self._engine.write(work)

    def delivered(self, ids: Iterable[str], *, now: float | None = None) -> int:
        instant = micros(self._now(now))
        wanted = sorted(ids)

        def work(session: Session) -> int:
            return sum(
                session.run("deliver", ids=list(some), now=instant) for some in chunks(wanted)
            )

        return self._engine.write(work)

    def postpone(self, event: str, *, until: float, error: str | None = None) -> None:
        told = None if error is None else clean(error, 2000)
        self._engine.write(
            lambda session: session.run("postpone", event=event, until=micros(until), error=told)
        )

    def events(self, *, limit: int = 100, source: str | None = None) -> list[PendingEvent]:
        where, given = "1 = 1", {"most": limit}
        if source is not None:
            where, given["source"] = "s.name = :source", source  # type: ignore[assignment]
        return self._engine.read(
            lambda session: _events(session, f"{where} ORDER BY e.id DESC LIMIT :most", given)
        )

    def prune_events(self, *, before: float) -> int:
        return self._engine.write(
            lambda session: session.run("prune_events", before=micros(before))
        )

    def setting(self, key: str, default: Any = None) -> Any:
        text = self._engine.read(lambda session: session.value("setting", key=key))
        return default if text is None else from_json(text)

    def settings(self, prefix: str = "") -> dict[str, Any]:
        rows = self._engine.read(lambda session: session.all("settings"))
        return {key: from_json(text) for key, text in rows if key.startswith(prefix)}

    def set_setting(self, key: str, value: Any) -> None:
        checked_name(key, "setting", 500)
        text = as_json(value, f"the setting {key}")

        def work(session: Session) -> None:
            if value is None:
                session.run("delete_setting", key=key)
            else:
                session.run("set_setting", key=key, value=text)

        self._engine.write(work)


def _events(session: Session, where: str, given: dict[str, Any]) -> list[PendingEvent]:
    rows = session.sql(f"{session.text('select_events')}\nWHERE {where}", given)
    return [_event(row) for row in rows]


def _event(row: Row) -> PendingEvent:
    return PendingEvent(
        id=row[0],
        topic=row[1],
        payload=from_json(row[2]),
        not_before=row[3] / 1e6,
        source=row[4],
        created_at=row[5] / 1e6,
        attempts=row[6],
        error=row[7],
        delivered_at=seconds(row[8]),
    )
