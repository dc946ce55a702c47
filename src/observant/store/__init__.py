"""Where sources, visits and everything that follows from them survive a crash.

`open_store` gives a `Store`: one SQLite file, or a PostgreSQL database that several observers
share. See docs/store.md.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from observant.errors import (
    BackupError,
    FenceError,
    StoreAwayError,
    StoreBusyError,
    StoreError,
    StoreVersionError,
    UnknownSourceError,
)
from observant.plugins import added, lazy, load
from observant.store.deliveries import DELIVERY_STATES, Batch, Delivery
from observant.store.members import Member, StoredMember
from observant.store.signals import Signal
from observant.store.subscriptions import Filter, StoredSubscription, Subscription
from observant.store.types import (
    SHARDS,
    STATES,
    Event,
    Finding,
    JournalLine,
    Lease,
    ObserverRow,
    Page,
    Scheduled,
    Source,
    SourceQuery,
    StoredEvent,
    StoredSource,
    StoreTotals,
    Swept,
    Version,
    shard_of,
)
from observant.store.visit import (
    GOOD,
    KEEP,
    Comparison,
    Entry,
    Posterior,
    Previous,
    Recorded,
    Validators,
    Visit,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.store.groups import GroupCommit
    from observant.store.store import Store

__all__ = [
    "DELIVERY_STATES",
    "ENGINES",
    "GOOD",
    "KEEP",
    "SHARDS",
    "STATES",
    "BackupError",
    "Batch",
    "Comparison",
    "Delivery",
    "Entry",
    "Event",
    "FenceError",
    "Filter",
    "Finding",
    "GroupCommit",
    "JournalLine",
    "Lease",
    "Member",
    "ObserverRow",
    "Page",
    "Posterior",
    "Previous",
    "Recorded",
    "Scheduled",
    "Signal",
    "Source",
    "SourceQuery",
    "Store",
    "StoreAwayError",
    "StoreBusyError",
    "StoreError",
    "StoreTotals",
    "StoreVersionError",
    "StoredEvent",
    "StoredMember",
    "StoredSource",
    "StoredSubscription",
    "Subscription",
    "Swept",
    "UnknownSourceError",
    "Validators",
    "Version",
    "Visit",
    "open_store",
    "shard_of",
]


ENGINES = {
    "": "observant.store.sqlite:SqliteEngine",
    "postgresql": "observant.store.postgres:PostgresEngine",
    "postgres": "observant.store.postgres:PostgresEngine",
}
"""The databases by the scheme of a place; one without a scheme is a file. Packages add others by
entry points of the group ``observant.stores``."""


def open_store(
    place: str | os.PathLike[str],
    *,
    create: bool = True,
    durable: bool = True,
    clock: Callable[[], float] | None = None,
    allow_network_filesystem: bool = False,
) -> Store:
    """Open the store in a SQLite file, in memory (``:memory:``), or at ``postgresql://…``.

    It is brought to this version of observant first; one that a newer version wrote is refused.
    Without `create` there must be one already. `durable` makes every commit survive a loss of
    power; without it commits are faster, and survive any death of the process, but the last ones
    may be missing after a loss of power. `clock` replaces the store's own clock.

    A PostgreSQL URL may end in ``?schema=NAME`` (default ``observant``).

    >>> with open_store(":memory:") as store:
    ...     store.sources.add([Source(name="https://example.org/", host="example.org")])
    ...     store.visits.record(
    ...         Visit(
    ...             source="https://example.org/", started_at=1e9, ended_at=1e9 + 1, outcome="first"
    ...         ),
    ...         due_at=1e9 + 3600,
    ...     )
    ...     store.sources.get("https://example.org/").visits
    1
    <Recorded.NEW: 'new'>
    1
    """
    from observant.store.store import Store

    text = os.fspath(place)
    scheme, slashes, _ = text.partition("://")
    where = slashes and (ENGINES.get(scheme) or added("observant.stores").get(scheme))
    if where:
        return Store(load(where)(text, create=create, durable=durable), clock)
    named = text.partition(":")[0].lower()
    if slashes or (named and named != text.lower() and named in ENGINES):
        raise StoreError(  # without the address: it may hold a password
            f"this address of a database ({named[:20]}:…) is not understood; "
            "write postgresql://user@host/database, or the name of a file"
        )
    engine = load(ENGINES[""])(
        text, create=create, durable=durable, allow_network=allow_network_filesystem
    )
    return Store(engine, clock)


# They take as long to load as all the rest.
__getattr__, __dir__ = lazy(
    __name__, {"GroupCommit": "observant.store.groups", "Store": "observant.store.store"}
)
