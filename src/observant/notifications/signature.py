"""How a receiver knows that a webhook came from us, and came now.

The signature is HMAC-SHA256 with the subscription's secret over the time of sending, a full stop
and the body, byte by byte. A receiver checks it before it reads the body, and refuses old times.
"""

from __future__ import annotations

import hashlib
import hmac
import re

_SIGNATURE = re.compile(r"v1=([0-9a-f]{64})")


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """The header Observant-Signature.

    >>> sign("whistle", 1_800_000_000, b'{"id": "7"}')
    'v1=1a794e15dbdc97f321cc0a6241da3a0cb3f696258210f5dc22cd084c4f2cb118'
    """
    signed = f"{timestamp}.".encode() + body
    return "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def verify(
    secret: str,
    timestamp: str,
    signature: str,
    body: bytes,
    *,
    now: float,
    tolerance: float = 300.0,
) -> bool:
    """Whether a body was signed with this secret, at most `tolerance` seconds from now.

    `timestamp` and `signature` are the headers as they came; several signatures may stand there,
    with commas between them.

    >>> header = sign("whistle", 1_800_000_000, b"{}")
    >>> verify("whistle", "1800000000", header, b"{}", now=1_800_000_010.0)
    True
    >>> verify("whistle", "1800000000", header, b"{ }", now=1_800_000_010.0)
    False
    >>> verify("whistle", "1800000000", header, b"{}", now=1_800_009_999.0)
    False
    """
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 16):
        return False
    wanted = sign(secret, int(timestamp), body)
    found = [
        hmac.compare_digest(wanted, f"v1={match[1]}") for match in _SIGNATURE.finditer(signature)
    ]
    return any(found) and abs(now - int(timestamp)) <= tolerance
