"""What is said of sources between their visits, and how far it is believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from observant.errors import BadURL
from observant.observer.signals import RELIABILITY
from observant.observer.transport.urls import parse
from observant.service.answers import ChannelItem, SignalItem, Signalled
from observant.store.signals import Signal
from observant.times import utc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from observant.service.collection.context import Context
    from observant.service.collection.entries import NewSignal

__all__ = ["CollectionSignals"]


class CollectionSignals:
    """Takes in signals for the observers of a store."""

    def __init__(self, context: Context) -> None:
        self._in = context

    def add(self, signals: Sequence[NewSignal]) -> Signalled:
        """Keep signals about sources that are watched; others are only counted.

        Signals spend no budget: they move whose visit is worth most.
        """
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
        """How far each kind of signal about each host is believed, liars first, as observers say.

        What an observer of another version wrote is left out.
        """
        try:
            kept = self._in.store.settings.get(RELIABILITY) or []
            rows = msgspec.convert(kept, list[ChannelItem])
        except msgspec.ValidationError:
            return []
        order = ("lies", "believed", "unproven")
        return sorted(rows, key=lambda row: (order.index(row.verdict), -row.sources, row.group))

    def of(self, source: str, limit: int = 100) -> list[SignalItem]:
        """Signals about a source, newest first."""
        return [
            SignalItem(
                kind=one.kind, at=utc(one.received_at or 0.0), changed_at=utc(one.changed_at)
            )
            for one in self._in.store.signals.of(source, limit=limit)
        ]


def _canonical(address: str) -> str:
    try:
        return parse(address).href
    except BadURL:
        return address
