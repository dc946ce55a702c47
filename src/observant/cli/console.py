"""What the commands share: reading visits with progress, times, tables, JSON, a histogram."""

from __future__ import annotations

import datetime as dt
import json
import math
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from rich.console import Console

    from observant.arrays import Floats
    from observant.visits import VisitLog

_QUIET_SECONDS = 1.0
"""A bar that would vanish at once is not shown."""

_SIGN_OF_LIFE = 4.0
"""Nobody waits longer than this, in seconds, without a word."""

PIPE_WIDTH = 140
"""Piped, a table may be as wide as it likes."""


# -- reading --------------------------------------------------------------------------------------


def named_format(files: Sequence[str], format_: str | None) -> None:
    """Complain of standard input without a format, which no name tells."""
    from observant.errors import InputError

    if "-" in files and format_ is None:
        raise InputError("say the format of standard input: --format csv, jsonl or parquet")


def read_log(
    visits: tuple[str, ...],
    *,
    format_: str | None,
    time_unit: str,
    skew: float,
    on_duplicate: str,
    group: str | None = None,
) -> VisitLog:
    """Read the visit log that the options of `reading_options` name; ``-`` is standard input.

    Visits in the future are said to standard error: mostly their clock, or their unit, is wrong.
    """
    from observant.formats import read_visits
    from observant.times import DAY, micros
    from observant.units import counted

    named_format(visits, format_)
    files: list[Any] = [sys.stdin.buffer if name == "-" else name for name in visits]
    with progress_bar("reading", "rows") as advance:
        log = read_visits(
            *files,
            format=format_,
            time_unit=time_unit,
            skew=skew,
            on_duplicate=on_duplicate,
            group=group,
            evidence_only=True,
            progress=advance,
        )
    late = int((log.time > micros(time.time() + DAY)).sum())
    if late:
        said = f"note: {counted(late, 'visit')} in the future; are the times and --time-unit right?"
        click.echo(said, err=True)
    return log


def moment(option: str, text: str, unit: str, within: tuple[float, float]) -> float:
    """Days since 1970 of a time as people write it; `within` is what +90d and -1y count from.

    >>> moment("--start", "1970-01-11", "s", (0, 0)), moment("--end", "-1d", "s", (0, 5))
    (10.0, 4.0)
    """
    import re

    import pyarrow as pa

    from observant.errors import InputError, UnitError
    from observant.times import MICROSECONDS_PER_DAY
    from observant.units import parse_duration
    from observant.visits.columns import times_in

    stripped = text.strip()
    if stripped[:1] in {"+", "-"} and re.search(r"[a-z]", stripped):
        try:
            shift = parse_duration(stripped[1:])
        except UnitError as error:
            raise UnitError(f"{option}: {error}") from error
        return within[0] + shift if stripped[0] == "+" else within[1] - shift
    try:
        micros = times_in(pa.array([stripped]), "time", unit=unit)
    except InputError as error:
        raise InputError(
            f"{option}: this is not a time: {text!r}; write 2025-01-31, 2025-01-31T12:00Z, a "
            "number as in the file, +90d (after the first update) or -1y (before the last)"
        ) from error
    return float(micros[0]) / MICROSECONDS_PER_DAY


def when(option: str, text: str) -> dt.datetime:
    """An instant as people write it: a date, a time, or a duration back from now.

    >>> when("--since", "2026-01-31").isoformat()
    '2026-01-31T00:00:00+00:00'
    """
    from observant.errors import InputError
    from observant.times import parse_datetime
    from observant.units import parse_duration

    with suppress(ValueError):
        at = parse_datetime(text)
        return at if at.tzinfo else at.replace(tzinfo=dt.UTC)
    try:
        return dt.datetime.now(dt.UTC) - dt.timedelta(days=parse_duration(text))
    except (InputError, OverflowError):
        raise InputError(
            f"{option}: this is not a time: {text!r}; write 2026-01-31, 2026-01-31T12:00Z, or "
            "30d for 30 days ago"
        ) from None


def text_of(file: str) -> str:
    """The text of a file, - for standard input."""
    from pathlib import Path

    from observant.errors import InputError

    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file) from error
    except UnicodeDecodeError as error:
        raise InputError("this is not text in UTF-8", file=file) from error


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
        console=Console(file=beneath(sys.stderr)),
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


@contextmanager
def working(doing: str) -> Iterator[Callable[[str], None]]:
    """Say what is being done, for how long already, and when it is done: to standard error.

    On a terminal the line renews itself; piped, there is a new one every few seconds. Call what is
    yielded with more to say.
    """
    import shutil
    import threading
    import time

    here, more, done = sys.stderr.isatty(), "", threading.Event()
    started = time.monotonic()

    def write(end: str) -> None:
        text = f"{doing} {end}"
        if here:
            text = f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}"
        click.echo(text, err=True, nl=not here)

    def renew() -> None:
        while not done.wait(0.25 if here else _SIGN_OF_LIFE):
            write(f"... {time.monotonic() - started:.0f} s  {more}")

    def say(text: str) -> None:
        nonlocal more
        more = text

    write("...")
    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield say
    finally:
        done.set()
        thread.join()
        write(f"({time.monotonic() - started:.1f} s)")
        if here:
            click.echo(err=True)


# -- telling --------------------------------------------------------------------------------------


_INERT = {
    number: "\ufffd"
    for number in (*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    if chr(number) not in "\n\t"
}
"""What a terminal obeys, and what turns the order of letters around."""


def inert(text: str) -> str:
    """The text without anything that a terminal would obey. Strangers wrote some of it.

    >>> inert("a\\x1b]52;c;AAAA\\x07b\\r\\n")
    'a�]52;c;AAAA�b\\r\\n'
    """
    if text.isprintable():
        return text
    return "\r\n".join(part.translate(_INERT) for part in text.split("\r\n"))


class Inert:
    """A stream of text that is `inert`; what we draw ourselves goes to the one `beneath`."""

    def __init__(self, stream: Any) -> None:
        self.beneath = stream

    @classmethod
    def of(cls, stream: Any) -> Any:
        """The stream, made so if it is not."""
        return stream if isinstance(stream, cls) else cls(stream)

    def write(self, text: str) -> int:
        """Write it, made harmless."""
        self.beneath.write(inert(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write all of them, made harmless."""
        self.beneath.writelines(map(inert, lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


def beneath(stream: Any) -> Any:
    """The stream itself, for colours and bars of our own."""
    return getattr(stream, "beneath", stream)


def print_json(value: Any) -> None:
    """Print a value, or an answer of the service, as JSON; what JSON cannot say becomes null."""
    text = json.dumps(_plain(value), ensure_ascii=False, indent=2, allow_nan=False)
    click.echo(text if text.isascii() else text.translate(_ESCAPED))


_ESCAPED = {number: f"\\u{number:04x}" for number in _INERT if number > 32}
"""What JSON may hold as it is, and a terminal would obey."""


def _plain(value: Any) -> Any:
    if hasattr(value, "__struct_fields__"):
        import msgspec

        value = msgspec.to_builtins(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):  # numpy.float64 is one too
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "tolist"):  # of NumPy, which is not imported to look for it
        return _plain(value.tolist())
    return value


def keep(answer: Any, output: str | None, plot: str | None = None) -> None:
    """Write an answer to a file, and draw it, where that was asked for."""
    if output:
        from observant.formats import write_table

        write_table(answer, output)
    if plot:
        from observant.figures import save

        save(answer.plot(), plot)


def tell_notes(notes: Iterable[str]) -> None:
    """What a reader should know of an answer."""
    for note in notes:
        click.echo(f"note: {note}")


def tell_written(*files: str | None) -> None:
    """The files that were written, of those that were asked for."""
    for file in filter(None, files):
        click.echo(f"written to {file}")


def terminal(pipe_width: int = PIPE_WIDTH) -> Console:
    """Where tables are printed: as wide as the terminal, or `pipe_width` columns in a pipe."""
    from rich.console import Console

    class Told(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # main leaves quietly

    return Told(
        file=beneath(sys.stdout),
        highlight=False,
        width=None if sys.stdout.isatty() else pipe_width,
    )


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    words: Collection[str] = (),
    dim: Collection[str] = (),
    least: Sequence[str] = (),
    pipe_width: int = PIPE_WIDTH,
) -> None:
    """Print a table. The first column and `words` are flush left, numbers flush right.

    Where it is too wide for the terminal, the columns of `least` go, in their order; then names in
    the first column are shortened in the middle, and texts go on below at a blank. No word is cut:
    what does not fit even so is printed as one field a line.
    """
    from rich.table import Table
    from rich.text import Text

    # Strangers wrote some of this: neither markup nor an escape sequence reaches the terminal.
    shown = [[_printable(cell) for cell in row] for row in rows]
    out, dropped = terminal(pipe_width), set()
    wide = [max(len(row[i]) for row in (columns, *shown)) + 2 for i in range(len(columns))]
    for name in least:
        if sum(wide) - 2 > out.width:
            dropped.add(columns.index(name))
            wide[columns.index(name)] = 0
    names, *shown = (
        [cell for i, cell in enumerate(row) if i not in dropped] for row in (columns, *shown)
    )
    widths = _widths([names, *shown], out.width)
    if widths is None:
        for row in shown:
            for name, cell in zip(names, row, strict=True):
                if cell:
                    out.print(Text(f"{name}: {cell}" if name else cell), soft_wrap=True)
            out.print()
        return
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(names):
        grid.add_column(
            Text(name),
            justify="left" if place == 0 or name in words else "right",
            style="dim" if name in dim else None,
            width=widths[place],
        )
    for first, *rest in shown:
        grid.add_row(*map(Text, (wide_enough(first, widths[0]), *rest)))
    out.print(grid)


_SHORTEST_NAME = 24
"""Names in the first column of a table are shortened to no less."""


def _widths(rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """How wide each column is so that all fit and no word is cut; None if that cannot be.

    >>> _widths([["source", "state"], ["a", "not found for 2 days"]], 20)
    [6, 12]
    >>> _widths([["source", "state"], ["a", "indescribable"]], 12) is None
    True
    """
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    least = [
        max((len(word) for cell in column for word in cell.split()), default=0)
        for column in zip(*rows, strict=True)
    ]
    least[0] = min(wide[0], _SHORTEST_NAME)
    free = width - 2 * (len(wide) - 1)
    if sum(least) > free:
        return None
    while sum(wide) > free:
        over = [have - need for have, need in zip(wide, least, strict=True)]
        place = max(range(len(wide)), key=lambda k: (over[k] > 0, wide[k]))
        wide[place] -= 1
    return wide


def _printable(cell: str) -> str:
    return "".join(letter if letter.isprintable() else "�" for letter in cell)


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
    values: Floats, label: Callable[[float], str], *, bins: int = 12, width: int = 40
) -> list[str]:
    """Draw a histogram of positive values on a logarithmic axis, a line a bin.

    >>> import numpy as np
    >>> for line in histogram(np.array([1.0, 1.1, 9.0]), "{:.1f}".format, bins=2, width=4):
    ...     print(line)
    1.0 to 3.0 ████ 2
    3.0 to 9.0 ██ 1
    """
    import numpy as np

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
