"""How `observant study trend` shows what it found: tables for people, plain values for machines."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from observant.cli.console import print_table, tell_notes, terminal, wide_enough

if TYPE_CHECKING:
    from observant.estimation.drift import DriftTable
    from observant.estimation.overdue import OverdueTable
    from observant.estimation.season import Seasons
    from observant.estimation.windows import CalendarRates, LocalRates, Predictions


@dataclass(frozen=True)
class FromVisits:
    """What visits say and update points cannot; nothing of it for a list of updates."""

    drift: DriftTable | None = None
    overdue: OverdueTable | None = None
    seasons: Seasons | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What each of them would have the reader know."""
        answers = (self.drift, self.overdue, self.seasons)
        return tuple(note for answer in answers if answer is not None for note in answer.notes)


def as_plain(answer: LocalRates, due: Predictions, seen: FromVisits) -> dict[str, Any]:
    """The whole answer for machines."""
    whole = {row.pop("source"): row for row in answer.overall.rows()}
    told = []
    for row in due.rows():
        overall = whole.get(row["source"], {})
        told.append({**row, **{f"overall_{key}": value for key, value in overall.items()}})
    result: dict[str, Any] = {
        "windows": [iso(row) for row in answer.rows()],
        "sources": [iso(row) for row in told],
        "estimator": answer.estimator,
        "confidence": answer.confidence,
        "notes": list(dict.fromkeys([*answer.notes, *seen.notes])),
    }
    if seen.drift is not None:
        result["drift"] = [iso(row) for row in seen.drift.rows()]
        result["change_points"] = [iso(row) for row in seen.drift.change_points.rows()]
    if seen.overdue is not None:
        result["overdue"] = [iso(row) for row in seen.overdue.rows()]
    if seen.seasons is not None:
        shape = seen.seasons.season
        result["season"] = {
            "bins": shape.bins,
            "p_value": shape.p_value,
            "flat": shape.flat,
            "weights": shape.weights.tolist(),
        }
    return result


def iso(row: dict[str, Any]) -> dict[str, Any]:
    """Write the times of a row as ISO 8601."""
    return {key: _text(value) for key, value in row.items()}


def _text(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    return value


_PIPE_WIDTH = 150


def _day(value: Any) -> str:
    moment = value.as_py() if hasattr(value, "as_py") else value
    return "?" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def _probability(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}".replace("nan", "?")


def print_windows(answer: LocalRates, rows: int) -> None:
    """All windows of one source."""
    from observant.units import counted, format_rate

    if not rows or not len(answer):
        return
    percent = f"{100 * answer.confidence:g} % interval"
    start, end, state = answer.start, answer.end, answer.state
    first = max(len(answer) - rows, 0)
    print_table(
        ("window", "from", "to", "updates", "state", "beta", "p-value", "rate at the end", percent),
        [
            (
                str(i + 1),
                _day(start[i]),
                _day(end[i]),
                f"{answer.points[i]:,}",
                str(state[i]),
                f"{answer.beta[i]:.2f}".replace("nan", "?"),
                _probability(answer.p_value[i]),
                format_rate(answer.rate_at_end[i]),
                f"{format_rate(answer.rate_low[i])} to {format_rate(answer.rate_high[i])}",
            )
            for i in range(first, len(answer))
        ],
        pipe_width=_PIPE_WIDTH,
    )
    _print_more(counted(first, "earlier window") if first else "")


def print_sources(answer: LocalRates, due: Predictions, rows: int) -> None:
    """The latest window of each source, and the verdict on its whole history."""
    import numpy as np

    from observant.units import counted, format_rate

    latest = np.flatnonzero(answer.latest)
    if not rows or not len(latest):
        return
    window, state, verdict = answer.window, answer.state, answer.overall.trend
    when = due.next_update
    width = max(terminal(_PIPE_WIDTH).width - 90, 16)
    print_table(
        ("source", "updates", "windows", "trend", "p-value", "now", "rate now", "next update"),
        [
            (
                wide_enough(str(answer.source[int(w)]), width),
                f"{answer.overall.points[k]:,}",
                f"{window[w]:,}",
                str(verdict[k]),
                _probability(answer.overall.p_value[k]),
                str(state[w]),
                format_rate(answer.rate_at_end[w]),
                _day(when[int(answer.windows.owner[w])]),
            )
            for k, w in enumerate(latest[:rows])
        ],
        pipe_width=_PIPE_WIDTH,
    )
    more = len(latest) - rows
    _print_more(counted(more, "more source") if more > 0 else "")


def _print_more(what: str) -> None:
    if what:
        click.echo(f"… and {what} (--rows, or -o FILE for all)")
    click.echo()


def print_summary(answer: LocalRates, due: Predictions, seen: FromVisits) -> None:
    """Print the verdicts, what is due next, and what the visits add."""
    from observant.units import counted

    verdict = answer.overall.trend
    single = len(due) == 1
    if single and len(verdict):
        told = {"rising": "the rate rises", "falling": "the rate falls", "none": "no clear trend"}
        shown = _probability(answer.overall.p_value[0])
        click.echo(f"whole history: {told[str(verdict[0])]} (p-value {shown})")
        click.echo(
            f"next update: {_day(due.next_update[0])} "
            f"({100 * due.confidence:g} % interval {_day(due.next_low[0])} to "
            f"{_day(due.next_high[0])})"
        )
    elif len(verdict):
        click.echo(
            f"{counted(len(verdict), 'source')} with updates: {int((verdict == 'rising').sum()):,} "
            f"rising, {int((verdict == 'falling').sum()):,} falling, "
            f"{int((verdict == 'none').sum()):,} without a clear trend"
        )
    else:
        click.echo("no updates were seen")
    _print_seen(seen, single=single)
    tell_notes(dict.fromkeys([*answer.notes, *seen.notes]))


def _print_seen(seen: FromVisits, *, single: bool) -> None:
    from observant.units import counted, format_duration, format_rate

    if seen.drift is not None and single:
        now = seen.drift
        click.echo(
            f"rate now, from the visits: {format_rate(now.rate_per_day[0])} "
            f"({format_rate(now.rate_low[0])} to {format_rate(now.rate_high[0])}), "
            f"believed: {now.method[0]}"
        )
        for row in now.change_points.rows():
            click.echo(
                f"the rate changed about {row['time']:%Y-%m-%d}, from "
                f"{format_rate(row['rate_before'])} to {format_rate(row['rate_after'])} "
                f"(probability {row['probability']:.2f})"
            )
    elif seen.drift is not None:
        moved = int((seen.drift.rate_changes > 0).sum())
        click.echo(f"from the visits: the rate of {counted(moved, 'source')} changed at some time")
    if seen.overdue is not None and len(seen.overdue):
        first = next(seen.overdue.rows())
        who = "it" if single else f"{counted(len(seen.overdue), 'source')}, first {first['source']}"
        click.echo(
            f"overdue: {who}; {first['reason']} for {format_duration(first['days'])}, "
            f"probability {first['probability']:.2g}"
        )
    if seen.seasons is not None:
        shape = seen.seasons.season
        if shape.flat:
            click.echo(f"no season by {shape.bins} (p-value {_probability(shape.p_value)})")
        else:
            busiest = ", ".join(_bin(shape.bins, int(b)) for b in (-shape.weights).argsort()[:3])
            click.echo(
                f"season by {shape.bins} (p-value {_probability(shape.p_value)}): most changes at "
                f"{busiest} UTC, up to {shape.weights.max():.2g} times the mean"
            )


def _bin(bins: str, number: int) -> str:
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    if bins == "weekday":
        return days[number]
    hour = f"{number % 24:02}:00"
    return hour if bins == "hour-of-day" else f"{days[number // 24]} {hour}"


def print_calendar(answer: CalendarRates, rows: int) -> None:
    """Print the rates of stretches of the calendar."""
    import itertools

    from observant.units import counted, format_duration, format_rate

    if not rows:
        return
    width = max(terminal(_PIPE_WIDTH).width - 80, 16)
    told = []
    for row in itertools.islice(answer.rows(), rows):
        low, high = row["rate_low"] or 0.0, row["rate_high"]
        interval = f"{format_rate(low)} to {'∞' if high is None else format_rate(high)}"
        known = row["rate_per_day"] is not None
        told.append(
            (
                wide_enough(row["source"], width),
                row["window"],
                format_duration(row["observed_days"]),
                f"{row['changes']:.3g}",
                format_rate(row["rate_per_day"]) if known else "?",
                interval if known else "",
                "" if row["evidence"] == "ok" else row["evidence"],
            )
        )
    percent = f"{100 * answer.confidence:g} % interval"
    print_table(
        ("source", "window", "observed", "changes", "rate", percent, ""),
        told,
        pipe_width=_PIPE_WIDTH,
    )
    more = len(answer) - rows
    _print_more(counted(more, "more row") if more > 0 else "")
