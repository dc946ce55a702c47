"""From whatever people have to the types of a visit log, with the row named when it cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError, VisitLogError
from observant.times import COMPACT, LATEST, MICROSECONDS_PER_DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from observant.arrays import Integers

MISSING = int(np.iinfo(np.int64).min)
"""In place of a time that is not known (Arrow's and NumPy's own sign for it)."""

TIME_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "d": MICROSECONDS_PER_DAY}
_NUMBER = r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$"
_COMPACT = rf"^{COMPACT}$"
_SPELT = (
    (r"^(\d{4})(\d\d)(\d\d)", r"\1-\2-\3"),
    (r"(-\d\d)(\d\d)(\d\d)(\d\d)$", r"\1 \2:\3:\4"),
)
_ZONED = r"\d[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
# What others write and Arrow does not read: nanoseconds, "UTC", a space before the zone, t and z.
_MENDED = (
    (r"(\.\d{6})\d+", r"\1"),
    (r"^(\d{4}-\d\d-\d\d)t", r"\1T"),
    (r"(:\d\d(?:\.\d+)?) *(?:UTC|utc|GMT|z|Z)$", r"\1Z"),
    (r"(:\d\d(?:\.\d+)?) +([+-]\d\d(?::?\d\d)?)$", r"\1\2"),
)
_TRUE, _FALSE = ("1", "1.0", "true", "t", "yes", "y"), ("0", "0.0", "false", "f", "no", "n")
_ROWS_PER_BATCH = 1 << 20


def batches_of(data: Any) -> Iterator[pa.RecordBatch]:
    """Record batches of anything that speaks Arrow; at least one, were it empty."""
    import pyarrow as pa

    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if not hasattr(data, "__arrow_c_stream__"):
        raise InputError(
            f"a {type(data).__name__} does not speak Arrow; give a Polars, pandas or PyArrow "
            "table, or use VisitLog.from_columns"
        )
    try:
        reader = pa.RecordBatchReader.from_stream(data)
        batch = None
        for batch in reader:
            for start in range(0, max(batch.num_rows, 1), _ROWS_PER_BATCH):
                yield batch.slice(start, _ROWS_PER_BATCH)
        if batch is None:
            yield pa.RecordBatch.from_pylist([], schema=reader.schema)
    except (pa.ArrowException, TypeError, ValueError) as error:
        told = ": ".join(str(part) for part in error.args)
        raise InputError(f"this {type(data).__name__} is no Arrow table ({told})") from error


def column_of(values: Any, name: str) -> pa.Array:
    """Turn a list or array of Python or NumPy values into an Arrow array."""
    import pyarrow as pa

    if isinstance(values, str | bytes | dict | set | frozenset):
        raise VisitLogError(
            f"a {type(values).__name__} where a list or an array was expected", column=name
        )
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        values = values.astype("M8[us]")
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise VisitLogError(f"values of mixed or unknown type ({error})", column=name) from error


def plain_column(column: pa.Array) -> pa.Array:
    """Undo the ways Arrow has of storing a plain column: dictionary, view, run, extension."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        return plain_column(column.dictionary).take(column.indices)
    if isinstance(kind, pa.BaseExtensionType):
        return plain_column(column.storage)
    if pa.types.is_run_end_encoded(kind):
        return plain_column(pc.run_end_decode(column))
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    if pa.types.is_binary_view(kind):
        return column.cast(pa.large_binary())
    return column


def text_in(column: pa.Array, name: str) -> pa.Array:
    """Text; of bytes, the text they spell in UTF-8; of numbers, their digits."""
    import pyarrow as pa

    kind = column.type
    if _is_text(kind):
        return column
    if pa.types.is_large_binary(kind):
        return _cast(column, pa.large_string(), name)
    return _cast(column, pa.string(), name)


def times_in(
    column: pa.Array, name: str, *, unit: str = "s", refuse_out_of_range: bool = True
) -> Integers:
    """Microseconds since 1970 UTC; `MISSING` for null.

    Text is ISO 8601 (UTC where it names no zone) or a number; numbers are in `unit`, unless all
    are dates in eight or fourteen digits. Raises `VisitLogError` with the row, counted from 0
    within this column.
    """
    import pyarrow as pa

    if unit not in TIME_UNITS:
        raise InputError(f"unknown time unit {unit!r}; choose one of {', '.join(TIME_UNITS)}")
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        micros = _from_instants(column)
    elif pa.types.is_integer(kind) and unit == "s" and _are_dates(column):
        micros = _from_text(column.cast(pa.string()), unit, name)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        micros = _from_numbers(column, unit)
    elif pa.types.is_null(kind):
        micros = np.full(len(column), MISSING)
    elif _is_text(kind):
        micros = _from_text(column, unit, name)
    else:
        raise VisitLogError(f"times cannot be of type {kind}", column=name)
    if refuse_out_of_range:
        _refuse_out_of_range(micros, column, name)
    return micros


def _from_instants(column: pa.Array) -> Integers:
    """Timestamps in any unit, finer ones cut; what int64 cannot hold is as far away as it can."""
    import pyarrow as pa

    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("ms" if pa.types.is_date64(column.type) else "s"))
    unit, counts = column.type.unit, _as_int64(column)
    if unit == "ns":
        return np.where(counts == MISSING, MISSING, counts // 1_000)
    return _scaled(counts, TIME_UNITS[unit])


def _from_numbers(column: pa.Array, unit: str) -> Integers:
    import pyarrow as pa
    import pyarrow.compute as pc

    factor = TIME_UNITS[unit]
    if pa.types.is_uint64(column.type):
        column = pc.min_element_wise(column, pa.scalar(2**63 - 1, pa.uint64()), skip_nulls=False)
    if pa.types.is_integer(column.type):
        return _scaled(_as_int64(column), factor)
    floats = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        micros = np.round(np.nan_to_num(floats, posinf=9e18, neginf=-9e18) * factor)
    whole = np.clip(micros, -9e18, 9e18).astype(np.int64)
    return np.where(np.isnan(floats), MISSING, whole)


def _from_text(column: pa.Array, unit: str, name: str) -> Integers:
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pc.utf8_trim_whitespace(column)
    text = pc.if_else(pc.equal(text, ""), None, text)
    if unit == "s" and pc.all(pc.match_substring_regex(text, _COMPACT), min_count=1).as_py():
        for pattern, written in _SPELT:
            text = pc.replace_substring_regex(text, pattern, written)
        return _from_iso(text, name, shown=column)
    numeric = pc.fill_null(pc.match_substring_regex(text, _NUMBER), False)
    if pc.all(numeric, min_count=0).as_py() and len(text):
        return _from_numbers(_cast(text, pa.float64(), name), unit)
    instants = pc.if_else(numeric, None, text)
    try:
        micros = _from_iso(instants, name)
    except VisitLogError:
        for pattern, written in _MENDED:
            instants = pc.replace_substring_regex(instants, pattern, written)
        micros = _from_iso(instants, name, shown=text)
    if pc.any(numeric).as_py():
        number = _cast(pc.if_else(numeric, text, None), pa.float64(), name)
        micros = np.where(np.asarray(numeric), _from_numbers(number, unit), micros)
    return micros


def _are_dates(column: pa.Array) -> bool:
    """Whether whole numbers may all be dates in eight digits, 20260131."""
    import pyarrow.compute as pc

    bounds = pc.min_max(column).as_py()
    return bounds["min"] is not None and 19_700_101 <= bounds["min"] <= bounds["max"] < 22_000_000


def _from_iso(text: pa.Array, name: str, shown: pa.Array | None = None) -> Integers:
    import pyarrow as pa
    import pyarrow.compute as pc

    zoned = pc.fill_null(pc.match_substring_regex(text, _ZONED), False)
    with_zone = _cast(pc.if_else(zoned, text, None), pa.timestamp("us", "UTC"), name, shown)
    without = _cast(pc.if_else(zoned, None, text), pa.timestamp("us"), name, shown)
    return _as_int64(pc.coalesce(with_zone.cast(pa.int64()), without.cast(pa.int64())))


def _scaled(values: Integers, factor: int) -> Integers:
    largest = np.iinfo(np.int64).max // factor
    return np.where(values == MISSING, MISSING, np.clip(values, -largest, largest) * factor)


def _refuse_out_of_range(micros: Integers, column: pa.Array, name: str) -> None:
    bad = np.flatnonzero(
        (micros != MISSING) & ((micros < 0) | (micros > LATEST * MICROSECONDS_PER_DAY))
    )
    if len(bad):
        row = int(bad[0])
        hint = "before 1970" if micros[row] < 0 else "after 2200 (milliseconds, not seconds?)"
        raise VisitLogError(
            f"the time {_shown(column, row, quoted=False)} is {hint}", row=row, column=name
        )


def flags_in(column: pa.Array, name: str) -> NDArray[np.int8]:
    """1, 0 and -1 for true, false and null; text and numbers are read as people write them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), -1, np.int8)
    if pa.types.is_boolean(kind):
        return np.asarray(column.cast(pa.int8()).fill_null(-1))
    if _is_text(kind):
        text = pc.utf8_lower(pc.utf8_trim_whitespace(column)).cast(pa.string())
        yes = pc.is_in(text, pa.array(_TRUE))
        no = pc.is_in(text, pa.array(_FALSE))
        empty = pc.or_(pc.is_null(text), pc.is_in(text, pa.array(["", "null", "none", "nan"])))
    else:
        number = _cast(column, pa.float64(), name)
        yes = pc.fill_null(pc.equal(number, 1.0), False)
        no = pc.fill_null(pc.equal(number, 0.0), False)
        empty = pc.is_null(number, nan_is_null=True)
    known = np.asarray(pc.or_(pc.or_(yes, no), empty))
    if not known.all():
        row = int(np.argmin(known))
        raise VisitLogError(
            f"{_shown(column, row)} is neither true nor false (write true, false, 1, 0 or nothing)",
            row=row,
            column=name,
        )
    return np.where(np.asarray(yes), 1, np.where(np.asarray(no), 0, -1)).astype(np.int8)


def bytes_in(column: pa.Array, name: str) -> pa.Array:
    """Digests as binary. Text stands for its own bytes, or for hexadecimal after ``hex:``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return column
    if pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.binary())
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.binary())
    column = text_in(column, name)
    column = pc.if_else(pc.equal(column, ""), None, column)
    if not pc.any(pc.starts_with(column, "hex:")).as_py():
        return column.cast(
            pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
        )
    decoded: list[bytes | None] = []
    for row, text in enumerate(column.to_pylist()):
        try:
            decoded.append(_digest_bytes(text))
        except ValueError as error:
            raise VisitLogError(
                f"not hexadecimal after 'hex:': {_shown(column, row)}", row=row, column=name
            ) from error
    return pa.array(decoded, pa.binary())


def _digest_bytes(text: str | None) -> bytes | None:
    if text is None or not text.startswith("hex:"):
        return None if text is None else text.encode()
    return bytes.fromhex(text.removeprefix("hex:"))


def numbers_in(column: pa.Array, missing: int) -> Integers:
    """Whole numbers with `missing` in place of null."""
    import pyarrow as pa

    return np.asarray(column.cast(pa.int64()).fill_null(missing))


def typed_column(column: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    """Cast to numbers with the first bad row named. Empty text and not-a-number are null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if _is_text(column.type):
        text = pc.utf8_trim_whitespace(column)
        column = pc.if_else(pc.equal(text, ""), None, text)
        if pa.types.is_integer(kind):  # a whole number that passed through a column of floats
            column = pc.replace_substring_regex(column, r"^([+-]?\d+)\.0*$", r"\1")
    elif pa.types.is_floating(column.type):
        column = _without_nan(column)
    column = _cast(column, kind, name)
    return _without_nan(column) if pa.types.is_floating(kind) else column


def _without_nan(column: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return pc.if_else(pc.is_nan(column), None, column)


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _cast(
    column: pa.Array, kind: pa.DataType, name: str, shown: pa.Array | None = None
) -> pa.Array:
    """Cast, or name the first row that cannot be, as it is in `shown`."""
    import pyarrow as pa

    def castable(part: pa.Array) -> bool:
        try:
            part.cast(kind)
        except (pa.ArrowException, ValueError):
            return False
        return True

    try:
        return column.cast(kind)
    except (pa.ArrowException, ValueError) as error:
        time = pa.types.is_timestamp(kind)
        what = "a time" if time else _WORDS.get(str(kind), f"a value of type {kind}")
        if not castable(column.slice(0, 0)):
            raise VisitLogError(
                f"a value of type {column.type} cannot be read as {what}", column=name
            ) from error
        row = first_bad(column, castable)
        value = _shown(column if shown is None else shown, row)
        hint = " (write ISO 8601, or seconds since 1970)" if time else ""
        raise VisitLogError(f"this is not {what}: {value}{hint}", row=row, column=name) from error


_WORDS = {
    "int16": "a whole number from -32768 to 32767",
    "int64": "a whole number",
    "double": "a number",
    "string": "text in UTF-8",
    "large_string": "text in UTF-8",
}


def first_bad(column: pa.Array, good: Callable[[pa.Array], bool]) -> int:
    """Bisect for the first row that cannot be used; only ever run on the way to an error."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        if good(column.slice(low, middle - low)):
            low = middle
        else:
            high = middle
    return low


def _shown(column: pa.Array, row: int, *, quoted: bool = True) -> str:
    """A value for a message; also one that Python has no type for, or that is no text."""
    import pyarrow as pa

    try:
        value = column[row].as_py()
    except UnicodeDecodeError:
        value = column[row].cast(pa.large_binary()).as_py()
    except (ValueError, OverflowError, KeyError):  # the last is a time zone that nobody knows
        value = str(column[row].value)
    text = repr(value) if quoted else str(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _as_int64(column: pa.Array) -> Integers:
    import pyarrow as pa

    return np.asarray(column.cast(pa.int64()).fill_null(MISSING))
