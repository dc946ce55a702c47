"""What is said of sources between their visits: by sitemaps and feeds, and by others."""

from __future__ import annotations

from observant.errors import BadURL
from observant.observer.transport.urls import parse
from observant.store.signals import Signal
from observant.times import from_any, from_mail, is_date_only, seconds

__all__ = ["LISTING", "announced", "members_of"]

LISTING = frozenset({"sitemap", "feed"})
"""Kinds of sources that tell of others."""


def members_of(kind: str, text: str) -> dict[str, str]:
    """The pages that a sitemap or feed tells of, by canonical address, with their lines.

    >>> members_of("sitemap", "HTTP://a.example:80/x 2026-01-31\\nhttps://a.example/y")
    {'http://a.example/x': '2026-01-31', 'https://a.example/y': ''}
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        parts = line.split(" | ") if kind == "feed" else line.split(" ", 1)
        link = parts[-1] if kind == "feed" else parts[0]
        try:
            address = parse(link.strip()).href
        except BadURL:
            continue
        rest = line if kind == "feed" else " ".join(parts[1:])
        found.setdefault(address, rest)
    return found


def announced(kind: str, before: str, after: str, at: float) -> list[Signal]:
    """What a listing says that it had not said before.

    A page that is new in the list, or that has gone from it, may have changed as well as one whose
    date has moved.
    """
    old, new = members_of(kind, before), members_of(kind, after)
    told = [name for name, line in new.items() if old.get(name) != line]
    if kind == "sitemap":
        told += [name for name in old if name not in new]
    return [
        Signal(source=name, kind=kind, received_at=at, changed_at=_date(kind, new.get(name), at))
        for name in told
    ]


def _date(kind: str, line: str | None, at: float) -> float | None:
    """When the change was, where the line says it to the minute and not in the future."""
    for text in (line or "").split(" | ") if kind == "feed" else (line or "",):
        for read in (from_any, from_mail):
            try:
                if not text.strip() or is_date_only(text.strip()):
                    break
                found = seconds(read(text.strip()))
            except ValueError:
                continue
            return found if 0 < found <= at else None
    return None
