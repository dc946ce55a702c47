"""A commit: visits and all that belongs to them, in one transaction."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from observant.errors import InputError
from observant.store.engine import chunks
from observant.store.members import keep_members, member_columns
from observant.store.snapshots import Packed, packed
from observant.store.types import STATES
from observant.store.validation import (
    as_bytes,
    as_json,
    checked_event,
    checked_name,
    clean,
    instant,
)
from observant.store.visit import GOOD, KEEP, Entry, Keep, Posterior, Recorded
from observant.times import micros

if TYPE_CHECKING:
    from collections.abc import Iterable

    from observant.store.engine import Session
    from observant.store.visit import Visit

_AHEAD_SECONDS = 3600.0
"""A last visit that is farther ahead than this was made by a wrong clock: it is the last no more.
"""


@dataclass(slots=True)
class Prepared:
    """An entry as columns: all that can be done (and can go wrong) before the transaction."""

    entry: Entry
    source: str = ""
    visit: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] | None = None
    detail: str | None = None
    posterior: bytes | Keep | None = KEEP
    contents: dict[str, Packed] = field(default_factory=dict)
    digest: bytes | None = None
    members: list[dict[str, Any]] | None = None
    title: str = ""
    """What the page calls itself, where it was read anew."""

    def __post_init__(self) -> None:
        entry, visit = self.entry, self.entry.visit
        self.source = checked_name(visit.source)
        if entry.state is not None and entry.state not in STATES:
            raise InputError(f"no state {entry.state!r}", source=self.source)
        self.digest = as_bytes(visit.digest)
        started, ended = (
            instant(visit.started_at, "started_at"),
            instant(visit.ended_at, "ended_at"),
        )
        if started is None or ended is None:
            raise InputError("a visit has a start and an end", source=self.source)
        outcome = checked_name(visit.outcome, "outcome", 50)
        error = None if visit.error is None else clean(visit.error, 1000)
        self.visit = {
            "started_at": started,
            "took": max(ended - started, 0),
            "outcome": outcome,
            "changed": None if visit.changed is None else int(visit.changed),
            "status": _whole(visit.status, "status", 32_767, self.source),
            "last_modified": instant(visit.last_modified, "last_modified"),
            "magnitude": _number(visit.magnitude),
            "bytes": _whole(visit.bytes, "bytes", (1 << 63) - 1, self.source),
            "error": error,
            "spot_check": _number(entry.spot_check),
        }
        posterior, due = entry.posterior, entry.due_at
        summary = posterior if isinstance(posterior, Posterior) else None
        self.posterior = summary.data if summary is not None else posterior  # type: ignore[assignment]
        modified = self.visit["last_modified"]
        self.state = {
            "started_at": started,
            "good": int(outcome in GOOD),
            "changed": int(visit.changed is True),
            "failed": int(outcome == "failed"),
            "outcome": outcome,
            "status": self.visit["status"],
            "error": error,
            # "not modified" may come without a date: the one we have stands
            "dated": int(outcome in GOOD and (modified is not None or outcome != "same")),
            "last_modified": modified,
            "set_due": int(due is not KEEP),
            "due_at": None if due is KEEP else instant(due, "due_at"),
            "set_rate": int(summary is not None or posterior is None),
            "rate": summary and _number(summary.rate),
            "rate_low": summary and _number(summary.rate_low),
            "rate_high": summary and _number(summary.rate_high),
            "cost": _number(entry.cost),
            "state": entry.state,
        }
        self.members = member_columns(visit.members)
        self._remember(visit)
        self._pack(visit)

    def _remember(self, visit: Visit) -> None:
        found = visit.comparison
        told = {
            "digest_raw": found and as_bytes(found.digest_raw),
            "digest_text": found and as_bytes(found.digest_text),
            "selection_version": (found and found.selection_version) or None,
            "validators": None if visit.validators in (None, KEEP) else as_json(visit.validators),
            "set_validators": int(visit.validators is not KEEP),
            "memory": None if found is None else as_json(found.memory),
            "record": as_json(found.record) if found and found.record else None,
        }
        if any(told.values()):
            self.memory = told
        if found is not None and found.record and visit.outcome in {"first", "changed", "back"}:
            self.title = clean(str(found.record.get("title") or ""), 200).strip()
        if found is None or (visit.outcome == "same" and not found.attributes):
            return  # nothing to tell
        kept = {
            name: value.hex() if isinstance(value, bytes) else value
            for name, value in msgspec.structs.asdict(found).items()
            if name not in _NOT_IN_DETAIL and value not in (None, "", (), [], {})
        }
        if visit.outcome == "same":
            kept.pop("record", None)  # the next change keeps its own
        if kept:
            self.detail = as_json(kept)

    def _pack(self, visit: Visit) -> None:
        snapshot: Any = self.entry.snapshot
        if snapshot is KEEP:
            snapshot = visit.comparison and visit.comparison.text
        if isinstance(snapshot, bytes | str):
            snapshot = {"text": snapshot}
        new = visit.comparison is not None and visit.comparison.text is not None
        if visit.shot is not None and (new or visit.outcome not in {"same", "unconfirmed"}):
            # Of its own kind, so that by retention it never drops the one that is compared with.
            kind = "screenshot" if visit.outcome in GOOD else "failure"
            snapshot = {**(snapshot or {}), kind: visit.shot}
        if snapshot is None:
            return
        self.contents = {
            checked_name(kind, "kind", 50): packed(content) for kind, content in snapshot.items()
        }


_NOT_IN_DETAIL = {"text", "memory", "outcome", "digest_text", "magnitude", "selection_version"}
"""Kept elsewhere: as the snapshot, with the source, or in the visit itself."""


class _Known(NamedTuple):
    """What a commit must know of a source."""

    id: int
    shard: int
    visited_at: int | None
    digest_id: int | None
    digest: bytes | None


def commit(session: Session, prepared: list[Prepared], now: float) -> list[Recorded]:
    sources = {
        row[1]: _Known(row[0], *row[2:])
        for names in chunks(one.source for one in prepared)
        for row in session.all("lock_sources", names=list(names))
    }
    leases = _leases(session, prepared, sources)
    told: list[Recorded] = []
    new: list[tuple[_Known, Prepared]] = []
    taken: set[tuple[int, int]] = set()
    for one in prepared:
        source = sources.get(one.source)
        if source is None:
            told.append(Recorded.UNKNOWN)
        elif _is_there(session, source, one.visit["started_at"], taken, now):
            told.append(Recorded.KNOWN)  # whoever holds the shard now: it was counted, once
        elif one.entry.fence is not None and not _holds(one, leases[source.shard], now):
            told.append(Recorded.FENCED)
        else:
            told.append(Recorded.NEW)
            new.append((source, one))
            taken.add((source.id, one.visit["started_at"]))
    if new:
        _write(session, new, now)
    return told


def _leases(
    session: Session, prepared: list[Prepared], sources: dict[str, _Known]
) -> dict[int, tuple[int, int]]:
    """Fence and end of each lease that this commit relies on; nobody can take it meanwhile."""
    shards = {
        sources[one.source].shard
        for one in prepared
        if one.entry.fence is not None and one.source in sources
    }
    if not shards:
        return {}
    return {row[0]: row[1:] for row in session.all("lock_leases", shards=sorted(shards))}


def _is_there(
    session: Session, source: _Known, started: int, taken: set[tuple[int, int]], now: float
) -> bool:
    if (source.id, started) in taken:
        return True
    if source.visited_at is None:
        return False
    if source.visited_at < started <= (now + _AHEAD_SECONDS) * 1e6:
        return False  # later than any visit: no need to look
    return session.one("known_visit", source=source.id, started_at=started) is not None


def _holds(one: Prepared, lease: tuple[int, int], now: float) -> bool:
    fence, expires_at = lease
    return one.entry.fence == fence and now * 1e6 < expires_at


def _write(session: Session, new: list[tuple[_Known, Prepared]], now: float) -> None:
    """Every table once, many rows at a time; in an order that keeps writers from deadlocks."""
    digests = _digest_ids(session, new)
    ahead = {"ahead": micros(now + _AHEAD_SECONDS)}
    visits, states, memories, details, posteriors, cleared, events = [], [], [], [], [], [], []
    for source, one in new:
        key = {"source": source.id}
        digest = {"digest": None if one.digest is None else digests[one.digest]}
        visits.append(one.visit | key | digest)
        states.append(one.state | key | digest | ahead)
        if one.memory is not None:
            memories.append(one.memory | key)
        if one.detail is not None:
            details.append(key | {"started_at": one.visit["started_at"], "detail": one.detail})
        if isinstance(one.posterior, bytes):
            posteriors.append(key | {"data": one.posterior})
        elif one.posterior is None:
            cleared.append(key)
        events += [checked_event(event, source.id, now) for event in one.entry.outbox]
    began = [
        {"source": source.id, "started_at": one.visit["started_at"]}
        for source, one in new
        if one.entry.anew
    ]
    session.many("begin_anew", began)
    session.many("count_anew", began)
    session.many("add_visit", visits)
    session.many("visited", states)
    session.many("remember", memories)
    session.many(
        "set_title",
        [
            {
                "source": source.id,
                "title": one.title,
                "searched": f"{one.source}\n{one.title}".casefold(),
            }
            for source, one in new
            if one.title
        ],
    )
    session.many("add_comparison", details)
    session.many("set_posterior", posteriors)
    session.many("clear_posterior", cleared)
    _keep_contents(session, new, now)
    keep_members(
        session,
        [
            (source.id, one.visit["started_at"], one.members)
            for source, one in new
            if one.members is not None
        ],
    )
    session.many("add_event", sorted(events, key=itemgetter("event")))
    session.many("add_hour", _hours(one.visit for _, one in new))


def _hours(visits: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What these visits add to each hour, in order of the hours."""
    hours: dict[int, Counter[str]] = {}
    for visit in visits:
        hours.setdefault(visit["started_at"] // 3_600_000_000, Counter()).update(
            visits=1,
            changes=int(visit["changed"] == 1),
            failures=int(visit["outcome"] == "failed"),
            bytes=visit["bytes"] or 0,
        )
    return [{"hour": hour, **hours[hour]} for hour in sorted(hours)]


def _digest_ids(session: Session, new: list[tuple[_Known, Prepared]]) -> dict[bytes, int]:
    """The numbers of all digests; most visits see the one that their source had before."""
    ids = {s.digest: s.digest_id for s, _ in new if s.digest is not None and s.digest_id}
    missing = sorted({one.digest for _, one in new if one.digest is not None} - set(ids))
    session.many("add_digest", [{"digest": digest} for digest in missing])
    for some in chunks(missing):
        ids.update(session.all("digest_ids", digests=list(some)))
    return ids


def _keep_contents(session: Session, new: list[tuple[_Known, Prepared]], now: float) -> None:
    contents = {content.digest: content for _, one in new for content in one.contents.values()}
    if not contents:
        return
    ids: dict[bytes, int] = {}
    for step in ("find", "add and find"):
        missing = sorted(set(contents) - set(ids))
        if step != "find":
            session.many(
                "add_snapshot",
                [
                    {
                        "digest": digest,
                        "size": contents[digest].size,
                        "stored": len(contents[digest].content),
                        "now": micros(now),
                        "content": contents[digest].content,
                    }
                    for digest in missing
                ],
            )
        for some in chunks(missing):
            ids.update(session.all("known_snapshots", digests=list(some)))
    session.many(
        "add_version",
        [
            {
                "source": source.id,
                "kind": kind,
                "seen_at": one.visit["started_at"],
                "snapshot": ids[content.digest],
            }
            for source, one in new
            for kind, content in one.contents.items()
        ],
    )


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _whole(value: int | None, what: str, most: int, source: str) -> int | None:
    if value is not None and not 0 <= value <= most:
        raise InputError(f"{what} is a whole number from 0 to {most}, not {value}", source=source)
    return None if value is None else int(value)
