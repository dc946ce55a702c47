"""Changes as Atom and JSON Feed: of the collection, of a tag, of a source.

Titles, addresses and reasons come from strangers. They are text and nothing else: escaped in Atom,
`content_text` in JSON, and only web addresses become links.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from litestar import Request, Response, get
from litestar.params import QueryParameter

from observant.errors import UnknownSourceError
from observant.formats.atom import AtomEntry
from observant.formats.atom import atom_feed as atom_entries
from observant.service.access.rights import rule
from observant.service.answers import EventItem
from observant.service.api.routes import LARGEST_ID, Text
from observant.service.collection import Collection
from observant.service.forms import GivenCollection
from observant.times import iso

_NEVER = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_ENTRIES = 100
_OPTIONS: dict[str, Any] = {
    "opt": rule("feed", token_in_query=True),
    "include_in_schema": False,
    "sync_to_thread": True,
}
OneSource = Annotated[int | None, QueryParameter(ge=1, le=LARGEST_ID)]


@get("/feeds/changes.atom", **_OPTIONS)
def atom_feed(
    request: Request[Any, Any, Any],
    collection: GivenCollection,
    tag: Text = None,
    source: OneSource = None,
    topic: Text = None,
) -> Response[bytes]:
    """Changes as Atom."""
    title, events = _chosen(collection, tag, source, topic)
    body = atom(title, _own_address(request), events)
    return _given(request, body, "application/atom+xml")


@get("/feeds/changes.json", **_OPTIONS)
def json_feed_(
    request: Request[Any, Any, Any],
    collection: GivenCollection,
    tag: Text = None,
    source: OneSource = None,
    topic: Text = None,
) -> Response[bytes]:
    """Changes as JSON Feed 1.1."""
    title, events = _chosen(collection, tag, source, topic)
    body = json_feed(title, _own_address(request), events)
    return _given(request, body, "application/feed+json")


def atom(title: str, address: str, events: list[EventItem]) -> bytes:
    """An Atom feed of events, newest first."""
    lines = atom_entries(
        (
            AtomEntry(
                f"urn:observant:event:{event.id}",
                _title(event),
                event.at,
                _told(event),
                event.url,
                tuple(event.tags),
            )
            for event in events
        ),
        feed_id=address,
        title=title,
        updated=events[0].at if events else _NEVER,
        address=address,
    )
    return "\n".join(lines).encode("utf-8")


def json_feed(title: str, address: str, events: list[EventItem]) -> bytes:
    """A JSON Feed 1.1 of events, newest first."""
    items = []
    for event in events:
        link = _link(event)
        items.append(
            {
                "id": f"urn:observant:event:{event.id}",
                "title": _title(event),
                "content_text": _told(event),
                "date_published": iso(event.at),
                "tags": event.tags,
                **({"url": link} if link else {}),
            }
        )
    return msgspec.json.encode(
        {
            "version": "https://jsonfeed.org/version/1.1",
            "title": title,
            "feed_url": address,
            "items": items,
        }
    )


def _given(request: Request[Any, Any, Any], body: bytes, kind: str) -> Response[Any]:
    """The feed, or 304 for a reader that has it already."""
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"etag": tag, "cache-control": "private, no-cache"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(None, status_code=304, headers=headers)
    return Response(body, media_type=kind, headers=headers)


def _chosen(
    collection: Collection, tag: str | None, source: int | None, topic: str | None
) -> tuple[str, list[EventItem]]:
    title = "observant: changes"
    if tag is not None:
        title += f" of {tag}"
    if source is not None:
        try:
            title += f" of {collection.sources.row(source).name}"
        except UnknownSourceError:
            raise UnknownSourceError("there is no such source") from None
    page = collection.activity.events(tag=tag, source=source, topic=topic, limit=_ENTRIES)
    return title, page.events


def _own_address(request: Request[Any, Any, Any]) -> str:
    """The address of the feed itself, without the token that it may hold."""
    asked = [(key, value) for key, value in request.query_params.multi_items() if key != "token"]
    return str(request.url.with_replacements(query=urlencode(asked)))


def _link(event: EventItem) -> str | None:
    return event.url if re.match(r"https?://[^\s]+$", event.url, re.IGNORECASE) else None


def _title(event: EventItem) -> str:
    return f"{event.topic}: {event.title or event.source or 'the collection'}"


def _told(event: EventItem) -> str:
    parts = [event.reason or event.topic]
    if event.magnitude is not None:
        parts.append(f"{event.magnitude:.0%} different")
    if event.source:
        parts.append(event.source)
    return "\n".join(parts)
