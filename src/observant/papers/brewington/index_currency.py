"""Brewington's figures 3.23, 3.24 and 3.26: how current is an index?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.currency import (
    WeibullPopulation,
    bandwidth,
    currency,
    required_grace,
    required_period,
)
from observant.currency.audit import Claims, audit_claims
from observant.papers.result import Check, Curve, Experiment, Picture, Reproduction

if TYPE_CHECKING:
    from observant.arrays import Floats
    from observant.currency import Bandwidth
    from observant.papers.result import Options


WEB, BY_AGES = WeibullPopulation(1.4, 152.2), WeibullPopulation(0.78, 651.1)
"""The population fitted to lifetimes, and the one fitted to ages."""
DIGITS = "8.58 and 18.49 days, cut off rather than rounded (B-12)"
KILOBYTE = (
    "a kilobyte of 1000 bytes, as (3.18) has it, gives 104.6 and 9.26; with 1024 it is 107.1 and "
    "9.48 (B-13)"
)
FLAT = (
    "α is flat there: an error of 0.01 moves the grace by four days, and what an audit knows of "
    "rates comes from one look at each page"
)


@Experiment.named("brewington-figure-3.23", "Brewington, figure 3.23: the performance surface")
def figure_3_23(_: Options) -> Reproduction:
    periods = np.geomspace(1, 1000, 91)
    shares = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)
    return Reproduction(
        checks=[
            Check("α at T₀ = 10, β = 1 day", "0.94", float(currency(WEB, 10, 1))),
            Check("α at T₀ = 100, β = 1 day", "0.62", float(currency(WEB, 100, 1))),
            Check("α at T₀ = 600, β = 1 day", "0.2", float(currency(WEB, 600, 1))),
            Check(
                "α at T₀ = 150, β = 1 day",
                "0.47",
                float(currency(WEB, 150, 1)),
                why="0.47 is the value at about 190 days (B-17)",
            ),
            Check(
                "α at ν = 0.95, T₀ → ∞",
                0.95,
                float(currency(WEB, 1e7, 0.95e7)),
                0.001,
                kind="formula",
            ),
        ],
        pictures=[
            Picture(
                "re-indexing period, days",
                "currency α",
                [
                    Curve(f"ν = {nu:g}", periods, currency(WEB, periods, nu * periods))
                    for nu in shares
                ],
                log_x=True,
            )
        ],
        notes=["exact: (3.17), cuts through the surface; the numbers are those of section 4.3"],
    )


@Experiment.named("brewington-figure-3.24", "Brewington, figure 3.24: the α = 0.95 level set")
def figure_3_24(_: Options) -> Reproduction:
    periods = np.geomspace(4, 400, 81)
    day, week, google, altavista = (
        float(required_period(WEB, 0.95, grace)) for grace in (1, 7, 73, 104)
    )
    whole = bandwidth(800e6, 8.5, 12_000)
    fifth = bandwidth(150e6, 18.0, 12_000)
    ends = "75 to 120 days are the asymptote β/0.95; the curve gives 103 and 140 (B-16)"
    return Reproduction(
        checks=[
            Check("T₀ for (0.95, 1 day), days", "8.5", day, why=DIGITS),
            Check("T₀ for (0.95, 1 week), days", "18", week, why=DIGITS),
            Check(
                "β/T₀ at T₀ → ∞",
                0.95,
                float(required_grace(WEB, 0.95, 1e7)) / 1e7,
                0.001,
                kind="formula",
            ),
            Check("Mbit/s for (0.95, 1 day), the whole web", "104", _mbit(whole), why=KILOBYTE),
            Check(
                "Mbit/s for (0.95, 1 week), a fifth of it",
                "9.4",
                _mbit(fifth),
                why=KILOBYTE,
            ),
            Check("million pages a day, (3.18)", "94", float(whole.pages_per_day) / 1e6),
            Check("million pages a day, (3.19)", "8.3", float(fifth.pages_per_day) / 1e6),
            Check("T₀ of the engine with β = 73 days at 0.95", "75", google, why=ends),
            Check("T₀ of the engine with β = 104 days at 0.95", "120", altavista, why=ends),
        ],
        pictures=[
            Picture(
                "re-indexing period, days",
                "grace β, days",
                [
                    Curve("fitted to lifetimes", periods, _grace(WEB, periods)),
                    Curve("fitted to ages", periods, _grace(BY_AGES, periods)),
                    Curve("0.95 of the period", periods, 0.95 * periods),
                ],
                log_x=True,
                log_y=True,
            )
        ],
        notes=[
            "exact: (3.17)",
        ],
    )


@Experiment.named("brewington-figure-3.26", "Brewington, figure 3.26: engines audited", seconds=10)
def figure_3_26(options: Options) -> Reproduction:
    pages = max(options.runs or 4_000, 500)
    graces = np.array([0, 1, 2, 5, 10, 20, 30, 45, 60, 73, 90, 104, 120, 150.0])
    engines = {"like Google": (73.0, 0), "like AltaVista": (104.0, 1)}
    checks, curves, table = [], [], []
    for done, (name, (grace, k)) in enumerate(engines.items()):
        period = float(required_period(WEB, 0.95, grace))
        audit = audit_claims(
            claims_of(options.rng(326, k), pages, period),
            graces,
            population=(WEB.shape, WEB.scale),
            resamples=100,
        )
        low, high = audit.crossing_interval
        alpha = float(audit.alpha[graces == grace][0])
        error = 3 * np.sqrt(0.95 * 0.05 / pages)
        checks += [
            Check(f"{name}: α at a grace of {grace:g} days", "0.95", alpha, error, FLAT),
            Check(
                f"{name}: grace at which α is 0.95, days",
                f"{grace:g}",
                audit.crossing_days,
                0.75 * (high - low),
                FLAT,
            ),
        ]
        table.append(
            {
                "index": name,
                "period, days": period,
                "period from its claims, days": audit.period_days,
                "α, one day, true": float(currency(WEB, period, 1.0)),
                "α, one day, audited": float(audit.alpha[graces == 1][0]),
            }
        )
        curves += [
            Curve(f"{name}, true", graces, currency(WEB, period, graces)),
            Curve(f"{name}, audited", graces, audit.alpha, points=True),
            Curve(f"{name}, (3.20)", graces, audit.printed),
        ]
        options.done((done + 1) / len(engines))
    rates = [float(required_period(WEB, alpha, 1.0)) for alpha in (0.60, 0.50)]
    slow = "α = 0.60 and 0.50 at a grace of a day mean 111 and 169 days (B-16)"
    checks += [
        Check("T₀ where α(1 day) = 0.60, days", "100", rates[0], why=slow),
        Check("T₀ where α(1 day) = 0.50, days", "150", rates[1], why=slow),
    ]
    return Reproduction(
        checks=checks,
        table=table,
        pictures=[Picture("grace β, days", "currency α", curves)],
        notes=[
            (
                "the answers of the engines are gone: two synthetic indexes of "
                f"{pages:,} pages each, with the periods at which α is 0.95 at the graces that the "
                "thesis read, 73 and 104 days"
            ),
            (
                "(3.20) as printed counts from the last change the engine knew, and is too low "
                "(B-15). Real engines were flatter: they do not visit at regular times"
            ),
        ],
    )


def claims_of(rng: np.random.Generator, pages: int, period: float) -> Claims:
    """What a regular index claims about pages of the population, seen at a random moment."""
    times = WEB.scale * rng.weibull(WEB.shape, pages)
    now = np.full(pages, 20_000.0)
    looked = now - period * rng.random(pages)
    known = looked - rng.exponential(times)
    last = now - rng.exponential(times)
    actual = np.where(last > looked, last, known)
    old = known > 0  # dates before 1970 cannot be told
    return Claims.from_columns(
        np.arange(pages)[old], known[old], actual[old], now[old], time_unit="d"
    )


def _grace(population: WeibullPopulation, periods: Floats) -> Floats:
    """The grace of the level set; NaN where none is needed, so that nothing is drawn there."""
    grace = np.asarray(required_grace(population, 0.95, periods))
    return np.where(grace > 0, grace, np.nan)


def _mbit(cost: Bandwidth) -> float:
    return float(cost.bits_per_second) / 1e6
