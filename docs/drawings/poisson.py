"""Why Poisson fails and what we do."""

import altair as alt
import numpy as np

from drawings import (
    BLUE,
    GOLD,
    INK,
    RED,
    WIDTH,
    across,
    colours,
    finished,
    log_of,
    marks,
    picture,
    points,
    seen_changes,
    upward,
)
from drawings.timelines import estimates, side_by_side
from observant import estimate_rates
from observant.estimation.intervals import estimate_intervals
from observant.processes import Bursts, Gamma, Pareto, Poisson

ONE_A_DAY = {
    "steady": Gamma.with_mean(1.0, shape=6.0),
    "at random": Poisson(rate=1.0),
    "heavy tail": Pareto.with_mean(1.0, shape=2.0),
    "in bursts": Bursts(on_rate=12.0, off_rate=0.0, on_time=0.5, off_time=5.5),
}
"""Sources that are updated once a day on average."""


@picture("idea-poisson-strips")
def four_characters():
    shown, visits = 32, np.arange(401.0)
    updates = {name: source.sample(400.0, seed=8)[0] for name, source in ONE_A_DAY.items()}
    rows = [(name, at[at < shown], visits[: shown + 1]) for name, at in updates.items()]
    found = [estimates(at, visits) for at in updates.values()]
    return finished(
        side_by_side(rows, shown, found, 1.0, most=2.2),
        "Four sources, each updated once a day on average, visited once a day",
        "Left: a month of them. Right: what 400 visits make of it, if updates are taken to come"
        " at random (dashed: the truth).",
        "All four intervals are short. Only the second holds the truth.",
    )


@picture("idea-poisson-ages")
def ages_of_a_bursty_source():
    truth = ONE_A_DAY["in bursts"]
    rng = np.random.default_rng(9)
    visits = np.cumsum(rng.exponential(0.5, 1500))
    log = log_of(visits, seen_changes(truth.sample(visits[-1], seed=9)[0], visits))
    rate = float(estimate_rates(log, "bias-reduced").rate_per_day[0])
    found = estimate_intervals(log, "page", bands=40)
    m6 = estimate_intervals(log, "page", "m6", step=0.1, maximum=12.0, bands=0)
    days = np.linspace(0, 12, 121)
    named = {
        "the truth": (truth, INK),
        "Poisson, with the rate that was found": (Poisson(rate), RED),
        "M6: pairs of visits": (m6, GOLD),
        "ours: the likeliest concave curve": (found, BLUE),
    }
    rows = points(
        {name: (days, source.age_cdf(days)) for name, (source, _) in named.items()}, "x", "G"
    )
    low, high = (
        np.interp(days, found.x_days, edge) for edge in (found.bands.age_low, found.bands.age_high)
    )
    band = [
        {"x": float(a), "G": float(b), "high": float(c)}
        for a, b, c in zip(days, low, high, strict=True)
    ]
    x = across("x", "days", [0, 12], tickCount=6)
    y = upward("G", "probability of an update within so many days", [0, 1], tickCount=5)
    legend = alt.Legend(title=None, orient="bottom-right", offset=12, labelLimit=300)
    area = marks(band, width=WIDTH, height=280).mark_area(color=BLUE, opacity=0.18)
    lines = marks(rows).encode(
        x=x,
        y=y,
        color=colours("name", {name: paint for name, (_, paint) in named.items()}, legend=legend),
        strokeDash=by_name(alt.StrokeDash, named, [[5, 4], [1, 0], [1, 0], [1, 0]]),
        strokeWidth=by_name(alt.StrokeWidth, named, [2, 2, 1.5, 3]),
    )
    return finished(
        area.encode(x=x, y=y, y2="high:Q") + lines.mark_line(),
        "How soon does a copy grow old?",
        "A bursty source, from 1,500 visits at random times that told only whether it had changed.",
    )


def by_name(kind, named, values):
    return kind("name:N", scale=alt.Scale(domain=list(named), range=values), legend=None)
