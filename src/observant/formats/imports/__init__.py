"""Visits that people already have, in the files of other tools.

`import_visits` streams them, `examine` reads everything once and only reports. Formats are found
by looking into the files. Evidence that cannot support rates is refused, unless the user accepts
the assumption that is stated.
"""

from __future__ import annotations

import lzma
import zipfile
import zlib
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, BinaryIO

from observant.errors import InputError
from observant.formats.imports.base import (
    EVIDENCE,
    DescribesSources,
    Importer,
    ImportOptions,
    SourceDescription,
)
from observant.formats.imports.batches import Shaper
from observant.formats.imports.files import ImportFile, find_files
from observant.formats.imports.report import Report

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    import pyarrow as pa

__all__ = [
    "EVIDENCE",
    "ImportOptions",
    "Importer",
    "Report",
    "SourceDescription",
    "VisitImport",
    "describe_sources",
    "examine",
    "find_importer",
    "import_visits",
    "importers",
]


def import_visits(
    *files: str | os.PathLike[str] | BinaryIO,
    format: str | None = None,  # noqa: A002 - the word users say
    options: ImportOptions | None = None,
    progress: Callable[[int], object] | None = None,
) -> VisitImport:
    """Stream the visits in files of other tools.

    Parameters
    ----------
    files
        Paths, globs, folders (for formats that are folders) or open binary files; compressed by
        gzip, zstd or bzip2 or not.
    format
        The name of an importer (`importers` lists them); found by looking into each file when
        not given.
    progress
        Called with the number of visits after each batch.

    The result is an iterator over record batches with the columns of the visit log; its `report`
    is whole when it ends. Memory is bounded by the batch, not by the files.
    """
    return VisitImport(find_files(*files), format, options or ImportOptions(), progress)


def examine(
    *files: str | os.PathLike[str] | BinaryIO,
    format: str | None = None,  # noqa: A002 - the word users say
    options: ImportOptions | None = None,
    progress: Callable[[int], object] | None = None,
) -> Report:
    """Read everything once and report what an import would find, refusing nothing.

    What an import would have to assume is in the report's `assumed`.
    """
    accepting = replace(options or ImportOptions(), accept=frozenset({"all"}))
    visits = VisitImport(find_files(*files), format, accepting, progress)
    for _ in visits:
        pass
    return visits.report


def describe_sources(
    *files: str | os.PathLike[str] | BinaryIO,
    format: str | None = None,  # noqa: A002 - the word users say
    options: ImportOptions | None = None,
) -> Iterator[SourceDescription]:
    """Yield the sources that files describe: watch settings, lists of feeds, job files."""
    chosen = options or ImportOptions()
    report = Report(on_bad=chosen.on_bad, accepted=frozenset({"all"}))
    for file in find_files(*files):
        importer = find_importer(file, format)
        if isinstance(importer, DescribesSources):
            report.file = file.name
            with _troubles_of(file):
                yield from importer.sources(file, chosen, report)


class VisitImport:
    """An import under way: iterate over it once, then read its `report`."""

    def __init__(
        self,
        files: list[ImportFile],
        format_name: str | None,
        options: ImportOptions,
        progress: Callable[[int], object] | None,
    ) -> None:
        self.report = Report(on_bad=options.on_bad, accepted=frozenset(options.accept))
        self._options, self._progress = options, progress
        self._shaper = Shaper(options, self.report)
        # A file of no known format is better found before the work than after.
        self._work = [(file, find_importer(file, format_name)) for file in files]
        self._batches = self._read()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches

    def _read(self) -> Iterator[pa.RecordBatch]:
        from observant.formats.imports.census import look_for_collapse

        for file, importer in self._work:
            yield from self._read_file(file, importer)
        look_for_collapse(self.report)
        self.report.compare_states()

    def _read_file(self, file: ImportFile, importer: Importer) -> Iterator[pa.RecordBatch]:
        report = self.report
        report.file = file.name
        report.formats[importer.name] = report.formats.get(importer.name, 0) + 1
        report.weaken(importer.evidence)
        if importer.assumption:
            report.assume(importer.assumption, importer.assumes)
        with _troubles_of(file):
            for raw in importer.read(file, self._options, report):
                batch = self._shaper.shape(raw)
                report.see(batch)
                if self._progress is not None:
                    self._progress(batch.num_rows)
                if batch.num_rows:
                    yield batch
            if isinstance(importer, DescribesSources):
                aside = Report(file=file.name)  # its rows were counted when visits were read
                report.described += sum(1 for _ in importer.sources(file, self._options, aside))
                report.warn_as(aside)


def find_importer(file: ImportFile, name: str | None = None) -> Importer:
    """The importer of this name, or the one that knows this file by its first bytes."""
    known = importers()
    if name is not None:
        if name not in known:
            raise InputError(f"unknown format {name!r}; choose one of {', '.join(known)}")
        return known[name]
    head, plain_name = file.head(), file.plain_name
    found = [importer for importer in known.values() if importer.sniff(head, plain_name)]
    if not found:
        if not head:
            raise InputError("is empty", file=file.name)
        raise InputError(
            f"no known format; say it with --format, one of {', '.join(known)}", file=file.name
        )
    return max(found, key=lambda importer: plain_name.endswith(importer.endings or "\0"))


@cache
def importers() -> dict[str, Importer]:
    """All importers by name, in alphabetical order.

    They are what the modules here list as IMPORTERS, and what packages add by entry points of the
    group ``observant.importers``: classes that are made without arguments.
    """
    import importlib
    import pkgutil

    from observant.plugins import added, load

    found: dict[str, Importer] = {
        name: load(where)() for name, where in added("observant.importers").items()
    }
    for module in pkgutil.iter_modules(__path__):
        if module.name == "kernels":
            continue  # compiled loops, slow to load
        loaded = importlib.import_module(f"{__name__}.{module.name}")
        for importer in getattr(loaded, "IMPORTERS", ()):
            found[importer.name] = importer
    return dict(sorted(found.items()))


class _troubles_of:  # noqa: N801 - reads as a function
    """Tells every trouble with a file as an `InputError` that names it."""

    def __init__(self, file: ImportFile) -> None:
        self._file = file

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        import pyarrow as pa

        if isinstance(error, InputError):
            if error.file is None:
                raise InputError(
                    error.message,
                    file=self._file.name,
                    row=error.row,
                    column=error.column,
                    source=error.source,
                ) from error
            return
        if isinstance(
            error,
            OSError
            | EOFError
            | UnicodeError
            | RecursionError
            | NotImplementedError  # zipfile: a version or a compression that it does not know
            | lzma.LZMAError
            | zlib.error
            | zipfile.BadZipFile
            | pa.ArrowException,
        ):
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"cannot be read: {reason}", file=self._file.name) from error
