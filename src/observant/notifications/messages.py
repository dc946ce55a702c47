"""A message: one event or a digest of many, ready for any channel."""

from __future__ import annotations

import datetime as dt
import html
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import InputError
from observant.names import TOPICS
from observant.notifications.templates import LARGEST, render
from observant.times import zone_of
from observant.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from observant.store import StoredEvent, Subscription

__all__ = ["Message", "compose", "values_of"]

SUBJECT = "{{name}}: {{topic}}"
TEMPLATE = """{{name}}
{{what}}: {{reason}}
{{url}}
standing query: {{query}}, rank {{rank}}
+ {{added}}
- {{removed}}
{{at}}"""
_IN_DIGEST = 100
"""Events that a digest tells in words; the ids of all are listed."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent, once or as often as it takes; the same every time."""

    id: str
    """Of the event, or of the digest. A receiver that has seen it can throw the message away."""
    subscription: str
    subject: str
    text: str
    html: str
    events: tuple[dict[str, Any], ...]
    """Every event with its id and all it tells."""

    @property
    def event_ids(self) -> list[str]:
        return [event["id"] for event in self.events]


def compose(identity: str, subscription: Subscription, events: Sequence[StoredEvent]) -> Message:
    """Write a message of these events for a subscriber."""
    zone = _zone(subscription.timezone)
    told = [values_of(event, subscription.name, len(events), zone) for event in events[:_IN_DIGEST]]
    if len(events) == 1:
        subject = render(subscription.subject or SUBJECT, told[0], "line")
    else:
        values = {
            "count": len(events),
            "subscription": subscription.name,
            "topic": f"{counted(len(events), 'event')}",
            "name": subscription.name,
        }
        subject = render(subscription.subject or SUBJECT, values, "line")
    template = subscription.template
    parts = [render(template, v) if template else render(TEMPLATE, _once(v)) for v in told]
    more = len(events) - len(told)
    if more:
        parts.append(f"… and {counted(more, 'more event', 'more events')}")
    text = "\n\n".join(parts)
    if len(text) > LARGEST:
        text = text[: LARGEST - 1] + "…"
    return Message(
        id=identity,
        subscription=subscription.name,
        subject=subject,
        text=text,
        html=_html(parts, told),
        events=tuple(_plain(event) for event in events),
    )


def values_of(event: StoredEvent, subscription: str, count: int, zone: tzinfo) -> dict[str, object]:
    """What a template can say of an event: every name of `templates.TOKENS`."""
    told: dict[str, Any] = event.payload if isinstance(event.payload, dict) else {}
    magnitude = told.get("magnitude")
    at = told.get("at")
    source = told.get("source") or event.source
    return {
        "id": event.id,
        "topic": event.topic,
        "what": TOPICS.get(event.topic, event.topic),
        "name": told.get("title") or source or event.topic,
        "title": told.get("title"),
        "source": source,
        "url": told.get("url"),
        "host": told.get("host"),
        "tags": ", ".join(str(tag) for tag in told.get("tags") or ()),
        "at": _instant(event.created_at if at is None else at, zone),
        "magnitude": f"{100 * magnitude:.2g} %" if isinstance(magnitude, int | float) else None,
        "reason": told.get("reason"),
        "added": told.get("added"),
        "removed": told.get("removed"),
        "query": told.get("query"),
        "rank": told.get("rank"),
        "error": told.get("error"),
        "failures": told.get("failures"),
        "since": _instant(told.get("since"), zone),
        "count": count,
        "subscription": subscription,
    }


def _once(values: dict[str, object]) -> dict[str, object]:
    """The same, but an address that is the name is not said again."""
    return values | {"url": None} if values["url"] == values["name"] else values


def _plain(event: StoredEvent) -> dict[str, Any]:
    told: dict[str, Any] = event.payload if isinstance(event.payload, dict) else {}
    return {**told, "id": event.id, "topic": event.topic}


def _html(parts: Sequence[str], told: Sequence[dict[str, object]]) -> str:
    """The same text, every letter of it escaped, with a link to each source."""
    blocks = []
    size = 0
    for number, part in enumerate(parts):
        lines = html.escape(part, quote=True).replace("\n", "<br>\n")
        url = str(told[number]["url"] or "") if number < len(told) else ""
        if url.startswith(("http://", "https://")) and len(url) <= 2000:
            lines += f'<br>\n<a rel="noreferrer" href="{html.escape(url, quote=True)}">open</a>'
        size += len(lines)
        if size > 4 * LARGEST:
            break
        blocks.append(f"<p>{lines}</p>")
    body = "\n".join(blocks)
    return (
        f'<!doctype html>\n<html><head><meta charset="utf-8"></head><body>\n{body}\n</body></html>'
    )


def _zone(name: str) -> tzinfo:
    try:
        return zone_of(name)
    except InputError:
        return dt.UTC


def _instant(at: object, zone: tzinfo) -> str | None:
    if isinstance(at, bool) or not isinstance(at, int | float):
        return None
    try:
        return dt.datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d %H:%M %Z")
    except (OverflowError, ValueError, OSError):
        return None
