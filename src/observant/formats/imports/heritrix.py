"""Heritrix: ``crawl.log``, a line for each URL that the crawler dealt with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import LeftOut
from observant.formats.imports.base import Batches, Importer
from observant.formats.imports.blocks import Lines, read_lines
from observant.formats.imports.values import (
    Row,
    checked_row,
    digest_in,
    iso_instant,
    size_in,
    status_in,
)
from observant.times import from_digits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.files import ImportFile
    from observant.formats.imports.report import Report

_FIELDS = ("logged", "status", "size", "url", "path", "via", "mime", "thread", "time", "digest")
_NOTES = 11  # the field of annotations, behind the tag of the seed
_LEAST, _MOST = 10, 40
_LINE = re.compile(
    rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z? +-?\d{1,5} +(?:-|\d+) +\S+ +\S+ +\S+ +\S+ +"
    rb"(?:-|#?\S+) +(?:-|\d{14,17}(?:\+\d+)?) +\S+.*"
)


class HeritrixLog(Importer):
    """``crawl.log`` of Heritrix 1 and 3."""

    name = "heritrix"
    title = "Heritrix crawl.log"
    evidence: Evidence = "V"
    endings = ("crawl.log",)

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether the first line is one of a crawl log."""
        return _LINE.fullmatch(head.partition(b"\n")[0].rstrip(b"\r")) is not None

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield the visits; the time is when the fetch began, not when it was logged."""
        with file.open() as stream:
            yield from read_lines(stream, HeritrixLines(), report)


class HeritrixLines:
    """Reads lines of a crawl log: fields with runs of spaces between them."""

    def __init__(self) -> None:
        self._table = np.full((_MOST + 1, 10), -1, np.int64)
        # url, key, digest, status, size, mime, truncated, time, file, notes
        self._table[_LEAST:] = (3, -1, 9, 1, 2, -1, -1, 8, -1, -1)
        self._table[_NOTES + 1 :, 9] = _NOTES

    def scan(self, data: NDArray[np.uint8], lines: Lines) -> int:
        """Run the compiled loop."""
        from observant.formats.imports.kernels import scan_fields

        return int(scan_fields(data, ord(" "), True, self._table, False, True, *lines.arrays))

    def careful(self, line: bytes) -> Row | None:
        """The visit of a line; what was never fetched is left out."""
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise ValueError("this is not text in UTF-8") from error
        fields = [field for field in text.split(" ") if field]
        if len(fields) < _LEAST:
            raise ValueError(f"{len(fields)} fields where there should be at least {_LEAST}")
        found = dict(zip(_FIELDS, fields, strict=False))
        status = status_in(found["status"])
        began = found["time"].partition("+")[0]
        if began == "-" and (status is None or status <= 0):
            raise LeftOut("addresses that were never fetched")
        notes = fields[_NOTES] if len(fields) > _NOTES else ""
        return checked_row(
            name=found["url"],
            url=found["url"],
            time=iso_instant(_zoned(found["logged"])) if began == "-" else from_digits(began),
            status=status,
            size=size_in(found["size"]),
            digest=digest_in(found["digest"]),
            revisit="duplicate:" in notes,
            truncated="Trunc" in notes,
        )


def _zoned(text: str) -> str:
    return text if text.endswith("Z") else f"{text}Z"


IMPORTERS = (HeritrixLog(),)
