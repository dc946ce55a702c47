"""Answers of CDX servers: rows in a JSON array (Wayback), or a JSON object a line (pywb)."""

from __future__ import annotations

import codecs
import json
from typing import TYPE_CHECKING, Any, BinaryIO

from observant.errors import InputError, LeftOut
from observant.formats.imports.base import Batches, Importer, VisitRows
from observant.formats.imports.blocks import read_lines
from observant.formats.imports.cdxj import CdxjLines, record_row
from observant.times import from_digits

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.files import ImportFile
    from observant.formats.imports.report import Report
    from observant.formats.imports.values import Row

_CHUNK = 1 << 20
_LONGEST_ROW = 1 << 18
_NAMES = {"urlkey", "timestamp", "original", "url", "mimetype", "statuscode", "digest", "length"}
_NESTED = 1000
"""Brackets that a reader has seen, at least, when they are too deep for it."""
_SKIPPED = "skipped-unchanged"


class CdxServer(Importer):
    """What ``output=json`` gives, on the Wayback Machine, on pywb and on Common Crawl's server."""

    name = "cdx-server"
    title = "answer of a CDX server (JSON)"
    evidence: Evidence = "V"
    endings = (".json", ".jsonl", ".ndjson")

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether the first row or object has the names of a CDX server."""
        text = head.decode(errors="replace").lstrip("\ufeff \t\r\n")
        try:
            if text.startswith("{"):
                first = json.loads(text.partition("\n")[0])
                return {"urlkey", "timestamp"} <= set(first)
            if not text.startswith("["):
                return False
            first, _ = json.JSONDecoder().raw_decode(text[1:].lstrip())
        except (ValueError, RecursionError):
            return False
        return _is_header(first)

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield the captures, in either form."""
        with file.open() as stream:
            head = stream.peek(64)[:64]  # type: ignore[attr-defined]
            if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
                yield from _read_rows(stream, options, report)
            else:
                form = CdxjLines(by_key=options.key == "surt", bare=True)
                yield from read_lines(stream, form, report)


def _read_rows(
    stream: BinaryIO, options: ImportOptions, report: Report
) -> Iterator[pa.RecordBatch]:
    items = _items(stream, report)
    header = next((item for _, item in items), None)
    if not _is_header(header):
        raise InputError("the first row must name the columns, timestamp among them")
    assert header is not None  # noqa: S101 - a header is a list
    visits = VisitRows(options.batch_rows)
    by_key = options.key == "surt"
    for number, item in items:
        if item == []:
            report.warn("the answer ends with a resume key: the server has more captures to tell")
            break
        report.add_rows()
        try:
            record = _record(header, item)
            row = record_row(record, by_key=by_key)
            _add(visits, row, row.time)
            _add_skipped(visits, row, record, report)
        except LeftOut as reason:
            report.leave_out(str(reason))
        except ValueError as reason:
            report.malformed(number, str(reason), json.dumps(item)[:500])
        if visits.full:
            yield visits.take()
    yield visits.take()


def _record(header: list[str], item: object) -> dict[str, Any]:
    if not isinstance(item, list) or len(item) != len(header):
        raise ValueError(f"not a row of {len(header)} values")
    return dict(zip(header, item, strict=True))


def _add(visits: VisitRows, row: Row, time: int) -> None:
    try:
        row.source.encode()
    except UnicodeEncodeError as error:
        raise ValueError("the name of the source is not text") from error
    not_modified = row.status == 304
    digest = None if not_modified or row.truncated else row.digest
    visits.add(
        row.source,
        time,
        changed=False if not_modified or (row.revisit and digest is None) else None,
        digest=digest,
        status=row.status,
        bytes=row.size,
    )


def _add_skipped(visits: VisitRows, row: Row, record: dict[str, Any], report: Report) -> None:
    """The last of the captures that the server skipped after this one.

    What lies between the first and the last of a run of equal captures adds nothing to the
    evidence: nobody saw a change from the one to the other. So a list collapsed by digest is as
    good as a full one, if the server told the end of each run (``lastSkipTimestamp``).
    """
    skipped, end = str(record.get("skipcount") or "0"), str(record.get("endtimestamp") or "")
    if skipped in {"0", "-"} or end in {"", "-"}:
        return
    time = from_digits(end)
    if time <= row.time or row.digest is None:
        return
    report.assume(
        _SKIPPED,
        "the captures that the server skipped are those with the digest of the one before "
        "(collapse=digest, and no filter)",
    )
    report.count("ends of runs of equal captures that the server skipped")
    _add(visits, row, time)


def _is_header(item: object) -> bool:
    return (
        isinstance(item, list)
        and all(isinstance(name, str) for name in item)
        and "timestamp" in item
        and len(_NAMES & set(item)) >= 2
    )


def _items(stream: BinaryIO, report: Report) -> Iterator[tuple[int, Any]]:
    """The members of one array, with their numbers, without holding all of it."""
    decode = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape").decode
    parse = json.JSONDecoder().raw_decode
    buffer, at, number = "", 0, 0

    def more() -> bool:
        nonlocal buffer, at
        chunk = stream.read(_CHUNK)
        buffer, at = buffer[at:] + decode(chunk, not chunk), 0
        return bool(chunk)

    while not buffer.strip() and more():
        pass
    at = buffer.find("[") + 1
    while True:
        while at < len(buffer) and buffer[at] in " \t\r\n,":
            at += 1
        if at == len(buffer):
            if more():
                continue
            report.add_rows()
            report.malformed(number + 1, "the answer is cut off: there is no last bracket")
            return
        if buffer[at] == "]":
            return
        try:
            item, end = parse(buffer, at)
        except (ValueError, RecursionError) as error:
            if len(buffer) - at < _LONGEST_ROW and more():
                continue
            number += 1
            report.add_rows()
            report.malformed(number, "this is not a row in JSON", buffer[at : at + 500])
            # What was read in vain is not read again, or nested brackets would take for ever: go
            # on at the last line that the reader has begun, or behind all that was nested.
            read = error.pos if isinstance(error, json.JSONDecodeError) else at + _NESTED
            at = buffer.find("\n[", max(buffer.rfind("\n", at + 1, read + 1), at + 1))
            if at < 0:
                return
            continue
        at, number = end, number + 1
        yield number, item


IMPORTERS = (CdxServer(),)
