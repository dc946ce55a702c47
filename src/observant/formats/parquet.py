"""Parquet: columnar, typed, compressed; the format to keep a visit log in."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO

from observant.errors import InputError
from observant.visits.columns import plain_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

_ROWS_PER_BATCH = 1 << 18


def read(file: BinaryIO, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns that the file has, row group by row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = file if file.seekable() else io.BytesIO(file.read())
    try:
        # Read as it goes: buffered beforehand, all that was read would stay until the end.
        parquet = pq.ParquetFile(source, pre_buffer=False)
        present = [column for column in parquet.schema_arrow.names if column in columns]
        if "source" not in present or "time" not in present:
            present = parquet.schema_arrow.names  # the visit log's door says what is missing
        if parquet.metadata.num_rows == 0:
            yield pa.RecordBatch.from_pylist([], schema=parquet.schema_arrow)
        yield from parquet.iter_batches(batch_size=_ROWS_PER_BATCH, columns=present)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read as Parquet: {error}", file=name) from error


def write(batches: Iterator[pa.RecordBatch], file: BinaryIO, _ending: str = "") -> None:
    """Write all batches as one Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    first = _storable(next(batches))
    try:
        with pq.ParquetWriter(file, first.schema, compression="zstd") as writer:
            writer.write_batch(first)
            for batch in batches:
                writer.write_batch(_storable(batch))
    except pa.ArrowException as error:
        raise InputError(f"cannot be written as Parquet: {error}") from error


def _storable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Write out dictionaries of views, which Parquet's writer does not take."""
    import pyarrow as pa

    columns = [
        plain_column(column) if pa.types.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)
