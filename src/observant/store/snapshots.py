"""Kept versions of contents, and how long they are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from observant.errors import InputError
from observant.store.contents import unpacked
from observant.store.engine import micros
from observant.store.errors import UnknownSourceError
from observant.store.part import Part
from observant.store.types import Swept, Version

if TYPE_CHECKING:
    from observant.store.engine import Row, Session

__all__ = ["Snapshots"]

_END_OF_TIME = 1 << 62
_AT_A_TIME = 1000


class Snapshots(Part):
    """The part of the store that keeps contents."""

    def versions(self, source: str, *, kind: str = "text", limit: int = 100) -> list[Version]:
        def work(session: Session) -> list[Version]:
            rows = session.all("versions", source=_number(session, source), kind=kind, most=limit)
            return [
                Version(
                    source=source,
                    at=row[0] / 1e6,
                    kind=row[1],
                    digest=row[2],
                    size=row[3],
                    stored=row[4],
                )
                for row in rows
            ]

        return self._engine.read(work)

    def snapshot(self, digest: bytes) -> bytes:
        row = self._engine.read(lambda session: session.one("snapshot", digest=digest))
        if row is None:
            raise KeyError(digest.hex())
        return unpacked(row[0], row[1], digest)

    def version_at(
        self, source: str, at: float | None = None, *, kind: str = "text"
    ) -> bytes | None:
        instant = _END_OF_TIME if at is None else micros(at)
        row = self._engine.read(
            lambda session: session.one(
                "version_at", source=_number(session, source), kind=kind, at=instant
            )
        )
        return None if row is None else unpacked(*row)

    def retain(
        self,
        *,
        max_age: float | None = None,
        max_versions: int | None = None,
        max_bytes: int | None = None,
        now: float | None = None,
    ) -> Swept:
        if max_versions is not None and max_versions < 1:
            raise InputError("the latest version always stays: max_versions is one or more")
        for name, value in (("max_age", max_age), ("max_bytes", max_bytes)):
            if value is not None and not value >= 0:
                raise InputError(f"{name} is zero or more, not {value!r}")
        before = None if max_age is None else micros(self._now(now) - max_age)
        swept = Swept()
        for step in (
            lambda session: _by_age(session, before),
            lambda session: _by_count(session, max_versions),
            lambda session: _by_size(session, max_bytes),
        ):
            # Many short transactions: visits go on in between, and a crash leaves nothing half.
            while (done := self._engine.write(step)).versions:
                swept = Swept(
                    versions=swept.versions + done.versions,
                    snapshots=swept.snapshots + done.snapshots,
                    bytes=swept.bytes + done.bytes,
                )
        return swept


def _number(session: Session, source: str) -> int:
    number = session.value("source_id", name=source)
    if number is None:
        raise UnknownSourceError(f"there is no source {source!r}")
    return int(number)


def _by_age(session: Session, before: int | None) -> Swept:
    if before is None:
        return Swept()
    return _swept(session, session.all("expire_by_age", before=before, most=_AT_A_TIME))


def _by_count(session: Session, most: int | None) -> Swept:
    if most is None:
        return Swept()
    sources = sorted({row[0] for row in session.all("sources_with_many", most=most)})
    return _swept(session, session.all("expire_by_count", most=most, sources=sources))


def _by_size(session: Session, most: int | None) -> Swept:
    """Drop the oldest versions, and hardly more of them than must go."""
    count, total = session.one("count_snapshots") or (0, 0)
    if most is None or total <= most:
        return Swept()
    share = (int(total) - most) / int(total)
    step = min(max(int(share * count / 2), 1), _AT_A_TIME)
    return _swept(session, session.all("expire_by_age", before=_END_OF_TIME, most=step))


def _swept(session: Session, dropped: list[Row]) -> Swept:
    """Drop the contents of these versions that no other version refers to."""
    ids = sorted({row[0] for row in dropped})
    count, size = session.one("orphans_of", ids=ids) or (0, 0)
    session.run("sweep_of", ids=ids)
    return Swept(versions=len(dropped), snapshots=int(count), bytes=int(size))
