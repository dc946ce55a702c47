"""`observant study population`: how do the rates of a whole collection spread?"""

from __future__ import annotations

from typing import Any

import click

from observant.cli.console import print_json
from observant.cli.engine import engine_options, read_within
from observant.cli.options import (
    confidence_option,
    json_option,
    plot_option,
    reading_options,
    visits_argument,
)


@click.command("population", short_help="How are rates distributed, and how many links rot?")
@visits_argument
@confidence_option
@reading_options
@engine_options("memory", "disk")
@plot_option("mean times, ages, lifetimes and the week")
@json_option
def population(
    visits: tuple[str, ...], confidence: float, as_json: bool, plot: str | None, **reading: Any
) -> None:
    """Describe a collection: how often do its sources change, and how much do they differ?

    VISITS are Parquet, CSV or JSON Lines files (also .gz, .zst), or - for standard input. Columns:
    source and time; and changed, or digest, or last_modified. Dates of modification (last_modified)
    say the most.

    Prints a fit for each kind of evidence; --json adds the curves.

    \b
    Examples:
      observant study population visits.parquet
      observant study population crawl-*.csv.gz --json > population.json

    The mean times between updates of the sources are described by a Weibull distribution: its scale
    says how long they are, its shape how alike (below 1: a few fast sources among many slow ones).
    Put both into `observant currency --weibull SHAPE SCALE` to plan with them.

    \b
    Each kind of evidence gives a fit of its own:
      ages                  age at the first visit; growth of the collection is estimated too
      lifetimes as printed  between dates of modification, as in Brewington's thesis (biased)
      first lifetimes       the same with the bias of first lifetimes removed
      histories             every visit for what it says: the one to use

    Each fit comes with intervals, the largest distance between the distribution seen and the one
    fitted, and how likely so large a distance would be (p) if the model were true. At the end the
    Weibull is compared with a distribution that assumes no form.

    Where the log has a column status, births, deaths and link rot follow: 404 and 410 are gone.
    """
    from observant.estimation.population import fit_population, turnover

    log = read_within(visits, **reading)
    answer = fit_population(log, confidence=confidence)
    rot = turnover(log) if "status" in log.extras else None
    if rot is not None and not rot.died.sum() and not rot.returned:
        rot = None  # a log that never says 404 may have left out what is gone
    if plot is not None:
        from observant.figures import population_figure, save

        save(population_figure(answer, rot), plot)
    if as_json:
        come_and_gone = {} if rot is None else {**rot.summary(), "months": list(rot.rows())}
        print_json({**answer.to_dict(), "turnover": come_and_gone})
    else:
        click.echo(str(answer))
        if rot is not None:
            click.echo(f"births and deaths\n{rot}")
