"""What is said of sources between their visits, and how far it is believed."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from observant.errors import BadURL
from observant.language import N_
from observant.observer.signals import RELIABILITY
from observant.observer.transport.urls import parse
from observant.service.access.throttle import RateLimit
from observant.service.answers import ChannelItem, HubItem, SignalItem, Signalled
from observant.service.collection.context import CollectionPiece
from observant.store.signals import Signal
from observant.times import DAY, utc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from observant.service.collection.context import Context
    from observant.service.collection.entries import NewSignal


WORTHS = {
    True: "the next visit found a change",
    False: N_("the next visit found none"),
    None: N_("not visited since"),
}
"""What became of a signal, in words."""
_MONTH = 30 * DAY
NO_ADDRESS = "public_url is not set, so the hub could not call"


class CollectionSignals(CollectionPiece):
    """Takes in signals for the observers of a store."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._senders = RateLimit(burst=100_000, per_second=100)
        """Signals of one token or key."""
        self.deliveries = RateLimit(burst=60, per_second=1 / 60)
        """Of one subscription."""
        self.failures = RateLimit(burst=100, per_second=1)
        """Calls from one address with a key, path or signature that is not right."""

    def add(self, signals: Sequence[NewSignal], *, sender: str | None = None) -> Signalled:
        """Keep signals about sources that are watched; others are only counted.

        Signals spend no budget: they move whose visit is worth most. A `sender` that sends too
        many is told to wait (`TooManyError`).
        """
        if sender is not None:
            self._senders.take(sender, max(len(signals), 1))
        now = self._in.now()
        rows = [
            Signal(
                source=_canonical(one.url),
                kind=one.kind,
                received_at=now,
                changed_at=None if one.changed_at is None else min(one.changed_at.timestamp(), now),
            )
            for one in signals
        ]
        known = self._in.store.signals.add(rows, now=now)
        return Signalled(signals=len(rows), watched=known)

    def reliability(self) -> list[ChannelItem]:
        """How far each list and each kind of signal about a host is believed, liars first.

        What an observer of another version wrote is left out.
        """
        rows = []
        for one in self._in.store.settings.get(RELIABILITY) or ():
            with suppress(msgspec.ValidationError):
                rows.append(msgspec.convert(one, ChannelItem))
        order = ("lies", "believed", "unproven")
        return sorted(rows, key=lambda row: (order.index(row.verdict), -row.sources, row.group))

    def hubs(self) -> list[HubItem]:
        """What sources have from their hubs (WebSub)."""
        now, public = self._in.now(), self._in.given.public_url
        return [
            HubItem(
                source=one.source,
                hub=one.hub,
                topic=one.topic,
                state="expired"
                if one.state == "active" and (one.expires_at or 0.0) <= now
                else one.state,
                expires_at=utc(one.expires_at),
                reason=one.reason or ("" if public or one.state == "active" else NO_ADDRESS),
            )
            for one in self._in.store.websub.list()
            if one.source is not None and one.wanted
        ]

    def of(self, source: str, limit: int = 100) -> list[SignalItem]:
        """Signals about a source, newest first, and what the visits after them found."""
        store = self._in.store
        said = store.signals.of(source, limit=limit)
        since = min((one.received_at or 0.0 for one in said), default=0.0)
        found = store.visits.list(source, since=since, limit=10_000) if said else []
        visits = [visit for visit in reversed(found) if visit.changed is not None]
        times = [visit.started_at for visit in visits]
        rows = []
        for one in said:
            after = bisect_left(times, one.received_at or 0.0)
            visit = visits[after] if after < len(visits) else None
            rows.append(
                SignalItem(
                    kind=one.kind,
                    at=utc(one.received_at or 0.0),
                    changed_at=utc(one.changed_at),
                    listing=one.listing,
                    found=visit.changed if visit else None,
                    found_at=utc(visit.started_at) if visit else None,
                )
            )
        return rows

    def share(self) -> float | None:
        """Of the changes that visits found in the last month, those that were announced before."""
        made = partial(self._in.store.signals.share, since=self._in.now() - _MONTH)
        return self._in.cache.get("signals", made, max_age=60.0, wait=5.0).value


def _canonical(address: str) -> str:
    try:
        return parse(address).href
    except BadURL:
        return address
