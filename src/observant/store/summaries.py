"""Reading for pictures: many sources as columns, their visits as one log, hosts in trouble.

A large store is read in part: every so-manieth source by its number, which has nothing to do with
how it changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from observant.store.part import Part, chunks
from observant.store.visiting import SAW_NOTHING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from observant.store.engine import Session
    from observant.visits import VisitLog

__all__ = ["FailingHost", "SourceColumns", "Summaries"]


class SourceColumns(NamedTuple):
    """Active sources, one entry each. Instants are seconds since 1970, NaN where there is none."""

    total: int
    """How many active sources there are; the columns may hold fewer, spread evenly."""
    id: NDArray[np.int64]
    name: list[str]
    host: list[str]
    importance: NDArray[np.float64]
    tags: list[str]
    """JSON."""
    config: list[str]
    """JSON."""
    good_at: NDArray[np.float64]
    due_at: NDArray[np.float64]
    changed_at: NDArray[np.float64]
    rate: NDArray[np.float64]
    rate_low: NDArray[np.float64]
    rate_high: NDArray[np.float64]
    visits: NDArray[np.int64]
    changes: NDArray[np.int64]
    posterior: list[bytes | None]


class FailingHost(NamedTuple):
    """A host with sources whose last visits failed."""

    host: str
    sources: int
    failing: int
    in_row: int
    """The most failed visits in a row."""
    error: str
    """One of the errors."""
    seen_at: float | None
    """The last good visit to any of its sources."""


class Summaries(Part):
    """The part of the store that pictures are made from."""

    def source_columns(self, limit: int = 4000) -> SourceColumns:
        """At most about so many active sources, evenly spread."""
        import numpy as np

        def work(session: Session) -> tuple[int, list[Any]]:
            total = int(session.value("count_active") or 0)
            step = max(-(-total // limit), 1)
            return total, session.all("summary_sources", step=step)

        total, rows = self._engine.read(work)
        columns: list[Any] = list(zip(*rows, strict=True)) if rows else [()] * 15
        id_, name, host, weight, tags, config, good, due, changed, *rest = columns
        rate, low, high, visits, changes, data = rest

        def instants(values: Sequence[int | None]) -> NDArray[np.float64]:
            return np.array([np.nan if v is None else v / 1e6 for v in values], np.float64)

        def numbers(values: Sequence[float | None]) -> NDArray[np.float64]:
            return np.array([np.nan if v is None else v for v in values], np.float64)

        return SourceColumns(
            total=total,
            id=np.array(id_, np.int64),
            name=list(name),
            host=list(host),
            importance=np.array(weight, np.float64),
            tags=list(tags),
            config=list(config),
            good_at=instants(good),
            due_at=instants(due),
            changed_at=instants(changed),
            rate=numbers(rate),
            rate_low=numbers(low),
            rate_high=numbers(high),
            visits=np.array(visits, np.int64),
            changes=np.array(changes, np.int64),
            posterior=[None if one is None else bytes(one) for one in data],
        )

    def failing_hosts(self, limit: int = 10) -> list[FailingHost]:
        """Hosts with failing sources, those with most first."""
        rows = self._engine.read(lambda session: session.all("failing_hosts", most=limit))
        return [
            FailingHost(host, sources, failing, in_row, error or "", at and at / 1e6)
            for host, sources, failing, in_row, error, at in rows
        ]

    def visit_log_of(self, ids: Sequence[int], *, most: int = 400_000) -> VisitLog | None:
        """The visits of these sources as a log; None without visits.

        Reading ends with the source at which there are `most` visits.
        """
        import pyarrow as pa

        from observant.visits import LogReader

        reader, read = LogReader(name="the store"), 0

        for some in chunks((int(number) for number in ids), 200):

            def work(session: Session, some: Sequence[int] = some) -> list[Any]:
                return session.all("visits_of_sources", sources=list(some))

            rows = self._engine.read(work)
            if rows:
                reader.add(_batch(pa, rows))
            read += len(rows)
            if read >= most:
                break
        return reader.finish() if read else None


def _batch(pa: Any, rows: list[Any]) -> Any:
    name, time, changed, modified, status, outcome, magnitude = zip(*rows, strict=True)
    instant = pa.timestamp("us", "UTC")
    # A visit that observed nothing, with or without an answer, counts as a failed one.
    seen = [
        0 if word in SAW_NOTHING and (code is None or 200 <= code < 400) else code
        for word, code in zip(outcome, status, strict=True)
    ]
    return pa.RecordBatch.from_pydict(
        {
            "source": pa.array(name, pa.string()),
            "time": pa.array(time, pa.int64()).cast(instant),
            "changed": pa.array([None if one is None else one == 1 for one in changed], pa.bool_()),
            "last_modified": pa.array(modified, pa.int64()).cast(instant),
            "status": pa.array(seen, pa.int16()),
            "magnitude": pa.array(magnitude, pa.float64()),
        }
    )
