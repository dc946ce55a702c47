"""`observant study reproduce`: rebuild the tables and figures of the papers."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from observant.cli.console import print_json, progress_bar, terminal
from observant.cli.options import Inherited, json_option, list_option, seed_option
from observant.cli.values import Integer
from observant.errors import InputError
from observant.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from rich.console import Console

    from observant.papers import Check, Experiment, Reproduction


@click.command("reproduce", short_help="Rebuild the tables and figures of the papers.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@list_option("only_list")
@click.option(
    "--runs",
    type=Integer(1),
    help="How much to simulate (runs, sources or steps).  [default: differs for each]",
)
@seed_option()
@click.option(
    "--traces",
    type=click.Path(exists=True),
    metavar="PATH",
    help="Real update times too: a file with the columns source and t, or a folder of them.",
)
@click.option(
    "--plot",
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    help="Draw every figure into FOLDER, as SVG.",
)
@click.option(
    "--store",
    cls=Inherited,
    metavar="FILE|URL",
    help="A store with pages of your own, for the figures about words, links and dates.",
)
@json_option
def reproduce(
    names: tuple[str, ...],
    only_list: bool,
    runs: int | None,
    seed: int,
    traces: str | None,
    store: str | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """Rebuild the results printed in the papers, and say whether ours agree.

    NAME is one of --list, such as cho-figure-7; * stands for anything, as in 'cho-*'. Without a
    name everything is rebuilt, in a few minutes. Each shows the published value, ours, and

    \b
      ✓        they agree, within the rounding of the print and our sampling error
      ≈ ratio  near: ours over the published value, between 0.8 and 1.25
      ✗        they differ, and why
      –        nothing was printed to compare with

    Words of a paper without a number, values of its formulas that it does not print, and goals of
    our own are marked as such and counted apart. A difference is a result, not a failure: the
    exit code is 0 all the same.

    \b
    Examples:
      observant study reproduce cho-figure-7
      observant study reproduce 'brewington-figure-3*' --plot figures
      observant study reproduce cho-table-1 --traces traces --json
      observant study reproduce 'li-table-*' --traces edits.csv
    """
    from pathlib import Path

    from observant.papers import choose

    chosen = choose(names)
    if only_list:
        _print_list(chosen, as_json)
        return
    folder = None if plot is None else _folder(Path(plot))
    found = []
    with progress_bar("reproducing", "%", total=100) as advance:
        for experiment, result in _run(chosen, runs, seed, traces, store, advance):
            found.append(result)
            if folder is not None and result.pictures:
                from observant.figures import save
                from observant.papers.pictures import reproduction_figure

                chart = reproduction_figure(result, experiment.title)
                save(chart, str(folder / f"{result.name}.svg"))
    if as_json:
        print_json([_told(result) for result in found])
        return
    for result in found:
        _print_one(result)
    _print_summary(found)
    if folder is not None:
        drawn = counted(sum(bool(result.pictures) for result in found), "picture")
        click.echo(f"{drawn} written to {folder}")


def _run(
    chosen: Sequence[Experiment],
    runs: int | None,
    seed: int,
    traces: str | None,
    store: str | None,
    advance: Callable[[int], None],
) -> Iterator[tuple[Experiment, Reproduction]]:
    """Run them one after the other, telling the share of the whole work that is done."""
    from pathlib import Path

    from observant.papers import Options, Reproduction

    whole, before, told = sum(experiment.seconds for experiment in chosen), 0.0, 0

    def done(share: float, seconds: float) -> None:
        nonlocal told
        percent = int(100 * (before + share * seconds) / whole)
        advance(max(percent - told, 0))
        told = max(percent, told)

    for experiment in chosen:
        seconds = experiment.seconds
        options = Options(
            seed=seed,
            runs=runs,
            traces=None if traces is None else Path(traces),
            store=store,
            tick=lambda share, seconds=seconds: done(share, seconds),  # type: ignore[misc]
        )
        try:
            found = experiment.run(options)
        except InputError as error:
            if len(chosen) == 1:
                raise
            found = Reproduction(experiment.name, experiment.title, notes=[f"not run: {error}"])
        yield experiment, found
        done(1.0, seconds)
        before += seconds


def _folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror}", file=str(path)) from error
    return path


# -- what is printed ------------------------------------------------------------------------------

MARKS = {"agrees": "✓", "near": "≈", "differs": "✗", None: "–"}
COLOURS = {"agrees": "green", "near": "yellow", "differs": "red", None: "dim"}
VERBS = {"agrees": "agree", "near": "near", "differs": "differ"}
KINDS = {
    "print": "printed",
    "words": "said in words",
    "formula": "of formulas, not printed",
    "goal": "goals of our own",
}


def _told(result: Reproduction) -> dict[str, Any]:
    return {
        "name": result.name,
        "title": result.title,
        "mark": result.mark,
        "checks": [
            {**asdict(check), "mark": check.mark, "ratio": check.ratio} for check in result.checks
        ],
        "table": list(result.table),
        "pictures": [asdict(picture) for picture in result.pictures],
        "notes": list(result.notes),
    }


def _print_list(chosen: Sequence[Experiment], as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "name": experiment.name,
                    "title": experiment.title,
                    "seconds": experiment.seconds,
                    "uses_traces": experiment.uses_traces,
                }
                for experiment in chosen
            ]
        )
        return
    width = max(len(experiment.name) for experiment in chosen)
    for experiment in chosen:
        more = ", and on real traces" if experiment.uses_traces else ""
        about = f"{experiment.seconds:.0f} s".rjust(5)
        click.echo(f"{experiment.name:<{width}} {about}  {experiment.title}{more}")
    click.echo(f"{counted(len(chosen), 'experiment')}; about how long each takes on one core")


def _print_one(result: Reproduction) -> None:
    from rich.markup import escape
    from rich.table import Table

    console = terminal(120)
    console.print(f"[bold]{result.name}[/bold]  {escape(result.title)}")
    if result.checks:
        grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        grid.add_column("", no_wrap=True)
        grid.add_column("quantity", ratio=3)
        for name in ("compared with", "ours"):
            grid.add_column(escape(name), justify="right", no_wrap=True)
        grid.add_column("", ratio=3)
        for check in result.checks:
            colour = COLOURS[check.mark]
            near = f" {check.ratio:.2f}" if check.mark == "near" else ""
            grid.add_row(
                f"[{colour}]{MARKS[check.mark]}{near}[/{colour}]",
                escape(check.quantity),
                compared_with(check),
                number(check.ours),
                "" if check.agrees else escape(check.why),
            )
        console.print(grid)
    _print_table(console, result)
    for note in result.notes:
        console.print(f"note: {note}", markup=False)
    console.print()


def _print_table(console: Console, result: Reproduction) -> None:
    from rich.markup import escape
    from rich.table import Table

    if not result.table:
        return
    columns = list(dict.fromkeys(name for row in result.table for name in row))
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        words = all(isinstance(row.get(name, ""), str) for row in result.table)
        grid.add_column(escape(name), justify="left" if words else "right")
    for row in result.table:
        grid.add_row(*(escape(number(row.get(name))) for name in columns))
    console.print()
    console.print(grid)


def compared_with(check: Check) -> str:
    """The value as printed; those that no paper prints say what they are."""
    text = number(check.published)
    more = {"formula": " (formula)", "goal": " (our goal)"}.get(check.kind, "")
    return text if check.published is None else text + more


def number(value: Any) -> str:
    """Four digits of a number; a dash for none.

    >>> [number(value) for value in (None, 3, 0.123456, math.inf, "AB", 12345.6)]
    ['–', '3', '0.1235', 'never', 'AB', '12,346']
    """
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    if math.isinf(value):
        return "never"
    if abs(value) < 1e-12:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def score(checks: Iterable[Check]) -> list[str]:
    """How many values agree, are near and differ, a line for each kind that there is."""
    from observant.papers import count_marks

    counts = count_marks(checks)
    lines = [
        f"{words}: "
        + ", ".join(f"{counts[kind].get(mark, 0)} {verb}" for mark, verb in VERBS.items())
        for kind, words in KINDS.items()
        if kind in counts
    ]
    nothing = counts.get("none", {}).get("none", 0)
    return [*lines, *([f"nothing to compare with: {nothing}"] if nothing else [])]


def _print_summary(found: Sequence[Reproduction]) -> None:
    click.echo(counted(len(found), "experiment"))
    for line in score(check for result in found for check in result.checks):
        click.echo(f"  {line}")
