"""Ways to a receiver, one a file: webhook, e-mail, and all that Apprise knows.

A channel is an address. Its scheme says which way it is; whatever the way, the address guard of
the observer judges every network address that is connected to. Packages add ways by entry points
of the group observant.channels: a scheme, and a class with the methods of `Way`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Protocol

import msgspec

from observant.errors import InputError
from observant.plugins import added, load

if TYPE_CHECKING:
    from typing import Self

    from observant.notifications.messages import Message
    from observant.observer.clock import Clock
    from observant.observer.config import Config
    from observant.observer.transport import Guard

__all__ = [
    "WAYS",
    "Channel",
    "SendResult",
    "Way",
    "check_channel",
    "class_of",
    "host_of_channel",
    "way_of",
    "ways",
]

WAYS = {
    "webhook": "observant.notifications.channels.webhook:Webhook",
    "mail": "observant.notifications.channels.mail:Mail",
    "apprise": "observant.notifications.channels.apprise:Apprise",
}
"""The ways that are built in."""
_SCHEMES = {"http": "webhook", "https": "webhook", "mailto": "mail"}
_OTHERS = "apprise"
LONGEST = 4000
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)


class SendResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an attempt."""

    ok: bool = False
    error: str = ""
    down: bool = False
    """The receiver takes nothing now: others wait too. Otherwise only this message was refused."""
    final: bool = False
    """It never will take this message: a further attempt is in vain."""
    retry_after: float | None = None
    """Seconds that the receiver asked for."""


class Channel(Protocol):
    """Something that carries messages."""

    async def send(self, channel: str, secret: str, message: Message) -> SendResult:
        """Try once. What the world does is an answer, never an exception."""

    async def close(self) -> None:
        """Let go of connections."""


class Way(Channel, Protocol):
    """What a family of addresses needs to be served: a channel that the deliverer makes itself."""

    @classmethod
    def made(cls, guard: Guard, clock: Clock, config: Config) -> Self:
        """The channel as the deliverer uses it."""

    @staticmethod
    def check(channel: str) -> object:
        """Complain with an `InputError` about an address that can never work."""


@cache
def ways() -> dict[str, str]:
    """The ways that are built in, and those that packages add under the scheme that they serve."""
    return added("observant.channels") | WAYS


def class_of(way: str) -> type[Way]:
    """What carries messages this way."""
    found: type[Way] = load(ways()[way])
    return found


def way_of(channel: str) -> str:
    """Which way a channel is: webhook, mail, one that a package adds, or else apprise.

    >>> [way_of(a) for a in ("https://example.org/hook", "mailto:me@example.org", "ntfy://x/y")]
    ['webhook', 'mail', 'apprise']
    """
    match = _SCHEME.match(channel)
    scheme = match[1].lower() if match else ""
    if scheme in _SCHEMES:
        return _SCHEMES[scheme]
    return scheme if scheme in ways() and scheme not in WAYS else _OTHERS


def check_channel(channel: str) -> None:
    """Complain about a channel that can never work."""
    if not channel or len(channel) > LONGEST or any(ord(letter) < 32 for letter in channel):
        raise InputError("a channel is an address: https://…, mailto:…, or one of Apprise")
    class_of(way_of(channel)).check(channel)


def host_of_channel(channel: str) -> str:
    """Who gets to see what is sent: scheme and host of a webhook, otherwise the whole address.

    >>> host_of_channel("https://Example.org/a") == host_of_channel("https://example.org/b?c")
    True
    """
    from observant.observer.sources.base import origin_of

    return (origin_of(channel) if way_of(channel) == "webhook" else "") or channel
