"""Brewington's figures 4.5 and 4.7 to 4.12: the partition of the web, and what it gains.

The thesis does not say how popular its pages are beyond a drawing. The access times are cut at
their 10 % quantile, one number fitted to the gains that its text states (errata B-26).
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from observant.currency import WeibullPopulation
from observant.papers.brewington.lifetimes import ROUNDED
from observant.papers.result import Check, Curve, Experiment, Picture, Reproduction
from observant.papers.thesis.partition import (
    SourceDensity,
    anneal,
    equiprobable,
    exact_optimum,
    refine,
    single_queue,
)
from observant.processes import Weibull

if TYPE_CHECKING:
    from observant.papers.result import Options
    from observant.papers.thesis.partition import Partition

WEB = WeibullPopulation(1.4, 152.2)
GRACE, CUT = 1.0, 0.1
CELLS, ITERATIONS = (120, 80), 60
FITTED = "access times are cut at their 10 % quantile, fitted to the stated gains (B-26)"
CUT_READ = "the gain hangs on where access times are cut, which is fitted (B-26)"
ANNEALED = 20_000
"""Steps of the annealing; the thesis took ten times as many, in eight hours a figure."""


@Experiment.named("brewington-figure-4.5", "Brewington, figure 4.5: population and accesses")
def figure_4_5(_: Options) -> Reproduction:
    web = web_density()
    accesses = web.accesses.sum(axis=0)
    mean = float((web.accesses.sum(axis=1) * web.change_times).sum())
    tau = np.linspace(0.5, 500, 200)
    population = Weibull(WEB.shape, WEB.scale).interval_pdf(tau)
    demand = accesses / np.diff(web.access_edges)
    drawn = web.access_times < tau[-1]
    return Reproduction(
        checks=[
            Check("mean change time of an access, days: that of a page", "138", mean, why=ROUNDED),
            Check(
                "most common access time, population, days",
                "62",
                float(tau[np.argmax(population)]),
                float(np.diff(tau).max()),
            ),
            Check(
                "most common access time, accesses: 'shifted to a lower' one",
                None,
                float(web.access_times[np.argmax(demand)]),
            ),
        ],
        pictures=[
            Picture(
                "mean time between accesses τ, days",
                "density, per day",
                [
                    Curve("pages, f(τ)", tau, population),
                    Curve("accesses, h(τ) = C f(τ)/τ", web.access_times[drawn], demand[drawn]),
                ],
            )
        ],
        notes=[
            "the margin along τ; along t both are figure 3.22, as t and τ are independent (B-26)",
            (
                "f(τ)/τ of a Weibull with shape 1.4 has no peak but grows without bound as τ → 0 "
                f"(B-22), so {FITTED}"
            ),
        ],
    )


STATED = {
    10: ("4.7", {"α₀": "0.94", "α": "0.96", "relative gain": "0.02"}),
    30: ("4.8", {"relative gain": "0.03"}),
    100: ("4.9", {"α₀": "0.62", "gain": "0.04"}),
    200: ("4.10", {"relative gain": "0.15"}),
    300: ("4.11", {"relative gain": "0.20"}),
}
"""T₀: the figure, and what the text says of it, as exactly as it does."""


def partition_figure(options: Options, period: int) -> Reproduction:
    """One of the figures 4.7 to 4.11."""
    _, stated = STATED[period]
    web = web_density()
    best, queue = six_by_six(period), single_queue(web, period, GRACE)
    ours = {"α₀": queue, "α": best.alpha}
    ours |= {"gain": best.alpha - queue, "relative gain": best.alpha / queue - 1}
    checks = [Check(name, value, ours[name], why=CUT_READ) for name, value in stated.items()]
    if period == 100:
        steps = options.runs or ANNEALED
        annealed = anneal(equiprobable(web, period, (6, 6), GRACE), steps, seed=options.seed)
        why = f"{steps:,} steps are few" if steps < ANNEALED else CUT_READ
        found = annealed.alpha - queue
        checks.append(Check("gain, annealed as in 4.2.3", "0.04", found, why=why))
    optimum = exact_optimum(web, period, GRACE).alpha
    checks += [Check("α of the partition", None, best.alpha)] if "α" not in stated else []
    checks.append(Check("α, every source its own period", None, optimum))
    return Reproduction(
        checks=checks,
        table=_boxes(best),
        pictures=[_picture(best)],
        notes=[
            (
                "the periods of the boxes are exact, their grid lines moved uphill. In the picture "
                "a line is a class of access times; where it is missing, no visits are made"
            ),
            FITTED,
        ],
    )


def _title(number: str, period: int, grid: int) -> str:
    return f"Brewington, figure {number}: {grid}×{grid} classes, one visit in {period} days"


for _period, (_number, _) in STATED.items():
    _named = Experiment.named(
        f"brewington-figure-{_number}",
        _title(_number, _period, 6),
        seconds=8 if _period == 100 else 3,
    )
    _named(partial(partition_figure, period=_period))


@Experiment.named("brewington-figure-4.12", _title("4.12", 200, 10), seconds=6)
def figure_4_12(_: Options) -> Reproduction:
    six = six_by_six(200)
    ten = refine(equiprobable(web_density(), 200, (10, 10), GRACE), iterations=ITERATIONS)
    optimum = exact_optimum(web_density(), 200, GRACE).alpha
    return Reproduction(
        checks=[
            Check(
                "10×10 over 6×6: 'a few tenths of a percent'",
                "0.003",
                ten.alpha / six.alpha - 1,
                0.002,
                kind="words",
            ),
            Check("10×10 under every source its own period", None, ten.alpha / optimum - 1),
        ],
        table=_boxes(ten),
        pictures=[_picture(ten)],
        notes=[FITTED],
    )


@Experiment.named(
    "brewington-section-4.3", "Brewington, section 4.3: what engines could gain", seconds=6
)
def section_4_3(options: Options) -> Reproduction:
    rows = []
    periods = (10, 30, 100, 150, 200, 300, 600)
    for done, period in enumerate(periods):
        one, best = single_queue(web_density(), period, GRACE), six_by_six(period).alpha
        rows.append(
            {
                "T₀, days": period,
                "α₀, one queue": one,
                "α, 6×6": best,
                "α, own periods": exact_optimum(web_density(), period, GRACE).alpha,
                "gain": best - one,
                "relative gain": best / one - 1,
            }
        )
        options.done((done + 1) / len(periods))
    at = {row["T₀, days"]: row for row in rows}
    wrong = "0.47 belongs to about 190 days; α₀(150) is 0.529, so the gain is 10.7 % (B-17)"
    return Reproduction(
        checks=[
            Check("gain at T₀ = 100", "0.04", at[100]["gain"], why=CUT_READ),
            Check("relative gain at T₀ = 100", "0.064", at[100]["relative gain"], why=CUT_READ),
            Check("gain at T₀ = 150", "0.055", at[150]["gain"], why=CUT_READ),
            Check("α₀ at T₀ = 150", "0.47", at[150]["α₀, one queue"], why=wrong),
            Check("relative gain at T₀ = 150", "0.11", at[150]["relative gain"], why=wrong),
            Check("α₀ at T₀ = 600: 'around 0.2'", "0.2", at[600]["α₀, one queue"]),
            Check("α at T₀ = 600: 'closer to 0.3'", "0.3", at[600]["α, 6×6"]),
        ],
        table=rows,
        pictures=[
            Picture(
                "period of one queue with as many visits, days",
                "currency α within a day",
                [
                    Curve(name, list(periods), [row[column] for row in rows])
                    for name, column in (
                        ("every source its own", "α, own periods"),
                        ("6×6 classes", "α, 6×6"),
                        ("one queue", "α₀, one queue"),
                    )
                ],
                log_x=True,
            )
        ],
        notes=[FITTED, "'own periods' is the exact optimum: no partition can be better"],
    )


# -- shared ---------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def web_density() -> SourceDensity:
    return SourceDensity.independent(cut=CUT, cells=CELLS)


@lru_cache(maxsize=8)
def six_by_six(period: int) -> Partition:
    return refine(equiprobable(web_density(), period, (6, 6), GRACE), iterations=ITERATIONS)


def _boxes(best: Partition) -> list[dict[str, object]]:
    """The period of every box: rows are classes of change time, columns of access time."""
    access, change = best.access_lines, best.change_lines
    names = [f"τ ≤ {line:.0f} d" for line in access[1:-1]] + [f"τ > {access[-2]:.0f} d"]
    rows = [f"t ≤ {line:.0f} d" for line in change[1:-1]] + [f"t > {change[-2]:.0f} d"]
    return [
        {"change time": row, **dict(zip(names, periods.tolist(), strict=True))}
        for row, periods in zip(rows, best.periods, strict=True)
    ]


def _picture(best: Partition) -> Picture:
    """The period of the boxes against the change time; a class of accesses is a line of steps."""
    low, high = np.maximum(best.change_lines[:-1], 1.0), np.minimum(best.change_lines[1:], 1500.0)
    access = best.access_lines
    names = [f"τ up to {line:.0f} days" for line in access[1:-1]] + [f"above {access[-2]:.0f} days"]
    if len(names) > 6:
        names, shown = names[::2], best.periods[:, ::2]
    else:
        shown = best.periods
    curves = [
        Curve(
            name,
            np.stack([low, high * 0.999], axis=1).ravel(),
            np.where(np.isfinite(column), column, np.nan).repeat(2),
        )
        for name, column in zip(names, shown.T, strict=True)
    ]
    return Picture("mean time between updates t, days", "period, days", curves, True, True)
