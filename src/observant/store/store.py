"""The store: one class over an engine, owner of a piece for each thing that is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from observant.store import backup, doctor
from observant.store.accounts import Accounts, Replies, Sessions, Tokens
from observant.store.deliveries import Deliveries
from observant.store.leases import Journal, Leases
from observant.store.members import Members
from observant.store.outbox import Outbox
from observant.store.requests import Requests
from observant.store.settings import Settings
from observant.store.signals import StoredSignals
from observant.store.snapshots import Snapshots
from observant.store.sources import Sources
from observant.store.subscriptions import Subscriptions
from observant.store.types import StoreTotals
from observant.store.visits import Visits
from observant.store.websub import HubSubscriptions

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from observant.store.engine import Engine, Session
    from observant.store.types import Finding


class Store:
    """Sources, their visits, and what follows from them, in any database that has an `Engine`.

    Every method blocks, is safe to call from several threads, and is one transaction. A coroutine
    calls it through `asyncio.to_thread` (or `observant.store.GroupCommit` for visits).
    `now` is the store's own clock when it is not given: the server's in PostgreSQL, so that
    observers on several machines agree when a lease ends.
    """

    def __init__(self, engine: Engine, clock: Callable[[], float] | None = None) -> None:
        engine.clock = clock
        self.engine = engine
        self.sources = Sources(engine)
        self.visits = Visits(engine)
        self.snapshots = Snapshots(engine)
        self.members = Members(engine)
        self.outbox = Outbox(engine)
        self.subscriptions = Subscriptions(engine)
        self.deliveries = Deliveries(engine)
        self.settings = Settings(engine)
        self.leases = Leases(engine)
        self.requests = Requests(engine)
        self.signals = StoredSignals(engine)
        self.websub = HubSubscriptions(engine)
        self.journal = Journal(engine)
        self.accounts = Accounts(engine)
        self.sessions = Sessions(engine)
        self.tokens = Tokens(engine)
        self.replies = Replies(engine)

    def totals(self) -> StoreTotals:
        """The whole store in numbers."""

        def work(session: Session) -> StoreTotals:
            rows = session.all("counts")
            by_state = {row[0]: row[1] for row in rows if row[0] != "removed"}
            snapshots = session.one("count_snapshots") or (0, 0)
            return StoreTotals(
                sources=sum(by_state.values()),
                by_state=by_state,
                visits=int(sum(row[2] for row in rows)),
                changes=int(sum(row[3] for row in rows)),
                failures=int(sum(row[4] for row in rows)),
                pending=session.value("count_pending"),
                snapshots=int(snapshots[0]),
                snapshot_bytes=int(snapshots[1]),
            )

        return self.engine.read(work)

    def backup(self, path: str | os.PathLike[str]) -> int:
        """Write the whole store to one new file while it is in use; returns its size.

        The file is a SQLite store of observant, whatever engine this is.
        """
        return backup.write(self.engine, path)

    def restore(self, path: str | os.PathLike[str], *, replace: bool = False) -> int:
        """Fill this store from a backup of either engine; returns the number of visits.

        The store must be empty unless `replace`. All is checked; a bad file changes nothing.
        """
        return backup.restore(self.engine, path, replace=replace)

    def doctor(self, *, repair: bool = False, now: float | None = None) -> list[Finding]:
        """Look for trouble. An empty list is a healthy store."""
        return doctor.examine(self.engine, repair=repair, now=self.engine.now(now))

    def close(self) -> None:
        """End; the store can be opened again."""
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<store {self.engine}>"
