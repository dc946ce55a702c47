"""JSON Lines: one object a line. A file that holds one array of objects is read too."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, BinaryIO

from observant.errors import InputError
from observant.formats.delimited import as_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

__all__ = ["read", "write"]

_BYTES_PER_BLOCK = 1 << 23


def read(file: BinaryIO, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns in blocks of lines; each block has types of its own."""
    import pyarrow as pa

    row, first = 0, True
    while block := file.read(_BYTES_PER_BLOCK):
        block += file.readline()
        if first and block.lstrip()[:1] == b"[":
            block = _lines_of_array(block + file.read(), name)
        first = False
        batch = _parse(block, name, row)
        kept = [column for column in batch.schema.names if column in columns]
        yield batch.select(kept) if {"source", "time"} <= set(kept) else batch
        row += batch.num_rows
    if row == 0:
        yield pa.RecordBatch.from_pydict({"source": pa.array([], pa.string()), "time": []})


def _parse(block: bytes, name: str, rows_before: int) -> pa.RecordBatch:
    import pyarrow as pa
    from pyarrow import json as arrow_json

    try:
        table = arrow_json.read_json(
            io.BytesIO(block), read_options=arrow_json.ReadOptions(block_size=2 * len(block))
        )
        return table.combine_chunks().to_batches()[0]
    except (pa.ArrowInvalid, IndexError, pa.ArrowNotImplementedError):
        # Slower, and able to name the line and to hold values of mixed type.
        return _parse_slowly(block, name, rows_before)


def _parse_slowly(block: bytes, name: str, rows_before: int) -> pa.RecordBatch:
    import pyarrow as pa

    rows: list[dict[str, Any]] = []
    for line in block.splitlines():
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"not a JSON object: {line[:80].decode(errors='replace')!r}",
                file=name,
                row=rows_before + len(rows) + 1,
            ) from error
        if not isinstance(row, dict):
            raise InputError(
                f"a {type(row).__name__} where an object was expected",
                file=name,
                row=rows_before + len(rows) + 1,
            )
        rows.append(row)
    names = list(dict.fromkeys(key for row in rows for key in row))
    return pa.RecordBatch.from_pydict(
        {key: _column([row.get(key) for row in rows]) for key in names}
        or {"source": pa.array([], pa.string()), "time": pa.array([], pa.string())}
    )


def _column(values: list[Any]) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def _lines_of_array(text: bytes, name: str) -> bytes:
    try:
        return b"\n".join(json.dumps(row).encode() for row in json.loads(text))
    except (ValueError, RecursionError) as error:
        raise InputError(f"cannot be read as JSON: {error}", file=name) from error


def write(batches: Iterator[pa.RecordBatch], file: BinaryIO) -> None:
    """Write one object a row. What JSON cannot say (infinity) becomes null."""
    for batch in batches:
        for row in as_text(batch).to_pylist():
            plain = {key: _finite(value) for key, value in row.items()}
            file.write(json.dumps(plain, ensure_ascii=False, allow_nan=False).encode() + b"\n")


def _finite(value: Any) -> Any:
    finite = not isinstance(value, float) or (value == value and abs(value) != float("inf"))  # noqa: PLR0124
    return value if finite else None
