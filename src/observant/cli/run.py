"""`observant run` and `observant check`: visit the sources."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import contextmanager, nullcontext
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

import click

from observant.cli.add import budget_in_words, tell_failures
from observant.cli.options import (
    allow_option,
    budget_option,
    contact_option,
    grace_option,
    log_option,
    objective_option,
    sampling_option,
    verbose_option,
)
from observant.cli.store_options import Common, due, picked, place, store_options, tell_remedies
from observant.cli.values import DURATION, Integer
from observant.times import DAY, iso
from observant.units import counted, format_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from observant.observer.metrics import Status
    from observant.store.visit import Visit

FOUND_CHANGES = 10
"""Exit code of --exit-code when something changed."""
FAILED = 11
"""And when nothing has, and a visit failed."""


@click.command("run", short_help="Watch all sources within a budget.")
@budget_option("grows with the sources")
@objective_option(shown="freshness")
@grace_option(text=True, shown="0d")
@click.option("--for", "for_", type=DURATION, help="Stop after this time, as in 10min.")
@click.option("--visits", type=Integer(1), help="Stop after this many visits.")
@sampling_option
@allow_option
@contact_option
@click.option(
    "--metrics", metavar="FILE|PORT", help="OpenMetrics: a file, or a port on this machine."
)
@log_option
@verbose_option
@store_options
def run(
    for_: float | None,
    visits: int | None,
    verbose: bool,
    common: Common,
    **flags: Any,
) -> None:
    """Watch all sources of the store within a budget, until Ctrl-C.

    How often each source is visited follows from how often it changes, how important it is, and
    the budget. Everything is committed visit by visit: stop it, or kill it, and run it again.
    Logs to standard error, and prints at the end what was done.

    \b
    Examples:
      observant run --budget 5000/day
      observant run --budget 2/s --for 10min --metrics 9187
    """
    import logging

    from observant.cli.console import print_json
    from observant.errors import InputError
    from observant.notifications import notifying
    from observant.observer.config import load_config
    from observant.observer.loop import Observer
    from observant.observer.program import run_observer, set_up_logging, take_up_config
    from observant.observer.settings import give_way

    flags["allow"] = flags["allow"] or None
    seconds = None if for_ is None else for_ * DAY
    # A configuration may name sources; without any, an empty store would help nobody.
    named = bool(load_config(common.config).sources)
    with common.opened(create=named, **flags) as (found, loaded):
        set_up_logging(loaded.log, logging.DEBUG if verbose else logging.INFO)
        take_up_config(found, loaded)
        give_way(found, flags)
        if not found.sources.count(state="active"):
            raise InputError(
                "there is nothing to watch: observant add URL", file=place(loaded.store)
            )

        if pace := budget_in_words(found, loaded):
            click.echo(pace, err=True)

        async def observe() -> Status:
            observer = Observer(found, loaded)
            async with notifying(found, loaded, observer=observer):
                with live() as show:
                    return await run_observer(observer, seconds=seconds, visits=visits, show=show)

        try:
            status = asyncio.run(observe())
        except asyncio.CancelledError:  # by a second Ctrl-C, which abandons visits under way
            raise click.Abort from None
        rows = found.sources.each(state="active", sort="failed_in_row", descending=True)
        failing = [*takewhile(lambda row: row.failed_in_row, islice(rows, 1000))]
    if common.as_json:
        print_json({**status.as_dict(), "at": iso(status.at)})
        return
    click.echo(line_of(status, time.time()))
    tell_failures((row.name, row.error, row.status) for row in failing)


@click.command("check", short_help="Visit a source now.")
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@click.option("--all", "everything", is_flag=True, help="Visit all active sources.")
@click.option("--tag", metavar="TAG", help="Only sources with this tag.")
@allow_option
@click.option(
    "--exit-code",
    is_flag=True,
    help=f"Exit with {FOUND_CHANGES} if something changed, {FAILED} if a visit failed.",
)
@store_options
def check(
    sources: tuple[str, ...],
    everything: bool,
    tag: str | None,
    allow: tuple[str, ...],
    exit_code: bool,
    common: Common,
) -> None:
    """Visit sources now, due or not, and report what was found.

    SOURCE is the name of a source, or a part of it that no other has. Subscribers are notified of
    what is found, so --all or --tag in a crontab is enough to watch a few pages.

    \b
    Examples:
      observant check example.org/news
      observant check --tag news
      observant check example.org/news --exit-code || mail -s changed me@example.org
    """
    from observant.cli.console import print_json, progress_bar, wide_enough
    from observant.notifications import notifying
    from observant.observer.loop import Observer

    with common.opened(allow=allow or None) as (found, loaded):
        names = [found.sources.find(source).name for source in sources]
        if everything or tag:
            names += [row.name for row in found.sources.each(state="active", tag=tag)]
        if not names:
            raise click.UsageError(
                f"no active source has the tag {tag!r}"
                if tag
                else "say which: names of sources, --tag or --all"
            )

        async def look() -> list[Visit]:
            telling = notifying(found, loaded) if everything or tag else nullcontext()
            each = [*dict.fromkeys(names)]
            with progress_bar("visits", "made", len(each)) as advance:
                async with telling:
                    observer = Observer(found, loaded)
                    return await observer.check_all(each, lambda _visit: advance(1))

        visits = asyncio.run(look())
    if common.as_json:
        print_json([visit_json(visit) for visit in visits])
    else:
        for visit in visits:
            reason = visit.comparison.reason if visit.comparison else (visit.error or "")
            click.echo(f"{visit.outcome:>11}  {wide_enough(visit.source, 60)}  {reason}")
        tell_remedies((visit.error, visit.status) for visit in visits if visit.error)
    if exit_code and any(visit.changed for visit in visits):
        sys.exit(FOUND_CHANGES)
    if exit_code and any(visit.outcome == "failed" for visit in visits):
        sys.exit(FAILED)


def visit_json(visit: Visit) -> dict[str, Any]:
    """A visit as JSON tells it."""
    comparison = visit.comparison
    return {
        **picked(visit, "source started_at ended_at outcome changed status error"),
        "last_modified": iso(visit.last_modified),
        **picked(visit, "magnitude bytes"),
        "digest": visit.digest.hex() if visit.digest else None,
        "reason": comparison.reason if comparison else "",
    }


def line_of(status: Status, now: float) -> str:
    """The state of an observer in one line."""
    spread = (status.alpha_high - status.alpha_low) / 2
    alpha = f"α {format_share(status.alpha)} ± {format_share(spread)}"
    new = f" ({status.unseen:,} to be seen)" if status.unseen else ""
    outage = "  NETWORK OUT" if status.outage else ""
    outage += "  STORE AWAY" if status.store_away else ""
    following = (
        "" if status.next_due_at == float("inf") else f"  next {due(status.next_due_at, now)}"
    )
    return (
        f"{counted(status.sources, 'source')}{new}  {counted(status.visits, 'visit')}  "
        f"{status.visits_per_second:.1f}/s  {counted(status.changes, 'change')}  "
        f"{status.failures:,} failed  {alpha}{following}{outage}"
    )


@contextmanager
def live() -> Iterator[Callable[[Status], None] | None]:
    """Show the state of an observer in one line that renews itself, on a terminal only."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from observant.cli.console import beneath

    with Live(
        console=Console(file=beneath(sys.stderr)), transient=True, refresh_per_second=4
    ) as display:
        yield lambda status: display.update(Text(line_of(status, status.at)))
