"""Arrow tables in files: written in batches, read batch by batch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

__all__ = ["read_stream", "write_stream"]


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
