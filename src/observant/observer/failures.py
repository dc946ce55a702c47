"""Failed visits in words, and what helps against each."""

from __future__ import annotations

from observant.times import DAY
from observant.units import duration_in_words

__all__ = ["failure", "remedy", "state_in_words"]

_STATUSES = {
    401: "asks for a password",
    403: "refuses us",
    404: "not found (404)",
    407: "a proxy asks for a password",
    410: "gone for good (410)",
    429: "too many visits",
    451: "withheld for legal reasons",
}
_ERRORS = {
    "dns": "no such host",
    "connect": "no connection",
    "tls": "certificate not accepted",
    "timeout": "no answer in time",
    "too-large": "too large",
    "refused-address": "a private network",
    "robots": "robots.txt forbids it",
    "bad-url": "not an address",
    "protocol": "not an answer in HTTP",
    "too-many-redirects": "redirects in circles",
    "content": "nothing to compare",
}
_REMEDIES = {
    "dns": "check the spelling of the address",
    "tls": "mend the certificate, or set verify = false for a server of your own",
    "timeout": "it is tried again; raise `total` in [limits] if it is always that slow",
    "too-large": "raise `body` in [limits]",
    "refused-address": "allow its network: --allow NETWORK, or `allow` in observant.toml",
    "robots": "ask its owner, or say --no-robots if it is yours",
    "bad-url": "write https://…",
    "too-many-redirects": "watch the address that a browser ends at",
    "content": "choose another part of the page: `serve`, then Choose by pointing on its page",
}


def failure(error: str | None, status: int | None = None) -> str:
    """Why a visit saw nothing.

    >>> failure("http", 404), failure("http", 503), failure("dns")
    ('not found (404)', 'the server is in trouble (503)', 'no such host')
    >>> failure("http")
    'an error of the server'
    """
    if error == "http" or (error is None and status):
        trouble = "the server is in trouble" if (status or 0) >= 500 else "the server answers"
        return _STATUSES.get(
            status or 0, f"{trouble} ({status})" if status else "an error of the server"
        )
    return _ERRORS.get(error or "", error or "unknown")


def remedy(error: str | None, status: int | None = None) -> str:
    """What helps; empty where only waiting does.

    >>> remedy("http", 401)
    "give its password: --header 'Authorization: …'"
    >>> remedy("connect")
    ''
    """
    if error == "http":
        if status == 401:
            return "give its password: --header 'Authorization: …'"
        if status in {404, 410}:
            return "correct the address, or observant remove it"
        return "it may want a browser or a header: --header 'NAME: VALUE'" if status == 403 else ""
    return _REMEDIES.get(error or "", "")


def state_in_words(
    state: str,
    error: str | None,
    status: int | None,
    failed_in_row: int,
    seen_at: float | None,
    now: float,
) -> str:
    """The state of a source, with the real reason.

    >>> state_in_words("active", "http", 404, 4, 0.0, 2 * DAY)
    'not found (404) for 2 days'
    >>> state_in_words("active", "timeout", None, 1, None, 0.0)
    'no answer in time; never seen'
    >>> (
    ...     state_in_words("active", None, 200, 0, 0.0, 60.0),
    ...     state_in_words("paused", *[None] * 2, 0, None, 0),
    ... )
    ('active', 'paused')
    """
    if state != "active" or not failed_in_row:
        return state
    why = failure(error, status)
    if seen_at is None:
        return f"{why}; never seen"
    return f"{why} for {duration_in_words(max(now - seen_at, 0.0) / DAY)}"
