"""A feed (RSS, Atom, JSON Feed): compared as the list of its entries, not as bytes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import UnreadableError
from observant.observer.content.normalisation import check_size
from observant.observer.sources.http import HttpSource

if TYPE_CHECKING:
    from observant.observer.fetched import Fetched

_LONGEST_DECLARATION = 1000
_LONGEST_HEAD = 20_000
_MOST_TAGS = 200_000
"""feedparser takes some 20 µs for each."""


class FeedSource(HttpSource):
    """One line an entry: its id, when it was updated, its title and its link."""

    form = "feed"


def as_list(fetched: Fetched) -> Fetched:
    """The feed as the text that is compared."""
    if not fetched.ok or fetched.not_modified:
        return fetched
    try:
        entries = entries_of(fetched.body)
    except UnreadableError as error:
        return msgspec.structs.replace(fetched, error="content", message=str(error))
    if entries is None:
        return msgspec.structs.replace(
            fetched, error="content", message="this is no feed that can be read"
        )
    text = "\n".join(" | ".join(str(part) for part in entry if part) for entry in entries)
    return msgspec.structs.replace(
        fetched, body=text.encode("utf-8", "replace"), content_type="text/plain", charset="utf-8"
    )


def entries_of(body: bytes) -> list[tuple[str, str, str, str]] | None:
    """Id, time, title and link of every entry; None if this is no feed, and `UnreadableError` if
    it is too large.

    >>> entries_of(b'{"version": "https://jsonfeed.org/version/1.1", "items": [{"id": "7"}]}')
    [('7', '', '', '')]
    >>> entries_of(b"<html><p>not found</p></html>") is None
    True
    """
    if body.lstrip()[:1] == b"{":
        return _json_entries(body)
    import feedparser

    check_size(body, "a feed", _MOST_TAGS)
    body = _short_head(_declaration_apart(body))
    try:
        parsed: Any = feedparser.parse(body, sanitize_html=False, resolve_relative_uris=False)
    except Exception:  # noqa: BLE001 - it forgives nearly everything, and stumbles over the rest
        return None
    if not parsed.get("version"):
        return None
    return [
        (
            entry.get("id") or entry.get("link") or entry.get("title", ""),
            # As a dict: feedparser's own get warns where an entry has only the other date.
            dict.get(entry, "updated") or entry.get("published", ""),
            entry.get("title", ""),
            entry.get("link", ""),
        )
        for entry in parsed.entries
    ]


def _declaration_apart(body: bytes) -> bytes:
    """The body with its XML declaration on a line of its own; empty if that never ends.

    feedparser looks for an encoding up to the end of the line, in a time that grows with the cube
    of its length.
    """
    for end, line_end in ((b"?>", b"\n"), (b"?\0>\0", b"\n\0"), (b"\0?\0>", b"\0\n")):
        head, found, rest = body.partition(end)
        if found and len(head) < 2 * _LONGEST_DECLARATION:
            body = head + found + line_end + rest
            break
    text = body.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xfe\xff \t\r\n")
    first = text.partition(b"\n")[0]
    return b"" if first[:2] == b"<?" and len(first) > _LONGEST_DECLARATION else body


def _short_head(body: bytes) -> bytes:
    """The body without the white space before its first element; empty if much stands there.

    feedparser looks for declarations there, in a time that grows with the square of its length.
    """
    first = _ELEMENT.search(body)
    if first is None:
        return b""
    head, rest = body[: first.start()], body[first.start() :]
    if b"\0" not in head:
        head = _BLANK.sub(b"\n", head)
    return b"" if len(head.replace(b"\0", b"")) > _LONGEST_HEAD else head + rest


_ELEMENT = re.compile(rb"<\0*\w")
_BLANK = re.compile(rb"\s{2,}")


def _json_entries(body: bytes) -> list[tuple[str, str, str, str]] | None:
    try:
        feed = json.loads(body)
        if "jsonfeed.org" not in str(feed.get("version", "")):
            return None
        return [
            (
                str(item.get("id", "")),
                str(item.get("date_modified") or item.get("date_published") or ""),
                str(item.get("title") or ""),
                str(item.get("url") or ""),
            )
            for item in feed.get("items", [])
        ]
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None
