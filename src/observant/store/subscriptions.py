"""Subscriptions as a store keeps them: who is told of what, by which channel."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import InputError, StoreError
from observant.store.engine import StorePiece
from observant.store.types import Value
from observant.store.validation import as_json, checked_name
from observant.times import micros
from observant.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from observant.store.engine import Row, Session

__all__ = [
    "Filter",
    "StoredSubscription",
    "Subscription",
    "Subscriptions",
    "Wishes",
    "is_below",
    "select_subscriptions",
]


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
    """Templates; by default the built-in ones."""
    template: str = ""
    digest: str | float = 0.0
    """Collect events for so long, as in ``1h`` or ``1d``, and send them as one message."""
    quiet: tuple[str, ...] = ()
    """Hours when nothing is sent, as in ``22:00-07:00`` or ``sat,sun``. Events wait."""
    timezone: str = "UTC"
    enabled: bool = True
    owner: str = ""
    """Whose it is: the name of an account, perhaps."""
    every: str | float = 0.0
    """Its sources are visited at least this often, as in ``3d``; 0: as the budget has it. One visit
    serves everybody."""


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


class Wishes:
    """How often people want sources to be visited: of all who watch one, the most impatient.

    >>> daily = Subscription(name="ada", channel="", filter=Filter(tags=("news",)), every="1d")
    >>> weekly = Subscription(name="bo", channel="", every="1w")
    >>> wishes = Wishes([daily, weekly])
    >>> wishes.period("a", ["news"], "a.example"), wishes.period("b", [], "a.example")
    (1.0, 7.0)
    """

    def __init__(self, subscriptions: Iterable[Subscription] = ()) -> None:
        self.given = [
            (one.filter, days)
            for one in subscriptions
            if one.enabled and (days := parse_duration(one.every))
        ]
        self._by: dict[str | tuple[str, str], list[tuple[Filter, float]]] = {}
        for wanted, days in self.given:
            keys: Sequence[Any] = wanted.sources or [("tag", tag) for tag in wanted.tags] or [""]
            for key in keys:
                self._by.setdefault(key, []).append((wanted, days))

    def __bool__(self) -> bool:
        return bool(self.given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Wishes) and self.given == other.given

    __hash__ = None  # type: ignore[assignment]

    def period(self, name: str, tags: Iterable[str], host: str) -> float:
        """Days that may pass between two visits of a source, infinite if nobody minds."""
        if not self.given:
            return math.inf
        tags = {*tags}
        keys: list[str | tuple[str, str]] = ["", name, *(("tag", tag) for tag in tags)]
        perhaps = [wish for key in keys for wish in self._by.get(key, ())]
        fitting = (
            days
            for wanted, days in perhaps
            if (not wanted.tags or tags & {*wanted.tags})
            and (not wanted.hosts or any(is_below(host, one) for one in wanted.hosts))
        )
        return min(fitting, default=math.inf)


def is_below(host: str, wanted: str) -> bool:
    """Whether this is the host that is wanted, or one below the domain ``.example.org``."""
    wanted = wanted.lower()
    return host == wanted or (
        wanted.startswith(".") and (host.endswith(wanted) or host == wanted[1:])
    )


_FIELDS = tuple(Subscription.__struct_fields__)


class Subscriptions(StorePiece):
    """Subscriptions by name."""

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

    def wishes(self) -> Wishes:
        """How often people want sources to be visited."""
        return Wishes(self.list())

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
