"""Reading the visit log: pages for people, batches for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from observant.errors import InputError
from observant.store.door import from_json
from observant.store.engine import micros, seconds
from observant.store.errors import UnknownSourceError
from observant.store.part import Part
from observant.store.types import VisitRow

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from observant.store.engine import Row, Session
    from observant.visits import VisitLog

__all__ = ["SAW_NOTHING", "Visiting"]


class Visiting(Part):
    """The part of the store that gives visits back."""

    def visits(
        self,
        source: str | None = None,
        *,
        since: float | None = None,
        until: float | None = None,
        changed: bool | None = None,
        limit: int = 100,
        after: int | None = None,
        oldest_first: bool = False,
        details: bool = False,
    ) -> list[VisitRow]:
        where, given = ["1 = 1"], {"most": limit}
        direction, beyond = ("ASC", ">") if oldest_first else ("DESC", "<")
        key = "v.id" if source is None else "v.started_at"
        for condition, at in (("v.started_at >= :since", since), ("v.started_at < :until", until)):
            if at is not None:
                where.append(condition)
                given[condition.rpartition(":")[2]] = micros(at)  # type: ignore[assignment]
        if changed is not None:
            where.append(f"v.changed = {int(changed)}")

        def work(session: Session) -> list[Row]:
            if source is not None:
                number = session.value("source_id", name=source)
                if number is None:
                    raise UnknownSourceError(f"there is no source {source!r}")
                where.append("v.source = :source")
                given["source"] = number
            if after is not None:
                last = f"(SELECT {key[2:]} FROM visits WHERE id = :after)"  # noqa: S608
                where.append(f"{key} {beyond} {last}")
                given["after"] = after
            statement = session.text("select_visits_in_detail" if details else "select_visits")
            conditions = " AND ".join(where)
            return session.sql(
                f"{statement}\nWHERE {conditions} ORDER BY {key} {direction} LIMIT :most", given
            )

        return [_visit(row) for row in self._engine.read(work)]

    def batches(
        self, *, since: float | None = None, rows: int = 65_536
    ) -> Iterator[pa.RecordBatch]:
        if rows < 1:
            raise InputError(f"a batch has at least one row, not {rows}")
        with self._engine.snapshot() as session:
            names: dict[int, str] = {}
            for some in session.stream(session.text("all_names"), 10_000):
                names.update(some)
            statement = session.text("export_visits")
            if since is not None:
                statement += f"\nWHERE v.started_at >= {micros(since)}"
            for some in session.stream(f"{statement}\nORDER BY v.id", rows):
                yield _batch(some, names)

    def export(
        self,
        file: str | os.PathLike[str] | BinaryIO,
        *,
        format: str | None = None,  # noqa: A002 - the word users say
        since: float | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        import pyarrow as pa

        from observant.formats import write_table

        written = 0

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal written
            for batch in self.batches(since=since):
                written += batch.num_rows
                yield batch
                if progress is not None:
                    progress(batch.num_rows)

        schema = _batch([], {}).schema
        write_table(pa.RecordBatchReader.from_batches(schema, counted()), file, format)
        return written

    def visit_log(self, *, since: float | None = None) -> VisitLog:
        from observant.visits import LogReader

        reader = LogReader(name="the store")
        for batch in self.batches(since=since):
            reader.add(batch)
        return reader.finish()


def _visit(row: Row) -> VisitRow:
    return VisitRow(
        id=row[0],
        source=row[1],
        started_at=row[2] / 1e6,
        ended_at=(row[2] + row[3]) / 1e6,
        outcome=row[4],
        changed=None if row[5] is None else bool(row[5]),
        status=row[6],
        last_modified=seconds(row[7]),
        digest=row[8],
        magnitude=row[9],
        bytes=row[10],
        error=row[11],
        detail=from_json(row[12]) if len(row) > 12 else None,
    )


def _batch(rows: list[Row], names: dict[int, str]) -> pa.RecordBatch:
    """Columns of the visit log.

    A visit that observed nothing because there was no answer, or although there was one (the
    selection found nothing, a change waits to be confirmed), has status 0, so that every reader
    takes it for a failed one.
    """
    import pyarrow as pa

    columns: list[Any] = list(zip(*rows, strict=True)) if rows else [()] * 9
    source, time, changed, modified, digest, magnitude, status, size, outcome = columns
    seen = [
        0 if word in SAW_NOTHING and (code is None or 200 <= code < 400) else code
        for word, code in zip(outcome, status, strict=True)
    ]
    instant = pa.timestamp("us", "UTC")
    return pa.RecordBatch.from_pydict(
        {
            "source": pa.array([names[number] for number in source], pa.string()),
            "time": pa.array(time, pa.int64()).cast(instant),
            "changed": pa.array([None if one is None else one == 1 for one in changed], pa.bool_()),
            "last_modified": pa.array(modified, pa.int64()).cast(instant),
            "digest": pa.array(digest, pa.binary()),
            "magnitude": pa.array(magnitude, pa.float64()),
            "status": pa.array(seen, pa.int16()),
            "bytes": pa.array(size, pa.int64()),
            "outcome": pa.array(outcome, pa.string()),
        }
    )


SAW_NOTHING = frozenset({"failed", "unconfirmed"})
