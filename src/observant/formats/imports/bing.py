"""The crawl histories that Microsoft Bing published (SIGIR and NeurIPS 2019).

``urlid_offset_history.txt`` has a line for each URL: its number, the days from the beginning of the
crawl to its first visit, and a list of pairs [days since the visit before, changed or not]. URLs
that never changed in the 14 weeks were left out by the publishers, so a prior must be fitted to
sources that changed at least once (``zero_truncated``).
"""

from __future__ import annotations

import math
import re
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO

from observant.errors import InputError
from observant.formats.imports.base import (
    Batches,
    Described,
    Importer,
    SourceDescription,
    VisitRows,
)
from observant.formats.imports.files import ImportFile
from observant.formats.imports.lines import loose_lines, plain_text
from observant.times import MICROSECONDS_PER_DAY, checked, from_iso

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.report import Report

HISTORY, ADDRESSES, IMPORTANCE = (
    "urlid_offset_history.txt",
    "url_urlid_hostid.txt",
    "urlid_imp.txt",
)
_LINE = re.compile(r"(\d{1,18})\t([\d.eE+-]{1,30})\t\s*\[(.*)\]\s*")
_PAIR = re.compile(r"\[\s*([\d.eE+-]{1,30})\s*,\s*([01])\s*\]")
_START = "2017-01-01T00:00:00Z"
_LONGEST_LINE = 1 << 24


class BingHistories(Importer):
    """The file of histories, or the folder with all files."""

    name = "bing"
    title = "Bing crawl histories (Kolobov et al. 2019)"
    evidence: Evidence = "V"
    endings = (HISTORY,)

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether this is the folder, or the first line is one of histories."""
        text = head.decode(errors="replace")
        if name.endswith("/"):
            return HISTORY in text.split("\n")
        return re.match(r"\d+\t[\d.eE+-]+\t\s*\[\[\s*[\d.eE+-]+\s*,\s*[01]\s*\]", text) is not None

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield every visit; sources have the numbers of the URLs for names.

        With the mapping ``source=url``, and the folder, they have the URLs: then all of them are
        held in memory.
        """
        report.warn(
            "URLs that never changed were left out by the publishers: estimate with the pooled "
            "methods and --zero-truncated"
        )
        report.warn(f"the crawl began on an unknown day of 2017: times count from {_START[:10]}")
        names = _addresses(file, report) if options.mapping.get("source") == "url" else {}
        start = from_iso(_START)
        rows = VisitRows(options.batch_rows)
        with _part(file, HISTORY).open() as stream:
            for number, line in loose_lines(stream, report, _LONGEST_LINE):
                if not line.strip():
                    continue
                report.add_rows()
                try:
                    history = list(_history(line, start))
                except ValueError as error:
                    report.malformed(number, str(error), line)
                    continue
                name = line.partition("\t")[0]
                for time, changed in history:
                    rows.add(names.get(name, name), time, changed=changed)
                    if rows.full:
                        yield rows.take()
        yield rows.take()

    def sources(self, file: ImportFile, options: ImportOptions, report: Report) -> Described:
        """Yield the URLs with their importance, if this is the folder; nothing of a single file."""
        if not file.is_folder or options.mapping.get("source") != "url":
            return
        names = _addresses(file, report)
        with _part(file, IMPORTANCE).open() as stream:
            for number, cells in _cells(stream, report, 2):
                try:
                    importance = float(cells[1])
                except ValueError:
                    importance = math.nan
                if cells[0] not in names or not 0 <= importance < math.inf:
                    report.malformed(number, "no URL or no importance", "\t".join(cells))
                    continue
                yield SourceDescription(address=names[cells[0]], importance=importance)


IMPORTERS = (BingHistories(),)


def _part(file: ImportFile, name: str) -> ImportFile:
    if not file.is_folder or file.path is None:
        return file
    for ending in ("", ".gz", ".zst"):
        path = file.path / f"{name}{ending}"
        if path.is_file():
            return ImportFile(f"{file.name}/{path.name}", path)
    raise InputError(f"holds no {name}", file=file.name)


def _history(line: str, start: int) -> Iterator[tuple[int, bool | None]]:
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError("this is no number, offset and list of visits, with tabs between them")
    time = checked(start + round(_days(found[2]) * MICROSECONDS_PER_DAY))
    yield time, None
    pairs = _PAIR.findall(found[3])
    if len(pairs) != found[3].count("["):
        raise ValueError("a visit is a pair of days and 0 or 1")
    for gap, changed in pairs:
        step = round(_days(gap) * MICROSECONDS_PER_DAY)
        if step <= 0:
            raise ValueError("a visit does not come after the one before")
        time = checked(time + step)
        yield time, changed == "1"


def _days(text: str) -> float:
    days = float(text)
    if not 0 <= days < 36_525:
        raise ValueError("there is no such number of days")
    return days


def _addresses(file: ImportFile, report: Report) -> dict[str, str]:
    if not file.is_folder:
        raise InputError(f"URLs are in {ADDRESSES}: give the folder that holds it")
    with _part(file, ADDRESSES).open() as stream:
        return {cells[1]: plain_text(cells[0]) for _, cells in _cells(stream, report, 3)}


def _cells(stream: BinaryIO, report: Report, count: int) -> Iterator[tuple[int, list[str]]]:
    for number, line in loose_lines(stream, report):
        cells = line.split("\t")
        if len(cells) >= count:
            yield number, list(islice(cells, count))
        elif line.strip():
            report.malformed(number, f"{len(cells)} cells where {count} were expected", line)
