"""What others are told of a visit: events, committed with the visit in one transaction.

Each event has an id made of what it tells: the same visit, failure or silence told twice is one
event. So nobody has to remember what was told already, and a restart repeats nothing.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from observant.observer.content.diffs import excerpt
from observant.store import GOOD, Event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from observant.observer.config import Notify
    from observant.store import Member, Store, StoredEvent, StoredMember, StoredSource
    from observant.store.visit import Visit

_PAIR = ("failing", "recovered")
QUERY_TAG = "query:"
"""How the tags of sources begin that are watched for a standing query."""


class Standing(msgspec.Struct, frozen=True, gc=False):
    """What the visits before say of a source, as far as the next event needs it."""

    failed: int = 0
    """Failed visits since the last good one; those of an outage of ours are not counted."""
    good_at: float | None = None
    changed_at: float | None = None

    @classmethod
    def of(cls, row: StoredSource) -> Standing:
        if row.visited_at is None:
            return _NEW
        return cls(failed=row.failed_in_row, good_at=row.good_at, changed_at=row.changed_at)

    def after(self, visit: Visit, *, blamed: bool = True) -> Standing:
        """The same after this visit; `blamed` is False when the failure was ours."""
        if visit.outcome == "failed":
            return Standing(self.failed + blamed, self.good_at, self.changed_at)
        return Standing(
            failed=0,
            good_at=visit.started_at if visit.outcome in GOOD else self.good_at,
            changed_at=visit.started_at if visit.changed else self.changed_at,
        )


_NEW = Standing()  # of sources that were never visited, which may be a million


def event_id(*parts: object) -> str:
    """The id of what happened, the same whenever it is told.

    >>> event_id("changed", "a", 1.5) == event_id("changed", "a", 1.5)
    True
    """
    told = "\0".join(f"{part:.6f}" if isinstance(part, float) else str(part) for part in parts)
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def subject_of(row: StoredSource, visit: Visit | None = None) -> dict[str, Any]:
    """What every event tells of its source. A password in the address stays with us.

    A source that nobody has given a title has that of its page.
    """
    record = (visit.comparison and visit.comparison.record) if visit is not None else None
    return {
        "source": row.name,
        "url": _public(row.url or row.name, row.name),
        "title": row.title or str((record or {}).get("title", "")),
        "host": row.host,
        "tags": list(row.tags),
    }


def look_up_events(
    store: Store,
    row: StoredSource,
    visit: Visit,
    before: Standing,
    after: Standing,
    notify: Notify,
    *,
    text_before: str | None = None,
) -> tuple[Event, ...]:
    """The events of a visit, with what must be looked up in the store for them."""
    results: list[StoredMember] = []
    memberships: list[StoredMember] = []
    if visit.outcome == "changed" and row.kind != "query":
        memberships = store.members.by_url(row.name)
    if visit.members is not None:
        results = store.members.list(row.name, left=True)
    events = events_of(
        row,
        visit,
        before,
        after,
        notify,
        text_before=text_before,
        results=results,
        memberships=memberships,
    )
    if all(event.topic != "recovered" for event in events):
        return events
    if known_to_fail(store.outbox.list(source=row.name, limit=100)):
        return events
    # Failures of an outage count in the store, but nobody was told of them.
    return tuple(event for event in events if event.topic != "recovered")


def events_of(
    row: StoredSource,
    visit: Visit,
    before: Standing,
    after: Standing,
    notify: Notify,
    *,
    text_before: str | None = None,
    results: Sequence[StoredMember] = (),
    memberships: Sequence[StoredMember] = (),
) -> tuple[Event, ...]:
    """Everything to be told of a visit. `results` are those of a standing query before it,
    `memberships` the standing queries that have the source among their results.
    """
    told = list(_changes(row, visit, text_before, memberships))
    told += _conditions(row, visit)
    told += _troubles(row, visit, before, after, notify)
    if visit.members is not None and visit.outcome != "first":
        told += _results(row, visit, results, visit.members)
    return tuple(told)


def known_to_fail(events: Sequence[StoredEvent]) -> bool:
    """Whether the last that was told of a source's visits, newest first, is that they fail."""
    topics = (event.topic for event in events)
    return next((topic == "failing" for topic in topics if topic in _PAIR), False)


def _changes(
    row: StoredSource,
    visit: Visit,
    text_before: str | None,
    memberships: Sequence[StoredMember],
) -> list[Event]:
    """That the source changed, disappeared or came back.

    What changed in a list of results is told result by result, and a member that is watched only
    because it is one is told as a result.
    """
    if visit.outcome not in {"changed", "gone", "back"}:
        return []
    if row.kind == "query" and visit.outcome == "changed":
        return []
    comparison = visit.comparison
    payload = {
        **subject_of(row, visit),
        "outcome": visit.outcome,
        "at": visit.started_at,
        "magnitude": visit.magnitude,
        "reason": comparison.reason if comparison else "",
        "attributes": list(comparison.attributes) if comparison else [],
        "image": comparison is not None and comparison.image,
        "back_to": comparison.back_to.hex() if comparison and comparison.back_to else None,
    }
    shown = None
    if comparison is not None and comparison.text is not None:
        shown = comparison.excerpt
        if shown is None and text_before is not None:
            shown = excerpt(text_before, comparison.text)
    if shown is not None:
        payload |= {"added": shown.added, "removed": shown.removed, "cut": shown.cut}
    told = []
    only_member = any(tag.startswith(QUERY_TAG) for tag in row.tags) and memberships
    if visit.outcome != "changed" or not only_member:
        identity = event_id(row.name, visit.started_at, visit.outcome)
        told.append(Event(id=identity, topic=visit.outcome, payload=payload))
    if visit.outcome == "changed":
        told += [
            Event(
                id=event_id("changed-result", member.query, row.name, visit.started_at),
                topic="changed-result",
                payload=payload
                | {"query": member.query, "rank": member.rank, "title": row.title or member.title},
            )
            for member in memberships
        ]
    return told


def _conditions(row: StoredSource, visit: Visit) -> list[Event]:
    """Conditions of the source that have come true."""
    return [
        Event(
            id=event_id("condition", row.name, visit.started_at, condition),
            topic="condition",
            payload=subject_of(row, visit)
            | {"at": visit.started_at, "condition": condition, "reason": condition},
        )
        for condition in (visit.comparison.met if visit.comparison else ())
    ]


def _troubles(
    row: StoredSource, visit: Visit, before: Standing, after: Standing, notify: Notify
) -> list[Event]:
    """Transitions only: into failing and out of it, and from gone to vanished."""
    comparison = visit.comparison
    payload = {
        **subject_of(row, visit),
        "at": visit.started_at,
        "reason": comparison.reason if comparison else "",
        "error": visit.error,
        "status": visit.status,
        "since": before.good_at,
    }
    limit = notify.failing_after
    if before.failed < limit <= after.failed:
        identity = event_id("failing", row.name, before.good_at)
        return [Event(id=identity, topic="failing", payload=payload | {"failures": after.failed})]
    if before.failed >= limit and after.failed == 0:
        identity = event_id("recovered", row.name, before.good_at, visit.started_at)
        told = payload | {"failures": before.failed}
        return [Event(id=identity, topic="recovered", payload=told)]
    missing = visit.outcome == "same" and comparison is not None and comparison.memory.get("gone")
    if missing and before.changed_at is not None:
        waited = visit.started_at - before.changed_at
        if waited >= notify.seconds("vanished_after"):
            identity = event_id("vanished", row.name, before.changed_at)
            told = payload | {"since": before.changed_at}
            return [Event(id=identity, topic="vanished", payload=told)]
    return []


def _results(
    row: StoredSource, visit: Visit, before: Sequence[StoredMember], now: Sequence[Member]
) -> list[Event]:
    """New, changed and dropped results. Another order alone is nothing to tell."""
    known = {member.url: member for member in before}
    there = {url: member for url, member in known.items() if member.left_at is None}
    found = {member.url for member in now}
    told: list[tuple[str, Member, dict[str, Any]]] = []
    for member in now:
        old = there.get(member.url)
        if old is None:
            told.append(("new-result", member, {"returning": member.url in known}))
        elif (old.title, old.dated_at) != (member.title, member.dated_at):
            more = {"title_before": old.title, "dated_before": old.dated_at}
            told.append(("changed-result", member, more))
    told += [("dropped-result", old, {}) for url, old in there.items() if url not in found]
    subject = subject_of(row)
    return [
        Event(
            id=event_id(topic, row.name, member.url, visit.started_at),
            topic=topic,
            payload=subject
            | {
                "query": row.name,
                "at": visit.started_at,
                "url": member.url,
                "title": member.title,
                "rank": member.rank,
                "rank_before": known[member.url].rank if member.url in there else None,
                "dated_at": member.dated_at,
                "reason": _REASONS[topic],
            }
            | more,
        )
        for topic, member, more in told
    ]


_REASONS = {
    "new-result": "a new result",
    "changed-result": "the list says that this result changed",
    "dropped-result": "no longer among the results",
}


def _public(url: str, name: str) -> str:
    from observant.errors import BadURL
    from observant.observer.transport.urls import parse

    if "@" not in url:
        return url
    try:
        return parse(url).href
    except BadURL:
        return name
