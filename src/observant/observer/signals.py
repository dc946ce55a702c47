"""What is said of sources between their visits: by sitemaps and feeds, and by others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from observant.errors import BadURL
from observant.observer.transport.urls import parse
from observant.planning.schedule.signals import LISTING, pooled
from observant.store.signals import Signal
from observant.times import DAY, from_any, from_mail, is_date_only, seconds

if TYPE_CHECKING:
    from observant.observer.watched import Watched
    from observant.observer.watchlist import Watchlist
    from observant.store.visit import Visit

RELIABILITY = "observer.reliability"
"""The setting that says how far each channel is believed, for the service."""
_SETTING = "observer.signals"
_OVERLAP = 1000
"""Signals that are asked for again: of several writers one may commit a lower number later."""
_KEPT = 90.0
"""Days after which a signal is dropped."""


class Listener:
    """Takes up the signals that come, from others and from what listings say."""

    def __init__(self, watchlist: Watchlist) -> None:
        self._watchlist = watchlist
        self._store, self._patience = watchlist.store, watchlist.patience
        self._heard, self._schedule = 0, watchlist.schedule
        """The number of the last signal that was taken up, and who has heard it."""
        self._seen: set[int] = set()
        self._common: dict[str, Any] = {}
        """What all observers of the store have learned, as it was last exchanged."""

    async def hear(self) -> None:
        """Take up the signals that have come."""
        watchlist = self._watchlist
        if self._schedule is not watchlist.schedule:
            self._heard, self._seen, self._schedule = 0, set(), watchlist.schedule
        while True:
            since = max(self._heard - _OVERLAP, 0)
            rows = await self._patience.call(self._store.signals.after, since)
            new = [one for one in rows if one.id not in self._seen]
            if not new:
                return
            self._heard = rows[-1].id
            self._seen = {one.id for one in rows if one.id > self._heard - _OVERLAP}
            here = [one for one in new if one.source in watchlist]
            watchlist.schedule.hear(here, {s.source: watchlist[s.source].row.host for s in here})

    async def announce(self, watched: Watched, visit: Visit) -> None:
        """A sitemap or a feed was read: what it says of others is kept, and taken up."""
        kind, name = watched.row.kind, watched.row.name
        found, watchlist = visit.comparison, self._watchlist
        if kind not in LISTING or found is None or found.text is None:
            return
        members = [one for one in members_of(kind, found.text) if one in watchlist]
        watchlist.schedule.read_listing(
            name,
            visit.ended_at,
            importance=watched.settings.importance,
            kind=kind,
            members=members,
        )
        before = watched.text
        if before is None and visit.outcome == "changed":
            kept = await self._patience.call(self._store.snapshots.at, name)
            before = None if kept is None else kept.decode("utf-8", "replace")
        if before is not None and visit.outcome == "changed":
            said = announced(kind, before, found.text, visit.ended_at, name)
            await self._patience.call(self._store.signals.add, said)

    async def restore(self, settings: dict[str, Any]) -> None:
        """Take up what was learned before, and drop signals that are old."""
        self._common = settings.get(_SETTING, {})
        self._watchlist.schedule.signals.restore(self._common)
        old = self._watchlist.clock.time() - _KEPT * DAY
        await self._patience.call(self._store.signals.drop, old)

    async def save(self) -> None:
        """Keep what was learned of the channels, and take up what other observers have learned."""
        signals, before = self._watchlist.schedule.signals, self._common
        mine = signals.learned()  # here: the loop may change them
        if not mine["channels"]:
            return
        found: list[dict[str, Any]] = []

        def pool(kept: Any) -> dict[str, Any]:
            found[:] = pooled(kept or {}, mine, before)
            return found[0]

        await self._patience.call(self._store.settings.change, _SETTING, pool)
        self._common = found[0]
        signals.restore(found[1], add=True)
        now = self._watchlist.clock.time()
        rows = {
            (row.kind, row.group): {**row._asdict(), "at": now} for row in signals.reliability()
        }

        def put(kept: Any) -> list[dict[str, Any]]:
            others = [
                one
                for one in kept or ()
                if (one.get("kind"), one.get("group")) not in rows
                and one.get("at", 0.0) > now - DAY  # of observers that live
            ]
            return [*others, *rows.values()]

        await self._patience.call(self._store.settings.change, RELIABILITY, put)


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


def announced(
    kind: str, before: str, after: str, at: float, listing: str | None = None
) -> list[Signal]:
    """What a listing says that it had not said before.

    A page that is new in the list, or that has gone from it, may have changed as well as one whose
    date has moved.
    """
    old, new = members_of(kind, before), members_of(kind, after)
    told = [name for name, line in new.items() if old.get(name) != line]
    if kind == "sitemap":
        told += [name for name in old if name not in new]
    return [
        Signal(
            source=name,
            kind=kind,
            received_at=at,
            changed_at=_date(kind, new.get(name), at),
            listing=listing,
        )
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
