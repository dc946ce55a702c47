"""`observant query`: standing queries, whose results are tracked."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click
import msgspec

from observant.cli.console import print_json, print_table, wide_enough
from observant.cli.options import Group, max_period_option, robots_option
from observant.cli.store_options import (
    ago,
    collected,
    due,
    opened,
    store_options,
)
from observant.cli.values import Choice, Integer, Number
from observant.names import RESULT_FORMS
from observant.observer.failures import failure

if TYPE_CHECKING:
    from observant.store import Store, StoredSource

__all__ = ["query"]

_MOST = 100_000
"""Queries to list."""


@click.group("query", cls=Group, short_help="Standing queries: lists whose results are tracked.")
def query() -> None:
    """Track the results of a list: a search page, a feed, a sitemap, an answer in JSON.

    A new result, a changed one and a dropped one are events. The results can be watched in turn.

    \b
    Examples:
      observant query add bees 'https://example.org/search?q=bees' --items '.result'
      observant query show bees
    """


@query.command("add")
@click.argument("name")
@click.argument("url")
@click.option(
    "--form",
    type=Choice(RESULT_FORMS),
    default="auto",
    show_default=True,
    help="What the list is.",
)
@click.option(
    "--items", default="", metavar="RULE", help="Where results stand: CSS, XPath, JMESPath."
)
@click.option("--link", default="", metavar="RULE", help="Their address, inside an item.")
@click.option("--title", default="", metavar="RULE", help="Their title, inside an item.")
@click.option("--date", default="", metavar="RULE", help="Their date, inside an item.")
@click.option(
    "--top",
    type=Integer(1, 1000),
    default=10,
    show_default=True,
    help="How many results are tracked, from the first.",
)
@click.option(
    "--term",
    "terms",
    multiple=True,
    metavar="TERM[=WEIGHT]",
    help="What matters in them; may be given again.",
)
@click.option("--watch", is_flag=True, help="Watch the results themselves, while they are results.")
@click.option(
    "--share",
    type=Number(0, 1, min_open=True),
    default=0.1,
    show_default=True,
    help="At most this part of the budget goes to the results.",
)
@click.option("--may-be-empty", is_flag=True, help="No result at all is an answer, not a failure.")
@click.option(
    "--tag", "tags", multiple=True, metavar="TAG", help="Tag what is added; may be given again."
)
@max_period_option
@robots_option
@store_options
def add(
    name: str,
    url: str,
    terms: tuple[str, ...],
    tags: tuple[str, ...],
    max_period: str | None,
    no_robots: bool,
    store: str | None,
    config: str | None,
    as_json: bool,
    **rules: Any,
) -> None:
    """Track the results of the list at URL, under a NAME of your choice.

    \b
    Examples:
      observant query add bees 'https://example.org/search?q=bees' --items '.result' --watch
      observant query add papers https://example.org/feed.atom --top 25 --term 'change rate=3'
      observant query add api https://example.org/api --items 'results[*]' --link url --date date
    """
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
    with opened(store, config, create=True) as (found, loaded):
        if not add_sources(found, loaded, [source]):
            raise InputError("there is a source of this name already", source=name)
    if as_json:
        print_json({"added": name})
        return
    click.echo(f"The results of {name} will be tracked.")
    click.echo(f"Next: observant check {name}, then observant query show {name}")


@query.command("list")
@store_options
def list_(store: str | None, config: str | None, as_json: bool) -> None:
    """List the standing queries, and how many results each has.

    \b
    Examples:
      observant query list
    """
    from observant.store import SourceQuery

    with collected(store, config) as collection:
        rows = collection.sources.first(_MOST, SourceQuery(kind="query")).sources
        members = {row.name: collection.sources.members(row.name) for row in rows}
    if as_json:
        print_json([msgspec.to_builtins(row) | {"results": len(members[row.name])} for row in rows])
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


@query.command("show")
@click.argument("name")
@click.option("--dropped", is_flag=True, help="Those that were results once, too.")
@store_options
def show(name: str, dropped: bool, store: str | None, config: str | None, as_json: bool) -> None:
    """Show the results of a standing query by rank.

    \b
    Examples:
      observant query show bees --dropped
    """
    with collected(store, config) as collection:
        row = collection.sources.row(_one(collection.store, name).name)
        members = collection.sources.members(row.name, left=dropped)
    if as_json:
        print_json(msgspec.to_builtins(row) | {"results": members})
        return
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


@query.command("remove")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@store_options
def remove(names: tuple[str, ...], store: str | None, config: str | None, as_json: bool) -> None:
    """Stop tracking queries. Results that were watched for them are not watched any more.

    \b
    Examples:
      observant query remove bees
    """
    from observant.units import counted

    with collected(store, config) as collection:
        rows = [_one(collection.store, name) for name in names]
        retired = sum(collection.sources.remove(row.id) for row in rows)
    if as_json:
        print_json({"removed": [row.name for row in rows], "retired": retired})
        return
    click.echo(f"removed: {', '.join(row.name for row in rows)}", nl=False)
    click.echo(f", with {counted(retired, 'watched result')}" if retired else "")


def _print(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    cells = [tuple(wide_enough(cell, 60) for cell in row) for row in rows]
    print_table(columns, cells, words=set(columns) - {"rank", "results"}, pipe_width=200)


def _one(store: Store, name: str) -> StoredSource:
    from observant.errors import InputError

    row = store.sources.find(name)
    if row.kind != "query":
        raise InputError("this is no standing query", source=row.name)
    return row


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
