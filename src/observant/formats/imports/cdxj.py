"""CDXJ: a sorted index of captures, ``key time {json}`` a line; also in ZipNum clusters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from observant.formats.imports.blocks import Lines, read_lines
from observant.formats.imports.values import (
    Row,
    checked_row,
    digest_in,
    size_in,
    status_in,
)
from observant.times import from_digits

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from observant.formats.imports.base import Batches, ImportOptions
    from observant.formats.imports.files import ImportFile
    from observant.formats.imports.report import Report

__all__ = ["IMPORTERS", "CdxjLines", "record_row"]

_NAMES = {
    "url": ("url", "original", "u"),
    "mime": ("mime", "mimetype", "m"),
    "status": ("status", "statuscode", "s"),
    "digest": ("digest", "d"),
    "length": ("length", "l"),
    "timestamp": ("timestamp", "t"),
    "urlkey": ("urlkey", "k"),
}
"""What indexers call the same thing, the usual name first."""


class Cdxj:
    """CDXJ as pywb, cdxj-indexer, Browsertrix and Common Crawl write it."""

    name = "cdxj"
    title = "CDXJ index of a web archive"
    evidence = "V"
    endings = (".cdxj",)
    assumption = ""
    assumes = ""

    def sniff(self, head: bytes, name: str) -> bool:
        del name
        for line in head.split(b"\n")[:50]:
            if line.startswith((b"!", b"@", b" CDX")) or not line.strip():
                continue
            parts = line.split(b" ", 2)
            return len(parts) == 3 and parts[1].isdigit() and parts[2].lstrip().startswith(b"{")
        return False

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        with file.open() as stream:
            yield from read_lines(stream, CdxjLines(by_key=options.key == "surt"), report)


class CdxjLines:
    """Reads lines of CDXJ; with `bare`, lines that are a JSON object and nothing else."""

    def __init__(self, *, by_key: bool = False, bare: bool = False) -> None:
        self._by_key, self._bare = by_key, bare

    def scan(self, data: NDArray[np.uint8], lines: Lines) -> int:
        from observant.formats.imports.kernels import scan_json

        return int(scan_json(data, self._bare, self._by_key, *lines.arrays))

    def careful(self, line: bytes) -> Row | None:
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise ValueError("this is not text in UTF-8") from error
        if self._bare:
            return record_row(_object_in(text), by_key=self._by_key)
        if text.startswith(("!", "@", " CDX")):
            return None
        parts = text.split(" ", 2)
        if len(parts) != 3:
            raise ValueError("this is not: key, time, JSON object")
        record = _object_in(parts[2])
        time = from_digits(parts[1])
        return record_row(record, by_key=self._by_key, key=parts[0], time=time)


def record_row(
    record: Mapping[str, Any], *, by_key: bool, key: str | None = None, time: int | None = None
) -> Row:
    """The visit that an object describes, whichever names its keys have.

    >>> record_row({"original": "http://a/", "t": "1970", "s": "200"}, by_key=False)
    Row(source='http://a/', time=0, status=200, size=None, digest=None, revisit=False, \
truncated=False)
    """

    def text(what: str) -> str | None:
        value = next((record[name] for name in _NAMES[what] if name in record), None)
        if value is not None and not isinstance(value, str):
            raise ValueError(f"the {what} is not a text: {str(value)[:30]!r}")
        return value

    def value(what: str) -> Any:
        return next((record[name] for name in _NAMES[what] if name in record), None)

    key = text("urlkey") if key is None else key
    if time is None:
        time = from_digits(text("timestamp") or "")
    url, mime, truncated = text("url"), text("mime"), record.get("truncated")
    return checked_row(
        name=key if by_key else url,
        url=url,
        time=time,
        status=status_in(value("status")),
        size=size_in(value("length")),
        digest=digest_in(text("digest")),
        revisit=mime == "warc/revisit",
        truncated=bool(truncated) and truncated != "-",
    )


def _object_in(text: str) -> dict[str, Any]:
    try:
        record = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError("this is not a JSON object") from error
    if not isinstance(record, dict):
        raise ValueError("this is JSON, and not an object")  # noqa: TRY004 - one kind for all
    return record


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


IMPORTERS = (Cdxj(),)
