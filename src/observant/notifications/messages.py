"""A message: one event or a digest of many, ready for any channel."""

from __future__ import annotations

import datetime as dt
import difflib
import html
import re
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from observant.errors import InputError
from observant.names import TOPICS
from observant.times import zone_of
from observant.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo

    from observant.store import StoredEvent, Subscription


# -------------------------------------------------------------------------------------------------
# Templates without logic: ``{{name}}`` stands for a value, and nothing else stands for anything
#
# Values come from strangers: titles, addresses, text of pages. A value is put in once and never
# read as a template again, it is escaped for the place it goes to, and it is bounded in length.


TOKENS = {
    "id": "the id of the event",
    "topic": "its kind: changed, gone, new-result, …",
    "what": "what that means, in words",
    "name": "the title of the source, or its name if it has none",
    "title": "the title of the source, or of the result",
    "source": "the name of the source",
    "url": "its address, or that of the result",
    "host": "its host",
    "tags": "its tags",
    "at": "when, in the time zone of the subscription",
    "magnitude": "how much changed, in percent",
    "reason": "why this counted, in one sentence",
    "added": "text that came",
    "removed": "text that went",
    "query": "the standing query of a result",
    "rank": "the place of a result",
    "error": "why visits fail",
    "failures": "how many failed in a row",
    "since": "since when it has been failing, gone or silent",
    "count": "how many events the message has",
    "subscription": "the name of the subscription",
}
"""Every name that a template can use, and what it stands for."""

LARGEST = 20_000
"""Characters of a rendered text; what is longer is cut."""
LONGEST_TEMPLATE = 10_000
_LONGEST_VALUE = 2_000
_TOKEN = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_BREAKS = re.compile(r"[\s\x85]+")

Place = Literal["text", "line", "html"]


def check_template(template: str, what: str = "template") -> None:
    """Complain about a template that would not say what its author means."""
    if len(template) > LONGEST_TEMPLATE:
        raise InputError(f"{what}: longer than {LONGEST_TEMPLATE:,} characters")
    for match in re.finditer(r"\{\{(.*?)(?:\}\}|$)", template, re.DOTALL):
        name = match[1].strip()
        if name not in TOKENS:
            near = difflib.get_close_matches(name, TOKENS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(TOKENS)}"
            raise InputError(f"{what}: there is no {{{{{name[:40]}}}}}; {hint}")


def render(template: str, values: Mapping[str, object], place: Place = "text") -> str:
    """Put values into a template. A line in which all values are empty is left out.

    >>> render("{{title}} changed by {{magnitude}}", {"title": "{{id}}", "magnitude": "8 %"})
    '{{id}} changed by 8 %'
    >>> render("<b>{{title}}</b>", {"title": "<script>"}, "html")
    '<b>&lt;script&gt;</b>'
    >>> render("Hello\\n+ {{added}}\\n- {{removed}}", {"added": "more"})
    'Hello\\n+ more'
    """
    lines = []
    for line in template.split("\n"):
        names = _TOKEN.findall(line)
        if names and not any(_shown(values.get(name), place) for name in names):
            continue
        lines.append(_TOKEN.sub(lambda match: _shown(values.get(match[1]), place), line))
    text = "\n".join(lines)
    if place == "line":
        text = _BREAKS.sub(" ", text).strip()
    longest = 200 if place == "line" else LARGEST
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _shown(value: object, place: Place) -> str:
    if value is None:
        return ""
    text = _CONTROL.sub("", str(value)[:_LONGEST_VALUE]).strip()
    if place == "line":
        return _BREAKS.sub(" ", text)
    if place == "html":
        return html.escape(text, quote=True)
    return text


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
    """What a template can say of an event: every name of `TOKENS`."""
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
