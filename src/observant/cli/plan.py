"""`observant plan`: divide a visiting budget over the sources."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from observant.cli.console import format_option, plot_option, print_json, wide_enough
from observant.cli.engine import engine_options
from observant.errors import InputError, UnitError
from observant.units import counted, format_duration, format_rate, parse_budget, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.planning import Plan
    from observant.scale import PlanFile

__all__ = ["plan"]

_NUMBERS = ("rate_per_day", "importance", "cost")


@click.command("plan", short_help="Whom to visit how often, for a budget?")
@click.argument("rates", metavar="RATES")
@click.option("--budget", metavar="BUDGET", help="Visits for all sources: 1000/day, 2/s.")
@click.option(
    "--target",
    type=float,
    metavar="ALPHA",
    help="A wanted currency, 0 to 1: answers with the smallest budget that reaches it.",
)
@click.option(
    "--objective",
    type=click.Choice(["freshness", "currency", "harmonic", "age", "delay", "detected"]),
    default="freshness",
    show_default=True,
    help="What is to be as good as it can be.",
)
@click.option(
    "--grace",
    default="0d",
    show_default=True,
    metavar="DURATION",
    help="How late the copy may be and still count as current.",
)
@click.option("--importance", metavar="COLUMN", help="Weight of each source [importance].")
@click.option("--host-cap", metavar="BUDGET", help="The most for any one host: 100/day.")
@click.option("--min-period", default="0d", metavar="DURATION", help="No source more often.")
@click.option("--max-period", metavar="DURATION", help="No source less often.")
@format_option
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), metavar="PLAN", help="Write the plan."
)
@click.option(
    "--seeds",
    type=click.Choice(["nutch", "heritrix", "urlfrontier", "browsertrix", "scrapy", "plain"]),
    help="Write (-o) or print the plan as a seed list for that crawler.",
)
@click.option("--rows", type=click.IntRange(0), default=20, show_default=True, help="To print.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@plot_option("what every budget would buy")
@engine_options("memory", "disk")
def plan(
    rates: str,
    output: str | None,
    seeds: str | None,
    rows: int,
    as_json: bool,
    plot: str | None,
    engine: str | None,
    memory: str | None,
    **options: Any,
) -> None:
    """Divide a visiting budget over sources, so that the copy is as good as it can be.

    RATES is a Parquet, CSV or JSON Lines file (also .gz, .zst), or - for standard input: what
    `observant estimate -o` writes, or any table with the columns

    \b
      source        which one
      rate_per_day  how often it changes
      importance    what it is worth (optional; all alike without it)
      host          for --host-cap (optional; taken from the source's URL without it)
      cost          of a visit (optional; the budget is then in that unit)

    \b
    Examples:
      observant plan rates.csv --budget 1000/day
      observant plan rates.csv --budget 1000/day --objective currency --grace 1d --host-cap 100/day
      observant plan rates.csv --target 0.9 --json
      observant plan rates.csv --budget 2/s --seeds nutch -o seeds.txt

    \b
    Objectives, all exact for sources that change at random with a constant rate:
      freshness  share of time the copy is the same as the source
      currency   share of time it is not late by more than the grace
      harmonic   missed updates, each further one counting less
      age        days since the oldest missed update
      delay      days that missed updates wait, all together
      detected   updates seen as changes
    """
    from observant.formats import format_of, write_table
    from observant.scale import choose_engine, expected_memory
    from observant.scale.memory import BYTES_PER_SOURCE

    if output and not seeds:
        format_of(output)  # a bad name is better found before the work than after
    files = () if rates == "-" else (rates,)
    needed = expected_memory(files, options["format_"], BYTES_PER_SOURCE)
    engine, _ = choose_engine(engine, memory, needed)
    if engine == "disk":
        if seeds or plot:
            raise InputError("--seeds and --plot need the plan in memory: --engine memory")
        _tell_stored(_solve_on_disk(rates, output, rows, **options), as_json)
        return
    answer = _solve(rates, **options)
    if output and not seeds:
        write_table(answer, output)
    if seeds:
        _write_seeds(answer, seeds, output)
    if plot:
        from observant.figures import budget_figure, save

        save(budget_figure(answer), plot)
    if as_json:
        print_json(
            {
                **answer.summary(),
                "saturated_hosts": answer.saturated_hosts,
                "sources": list(answer.rows()),
            }
        )
    elif not (seeds and not output):
        if not output:
            _print_rows(answer, rows)
        _print_summary(answer)
        for written in (output, plot):
            if written:
                click.echo(f"written to {written}")


def _solve(
    rates: str,
    budget: str | None,
    target: float | None,
    objective: str,
    grace: str,
    importance: str | None,
    host_cap: str | None,
    min_period: str,
    max_period: str | None,
    format_: str | None,
) -> Plan:
    from observant.planning import plan as optimal

    if budget is None and target is None:
        raise click.UsageError("give --budget, or --target for the smallest budget that reaches it")
    table = _read(rates, importance, format_)
    hosts = None
    if host_cap is not None:
        hosts = table.get("host") or [_host_of(name) for name in table["source"]]
    return optimal(
        table["rate_per_day"],
        budget=None
        if budget is None
        else _given("--budget", budget, lambda text: parse_budget(text, len(table["source"]))),
        target=target,
        objective=objective,
        grace=_given("--grace", grace, parse_duration),
        importance=table.get(importance or "importance"),
        cost=table.get("cost"),
        hosts=hosts,
        host_caps=None if host_cap is None else _given("--host-cap", host_cap, parse_budget),
        min_period=_given("--min-period", min_period, parse_duration),
        max_period=_given("--max-period", max_period, parse_duration)
        if max_period
        else float("inf"),
        source=table["source"],
    )


def _solve_on_disk(
    rates: str,
    output: str | None,
    rows: int,
    budget: str | None,
    target: float | None,
    objective: str,
    grace: str,
    importance: str | None,
    host_cap: str | None,
    min_period: str,
    max_period: str | None,
    format_: str | None,
) -> PlanFile:
    from observant.scale import plan as optimal

    if budget is None and target is None:
        raise click.UsageError("give --budget, or --target for the smallest budget that reaches it")
    if host_cap is not None:
        raise InputError("--host-cap needs the plan in memory: --engine memory")
    if rates == "-" and format_ is None:
        raise InputError("say the format of standard input: --format csv, jsonl or parquet")
    return optimal(
        sys.stdin.buffer if rates == "-" else rates,
        output=output,
        budget=None if budget is None else _given("--budget", budget, parse_budget),
        target=target,
        objective=objective,
        grace=_given("--grace", grace, parse_duration),
        importance=importance,
        min_period=_given("--min-period", min_period, parse_duration),
        max_period=_given("--max-period", max_period, parse_duration)
        if max_period
        else float("inf"),
        format=format_,
        rows=0 if output else rows,
    )


def _tell_stored(answer: PlanFile, as_json: bool) -> None:
    """Tell of a plan that was worked out on disk; its sources are in the file."""
    if as_json:
        print_json({**answer.summary(), "output": answer.path, "sources_shown": answer.first})
        return
    for row in answer.first:
        click.echo(
            f"{wide_enough(row['source'], 60):60}  {format_rate(row['visits_per_day']):>9}  "
            f"{format_duration(row['period_days']):>7}  {row['alpha']:.4f}"
        )
    click.echo(
        f"{answer.sources:,} sources, {format_rate(answer.spent)} visits, objective "
        f"{answer.objective}"
    )
    click.echo(
        f"currency {answer.collection_alpha:.4f}; all visited alike it would be "
        f"{answer.uniform_alpha:.4f}"
    )
    click.echo(f"price of a visit {answer.price:.4g}: what one more a day would gain")
    for words, share in (("half", 0.5), ("twice", 2.0)):
        alpha = answer.alpha_with(share * answer.budget)
        if alpha is not None:
            click.echo(f"with {words} the budget: {alpha:.4f}")
    if answer.starved:
        click.echo(f"never visited: {counted(answer.starved, 'source')}")
    click.echo(f"worked out on disk, in {counted(answer.passes, 'pass', 'passes')} over the rates")
    if answer.path:
        click.echo(f"written to {answer.path}")


def _given(option: str, text: str, parse: Callable[[str], float]) -> float:
    """Read the value of an option; what is wrong with it is told with the option's name."""
    try:
        return parse(text)
    except UnitError as error:
        raise UnitError(f"{option}: {error}") from error


def _read(file: str, importance: str | None, format_: str | None) -> dict[str, Any]:
    """Read the columns; every number is checked, and a bad one named with its source."""
    import pyarrow as pa

    from observant.formats import read_batches

    if file == "-" and format_ is None:
        raise InputError("say the format of standard input: --format csv, jsonl or parquet")
    wanted = ("source", *_NUMBERS, "host", *([importance] if importance else []))
    batches = list(read_batches(sys.stdin.buffer if file == "-" else file, wanted, format_))
    table = pa.Table.from_batches(batches) if batches else pa.table({})
    name = "standard input" if file == "-" else file
    for column in ("source", "rate_per_day", *([importance] if importance else [])):
        if column not in table.column_names:
            raise InputError(
                f"has no column {column!r}; its columns are {', '.join(table.column_names)}",
                file=name,
            )
    if not table.num_rows:
        raise InputError("has no sources", file=name)
    columns: dict[str, Any] = {"source": [str(s) for s in table["source"].to_pylist()]}
    _refuse_doubled(columns["source"], name)
    for column in {*_NUMBERS, importance or "importance"} & set(table.column_names):
        columns[column] = _numbers(table[column], column, columns["source"], name)
    if "host" in table.column_names:
        columns["host"] = [str(host or "") for host in table["host"].to_pylist()]
    return columns


def _refuse_doubled(sources: list[str], file: str) -> None:
    if len(set(sources)) < len(sources):
        seen: set[str] = set()
        for row, source in enumerate(sources, 1):
            if source in seen:
                raise InputError("is there twice", file=file, row=row, source=source)
            seen.add(source)


def _numbers(column: Any, name: str, sources: list[str], file: str) -> Any:
    import numpy as np
    import pyarrow as pa

    try:
        values = column.cast(pa.float64()).to_numpy()
        good = np.isfinite(values)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        values = np.array([_number(cell) for cell in column.to_pylist()])
        good = np.isfinite(values)
    good &= values >= 0.0
    if not good.all():
        at = int(np.argmin(good))
        unknown = name == "rate_per_day" and not np.isfinite(values[at])
        hint = "; `observant estimate --method pooled` gives every source a rate" if unknown else ""
        raise InputError(
            f"must be a finite number, not negative, and is {column[at].as_py()!r}{hint}",
            file=file,
            row=at + 1,
            column=name,
            source=sources[at],
        )
    return values


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return float("nan")


def _host_of(source: str) -> str:
    from urllib.parse import urlsplit

    host = urlsplit(source).hostname
    if host is None:
        raise InputError("--host-cap needs a column host, or sources that are URLs", source=source)
    return host


def _write_seeds(answer: Plan, seeds: str, output: str | None) -> None:
    import time

    from observant.formats import write_lines
    from observant.formats.seeds import seed_lines

    lines = seed_lines(answer, seeds, now=time.time())
    if output is not None:
        write_lines(lines, output)
        return
    for line in lines:
        click.echo(line)


def _print_rows(answer: Plan, rows: int) -> None:
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    if not rows:
        return
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    width = max(console.width - 40, 16)
    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("source", no_wrap=True)
    for name in ("visits", "every", "currency"):
        grid.add_column(name, justify="right", no_wrap=True)
    for i in np.argsort(-answer.visits_per_day, kind="stable")[:rows].tolist():
        grid.add_row(
            wide_enough(str(answer.source[i]), width),
            format_rate(answer.visits_per_day[i]),
            format_duration(answer.period_days[i]),
            f"{answer.alpha[i]:.4f}",
        )
    console.print(grid)
    if len(answer) > rows:
        console.print(f"… and {len(answer) - rows:,} more (--rows, or -o FILE for all)")
    console.print()


def _print_summary(answer: Plan) -> None:
    click.echo(
        f"{len(answer):,} sources, {format_rate(answer.spent)} visits, objective {answer.objective}"
    )
    click.echo(
        f"currency {answer.collection_alpha:.4f}; all visited alike it would be "
        f"{answer.uniform_alpha:.4f}"
    )
    click.echo(f"price of a visit {answer.price:.4g}: what one more a day would gain")
    budgets = [answer.budget / 2, answer.budget * 2]
    try:
        curve = answer.budget_curve(budgets)
    except InputError:
        curve = answer.budget_curve(budgets := [answer.budget * 2])
    for budget, alpha in zip(budgets, curve.alpha, strict=True):
        words = "half" if budget < answer.budget else "twice"
        click.echo(f"with {words} the budget: {alpha:.4f}")
    starved = int(answer.starved.sum())
    if starved:
        click.echo(
            f"never visited: {counted(starved, 'source')}. For a visit to last they change too "
            "often or matter too little (--max-period visits them all the same)"
        )
    for host, price in list(answer.saturated_hosts.items())[:5]:
        click.echo(f"host {host} is at its cap; one more visit there would gain {price:.4g}")
    if len(answer.saturated_hosts) > 5:
        click.echo(f"… and {len(answer.saturated_hosts) - 5:,} more hosts at their cap")
    for note in answer.notes:
        click.echo(f"note: {note}")
