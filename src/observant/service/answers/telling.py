# ruff: noqa: TC001, TC003 (msgspec looks at the types)
"""Subscriptions, deliveries, and results of standing queries."""

from __future__ import annotations

import datetime as dt

from observant.service.answers.base import Answer
from observant.store import Filter

__all__ = [
    "DeliveryItem",
    "DeliveryPage",
    "MemberItem",
    "NewSubscription",
    "Retried",
    "SubscriptionItem",
]


class SubscriptionItem(Answer, frozen=True, kw_only=True):
    """Who is told of what; channel and secret masked."""

    id: int
    name: str
    channel: str
    secret: str
    filter: Filter
    subject: str
    template: str
    digest: str | float
    quiet: tuple[str, ...]
    timezone: str
    enabled: bool
    created_at: dt.datetime
    updated_at: dt.datetime
    failures: int
    """Failed deliveries in a row."""
    error: str | None
    rests_until: dt.datetime | None
    deliveries: dict[str, int]
    """How many wait, were sent, are dead."""


class NewSubscription(Answer, frozen=True, kw_only=True):
    """A subscription, with the secret that signs its webhook, which is shown this once."""

    subscription: SubscriptionItem
    secret: str


class DeliveryItem(Answer, frozen=True, kw_only=True):
    """One event for one subscriber."""

    id: int
    subscription: str
    event: str
    topic: str
    source: str | None
    state: str
    queued_at: dt.datetime
    due_at: dt.datetime | None
    done_at: dt.datetime | None
    attempts: int
    error: str | None
    message: str | None


class DeliveryPage(Answer, frozen=True, kw_only=True):
    """Deliveries, newest first; give `next` as `after` for those before."""

    deliveries: list[DeliveryItem]
    next: int | None


class Retried(Answer, frozen=True, kw_only=True):
    """How many dead letters are tried again."""

    deliveries: int


class MemberItem(Answer, frozen=True, kw_only=True):
    """A result of a standing query."""

    url: str
    title: str
    rank: int
    dated_at: dt.datetime | None
    first_at: dt.datetime
    seen_at: dt.datetime
    left_at: dt.datetime | None
