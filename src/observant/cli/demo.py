"""`observant demo`: see it work."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from observant.cli.console import print_json, print_table
from observant.cli.options import json_option, seed_option
from observant.cli.values import Integer, Number
from observant.units import format_share

if TYPE_CHECKING:
    from observant.observer.synthetic.trial import Judgement

__all__ = ["demo"]


@click.command("demo", short_help="See it work on a synthetic web.")
@click.option(
    "--pages",
    type=Integer(50, 20_000),
    default=2000,
    show_default=True,
    help="How many pages the web has.",
)
@click.option(
    "--seconds", type=Number(2), default=60.0, show_default=True, help="How long it runs."
)
@seed_option()
@click.option(
    "--directory",
    "-d",
    type=click.Path(file_okay=False),
    metavar="FOLDER",
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

    Prints how it went, and writes the store (observant.db), the visit log (visits.parquet), the
    rates (rates.parquet) and a picture (observer.svg, .png).

    \b
    Examples:
      observant demo
      observant demo --pages 200 --seconds 10 -d small
    """
    from observant.cli.run import live
    from observant.errors import InputError
    from observant.observer.synthetic.web import DemoWorld

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
            f"over HTTP on loopback, into {file}.\n"
            "Getting ready; the first run compiles its loops, which may take a minute ..."
        )
    from observant.observer.synthetic.trial import run_demo

    with live() as show:
        result = asyncio.run(run_demo(file, world, seconds=seconds, show=show))
    from observant.estimation.rates import estimate_rates
    from observant.figures.observer import observer_figure
    from observant.figures.style import save
    from observant.formats import read_visits, write_table
    from observant.store import open_store

    with open_store(file) as store:
        store.visits.export(folder / "visits.parquet")
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

    click.echo(
        f"\n{result.visits:,} visits ({result.visits / result.seconds:,.0f} a second), "
        f"{result.changes:,} changes, {result.not_modified:,} times 304, "
        f"{result.failures:,} failed; at most {result.peak} downloaders.\n"
        f"The budget was {result.budget:,.0f} visits a day, {result.spent:,.0f} were made.\n"
    )
    print_table(
        ("share of copies that are fresh, second half of the time", ""),
        [
            ("the observer achieved, by the truth", format_share(result.achieved)),
            ("the observer predicted", format_share(result.predicted)),
            ("uniform visits, same budget", format_share(result.uniform)),
            ("clairvoyant, same budget", format_share(result.clairvoyant)),
            (
                "the observer, of the clairvoyant's",
                format_share(result.achieved / result.clairvoyant),
            ),
        ],
    )
    kinds = np.array(result.world.kinds)
    inside = (result.rate_low <= result.truth) & (result.truth <= result.rate_high)
    off = np.exp(np.sqrt(np.mean(np.log(result.rate / result.truth) ** 2)))
    click.echo(
        f"\nTrue rates in their 95 % intervals: {format_share(result.covered_poisson, 0)} of the "
        f"Poisson pages, {format_share(result.covered, 0)} of all\n("
        + ", ".join(
            f"{kind} {format_share(inside[kinds == kind].mean(), 0)}" for kind in sorted(set(kinds))
        )
        + f"). A typical estimate is off by a factor of {off:.2f}."
    )
    if result.lies:
        click.echo(f"{result.lies} servers were caught saying 304 about pages that had changed.")
