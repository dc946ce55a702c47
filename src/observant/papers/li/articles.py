"""Table III and figures 17 to 21: long traces, how their intervals are spread, and M3 beside M4.

Li's Wikipedia articles and Yelp businesses are not public. The ten longest traces that are given
take the place of both; without any, sources with the laws that Li fits to his stand in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.estimation.intervals.methods import ks, m3, m4
from observant.estimation.intervals.poisson_tests import autocorrelation, poisson_test
from observant.papers.li.real_traces import GAP, HOUR, LongTrace, long_traces
from observant.papers.li.simulated import regular_times, sampled
from observant.papers.result import (
    Check,
    Curve,
    Experiment,
    Options,
    Picture,
    Reproduction,
    real_traces,
)
from observant.processes import Pareto, Weibull

if TYPE_CHECKING:
    from observant.arrays import Floats

__all__: list[str] = []

YEAR = 365.25 * 24
TABLE_3 = {
    "George W. Bush": (44_296, "1.86", "9.4"),
    "LWWE": (33_744, "1.46", "5.6"),
    "Wikipedia": (30_407, "2.70", "9.4"),
    "United States": (28_771, "2.90", "9.5"),
    "Michael Jackson": (25_558, "3.22", "9.4"),
    "Jesus": (23_027, "3.82", "10.1"),
    "Britney Spears": (21_549, "3.85", "9.5"),
    "World War II": (21_424, "3.83", "9.4"),
    "Wii": (21_023, "3.00", "7.2"),
    "Adolf Hitler": (20_964, "3.91", "9.6"),
}
"""Updates, E[U] in hours and lifetime in years."""
GONE = "Li's traces are not public (errata L-13)"


@Experiment.named("li-table-3", "Li, table III: the most edited articles", uses_traces=True)
def table_3(options: Options) -> Reproduction:
    rows: list[dict[str, Any]] = []
    checks = []
    for name, (updates, mean, years) in TABLE_3.items():
        rows.append(
            {"source": f"{name} (Li)", "updates": updates, "E[U], hours": float(mean)}
            | {"lifetime, years": float(years)}
        )
        checks.append(
            Check(
                f"{name}: lifetime, updates × E[U], years",
                years,
                updates * float(mean) / YEAR,
                updates * 0.005 / YEAR,  # E[U] is rounded too
                "the columns do not agree with each other (L-14)",
            )
        )
    for trace in [] if options.traces is None else long_traces(options.traces):
        hours = (trace.updates[-1] - trace.updates[0]) / HOUR
        rows.append(
            {
                "source": trace.name,
                "updates": trace.updates.size,
                "E[U], hours": float(hours / (trace.updates.size - 1)),
                "lifetime, years": float(hours / YEAR),
            }
        )
    return Reproduction(
        checks=checks,
        table=rows,
        notes=[f"{GONE}; what can be checked is that its columns agree with each other"],
    )


@Experiment.named(
    "li-figure-17", "Li, figure 17: intervals between edits", seconds=2, uses_traces=True
)
def figure_17(options: Options) -> Reproduction:
    return _intervals(options, 0.0)


@Experiment.named(
    "li-figure-19", "Li, figure 19: intervals known to the day", seconds=2, uses_traces=True
)
def figure_19(options: Options) -> Reproduction:
    return _intervals(options, 1.0)


@Experiment.named(
    "li-figure-18", "Li, figure 18: exponential, and yet not Poisson", uses_traces=True
)
def figure_18(options: Options) -> Reproduction:
    """The source whose coefficient of variation is nearest to 1, and its autocorrelation."""
    name, updates = _nearest_to_exponential(options)
    gaps = np.diff(updates)
    test = poisson_test(gaps)
    lags, rho, noise = autocorrelation(gaps, min(gaps.size // 4, 200))
    x = np.sort(gaps)
    shown = rho > noise
    slope = (
        float(np.polyfit(np.log(lags[shown]), np.log(rho[shown]), 1)[0]) if shown[3:].any() else 0
    )
    simulated = options.traces is None
    return Reproduction(
        checks=[
            Check("coefficient of variation: |v − 1|", "< 0.1", abs(float(test.cv[0]) - 1)),
            Check.claim(
                "correlation beyond chance at one lag in four or more",
                bool(np.mean(np.abs(rho) > noise) > 0.25),
                "a trace of a Poisson source, or a short one, has none",
            ),
            Check("exponent of ρ(h); −0.25 on Li's page", None, slope),
        ],
        table=[{"source": name, "updates": updates.size, "cv": float(test.cv[0])}],
        pictures=[
            Picture(
                "interval, hours",
                "share of intervals that are longer",
                [
                    Curve(name, x / HOUR, 1 - np.arange(x.size) / x.size, points=True),
                    Curve("exponential", x / HOUR, np.exp(-x / x.mean())),
                ],
                log_y=True,
            ),
            Picture(
                "lag h, updates",
                "autocorrelation ρ(h)",
                [
                    Curve(name, lags, np.maximum(rho, 1e-3), points=True),
                    Curve("h^−0.25", lags, 0.5 * lags**-0.25),
                    Curve("chance, 1.96/√n", lags, np.full(lags.size, noise)),
                ],
                log_x=True,
                log_y=True,
            ),
        ],
        notes=[
            f"{GONE}. {name}"
            + (
                ": exponential gaps whose order remembers (Gaussian with ρ = h^−0.25)"
                if simulated
                else " is nearest to v = 1 of those given with 100 updates or more"
            )
        ],
    )


@Experiment.named(
    "li-figure-20", "Li, figure 20: M3 and M4 on the longest trace", seconds=2, uses_traces=True
)
def figure_20(options: Options) -> Reproduction:
    return _m3_and_m4(options, 0.0)


@Experiment.named(
    "li-figure-21", "Li, figure 21: M3 and M4, daily visits", seconds=2, uses_traces=True
)
def figure_21(options: Options) -> Reproduction:
    return _m3_and_m4(options, 1.0)


def _intervals(options: Options, unit: float) -> Reproduction:
    """Tails of all intervals and of the longest trace, with the laws that Li fits to his."""
    first, every = _long_and_all(options, unit)
    parts, checks = [], []
    rows: list[dict[str, Any]] = []
    if not unit:
        rows += [
            {"intervals": "all articles (Li)", "law": "weibull", "shape": 0.5, "scale, hours": 400},
            {
                "intervals": "first article (Li)",
                "law": "pareto",
                "shape": 1.4,
                "scale, hours": 0.93,
            },
        ]
    laws = (("all sources", every, "weibull"), (first.name, np.diff(first.updates), "pareto"))
    for label, gaps, family in laws:
        u = np.maximum(np.round(gaps / unit), 1.0) * unit if unit else gaps
        law, shape, scale = _fitted(u, family, unit)
        x = np.unique(np.quantile(u, np.linspace(0, 1, 200)[:-1]))
        tail = 1 - np.searchsorted(np.sort(u), x, side="right") / u.size
        formula = law.interval_sf(x + unit / 2)  # what is rounded down to x is shorter than that
        rows.append({"intervals": label, "law": family, "shape": shape, "scale, hours": scale})
        parts.append(
            Picture(
                f"interval, hours ({label})",
                "share of intervals that are longer",
                [
                    Curve("intervals", x / HOUR, tail, points=True),
                    Curve(f"{family}, fitted", x / HOUR, formula),
                ],
                log_x=True,
                log_y=True,
            )
        )
        checks.append(
            Check(
                f"{label}: farthest from the fitted {family}: 'a good match'",
                "< 0.05",
                float(np.abs(tail - formula).max()),
                1.95 / np.sqrt(u.size),
                kind="words",
                why="other sources; their intervals have another law",
            )
        )
    source = "drawn from Li's laws" if options.traces is None else "of the traces that are given"
    notes = [f"{GONE}; intervals {source}, the laws fitted by maximum likelihood"]
    return Reproduction(checks=checks, table=rows, pictures=parts, notes=notes)


def _fitted(u: Floats, family: str, unit: float) -> tuple[Weibull | Pareto, float, float]:
    """The likeliest law of intervals, its shape, and its scale in hours; rounded ones by cells."""
    from scipy import optimize, stats

    law = stats.weibull_min if family == "weibull" else stats.lomax

    def unlikely(logs: Floats) -> float:
        shape, scale = np.exp(logs)
        if not unit:
            return -float(law.logpdf(u, shape, scale=scale).sum())
        values, counts = np.unique(u, return_counts=True)
        below = np.where(values <= unit, 0.0, values - unit / 2)
        cell = law.sf(below, shape, scale=scale) - law.sf(values + unit / 2, shape, scale=scale)
        return -float(counts @ np.log(np.maximum(cell, 1e-300)))

    best = optimize.minimize(unlikely, [0.0, float(np.log(np.median(u)))], method="Nelder-Mead")
    shape, scale = map(float, np.exp(best.x))
    if family == "weibull":
        return Weibull(shape, scale), shape, scale / HOUR
    # Our Pareto has a mean; one without is drawn with the least shape that has.
    return Pareto(max(shape, 1.01), scale), shape, scale / HOUR


def _long_and_all(options: Options, slowest: float = 0.0) -> tuple[LongTrace, Floats]:
    """The longest trace with such a mean interval or a longer one; and the intervals of all."""
    if options.traces is None:
        rng, scale = options.rng(17), max(HOUR, slowest)
        every = 400 * scale * rng.weibull(0.5, 20_000)
        times = Pareto(1.4, 0.93 * scale).sample(365.0 * scale / HOUR, seed=rng).times
        return LongTrace("simulated Pareto(1.4, 0.93)", times), every
    gaps = []
    for _, trace in real_traces(options.traces):
        within = np.diff(trace.updates.sources) == 0
        gaps.append(np.diff(trace.updates.times)[within])
    every = np.concatenate(gaps)
    return long_traces(options.traces, slowest)[0], every[every > 0]


def _nearest_to_exponential(options: Options) -> tuple[str, Floats]:
    if options.traces is None:
        return "simulated, long-range dependent", _dependent(options.rng(18))
    best: tuple[float, str, Floats] | None = None
    for name, trace in real_traces(options.traces):
        for place in map(int, np.flatnonzero(trace.updates.counts >= 100)):
            updates = np.unique(trace.updates[place])
            gaps = np.diff(updates)
            off = abs(float(gaps.std() / gaps.mean()) - 1)
            if best is None or off < best[0]:
                best = off, f"{name}: {trace.sources[place]}", updates
    if best is None:
        return "simulated, long-range dependent", _dependent(options.rng(18))
    return best[1], best[2]


def _dependent(rng: np.random.Generator, updates: int = 4_000) -> Floats:
    """Exponential gaps whose normal scores have the correlation h^−0.25 (circulant embedding)."""
    from scipy.special import ndtr

    lag = np.arange(updates + 1.0)
    rho = np.append(1.0, lag[1:] ** -0.25)
    circle = np.fft.rfft(np.append(rho, rho[-2:0:-1])).real.clip(0)
    size = 2 * updates
    noise = np.fft.irfft(np.sqrt(circle) * np.fft.rfft(rng.normal(size=size)), size)[:updates]
    return np.cumsum(-np.log(ndtr(-noise)))


def _m3_and_m4(options: Options, gap: float) -> Reproduction:
    """The age distribution of the longest trace, and what visits at constant gaps make of it."""
    trace, _ = _long_and_all(options, gap)
    gap = max(gap, trace.gap if options.traces is not None else GAP)
    length = float(trace.updates[-1] - trace.updates[0])
    visits = sampled(trace.updates, trace.updates[0] + regular_times(length, gap, options.rng(20)))
    x = gap * np.arange(1, round(min(2_000.0, length / gap / 2)) + 1, dtype=np.float64)
    truth = trace.age_cdf(x)
    found = {
        "M3": m3(visits.times, visits.changed).age_cdf(x),
        "M4": m4(visits.times, visits.changed).age_cdf(x),
    }
    errors = {method: 100 * ks(ours, truth) for method, ours in found.items()}
    return Reproduction(
        checks=[
            Check.claim("M4 is nearer to the truth than M3", errors["M4"] < errors["M3"]),
            Check("κ of M3, %", None, errors["M3"]),
            Check("κ of M4, %", None, errors["M4"]),
        ],
        pictures=[
            Picture(
                "age, hours",
                "share of ages that are higher",
                [
                    Curve(method, x / HOUR, 1 - ours, points=True),
                    Curve("trace", x / HOUR, 1 - truth),
                ],
                log_x=True,
                log_y=True,
            )
            for method, ours in found.items()
        ],
        notes=[f"{trace.name}, a visit every {gap / HOUR:.3g} hours; {GONE}"],
    )
