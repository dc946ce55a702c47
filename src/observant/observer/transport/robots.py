"""robots.txt as RFC 9309 says: fetched once per origin, kept for some hours, obeyed.

| answer | meaning |
|---|---|
| 2xx | the rules in its first 500 KiB |
| 4xx, too many redirects | no rules: everything is allowed |
| 429, 5xx | nothing is allowed until it can be read, unless there are rules from before |
| no answer | the same, and the visit fails for the same reason (a lost network is no prohibition) |
"""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING

import msgspec
from protego import Protego

from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from observant.observer.transport.politeness import Clock
    from observant.observer.transport.urls import Target
    from observant.observer.visit import Error, Fetched

__all__ = ["SIZE", "Robots", "Verdict"]

SIZE = 500 * 2**10
"""RFC 9309 asks for at least this much to be read."""
_FRESH = 6 * 3600.0
_RETRY_FIRST, _RETRY_CAP = 300.0, 6 * 3600.0
_OUTAGE_FIRST, _OUTAGE_CAP = 10.0, 600.0
_ORIGINS, _ORIGIN_BYTES = 50_000, 64 * 2**20
_READ_BYTES = 4 * 2**20
"""Rules that are read take some twenty times their text in memory."""


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """Whether an address may be fetched; when not, why."""

    error: Error | None = None
    message: str = ""
    crawl_delay: float = 0.0
    """Seconds between requests that the site asks for."""


class _Entry(msgspec.Struct, gc=False):
    packed: bytes | None
    """The rules, compressed; empty means that there are none, None that they are not known."""
    until: float
    failures: int = 0
    error: Error = "robots"
    message: str = ""


class Robots:
    """The rules of every origin we have spoken to.

    `fetch` gets a robots.txt through the transport itself, so that guard, politeness and limits
    hold for it too.
    """

    def __init__(
        self, product: str, fetch: Callable[[str], Awaitable[Fetched]], clock: Clock
    ) -> None:
        self._product, self._fetch, self._clock = product, fetch, clock
        self._entries: dict[str, _Entry] = {}
        self._bytes = 0
        self._shelf = _Shelf()
        self._fetching: dict[str, asyncio.Task[_Entry]] = {}

    def known(self, target: Target) -> Verdict | None:
        """The verdict by rules we have, or None when they must be fetched first."""
        entry = self._entries.get(target.origin)
        if entry is None or entry.until <= self._clock.monotonic():
            return None
        return self._judge(entry, target)

    async def verdict(self, target: Target) -> Verdict:
        """The verdict, after fetching the rules."""
        return self._judge(await self._renewed(target.origin), target)

    def _judge(self, entry: _Entry, target: Target) -> Verdict:
        if entry.packed is None:
            return Verdict(entry.error, entry.message)
        if not entry.packed:
            return _ALLOWED
        rules = self._shelf.rules(entry.packed)
        delay = _delay(rules, self._product)
        if rules.can_fetch(target.href, self._product):
            return Verdict(crawl_delay=delay)
        return Verdict("robots", f"{target.origin}/robots.txt does not allow it", delay)

    def forget(self, origin: str) -> None:
        """Ask again at the next visit."""
        self._take(origin)

    async def _renewed(self, origin: str) -> _Entry:
        """Those who come while it is being fetched wait for the same answer."""
        task = self._fetching.get(origin)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._renew(origin))
            self._fetching[origin] = task
            task.add_done_callback(lambda _: self._fetching.pop(origin, None))
        return await asyncio.shield(task)

    async def _renew(self, origin: str) -> _Entry:
        fetched = await self._fetch(origin + "/robots.txt")
        now = self._clock.monotonic()
        entry = _entry(fetched, self._take(origin), now)
        self._entries[origin] = entry
        self._bytes += len(entry.packed or b"")
        while len(self._entries) > _ORIGINS or self._bytes > _ORIGIN_BYTES:
            self._take(next(iter(self._entries)))
        return entry

    def _take(self, origin: str) -> _Entry | None:
        entry = self._entries.pop(origin, None)
        if entry is not None:
            self._bytes -= len(entry.packed or b"")
        return entry


class _Shelf:
    """Rules that have been read, the latest last; as many as fit."""

    def __init__(self) -> None:
        self._read: dict[bytes, tuple[Protego, int]] = {}
        self._bytes = 0

    def rules(self, packed: bytes) -> Protego:
        found = self._read.pop(packed, None)
        if found is None:
            text = zlib.decompress(packed).decode()
            found = Protego.parse(text), len(text)
            self._bytes += found[1]
        self._read[packed] = found
        while self._bytes > _READ_BYTES and len(self._read) > 1:
            self._bytes -= self._read.pop(next(iter(self._read)))[1]
        return found[0]


def _entry(fetched: Fetched, old: _Entry | None, now: float) -> _Entry:
    status, error = fetched.status, fetched.error
    if error is None and 200 <= status < 300:
        text = fetched.body[:SIZE].decode("utf-8", "replace").lstrip("\ufeff")
        return _Entry(zlib.compress(text.encode()) if text.strip() else b"", now + _FRESH)
    if error == "too-many-redirects" or (400 <= status < 500 and status != 429):
        return _Entry(b"", now + _FRESH)
    failures = 1 + (old.failures if old else 0)
    kept = old.packed if old else None
    if error is None or error == "http":
        wait = min(_RETRY_FIRST * 2 ** min(failures - 1, 20), _RETRY_CAP)
        message = f"robots.txt cannot be read (status {status}), so nothing may be fetched"
        return _Entry(kept, now + wait, failures, "robots", message)
    wait = min(_OUTAGE_FIRST * 2 ** min(failures - 1, 20), _OUTAGE_CAP)
    return _Entry(kept, now + wait, failures, error, f"robots.txt: {fetched.message}")


_LONGEST_DELAY = DAY
"""Seconds between two requests that a host may ask for; a number of any length may stand there."""


def _delay(rules: Protego, product: str) -> float:
    asked = rules.crawl_delay(product) or 0.0
    rate = rules.request_rate(product)
    if rate is None:
        return asked
    return max(asked, min(rate.seconds, _LONGEST_DELAY) / rate.requests)


_ALLOWED = Verdict()
