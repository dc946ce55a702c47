"""`observant demo`: see it work."""

from __future__ import annotations

import asyncio
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from observant.cli.console import print_json, print_table, working
from observant.cli.options import json_option, seed_option
from observant.cli.store_options import program
from observant.cli.values import Integer, Number
from observant.units import format_share

if TYPE_CHECKING:
    from observant.observer.synthetic.trial import Judgement
    from observant.simulation import PolicyComparison

_NAMES = {
    "uniform": "all equally often",
    "nutch": "as Apache Nutch does",
    "heritrix": "as Heritrix does",
    "observant": "as observant does",
    "clairvoyant": "with every rate known",
}
_SECONDS = 40.0


@click.command("demo", short_help="See what planning is worth.")
@click.option("--pages", type=Integer(50, 20_000), default=250, help="How many pages the web has.")
@click.option(
    "--seconds",
    type=Number(2),
    help="How long its month takes.  [default: 40; longer on a machine that is busy]",
)
@seed_option()
@click.option(
    "--directory",
    "-d",
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    default="demo",
    help="Where the files go.",
)
@json_option
def demo(pages: int, seconds: float | None, seed: int, directory: str, as_json: bool) -> None:
    """See what planning is worth, on a real history and on a synthetic web watched live.

    First a year of updates of 600 real software packages is replayed: visited equally often, by the
    rules of two crawlers, and as observant does. Then the real observer watches a synthetic web
    over HTTP on loopback, where a month passes in less than a minute: pages change at random, by
    the clock, in bursts; some are noisy, slow or broken, some servers lie. What it did is judged
    by the truth, beside the same rivals.

    Prints how it went, and writes a picture (demo.png, .svg), the history (history.parquet), the
    store of the live part (observant.db), its visit log (visits.parquet), the estimated rates
    (rates.parquet) and how they compare with the truth (observer.png, .svg).

    \b
    Examples:
      observant demo
      observant demo --pages 1000 --seconds 120 -d large
    """
    from observant.errors import InputError

    folder = Path(directory)
    if (folder / "observant.db").exists() and not (folder / "history.parquet").exists():
        raise InputError(
            "this store is not of a demo, which would replace it; name another folder with -d",
            file=str(folder / "observant.db"),
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("observant.db*"):
            old.unlink()
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror}", file=directory) from error
    history = _history(folder, quiet=as_json)
    result = _live(folder, pages, seconds, seed, quiet=as_json)
    with working("Drawing the pictures"):
        _draw(folder, history, result)
    if as_json:
        print_json({**result.as_dict(), "history": history.rows()})
        return
    click.echo(
        f"\nThe picture is {folder / 'demo.png'}; the other files are beside it. Next:\n"
        f"  {program()} serve --no-observer --store {folder / 'observant.db'}\n"
        f"  {program()} list --store {folder / 'observant.db'} --sort rate --descending\n"
        f"  {program()} estimate {folder / 'visits.parquet'} --method pooled\n"
        f"  {program()} simulate {folder / 'history.parquet'} --budget 0.1/source/day "
        "--score-from half -p observant -p cho-square-root"
    )


def _history(folder: Path, *, quiet: bool) -> PolicyComparison:
    """Replay a real year; meanwhile another process compiles what the live part needs."""
    with working("Reading a real year"):
        import multiprocessing

        from observant.observer.schedule import warm_up
        from observant.observer.synthetic.server import start_deaf
        from observant.observer.synthetic.trial import RIVALS
        from observant.simulation import simulate
        from observant.simulation.traces import example_trace, write_trace

        start_deaf(multiprocessing.get_context("spawn").Process(target=warm_up, daemon=True))
        trace = example_trace()
        write_trace(trace, folder / "history.parquet")
    asked: Any = {"budget": "0.1/source/day", "score_from": "half", "visits_saved": True}
    if not quiet:
        click.echo(
            f"1. A real history: {len(trace)} software packages, updated "
            f"{trace.updates.times.size:,} times in a year.\n"
            f"   {len(trace) // 10} visits a day; the second half of the year counts.\n"
        )
    with working("Visiting them equally often, and by the rules of two crawlers"):
        rivals = simulate(trace, RIVALS, **asked)
    if not quiet:
        _print_worth(rivals)
    with working("Visiting them as observant does (the first time it is compiled, once)"):
        answer = simulate(trace, ("observant",), **asked)
    # Both spend the same on the same year, beside the same yardsticks.
    answer = replace(answer, results=(*rivals.results[:-1], *answer.results[1:]))
    if not quiet:
        _print_worth(answer, ("observant", "clairvoyant"))
    return answer


def _live(folder: Path, pages: int, seconds: float | None, seed: int, *, quiet: bool) -> Judgement:
    """Watch the synthetic web, and write what was seen."""
    from observant.cli.run import line_of
    from observant.estimation.rates import estimate_rates
    from observant.formats import read_visits, write_table
    from observant.observer.schedule import warm_up
    from observant.observer.synthetic.trial import run_demo
    from observant.observer.synthetic.web import DemoWorld
    from observant.store import open_store

    file = folder / "observant.db"
    world = DemoWorld(pages=pages, hosts=max(pages // 20, 1), seed=seed)
    seconds = seconds or _SECONDS * _busy()
    if not quiet:
        click.echo(
            f"\n2. A synthetic web: {pages:,} pages on {world.hosts} hosts, watched over HTTP; "
            f"{world.days:g} days pass in {seconds:.0f} seconds.\n"
        )
    with working("Getting ready (the first time the scheduler is compiled, once)"):
        warm_up()
    with working("Watching") as say:
        result = asyncio.run(
            run_demo(
                file,
                world,
                seconds=seconds,
                visits_per_page=24.0,
                show=lambda now: say(line_of(now, now.at)),
            )
        )
    with working("Estimating the rates"):
        with open_store(file) as store:
            store.visits.export(folder / "visits.parquet")
        rates = estimate_rates(read_visits(folder / "visits.parquet"))
        write_table(rates, folder / "rates.parquet")
    if not quiet:
        _print_live(result)
    return result


def _busy() -> float:
    """How many others want each core, at least 1 and at most 4; 1 where nobody can tell."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return min(max(load / (os.cpu_count() or 1), 1.0), 4.0)


def _draw(folder: Path, history: PolicyComparison, result: Judgement) -> None:
    from observant.figures.observer import observer_figure
    from observant.figures.simulation import worth_figure
    from observant.figures.style import save

    pictures = {
        "demo": worth_figure(
            {"A real year of 600 packages": history, "A synthetic web, live": result.comparison},
            _NAMES,
        ),
        "observer": observer_figure(result),
    }
    for name, picture in pictures.items():
        for ending in ("svg", "png"):
            save(picture, str(folder / f"{name}.{ending}"))


def _print_worth(answer: PolicyComparison, only: tuple[str, ...] = ()) -> None:
    """How many copies are out of date, and what visiting all alike would cost to do as well."""
    print_table(
        (
            "visited",
            "copies out of date",
            "visits a day needed to match it, all visited equally often",
        ),
        [
            (
                _NAMES[one.policy],
                format_share(1 - one.metrics["freshness"]),
                "–" if math.isnan(one.visits_saved) else f"{one.visits_saved * answer.budget:,.0f}",
            )
            for one in answer.results
            if (one.policy in only if only else one.policy != "clairvoyant")
        ],
    )
    if not only or "observant" not in only:
        return
    ours = answer["observant"]
    fewer, saved = 1 - ours.relative_staleness, ours.visits_saved
    click.echo(
        f"\n   With observant {format_share(abs(fewer), 0)} {'fewer' if fewer >= 0 else 'more'} "
        "copies are out of date than when all are visited equally often"
        + (
            f".\n   To do as well, that would take {format_share(abs(saved - 1), 0)} "
            f"{'more' if saved >= 1 else 'fewer'} visits."
            if not math.isnan(saved)
            else "."
        )
    )


def _print_live(result: Judgement) -> None:
    import numpy as np

    click.echo(
        f"{result.visits:,} visits ({result.visits / result.seconds:,.0f} a second) found "
        f'{result.changes:,} changes; {result.not_modified:,} were answered "not modified", '
        f"{result.failures:,} failed.\n"
    )
    _print_worth(result.comparison, tuple(_NAMES))
    if result.spent < 0.85 * result.budget:
        click.echo(
            f"   This machine was too busy for {result.budget:,.0f} visits a day and made "
            f"{result.spent:,.0f}: --seconds {2 * result.seconds:g} gives it more time."
        )
    kinds = np.array(result.world.kinds)
    inside = (result.rate_low <= result.truth) & (result.truth <= result.rate_high)
    click.echo(
        f"   The observer believed that {format_share(result.predicted)} of its copies were "
        f"fresh; {format_share(result.achieved)} were.\n"
        f"   True rates in their 95 % intervals: {format_share(result.covered_poisson, 0)} of the "
        f"Poisson pages, {format_share(result.covered, 0)} of all\n   ("
        + ", ".join(
            f"{kind} {format_share(inside[kinds == kind].mean(), 0)}" for kind in sorted(set(kinds))
        )
        + ")."
    )
    if result.lies:
        click.echo(f"   {result.lies} servers were caught saying 304 about pages that had changed.")
