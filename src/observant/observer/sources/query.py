"""A standing query: a list of results whose members are tracked (Brewington 3.1, the Informant).

The list is compared as the set of its top results with their titles and dates. So a new result, a
dropped one and one that the list says has changed are changes; another order is not. The order is
kept with the members, as their ranks.
"""

from __future__ import annotations

import hashlib
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import InputError, UnreadableError
from observant.observer import bounds
from observant.observer.content import Comparer
from observant.observer.sources.http import HttpSource
from observant.observer.sources.results import ResultRules, results_of
from observant.observer.tasks import read
from observant.store import Member
from observant.store.validation import checked_importance

if TYPE_CHECKING:
    from observant.observer.fetched import Fetched
    from observant.observer.tasks import Read
    from observant.store.visit import Previous, Visit

_found: ContextVar[tuple[Member, ...] | None] = ContextVar("_found", default=None)
"""What `read` found, for the `visit` that called it: each visit is a task of its own."""


class StandingQuery(ResultRules, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything about a standing query: where its results stand, and what is done with them.

    >>> StandingQuery(form="feed", terms={"bees": 2}, watch=True).share
    0.1
    """

    terms: dict[str, float] = msgspec.field(default_factory=dict)
    """Terms that matter in the members, and how much: they weight the magnitude of changes."""
    other_terms: float = 0.1
    """The weight of all other terms. With 0 only changes of the terms count."""
    watch: bool = False
    """Watch the members themselves, as long as they are results."""
    share: float = 0.1
    """The members together get at most this share of the budget."""
    importance: float = 1.0
    """Of each watched member."""
    may_be_empty: bool = False
    """No result at all is an answer. Otherwise it is a failed visit, and no member is dropped."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.share <= 1:
            raise InputError(f"share: a part of the budget lies between 0 and 1, not {self.share}")
        checked_importance(self.importance)
        bounds.number("other_terms", self.other_terms, 0, bounds.HEAVIEST)
        bounds.weights("terms", self.terms)


class QuerySource(HttpSource):
    """http and https, read as a list of results."""

    form = "query"

    def prepare(self) -> None:
        self.query = msgspec.convert(self.settings.query, StandingQuery, strict=False)
        # Where a line stands in a list means nothing: what changes there is never noise.
        rules = msgspec.structs.replace(self.comparer.rules, kind="text", learn_noise=False)
        self.comparer = Comparer(rules)
        self.comparer.selection_version += _version(self.query)

    async def visit(self, previous: Previous | None) -> Visit:
        _found.set(None)
        visit = await super().visit(previous)
        told = visit.outcome in {"first", "same", "changed", "back"}
        members = _found.get() if told else None
        return msgspec.structs.replace(visit, members=members)

    async def read(self, previous: Previous | None, fetched: Fetched) -> Read:
        found = await read(
            self.comparer,
            previous,
            fetched,
            form=self.form,
            query=self.query,
            now=self.around.time(),
        )
        if found.members is not None:
            _found.set(tuple(msgspec.convert(found.members, list[Member])))
        return found


def as_results(
    fetched: Fetched, rules: dict[str, Any], now: float
) -> tuple[Fetched, list[dict[str, Any]] | None]:
    """The list of results as the text that is compared, and the results."""
    if not fetched.ok or fetched.not_modified:
        return fetched, None
    query = msgspec.convert(rules, StandingQuery)
    try:
        found = results_of(fetched, query, now)
    except UnreadableError as error:
        return _failed(fetched, str(error)), None
    if not found and not query.may_be_empty:
        return _failed(fetched, "there is no result; if that can be, say may_be_empty"), None
    lines = sorted(f"{member.url} | {member.title} | {_day(member)}" for member in found)
    seen = msgspec.structs.replace(
        fetched,
        body="\n".join(lines or ["no results"]).encode("utf-8", "replace"),
        content_type="text/plain",
        charset="utf-8",
    )
    return seen, [msgspec.to_builtins(member) for member in found]


def _failed(fetched: Fetched, message: str) -> Fetched:
    return msgspec.structs.replace(fetched, error="content", message=message)


def _day(member: Member) -> str:
    return "" if member.dated_at is None else f"{member.dated_at:.0f}"


def _version(query: StandingQuery) -> str:
    """Changes with everything that decides who is a member."""
    rules: Any = {name: getattr(query, name) for name in ResultRules.__struct_fields__}
    return "+" + hashlib.sha256(msgspec.json.encode(rules)).hexdigest()[:8]
