"""`observant demo`: see it work."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["demo"]


@click.command("demo", short_help="See it work on made-up sources.")
@click.option("--sources", type=click.IntRange(1, 1_000_000), default=3000, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option(
    "--directory",
    "-d",
    type=click.Path(file_okay=False),
    default="demo",
    show_default=True,
    help="Where the files go.",
)
def demo(sources: int, seed: int, directory: str) -> None:
    """Make a visit log of made-up pages, estimate how often they change, and plan their visits.

    Since the true rates are known, the demo also says how good the estimates are. It writes
    visits.parquet, rates.parquet, plan.parquet, and the rates as a picture (rates.svg, .png).
    """
    import numpy as np

    from observant.cli.estimate import print_rows, print_summary
    from observant.errors import InputError
    from observant.estimation.rates import estimate_rates
    from observant.figures import rate_figure, save
    from observant.formats import read_visits, write_table
    from observant.planning import plan
    from observant.testing import synthetic_visits

    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror}", file=directory) from error
    log, truth = synthetic_visits(sources, seed=seed)
    visits = folder / "visits.parquet"
    write_table(log, visits)
    click.echo(f"{log!r}, written to {visits}\n")

    log = read_visits(visits, group="host")
    table = estimate_rates(log)
    print_rows(table, "source", 8)
    print_summary(table)

    known = np.isfinite(table.rate_high) & (table.rate_low > 0)
    inside = (table.rate_low <= truth) & (truth <= table.rate_high)
    pooled = estimate_rates(log, "pooled")

    def off(rates: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        return float(np.exp(np.sqrt(np.mean(np.log(rates[known] / truth[known]) ** 2))))

    click.echo(
        f"\nThe truth is known here: {inside.mean():.1%} of the intervals hold it (95 % asked for)."
        f"\nA typical estimate is off by a factor of {off(table.rate_per_day):.2f}; with "
        f"--method pooled\n--group host, which lets neighbours speak for sources with few visits, "
        f"by {off(pooled.rate_per_day):.2f}."
    )
    budget = max(1, sources // 10)
    best = plan(pooled, budget=budget, objective="currency", grace=1.0)
    click.echo(
        f"\nWith {budget:,} visits a day, planned for what is known of each page, "
        f"{best.collection_alpha:.1%} of the copies\nwould be at most a day late; with the same "
        f"visits spread evenly, {best.uniform_alpha:.1%}."
    )
    write_table(table, folder / "rates.parquet")
    write_table(best, folder / "plan.parquet")
    for ending in ("svg", "png"):
        save(rate_figure(table), str(folder / f"rates.{ending}"))
    click.echo(f"\nTables and pictures are in {folder}; look at rates.png.")
    click.echo(f"Next: observant estimate {visits} --method pooled --group host --sort rate")
    click.echo(
        f"      observant plan {folder / 'rates.parquet'} --budget {budget}/day --plot plan.png"
    )
