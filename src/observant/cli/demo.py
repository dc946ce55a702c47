"""`observant demo`: see it work."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from observant.cli.store_options import json_option

if TYPE_CHECKING:
    from observant.observer.synthetic.run import Judgement

__all__ = ["demo"]


@click.command("demo", short_help="See it work on a synthetic web.")
@click.option("--pages", type=click.IntRange(50, 20_000), default=2000, show_default=True)
@click.option(
    "--seconds", type=click.FloatRange(2), default=60.0, show_default=True, help="How long it runs."
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option(
    "--directory",
    "-d",
    type=click.Path(file_okay=False),
    default="demo",
    show_default=True,
    help="Where the files go.",
)
@json_option
def demo(pages: int, seconds: float, seed: int, directory: str, as_json: bool) -> None:
    """Watch a synthetic web with the real observer, over real HTTP, and judge it by the truth.

    The pages live on loopback and change by known processes: Poisson, regular, bursty, seasonal;
    some are noisy, slow or broken, some servers lie. A month passes in a minute. Then the
    estimated rates are compared with the true ones, and the currency of the copies with what the
    observer predicted, with uniform visits, and with somebody who knows all rates.

    Writes the store (observant.db), the visit log (visits.parquet), the rates (rates.parquet) and
    a picture (observer.svg, .png).
    """
    from observant.cli.console import print_json
    from observant.cli.running import live
    from observant.errors import InputError
    from observant.estimation.rates import estimate_rates
    from observant.figures.observer import observer_figure
    from observant.figures.style import save
    from observant.formats import read_visits, write_table
    from observant.observer.synthetic.run import run_demo
    from observant.observer.synthetic.world import DemoWorld
    from observant.store import open_store

    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("observant.db*"):
            old.unlink()
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror}", file=directory) from error
    file = folder / "observant.db"
    world = DemoWorld(pages=pages, hosts=max(pages // 20, 1), seed=seed)
    if not as_json:
        click.echo(
            f"{pages:,} pages on {world.hosts} hosts; {world.days:g} days in {seconds:g} seconds, "
            f"over HTTP on loopback, into {file}."
        )
    with live() as show:
        result = asyncio.run(run_demo(file, world, seconds=seconds, show=show))
    with open_store(file) as store:
        store.export(folder / "visits.parquet")
    rates = estimate_rates(read_visits(folder / "visits.parquet"))
    write_table(rates, folder / "rates.parquet")
    for ending in ("svg", "png"):
        save(observer_figure(result), str(folder / f"observer.{ending}"))
    if as_json:
        print_json(result.as_dict())
        return
    _print(result)
    click.echo(f"\nFiles are in {folder}; look at observer.png.")
    click.echo(f"Next: observant serve --no-observer --store {file}")
    click.echo(f"      observant list --store {file} --sort rate --descending")
    click.echo(f"      observant estimate {folder / 'visits.parquet'} --method pooled")


def _print(result: Judgement) -> None:
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    click.echo(
        f"\n{result.visits:,} visits ({result.visits / result.seconds:,.0f} a second), "
        f"{result.changes:,} changes, {result.not_modified:,} times 304, "
        f"{result.failures:,} failed; at most {result.peak} downloaders.\n"
        f"The budget was {result.budget:,.0f} visits a day, {result.spent:,.0f} were made.\n"
    )
    table = Table(box=None, pad_edge=False)
    table.add_column("share of copies that are fresh, second half of the time")
    table.add_column("", justify="right")
    for label, value in (
        ("the observer achieved, by the truth", result.achieved),
        ("the observer predicted", result.predicted),
        ("uniform visits, same budget", result.uniform),
        ("clairvoyant, same budget", result.clairvoyant),
    ):
        table.add_row(label, f"{value:.1%}")
    table.add_row(
        "the observer, of the clairvoyant's", f"{result.achieved / result.clairvoyant:.1%}"
    )
    Console(highlight=False).print(table)
    kinds = np.array(result.world.kinds)
    inside = (result.rate_low <= result.truth) & (result.truth <= result.rate_high)
    off = np.exp(np.sqrt(np.mean(np.log(result.rate / result.truth) ** 2)))
    click.echo(
        f"\nTrue rates in their 95 % intervals: {result.covered_poisson:.0%} of the Poisson pages, "
        f"{result.covered:.0%} of all\n("
        + ", ".join(f"{kind} {inside[kinds == kind].mean():.0%}" for kind in sorted(set(kinds)))
        + f"). A typical estimate is off by a factor of {off:.2f}."
    )
    if result.lies:
        click.echo(f"{result.lies} servers were caught saying 304 about pages that had changed.")
