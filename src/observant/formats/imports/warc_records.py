"""The records of a WARC file, one at a time, from a stream that nobody vouches for.

Lengths and numbers of lines are bounded, a body is never held, and after a broken record the next
one is looked for. (The parsers that exist hold bodies, stop at the first broken record, or end
the process on a stream that fails; archives are merged from many hands, and do break.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.formats.imports.report import Report

__all__ = ["RecordBody", "WarcRecord", "http_head", "records_of"]

_LONGEST_LINE = 1 << 16
_LONGEST_HEADER = 1 << 18
_CHUNK = 1 << 20


@dataclass(frozen=True)
class WarcRecord:
    """A record: its headers by their names in lower case, and its body, to be read once."""

    number: int
    headers: dict[str, str]
    length: int
    body: RecordBody


class RecordBody:
    """The next `length` bytes of a stream."""

    def __init__(self, stream: BinaryIO, length: int) -> None:
        self._stream, self._left = stream, length

    def read(self, size: int) -> bytes:
        """At most so many bytes; none at the end."""
        data = self._stream.read(min(size, self._left))
        self._left -= len(data)
        return data

    def readline(self, longest: int = _LONGEST_LINE) -> bytes:
        """A line with its end, or the beginning of one that is too long."""
        data = self._stream.readline(min(longest, self._left))
        self._left -= len(data)
        return data

    def skip(self) -> bool:
        """Pass over the rest; false if the stream ends before it."""
        while self._left and self.read(_CHUNK):
            pass
        return not self._left


def records_of(stream: BinaryIO, report: Report) -> Iterator[WarcRecord]:
    """Yield all records; what is none is reported as malformed, and passed over."""
    number, line = 0, _next_line(stream)
    while line:
        number += 1
        if not _is_version(line):
            report.add_rows()
            report.malformed(number, "a record begins with WARC/1.0 or WARC/1.1", line)
            line = _next_version(stream)
            continue
        try:
            headers = _headers(stream)
            length = _length(headers.get("content-length", ""))
        except ValueError as reason:
            report.add_rows()
            report.malformed(number, str(reason), line)
            line = _next_version(stream)
            continue
        body = RecordBody(stream, length)
        yield WarcRecord(number, headers, length, body)
        if not body.skip():
            return  # who uses the record has seen that it is cut off
        line = _next_line(stream)


def http_head(body: RecordBody) -> tuple[int | None, dict[str, str]]:
    """Status and headers of an answer in HTTP; the body is left at its payload."""
    parts = body.readline().decode("latin-1").split(None, 2)
    if len(parts) < 2 or not parts[0].startswith("HTTP/"):
        return None, {}
    status = int(parts[1]) if len(parts[1]) == 3 and parts[1].isdecimal() else None
    return status, _headers(body)


def _length(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 15:
        raise ValueError(f"the record has no length: {text[:30]!r}")
    return int(text)


def _headers(stream: BinaryIO | RecordBody) -> dict[str, str]:
    """Header lines up to the empty one; a line that begins with a space goes on with the last."""
    headers: dict[str, str] = {}
    last, size = "", 0
    while True:
        line = stream.readline(_LONGEST_LINE)
        size += len(line)
        if size > _LONGEST_HEADER:
            raise ValueError("the header is too long")
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if not text:
            return headers
        if text[0] in " \t" and last:
            headers[last] += " " + text.strip()
            continue
        name, _, value = text.partition(":")
        last = name.strip().lower()
        headers.setdefault(last, value.strip())


def _next_line(stream: BinaryIO) -> bytes:
    """The next line that is not empty; none at the end."""
    while line := stream.readline(_LONGEST_LINE):
        if line.strip(b"\r\n"):
            return line
    return b""


def _next_version(stream: BinaryIO) -> bytes:
    """The next line that begins a record; none if there is no more."""
    whole = True
    while line := stream.readline(_LONGEST_LINE):
        if whole and _is_version(line):
            return line
        whole = line.endswith(b"\n")
    return b""


def _is_version(line: bytes) -> bool:
    return line.startswith((b"WARC/0.", b"WARC/1.")) and len(line) < 20
