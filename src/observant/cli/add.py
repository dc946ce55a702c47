"""`observant add`, `edit` and `preview`: what is to be watched, and what of it."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from observant.cli.options import (
    Setting,
    SettingCommand,
    allow_option,
    grace_option,
    is_file,
    max_period_option,
    min_period_option,
    robots_option,
    set_option,
    several,
    together,
)
from observant.cli.store_options import Common, ago, chosen, place, store_options
from observant.cli.values import ZONE, Choice, Integer, Number
from observant.errors import InputError
from observant.names import CHANGES, RENDER_MODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from observant.observer.config import Config
    from observant.service.answers import EditedSource
    from observant.service.collection import Collection
    from observant.store import Source, Store
    from observant.store.visit import Visit

setting = partial(click.option, cls=Setting)
rare = partial(setting, hidden=True)

_FAILED = 10
"""First visits that failed are named up to this number."""


_setting_options = together(
    click.option(
        "--title",
        metavar="TEXT",
        default="",
        show_default=False,
        help="A title for people to read.",
    ),
    setting(
        "--importance",
        type=Number(0),
        help="How much they matter.  [default: that of their tags, or 1]",
    ),
    min_period_option(cls=Setting),
    max_period_option(cls=Setting),
    setting("--css", metavar="RULE", help="Watch only what this CSS selector finds."),
    several("--ignore", option=setting, metavar="REGEX", text="Ignore this text"),
    several(
        "--when",
        "conditions",
        option=setting,
        metavar="CONDITION",
        text="Notify when this comes true, such as 'below 50' or 'in stock'",
    ),
    setting(
        "--render",
        type=Choice(RENDER_MODES),
        help="Look at the page with a browser.  [default: auto]",
    ),
    set_option,
    rare("--xpath", metavar="RULE", help="Watch only what this XPath finds."),
    rare("--jmespath", metavar="RULE", help="Watch only what this JMESPath finds."),
    rare("--jsonpath", metavar="RULE", help="Watch only what this JSONPath finds."),
    rare("--regex", metavar="RULE", help="Watch only what this regular expression finds."),
    several("--drop", option=rare, metavar="CSS", text="Leave these parts out"),
    rare("--change", type=Choice(CHANGES), help="What counts as a change.  [default: text]"),
    rare("--threshold", type=Number(0, 1), help="Least magnitude that counts."),
    several(
        "--mask",
        "masks",
        option=rare,
        metavar="CSS|BOX",
        text="Cover this in pictures, '#advert' or '0 40 1280 60'",
    ),
    several(
        "--step",
        "steps",
        option=rare,
        metavar="STEP",
        text="Do this on the page first, such as 'dismiss' or 'click #more'",
    ),
    several("--header", "headers", option=rare, metavar="NAME:VALUE", text="Send this along"),
    grace_option(
        text=True, shown="that of their tags, or of the collection", cls=Setting, hidden=True
    ),
    several(
        "--active", option=rare, metavar="HOURS", text="Visit only then: 'mon-fri 08:00-18:00'"
    ),
    rare("--timezone", type=ZONE, help="Time zone of these hours.  [default: UTC]"),
    rare(
        "--terms",
        type=Choice(("words", "stems", "phrases")),
        help="What the magnitude of a change counts.  [default: words]",
    ),
    rare(
        "--query-log",
        metavar="FILE",
        help="Weigh changed words by how often people ask for them: a query on each line.",
    ),
    rare(
        "--columns",
        type=Integer(0),
        help="Columns of a record that may differ before it counts; with change=columns.",
    ),
    rare("--confirm", type=Integer(0, 10), help="Further visits that must confirm it too."),
    robots_option(cls=Setting, hidden=True),
    click.option(
        "--preview",
        is_flag=True,
        help="Fetch it now and show the text that these settings select; nothing is kept.",
    ),
)
"""Every setting of a source, for `add` and `edit`."""


@click.command("add", cls=SettingCommand, short_help="Watch more sources.")
@click.argument("addresses", nargs=-1, metavar="[URL]...")
@click.option(
    "--file",
    "list_",
    metavar="LIST",
    help="Watch the addresses in this file, one per line, with tags after them; - is standard "
    "input.",
)
@click.option("--sitemap", metavar="URL", help="Watch every page that this sitemap lists.")
@click.option("--feed", metavar="URL", help="Watch the list of entries of this feed.")
@click.option(
    "--kind",
    metavar="NAME",
    help="What the addresses are: http, feed, sitemap, product, file, or a kind of a package."
    "  [default: what is found there; http in a list]",
)
@several("--tag", "tags", metavar="TAG", text="Tag what is added")
@click.option("--name", metavar="NAME", help="A name of your own, for one address.")
@_setting_options
@allow_option
@click.option("--update", is_flag=True, help="Give these settings also to what is watched already.")
@click.option("--later", is_flag=True, help="Leave the first visits to `observant serve`.")
@store_options
def add(
    addresses: tuple[str, ...],
    list_: str | None,
    sitemap: str | None,
    feed: str | None,
    kind: str | None,
    tags: tuple[str, ...],
    name: str | None,
    title: str,
    preview: bool,
    allow: tuple[str, ...],
    update: bool,
    later: bool,
    common: Common,
    **options: Any,
) -> None:
    """Watch more sources: pages, lists of pages, feeds, the pages of a sitemap.

    Sources that are watched already stay as they are; add says what would change, and changes it
    with --update. New sources are visited at once, politely and outside the budget. Prints how many
    are new, what is not a plain page (a feed, a sitemap, JSON, a PDF, a page that is empty without
    a browser), and what could not be read, with advice.

    \b
    Examples:
      observant add https://example.org/news --tag news --importance 3
      observant add --file addresses.txt --max-period 7d
      observant add --sitemap https://example.org/sitemap.xml --tag site
      observant add https://example.org/price --css '#price' --set change=text --preview
    """
    from observant.cli.console import print_json, progress_bar, wide_enough
    from observant.observer.permission import Permission
    from observant.observer.program import describe
    from observant.service.collection.entries import MOST_LOOKS
    from observant.units import counted

    if name and len(addresses) != 1:
        raise click.UsageError("--name goes with exactly one address")
    for address in addresses:
        if kind is None and is_file(address):
            raise click.UsageError(
                f"{address} is a file: --file {address} watches the addresses in it,"
                " --kind file the file itself"
            )
    settings = _settings(options)
    if preview:
        common = common._replace(store=":memory:") if common.new_file() else common
        with common.collected(create=True, allow=allow or None) as collection:
            _preview(collection, addresses, kind or "http", settings, common.as_json)
        return
    shared: dict[str, Any] = {"importance": settings.get("importance", 1.0), "settings": settings}

    def described(address: str, kind: str) -> Source:
        return describe(address, kind=kind, name=name or "", title=title, tags=tags, **shared)

    sources = [described(address, kind or "http") for address in addresses]
    if list_:
        listed = _listed(list_, kind or "http", tags, shared)
        if not listed:
            raise InputError("there is no address in this list; it has one a line", file=list_)
        sources += listed
    if feed:
        sources.append(describe(feed, kind="feed", title=title, tags=tags, **shared))
    if not sources and not sitemap:
        raise click.UsageError("nothing to add: give addresses, --file, --sitemap or --feed")
    with common.collected(create=True, allow=allow or None) as collection:
        found, loaded = collection.store, collection.given
        known = {*found.sources.known(source.name for source in sources)}
        new = [a for a, source in zip(addresses, sources, strict=False) if source.name not in known]
        looked = []
        if kind is None and not later and 0 < len(new) <= MOST_LOOKS:
            with progress_bar("first looks", "seen", len(new)) as advance:
                looked = collection.sources.recognise(new, trusted=True, advance=advance)
        kinds = {a: item.kind for a, item in zip(new, looked, strict=False)}
        given = [described(address, kinds.get(address, kind or "http")) for address in addresses]
        sources[: len(addresses)] = given
        if sitemap:
            pages = asyncio.run(_pages(loaded, sitemap))
            sources += [describe(page, tags=tags, **shared) for page in pages]
        sources = list({source.name: source for source in sources}.values())
        permission = Permission(loaded)
        for source in sources:
            permission.check(source)
            loaded.settings_of(source.tags, source.config, source.name, kind=source.kind)
        done = collection.sources.add_described(sources, update=update, trusted=True)
        try:
            visits = [] if later or not done.added else look_at_new(found, loaded)
            if not later:
                again = [source.name for source in sources[:MOST_LOOKS] if source.name in known]
                visits += look_again(found, loaded, again)
        except KeyboardInterrupt:  # click says that it stopped; this is what stays
            click.echo(
                f"{counted(done.added, 'source')} added to {place(loaded.store)}; "
                "the rest of the first visits is left to `observant serve`.",
                err=True,
            )
            raise
        pace = budget_in_words(found, loaded)
    if common.as_json:
        edited = [to_builtins(one) for one in done.edited]
        told = {"added": done.added, "known": done.known, "changed": done.changed}
        seen_there = [to_builtins(item) for item in looked]
        names = [source.name for source in sources]
        print_json({**told, "edited": edited, "sources": names, "found": seen_there})
        return
    for item in looked:
        if item.what not in {"", "page", "text"}:
            click.echo(f"  {wide_enough(item.url, 60)}: {item.words}", err=True)
    click.echo(f"{counted(done.added, 'source')} added to {place(loaded.store)}", nl=False)
    click.echo(f", {done.known:,} watched already." if done.known else ".")
    if done.edited:
        click.echo("Changed:" if update else "Not changed; --update would change:", err=True)
        tell_edits(done.edited, err=True)
    tell_first_visits(visits)
    if done.added:
        click.echo(f"Next: {common.next_command('serve', allow)}")
        if pace:
            click.echo(pace, err=True)


@click.command("edit", cls=SettingCommand, short_help="Change the settings of sources.")
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@click.option("--tag", metavar="TAG", help="All sources with this tag.")
@click.option("--add-tag", "add_tags", multiple=True, metavar="TAG", help="Tag them.")
@click.option("--remove-tag", "remove_tags", multiple=True, metavar="TAG", help="Untag them.")
@click.option(
    "--pause/--resume", "paused", default=None, help="Stop visiting them for a while, or go on."
)
@_setting_options
@click.option("--unset", multiple=True, hidden=True, help="As --set NAME= does.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@store_options
def edit(
    sources: tuple[str, ...],
    tag: str | None,
    add_tags: tuple[str, ...],
    remove_tags: tuple[str, ...],
    paused: bool | None,
    title: str,
    preview: bool,
    unset: tuple[str, ...],
    dry_run: bool,
    common: Common,
    **options: Any,
) -> None:
    """Change the settings of sources, and print what changed.

    SOURCE is its name, or a part of it that no other source has. What you give replaces what was
    there; everything else stays. --set NAME= removes a setting. --preview shows the effect without
    keeping anything.

    \b
    Examples:
      observant edit example.org/price --css '#price' --when 'below 50'
      observant edit --tag news --max-period 1d --add-tag daily
      observant edit example.org/price --set css= --preview
      observant edit --tag news --pause
    """
    from observant.cli.console import print_json
    from observant.service.collection import SourceChanges
    from observant.units import counted

    given: dict[str, Any] = {"patch": _settings(options) | _taken_away(unset)}
    if "importance" in given["patch"]:
        given["importance"] = given["patch"]["importance"] or 1.0
    if title:
        given["title"] = title
    if paused is not None:
        given["state"] = "paused" if paused else "active"
    changes = SourceChanges(add_tags=add_tags, remove_tags=remove_tags, **given)
    with common.collected() as collection:
        if preview:
            _preview(collection, sources, "http", given["patch"], common.as_json)
            return
        if changes == SourceChanges(patch={}):
            raise click.UsageError("say what to change, such as --css or --max-period")
        rows = chosen(collection.store, sources, tag)
        edited = collection.sources.edit(rows, changes, dry_run=dry_run, trusted=True)
    if common.as_json:
        print_json({"sources": len(rows), "edited": [to_builtins(one) for one in edited]})
        return
    done = "would be changed" if dry_run else "changed"
    left = len(rows) - len(edited)
    same = f", {left:,} as {'it was' if left == 1 else 'they were'}" if left else ""
    click.echo(f"{counted(len(edited), 'source')} {done}{same}.")
    tell_edits(edited)


def _preview(
    collection: Collection, sources: Sequence[str], kind: str, patch: dict[str, Any], as_json: bool
) -> None:
    """Fetch a page now and show what these settings take of it; nothing is kept.

    Of what is watched the other settings hold, and versions that are kept are tried too: which of
    them would have been a change?
    """
    from observant.cli.console import print_json
    from observant.errors import UnknownSourceError
    from observant.service.collection.entries import PreviewRequest, SourceChanges

    if len(sources) != 1:
        raise click.UsageError("--preview goes with exactly one source or address")
    changes = SourceChanges(patch=patch)
    try:
        row = collection.store.sources.find(sources[0])
        asked = PreviewRequest(source=row.id, changes=changes)
    except UnknownSourceError:
        asked = PreviewRequest(url=sources[0], kind=kind, changes=changes)
    seen = collection.sources.preview(asked, trusted=True)
    if as_json:
        print_json(to_builtins(seen))
        return
    click.echo(f"{seen.title or seen.source}", err=True)
    for change in seen.changes:
        click.echo(f"  {change}", err=True)
    for condition, met in seen.conditions.items():
        click.echo(f"  {condition}: {'yes, now' if met else 'not now'}", err=True)
    for version in seen.versions:
        verdict = "a change" if version.changed else "no change"
        at = ago(version.at.timestamp(), time.time())
        click.echo(f"  {at:>14}  {verdict}: {version.reason}", err=True)
    if seen.note:
        click.echo(f"  {seen.note}", err=True)
    if seen.problem:
        raise InputError(f"nothing would be taken: {seen.problem}", source=seen.source)
    click.echo(seen.text)


def tell_edits(edited: Sequence[EditedSource], *, err: bool = False) -> None:
    """Say what changed of each source; of alike ones once."""
    from observant.cli.console import wide_enough

    groups: dict[tuple[str, ...], list[str]] = {}
    for one in edited:
        groups.setdefault(tuple(map(str, one.changes)), []).append(one.source)
    for changes, names in list(groups.items())[:_FAILED]:
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        click.echo(f"  {wide_enough(names[0], 60)}{more}", err=err)
        for change in changes:
            click.echo(f"    {change}", err=err)
    if len(groups) > _FAILED:
        click.echo(f"  … and {len(groups) - _FAILED:,} more", err=err)


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


def look_again(store: Store, config: Config, names: Sequence[str]) -> list[Visit]:
    """Visit those of these sources again that no visit could read so far."""
    from observant.cli.console import progress_bar
    from observant.observer.loop import Observer

    rows = [store.sources.get(name) for name in names]
    unread = [r.name for r in rows if r.state == "active" and r.visits and r.good_at is None]
    if not unread:
        return []
    with progress_bar("first visits", "seen", len(unread)) as advance:

        async def look() -> list[Visit]:
            observer = Observer(store, config)
            return await observer.check_all(unread, lambda _: advance(1), firsts_only=True)

        return asyncio.run(look())


def tell_first_visits(visits: list[Visit]) -> None:
    """Say to standard error how the first visits went, and what helps where they failed."""
    from observant.units import counted

    failed = [visit for visit in visits if visit.outcome == "failed"]
    if visits:
        seen = len(visits) - len(failed)
        click.echo(f"Looked at {counted(len(visits), 'page')}: {seen:,} seen.", err=True)
    tell_failures((visit.source, visit.error, visit.status) for visit in failed)


def tell_failures(failed: Iterable[tuple[str, str | None, int | None]]) -> None:
    """Say to standard error which sources fail, why, and what helps: name, error and status."""
    from observant.cli.console import wide_enough
    from observant.observer.failures import failure, remedy

    every = list(failed)
    for name, error, status in every[:_FAILED]:
        helps = remedy(error, status)
        more = f" ({helps})" if helps else ""
        click.echo(f"  {wide_enough(name, 50)}: {failure(error, status)}{more}", err=True)
    if len(every) > _FAILED:
        click.echo(f"  … and {len(every) - _FAILED:,} more: observant list", err=True)


def budget_in_words(store: Store, config: Config) -> str:
    """Which pace was chosen, and how to change it; empty if somebody has said."""
    from observant.observer.settings import is_usual_budget, settings_of
    from observant.times import DAY
    from observant.units import counted, duration_in_words, format_duration, parse_duration

    chosen, sources = settings_of(store, config).config, store.sources.active()
    if not is_usual_budget(store, config):
        return ""
    per_day = chosen.budget_per_day
    shortest = parse_duration(chosen.settings_of((), {}).min_period)
    often = duration_in_words(shortest) if shortest * DAY >= 60 else format_duration(shortest)
    return (
        f"Pace: {per_day:,.0f} visits a day for {counted(sources, 'source')}, each at most every "
        f"{often.removeprefix('a ')}; --budget changes it."
    )


def _listed(file: str, kind: str, tags: tuple[str, ...], shared: dict[str, Any]) -> list[Source]:
    """Sources of a list: an address a line, then tags; # begins a comment."""
    from observant.cli.console import text_of
    from observant.observer.program import describe

    sources = []
    for row, line in enumerate(text_of(file).splitlines(), 1):
        words = line.replace(",", " ").split()
        if not words or words[0].startswith("#"):
            continue
        try:
            sources.append(describe(words[0], kind=kind, tags=(*tags, *words[1:]), **shared))
        except InputError as error:
            raise InputError(str(error), file=file, row=row) from error
    return sources


async def _pages(config: Config, sitemap: str) -> list[str]:
    from observant.observer.connections import make_transport
    from observant.observer.program import pages_of_sitemap

    async with make_transport(config) as transport:
        return await pages_of_sitemap(transport, sitemap)


def _taken_away(names: tuple[str, ...]) -> dict[str, Any]:
    """A patch without these settings.

    >>> _taken_away(("css", "max-period"))
    {'compare': {'css': None}, 'max_period': None}
    """
    from observant.observer.config import SourceSettings
    from observant.observer.content import Rules

    alike = {
        "when": "conditions",
        "header": "headers",
        "mask": "masks",
        "no_robots": "robots",
    }
    patch: dict[str, Any] = {}
    for name in names:
        key = name.lstrip("-").replace("-", "_")
        key = alike.get(key, key)
        if key in Rules.__struct_fields__ and key != "query":
            patch.setdefault("compare", {})[key] = None
        elif key in SourceSettings.__struct_fields__:
            patch[key] = None
        else:
            raise InputError(f"there is no setting {name!r} to take away")
    return patch


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """What was given, in the form of the configuration file."""
    rules = ("css", "xpath", "jmespath", "jsonpath", "regex", "drop", "ignore", "change", "terms")
    more = ("conditions", "masks", "threshold", "columns", "confirm")
    compare = {key: options[key] for key in (*rules, *more) if options[key]}
    plain = ("render", "steps", "min_period", "max_period", "grace", "active", "timezone")
    settings = {key: options[key] for key in plain if options[key]}
    if options["importance"] is not None:
        settings["importance"] = options["importance"]
    if options["query_log"]:
        from observant.cli.console import text_of
        from observant.observer.content.record import query_weights

        weights = query_weights(text_of(options["query_log"]).splitlines())
        if not weights:
            raise InputError("has no query", file=options["query_log"])
        compare |= {"change": "query", "query": weights}
    for key in ("drop", "ignore", "conditions", "masks"):
        if key in compare:
            compare[key] = list(compare[key])
    for key in {"active", "steps"} & {*settings}:
        settings[key] = list(settings[key])
    if compare:
        settings["compare"] = compare
    if options["no_robots"]:
        settings["robots"] = False
    if options["headers"]:
        from observant.observer.transport.headers import header_lines

        settings["headers"] = header_lines(options["headers"])
    return settings
