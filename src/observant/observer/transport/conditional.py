"""Asking only for what is new, without being fooled.

A server that is shown the validators of the last answer may reply 304, "not modified". Four rules
keep that honest:

- Only what the server said itself is sent back, letter by letter: its ETag, its Last-Modified.
- Validators belong to the address that gave them: the last one of a chain of redirects.
- They are kept only with a body that was read and compared to its end (the caller's duty).
- Now and then the question is asked without them, and a server caught lying is not asked with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from observant.store.visit import Validators
from observant.times import http_date

if TYPE_CHECKING:
    from random import Random

    from observant.observer.fetched import Fetched


def validators_of(fetched: Fetched) -> Validators | None:
    """What the next request to the same address may show, or None.

    A Last-Modified less than a second before the answer does not count alone: the source may
    change again in the same second (RFC 9110, 8.8.2.2).

    >>> from observant.observer.fetched import Fetched
    >>> page = Fetched(url="http://example.org/", status=200, etag='"v1"', headers=())
    >>> validators_of(page).etag
    '"v1"'
    """
    if fetched.error is not None or fetched.not_modified or fetched.status != 200:
        return None
    etag = fetched.etag
    modified = fetched.header("last-modified") if fetched.last_modified is not None else None
    if modified is not None and etag is None:
        servers_now = http_date(fetched.header("date")) or fetched.ended_at
        if fetched.last_modified is None or servers_now - fetched.last_modified < 1.0:
            modified = None
    if etag is None and modified is None:
        return None
    return Validators(url=fetched.final_url, etag=etag, last_modified=modified)


def conditions(validators: Validators | None, url: str) -> list[tuple[str, str]]:
    """The headers that make a request to `url` conditional; none for any other address.

    >>> conditions(Validators(url="http://a/", etag='W/"1"'), "http://a/")
    [('If-None-Match', 'W/"1"')]
    >>> conditions(Validators(url="http://a/", etag='W/"1"'), "http://b/")
    []
    """
    if validators is None or validators.url != url:
        return []
    pairs = [("If-None-Match", validators.etag), ("If-Modified-Since", validators.last_modified)]
    return [(name, value) for name, value in pairs if value and _sendable(value)]


def _sendable(value: str) -> bool:
    return len(value) < 1024 and value.isprintable() and value.isascii()


class Honesty(msgspec.Struct):
    """How far a server's 304 is believed, learned from audits. Small enough to store per source.

    An audit is a visit without validators. When it finds a change, the old validators are shown
    once more: a server that then says "not modified" lies. `share` is how often to audit: often at
    first, rarer with every change that the server owned up to, always after a lie.

    >>> honesty = Honesty()
    >>> [round(honesty.share, 2) for _ in range(3) if honesty.told_truth() is None]
    [0.2, 0.14, 0.11]
    >>> honesty.found_same()
    >>> round(honesty.share, 3)
    0.108
    >>> honesty.lied()
    >>> honesty.share
    1.0
    """

    truths: int = 0
    """Changes that came with a 200 although validators were shown."""
    lies: int = 0
    quiet: float = 0
    """Audits that found the same as before: little evidence, but also little to lose."""

    @property
    def share(self) -> float:
        """The share of visits to make without validators."""
        if self.lies:
            return 1.0
        return max(0.02, 1.0 / (3 + 2 * self.truths + self.quiet / 4))

    def audit(self, random: Random) -> bool:
        """Whether the next visit should be an audit."""
        return random.random() < self.share

    def told_truth(self) -> None:
        """A change was found by a request that showed validators."""
        self.truths += 1

    def found_same(self) -> None:
        """An audit found no change."""
        self.quiet += 1

    def lied(self) -> None:
        """A change was found, and the old validators still got a 304."""
        self.lies += 1
