"""Brewington's figures 3.6 to 3.8 and 3.16: how often pages changed, and how old they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.estimation.population import fit_ages
from observant.estimation.population.descriptive import Histogram
from observant.estimation.population.mixture import age_cdf, age_pdf
from observant.papers.brewington.informant import (
    BY_AGES,
    GONE,
    GROWTH,
    SPAN,
    VISITS,
    informant,
    page_ages,
    pages_of,
    reach,
)
from observant.papers.result import Check, Curve, Experiment, Picture, Reproduction
from observant.papers.thesis import AgeChain, GrowingPopulation

if TYPE_CHECKING:
    from observant.papers.result import Options


@Experiment.named("brewington-figure-3.6", "Brewington, figure 3.6: change ratios", seconds=2)
def figure_3_6(options: Options) -> Reproduction:
    pages = pages_of(options)
    mixed = informant(options.seed, pages, "mixed")
    dated = informant(options.seed, pages)
    told = mixed.summary()
    error = 3 * np.sqrt(0.25 / len(mixed.change_ratios))
    return Reproduction(
        checks=[
            Check(
                "pages that never changed",
                "0.56",
                told["never_changed_share"],
                error,
                "the population of 3.3.2 is fitted to pages with dates and is slower than the "
                "pages of this figure; how long those were watched is told as a mean only",
            ),
            Check("pages that always changed", "0.04", told["always_changed_share"], error),
        ],
        pictures=[
            Picture(
                "change ratio: changes / repeat visits",
                "share of pages",
                [
                    Curve("35 % without dates, 4 % dynamic", *mixed.change_ratio_cdf),
                    Curve("dated pages alone", *dated.change_ratio_cdf),
                ],
            )
        ],
        notes=[
            GONE,
            (
                f"{pages:,} pages, {VISITS} visits over {SPAN:g} days in the mean; those with six "
                "visits or more are counted"
            ),
        ],
    )


# -- 3.7, 3.8, 3.16: ages -------------------------------------------------------------------------


@Experiment.named("brewington-figure-3.7", "Brewington, figure 3.7: density of page ages")
def figure_3_7(options: Options) -> Reproduction:
    ages = np.sort(page_ages(options.seed, pages_of(options)))
    shown = Histogram.of(ages, per_decade=6)
    t, middle = np.geomspace(0.01, 2500, 101), np.sqrt(shown.left * shown.right)
    drawn = (middle > 0.01) & (shown.count > 0)
    steps = np.arange(1, len(ages) + 1) / len(ages)
    far = float(np.abs(steps - age_cdf(ages, BY_AGES.shape, BY_AGES.scale, GROWTH)).max())
    return Reproduction(
        checks=[
            Check(
                "farthest that pages are from (3.8), mended",
                0,
                far,
                1.95 / np.sqrt(len(ages)),
                kind="formula",
            )
        ],
        pictures=[
            Picture(
                "age, days",
                "density, per day",
                [
                    Curve("synthetic pages", middle[drawn], shown.density[drawn], points=True),
                    Curve("model (3.8)", t, age_pdf(t, BY_AGES.shape, BY_AGES.scale, GROWTH)),
                ],
                log_x=True,
                log_y=True,
            )
        ],
        notes=[
            GONE,
            "(3.8) with its lost sign (B-10); a few of a thousand seeds pass the distance allowed",
            (
                "the peaks at a minute and at whole days come from clocks and nights, and are not "
                "in the model"
            ),
        ],
    )


@Experiment.named("brewington-figure-3.8", "Brewington, figure 3.8: distribution of page ages")
def figure_3_8(options: Options) -> Reproduction:
    ages = np.sort(page_ages(options.seed, pages_of(options)))
    error = 3 * np.sqrt(0.25 / len(ages))
    low, high = np.quantile(ages, 0.5 + np.array([-0.5, 0.5]) / np.sqrt(len(ages)))
    spread = float(high - low) / 2  # a standard error of the median
    t = np.geomspace(0.1, 4000, 101)
    share = np.searchsorted(ages, t) / len(ages)
    young, old = float(np.mean(ages < 11)), float(np.mean(ages > 365))
    return Reproduction(
        checks=[
            Check("share younger than 11 days", "0.20", young, error, POOR),
            Check("median age, days", "100", float(np.median(ages)), 6 * spread, POOR),
            Check("share older than a year", "0.25", old, error, POOR),
            Check("model at 11 days (B-25)", None, _age_model(11)),
            Check("model at 100 days (B-25)", None, _age_model(100)),
            Check("model beyond a year (B-25)", None, 1 - _age_model(365)),
        ],
        pictures=[
            Picture(
                "age, days",
                "share of pages",
                [
                    Curve("model (3.8)", t, [_age_model(days) for days in t]),
                    Curve("synthetic pages", t[::4], share[::4], points=True),
                    Curve("published data", [11, 100, 365], [0.20, 0.50, 0.75], points=True),
                ],
                log_x=True,
            )
        ],
        notes=[GONE],
    )


POOR = "drawn from the thesis's fit, which is poor at small ages, as it says itself (B-25)"


@Experiment.named("brewington-figure-3.16", "Brewington, figure 3.16: ages fitted", seconds=6)
def figure_3_16(options: Options) -> Reproduction:
    fit = fit_ages(page_ages(options.seed, pages_of(options)), method="least-squares")
    options.done(0.7)
    doubling = float(np.log(2) / GROWTH)
    return Reproduction(
        checks=[
            Check("growth ξ per day", f"{GROWTH}", fit.growth, reach(fit, "growth")),
            Check("shape σ", f"{BY_AGES.shape}", fit.shape, reach(fit, "shape")),
            Check("scale δ, days", f"{BY_AGES.scale}", fit.scale, reach(fit, "scale")),
            Check(
                "doubling time at ξ = 0.00176, days: 'around 390'",
                "390",
                doubling,
                why="ln 2 / 0.00176 is 394 days (B-11)",
            ),
            Check(
                "mean age at λ = 1/50 a day in a growing web: (3.7)",
                1 / (1 / 50 + GROWTH),
                _mean_age_of_growing(50.0),
                0.1,
                kind="formula",
            ),
        ],
        pictures=[
            Picture(
                "age, days",
                "share of pages",
                [
                    Curve("fitted", fit.days, fit.fitted),
                    Curve("synthetic pages", fit.days, fit.observed, points=True),
                ],
                log_x=True,
            )
        ],
        notes=[
            (
                f"{GONE}. The pages are drawn from the published fit, which the method must find "
                "again within three standard errors"
            ),
            "(3.8) with its lost sign (B-10). Doubling takes 394 days (B-11)",
        ],
    )


def _age_model(days: float) -> float:
    return float(age_cdf(days, BY_AGES.shape, BY_AGES.scale, GROWTH))


def _mean_age_of_growing(mean: float, step: float = 0.1, ages: int = 6_000) -> float:
    """Mean age in the limit of a growing population of sources that change every `mean` days."""
    chain = AgeChain.poisson(-np.expm1(-step / mean), ages)
    limit = GrowingPopulation.from_chain(chain, step, GROWTH).limiting_ages()
    return float(step * (np.arange(ages) @ limit))
