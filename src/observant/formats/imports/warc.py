"""WARC: the captures themselves, as archives keep them; a revisit record is a visit too."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

from observant.errors import InputError, LeftOut
from observant.formats.imports.base import Batches, Importer, VisitRows
from observant.formats.imports.blocks import read_lines
from observant.formats.imports.cdxj import CdxjLines
from observant.formats.imports.files import ImportFile
from observant.formats.imports.values import checked_row, digest_in, iso_instant
from observant.times import http_date, micros

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.report import Report


# -- The records of a WARC file, one at a time, from a stream that nobody vouches for -------------
#
# Lengths and numbers of lines are bounded, a body is never held, and after a broken record the next
# one is looked for. (The parsers that exist hold bodies, stop at the first broken record, or end
# the process on a stream that fails; archives are merged from many hands, and do break. fastwarc
# takes a sixth of the CPU, 5 µs a record, here 36: `python -m benchmarks.by_hand`.)


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


_VERSIONS = (b"WARC/0.17", b"WARC/0.18", b"WARC/1.0", b"WARC/1.1")


class Warc(Importer):
    """WARC 1.0 and 1.1, plain or compressed by gzip or zstd, a record at a time."""

    name = "warc"
    title = "WARC file of a web archive"
    evidence: Evidence = "V"
    endings = (".warc",)

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether the first line says so."""
        return head.startswith(_VERSIONS)

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield a visit for each response and each revisit."""
        with file.open() as stream:
            yield from read_warc(stream, options, report)


def read_warc(stream: BinaryIO, options: ImportOptions, report: Report) -> Iterator[pa.RecordBatch]:
    """Yield the visits of a decompressed WARC; memory is bounded by the headers of a record."""
    visits, found = VisitRows(options.batch_rows), False
    for record in records_of(stream, report):
        if record.headers.get("warc-type", "").lower() not in {"response", "revisit"}:
            continue
        found = True
        report.add_rows()
        try:
            _add(visits, record, report)
        except LeftOut as reason:
            report.leave_out(str(reason))
        except ValueError as reason:
            report.malformed(record.number, str(reason), record.headers.get("warc-target-uri", ""))
        if visits.full:
            yield visits.take()
    if not found:
        report.warn("there are {n} WARC files without a response or a revisit")
    yield visits.take()


def _add(visits: VisitRows, record: WarcRecord, report: Report) -> None:
    """Add the visit of a record.

    The block digest is never used: it covers the HTTP headers, which change at every visit.
    """
    headers = record.headers
    revisit = headers.get("warc-type", "").lower() == "revisit"
    truncated = "warc-truncated" in headers
    status, http = http_head(record.body)
    not_modified = status == 304 or (
        revisit and "not-modified" in headers.get("warc-profile", "").lower()
    )
    digest = None
    if not truncated and not not_modified:
        digest = digest_in(headers.get("warc-payload-digest"))
        if digest is None and not revisit and status is not None:
            digest = _sha1_of(record.body)
            report.warn("{n} responses have no payload digest; it was computed (SHA-1)")
    url = headers.get("warc-target-uri", "").removeprefix("<").removesuffix(">")
    time = iso_instant(headers.get("warc-date", ""))
    row = checked_row(name=url, url=url, time=time)
    if not record.body.skip():
        raise ValueError("the record is cut off: the file ends before it")
    report.count("revisits", revisit or not_modified)
    report.count("truncated captures, whose digest is left out", truncated)
    visits.add(
        row.source,
        row.time,
        changed=False if not_modified or (revisit and digest is None) else None,
        last_modified=None if truncated else _date_in(http.get("last-modified")),
        digest=digest,
        status=304 if not_modified else status,
        bytes=record.length,
    )


def _date_in(text: str | None) -> int | None:
    """Microseconds since 1970 of a date in HTTP; None where it cannot be one."""
    at = http_date(text)
    return None if at is None or at < 0 else micros(at)


def _sha1_of(body: RecordBody) -> bytes:
    hashed = hashlib.sha1(usedforsecurity=False)
    while chunk := body.read(_CHUNK):
        hashed.update(chunk)
    return hashed.digest()


# -- WACZ: a zip of WARC files with their index; nothing is unpacked to disk ----------------------


_LARGEST_RATIO = 200
"""Content is already compressed in a WACZ; a zip that unpacks to far more is a bomb."""

_SMALL = 1 << 26  # bytes that are no bomb, whatever the ratio
_MOST_MEMBERS = 100_000
_ENCRYPTED = 1


class Wacz(Importer):
    """Web archives in one file, as Browsertrix, ArchiveWeb.page and py-wacz write them."""

    name = "wacz"
    title = "WACZ web archive"
    evidence: Evidence = "V"
    endings = (".wacz",)

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether this is a zip with a description and an archive or an index."""
        entries = head.split(b"\n")
        return (
            entries[0] == b"PK\x03\x04"
            and b"datapackage.json" in entries
            and any(entry.startswith((b"archive/", b"indexes/")) for entry in entries)
        )

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield the visits of the index; of the WARC files themselves if there is none."""
        with file.local() as path, zipfile.ZipFile(path) as archive:
            members = _safe(archive, path.stat().st_size)
            indexes = [m for m in members if _is_index(m.filename)]
            warcs = [m for m in members if _is_warc(m.filename)]
            if not indexes and not warcs:
                raise InputError("there is neither an index nor a WARC file in it")
            for member in indexes or warcs:
                report.file = f"{file.name}/{member.filename}"
                with archive.open(member) as packed:
                    stream = cast("BinaryIO", packed)
                    with ImportFile(report.file, None, stream).open() as plain:
                        if indexes:
                            form = CdxjLines(by_key=options.key == "surt")
                            yield from read_lines(plain, form, report)
                        else:
                            yield from read_warc(plain, options, report)
            report.file = file.name


def _is_index(name: str) -> bool:
    return name.startswith("indexes/") and name.endswith((".cdx", ".cdxj", ".cdx.gz", ".cdxj.gz"))


def _is_warc(name: str) -> bool:
    return name.startswith("archive/") and name.endswith((".warc", ".warc.gz", ".warc.zst"))


def _safe(archive: zipfile.ZipFile, size: int) -> list[zipfile.ZipInfo]:
    """The members, unless they could not all be in a file of this size."""
    members = archive.infolist()
    if len(members) > _MOST_MEMBERS:
        raise InputError(f"a zip of {len(members):,} members is not read")
    packed = sum(member.compress_size for member in members)
    unpacked = sum(member.file_size for member in members)
    if any(member.flag_bits & _ENCRYPTED for member in members):
        raise InputError("the zip is encrypted")
    if packed > size:
        raise InputError("the zip's members overlap; it is broken or malicious")
    if unpacked > max(_SMALL, _LARGEST_RATIO * size):
        raise InputError(
            f"the zip claims to unpack to {unpacked:,} bytes, more than {_LARGEST_RATIO} times its "
            "size; it is not read"
        )
    return members


IMPORTERS = (Warc(), Wacz())
