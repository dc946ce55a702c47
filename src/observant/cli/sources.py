"""Commands about the sources of a store: list, show, diff, remove."""

from __future__ import annotations

import shutil
import textwrap
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from observant.cli.options import limit_option
from observant.cli.store_options import (
    Common,
    ago,
    chosen,
    due,
    seconds,
    store_options,
    tell_remedies,
)
from observant.cli.values import Choice, Integer
from observant.names import DIFFS, SORTS, STATES
from observant.times import iso

if TYPE_CHECKING:
    from observant.service.answers import SourceRow
    from observant.store import StoredSource

NOT_PLANNED = "not planned"

_tag_option = click.option("--tag", metavar="TAG", help="Only sources with this tag.")


@click.command("list", short_help="Which sources are watched?")
@click.argument("search", required=False)
@_tag_option
@click.option("--host", metavar="HOST", help="Only sources of this host.")
@click.option("--state", type=Choice(STATES), help="Only those in this state.")
@click.option("--sort", type=Choice(SORTS), default="name", help="Order of the rows.")
@click.option("--descending", is_flag=True, help="Largest or latest first.")
@limit_option
@store_options
def list_(
    search: str | None,
    tag: str | None,
    host: str | None,
    state: str | None,
    sort: str,
    descending: bool,
    limit: int,
    common: Common,
) -> None:
    """List sources: how often they change, how often they were visited, when they are due.

    SEARCH is a part of the name or the title.

    \b
    Examples:
      observant list example.org
      observant list --tag news --sort rate --descending
    """
    from observant.cli.console import print_json
    from observant.store import SourceQuery

    only: dict[str, Any] = {"search": search, "tag": tag, "host": host, "state": state}
    order: dict[str, Any] = {"sort": sort, "descending": descending, "limit": min(limit, 1000)}
    if common.as_json:
        with common.collected() as collection:
            print_json(collection.sources.first(limit, SourceQuery(**only, **order)))
        return
    with common.opened() as (found, _):
        rows = list(islice(found.sources.each(**only, **order), limit))
        total = found.sources.count(**only)
    if not rows:
        click.echo("No source fits." if any(only.values()) else "Nothing is watched yet.")
        return
    _print_table(rows)
    if total > len(rows):
        click.echo(f"{len(rows):,} of {total:,}; --limit shows more.")
    if any(_next_visit(row, 0.0) == NOT_PLANNED for row in rows):
        click.echo(
            f"{NOT_PLANNED}: the next visits are planned as soon as an observer runs "
            "(observant serve, or observant run)",
            err=True,
        )
    tell_remedies((row.error, row.status) for row in rows if row.failed_in_row)


@click.command("show", short_help="Everything about one source.")
@click.argument("source")
@click.option(
    "--visits", "number", type=Integer(0), default=10, help="How many of its last visits to show."
)
@click.option("--dropped", is_flag=True, help="For a query: also show former results.")
@store_options
def show(source: str, number: int, dropped: bool, common: Common) -> None:
    """Show a source: its rate, its next visit and the reason for it, and its last visits.

    SOURCE is its name, or a part of it that no other source has. For a standing query the results
    are shown too, by rank.

    \b
    Examples:
      observant show example.org/news
      observant show bees --dropped
    """
    import msgspec

    from observant.cli.console import print_json
    from observant.observer.failures import remedy
    from observant.units import counted, format_rate

    with common.collected() as collection:
        name = collection.store.sources.find(source).name
        detail = collection.sources.get(name)
        visits = collection.sources.visits(name, limit=number).visits if number else []
        is_query = detail.source.kind == "query"
        members = collection.sources.members(name, left=dropped) if is_query else []
    row = detail.source
    if common.as_json:
        answer = msgspec.to_builtins(detail) | ({"results": members} if is_query else {})
        print_json(answer.pop("source") | answer | {"last_visits": msgspec.to_builtins(visits)})
        return
    now = time.time()
    lines = {
        "source": row.name,
        "title": row.title,
        "kind": row.kind,
        "tags": ", ".join(row.tags),
        "state": _state(row, now),
        "what helps": remedy(row.error, row.status) if row.failed_in_row else "",
        "importance": f"{detail.in_force['importance']:g}",
        "rate": "not known yet"
        if not row.good_at or row.rate is None or row.rate_low is None or row.rate_high is None
        else f"{format_rate(row.rate)}, 95 % from {format_rate(row.rate_low)} "
        f"to {format_rate(row.rate_high)}",
        "visits": f"{row.visits:,}, {counted(row.changes, 'change')}, {row.failures:,} failed",
        "last visit": ago(row.visited_at, now),
        "last change": ago(row.changed_at, now),
        "next visit": _next_visit(row, now),
        "versions kept": f"{detail.versions:,}",
        "noisy": detail.noisy,
        "proposal": f"observant edit {row.name} --ignore '{detail.proposal}'"
        * bool(detail.proposal),
    }
    for label, text in lines.items():
        if text:
            click.echo(f"{label:>14}  {text}")
    click.echo()
    click.echo(textwrap.fill(detail.why, width=min(shutil.get_terminal_size().columns, 100)))
    if visits:
        click.echo()
    for visit in visits:
        said, status = visit.reason or visit.error or "", visit.status or ""
        click.echo(f"{ago(visit.started_at, now):>14}  {visit.outcome:<11} {status!s:<4} {said}")
    if members:
        from observant.cli.query import print_results

        click.echo()
        print_results(members)


@click.command("diff", short_help="What changed between two versions?")
@click.argument("source")
@click.option(
    "--from", "back", type=Integer(1), default=1, help="How many versions ago the older one is."
)
@click.option(
    "--to",
    type=Integer(0),
    default=0,
    help="How many versions ago the newer one is; 0 is the latest.",
)
@click.option("--by", type=Choice(DIFFS), default="auto", help="What is compared.")
@store_options
def diff(
    source: str,
    back: int,
    to: int,
    by: str,
    common: Common,
) -> None:
    """Show what changed between two kept versions of a source, by default the last two.

    SOURCE is its name, or a part of it that no other source has.

    \b
    Examples:
      observant diff example.org/news
      observant diff example.org/news --from 5 --by words
    """
    from observant.cli.console import print_json
    from observant.errors import InputError
    from observant.units import counted

    with common.collected() as collection:
        name = collection.store.sources.find(source).name
        needed = max(back, to) + 1
        versions = collection.store.snapshots.versions(name, limit=needed)
        if len(versions) < needed:
            kept = counted(len(versions), "version")
            raise InputError(
                f"there is nothing to compare yet: {kept} kept, {needed} needed", source=name
            )
        answer = collection.sources.diff(
            name, versions[back].digest.hex(), versions[to].digest.hex(), by=by
        )
    if common.as_json:
        print_json(answer)
        return
    click.echo(f"--- {name} {iso(answer.old.at)}\n+++ {name} {iso(answer.new.at)}")
    click.echo(answer.text)


@click.command("remove", short_help="Stop watching sources.")
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@click.option("--tag", metavar="TAG", help="All sources with this tag.")
@click.option("--forget", is_flag=True, help="Delete their visits and versions as well.")
@store_options
def remove(
    sources: tuple[str, ...],
    tag: str | None,
    forget: bool,
    common: Common,
) -> None:
    """Stop watching sources. Their visits stay in the log, unless --forget.

    Removing a standing query also removes the results that were watched for it.

    \b
    Examples:
      observant remove example.org/news
      observant remove --tag old --forget
    """
    from observant.cli.console import print_json
    from observant.service.collection import BulkChange
    from observant.units import counted

    with common.collected() as collection:
        rows = chosen(collection.store, sources, tag)
        queries = [row.id for row in rows if row.kind == "query"]
        retired = sum(collection.sources.remove(id_, forget=forget) for id_ in queries)
        gone = tuple(row.id for row in rows if row.kind != "query")
        if gone:
            collection.sources.bulk(BulkChange(action="remove", ids=gone), forget=forget)
    if common.as_json:
        print_json({"removed": [row.name for row in rows], "retired": retired})
    else:
        watched = f", with {counted(retired, 'watched result')}" if retired else ""
        click.echo(f"{counted(len(rows), 'source')} removed{watched}.")


def _next_visit(row: StoredSource | SourceRow, now: float) -> str:
    if row.state == "paused":
        return "paused"
    good, planned = seconds(row.good_at), seconds(row.due_at)
    is_planned = good is None or (planned or 0.0) > good
    return due(planned, now) if is_planned else NOT_PLANNED


def _state(row: StoredSource | SourceRow, now: float) -> str:
    from observant.observer.failures import state_in_words

    given = row.state, row.error, row.status, row.failed_in_row, seconds(row.good_at)
    return state_in_words(*given, now)


def _print_table(rows: list[StoredSource]) -> None:
    from observant.cli.console import print_table, wide_enough
    from observant.units import format_rate

    now = time.time()
    cells = []
    for row in rows:
        known = row.good_at and None not in {row.rate, row.rate_low, row.rate_high}
        cells.append(
            (
                wide_enough(row.name, 44),
                format_rate(row.rate or 0) if known else "?",
                f"{format_rate(row.rate_low or 0)} to {format_rate(row.rate_high or 0)}"
                if known
                else "",
                f"{row.visits:,}",
                f"{row.changes:,}",
                ago(row.changed_at, now),
                _next_visit(row, now),
                _state(row, now),
            )
        )
    print_table(
        (
            *("source", "rate", "95 % interval", "visits", "changes"),
            *("last change", "next visit", "state"),
        ),
        cells,
        words={"95 % interval", "state"},
        least=("95 % interval", "last change", "visits", "changes"),
        pipe_width=160,
    )
