"""Leases of shards: who visits which hosts for how long, and the journal of who took what.

A fence is a number that grows each time a shard changes hands. A commit tells the fence under
which its visit was made; if the shard has another by now, or the lease is over, it is refused. So
an observer that slept through the end of its lease can do no harm.
"""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Any

from observant.errors import InputError
from observant.store.engine import Columns
from observant.store.types import SHARDS, JournalLine, Lease, ObserverRow
from observant.store.validation import as_json, checked_name
from observant.times import micros

if TYPE_CHECKING:
    from collections.abc import Mapping

    from observant.store.engine import Engine, Session

__all__ = ["Journal", "Leases"]


class Leases:
    """Shards, held for a while by one observer each."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def take(
        self, observer: str, want: int, now: float | None = None, seconds: float = 60.0
    ) -> dict[int, int]:
        """Hold up to `want` shards for so many seconds: those held are renewed, free or expired
        ones are taken. Returns every shard held, with its fence.

        A shard is never given to two observers at a time.
        """
        checked_name(observer, "observer", 200)
        if not 0 <= want <= SHARDS or not seconds > 0:
            raise InputError(f"an observer can hold 0 to {SHARDS} shards for more than no time")

        def work(session: Session) -> dict[int, int]:
            instant = self._engine.now(now, session)
            times = {"now": micros(instant), "until": micros(instant + seconds)}
            held: dict[int, int] = dict(
                session.all("held_shards", observer=observer, now=times["now"])
            )
            session.many(
                "renew_shard",
                [
                    {"shard": shard, "observer": observer, "fence": fence} | times
                    for shard, fence in held.items()
                ],
            )
            missing, taken = want - len(held), {}
            if missing > 0:
                for shard, before, fence in session.all(
                    "free_shards", now=times["now"], most=missing
                ):
                    session.run("take_shard", shard=shard, observer=observer, **times)
                    held[shard] = fence + 1
                    taken[shard] = before
            if taken:
                detail = {"shards": sorted(taken), "from": sorted({o for o in taken.values() if o})}
                _note(session, observer, "took", detail, instant)
            _seen(session, observer, instant)
            return dict(sorted(held.items()))

        return self._engine.write(work)

    def renew(
        self,
        observer: str,
        fences: Mapping[int, int],
        now: float | None = None,
        seconds: float = 60.0,
    ) -> dict[int, int]:
        """Hold these for longer; returns those still held. The others are lost: stop visiting."""

        def work(session: Session) -> dict[int, int]:
            instant = self._engine.now(now, session)
            times = {"now": micros(instant), "until": micros(instant + seconds)}
            held, lost = {}, []
            for shard, fence in sorted(fences.items()):
                if session.run("renew_shard", shard=shard, observer=observer, fence=fence, **times):
                    held[shard] = fence
                else:
                    lost.append(shard)
            if lost:
                _note(session, observer, "lost", {"shards": lost}, instant)
            _seen(session, observer, instant)
            return held

        return self._engine.write(work)

    def release(
        self, observer: str, fences: Mapping[int, int] | None = None, now: float | None = None
    ) -> int:
        """Give shards back (None: all); returns how many were held."""

        def work(session: Session) -> int:
            given = fences
            if given is None:
                given = dict(session.all("shards_of", observer=observer))
            released = session.many(
                "release_shard",
                [
                    {"shard": shard, "observer": observer, "fence": fence}
                    for shard, fence in sorted(given.items())
                ],
            )
            _note(
                session, observer, "released", {"shards": released}, self._engine.now(now, session)
            )
            return released

        return self._engine.write(work)

    def observers(self, *, since: float | None = None) -> list[ObserverRow]:
        """Observers seen since an instant: each lease or renewal is a sign of life."""
        instant = 0 if since is None else micros(since)
        return _OBSERVER.all(self._engine.read(lambda s: s.all("observers", since=instant)))

    def list(self) -> list[Lease]:
        """Every shard that somebody holds or held last."""
        return _LEASE.all(self._engine.read(lambda session: session.all("leases")))


class Journal:
    """What observers did that others should know: a line each."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(
        self, observer: str, action: str, detail: Any = None, *, now: float | None = None
    ) -> None:
        """Write a line."""
        checked_name(observer, "observer", 200)
        checked_name(action, "action", 200)

        def work(session: Session) -> None:
            _note(session, observer, action, detail, self._engine.now(now, session))

        self._engine.write(work)

    def list(self, *, limit: int = 100, observer: str | None = None) -> list[JournalLine]:
        """Its lines, newest first."""
        where, given = "", {"most": limit}
        if observer is not None:
            where, given["observer"] = "\nWHERE observer = :observer", observer  # type: ignore[assignment]
        rows = self._engine.read(
            lambda session: session.sql(
                f"{session.text('audit')}{where} ORDER BY id DESC LIMIT :most", given
            )
        )
        return _LINE.all(rows)


_LEASE = Columns(Lease, "shard observer fence expires_at")
_OBSERVER = Columns(ObserverRow, "name started_at seen_at detail:json")
_LINE = Columns(JournalLine, "id at:at observer action detail:json")


def _seen(session: Session, observer: str, now: float) -> None:
    detail = as_json({"machine": platform.node(), "process": os.getpid()})
    session.run("seen_observer", observer=observer, now=micros(now), detail=detail)


def _note(session: Session, observer: str, action: str, detail: Any, now: float) -> None:
    session.run("note", observer=observer, action=action, detail=as_json(detail), now=micros(now))
