"""Headers: what requests may carry, and what the head of a response says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from observant.errors import InputError
from observant.observer import bounds
from observant.times import http_date

if TYPE_CHECKING:
    from collections.abc import Iterable


_OURS = frozenset(
    [
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "te"),
        *("trailer", "upgrade", "expect", "proxy-authorization", "proxy-connection"),
        *("accept-encoding", "if-none-match", "if-modified-since"),
    ]
)
HARMLESS = frozenset(["accept", "accept-language", "cache-control", "pragma", "dnt"])
"""All other headers of a source may be secrets: they are not shown to another origin."""
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A name of a header, or a method."""


def header_lines(lines: Iterable[str]) -> dict[str, str]:
    """Headers as people write them.

    >>> header_lines(["Accept-Language: de", "X-Key:a:b"])
    {'Accept-Language': 'de', 'X-Key': 'a:b'}
    """
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise InputError(f"a header is NAME:VALUE, not {line!r}")
        headers[name.strip()] = value.strip()
    return headers


def checked_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers, when all of them can be sent; InputError otherwise.

    >>> checked_headers([("Accept-Language", "de")])
    [('Accept-Language', 'de')]
    >>> checked_headers([("Host", "elsewhere.example")])
    Traceback (most recent call last):
        ...
    observant.errors.InputError: the header Host is set by the transport; leave it out
    """
    checked = []
    for name, value in headers:
        if not TOKEN.fullmatch(name):
            raise InputError(f"not a header name: {name!r}")
        if name.lower() in _OURS:
            raise InputError(f"the header {name} is set by the transport; leave it out")
        checked_value(f"header {name}", value)
        checked.append((name, value))
    bounds.several("headers", checked, 200)
    bounds.several("headers: letters", "".join(value for _, value in checked), 32 << 10)
    return checked


def checked_value(what: str, value: str) -> None:
    """Refuse a value that would be more than one line of a request."""
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
        raise InputError(f"a control character in the value of the {what}")


# -- Reading the head of an answer: header lines, dates, types. Everything here is hostile input --


_EARLIEST = 631_152_000.0  # 1990: before the web nothing was modified on it
_CHARSET = re.compile(
    r"""charset\s*=\s*["']?\s*([A-Za-z0-9][A-Za-z0-9._:+-]{0,39})""", re.IGNORECASE
)
_TOLERANCE = 60.0


def head_of(lines: list[bytes]) -> tuple[tuple[str, str], ...]:
    """Header lines as pairs, names in lower case; the status line and empty lines are left out.

    >>> head_of([b"HTTP/1.1 200 OK\\r\\n", b"ETag: \\"a\\"\\r\\n", b"\\r\\n"])
    (('etag', '"a"'),)
    """
    pairs: list[tuple[str, str]] = []
    for line in lines:
        text = line.decode("latin-1")
        if text[:1] in " \t":  # a folded line goes on with the one before
            if pairs and text.strip():
                pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]} {text.strip()}")
            continue
        name, colon, value = text.partition(":")
        if colon and not text.startswith("HTTP/"):
            pairs.append((name.strip().lower(), value.strip()))
    return tuple(pairs)


def last_modified_of(text: str | None, date: str | None, now: float) -> float | None:
    """What the server says about its last change, unless it is absurd: before the web, or
    later than the server's own clock (or than ours, when it does not tell its own).

    >>> last_modified_of("Sun, 06 Nov 1994 08:49:37 GMT", None, now=1e9)
    784111777.0
    >>> last_modified_of("Sun, 06 Nov 2044 08:49:37 GMT", None, now=1e9) is None
    True
    """
    claimed = http_date(text)
    if claimed is None or claimed < _EARLIEST or claimed > now + _TOLERANCE:
        return None
    servers_now = http_date(date)
    if servers_now is not None and claimed > servers_now:
        return None
    return claimed


def retry_after(text: str | None, now: float) -> float | None:
    """Seconds to wait, from a number of seconds or a date.

    >>> retry_after("120", now=0.0), retry_after("Thu, 01 Jan 1970 00:01:00 GMT", now=10.0)
    (120.0, 50.0)
    """
    if not text or len(text) > 64:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    instant = http_date(text)
    return None if instant is None else max(instant - now, 0.0)


def media_type(text: str) -> str:
    """Only the type, in lower case.

    >>> media_type("Text/HTML; charset=utf-8")
    'text/html'
    """
    return text.partition(";")[0].strip().lower()[:127]


def charset_of(text: str) -> str | None:
    """The declared charset, if its name could be one.

    >>> charset_of('text/html; Charset="UTF-8"')
    'utf-8'
    """
    found = _CHARSET.search(text)
    return found[1].lower() if found else None
