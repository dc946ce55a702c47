"""What a dashboard asks for again and again, without reading the visit log from end to end: visits
by the hour (counted as they are recorded), the timelines of some sources, pages of events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from observant.errors import InputError
from observant.store.door import from_json
from observant.store.engine import micros, seconds
from observant.store.errors import UnknownSourceError
from observant.store.listing import select_sources
from observant.store.part import Part
from observant.store.types import PendingEvent, StoredSource, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from observant.store.engine import Row, Session

__all__ = ["Hour", "ListedEvent", "Numbers"]


class Hour(Value, frozen=True, kw_only=True):
    """What the visits of one hour found."""

    at: float
    """Its beginning."""
    visits: int
    changes: int
    failures: int
    bytes: int


class ListedEvent(PendingEvent, frozen=True, kw_only=True):
    """An event with its place in the log."""

    number: int
    source_id: int | None


class Numbers(Part):
    """The part of the store that counts."""

    def hours(self, *, since: float, until: float | None = None) -> list[Hour]:
        """Every hour with a visit, oldest first."""
        first = int(since // 3600)
        last = 1 << 40 if until is None else int(until // 3600)
        rows = self._engine.read(lambda s: s.all("hours", first=first, last=last))
        return [
            Hour(at=row[0] * 3600.0, visits=row[1], changes=row[2], failures=row[3], bytes=row[4])
            for row in rows
        ]

    def source_numbered(self, number: int) -> StoredSource:
        """The source with this `id`, or `UnknownSourceError`."""
        where = "s.id = :id AND s.state <> 'removed'"
        found = self._engine.read(lambda s: select_sources(s, where, {"id": number}))
        if not found:
            raise UnknownSourceError(f"there is no source with the number {number}")
        return found[0]

    def timelines(
        self, sources: Sequence[int], *, since: float, limit: int = 100_000
    ) -> NDArray[np.float64]:
        """Good visits of these sources since an instant, as rows of source, start, changed
        (0, 1, NaN), by source and time.
        """
        import numpy as np  # `observant list` needs the store, and has no use for arrays

        rows = self._engine.read(
            lambda s: s.all("timelines", sources=list(sources), since=micros(since), most=limit)
        )
        table = np.array(rows, float).reshape(-1, 3)
        table[:, 1] /= 1e6
        return table

    def list_events(
        self,
        *,
        topic: str | None = None,
        source: str | None = None,
        tag: str | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> list[ListedEvent]:
        """Events, newest first; `after` is the number of the last one of the page before."""
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
        condition = " AND ".join(where)

        def work(session: Session) -> list[Row]:
            statement = session.text("select_listed_events")
            return session.sql(
                f"{statement}\nWHERE {condition} ORDER BY e.id DESC LIMIT :most", given
            )

        return [
            ListedEvent(
                number=row[0],
                id=row[1],
                topic=row[2],
                payload=from_json(row[3]),
                not_before=row[4] / 1e6,
                source=row[5],
                created_at=row[6] / 1e6,
                attempts=row[7],
                error=row[8],
                delivered_at=seconds(row[9]),
                source_id=row[10],
            )
            for row in self._engine.read(work)
        ]
