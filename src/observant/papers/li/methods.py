"""Figures 5 to 10, 13, 15 and 16: each method on simulated sources, beside the formula for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.estimation.intervals import methods as theory
from observant.estimation.intervals.curves import flat_region, interval_curve, mean_by_step
from observant.estimation.intervals.methods import (
    g_m4,
    m1,
    m2,
    m3_samples,
    m4,
    m5,
    m6,
    relative_error_of_mean,
)
from observant.papers.li.simulated import LI, Sampled, sample_visits
from observant.papers.result import (
    Check,
    Curve,
    Experiment,
    Options,
    Picture,
    Reproduction,
)
from observant.processes import Exponential, Pareto

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.arrays import Floats
    from observant.estimation.intervals.curves import AgeCurve
    from observant.processes import Process

__all__: list[str] = []

X = np.geomspace(0.1, 30.0, 60)
"""Where tails are drawn: below 0.1 all are near 1, and beyond 30 one age in a thousand is left."""
AT = np.array([1.0, 2.0, 5.0])
"""Where they are compared in numbers."""


@Experiment.named("li-figure-5", "Li, figure 5: the share p of visits that M1 keeps", seconds=2)
def figure_5(options: Options) -> Reproduction:
    rates = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0])
    runs = options.runs or 5
    pictures, checks = [], []
    for part, (name, gaps) in enumerate(_gap_kinds()):
        formula = np.array([theory.changed_share(LI, gaps(rate)) for rate in rates])
        ours = np.zeros(rates.size)
        error = np.zeros(rates.size)
        for i, rate in enumerate(rates):
            shares = [
                sample_visits(20_000.0 / rate, options.rng(part, i, run), gaps(rate))
                .changed[1:]
                .mean()
                for run in range(runs)
            ]
            ours[i], error[i] = np.mean(shares), _error(shares)
            checks.append(
                _formula_check(f"p, {name} S, λ = {rate:g}", formula[i], ours[i], error[i])
            )
        pictures.append(
            Picture(
                "sampling rate λ, visits a day",
                "share of visits kept, p",
                [
                    Curve(f"Li (9), {name} S", rates, formula),
                    Curve(f"simulation, {name} S", rates, ours, points=True),
                ],
                log_x=True,
            )
        )
        options.done((part + 1) / 2)
    # "constant S samples more points than the exponential case"
    more = min(
        theory.changed_share(LI, 1 / rate) - theory.changed_share(LI, Exponential(rate))
        for rate in rates
    )
    checks.append(Check.claim("constant S keeps more than exponential S, at every λ", more > 0))
    return Reproduction(
        title="Li (9) under Pareto updates (μ = 2)", checks=checks, pictures=pictures
    )


@Experiment.named("li-figure-6", "Li, figure 6: what M1 measures, exponential S", seconds=3)
def figure_6(options: Options) -> Reproduction:
    """(a) Pareto updates: neither F nor G. (b) exponential updates: F, which is G."""
    parts = [
        _tails(
            options,
            part,
            m1_of,
            updates,
            Exponential(1.0),
            theory.m1_tail(updates, Exponential(1.0), X),
        )
        for part, updates in enumerate((LI, Exponential(2.0)))
    ]
    checks = [check for _, found in parts for check in found]
    poisson = theory.m1_tail(Exponential(2.0), Exponential(1.0), AT)
    checks += [
        Check(
            f"M1 is unbiased for exponential updates, x = {x:g}",
            float(F),
            float(ours),
            1e-9,
            kind="formula",
        )
        for x, F, ours in zip(AT, Exponential(2.0).interval_sf(AT), poisson, strict=True)
    ]
    return Reproduction(
        title="M1 under exponential S (λ = 1, μ = 2)",
        checks=checks,
        pictures=[picture for picture, _ in parts],
    )


@Experiment.named("li-figure-7", "Li, figure 7: M1 between the tails of U and its age", seconds=3)
def figure_7(options: Options) -> Reproduction:
    pictures, checks = [], []
    distances = []
    for part, rate in enumerate((1.0, 4.0)):
        gap = 1.0 / rate
        picture, found = _tails(
            options, part, m1_of, LI, gap, theory.m1_tail(LI, gap, X), f", λ = {rate:g}"
        )
        pictures.append(picture)
        checks += found
        tail = theory.m1_tail(LI, gap, X)
        inside = bool(((tail > LI.interval_sf(X)) & (tail < LI.age_sf(X))).all())
        checks.append(Check.claim(f"between the tails of U and of its age, λ = {rate:g}", inside))
        distances.append(float((tail - LI.interval_sf(X)).max()))
    checks.append(Check.claim("faster sampling moves M1 towards U", distances[1] < distances[0]))
    return Reproduction(
        title="M1 under Pareto updates and constant S (μ = 2)",
        checks=checks,
        pictures=pictures,
    )


@Experiment.named("li-figure-8", "Li, figure 8: M2 measures the age distribution", seconds=3)
def figure_8(options: Options) -> Reproduction:
    parts = [
        _tails(options, part, m2_of, LI, gaps(1.0), LI.age_sf(X), f", {name} S")
        for part, (name, gaps) in enumerate(_gap_kinds())
    ]
    return Reproduction(
        title="M2 under Pareto updates (λ = 1, μ = 2)",
        checks=[check for _, found in parts for check in found],
        pictures=[picture for picture, _ in parts],
    )


@Experiment.named("li-figure-9", "Li, figure 9: from M2 to E[U] and F", seconds=4)
def figure_9(options: Options) -> Reproduction:
    """λ = 100, constant S, five points; F with h = 0.1."""
    duration = 20_000.0
    visits = sample_visits(duration, options.rng(0), 0.01)
    curve = m2(visits.ages)
    h = 2.0 ** -np.arange(0, 7.5, 0.5)
    means = mean_by_step(curve, h)
    chosen, _ = flat_region(curve)
    found = float(mean_by_step(curve, chosen)[()])
    x, F, _, _ = interval_curve(curve, h=0.1)
    seen = x <= 10
    # Intervals have a standard deviation of √3/2, so their mean over T is known to this share.
    error = np.sqrt(3.0 / (2 * duration))
    checks = [
        Check(
            "E[U] in the flat region: 'the true value'",
            0.5,
            found,
            0.5 * 3 * error,
            kind="formula",
            why=f"a derivative over a step of h = {chosen:.3g} is a little off",
        ),
        Check.claim(
            "E[U] falls as h shrinks (errata L-10), h = 1 to 1/4",
            bool((np.diff(means[:5]) < 0).all()),
        ),
        Check(
            "largest |F − estimate|, h = 0.1 (“indistinguishable”)",
            "< 0.03",
            float(np.abs(F[seen] - LI.interval_cdf(x[seen])).max()),
            kind="words",
        ),
    ]
    pictures = [
        Picture(
            "step h, days",
            "estimated E[U], days",
            [
                Curve("M2, five points", h, means, points=True),
                Curve("true E[U]", h, np.full(h.size, 0.5)),
                Curve("step taken", [chosen], [found], points=True),
            ],
            log_x=True,
        ),
        Picture(
            "interval x, days",
            "F(x)",
            [
                Curve("M2, h = 0.1", x[seen], F[seen], points=True),
                Curve("true F", x[seen], LI.interval_cdf(x[seen])),
            ],
        ),
    ]
    return Reproduction(
        title="M2 under Pareto updates and constant S (μ = 2, λ = 100)",
        checks=checks,
        pictures=pictures,
        notes=[
            f"the search took h = {chosen:.3g}; it stops at the data's resolution (errata L-12)"
        ],
    )


@Experiment.named("li-figure-10", "Li, figure 10: error of the mean age of M2", seconds=15)
def figure_10(options: Options) -> Reproduction:
    """ε(T) of Li (36): against T at λ = 1, and against E[S] at T = 10,000. Li took 1,000 paths."""
    runs = options.runs or 100

    def error(duration: float, gap: float, *path: int) -> float:
        means = []
        for run in range(runs):
            ages = sample_visits(duration, options.rng(*path, run), Exponential(1 / gap)).ages
            means.append(ages.mean())
        return relative_error_of_mean(means, LI.mean_age)

    T = np.array([1e2, 1e3, 1e4, 1e5])
    by_T = np.array([error(duration, 1.0, 0, i) for i, duration in enumerate(T)])
    options.done(0.6)
    gaps = np.array([100.0, 30.0, 10.0, 3.0, 1.0, 0.3])
    by_gap = np.array([error(1e4, gap, 1) for gap in gaps])
    checks = [
        Check.claim("ε(T) falls as T grows, at each of four T", bool((np.diff(by_T) < 0).all())),
        Check.claim(
            "ε falls as E[S] shrinks (errata L-10), from 100 to 0.3",
            bool(by_gap[-1] < by_gap[0]),
        ),
    ]
    pictures = [
        Picture(
            "observed time T, days",
            "relative error of the mean age",
            [Curve("M2, λ = 1", T, by_T)],
            log_x=True,
            log_y=True,
        ),
        Picture(
            "mean gap between visits E[S], days",
            "relative error of the mean age",
            [Curve("M2, T = 10,000", gaps, by_gap)],
            log_x=True,
            log_y=True,
        ),
    ]
    notes = [
        (
            f"means over {runs} paths; the age has no variance (shape 3), so convergence is slow "
            "(errata L-10)"
        ),
        "T stops at 10⁵; Li goes on to 10⁶",
        (
            "below E[S] of about 10 the curve is flat within the noise of the paths: then the "
            "error is that of the updates, which no visit can mend"
        ),
    ]
    return Reproduction(title="ε(T) of M2 (μ = 2)", checks=checks, pictures=pictures, notes=notes)


@Experiment.named("li-figure-13", "Li, figure 13: M5 from the samples of M3", seconds=4)
def figure_13(options: Options) -> Reproduction:
    def m5_of(visits: Sampled) -> AgeCurve:
        return m5(*m3_samples(visits.times, visits.changed))

    pictures, checks = [], []
    for part, rate in enumerate((1.0, 4.0)):
        gap = 1.0 / rate
        x = gap * np.arange(1, int(30 * rate) + 1, dtype=np.float64)
        picture, found = _tails(options, part, m5_of, LI, gap, LI.age_sf(x), f", λ = {rate:g}", x=x)
        pictures.append(picture)
        checks += found
    visits = sample_visits(100_000.0, options.rng(9), 1.0)
    samples, _ = m3_samples(visits.times, visits.changed)
    checks += [
        Check("E[D₃] at Δ = 1, formula", "1.33", theory.m3_mean(LI, 1.0)),
        Check("E[D₃] at Δ = 1, simulated", "1.33", float(samples.mean()), 3 * _error(samples)),
        Check(
            "E[D₄] at Δ = 1, formula: π²/6",
            "1.63",
            theory.m4_mean(LI, 1.0),
            why="1.63 is a simulated mean of a variable without variance (errata L-4)",
        ),
    ]
    simulated = m4(visits.times, visits.changed)
    spread = float((1 - np.append(0.0, simulated.values)).sum())
    notes = [f"our own simulated E[D₄] at T = 100,000 is {spread:.3f}; runs differ widely (L-4)"]
    return Reproduction(
        title="M5 under Pareto updates (μ = 2)",
        checks=checks,
        pictures=pictures,
        notes=notes,
    )


@Experiment.named("li-figure-15", "Li, figure 15: the bias of G-M4", seconds=3)
def figure_15(options: Options) -> Reproduction:
    def run(visits: Sampled) -> AgeCurve:
        return g_m4(visits.times, visits.changed)

    formula = theory.g_m4_tail(LI, 1.0, X)
    exponential, checks = _tails(options, 0, run, LI, Exponential(1.0), formula)
    pareto, _ = _tails(options, 1, run, LI, Pareto.with_mean(1.0, 3.0), None)
    checks.append(
        Check(
            "tail at x = 1: .650 where that of the age is .25 (errata L-11)",
            "0.650",
            float(theory.g_m4_tail(LI, 1.0, 1.0)),
            kind="formula",
        )
    )
    far = X > 20
    ratio = np.asarray(pareto.curves[0].y)[far] / LI.age_sf(X[far])
    checks.append(
        Check.claim("Pareto S: the tail stays far from that of the age", bool((ratio > 1.5).all()))
    )
    near = float(theory.g_m4_tail(LI, 1.0, 30.0) / LI.age_sf(30.0))
    checks.append(Check.claim("exponential S: near the tail of the age for x ≫ 0", near < 1.1))
    return Reproduction(
        title="G-M4 under Pareto updates (μ = 2, λ = 1)",
        checks=checks,
        pictures=[exponential, pareto],
        notes=["exponential S: the age plus an exponential gap, exactly (errata L-11)"],
    )


@Experiment.named("li-figure-16", "Li, figure 16: M6 measures the age distribution", seconds=6)
def figure_16(options: Options) -> Reproduction:
    def run(visits: Sampled) -> AgeCurve:
        return m6(visits.times, visits.changed, 0.05, 31.0)

    parts = [
        _tails(options, part, run, LI, gaps, LI.age_sf(X), f", {name} S")
        for part, (name, gaps) in enumerate(
            (("exponential", Exponential(1.0)), ("Pareto", Pareto.with_mean(1.0, 3.0)))
        )
    ]
    return Reproduction(
        title="M6 under Pareto updates (h = 0.05, μ = 2, λ = 1)",
        checks=[check for _, found in parts for check in found],
        pictures=[picture for picture, _ in parts],
    )


def m1_of(visits: Sampled) -> AgeCurve:
    return m1(visits.ages, visits.changed)


def m2_of(visits: Sampled) -> AgeCurve:
    return m2(visits.ages)


def _tails(
    options: Options,
    part: int,
    method: Callable[[Sampled], AgeCurve],
    updates: Process,
    gaps: Process | float,
    formula: Floats | None,
    label: str = "",
    x: Floats = X,
) -> tuple[Picture, list[Check]]:
    """The tail a method measures, as a mean over runs, beside the formula and both true tails."""
    runs = options.runs or 10
    tails = np.array(
        [
            method(sample_visits(20_000.0, options.rng(part, run), gaps, updates)).age_sf(x)
            for run in range(runs)
        ]
    )
    ours, error = tails.mean(axis=0), tails.std(axis=0, ddof=1 if runs > 1 else 0) / np.sqrt(runs)
    checks = []
    curves = [Curve("simulation" + label, x, ours, points=True)]
    if formula is not None:
        if not np.array_equal(formula, updates.age_sf(x)):  # the ages are drawn below
            curves.append(Curve("formula", x, formula))
        for at in AT:
            i = int(np.argmin(np.abs(x - at)))
            checks.append(
                _formula_check(f"tail at x = {x[i]:.3g}{label}", formula[i], ours[i], error[i])
            )
    curves += [
        Curve("1 − F, intervals", x, updates.interval_sf(x)),
        Curve("1 − G, ages", x, updates.age_sf(x)),
    ]
    # A logarithm shows no zero: what no run saw is left out.
    shown = [
        Curve(curve.label, np.asarray(curve.x)[keep], np.asarray(curve.y)[keep], curve.points)
        for curve in curves
        for keep in [np.asarray(curve.y) > 1e-5]
    ]
    picture = Picture("x, days", "probability of more than x", shown, log_x=True, log_y=True)
    return picture, checks


def _gap_kinds() -> tuple[tuple[str, Callable[[float], Process | float]], ...]:
    return ("constant", lambda rate: 1.0 / rate), ("exponential", Exponential)


def _formula_check(name: str, formula: float, ours: float, error: float) -> Check:
    """Simulation against formula: five standard errors, and what a finite log leaves open."""
    return Check(name, float(formula), float(ours), float(5 * error + 0.002), kind="formula")


def _error(values: list[float] | Floats) -> float:
    numbers = np.asarray(values, np.float64)
    return float(numbers.std() / np.sqrt(max(1, numbers.size - 1)))
