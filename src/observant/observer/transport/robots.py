"""robots.txt as RFC 9309 says: fetched once per origin, kept for some hours, obeyed.

| answer | meaning |
|---|---|
| 2xx | the rules in its first 500 KiB |
| 4xx, too many redirects | no rules: everything is allowed |
| 429, 5xx | nothing is allowed until it can be read, unless there are rules from before |
| no answer | the same, and the visit fails for the same reason (a lost network is no prohibition) |

Only the agent that means us is kept by name: a file of 500 KiB can name thousands, and every rule
below them would be kept once for each. Files that are not small are read by a worker process.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from typing import TYPE_CHECKING

import msgspec
from protego import Protego

from observant.errors import WorkerError
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from observant.observer.clock import Clock
    from observant.observer.fetched import Fetched
    from observant.observer.transport.urls import Target
    from observant.store.visit import Error

SIZE = 500 * 2**10
"""RFC 9309 asks for at least this much to be read."""
_FRESH = 6 * 3600.0
_RETRY_FIRST, _RETRY_CAP = 300.0, 6 * 3600.0
_OUTAGE_FIRST, _OUTAGE_CAP = 10.0, 600.0
_ORIGINS, _ORIGIN_BYTES = 50_000, 64 * 2**20
_READ_BYTES = 4 * 2**20
"""Rules that are read take some twenty times their text in memory."""


_AT_ONCE = 32 << 10
"""Rules of so many bytes are read and asked in this process."""
_SHORT = 500
"""Characters of an address that is remembered with its verdict."""
_NOBODY = "nobody/0"
"""An agent that is never us: a product has no slash."""


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """Whether an address may be fetched; when not, why."""

    error: Error | None = None
    message: str = ""
    crawl_delay: float = 0.0
    """Seconds between requests that the site asks for."""


_ALLOWED = Verdict()


class _Entry(msgspec.Struct, gc=False):
    packed: bytes | None
    """The rules, compressed; empty means that there are none, None that they are not known."""
    until: float
    small: bool = True
    failures: int = 0
    error: Error = "robots"
    message: str = ""
    last: tuple[str, Verdict] = ("", _ALLOWED)
    """The address that was judged last: a visit may ask for it three times."""


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
        entry = self._known(target)
        if entry is None or not entry.small:
            return None
        return self._verdict(entry, target, self._shelf)

    async def verdict(self, target: Target) -> Verdict:
        """The verdict, after fetching the rules if need be, by a worker if there are many."""
        entry = self._known(target) or await self._renewed(target.origin)
        if entry.small or not entry.packed:
            return self._verdict(entry, target, self._shelf)
        from observant.observer.pool import pool

        given = entry.packed, self._product, target.href
        try:
            allowed, delay = await pool().run("verdict", given, tuple[bool, float])
        except WorkerError as error:
            return Verdict("robots", f"{target.origin}/robots.txt cannot be read: {error}")
        return _told(target, allowed, delay)

    def _known(self, target: Target) -> _Entry | None:
        entry = self._entries.get(target.origin)
        return entry if entry is not None and entry.until > self._clock.monotonic() else None

    def _verdict(self, entry: _Entry, target: Target, shelf: _Shelf) -> Verdict:
        if entry.packed is None:
            return Verdict(entry.error, entry.message)
        if not entry.packed:
            return _ALLOWED
        href, verdict = entry.last
        if href != target.href:
            verdict = _told(target, *judge(entry.packed, self._product, target.href, shelf))
            if len(target.href) <= _SHORT:
                entry.last = target.href, verdict
        return verdict

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
        text, unread = "", ""
        if fetched.error is None and 200 <= fetched.status < 300:
            text, unread = await self._for_us(fetched.body)
        now = self._clock.monotonic()
        entry = _entry(fetched, self._take(origin), now, text, unread)
        self._entries[origin] = entry
        self._bytes += len(entry.packed or b"")
        while len(self._entries) > _ORIGINS or self._bytes > _ORIGIN_BYTES:
            self._take(next(iter(self._entries)))
        return entry

    async def _for_us(self, body: bytes) -> tuple[str, str]:
        """The rules of a file, or why they cannot be read."""
        if len(body) <= _AT_ONCE:
            return for_us(body, self._product), ""
        from observant.observer.pool import pool

        try:
            return await pool().run("robots", (body, self._product), str), ""
        except WorkerError as error:
            return "", str(error)

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


def for_us(body: bytes, product: str) -> str:
    """A robots.txt with every agent that is not the one that means us called nobody.

    What it says to us is as before; reading it takes time and memory in proportion.

    >>> print(for_us(b"User-agent: a\\nUser-agent: *\\nUser-agent: Obs\\nDisallow: /", "obs"))
    User-agent: nobody/0
    User-agent: nobody/0
    User-agent: obs
    Disallow: /
    """
    lines = body[:SIZE].decode("utf-8", "replace").lstrip("\ufeff").splitlines()
    agents = {number: _agents(line) for number, line in enumerate(lines) if _AGENT.match(line)}
    named = dict.fromkeys(name for names in agents.values() for name in names)
    product = product.lower()
    # The longest name that ours begins with means us; else the rules for everybody are ours.
    fitting = [name for name in named if name == "*" or product.startswith(name)]
    ours = max(fitting, key=len, default=_NOBODY)  # of two, the first
    for number, names in agents.items():
        if names:
            lines[number] = f"User-agent: {ours if ours in names else _NOBODY}"
    return "\n".join(lines)


_AGENT = re.compile(r"\s*user(?:-|\s+)?agent(?:\s*:|\s)", re.IGNORECASE)


def _agents(line: str) -> tuple[str, ...]:
    """What a line calls the agent, also without the stars that some write into names."""
    line = line.partition("#")[0]
    name = (
        (line.partition(":")[2] if ":" in line else _AGENT.sub("", line, count=1)).strip().lower()
    )
    found = (name,) if name == "*" or "*" not in name else (name, name.replace("*", ""))
    return tuple(name for name in found if name)


def judge(packed: bytes, product: str, url: str, shelf: _Shelf | None = None) -> tuple[bool, float]:
    """Whether rules allow an address, and the seconds between requests that they ask for."""
    rules = (_of_worker if shelf is None else shelf).rules(packed)
    return rules.can_fetch(url, product), _delay(rules, product)


_of_worker = _Shelf()


def _told(target: Target, allowed: bool, delay: float) -> Verdict:
    if allowed:
        return Verdict(crawl_delay=delay)
    return Verdict("robots", f"{target.origin}/robots.txt does not allow it", delay)


def _entry(fetched: Fetched, old: _Entry | None, now: float, text: str, unread: str) -> _Entry:
    status, error = fetched.status, fetched.error
    if unread:
        kept, small = (old.packed, old.small) if old else (None, True)
        message = f"robots.txt cannot be read, so nothing may be fetched: {unread}"
        return _Entry(kept, now + _FRESH, small, 1, "robots", message)
    if error is None and 200 <= status < 300:
        packed = zlib.compress(text.encode()) if text.strip() else b""
        return _Entry(packed, now + _FRESH, len(text) <= _AT_ONCE)
    if error == "too-many-redirects" or (400 <= status < 500 and status != 429):
        return _Entry(b"", now + _FRESH)
    failures = 1 + (old.failures if old else 0)
    kept, small = (old.packed, old.small) if old else (None, True)
    if error is None or error == "http":
        wait = min(_RETRY_FIRST * 2 ** min(failures - 1, 20), _RETRY_CAP)
        message = f"robots.txt cannot be read (status {status}), so nothing may be fetched"
        return _Entry(kept, now + wait, small, failures, "robots", message)
    wait = min(_OUTAGE_FIRST * 2 ** min(failures - 1, 20), _OUTAGE_CAP)
    return _Entry(kept, now + wait, small, failures, error, f"robots.txt: {fetched.message}")


_LONGEST_DELAY = DAY
"""Seconds between two requests that a host may ask for; a number of any length may stand there."""


def _delay(rules: Protego, product: str) -> float:
    asked = rules.crawl_delay(product) or 0.0
    rate = rules.request_rate(product)
    if rate is None:
        return asked
    return max(asked, min(rate.seconds, _LONGEST_DELAY) / min(rate.requests, 1e9))
