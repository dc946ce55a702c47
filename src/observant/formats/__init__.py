"""What people already have: one reader or writer per format, found by a file's name.

`read_visits` makes a `VisitLog` of files; `write_table` writes a log or any answer of observant.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from observant.errors import InputError
from observant.visits import LogReader
from observant.visits.parsing import batches_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from observant.visits import VisitLog

__all__ = ["FORMATS", "format_of", "read_visits", "write_table"]

FORMATS = {"parquet": "parquet", "csv": "delimited", "jsonl": "jsonlines"}
"""The formats by name, and the module here that reads and writes each."""

_ENDINGS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_COMPRESSIONS = (".gz", ".zst", ".bz2")
_LOG_COLUMNS = (
    "source",
    "time",
    "changed",
    "last_modified",
    "digest",
    "magnitude",
    "status",
    "bytes",
)
_EVIDENCE_COLUMNS = ("source", "time", "changed", "last_modified", "digest", "status")


class Format(Protocol):
    """What the module of a format offers."""

    def read(self, file: BinaryIO, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file in batches, with those of `columns` that it has."""

    def write(self, batches: Iterator[pa.RecordBatch], file: BinaryIO) -> None:
        """Write all batches."""


def read_visits(
    *files: str | os.PathLike[str] | BinaryIO,
    format: str | None = None,  # noqa: A002 - the word users say
    group: str | None = None,
    time_unit: str = "s",
    skew: float = 1.0,
    on_duplicate: str = "error",
    evidence_only: bool = False,
    progress: Callable[[int], object] | None = None,
) -> VisitLog:
    """Read a visit log from one or more Parquet, CSV or JSON Lines files, compressed or not.

    Parameters
    ----------
    files
        Paths, or open binary files (then `format` is needed).
    format
        ``parquet``, ``csv`` or ``jsonl``; found from the file's name when not given.
    group
        A column that says which group a source belongs to; ``host`` is derived from URLs.
    evidence_only
        Leave out the columns that no estimator needs (magnitude, bytes).
    progress
        Called with the number of rows after each batch.

    The other options are those of `VisitLog.from_columns`.
    """
    if not files:
        raise InputError("no file to read visits from")
    reader: LogReader | None = None
    wanted = _EVIDENCE_COLUMNS if evidence_only else _LOG_COLUMNS
    for file in files:
        name = _name_of(file)
        if reader is None:
            reader = LogReader(
                name=name,
                group=group,
                time_unit=time_unit,
                skew=skew,
                on_duplicate=on_duplicate,
            )
        else:
            reader.begin_file(name)
        module = _module(format or format_of(name))
        with _opened(file) as stream:
            for batch in module.read(stream, name, (*wanted, *([group] if group else []))):
                reader.add(batch)
                if progress is not None:
                    progress(batch.num_rows)
    assert reader is not None  # noqa: S101 - there was at least one file
    return reader.finish()


def write_table(
    table: Any,
    file: str | os.PathLike[str] | BinaryIO,
    format: str | None = None,  # noqa: A002 - the word users say
) -> None:
    """Write a visit log, an answer, or anything that speaks Arrow, to a file.

    A file appears whole or not at all: it is written beside its place and moved there.
    """
    module = _module(format or format_of(_name_of(file)))
    batches = table.to_batches() if hasattr(table, "to_batches") else batches_of(table)
    if not isinstance(file, str | os.PathLike):
        module.write(iter(batches), file)
        return
    path = Path(file)
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise InputError(f"cannot write here: {error.strerror}", file=str(path)) from error
    try:
        with os.fdopen(handle, "wb") as stream, _compressed(stream, path.name) as sink:
            module.write(iter(batches), sink)
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)  # as an ordinary file would be
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def format_of(name: str) -> str:
    """Find the format from a file's name.

    >>> format_of("visits.csv.gz"), format_of("rates.parquet")
    ('csv', 'parquet')
    """
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSIONS:
        suffixes.pop()
    if suffixes and suffixes[-1] in _ENDINGS:
        return _ENDINGS[suffixes[-1]]
    raise InputError(
        f"the name does not tell the format; say it (one of {', '.join(FORMATS)}), or end the "
        f"name in one of {', '.join(_ENDINGS)}",
        file=name,
    )


def _module(name: str) -> Format:
    if name not in FORMATS:
        raise InputError(f"unknown format {name!r}; choose one of {', '.join(FORMATS)}")
    module: Any = importlib.import_module(f"observant.formats.{FORMATS[name]}")
    return module  # type: ignore[no-any-return]


def _name_of(file: str | os.PathLike[str] | BinaryIO) -> str:
    if isinstance(file, str | os.PathLike):
        return os.fspath(file)
    return str(getattr(file, "name", "<stream>"))


@contextmanager
def _opened(file: str | os.PathLike[str] | BinaryIO) -> Iterator[BinaryIO]:
    if not isinstance(file, str | os.PathLike):
        yield file
        return
    try:
        stream: BinaryIO = Path(file).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=os.fspath(file)) from error
    with stream, _compressed(stream, os.fspath(file)) as plain:
        yield plain


@contextmanager
def _compressed(stream: BinaryIO, name: str) -> Iterator[BinaryIO]:
    """See through a compression that the file's name tells of."""
    import pyarrow as pa

    ending = Path(name).suffix.lower()
    if ending not in _COMPRESSIONS:
        yield stream
        return
    codec = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}[ending]
    through = pa.CompressedInputStream if stream.readable() else pa.CompressedOutputStream
    with through(stream, codec) as plain:
        yield plain
