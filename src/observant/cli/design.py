"""`observant design`: how often, and how many times, must I look to know the rate?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from observant.cli.console import print_json
from observant.errors import UnitError
from observant.units import parse_duration, parse_rate

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.estimation.laws import Method

__all__ = ["design"]


def _rate(text: str) -> float:
    return _above_zero(parse_rate, text)


def _duration(text: str) -> float:
    return _above_zero(parse_duration, text)


def _above_zero(parse: Callable[[str], float], text: str) -> float:
    try:
        quantity = parse(text)
    except UnitError as error:
        raise click.BadParameter(str(error)) from error
    if quantity == 0:
        raise click.BadParameter(f"must be more than zero: {text!r}")
    return quantity


def _share(text: str) -> float:
    """Read 0.35 or 35%. A bare 35 could be either, so it is refused."""
    percent = text.strip().endswith("%")
    try:
        share = float(text.strip().removesuffix("%")) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if not 0 < share < float("inf") or (share > 1 and not percent):
        raise click.BadParameter(f"this is not a share: {text!r}; write for example 35% or 0.35")
    return share


@click.command("design")
@click.option(
    "--rate",
    required=True,
    type=_rate,
    metavar="RATE",
    help="How often you think the source changes: 1/7d, 2/week, 0.3 (per day).",
)
@click.option(
    "--visits",
    type=click.IntRange(min=1),
    help="How many visits you can make, not counting the first look.",
)
@click.option(
    "--interval",
    type=_duration,
    metavar="DURATION",
    help="Time between visits: 10d, 6h. The best one, if you do not say.",
)
@click.option(
    "--precision",
    type=_share,
    metavar="SHARE",
    help="How close the estimated rate must come to the true one: 35% or 0.35.",
)
@click.option(
    "--probability",
    type=_share,
    metavar="SHARE",
    help="How surely it must come that close: 75% or 0.75.  [default: 95%]",
)
@click.option(
    "--method",
    type=click.Choice(["improved", "naive", "bayes-beta"]),
    default="improved",
    show_default=True,
    help="The estimator that will be used.",
)
@click.option("--dated", is_flag=True, help="Each visit reports when the source was last modified.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def design(
    rate: float,
    visits: int | None,
    interval: float | None,
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
      observant design --rate 1/7d --visits 10

    \b
    I want the rate within 35 %, three times out of four. How many visits?
      observant design --rate 1/7d --precision 35% --probability 75%

    \b
    I visit 10 times, every 10 days. Is that good enough?
      observant design --rate 1/7d --visits 10 --interval 10d --precision 35%

    \b
    The server sends Last-Modified. What do I gain?
      observant design --rate 1/7d --visits 10 --dated

    The rate is your guess before you look. Visiting twice too often costs some precision; visiting
    much too rarely makes the estimate too low, unless the visits are dated. The first look, which
    has nothing to compare with, is not counted as a visit. The default estimator of `observant
    estimate` gives the same numbers as `improved` when visits are regular and undated.

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
        interval=interval,
        method=method,
        dated=dated,
    )
    if as_json:
        print_json(answer.to_dict())
    else:
        click.echo(str(answer))
