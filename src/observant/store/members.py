"""Members of standing queries: the results of a list, as its last visit found them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from observant.store.engine import Columns, StorePiece, chunks
from observant.store.types import Value
from observant.store.validation import checked_name, clean, instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from observant.store.engine import Session

__all__ = ["Member", "Members", "StoredMember", "keep_members", "member_columns"]

MOST_LEFT = 5000
"""So many that were dropped from a list are remembered, the latest ones."""


class Member(Value, frozen=True, kw_only=True):
    """One result of a standing query."""

    url: str
    """In its canonical form: the name of the source, if the member is watched."""
    title: str = ""
    rank: int = 0
    """Its place in the list, from 1."""
    dated_at: float | None = None
    """When it last changed, says the list."""


class StoredMember(Member, frozen=True, kw_only=True):
    """A result, and since when it has been one."""

    query: str
    """The name of the standing query."""
    first_at: float
    """The visit that saw it first."""
    seen_at: float
    """The last visit that saw it."""
    left_at: float | None = None
    """The visit that found it dropped; None while it is a result."""


class Members(StorePiece):
    """The results of standing queries."""

    def by_url(self, url: str) -> list[StoredMember]:
        """Every standing query that has this address among its results now."""
        return self.by_urls([url])[url]

    def by_urls(self, urls: Iterable[str]) -> dict[str, list[StoredMember]]:
        """The same for many addresses."""
        found: dict[str, list[StoredMember]] = {url: [] for url in urls}
        where = "m.url IN :urls AND m.left_at IS NULL AND q.state <> 'removed' ORDER BY q.name"
        for some in chunks(found):
            given = {"urls": list(some)}
            for member in self._engine.read(partial(_members, where=where, given=given)):
                found[member.url].append(member)
        return found

    def exist(self) -> bool:
        """Whether any query has, or had, a result."""
        return bool(self._engine.read(lambda session: session.value("any_member")))

    def list(self, query: str, *, left: bool = False) -> list[StoredMember]:
        """The results of a standing query by rank; with `left` those that were dropped too."""
        where = "q.name = :query" + ("" if left else " AND m.left_at IS NULL")
        order = "m.left_at IS NOT NULL, m.rank, m.url"
        return self._engine.read(
            lambda session: _members(session, f"{where} ORDER BY {order}", {"query": query})
        )


def member_columns(members: Sequence[Member] | None) -> list[dict[str, Any]] | None:
    """Members as columns, checked."""
    if members is None:
        return None
    found = {}
    for member in members:
        url = checked_name(member.url, "member")
        found[url] = {
            "url": url,
            "title": clean(member.title, 1000),
            "rank": int(member.rank),
            "dated_at": instant(member.dated_at, "the date of a member"),
        }
    return [found[url] for url in sorted(found)]


def keep_members(session: Session, found: Sequence[tuple[int, int, list[dict[str, Any]]]]) -> None:
    """Write what visits of standing queries found: (query, start of the visit, members)."""
    for query, started_at, members in sorted(found, key=lambda one: one[:2]):
        own = {"source": query, "started_at": started_at}
        session.many("add_member", [member | own for member in members])
        if session.run("drop_members", **own):
            session.run("forget_members", source=query, most=MOST_LEFT)


def _members(session: Session, where: str, given: dict[str, Any]) -> list[StoredMember]:
    rows = session.sql(f"{session.text('select_members')}\nWHERE {where}", given)
    return _MEMBER.all(rows)


_MEMBER = Columns(StoredMember, "query url title rank dated_at first_at seen_at left_at")
