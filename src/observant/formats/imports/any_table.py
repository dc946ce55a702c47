"""Any table of visits, CSV, JSON Lines or Parquet, whatever its columns are called."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any, BinaryIO

from observant.errors import InputError, VisitLogError
from observant.formats.imports.base import Batches, Importer
from observant.formats.imports.lines import json_objects, lines
from observant.units import counted
from observant.visits.log import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.files import ImportFile
    from observant.formats.imports.report import Report

_NEEDED = ("source", "time")
_FEW = 64  # rows
_PROBE = 1000
"""Rows of which one at least must be readable: each that is not costs a millisecond."""


class PlainTable(Importer):
    """Rows with a source and a time, and whatever else the visit log has.

    ``--map`` says which column of the file each column of the visit log is; those that are not
    named are looked for under their own name.
    """

    name = "table"
    title = "table of visits (CSV, JSON Lines, Parquet) with your own column names"
    evidence: Evidence = "V"
    endings = (".parquet", ".pq", ".csv", ".tsv", ".jsonl", ".ndjson")

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether there are columns called source and time."""
        if head.startswith(b"PAR1\n"):
            return {b"source", b"time"} <= set(head.split(b"\n"))
        first = head.partition(b"\n")[0].decode("utf-8-sig", "replace").strip()
        if first.startswith("{"):
            try:
                return set(json.loads(first)) >= set(_NEEDED)
            except (ValueError, RecursionError):
                return False
        return {cell.strip('" ') for cell in first.split(_delimiter(first))} >= set(_NEEDED)

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield the rows that can be read; one that cannot is malformed, and the rest go on."""
        names = {column: options.mapping.get(column, column) for column in COLUMNS}
        unit = options.time_unit
        if file.head().startswith(b"PAR1"):
            batches = _from_parquet(file, options)
        else:
            batches = _from_text(file, options, report)
        first = True
        for whole, numbers in batches:
            report.add_rows(whole.num_rows)
            batch = _renamed(whole, names)
            if first and batch.num_rows > _PROBE:
                readable = list(_checked(batch.slice(0, _PROBE), numbers[:_PROBE], unit, report))
                if not readable:
                    raise InputError(
                        f"none of the first {_PROBE:,} rows can be read "
                        f"({report.samples[0].reason}); --map says which column is which",
                        file=file.name,
                    )
                yield from readable
                batch, numbers = batch.slice(_PROBE), numbers[_PROBE:]  # noqa: PLW2901
            first = False
            yield from _checked(batch, numbers, unit, report)


def _from_parquet(
    file: ImportFile, options: ImportOptions
) -> Iterator[tuple[pa.RecordBatch, Sequence[int]]]:
    import pyarrow.parquet as pq

    with file.local() as path:
        parquet = pq.ParquetFile(path, pre_buffer=False)
        wanted = {options.mapping.get(column, column) for column in COLUMNS}
        columns = [name for name in parquet.schema_arrow.names if name in wanted]
        row = 1
        for batch in parquet.iter_batches(
            batch_size=options.batch_rows, columns=columns or parquet.schema_arrow.names
        ):
            yield batch, range(row, row + batch.num_rows)
            row += batch.num_rows


def _from_text(
    file: ImportFile, options: ImportOptions, report: Report
) -> Iterator[tuple[pa.RecordBatch, Sequence[int]]]:
    with file.open() as stream:
        start = stream.peek(64)[:64].lstrip(b"\xef\xbb\xbf \t\r\n")  # type: ignore[attr-defined]
        if start[:1] in {b"{", b"["}:
            yield from _from_json(stream, options, report)
        else:
            yield from _from_csv(stream, options, report)


def _from_json(
    stream: BinaryIO, options: ImportOptions, report: Report
) -> Iterator[tuple[pa.RecordBatch, Sequence[int]]]:
    waiting: list[dict[str, Any]] = []
    numbers: list[int] = []
    for number, found in json_objects(stream, report):
        report.add_rows(-1)  # it is counted with its batch
        waiting.append(found)
        numbers.append(number)
        if len(waiting) >= options.batch_rows:
            yield _columns(waiting), numbers
            waiting, numbers = [], []
    if waiting:
        yield _columns(waiting), numbers


def _columns(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    import pyarrow as pa

    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.RecordBatch.from_arrays([_column([row.get(n) for row in rows]) for n in names], names)


def _column(values: list[Any]) -> pa.Array:
    """Values as they are if they are of one type; else as people would write them."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        texts = [None if value is None else str(value) for value in values]
        return pa.array(
            [None if t is None else t.encode("utf-8", "replace").decode() for t in texts]
        )


def _from_csv(
    stream: BinaryIO, options: ImportOptions, report: Report
) -> Iterator[tuple[pa.RecordBatch, Sequence[int]]]:
    """Cells as text, in batches; a row with too few or too many of them is malformed."""
    import pyarrow as pa

    texts = (f"{text}\n" for _, text in lines(stream, report))
    header = next(texts, "")
    if not header.strip():
        raise InputError("is empty; the first line must name the columns")
    delimiter = _delimiter(header)
    try:
        names = [cell.strip() for cell in next(csv.reader([header], delimiter=delimiter))]
    except csv.Error as error:
        raise InputError(f"the first line must name the columns ({error})") from error
    rows, waiting, numbers = csv.reader(texts, delimiter=delimiter), [], []
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            report.add_rows()
            report.malformed(rows.line_num + 1, f"cannot be read as CSV: {error}")
            continue
        if row is not None and len(row) == len(names):
            waiting.append(row)
            numbers.append(rows.line_num + 1)
        elif row:
            report.add_rows()
            reason = f"{counted(len(row), 'cell')} where the header names {len(names)}"
            report.malformed(rows.line_num + 1, reason, delimiter.join(row))
        if waiting and (row is None or len(waiting) >= options.batch_rows):
            columns = [pa.array(cells, pa.string()) for cells in zip(*waiting, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, names), numbers
            waiting, numbers = [], []
        if row is None:
            return


def _delimiter(header: str) -> str:
    return max(",\t;|", key=header.count)


def _renamed(batch: pa.RecordBatch, names: Mapping[str, str]) -> pa.RecordBatch:
    """The columns of the visit log, under its names."""
    import pyarrow as pa

    there = batch.schema.names
    for column in _NEEDED:
        if there.count(names[column]) != 1:
            count = "no" if names[column] not in there else "more than one"
            raise InputError(
                f"there is {count} column {names[column]!r}; the columns are {', '.join(there)}. "
                f"Say which it is: --map {column}=NAME"
            )
    found = {ours: theirs for ours, theirs in names.items() if there.count(theirs) == 1}
    return pa.RecordBatch.from_arrays(
        [batch.column(theirs) for theirs in found.values()], list(found)
    )


def _checked(
    batch: pa.RecordBatch, numbers: Sequence[int], unit: str, report: Report
) -> Iterator[pa.RecordBatch]:
    """The rows that have the types of a visit log.

    Halves are tried until a bad row is alone, or so few are left that they can go one by one.
    """
    import pyarrow as pa

    try:
        yield _typed(batch, unit)
    except (VisitLogError, pa.ArrowException) as error:
        bad = 0 if batch.num_rows == 1 else getattr(error, "row", None)
        if bad is None or batch.num_rows > _FEW:
            half = batch.num_rows // 2
            yield from _checked(batch.slice(0, half), numbers[:half], unit, report)
            yield from _checked(batch.slice(half), numbers[half:], unit, report)
            return
        if bad:
            yield from _checked(batch.slice(0, bad), numbers[:bad], unit, report)
        reason = error.message if isinstance(error, VisitLogError) else str(error)
        column = getattr(error, "column", None)
        report.malformed(numbers[bad], f"column {column}: {reason}" if column else reason)
        if bad + 1 < batch.num_rows:
            yield from _checked(batch.slice(bad + 1), numbers[bad + 1 :], unit, report)


def _typed(batch: pa.RecordBatch, unit: str) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from observant.visits.columns import (
        MISSING,
        bytes_in,
        flags_in,
        plain_column,
        text_in,
        times_in,
        typed_column,
    )

    columns = {
        name: plain_column(column)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    source = text_in(columns["source"], "source")
    if source.null_count or pc.any(pc.equal(source, "")).as_py():
        raise VisitLogError("the visit has no source", column="source")
    time = times_in(columns["time"], "time", unit=unit)
    if (time == MISSING).any():
        raise VisitLogError("the visit has no time", column="time")
    instant = pa.timestamp("us", "UTC")
    typed = {"source": source.cast(pa.string()), "time": pa.array(time).view(instant)}
    for name, column in columns.items():
        if name == "changed":
            flags = flags_in(column, name)
            typed[name] = pa.array(flags == 1, mask=flags < 0)
        elif name == "last_modified":
            dates = times_in(column, name, unit=unit, refuse_out_of_range=False)
            typed[name] = pa.array(dates, mask=np.asarray(dates == MISSING)).view(instant)
        elif name == "digest":
            typed[name] = bytes_in(column, name).cast(pa.binary())
        elif name in {"magnitude", "status", "bytes"}:
            kind = {"magnitude": pa.float64(), "status": pa.int16(), "bytes": pa.int64()}[name]
            typed[name] = typed_column(column, kind, name)
    return pa.RecordBatch.from_arrays(list(typed.values()), list(typed))


IMPORTERS = (PlainTable(),)
