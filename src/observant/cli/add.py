"""`observant add`: what is to be watched."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from observant.cli.options import (
    allow_option,
    grace_option,
    max_period_option,
    min_period_option,
    robots_option,
)
from observant.cli.store_options import opened, place, store_options
from observant.cli.values import ZONE, Choice, Integer, Number
from observant.names import CHANGES, RENDER_MODES

if TYPE_CHECKING:
    from observant.observer.config import Config
    from observant.store import Source, Store
    from observant.store.visit import Visit

__all__ = ["add", "budget_in_words"]

_FAILED = 10
"""First visits that failed are named up to this number."""


@click.command("add", short_help="Watch more sources.")
@click.argument("addresses", nargs=-1, metavar="[URL]...")
@click.option(
    "--file",
    "list_",
    metavar="LIST",
    help="Watch the addresses in this file, one a line, tags behind them; - is standard input.",
)
@click.option("--sitemap", metavar="URL", help="Watch every page that this sitemap lists.")
@click.option("--feed", metavar="URL", help="Watch the list of entries of this feed.")
@click.option(
    "--kind",
    metavar="NAME",
    default="http",
    show_default=True,
    help="What the addresses are: http, feed, sitemap, product, file, or a kind of a package.",
)
@click.option(
    "--tag", "tags", multiple=True, metavar="TAG", help="Tag what is added; may be given again."
)
@click.option(
    "--importance",
    type=Number(0),
    help="Their weight.  [default: that of their tags, or 1]",
)
@click.option("--name", metavar="NAME", help="A name of your own, for one address.")
@click.option("--title", metavar="TEXT", default="", help="What people call it.")
@min_period_option
@max_period_option
@grace_option(text=True, shown="that of their tags, or of the collection")
@click.option(
    "--active",
    multiple=True,
    metavar="HOURS",
    help="Visit only then: 'mon-fri 08:00-18:00'; may be given again.",
)
@click.option("--timezone", type=ZONE, help="Time zone of these hours.  [default: UTC]")
@click.option("--css", metavar="RULE", help="Watch only what this CSS selector finds.")
@click.option("--xpath", metavar="RULE", help="Watch only what this XPath finds.")
@click.option("--jmespath", metavar="RULE", help="Watch only what this JMESPath finds.")
@click.option("--jsonpath", metavar="RULE", help="Watch only what this JSONPath finds.")
@click.option("--regex", metavar="RULE", help="Watch only what this regular expression finds.")
@click.option(
    "--drop", multiple=True, metavar="CSS", help="Leave these parts out; may be given again."
)
@click.option(
    "--ignore", multiple=True, metavar="REGEX", help="Leave this text out; may be given again."
)
@click.option(
    "--change",
    type=Choice(CHANGES),
    help="What counts as a change.  [default: text]",
)
@click.option(
    "--when",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Tell when this comes true, such as 'below 50' or 'in stock'; may be given again.",
)
@click.option(
    "--render",
    type=Choice(RENDER_MODES),
    help="Look at the page with a browser.  [default: auto]",
)
@click.option(
    "--terms",
    type=Choice(("words", "stems", "phrases")),
    help="What the magnitude of a change counts.  [default: words]",
)
@click.option(
    "--query-log",
    metavar="FILE",
    help="Weigh changed words by how often people ask for them: a query on each line.",
)
@click.option("--threshold", type=Number(0, 1), help="Least magnitude that counts.")
@click.option(
    "--columns",
    type=Integer(0),
    help="Columns of a record that may differ before it counts; with --change columns.",
)
@click.option("--confirm", type=Integer(0, 10), help="Further visits that must see it too.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME:VALUE",
    help="Send this along; may be given again.",
)
@robots_option
@allow_option
@click.option("--later", is_flag=True, help="Leave the first visits to `observant serve`.")
@store_options
def add(
    addresses: tuple[str, ...],
    list_: str | None,
    sitemap: str | None,
    feed: str | None,
    kind: str,
    tags: tuple[str, ...],
    importance: float | None,
    name: str | None,
    title: str,
    allow: tuple[str, ...],
    later: bool,
    store: str | None,
    config: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Watch more sources: pages, lists of them, feeds, the pages of a sitemap.

    What is watched already stays as it is. New sources are looked at at once, politely and outside
    the budget; what cannot be seen is said with what helps. Prints how many are new.

    \b
    Examples:
      observant add https://example.org/news --tag news --importance 3
      observant add --file addresses.txt --max-period 7d
      observant add --sitemap https://example.org/sitemap.xml --tag site
      observant add https://example.org/price --css '#price' --change text
    """
    from observant.cli.console import print_json
    from observant.observer.permission import Permission
    from observant.observer.program import add_sources, describe
    from observant.units import counted

    if name and len(addresses) != 1:
        raise click.UsageError("--name goes with exactly one address")
    settings = _settings(options)
    if importance is not None:
        settings["importance"] = importance
    common: dict[str, Any] = {"importance": settings.get("importance", 1.0), "settings": settings}
    sources = [
        describe(address, kind=kind, name=name or "", title=title, tags=tags, **common)
        for address in addresses
    ]
    if list_:
        sources += _listed(list_, kind, tags, common)
    if feed:
        sources.append(describe(feed, kind="feed", title=title, tags=tags, **common))
    if not sources and not sitemap:
        raise click.UsageError("nothing to add: give addresses, --file, --sitemap or --feed")
    with opened(store, config, create=True, allow=allow or None) as (found, loaded):
        if sitemap:
            pages = asyncio.run(_pages(loaded, sitemap))
            sources += [describe(page, tags=tags, **common) for page in pages]
        sources = list({source.name: source for source in sources}.values())
        permission = Permission(loaded)
        for source in sources:
            permission.check(source)
        added = add_sources(found, loaded, sources)
        visits = [] if later or not added else look_at_new(found, loaded)
        pace = budget_in_words(found, loaded)
    if as_json:
        known = len(sources) - added
        print_json({"added": added, "known": known, "sources": [s.name for s in sources]})
        return
    click.echo(f"{counted(added, 'source')} added to {place(loaded.store)}", nl=False)
    known = len(sources) - added
    click.echo(f", {known:,} watched already." if known else ".")
    if added:
        tell_first_visits(visits)
        click.echo("Next: observant serve")
        if pace:
            click.echo(pace, err=True)


def look_at_new(store: Store, config: Config) -> list[Visit]:
    """Visit sources that were never visited, unless an observer that runs does that."""
    from observant.cli.console import progress_bar
    from observant.observer.loop import Observer

    waiting = min(store.sources.unseen(), config.first_visits)
    if not waiting:
        return []
    visits: list[Visit] = []
    with progress_bar("first visits", "seen", waiting) as advance:

        def on_visit(visit: Visit) -> None:
            visits.append(visit)
            advance(1)

        async def look() -> None:
            await Observer(store, config).run(firsts_only=True, on_visit=on_visit)

        asyncio.run(look())
    return visits


def tell_first_visits(visits: list[Visit]) -> None:
    """Say to standard error how the first visits went, and what helps where they failed."""
    from observant.cli.console import wide_enough
    from observant.observer.failures import failure, remedy
    from observant.units import counted

    failed = [visit for visit in visits if visit.outcome == "failed"]
    if visits:
        seen = len(visits) - len(failed)
        click.echo(f"Looked at {counted(len(visits), 'page')}: {seen:,} seen.", err=True)
    for visit in failed[:_FAILED]:
        helps = remedy(visit.error, visit.status)
        click.echo(
            f"  {wide_enough(visit.source, 50)}: {failure(visit.error, visit.status)}"
            + (f" ({helps})" if helps else ""),
            err=True,
        )
    if len(failed) > _FAILED:
        click.echo(f"  … and {len(failed) - _FAILED:,} more: observant list", err=True)


def budget_in_words(store: Store, config: Config) -> str:
    """Which pace was chosen, and how to change it; empty if somebody has said."""
    from observant.observer.settings import is_usual_budget, settings_of
    from observant.units import counted, duration_in_words, parse_duration

    chosen, sources = settings_of(store, config).config, store.sources.active()
    if not is_usual_budget(store, config):
        return ""
    per_day = chosen.budget_per_day
    shortest = parse_duration(chosen.settings_of((), {}).min_period)
    return (
        f"Pace: {per_day:,.0f} visits a day for {counted(sources, 'source')}, each at most every "
        f"{duration_in_words(shortest)}; --budget changes it."
    )


def _listed(file: str, kind: str, tags: tuple[str, ...], common: dict[str, Any]) -> list[Source]:
    """Sources of a list: an address a line, then tags; # begins a comment."""
    from observant.cli.console import text_of
    from observant.errors import InputError
    from observant.observer.program import describe

    sources = []
    for row, line in enumerate(text_of(file).splitlines(), 1):
        words = line.replace(",", " ").split()
        if not words or words[0].startswith("#"):
            continue
        try:
            sources.append(describe(words[0], kind=kind, tags=(*tags, *words[1:]), **common))
        except InputError as error:
            raise InputError(str(error), file=file, row=row) from error
    return sources


async def _pages(config: Config, sitemap: str) -> list[str]:
    from observant.observer.connections import make_transport
    from observant.observer.program import pages_of_sitemap

    async with make_transport(config) as transport:
        return await pages_of_sitemap(transport, sitemap)


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """What was given, in the form of the configuration file."""
    from observant.errors import InputError

    rules = ("css", "xpath", "jmespath", "jsonpath", "regex", "drop", "ignore", "change", "terms")
    more = ("conditions", "threshold", "columns", "confirm")
    compare = {key: options[key] for key in (*rules, *more) if options[key]}
    plain = ("render", "min_period", "max_period", "grace", "active", "timezone")
    settings = {key: options[key] for key in plain if options[key]}
    if options["query_log"]:
        from observant.cli.console import text_of
        from observant.observer.content.record import query_weights

        weights = query_weights(text_of(options["query_log"]).splitlines())
        if not weights:
            raise InputError("has no query", file=options["query_log"])
        compare |= {"change": "query", "query": weights}
    for key in ("drop", "ignore", "conditions"):
        if key in compare:
            compare[key] = list(compare[key])
    if "active" in settings:
        settings["active"] = list(settings["active"])
    if compare:
        settings["compare"] = compare
    if options["no_robots"]:
        settings["robots"] = False
    headers = {}
    for header in options["headers"]:
        key, colon, value = header.partition(":")
        if not colon or not key.strip():
            raise InputError(f"a header is NAME:VALUE, not {header!r}")
        headers[key.strip()] = value.strip()
    if headers:
        settings["headers"] = headers
    return settings
