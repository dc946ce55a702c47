"""Commands that care for a store: export, backup, restore, doctor."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from observant.cli.options import Group, since_option
from observant.cli.store_options import Common, place, store_options, tell_disabled

if TYPE_CHECKING:
    from observant.observer.config import Config


@click.group("store", cls=Group, short_help="Export, back up, restore and check the store.")
def store_group() -> None:
    """Care for the store: write its visits to a file, back it up, restore it, check it.

    \b
    Examples:
      observant store export visits.parquet
      observant store backup observant.backup
      observant store doctor
    """


@store_group.command("export", short_help="Write the visit log to a file.")
@click.argument("file", type=click.Path(dir_okay=False))
@since_option
@store_options
def export(file: str, since: str | None, common: Common) -> None:
    """Write the visit log to FILE: Parquet, CSV, JSON Lines or CDXJ by its ending.

    An ending of .atom writes the newest changes as a feed, .opml the sources as a list for feed
    readers. Visits may go on meanwhile.

    \b
    Examples:
      observant store export visits.parquet
      observant store export last-month.csv --since 30d
      observant store export changes.atom
      observant store export sources.opml
    """
    from pathlib import Path

    from observant.cli.console import print_json, progress_bar, when
    from observant.formats import write_lines
    from observant.formats.atom import atom_lines
    from observant.formats.opml import opml_lines
    from observant.units import counted

    begin = None if since is None else when("--since", since).timestamp()
    ending = Path(file).suffix.lower()
    with common.opened() as (found, _), progress_bar("writing", "visits") as advance:
        if ending == ".opml":
            what, rows = "source", found.sources.count()
            write_lines(opml_lines(found.sources.each()), file)
        elif ending == ".atom":
            log = found.visits.log(since=begin)
            what, rows = "visit", len(log.time)
            write_lines(atom_lines(log), file)
        else:
            what, rows = "visit", found.visits.export(file, since=begin, progress=advance)
    if common.as_json:
        print_json({"file": file, f"{what}s": rows})
    elif ending == ".atom":
        click.echo(f"The changes of {counted(rows, what)} written to {file}.")
    else:
        click.echo(f"{counted(rows, what)} written to {file}.")


@store_group.command("backup", short_help="Write the whole store to one file.")
@click.argument("file", type=click.Path(dir_okay=False))
@store_options
def backup(file: str, common: Common) -> None:
    """Write the whole store to a new FILE, while visits go on. A backup is a store itself.

    \b
    Examples:
      observant store backup copy.db
      observant list --store copy.db
    """
    with common.opened() as (found, _):
        size = found.backup(file)
    common.tell({"file": file, "bytes": size}, f"{size:,} bytes written to {file}.")


@store_group.command("restore", short_help="Fill a store from a backup.")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--replace", is_flag=True, help="Replace what is in a store that is not empty.")
@store_options
def restore(file: str, replace: bool, common: Common) -> None:
    """Fill the store from FILE, a backup of either engine. A bad file changes nothing.

    Sources in it that would run commands or read files are listed: they are not visited until
    the configuration file allows them.

    \b
    Examples:
      observant store restore copy.db --store new.db
      observant store restore copy.db --replace
    """
    from observant.units import counted

    made = common.new_file()
    try:
        with common.opened(create=True) as (found, loaded):
            visits = found.restore(file, replace=replace)
            disabled = tell_disabled(found, loaded)
    except BaseException:
        if made is not None:  # a bad backup leaves nothing behind
            for ending in ("", "-wal", "-shm"):
                Path(f"{made}{ending}").unlink(missing_ok=True)
        raise
    common.tell(
        {"store": place(loaded.store), "visits": visits, "disabled": disabled},
        f"{place(loaded.store)} now holds {counted(visits, 'visit')}.",
    )


@store_group.command("doctor", short_help="Is the store sound?")
@click.option("--repair", is_flag=True, help="Repair what can be repaired.")
@store_options
def doctor(repair: bool, common: Common) -> None:
    """Look for trouble in a store: damage, missing or orphaned snapshots, clock jumps.

    Prints what was found, whether there is a browser for pages that need one, and how many of the
    sources that name a hub (WebSub) are subscribed. Exits with 1 if there are errors that were not
    repaired.

    \b
    Examples:
      observant store doctor
      observant store doctor --repair
    """
    import msgspec

    from observant.cli.console import print_json
    from observant.units import counted

    with common.opened() as (found, loaded):
        findings = found.doctor(repair=repair)
        hubs = [one for one in found.websub.list() if one.wanted]
    if common.as_json:
        print_json([msgspec.to_builtins(finding) for finding in findings])
    elif not findings:
        click.echo(f"{place(loaded.store)} is sound.")
    else:
        for finding in findings:
            mended = " (mended)" if finding.repaired else ""
            click.echo(f"{finding.severity}: {finding.check}: {finding.message}{mended}")
            for example in finding.examples[:3]:
                click.echo(f"    {example}")
    if not common.as_json:
        click.echo(f"Browser: {_browser(loaded)}.")
        if hubs:
            active = sum(one.state == "active" for one in hubs)
            why = (
                "" if loaded.public_url else "; set public_url, the address at which hubs reach us"
            )
            click.echo(f"WebSub: {active:,} of {counted(len(hubs), 'source')} subscribed{why}.")
    if any(finding.severity == "error" and not finding.repaired for finding in findings):
        sys.exit(1)


def _browser(config: Config) -> str:
    """Whether pages can be rendered, and how safely."""
    from observant.observer.browser.settings import missing, unsandboxed

    if problem := missing(config.browser):
        return problem
    bare = unsandboxed(config.browser)
    return f"ready, without its sandbox ({bare})" if bare else "ready"
