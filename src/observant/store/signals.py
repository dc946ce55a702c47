"""Signals that sources may have changed, from whoever said so; observers take them up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from observant.store.engine import Columns, StorePiece, chunks
from observant.times import micros

if TYPE_CHECKING:
    from collections.abc import Iterable

    from observant.store.engine import Session


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody says that a source may have changed."""

    source: str
    kind: str = "ping"
    received_at: float | None = None
    """By default now."""
    changed_at: float | None = None
    """When the change was, as the signal says."""
    listing: str | None = None
    """The sitemap or feed that says so, if it is one."""
    id: int = 0


class StoredSignals(StorePiece):
    """What was said of sources. Of those that are not watched nothing is kept."""

    def add(self, signals: Iterable[Signal], *, now: float | None = None) -> int:
        """Keep signals; returns how many are about sources that are watched.

        What one kind says of a source again within a minute is not kept again.
        """

        def work(session: Session) -> int:
            at, given = micros(self._engine.now(now, session)), list(signals)
            known: set[str] = set()
            for names in chunks(one.source for one in given):
                known.update(row[0] for row in session.all("watched_names", names=names))
            rows = {
                (one.source, one.kind, one.listing): {
                    "name": one.source,
                    "kind": one.kind,
                    "received_at": at if one.received_at is None else micros(one.received_at),
                    "changed_at": micros(one.changed_at),
                    "listing": one.listing,
                }
                for one in given
                if one.source in known
            }
            session.many("add_signal", list(rows.values()))
            return sum(one.source in known for one in given)

        return self._engine.write(work)

    def after(self, number: int = 0, *, limit: int = 100_000) -> list[Signal]:
        """Signals with a higher number, in the order in which they came."""
        given = {"after": number, "most": limit}
        return _SIGNAL.all(self._engine.read(lambda session: session.all("signals_after", **given)))

    def of(self, source: str, *, limit: int = 100) -> list[Signal]:
        """Signals about one source, newest first."""
        given = {"name": source, "most": limit}
        return _SIGNAL.all(self._engine.read(lambda session: session.all("signals_of", **given)))

    def share(self, *, since: float) -> float | None:
        """The share of changes that visits found since then with a signal before; None of none."""
        given = micros(since)

        def work(session: Session) -> float | None:
            found = session.value("count_changes", since=given)
            return session.value("count_announced", since=given) / found if found else None

        return self._engine.read(work)

    def drop(self, before: float) -> int:
        """Forget what came before; returns how many."""
        given = micros(before)
        return self._engine.write(lambda session: session.run("drop_signals", before=given))


_SIGNAL = Columns(Signal, "source kind received_at changed_at listing id")
