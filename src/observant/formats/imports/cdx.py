"""CDX: a sorted index of captures with fields between spaces, named by a header of letters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from observant.errors import InputError
from observant.formats.imports.base import Batches, Importer
from observant.formats.imports.blocks import LONGEST_LINE, Lines, read_lines
from observant.formats.imports.values import (
    Row,
    checked_row,
    digest_in,
    size_in,
    status_in,
)
from observant.times import from_digits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.files import ImportFile
    from observant.formats.imports.report import Report

_LAYOUTS = {
    7: "NbamskS",
    9: "NbamskrVg",
    10: "NbamskrMVg",
    11: "NbamskrMSVg",
}
"""The letters of the fields, by their number, where no header says them."""

_RESOLVED = 3  # fields that a server adds to a revisit: where the payload is
_MOST_FIELDS = 40
_LETTERS = {
    "url": "aAu",
    "key": "NA",
    "digest": "kc",
    "status": "s",
    "size": "Sn",
    "mime": "m",
    "time": "b",
    "file": "g",
}
"""The letters that can stand for each of our fields, the best first."""

_SLOTS = ("url", "key", "digest", "status", "size", "mime", "truncated", "time", "file", "notes")
_LINE = re.compile(rb"\S+ \d{4,20} \S+ \S+ (?:-|\d{3}) \S+(?: \S+)+\r?")


class Cdx(Importer):
    """CDX as Heritrix, wayback machines, cdx-indexer and CDX servers (text) write it."""

    name = "cdx"
    title = "CDX index of a web archive"
    evidence: Evidence = "V"
    endings = (".cdx",)

    def sniff(self, head: bytes, name: str) -> bool:
        first, _, rest = head.partition(b"\n")
        if _header_in(first):
            return True
        return bool(_LINE.fullmatch(first if rest or len(head) < 1 << 12 else first[:0]))

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        with file.open() as stream:
            header, first = _first_line(stream)
            form = CdxLines(header, by_key=options.key == "surt")
            yield from read_lines(_Behind(first, stream), form, report)


class CdxLines:
    """Reads lines of CDX; `header` is the header line, or empty."""

    def __init__(self, header: bytes = b"", *, by_key: bool = False) -> None:
        self._by_key = by_key
        self._delimiter, letters = " ", ""
        if header:
            self._delimiter, letters = _header_in(header) or (" ", "")
        known = {len(letters): letters} if letters else _LAYOUTS
        self._layouts = {
            fields + more: layout_of(letters)
            for more in (_RESOLVED, 0)
            for fields, letters in known.items()
        }
        for layout in self._layouts.values():
            if "time" not in layout or ("key" if by_key else "url") not in layout:
                needed = "b and N" if by_key else "b and a"
                raise InputError(f"the header {letters!r} names no field {needed}")
        self._table = np.full((_MOST_FIELDS + 1, len(_SLOTS)), -1, np.int64)
        for fields, layout in self._layouts.items():
            for name, field in layout.items():
                self._table[fields, _SLOTS.index(name)] = field

    def scan(self, data: NDArray[np.uint8], lines: Lines) -> int:
        from observant.formats.imports.kernels import scan_fields

        return int(
            scan_fields(
                data, ord(self._delimiter), False, self._table, self._by_key, False, *lines.arrays
            )
        )

    def careful(self, line: bytes) -> Row | None:
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise ValueError("this is not text in UTF-8") from error
        if _header_in(line):
            return None
        fields = text.split(self._delimiter)
        layout = self._layouts.get(len(fields))
        if layout is None:
            known = ", ".join(map(str, sorted(self._layouts)))
            raise ValueError(f"{len(fields)} fields where there should be {known}")

        def field(name: str) -> str:
            return fields[layout[name]] if name in layout else ""

        url = field("url")
        return checked_row(
            name=field("key") if self._by_key else url,
            url=None if url in {"", "-"} else url,
            time=from_digits(field("time").partition("+")[0]),
            status=status_in(field("status")),
            size=size_in(field("size")),
            digest=digest_in(field("digest")),
            revisit=field("mime") == "warc/revisit" or field("file") == "-",
        )


def layout_of(letters: str) -> dict[str, int]:
    """Which field is what, by the letters of a header.

    >>> layout_of("Nbams")
    {'url': 2, 'key': 0, 'status': 4, 'mime': 3, 'time': 1}
    """
    return {
        name: letters.index(found)
        for name, candidates in _LETTERS.items()
        if (found := next((letter for letter in candidates if letter in letters), ""))
    }


def _header_in(line: bytes) -> tuple[str, str] | None:
    """The delimiter and the letters of a header line, or None if it is no header.

    >>> _header_in(b" CDX N b a m s k r M S V g")
    (' ', 'NbamskrMSVg')
    """
    line = line.rstrip(b"\r\n")
    if line[1:4] != b"CDX" or len(line) < 6 or line[4:5] != line[:1] or line[0] >= 0x80:
        return None
    delimiter = chr(line[0])
    letters = line[5:].decode("latin-1").split(delimiter)
    if len(letters) > _MOST_FIELDS - _RESOLVED or any(
        len(letter) != 1 or not letter.isascii() for letter in letters if letter
    ):
        return None
    return delimiter, "".join(letter for letter in letters if letter)


def _first_line(stream: BinaryIO) -> tuple[bytes, bytes]:
    """The header, if there is one, and what else was read."""
    line = stream.readline(LONGEST_LINE)
    return (line, b"\n") if _header_in(line) else (b"", line)


class _Behind:
    """A stream with some bytes put back before it; an empty line stands for the header."""

    def __init__(self, first: bytes, stream: BinaryIO) -> None:
        self._first, self._stream = first, stream

    def read(self, size: int) -> bytes:
        first, self._first = self._first, b""
        return first + self._stream.read(size)


IMPORTERS = (Cdx(),)
