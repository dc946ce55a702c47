"""CSV and its relatives with tabs or semicolons; the first line names the columns."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, BinaryIO

from observant.errors import InputError, VisitLogError
from observant.visits.columns import plain_column, text_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

_BYTES_PER_BLOCK = 1 << 23
_LONGEST_HEADER = 1 << 20
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", re.DOTALL)
_COMPRESSED = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst", b"BZh": ".bz2"}


def read(file: BinaryIO, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns as text; the visit log's own door gives them types."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names, delimiter = _header(file, name)
    doubled = {cell for cell in names if cell in columns and names.count(cell) > 1}
    if doubled:
        raise InputError(f"names the column {doubled.pop()!r} twice", file=name)
    wanted = [cell for cell in names if cell in columns]
    if not {"source", "time"} <= set(wanted):
        wanted = names  # the visit log's door says what is missing
    rows = 0
    try:
        batches = arrow_csv.open_csv(
            file,
            read_options=arrow_csv.ReadOptions(
                use_threads=False, block_size=_BYTES_PER_BLOCK, column_names=names
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.binary()),
                include_columns=wanted,
                strings_can_be_null=False,
            ),
        )
        for batch in batches:
            yield _decoded(batch, name, rows)
            rows += batch.num_rows
    except pa.ArrowInvalid as error:
        if "Empty CSV file" not in str(error):
            raise _refusal(str(error), name) from error
    if not rows:
        yield pa.RecordBatch.from_arrays([pa.array([], pa.string())] * len(wanted), wanted)


def _header(file: BinaryIO, name: str) -> tuple[list[str], str]:
    """Names of the columns, and what stands between them."""
    header = file.readline(_LONGEST_HEADER)
    try:
        line = header.decode("utf-8-sig").strip("\r\n")
    except UnicodeDecodeError as error:
        packed = [ending for sign, ending in _COMPRESSED.items() if header.startswith(sign)]
        hint = f"; it looks compressed, so end its name in {packed[0]}" if packed else ""
        raise InputError(f"the first line is not text in UTF-8{hint}", file=name) from error
    if not line.strip():
        raise InputError("is empty; the first line must name the columns", file=name)
    delimiter = max(",\t;|", key=line.count)
    try:
        cells = next(csv.reader([line], delimiter=delimiter))
    except csv.Error as error:
        raise InputError(
            f"the first line must name the columns, and cannot be read ({error})", file=name
        ) from error
    return [cell.strip() for cell in cells], delimiter


def _decoded(batch: pa.RecordBatch, name: str, rows_before: int) -> pa.RecordBatch:
    import pyarrow as pa

    names = batch.schema.names
    try:
        texts = [
            unquoted(text_in(column, of)) for of, column in zip(names, batch.columns, strict=True)
        ]
    except VisitLogError as error:
        row = None if error.row is None else rows_before + error.row + 1
        raise InputError(error.message, file=name, row=row, column=error.column) from error
    return pa.RecordBatch.from_arrays(texts, names)


def _refusal(told: str, name: str) -> InputError:
    ragged = _RAGGED.search(told)
    if ragged is None:
        return InputError(f"cannot be read as CSV: {told}", file=name)
    row, expected, found, text = ragged.groups()
    shown = text if len(text) <= 80 else f"{text[:80]}..."
    quote = "; is a quotation mark never closed?" if text.count('"') % 2 else ""
    cells = "1 cell" if found == "1" else f"{found} cells"
    return InputError(
        f"{cells} where the header names {expected}: {shown!r}{quote}", file=name, row=int(row)
    )


def write(batches: Iterator[pa.RecordBatch], file: BinaryIO, ending: str = "") -> None:
    """Write all batches with one header line; with tabs if the name ends in ``.tsv``."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    first = _harmless(_cells(as_text(next(batches))))
    options = arrow_csv.WriteOptions(
        quoting_style="needed", delimiter="\t" if ending == ".tsv" else ","
    )
    try:
        with arrow_csv.CSVWriter(file, first.schema, write_options=options) as writer:
            writer.write(first)
            for batch in batches:
                writer.write(_harmless(_cells(as_text(batch))))
    except pa.ArrowException as error:
        raise InputError(f"cannot be written as CSV: {error}") from error


_FORMULA = r"^'*[=+\-@\t\r]"
_NUMBER = r"^[+-]?[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?$"


def _harmless(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with an apostrophe before every text that a spreadsheet would compute.

    Strangers wrote some of it: ``=HYPERLINK(…)`` is a text here, and shall be one there.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = []
    for column in batch.columns:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            formula = pc.and_(
                pc.match_substring_regex(column, _FORMULA),
                pc.invert(pc.match_substring_regex(column, _NUMBER)),
            )
            if pc.any(formula).as_py():
                quoted = pc.binary_join_element_wise(
                    pa.scalar("'", column.type), column, pa.scalar("", column.type)
                )
                column = pc.if_else(formula, quoted, column)  # noqa: PLW2901
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def unquoted(column: pa.Array) -> pa.Array:
    """Texts as they were before `write` put an apostrophe before them."""
    import pyarrow.compute as pc

    if not pc.any(pc.match_substring_regex(column, "^'+[=+\\-@\\t\\r]")).as_py():
        return column
    return pc.replace_substring_regex(column, r"^'('*[=+\-@\t\r])", r"\1")


def _cells(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Refuse what has no place in a cell."""
    import pyarrow as pa

    for name, kind in zip(batch.schema.names, batch.schema.types, strict=True):
        if pa.types.is_nested(kind):
            raise InputError(
                f"CSV cannot hold values of type {kind}; write Parquet or JSON Lines", column=name
            )
    return batch


def as_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Write times as ISO 8601 and digests as text, so that text formats can hold them.

    A digest that is not plain text is written in hexadecimal after ``hex:``.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = []
    for column in map(plain_column, batch.columns):
        kind, text = column.type, column
        if pa.types.is_timestamp(kind):
            utc = column.view(pa.timestamp(kind.unit))
            text = pc.strftime(utc, format="%Y-%m-%dT%H:%M:%SZ")
        elif pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_decimal(kind):
            text = column.cast(pa.string())
        elif pa.types.is_duration(kind):
            text = column.cast(pa.int64())
        elif (
            pa.types.is_binary(kind)
            or pa.types.is_large_binary(kind)
            or pa.types.is_fixed_size_binary(kind)
        ):
            text = pa.array([digest_text(value) for value in column.to_pylist()], pa.string())
        columns.append(text)
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def digest_text(value: bytes | None) -> str | None:
    """Write a digest as text: itself if it is letters and digits, else in hexadecimal.

    >>> digest_text(b"a1b2"), digest_text(bytes([0, 255]))
    ('a1b2', 'hex:00ff')
    """
    if value is None:
        return None
    plain = value.isascii() and value.isalnum()
    return value.decode() if plain else f"hex:{value.hex()}"
