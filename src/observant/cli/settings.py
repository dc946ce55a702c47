"""`observant settings`: what was set while it ran, and everything that was entered as one file."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from observant.cli.options import Group, budget_option, grace_option, objective_option, rows_option
from observant.cli.store_options import Common, store_options, tell_disabled
from observant.cli.values import DURATION
from observant.times import DAY

if TYPE_CHECKING:
    from observant.formats.accesses import Accesses
    from observant.service.collection import Collection


@click.group(
    "settings",
    cls=Group,
    invoke_without_command=True,
    short_help="Budget, objective and grace; everything entered, out and in.",
)
@store_options
@click.pass_context
def settings(ctx: click.Context, common: Common) -> None:
    """Show the settings in force, change them, and export or import everything entered.

    Those marked as kept were changed at run time, and are in the store.

    \b
    Examples:
      observant settings
      observant settings change --budget 5000/day
      observant settings importance access.log
      observant settings export mine.json
    """
    if ctx.invoked_subcommand is not None:
        return
    import msgspec

    from observant.cli.console import print_json
    from observant.service.collection.currency import hours_in_words

    with common.collected() as collection:
        view, hours = collection.settings.get(), collection.currency.hours()
    if common.as_json:
        print_json(msgspec.to_builtins(view) | {"hours": hours})
        return
    for name in ("budget", "objective", "grace", "retention", "host_delay", "downloaders"):
        mark = "  (kept)" if name in view.kept else ""
        shown = _retention(view.retention) if name == "retention" else getattr(view, name)
        click.echo(f"{name:>12}  {shown}{mark}")
    if told := hours_in_words(hours):
        click.echo(told)
    for name, reason in view.refused.items():
        click.echo(f"the {name} that is kept cannot be used: {reason}", err=True)


_LIMITS = {
    "max_age": "up to {} old",
    "max_versions": "at most {:,} of each source",
    "max_bytes": "at most {:,} bytes in all",
}


def _retention(limits: dict[str, Any]) -> str:
    """Which versions are kept, in words.

    >>> _retention({"max_age": "90d", "max_versions": 50}), _retention({})
    ('versions up to 90d old, at most 50 of each source', 'all versions')
    """
    told = [_LIMITS[name].format(limit) for name, limit in limits.items() if limit is not None]
    return f"versions {', '.join(told)}" if told else "all versions"


@settings.command("change", short_help="Change settings, with effect on running observers.")
@budget_option()
@objective_option()
@grace_option(text=True)
@click.option("--forget", is_flag=True, help="Go back to what the configuration file says.")
@store_options
def change(
    budget: str | None,
    objective: str | None,
    grace: str | None,
    forget: bool,
    common: Common,
) -> None:
    """Change settings; running observers take them up within seconds.

    Prints the settings then in force.

    \b
    Examples:
      observant settings change --budget 5000/day --grace 6h
    """
    import msgspec

    from observant.observer.settings import SettingsChanges

    given = {"budget": budget, "objective": objective, "grace": grace}
    if not forget and not any(given.values()):
        raise click.UsageError("give --budget, --objective, --grace or --forget")
    told: dict[str, str | None] = dict.fromkeys((*given, "retention")) if forget else {}
    told |= {name: value for name, value in given.items() if value is not None}
    with common.collected() as collection:
        view = collection.settings.change(msgspec.convert(told, SettingsChanges))
    common.tell(
        msgspec.to_builtins(view),
        f"budget {view.budget}, objective {view.objective}, grace {view.grace}",
    )


@settings.command("importance", short_help="Weight sources by how often people ask for them.")
@click.argument("files", nargs=-1, required=True, metavar="LOG...")
@click.option(
    "--site",
    metavar="HOST",
    default="",
    show_default=False,
    help="The host the log belongs to, if its lines name none.",
)
@click.option("--robots", is_flag=True, help="Count clients that call themselves robots too.")
@click.option("--follow", is_flag=True, help="Keep reading lines as they are added, until stopped.")
@click.option(
    "--refresh",
    type=DURATION.above_zero(),
    default="5min",
    help="With --follow: how often the importance is updated.",
)
@click.option(
    "--half-life",
    type=DURATION.above_zero(),
    default="30d",
    help="With --follow: after this long an access weighs half.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@rows_option
@store_options
def importance(
    files: tuple[str, ...],
    site: str,
    robots: bool,
    follow: bool,
    refresh: float,
    half_life: float,
    dry_run: bool,
    rows: int,
    common: Common,
) -> None:
    """Weight the watched sources by how often people ask for them, according to access LOGs.

    A LOG is in the common or the combined format (Apache, nginx), or has one JSON object per line
    (nginx, Caddy, Traefik); .gz, .zst and .bz2 are read, - is standard input. An access is a
    successful GET, robots left out. Rates of access are pooled, so a source that nobody asked for
    still counts a little. The mean importance of the site's sources becomes 1.

    \b
    Examples:
      observant settings importance /var/log/nginx/access.log*
      observant settings importance access.log --site example.org --follow
    """
    from observant.cli.console import print_json, print_table

    with common.collected() as collection:
        accesses = collection.sources.accesses(site, robots=robots)
        if follow:
            _follow(collection, accesses, files, refresh, half_life)
            return
        accesses.read(files)
        weights = collection.sources.weigh(accesses, dry_run=dry_run)
    counted_ = dict(zip(accesses.sources, accesses.counts.tolist(), strict=True))
    told = {
        "lines": accesses.lines,
        "accesses": int(accesses.counts.sum()),
        "elsewhere": accesses.elsewhere,
        "robots": accesses.robots,
        "refused": accesses.refused,
        "malformed": accesses.malformed,
        "days": accesses.days,
    }
    most = sorted(weights.items(), key=lambda item: -item[1])
    if common.as_json:
        print_json({**told, "sources": [{"source": n, "importance": w} for n, w in most]})
        return
    shown = [(n, f"{counted_.get(n, 0.0):,.0f}", f"{w:.4g}") for n, w in most[:rows]]
    print_table(("source", "accesses", "importance"), shown)
    if len(most) > rows:
        click.echo(f"… and {len(most) - rows:,} more (--rows)")
    click.echo(
        f"{told['accesses']:,} accesses in {accesses.days:.3g} days, of {accesses.lines:,} lines; "
        f"left out: {accesses.robots:,} of robots, {accesses.refused:,} not answered, "
        f"{accesses.elsewhere:,} of other pages, {accesses.malformed:,} that cannot be read"
    )
    if dry_run:
        click.echo("nothing was set")


def _follow(
    collection: Collection, accesses: Accesses, logs: tuple[str, ...], refresh: float, half: float
) -> None:
    """Weigh the sources anew from time to time, until somebody stops it."""
    from observant.formats.accesses import LogEnd

    ends = [LogEnd(Path(log)) for log in logs]
    while True:
        for end in ends:
            for block in end.news():
                accesses.add_block(block)
        if accesses.counts.any():
            weights = collection.sources.weigh(accesses)
            click.echo(f"{accesses.lines:,} lines so far; {len(weights):,} sources weighed")
        time.sleep(refresh * DAY)
        accesses.fade(0.5 ** (refresh / half))


@settings.command("export", short_help="Write everything that was entered to one JSON file.")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--mask", is_flag=True, help="Leave out passwords, headers and channels.")
@store_options
def export(file: str, mask: bool, common: Common) -> None:
    """Write everything that was entered to one JSON FILE; - is standard output.

    That is the sources with their settings, the subscriptions and the settings. The file may hold
    secrets, so only you can read it.

    \b
    Examples:
      observant settings export mine.json
      observant settings export - --mask
    """
    import msgspec

    from observant.errors import InputError
    from observant.units import counted

    with common.collected() as collection:
        document = collection.document.export(secrets=not mask)
    text = msgspec.json.format(msgspec.json.encode(document), indent=2)
    if file == "-":
        sys.stdout.buffer.write(text + b"\n")
        return
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError("there is a file already; it is not written over", file=file) from None
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=file) from error
    with os.fdopen(handle, "wb") as opened_file:
        opened_file.write(text + b"\n")
    common.tell(
        {"file": file, "sources": len(document.sources)},
        f"{counted(len(document.sources), 'source')} written to {file}",
    )


@settings.command("import")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@store_options
def import_(file: str, common: Common) -> None:
    """Import a FILE that was exported, or - for standard input.

    New sources are added, known ones updated. Importing twice is the same as importing once.
    Prints how many of each, and which sources are not visited until the configuration allows them.

    \b
    Examples:
      observant settings import mine.json
    """
    import msgspec

    from observant.cli.console import print_json
    from observant.errors import InputError
    from observant.service.collection.export import CollectionDocument

    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        document = msgspec.json.decode(text, type=CollectionDocument)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"this is not an export of observant: {error}", file=file) from error
    with common.collected(create=True) as collection:
        told = collection.document.import_(document, trusted=True)
        disabled = tell_disabled(collection.store, collection.given)
    if common.as_json:
        print_json({**msgspec.to_builtins(told), "disabled": disabled})
        return
    click.echo(f"{told.added} added, {told.changed} changed, {told.known} as they were")
    for refused in told.refused:
        click.echo(f"refused: {refused.what}: {refused.reason}", err=True)
