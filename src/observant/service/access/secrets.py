"""Passwords, random secrets, and comparing them: always hashed, always in constant time.

Passwords are hashed by `hashlib.scrypt` of Python itself; argon2-cffi would be two packages more
for the same thirty lines here.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading

from observant.errors import InputError

LOG_N, R, P = 15, 8, 3
"""Cost of scrypt: 32 MiB and about a quarter of a second, as OWASP advises."""
SHORTEST, LONGEST = 10, 1000
_SALT = 16
_AT_ONCE = threading.BoundedSemaphore(2)
"""Hashing takes memory: many logins at once must not take all of it."""


def new_secret(prefix: str = "") -> str:
    """256 random bits as text."""
    return prefix + secrets.token_urlsafe(32)


def digest(secret: str) -> bytes:
    """What is kept of a random secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def same(one: str | bytes, other: str | bytes) -> bool:
    """Whether two secrets are the same, in a time that does not tell how far they agree."""
    first, second = (
        x.encode("utf-8", "surrogatepass") if isinstance(x, str) else x for x in (one, other)
    )
    return hmac.compare_digest(first, second)


def csrf_token(session: str) -> str:
    """What pages of a session must send with every change: derived from its secret, so that there
    is nothing to keep, and nobody without the cookie can make it.
    """
    key = session.encode("utf-8", "surrogatepass")
    return hmac.new(key, b"observant csrf", hashlib.sha256).hexdigest()


def hash_password(password: str, *, log_n: int = LOG_N) -> str:
    """What is kept of a password.

    >>> kept = hash_password("correct horse", log_n=4)
    >>> check_password("correct horse", kept), check_password("correct house", kept)
    (True, False)
    """
    if not SHORTEST <= len(password) <= LONGEST:
        raise InputError(f"a password has from {SHORTEST} to {LONGEST} characters")
    salt = secrets.token_bytes(_SALT)
    made = _scrypt(password, salt, log_n, R, P)
    return f"scrypt${log_n}${R}${P}${_text(salt)}${_text(made)}"


def check_password(password: str, kept: str) -> bool:
    """Whether this is the password; costs the same if it is not."""
    _, log_n, r, p, salt, made = kept.split("$")
    found = _scrypt(password[:LONGEST], _bytes(salt), int(log_n), int(r), int(p))
    return hmac.compare_digest(found, _bytes(made))


def _scrypt(password: str, salt: bytes, log_n: int, r: int, p: int) -> bytes:
    with _AT_ONCE:
        return hashlib.scrypt(
            password.encode("utf-8", "surrogatepass"),
            salt=salt,
            n=1 << log_n,
            r=r,
            p=p,
            maxmem=(1 << log_n) * r * 256,
            dklen=32,
        )


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
