"""Subscriptions to hubs that tell of changes (WebSub), as the store keeps them."""

from __future__ import annotations

import secrets
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from observant.store.engine import Columns, StorePiece
from observant.times import DAY, micros

if TYPE_CHECKING:
    from collections.abc import Collection

    from observant.store.engine import Session

_SEEN = 16
"""Deliveries that are remembered, so that the same one says nothing twice."""
_RENEWED = 0.8
"""Share of a lease after which it is renewed."""
_LONGEST_LEASE = 30 * DAY
_LEAST_PAUSE = 300.0
_FIRST_PAUSE, _LONGEST_PAUSE = 600.0, 7 * DAY
"""Seconds after which a hub that was asked in vain is asked again; they grow fourfold."""
_MOST_FAREWELLS = 3


class HubSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """What one source has from its hub."""

    id: int
    source: str | None
    """None where it was removed for good: then the hub is to be left."""
    hub: str
    topic: str
    path: str
    """The last part of the callback's address."""
    secret: str
    state: str
    """offered (nobody has subscribed yet), active, or denied."""
    leaving: bool
    asked_at: float | None
    due_at: float
    expires_at: float | None
    attempts: int
    reason: str
    seen: str
    source_id: int | None
    source_state: str | None

    @property
    def wanted(self) -> bool:
        return self.source is not None and self.source_state != "removed"

    @property
    def signed(self) -> bool:
        """Whether the hub gets a secret, and signs with it: over https, or in a local network.

        >>> from unittest.mock import Mock
        >>> hubs = ["https://hub.example/", "http://hub.example/", "http://127.0.0.1:80/"]
        >>> [HubSubscription.signed.fget(Mock(hub=hub)) for hub in hubs]
        [True, False, True]
        """
        parts = urlsplit(self.hub)
        if parts.scheme == "https" or parts.hostname == "localhost":
            return True
        try:
            return ip_address(parts.hostname or "").is_private
        except ValueError:
            return False


class HubSubscriptions(StorePiece):
    """Who is subscribed where. What a hub says is believed only of a request that we made."""

    def offer(self, source: str, hub: str, topic: str, *, now: float | None = None) -> None:
        """A source names this hub and topic, or none (both are empty).

        Another hub than before is asked no sooner than a day after the last one, so that a page
        cannot send us to a new hub with every visit.
        """

        def work(session: Session) -> None:
            at = self._engine.now(now, session)
            (old,) = _found(session, "WHERE s.name = :name", name=source) or (None,)
            if old is not None and (old.hub, old.topic) == (hub, topic):
                return
            due = at
            if old is not None:
                asked = old.asked_at if old.asked_at is not None else at
                new = old.state == "offered" and not old.attempts
                due = max(at, old.due_at if new else asked + DAY)
                session.run("leave_websub", id=old.id)
                if old.state != "active":  # that hub has never agreed: there is nothing to leave
                    session.run("end_websub", id=old.id)
            if hub:
                path, secret = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
                given = {"name": source, "hub": hub, "topic": topic, "path": path}
                session.run("add_websub", **given, secret=secret, due_at=micros(due))

        self._engine.write(work)

    def due(self, shards: Collection[int], *, now: float, limit: int = 20) -> list[HubSubscription]:
        """Those whose hub is to be asked, of sources in these shards or of none any more."""

        def work(session: Session) -> list[HubSubscription]:
            given = {"now": micros(now), "shards": sorted(shards) or [-1], "most": limit}
            return _found(session, session.text("websub_due"), **given)

        return self._engine.read(work)

    def ask(self, one: HubSubscription, *, now: float) -> bool:
        """Note that its hub is asked now; False if somebody else does, or there is no need.

        Verification may come before the hub has answered, so this comes first.
        """
        pause = min(_FIRST_PAUSE * 4.0 ** min(one.attempts, 10), _LONGEST_PAUSE)

        def work(session: Session) -> bool:
            parted = one.state != "active" or (one.expires_at or 0.0) <= now
            tired = one.leaving and one.attempts >= _MOST_FAREWELLS
            if not one.wanted and (parted or tired):
                session.run("end_websub", id=one.id)
                return False
            given = {"now": micros(now), "again": micros(now + pause), "due_at": micros(one.due_at)}
            given |= {"id": one.id, "leaving": int(not one.wanted), "attempts": one.attempts}
            return bool(session.run("ask_websub", **given))

        return self._engine.write(work)

    def note(self, one: HubSubscription, reason: str) -> None:
        """Why a hub did not take a request."""
        reason = reason[:500]
        self._engine.write(lambda session: session.run("note_websub", id=one.id, reason=reason))

    def find(self, path: str) -> HubSubscription | None:
        """The subscription of a callback."""
        rows = self._engine.read(lambda session: _found(session, "WHERE w.path = :path", path=path))
        return rows[0] if rows else None

    def verify(self, path: str, mode: str, topic: str, lease: float, *, now: float) -> bool:
        """Whether we meant a request that a hub asks about; if so, it holds from now on."""

        def work(session: Session) -> bool:
            (one,) = _found(session, "WHERE w.path = :path", path=path) or (None,)
            if one is None or one.topic != topic or one.asked_at is None:
                return False
            if mode == "unsubscribe":
                if one.leaving:
                    session.run("end_websub", id=one.id)
                return one.leaving
            if mode != "subscribe" or one.leaving or not one.wanted or not lease > 0:
                return False
            lasting = min(lease, _LONGEST_LEASE)
            again = now + max(_RENEWED * lasting, _LEAST_PAUSE)
            _set(session, one, "active", due=again, expires=now + lasting)
            return True

        return self._engine.write(work)

    def deny(self, path: str, topic: str, reason: str, *, now: float) -> bool:
        """A hub does not want to tell us; it is asked again after a while."""

        def work(session: Session) -> bool:
            (one,) = _found(session, "WHERE w.path = :path", path=path) or (None,)
            if one is None or one.topic != topic:
                return False
            _set(session, one, "denied", due=now + _LONGEST_PAUSE, reason=reason[:500])
            return True

        return self._engine.write(work)

    def deliver(self, one: HubSubscription, digest: str, *, now: float) -> bool:
        """Note a delivery, and signal that its source may have changed; not twice for the same."""

        def work(session: Session) -> bool:
            (known,) = _found(session, "WHERE w.id = :id", id=one.id) or (None,)
            if known is None or not known.wanted or digest in (seen := known.seen.split()):
                return False
            session.run("see_websub", id=one.id, seen=" ".join([*seen, digest][-_SEEN:]))
            said = {"name": known.source, "kind": "websub", "received_at": micros(now)}
            return bool(session.run("add_signal", **said, changed_at=None, listing=None))

        return self._engine.write(work)

    def list(self) -> list[HubSubscription]:
        """All of them, by source."""
        return self._engine.read(lambda session: _found(session, "ORDER BY s.name, w.id"))


_SUBSCRIPTION = Columns(
    HubSubscription,
    "id source hub topic path secret state leaving:bool asked_at due_at expires_at attempts reason"
    " seen source_id source_state",
)


def _found(session: Session, which: str, **given: object) -> list[HubSubscription]:
    return _SUBSCRIPTION.all(session.sql(f"{session.text('select_websub')} {which}", given))


def _set(
    session: Session,
    one: HubSubscription,
    state: str,
    *,
    due: float,
    expires: float | None = None,
    reason: str = "",
) -> None:
    session.run(
        "set_websub",
        id=one.id,
        state=state,
        asked_at=None,
        due_at=micros(due),
        expires_at=micros(expires),
        attempts=0,
        reason=reason,
    )
