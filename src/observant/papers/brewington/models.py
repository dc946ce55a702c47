"""Brewington's figures 2.2, 2.4, 4.13 and table 4.1: formulas, without any data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.currency import currency
from observant.papers.result import Check, Curve, Experiment, Picture, Reproduction
from observant.papers.thesis.strategies import assign, strategy_value
from observant.processes import Constant, Gamma, Poisson, Weibull

if TYPE_CHECKING:
    from observant.papers.result import Options


@Experiment.named("brewington-figure-2.2", "Brewington, figure 2.2: lifetimes and ages")
def figure_2_2(options: Options) -> Reproduction:
    t = np.linspace(0, 4, 161)
    lifetimes = {
        "nearly Gaussian": Gamma.with_mean(1.0, 25.0),
        "Weibull": Weibull.with_mean(1.0, 2.0),
        "exponential": Poisson(1.0),
    }
    sources = max(options.runs or 20_000, 100)
    checks = []
    for k, (name, process) in enumerate(lifetimes.items()):
        # Ages at a moment long after the start are the ages (2.17) speaks of.
        updates = process.sample(20.0, sources, seed=options.rng(22, k), stationary=False)
        ages = np.sort(updates.ages(20.0))
        ages = ages[~np.isnan(ages)]
        steps = np.arange(1, len(ages) + 1) / len(ages)
        far = float(np.abs(steps - process.age_cdf(ages)).max())
        words = f"{name}: farthest that simulated ages are from (2.17)"
        checks.append(Check(words, 0, far, 1.95 / np.sqrt(len(ages)), kind="formula"))
    exponential, periodic = lifetimes["exponential"], Constant(1.0)
    same = float(np.abs(exponential.interval_cdf(t) - exponential.age_cdf(t)).max())
    even = float(np.abs(periodic.age_cdf(t[t <= 1]) - t[t <= 1]).max())
    return Reproduction(
        checks=[
            *checks,
            Check("exponential: ages and lifetimes differ by", 0, same, 1e-12, kind="formula"),
            Check("periodic: ages differ from uniform by", 0, even, 1e-12, kind="formula"),
        ],
        pictures=[
            Picture(
                "lifetime, in means",
                "density f",
                [Curve(name, t, process.interval_pdf(t)) for name, process in lifetimes.items()],
            ),
            Picture(
                "age, in mean lifetimes",
                "density g",
                [Curve(name, t, process.age_pdf(t)) for name, process in lifetimes.items()],
            ),
        ],
        notes=[
            (
                f"{sources:,} simulated sources; chance passes the distance allowed in 0.1 % of "
                "cases (Kolmogorov-Smirnov)"
            ),
            "a gamma distribution of shape 25 stands for the Gaussian, which allows no lifetime",
        ],
    )


@Experiment.named("brewington-figure-2.4", "Brewington, figure 2.4: probability of β-currency")
def figure_2_4(_: Options) -> Reproduction:
    z = np.geomspace(0.01, 1000, 121)
    shares = (0.0, 0.1, 0.25, 0.5, 0.75)
    limits = {share: float(currency(1e6, 1.0, share)) for share in (0.25, 0.75)}
    soon, one = float(currency(1e-6, 1.0, 0.0)), float(currency(1.0, 1.0, 0.0))
    return Reproduction(
        checks=[
            Check("ν = 0.25, z → ∞: tends to ν", 0.25, limits[0.25], 1e-5, kind="formula"),
            Check("ν = 0.75, z → ∞: tends to ν", 0.75, limits[0.75], 1e-5, kind="formula"),
            Check("ν = 0, z → 0: tends to 1", 1, soon, 1e-5, kind="formula"),
            Check("ν = 0, z = 1: 1 − 1/e", 1 - np.exp(-1), one, 1e-12, kind="formula"),
        ],
        pictures=[
            Picture(
                "updates expected in a period, z = λT",
                "currency α",
                [Curve(f"ν = {share:g}", z, currency(z, 1.0, share)) for share in shares],
                log_x=True,
            )
        ],
        notes=["exact: (2.40), valid for T ≥ β, and 1 otherwise (B-8)"],
    )


@Experiment.named("brewington-table-4.1", "Brewington, table 4.1: two objects, one check")
def table_4_1(_: Options) -> Reproduction:
    # Costs of the strategies XX, XO, OX and OO; objects A and B of the example.
    costs = [[0.85 + 0.95, 0.85, 0.25, 0.0], [0.80 + 0.81, 0.80, 0.05, 0.0]]
    plans = {"AB": ("OX", "XO"), "BA": ("XO", "OX"), "AA": ("OO", "XX"), "BB": ("XX", "OO")}
    published = {"AB": 1.05, "BA": 0.90, "AA": 1.61, "BB": 1.80}
    ours = {name: strategy_value(costs, plan) for name, plan in plans.items()}
    best = assign(costs, visits=1)
    return Reproduction(
        checks=[
            *(Check(f"cost of {name}", f"{published[name]:.2f}", ours[name]) for name in plans),
            Check("cost of the plan the program picks (BA)", "0.90", best.cost),
        ],
        table=[
            {"sequence": name, "published": published[name], "ours": ours[name]} for name in plans
        ],
        notes=[f"the integer program picks A: {best.strategies[0]}, B: {best.strategies[1]}"],
    )


@Experiment.named("brewington-figure-4.13", "Brewington, figure 4.13: averages of N lifetimes")
def figure_4_13(_: Options) -> Reproduction:
    sizes, x = (1, 2, 5, 10, 50), np.linspace(0, 3, 241)
    averages = {n: Gamma.with_mean(1.0, float(n)) for n in sizes}
    wide = np.linspace(0, 40, 40_001)
    spreads = {
        n: float(np.sqrt(np.trapezoid((wide - 1) ** 2 * law.interval_pdf(wide), wide)))
        for n, law in averages.items()
    }
    return Reproduction(
        checks=[
            Check(
                f"σ of the average of {n}: τ₀/√N", 1 / np.sqrt(n), spreads[n], 1e-4, kind="formula"
            )
            for n in sizes
        ],
        pictures=[
            Picture(
                "average of N lifetimes, in mean lifetimes",
                "density (4.30)",
                [Curve(f"N = {n}", x, law.interval_pdf(x)) for n, law in averages.items()],
            )
        ],
        notes=["by quadrature of (4.30), which is a density and not the estimator (B-23)"],
    )
