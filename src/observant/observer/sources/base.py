"""What every kind of source promises: ``visit(previous)`` looks once and says what it found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from observant.errors import InputError
from observant.observer.fetched import Fetched, visit_of
from observant.observer.tasks import read

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from observant.observer.browser import Browser
    from observant.observer.browser.seal import Seal
    from observant.observer.browser.steps import Secret
    from observant.observer.config import SourceSettings
    from observant.observer.content import Comparer
    from observant.observer.honesty import Audits
    from observant.observer.transport import Transport
    from observant.store.visit import Previous, Visit

__all__ = [
    "ON_THE_WEB",
    "Compared",
    "SourceKind",
    "Surroundings",
    "file_path",
    "host_of",
    "origin_of",
]

ON_THE_WEB = frozenset({"http", "feed", "sitemap", "query", "product"})
"""Kinds whose sources are addresses on the web; all others need `observer.permission`."""


class SourceKind(Protocol):
    """Anything that can be visited and compared."""

    name: str

    async def visit(self, previous: Previous | None) -> Visit:
        """Look once. The world's faults are outcomes of the visit, never exceptions."""


class Surroundings:
    """What sources share: the one way to the network, a clock, what is known of servers."""

    def __init__(
        self,
        transport: Transport | None,
        *,
        time: Callable[[], float],
        audits: Audits | None = None,
        trusted: bool = False,
        reason: str = "",
        browser: Callable[[], Browser] | None = None,
        secrets: Mapping[str, Secret] | None = None,
        seal: Seal | None = None,
    ) -> None:
        self._transport, self.time, self.audits = transport, time, audits
        self._browser = browser
        self.secrets = secrets or {}
        """What steps fill in, by name."""
        self.seal = seal
        """For what a browser keeps of somebody who has signed in."""
        self.trusted = trusted
        """Whether the configuration may name commands and callables, since only we can write it."""
        self.reason = reason
        """Why not."""

    @property
    def transport(self) -> Transport:
        if self._transport is None:
            raise RuntimeError("this source needs a transport, and there is none")
        return self._transport

    @property
    def has_browser(self) -> bool:
        """Whether pages can be rendered."""
        return self._browser is not None

    @property
    def browser(self) -> Browser:
        if self._browser is None:
            raise InputError("this source is to be rendered, and there is no browser")
        return self._browser()


class Compared:
    """A source that gets something and has it compared; kinds say how it is got."""

    def __init__(
        self,
        name: str,
        url: str,
        settings: SourceSettings,
        comparer: Comparer,
        around: Surroundings,
    ) -> None:
        self.name, self.url, self.settings = name, url, settings
        self.comparer, self.around = comparer, around
        self.prepare()

    def prepare(self) -> None:
        """What a kind checks and works out once, when it is made."""

    async def fetch(self, previous: Previous | None) -> Fetched:
        raise NotImplementedError

    async def visit(self, previous: Previous | None) -> Visit:
        fetched = await self.fetch(previous)
        found = await read(self.comparer, previous, fetched)
        return visit_of(self.name, fetched, found.comparison)


def file_path(url: str) -> Path:
    """The path of a source of the kind file: a path, or file:///path."""
    parts = urlsplit(url)
    return Path(unquote(parts.path) if parts.scheme == "file" else url)


def origin_of(url: str) -> str:
    """Scheme, host and port of an address on the web; empty for anything else.

    >>> origin_of("https://ada:secret@Example.org:443/a"), origin_of("/etc/hosts")
    ('https://example.org', '')
    """
    from observant.errors import BadURL
    from observant.observer.transport.urls import parse

    try:
        return parse(url).origin
    except BadURL:
        return ""


def host_of(kind: str, url: str) -> str:
    """The host that a visit is a burden to: visits to one host never overlap.

    >>> host_of("http", "https://Example.org:8080/a"), host_of("file", "/etc/hosts")
    ('example.org', 'file')
    """
    from observant.errors import BadURL
    from observant.observer.transport.urls import host_key, parse

    if not url.lower().startswith(("http://", "https://")):
        return kind
    try:
        return host_key(parse(url).host)
    except BadURL:
        return kind
