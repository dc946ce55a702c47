"""StormCrawler and URLFrontier: what their status tables, indexes and dumps say of each page.

Three forms, one meaning: documents of a status index (one JSON object a line, alone or under
``_source``), rows of the SQL table as CSV, and the lines of a URLFrontier dump (``known`` or
``discovered``). Each holds one state of a page: when the next fetch is due, and in the metadata
what the last one saw. Several dumps of different days together give visits to compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from observant.formats.imports.base import Batches, Importer, VisitRows
from observant.formats.imports.lines import loose_cells, loose_objects, plain_text
from observant.formats.imports.values import header_date
from observant.times import MICROSECONDS, checked, from_any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.files import ImportFile
    from observant.formats.imports.report import Report

_STATUS = {"FETCHED": 200, "REDIRECTION": 301, "FETCH_ERROR": 0, "ERROR": 404}
_MINUTE = 60 * MICROSECONDS


class StormCrawlerIndex(Importer):
    """Status documents, SQL rows and URLFrontier dumps."""

    name = "stormcrawler"
    title = "StormCrawler status or URLFrontier dump"
    evidence: Evidence = "S"

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether the first line looks like one of the three forms."""
        first = head.lstrip(b"\xef\xbb\xbf[ \r\n").partition(b"\n")[0]
        if first.lower().replace(b'"', b"").startswith(b"url,status,nextfetchdate,metadata"):
            return True
        if not first.startswith(b"{"):
            return False
        frontier = b'"info"' in first and (b'"known"' in first or b'"discovered"' in first)
        return frontier or (b'"nextFetchDate"' in first and b'"status"' in first)

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield the last fetch of each page, where its time can be told."""
        rows = VisitRows(options.batch_rows)
        with file.open() as stream:
            for number, document in _documents(stream, report):
                _add(rows, number, document, options, report)
                if rows.full:
                    yield rows.take()
        yield rows.take()


IMPORTERS = (StormCrawlerIndex(),)


def _documents(stream: BinaryIO, report: Report) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every page with url, status, nextFetchDate and metadata, whatever form it came in."""
    head = stream.peek(64)[:64].lstrip(b"\xef\xbb\xbf \r\n")  # type: ignore[attr-defined]
    if head[:1] not in {b"{", b"["}:
        yield from _from_csv(stream, report)
        return
    for number, found in loose_objects(stream, report):
        inner = found.get("_source", found)
        item = found.get("known") or found.get("discovered")
        if isinstance(item, dict):
            info = item.get("info")
            document = dict(info) if isinstance(info, dict) else {}
            if "known" in found:
                document["nextFetchDate"] = item.get("refetchable_from_date")
                document["status"] = "KNOWN"
            else:
                document["status"] = "DISCOVERED"
            yield number, document
        elif isinstance(inner, dict):
            yield number, inner
        else:
            report.malformed(number, "there is no document in it", str(found)[:200])


def _from_csv(stream: BinaryIO, report: Report) -> Iterator[tuple[int, dict[str, Any]]]:
    rows = loose_cells(stream, report)
    header = [cell.strip().lower() for cell in next(rows, (0, []))[1]]
    for number, row in rows:
        if len(row) != len(header):
            report.malformed(number, f"{len(row)} cells where {len(header)} were expected")
            continue
        cells = dict(zip(header, row, strict=True))
        pairs = (pair.partition("=") for pair in cells.get("metadata", "").split("\t"))
        yield (
            number,
            {
                "url": cells.get("url"),
                "status": cells.get("status"),
                "nextFetchDate": cells.get("nextfetchdate"),
                "metadata": {key: value for key, _, value in pairs if key},
            },
        )


def _add(
    rows: VisitRows, number: int, document: dict[str, Any], options: ImportOptions, report: Report
) -> None:
    url, status = document.get("url"), str(document.get("status") or "").upper()
    if not isinstance(url, str) or not url:
        report.malformed(number, "there is no url", str(document)[:200])
        return
    if status == "DISCOVERED":
        report.leave_out("discovered, and not fetched yet")
        return
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    try:
        time = _last_fetch(document, metadata, options)
        if time is None:
            report.leave_out(
                "the time of the last fetch is not told (neither lastProcessedDate nor "
                "fetchInterval is kept)"
            )
            return
        told = _value(metadata, "fetch.statusCode")
        code = int(told) if told.lstrip("-").isdecimal() and len(told) < 5 else None
        if code is None:
            code = _STATUS.get(status, 200 if status == "KNOWN" else None)
        if code is None:
            raise ValueError(f"unknown status {status!r}")  # noqa: TRY301 - told below
        signature = _value(metadata, "signature")
        digest = bytes.fromhex(signature) if signature else None
        declared = _value(metadata, "last-modified")
    except ValueError as error:
        report.malformed(number, str(error), url)
        return
    good = 200 <= code < 400
    rows.add(
        plain_text(url),
        time,
        digest=digest if good else None,
        status=code,
        last_modified=header_date(declared) if good else None,
    )


def _last_fetch(
    document: dict[str, Any], metadata: dict[str, Any], options: ImportOptions
) -> int | None:
    told = _value(metadata, "lastProcessedDate")
    if told:
        return from_any(told, options.zone)
    interval, due = _value(metadata, "fetchInterval"), document.get("nextFetchDate")
    # URLFrontier writes 0 for a page that is never fetched again.
    if not interval or due in (None, "", 0, "0"):
        return None
    minutes = float(interval)
    if not 0 <= minutes < 1e8:
        raise ValueError("there is no such interval")
    return checked(from_any(due, options.zone) - round(minutes * _MINUTE))


def _value(metadata: dict[str, Any], key: str) -> str:
    """A value of the metadata: plain or in a list, its dotted key as it is, escaped or nested."""
    found: Any = metadata.get(key, metadata.get(key.replace(".", "%2E")))
    if found is None and "." in key:
        outer, _, inner = key.partition(".")
        nested = metadata.get(outer)
        found = nested.get(inner) if isinstance(nested, dict) else None
    if isinstance(found, list):
        found = found[0] if found else None
    return "" if found is None else str(found).strip()
