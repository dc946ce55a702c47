"""Atom out: entries as a feed (RFC 4287), and the changes of a visit log as entries."""

from __future__ import annotations

import heapq
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from observant.errors import InputError
from observant.formats.opml import xml_text
from observant.times import MICROSECONDS_PER_DAY, iso, seconds, utc
from observant.units import format_duration, format_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from observant.visits import VisitLog

__all__ = ["AtomEntry", "atom_feed", "atom_lines"]


class AtomEntry(NamedTuple):
    """One entry of a feed. All but `id` may come from strangers: it is text and nothing else."""

    id: str
    title: str
    updated: datetime
    text: str
    link: str = ""
    """Becomes a link only if it is a web address."""
    tags: tuple[str, ...] = ()


def atom_feed(
    entries: Iterable[AtomEntry], *, feed_id: str, title: str, updated: datetime, address: str = ""
) -> Iterator[str]:
    """Yield the lines of an Atom feed. `address` is where it will be found.

    >>> lines = atom_feed([], feed_id="urn:x", title="<b>", updated=utc(1767312000))
    >>> [line.strip() for line in lines][2:5]
    ['<title>&lt;b&gt;</title>', '<id>urn:x</id>', '<updated>2026-01-02T00:00:00Z</updated>']
    """
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<feed xmlns="http://www.w3.org/2005/Atom">'
    yield f"  <title>{_text(title)}</title>"
    yield f"  <id>{_text(feed_id)}</id>"
    yield f"  <updated>{iso(updated)}</updated>"
    if address:
        yield f'  <link rel="self" href={quoteattr(xml_text(address))}/>'
    yield "  <author><name>observant</name></author>"
    for entry in entries:
        yield "  <entry>"
        yield f'    <title type="text">{_text(entry.title)}</title>'
        yield f"    <id>{_text(entry.id)}</id>"
        yield f"    <updated>{iso(entry.updated)}</updated>"
        if _is_web(entry.link):
            yield f'    <link rel="alternate" href={quoteattr(xml_text(entry.link))}/>'
        for tag in entry.tags:
            yield f"    <category term={quoteattr(xml_text(tag))}/>"
        yield f'    <content type="text">{_text(entry.text)}</content>'
        yield "  </entry>"
    yield "</feed>"


def atom_lines(
    log: VisitLog, *, title: str = "Changes", address: str = "", limit: int = 100
) -> Iterator[str]:
    """Yield the lines of an Atom feed of the newest changes, at most `limit`.

    An entry is a visit that found a change. Its id is made from source and time, so that a reader
    that has shown it does not show it again when the feed is written anew. `address` is where the
    feed will be found.

    >>> from observant import VisitLog
    >>> log = VisitLog.from_columns(["https://a.example/"] * 2, [0, 86400], [None, True])
    >>> [line.strip() for line in atom_lines(log) if "<title" in line]
    ['<title>Changes</title>', '<title type="text">https://a.example/</title>']
    """
    if limit < 1:
        raise InputError(f"a feed has at least one entry, not {limit}")
    changes = np.flatnonzero(log.changed == 1).tolist()
    newest = heapq.nlargest(limit, changes, key=lambda row: int(log.time[row]))
    at = int(log.time[newest[0]]) if newest else int(log.time.max())
    yield from atom_feed(
        (_change(log, row) for row in newest),
        feed_id=address or _id(title, 0),
        title=title,
        updated=utc(seconds(at)),
        address=address,
    )


def _change(log: VisitLog, row: int) -> AtomEntry:
    which = int(np.searchsorted(log.offsets, row, side="right")) - 1
    source, at = str(log.sources[which].as_py()), int(log.time[row])
    before = int(log.time[row - 1])
    magnitude = _value(log, "magnitude", row)
    waited = format_duration((at - before) / MICROSECONDS_PER_DAY)
    told = f"found changed, {waited} after the visit before"
    if magnitude is not None:
        told += f"; {format_share(magnitude, 0)} of it differs"
    return AtomEntry(_id(source, at), source, utc(seconds(at)), told, source)


def _value(log: VisitLog, column: str, row: int) -> Any:
    values = log.extras.get(column)
    return None if values is None else values[row].as_py()


def _id(source: str, at: int) -> str:
    return f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{xml_text(source)} {at}')}"


def _is_web(address: str) -> bool:
    return address.lower().startswith(("http://", "https://")) and not any(
        sign.isspace() for sign in address
    )


def _text(text: str) -> str:
    return escape(xml_text(text))
