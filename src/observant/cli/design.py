"""`observant study design`: how often, and how many times, must I look to know the rate?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from observant.cli.console import print_json
from observant.cli.options import json_option
from observant.cli.values import DURATION, RATE, SHARE, Choice, Integer

if TYPE_CHECKING:
    from observant.estimation.exact import Method

__all__ = ["design"]


@click.command("design")
@click.option(
    "--rate",
    required=True,
    type=RATE.above_zero(),
    help="How often the source changes: 1/7d, 2/week, 0.3 (per day).",
)
@click.option(
    "--visits",
    type=Integer(1),
    help="How many visits you can make, not counting the first look.",
)
@click.option(
    "--period",
    type=DURATION.above_zero(),
    help="Time between visits: 10d, 6h.  [default: the best one]",
)
@click.option(
    "--precision",
    type=SHARE,
    help="How close the estimated rate must come to the true one: 35% or 0.35.",
)
@click.option(
    "--probability",
    type=SHARE,
    help="How surely it must come that close: 75% or 0.75.  [default: 95%]",
)
@click.option(
    "--method",
    type=Choice(["improved", "naive", "bayes-beta"]),
    default="improved",
    show_default=True,
    help="How to estimate; see above.",
)
@click.option("--dated", is_flag=True, help="Each visit reports when the source was last modified.")
@json_option
def design(
    rate: float,
    visits: int | None,
    period: float | None,
    precision: float | None,
    probability: float | None,
    method: Method,
    dated: bool,
    as_json: bool,
) -> None:
    """How often, and how many times, must I look at a source to know its rate?

    Give what you have, and learn the rest. All answers are exact for a source that changes at
    random at a constant rate (a Poisson process) and is visited at equal intervals.

    \b
    I can make 10 visits. When, and what will I know?
      observant study design --rate 1/7d --visits 10

    \b
    I want the rate within 35 %, three times out of four. How many visits?
      observant study design --rate 1/7d --precision 35% --probability 75%

    \b
    I visit 10 times, every 10 days. Is that good enough?
      observant study design --rate 1/7d --visits 10 --period 10d --precision 35%

    \b
    The server sends Last-Modified. What do I gain?
      observant study design --rate 1/7d --visits 10 --dated

    Prints what these visits will tell: bias, spread, and the best period.

    \b
    Methods:
      improved    Cho's -log((n-X+0.5)/(n+0.5)); what `observant estimate` gives, too
      naive       changes over time; misses what happened twice between visits
      bayes-beta  Cho's Bayesian form, from a Beta prior

    The rate is your guess before you look. Visiting twice too often costs some precision; visiting
    much too rarely makes the estimate too low, unless the visits are dated. The first look, which
    has nothing to compare with, is not counted as a visit.

    With --json, `visits_needed` is the number of visits that reach `precision` with
    `wanted_probability` at this interval, and stay there with every further visit. What is
    infinite or cannot be is null.
    """
    from observant.estimation.design import design as design_visits

    if visits is None and precision is None:
        raise click.UsageError(
            "say how many visits you can make, or what precision you want: "
            "--visits 10 or --precision 35%"
        )
    if probability is not None and probability >= 1:
        raise click.UsageError("no finite number of visits is certain: --probability under 100%")
    answer = design_visits(
        rate,
        visits=visits,
        precision=precision,
        probability=probability,
        interval=period,
        method=method,
        dated=dated,
    )
    if as_json:
        print_json(answer.to_dict())
    else:
        click.echo(str(answer))
