"""JSON Lines: one object a line. A file that holds one array of objects is read too."""

from __future__ import annotations

import io
import json
import math
import re
from codecs import BOM_UTF8
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from observant.errors import InputError
from observant.formats.delimited import as_text, digest_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

_BYTES_PER_BLOCK = 1 << 23
_DEEPEST = 500  # levels of nesting; Arrow's parser takes some ten thousand to overrun its stack
# A string, were it never closed: then it runs to the end, and is looked at once.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_STRAY = re.compile(rb"\}[ \t\r\n]*n")
_TYPED = ("time", "changed", "last_modified", "magnitude", "status", "bytes")


def read(file: BinaryIO, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns in blocks of lines; each block has types of its own."""
    row, first = 0, True
    while block := file.read(_BYTES_PER_BLOCK):
        block += file.readline()
        if first:
            block = block.removeprefix(BOM_UTF8)
            if block.lstrip()[:1] == b"[":
                block = _lines_of_array(block + file.read(), name)
        first = False
        batch = _parse(block, name, row, columns)
        if batch.num_rows:
            kept = [column for column in batch.schema.names if column in columns]
            yield batch.select(kept) if {"source", "time"} <= set(kept) else batch
        row += batch.num_rows


def _parse(block: bytes, name: str, rows_before: int, columns: Sequence[str]) -> pa.RecordBatch:
    import pyarrow as pa
    from pyarrow import json as arrow_json

    texts = [column for column in columns if column not in _TYPED]
    read_options = arrow_json.ReadOptions(block_size=min(2 * len(block), 2**31 - 1))
    try:
        if not _is_flat(block):
            return _parse_slowly(block, name, rows_before, columns)
        table = arrow_json.read_json(io.BytesIO(block), read_options)
        guessed = [
            pa.field(column, pa.string())
            for column in texts
            if column in table.schema.names and not _stays_text(table.schema.field(column).type)
        ]
        if guessed:
            # An id such as "2026-01-31" was taken for a time.
            parse_options = arrow_json.ParseOptions(explicit_schema=pa.schema(guessed))
            table = arrow_json.read_json(io.BytesIO(block), read_options, parse_options)
        for column in table.columns:
            if pa.types.is_string(column.type):
                column.validate(full=True)
        return table.combine_chunks().to_batches()[0]
    except (pa.ArrowException, IndexError, UnicodeDecodeError):
        # Slower, and able to name the line and to hold values of mixed type.
        return _parse_slowly(block, name, rows_before, columns)


def _stays_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_int64(kind) or pa.types.is_null(kind))


def _is_flat(block: bytes) -> bool:
    """Whether this is one object a line, not too deep: what Arrow's parser reads without harm.

    A null in place of an object, or ten thousand levels of nesting, would end the process.
    """
    lines = block.rstrip()
    if lines[:1] != b"{" or lines.count(b"\n{") != lines.count(b"\n") or _STRAY.search(lines):
        return False
    opened = block.count(b"{") + block.count(b"[")
    # No string holds a line's end, so a brace before one closes an object.
    if opened - block.count(b"}\n") - block.count(b"}\r\n") <= _DEEPEST:
        return True
    marks = np.frombuffer(_STRING.sub(b"", block), np.uint8)
    steps = np.isin(marks, list(b"{[")).astype(np.int8) - np.isin(marks, list(b"}]"))
    return bool(np.cumsum(steps, dtype=np.int64).max(initial=0) <= _DEEPEST)


def _parse_slowly(
    block: bytes, name: str, rows_before: int, columns: Sequence[str]
) -> pa.RecordBatch:
    import pyarrow as pa

    rows: list[dict[str, Any]] = []

    def refuse(message: str, column: str | None = None) -> InputError:
        return InputError(message, file=name, row=rows_before + len(rows) + 1, column=column)

    for line in block.splitlines():
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode())
        except UnicodeDecodeError as error:
            raise refuse("this is not text in UTF-8") from error
        except (ValueError, RecursionError) as error:
            raise refuse(f"not a JSON object: {line[:80].decode(errors='replace')!r}") from error
        if not isinstance(row, dict):
            raise refuse(f"{_kind(row)} where an object was expected")
        for key, value in row.items():
            if key in columns and isinstance(value, dict | list):
                raise refuse(f"{_kind(value)} where one value was expected", key)
            if isinstance(value, str) and not _is_text(value):
                raise refuse(
                    "half of a surrogate pair is not text", key if key in columns else None
                )
        rows.append(row)
    names = list(dict.fromkeys(key for row in rows for key in row if _is_text(key)))
    return pa.RecordBatch.from_arrays(
        [
            _column([row.get(key) for row in rows] if key in columns else [None] * len(rows), key)
            for key in names
        ],
        names,
    )


def _kind(value: object) -> str:
    for kind, word in ((dict, "an object"), (list, "a list"), (str, "a text")):
        if isinstance(value, kind):
            return word
    return json.dumps(value)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _column(values: list[Any], name: str) -> pa.Array:
    import pyarrow as pa

    if name in _TYPED:
        try:
            return pa.array(values)
        except (pa.ArrowException, OverflowError):
            pass
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def _lines_of_array(text: bytes, name: str) -> bytes:
    try:
        return b"\n".join(json.dumps(row).encode() for row in json.loads(text.decode()))
    except (ValueError, RecursionError) as error:
        raise InputError(f"cannot be read as JSON: {error}", file=name) from error


def write(batches: Iterator[pa.RecordBatch], file: BinaryIO, ending: str = "") -> None:
    """Write one object a line, as one array if the name ends in ``.json``.

    What JSON cannot say (infinity) becomes null.
    """
    before, between, after = (
        (b"[\n", b",\n", b"\n]\n") if ending == ".json" else (b"", b"\n", b"\n")
    )
    written = 0
    for batch in batches:
        for row in as_text(batch).to_pylist():
            plain = {key: _sayable(value) for key, value in row.items()}
            text = json.dumps(plain, ensure_ascii=False, allow_nan=False).encode()
            file.write((between if written else before) + text)
            written += 1
    if written:
        file.write(after)
    elif ending == ".json":
        file.write(b"[]\n")


def _sayable(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return digest_text(value)
    if isinstance(value, list | tuple):
        return [_sayable(part) for part in value]
    if isinstance(value, dict):
        return {str(key): _sayable(part) for key, part in value.items()}
    return value if value is None or isinstance(value, str | int) else str(value)
