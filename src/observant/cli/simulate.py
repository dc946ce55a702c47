"""`observant simulate`: what would a policy have achieved?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from observant.cli.console import (
    keep,
    moment,
    named_format,
    print_json,
    print_table,
    progress_bar,
    tell_notes,
    tell_written,
    wide_enough,
)
from observant.cli.options import (
    budget_option,
    end_option,
    format_option,
    grace_option,
    json_option,
    list_option,
    objective_option,
    output_option,
    plot_option,
    seed_option,
    several,
    start_option,
    time_unit_option,
)
from observant.cli.values import DURATION, Choice, Integer, Number
from observant.names import EVIDENCE_KINDS, FIRST_VISITS, OBJECTIVES, QUEUES
from observant.units import counted, format_duration, format_rate, parse_budget

if TYPE_CHECKING:
    from observant.simulation import PolicyComparison
    from observant.simulation.traces import Trace

_SEEDS = 3


@click.command("simulate", short_help="What would a policy have achieved on these updates?")
@click.argument("trace", metavar="[TRACE]", required=False)
@several(
    "--policy",
    "-p",
    "policies",
    metavar="NAME",
    text="A policy by name, or module:name of your own",
)
@budget_option()
@objective_option(default="freshness", among=[name for name in OBJECTIVES if name != "harmonic"])
@grace_option(multiple=True)
@click.option(
    "--evidence",
    type=Choice(EVIDENCE_KINDS),
    default="existence",
    help="What a visit tells: changed or not; also the age; the age of some sources.",
)
@click.option(
    "--dated-share",
    type=Number(0, 1),
    default=0.5,
    help="For --evidence mixed: the share of sources whose visits are dated.",
)
@start_option
@end_option
@click.option(
    "--score-from",
    metavar="TIME",
    default="start",
    help="Count from here on: start, half, or a time. What is before is for learning.",
)
@click.option(
    "--group",
    metavar="COLUMN",
    default="auto",
    help="Groups of sources: a column, 'prefix' (the name up to its last /), 'host', or 'none'. "
    "auto: the column group, or the prefix.",
)
@click.option("--by-group", is_flag=True, help="Print the results of every group, too.")
@click.option(
    "--first-visit",
    type=Choice(FIRST_VISITS),
    default="known",
    help="Begin with copies that are all fresh (known), or with none at all (counted).",
)
@click.option(
    "--failures", type=Number(0, 1, max_open=True), default=0.0, help="Share of visits that fail."
)
@click.option(
    "--latency", type=DURATION, default="0d", help="From a visit until its copy is in place."
)
@click.option(
    "--signals",
    metavar="FILE|QUALITY",
    help="Signals of change: a table (source, time, kind), or recall=0.8,precision=0.7,delay=1h"
    "[,share=0.5][,kind=sitemap] to draw them from the updates. Sitemaps and feeds have to be "
    "read, for a visit each.",
)
@click.option(
    "--queue",
    type=Choice(QUEUES),
    default="due",
    help="What a rule visits when it asks for more or less than the budget: what is due first, or "
    "the source of whose wait the largest share has passed.",
)
@click.option("--as-asked", is_flag=True, help="Rules spend what they ask for, not the budget.")
@seed_option(None, shown="1")
@click.option(
    "--seeds",
    type=Integer(1),
    help="How many seeds from --seed on, for the standard errors.  "
    f"[default: {_SEEDS}; with --seed: 1]",
)
@click.option("--jobs", type=Integer(1), help="Policies at a time.  [default: all cores]")
@list_option()
@format_option
@time_unit_option
@output_option("every source under every policy")
@plot_option("what each policy achieved, and how it learned")
@json_option
def simulate(
    trace: str | None,
    policies: tuple[str, ...],
    output: str | None,
    as_json: bool,
    plot: str | None,
    by_group: bool,
    group: str,
    format_: str | None,
    time_unit: str,
    list_: bool,
    **options: Any,
) -> None:
    """Replay real updates under several policies with the same budget, and compare the results.

    TRACE is a Parquet, CSV or JSON Lines file, or - for standard input, with a row for every
    update (`observant study trace` makes one):

    \b
      source      which one (or source_id)
      time        when it was updated (or t, in seconds); empty: a source without updates
      group       host, folder, … (optional)
      importance  what it is worth (optional; all alike without it)
      cost        of a visit (optional; the budget is then spent on that)

    \b
    Examples:
      observant simulate trace.parquet --budget 0.1/source/day
      observant simulate trace.parquet --policy nutch --policy cho-improved --budget 1000/day
      observant simulate trace.parquet --budget 2/s --start 2025-01-01 --score-from half --json
      observant simulate trace.parquet --budget 0.1/source/day --signals recall=0.8,precision=0.7

    A budget may also be for each source: 0.1/source/day. Every policy spends the same visits.
    Uniform and clairvoyant (who knows every rate) always run. Staleness is what is stale with a
    policy over what is with uniform visits: 0.78 means 22 % fewer stale copies. Visits saved is
    how many times the visits uniform would need to be as good, found by more replays; a dash is
    beyond half and three times the budget. Gap closed is 0 for uniform and 1 for clairvoyant,
    measured by the objective. --grace may be given again: the currency is printed for each, and
    the first is that of --objective currency. Signals are heard by the policy observant, which
    learns how far to believe them; observant-ignoring does not, observant-blind visits at once.

    A TIME is a date (2025-01-31, 2025-01-31T12:00Z), a number as in the file, +90d (after the
    first update), or -1y (before the last).
    """
    if list_:
        _print_names(as_json)
        return
    if trace is None:
        raise click.UsageError("give a TRACE: a file with a row for every update")
    if options["budget"] is None:
        raise click.UsageError("give --budget, for example --budget 0.1/source/day")
    if output:
        from observant.formats import format_of

        format_of(output)  # a bad name is better found before the work than after
    updates = _read(trace, group, format_, time_unit)
    answer = _run(updates, policies, time_unit=time_unit, **options)
    if output:
        _write(answer, updates, output)
    keep(answer, None, plot)
    if as_json:
        print_json(_json_rows(answer, by_group=by_group))
        return
    for doubt in answer.doubts:
        click.echo(f"{doubt[0].upper()}{doubt[1:]}.")
    _print_table(answer)
    if by_group:
        _print_groups(answer)
    _print_summary(answer, updates)
    tell_written(output, plot)


def _read(file: str, group: str, format_: str | None, time_unit: str) -> Trace:
    from observant.simulation.traces import read_trace

    named_format([file], format_)
    with progress_bar("reading", "rows") as advance:
        return read_trace(
            sys.stdin.buffer if file == "-" else file,
            format=format_,
            group=None if group == "none" else group,
            time_unit=time_unit,
            progress=advance,
        )


def _run(
    trace: Trace,
    policies: tuple[str, ...],
    *,
    budget: str,
    start: str | None,
    end: str | None,
    score_from: str,
    grace: tuple[float, ...],
    failures: float,
    seed: int | None,
    seeds: int | None,
    signals: str | None,
    time_unit: str,
    **options: Any,
) -> PolicyComparison:
    from observant.simulation import simulate as replayed

    heard: Any = signals
    if signals and "=" not in signals:
        from observant.formats.signals import read_signals

        heard = read_signals(signals, time_unit=time_unit)

    first = 1 if seed is None else seed
    count = seeds or (_SEEDS if seed is None else 1)
    within = (trace.start, trace.end)
    total = count * len({*policies, "uniform", "clairvoyant"})
    with progress_bar("replaying", "replays", total=total) as advance:
        return replayed(
            trace,
            policies,
            budget=parse_budget(budget, len(trace)),
            start=None if start is None else moment("--start", start, time_unit, within),
            end=None if end is None else moment("--end", end, time_unit, within),
            score_from=score_from
            if score_from in {"start", "half"}
            else moment("--score-from", score_from, time_unit, within),
            graces=list(grace),
            grace=grace[0] if grace and options["objective"] == "currency" else 0.0,
            failure=failures,
            visits_saved=True,
            signals=heard,
            seeds=range(first, first + count),
            progress=advance,
            **options,
        )


def _json_rows(answer: PolicyComparison, *, by_group: bool) -> list[dict[str, Any]]:
    rows = answer.rows()
    for row, result in zip(rows, answer.results, strict=True):
        row |= {
            "objective": answer.objective,
            "evidence": answer.evidence,
            "budget_per_day": answer.budget,
            "notes": list(answer.notes),
            "learning_curve": result.scores[0].learning_curve(),
        }
        if by_group:
            row["groups"] = [
                {**part, "group": answer.group_name(part["group"])}
                for part in result.scores[0].by_group()
            ]
    return rows


def _write(answer: PolicyComparison, trace: Trace, output: str) -> None:
    """Every source under every policy, of the first seed."""
    import pyarrow as pa

    from observant.formats import write_table

    names = pa.array(trace.sources, pa.string())
    tables = []
    for result in answer.results:
        table = result.scores[0].to_arrow()
        table = table.set_column(0, "source", names)
        policy = pa.array([result.policy] * len(table), pa.string())
        tables.append(table.add_column(0, "policy", policy))
    write_table(pa.concat_tables(tables), output)


def _print_names(as_json: bool) -> None:
    from observant.simulation import names

    if as_json:
        print_json(list(names()))
        return
    for name in names():
        click.echo(name)


def _print_table(answer: PolicyComparison) -> None:
    graces = list(answer.results[0].metrics["currency"])
    rows = []
    for result in answer.results:
        m, errors = result.metrics, result.errors
        rows.append(
            (
                result.policy,
                _shown(result.relative_staleness, result.relative_staleness_error, digits=3),
                _shown(result.visits_saved, result.visits_saved_error, digits=2),
                _shown(m["freshness"], errors["freshness"]),
                *(f"{m['currency'][grace]:.4f}" for grace in graces),
                _shown(m["detected_share"], errors["detected_share"]),
                format_duration(m["mean_delay_days"]),
                f"{m['precision']:.4f}",
                format_duration(m["longest_wait_days"]),
                _shown(result.gap_closed, result.gap_closed_error, digits=3),
            )
        )
    currencies = [f"α({format_duration(grace)})" for grace in graces]
    print_table(
        (
            *("policy", "staleness", "visits saved", "freshness", *currencies),
            *("detected", "delay", "precision", "longest wait", "gap closed"),
        ),
        rows,
    )
    click.echo()


def _shown(value: float, error: float, digits: int = 4) -> str:
    if value != value:  # noqa: PLR0124 - not a number
        return "–"
    return f"{value:.{digits}f}" + (f" ±{error:.{digits}f}" if error == error else "")  # noqa: PLR0124


def _print_groups(answer: PolicyComparison) -> None:
    parts = [result.scores[0].by_group() for result in answer.results]
    rows = []
    for row in range(len(parts[0])):
        for result, groups in zip(answer.results, parts, strict=True):
            part = groups[row]
            rows.append(
                (
                    wide_enough(answer.group_name(part["group"]), 48),
                    result.policy,
                    f"{part['sources']:,}",
                    f"{part['freshness']:.4f}",
                    _shown(part["detected_share"], float("nan")),
                    f"{part['visits']:,}",
                )
            )
    print_table(("group", "policy", "sources", "freshness", "detected", "visits"), rows)
    click.echo()


def _print_summary(answer: PolicyComparison, trace: Trace) -> None:
    uniform = answer["uniform"].metrics
    days = answer.end - answer.start
    scored = answer.end - answer.score_from
    click.echo(
        f"{counted(answer.sources, 'source')}, {uniform['updates']:,} updates in "
        f"{format_duration(scored)} that count (of {format_duration(days)}), "
        f"{format_rate(answer.budget)} visits, evidence {answer.evidence}"
    )
    click.echo(
        f"± is the standard error over {len(answer.seeds)} seeds"
        if len(answer.seeds) > 1
        else f"one replay, seed {answer.seeds[0]} (--seeds 5 for standard errors)"
    )
    for result in answer.results:
        starved = result.metrics["starved"]
        if starved >= 0.5:  # a mean over seeds
            click.echo(f"{result.policy}: {starved:,.0f} sources had no visit in that time")
        if (reads := result.metrics["reads"]) >= 0.5:
            click.echo(
                f"{result.policy}: {reads:,.0f} visits were spent on reading lists of signals"
            )
    tell_notes((*trace.notes, *answer.notes[len(answer.doubts) :]))
