"""What is going on: visits by the hour, hosts in trouble, observers, events."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from observant.errors import InputError
from observant.observer.failures import remedy
from observant.service.answers import Done, EventItem, EventPage, finite
from observant.service.collection.context import CollectionPiece, some
from observant.service.collection.entries import masked_url
from observant.service.collection.sources import searchable
from observant.service.summaries import HostItem, HourItem, ObserverItem
from observant.times import DAY, utc

if TYPE_CHECKING:
    from observant.service.collection.entries import SeenEvents
    from observant.store.types import StoredEvent

_SEEN = "dashboard.seen"
_MOST_SEEN = 1000
_LIVELY = 90.0
"""Seconds since an observer's last sign of life after which it counts as gone."""


class Activity(CollectionPiece):
    """What the observers of a store do, and what they find."""

    def hours(self, count: int) -> list[HourItem]:
        """The last hours, also those without a visit."""
        if not 1 <= count <= 24 * 366:
            raise InputError("from 1 to 8784 hours can be asked for")
        last = int(self._in.now() // 3600)
        since = (last - count + 1) * 3600.0
        known = {hour.at: HourItem.of(hour) for hour in self._in.store.visits.hours(since=since)}
        return [
            known.get(at) or HourItem(at=utc(at), visits=0, changes=0, failures=0, bytes=0)
            for at in (since + 3600.0 * k for k in range(count))
        ]

    def hosts(self, limit: int = 10) -> list[HostItem]:
        """Hosts with sources whose last visits failed, those with most first."""
        some(limit, "hosts")
        found = self._in.cache.get(
            ("hosts", limit),
            lambda: self._in.store.sources.failing_hosts(limit),
            max_age=10.0,
            wait=10.0,
        )
        return [
            HostItem.of(host, failed_in_row=host.in_row, remedy=remedy(host.error, host.status))
            for host in found.value or []
        ]

    def observers(self, *, lively: bool = False) -> list[ObserverItem]:
        """Observers of this store; those seen lately, or all of the last day."""
        now = self._in.now()
        held = (lease for lease in self._in.store.leases.list() if lease.expires_at > now)
        shards = Counter(lease.observer for lease in held)
        since = now - (_LIVELY if lively else DAY)
        rows = self._in.store.leases.observers(since=since, living=lively, now=now)
        return [
            ObserverItem.of(row, shards=shards[row.name])
            for row in rows
            if not lively or shards[row.name]
        ]

    def events(
        self,
        *,
        topic: str | None = None,
        source: int | str | None = None,
        tag: str | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> EventPage:
        """Events, newest first."""
        name = None if source is None else self._in.find(source).name
        rows = self._in.store.outbox.list(
            topic=searchable(topic, "topic"),
            source=name,
            tag=searchable(tag, "tag"),
            after=after,
            limit=some(limit, "events") + 1,
        )
        seen = self._seen()
        return EventPage(
            events=[_event(row, seen) for row in rows[:limit]],
            next=rows[limit - 1].number if len(rows) > limit else None,
        )

    def unseen(self, limit: int) -> list[EventItem]:
        """The newest events that nobody has marked as seen."""
        return [event for event in self.events().events if not event.seen][:limit]

    def mark_seen(self, given: SeenEvents) -> Done:
        """Take events off the first page."""

        def marked(kept: Any) -> Any:
            before = _SeenByPeople.of(kept)
            until = max(before.until, given.until)
            numbers = {n for n in (*before.numbers, *given.numbers) if n > until}
            return {"until": until, "numbers": sorted(numbers)[-_MOST_SEEN:]}

        self._in.store.settings.change(_SEEN, marked)
        return Done(done=max(len(given.numbers), 1))

    def _seen(self) -> _SeenByPeople:
        return _SeenByPeople.of(self._in.store.settings.get(_SEEN))


class _SeenByPeople(NamedTuple):
    """Which events people have seen: all up to a number, and some after it."""

    until: int
    numbers: frozenset[int]

    @classmethod
    def of(cls, kept: Any) -> _SeenByPeople:
        kept = kept if isinstance(kept, dict) else {}
        return cls(int(kept.get("until", 0)), frozenset(kept.get("numbers", ())))

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and (number <= self.until or number in self.numbers)


def _event(row: StoredEvent, seen: _SeenByPeople) -> EventItem:
    """Its payload is what receivers get."""
    payload = dict(row.payload) if isinstance(row.payload, dict) else {}
    if "url" in payload:
        payload["url"] = masked_url(str(payload["url"]))
    at, magnitude = payload.get("at"), payload.get("magnitude")
    return EventItem.of(
        row,
        title=str(payload.get("title") or ""),
        url=str(payload.get("url") or row.source or ""),
        at=utc(at if isinstance(at, int | float) else row.created_at),
        magnitude=finite(magnitude) if isinstance(magnitude, int | float) else None,
        reason=str(payload.get("reason") or ""),
        tags=[str(tag) for tag in payload.get("tags") or ()],
        payload=payload,
        seen=row.number in seen,
    )
