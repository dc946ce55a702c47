"""Who visits what: shards of hosts, leased for a while, with fences.

A fence is a number that grows each time a shard changes hands. A commit tells the fence under
which its visit was made; if the shard has another by now, or the lease is over, it is refused. So
an observer that slept through the end of its lease can do no harm.
"""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Any

from observant.errors import InputError
from observant.store.door import as_json, checked_name, from_json
from observant.store.engine import micros
from observant.store.part import Part
from observant.store.types import SHARDS, AuditNote, Lease, ObserverRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from observant.store.engine import Session

__all__ = ["Leases"]


class Leases(Part):
    """The part of the store that several observers meet in."""

    def lease_shards(
        self, observer: str, want: int, now: float | None = None, seconds: float = 60.0
    ) -> dict[int, int]:
        checked_name(observer, "observer", 200)
        if not 0 <= want <= SHARDS or not seconds > 0:
            raise InputError(f"an observer can hold 0 to {SHARDS} shards for more than no time")

        def work(session: Session) -> dict[int, int]:
            instant = self._now(now, session)
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
        def work(session: Session) -> dict[int, int]:
            instant = self._now(now, session)
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
            _note(session, observer, "released", {"shards": released}, self._now(now, session))
            return released

        return self._engine.write(work)

    def leases(self) -> list[Lease]:
        rows = self._engine.read(lambda session: session.all("leases"))
        return [
            Lease(shard=row[0], observer=row[1], fence=row[2], expires_at=row[3] / 1e6)
            for row in rows
        ]

    def observers(self, *, since: float | None = None) -> list[ObserverRow]:
        instant = 0 if since is None else micros(since)
        rows = self._engine.read(lambda session: session.all("observers", since=instant))
        return [
            ObserverRow(
                name=row[0], started_at=row[1] / 1e6, seen_at=row[2] / 1e6, detail=from_json(row[3])
            )
            for row in rows
        ]

    def note(
        self, observer: str, action: str, detail: Any = None, *, now: float | None = None
    ) -> None:
        checked_name(observer, "observer", 200)
        checked_name(action, "action", 200)

        def work(session: Session) -> None:
            _note(session, observer, action, detail, self._now(now, session))

        self._engine.write(work)

    def audit(self, *, limit: int = 100, observer: str | None = None) -> list[AuditNote]:
        where, given = "", {"most": limit}
        if observer is not None:
            where, given["observer"] = "\nWHERE observer = :observer", observer  # type: ignore[assignment]
        rows = self._engine.read(
            lambda session: session.sql(
                f"{session.text('audit')}{where} ORDER BY id DESC LIMIT :most", given
            )
        )
        return [
            AuditNote(
                id=row[0], at=row[1] / 1e6, observer=row[2], action=row[3], detail=from_json(row[4])
            )
            for row in rows
        ]


def _seen(session: Session, observer: str, now: float) -> None:
    detail = as_json({"machine": platform.node(), "process": os.getpid()})
    session.run("seen_observer", observer=observer, now=micros(now), detail=detail)


def _note(session: Session, observer: str, action: str, detail: Any, now: float) -> None:
    session.run("note", observer=observer, action=action, detail=as_json(detail), now=micros(now))
