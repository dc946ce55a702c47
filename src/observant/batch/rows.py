"""Rows of a visit log that are not kept in memory: checked, typed, handed on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import VisitLogError
from observant.visits.columns import MISSING
from observant.visits.log import COLUMNS
from observant.visits.reader import HOST_PATTERN, LogReader, first_broken_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray


EVIDENCE_COLUMNS = tuple(name for name in COLUMNS if name not in {"magnitude", "bytes"})
"""Columns of the visit log that some estimator looks at."""


class RowReader(LogReader):
    """Reads a visit log as `LogReader` does; rows are handed on instead of kept."""

    def __init__(
        self, reading: dict[str, Any], files: list[dict[str, Any]], columns: list[str]
    ) -> None:
        super().__init__(**reading)
        self._file_names = [file["name"] for file in files]
        self._file_starts = [int(file["start"]) for file in files]
        self._rows = self._file_starts[-1] if files else 0
        self._sources: Any = _Latest()
        self.columns = list(columns)
        """Those that any file had so far, in the order of the spill."""

    @property
    def rows(self) -> int:
        return self._rows

    def begin(self, name: str) -> None:
        self.begin_file(name)

    def skip(self, rows: int) -> None:
        """Pass over rows that an earlier run has taken."""
        self._rows += rows

    def checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Refuse what is wrong with a batch; return its columns in the types of the spill."""
        import pyarrow as pa
        import pyarrow.compute as pc

        first = self._rows
        self.add(batch)
        ids = self._sources.ids
        broken = first_broken_text(ids)
        if broken is not None:
            file, row = self.place(first + broken)
            raise VisitLogError("this is not text in UTF-8", file=file, row=row, column="source")
        found: dict[str, Any] = {
            name: pieces[-1][1] for name, pieces in self._pieces.items() if pieces
        }
        # The keys stay: the reader remembers by them which columns earlier batches had.
        self._pieces = {name: [] for name in self._pieces}
        if self._group_is_host:
            host = pc.struct_field(pc.extract_regex(ids, HOST_PATTERN), 0)
            found["group"] = pc.coalesce(pc.utf8_lower(host), ids)
        elif "group" in found:
            found["group"] = found["group"].fill_null("")
        columns: dict[str, pa.Array] = {}
        for name, kind in spill_types(group=self._group is not None).items():
            if name == "source":
                values = ids
            elif name == "row":
                values = pa.array(np.arange(first, first + len(ids)))
            elif name not in found:
                values = pa.nulls(len(ids), kind)
            elif name in {"time", "last_modified"}:
                values = pa.array(found[name], mask=found[name] == MISSING)
            elif name == "changed":
                values = pa.array(found[name] == 1, mask=found[name] < 0)
            else:
                values = found[name]
            columns[name] = values.cast(kind)
        seen = {"source", *self.columns, *found}
        self.columns = [name for name in columns if name in seen]
        return pa.RecordBatch.from_pydict(columns)


class _Latest:
    """Stands where a reader collects ids; holds only those that came last."""

    def add(self, ids: pa.Array) -> None:
        self.ids = ids


def spill_types(*, group: bool) -> dict[str, pa.DataType]:
    """Columns of the spill: those of the visit log that are evidence, and the row's number."""
    import pyarrow as pa

    instant = pa.timestamp("us", "UTC")
    return {
        "source": pa.string(),
        "time": instant,
        "changed": pa.bool_(),
        "last_modified": instant,
        "digest": pa.binary(),
        "status": pa.int16(),
        **({"group": pa.string()} if group else {}),
        "row": pa.int64(),
    }


def hashes_of(ids: pa.Array, key: int) -> NDArray[np.uint64]:
    """Hash texts with a key, by compiled code."""
    import pyarrow as pa

    from observant.visits import kernels

    ids = ids.cast(pa.large_string())
    _, offsets_buffer, data = ids.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[ids.offset : ids.offset + len(ids) + 1]
    found = np.empty(len(ids), np.uint64)
    kernels.hash_rows(np.frombuffer(data or b"", np.uint8), offsets, np.uint64(key), found)
    return found


def name_of(file: Any) -> str:
    return (
        os.fspath(file)
        if isinstance(file, str | os.PathLike)
        else str(getattr(file, "name", "<stream>"))
    )


# -- tables in files ------------------------------------------------------------------------------


def write_stream(path: Path, table: pa.Table, rows: int) -> None:
    """Write a table in batches of so many rows."""
    import pyarrow as pa

    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with (
        pa.OSFile(os.fspath(path), "wb") as stream,
        pa.ipc.new_stream(stream, table.schema, options=options) as writer,
    ):
        writer.write_table(table, max_chunksize=rows)


def read_stream(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file; one of them is in memory."""
    import pyarrow as pa

    with pa.OSFile(os.fspath(path)) as stream:
        yield from pa.ipc.open_stream(stream)


# -- Many sorted streams of record batches become one, in order and in bounded memory -------------


def merge_sorted(streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.Table]:
    """Merge streams that are each sorted by source; of each one batch is in memory.

    In each round the smallest of the last values at hand is the bound: whatever does not exceed
    it, in any stream, can be sorted and sent on, because no later batch holds anything smaller.

    >>> import pyarrow as pa
    >>> def stream(*batches):
    ...     return (pa.record_batch({"source": batch}) for batch in batches)
    >>> merged = merge_sorted([stream(["a", "d"], ["e"]), stream(["b", "c", "f"])])
    >>> [part["source"].to_pylist() for part in merged]
    [['a', 'b', 'c', 'd'], ['e'], ['f']]
    """
    import pyarrow as pa

    waiting: dict[int, tuple[pa.RecordBatch, str]] = {}

    def fetch(stream: int) -> None:
        for batch in streams[stream]:
            if batch.num_rows:
                waiting[stream] = batch, batch.column("source")[-1].as_py()
                return
        waiting.pop(stream, None)

    for stream in range(len(streams)):
        fetch(stream)
    while waiting:
        bound = min(last for _, last in waiting.values())
        ready: list[pa.RecordBatch] = []
        for stream, (batch, last) in list(waiting.items()):
            cut = batch.num_rows if last <= bound else _first_above(batch.column("source"), bound)
            if cut:
                ready.append(batch.slice(0, cut))
            if cut == batch.num_rows:
                fetch(stream)
            else:
                waiting[stream] = batch.slice(cut), last
        table = pa.Table.from_batches(ready)
        yield table if len(ready) == 1 else table.sort_by("source")


def _first_above(values: pa.Array, bound: str) -> int:
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if values[middle].as_py() <= bound:
            low = middle + 1
        else:
            high = middle
    return low
