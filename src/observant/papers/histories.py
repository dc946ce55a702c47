"""Real update times for the experiments that take them: a file, or every trace of a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from observant.errors import InputError
from observant.simulation.traces import Trace, read_trace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["real_traces"]

ENDINGS = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson", ".gz", ".zst")


def real_traces(given: Path) -> Iterator[tuple[str, Trace]]:
    """The traces of a file or folder, by name; other tables of a folder are passed over."""
    if given.is_file():
        yield given.name.split(".")[0], read_trace(given, group=None)
        return
    found = False
    for file in sorted(file for file in given.iterdir() if file.name.endswith(ENDINGS)):
        try:
            trace = read_trace(file, group=None)
        except InputError as error:
            if error.row is not None:  # a trace, with a mistake in it
                raise
            continue
        found = True
        yield file.name.split(".")[0], trace
    if not found:
        raise InputError(
            "there is no trace here: a table (Parquet, CSV, JSON Lines) with the columns source "
            "and t, one row for each update",
            file=str(given),
        )
