"""`observant query`: standing queries, whose results are tracked."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click
import msgspec

from observant.cli.console import print_json, print_table, wide_enough
from observant.cli.options import max_period_option, robots_option, several
from observant.cli.store_options import Common, ago, due, store_options
from observant.cli.values import Choice, Integer, Number
from observant.names import RESULT_FORMS
from observant.observer.failures import failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from observant.service.answers import MemberItem

_MOST = 100_000
"""Queries to list."""


@click.command("query", short_help="Standing queries: lists whose results are tracked.")
@click.argument("name", required=False)
@click.argument("url", required=False)
@click.option("--form", type=Choice(RESULT_FORMS), default="auto", help="What the list is.")
@click.option("--items", metavar="RULE", help="Where the results are: CSS, XPath or JMESPath.")
@click.option("--link", metavar="RULE", help="Their address, inside an item.")
@click.option("--title", metavar="RULE", help="Their title, inside an item.")
@click.option("--date", metavar="RULE", help="Their date, inside an item.")
@click.option(
    "--top", type=Integer(1, 1000), default=10, help="How many results are tracked, from the first."
)
@several("--term", "terms", metavar="TERM[=WEIGHT]", text="A term that matters in them")
@click.option(
    "--watch", is_flag=True, help="Watch the results themselves, as long as they are listed."
)
@click.option(
    "--share",
    type=Number(0, 1, min_open=True),
    default=0.1,
    help="At most this part of the budget goes to the results.",
)
@click.option("--may-be-empty", is_flag=True, help="An empty list is an answer, not a failure.")
@several("--tag", "tags", metavar="TAG", text="Tag what is added")
@max_period_option()
@robots_option(hidden=True)
@store_options
def query(
    name: str | None,
    url: str | None,
    terms: tuple[str, ...],
    tags: tuple[str, ...],
    max_period: str | None,
    no_robots: bool,
    common: Common,
    **rules: Any,
) -> None:
    """Track the results of the list at URL under a NAME of your choice; alone, list all queries.

    The list is a search page, a feed, a sitemap, or an answer in JSON. A new result, a changed one
    and a dropped one are events; `observant show NAME` shows them by rank.

    \b
    Examples:
      observant query
      observant query bees 'https://example.org/search?q=bees' --items '.result' --watch
      observant query papers https://example.org/feed.atom --top 25 --term 'change rate=3'
      observant query api https://example.org/api --items 'results[*]' --link url --date date
    """
    if not name:
        _list(common)
        return
    if not url:
        raise click.UsageError("URL is missing: of the list whose results are tracked")
    from observant.errors import InputError
    from observant.observer.program import add_sources, describe

    settings: dict[str, Any] = {
        "query": {key: value for key, value in rules.items() if value} | _terms(terms)
    }
    if max_period:
        settings["max_period"] = max_period
    if no_robots:
        settings["robots"] = False
    source = describe(url, kind="query", name=name, tags=tags, settings=settings)
    with common.opened(create=True) as (found, loaded):
        if not add_sources(found, loaded, [source]):
            raise InputError("there is a source of this name already", source=name)
    if common.as_json:
        print_json({"added": name})
        return
    click.echo(f"The results of {name} will be tracked.")
    check = common.next_command(f"check {name}")
    click.echo(f"Next: {check}, then observant show {name}")


def _list(common: Common) -> None:
    """The standing queries, and how many results each has."""
    from observant.store import SourceQuery

    with common.collected() as collection:
        rows = collection.sources.first(_MOST, SourceQuery(kind="query")).sources
        members = {row.name: collection.sources.members(row.name) for row in rows}
    if common.as_json:
        print_json([msgspec.to_builtins(row) | {"results": len(members[row.name])} for row in rows])
        return
    if not rows:
        click.echo("No standing queries yet; `observant query NAME URL` makes one.")
        return
    now = time.time()
    _print(
        ("query", "results", "last visit", "last change", "next visit", "state"),
        [
            (
                row.name,
                f"{len(members[row.name]):,}",
                ago(row.visited_at, now),
                ago(row.changed_at, now),
                due(row.due_at, now),
                failure(row.error, row.status) if row.failed_in_row else row.state,
            )
            for row in rows
        ],
    )


def print_results(members: Sequence[MemberItem]) -> None:
    """The results of a standing query by rank."""
    now = time.time()
    _print(
        ("rank", "title", "address", "dated", "result since", "dropped"),
        [
            (
                str(member.rank),
                member.title,
                member.url,
                ago(member.dated_at, now) if member.dated_at is not None else "",
                ago(member.first_at, now),
                ago(member.left_at, now) if member.left_at is not None else "",
            )
            for member in members
        ],
    )


def _print(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    cells = [tuple(wide_enough(cell, 60) for cell in row) for row in rows]
    print_table(columns, cells, words=set(columns) - {"rank", "results"}, pipe_width=200)


def _terms(terms: tuple[str, ...]) -> dict[str, Any]:
    from observant.errors import InputError

    found: dict[str, float] = {}
    for term in terms:
        words, equals, weight = term.rpartition("=")
        try:
            found[words if equals else term] = float(weight) if equals else 1.0
        except ValueError:
            raise InputError(f"a term is WORDS or WORDS=WEIGHT, not {term!r}") from None
    return {"terms": found} if found else {}
