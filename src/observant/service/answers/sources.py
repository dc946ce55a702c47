# ruff: noqa: TC003 (msgspec looks at the types)
"""Sources, their visits and versions, and what became of changes to them."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from observant.service.answers.base import Answer

__all__ = [
    "Added",
    "BulkAnswer",
    "CheckAnswer",
    "DiffAnswer",
    "DiffPart",
    "Imported",
    "Refused",
    "SourceDetail",
    "SourcePage",
    "SourceRow",
    "TagItem",
    "VersionItem",
    "VisitItem",
    "VisitPage",
]


class SourceRow(Answer, frozen=True, kw_only=True):
    """A source in a list. Secrets in the address are masked."""

    id: int
    name: str
    kind: str
    url: str
    host: str
    title: str
    tags: list[str]
    importance: float
    state: str
    created_at: dt.datetime
    updated_at: dt.datetime
    visited_at: dt.datetime | None
    good_at: dt.datetime | None
    changed_at: dt.datetime | None
    due_at: dt.datetime | None
    visits: int
    changes: int
    failures: int
    failed_in_row: int
    outcome: str | None
    status: int | None
    error: str | None
    rate: float | None
    """Updates a day."""
    rate_low: float | None
    rate_high: float | None
    period_days: float | None
    """From the last good visit to the next one that is due."""
    changed_probability: float | None
    """P(changed by now): that the copy has missed an update."""


class SourcePage(Answer, frozen=True, kw_only=True):
    """One page of a list; give `next` as `after` to get the following one."""

    sources: list[SourceRow]
    next: str | None
    total: int


class SourceDetail(Answer, frozen=True, kw_only=True):
    """Everything about one source but its visits."""

    source: SourceRow
    settings: dict[str, Any]
    """Its own settings, values of headers masked."""
    in_force: dict[str, Any]
    """Those that hold: built in, defaults, tags and own, in this order."""
    why: str
    """Why it is visited when it is."""
    versions: int
    noise: Any
    last_modified: dt.datetime | None


class VisitItem(Answer, frozen=True, kw_only=True):
    """A visit."""

    id: int
    source: str
    started_at: dt.datetime
    seconds: float
    outcome: str
    changed: bool | None
    status: int | None
    last_modified: dt.datetime | None
    magnitude: float | None
    bytes: int | None
    error: str | None
    digest: str | None
    reason: str
    attributes: list[str]


class VisitPage(Answer, frozen=True, kw_only=True):
    """Visits, newest first; give `next` as `after` for those before."""

    visits: list[VisitItem]
    next: int | None


class VersionItem(Answer, frozen=True, kw_only=True):
    """A kept version of a source's content."""

    at: dt.datetime
    kind: str
    digest: str
    size: int
    stored: int


class DiffPart(Answer, frozen=True, kw_only=True):
    """A stretch of both texts: equal, or `old` replaced by `new`."""

    kind: Literal["equal", "changed"]
    old: str
    new: str
    path: str = ""
    """Where in a JSON document."""


class DiffAnswer(Answer, frozen=True, kw_only=True):
    """What changed between two kept versions."""

    source: str
    old: VersionItem
    new: VersionItem
    kind: str
    parts: list[DiffPart]
    text: str
    """The same for a terminal."""


class TagItem(Answer, frozen=True, kw_only=True):
    """A tag and how many sources have it."""

    tag: str
    sources: int


class Refused(Answer, frozen=True, kw_only=True):
    """Something in a list that was not taken, and why."""

    row: int
    what: str
    reason: str


class Added(Answer, frozen=True, kw_only=True):
    """What became of a source to be added."""

    source: SourceRow
    new: bool
    """False if it was there already; then it keeps all it has."""


class Imported(Answer, frozen=True, kw_only=True):
    """What became of an import."""

    added: int
    changed: int
    known: int
    refused: list[Refused]


class BulkAnswer(Answer, frozen=True, kw_only=True):
    """How many sources an action was done to."""

    sources: int


class CheckAnswer(Answer, frozen=True, kw_only=True):
    """A visit that was asked for."""

    visit: VisitItem
