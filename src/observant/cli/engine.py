"""Options of commands whose input may outgrow memory: where the work is done, and with how much."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click

from observant.cli.console import named_format, progress_bar, read_log
from observant.cli.options import together
from observant.cli.values import SIZE, Choice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from observant.visits import VisitLog


def engine_options(
    *engines: str, spill: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --engine and --memory, and --spill for commands that can go on after an interruption."""
    options = [
        click.option(
            "--engine",
            type=Choice(engines),
            help="Where to compute.  [default: memory when it fits, else disk]",
        ),
        click.option(
            "--memory",
            type=SIZE,
            help="The most memory to use: 4GB.  [default: most of what is free]",
        ),
    ]
    if spill:
        options.append(
            click.option(
                "--spill",
                type=click.Path(file_okay=False),
                metavar="FOLDER",
                help="For --engine disk: where visits are spilled, and where an interrupted "
                "run resumes.  "
                "[default: OUTPUT.spill]",
            )
        )
    return together(*options)


def read_within(
    visits: tuple[str, ...],
    *,
    engine: str | None,
    memory: int | None,
    source: str | None = None,
    group: str | None = None,
    **reading: Any,
) -> VisitLog:
    """Read a visit log, or where it is too large the whole histories of as many sources as fit.

    For questions about a collection, which a random sample of its sources answers. A `source` that
    was asked for is read whole, and alone.
    """
    import sys

    from observant.batch import choose_engine, expected_memory, sample_visits

    format_ = reading["format_"]
    named_format(visits, format_)
    engine, limit = choose_engine(engine, memory, expected_memory(visits, format_))
    if engine == "memory":
        return read_log(visits, group=group, **reading)
    with progress_bar("reading", "rows") as advance:
        return sample_visits(
            *(sys.stdin.buffer if name == "-" else name for name in visits),
            memory=limit,
            source=source,
            format=format_,
            group=group,
            time_unit=reading["time_unit"],
            skew=reading["skew"],
            on_duplicate=reading["on_duplicate"],
            progress=advance,
        )


@contextmanager
def progress_bars(units: dict[str, str]) -> Iterator[Callable[[str, int], None]]:
    """One bar after the other, as work goes from step to step; `units` says what each counts."""
    shown = ""
    with ExitStack() as bar:
        advance: Callable[[int], None] = lambda _amount: None  # noqa: E731

        def tell(doing: str, amount: int) -> None:
            nonlocal shown, advance
            if doing != shown:
                bar.close()
                shown, advance = doing, bar.enter_context(progress_bar(doing, units[doing]))
            advance(amount)

        yield tell
