"""Headers of requests: which names and values can be sent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from observant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["HARMLESS", "TOKEN", "checked_headers", "checked_value"]

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
    return checked


def checked_value(what: str, value: str) -> None:
    """Refuse a value that would be more than one line of a request."""
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
        raise InputError(f"a control character in the value of the {what}")
