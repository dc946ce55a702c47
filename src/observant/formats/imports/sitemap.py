"""Sitemaps: the dates that sites declare for their pages.

Each page is one visit, at the time when the file was saved, with the date that the site declares.
Import copies of different days together, and every declared change is seen. A date without a time
of day is taken as noon. Many sites write the time when the sitemap was made as the date of every
page: dates that are all the same are no evidence, and are set aside.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, BinaryIO

from observant.errors import InputError
from observant.formats.imports.base import (
    Batches,
    Described,
    Importer,
    SourceDescription,
    VisitRows,
)
from observant.formats.imports.lines import elements, local_name, loose_lines, plain_text, text_of
from observant.formats.imports.values import web_date
from observant.times import (
    MICROSECONDS,
    MICROSECONDS_PER_DAY,
    from_iso,
    is_date_only,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.files import ImportFile
    from observant.formats.imports.report import Report

_ADDRESS = re.compile(r"https?://\S{1,2040}", re.IGNORECASE)
_PERIODS = {
    "always": "1h",
    "hourly": "1h",
    "daily": "1d",
    "weekly": "7d",
    "monthly": "30d",
    "yearly": "365d",
}
_MOST = 50_000  # pages that a sitemap may have; of more, dates are judged by the first ones
_ENOUGH = 5
_ROOTS = {"urlset", "sitemapindex"}


class SitemapFile(Importer):
    """``sitemap.xml``, or a plain list of addresses."""

    name = "sitemap"
    title = "Sitemap"
    evidence: Evidence = "D"
    endings = (".xml",)

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether the root element is one of a sitemap."""
        return re.search(rb"<(?:\w+:)?(?:urlset|sitemapindex)[\s>]", head[:4096]) is not None

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield one visit to each page, with the date that the site declares for it."""
        saved = file.saved_at()
        report.warn(
            "the visit is taken to be when the file was saved; a copy that was made later moves it"
        )
        rows = VisitRows(options.batch_rows)
        with file.open() as stream:
            pages = _pages(stream, report)
            held = list(islice(pages, _MOST))
            trusted = _trusted(held, saved, options, report)
            for page in chain(held, pages):
                _add(rows, page, saved, trusted, options, report)
                if rows.full:
                    yield rows.take()
        yield rows.take()

    def sources(self, file: ImportFile, options: ImportOptions, report: Report) -> Described:
        """Yield the pages, and the further sitemaps of an index."""
        with file.open() as stream:
            for page in _pages(stream, report, index_too=True):
                settings = {}
                period = _PERIODS.get(page["changefreq"].lower())
                if period is not None:
                    settings["max_period"] = period
                yield SourceDescription(
                    address=page["loc"],
                    kind="sitemap" if page["index"] else "http",
                    importance=_priority(page["priority"]),
                    paused=page["changefreq"].lower() == "never",
                    settings=settings,
                )


IMPORTERS = (SitemapFile(),)


def _pages(
    stream: BinaryIO, report: Report, *, index_too: bool = False
) -> Iterator[dict[str, Any]]:
    head = stream.peek(64)[:64].lstrip(b"\xef\xbb\xbf \r\n")  # type: ignore[attr-defined]
    if head[:1] == b"<":
        yield from _from_xml(stream, report, index_too=index_too)
        return
    found = False
    for number, line in loose_lines(stream, report):
        if not line.strip():
            continue
        report.add_rows()
        if not _ADDRESS.fullmatch(line.strip()):
            report.malformed(number, "this is no address", line)
            continue
        found = True
        page = dict.fromkeys(("lastmod", "changefreq", "priority", "published"), "")
        yield {**page, "loc": plain_text(line.strip()), "line": number, "index": False}
    if not found:
        raise InputError("is neither a sitemap nor a list of addresses")


def _from_xml(stream: BinaryIO, report: Report, *, index_too: bool) -> Iterator[dict[str, Any]]:
    for number, element in elements(stream, {"url", "sitemap"}, roots=_ROOTS):
        report.add_rows()
        index = local_name(element) == "sitemap"
        address = text_of(element, "loc")
        if not _ADDRESS.fullmatch(address):
            report.malformed(number, "there is no address, or it is too long", address[:200])
            continue
        if index and not index_too:
            report.leave_out("a further sitemap: import it as well")
            continue
        news = next((child for child in element if local_name(child) == "news"), None)
        yield {
            "loc": address,
            "line": number,
            "index": index,
            "lastmod": text_of(element, "lastmod"),
            "changefreq": text_of(element, "changefreq"),
            "priority": text_of(element, "priority"),
            "published": "" if news is None else text_of(news, "publication_date"),
        }


def _trusted(
    pages: list[dict[str, Any]], saved: int, options: ImportOptions, report: Report
) -> bool:
    """Whether the dates can be those of changes: not if all are the same, or all are now."""
    dates = Counter(page["lastmod"] for page in pages if page["lastmod"])
    if dates.total() < _ENOUGH:
        return True
    if len(dates) == 1:
        report.warn(
            f"all pages of {report.file or 'the file'} declare the same date: it is when the "
            "sitemap was made, not when they changed, and was set aside"
        )
        return False
    spread = []
    for date in dates:
        try:
            spread.append(from_iso(date, options.zone))
        except ValueError:
            continue
    if spread and min(spread) > saved - 600 * MICROSECONDS:
        report.warn(
            f"all pages of {report.file or 'the file'} declare that they changed just before it "
            "was saved: it is when the sitemap was made, and was set aside"
        )
        return False
    return True


def _add(
    rows: VisitRows,
    page: dict[str, Any],
    saved: int,
    trusted: bool,
    options: ImportOptions,
    report: Report,
) -> None:
    text, date, digest = page["lastmod"] or page["published"], None, None
    if not text:
        report.count("pages without a date")
    elif trusted:
        try:
            date = web_date(text, options.zone)
        except ValueError:
            report.malformed(page["line"], "this is no date", text)
        else:
            digest = hashlib.sha256(text.encode()).digest()[:16]
            if is_date_only(text):
                report.warn(
                    "{n} dates have no time of day: they were taken as noon, and may be wrong "
                    "by half a day"
                )
            if date > saved + MICROSECONDS_PER_DAY:
                report.leave_out("declared to change in the future: the date was set aside")
                date, digest = None, None
    rows.add(page["loc"], saved, last_modified=date, digest=digest)


def _priority(text: str) -> float:
    """The priority (0.5 if none is given) as importance (1 if none is given)."""
    try:
        value = float(text or 0.5)
    except ValueError:
        return 1.0
    return 2 * value if 0 <= value <= 1 else 1.0
