"""A webhook: the message as JSON, signed, posted once. Redirects are not followed.

Headers: ``Observant-Event`` (the id), ``Observant-Timestamp`` and ``Observant-Signature`` (see
`observant.notifications.signature`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from observant.errors import BadURL, InputError
from observant.notifications.channels import SendResult
from observant.notifications.signature import sign
from observant.observer.transport import Limits, Politeness, Transport
from observant.observer.transport.headers import retry_after
from observant.observer.transport.urls import parse

if TYPE_CHECKING:
    from observant.notifications.messages import Message
    from observant.observer.clock import Clock
    from observant.observer.config import Config
    from observant.observer.transport import Guard

_LIMITS = Limits(connect=10.0, first_byte=20.0, total=30.0, body=64 * 1024, truncate=True)
_AT_ONCE = Politeness(
    floor=0.0, latency_factor=0.0, backoff_first=0.0, backoff_cap=0.0, outage_first=0.0
)
"""The deliverer knows when to try again; nothing is held back here."""
_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})
_NEVER = frozenset({410})


def check_webhook(channel: str) -> None:
    """Complain about an address that no request could be sent to."""
    try:
        parse(channel)
    except BadURL as error:
        raise InputError(f"this webhook cannot be reached: {error}") from error


def body_of(message: Message) -> bytes:
    """The JSON that is posted: id, subscription, subject, text, and every event."""
    return msgspec.json.encode(
        {
            "id": message.id,
            "subscription": message.subscription,
            "subject": message.subject,
            "text": message.text,
            "events": message.events,
        }
    )


class Webhook:
    """http and https."""

    def __init__(self, guard: Guard, clock: Clock, *, contact: str | None = None) -> None:
        self._clock = clock
        self._transport = Transport(
            contact=contact,
            guard=guard,
            limits=_LIMITS,
            politeness=_AT_ONCE,
            robots=False,
            clock=clock,
        )

    check = staticmethod(check_webhook)

    @classmethod
    def made(cls, guard: Guard, clock: Clock, config: Config) -> Webhook:
        """The channel as the deliverer uses it."""
        return cls(guard, clock, contact=config.contact or None)

    async def send(self, channel: str, secret: str, message: Message) -> SendResult:
        body = body_of(message)
        timestamp = int(self._clock.time())
        headers = [
            ("Content-Type", "application/json"),
            ("Observant-Event", message.id),
            ("Observant-Timestamp", str(timestamp)),
        ]
        if secret:
            headers.append(("Observant-Signature", sign(secret, timestamp, body)))
        fetched = await self._transport.fetch(
            channel, method="POST", headers=headers, body=body, follow=False
        )
        status = fetched.status
        if 200 <= status < 300:
            return SendResult(ok=True)
        if status == 0 or fetched.error not in {None, "http", "protocol"}:
            return SendResult(error=fetched.message or str(fetched.error), down=True)
        if 300 <= status < 400:
            return SendResult(error=f"status {status}: redirects are not followed", down=True)
        wish = retry_after(fetched.header("retry-after"), self._clock.time())
        return SendResult(
            error=f"status {status}",
            down=status in _LATER,
            final=status in _NEVER,
            retry_after=wish,
        )

    async def close(self) -> None:
        await self._transport.close()
