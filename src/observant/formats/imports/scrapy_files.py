"""Scrapy: item feeds, logs, and the folder of its HTTP cache.

Pickles are never read: what they hold could run. The cache tells all that is needed in ``meta``, a
Python literal. A job folder (``requests.seen``) holds neither URLs nor times, so nothing of it can
be imported; nor can a dbm cache, which is pickled.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from observant.errors import InputError
from observant.formats.imports.base import Batches, Importer, VisitRows
from observant.formats.imports.lines import loose_cells, loose_lines, loose_objects, plain_text
from observant.formats.imports.values import header_date
from observant.times import MICROSECONDS, from_any, from_iso, from_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.files import ImportFile
    from observant.formats.imports.report import Report


# -- Item feeds of Scrapy (JSON Lines, JSON, CSV, XML): what a spider scraped, and when -----------
#
# Fields are the user's own, so a mapping says what they mean: ``source`` (the URL), ``time``,
# ``status``, and ``digest``: the fields, with commas between them, that tell whether a page changed
# (a hash, a text, a price); ``*`` is all but source and time. Without a mapping the usual names are
# tried.
#
# Items are not visits: a page of twenty offers makes twenty items. Items of one source that follow
# each other within a minute are one visit, and all of them together are what it saw.


_USUAL = {
    "source": ("source", "url", "page_url", "response_url", "link"),
    "time": (
        "time", "timestamp", "scraped_at", "crawled_at", "fetched_at", "crawl_time", "scraped",
        "crawled", "fetched", "date_scraped",
    ),
    "digest": (
        "digest", "hash", "content_hash", "sha256", "sha1", "md5", "checksum", "content", "text",
        "body", "html",
    ),
    "status": ("status",),
}  # fmt: skip
_ONE_VISIT = 60 * MICROSECONDS


class ScrapyItems(Importer):
    """An item feed, with a mapping of its fields."""

    name = "scrapy-items"
    title = "Scrapy item feed"
    evidence: Evidence = "V"

    def sniff(self, head: bytes, name: str) -> bool:
        """Only XML is known by its look: JSON and CSV could be anybody's."""
        text = head.lstrip(b"\xef\xbb\xbf \r\n")
        start = text.partition(b"?>")[2] if text.startswith(b"<?xml") else text
        return start.lstrip().startswith(b"<items>")

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield the visits that the items tell of."""
        rows = VisitRows(options.batch_rows)
        fields: dict[str, str] | None = None
        pending: _Visit | None = None
        with file.open() as stream:
            for number, item in _items(stream, report):
                if fields is None:
                    fields = _fields(item, options.mapping, report)
                try:
                    visit = _visit(item, fields, options)
                except ValueError as error:
                    report.malformed(number, str(error), str(item)[:200])
                    continue
                if pending is not None and pending.joins(visit):
                    report.count("items that share a visit with another item")
                    continue
                if pending is not None:
                    pending.add_to(rows)
                pending = visit
                if rows.full:
                    yield rows.take()
        if pending is not None:
            pending.add_to(rows)
        yield rows.take()


@dataclass
class _Visit:
    source: str
    time: int
    status: int | None
    digests: list[bytes]

    def joins(self, other: _Visit) -> bool:
        """Take in another item of the same visit; False if it is another visit."""
        if other.source != self.source or not 0 <= other.time - self.time <= _ONE_VISIT:
            return False
        self.digests += other.digests
        return True

    def add_to(self, rows: VisitRows) -> None:
        """One item has its own digest; of several, their order does not count."""
        digest = self.digests[0]
        if len(self.digests) > 1:
            digest = hashlib.sha256(b"".join(sorted(self.digests))).digest()[:16]
        rows.add(self.source, self.time, digest=digest, status=self.status)


def _fields(item: dict[str, Any], given: Mapping[str, str], report: Report) -> dict[str, str]:
    """Which field of the items is what: as the user says, else by the usual names."""
    unknown = sorted(set(given) - set(_USUAL))
    if unknown:
        raise InputError(f"{unknown[0]!r} cannot be mapped; one of {', '.join(_USUAL)} can")
    fields = dict(given)
    for field_ in given.values():
        if field_ != "*" and any(part not in item for part in field_.split(",")):
            raise InputError(
                f"the first item has no field {field_!r}; its fields are {', '.join(item)}"
            )
    guessed = []
    for name, usual in _USUAL.items():
        if name in fields:
            continue
        found = next((candidate for candidate in usual if candidate in item), None)
        if found is not None:
            fields[name] = found
            guessed.append(f"{name} is {found!r}")
    for needed in ("source", "time"):
        if needed not in fields:
            raise InputError(
                f"which field holds the {needed}? Say it with --map {needed}=FIELD; the fields "
                f"are {', '.join(item)}. Items without one are no visits"
            )
    if "digest" not in fields:
        fields["digest"] = "*"
        guessed.append("a change is one of any other field")
    if guessed:
        report.warn(f"taken by their usual names: {'; '.join(guessed)} (--map says otherwise)")
    return fields


def _visit(item: dict[str, Any], fields: dict[str, str], options: ImportOptions) -> _Visit:
    source = item.get(fields["source"])
    if not isinstance(source, str) or not source:
        raise ValueError("there is no source")
    time = from_any(item.get(fields["time"]), options.zone)
    status = item.get(fields.get("status", ""))
    if isinstance(status, str) and status.isdecimal() and len(status) < 5:
        status = int(status)
    known = isinstance(status, int) and not isinstance(status, bool) and 0 <= status < 1000
    content = _content(item, fields)
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()[:16]
    return _Visit(plain_text(source), time, status if known else None, [digest])


def _content(item: dict[str, Any], fields: dict[str, str]) -> str:
    """What is compared, as one text."""
    if fields["digest"] == "*":
        others = {fields["source"], fields["time"], fields.get("status")}
        chosen = {key: value for key, value in item.items() if key not in others}
    else:
        chosen = {key: item.get(key) for key in fields["digest"].split(",")}
    return json.dumps(chosen, sort_keys=True, default=str)


def _items(stream: BinaryIO, report: Report) -> Iterator[tuple[int, dict[str, Any]]]:
    head = stream.peek(64)[:64].lstrip(b"\xef\xbb\xbf \r\n")  # type: ignore[attr-defined]
    if head[:1] in {b"{", b"["}:
        yield from loose_objects(stream, report)
    elif head[:1] == b"<":
        yield from _from_xml(stream, report)
    else:
        yield from _from_csv(stream, report)


def _from_csv(stream: BinaryIO, report: Report) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows of CSV; a header that comes again is where another run was appended."""
    rows = loose_cells(stream, report)
    header = next(rows, (0, []))[1]
    for number, row in rows:
        if row == header:
            report.leave_out("a header, where another run was appended")
        elif len(row) == len(header):
            yield number, dict(zip(header, row, strict=True))
        else:
            report.malformed(number, f"{len(row)} cells where {len(header)} were expected")


def _from_xml(stream: BinaryIO, report: Report) -> Iterator[tuple[int, dict[str, Any]]]:
    from observant.formats.imports.lines import elements

    for number, item in elements(stream, {"item"}):
        report.add_rows()
        yield number, {str(part.tag): " ".join(part.itertext()) for part in item}


_CRAWLED = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d{1,6})?) \[scrapy\.core\.engine\] DEBUG: "
    r"Crawled \((\d{1,4})\) <([A-Z]+) (\S+)>(.*)"
)
_LOST = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d{1,6})?) \[scrapy\.core\.scraper\] ERROR: "
    r"(?:Error downloading|Gave up retrying) <([A-Z]+) (\S+)>.*"
)
_FINGERPRINT = re.compile(r"[0-9a-f]{40,64}")
_LARGEST_META = 1 << 16
_LARGEST_BODY = 1 << 28


class ScrapyLog(Importer):
    """The log of a spider: when it fetched what, and with which status."""

    name = "scrapy-log"
    title = "Scrapy log"
    evidence: Evidence = "V"
    endings = (".log",)

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether the log has lines of Scrapy's."""
        return (
            re.search(rb"(?m)^\d{4}-\d\d-\d\d \S+ \[scrapy\.[a-z.]+\] [A-Z]+: ", head) is not None
        )

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield the fetches."""
        report.warn(
            "a log tells when pages were fetched, not what was in them: it supports no rate, "
            "but for pages answered by 304 Not Modified"
        )
        if options.zone is None:
            report.warn("times of a Scrapy log name no zone, and were taken as UTC (--zone)")
        rows = VisitRows(options.batch_rows)
        with file.open() as stream:
            for number, line in loose_lines(stream, report):
                _add_line(rows, number, line, options, report)
                if rows.full:
                    yield rows.take()
        yield rows.take()


class ScrapyCache(Importer):
    """``httpcache/``: the last answer to every request, with its body."""

    name = "scrapy-cache"
    title = "Scrapy HTTP cache folder"
    evidence: Evidence = "S"
    endings = ("/",)

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether this is the cache, or the part of one spider."""
        if not name.endswith("/"):
            return False
        if name.rstrip("/").endswith("httpcache"):
            return True
        names = head.decode(errors="replace").split("\n")
        return bool(names) and all(re.fullmatch(r"[0-9a-f]{2}", entry) for entry in names)

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield the answers that are kept, one for each request."""
        if not file.is_folder or file.path is None:
            raise InputError(
                "the HTTP cache is a folder; a dbm cache is pickled, and pickles are not read",
                file=file.name,
            )
        report.warn(
            "a cache holds the last answer to each request; bodies are compared byte by byte"
        )
        rows = VisitRows(options.batch_rows)
        for entry in _entries(file.path):
            report.add_rows()
            try:
                _add_entry(rows, entry, report)
            except (ValueError, OSError, EOFError, zlib.error) as error:
                report.malformed(report.rows, f"{entry.name}: {error}")
            if rows.full:
                yield rows.take()
        yield rows.take()


IMPORTERS = (ScrapyItems(), ScrapyLog(), ScrapyCache())


def _add_line(
    rows: VisitRows, number: int, line: str, options: ImportOptions, report: Report
) -> None:
    found = _CRAWLED.fullmatch(line)
    lost = None if found else _LOST.fullmatch(line)
    match = found or lost
    if match is None:
        return
    report.add_rows()
    method, url = (match[3], match[4]) if found else (match[2], match[3])
    if method not in {"GET", "HEAD"}:
        report.leave_out(f"a request by {method}, not GET")
        return
    if found and "'cached'" in found[5]:
        report.leave_out("answered from the cache: no visit")
        return
    try:
        time = from_iso(match[1].replace(",", "."), options.zone)
    except ValueError as error:
        report.malformed(number, str(error), line)
        return
    status = int(found[2]) if found else 0
    rows.add(plain_text(url), time, status=status, changed=False if status == 304 else None)


def _entries(folder: Path) -> Iterator[Path]:
    """Folders of single answers, at most four levels down; links are not followed."""
    todo = [(folder, 0)]
    while todo:
        here, depth = todo.pop()
        with os.scandir(here) as found:
            names = sorted((e for e in found if e.is_dir(follow_symlinks=False)), key=_by_name)
        for entry in names:
            path = Path(entry.path)
            if _FINGERPRINT.fullmatch(entry.name):
                yield path
            elif depth < 3:
                todo.append((path, depth + 1))


def _by_name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _add_entry(rows: VisitRows, entry: Path, report: Report) -> None:
    with _opened(entry / "meta") as file:
        text = file.read(_LARGEST_META + 1)
    if len(text) > _LARGEST_META:
        raise ValueError("meta is too long")
    try:
        meta = ast.literal_eval(text.decode())
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        raise ValueError("meta is no Python literal") from None
    if not isinstance(meta, dict):
        raise ValueError("meta is no dictionary")  # noqa: TRY004 - a bad row, not a bad call
    url, method, status = meta.get("url"), meta.get("method"), meta.get("status")
    if not isinstance(url, str) or not isinstance(status, int) or not 0 <= status < 1000:
        raise ValueError("meta tells no url and status")
    if method != "GET":
        report.leave_out("a request by another method than GET")
        return
    time = from_seconds(meta.get("timestamp"))
    headers = _headers(entry / "response_headers")
    good = 200 <= status < 400
    digest, size = _digest_of(entry / "response_body", headers.get("content-encoding", ""))
    rows.add(
        plain_text(url),
        time,
        status=status,
        digest=digest if good else None,
        bytes=size,
        last_modified=header_date(headers.get("last-modified")) if good else None,
    )


def _headers(path: Path) -> dict[str, str]:
    with _opened(path) as file:
        text = file.read(_LARGEST_META).decode("latin-1")
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _digest_of(path: Path, encoding: str) -> tuple[bytes, int]:
    """Digest of a body, decompressed if that is possible, and the bytes it has on the wire."""
    digest, plain, size = hashlib.sha256(), hashlib.sha256(), 0
    decoder: Any = zlib.decompressobj(47) if encoding.strip().lower() == "gzip" else None
    unpacked = 0
    with _opened(path) as file:
        while block := file.read(1 << 16):
            size += len(block)
            digest.update(block)
            if decoder is not None:
                try:
                    piece = decoder.decompress(block, 1 << 20)
                    while piece:
                        unpacked += len(piece)
                        plain.update(piece)
                        piece = decoder.decompress(decoder.unconsumed_tail, 1 << 20)
                except zlib.error:
                    decoder = None
                if unpacked > _LARGEST_BODY:
                    decoder = None
            if size > _LARGEST_BODY:
                raise ValueError("the body is larger than 256 MiB")
    return (digest if decoder is None else plain).digest()[:16], size


def _opened(path: Path) -> BinaryIO:
    """A file of the cache, never a link. All are gzipped if ``meta`` is: a body could be gzipped
    of its own.
    """
    import gzip

    meta = path.with_name("meta")
    for needed in (meta, path):
        if needed.is_symlink() or not needed.is_file():
            raise ValueError(f"{needed.name} is missing")
    with meta.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    opened: Any = gzip.open(path) if zipped else path.open("rb")  # noqa: SIM115
    return opened  # type: ignore[no-any-return]
