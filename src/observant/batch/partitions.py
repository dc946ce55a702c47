"""Partitions as finished visit logs on disk: grouped, sorted and compared, ready to be read again.

The pooled methods look at the visits twice, once for the prior and once for the rates. What costs
most, putting rows in order, is done once; the second look reads plain columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.batch.merge import merge_sorted
from observant.batch.streams import read_stream, write_stream
from observant.visits import VisitLog

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["GroupedLogs"]

_ROWS_PER_BATCH = 1 << 18


class GroupedLogs:
    """Visit logs of partitions, by their number."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def save(self, partition: int, log: VisitLog, names_per_batch: int = 1 << 14) -> None:
        """Write a log; the digests stay behind, for what they say is in `changed`."""
        import pyarrow as pa

        rows: dict[str, Any] = {"time": log.time, "changed": log.changed}
        if log.last_modified is not None:
            rows["last_modified"] = log.last_modified
        if "status" in log.extras:
            rows["status"] = log.extras["status"]
        sources: dict[str, Any] = {
            "source": log.sources.cast(pa.large_string()),
            "visits": log.visits_per_source,
            "place": np.arange(len(log.sources)),
            "partition": np.full(len(log.sources), partition, np.int32),
        }
        if log.groups is not None:
            sources["group"] = log.groups.cast(pa.large_string())
        write_stream(self._file(partition, "rows"), pa.table(rows), _ROWS_PER_BATCH)
        write_stream(self._file(partition, "sources"), pa.table(sources), names_per_batch)

    def load(self, partition: int, notes: tuple[str, ...] = ()) -> VisitLog:
        """Read a log back."""
        import pyarrow as pa

        rows = pa.Table.from_batches(read_stream(self._file(partition, "rows"))).combine_chunks()
        sources = pa.Table.from_batches(
            read_stream(self._file(partition, "sources"))
        ).combine_chunks()
        offsets = np.zeros(len(sources) + 1, np.int64)
        np.cumsum(sources["visits"].to_numpy(), out=offsets[1:])
        names = set(rows.column_names)
        return VisitLog(
            sources=_text(sources["source"]),
            offsets=offsets,
            time=rows["time"].to_numpy(),
            changed=rows["changed"].to_numpy(),
            last_modified=rows["last_modified"].to_numpy() if "last_modified" in names else None,
            extras={"status": _one(rows["status"])} if "status" in names else {},
            groups=_text(sources["group"]) if "group" in sources.column_names else None,
            notes=notes,
        )

    def at_ranks(
        self, partitions: list[int], ranks: NDArray[np.int64]
    ) -> dict[int, NDArray[np.int64]]:
        """Which sources of each partition have these places in the alphabet of all sources."""
        found: dict[int, list[NDArray[np.int64]]] = {}
        streams = [read_stream(self._file(partition, "sources")) for partition in partitions]
        before = 0
        for table in merge_sorted(streams):
            first, last = np.searchsorted(ranks, [before, before + len(table)])
            chosen = ranks[first:last] - before
            before += len(table)
            owner, place = (table[name].to_numpy()[chosen] for name in ("partition", "place"))
            for partition in np.unique(owner).tolist():
                found.setdefault(partition, []).append(place[owner == partition])
        return {partition: np.concatenate(places) for partition, places in found.items()}

    def _file(self, partition: int, part: str) -> Path:
        return self._path / f"log-{partition:04}-{part}.arrow"


def _one(column: pa.ChunkedArray) -> pa.Array:
    joined = column.combine_chunks()
    return joined.chunk(0) if hasattr(joined, "chunk") else joined


def _text(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    texts = _one(column)
    return texts.cast(pa.string()) if texts.nbytes < 2**31 - 1 else texts
