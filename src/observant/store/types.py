"""What goes into a store and what comes out: plain frozen values.

Instants are float seconds since 1970 UTC (names end in ``_at``); in the database they are whole
microseconds. Digests are bytes.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from observant.names import STATES

if TYPE_CHECKING:
    from observant.arrays import Floats, Integers

__all__ = [
    "SHARDS",
    "STATES",
    "Event",
    "FailingHost",
    "Finding",
    "Hour",
    "JournalLine",
    "Lease",
    "ObserverRow",
    "Page",
    "Scheduled",
    "Source",
    "SourceColumns",
    "SourceQuery",
    "SpotCheck",
    "StoreTotals",
    "StoredEvent",
    "StoredSource",
    "Swept",
    "Version",
    "shard_of",
]

SHARDS: Final = 64
"""Hosts are hashed to this many shards; an observer visits only hosts of shards it holds."""


def shard_of(host: str) -> int:
    """The shard of a host, the same on every machine and in every version.

    >>> shard_of("example.org"), shard_of("EXAMPLE.org")
    (31, 31)
    """
    return zlib.crc32(host.lower().encode("utf-8", "surrogatepass")) % SHARDS


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen record with named fields."""


class Source(Value, frozen=True, kw_only=True):
    """A source as a user describes it."""

    name: str
    """Its id, stable and unique: the canonical URL for web pages. At most 2,000 bytes."""
    kind: str = "http"
    """Who can visit it: http, file, feed, sitemap, command, …"""
    url: str = ""
    """Where it is, when that is not its name."""
    host: str = ""
    """Whose politeness counts. Sources of one host are in one shard; without a host the name
    decides."""
    title: str = ""
    tags: tuple[str, ...] = ()
    importance: float = 1.0
    state: str = "active"
    due_at: float | None = None
    """When it is to be visited next; a new source without one is due at once."""
    config: dict[str, Any] = msgspec.field(default_factory=dict)
    """Everything else: selection, headers, periods, hours. Any JSON value."""


class StoredSource(Source, frozen=True, kw_only=True, gc=False):
    """A source with what its visits have shown so far."""

    id: int
    """Its number in this store; the key of its rows."""
    shard: int
    created_at: float
    updated_at: float
    visited_at: float | None = None
    """Start of the last visit, failed or not."""
    good_at: float | None = None
    """Start of the last visit that saw the source."""
    changed_at: float | None = None
    """Start of the last visit that found a change."""
    visits: int = 0
    changes: int = 0
    failures: int = 0
    failed_in_row: int = 0
    """Failed visits since the last good one."""
    outcome: str | None = None
    status: int | None = None
    error: str | None = None
    last_modified: float | None = None
    digest: bytes | None = None
    rate: float | None = None
    rate_low: float | None = None
    rate_high: float | None = None
    cost: float | None = None
    """What a visit costs, in plain visits; None before the first."""


class Scheduled(Value, frozen=True, kw_only=True, gc=False):
    """One source as the scheduler wants it after a restart."""

    source: StoredSource
    posterior: bytes | None


class Event(Value, frozen=True, kw_only=True):
    """A row for the outbox. The id makes it unique: told twice, it is delivered once."""

    id: str
    topic: str = "change"
    payload: Any = None
    """Any JSON value."""
    not_before: float | None = None
    """Not to be delivered before this instant."""


class StoredEvent(Event, frozen=True, kw_only=True):
    """An event in the outbox, and how its delivery goes."""

    source: str | None
    created_at: float
    attempts: int = 0
    error: str | None = None
    delivered_at: float | None = None
    """None while it waits."""
    number: int = 0
    """Its place in the log of events."""
    source_id: int | None = None


class SourceQuery(Value, frozen=True, kw_only=True):
    """Which sources, in which order, and which page of them."""

    search: str | None = None
    """Words that must all occur in name or title."""
    tag: str | None = None
    host: str | None = None
    state: str | None = None
    kind: str | None = None
    sort: str = "name"
    """One of `observant.names.SORTS`; what has no value comes last. `period` is the time from
    the last good visit to the next, `doubt` the updates expected since the last good visit."""
    descending: bool = False
    limit: int = 100
    offset: int = 0
    """For those who must jump; a page costs more the farther it is."""
    after: str | None = None
    """`Page.next` of the page before: as fast on the last page as on the first."""


class Page(Value, frozen=True, kw_only=True):
    """One page of a list of sources."""

    sources: tuple[StoredSource, ...]
    next: str | None
    """Give it as `after` to get the next page; None at the end."""


class Version(Value, frozen=True, kw_only=True):
    """A kept version of a source's content."""

    source: str
    at: float
    """Start of the visit that saw it first."""
    kind: str
    digest: bytes
    """SHA-256 of the content: the key of `Store.snapshots.get`."""
    size: int
    stored: int
    """Bytes on disk, compressed."""


class Swept(Value, frozen=True, kw_only=True):
    """What retention removed."""

    versions: int = 0
    snapshots: int = 0
    bytes: int = 0


class StoreTotals(Value, frozen=True, kw_only=True):
    """The whole store in numbers."""

    sources: int
    by_state: dict[str, int]
    visits: int
    changes: int
    failures: int
    pending: int
    """Events that wait in the outbox."""
    snapshots: int
    snapshot_bytes: int


class Hour(Value, frozen=True, kw_only=True):
    """What the visits of one hour found."""

    at: float
    """Its beginning."""
    visits: int
    changes: int
    failures: int
    bytes: int


class SourceColumns(NamedTuple):
    """Active sources, one entry each. Instants are seconds since 1970, NaN where there is none."""

    total: int
    """How many active sources there are; the columns may hold fewer, spread evenly."""
    id: Integers
    name: list[str]
    host: list[str]
    importance: Floats
    tags: list[str]
    """JSON."""
    config: list[str]
    """JSON."""
    good_at: Floats
    due_at: Floats
    changed_at: Floats
    rate: Floats
    rate_low: Floats
    rate_high: Floats
    cost: Floats
    """NaN where it is not known."""
    visits: Integers
    changes: Integers
    posterior: list[bytes | None]


class SpotCheck(NamedTuple):
    """A visit to an active source that was left to chance."""

    source: int
    at: float
    changed: bool | None
    outcome: str
    per_day: float
    """How many spot checks a day its source could expect."""
    before: float | None
    """The last good visit before it, if there was one."""
    rate: float | None
    importance: float
    tags: str
    """JSON."""
    config: str
    """JSON."""


class FailingHost(NamedTuple):
    """A host with sources whose last visits failed."""

    host: str
    sources: int
    failing: int
    in_row: int
    """The most failed visits in a row."""
    error: str
    """One of the errors."""
    status: int | None
    """One of the statuses that are errors."""
    seen_at: float | None
    """The last good visit to any of its sources."""


class Lease(Value, frozen=True, kw_only=True):
    """Who holds a shard."""

    shard: int
    observer: str
    fence: int
    expires_at: float


class ObserverRow(Value, frozen=True, kw_only=True):
    """An observer that has used this store."""

    name: str
    started_at: float
    seen_at: float
    detail: dict[str, Any]


class JournalLine(Value, frozen=True, kw_only=True):
    """One line of the observers' journal."""

    id: int
    at: float
    observer: str
    action: str
    detail: Any = None


class Finding(Value, frozen=True, kw_only=True):
    """Something `doctor` noticed."""

    severity: Literal["error", "warning", "note"]
    check: str
    message: str
    """What is wrong and how to mend it."""
    count: int = 1
    examples: tuple[str, ...] = ()
    repaired: bool = False
