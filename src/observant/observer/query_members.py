"""Members of standing queries as sources of their own: taken up, kept within their share of the
budget, and retired when they are results no longer.

A source that was taken up for a query has the tag ``query:NAME``. Somebody who wants to keep one
takes that tag away. A source that somebody added by hand never gets it, and is left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from observant.currency.audit import Claims
from observant.errors import InputError, UnknownSourceError
from observant.observer.bounds import LONGEST
from observant.observer.events import QUERY_TAG, event_id
from observant.observer.sources.base import host_of
from observant.observer.sources.query import StandingQuery
from observant.store import Source
from observant.units import counted

if TYPE_CHECKING:
    from observant.observer.config import Config, SourceSettings
    from observant.store import Store, StoredMember, StoredSource


def query_tag(query: str) -> str:
    """The tag of sources that are watched for a standing query.

    >>> query_tag("bees")
    'query:bees'
    """
    tag = QUERY_TAG + query
    return tag if len(tag.encode()) <= 200 else f"{QUERY_TAG}{event_id(query)}"


def follow_members(
    store: Store, config: Config, row: StoredSource, settings: SourceSettings
) -> bool:
    """Make the watched members of a query those that are its results now; True if that changed
    anything. Told twice, it does nothing the second time: so a crash in between does no harm.
    """
    query = msgspec.convert(settings.query, StandingQuery, strict=False)
    members = store.members.list(row.name) if query.watch else []
    tag = query_tag(row.name)
    ours = {source.name: source for source in store.sources.each(tag=tag)}
    wanted = {member.url: member for member in members}
    own = _settings(query, settings, config)
    changed = False
    for name, source in ours.items():
        if name not in wanted:
            _let_go(store, source, tag)
            changed = True
        elif source.config != own:
            store.sources.update(name, config=own)
            changed = True
    for name, member in wanted.items():
        if name not in ours:
            changed |= _take_up(store, query, member, tag, own)
    return changed


def retire_members(store: Store, query: str) -> int:
    """Let go of every member of a query that is to be removed; returns how many there were."""
    tag = query_tag(query)
    ours = list(store.sources.each(tag=tag))
    for source in ours:
        _let_go(store, source, tag)
    return len(ours)


def retire_orphans(store: Store) -> int:
    """Let go of members whose query is no more, however it was removed; returns how many."""
    tags = [tag for tag in store.sources.tags() if tag.startswith(QUERY_TAG)]
    if not tags:
        return 0
    alive = {query_tag(query.name) for query in store.sources.each(kind="query")}
    retired = 0
    for tag in tags:
        if tag not in alive:
            orphans = list(store.sources.each(tag=tag))
            retired += len(orphans)
            for source in orphans:
                _let_go(store, source, tag)
    return retired


def _settings(query: StandingQuery, settings: SourceSettings, config: Config) -> dict[str, Any]:
    """So seldom that all members together stay within the share, however fast they change."""
    wanted = max(query.top / (query.share * config.budget_per_day), settings.shortest)
    shortest = min(wanted, LONGEST)
    longest = max(settings.longest, shortest)
    own: dict[str, Any] = {
        "min_period": shortest,
        "max_period": longest,
        "importance": query.importance,
    }
    if not settings.robots:
        own["robots"] = False
    if query.terms:
        own["compare"] = {
            "change": "query",
            "query": query.terms,
            "other_terms": query.other_terms,
        }
    return own


def _take_up(
    store: Store, query: StandingQuery, member: StoredMember, tag: str, own: dict[str, Any]
) -> bool:
    try:
        known = store.sources.get(member.url)
    except UnknownSourceError:
        source = Source(
            name=member.url,
            url=member.url,
            host=host_of("http", member.url),
            title=member.title,
            tags=(tag,),
            importance=query.importance,
            config=own,
        )
        return store.sources.add([source]) > 0
    if any(other.startswith(QUERY_TAG) for other in known.tags):  # another query has taken it up
        store.sources.update(known.name, tags=(*known.tags, tag))
        return True
    return False


def _let_go(store: Store, source: StoredSource, tag: str) -> None:
    left = tuple(other for other in source.tags if other != tag)
    if any(other.startswith(QUERY_TAG) for other in left):
        store.sources.update(source.name, tags=left)
    else:  # one that was never visited leaves nothing behind
        store.sources.remove(source.name, forget=not source.visits)


# -------------------------------------------------------------------------------------------------
# The audit of an index by its own words: what a standing query says of its results' dates, held
# against what the results say themselves (Brewington 3.4.2)


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
            f"date, {unwatched} of these are not watched (observant query --watch) and "
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
