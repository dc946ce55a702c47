"""Plans, rivals, and the whole population."""

from __future__ import annotations

from typing import Any

from observant.service.answers.base import Answer

__all__ = [
    "PlanPoint",
    "PlanView",
    "PopulationView",
    "RivalItem",
    "RivalsView",
]


class PlanPoint(Answer, frozen=True, kw_only=True):
    """What a budget would buy in the long run, planned and with uniform visits."""

    per_day: float
    alpha: float
    uniform: float


class PlanView(Answer, frozen=True, kw_only=True):
    """What a plan would bring, before it is applied."""

    ready: bool
    """False while it is being computed: ask again soon."""
    age_seconds: float
    error: str
    budget_per_day: float | None = None
    grace_days: float | None = None
    objective: str | None = None
    alpha: float | None = None
    uniform_alpha: float | None = None
    price: float | None = None
    spent_per_day: float | None = None
    sources: int | None = None
    starved: int | None = None
    curve: tuple[PlanPoint, ...] = ()


class RivalItem(Answer, frozen=True, kw_only=True):
    """A rule replayed on this collection's own history."""

    policy: str
    freshness: float | None
    gap_closed: float | None
    """Of the way from uniform visiting (0) to a clairvoyant (1)."""


class RivalsView(Answer, frozen=True, kw_only=True):
    """Other rules on the history of this collection, the best first."""

    ready: bool
    age_seconds: float
    error: str
    days: float | None = None
    rivals: tuple[RivalItem, ...] = ()
    notes: tuple[str, ...] = ()


class PopulationView(Answer, frozen=True, kw_only=True):
    """How the sources of the collection change, all together."""

    ready: bool
    age_seconds: float
    error: str
    sources: int | None = None
    sampled: int | None = None
    visits: int | None = None
    fits: dict[str, Any] | None = None
    """Weibull and nonparametric descriptions of the rates, as `observant population --json`."""
    hours_of_week: tuple[float, ...] = ()
    """Changes by hour of the week, Monday 00:00 UTC first."""
    hours_from: str = ""
    notes: tuple[str, ...] = ()
