"""Brewington's figures 3.17 to 3.22: lifetimes seen in finite spans, and the rates behind them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from observant.currency import changed_probability
from observant.estimation.population import fit_lifetimes
from observant.estimation.population.descriptive import Histogram
from observant.estimation.population.mixture import first_lifetime_cdf, lifetime_cdf
from observant.papers.brewington.informant import GONE, SPAN, WEB, informant, pages_of, reach
from observant.papers.result import Check, Curve, Experiment, Picture, Reproduction
from observant.processes import Weibull

if TYPE_CHECKING:
    from observant.arrays import Floats
    from observant.estimation.population import Description, PopulationFit
    from observant.papers.result import Options


@Experiment.named(
    "brewington-figure-3.17", "Brewington, figure 3.17: spans and their bias", seconds=2
)
def figure_3_17(options: Options) -> Reproduction:
    seen = informant(options.seed, pages_of(options))
    x = np.geomspace(1, 3000, 81)
    bias = changed_probability(1 / x[:, None], seen.spans).mean(axis=1)
    spans = Histogram.of(seen.spans[seen.spans > 0], per_decade=6)
    error = 3 * seen.spans.std() / np.sqrt(len(seen.spans))
    rates = 1 / WEB.scale / np.random.default_rng(options.seed).weibull(WEB.shape, 2_000)
    share = float(changed_probability(rates[:, None], seen.spans[:2_000]).mean())
    found = len(np.unique(seen.lifetime_sources)) / len(seen.spans)
    return Reproduction(
        checks=[
            Check(
                "mean time a page is watched, days", f"{SPAN:g}", float(seen.spans.mean()), error
            ),
            Check(
                "share of pages seen to change: as (3.12) says",
                share,
                found,
                3 * float(np.sqrt(share * (1 - share) * (1 / 2_000 + 1 / len(seen.spans)))),
                kind="formula",
                why="a change between the last visit and the end of the span is not seen",
            ),
        ],
        pictures=[
            Picture(
                "time watched, days",
                "density, per day",
                [Curve("synthetic pages", np.sqrt(spans.left * spans.right), spans.density)],
                log_x=True,
            ),
            Picture(
                "mean time between updates, days",
                "probability to see a change, Z (3.12)",
                [Curve("pages watched so long", x, bias)],
                log_x=True,
            ),
        ],
        notes=[GONE, "the thesis gives the mean span only; ours are geometric numbers of visits"],
    )


@Experiment.named("brewington-figure-3.18", "Brewington, figure 3.18: lifetimes seen", seconds=2)
def figure_3_18(options: Options) -> Reproduction:
    seen = informant(options.seed, pages_of(options))
    shown = Histogram.of(seen.lifetimes, per_decade=6)
    first = _first_lifetimes(seen)
    t = np.geomspace(1, 1000, 81)
    share = np.searchsorted(first, t) / len(first)
    late = t > ALIASED
    printed = lifetime_cdf(t, WEB.shape, WEB.scale, seen.dated_spans[:2_000])
    ours = first_lifetime_cdf(t, WEB.shape, WEB.scale, seen.dated_spans)
    error = 1.95 / np.sqrt(len(first))
    return Reproduction(
        checks=[
            Check(
                "farthest that first lifetimes are from (3.14), above 8 days",
                0,
                float(np.abs(share - printed)[late].max()),
                error,
                kind="formula",
                why="the first lifetime seen of a page began before it was watched and is "
                "length-biased (B-14)",
            ),
            Check(
                "the same from the mended form",
                0,
                float(np.abs(share - ours)[late].max()),
                error,
                kind="formula",
                why="visits three or four days apart blur lifetimes a little beyond 8 days too",
            ),
        ],
        pictures=[
            Picture(
                "lifetime, days",
                "density, per day",
                [Curve("all lifetimes", np.sqrt(shown.left * shown.right), shown.density)],
                log_x=True,
                log_y=True,
            ),
            Picture(
                "lifetime, days",
                "share of first lifetimes",
                [
                    Curve("as printed (3.14)", t, printed),
                    Curve("mended", t, ours),
                    Curve("synthetic pages", t[::3], share[::3], points=True),
                ],
                log_x=True,
            ),
        ],
        notes=[GONE, "visits three or four days apart hide lifetimes that are shorter"],
    )


ROUNDED = "138.7 days for the printed shape and scale, which are rounded themselves"
ALIASED = 8.0
"""Lifetimes up to here are aliased, days (figure 3.20)."""


@Experiment.named("brewington-figure-3.19", "Brewington, figure 3.19: the error surface", seconds=5)
def figure_3_19(options: Options) -> Reproduction:
    pages = pages_of(options)
    fit = printed_model_fit(options.seed, pages)
    seen = informant(options.seed, pages)
    biased = _as_printed(seen)
    ours = fit_lifetimes(seen.lifetimes, seen.lifetime_sources, seen.dated_spans, bound=ALIASED)
    shapes, scales = [1.0, 1.2, 1.4, 1.6, 1.8], np.linspace(80, 260, 46)
    surface = fit.error_surface(shapes, scales)
    return Reproduction(
        checks=[
            Check("shape σ of least error", "1.4", fit.shape, reach(fit, "shape")),
            Check("scale δ of least error, days", "152.2", fit.scale, reach(fit, "scale")),
            Check(
                "shape, from pages that were really watched",
                "1.4",
                biased.shape,
                reach(biased, "shape"),
                "(3.14) takes length-biased first lifetimes for whole ones (B-14), so that the "
                "method does not find the truth",
            ),
            Check("shape, the same pages, mended", "1.4", ours.shape, reach(ours, "shape")),
            Check("scale, the same pages, mended", "152.2", ours.scale, reach(ours, "scale")),
        ],
        table=[
            {"fit": name, "shape": each.shape, "scale, days": each.scale}
            for name, each in (
                ("published", WEB),
                ("lifetimes drawn from (3.14), as printed", fit),
                ("pages watched, as printed", biased),
                ("pages watched, mended", ours),
            )
        ],
        pictures=[
            Picture(
                "scale δ, days",
                "mean squared error (3.15)",
                [Curve(f"σ = {s:g}", scales, row) for s, row in zip(shapes, surface, strict=True)],
                log_y=True,
            )
        ],
        notes=[GONE, "cuts through the surface, one a shape; its minimum is the published one"],
    )


@Experiment.named("brewington-figure-3.20", "Brewington, figure 3.20: lifetimes fitted", seconds=4)
def figure_3_20(options: Options) -> Reproduction:
    fit = _as_printed(informant(options.seed, pages_of(options)))
    far = np.abs(fit.fitted - fit.observed)[fit.days > ALIASED].max()
    return Reproduction(
        checks=[
            Check(
                "largest error above 8 days: 'nearly identical'",
                "< 0.02",
                float(far),
                _chance(fit),
                kind="words",
            ),
        ],
        pictures=[
            Picture(
                "lifetime, days",
                "share of lifetimes",
                [
                    Curve("trial: fitted as printed", fit.days, fit.fitted),
                    Curve("reference: synthetic pages", fit.days, fit.observed, points=True),
                ],
                log_x=True,
            )
        ],
        notes=[
            GONE,
            (
                f"the fit is close though its parameters are wrong, σ = {fit.shape:.2f} and "
                f"δ = {fit.scale:.0f} days for a true 1.4 and 152 (B-14)"
            ),
        ],
    )


@Experiment.named("brewington-figure-3.21", "Brewington, figure 3.21: error of the fit", seconds=4)
def figure_3_21(options: Options) -> Reproduction:
    fit = _as_printed(informant(options.seed, pages_of(options)))
    off = fit.fitted - fit.observed
    early, late = (float(np.abs(off[part]).max()) for part in (fit.days <= 8, fit.days > 8))
    return Reproduction(
        checks=[
            Check("largest error up to 8 days, in those above", None, early / late),
            Check("largest error above 8 days", "< 0.02", late, _chance(fit), kind="words"),
        ],
        pictures=[
            Picture(
                "lifetime, days",
                "error of the fitted distribution",
                [Curve("fitted − seen", fit.days[fit.days < 100], off[fit.days < 100])],
            )
        ],
        notes=[
            GONE,
            (
                "the errors below 8 days come from aliasing, as in the thesis; its ripples of days "
                "and weeks are not in the synthetic pages"
            ),
        ],
    )


@Experiment.named("brewington-figure-3.22", "Brewington, figure 3.22: mean lifetimes")
def figure_3_22(_: Options) -> Reproduction:
    t, times = np.linspace(1, 600, 151), Weibull(WEB.shape, WEB.scale)
    return Reproduction(
        checks=[
            Check("mean, days: 'around 138'", "138", WEB.mean, why=ROUNDED),
            Check("most likely value, days", "62", WEB.mode),
            Check("median, days", "117", WEB.median),
        ],
        pictures=[
            Picture(
                "mean time between updates, days",
                "density, per day",
                [Curve("σ = 1.4, δ = 152.2 days", t, times.interval_pdf(t))],
            ),
            Picture(
                "mean time between updates, days",
                "share of pages",
                [Curve("σ = 1.4, δ = 152.2 days", t, times.interval_cdf(t))],
            ),
        ],
        notes=["exact, for the published parameters"],
    )


@lru_cache(maxsize=2)
def printed_model_fit(seed: int, pages: int) -> PopulationFit:
    """Least squares on lifetimes that are what (3.14) takes them for: draws of Exp(λ)."""
    spans = informant(seed, pages).spans
    rng = np.random.default_rng([seed, 19])
    times = WEB.scale * rng.weibull(WEB.shape, len(spans))
    seen = np.flatnonzero(rng.random(len(spans)) < changed_probability(1 / times, spans))
    lifetimes = rng.exponential(times[seen])
    return fit_lifetimes(lifetimes, seen, spans, corrected=False, method="least-squares")


def _as_printed(seen: Description) -> PopulationFit:
    return fit_lifetimes(
        seen.lifetimes,
        seen.lifetime_sources,
        seen.dated_spans,
        corrected=False,
        method="least-squares",
    )


def _first_lifetimes(seen: Description) -> Floats:
    _, first = np.unique(seen.lifetime_sources, return_index=True)
    return np.sort(seen.lifetimes[first])


def _chance(fit: PopulationFit) -> float:
    """How far chance alone takes a distribution seen from the true one, in 99.9 % of cases."""
    return 1.95 / float(np.sqrt(fit.sources))
