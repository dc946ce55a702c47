"""`observant estimate`: how often does each source change?"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from observant.cli.console import (
    histogram,
    keep,
    named_format,
    print_json,
    print_table,
    progress_bar,
    read_log,
    tell_notes,
    tell_written,
    terminal,
    wide_enough,
)
from observant.cli.engine import engine_options, progress_bars
from observant.cli.options import (
    confidence_option,
    group_option,
    json_option,
    output_option,
    plot_option,
    reading_options,
    rows_option,
    signals_option,
    visits_argument,
)
from observant.cli.values import DURATIONS, Choice
from observant.errors import InputError
from observant.names import RATE_METHODS
from observant.units import format_duration, format_rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.batch import RateFile
    from observant.estimation.rates import RateTable
    from observant.planning.signals import SignalTable
    from observant.visits import VisitLog

_ORDERS = ("source", "rate", "visits", "changes")


@click.command("estimate", short_help="How often does each source change?")
@visits_argument
@click.option(
    "--method",
    "-m",
    type=Choice(RATE_METHODS),
    help="How to estimate; see above.  [default: auto, with --group: pooled]",
)
@click.option(
    "--prior",
    metavar="LAW",
    help="A prior of your own instead of a method: gamma:2,1/7d (shape and mean), "
    "lognormal:1/7d,1.5 (median and sigma), uniform:LOW,HIGH, loguniform:LOW,HIGH, beta:1,1.",
)
@click.option(
    "--point",
    type=Choice(("mean", "map")),
    default="mean",
    help="Report the mean of the posterior, or its most likely rate; with --prior.",
)
@click.option(
    "--classes",
    type=DURATIONS,
    help="Instead say which of these rhythms each source has, and how likely: 1d,1w,30d.",
)
@group_option()
@confidence_option
@click.option(
    "--use-first-age",
    is_flag=True,
    help="Count the age at a dated first visit; right for sources much older than their gaps.",
)
@click.option(
    "--zero-truncated",
    is_flag=True,
    help="The log leaves out sources that never changed (pooled methods).",
)
@signals_option
@reading_options
@engine_options("memory", "disk", "spark", spill=True)
@click.option("--sort", type=Choice(_ORDERS), default="source", help="Order of the rows.")
@rows_option
@output_option("all rates")
@plot_option("the rates")
@json_option
def estimate(
    visits: tuple[str, ...],
    method: str | None,
    prior: str | None,
    point: str,
    classes: list[float] | None,
    group: str | None,
    confidence: float,
    use_first_age: bool,
    zero_truncated: bool,
    signals: str | None,
    output: str | None,
    as_json: bool,
    sort: str,
    rows: int,
    plot: str | None,
    engine: str | None,
    memory: int | None,
    spill: str | None,
    **reading: Any,
) -> None:
    """Estimate how often each source changes, from a log of visits.

    VISITS are Parquet, CSV or JSON Lines files (also .gz, .zst), or - for standard input. Columns:
    source and time; and changed, or digest, or last_modified. Failed visits (a status outside
    200 to 399) observe nothing. Keep visits that found no change: without them there is no rate.
    Prints a rate with its interval for each source, and the collection in a few lines.

    \b
    Examples:
      observant estimate visits.csv
      observant estimate crawl-*.parquet --method pooled --group host -o rates.parquet
      observant estimate visits.csv --prior gamma:2,1/7d --point map
      observant estimate crawl.parquet --engine disk --memory 4GB -o rates.parquet

    \b
    Methods:
      auto               pooled for 50 sources or more, else bias-reduced (the default)
      bias-reduced       each source alone: any gaps, dated or not, finite for every history
      pooled             the collection as prior: best when visits are few
      pooled-gamma       the same with a Gamma prior: faster, coarser
      mle                maximum likelihood; infinite for sources that always changed
      improved           Cho's -log((n-X+0.5)/(n+0.5)), for regular visits
      naive              changes over time; misses what happened twice between visits
      bayes-beta         Cho's Bayesian form, from a Beta prior
      last-modified      from dates of modification (Cho's figure 13; -raw: figure 10)
    """
    from observant.batch import choose_engine, expected_memory
    from observant.estimation.rates import estimate_rates
    from observant.formats import format_of

    if output and not _is_folder(output, engine):
        format_of(output)  # a bad name is better found before the work than after
    if signals is not None:
        if prior or classes is not None or engine in {"disk", "spark"}:
            raise click.UsageError("--signals goes with the pooled methods, in memory")
        engine = "memory"
    if classes is not None:
        if prior or method or group or engine in {"disk", "spark"}:
            raise click.UsageError("--classes is a question of its own, answered in memory")
        _classify(read_log(visits, **reading), classes, output, rows, as_json)
        return
    own = None
    if prior is not None:
        from observant.estimation.bayes import BayesEstimator

        if method or engine in {"disk", "spark"}:
            raise click.UsageError("--prior is a method of its own, in memory")
        own = BayesEstimator(prior, point, confidence)  # type: ignore[arg-type]
        method, engine = own.name, "memory"
    method = method or ("pooled" if group else "auto")
    if group and not method.startswith("pooled"):
        # To standard error: a program may read the answer.
        click.echo(
            f"note: method {method} looks at each source alone; --group is not used", err=True
        )
    options = {
        "method": method,
        "confidence": confidence,
        "use_first_age": use_first_age,
        "zero_truncated": zero_truncated,
        "group": group,
    }
    if engine == "spark":
        answer = _on_spark(visits, output, options, **reading)
        _show(answer, output, as_json, plot, sort, rows)
        return
    engine, limit = choose_engine(engine, memory, expected_memory(visits, reading["format_"]))
    if engine == "disk":
        whole = as_json or plot is not None or not output
        found = _on_disk(visits, output, limit, spill, whole, options, **reading)
        _show(found, output, as_json, plot, sort, rows)
        return
    log = read_log(visits, group=group, **reading)
    judged = judge_signals(log, signals, reading["time_unit"])
    with progress_bar("estimating", "sources", total=len(log.sources)) as advance:
        table = estimate_rates(
            log,
            own or method,
            confidence=confidence,
            use_first_age=use_first_age,
            zero_truncated=zero_truncated,
            signals=judged,
            progress=advance,
        )
    keep(table, output)
    _show(table, output, as_json, plot, sort, rows, judged)


def judge_signals(log: VisitLog, file: str | None, time_unit: str) -> SignalTable | None:
    """How far the signals in a file are true, by the visits of a log."""
    if file is None:
        return None
    from observant.formats.signals import read_signals
    from observant.planning.signals import estimate_signals

    return estimate_signals(log, read_signals(file, time_unit=time_unit))


def print_signals(judged: SignalTable, rows: int) -> None:
    """Print how far each kind of signal about each group is believed."""
    print_table(
        ("signals about", "kind", "signals", "recall", "precision", "false", "delay", ""),
        [
            (
                wide_enough(one.group or "all", max(terminal().width - 90, 16)),
                one.kind,
                f"{one.signals:,}",
                f"{one.recall:.2f} ({one.recall_low:.2f} to {one.recall_high:.2f})",
                f"{one.precision:.2f} ({one.precision_low:.2f} to {one.precision_high:.2f})",
                "{} ({} to {})".format(
                    *map(format_rate, (one.false_per_day, one.false_low, one.false_high))
                ),
                "" if one.delay is None else format_duration(one.delay),
                one.verdict,
            )
            for one in judged.reliability[:rows]
        ],
        words={"kind", ""},
        least=("signals",),
    )
    if len(judged) > rows:
        click.echo(f"… and {len(judged) - rows:,} more (--rows, or --json for all)")
    click.echo()


def _classify(
    log: VisitLog, classes: list[float], output: str | None, rows: int, as_json: bool
) -> None:
    """Which rhythm each source has (Cho, section 2)."""
    from collections import Counter

    from observant.estimation.classes import classify

    found = classify(log, {format_duration(days): 1.0 / days for days in classes})
    table = found.to_arrow()
    keep(found, output)
    if as_json:
        print_json(table.to_pylist())
        return
    if not output:
        best = found.probability.max(axis=1)
        names = log.sources.slice(0, rows).to_pylist()
        print_table(
            ("source", "every", "probability"),
            [
                (wide_enough(name, max(terminal().width - 30, 16)), found.best[i], f"{best[i]:.3f}")
                for i, name in enumerate(names)
            ],
        )
        if len(log.sources) > rows:
            click.echo(f"… and {len(log.sources) - rows:,} more (--rows, or -o FILE for all)")
    counts = Counter(found.best.tolist())
    told = ", ".join(f"{counts[name]:,} every {name}" for name in found.classes)
    click.echo(f"{len(log.sources):,} sources: {told}")
    tell_written(output)


def _show(
    table: Any,
    output: str | None,
    as_json: bool,
    plot: str | None,
    sort: str,
    rows: int,
    judged: SignalTable | None = None,
) -> None:
    """Tell what was found, in the way that was asked for."""
    keep(table, None, plot)
    if as_json:
        found = list(table.rows())
        print_json(found if judged is None else {"signals": list(judged.rows()), "sources": found})
        return
    if judged is not None and rows:
        print_signals(judged, rows)
    if table is None:
        click.echo(f"written to {output}")
        return
    if not output:
        print_rows(table, sort, rows)
    print_summary(table)
    tell_written(output, plot)


def _on_disk(
    visits: tuple[str, ...],
    output: str | None,
    limit: int,
    spill: str | None,
    whole: bool,
    options: dict[str, Any],
    format_: str | None,
    **reading: Any,
) -> RateTable | RateFile:
    """Estimate in partitions on disk; the whole table is read back only where it is shown."""
    import tempfile
    from pathlib import Path

    from observant.batch import estimate_rates

    named_format(visits, format_)
    steps = dict.fromkeys(("grouping", "estimating", "writing"), "sources") | {"reading": "rows"}
    with (
        tempfile.TemporaryDirectory() as nowhere,
        _going_on(output or spill),
        progress_bars(steps) as tell,
    ):
        found = estimate_rates(
            *(sys.stdin.buffer if name == "-" else name for name in visits),
            output=output or Path(nowhere) / "rates.parquet",
            format=format_,
            memory=limit,
            spill=spill,
            progress=tell,
            **options,
            **reading,
        )
        return found.table() if whole else found


@contextmanager
def _going_on(kept: str | None) -> Iterator[None]:
    """Say on Ctrl-C that what was done so far is `kept`."""
    try:
        yield
    except KeyboardInterrupt:
        if kept:
            click.echo("\nThe same command goes on where this one stopped.", err=True)
        raise


def _on_spark(
    visits: tuple[str, ...],
    output: str | None,
    options: dict[str, Any],
    format_: str | None,
    skew: float,
    on_duplicate: str,
    time_unit: str,
) -> RateTable | None:
    """Estimate by Spark; nothing is read back of an answer that was written to a folder."""
    from observant.batch import rate_table_of, read_rates, spark
    from observant.batch.spark.session import errors_told

    if "-" in visits:
        raise InputError("Spark reads files, not standard input")
    if on_duplicate != "error":
        raise InputError("--on-duplicate needs rows in order, which Spark does not keep")
    session = spark.session()
    df = spark.read_visits(session, *visits, format=format_)
    rates = spark.estimate_rates(df, time_unit=time_unit, skew=skew, **options)
    method, confidence = options["method"], options["confidence"]
    if output is None:
        with errors_told():
            return rate_table_of(rates.toArrow().sort_by("source"), method, confidence)
    spark.write_file(rates, output)
    return None if _is_folder(output, "spark") else read_rates(output, method, confidence)


def _is_folder(output: str, engine: str | None) -> bool:
    return engine == "spark" and (output.endswith("/") or "://" in output)


def print_rows(table: RateTable, sort: str, rows: int) -> None:
    """Print the first rows of a table of rates, in the order asked for."""
    import numpy as np

    from observant.units import counted

    if not rows:
        return

    keys = {
        "rate": -np.nan_to_num(table.rate_per_day, nan=-1.0),
        "visits": -table.visits,
        "changes": -table.changes,
    }
    order = np.argsort(keys[sort], kind="stable") if sort in keys else np.arange(len(table))
    width = max(terminal().width - 70, 24)
    interval = f"{100 * table.confidence:g} % interval"
    print_table(
        ("source", "visits", "changes", "observed", "rate", interval, ""),
        [
            (
                wide_enough(table.source[int(i)].as_py(), width),
                f"{table.visits[i]:,}",
                f"{table.changes[i]:,}",
                format_duration(table.exposure_days[i]),
                format_rate(table.rate_per_day[i]),
                f"{format_rate(table.rate_low[i])} to {format_rate(table.rate_high[i])}",
                str(table.evidence[i]).removeprefix("ok"),
            )
            for i in order[:rows]
        ],
        words={""},
        dim={""},
        least=("observed",),
    )
    if len(table) > rows:
        more = counted(len(table) - rows, "more source")
        click.echo(f"… and {more} (--rows, --sort, or -o FILE for all)")
    click.echo()


def print_summary(table: RateTable) -> None:
    """Print the collection in a few lines, with a histogram and the notes."""
    from observant.units import counted

    summary = table.summary()
    numbers = ", ".join(
        counted(summary[f"{noun}s"], noun) for noun in ("source", "visit", "change")
    )
    click.echo(f"{numbers}, method {table.method}")
    click.echo(
        f"{summary['never_changed']:,} never changed, {summary['always_changed']:,} changed at "
        f"every visit, {summary['too_few']:,} have too few visits to compare"
    )
    known = summary["sources"] - summary["too_few"]
    if known:
        # The extremes of n rates hold their median with probability 1 - 2^(1-n), and no more.
        sure = 1 - 2.0 ** (1 - known) >= table.confidence
        interval = (
            f" ({100 * table.confidence:g} % interval {format_rate(summary['median_rate_low'])} to "
            f"{format_rate(summary['median_rate_high'])})"
            if sure
            else ""
        )
        click.echo(f"median rate {format_rate(summary['median_rate_per_day'])}{interval}")
    bars = histogram(table.rate_per_day, format_rate)
    if len(table) > 1 and bars:
        click.echo("\nsources by rate")
        for line in bars:
            click.echo(f"  {line}")
    tell_notes(table.notes)
