"""`Store`: what every engine promises.

Every method blocks, is safe to call from several threads, and is one transaction. A coroutine
calls it through `asyncio.to_thread` (or `observant.store.grouping.GroupCommit` for visits).
`now` is the store's own clock when it is not given: the server's in PostgreSQL, so that observers
on several machines agree when a lease ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, Self

from observant.store.types import KEEP, Keep

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from observant.store.types import (
        AuditNote,
        Entry,
        Event,
        Finding,
        Lease,
        ObserverRow,
        Page,
        PendingEvent,
        Posterior,
        Recorded,
        Remembered,
        Scheduled,
        Source,
        StoredSource,
        Swept,
        Totals,
        Version,
        VisitLike,
        VisitRow,
    )
    from observant.visits import VisitLog

__all__ = ["Store"]


class Store(Protocol):
    """Sources, their visits, and what follows from them."""

    # -- sources ------------------------------------------------------------------------------

    def add_sources(self, sources: Iterable[Source], *, now: float | None = None) -> int:
        """Add those that are new; returns how many were.

        One that is there already keeps all it has. One that was removed comes back, with the new
        description and its old visits. Any bad one refuses all, and is named.
        """
        ...

    def update_source(self, name: str, *, now: float | None = None, **changes: Any) -> StoredSource:
        """Change fields of `Source` (not the name): ``update_source(n, state="paused")``.

        `config` is replaced, not merged.
        """
        ...

    def remove_source(self, name: str, *, forget: bool = False, now: float | None = None) -> bool:
        """Take a source off all lists and schedules; False if there is none.

        Its visits stay in the log. `forget` deletes its visits, versions and events as well.
        """
        ...

    def source(self, name: str) -> StoredSource:
        """The source of this name, or `UnknownSourceError`."""
        ...

    def find_source(self, text: str) -> StoredSource:
        """The source of this name or, if only one name contains the text, that one."""
        ...

    def list_sources(
        self,
        *,
        search: str | None = None,
        tag: str | None = None,
        host: str | None = None,
        state: str | None = None,
        kind: str | None = None,
        sort: str = "name",
        descending: bool = False,
        limit: int = 100,
        offset: int = 0,
        after: str | None = None,
    ) -> Page:
        """One page of sources.

        `search` is words that must all occur in name or title. `sort` is one of name, due_at,
        visited_at, changed_at, importance, rate, visits, changes, failed_in_row, created_at; what
        has no value comes last. Follow `Page.next` (keyset: as fast on the last page as on the
        first); `offset` is for those who must jump.
        """
        ...

    def count(
        self,
        *,
        search: str | None = None,
        tag: str | None = None,
        host: str | None = None,
        state: str | None = None,
        kind: str | None = None,
    ) -> int:
        """How many sources a list has."""
        ...

    def tags(self) -> dict[str, int]:
        """Every tag and how many sources have it."""
        ...

    def totals(self) -> Totals:
        """The whole store in numbers."""
        ...

    def scheduled(
        self, shards: Iterable[int] | None = None, *, states: Sequence[str] = ("active",)
    ) -> Iterator[Scheduled]:
        """Every source of these shards with its posterior, to fill a scheduler after a start."""
        ...

    def due(
        self, *, now: float | None = None, shards: Iterable[int] | None = None, limit: int = 1000
    ) -> list[StoredSource]:
        """Active sources whose time has come, longest due first."""
        ...

    def set_due(self, due: Mapping[str, float | None], *, now: float | None = None) -> None:
        """Move due times without a visit, all in one transaction."""
        ...

    def remembered(self, name: str, *, text: bool = True) -> Remembered:
        """What the next visit needs to know; without `text` the snapshot is not read."""
        ...

    def remembered_many(self, names: Iterable[str], *, text: bool = True) -> dict[str, Remembered]:
        """The same for many; unknown names are absent."""
        ...

    def set_memory(
        self, name: str, memory: dict[str, Any] | None, *, validators: Any = KEEP
    ) -> None:
        """Change what the comparer learned (None: forget it), without a visit."""
        ...

    # -- visits -------------------------------------------------------------------------------

    def record(
        self,
        visit: VisitLike,
        *,
        comparison: Any = None,
        posterior: Posterior | bytes | Keep | None = KEEP,
        due_at: float | Keep | None = KEEP,
        validators: Any = KEEP,
        snapshot: bytes | str | Mapping[str, bytes | str] | Keep | None = KEEP,
        outbox: Sequence[Event] = (),
        fence: int | None = None,
        state: str | None = None,
        now: float | None = None,
    ) -> Recorded:
        """Commit a visit and all that belongs to it (fields of `Entry`) in one transaction.

        Raises `FenceError` or `UnknownSourceError` when it is refused; tells NEW or KNOWN.
        """
        ...

    def record_many(self, entries: Sequence[Entry], *, now: float | None = None) -> list[Recorded]:
        """Commit many in one transaction, in this order; a refused one does not stop the others."""
        ...

    def visits(
        self,
        source: str | None = None,
        *,
        since: float | None = None,
        until: float | None = None,
        changed: bool | None = None,
        limit: int = 100,
        after: int | None = None,
        oldest_first: bool = False,
        details: bool = False,
    ) -> list[VisitRow]:
        """Visits, newest first unless told otherwise: of one source in order of time, of all in
        order of commit.

        `after` is the `id` of the last visit of the page before. `changed=True` gives changes
        only. `details` brings the comparisons.
        """
        ...

    def batches(
        self, *, since: float | None = None, rows: int = 65_536
    ) -> Iterator[pa.RecordBatch]:
        """The visit log as Arrow record batches (columns of `VisitLog` and `outcome`)."""
        ...

    def export(
        self,
        file: str | os.PathLike[str] | BinaryIO,
        *,
        format: str | None = None,  # noqa: A002 - the word users say
        since: float | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Write the visit log to a file (Parquet, CSV, …) while visits go on; returns the rows."""
        ...

    def visit_log(self, *, since: float | None = None) -> VisitLog:
        """The visit log in memory, ready to be estimated."""
        ...

    # -- snapshots ----------------------------------------------------------------------------

    def versions(self, source: str, *, kind: str = "text", limit: int = 100) -> list[Version]:
        """Kept versions of a source, newest first."""
        ...

    def snapshot(self, digest: bytes) -> bytes:
        """The content with this SHA-256; KeyError if it is not kept (any more)."""
        ...

    def version_at(
        self, source: str, at: float | None = None, *, kind: str = "text"
    ) -> bytes | None:
        """The content as of an instant (None: the latest), or None if it is not kept."""
        ...

    def retain(
        self,
        *,
        max_age: float | None = None,
        max_versions: int | None = None,
        max_bytes: int | None = None,
        now: float | None = None,
    ) -> Swept:
        """Drop versions older than `max_age` seconds, beyond `max_versions` per source and kind,
        and the oldest until the rest fits `max_bytes`; then contents that nobody refers to.

        The latest version of each source always stays: the next visit is compared with it. Visits
        are never dropped.
        """
        ...

    # -- outbox -------------------------------------------------------------------------------

    def add_events(
        self, events: Iterable[Event], *, source: str | None = None, now: float | None = None
    ) -> int:
        """Put events into the outbox without a visit; returns how many were new."""
        ...

    def pending(
        self, *, limit: int = 100, now: float | None = None, topic: str | None = None
    ) -> list[PendingEvent]:
        """Events that may be delivered now, oldest first."""
        ...

    def take_events(
        self, *, limit: int = 100, seconds: float = 60.0, now: float | None = None
    ) -> list[PendingEvent]:
        """Like `pending`, but nobody else is given them for so many seconds."""
        ...

    def delivered(self, ids: Iterable[str], *, now: float | None = None) -> int:
        """These were delivered; returns how many were still pending."""
        ...

    def postpone(self, event: str, *, until: float, error: str | None = None) -> None:
        """Delivery failed: try again at `until`; counts an attempt."""
        ...

    def events(self, *, limit: int = 100, source: str | None = None) -> list[PendingEvent]:
        """The delivery log: all events, newest first."""
        ...

    def prune_events(self, *, before: float) -> int:
        """Drop events delivered before an instant."""
        ...

    # -- settings -----------------------------------------------------------------------------

    def setting(self, key: str, default: Any = None) -> Any:
        """A kept value."""
        ...

    def settings(self, prefix: str = "") -> dict[str, Any]:
        """All kept values whose key begins so."""
        ...

    def set_setting(self, key: str, value: Any) -> None:
        """Keep any JSON value; None deletes it."""
        ...

    # -- observers ----------------------------------------------------------------------------

    def lease_shards(
        self, observer: str, want: int, now: float | None = None, seconds: float = 60.0
    ) -> dict[int, int]:
        """Hold up to `want` shards for so many seconds: those held are renewed, free or expired
        ones are taken. Returns every shard held, with its fence.

        A shard is never given to two observers at a time.
        """
        ...

    def renew(
        self,
        observer: str,
        fences: Mapping[int, int],
        now: float | None = None,
        seconds: float = 60.0,
    ) -> dict[int, int]:
        """Hold these for longer; returns those still held. The others are lost: stop visiting."""
        ...

    def release(
        self, observer: str, fences: Mapping[int, int] | None = None, now: float | None = None
    ) -> int:
        """Give shards back (None: all); returns how many were held."""
        ...

    def leases(self) -> list[Lease]:
        """Every shard that somebody holds or held last."""
        ...

    def observers(self, *, since: float | None = None) -> list[ObserverRow]:
        """Observers seen since an instant: each lease or renewal is a sign of life."""
        ...

    def note(
        self, observer: str, action: str, detail: Any = None, *, now: float | None = None
    ) -> None:
        """Write a line into the audit log."""
        ...

    def audit(self, *, limit: int = 100, observer: str | None = None) -> list[AuditNote]:
        """The audit log, newest first."""
        ...

    # -- care ---------------------------------------------------------------------------------

    def backup(self, path: str | os.PathLike[str]) -> int:
        """Write the whole store to one new file while it is in use; returns its size.

        The file is a SQLite store of observant, whatever engine this is.
        """
        ...

    def restore(self, path: str | os.PathLike[str], *, replace: bool = False) -> int:
        """Fill this store from a backup of either engine; returns the number of visits.

        The store must be empty unless `replace`. All is checked; a bad file changes nothing.
        """
        ...

    def doctor(self, *, repair: bool = False, now: float | None = None) -> list[Finding]:
        """Look for trouble. An empty list is a healthy store."""
        ...

    def close(self) -> None:
        """End; the store can be opened again."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...
