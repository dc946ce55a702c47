"""What an index claims, what is true, and when we looked: the rows of an audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import EstimationError, InputError, VisitLogError
from observant.times import MICROSECONDS_PER_DAY, SECOND
from observant.visits.columns import MISSING, batches_of, column_of, times_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from observant.arrays import Flags, Floats, Integers


COLUMNS = ("source", "claimed_modified", "actual_modified", "checked_at")
"""The columns of a file of claims; each row is an entry of the index that was looked at."""


@dataclass(frozen=True, eq=False)
class Claims:
    """Rows of an audit. Build with `from_columns` or `from_arrow`; times are days since 1970."""

    source: Integers
    """A number for each source, the same for the same source."""
    claimed: Floats
    """When the index says the source was last modified; NaN where it says nothing."""
    actual: Floats
    """When it was; NaN where the source does not tell."""
    checked: Floats
    """When we looked."""
    notes: tuple[str, ...] = ()

    @classmethod
    def from_columns(
        cls,
        source: Any,
        claimed_modified: Any,
        actual_modified: Any,
        checked_at: Any,
        *,
        time_unit: str = "s",
    ) -> Claims:
        """Build from lists or arrays: datetimes, ISO 8601 text, or numbers in `time_unit`."""
        import pyarrow as pa

        given = (source, claimed_modified, actual_modified, checked_at)
        columns = [column_of(values, name) for values, name in zip(given, COLUMNS, strict=True)]
        if len({len(column) for column in columns}) > 1:
            told = ", ".join(f"{n} has {len(c)}" for n, c in zip(COLUMNS, columns, strict=True))
            raise InputError(f"the columns differ in length: {told}")
        return cls.from_arrow(pa.table(columns, names=list(COLUMNS)), time_unit=time_unit)

    @classmethod
    def from_arrow(cls, data: Any, *, time_unit: str = "s", name: str | None = None) -> Claims:
        """Build from anything that speaks Arrow, with the columns of `COLUMNS`."""
        return cls.from_batches(batches_of(data), time_unit=time_unit, name=name)

    @classmethod
    def from_batches(
        cls, batches: Iterable[pa.RecordBatch], *, time_unit: str = "s", name: str | None = None
    ) -> Claims:
        """Build from record batches; errors name the file `name` and the row, counted from 1."""
        import pyarrow as pa

        sources: list[pa.Array] = []
        times: list[Floats] = []
        rows = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            try:
                sources.append(_source_ids(batch))
                times.append(np.stack([_days_in(batch, c, time_unit) for c in COLUMNS[1:]]))
            except VisitLogError as error:
                row = None if error.row is None else rows + error.row + 1
                raise InputError(error.message, file=name, row=row, column=error.column) from error
            rows += batch.num_rows
        if not rows:
            raise InputError("no claims: there is not one row", file=name)
        codes = pa.chunked_array(sources).dictionary_encode().unify_dictionaries()
        claimed, actual, checked = np.concatenate(times, axis=1)
        old = [dates < 0.0 for dates in (claimed, actual)]
        notes = []
        if np.any(old):
            notes.append(f"{np.count_nonzero(old):,} dates before 1970 count as not known")
        return cls(
            source=np.concatenate([np.asarray(chunk.indices) for chunk in codes.chunks]).astype(
                np.int64
            ),
            claimed=np.where(old[0], np.nan, claimed),
            actual=np.where(old[1], np.nan, actual),
            checked=checked,
            notes=tuple(notes),
        )

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True, eq=False)
class Entries:
    """Claims that can be used, as ages in days of the last update and of the one the index knew."""

    source: Integers
    stale: Flags
    age: Floats
    known: Floats
    """Of a stale entry the age of the last update the index knew; else the age itself."""
    notes: tuple[str, ...]

    @classmethod
    def of(cls, claims: Claims, skew: float) -> Entries:
        both = ~(np.isnan(claims.claimed) | np.isnan(claims.actual))
        ahead = both & (np.fmax(claims.claimed, claims.actual) > claims.checked + skew)
        used = both & ~ahead
        if not used.any():
            raise EstimationError("no row has both dates, so the index cannot be audited")
        age = np.maximum((claims.checked - claims.actual)[used], SECOND)
        known = np.maximum((claims.checked - claims.claimed)[used], SECOND)
        later = known < age - skew
        stale = known > age + skew
        notes = [
            f"{np.count_nonzero(which):,} {words}"
            for which, words in (
                (~both, "rows lack one of the two dates and were left out"),
                (ahead, "rows have a date after the check and were left out"),
                (later, "claims are later than the last update and count as current"),
            )
            if which.any()
        ]
        return cls(claims.source[used], stale, age, np.where(stale, known, age), tuple(notes))

    def __len__(self) -> int:
        return len(self.age)

    @property
    def stale_count(self) -> int:
        return int(np.count_nonzero(self.stale))


def _source_ids(batch: pa.RecordBatch) -> pa.Array:
    import pyarrow as pa

    names = batch.schema.names
    for needed in COLUMNS:
        if needed not in names:
            raise VisitLogError(
                f"there is no column {needed!r}; claims have the columns {', '.join(COLUMNS)}, "
                f"these are {', '.join(names)}"
            )
    ids = batch.column("source").cast(pa.string())
    if ids.null_count:
        row = int(np.argmax(np.asarray(ids.is_null())))
        raise VisitLogError("the row names no source", row=row, column="source")
    return ids


def _days_in(batch: pa.RecordBatch, column: str, time_unit: str) -> Floats:
    import pyarrow as pa

    values = batch.column(column)
    if pa.types.is_dictionary(values.type) or pa.types.is_string_view(values.type):
        values = values.cast(pa.string())
    is_check = column == "checked_at"
    times = times_in(values, column, unit=time_unit, refuse_out_of_range=is_check)
    missing = times == MISSING
    if is_check and missing.any():
        raise VisitLogError(
            "the time of the check is missing", row=int(np.argmax(missing)), column=column
        )
    return np.where(missing, np.nan, times / MICROSECONDS_PER_DAY)
