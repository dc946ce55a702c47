"""`observant trace`: real update times, from what is at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from observant.cli.console import print_json, progress_bar
from observant.errors import InputError, UnitError
from observant.units import counted, format_duration, parse_duration, parse_rate

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.traces import Trace

__all__ = ["trace"]


@click.group("trace", short_help="Real update times: from a git repository, a list, a process.")
def trace() -> None:
    """Make a trace: a file that says when every source was really updated.

    \b
    Examples:
      observant trace git ~/src/website -o website.parquet
      observant trace releases left-pad.json requests.json -o packages.parquet
      observant trace sample --rates 0.02,0.2 --sources 1000 --horizon 1y -o made.parquet
      observant trace show website.parquet

    `observant simulate` then says what a policy would have achieved on it.
    """


def _written(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print a summary as JSON."),
        click.option(
            "-o",
            "--output",
            type=click.Path(dir_okay=False),
            default="trace.parquet",
            show_default=True,
            metavar="FILE",
            help="Parquet, CSV or JSON Lines by its ending.",
        ),
    ):
        command = option(command)
    return command


@trace.command("git")
@click.argument("path", type=click.Path())
@click.option("--branch", default="HEAD", show_default=True, help="Whose history.")
@click.option("--under", metavar="FOLDER", help="Only files below this folder.")
@click.option(
    "--largest-commit",
    type=click.IntRange(1),
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
    """Every file of the repository at PATH is a source, every commit that touched it an update.

    Commits are those of the branch's first-parent line, so a merged branch counts once, when it
    landed. Deletions are no updates. The folder of a file is its group.
    """
    from observant.formats import format_of
    from observant.traces import trace_of_git

    format_of(output)
    with progress_bar("reading history", "commits") as advance:
        made = trace_of_git(
            path, branch=branch, under=under, largest_commit=largest_commit, progress=advance
        )
    _finish(made, output, as_json=as_json)


@trace.command("releases")
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILES...")
@_written
def releases(files: tuple[str, ...], output: str, as_json: bool) -> None:
    """Every file is a source: a package's releases, a feed, or a list of times.

    \b
    FILES are what a registry or a site says of itself:
      {"time": {"1.0.0": "2020-01-31T12:00:00Z", …}}
      {"releases": {"1.0": [{"upload_time_iso_8601": "2020-01-31T12:00:00Z"}], …}}
      a JSON list of times, or of objects with a time; an RSS, Atom or JSON feed
      a text with a time a line
    """
    from observant.formats import format_of
    from observant.traces import read_releases

    format_of(output)
    _finish(read_releases(files), output, as_json=as_json)


@trace.command("sample")
@click.option(
    "--process",
    "model",
    default="poisson",
    show_default=True,
    help="poisson, weibull, pareto, gamma, lognormal, uniform, constant.",
)
@click.option("--shape", type=float, help="Shape of the process, where it has one.")
@click.option(
    "--rates",
    default="0.01,0.1,1",
    show_default=True,
    metavar="RATES",
    help="Updates a day (0.1, 1/7d), with commas between; the sources take turns.",
)
@click.option("--sources", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--horizon", default="1y", show_default=True, metavar="DURATION")
@click.option("--groups", type=click.IntRange(0), default=0, help="Shared out at random.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@_written
def sample(
    model: str,
    shape: float | None,
    rates: str,
    sources: int,
    horizon: str,
    groups: int,
    seed: int,
    output: str,
    as_json: bool,
) -> None:
    """Draw updates of made-up sources from a model of change."""
    import numpy as np

    from observant.formats import format_of
    from observant.processes.registry import STATIONARY
    from observant.traces import Trace

    format_of(output)
    if model not in STATIONARY or not hasattr(STATIONARY[model], "with_mean"):
        known = [name for name, kind in STATIONARY.items() if hasattr(kind, "with_mean")]
        raise InputError(f"--process: choose one of {', '.join(known)}, not {model!r}")
    kind: Any = STATIONARY[model]
    try:
        process = kind.with_mean(1.0, **({} if shape is None else {"shape": shape}))
    except TypeError:
        raise InputError(
            f"--shape: {model} {'has no shape' if shape is not None else 'needs a shape'}"
        ) from None
    try:
        each = np.array([parse_rate(part) for part in rates.split(",")])
        span = parse_duration(horizon)
    except UnitError as error:
        raise UnitError(f"--rates or --horizon: {error}") from error
    made = Trace.sample(
        process,
        each[np.arange(sources) % len(each)],
        horizon=span,
        seed=seed,
        groups=groups,
    )
    _finish(made, output, as_json=as_json)


@trace.command("show")
@click.argument("file", metavar="TRACE")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def show(file: str, as_json: bool) -> None:
    """What is in a trace?"""
    from observant.traces import read_trace

    with progress_bar("reading", "rows") as advance:
        made = read_trace(file, progress=advance)
    _print(made, as_json=as_json)


def _finish(made: Trace, output: str, *, as_json: bool) -> None:
    from observant.traces import write_trace

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
    for note in made.notes:
        click.echo(f"note: {note}")
    if output:
        click.echo(f"written to {output}")
