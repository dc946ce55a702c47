"""CSV and its relatives with tabs or semicolons; the first line names the columns."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any, BinaryIO

from observant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

__all__ = ["as_text", "read", "write"]


def read(file: BinaryIO, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns as text; the visit log's own door gives them types."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    header = file.readline()
    try:
        line = header.decode("utf-8-sig").strip("\r\n")
    except UnicodeDecodeError as error:
        raise InputError("is not text in UTF-8", file=name, row=0) from error
    if not line.strip():
        raise InputError("is empty; the first line must name the columns", file=name)
    delimiter = max(",\t;|", key=line.count)
    names = [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter))]
    doubled = {cell for cell in names if cell in columns and names.count(cell) > 1}
    if doubled:
        raise InputError(f"names the column {doubled.pop()!r} twice", file=name)
    wanted = [cell for cell in names if cell in columns]

    def refuse(row: Any) -> str:
        raise InputError(
            f"{row.actual_columns} cells where the header names {row.expected_columns}: "
            f"{row.text!r}",
            file=name,
            row=row.number,
        )

    try:
        batches = arrow_csv.open_csv(
            file,
            read_options=arrow_csv.ReadOptions(
                use_threads=False, block_size=1 << 23, column_names=names
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, invalid_row_handler=refuse
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=wanted if {"source", "time"} <= set(wanted) else names,
                strings_can_be_null=False,
            ),
        )
        yield from batches
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):
            return
        raise InputError(f"cannot be read as CSV: {error}", file=name) from error


def write(batches: Iterator[pa.RecordBatch], file: BinaryIO) -> None:
    """Write all batches with one header line."""
    from pyarrow import csv as arrow_csv

    first = as_text(next(batches))
    with arrow_csv.CSVWriter(
        file, first.schema, write_options=arrow_csv.WriteOptions(quoting_style="needed")
    ) as writer:
        writer.write(first)
        for batch in batches:
            writer.write(as_text(batch))


def as_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Write times as ISO 8601 and digests as text, so that text formats can hold them.

    A digest that is not plain text is written in hexadecimal after ``hex:``.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        text = column
        if pa.types.is_timestamp(column.type):
            text = pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ")
        elif pa.types.is_binary(column.type):
            text = pa.array([_digest_text(value) for value in column.to_pylist()], pa.string())
        columns[name] = text
    return pa.RecordBatch.from_pydict(columns)


def _digest_text(value: bytes | None) -> str | None:
    if value is None:
        return None
    plain = value.isascii() and value.isalnum() and not value.startswith(b"hex:")
    return value.decode() if plain else f"hex:{value.hex()}"
