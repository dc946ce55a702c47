"""`observant study design`: how often, and how many times, must I look to know the rate?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from observant.cli.console import print_json, print_table
from observant.cli.options import json_option
from observant.cli.values import DURATION, RATE, SHARE, Choice, Integer
from observant.units import format_duration

if TYPE_CHECKING:
    from observant.estimation.exact import Method


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
    help="How likely it must come that close: 75% or 0.75.  [default: 95%]",
)
@click.option(
    "--method",
    type=Choice(["improved", "naive", "bayes-beta"]),
    default="improved",
    help="How to estimate; see above.",
)
@click.option("--dated", is_flag=True, help="Each visit reports when the source was last modified.")
@click.option(
    "--adaptive",
    is_flag=True,
    help="When to change the interval along the way, by what was seen.",
)
@json_option
def design(
    rate: float,
    visits: int | None,
    period: float | None,
    precision: float | None,
    probability: float | None,
    method: Method,
    dated: bool,
    adaptive: bool,
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

    --dated says what dates of modification add.

    \b
    It changed at the first four visits. Was my guess wrong, shall I look more often?
      observant study design --rate 1/7d --visits 10 --period 10d --adaptive

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
    from observant.estimation.design import design_visits

    if adaptive:
        if dated or precision is not None:
            raise click.UsageError("--adaptive goes with --visits and --period alone")
        _print_adaptive(rate, visits or 10, period, as_json)
        return
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


def _print_adaptive(rate: float, visits: int, period: float | None, as_json: bool) -> None:
    """The next gap for every count of changes so far, as long as the interval was kept."""
    import numpy as np

    from observant.estimation.design import first_gap, next_gap

    period = period or first_gap(rate)
    most = min(visits - 1, _SHOWN)
    rows = []
    for n in range(1, most + 1):
        seen = np.arange(n)[None, :] < np.arange(n + 1)[:, None]
        gaps = next_gap(rate, np.full(seen.shape, period), seen)
        rows += [
            {"visits": n, "changes": x, "next_gap_days": float(gap)} for x, gap in enumerate(gaps)
        ]
    if as_json:
        print_json({"period_days": period, "next": rows})
        return
    click.echo(
        f"Begin with a visit every {format_duration(period)}. Go on with another interval if"
    )
    click.echo()
    print_table(
        ("visits so far", "changes", "next after"),
        [
            (f"{row['visits']}", f"{row['changes']}", format_duration(row["next_gap_days"]))
            for row in rows
            if row["next_gap_days"] != period
        ],
    )
    click.echo()
    click.echo("Otherwise keep it: no other would tell a quarter more.")


_SHOWN = 6
"""Visits up to which the table is printed; after a change of interval, `next_gap` goes on."""
