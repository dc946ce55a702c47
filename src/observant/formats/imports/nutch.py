"""Apache Nutch: dumps of the crawl database, and dumps of segments.

The fetch time of a crawl database is when the next fetch is due; the last one was about one
interval before (a schedule that shifts fetches makes that wrong by the shift). A dump holds one
state of each page, so one dump gives no rate. Several dumps of different days do: each adds the
fetch that it knew as the last one, with its signature. Segments hold the fetches themselves.

The modified time is when Nutch found the last change. It is taken as the date of modification only
from users who accept ``changed-when-found``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from observant.errors import InputError
from observant.formats.imports.base import Batches, Importer, VisitRows
from observant.formats.imports.files import ImportFile
from observant.formats.imports.lines import loose_cells, loose_lines, loose_objects, plain_text
from observant.times import MICROSECONDS, checked, from_any, from_java

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.report import Report

# As HTTP would say it; pages that were never fetched are left out.
_DUMPED = {2: 200, 3: 404, 4: 302, 5: 301, 6: 304, 7: 200, 8: 200, 9: 200}
_FETCHED = {33: 200, 34: 0, 35: 302, 36: 301, 37: 404, 38: 304}
_SIGNATURE = 65

FOUND = "changed-when-found"
_FOUND = "a page changed when Nutch found the change, not up to one interval before"

_BEGINS = re.compile(r"(\S+)\tVersion: \d+\s*")
_CSV_HEADER = "Url,Status code,Status name,Fetch Time,Modified Time"
_STATUS = re.compile(r"(\d+)(?: \(\w+\))?\s*")
_INTERVAL = re.compile(r"(\d+) seconds.*")
_PART = re.compile(r"part-(?:r-|m-)?\d{5}(?:\.\w+)?", re.MULTILINE)
_RECORD = re.compile(r"Recno:: (\d{1,18})")


class PageState(NamedTuple):
    """What a crawl database knows of a page, as texts."""

    url: str
    status: str
    due: str
    changed: str
    interval: str
    signature: str


class NutchDump(Importer):
    """``readdb -dump``: text, CSV or JSON."""

    name = "nutch"
    title = "Apache Nutch crawl database dump"
    evidence: Evidence = "S"

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether this looks like a dump, or like a folder of its parts."""
        if name.endswith("/"):
            return _PART.search(head.decode(errors="replace")) is not None
        text = head.decode(errors="replace").lstrip("\ufeff")
        first, _, rest = text.partition("\n")
        return (
            (_BEGINS.fullmatch(first.strip("\r")) is not None and "Status: " in rest[:80])
            or first.replace('"', "").startswith(_CSV_HEADER)
            or ('"statusName"' in first and '"retriesSinceFetch"' in first)
        )

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield the last fetch of each page, as far as the database knows."""
        report.warn(
            "the time of a fetch is taken as its due time less its interval; a schedule that "
            "shifts fetches makes that wrong by the shift"
        )
        if FOUND in options.accept:  # a choice, not a need: "all" does not make it
            report.assume(FOUND, _FOUND)
        rows = VisitRows(options.batch_rows)
        for part in _parts(file):
            with part.open() as stream:
                for number, state in _states(stream, report):
                    _add(rows, number, state, options, report)
                    if rows.full:
                        yield rows.take()
        yield rows.take()


class NutchSegment(Importer):
    """``readseg -dump``: the fetches themselves."""

    name = "nutch-segment"
    title = "Apache Nutch segment dump"
    evidence: Evidence = "V"

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether this looks like a segment dump, or like the folder of one."""
        if name.endswith("/"):
            return "dump" in head.decode(errors="replace").split("\n")
        return re.match(rb"\s*Recno:: 0\s*\nURL:: \S", head) is not None

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield the fetches."""
        if file.is_folder:
            assert file.path is not None  # noqa: S101 - only a path is a folder
            file = ImportFile(f"{file.name}/dump", file.path / "dump")
        rows = VisitRows(options.batch_rows)
        with file.open() as stream:
            for number, url, datums in _records(stream, report):
                _add_fetch(rows, number, url, datums, options, report)
                if rows.full:
                    yield rows.take()
        yield rows.take()


IMPORTERS = (NutchDump(), NutchSegment())


def _parts(file: ImportFile) -> list[ImportFile]:
    if not file.is_folder:
        return [file]
    assert file.path is not None  # noqa: S101 - only a path is a folder
    names = sorted(entry.name for entry in file.path.iterdir() if _PART.match(entry.name))
    if not names:
        raise InputError("holds no parts of a dump (part-r-00000)", file=file.name)
    return [ImportFile(f"{file.name}/{name}", file.path / name) for name in names]


def _states(stream: BinaryIO, report: Report) -> Iterator[tuple[int, PageState]]:
    """Every page of a dump, whichever of its three forms it has."""
    head = stream.peek(1 << 12)[: 1 << 12].lstrip()  # type: ignore[attr-defined]
    if head[:1] in {b"{", b"["}:
        for number, found in loose_objects(stream, report):
            keys = ("url", "statusCode", "fetchTime", "modifiedTime", "retryIntervalSeconds")
            yield number, PageState._make(str(found.get(key) or "") for key in (*keys, "signature"))
    elif head.replace(b'"', b"").startswith(_CSV_HEADER.encode()):
        yield from _from_csv(stream, report)
    else:
        yield from _from_text(stream, report)


def _from_csv(stream: BinaryIO, report: Report) -> Iterator[tuple[int, PageState]]:
    rows = loose_cells(stream, report)
    next(rows, None)
    for number, row in rows:
        if len(row) < 10:
            report.malformed(number, f"{len(row)} cells where 11 were expected")
        else:
            yield number, PageState(row[0], row[1], row[3], row[4], row[6], row[9])


def _from_text(stream: BinaryIO, report: Report) -> Iterator[tuple[int, PageState]]:
    url, start = "", 0
    fields: dict[str, str] = {}
    for number, line in loose_lines(stream, report):
        begins = _BEGINS.fullmatch(line)
        if begins:
            if url:
                report.add_rows()
                yield start, _state(url, fields)
            url, start, fields = begins[1], number, {}
        elif not line.strip() or line[0] in " \t":
            continue  # between pages, and metadata
        elif not url:
            report.add_rows()
            report.malformed(number, "a page begins with its URL and 'Version: 7'", line)
        else:
            key, _, value = line.partition(":")
            fields.setdefault(key, value.strip())
    if url:
        report.add_rows()
        yield start, _state(url, fields)


def _state(url: str, fields: dict[str, str]) -> PageState:
    keys = ("Status", "Fetch time", "Modified time", "Retry interval", "Signature")
    return PageState._make([url, *(fields.get(key, "") for key in keys)])


def _add(
    rows: VisitRows, number: int, state: PageState, options: ImportOptions, report: Report
) -> None:
    try:
        code = _code(state.status)
        if code == 1:
            report.leave_out("never fetched, or not since the last failure")
            return
        if code not in _DUMPED:
            raise ValueError(f"unknown status {code}")  # noqa: TRY301 - told below
        interval = _seconds(state.interval)
        last = checked(_time(state.due, options) - interval * MICROSECONDS)
        digest = _digest(state.signature)
        found = _change(state.changed, options) if FOUND in options.accept else None
    except ValueError as error:
        report.malformed(number, str(error), " ".join(state))
        return
    rows.add(plain_text(state.url), last, digest=digest, status=_DUMPED[code], last_modified=found)


def _records(stream: BinaryIO, report: Report) -> Iterator[tuple[int, str, list[dict[str, str]]]]:
    """Line, URL and datums of each record.

    Content of pages stands in a dump as it is, and could hold lines like ours. So a record begins
    only with the next number and a line with its URL, and datums are read before content only.
    """
    url, start, expected, after = "", 0, 0, -1
    datums: list[dict[str, str]] = []
    inside = False
    for number, line in loose_lines(stream, report):
        record = _RECORD.fullmatch(line)
        if record and int(record[1]) == expected:
            after = number
        elif line.startswith("URL:: ") and after == number - 1 and after > 0:
            if url:
                yield start, url, datums
            url, start, datums, inside = line[6:].strip(), number, [], True
            expected += 1
        elif inside and line.startswith("CrawlDatum::"):
            datums.append({})
        elif inside and re.fullmatch(r"(Content|ParseData|ParseText)::\s*", line):
            inside = False
        elif inside and datums and ":" in line and line[:1] not in {" ", "\t"}:
            key, _, value = line.partition(":")
            datums[-1].setdefault(key, value.strip())
    if url:
        yield start, url, datums


def _add_fetch(
    rows: VisitRows,
    number: int,
    url: str,
    datums: Iterable[dict[str, str]],
    options: ImportOptions,
    report: Report,
) -> None:
    report.add_rows()
    try:
        by_code = {_code(datum.get("Status", "")): datum for datum in datums}
        code = next((code for code in by_code if code in _FETCHED), None)
        if code is None:
            report.leave_out("generated or linked to, and not fetched")
            return
        time = _time(by_code[code].get("Fetch time", ""), options)
        signature = by_code.get(_SIGNATURE, by_code[code]).get("Signature", "")
        digest = _digest(signature)
    except ValueError as error:
        report.malformed(number, str(error), url)
        return
    rows.add(plain_text(url), time, digest=digest, status=_FETCHED[code])


def _code(text: str) -> int:
    found = _STATUS.fullmatch(text)
    if found is None:
        raise ValueError("there is no status")
    return int(found[1][:6])


def _time(text: str, options: ImportOptions) -> int:
    if text[:3].isalpha():
        return from_java(text, options.zone)
    return from_any(text, options.zone)


def _change(text: str, options: ImportOptions) -> int | None:
    """When the last change was found; 1970 stands for never."""
    try:
        return _time(text, options)
    except ValueError:
        return None


def _seconds(text: str) -> int:
    found = _INTERVAL.fullmatch(text) or re.fullmatch(r"(\d+)(?:\.0*)?", text)
    if found is None or len(found[1]) > 12:
        raise ValueError("there is no interval")
    return int(found[1])


def _digest(text: str) -> bytes | None:
    if text in {"", "null"}:
        return None
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ValueError("the signature is not hexadecimal") from None
