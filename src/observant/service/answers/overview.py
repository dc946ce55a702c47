# ruff: noqa: TC003 (msgspec looks at the types)
"""The collection on one page."""

from __future__ import annotations

import datetime as dt
from typing import Any

from observant.service.answers.base import Answer

__all__ = [
    "BudgetOption",
    "BudgetView",
    "CurvePoint",
    "Estimate",
    "EventItem",
    "EventPage",
    "HostItem",
    "HourItem",
    "Lateness",
    "Measured",
    "Overview",
]


class Estimate(Answer, frozen=True, kw_only=True):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


class CurvePoint(Answer, frozen=True, kw_only=True):
    """α at one grace: a point of the performance curve (Brewington's figure 3.24)."""

    grace_days: float
    alpha: float
    low: float
    high: float


class Measured(Answer, frozen=True, kw_only=True):
    """Currency as visits found it, by spot checks where there are enough, beside what was expected
    of the same moments: see `observant.service.measured`. `least` and `most` need no rate.
    """

    alpha: float
    low: float
    high: float
    expected: float
    """α over the same time, from the rates alone."""
    least: float
    most: float
    window_days: float
    sources: int
    visits: int
    method: str


class BudgetOption(Answer, frozen=True, kw_only=True):
    """What another budget would buy in the long run."""

    factor: float
    per_day: float
    alpha: float


class BudgetView(Answer, frozen=True, kw_only=True):
    """The budget, and what was spent of it."""

    per_day: float
    spent_today: int
    """Visits of the last 24 hours."""
    spent_share: float
    """Of the budget of 24 hours."""
    spot_checks_per_day: float
    """Visits that are left to chance: what measuring costs."""
    options: list[BudgetOption]


class HourItem(Answer, frozen=True, kw_only=True):
    """What the visits of one hour found."""

    at: dt.datetime
    visits: int
    changes: int
    failures: int
    bytes: int


class Lateness(Answer, frozen=True, kw_only=True):
    """By how much sources that are due have been waiting."""

    due: int
    mean_seconds: float
    max_seconds: float


class HostItem(Answer, frozen=True, kw_only=True):
    """A host with sources whose last visits failed."""

    host: str
    sources: int
    failing: int
    failed_in_row: int
    error: str
    seen_at: dt.datetime | None


class EventItem(Answer, frozen=True, kw_only=True):
    """Something that others are told of."""

    number: int
    id: str
    topic: str
    source: str | None
    source_id: int | None
    title: str
    url: str
    at: dt.datetime
    magnitude: float | None
    reason: str
    tags: list[str]
    delivered_at: dt.datetime | None
    attempts: int
    error: str | None
    payload: dict[str, Any]


class EventPage(Answer, frozen=True, kw_only=True):
    """Events, newest first; give `next` as `after` for those before."""

    events: list[EventItem]
    next: int | None


class Overview(Answer, frozen=True, kw_only=True):
    """The collection on one page."""

    at: dt.datetime
    sources: int
    by_state: dict[str, int]
    visits: int
    changes: int
    failures: int
    grace_days: float
    alpha: Estimate | None
    """Share of copies that are current now, weighted with importance; None without sources."""
    alpha_planned: float | None
    """What the plan in force promises in the long run at this grace; None until it is computed."""
    curve: list[CurvePoint]
    measured: Measured | None
    budget: BudgetView
    hours: list[HourItem]
    """The last 48 hours; hours without a visit are there too."""
    lateness: Lateness
    hosts: list[HostItem]
    latest: list[EventItem]
    observing: bool
    """Whether an observer has been seen lately."""
    age_seconds: float
    """How old the computed parts (α, curve, options) are."""
    notes: list[str]
