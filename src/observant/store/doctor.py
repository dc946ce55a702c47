"""The doctor: what can be wrong with a store, looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from observant.errors import StoreError
from observant.store.leases import void_leases
from observant.store.snapshots import unpacked
from observant.store.types import Finding
from observant.times import DAY, MICROSECONDS_PER_DAY, micros
from observant.units import counted, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.store.engine import Engine, Row, Session

_JUMP_SECONDS = 300.0
"""Visits are committed when they end, so their ends are in order but for the length of a group."""
_AHEAD_SECONDS = 3600.0
_LATEST_DUE_SECONDS = 400 * DAY
_STUCK_SECONDS = DAY
_CONTENTS_AT_A_TIME = 50
_MENDABLE = {"counts", "schedule", "orphans", "void leases"}


def examine(engine: Engine, *, repair: bool, now: float) -> list[Finding]:
    """Every finding; with `repair` those that can be mended are mended."""
    found = engine.findings()
    with engine.snapshot() as session:
        found += _look(session, now, local=engine.local)
        found += _damaged(session)
    mendable = _MENDABLE & {finding.check for finding in found}
    if not repair or not mendable:
        return found
    engine.write(lambda session: _mend(session, now, local=engine.local))
    return [msgspec.structs.replace(one, repaired=one.check in mendable) for one in found]


def _look(session: Session, now: float, *, local: bool) -> Iterator[Finding]:
    yield from _rows(
        session.all("wrong_counts"),
        "error",
        "counts",
        "the counts of a source are not those of its visits; repair recounts them",
        column=1,
    )
    yield from _rows(
        session.all("unordered_visits", limit=micros(now + _AHEAD_SECONDS)),
        "error",
        "counts",
        "the last visit of a source is not the last in the log; repair recounts them",
    )
    yield from _rows(
        session.all("never_due"),
        "warning",
        "schedule",
        "active sources have no due time, so they are never visited; repair makes them due now",
    )
    yield from _rows(
        session.all("due_too_late", limit=micros(now + _LATEST_DUE_SECONDS)),
        "warning",
        "schedule",
        "sources are due more than a year from now; repair makes them due now",
    )
    orphans = session.one("orphan_bytes") or (0, 0)
    if orphans[0]:
        yield Finding(
            severity="warning",
            check="orphans",
            message=f"snapshots of {int(orphans[1]):,} bytes belong to no version; repair (or the "
            "next retention) drops them",
            count=int(orphans[0]),
        )
    yield from _rows(
        session.all("missing_snapshots"),
        "error",
        "missing",
        "versions of a source have lost their content; restore a backup to get it back",
    )
    yield from _rows(
        session.all("visits_ahead", limit=micros(now + _AHEAD_SECONDS)),
        "warning",
        "clock",
        "visits lie in the future: the clock was wrong when they were made, or is wrong now",
    )
    jumps = session.all("clock_jumps", limit=micros(_JUMP_SECONDS))
    if jumps:
        longest = max(before - after for before, after in jumps) / MICROSECONDS_PER_DAY
        yield Finding(
            severity="warning",
            check="clock",
            message=f"the clock jumped back {counted(len(jumps), 'time')} between visits, by up to "
            f"{format_duration(longest)}; intervals around these moments cannot be trusted",
            count=len(jumps),
        )
    yield from _rows(
        session.all("stuck_events", limit=micros(now - _STUCK_SECONDS)),
        "warning",
        "outbox",
        "events could not be delivered for more than a day; look at their errors",
    )
    void = void_leases(session, now, local=local)
    if void:
        yield Finding(
            severity="warning",
            check="void leases",
            message="observers that are dead, or whose clock was ahead, hold leases that have not "
            "run out; the next observer takes them, and repair ends them",
            count=len(void),
            examples=tuple(void[:5]),
        )
    for observer, shards in session.all("ended_leases", now=micros(now)):
        yield Finding(
            severity="note",
            check="leases",
            message=f"observer {observer!r} let its leases run out; others can take them",
            count=shards,
        )


def _rows(
    rows: list[Row],
    severity: Literal["error", "warning"],
    check: str,
    message: str,
    column: int = 0,
) -> Iterator[Finding]:
    if rows:
        names = dict.fromkeys(str(row[column]) for row in rows)
        yield Finding(
            severity=severity,
            check=check,
            message=message,
            count=len(rows),
            examples=tuple(names)[:5],
        )


def _damaged(session: Session) -> list[Finding]:
    """Unpack every content, a few at a time, and compare it with its name."""
    last, bad, example = 0, 0, ""
    while rows := session.all("some_snapshots", last=last, most=_CONTENTS_AT_A_TIME):
        for number, digest, size, content in rows:
            last = number
            try:
                unpacked(content, size, digest)
            except StoreError:
                bad, example = bad + 1, digest.hex()
    if not bad:
        return []
    message = "snapshots are damaged; restore a backup to get them back"
    return [
        Finding(severity="error", check="damaged", message=message, count=bad, examples=(example,))
    ]


def _mend(session: Session, now: float, *, local: bool) -> None:
    counts: list[dict[str, Any]] = [
        {"source": row[0], "visits": row[2], "changes": row[3], "failures": row[4]}
        for row in session.all("wrong_counts")
    ]
    session.many("set_counts", counts)
    session.run("set_last_visits", limit=micros(now + _AHEAD_SECONDS))
    session.run("make_due", now=micros(now), limit=micros(now + _LATEST_DUE_SECONDS))
    session.run("void_leases", void=void_leases(session, now, local=local))
    session.run("sweep")
