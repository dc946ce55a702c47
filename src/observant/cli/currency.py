"""`observant currency`: from a period to a currency, or from a wanted currency to a period."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from observant.cli.console import print_json, tell_written
from observant.cli.options import (
    grace_option,
    json_option,
    output_option,
    plot_option,
    weibull_option,
)
from observant.cli.values import DURATION, RATE, SHARE, SIZE, Integer, Number
from observant.errors import InputError
from observant.units import format_duration, format_rate, format_share

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.currency import AgeModel

_YEAR = 365.25


@click.command("currency")
@click.option(
    "--rate", type=RATE, help="How often the source changes: 1/7d, 2/week, 0.3 (per day)."
)
@weibull_option
@click.option(
    "--rates",
    metavar="FILE",
    help="A collection: what `observant estimate -o` writes, all visited with the same period.",
)
@click.option(
    "--visits",
    metavar="FILE",
    help="A visit log: how its sources change is estimated, and need not be Poisson.",
)
@click.option("--source", "-s", metavar="NAME", help="With --visits: only this source.")
@click.option("--period", type=DURATION, help="Time between visits: 10d, 6h.")
@click.option(
    "--target",
    type=Number(0, 1),
    metavar="ALPHA",
    help="A wanted currency, 0 to 1, instead of a period: answers with the longest period.",
)
@click.option(
    "--risk",
    type=SHARE,
    help="How often a cached copy may be stale: 5%. Answers with its time to live.",
)
@grace_option(default="0d")
@click.option(
    "--replicas",
    type=Integer(1),
    help="How many replicas are asked: adds how current the best one is.",
)
@click.option(
    "--ask",
    type=SHARE,
    metavar="ALPHA",
    help="How likely one replica must be current: adds how many to ask.",
)
@click.option(
    "--pages",
    type=Number(0, min_open=True),
    help="Size of the collection: adds pages per day.",
)
@click.option(
    "--page-size",
    type=SIZE,
    help="Mean size of a page: adds bits per second. 12kB is 12,000 bytes, 12KiB is 12,288.",
)
@click.option(
    "--variation",
    type=Number(0),
    default=0.0,
    show_default=False,
    help="How irregular the visits are: 0 a fixed period, 1 random times.  [default: 0]",
)
@click.option(
    "--growth",
    type=RATE,
    default=0.0,
    show_default=False,
    help="How fast the collection grows while the visits do not: 0.00176, 1/568d.  [default: 0]",
)
@output_option("the time to live of every source (--rates and --risk)")
@plot_option("currency against the period")
@json_option
def currency(
    rate: float | None,
    weibull: tuple[float, float] | None,
    rates: str | None,
    visits: str | None,
    source: str | None,
    period: float | None,
    target: float | None,
    risk: float | None,
    grace: float,
    pages: float | None,
    page_size: int | None,
    variation: float,
    growth: float,
    replicas: int | None,
    ask: float | None,
    output: str | None,
    as_json: bool,
    plot: str | None,
) -> None:
    """Say how current a copy is that is refreshed at a fixed period.

    A copy is current within a grace when every update it has missed is younger than the grace.
    Its currency is the probability of that at a random moment. Say how the sources change (--rate,
    --weibull or --rates) and how often you visit them (--period), or how current you want to be
    (--target). Prints the period, the currency, and what is missed meanwhile.

    \b
    Examples:
      observant currency --rate 0.3 --period 10d --grace 2d
      observant currency --rates rates.parquet --period 1mo --grace 1w
      observant currency --weibull 1.4 152.2d --grace 1d --target 0.95 --pages 8e8 --page-size 12kB
      observant currency --rates rates.parquet --risk 5% -o times-to-live.csv

    The first is one source that changes every three days or so, visited every ten, two days late
    allowed. The second is a collection that is visited once a month. The third asks how often the
    web must be visited so that 95 % of it is at most a day late, and at what cost. The fourth is
    for a cache: how long each source may be served after a fetch, in seconds for Cache-Control, so
    that even the last answer is stale in 5 % of cases at most.

    With --variation the time between visits spreads around the period; its standard deviation is so
    many periods. With --growth a round of visits takes --period now, and longer every day: the
    currency is that of now, and that in a year is printed as well.
    """
    if [rate, weibull, rates, visits].count(None) != 3:
        raise click.UsageError(
            "say how the sources change: give one of --rate, --weibull, --rates, --visits"
        )
    if source is not None and visits is None:
        raise click.UsageError("--source needs --visits")
    if [period, target, risk].count(None) != 2:
        raise click.UsageError("give one of --period or --target, or --risk")
    if output and (risk is None or rates is None):
        raise click.UsageError("-o goes with --rates and --risk")
    if risk is not None:
        _live(rate, weibull, rates, risk, grace, output, as_json)
        return
    if page_size is not None and pages is None and rates is None:
        raise click.UsageError("--page-size needs --pages, the size of the collection")
    if period is None and (variation or growth):
        raise click.UsageError("--variation and --growth need --period")
    if visits is not None:
        model, about = _seen(visits, source)
    else:
        model, about = _collection(rates) if rates else _source(rate, weibull)
    if pages is None and rates:
        pages = about["sources"]
    answer = {**_answer(model, grace, period, target, pages, page_size, variation, growth), **about}
    if replicas is not None or ask is not None:
        answer |= _replicas(model, answer["period_days"], grace, replicas, ask)
    if as_json:
        print_json(answer)
    else:
        click.echo(_as_table(answer))
    if plot is not None:
        from observant.figures import currency_figure, save

        if not math.isfinite(answer["period_days"]) or answer["period_days"] <= 0:
            raise InputError("there is nothing to draw: the period is zero or has no limit")
        save(currency_figure(model, answer["period_days"], answer["grace_days"]), plot)


def _live(
    rate: float | None,
    weibull: tuple[float, float] | None,
    file: str | None,
    risk: float,
    grace: float,
    output: str | None,
    as_json: bool,
) -> None:
    """How long copies may be served: of one source, or of each in a file."""
    import numpy as np

    from observant.currency import time_to_live

    if file is None:
        one = float(time_to_live(_source(rate, weibull)[0], risk, grace))
        age = None if math.isinf(one) else int(one * 86_400)
        if as_json:
            print_json({"time_to_live_days": one, "max_age_seconds": age, "risk": risk})
        else:
            told = "" if age is None else f"  (Cache-Control: max-age={age})"
            click.echo(f"may be served for  {format_duration(one)}{told}")
        return
    from observant.cli.rate_tables import read_rates
    from observant.formats import write_table

    table = read_rates(file)
    # A source of which little is known may be fast: the risk is over all rates it may have.
    days = np.asarray(time_to_live(table["known"], risk, grace), np.float64)
    seconds = np.where(np.isfinite(days), days * 86_400, 2**31).astype(np.int64)
    rows = {"source": table["source"], "time_to_live_days": days, "max_age_seconds": seconds}
    if output:
        import pyarrow as pa

        write_table(pa.table(rows), output)
    if as_json:
        print_json([dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)])
        return
    low, middle, high = (
        format_duration(float(np.quantile(days, q, method="lower"))) for q in (0.1, 0.5, 0.9)
    )
    click.echo(f"sources            {len(days):,}")
    click.echo(
        f"may be served for  {middle} (a tenth of them {low} or less, a tenth {high} or more)"
    )
    tell_written(output)


def _replicas(
    model: AgeModel, period: float, grace: float, replicas: int | None, ask: float | None
) -> dict[str, Any]:
    from observant.currency import replica_currency, replicas_needed

    answer: dict[str, Any] = {}
    if ask is not None:
        answer["replicas_to_ask"] = replicas = replicas_needed(model, period, ask, grace)
    if replicas is not None:
        answer["best_replica_alpha"] = replica_currency(model, period, replicas, grace)
    return answer


def _source(
    rate: float | None, weibull: tuple[float, float] | None
) -> tuple[AgeModel, dict[str, Any]]:
    from observant.currency import PoissonRates, WeibullPopulation

    if weibull is None:
        per_day = rate or 0.0
        about: dict[str, Any] = {"method": "one Poisson source, Brewington (2.40)"}
        return PoissonRates(per_day), {"rate_per_day": per_day, **about}
    population = WeibullPopulation(*weibull)
    return population, {
        "weibull_shape": population.shape,
        "weibull_scale_days": population.scale,
        "mean_time_days": population.mean,
        "median_time_days": population.median,
        "most_common_time_days": population.mode,
        "method": "mean over a Weibull population of Poisson sources, Brewington (3.17)",
    }


def _seen(file: str, source: str | None) -> tuple[AgeModel, dict[str, Any]]:
    """What visits tell of a source, or of a collection: its age distribution, if it is clearly not
    that of a Poisson source.
    """
    import numpy as np

    from observant.currency.age_models import as_model
    from observant.estimation.intervals import chosen_model
    from observant.estimation.rates import estimate_rates
    from observant.formats import read_visits
    from observant.planning.inputs import posterior_of

    log = read_visits(file)
    if source is not None or len(log.sources) == 1:
        found = chosen_model(log, source or log.sources[0].as_py())
        return as_model(found.model), {"sources": 1, "method": found.why}
    table = estimate_rates(log, "pooled")
    known, _ = posterior_of(replace(table, posterior=None))  # a log-normal one for each source
    return _mixed(known, np.ones(len(table))), {
        "sources": len(log.sources),
        "method": "mean over Poisson sources, pooled; --source looks at one, Poisson or not",
    }


def _collection(file: str) -> tuple[AgeModel, dict[str, Any]]:
    """The sources of a file, of which one is asked for at random, by importance."""
    import numpy as np

    from observant.cli.rate_tables import read_rates

    table = read_rates(file)
    weights = table.get("importance", np.ones(len(table["source"])))
    return _mixed(table["known"], weights), {
        "sources": len(table["source"]),
        "method": "mean over Poisson sources, Brewington (2.40)",
    }


def _mixed(known: Any, weights: Any) -> AgeModel:
    """Sources of which one is asked for at random, each with every rate that it may have."""
    import numpy as np

    from observant.currency import RateMixture

    if isinstance(known, RateMixture):
        weights = weights[:, None] * known.weights
        known = known.rates
    return RateMixture(np.ravel(known), np.ravel(weights))


def _answer(
    model: AgeModel,
    grace: float,
    period: float | None,
    target: float | None,
    pages: float | None,
    page_bytes: float | None,
    variation: float,
    growth: float,
) -> dict[str, Any]:
    from observant import currency as of

    answer: dict[str, Any] = {}
    if period is None:
        period = float(of.required_period(model, target or 0.0, grace))
        answer["target"] = target

    def mean(measure: Callable[..., Any], *more: float, days: float = period) -> float:
        if not variation and not growth:
            return float(measure(model, days, *more))
        oldest = float(of.growing_period(days, growth))
        return of.over_gaps(measure, model, of.irregular_gaps(oldest, variation), *more)

    answer |= {
        "alpha": mean(of.currency, grace),
        "period_days": period,
        "grace_days": grace,
        "stale_probability": mean(of.stale_probability, grace),
        "mean_staleness_days": mean(of.mean_staleness),
        "mean_missed_updates": mean(of.mean_missed_updates),
        "hidden_share": mean(of.hidden_share),
    }
    if growth:
        later = period * math.exp(min(growth * _YEAR, 300.0))
        answer["alpha_in_a_year"] = mean(of.currency, grace, days=later)
    if pages is not None:
        cost = of.bandwidth(pages, period, page_bytes or 0.0)
        answer["pages_per_day"] = float(cost.pages_per_day)
        if page_bytes is not None:
            answer["bits_per_second"] = float(cost.bits_per_second)
    return answer


def _as_table(answer: dict[str, Any]) -> str:
    rows = [
        (_LABELS[name][0], _LABELS[name][1](answer[name])) for name in _LABELS if name in answer
    ]
    width = max(len(label) for label, _ in rows)
    return "\n".join(f"{label:<{width}}  {value}" for label, value in rows)


def _count(value: float) -> str:
    """Write a number that may be large as people say it.

    >>> _count(94_117_647), _count(93_234.0), _count(0.125)
    ('94.1 million', '93,234', '0.125')
    """
    if value >= 1e6:
        return f"{value / 1e6:,.1f} million"
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"


def _bits(value: float) -> str:
    """Write a bandwidth with the usual prefix.

    >>> _bits(104_575_163.4), _bits(9_259.3)
    ('104.6 Mbit/s', '9.3 kbit/s')
    """
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.1f} {prefix}bit/s"
    return f"{value:.3g} bit/s"


# What a table shows, in its order: the name in the answer, how it is called, how it is written.
_LABELS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "period_days": ("visit every", format_duration),
    "grace_days": ("grace", format_duration),
    "target": ("wanted currency", "{:.4g}".format),
    "alpha": ("currency", "{:.4f}".format),
    "alpha_in_a_year": ("in a year, with the same visits", "{:.4f}".format),
    "replicas_to_ask": ("replicas to ask", "{:,}".format),
    "best_replica_alpha": ("the best of them is current", "{:.4f}".format),
    "stale_probability": ("not current", "{:.3g}".format),
    "mean_staleness_days": ("mean age of the oldest missed update", format_duration),
    "mean_missed_updates": ("mean number of missed updates", "{:.3g}".format),
    "hidden_share": ("updates that no visit ever sees", format_share),
    "sources": ("sources", "{:,}".format),
    "pages_per_day": ("pages per day", _count),
    "bits_per_second": ("bandwidth", _bits),
    "rate_per_day": ("rate", format_rate),
    "mean_time_days": ("time between updates, mean", format_duration),
    "median_time_days": ("time between updates, median", format_duration),
    "most_common_time_days": ("time between updates, most common", format_duration),
    "method": ("method", str),
}
