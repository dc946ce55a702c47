"""Seasons and drift."""

import altair as alt
import numpy as np

from drawings import (
    BLUE,
    GOLD,
    GREY,
    INK,
    RED,
    WIDTH,
    across,
    colours,
    downward,
    finished,
    marks,
    outcome,
    picture,
    points,
    upward,
    visit_dots,
    words,
)
from observant import VisitLog
from observant.estimation.drift import estimate_drift
from observant.estimation.season import Season, estimate_seasons
from observant.planning.phases import best_times, mean_delay

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


@picture("idea-seasons-week")
def a_week():
    truth = Season(np.repeat([0.1, 1.0, 0.1] * 5 + [0.1], [8, 10, 6] * 5 + [48]))
    found = estimate_seasons(visited_for_a_year(truth, np.random.default_rng(7))).season
    best = best_times(found, 14, period="7d")
    delay = mean_delay(best.times, truth.by_hour().ravel(), period="7d")
    cells = [
        {"h": h, "to": min(h + 1.06, 168), "y": at, "y2": at + 0.72, "weight": float(weight)}
        for at, season in enumerate((truth, found))
        for h, weight in enumerate(season.by_hour().ravel())
    ]
    dots = [{"h": 24 * float(t), "y": 2.3, "how": "best"} for t in best.times]
    dots += [{"h": h, "y": 2.9, "how": "evenly"} for h in range(6, 168, 12)]
    names = [
        {"h": 0, "y": 0.36, "name": "the truth"},
        {"h": 0, "y": 1.36, "name": "what visits show"},
        {"h": 0, "y": 2.3, "name": "14 visits, best"},
        {"h": 0, "y": 2.9, "name": "14 visits, evenly"},
    ]
    late = [
        {"h": 168, "y": y, "said": f"{24 * days:.1f} h late"}
        for y, days in ((2.3, delay), (2.9, best.even_delay))
    ]
    x = across(
        "h",
        None,
        [0, 168],
        values=list(range(0, 168, 24)),
        labelExpr=f"{DAYS}[datum.value / 24]",
        labelAlign="left",
        labelOffset=2,
        domain=False,
    )
    y = downward("y", -0.1, 3.3)
    shades = alt.Scale(range=["#eef3f8", BLUE, "#1c3f66"], domain=[0, 2, 3.2], clamp=True)
    heat = marks(cells, width=WIDTH, height=200).mark_rect(aria=False)
    visits = marks(dots).mark_point(filled=True, size=55, opacity=1)
    return finished(
        heat.encode(
            x=x, x2="to:Q", y=y, y2="y2:Q", color=alt.Color("weight:Q", scale=shades, legend=None)
        )
        + visits.encode(x=x, y=y, color=colours("how", {"best": RED, "evenly": GREY}))
        + words(names, x, y, "name", align="right", dx=-10)
        + words(late, x, y, "said", align="left", dx=10),
        "A week of office hours, as visits at random hours show it",
        "Dark hours are busy. Below, when to visit twice a day, and how late the updates are then"
        " found on average.",
    )


def visited_for_a_year(season, rng, pages=20, visits=1000):
    """Pages that share a season, each visited about twice a day at random hours."""
    time = 20_000 + np.cumsum(rng.exponential(0.5, (pages, visits)), axis=1)
    rate = rng.gamma(2.0, 0.5, (pages, 1))
    chance = -np.expm1(-rate * season.exposure(time[:, :-1], time[:, 1:]))
    changed = np.full(time.shape, None)
    changed[:, 1:] = rng.random(chance.shape) < chance
    names = np.repeat(np.char.mod("page %02d", np.arange(pages)), visits)
    return VisitLog.from_columns(names, time.ravel(), changed.ravel(), time_unit="d")


@picture("idea-seasons-drift")
def a_rate_that_jumps():
    rng, shown = np.random.default_rng(4), 3
    rates = np.repeat(rng.lognormal(-1, 0.5, (60, 1)), 120, axis=1)
    rates[:20, 60:] *= 8
    gaps = rng.exponential(1.0, rates.shape) + 0.001
    changed = rng.random(rates.shape) < 1 - np.exp(-rates * gaps)
    names = np.char.mod("page %02d", np.arange(60))
    log = VisitLog.from_columns(
        source=np.repeat(names, 121),
        time=20_000 + np.hstack([np.zeros((60, 1)), np.cumsum(gaps, axis=1)]).ravel(),
        changed=np.hstack([np.full((60, 1), None), changed]).ravel(),
        time_unit="d",
    )
    path, constant = (estimate_drift(log, how).path(names[shown]) for how in ("auto", "constant"))
    days = np.cumsum(gaps[shown])
    curves = {
        "the truth": (days, rates[shown]),
        "one constant rate": (days, constant.rate_per_day),
        "the rate now": (days, path.rate_per_day),
    }
    band = [
        {"t": float(t), "rate": float(low), "high": float(high)}
        for t, low, high in zip(days, path.rate_low, path.rate_high, strict=True)
    ]
    dots = [
        {"t": float(t), "rate": 0.045, "visit": outcome(c)}
        for t, c in zip(days, changed[shown], strict=True)
    ]
    x = across("t", "days", [0, float(days[-1])], grid=False)
    y = upward("rate", "updates a day", [0.035, 40], log=True, values=[0.1, 1, 10], format="~g")
    legend = alt.Legend(title=None, orient="top-left", offset=8)
    paint = dict(zip(curves, [INK, GOLD, BLUE], strict=True))
    dash = alt.Scale(domain=list(curves), range=[[5, 4], [1, 0], [1, 0]])
    reach = marks(band, width=WIDTH, height=290).mark_area(
        color=BLUE, opacity=0.16, interpolate="step-after", clip=True
    )
    lines = marks(points(curves, "t", "rate")).mark_line(strokeWidth=2.2, interpolate="step-after")
    return finished(
        reach.encode(x=x, y=y, y2="high:Q")
        + lines.encode(
            x=x,
            y=y,
            color=colours("name", paint, legend=legend),
            strokeDash=alt.StrokeDash("name:N", scale=dash, legend=None),
        )
        + visit_dots(dots, x, y, size=34),
        "A page that wakes up",
        "After each visit (dots; filled: found a change): the rate as believed, with its band, and"
        " what one constant rate would say.",
    )
