"""Leases of shards: who visits which hosts for how long, and the journal of who took what.

A fence is a number that grows each time a shard changes hands. A commit tells the fence under
which its visit was made; if the shard has another by now, or the lease is over, it is refused. So
an observer that slept through the end of its lease can do no harm.

A lease is void before its end when its holder is a process of this machine that has died, and when
it ends later than its holder can have asked for: then the clock was ahead when it was made.
"""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from observant.errors import InputError
from observant.store.engine import Columns, StorePiece
from observant.store.types import SHARDS, JournalLine, Lease, ObserverRow
from observant.store.validation import as_json, checked_name, from_json
from observant.times import DAY, micros

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from observant.store.engine import Row, Session

__all__ = ["Journal", "Leases", "is_dead", "this_process", "void_leases"]


# -- The process that holds a lease, and whether it still lives -----------------------------------
#
# A killed observer cannot give its leases back. Another one of the same machine need not wait until
# they run out: it can see that the process is gone. A process is known by the boot of its machine,
# the space of process numbers it lives in (a container has its own), its number, and the moment it
# began, since numbers are used again. Of a process elsewhere nothing is known but its lease.


_DEAD = frozenset("ZXx")
"""States of a process that has ended, and that nobody has taken note of yet."""


def this_process() -> dict[str, Any]:
    """What others need to know to see whether we live."""
    number = os.getpid()
    return {"machine": platform.node(), "process": number, **_place(), "began": _began(number)}


def is_dead(process: dict[str, Any], *, local: bool) -> bool:
    """Whether a process has surely ended; False if it lives, or if that cannot be seen from here.

    A `local` store is used by one machine only: whoever used it before the machine was started
    anew is dead.

    >>> is_dead(this_process(), local=True)
    False
    """
    number, here = process.get("process"), _place()
    if not isinstance(number, int) or number <= 0:
        return False
    boot = process.get("boot")
    if boot is None or here["boot"] is None:
        return local and process.get("machine") == platform.node() and not _is_there(number)
    if boot != here["boot"]:
        return local
    if process.get("space") != here["space"]:
        return False
    return _began(number) != process.get("began")


@cache
def _place() -> dict[str, str | None]:
    """The boot of this machine and the space of our process numbers, where the system tells."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return {"boot": boot, "space": str(Path("/proc/self/ns/pid").readlink())}
    except (OSError, ValueError):
        return {"boot": None, "space": None}


def _began(number: int) -> int | None:
    """When a process began, in ticks since the boot; None if there is none, or it has ended."""
    try:
        text = Path(f"/proc/{number}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # before that is the name, which may hold anything
    return None if len(fields) < 20 or fields[0] in _DEAD else int(fields[19])


def _is_there(number: int) -> bool:
    if os.name != "posix":
        return True
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


_SLACK_SECONDS = 60.0
"""By so much may clocks that made a lease and that look at it differ."""
_LONGEST_SECONDS = DAY
"""Leases of a holder that is not known last no longer than this."""


class Leases(StorePiece):
    """Shards, held for a while by one observer each."""

    def take(
        self,
        observer: str,
        want: int,
        now: float | None = None,
        seconds: float = 60.0,
        *,
        offer: Sequence[float] | None = None,
    ) -> dict[int, int]:
        """Hold up to `want` shards for so many seconds: those held are renewed, free or expired
        ones are taken. Returns every shard held, with its fence. `offer` is that of `exchange`.

        A shard is never given to two observers at a time. The shards of a process that has died
        on this machine are free at once.
        """
        checked_name(observer, "observer", 200)
        if not 0 <= want <= SHARDS or not seconds > 0:
            raise InputError(f"an observer can hold 0 to {SHARDS} shards for more than no time")

        def work(session: Session) -> dict[int, int]:
            instant = self._engine.now(now, session)
            lease = _terms(observer, instant, seconds)
            held: dict[int, int] = dict(
                session.all("held_shards", observer=observer, now=micros(instant))
            )
            session.many(
                "renew_shard",
                [
                    lease | {"shard": shard, "fence": fence, "now": micros(instant)}
                    for shard, fence in held.items()
                ],
            )
            missing, taken = want - len(held), {}
            if missing > 0:
                for shard, before, fence in session.all(
                    "free_shards",
                    now=micros(instant),
                    void=void_leases(session, instant, local=self._engine.local),
                    most=missing,
                ):
                    session.run("take_shard", shard=shard, fence=fence, **lease)
                    held[shard] = fence + 1
                    taken[shard] = before
            if taken:
                detail = {"shards": sorted(taken), "from": sorted({o for o in taken.values() if o})}
                _note(session, observer, "took", detail, instant)
            _seen(session, observer, instant, offer)
            return dict(sorted(held.items()))

        return self._engine.write(work)

    def take_one(
        self, observer: str, shard: int, now: float | None = None, seconds: float = 60.0
    ) -> int | None:
        """Hold this shard if nobody does; returns its fence, or None. It makes nobody an observer
        that others share the shards with.
        """
        checked_name(observer, "observer", 200)

        def work(session: Session) -> int | None:
            instant = self._engine.now(now, session)
            void = void_leases(session, instant, local=self._engine.local)
            row = session.one("free_shard", shard=shard, now=micros(instant), void=void)
            if row is None:
                return None
            lease = _terms(observer, instant, seconds)
            session.run("take_shard", shard=shard, fence=row[0], **lease)
            return int(row[0]) + 1

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
            lease = _terms(observer, instant, seconds) | {"now": micros(instant)}
            held, lost = {}, []
            for shard, fence in sorted(fences.items()):
                if session.run("renew_shard", shard=shard, fence=fence, **lease):
                    held[shard] = fence
                else:
                    lost.append(shard)
            if lost:
                _note(session, observer, "lost", {"shards": lost}, instant)
            _seen(session, observer, instant)
            return held

        return self._engine.write(work)

    def release(
        self,
        observer: str,
        fences: Mapping[int, int] | None = None,
        now: float | None = None,
        *,
        journal: bool = True,
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
            if journal:
                at = self._engine.now(now, session)
                _note(session, observer, "released", {"shards": released}, at)
            return released

        return self._engine.write(work)

    def observers(
        self, *, since: float | None = None, living: bool = False, now: float | None = None
    ) -> list[ObserverRow]:
        """Observers seen since an instant: each lease or renewal is a sign of life.

        With `living` only those that have not stopped, and have not died on this machine.
        """

        def work(session: Session) -> list[Row]:
            given = {"since": 0 if since is None else micros(since)}
            if not living:
                return session.all("observers", **given)
            until = micros(self._engine.now(now, session) + _SLACK_SECONDS)
            return session.all("living_observers", until=until, **given)

        found, local = _OBSERVER.all(self._engine.read(work)), self._engine.local
        return [row for row in found if not (living and is_dead(row.detail, local=local))]

    def exchange(
        self, observer: str, offer: Sequence[float] | None, since: float, now: float | None = None
    ) -> list[ObserverRow]:
        """Say what the other observers need to know to share the budget, and read what they said
        (`offer` in the detail of each): those that were seen since an instant and live.
        """

        def work(session: Session) -> None:
            _seen(session, observer, self._engine.now(now, session), offer)

        self._engine.write(work)
        living = self.observers(since=since, living=True, now=now)
        return [row for row in living if row.name != observer]

    def list(self) -> list[Lease]:
        """Every shard that somebody holds or held last."""
        return _LEASE.all(self._engine.read(lambda session: session.all("leases")))


class Journal(StorePiece):
    """What observers did that others should know: a line each."""

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


def void_leases(session: Session, now: float, *, local: bool) -> list[str]:
    """Observers whose leases have not run out, and bind nobody all the same."""
    void = []
    for observer, expires_at, holder in session.all("holders", now=micros(now)):
        known = from_json(holder)
        longest = known.get("seconds", _LONGEST_SECONDS) + _SLACK_SECONDS
        if expires_at / 1e6 > now + longest or is_dead(known, local=local):
            void.append(observer)
    return void


def _terms(observer: str, now: float, seconds: float) -> dict[str, Any]:
    """Who holds a lease, and until when."""
    return {
        "observer": observer,
        "until": micros(now + seconds),
        "holder": as_json(this_process() | {"seconds": seconds}),
    }


def _seen(
    session: Session, observer: str, now: float, offer: Sequence[float] | None = None
) -> None:
    detail = as_json(this_process() | ({} if offer is None else {"offer": list(offer)}))
    session.run("seen_observer", observer=observer, now=micros(now), detail=detail)


def _note(session: Session, observer: str, action: str, detail: Any, now: float) -> None:
    session.run("note", observer=observer, action=action, detail=as_json(detail), now=micros(now))
