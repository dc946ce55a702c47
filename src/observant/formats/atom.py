"""Atom out: the changes in a visit log as a feed, newest first."""

from __future__ import annotations

import heapq
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from observant.errors import InputError
from observant.formats.opml import xml_text
from observant.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.visits import VisitLog

__all__ = ["atom_lines"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400_000_000


def atom_lines(
    log: VisitLog, *, title: str = "Changes", address: str = "", limit: int = 100
) -> Iterator[str]:
    """Yield the lines of an Atom feed of the newest changes, at most `limit`.

    An entry is a visit that found a change. Its id is made from source and time, so that a reader
    that has shown it does not show it again when the feed is written anew. `address` is where the
    feed will be found.

    >>> from observant import VisitLog
    >>> log = VisitLog.from_columns(["https://a.example/"] * 2, [0, 86400], [None, True])
    >>> lines = list(atom_lines(log))
    >>> [line.strip() for line in lines if "<title>" in line or "<updated>" in line]
    ['<title>Changes</title>', '<updated>1970-01-02T00:00:00Z</updated>', \
'<title>https://a.example/</title>', '<updated>1970-01-02T00:00:00Z</updated>']
    """
    if limit < 1:
        raise InputError(f"a feed has at least one entry, not {limit}")
    changes = np.flatnonzero(log.changed == 1).tolist()
    newest = heapq.nlargest(limit, changes, key=lambda row: int(log.time[row]))
    at = int(log.time[newest[0]]) if newest else int(log.time.max())
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<feed xmlns="http://www.w3.org/2005/Atom">'
    yield f"  <title>{escape(xml_text(title))}</title>"
    yield f"  <id>{escape(xml_text(address)) or _id(title, 0)}</id>"
    if address:
        yield f'  <link rel="self" href={quoteattr(xml_text(address))}/>'
    yield f"  <updated>{_instant(at)}</updated>"
    yield "  <author><name>observant</name></author>"
    for row in newest:
        yield from _entry(log, row)
    yield "</feed>"


def _entry(log: VisitLog, row: int) -> Iterator[str]:
    which = int(np.searchsorted(log.offsets, row, side="right")) - 1
    source, at = str(log.sources[which].as_py()), int(log.time[row])
    before = int(log.time[row - 1])
    magnitude = _value(log, "magnitude", row)
    told = f"found changed, {format_duration((at - before) / _DAY)} after the visit before"
    if magnitude is not None:
        told += f"; {magnitude:.0%} of it differs"
    yield "  <entry>"
    yield f"    <title>{escape(xml_text(source))}</title>"
    yield f"    <id>{_id(source, at)}</id>"
    yield f"    <updated>{_instant(at)}</updated>"
    if source.startswith(("http://", "https://")):
        yield f"    <link href={quoteattr(xml_text(source))}/>"
    yield f"    <summary>{escape(told)}</summary>"
    yield "  </entry>"


def _value(log: VisitLog, column: str, row: int) -> Any:
    values = log.extras.get(column)
    return None if values is None else values[row].as_py()


def _id(source: str, at: int) -> str:
    return f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{xml_text(source)} {at}')}"


def _instant(micros: int) -> str:
    instant = _EPOCH + timedelta(microseconds=micros)
    return instant.isoformat().replace("+00:00", "Z")
