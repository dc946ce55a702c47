"""`observant study trace`: real update times, from what is at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from observant.cli.console import print_json, progress_bar, tell_notes, tell_written
from observant.cli.engine import engine_options, read_within
from observant.cli.options import (
    Group,
    json_option,
    output_option,
    reading_options,
    seed_option,
    together,
    visits_argument,
)
from observant.cli.values import DURATION, RATES, Choice, Integer, Number
from observant.errors import InputError
from observant.names import PROCESSES
from observant.units import counted, format_duration

if TYPE_CHECKING:
    from observant.simulation.traces import Trace
    from observant.visits import VisitLog


@click.group(
    "trace",
    cls=Group,
    short_help="Real update times: from visits, a git repository, a list, a process.",
)
def trace() -> None:
    """Make a trace: a file that says when every source was really updated.

    \b
    Examples:
      observant study trace visits visits.parquet -o history.parquet
      observant study trace git ~/src/website -o website.parquet
      observant study trace sample --rates 0.02,0.2 --sources 1000 --horizon 1y -o made.parquet
      observant study trace show website.parquet

    `observant simulate` then says what a policy would have achieved on it.
    """


_written = together(output_option("the trace", default="trace.parquet"), json_option)


@trace.command("visits", short_help="The updates that your own visits have found.")
@visits_argument
@click.option(
    "--sources", type=Integer(1), help="How many sources to take, evenly spaced.  [default: all]"
)
@click.option(
    "--hidden",
    is_flag=True,
    help="Also draw the updates that no visit could see, from the rates of the sources.",
)
@seed_option()
@reading_options
@engine_options("memory", "disk")
@_written
def visits(
    visits: tuple[str, ...],
    sources: int | None,
    hidden: bool,
    seed: int,
    output: str,
    as_json: bool,
    **reading: Any,
) -> None:
    """Make a trace of the updates that your own visits have found, to try policies on.

    VISITS are files as `observant estimate` reads them. A change with a date of modification
    is an update at that date, one without in the middle of the gap in which it was found.

    Of several updates between two visits only one was seen, so that every copy looks fresher than
    it was. With --hidden the others are drawn, and their times: as sources would have made them
    that change at random, each at the rate that was estimated for it, in accord with all visits.

    \b
    Examples:
      observant study trace visits visits.parquet -o history.parquet
      observant study trace visits visits.parquet --hidden --sources 10000 -o history.parquet
    """
    from dataclasses import replace

    import numpy as np

    from observant.formats import format_of
    from observant.simulation.traces import trace_of_visits

    format_of(output)
    log = read_within(visits, **reading)
    if sources is not None and len(log.sources) > sources:
        every = np.arange(sources) * len(log.sources) // sources
        log = log.select(np.isin(np.arange(len(log.sources)), every))
    made = trace_of_visits(log, rates=_rates(log) if hidden else None, seed=seed)
    spent = f"{len(log) / made.span:.4g}/day" if made.span else "0/day"
    told = f"these sources had {spent} visits: `observant simulate --budget {spent}` spends as much"
    _finish(replace(made, notes=(*log.notes, *made.notes, told)), output, as_json=as_json)


def _rates(log: VisitLog) -> Any:
    from observant.estimation.rates import estimate_rates

    with progress_bar("estimating", "sources", total=len(log.sources)) as advance:
        return estimate_rates(log, "auto", progress=advance).rate_per_day


@trace.command("git", short_help="The files of a git repository, and their commits.")
@click.argument("path", type=click.Path())
@click.option("--branch", metavar="NAME", default="HEAD", help="The branch to read.")
@click.option("--under", metavar="FOLDER", help="Only files below this folder.")
@click.option(
    "--largest-commit",
    type=Integer(1),
    metavar="FILES",
    help="Leave out commits that touch more files than this.",
)
@_written
def git(
    path: str,
    branch: str,
    under: str | None,
    largest_commit: int | None,
    output: str,
    as_json: bool,
) -> None:
    """Make a trace of the git repository at PATH: its files, and the commits that touched them.

    Every file is a source, every commit that touched it an update. Commits are those of the
    branch's first-parent line, so a merged branch counts once, when it landed. Deletions do
    not count. The folder of a file is its group.

    \b
    Examples:
      observant study trace git ~/src/website -o website.parquet
      observant study trace git . --under docs --largest-commit 100
    """
    from observant.formats import format_of
    from observant.simulation.traces import trace_of_git

    format_of(output)
    with progress_bar("reading history", "commits") as advance:
        made = trace_of_git(
            path, branch=branch, under=under, largest_commit=largest_commit, progress=advance
        )
    _finish(made, output, as_json=as_json)


@trace.command("releases", short_help="Releases of packages, feeds, lists of times.")
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILES...")
@_written
def releases(files: tuple[str, ...], output: str, as_json: bool) -> None:
    """Make a trace of the dates that registries and sites publish: each file is a source.

    \b
    FILES are a package's releases, a feed, or a list of times:
      {"time": {"1.0.0": "2020-01-31T12:00:00Z", …}}
      {"releases": {"1.0": [{"upload_time_iso_8601": "2020-01-31T12:00:00Z"}], …}}
      a JSON list of times, or of objects with a time; an RSS, Atom or JSON feed
      a text with one time per line

    \b
    Examples:
      observant study trace releases left-pad.json requests.json -o packages.parquet
    """
    from observant.formats import format_of
    from observant.simulation.traces import read_releases

    format_of(output)
    made = read_releases(files)
    if not made.summary()["updates"]:
        raise InputError("there is no time of an update in it", file=files[0])
    _finish(made, output, as_json=as_json)


@trace.command("sample", short_help="Synthetic sources that change by a process.")
@click.option(
    "--process", "model", type=Choice(PROCESSES), default="poisson", help="How the sources change."
)
@click.option(
    "--shape",
    type=Number(0, min_open=True),
    help="Shape of the process, where it has one.",
)
@click.option(
    "--rates",
    type=RATES,
    default="0.01,0.1,1",
    help="How often they change (0.1, 1/7d), with commas between; the sources take turns.",
)
@click.option("--sources", type=Integer(1), default=1000, help="How many sources.")
@click.option(
    "--horizon", type=DURATION.above_zero(), default="1y", help="How long they are followed."
)
@click.option(
    "--groups",
    type=Integer(0),
    default=0,
    show_default=False,
    help="How many groups the sources are divided into, at random.",
)
@seed_option()
@_written
def sample(
    model: str,
    shape: float | None,
    rates: list[float],
    sources: int,
    horizon: float,
    groups: int,
    seed: int,
    output: str,
    as_json: bool,
) -> None:
    """Make a trace of synthetic sources, whose updates are drawn from a model of change.

    \b
    Examples:
      observant study trace sample --rates 0.02,0.2 --sources 1000 --horizon 1y -o made.parquet
      observant study trace sample --process weibull --shape 0.5 --rates 1/7d -o bursty.parquet
    """
    import numpy as np

    from observant.formats import format_of
    from observant.processes.registry import STATIONARY
    from observant.simulation.traces import Trace

    format_of(output)
    kind: Any = STATIONARY[model]
    try:
        process = kind.with_mean(1.0, **({} if shape is None else {"shape": shape}))
    except TypeError:
        raise InputError(
            f"--shape: {model} {'has no shape' if shape is not None else 'needs a shape'}"
        ) from None
    made = Trace.sample(
        process,
        np.array(rates)[np.arange(sources) % len(rates)],
        horizon=horizon,
        seed=seed,
        groups=groups,
    )
    _finish(made, output, as_json=as_json)


@trace.command("show")
@click.argument("file", metavar="TRACE")
@json_option
def show(file: str, as_json: bool) -> None:
    """Show what a trace holds: sources, updates, and when.

    \b
    Examples:
      observant study trace show website.parquet
    """
    from observant.simulation.traces import read_trace

    with progress_bar("reading", "rows") as advance:
        made = read_trace(file, progress=advance)
    _print(made, as_json=as_json)


def _finish(made: Trace, output: str, *, as_json: bool) -> None:
    from observant.simulation.traces import write_trace

    write_trace(made, output)
    _print(made, as_json=as_json, output=output)


def _print(made: Trace, *, as_json: bool, output: str | None = None) -> None:
    summary = made.summary()
    if as_json:
        print_json(summary | ({"output": output} if output else {}))
        return
    groups = f" in {counted(summary['groups'], 'group')}" if summary["groups"] else ""
    click.echo(
        f"{counted(summary['updates'], 'update')} of {counted(summary['sources'], 'source')}"
        f"{groups}, {summary['start']} to {summary['end']} ({format_duration(made.span)})"
    )
    low, middle, high = summary["updates_per_source_quartiles"]
    click.echo(f"updates of a source: {middle:g} (half of them {low:g} to {high:g})")
    if summary["without_updates"]:
        click.echo(f"without any update: {counted(summary['without_updates'], 'source')}")
    tell_notes(made.notes)
    tell_written(output)
