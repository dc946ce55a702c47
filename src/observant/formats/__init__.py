"""What people already have: one reader or writer per format, found by a file's name.

`read_visits` makes a `VisitLog` of files; `write_table` writes a log or any answer of observant.
"""

from __future__ import annotations

import importlib
import io
import os
import tempfile
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from observant.errors import InputError
from observant.visits import LogReader, VisitLog
from observant.visits.columns import batches_of
from observant.visits.log import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

__all__ = [
    "ARCHIVES",
    "FORMATS",
    "format_of",
    "read_batches",
    "read_visits",
    "write_batches",
    "write_lines",
    "write_table",
]

FORMATS = {"parquet": "parquet", "csv": "delimited", "jsonl": "jsonlines"}
"""The formats by name, and the module here that reads and writes each."""

ARCHIVES = ("cdx", "cdxj", "warc", "wacz")
"""Formats of web archives whose names tell them; `observant.formats.imports` reads many more."""

_ENDINGS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".cdx": "cdx",
    ".cdxj": "cdxj",
    ".warc": "warc",
    ".wacz": "wacz",
}
_COMPRESSIONS = (".gz", ".zst", ".bz2")
_NO_EVIDENCE = ("magnitude", "bytes")


class Format(Protocol):
    """What the module of a format offers."""

    def read(self, file: BinaryIO, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file in batches, with those of `columns` that it has."""

    def write(self, batches: Iterator[pa.RecordBatch], file: BinaryIO, ending: str = "") -> None:
        """Write all batches, the way that the ending of the file's name asks for."""


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
        Paths, or open binary files (then `format` is needed, unless they have a name that tells
        it; they are read as they are, whatever compression the name tells of).
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
    wanted = [name for name in COLUMNS if not (evidence_only and name in _NO_EVIDENCE)]
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
        for batch in read_batches(file, (*wanted, *([group] if group else [])), format):
            reader.add(batch)
            if progress is not None:
                progress(batch.num_rows)
    assert reader is not None  # noqa: S101 - there was at least one file
    return reader.finish()


def read_batches(
    file: str | os.PathLike[str] | BinaryIO,
    columns: Sequence[str],
    format: str | None = None,  # noqa: A002 - the word users say
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in batches, with those of `columns` that it has.

    Every trouble of the file is told as an `InputError` that names it.
    """
    import pyarrow as pa

    name = _name_of(file)
    with _opened(file) as stream:
        module = _module(format or format_of(name))
        try:
            yield from module.read(stream, name, columns)
        except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
            raise InputError(f"cannot be read: {error}", file=name) from error


def write_table(
    table: Any,
    file: str | os.PathLike[str] | BinaryIO,
    format: str | None = None,  # noqa: A002 - the word users say
) -> None:
    """Write a visit log, an answer, or anything that speaks Arrow, to a file.

    A file appears whole or not at all: it is written beside its place and moved there. An open
    binary file is written to as it is, whatever compression its name tells of.
    """
    batches = table.to_batches() if isinstance(table, VisitLog) else batches_of(table)
    write_batches(batches, file, format)


def write_batches(
    batches: Iterator[pa.RecordBatch],
    file: str | os.PathLike[str] | BinaryIO,
    format: str | None = None,  # noqa: A002 - the word users say
) -> None:
    """Write record batches of one schema as they come; there must be one, were it empty."""
    module = _module(format or format_of(_name_of(file)))
    ending = _ending(_name_of(file))
    if not isinstance(file, str | os.PathLike):
        _refuse_text(file)
        module.write(batches, file, ending)
        return
    not_ours: list[InputError] = []  # where the batches come from, not where they go

    def read() -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except InputError as error:
            not_ours.append(error)
            raise

    try:
        with _replacing(Path(file)) as stream, _compressed(stream, os.fspath(file)) as sink:
            module.write(read(), sink, ending)
    except (OSError, ValueError, NotImplementedError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot be written: {reason}", file=os.fspath(file)) from error
    except InputError as error:
        if error in not_ours:
            raise
        raise InputError(error.message, file=os.fspath(file), column=error.column) from error


def write_lines(lines: Iterable[str], file: str | os.PathLike[str]) -> None:
    """Write lines of text to a file, which appears whole or not at all."""
    try:
        with _replacing(Path(file)) as stream, _compressed(stream, os.fspath(file)) as sink:
            for line in lines:
                sink.write(f"{line}\n".encode())
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=os.fspath(file)) from error


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of the old one when all is well."""
    if not path.parent.is_dir():
        raise InputError(f"cannot be written: there is no folder {path.parent}", file=str(path))
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:  # a pipe or a device stays what it is
            yield stream
        return
    path = path.resolve()
    handle, temporary = tempfile.mkstemp(prefix=".observant-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        Path(temporary).chmod(_mode(path))
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _mode(path: Path) -> int:
    """Permissions of the file that is replaced, or of one that anybody would make."""
    if path.exists():
        return path.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def format_of(name: str) -> str:
    """Find the format from a file's name.

    >>> format_of("visits.csv.gz"), format_of("rates.parquet")
    ('csv', 'parquet')
    """
    ending = _ending(name)
    if ending in _ENDINGS:
        return _ENDINGS[ending]
    if ending == ".db":
        raise InputError(
            "is named as a store is; `observant store export visits.parquet` writes the visits of "
            "a store to a file",
            file=name,
        )
    raise InputError(
        f"the name does not tell the format; say it (one of {', '.join(FORMATS)}), or end the "
        f"name in one of {', '.join(_ENDINGS)}",
        file=name,
    )


def _ending(name: str) -> str:
    """The end of a name that tells the format; that of a compression is looked through."""
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSIONS:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _module(name: str) -> Format:
    if name in ARCHIVES:
        from observant.formats.archives import Archive

        return Archive(name)
    if name not in FORMATS:
        raise InputError(f"unknown format {name!r}; choose one of {', '.join(FORMATS)}")
    module: Any = importlib.import_module(f"observant.formats.{FORMATS[name]}")
    return module  # type: ignore[no-any-return]


def _name_of(file: object) -> str:
    if isinstance(file, str | os.PathLike):
        return os.fspath(file)
    return str(getattr(file, "name", "<stream>"))


@contextmanager
def _opened(file: str | os.PathLike[str] | BinaryIO) -> Iterator[BinaryIO]:
    if not isinstance(file, str | os.PathLike):
        _refuse_text(file)
        yield file
        return
    try:
        stream: BinaryIO = Path(file).open("rb")  # noqa: SIM115 - closed below
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot be read: {reason}", file=os.fspath(file)) from error
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
    if stream.readable():
        # Arrow's own stream knows no lines.
        with io.BufferedReader(pa.CompressedInputStream(stream, codec), 1 << 20) as plain:
            yield plain
    else:
        with pa.CompressedOutputStream(stream, codec) as sink:
            yield sink


def _refuse_text(file: object) -> None:
    if not hasattr(file, "read") and not hasattr(file, "write"):
        raise InputError(f"a {type(file).__name__} is neither a path nor an open file")
    if isinstance(file, io.TextIOBase):
        raise InputError("is open as text; open it in binary mode", file=_name_of(file))
