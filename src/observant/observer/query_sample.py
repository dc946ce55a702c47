"""Random queries put to several indexes, and what their results say themselves (Brewington 3.4.2).

Every index gets the same queries. For each result that carries a date, the result itself is asked
once for its Last-Modified, whichever index named it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import msgspec

from observant.currency.audit import Claims
from observant.errors import InputError
from observant.observer.config import read_toml
from observant.observer.content import Comparer, Rules
from observant.observer.sources.query import StandingQuery
from observant.observer.tasks import read
from observant.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from observant.observer.fetched import Fetched
    from observant.observer.transport import Transport

_AT_ONCE = 16


class AskedIndex(StandingQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An index that answers queries, and where its results stand."""

    url: str
    """With {query} where the query goes."""
    headers: dict[str, str] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if "{query}" not in self.url:
            raise InputError(f"url: say where the query goes, by {{query}}, in {self.url!r}")

    @property
    def rules(self) -> StandingQuery:
        """Where the results stand; that there are none is an answer too."""
        own = {name: getattr(self, name) for name in StandingQuery.__struct_fields__}
        return StandingQuery(**(own | {"may_be_empty": True}))


def read_indexes(file: str) -> dict[str, AskedIndex]:
    """The indexes of a TOML file, a table each, by their names."""
    tables = read_toml(file)
    if not tables:
        raise InputError("names no index: write [NAME] and url = 'https://…?q={query}'", file=file)
    found = {}
    for name, table in tables.items():
        try:
            found[name] = msgspec.convert(table, AskedIndex, strict=False)
        except (msgspec.ValidationError, InputError) as error:
            raise InputError(f"[{name}]: {error}", file=file) from error
    return found


async def ask_indexes(
    transport: Transport,
    indexes: Mapping[str, AskedIndex],
    queries: Sequence[str],
    *,
    sample: int,
    seed: int = 0,
    tick: Callable[[float], None] | None = None,
) -> dict[str, Claims]:
    """Put `sample` queries, drawn from the list, to every index; what they claim and what is so."""
    drawn = random.Random(seed).sample(list(queries), min(sample, len(queries)))  # noqa: S311
    limit = asyncio.Semaphore(_AT_ONCE)
    done, total = 0, len(drawn) * len(indexes)

    async def ask(name: str, query: str) -> tuple[str, list[dict[str, Any]], str]:
        nonlocal done
        index = indexes[name]
        url = index.url.replace("{query}", quote_plus(query))
        async with limit:
            fetched = await transport.fetch(url, headers=tuple(index.headers.items()))
            started = fetched.started_at
            found = await read(
                Comparer(Rules()), None, fetched, form="query", query=index.rules, now=started
            )
        done += 1
        if tick is not None:
            tick(0.5 * done / total)
        return name, found.members or [], fetched.message or found.message

    answers = await asyncio.gather(*(ask(name, query) for query in drawn for name in indexes))
    dated = {
        name: {
            member["url"]: member["dated_at"]
            for one, members, _ in answers
            for member in members
            if one == name and member.get("dated_at") is not None
        }
        for name in indexes
    }
    wanted = sorted({url for results in dated.values() for url in results})

    async def look(url: str) -> Fetched:
        nonlocal done
        async with limit:
            fetched = await transport.fetch(url)
        done += 1
        if tick is not None:
            tick(0.5 + 0.5 * (done - total) / max(len(wanted), 1))
        return fetched

    pages = dict(zip(wanted, await asyncio.gather(*map(look, wanted)), strict=True))
    return {
        name: _claims(name, dated[name], pages, [a for a in answers if a[0] == name])
        for name in indexes
    }


def _claims(
    name: str,
    dated: Mapping[str, float],
    pages: Mapping[str, Fetched],
    answers: Sequence[tuple[str, list[dict[str, Any]], str]],
) -> Claims:
    rows = [
        (url, claimed, page.last_modified, page.started_at)
        for url, claimed in dated.items()
        if (page := pages[url]).ok and page.last_modified is not None
    ]
    results = sum(len(members) for _, members, _ in answers)
    if not rows:
        reasons = sorted({reason for _, _, reason in answers if reason})
        raise InputError(
            f"index {name!r}: of {counted(results, 'result')} {len(dated)} carry a date, and none "
            f"of these tells its own{': ' + reasons[0] if reasons else ''}"
        )
    claims = Claims.from_columns(*(list(column) for column in zip(*rows, strict=True)))
    note = f"{counted(results, 'result')} of {counted(len(answers), 'query', 'queries')}, "
    note += f"{len(dated)} with a date, {len(rows)} of which tell their own"
    return dataclasses.replace(claims, notes=(*claims.notes, note))
