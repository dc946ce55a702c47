"""Visits that somebody asks for, of whoever watches the source.

Only the holder of a shard visits its sources. Whoever else wants a visit now asks for it here; the
observer that holds the shard makes it, and its record is the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from observant.errors import UnknownSourceError
from observant.store.engine import Columns, StorePiece
from observant.times import micros

if TYPE_CHECKING:
    from observant.store.engine import Session


class VisitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wants this source to be visited."""

    source: str
    shard: int
    asked_at: float


class Requests(StorePiece):
    """Visits that are asked for."""

    def add(self, source: str, *, now: float | None = None) -> VisitRequest:
        """Ask for a visit. Asked for twice, it is made once."""

        def work(session: Session) -> VisitRequest:
            at = micros(self._engine.now(now, session))
            if not session.run("ask", name=source, now=at):
                raise UnknownSourceError(f"there is no source {source!r}")
            return next(one for one in _REQUEST.all(session.all("asked")) if one.source == source)

        return self._engine.write(work)

    def list(self) -> list[VisitRequest]:
        """All that are not yet answered, oldest first."""
        return _REQUEST.all(self._engine.read(lambda session: session.all("asked")))

    def answered(self, request: VisitRequest) -> None:
        """The visit was made, or is not wanted any more; who has asked later still waits."""
        given = {"name": request.source, "asked_at": micros(request.asked_at)}
        self._engine.write(lambda session: session.run("answered", **given))


_REQUEST = Columns(VisitRequest, "source shard asked_at")
