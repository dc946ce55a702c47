"""Scrapy: item feeds, logs, and the folder of its HTTP cache.

Pickles are never read: what they hold could run. The cache tells all that is needed in ``meta``, a
Python literal. A job folder (``requests.seen``) holds neither URLs nor times, so nothing of it can
be imported; nor can a dbm cache, which is pickled.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from observant.errors import InputError
from observant.formats.imports.base import Batches, Importer, VisitRows
from observant.formats.imports.loose import loose_lines, plain_text
from observant.times import from_iso, from_mail, from_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.files import ImportFile
    from observant.formats.imports.report import Report

__all__ = ["IMPORTERS", "ScrapyCache", "ScrapyLog"]

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

    def sniff(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the contract's
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


IMPORTERS = (ScrapyLog(), ScrapyCache())


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
        last_modified=_date(headers.get("last-modified")) if good else None,
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


def _date(text: str | None) -> int | None:
    try:
        return from_mail(text) if text else None
    except ValueError:
        return None
