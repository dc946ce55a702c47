"""From whatever people have to the types of a visit log, with the row named when it cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError, VisitLogError
from observant.units import MICROSECONDS_PER_DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = [
    "MISSING",
    "batches_of",
    "bytes_in",
    "column_of",
    "flags_in",
    "numbers_in",
    "times_in",
    "typed_column",
]

MISSING = int(np.iinfo(np.int64).min)
"""In place of a time that is not known (Arrow's and NumPy's own sign for it)."""

_TIME_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "d": MICROSECONDS_PER_DAY}
# 1970 to 2200: a time outside is a mistake of unit far more often than a visit.
_LATEST = 84_006 * MICROSECONDS_PER_DAY
_NUMBER = r"^\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*$"
_ZONED = r"\d[T ]\d\d.*(Z|z|[+-]\d\d(:?\d\d)?)$"
_TRUE, _FALSE = ("1", "true", "t", "yes", "y"), ("0", "false", "f", "no", "n")


def batches_of(data: Any) -> Iterator[pa.RecordBatch]:
    """Record batches of anything that speaks Arrow."""
    import pyarrow as pa

    if isinstance(data, pa.Table):
        yield from data.to_batches()
    elif isinstance(data, pa.RecordBatch):
        yield data
    elif hasattr(data, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(data)
    else:
        raise InputError(
            f"a {type(data).__name__} does not speak Arrow; give a Polars, pandas or PyArrow "
            "table, or use VisitLog.from_columns"
        )


def column_of(values: Any, name: str) -> pa.Array:
    """Turn a list or array of Python or NumPy values into an Arrow array."""
    import pyarrow as pa

    try:
        column = pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise VisitLogError(f"values of mixed or unknown type ({error})", column=name) from error
    return column


def times_in(
    column: pa.Array, name: str, *, unit: str = "s", refuse_out_of_range: bool = True
) -> NDArray[np.int64]:
    """Microseconds since 1970 UTC; `MISSING` for null.

    Text is ISO 8601 (UTC where it names no zone) or a number; numbers are in `unit`. Raises
    `VisitLogError` with the row, counted from 0 within this column.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if unit not in _TIME_UNITS:
        raise InputError(f"unknown time unit {unit!r}; choose one of {', '.join(_TIME_UNITS)}")
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        zone = getattr(kind, "tz", None)
        micros = _as_int64(column.cast(pa.timestamp("us", zone), safe=False))
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        micros = _from_numbers(column, unit)
    elif pa.types.is_null(kind):
        micros = np.full(len(column), MISSING)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = pc.utf8_trim_whitespace(column)
        text = pc.if_else(pc.equal(text, ""), None, text)
        numeric = pc.fill_null(pc.match_substring_regex(text, _NUMBER), False)
        if pc.all(numeric, min_count=0).as_py() and text.null_count < len(text):
            micros = _from_numbers(_cast(text, pa.float64(), name), unit)
        else:
            zoned = pc.fill_null(pc.match_substring_regex(text, _ZONED), False)
            plain = pc.invert(pc.or_(numeric, zoned))
            with_zone = _cast(pc.if_else(zoned, text, None), pa.timestamp("us", "UTC"), name)
            without = _cast(pc.if_else(plain, text, None), pa.timestamp("us"), name)
            micros = _as_int64(
                pc.coalesce(with_zone.cast(pa.int64()), without.cast(pa.int64()))
            ).copy()
            if pc.any(numeric).as_py():
                number = _cast(pc.if_else(numeric, text, None), pa.float64(), name)
                rows = np.asarray(numeric)
                micros[rows] = _from_numbers(number, unit)[rows]
    else:
        raise VisitLogError(f"times cannot be of type {kind}", column=name)
    if refuse_out_of_range:
        _refuse_out_of_range(micros, column, name)
    return micros


def _from_numbers(column: pa.Array, unit: str) -> NDArray[np.int64]:
    import pyarrow as pa

    factor = _TIME_UNITS[unit]
    if pa.types.is_integer(column.type):
        values = _as_int64(column.cast(pa.int64()))
        largest = np.iinfo(np.int64).max // factor
        clipped = np.clip(values, -largest, largest) * factor
        return np.where(values == MISSING, MISSING, clipped)
    floats = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    micros = np.where(np.isfinite(floats), np.round(floats * factor), 0.0)
    whole = np.clip(micros, -9e18, 9e18).astype(np.int64)
    return np.where(np.isnan(floats), MISSING, np.where(np.isinf(floats), -1, whole))


def _refuse_out_of_range(micros: NDArray[np.int64], column: pa.Array, name: str) -> None:
    bad = np.flatnonzero((micros != MISSING) & ((micros < 0) | (micros > _LATEST)))
    if len(bad):
        row = int(bad[0])
        hint = "before 1970" if micros[row] < 0 else "after 2200 (milliseconds, not seconds?)"
        raise VisitLogError(f"the time {column[row].as_py()} is {hint}", row=row, column=name)


def flags_in(column: pa.Array, name: str) -> NDArray[np.int8]:
    """1, 0 and -1 for true, false and null; text and numbers are read as people write them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), -1, np.int8)
    if pa.types.is_boolean(kind):
        return np.asarray(column.cast(pa.int8()).fill_null(-1))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = pc.utf8_lower(pc.utf8_trim_whitespace(column)).cast(pa.string())
        yes = pc.is_in(text, pa.array(_TRUE))
        no = pc.is_in(text, pa.array(_FALSE))
        empty = pc.or_(pc.is_null(text), pc.is_in(text, pa.array(["", "null", "none", "nan"])))
    else:
        number = column.cast(pa.float64())
        yes = pc.fill_null(pc.equal(number, 1.0), False)
        no = pc.fill_null(pc.equal(number, 0.0), False)
        empty = pc.is_null(number, nan_is_null=True)
    known = np.asarray(pc.or_(pc.or_(yes, no), empty))
    if not known.all():
        row = int(np.argmin(known))
        raise VisitLogError(
            f"{column[row].as_py()!r} is neither true nor false (write true, false, 1, 0 or "
            "nothing)",
            row=row,
            column=name,
        )
    return np.where(np.asarray(yes), 1, np.where(np.asarray(no), 0, -1)).astype(np.int8)


def bytes_in(column: pa.Array, name: str) -> pa.Array:
    """Digests as binary. Text stands for its own bytes, or for hexadecimal after ``hex:``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_binary(kind):
        return column
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.binary())
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.binary())
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        column = column.cast(pa.string())
    column = pc.if_else(pc.equal(column, ""), None, column)
    if not pc.any(pc.starts_with(column, "hex:")).as_py():
        return column.cast(pa.string()).cast(pa.binary())
    decoded: list[bytes | None] = []
    for row, text in enumerate(column.to_pylist()):
        try:
            decoded.append(_digest_bytes(text))
        except ValueError as error:
            raise VisitLogError(
                f"not hexadecimal after 'hex:': {text!r}", row=row, column=name
            ) from error
    return pa.array(decoded, pa.binary())


def _digest_bytes(text: str | None) -> bytes | None:
    if text is None or not text.startswith("hex:"):
        return None if text is None else text.encode()
    return bytes.fromhex(text.removeprefix("hex:"))


def numbers_in(column: pa.Array, missing: int) -> NDArray[np.int64]:
    """Whole numbers with `missing` in place of null."""
    import pyarrow as pa

    return np.asarray(column.cast(pa.int64()).fill_null(missing))


def typed_column(column: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    """Cast with the first bad row named. Text that is empty is null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        text = pc.utf8_trim_whitespace(column)
        column = pc.if_else(pc.equal(text, ""), None, text)
    return _cast(column, kind, name)


def _cast(column: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    import pyarrow as pa

    def castable(part: pa.Array) -> bool:
        try:
            part.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return False
        return True

    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        row = _first_bad(column, castable)
        what = "a time" if pa.types.is_timestamp(kind) else f"a value of type {kind}"
        raise VisitLogError(
            f"this is not {what}: {column[row].as_py()!r}", row=row, column=name
        ) from error


def _first_bad(column: pa.Array, good: Callable[[pa.Array], bool]) -> int:
    """Bisect for the first row that cannot be used; only ever run on the way to an error."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        if good(column.slice(low, middle - low)):
            low = middle
        else:
            high = middle
    return low


def _as_int64(column: pa.Array) -> NDArray[np.int64]:
    import pyarrow as pa

    return np.asarray(column.cast(pa.int64()).fill_null(MISSING))
