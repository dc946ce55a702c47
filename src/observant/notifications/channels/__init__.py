"""Ways to a receiver, one a file: webhook, e-mail, and all that Apprise knows.

A channel is an address. Its scheme says which way it is; whatever the way, the address guard of
the observer judges every network address that is connected to.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

import msgspec

from observant.errors import InputError

if TYPE_CHECKING:
    from observant.notifications.messages import Message

__all__ = ["Answer", "Channel", "check_channel", "host_of_channel", "way_of"]

LONGEST = 4000
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
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
    """A way to receivers."""

    async def send(self, channel: str, secret: str, message: Message) -> Answer:
        """Try once. What the world does is an answer, never an exception."""

    async def close(self) -> None:
        """Let go of connections."""


def way_of(channel: str) -> str:
    """Which way a channel is: webhook, mail or apprise.

    >>> [way_of(a) for a in ("https://example.org/hook", "mailto:me@example.org", "ntfy://x/y")]
    ['webhook', 'mail', 'apprise']
    """
    match = _SCHEME.match(channel)
    scheme = match[1].lower() if match else ""
    if scheme in {"http", "https"}:
        return "webhook"
    return "mail" if scheme == "mailto" else "apprise"


def check_channel(channel: str) -> None:
    """Complain about a channel that can never work."""
    if not channel or len(channel) > LONGEST or any(ord(letter) < 32 for letter in channel):
        raise InputError("a channel is an address: https://…, mailto:…, or one of Apprise")
    way = way_of(channel)
    if way == "webhook":
        from observant.notifications.channels.webhook import check_webhook

        check_webhook(channel)
    elif way == "mail":
        from observant.notifications.channels.mail import recipients_of

        recipients_of(channel)
    else:
        from observant.notifications.channels.apprise import check_apprise

        check_apprise(channel)


def host_of_channel(channel: str) -> str:
    """Who gets to see what is sent: scheme and host of a webhook, otherwise the whole address.

    >>> host_of_channel("https://Example.org/a") == host_of_channel("https://example.org/b?c")
    True
    """
    if way_of(channel) == "webhook":
        from observant.observer.transport.urls import BadURL, parse

        try:
            return parse(channel).origin
        except BadURL:
            pass
    return channel
