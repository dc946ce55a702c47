"""Answers about the whole collection: overview, plans, rivals, settings, mail, health, pictures."""

from __future__ import annotations

import datetime as dt
from typing import Any

from observant.observer.browser.chooser import Box
from observant.service.answers import Answer, EventItem


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
    spent_share: float | None
    """Of the budget of 24 hours; None where the budget is one of cost."""
    counts_cost: bool
    spot_checks_per_day: float
    """Visits that are left to chance: what measuring costs."""
    options: list[BudgetOption]
    hours: list[float]
    """How a day is spent over its hours (UTC): 1 is as usual; empty where all are alike."""


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
    status: int | None = None
    """Where the error is one of HTTP."""
    remedy: str = ""
    """What helps; empty where only waiting does."""
    seen_at: dt.datetime | None


class Overview(Answer, frozen=True, kw_only=True):
    """The collection on one page."""

    at: dt.datetime
    sources: int
    by_state: dict[str, int]
    unseen: int = 0
    """Active sources that were never visited."""
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


# -- plans, rivals, and the whole population ------------------------------------------------------


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
    counts_cost: bool | None = None
    """Whether the budget is one of cost, in which a plain visit counts 1."""
    paid_for_browsers: float | None = None
    """How much α would be higher if every visit were a plain one; 0 for a budget of visits."""
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
    relative_staleness: float | None
    """What is stale over what is with uniform visits: 0.78 is 22 % fewer stale copies."""
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
    """Descriptions of the rates, as `observant study population --json` gives them."""
    hours_of_week: tuple[float, ...] = ()
    """Changes by hour of the week, Monday 00:00 UTC first."""
    hours_from: str = ""
    notes: tuple[str, ...] = ()


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


class MailItem(Answer, frozen=True, kw_only=True):
    """The server for e-mail, without its password."""

    host: str
    """Empty: none was entered while it ran."""
    port: int
    security: str
    user: str
    sender: str
    in_file: bool
    """Whether the configuration file names one."""


class Tried(Answer, frozen=True, kw_only=True):
    """What became of a test message."""

    ok: bool
    error: str
    """Why it was not taken, in words."""


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


# -- pictures of pages ----------------------------------------------------------------------------


class PictureDiff(Answer, frozen=True, kw_only=True):
    """Where two kept pictures of a page differ by more than anti-aliasing and a small shift."""

    old: str
    """Digest."""
    new: str
    share: float
    """Of the page, from 0 to 1."""
    boxes: list[tuple[int, int, int, int]]
    """Left, top, width and height in pixels, the largest first."""
    width: int
    height: int


class PagePictureAnswer(Answer, frozen=True, kw_only=True):
    """A page as a browser shows it now."""

    image: str
    """JPEG in base64."""
    width: int
    height: int
    boxes: tuple[Box, ...]


class StepShown(Answer, frozen=True, kw_only=True):
    """What the page looked like after a step, or why it could not be taken."""

    step: str
    image: str
    """JPEG in base64; empty where the page shows a secret."""
    problem: str


class StepTrial(Answer, frozen=True, kw_only=True):
    """Steps that were taken on a page, for a trial."""

    steps: list[StepShown]
    problem: str
    """Why the page could not be read after them; empty if it could."""
