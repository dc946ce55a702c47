"""WebSub: hubs that tell of changes. Found where sources name them, asked, renewed and left.

A delivery is a signal of the kind `websub` about the source that named the hub, and nothing else:
what it holds is never taken for the content. (W3C Recommendation "WebSub", 2018; its receiving side
is in the service, the state in the store.)
"""

from __future__ import annotations

import asyncio
import logging
import re
from html import unescape
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from observant.errors import BadURL, ObservantError
from observant.observer.transport.urls import parse, resolve

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from observant.observer.connections import Connections
    from observant.observer.fetched import Fetched
    from observant.observer.watched import Watched
    from observant.observer.watchlist import Watchlist
    from observant.store.visit import Visit
    from observant.store.websub import HubSubscription

log = logging.getLogger("observant.observer")

_HEAD = 64 << 10
"""Bytes in which a page or a feed names its hub."""
_LONGEST = 2000
_LEASE = 10 * 86_400
"""Seconds for which a hub is asked to go on telling; it decides itself."""
_IN_HEADER = re.compile(r"<([^<>]*)>([^<]*)")
_RELATION = re.compile(r';\s*rel\s*=\s*(?:"([^"]*)"|([^\s";,]+))', re.IGNORECASE)
_LINK = re.compile(r"<(?:[\w.-]{1,20}:)?link\s([^<>]{1,3000})>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""(rel|href)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_NAMES_ONE = re.compile(rb"""rel\s{0,9}=\s{0,9}["']?[\w\s:/.-]{0,99}\bhub\b""")  # in lower case
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_WHOLE = re.compile(r"https?://[^@]*\Z", re.IGNORECASE)
_END_OF_HEAD = re.compile(r"</head|<body|<entry[\s>]|<item[\s>]", re.IGNORECASE)


def hub_of(fetched: Fetched) -> tuple[str, str] | None:
    """The hub and the topic that an answer names: in Link headers, or else in its link elements.

    Both are empty where it names none, and None says that this is not known.

    >>> from observant.observer.fetched import Fetched
    >>> links = '<https://hub.example/>; rel="hub", </feed>; rel=self'
    >>> hub_of(Fetched(url="https://a.example/feed", status=200, headers=(("link", links),)))
    ('https://hub.example/', 'https://a.example/feed')
    """
    if not fetched.ok or fetched.not_modified:
        return None
    for found in (_in_headers(fetched), _in_body(fetched.body[:_HEAD])):
        links = {"hub": "", "self": ""}
        for relations, address in found:
            for relation in relations.lower().split():
                if not links.get(relation, "x"):
                    links[relation] = _absolute(fetched.final_url, address)
        if links["hub"] and links["self"]:
            return links["hub"], links["self"]
    return "", ""


def _in_headers(fetched: Fetched) -> Iterator[tuple[str, str]]:
    for name, value in fetched.headers:
        if name == "link":
            for address, rest in _IN_HEADER.findall(value):
                if relation := _RELATION.search(rest):
                    yield relation[1] or relation[2] or "", address


def _in_body(head: bytes) -> Iterator[tuple[str, str]]:
    lower = head.lower()
    if b"hub" not in lower or not _NAMES_ONE.search(lower):  # most pages
        return
    text = _COMMENT.sub("", head.decode("utf-8", "replace"))
    end = _END_OF_HEAD.search(text)
    for link in _LINK.findall(text[: end.start()] if end else text):
        given = {n.lower(): unescape(a or b or c) for n, a, b, c in _ATTRIBUTE.findall(link)}
        yield given.get("rel", ""), given.get("href", "")


def _absolute(base: str, address: str) -> str:
    """An address as it was written, for hubs compare letters, or made absolute."""
    address = address.strip()
    try:
        found = resolve(parse(base), address, longest=_LONGEST).href
    except BadURL:
        return ""
    return address if _WHOLE.match(address) and "#" not in address else found


class HubSubscriber:
    """Keeps the sources of a watchlist subscribed to their hubs, if our address is known."""

    def __init__(self, watchlist: Watchlist, connections: Connections) -> None:
        self._watchlist, self._connections = watchlist, connections
        self._store, self._patience = watchlist.store, watchlist.patience
        self._offers: dict[str, tuple[str, str]] | None = None
        """What each source named last."""
        self._asking: asyncio.Task[None] | None = None

    async def note(self, watched: Watched, visit: Visit) -> None:
        """Keep which hub the answer to a visit named."""
        name, hub = watched.row.name, visit.hub
        if hub is None:
            return
        if self._offers is None:
            rows = await self._patience.call(self._store.websub.list)
            self._offers = {row.source: (row.hub, row.topic) for row in rows if row.source}
        if self._offers.get(name, ("", "")) != hub:
            self._offers[name] = hub
            now = self._watchlist.clock.time()
            await self._patience.call(self._store.websub.offer, name, *hub, now=now)

    def turn(self, shards: Collection[int]) -> None:
        """Ask hubs where that is due, beside the visits."""
        if self._watchlist.config.public_url and (self._asking is None or self._asking.done()):
            self._asking = asyncio.create_task(self.ask(set(shards)))

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    async def ask(self, shards: Collection[int]) -> None:
        """Subscribe, renew and leave where that is due; each hub is asked by one observer."""
        now = self._watchlist.clock.time()
        websub = self._store.websub
        try:
            for one in await self._patience.call(websub.due, shards, now=now):
                if await self._patience.call(websub.ask, one, now=now):
                    await self._request(one)
        except ObservantError as error:
            log.warning("a hub could not be asked", extra={"reason": str(error)})

    async def _request(self, one: HubSubscription) -> None:
        base = self._watchlist.config.public_url.rstrip("/")
        given = {
            "hub.mode": "subscribe" if one.wanted else "unsubscribe",
            "hub.topic": one.topic,
            "hub.callback": f"{base}/websub/{one.path}",
        }
        if one.wanted:
            given |= {"hub.lease_seconds": str(_LEASE)}
            given |= {"hub.secret": one.secret} if one.signed else {}
        answer = await self._connections.get_transport().fetch(
            one.hub,
            method="POST",
            headers=[("Content-Type", "application/x-www-form-urlencoded")],
            body=urlencode(given).encode(),
            robots=False,
            follow=True,
        )
        if not answer.ok:
            said = answer.body[:200].decode("utf-8", "replace").strip()
            reason = ": ".join(filter(None, [answer.message or str(answer.error), said]))
            await self._patience.call(self._store.websub.note, one, reason)
