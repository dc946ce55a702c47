"""Failed visits in words, and what helps against each."""

from __future__ import annotations

from observant.language import N_
from observant.language import gettext as _
from observant.times import DAY
from observant.units import duration_in_words

_STATUSES = {
    401: N_("asks for a password"),
    403: N_("refuses us"),
    404: N_("not found (404)"),
    407: N_("a proxy asks for a password"),
    410: N_("gone for good (410)"),
    429: N_("too many visits"),
    451: N_("withheld for legal reasons"),
}
_ERRORS = {
    "dns": N_("no such host"),
    "connect": N_("no connection"),
    "tls": N_("certificate not accepted"),
    "timeout": N_("no answer in time"),
    "too-large": N_("too large"),
    "refused-address": N_("a private network"),
    "robots": N_("robots.txt forbids it"),
    "bad-url": N_("not an address"),
    "protocol": N_("not an answer in HTTP"),
    "too-many-redirects": N_("redirects in circles"),
    "content": N_("nothing to compare"),
}
_REMEDIES = {
    "dns": N_("check the spelling of the address"),
    "tls": N_("correct the certificate, or set verify = false for a server of your own"),
    "timeout": N_("it is tried again; raise `total` in [limits] if it is always that slow"),
    "too-large": N_("raise `body` in [limits]"),
    "refused-address": N_(
        "allow its network: --allow NETWORK (such as 192.168.1.0/24), or `allow` in observant.toml"
    ),
    "robots": N_("ask its owner, or allow it with --set robots=no if it is yours"),
    "bad-url": N_("write https://…"),
    "too-many-redirects": N_("watch the address that a browser ends at"),
    "content": N_("choose another part of the page: `serve`, then Choose by pointing on its page"),
}


def failure(error: str | None, status: int | None = None) -> str:
    """Why a visit saw nothing.

    >>> failure("http", 404), failure("http", 503), failure("dns")
    ('not found (404)', 'the server is in trouble (503)', 'no such host')
    >>> failure("http")
    'an error of the server'
    """
    if error == "http" or (error is None and status):
        if status in _STATUSES:
            return _(_STATUSES[status])
        in_trouble = (status or 0) >= 500
        trouble = _("the server is in trouble") if in_trouble else _("the server answers")
        return f"{trouble} ({status})" if status else _("an error of the server")
    return _(_ERRORS[error]) if error in _ERRORS else error or _("unknown")


def remedy(error: str | None, status: int | None = None) -> str:
    """What helps; empty where only waiting does.

    >>> remedy("http", 401)
    "give its password: --set header='Authorization: …'"
    >>> remedy("connect")
    ''
    """
    if error == "http":
        if status == 401:
            return _("give its password: --set header='Authorization: …'")
        if status in {404, 410}:
            return _("correct the address, or stop watching it: observant remove")
        if status == 403:
            return _("it may want a browser or a header: --set header='NAME: VALUE'")
        return ""
    return _(_REMEDIES[error]) if error in _REMEDIES else ""


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
        return _(state)
    why = {"why": failure(error, status)}
    if seen_at is None:
        return _("%(why)s; never seen") % why
    span = duration_in_words(max(now - seen_at, 0.0) / DAY)
    return _("%(why)s for %(span)s") % (why | {"span": span})
