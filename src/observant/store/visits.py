"""Visits: recorded with all that belongs to them, and read as pages, batches, hours or a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from observant.errors import FenceError, InputError, UnknownSourceError
from observant.store.commit import Prepared, commit
from observant.store.engine import Columns, StorePiece, chunks
from observant.store.types import Hour, SpotCheck
from observant.store.visit import KEEP, Entry, Recorded, Visit
from observant.times import micros

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from observant.arrays import Floats
    from observant.store.engine import Row, Session
    from observant.store.types import Event
    from observant.store.visit import Keep, Posterior
    from observant.visits import VisitLog

__all__ = ["Visits"]


class Visits(StorePiece):
    """The visit log."""

    def record(
        self,
        visit: Visit,
        *,
        posterior: Posterior | bytes | Keep | None = KEEP,
        due_at: float | Keep | None = KEEP,
        snapshot: bytes | str | Mapping[str, bytes | str] | Keep | None = KEEP,
        outbox: Sequence[Event] = (),
        fence: int | None = None,
        state: str | None = None,
        now: float | None = None,
    ) -> Recorded:
        """Commit a visit and all that belongs to it (fields of `Entry`) in one transaction.

        Raises `FenceError` or `UnknownSourceError` when it is refused; tells NEW or KNOWN.
        """
        entry = Entry(
            visit=visit,
            posterior=posterior,
            due_at=due_at,
            snapshot=snapshot,
            outbox=outbox,
            fence=fence,
            state=state,
        )
        (told,) = self.record_many([entry], now=now)
        if told is Recorded.FENCED:
            raise FenceError(
                f"the visit to {visit.source!r} is refused: the lease of its shard has expired or "
                "belongs to another observer now"
            )
        if told is Recorded.UNKNOWN:
            raise UnknownSourceError(f"there is no source {visit.source!r}")
        return told

    def record_many(self, entries: Sequence[Entry], *, now: float | None = None) -> list[Recorded]:
        """Commit many in one transaction, in this order; a refused one does not stop the others."""
        if not entries:
            return []
        prepared = [Prepared(entry) for entry in entries]
        return self._engine.write(
            lambda session: commit(session, prepared, self._engine.now(now, session))
        )

    def batches(
        self, *, since: float | None = None, rows: int = 65_536
    ) -> Iterator[pa.RecordBatch]:
        """The visit log as Arrow record batches (columns of `VisitLog` and `outcome`)."""
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
        """Write the visit log to a file (Parquet, CSV, …) while visits go on; returns the rows."""
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

        schema = _batch([]).schema
        write_table(pa.RecordBatchReader.from_batches(schema, counted()), file, format)
        return written

    def log(self, *, since: float | None = None) -> VisitLog:
        """The visit log in memory, ready to be estimated."""
        from observant.visits import LogReader

        reader = LogReader(name="the store")
        for batch in self.batches(since=since):
            reader.add(batch)
        return reader.finish()

    def log_of(
        self, ids: Sequence[int], *, most: int = 400_000, raw: bool = False
    ) -> VisitLog | None:
        """The visits of these sources (by their numbers) as a log; None if there are none.

        Reading ends with the source at which there are `most` visits. With `raw`, visits that found
        a source gone have the status that was answered.
        """
        from observant.visits import LogReader

        reader, read = LogReader(name="the store"), 0

        for some in chunks((int(number) for number in ids), 200):

            def work(session: Session, some: Sequence[int] = some) -> list[Any]:
                return session.all("visits_of_sources", sources=list(some))

            rows = self._engine.read(work)
            if rows:
                reader.add(_batch(rows, raw=raw))
            read += len(rows)
            if read >= most:
                break
        return reader.finish() if read else None

    def hours(self, *, since: float, until: float | None = None) -> list[Hour]:
        """Visits, changes, failures and bytes of every hour with a visit, oldest first."""
        first = int(since // 3600)
        last = 1 << 40 if until is None else int(until // 3600)
        rows = self._engine.read(lambda s: s.all("hours", first=first, last=last))
        return [
            Hour(at=row[0] * 3600.0, visits=row[1], changes=row[2], failures=row[3], bytes=row[4])
            for row in rows
        ]

    def timelines(self, sources: Sequence[int], *, since: float, limit: int = 100_000) -> Floats:
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

    def spot_checks(self, *, since: float, limit: int = 20_000) -> list[SpotCheck]:
        """Visits since an instant that were left to chance, newest first."""
        rows = self._engine.read(lambda s: s.all("spot_checks", since=micros(since), most=limit))
        return _SPOT_CHECK.all(rows)

    def list(
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
    ) -> list[Visit]:
        """Visits, by default newest first: of one source in order of time, of all in
        order of commit.

        `after` is the `id` of the last visit of the page before. `changed=True` gives changes
        only. `details` brings the comparisons.
        """
        where, given = ["1 = 1"], {"most": limit}
        direction, beyond = ("ASC", ">") if oldest_first else ("DESC", "<")
        key = "v.id" if source is None else "v.started_at"
        for condition, at in (("v.started_at >= :since", since), ("v.started_at < :until", until)):
            if at is not None:
                where.append(condition)
                given[condition.rpartition(":")[2]] = micros(at)
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

        return _VISIT.all(self._engine.read(work))


_SPOT_CHECK = Columns(
    SpotCheck,
    "source at:at changed:bool outcome per_day before:at rate importance tags config",
)
_VISIT = Columns(
    Visit,
    "id source started_at ended_at outcome changed:bool status last_modified:at digest magnitude "
    "bytes error detail:json",
)


def _batch(
    rows: list[Row], names: dict[int, str] | None = None, *, raw: bool = False
) -> pa.RecordBatch:
    """Columns of the visit log; `names` if the rows tell sources by their numbers.

    A visit that observed nothing because there was no answer, or although there was one (the
    selection found nothing, a change waits to be confirmed), has status 0, so that every reader
    takes it for a failed one. One that found the source gone is a change with a 404 or 410. `raw`
    leaves every status as it was answered.
    """
    import pyarrow as pa

    columns: list[Any] = list(zip(*rows, strict=True)) if rows else [()] * 9
    source, time, changed, modified, digest, magnitude, status, size, outcome = columns
    seen = [
        0 if not raw and word in _SAW_NOTHING and (code is None or 200 <= code < 400) else code
        for word, code in zip(outcome, status, strict=True)
    ]
    instant = pa.timestamp("us", "UTC")
    return pa.RecordBatch.from_pydict(
        {
            "source": pa.array([names[n] for n in source] if names else source, pa.string()),
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


_SAW_NOTHING = frozenset({"failed", "unconfirmed"})
