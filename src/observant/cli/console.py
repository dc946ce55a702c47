"""What the commands share: reading visits with progress, tables, JSON, a histogram in text."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from observant.visits import VisitLog

__all__ = [
    "confidence_option",
    "format_option",
    "histogram",
    "plot_option",
    "print_json",
    "progress_bar",
    "read_log",
    "time_unit_option",
    "visit_options",
    "wide_enough",
]

_QUIET_SECONDS = 1.0
"""A bar that would vanish at once is not shown."""


format_option = click.option(
    "--format",
    "format_",
    type=click.Choice(["parquet", "csv", "jsonl"]),
    help="Format of the input, where the name does not tell (standard input, for one).",
)
time_unit_option = click.option(
    "--time-unit",
    type=click.Choice(["us", "ms", "s", "d"]),
    default="s",
    show_default=True,
    help="Unit of times that are numbers, since 1970.",
)
confidence_option = click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Of the intervals.",
)


def plot_option(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the option --plot, saying what it draws."""
    return click.option(
        "--plot",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help=f"Draw {what}: SVG, PNG or HTML.",
    )


def visit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument VISITS and the options that say how to read it."""
    for option in reversed(
        [
            click.argument("visits", nargs=-1, required=True, metavar="VISITS..."),
            format_option,
            time_unit_option,
            click.option(
                "--skew",
                default="1d",
                show_default=True,
                metavar="DURATION",
                help="How far last_modified may lie after its visit before it is set aside.",
            ),
            click.option(
                "--on-duplicate",
                type=click.Choice(["error", "first", "last"]),
                default="error",
                show_default=True,
                help="Two visits to one source at one time: stop, or keep the first or last.",
            ),
        ]
    ):
        command = option(command)
    return command


def read_log(
    visits: tuple[str, ...],
    *,
    format_: str | None,
    time_unit: str,
    skew: str,
    on_duplicate: str,
    group: str | None = None,
) -> VisitLog:
    """Read the visit log that the options of `visit_options` name; ``-`` is standard input."""
    from observant.errors import InputError
    from observant.formats import read_visits
    from observant.units import parse_duration

    files: list[Any] = [sys.stdin.buffer if name == "-" else name for name in visits]
    if "-" in visits and format_ is None:
        raise InputError("say the format of standard input: --format csv, jsonl or parquet")
    with progress_bar("reading", "rows") as advance:
        return read_visits(
            *files,
            format=format_,
            time_unit=time_unit,
            skew=parse_duration(skew),
            on_duplicate=on_duplicate,
            group=group,
            evidence_only=True,
            progress=advance,
        )


@contextmanager
def progress_bar(
    doing: str, unit: str, total: int | None = None
) -> Iterator[Callable[[int], None]]:
    """Show a bar with rate and time left on a terminal, and nothing when piped."""
    if not sys.stderr.isatty():
        yield lambda _amount: None
        return
    import time

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    started = time.monotonic()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} " + unit),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(doing, total=total, speed="")
    shown, done = False, 0

    def advance(amount: int) -> None:
        nonlocal shown, done
        done += amount
        elapsed = time.monotonic() - started
        if not shown and elapsed > _QUIET_SECONDS:
            bar.start()
            shown = True
        if shown:
            bar.update(task, completed=done, speed=f"{done / elapsed:,.0f}/s")

    try:
        yield advance
    finally:
        if shown:
            bar.stop()


def print_json(value: Any) -> None:
    """Print a value as JSON; what JSON cannot say becomes null."""
    click.echo(json.dumps(_plain(value), ensure_ascii=False, indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def wide_enough(text: str, width: int) -> str:
    """Shorten text in the middle, where URLs differ least.

    >>> wide_enough("https://example.org/a/very/long/path.html", 20)
    'https://…g/path.html'
    """
    if len(text) <= width:
        return text
    tail = (width - 1) * 3 // 5
    return f"{text[: width - 1 - tail]}…{text[-tail:]}"


def histogram(
    values: NDArray[np.float64], label: Callable[[float], str], *, bins: int = 12, width: int = 40
) -> list[str]:
    """Draw a histogram of positive values on a logarithmic axis, a line a bin.

    >>> for line in histogram(np.array([1.0, 1.1, 9.0]), "{:.1f}".format, bins=2, width=4):
    ...     print(line)
    1.0 to 3.0 ████ 2
    3.0 to 9.0 ██ 1
    """
    positive = values[(values > 0) & np.isfinite(values)]
    if not len(positive):
        return []
    low, high = np.log(positive.min()), np.log(positive.max())
    if high - low < 1e-9:
        low, high, bins = low - 0.5, high + 0.5, 1
    edges = np.exp(np.linspace(low, high, bins + 1))
    counts, _ = np.histogram(np.log(positive), bins=np.linspace(low, high, bins + 1))
    labels = [label(float(edge)) for edge in edges]
    wide = max(len(text) for text in labels)
    lines = []
    for k, count in enumerate(counts):
        eighths = round(8 * width * count / counts.max())
        bar = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
        lines.append(f"{labels[k]:>{wide}} to {labels[k + 1]:>{wide}} {bar} {count:,}")
    return lines
