"""Traces in files: Parquet, CSV or JSON Lines, with a row for every update."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from observant.errors import InputError, VisitLogError
from observant.formats import read_batches, write_table
from observant.simulation.traces.trace import Trace
from observant.times import MICROSECONDS_PER_DAY
from observant.visits.columns import MISSING, plain_column, text_in, times_in

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    import pyarrow as pa

_SOURCE, _TIME = ("source", "source_id"), ("time", "t")
_OF_VISITS = ("changed", "digest")
_NUMBERS = ("importance", "cost")


def read_trace(
    file: str | os.PathLike[str] | BinaryIO,
    *,
    format: str | None = None,  # noqa: A002 - the word users say
    group: str | None = "auto",
    time_unit: str = "s",
    progress: Callable[[int], object] | None = None,
) -> Trace:
    """Read a trace: the columns `source` (or `source_id`) and `time` (or `t`).

    Times are ISO 8601, timestamps, or numbers since 1970 in `time_unit`. A row with an empty time
    declares a source without updates. The columns `group`, `importance` and `cost` are taken
    where they are. `group` is another column, ``prefix`` or ``host`` (see `Trace.grouped`), or
    ``auto``: the column `group`, or the prefix of names with slashes.
    """
    name = str(getattr(file, "name", file))
    extra = [group] if group else []
    columns = (*_SOURCE, *_TIME, *_OF_VISITS, "group", *_NUMBERS, *extra)
    pieces: list[dict[str, Any]] = []
    rows, found = 0, {}
    for batch in read_batches(file, columns, format):
        found = _places(batch.schema.names, name)
        try:
            pieces.append(_typed(batch, found, group, time_unit))
        except VisitLogError as error:
            row = None if error.row is None else rows + error.row + 1
            raise InputError(error.message, file=name, row=row, column=error.column) from error
        rows += batch.num_rows
        if progress is not None:
            progress(batch.num_rows)
    if not rows:
        raise InputError("has no rows", file=name)
    merged = {key: _joined([piece[key] for piece in pieces]) for key in pieces[0]}
    try:
        trace = Trace.from_columns(
            merged["source"],
            merged["time"],
            group=merged.get("group"),
            **{name: merged.get(name) for name in _NUMBERS},
        )
    except InputError as error:
        raise InputError(
            error.message, file=name, row=error.row, column=error.column, source=error.source
        ) from error
    if "group" in merged or group is None:
        return trace
    if group in {"prefix", "host"}:
        return trace.grouped(group)
    if group == "auto":
        return trace.grouped("prefix") if any("/" in s for s in trace.sources) else trace
    raise InputError(
        f"has no column {group!r}; its columns are {', '.join(batch.schema.names)} "
        "(prefix and host are taken from the names of sources)",
        file=name,
    )


def example_trace() -> Trace:
    """A small real history that comes with the package: when 600 software packages were updated.

    They are manifests of the repositories Main and Extras of Scoop, drawn at random from those that
    were there for the whole year to 22 August 2026, with the times of the commits that changed
    them (commits to more than 50 files are left out). The repositories are in the public domain
    (Unlicense); only names and times are kept.

    >>> example_trace()
    Trace: 5,091 updates of 600 sources over 365d
    """
    return read_trace(Path(__file__).with_name("packages.parquet"))


def write_trace(trace: Trace, file: str | os.PathLike[str] | BinaryIO) -> None:
    """Write a trace to Parquet, CSV or JSON Lines, by its ending; whole or not at all."""
    write_table(trace, file)


def _places(names: list[str], file: str) -> dict[str, str]:
    """Which columns hold the source and the time."""
    if set(_OF_VISITS) & set(names):
        raise InputError(
            "is a log of visits, not of updates; make a trace: `observant study trace visits`",
            file=file,
        )
    places = {}
    for what, known in (("source", _SOURCE), ("time", _TIME)):
        here = [name for name in known if name in names]
        if not here:
            raise InputError(
                f"has no column {' or '.join(map(repr, known))}; its columns are "
                f"{', '.join(names)}",
                file=file,
            )
        places[what] = here[0]
    return places


def _typed(
    batch: pa.RecordBatch, places: dict[str, str], group: str | None, unit: str
) -> dict[str, Any]:
    import pyarrow as pa

    source = text_in(plain_column(batch[places["source"]]), places["source"])
    micros = times_in(plain_column(batch[places["time"]]), places["time"], unit=unit)
    typed: dict[str, Any] = {
        "source": source.cast(pa.string()),
        "time": np.where(micros == MISSING, np.nan, micros / MICROSECONDS_PER_DAY),
    }
    wanted = "group" if group == "auto" else group
    if wanted and wanted in batch.schema.names:
        typed["group"] = text_in(plain_column(batch[wanted]), wanted).cast(pa.string())
    for name in _NUMBERS:
        if name in batch.schema.names:
            typed[name] = _numbers(plain_column(batch[name]), name)
    return typed


def _numbers(column: pa.Array, name: str) -> Any:
    """Numbers, of text too; an empty cell is not-a-number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        text = pc.utf8_trim_whitespace(column)
        column = pc.if_else(pc.equal(text, ""), None, text)
    try:
        return column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException as error:
        raise VisitLogError(f"this is not a number ({error})", column=name) from error


def _joined(parts: list[Any]) -> Any:
    import pyarrow as pa

    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return pa.concat_arrays(parts)
