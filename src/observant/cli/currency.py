"""`observant currency`: from a period to a currency, or from a wanted currency to a period."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import click

from observant.cli.console import plot_option, print_json
from observant.errors import InputError, UnitError
from observant.units import format_duration, format_rate, parse_duration, parse_rate

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.currency import AgeModel

__all__ = ["currency"]


@click.command("currency")
@click.option("--rate", metavar="RATE", help="Updates per day of a Poisson source: 0.3, 1/7d.")
@click.option(
    "--weibull",
    nargs=2,
    metavar="SHAPE SCALE",
    help="A population whose mean times between updates are Weibull: 1.4 152.2d.",
)
@click.option("--period", metavar="DURATION", help="Time between visits: 10d, 6h.")
@click.option(
    "--target",
    type=click.FloatRange(0.0, 1.0),
    metavar="ALPHA",
    help="A wanted currency, 0 to 1, instead of a period: answers with the longest period.",
)
@click.option(
    "--grace",
    default="0d",
    show_default=True,
    metavar="DURATION",
    help="How late the copy may be and still count as current.",
)
@click.option(
    "--pages",
    type=click.FloatRange(0.0, min_open=True),
    metavar="NUMBER",
    help="Size of the collection: adds pages per day.",
)
@click.option(
    "--page-size",
    metavar="SIZE",
    help="Mean size of a page: adds bits per second. 12kB is 12,000 bytes, 12KiB is 12,288.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@plot_option("currency against the period")
def currency(
    rate: str | None,
    weibull: tuple[str, str] | None,
    period: str | None,
    target: float | None,
    grace: str,
    pages: float | None,
    page_size: str | None,
    as_json: bool,
    plot: str | None,
) -> None:
    """Tell how current a copy is that is visited with a fixed period.

    A copy is current within a grace when every update it has missed is younger than the grace.
    Its currency is the probability of that at a random moment. Say how the sources change (--rate
    or --weibull) and how often you visit them (--period), or how current you want to be (--target).

    \b
    One source that changes every three days or so, visited every ten, two days late allowed:
      observant currency --rate 0.3 --period 10d --grace 2d
    \b
    How often must the web be visited so that 95 % of it is at most a day late, at what cost?
      observant currency --weibull 1.4 152.2d --grace 1d --target 0.95 \\
          --pages 8e8 --page-size 12kB
    """
    if (rate is None) == (weibull is None):
        raise click.UsageError("say how the sources change: either --rate or --weibull")
    if (period is None) == (target is None):
        raise click.UsageError("give either --period or --target")
    if page_size is not None and pages is None:
        raise click.UsageError("--page-size needs --pages, the size of the collection")
    model, about = _source(rate, weibull)
    days = None if period is None else parse_duration(period)
    size = None if page_size is None else _parse_size(page_size)
    answer = {**_answer(model, parse_duration(grace), days, target, pages, size), **about}
    if as_json:
        print_json(answer)
    else:
        click.echo(_as_table(answer))
    if plot is not None:
        from observant.figures import currency_figure, save

        if not math.isfinite(answer["period_days"]) or answer["period_days"] <= 0:
            raise InputError("there is nothing to draw: the period is zero or has no limit")
        save(currency_figure(model, answer["period_days"], answer["grace_days"]), plot)


def _source(
    rate: str | None, weibull: tuple[str, str] | None
) -> tuple[AgeModel, dict[str, float | str]]:
    from observant.currency import PoissonRates, WeibullPopulation

    if weibull is None:
        per_day = parse_rate(rate or "")
        about: dict[str, float | str] = {"method": "one Poisson source, Brewington (2.40)"}
        return PoissonRates(per_day), {"rate_per_day": per_day, **about}
    shape, scale = weibull
    try:
        population = WeibullPopulation(float(shape), parse_duration(scale))
    except ValueError:
        raise InputError(f"--weibull: the shape must be a number, not {shape!r}") from None
    return population, {
        "weibull_shape": population.shape,
        "weibull_scale_days": population.scale,
        "mean_time_days": population.mean,
        "median_time_days": population.median,
        "most_common_time_days": population.mode,
        "method": "mean over a Weibull population of Poisson sources, Brewington (3.17)",
    }


def _answer(
    model: AgeModel,
    grace: float,
    period: float | None,
    target: float | None,
    pages: float | None,
    page_bytes: float | None,
) -> dict[str, Any]:
    from observant import currency as of

    answer: dict[str, Any] = {}
    if period is None:
        period = float(of.required_period(model, target or 0.0, grace))
        answer["target"] = target
    answer |= {
        "alpha": float(of.currency(model, period, grace)),
        "period_days": period,
        "grace_days": grace,
        "stale_probability": float(of.stale_probability(model, period, grace)),
        "mean_staleness_days": float(of.mean_staleness(model, period)),
        "mean_missed_updates": float(of.mean_missed_updates(model, period)),
    }
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
    "stale_probability": ("not current", "{:.3g}".format),
    "mean_staleness_days": ("mean age of the oldest missed update", format_duration),
    "mean_missed_updates": ("mean number of missed updates", "{:.3g}".format),
    "pages_per_day": ("pages per day", _count),
    "bits_per_second": ("bandwidth", _bits),
    "rate_per_day": ("rate", format_rate),
    "mean_time_days": ("time between updates, mean", format_duration),
    "median_time_days": ("time between updates, median", format_duration),
    "most_common_time_days": ("time between updates, most common", format_duration),
    "method": ("method", str),
}

_BYTES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def _parse_size(text: str) -> float:
    """Bytes in a size; a kilobyte is 1000 bytes.

    >>> _parse_size("12kB"), _parse_size("1.5 MiB"), _parse_size("800")
    (12000.0, 1572864.0, 800.0)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmg]?i?)b?\s*", text, re.IGNORECASE)
    if match is None or match[2].lower() not in _BYTES or float(match[1]) == 0.0:
        raise UnitError(f"this is not a size: {text!r}; write for example 800B, 12kB or 1.5MiB")
    return float(match[1]) * _BYTES[match[2].lower()]
