"""WARC: the captures themselves, as archives keep them; a revisit record is a visit too."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, BinaryIO

from observant.errors import LeftOut
from observant.formats.imports.base import Batches, Importer, VisitRows
from observant.formats.imports.values import checked_row, digest_in, iso_instant
from observant.formats.imports.warc_records import RecordBody, WarcRecord, http_head, records_of
from observant.times import http_date, micros

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.files import ImportFile
    from observant.formats.imports.report import Report

__all__ = ["IMPORTERS", "read_warc"]

_CHUNK = 1 << 20
_VERSIONS = (b"WARC/0.17", b"WARC/0.18", b"WARC/1.0", b"WARC/1.1")


class Warc(Importer):
    """WARC 1.0 and 1.1, plain or compressed by gzip or zstd, a record at a time."""

    name = "warc"
    title = "WARC file of a web archive"
    evidence: Evidence = "V"
    endings = (".warc",)

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether the first line says so."""
        del name
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


IMPORTERS = (Warc(),)
