# ruff: noqa: TC003 (msgspec looks at the types)
"""Settings, whether all is well, and who may do what."""

from __future__ import annotations

import datetime as dt
from typing import Any

from observant.service.answers.base import Answer

__all__ = [
    "AccountItem",
    "Health",
    "NewToken",
    "ObserverItem",
    "SessionView",
    "SettingsView",
    "TokenItem",
]


class SettingsView(Answer, frozen=True, kw_only=True):
    """The settings in force. Those of the first block can be changed while it runs."""

    budget: str
    budget_per_day: float
    objective: str
    grace: str
    grace_days: float
    retention: dict[str, Any]

    host_delay: str
    downloaders: int
    contact: str
    allow: list[str]
    defaults: dict[str, Any]
    tags: dict[str, dict[str, Any]]
    store: str
    """Which kind of store; never where it is or how to get in."""
    kept: list[str]
    """Names of settings that were changed here, and win over the configuration file."""
    refused: dict[str, str]
    """Those of them that cannot be used, with the reason: the ones before them are in force."""


class ObserverItem(Answer, frozen=True, kw_only=True):
    """An observer of this store."""

    name: str
    started_at: dt.datetime
    seen_at: dt.datetime
    shards: int


class Health(Answer, frozen=True, kw_only=True):
    """ok, or what is wrong; nothing secret."""

    ok: bool
    problems: list[str]
    version: str
    observing: bool
    sources: int
    pending_events: int


class SessionView(Answer, frozen=True, kw_only=True):
    """Who is asking."""

    name: str
    role: str
    scope: str
    csrf: str | None
    """To be sent as X-CSRF-Token with every change made with a session; None with a token."""


class AccountItem(Answer, frozen=True, kw_only=True):
    """Somebody who may sign in."""

    id: int
    name: str
    role: str
    created_at: dt.datetime
    signed_in_at: dt.datetime | None


class TokenItem(Answer, frozen=True, kw_only=True):
    """A token for programs, without its secret."""

    id: int
    name: str
    scope: str
    account: str | None
    created_at: dt.datetime
    expires_at: dt.datetime | None
    used_at: dt.datetime | None


class NewToken(Answer, frozen=True, kw_only=True):
    """A token with its secret, which is shown this once."""

    token: TokenItem
    secret: str
