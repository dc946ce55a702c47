"""`observant study trend`: is it changing more, or less, than it did?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from observant.cli.console import (
    keep,
    moment,
    named_format,
    print_json,
    progress_bar,
    tell_notes,
    tell_written,
)
from observant.cli.options import (
    confidence_option,
    end_option,
    json_option,
    output_option,
    plot_option,
    reading_options,
    rows_option,
    several,
    start_option,
    visits_argument,
)
from observant.cli.values import DURATION, Choice, Integer, Number
from observant.names import BINS, ESTIMATORS, MEASURES, PLACES

if TYPE_CHECKING:
    from observant.cli.trend_tables import FromVisits
    from observant.estimation.windows import UpdatePoints
    from observant.visits import VisitLog


@click.command("trend", short_help="Does it change more or less often than before?")
@visits_argument
@several("--source", "-s", "sources", metavar="NAME", text="Only this source")
@several(
    "--window",
    "-w",
    "calendar",
    metavar="WINDOW",
    text="Rate in 2026, 2026-01, 2026-01-15, 2026-01..2026-03, or *-01 (each year)",
)
@click.option(
    "--forecast",
    type=Integer(1, 12),
    metavar="MONTH",
    help="How often in the next such month (1: January), from past ones and the latest year.",
)
@click.option(
    "--duane",
    is_flag=True,
    help="Draw Duane's plot with --plot: the mean time between updates so far, log-log.",
)
@click.option(
    "--threshold",
    type=Number(0),
    default=3.0,
    help="How much may contradict a window before the next one is opened.",
)
@click.option(
    "--limit",
    type=Choice(["points", "each", "total"]),
    default="points",
    help="What the threshold limits: points, each discrepancy, or their sum in units.",
)
@click.option(
    "--measure",
    type=Choice(MEASURES),
    default="gap",
    help="Mean time between updates that is watched: the gap, or the window's mean.",
)
@click.option(
    "--unit",
    type=DURATION.above_zero(),
    help="Unit of the threshold for each and total.  [default: the mean gap of the source]",
)
@click.option(
    "--backward", is_flag=True, help="Grow windows from the latest updates into the past."
)
@click.option(
    "--estimator",
    type=Choice(ESTIMATORS),
    default="weibull-corrected",
    help="Of the rate at the end of each window.",
)
@click.option(
    "--place",
    type=Choice(PLACES),
    default="middle",
    help="Where in a visit gap a change without a date is put.",
)
@start_option
@end_option
@click.option(
    "--drift/--no-drift",
    "with_drift",
    default=True,
    help="For visits: the rate now, its change points, what is overdue.",
)
@click.option(
    "--season",
    type=Choice(BINS),
    help="For visits: at which hours or days the sources change.",
)
@confidence_option
@reading_options
@rows_option
@output_option("all windows (with --window: all rates)")
@plot_option("windows over the count of updates, or the rates of the calendar")
@json_option
def trend(
    visits: tuple[str, ...],
    sources: tuple[str, ...],
    calendar: tuple[str, ...],
    forecast: int | None,
    duane: bool,
    confidence: float,
    output: str | None,
    as_json: bool,
    rows: int,
    plot: str | None,
    start: str | None,
    end: str | None,
    place: str,
    estimator: str,
    with_drift: bool,
    season: str | None,
    time_unit: str,
    **options: Any,
) -> None:
    """Find out whether each source changes more or less often than before, and what comes next.

    VISITS are Parquet, CSV or JSON Lines files, or - for standard input. With the columns source
    and time alone they are a list of updates; --start and --end then say when you watched. With
    changed, digest or last_modified they are a log of visits.

    The history of a source is cut into windows in which its rate rises, falls or stays (Singh).
    Each has the shape beta of a power law (above 1: rising), the rate at its end, and the time
    at which the next update was due. The verdict on a whole history has a p-value. Prints the
    windows of one source, or the latest window of each.

    A TIME is a date (2025-01-31, 2025-01-31T12:00Z), a number as in the file, +90d (after the
    first update), or -1y (before the last).

    \b
    Examples:
      observant study trend updates.csv
      observant study trend visits.csv --source https://example.org/ --plot trend.svg
      observant study trend visits.csv --window '*-01' --season weekday
      observant study trend updates.csv --forecast 1
    """
    from observant.formats import format_of

    if output:
        format_of(output)  # a bad name is better found before the work than after
    reading = {name: options.pop(name) for name in ("format_", "skew", "on_duplicate")}
    history = _read(visits, sources, (start, end), time_unit, **reading)
    if forecast is not None:
        _forecast(history, forecast, confidence, output, rows, as_json=as_json)
        return
    if calendar:
        _calendar(history, calendar, confidence, output, plot, rows, as_json=as_json)
        return
    cutting = {
        "threshold": options["threshold"],
        "measure": options["measure"],
        "limit": options["limit"],
        "direction": "backward" if options["backward"] else "forward",
        "unit": options["unit"],
    }
    from observant.cli.trend_tables import as_plain, print_sources, print_summary, print_windows
    from observant.estimation.windows import estimate_windows, predict_next, update_points

    points = update_points(history, place=place)
    answer = estimate_windows(points, estimator=estimator, confidence=confidence, **cutting)
    model = "count" if estimator == "count" else "weibull"
    due = predict_next(points, model=model, confidence=confidence, **cutting)
    seen = _from_visits(history, confidence, season, with_drift=with_drift)
    keep(answer, output)
    if plot:
        from observant.figures.style import save
        from observant.figures.trend import duane_figure, trend_figure

        save(duane_figure(points) if duane else trend_figure(answer, due), plot)
    if as_json:
        print_json(as_plain(answer, due, seen))
        return
    if len(due) == 1:
        print_windows(answer, rows)
    else:
        print_sources(answer, due, rows)
    print_summary(answer, due, seen)
    tell_written(output, plot)


def _from_visits(
    history: VisitLog | UpdatePoints, confidence: float, season: str | None, *, with_drift: bool
) -> FromVisits:
    """What visits say and update points cannot: the rate now, silence, the hours of change."""
    from observant.cli.trend_tables import FromVisits
    from observant.errors import InputError
    from observant.visits import VisitLog

    if not isinstance(history, VisitLog):
        if season:
            raise InputError("--season needs visits; these are updates")
        return FromVisits()
    drifting = late = found = None
    if with_drift:
        from observant.estimation.drift import estimate_drift
        from observant.estimation.overdue import overdue

        with progress_bar("following", "sources", total=len(history.sources)) as advance:
            drifting = estimate_drift(history, confidence=confidence, progress=advance)
        late = overdue(drifting)
    if season:
        from observant.estimation.season import estimate_seasons

        found = estimate_seasons(history, season, confidence=confidence)
    return FromVisits(drifting, late, found)


# -- reading --------------------------------------------------------------------------------------


def _read(
    files: tuple[str, ...],
    sources: tuple[str, ...],
    watched: tuple[str | None, str | None],
    time_unit: str,
    *,
    format_: str | None,
    skew: float,
    on_duplicate: str,
) -> VisitLog | UpdatePoints:
    """Read visits, or updates where the columns say so."""
    import numpy as np

    from observant.errors import InputError
    from observant.estimation.windows.points import from_updates
    from observant.formats import read_batches
    from observant.processes.updates import Updates
    from observant.times import MICROSECONDS_PER_DAY
    from observant.visits import LogReader
    from observant.visits.log import COLUMNS

    named_format(files, format_)
    unused = {"magnitude", "bytes"}
    reader, names = None, set()
    with progress_bar("reading", "rows") as advance:
        for name in files:
            if reader is None:
                reader = LogReader(
                    name=name,
                    time_unit=time_unit,
                    skew=skew,
                    on_duplicate=on_duplicate,
                )
            else:
                reader.begin_file(name)
            file: Any = sys.stdin.buffer if name == "-" else name
            for batch in read_batches(file, COLUMNS, format_):
                names |= set(batch.schema.names)
                reader.add(
                    batch.select([name for name in batch.schema.names if name not in unused])
                )
                advance(batch.num_rows)
    assert reader is not None  # noqa: S101 - there is at least one file
    log = reader.finish()
    if sources:
        log = log.select(list(sources))
    if names & {"changed", "last_modified", "digest"}:
        if watched != (None, None):
            raise InputError("--start and --end are for a list of updates, not for visits")
        return log
    if names & {"status", *unused}:
        raise InputError(
            "this is neither a list of updates nor a visit log: updates have the columns source "
            "and time alone, visits also have changed, digest or last_modified",
            file=files[0],
        )
    days = log.time / MICROSECONDS_PER_DAY
    start, end = (
        None if text is None else moment(option, text, time_unit, (days.min(), days.max()))
        for text, option in zip(watched, ("--start", "--end"), strict=True)
    )
    for told, outside in (
        ("was updated before --start", days < (-np.inf if start is None else start)),
        ("was updated after --end", days > (np.inf if end is None else end)),
    ):
        if outside.any():
            owner = np.searchsorted(log.offsets, int(np.argmax(outside)), side="right") - 1
            raise InputError(told, source=log.sources[int(owner)].as_py())
    return from_updates(
        Updates(days, log.offsets),
        start=start,
        until=end,
        ids=log.sources,
        calendar=True,
        notes=log.notes,
    )


# -- the calendar ---------------------------------------------------------------------------------


def _calendar(
    history: VisitLog | UpdatePoints,
    windows: tuple[str, ...],
    confidence: float,
    output: str | None,
    plot: str | None,
    rows: int,
    *,
    as_json: bool,
) -> None:
    from observant.cli.trend_tables import iso, print_calendar
    from observant.estimation.windows import calendar_rates

    answer = calendar_rates(history, windows, confidence=confidence)
    keep(answer, output, plot)
    if as_json:
        print_json(
            {
                "rates": [iso(row) for row in answer.rows()],
                "confidence": confidence,
                "notes": list(answer.notes),
            }
        )
        return
    print_calendar(answer, rows)
    tell_notes(answer.notes)
    tell_written(output, plot)


def _forecast(
    history: VisitLog | UpdatePoints,
    month: int,
    confidence: float,
    output: str | None,
    rows: int,
    *,
    as_json: bool,
) -> None:
    from observant.cli.console import print_table, wide_enough
    from observant.estimation.windows import forecast_month
    from observant.units import format_rate

    answer = forecast_month(history, month, confidence=confidence)
    keep(answer, output)
    if as_json:
        print_json({"forecast": list(answer.rows()), "notes": list(answer.notes)})
        return
    told = []
    for _, row in zip(range(rows), answer.rows(), strict=False):
        known = row["rate_per_day"] is not None
        cells = [format_rate(row[k] or 0.0) for k in ("rate_per_day", "rate_low", "rate_high")]
        told.append(
            (
                wide_enough(row["source"], 48),
                row["window"],
                cells[0] if known else "?",
                f"{cells[1]} to {cells[2]}" if known else "",
                format_rate(row["level_per_day"]) if known else "?",
                f"{row['ratio']:.2f}",
                f"{row['years']}",
            )
        )
    print_table(
        ("source", "month", "rate", f"{100 * confidence:g} % interval", "last year", "×", "years"),
        told,
    )
    tell_notes(answer.notes)
    tell_written(output)
