"""Arrow tables in files: written in batches, read batch by batch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

__all__ = ["merge_sorted", "read_stream", "write_stream"]


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


def merge_sorted(
    streams: Sequence[Iterator[pa.RecordBatch]], column: str = "source"
) -> Iterator[pa.Table]:
    """Merge streams that are each sorted by a column of text; of each one batch is in memory.

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
                waiting[stream] = batch, batch.column(column)[-1].as_py()
                return
        waiting.pop(stream, None)

    for stream in range(len(streams)):
        fetch(stream)
    while waiting:
        bound = min(last for _, last in waiting.values())
        ready: list[pa.RecordBatch] = []
        for stream, (batch, last) in list(waiting.items()):
            cut = batch.num_rows if last <= bound else _first_above(batch.column(column), bound)
            if cut:
                ready.append(batch.slice(0, cut))
            if cut == batch.num_rows:
                fetch(stream)
            else:
                waiting[stream] = batch.slice(cut), last
        table = pa.Table.from_batches(ready)
        yield table if len(ready) == 1 else table.sort_by(column)


def _first_above(values: pa.Array, bound: str) -> int:
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if values[middle].as_py() <= bound:
            low = middle + 1
        else:
            high = middle
    return low
