"""Lists of sources: what they are filtered and sorted by, and how one page follows another."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import InputError, UnknownSourceError
from observant.names import SORTS
from observant.store.engine import Columns
from observant.store.types import STATES, Page, SourceQuery, StoredSource
from observant.times import micros

if TYPE_CHECKING:
    from observant.store.engine import Session

_COMPUTED = {
    "period": "(s.due_at - s.good_at)",
    "doubt": "(s.rate * (:now - s.good_at))",
}
"""Orders that no column has: the time from the last good visit to the next, and the updates that
are expected since the last good visit, as of `now`."""
_NULLABLE = {"due_at", "visited_at", "changed_at", "rate", *_COMPUTED}
_INDEXED = {"name", "due_at", "changed_at"}
_STEADY = 600_000_000
"""Microseconds for which `now` stands still, so that pages fit together."""


def condition_of(session: Session, query: SourceQuery) -> tuple[str, dict[str, Any]]:
    """The condition of a list, and its parameters."""
    where, given = ["s.state <> 'removed'"], {}
    if query.state is not None:
        if query.state not in STATES:
            raise InputError(f"no state {query.state!r}; one of {', '.join(STATES)}")
        where, given = ["s.state = :state"], {"state": query.state}
    for column, value in (("host", query.host and query.host.lower()), ("kind", query.kind)):
        if value is not None:
            where.append(f"s.{column} = :{column}")
            given[column] = value
    if query.tag is not None:
        where.append("s.id IN (SELECT source FROM tags WHERE tag = :tag)")
        given["tag"] = query.tag
    for number, word in enumerate((query.search or "").casefold().split()):
        where.append(session.text("contains").replace("{word}", f"word_{number}"))
        given[f"word_{number}"] = word.replace("\0", "")
    return " AND ".join(where), given


def page_of(session: Session, query: SourceQuery, now: int) -> Page:
    """The page that a query asks for; `now` is `steady`."""
    if query.sort not in SORTS:
        raise InputError(
            f"sources cannot be sorted by {query.sort!r}; choose from {', '.join(SORTS)}"
        )
    if query.limit < 1 or query.offset < 0:
        raise InputError("a page has at least one source, and an offset is zero or more")
    cursor = None if query.after is None else read_cursor(query.after, query.sort, query.descending)
    found = _rows(session, query, cursor, now)
    following = None
    if len(found) > query.limit:
        found = found[: query.limit]
        following = _write_cursor(found[-1], query.sort, query.descending, now)
    return Page(sources=tuple(found), next=following)


def _rows(
    session: Session, query: SourceQuery, cursor: tuple[Any, int] | None, now: int
) -> list[StoredSource]:
    """Those that have a value in its order, then those that have none in order of id; one more
    than the page has.

    Two statements instead of one, so that each of them can walk along an index.
    """
    where, given = condition_of(session, query)
    sort, most, offset = query.sort, query.limit + 1, query.offset
    direction, beyond = ("DESC", "<") if query.descending else ("ASC", ">")
    found: list[StoredSource] = []
    column = _COMPUTED.get(sort, f"s.{sort}")
    if sort == "doubt":
        given = given | {"now": now}
    order = f"{column} {direction}" + ("" if sort == "name" else f", s.id {direction}")
    if cursor is None or cursor[0] is not None:
        condition = f"{where} AND {column} IS NOT NULL" if sort in _NULLABLE else where
        parameters = given | {"most": most, "offset": offset}
        if cursor is not None:
            key, place = (
                ("s.name", ":value") if sort == "name" else (f"({column}, s.id)", "(:value, :id)")
            )
            condition += f" AND {key} {beyond} {place}"
            parameters |= {"value": cursor[0]} | ({} if sort == "name" else {"id": cursor[1]})
        chosen = f"{condition} ORDER BY {order} LIMIT :most OFFSET :offset"
        if sort not in _INDEXED:
            # All sources are sorted: by their numbers, and only those of the page are read.
            chosen = f"s.id IN (SELECT s.id FROM sources AS s WHERE {chosen}) ORDER BY {order}"  # noqa: S608
        found = select_sources(session, chosen, parameters)
    if sort not in _NULLABLE or len(found) == most:
        return found
    skipped = 0
    if offset and not found:
        having = f"SELECT count(*) FROM sources AS s WHERE {where} AND {column} IS NOT NULL"  # noqa: S608
        skipped = max(offset - int(session.sql(having, given)[0][0]), 0)
    condition = f"{where} AND {column} IS NULL"
    parameters = given | {"most": most - len(found), "offset": skipped}
    if cursor is not None and cursor[0] is None:
        condition += f" AND s.id {beyond} :id"
        parameters["id"] = cursor[1]
    order = f"s.id {direction}"
    return found + select_sources(
        session, f"{condition} ORDER BY {order} LIMIT :most OFFSET :offset", parameters
    )


def steady(now: float) -> int:
    """Now, in microseconds, as lists take it: it moves every few minutes."""
    return (micros(now) or 0) // _STEADY * _STEADY


def _write_cursor(last: StoredSource, sort: str, descending: bool, now: int) -> str:
    good, due = micros(last.good_at), micros(last.due_at)
    value: Any
    if sort == "period":
        value = None if good is None or due is None else due - good
    elif sort == "doubt":
        value = None if good is None or last.rate is None else last.rate * (now - good)
    else:
        value = micros(getattr(last, sort)) if sort.endswith("_at") else getattr(last, sort)
    text = msgspec.json.encode([sort, descending, value, last.id])
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def read_cursor(text: str, sort: str, descending: bool) -> tuple[Any, int]:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        cursor = msgspec.json.decode(raw, type=tuple[str, bool, str | int | float | None, int])
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise InputError("this is not the end of a page; begin with the first page") from None
    if cursor[:2] != (sort, descending):
        raise InputError("the page before was sorted in another way; begin with the first page")
    if cursor[2] is not None and isinstance(cursor[2], str) is not (sort == "name"):
        raise InputError("this is not the end of a page; begin with the first page")
    return cursor[2], cursor[3]


def select_sources(session: Session, where: str, given: dict[str, Any]) -> list[StoredSource]:
    statement = f"{session.text('select_sources')}\nWHERE {where}"
    return _SOURCE.all(session.sql(statement, given))


def one_source(session: Session, name: str) -> StoredSource:
    found = select_sources(session, "s.name = :name AND s.state <> 'removed'", {"name": name})
    if not found:
        raise UnknownSourceError(f"there is no source {name!r}")
    return found[0]


_SOURCE = Columns(
    StoredSource,
    "name kind url host title tags:words importance state due_at config:json id shard created_at "
    "updated_at visited_at good_at changed_at visits changes failures failed_in_row outcome status "
    "error last_modified:at digest rate rate_low rate_high cost",
)
