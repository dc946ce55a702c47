"""`observant study intervals`: how long between updates? The whole distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from observant.cli.console import (
    keep,
    print_json,
    print_table,
    tell_notes,
    tell_written,
    wide_enough,
)
from observant.cli.engine import engine_options, read_within
from observant.cli.options import (
    confidence_option,
    group_option,
    json_option,
    output_option,
    plot_option,
    reading_options,
    seed_option,
    visits_argument,
)
from observant.cli.values import DURATION, Choice, Integer
from observant.names import INTERVAL_METHODS
from observant.units import counted, format_duration

if TYPE_CHECKING:
    from observant.estimation.intervals import Diagnostics, IntervalEstimate, PooledIntervals
    from observant.visits import VisitLog

_SHOWN = 10
"""Sources that are told of a test."""
_SHARES = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95)
_KINDS = {
    "bursty": "bursty: the longer it has been quiet, the longer it will stay so",
    "regular": "regular: the longer it has been quiet, the sooner it will change",
    "memoryless": "memoryless: as good as Poisson, its rate says all",
    "mixed": "neither bursty nor regular throughout",
}


@click.command("intervals", short_help="How long between updates?")
@visits_argument
@click.option(
    "--source", "-s", metavar="NAME", help="Only this source; without one, all are pooled."
)
@click.option(
    "--method",
    "-m",
    type=Choice([*INTERVAL_METHODS, "pareto"]),
    default="auto",
    help="How to estimate; see above.",
)
@click.option("--step", type=DURATION.above_zero(), help="Distance between points; the bins of m6.")
@click.option("--max", "maximum", type=DURATION.above_zero(), help="Longest interval to consider.")
@click.option("--test", is_flag=True, help="Test every source instead: Poisson, bursty or regular.")
@group_option()
@click.option(
    "--bands",
    type=Integer(0),
    help="Bootstrap samples for the bands; 0 for none.  [default: 100, fewer for long logs]",
)
@confidence_option
@seed_option()
@reading_options
@engine_options("memory", "disk")
@output_option("the curves (or the pooled sources)")
@plot_option("the distributions")
@json_option
def intervals(
    visits: tuple[str, ...],
    source: str | None,
    method: str,
    step: float | None,
    maximum: float | None,
    test: bool,
    group: str | None,
    bands: int | None,
    confidence: float,
    seed: int,
    output: str | None,
    as_json: bool,
    plot: str | None,
    **reading: Any,
) -> None:
    """Estimate how long it is between updates: the whole distribution, not only the rate.

    VISITS are Parquet, CSV or JSON Lines files (also .gz, .zst), or - for standard input; columns
    as for `observant estimate`. A rate describes a source only if it is Poisson, and few are.
    F is the distribution of the time between updates, G that of the age at a random moment; G is
    all that currency and planning need. Prints quantiles of both, and what kind of source it is.

    \b
    Examples:
      observant study intervals visits.csv --source https://a.example/
      observant study intervals visits.csv --source https://a.example/ --plot intervals.svg
      observant study intervals visits.csv --source S --method m6 --step 0.05d --max 10d --json
      observant study intervals visits.csv --group host

    \b
    Methods:
      auto         the best that the visits allow; says which and why (the default)
      concave      any gaps, dated or not: likelihood of a concave G (ours)
      m2           all ages, where visits are dated (Li)
      m4, m5       constant gaps; m5 from the gaps between changes that m3 keeps (Li)
      smooth       constant gaps too, with F: right for bursty and memoryless sources (Li)
      m6           all pairs of visits, random gaps (Li)
      m1, m3, g-m4 biased; kept as published, for comparison
      exponential, weibull, lomax (pareto), gamma, lognormal
                   a formula, by the likelihood of the same visits
    """
    from observant.estimation.intervals import PooledIntervals, estimate_intervals
    from observant.formats import format_of

    if output:
        format_of(output)  # a bad name is better found before the work than after
    log = read_within(visits, source=source, group=group, **reading)
    if test:
        _test(log, output, as_json)
        return
    answer = estimate_intervals(
        log,
        source,
        method,
        step=step,
        maximum=maximum,
        bands=bands,
        confidence=confidence,
        seed=seed,
    )
    keep(answer, output, plot)
    if as_json:
        print_json(answer.summary())
    elif isinstance(answer, PooledIntervals):
        _print_pooled(answer)
    elif answer.diagnostics is not None:
        _print_one(answer, answer.diagnostics)
    if not as_json:
        tell_written(output, plot)


def _test(log: VisitLog, output: str | None, as_json: bool) -> None:
    """Does the chance of a change depend on the time since the last one?"""
    from collections import Counter

    from observant.estimation.intervals import poisson_test_of_visits

    found = poisson_test_of_visits(log)
    keep(found, output)
    if as_json:
        print_json(list(found.rows()))
        return
    counts = Counter(found.verdict.tolist())
    failing = [row for row in found.rows() if row["verdict"] in {"bursty", "regular"}]
    shown = sorted(failing, key=lambda row: row["memory_p"])[:_SHOWN]
    if shown and not output:
        print_table(
            ("source", "changes", "memory", "p", "verdict"),
            [
                (
                    wide_enough(str(row["source"]), 60),
                    f"{row['changes']:,}",
                    f"{row['memory']:.2f}",
                    f"{row['memory_p']:.2g}",
                    row["verdict"],
                )
                for row in shown
            ],
        )
    told = int(found.tested.sum())
    click.echo(
        f"{counted(told, 'source')} tested: {counts['bursty']:,} bursty, {counts['regular']:,} "
        f"regular, {counts['possible']:,} that may be Poisson "
        f"({found.level * told:.3g} would fail by chance); "
        f"{counts['too-few']:,} with too few changes"
    )
    tell_written(output)


def _print_one(answer: IntervalEstimate, found: Diagnostics) -> None:
    check = found.sampling
    click.echo(
        f"{answer.source}: {counted(check.visits, 'visit')} over {format_duration(check.days)}, "
        f"{counted(check.changes, 'change')}"
    )
    click.echo(f"method {answer.method}: {answer.why}")
    if answer.identified:
        bands = answer.bands
        interval = (
            f" ({100 * bands.confidence:g} % interval {format_duration(bands.mean_low)} to "
            f"{format_duration(bands.mean_high)})"
            if bands is not None
            else ""
        )
        click.echo(f"mean interval {format_duration(answer.mean)}{interval}")
    elif answer.mean_at_most < float("inf"):
        click.echo(f"mean interval at most {format_duration(answer.mean_at_most)}")
    _print_curves(answer)
    kind = found.ageing
    if kind is not None:
        click.echo(_KINDS[kind])
    for error, visits in found.visits_for_error.items():
        click.echo(f"visits for an error of G below {error:g}: about {visits:,}")
    tell_notes(answer.notes)


def _print_curves(answer: IntervalEstimate) -> None:
    import numpy as np

    columns = ["share", *(["intervals up to"] if answer.identified else []), "ages up to"]
    ages = np.interp(
        _SHARES, np.maximum.accumulate(answer.age_cdf(answer.x_days)), answer.x_days, left=np.nan
    )
    rows = []
    for share, age in zip(_SHARES, ages, strict=True):
        cells = [f"{100 * share:g} %"]
        if answer.identified:
            cells.append(format_duration(float(answer.quantile(share))))
        rows.append([*cells, format_duration(float(age))])
    click.echo()
    print_table(columns, rows)
    click.echo()


def _print_pooled(answer: PooledIntervals) -> None:
    click.echo(
        f"{counted(len(answer), 'source')}, {counted(int(answer.visits.sum()), 'visit')}, "
        f"{counted(int(answer.changes.sum()), 'change')}, method {answer.method}\n"
    )
    print_table(
        ("group", "sources", "median mean", "shortest half", "longest tenth", "kind"),
        [
            (
                wide_enough(row["group"], 40),
                f"{row['sources']:,}",
                format_duration(row["median_mean_days"]),
                f"≤ {row['median_interval_in_means']:.2g} means",
                f"≥ {row['upper_interval_in_means']:.2g} means",
                row["ageing"] or "",
            )
            for row in answer.group_rows()
        ],
        words={"kind"},
    )
    click.echo()
    tell_notes(answer.notes)
