"""Lists of sources: what they are filtered and sorted by, and how one page follows another."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import InputError
from observant.store.engine import micros, seconds
from observant.store.errors import UnknownSourceError
from observant.store.types import STATES, StoredSource

if TYPE_CHECKING:
    from observant.store.engine import Row, Session

__all__ = [
    "SORTS",
    "condition_of",
    "one_source",
    "page_of",
    "read_cursor",
    "select_sources",
    "steady",
    "write_cursor",
]

SORTS = (
    "name",
    "due_at",
    "visited_at",
    "changed_at",
    "importance",
    "rate",
    "visits",
    "changes",
    "failed_in_row",
    "created_at",
    "period",
    "doubt",
)
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


def condition_of(
    session: Session,
    search: str | None,
    tag: str | None,
    host: str | None,
    state: str | None,
    kind: str | None,
) -> tuple[str, dict[str, Any]]:
    """The condition of a list, and its parameters."""
    where, given = ["s.state <> 'removed'"], {}
    if state is not None:
        if state not in STATES:
            raise InputError(f"no state {state!r}; one of {', '.join(STATES)}")
        where, given = ["s.state = :state"], {"state": state}
    for column, value in (("host", host and host.lower()), ("kind", kind)):
        if value is not None:
            where.append(f"s.{column} = :{column}")
            given[column] = value
    if tag is not None:
        where.append("s.id IN (SELECT source FROM tags WHERE tag = :tag)")
        given["tag"] = tag
    for number, word in enumerate((search or "").casefold().split()):
        where.append(session.text("contains").replace("{word}", f"word_{number}"))
        given[f"word_{number}"] = word.replace("\0", "")
    return " AND ".join(where), given


def page_of(
    session: Session,
    where: str,
    given: dict[str, Any],
    sort: str,
    descending: bool,
    most: int,
    offset: int,
    cursor: tuple[Any, int] | None,
    now: int,
) -> list[StoredSource]:
    """Those that have a value in its order, then those that have none in order of id.

    Two statements instead of one, so that each of them can walk along an index.
    """
    direction, beyond = ("DESC", "<") if descending else ("ASC", ">")
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


def write_cursor(last: StoredSource, sort: str, descending: bool, now: int) -> str:
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
    return [_stored(row) for row in session.sql(statement, given)]


def one_source(session: Session, name: str) -> StoredSource:
    found = select_sources(session, "s.name = :name AND s.state <> 'removed'", {"name": name})
    if not found:
        raise UnknownSourceError(f"there is no source {name!r}")
    return found[0]


def _stored(row: Row) -> StoredSource:
    return StoredSource(
        name=row[0],
        kind=row[1],
        url=row[2],
        host=row[3],
        title=row[4],
        tags=tuple(msgspec.json.decode(row[5])),
        importance=row[6],
        state=row[7],
        due_at=seconds(row[8]),
        config=msgspec.json.decode(row[9]),
        id=row[10],
        shard=row[11],
        created_at=row[12] / 1e6,
        updated_at=row[13] / 1e6,
        visited_at=seconds(row[14]),
        good_at=seconds(row[15]),
        changed_at=seconds(row[16]),
        visits=row[17],
        changes=row[18],
        failures=row[19],
        failed_in_row=row[20],
        outcome=row[21],
        status=row[22],
        error=row[23],
        last_modified=seconds(row[24]),
        digest=row[25],
        rate=row[26],
        rate_low=row[27],
        rate_high=row[28],
    )
