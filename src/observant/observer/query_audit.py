"""The audit of an index by its own words: what a standing query says of its results' dates, held
against what the results say themselves (Brewington 3.4.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from observant.currency.audit import Claims
from observant.errors import InputError, UnknownSourceError
from observant.units import counted

if TYPE_CHECKING:
    from observant.store import Store

__all__ = ["claims_of_query"]


def claims_of_query(store: Store, query: str) -> Claims:
    """Every result that carries a date and is watched, as a row of `observant.audit_claims`.

    The list claims when a result was last modified; the result's own Last-Modified, seen by our
    last good visit to it, is the truth at that moment. A result that was visited before the list
    and claims to have changed since is left out: nobody can say.
    """
    members = store.members.list(query)
    dated = [member for member in members if member.dated_at is not None]
    rows: list[tuple[str, float, float, float]] = []
    unwatched = silent = early = 0
    for member in dated:
        try:
            source = store.sources.get(member.url)
        except UnknownSourceError:
            unwatched += 1
            continue
        claimed = member.dated_at or 0.0
        if source.good_at is None or source.last_modified is None:
            silent += 1
        elif source.good_at < member.seen_at and claimed > source.last_modified:
            early += 1
        else:
            rows.append((member.url, claimed, source.last_modified, source.good_at))
    if not rows:
        raise InputError(
            f"no result can be audited: of {counted(len(members), 'result')} {len(dated)} carry a "
            f"date, {unwatched} of these are not watched (observant query add --watch) and "
            f"{silent} do not tell their own date",
            source=query,
        )
    claims = Claims.from_columns(*(list(column) for column in zip(*rows, strict=True)))
    told = [
        (len(members) - len(dated), "without a date in the list"),
        (unwatched, "not watched"),
        (silent, "that do not tell their own date"),
        (early, "visited too early to tell"),
    ]
    notes = tuple(f"{counted(n, 'result')} {why} left out" for n, why in told if n)
    return Claims(
        source=claims.source,
        claimed=claims.claimed,
        actual=claims.actual,
        checked=claims.checked,
        notes=(*claims.notes, *notes),
    )
