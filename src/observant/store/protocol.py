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

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from observant.store.accounts import Account, KeptReply, SessionRow, TokenRow
    from observant.store.deliveries import Batch, Delivery
    from observant.store.members import StoredMember
    from observant.store.numbers import Hour, ListedEvent
    from observant.store.subscribing import StoredSubscription, Subscription
    from observant.store.summaries import FailingHost, SourceColumns
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

    def update_sources(
        self, changes: Mapping[str, Mapping[str, Any]], *, now: float | None = None
    ) -> int:
        """Change many sources, given fields by name; some hundred in each transaction."""
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
        visited_at, changed_at, importance, rate, visits, changes, failed_in_row, created_at, period
        (from the last good visit to the next), doubt (updates expected since the last good visit);
        what has no value comes last. Follow `Page.next` (keyset: as fast on the last page as on the
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

    def set_due(self, due: Mapping[str, float | None]) -> None:
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

    # -- summaries ----------------------------------------------------------------------------

    def source_columns(self, limit: int = 4000) -> SourceColumns:
        """Active sources as columns: all of them, or about so many, evenly spread."""
        ...

    def failing_hosts(self, limit: int = 10) -> list[FailingHost]:
        """Hosts with sources whose last visits failed, the worst first."""
        ...

    def visit_log_of(self, ids: Sequence[int], *, most: int = 400_000) -> VisitLog | None:
        """The visits of these sources (by their numbers) as a log; None if there are none."""
        ...

    # -- the service: accounts, sessions, tokens ----------------------------------------------

    def add_account(
        self, name: str, role: str, password: str, *, now: float | None = None
    ) -> Account:
        """Add somebody who may sign in (owner, editor, viewer); `password` is a hash."""
        ...

    def update_account(
        self,
        name: str,
        *,
        role: str | None = None,
        password: str | None = None,
        now: float | None = None,
    ) -> Account:
        """Change role or password, and end all sessions of the account."""
        ...

    def remove_account(self, name: str) -> None:
        """Remove an account with its sessions and tokens; the last owner cannot be removed."""
        ...

    def account(self, name: str) -> Account | None:
        """The account of this name."""
        ...

    def accounts(self) -> list[Account]:
        """All accounts by name."""
        ...

    def begin_session(
        self, account: str, digest: bytes, *, expires_at: float, now: float | None = None
    ) -> None:
        """Somebody signed in; `digest` is the hash of the session's secret."""
        ...

    def session(self, digest: bytes, *, now: float | None = None) -> SessionRow | None:
        """The session with this hash, unless it has ended."""
        ...

    def extend_session(self, digest: bytes, *, expires_at: float, now: float | None = None) -> None:
        """The session was used: it lasts until then."""
        ...

    def end_session(self, digest: bytes) -> bool:
        """Sign out; False if there was no such session."""
        ...

    def add_token(
        self,
        name: str,
        scope: str,
        digest: bytes,
        *,
        account: str | None = None,
        expires_at: float | None = None,
        now: float | None = None,
    ) -> TokenRow:
        """Add a token for programs (read, write, admin); `digest` is the hash of its secret."""
        ...

    def token(self, digest: bytes, *, now: float | None = None) -> TokenRow | None:
        """The token with this hash, unless it has expired."""
        ...

    def tokens(self) -> list[TokenRow]:
        """All tokens, without their secrets."""
        ...

    def used_token(self, number: int, *, now: float | None = None) -> None:
        """The token was used now."""
        ...

    def revoke_token(self, number: int) -> bool:
        """Take a token back; False if there is none."""
        ...

    def kept_reply(self, key: str) -> KeptReply | None:
        """What was answered to the request with this idempotency key."""
        ...

    def keep_reply(
        self,
        key: str,
        request: bytes,
        reply: Any,
        *,
        keep: float = 86_400.0,
        now: float | None = None,
    ) -> None:
        """Keep an answer for so many seconds; `request` is the hash of what was asked."""
        ...

    # -- the service: numbers -----------------------------------------------------------------

    def hours(self, *, since: float, until: float | None = None) -> list[Hour]:
        """Visits, changes, failures and bytes of every hour with a visit, oldest first."""
        ...

    def source_numbered(self, number: int) -> StoredSource:
        """The source with this `id`, or `UnknownSourceError`."""
        ...

    def timelines(
        self, sources: Sequence[int], *, since: float, limit: int = 100_000
    ) -> NDArray[np.float64]:
        """Good visits of these sources as rows of source, start, changed (0, 1, NaN)."""
        ...

    def list_events(
        self,
        *,
        topic: str | None = None,
        source: str | None = None,
        tag: str | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> list[ListedEvent]:
        """Events, newest first; `after` is the number of the last one of the page before."""
        ...

    # -- subscriptions and deliveries ---------------------------------------------------------

    def add_subscription(
        self, subscription: Subscription, *, now: float | None = None
    ) -> StoredSubscription:
        """Keep a subscription; its name must be new."""
        ...

    def update_subscription(
        self, name: str, /, *, now: float | None = None, **changes: Any
    ) -> StoredSubscription:
        """Change fields of `Subscription`. What is queued for it is tried again at once."""
        ...

    def remove_subscription(self, name: str) -> bool:
        """Drop a subscription with its deliveries; False if there is none."""
        ...

    def subscription(self, name: str) -> StoredSubscription:
        """The subscription of this name, or `StoreError`."""
        ...

    def subscriptions(self) -> list[StoredSubscription]:
        """All of them, by name."""
        ...

    def fan_out(
        self, wanted: Mapping[str, Mapping[int, float]], *, now: float | None = None
    ) -> int:
        """Queue pending events, by id, for subscriptions, by number, each with its due time; the
        events leave the outbox. All or nothing; returns how many deliveries are new.
        """
        ...

    def take_batch(
        self, *, limit: int = 100, seconds: float = 120.0, now: float | None = None
    ) -> Batch | None:
        """Due deliveries of the subscription that was served longest ago, leased for so long."""
        ...

    def compose(self, message: str, ids: Iterable[int]) -> None:
        """These deliveries are one message from now on, on every attempt the same."""
        ...

    def mark_sent(self, ids: Iterable[int], *, now: float | None = None) -> int:
        """These reached their receiver; returns how many were still waiting."""
        ...

    def mark_failed(
        self, ids: Iterable[int], *, error: str, until: float | None, now: float | None = None
    ) -> None:
        """An attempt failed: try again at `until`, or never (None: a dead letter)."""
        ...

    def release_subscription(
        self,
        subscription: int,
        *,
        failures: int = 0,
        rests_until: float = 0.0,
        error: str | None = None,
        now: float | None = None,
    ) -> None:
        """End the lease of `take_batch`, and say how it stands with the receiver."""
        ...

    def bury(
        self, subscription: int, *, queued_before: float, error: str, now: float | None = None
    ) -> int:
        """Make dead letters of all that has been waiting for a receiver for too long."""
        ...

    def retry_deliveries(
        self,
        ids: Iterable[int] | None = None,
        *,
        subscription: str | None = None,
        now: float | None = None,
    ) -> int:
        """Have dead letters tried again: these, those of a subscription, or all; how many."""
        ...

    def deliveries(
        self,
        *,
        state: str | None = None,
        subscription: str | None = None,
        limit: int = 100,
        after: int | None = None,
    ) -> list[Delivery]:
        """The delivery log, newest first."""
        ...

    def count_deliveries(self) -> dict[str, dict[str, int]]:
        """Deliveries in each state, by the name of the subscription."""
        ...

    # -- standing queries ---------------------------------------------------------------------

    def members(self, query: str, *, left: bool = False) -> list[StoredMember]:
        """The results of a standing query by rank; with `left` those that were dropped too."""
        ...

    def memberships(self, url: str) -> list[StoredMember]:
        """Every standing query that has this address among its results now."""
        ...
