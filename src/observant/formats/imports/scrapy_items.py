"""Item feeds of Scrapy (JSON Lines, JSON, CSV, XML): what a spider scraped, and when.

Fields are the user's own, so a mapping says what they mean: ``source`` (the URL), ``time``,
``status``, and ``digest``: the fields, with commas between them, that tell whether a page changed
(a hash, a text, a price); ``*`` is all but source and time. Without a mapping the usual names are
tried.

Items are not visits: a page of twenty offers makes twenty items. Items of one source that follow
each other within a minute are one visit, and all of them together are what it saw.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from observant.errors import InputError
from observant.formats.imports.base import Batches, Importer, VisitRows
from observant.formats.imports.loose import loose_cells, loose_objects, plain_text
from observant.times import MICROSECONDS, from_any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.files import ImportFile
    from observant.formats.imports.report import Report

__all__ = ["IMPORTERS", "ScrapyItems"]

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

    def sniff(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the contract's
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


IMPORTERS = (ScrapyItems(),)


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
    from observant.formats.imports.markup import elements

    for number, item in elements(stream, {"item"}):
        report.add_rows()
        yield number, {str(part.tag): " ".join(part.itertext()) for part in item}
