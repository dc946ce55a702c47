"""Subscriptions as a store keeps them: who is told of what, by which channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import InputError, StoreError
from observant.store.types import Value
from observant.store.validation import as_json, checked_name
from observant.times import micros

if TYPE_CHECKING:
    from observant.store.engine import Engine, Row, Session

__all__ = ["Filter", "StoredSubscription", "Subscription", "Subscriptions", "select_subscriptions"]


class Filter(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events a subscriber wants. Empty means any; of several values one must fit."""

    topics: tuple[str, ...] = ()
    """Kinds of events: changed, gone, new-result, …"""
    tags: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """A host, or all below a domain: ``.example.org``."""
    sources: tuple[str, ...] = ()
    """Names of sources."""
    terms: tuple[str, ...] = ()
    """Words or phrases; one of them must stand in the text that came or went."""
    magnitude: float = 0.0
    """How much must have changed, 0 to 1. An event without a magnitude passes."""


class Subscription(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a subscriber asks for. `observant.notifications` says what makes a sound one."""

    name: str
    channel: str
    """An address: https://… (a webhook), mailto:…, or one of Apprise. Often it holds a secret."""
    secret: str = ""
    """Signs what is sent to a webhook."""
    filter: Filter = Filter()
    subject: str = ""
    """Templates; the built-in ones unless told."""
    template: str = ""
    digest: str | float = 0.0
    """Collect events for so long, as in ``1h`` or ``1d``, and send them as one message."""
    quiet: tuple[str, ...] = ()
    """Hours when nothing is sent, as in ``22:00-07:00`` or ``sat,sun``. Events wait."""
    timezone: str = "UTC"
    enabled: bool = True


class StoredSubscription(Subscription, frozen=True, kw_only=True):
    """A subscription, and how its deliveries go."""

    id: int
    created_at: float
    updated_at: float
    rests_until: float = 0.0
    """Its receiver is down, or asked for rest: nothing is sent before."""
    failures: int = 0
    """In a row."""
    error: str | None = None


_FIELDS = tuple(Subscription.__struct_fields__)


class Subscriptions:
    """Subscriptions by name."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, subscription: Subscription, *, now: float | None = None) -> StoredSubscription:
        """Keep a subscription; its name must be new."""
        row = _columns(subscription) | {"now": micros(self._engine.now(now))}

        def work(session: Session) -> StoredSubscription:
            if not session.run("add_subscription", **row):
                raise InputError(
                    f"there is a subscription {subscription.name!r} already; remove it first, or "
                    "choose another name"
                )
            return _one(session, subscription.name)

        return self._engine.write(work)

    def update(
        self, name: str, /, *, now: float | None = None, **changes: Any
    ) -> StoredSubscription:
        """Change fields of `Subscription`. What is queued for it is tried again at once."""
        unknown = set(changes) - set(_FIELDS)
        if unknown:
            raise InputError(
                f"a subscription has no {', '.join(sorted(unknown))}; it has {', '.join(_FIELDS)}"
            )
        instant = micros(self._engine.now(now))

        def work(session: Session) -> StoredSubscription:
            before = _one(session, name)
            kept = {field: getattr(before, field) for field in _FIELDS}
            after = Subscription(**(kept | changes))
            if after.name != name and session.one("subscription_id", name=after.name):
                raise InputError(f"there is a subscription {after.name!r} already")
            session.run(
                "update_subscription", **_columns(after), subscription=before.id, now=instant
            )
            return _one(session, after.name)

        return self._engine.write(work)

    def remove(self, name: str) -> bool:
        """Drop a subscription with its deliveries; False if there is none."""
        return self._engine.write(lambda session: session.run("remove_subscription", name=name) > 0)

    def get(self, name: str) -> StoredSubscription:
        """The subscription of this name, or `StoreError`."""
        return self._engine.read(lambda session: _one(session, name))

    def list(self) -> list[StoredSubscription]:
        """All of them, by name."""
        return self._engine.read(
            lambda session: select_subscriptions(session, "1 = 1 ORDER BY name", {})
        )


def select_subscriptions(
    session: Session, where: str, given: dict[str, Any]
) -> list[StoredSubscription]:
    """Those that fit a condition."""
    rows = session.sql(f"{session.text('select_subscriptions')}\nWHERE {where}", given)
    return [_stored(row) for row in rows]


def _one(session: Session, name: str) -> StoredSubscription:
    found = select_subscriptions(session, "name = :name", {"name": name})
    if not found:
        raise StoreError(f"there is no subscription {name!r}")
    return found[0]


def _columns(subscription: Subscription) -> dict[str, Any]:
    name = checked_name(subscription.name, "subscription", 200)
    given = {field: getattr(subscription, field) for field in _FIELDS}
    return {
        "name": name,
        "definition": as_json(Subscription(**given), "a subscription"),
        "enabled": int(subscription.enabled),
    }


def _stored(row: Row) -> StoredSubscription:
    plain = msgspec.json.decode(row[2], type=Subscription)
    return StoredSubscription(
        **{field: getattr(plain, field) for field in _FIELDS},
        id=row[0],
        created_at=row[3] / 1e6,
        updated_at=row[4] / 1e6,
        rests_until=row[5] / 1e6,
        failures=row[6],
        error=row[7],
    )
