"""The store: all its parts over one engine."""

from __future__ import annotations

from typing import Self

from observant.store.accounts import Accounts
from observant.store.backup import Backup
from observant.store.deliveries import Deliveries
from observant.store.doctor import Doctor
from observant.store.leases import Leases
from observant.store.members import Members
from observant.store.numbers import Numbers
from observant.store.outbox import Outbox
from observant.store.recording import Recording
from observant.store.snapshots import Snapshots
from observant.store.sources import Sources
from observant.store.subscribing import Subscribing
from observant.store.summaries import Summaries
from observant.store.visiting import Visiting

__all__ = ["SqlStore"]


class SqlStore(
    Sources,
    Recording,
    Visiting,
    Snapshots,
    Outbox,
    Leases,
    Backup,
    Doctor,
    Subscribing,
    Deliveries,
    Members,
    Summaries,
    Accounts,
    Numbers,
):
    """A store in a database. `observant.store.Store` says what it promises."""

    def close(self) -> None:
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<store {self._engine}>"
