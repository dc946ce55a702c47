"""`observant plan`: divide a visiting budget over the sources."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from observant.cli.console import (
    keep,
    named_format,
    print_json,
    print_table,
    read_log,
    tell_notes,
    terminal,
    wide_enough,
)
from observant.cli.engine import engine_options
from observant.cli.options import (
    budget_option,
    format_option,
    grace_option,
    json_option,
    max_period_option,
    min_period_option,
    objective_option,
    output_option,
    plot_option,
    rows_option,
    several,
    signals_option,
)
from observant.cli.rate_tables import read_rates
from observant.cli.values import BUDGET, DURATION, DURATIONS, Choice, Integer, Number
from observant.errors import InputError
from observant.names import SEED_FORMATS
from observant.units import counted, format_duration, format_rate, parse_budget, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.batch import PlanFile
    from observant.estimation.rates import RateTable
    from observant.planning import Plan
    from observant.visits import VisitLog

_AHEAD = 500
"""Sources that a plan for single units is worked out for, at least."""
_SEEN = "planned on all that the visits tell of each rate, not on one number"
_HEARD = (
    "visits include those that signals bring about; unprompted: days without a signal after which "
    "a source is visited"
)


@click.command("plan", short_help="How often should each source be visited, for a budget?")
@click.argument("rates", metavar="RATES")
@budget_option()
@click.option(
    "--target",
    type=Number(0, 1, min_open=True, max_open=True),
    metavar="ALPHA",
    help="A wanted currency, 0 to 1, instead of a budget: answers with the smallest budget.",
)
@objective_option(shown="freshness; with --grace: currency")
@grace_option(default="0d")
@click.option(
    "--importance",
    metavar="COLUMN",
    help="The column with the importance of each source.  [default: importance, if there is one]",
)
@several(
    "--accesses",
    metavar="LOG",
    text="Weight the sources by how often this access log asks for them",
)
@signals_option
@click.option("--host-cap", type=BUDGET, help="The most visits to any one host: 100/day.")
@min_period_option()
@max_period_option()
@click.option(
    "--paces",
    type=DURATIONS,
    help="Move every period to the nearest of these: 1d,1w,4w. --seeds -o writes a list for each.",
)
@click.option(
    "--queues",
    type=Integer(1),
    help="Put the sources into this many queues of fixed rate, and say what that costs.",
)
@click.option(
    "--ahead",
    type=Integer(1, 30),
    help="From a visit log: which sources to visit in each of this many units of time after it.",
)
@click.option(
    "--slot",
    "unit",
    type=DURATION.above_zero(),
    default="1d",
    help="With --ahead: how long a unit of time is.",
)
@click.option(
    "--seeds",
    type=Choice(SEED_FORMATS),
    help="Write (-o) or print the plan as a seed list for that crawler.",
)
@format_option
@engine_options("memory", "disk")
@rows_option
@output_option("the plan")
@plot_option("what every budget would buy")
@json_option
def plan(
    rates: str,
    output: str | None,
    seeds: str | None,
    paces: list[float] | None,
    queues: int | None,
    ahead: int | None,
    unit: float,
    rows: int,
    as_json: bool,
    plot: str | None,
    engine: str | None,
    memory: int | None,
    **options: Any,
) -> None:
    """Divide a budget of visits among sources so that the copies are as good as possible.

    RATES is a Parquet, CSV or JSON Lines file (also .gz, .zst), or - for standard input: what
    `observant estimate -o` writes, or any table with the columns

    \b
      source        which one
      rate_per_day  how often it changes
      rate_mean     its mean in the time to come (optional; without it the rate is certain)
      rate_ahead    its geometric mean then (optional; rate_per_day without it)
      importance    what it is worth (optional; all alike without it)
      host          for --host-cap (optional; taken from the source's URL without it)
      cost          of a visit (optional; the budget is then in that unit)
      grace         how late its copy may be: 6h, or days (optional; --grace where it is empty)

    A visit log will do too; its rates are then estimated (pooled). From a log, and from a table of
    `observant estimate`, the plan takes all that is known of each rate, not only one number: a
    source that was never seen to change does not have the rate 0.

    A budget may also be for each source: 0.1/source/day. Prints how often to visit each, the
    currency that this buys, and what other budgets would.

    \b
    Examples:
      observant plan rates.csv --budget 1000/day
      observant plan rates.csv --budget 1000/day --objective currency --grace 1d --host-cap 100/day
      observant plan visits.parquet --target 0.95 --objective currency --grace 1w
      observant plan rates.csv --budget 50/day --paces 1w,4w --seeds browsertrix -o seeds.yaml

    \b
    Objectives, all exact for sources that change at random with a constant rate:
      freshness  share of time the copy is the same as the source
      currency   share of time it is not late by more than the grace
      harmonic   missed updates, each further one counting less
      age        days since the oldest missed update
      delay      days that missed updates wait, all together
      detected   updates seen as changes
    """
    from observant.batch import choose_engine, expected_memory
    from observant.batch.memory import BYTES_PER_SOURCE
    from observant.formats import format_of

    if output and not seeds:
        format_of(output)  # a bad name is better found before the work than after
    if ahead is not None:
        _ahead(rates, ahead, unit, options["budget"], options["format_"], rows, as_json)
        return
    files = () if rates == "-" else (rates,)
    needed = expected_memory(files, options["format_"], BYTES_PER_SOURCE)
    engine, _ = choose_engine(engine, memory, needed)
    if engine == "disk":
        if seeds or plot or paces or queues:
            raise InputError("--seeds, --paces, --queues and --plot need --engine memory")
        _tell_stored(_solve_on_disk(rates, output, rows, **options), as_json)
        return
    answer = _solve(rates, **options)
    if paces and queues:
        raise click.UsageError("--paces or --queues, not both")
    if queues:
        best, answer = answer, answer.queues(queues)
        lost = f"a period for each source gives {best.collection_alpha:.4f}"
        answer = replace(answer, notes=(*answer.notes, lost))
    if paces:
        answer = answer.rounded(paces)
    written = [output] if output else []
    keep(answer, None if seeds else output, plot)
    if seeds and output and paces:
        parts = dict(_by_pace(answer, output))
        written = list(parts)
        for file, part in parts.items():
            _write_seeds(part, seeds, file)
    elif seeds:
        _write_seeds(answer, seeds, output)
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
        for name in (*written, *([plot] if plot else [])):
            click.echo(f"written to {name}")


def _solve(
    rates: str,
    budget: str | None,
    target: float | None,
    objective: str | None,
    grace: float,
    importance: str | None,
    accesses: tuple[str, ...],
    signals: str | None,
    host_cap: str | None,
    min_period: str | None,
    max_period: str | None,
    format_: str | None,
) -> Plan:
    import numpy as np

    from observant.cli.estimate import judge_signals
    from observant.estimation.rates import estimate_rates
    from observant.planning import plan as optimal
    from observant.planning.inputs import posterior_of
    from observant.planning.objectives.composite import objective_of_visits

    _refuse_neither(budget, target)
    judged, seen = None, _seen(rates, importance, format_)
    wanted: Any = objective
    if signals is not None:
        if seen is None:
            raise InputError(
                "--signals needs a visit log: how far they are true is learned from visits",
                file=rates,
            )
        judged = judge_signals(seen[0], signals, "s")
        seen = seen[0], estimate_rates(seen[0], "pooled", signals=judged)
    if seen is not None:
        log, known = seen
        notes = (*known.notes, _SEEN if judged is None else _HEARD)
        if judged is None and objective in {None, "freshness", "currency"}:
            late = grace if objective != "freshness" else 0.0
            own, odd = objective_of_visits(log, posterior_of(known)[0], late)
            if odd:
                wanted = own
                told = f"{counted(odd, 'source is', 'sources are')} clearly not Poisson"
                notes = (*notes, f"{told}: planned on the ages that their visits show")
        table: dict[str, Any] = {"source": known.source.to_pylist(), "known": known}
    else:
        table = read_rates(rates, importance, format_)
        notes = table["notes"]
    weights = table.get(importance or "importance")
    if accesses:
        weights = _asked_for(table["source"], accesses)
    graces: Any = grace
    if "grace" in table:
        graces = np.where(np.isnan(table["grace"]), grace, table["grace"])
    hosts = None
    if host_cap is not None:
        hosts = table.get("host") or [_host_of(name) for name in table["source"]]
    answer = optimal(
        table["known"],
        budget=None if budget is None else parse_budget(budget, len(table["source"])),
        target=target,
        objective=wanted or ("currency" if np.any(graces) else "freshness"),
        grace=graces,
        importance=weights,
        cost=table.get("cost"),
        hosts=hosts,
        host_caps=None if host_cap is None else parse_budget(host_cap),
        min_period=parse_duration(min_period or 0.0),
        max_period=parse_duration(max_period) if max_period else float("inf"),
        source=table["source"],
        signals=judged,
    )
    return replace(answer, notes=(*answer.notes, *notes))


def _ahead(
    file: str,
    steps: int,
    unit: float,
    budget: str | None,
    format_: str | None,
    rows: int,
    as_json: bool,
) -> None:
    """Which sources to visit in the coming units, so that the fewest copies are out of date."""
    import numpy as np

    from observant.papers.thesis import AgeChain
    from observant.papers.thesis.strategies import plan_visits
    from observant.times import MICROSECONDS_PER_DAY

    seen = _seen(file, None, format_)
    if seen is None or budget is None:
        raise click.UsageError("--ahead needs a visit log and --budget")
    log, known = seen
    visits = int(parse_budget(budget, len(log.sources)) * unit + 1e-9)
    if not 1 <= visits <= len(log.sources):
        raise InputError(f"the budget gives {visits:,} visits in {format_duration(unit)}")
    good = np.flatnonzero(log.succeeded)
    owner = np.searchsorted(log.offsets, good, side="right") - 1
    last = np.full(len(log.sources), log.time[log.offsets[:-1]])
    np.maximum.at(last, owner, log.time[good])
    waited = (log.time.max() - last) / MICROSECONDS_PER_DAY / unit
    elapsed = np.maximum(np.ceil(waited), 0).astype(int) + 1
    reset = -np.expm1(-np.asarray(known.rate_per_day) * unit)
    # Nobody else can be among the visited: what a visit saves at most, most first.
    worth = 1.0 - (1.0 - reset) ** (elapsed + steps)
    some = np.sort(np.argsort(-worth, kind="stable")[: max(_AHEAD, 4 * visits * steps)])
    found = plan_visits(AgeChain.poisson(reset[some]), 0, elapsed[some], visits, steps)
    names = log.sources.take(some).to_pylist()
    units = [
        [name for name, seen in zip(names, column, strict=True) if seen]
        for column in found.visited.T
    ]
    if as_json:
        print_json({"unit_days": unit, "visits": visits, "units": units, "cost": found.cost})
        return
    for step, those in enumerate(units):
        after = format_duration((step + 1) * unit)
        click.echo(f"{after:>6}  {', '.join(those[:rows])}{', …' if len(those) > rows else ''}")
    click.echo(
        f"{counted(len(log.sources), 'source')}, {visits:,} visits in {format_duration(unit)}: of "
        f"the {len(some):,} that change most, {found.cost / steps:.4g} will be out of date"
    )


def _asked_for(sources: list[str], logs: tuple[str, ...]) -> Any:
    """Accesses a day of each source; what the logs are not of counts as one that is seldom read."""
    import numpy as np

    from observant.formats.accesses import Accesses

    accesses = Accesses(sources)
    accesses.read(logs)
    ours, table = accesses.importance()
    weights = np.full(len(sources), table.importance.min())
    weights[ours] = table.importance
    return weights


def _seen(
    file: str, importance: str | None, format_: str | None
) -> tuple[VisitLog, RateTable] | None:
    """Visits and what they tell of each rate; nothing where the file holds rates, not visits."""
    from observant.estimation.rates import estimate_rates
    from observant.formats import read_batches

    if file == "-":
        return None
    first = next(iter(read_batches(file, ("source", "time", "rate_per_day"), format_)), None)
    if first is None or "rate_per_day" in first.schema.names or "time" not in first.schema.names:
        return None
    if importance is not None:
        raise InputError(
            "a visit log has no importance; `observant estimate -o` makes a table of rates, which "
            "takes such a column",
            file=file,
        )
    log = read_log((file,), format_=format_, time_unit="s", skew=1.0, on_duplicate="error")
    return log, estimate_rates(log, "pooled")


def _solve_on_disk(
    rates: str,
    output: str | None,
    rows: int,
    budget: str | None,
    target: float | None,
    objective: str | None,
    grace: float,
    importance: str | None,
    accesses: tuple[str, ...],
    host_cap: str | None,
    min_period: str | None,
    max_period: str | None,
    format_: str | None,
    signals: str | None,
) -> PlanFile:
    from observant.batch import plan as optimal

    _refuse_neither(budget, target)
    if host_cap is not None or accesses or signals:
        name = "--signals" if signals else "--host-cap" if host_cap is not None else "--accesses"
        raise InputError(f"{name} needs the plan in memory: --engine memory")
    named_format([rates], format_)
    return optimal(
        sys.stdin.buffer if rates == "-" else rates,
        output=output,
        budget=None if budget is None else parse_budget(budget),
        target=target,
        objective=objective or ("currency" if grace else "freshness"),
        grace=grace,
        importance=importance,
        min_period=parse_duration(min_period or 0.0),
        max_period=parse_duration(max_period) if max_period else float("inf"),
        format=format_,
        rows=0 if output else rows,
    )


def _tell_stored(answer: PlanFile, as_json: bool) -> None:
    """Tell of a plan that was worked out on disk; its sources are in the file."""
    if as_json:
        print_json({**answer.summary(), "output": answer.path, "sources_shown": answer.first})
        return
    _print_visits(
        [
            (row["source"], row["visits_per_day"], row["period_days"], row["alpha"])
            for row in answer.first
        ],
        answer.sources,
    )
    _print_totals(answer, answer.sources)
    for words, share in (("half", 0.5), ("twice", 2.0)):
        alpha = answer.alpha_with(share * answer.budget)
        if alpha is not None:
            click.echo(f"with {words} the budget: {alpha:.4f}")
    if answer.starved:
        click.echo(f"never visited: {counted(answer.starved, 'source')}")
    click.echo(f"worked out on disk, in {counted(answer.passes, 'pass', 'passes')} over the rates")
    if answer.path:
        click.echo(f"written to {answer.path}")


def _print_totals(answer: Plan | PlanFile, sources: int) -> None:
    click.echo(
        f"{counted(sources, 'source')}, {format_rate(answer.spent)} visits, "
        f"objective {answer.objective}"
    )
    error = f" ±{answer.alpha_error:.4f}" if answer.alpha_error > 0.0 else ""
    click.echo(
        f"currency {answer.collection_alpha:.4f}{error}; all visited alike it would be "
        f"{answer.uniform_alpha:.4f}"
    )
    click.echo(f"price of a visit {answer.price:.4g}: what one more a day would gain")


def _refuse_neither(budget: str | None, target: float | None) -> None:
    if (budget is None) == (target is None):
        raise click.UsageError(
            "give either --budget, or --target for the smallest budget that reaches it"
        )


def _host_of(source: str) -> str:
    from urllib.parse import urlsplit

    host = urlsplit(source).hostname
    if host is None:
        raise InputError("--host-cap needs a column host, or sources that are URLs", source=source)
    return host


def _by_pace(answer: Plan, output: str) -> Iterator[tuple[str, Plan]]:
    """The sources of each pace, with a file of its own: seeds-7d.yaml."""
    import numpy as np

    folder, _, name = output.rpartition("/")
    stem, dot, ending = name.partition(".")
    for pace in np.unique(answer.period_days[~answer.starved]):
        some = answer.period_days == pace
        part = replace(
            answer,
            source=answer.source[some],
            visits_per_day=answer.visits_per_day[some],
            period_days=answer.period_days[some],
            alpha=answer.alpha[some],
            spent=float(answer.visits_per_day[some].sum()),
        )
        own = f"{stem}-{format_duration(pace)}{dot}{ending}"
        yield (f"{folder}/{own}" if folder else own), part


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

    waits = getattr(answer, "unprompted_days", None)
    _print_visits(
        [
            (
                str(answer.source[i]),
                answer.visits_per_day[i],
                answer.period_days[i],
                answer.alpha[i],
                *(() if waits is None else (waits[i],)),
            )
            for i in np.argsort(-answer.visits_per_day, kind="stable")[:rows].tolist()
        ],
        len(answer),
    )


def _print_visits(first: list[tuple[Any, ...]], sources: int) -> None:
    """Print the sources that are visited most."""
    if not first:
        return
    width = max(terminal().width - 40, 16)
    heads = ("source", "visits", "every", "currency", "unprompted")
    print_table(
        heads[: len(first[0])],
        [
            (
                *(wide_enough(name, width), format_rate(visits), format_duration(period)),
                *(f"{alpha:.4f}", *map(format_duration, wait)),
            )
            for name, visits, period, alpha, *wait in first
        ],
    )
    if sources > len(first):
        more = counted(sources - len(first), "more source")
        click.echo(f"… and {more} (--rows, or -o FILE for all)")
    click.echo()


def _print_summary(answer: Plan) -> None:
    _print_totals(answer, len(answer))
    budgets = [answer.budget / 2, answer.budget * 2]
    try:
        curve = answer.budget_curve(budgets)
    except InputError:
        curve = answer.budget_curve(budgets := [answer.budget * 2])
    for budget, alpha in zip(budgets, curve.alpha, strict=True):
        words = "half" if budget < answer.budget else "twice"
        click.echo(f"with {words} the budget: {alpha:.4f}")
    starved = int(answer.starved.sum())
    still = int(answer.still.sum())
    if still:
        click.echo(
            f"never visited: {counted(still, 'source')} whose rate was given as 0, which is to say "
            "that it never changes (--max-period visits them all the same)"
        )
    if starved > still:
        click.echo(
            f"never visited: {counted(starved - still, 'source')}, too fast or too unimportant "
            "to be worth the price of a visit (--max-period visits them all the same)"
        )
    for host, price in list(answer.saturated_hosts.items())[:5]:
        click.echo(f"host {host} is at its cap; one more visit there would gain {price:.4g}")
    if len(answer.saturated_hosts) > 5:
        click.echo(f"… and {len(answer.saturated_hosts) - 5:,} more hosts at their cap")
    tell_notes(answer.notes)
