"""The reader of visit logs: batches of rows in any order go in, a checked `VisitLog` comes out."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError, VisitLogError
from observant.names import DUPLICATES
from observant.tables import Note
from observant.times import MICROSECONDS_PER_DAY
from observant.units import format_duration, parse_duration
from observant.visits.changes import compare_visits
from observant.visits.columns import (
    MISSING,
    bytes_in,
    first_bad,
    flags_in,
    plain_column,
    text_in,
    times_in,
    typed_column,
)
from observant.visits.log import COLUMNS, VisitLog
from observant.visits.order import SourceIndex, blocks_of_sources, sort_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from observant.arrays import Flags, Integers


_LARGE = 2**31 - 1  # bytes in an Arrow array of texts with offsets of 32 bits
HOST_PATTERN = r"^[a-zA-Z][a-zA-Z0-9+.\-]*://(?:[^/?#@]*@)?(?P<host>\[[^\]]*\]|[^/?#:]*)"
"""The host of a URL, as its group `host`; what is no URL does not match."""


class LogReader:
    """Collects batches of rows, checks them, and makes a `VisitLog` of them.

    Only what the log keeps is held: a batch can be forgotten as soon as it was added, so that
    memory is bounded by the log's own columns.

    >>> import pyarrow as pa
    >>> reader = LogReader(name="visits.csv")
    >>> reader.add(pa.record_batch({"source": ["a", "a"], "time": [10, 10]}))
    >>> reader.finish()
    Traceback (most recent call last):
        ...
    observant.errors.VisitLogError: visits.csv, row 2, column time, source 'a': the second visit \
at 1970-01-01T00:00:10Z (the first is row 1); drop one, or \
keep the "first" or the "last" (on_duplicate)
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        group: str | None = None,
        time_unit: str = "s",
        skew: float = 1.0,
        on_duplicate: str = "error",
    ) -> None:
        if on_duplicate not in DUPLICATES:
            raise InputError(f"on_duplicate is error, first or last, not {on_duplicate!r}")
        self._group, self._time_unit, self._on_duplicate = group, time_unit, on_duplicate
        # A century allows everything, and stays within int64.
        self._skew = round(min(parse_duration(skew), 36_525.0) * MICROSECONDS_PER_DAY)
        self._file_starts: list[int] = [0]
        self._file_names: list[str | None] = [name]
        self._rows = 0
        self._sources = SourceIndex()
        # Of each column the pieces that came, with the row each begins at.
        self._pieces: dict[str, list[tuple[int, Any]]] = {}
        self._group_is_host = False

    def begin_file(self, name: str) -> None:
        """Say that the next batches come from another file, whose rows are counted anew."""
        self._file_starts.append(self._rows)
        self._file_names.append(name)

    def add(self, batch: pa.RecordBatch) -> None:
        """Check one batch of rows and keep what the log needs of it."""
        import pyarrow as pa

        try:
            try:
                columns = self._parse(batch)
            except pa.ArrowException as error:
                raise _what_arrow_could_not_read(batch, error) from error
        except VisitLogError as error:
            file, row = self.place(self._rows + (error.row or 0))
            raise VisitLogError(
                error.message,
                file=file,
                row=None if error.row is None else row,
                column=error.column,
            ) from error.__cause__
        self._sources.add(columns.pop("source"))
        for name, values in columns.items():
            self._pieces.setdefault(name, []).append((self._rows, values))
        self._rows += batch.num_rows

    def finish(self) -> VisitLog:
        """Group by source, sort by time, compare visits, and refuse what breaks the rules."""
        if self._rows == 0:
            more = len(self._file_names) - 1
            others = {0: "", 1: ", and so is 1 more file"}.get(
                more, f", and so are {more} more files"
            )
            raise VisitLogError(f"no visits: the log is empty{others}", file=self._file_names[0])
        codes, sources = self._sources.finish()
        self._refuse_broken_text(sources, codes)
        time = self._numbers("time")
        order, offsets = sort_rows(codes, time, len(sources))
        del codes
        time = time[order]
        twins = _equal_neighbours(time, offsets)
        if len(twins):
            order, offsets, time = self._settle_twins(twins, order, offsets, time, sources)

        changed = self._numbers("changed", np.int8(-1))[order]
        last_modified, notes = self._dates(order, time)
        extras: dict[str, pa.Array] = {
            name: self._arrow(name, order)
            for name in ("digest", "magnitude", "status", "bytes")
            if name in self._pieces
        }
        digests = extras.get("digest")
        if digests is not None:
            self._refuse_mixed_digests(digests, offsets, order, sources)
        notes += compare_visits(
            offsets, time, changed, last_modified, digests, extras.get("status")
        )
        if last_modified is not None:
            # Within the allowance the two clocks differ: the source changed just now.
            np.minimum(last_modified, time, out=last_modified)
        groups = self._groups(sources, offsets, order)
        return VisitLog(
            sources=sources,
            offsets=offsets,
            time=time,
            changed=changed,
            last_modified=last_modified,
            extras=extras,
            groups=groups,
            notes=tuple(notes),
        )

    # -- one batch --------------------------------------------------------------------------

    def _parse(self, batch: pa.RecordBatch) -> dict[str, Any]:
        import pyarrow as pa

        names = batch.schema.names
        for needed in ("source", "time"):
            if needed not in names:
                near = _near_miss(needed, names)
                raise VisitLogError(
                    f"there is no column {needed!r}; the columns are {', '.join(names)}{near}"
                )
        for name in (*COLUMNS, self._group):
            if names.count(name) > 1:
                raise VisitLogError(f"there are {names.count(name)} columns {name!r}")
        columns: dict[str, Any] = {"source": _ids(batch.column("source"))}
        time = times_in(plain_column(batch.column("time")), "time", unit=self._time_unit)
        if (time == MISSING).any():
            row = int(np.argmax(time == MISSING))
            raise VisitLogError("the visit has no time", row=row, column="time")
        columns["time"] = time
        if "changed" in names:
            columns["changed"] = flags_in(plain_column(batch.column("changed")), "changed")
        if "last_modified" in names:
            columns["last_modified"] = times_in(
                plain_column(batch.column("last_modified")),
                "last_modified",
                unit=self._time_unit,
                refuse_out_of_range=False,
            )
        if "digest" in names:
            columns["digest"] = bytes_in(plain_column(batch.column("digest")), "digest")
        for name, kind, low, high in (
            ("magnitude", pa.float64(), 0, 1),
            ("status", pa.int16(), -(2**15), 2**15),
            ("bytes", pa.int64(), 0, 2**63 - 1),
        ):
            if name in names:
                column = typed_column(plain_column(batch.column(name)), kind, name)
                _refuse_outside(column, low, high, name)
                columns[name] = column
        if self._group is not None:
            if self._group in names:
                columns["group"] = text_in(plain_column(batch.column(self._group)), self._group)
            elif self._group == "host" and "group" not in self._pieces:
                self._group_is_host = True
            else:
                raise VisitLogError(
                    f"there is no column {self._group!r} to group by; the columns are "
                    f"{', '.join(names)} ('host' is derived from URLs where no file has it)"
                )
            if self._group_is_host and "group" in columns:
                raise VisitLogError(
                    "there is a column 'host' here and none in the rows before", column="host"
                )
        return columns

    # -- all rows ---------------------------------------------------------------------------

    def _numbers(self, name: str, missing: Any = MISSING) -> NDArray[Any]:
        column = np.full(self._rows, missing)
        for start, values in self._pieces.pop(name, []):
            column[start : start + len(values)] = values
        return column

    def _arrow(self, name: str, order: NDArray[Any]) -> pa.Array:
        import pyarrow as pa

        pieces, chunks, row = self._pieces.pop(name), [], 0
        kind, size = pieces[0][1].type, sum(values.nbytes for _, values in pieces)
        small = {pa.large_binary(): pa.binary(), pa.large_string(): pa.string()}
        large = {few: many for many, few in small.items()}
        if size > _LARGE or any(values.type in small for _, values in pieces):
            kind = large.get(kind, kind)
        for start, values in [*pieces, (self._rows, pieces[0][1].slice(0, 0))]:
            if start > row:
                chunks.append(pa.nulls(start - row, kind))
            chunks.append(values.cast(kind))
            row = start + len(values)
        taken = pa.chunked_array(chunks).take(pa.array(order))
        taken = taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken
        return taken.cast(small.get(kind, kind)) if size <= _LARGE else taken

    def _dates(self, order: NDArray[Any], time: Integers) -> tuple[Integers | None, list[str]]:
        """Keep dates of modification that can be true; count those that cannot."""
        if "last_modified" not in self._pieces:
            return None, []
        dates = self._numbers("last_modified")[order]
        known = dates != MISSING
        ahead = known & (dates > time + self._skew)
        before = known & (dates < 0)
        dates[ahead | before] = MISSING
        notes: list[str] = []
        if ahead.any():
            allowed = format_duration(self._skew / MICROSECONDS_PER_DAY)
            notes.append(_set_aside(ahead, f"more than {allowed} after the visit"))
        if before.any():
            notes.append(_set_aside(before, "before 1970"))
        return dates, notes

    def _settle_twins(
        self,
        twins: Integers,
        order: NDArray[Any],
        offsets: Integers,
        time: Integers,
        sources: pa.Array,
    ) -> tuple[NDArray[Any], Integers, Integers]:
        """Two visits to a source at one time: refuse, or keep the first or the last given."""
        if self._on_duplicate == "error":
            at = int(twins[0])
            file, row = self.place(int(order[at]))
            other = self.place(int(order[at - 1]))
            instant = np.datetime64(int(time[at]), "us").astype(object)
            raise VisitLogError(
                f"the second visit at {instant.isoformat()}Z (the first is "
                f"{'' if other[0] == file else f'{other[0]}, '}row {other[1]}); drop one, or "
                'keep the "first" or the "last" (on_duplicate)',
                file=file,
                row=row,
                column="time",
                source=_source_at(at, offsets, sources),
            )
        # Rows of one source and time are still in the order they were given.
        dropped = twins if self._on_duplicate == "first" else twins - 1
        kept = np.ones(len(order), bool)
        kept[dropped] = False
        before = np.concatenate([[0], np.cumsum(kept)])
        return order[kept], before[offsets], time[kept]

    def _refuse_mixed_digests(
        self, digests: pa.Array, offsets: Integers, order: NDArray[Any], sources: pa.Array
    ) -> None:
        import pyarrow.compute as pc

        length = np.asarray(pc.binary_length(digests).fill_null(-1))
        for first, last in blocks_of_sources(offsets):
            rows = np.arange(offsets[first], offsets[last])
            rows = rows[length[rows] >= 0]
            which = np.searchsorted(offsets, rows, side="right")
            bad = (length[rows[1:]] != length[rows[:-1]]) & (which[1:] == which[:-1])
            if bad.any():
                at = int(rows[1:][np.argmax(bad)])
                earlier = int(rows[:-1][np.argmax(bad)])
                file, row = self.place(int(order[at]))
                raise VisitLogError(
                    f"mixed digests: this one has {length[at]} bytes, the one before "
                    f"{length[earlier]}; digests of one source must come from one function",
                    file=file,
                    row=row,
                    column="digest",
                    source=_source_at(at, offsets, sources),
                )

    def _refuse_broken_text(self, sources: pa.Array, codes: NDArray[np.int32]) -> None:
        broken = first_broken_text(sources)
        if broken is not None:
            file, row = self.place(int(np.argmax(codes == broken)))
            raise VisitLogError("this is not text in UTF-8", file=file, row=row, column="source")

    def _groups(self, sources: pa.Array, offsets: Integers, order: NDArray[Any]) -> pa.Array | None:
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._group_is_host:
            found = pc.extract_regex(sources, HOST_PATTERN)
            return pc.coalesce(pc.utf8_lower(pc.struct_field(found, 0)), sources)
        if "group" not in self._pieces:
            return None
        column = self._arrow("group", order).fill_null("").dictionary_encode()
        broken = first_broken_text(column.dictionary)
        if broken is not None:
            file, row = self.place(int(order[np.argmax(np.asarray(column.indices) == broken)]))
            raise VisitLogError("this is not text in UTF-8", file=file, row=row, column=self._group)
        codes = np.asarray(column.indices)
        firsts = codes[offsets[:-1]]
        differs = codes != np.repeat(firsts, np.diff(offsets))
        if differs.any():
            at = int(np.argmax(differs))
            file, row = self.place(int(order[at]))
            raise VisitLogError(
                f"the group is {column.dictionary[int(codes[at])].as_py()!r} here and "
                f"{column.dictionary[int(firsts[_which(at, offsets)])].as_py()!r} at the first "
                "visit; a source belongs to one group",
                file=file,
                row=row,
                column=self._group,
                source=_source_at(at, offsets, sources),
            )
        return column.dictionary.take(pa.array(firsts))

    def place(self, row: int) -> tuple[str | None, int]:
        """File and row (counted from 1) of a row counted over all files."""
        file = bisect_right(self._file_starts, row) - 1
        return self._file_names[file], row - self._file_starts[file] + 1


def _ids(column: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    column = text_in(plain_column(column), "source")
    empty = pc.or_kleene(pc.is_null(column), pc.equal(column, ""))
    if pc.any(empty).as_py():
        row = int(np.argmax(np.asarray(empty)))
        raise VisitLogError("the visit names no source", row=row, column="source")
    return column


def _refuse_outside(column: pa.Array, low: int, high: int, name: str) -> None:
    import pyarrow.compute as pc

    bad = pc.or_(pc.less(column, low), pc.greater(column, high))
    if pc.any(bad).as_py():
        row = int(np.argmax(np.asarray(bad.fill_null(False))))
        raise VisitLogError(
            f"{column[row].as_py()} is not between {low} and {high}", row=row, column=name
        )


def _set_aside(which: Flags, reason: str) -> Note:
    return Note(
        f"set aside: {{n}} dates of modification {reason}",
        int(np.count_nonzero(which)),
        f"set aside: {{n}} date of modification {reason}",
    )


def _equal_neighbours(time: Integers, offsets: Integers) -> Integers:
    """Rows with the time of the row before, within one source."""
    found = [
        1 + start + np.flatnonzero(time[start + 1 : stop] == time[start : stop - 1])
        for first, last in blocks_of_sources(offsets)
        for start, stop in [(int(offsets[first]), int(offsets[last]))]
    ]
    rows: Integers = np.concatenate(found)
    begins: Flags = offsets[np.searchsorted(offsets, rows, side="right") - 1] == rows
    return rows[~begins]


def _which(row: int, offsets: Integers) -> int:
    return int(np.searchsorted(offsets, row, side="right")) - 1


def _source_at(row: int, offsets: Integers, sources: pa.Array) -> str:
    return str(sources[_which(row, offsets)].as_py())


def first_broken_text(texts: pa.Array) -> int | None:
    """Find the first text that is not UTF-8, as Arrow promises but does not check."""

    def sound(part: pa.Array) -> bool:
        try:
            part.validate(full=True)
        except ValueError:
            return False
        return True

    return None if sound(texts) else first_bad(texts, sound)


def _what_arrow_could_not_read(batch: pa.RecordBatch, error: Exception) -> VisitLogError:
    """Name the text that is not UTF-8, the one thing that its type promised and did not hold."""
    import pyarrow as pa

    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        plain = plain_column(column)
        if pa.types.is_string(plain.type) or pa.types.is_large_string(plain.type):
            row = first_broken_text(plain)
            if row is not None:
                return VisitLogError("this is not text in UTF-8", row=row, column=name)
    return VisitLogError(f"cannot be read: {error}")


def _near_miss(needed: str, names: list[str]) -> str:
    from difflib import get_close_matches

    known = {
        "source": {"url", "uri", "page", "id", "key", "urlkey"},
        "time": {"timestamp", "visited", "visited_at", "date", "seen_at", "fetched", "fetch_time"},
    }[needed]
    near = [name for name in names if name.strip().lower() in known | {needed}]
    near = near or get_close_matches(needed, names, 1, 0.7)
    return f"; rename {near[0]!r} to {needed!r}?" if near else ""
