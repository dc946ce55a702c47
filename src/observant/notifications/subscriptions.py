"""Who wants what, and when: checking, matching, waiting, and keeping secrets secret."""

from __future__ import annotations

import re
import secrets
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from observant.errors import InputError
from observant.names import TOPICS
from observant.notifications.channels import check_channel, host_of_channel
from observant.notifications.messages import check_template
from observant.observer import bounds
from observant.observer.active_hours import ActiveHours
from observant.store import Filter, StoredSubscription, Subscription
from observant.store.subscriptions import is_below
from observant.times import DAY
from observant.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.store import StoredEvent

__all__ = ["MASK", "checked", "due_at", "masked", "quiet_until", "shown", "updated", "wants"]

MASK = "•••"
"""Stands for a secret wherever one is shown."""
LONGEST_DIGEST = 31.0
_WEEK = 7 * 24 * 60
_WORD = re.compile(r"\w+")
_MONDAY = 4 * DAY  # of 1970


def checked(subscription: Subscription) -> Subscription:
    """The subscription, if it can be served; a webhook without a secret gets one.

    >>> checked(Subscription(name="me", channel="mailto:me@example.org", digest="1 fortnight"))
    Traceback (most recent call last):
    observant.errors.UnitError: unknown unit 'fortnight' in the duration '1 fortnight'; ...
    """
    wanted = subscription.filter
    for topic in wanted.topics:
        if topic not in TOPICS:
            raise InputError(f"there is no topic {topic!r}; there are {', '.join(TOPICS)}")
    if not 0 <= wanted.magnitude <= 1:
        raise InputError(f"a magnitude lies between 0 and 1, not {wanted.magnitude}")
    if any(not term.strip() for term in wanted.terms):
        raise InputError("a term needs at least one word")
    check_channel(subscription.channel)
    check_template(subscription.subject, "subject")
    check_template(subscription.template)
    if parse_duration(subscription.digest) > LONGEST_DIGEST:
        raise InputError(f"digest: at most {LONGEST_DIGEST:g} days are collected")
    bounds.duration("every", subscription.every)
    hours = _quiet(subscription)
    if hours is not None and _is_always(hours):
        raise InputError("these quiet hours leave no time to tell anything")
    if subscription.channel.lower().startswith(("http://", "https://")) and not subscription.secret:
        subscription = msgspec.structs.replace(subscription, secret=secrets.token_urlsafe(32))
    return subscription


def updated(before: StoredSubscription, **changes: Any) -> dict[str, Any]:
    """What `Store.subscriptions.update` is to be told, after checks.

    A channel or secret that comes back masked, as it was shown, stays what it was. When the channel
    moves to another host, the old secret does not go with it: the new host never gets to see what
    it signs, or a password that was in the old address.
    """
    if changes.get("secret") == MASK:
        del changes["secret"]
    channel = changes.get("channel")
    if channel is not None and channel == masked(before.channel):
        del changes["channel"]
    elif channel is not None and MASK in channel:
        raise InputError("a new channel must be written out: its secrets are not taken over")
    elif channel is not None and host_of_channel(channel) != host_of_channel(before.channel):
        changes.setdefault("secret", "")
    plain = {name: getattr(before, name) for name in Subscription.__struct_fields__}
    if isinstance(changes.get("filter"), dict):
        changes["filter"] = msgspec.convert(changes["filter"], Filter)
    after = checked(Subscription(**(plain | changes)))
    if after.secret != before.secret:
        changes["secret"] = after.secret
    return changes


def masked(channel: str) -> str:
    """A channel without its secrets: scheme and host are shown, the rest is not.

    >>> masked("https://hooks.example.org/services/T0/B1/XYZ")
    'https://hooks.example.org/•••'
    >>> masked("mailto:me@example.org"), masked("tgram://123:token/42")
    ('mailto:me@example.org', 'tgram://•••')
    """
    if channel.lower().startswith("mailto:"):
        return channel
    scheme, slashes, rest = channel.partition("://")
    if not slashes:
        return MASK
    if scheme.lower() not in {"http", "https"}:
        return f"{scheme}://{MASK}"  # in other schemes the first part is often the secret
    parts = urlsplit(channel)
    host = rest.partition("/")[0].partition("?")[0].rpartition("@")[2]
    secret = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    return f"{scheme}://{host}/{MASK}" if secret else f"{scheme}://{host}/"


def shown(subscription: StoredSubscription) -> StoredSubscription:
    """The subscription as it may be shown: nothing in it opens a door."""
    return msgspec.structs.replace(
        subscription,
        channel=masked(subscription.channel),
        secret=MASK if subscription.secret else "",
    )


def wants(wanted: Filter, event: StoredEvent, text: Callable[[], str]) -> bool:
    """Whether a subscriber with this filter is to be told. `text` gives all that came or went.

    >>> from observant.store import StoredEvent
    >>> event = StoredEvent(
    ...     id="1", topic="changed", source="a", created_at=0.0, payload={"tags": ["news"]}
    ... )
    >>> wants(Filter(tags=("news",)), event, str), wants(Filter(topics=("gone",)), event, str)
    (True, False)
    """
    told: dict[str, Any] = event.payload if isinstance(event.payload, dict) else {}
    if wanted.topics and event.topic not in wanted.topics:
        return False
    if wanted.tags and not set(wanted.tags) & _tags(told):
        return False
    if wanted.sources and not {event.source, told.get("source")} & set(wanted.sources):
        return False
    if wanted.hosts and not any(is_below(str(told.get("host") or ""), h) for h in wanted.hosts):
        return False
    magnitude = told.get("magnitude")
    if magnitude is not None and magnitude < wanted.magnitude:
        return False
    return not wanted.terms or _has_term(wanted.terms, text())


def due_at(subscription: Subscription, now: float) -> float:
    """When an event of now is to be sent: at the end of its digest window, outside quiet hours.

    Windows are the same for all events: those of a day end at midnight and those of a week on
    Monday, in the time zone of the subscription.
    """
    at = now
    window = parse_duration(subscription.digest) * DAY
    if window:
        zone = ActiveHours.parse([], subscription.timezone).zone
        shift = datetime.fromtimestamp(now, zone).utcoffset() or timedelta()
        local = now + shift.total_seconds() - _MONDAY
        at = now + window - local % window
    return quiet_until(subscription, at)


def quiet_until(subscription: Subscription, at: float) -> float:
    """The first instant from `at` on that is outside quiet hours.

    >>> from datetime import UTC
    >>> me = Subscription(name="me", channel="", quiet=("22:00-07:00",), timezone="Europe/Berlin")
    >>> night = datetime(2026, 11, 13, 23, 0, tzinfo=UTC).timestamp()  # midnight in Berlin
    >>> datetime.fromtimestamp(quiet_until(me, night), UTC).isoformat()
    '2026-11-14T06:00:00+00:00'
    """
    hours = _quiet(subscription)
    if hours is None or not hours.allows(at):
        return at
    local = datetime.fromtimestamp(at, hours.zone)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    ends = [
        (midnight + timedelta(days=ahead, minutes=end)).timestamp()
        for ahead in range(-1, 9)
        for day, _, end in hours.windows
        if day == (local.weekday() + ahead) % 7
    ]
    return min((end for end in ends if end > at and not hours.allows(end)), default=at)


def _quiet(subscription: Subscription) -> ActiveHours | None:
    if not subscription.quiet:
        ActiveHours.parse([], subscription.timezone)  # complains about a zone that is none
        return None
    return ActiveHours.parse(list(subscription.quiet), subscription.timezone)


def _is_always(hours: ActiveHours) -> bool:
    covered = {
        minute % _WEEK
        for day, begin, end in hours.windows
        for minute in range(day * 1440 + begin, day * 1440 + end)
    }
    return len(covered) == _WEEK


def _tags(told: dict[str, Any]) -> set[str]:
    tags = {str(tag) for tag in told.get("tags") or ()}
    if told.get("query"):
        tags.add(f"query:{told['query']}")
    return tags


def _has_term(terms: tuple[str, ...], text: str) -> bool:
    """Whole words, in any case; the words of a phrase stand side by side."""
    words = _words(text)
    return any(_words(term) in words for term in terms)


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.casefold()))} "
