"""Currency."""

import altair as alt
import numpy as np

from drawings import (
    BLUE,
    GOLD,
    GREY,
    INK,
    NIGHT,
    RED,
    WIDTH,
    across,
    colours,
    downward,
    finished,
    marks,
    picture,
    points,
    upward,
    words,
)
from observant.currency import WeibullPopulation, currency, required_period
from observant.processes import Poisson
from observant.units import format_duration

STATES = {"current": BLUE, "late by less than a day": "#a9cbe6", "out of date": RED}


@picture("idea-currency-strip")
def a_copy_in_time():
    rate, grace, horizon = 0.25, 1.0, 48.0
    updates = Poisson(rate).sample(horizon, seed=5)[0]
    bars, visits, said = [], [], []
    for at, period in enumerate((2.0, 4.0, 8.0)):
        starts = np.arange(0.0, horizon, period)
        for start in starts:
            inside = updates[(updates > start) & (updates <= start + period)]
            first = float(inside[0]) if len(inside) else start + period
            edges = [start, first, min(first + grace, start + period), start + period]
            bars += [
                {"t": left, "to": right, "state": state, "y": at - 0.2, "y2": at + 0.2}
                for left, right, state in zip(edges[:-1], edges[1:], STATES, strict=True)
                if right > left
            ]
        visits += [{"t": float(t), "y": at + 0.2} for t in [*starts, horizon]]
        alpha, fresh = (currency(rate, period=period, grace=g) for g in (grace, 0.0))
        said.append(
            {
                "y": at,
                "t": 0,
                "name": f"every {period:g} d",
                "alpha": f"α = {alpha:.2f}",
                "fresh": f"({fresh:.2f} without grace)",
            }
        )
    x = across("t", "days", [0, horizon], grid=False, tickCount=8)
    y = downward("y", -0.85, 2.5)
    legend = alt.Legend(title=None, orient="bottom", symbolType="square", offset=4)
    strips = (
        marks(bars, width=WIDTH - 60, height=200)
        .mark_rect(aria=False)
        .encode(x=x, x2="to:Q", y=y, y2="y2:Q", color=colours("state", STATES, legend=legend))
    )
    updated = marks([{"t": float(t), "y": -0.7, "y2": -0.42} for t in updates])
    visited = marks(visits).mark_point(
        shape="triangle-up", filled=True, size=45, color=INK, opacity=1, yOffset=7
    )
    ends = [{**row, "t": horizon} for row in said]
    return finished(
        strips
        + updated.mark_rule(color=INK, strokeWidth=2).encode(x=x, y=y, y2="y2:Q")
        + visited.encode(x=x, y=y)
        + words(said, x, y, "name", align="right", dx=-12)
        + words(ends, x, y, "alpha", align="left", dx=12, dy=-7, fontSize=13)
        + words(ends, x, y, "fresh", align="left", dx=12, dy=9, fontSize=10.5, color="#777"),
        "What a copy goes through",
        "A source updated every four days on average (ticks), and three copies that are renewed at"
        " their visits (triangles).",
        "α is the share of time that is not red, in the long run.",
    )


@picture("idea-currency-period")
def currency_and_period():
    periods = np.geomspace(0.25, 730, 120)
    sources = {
        "once a day": (1.0, RED),
        "once a week": (1 / 7, GOLD),
        "once a month": (1 / 30, BLUE),
        "once a year": (1 / 365, NIGHT),
        "the web of 1999": (WeibullPopulation(shape=1.4, scale=152.2), GREY),
    }
    curves = {
        name: (periods, currency(source, period=periods, grace=1.0))
        for name, (source, _) in sources.items()
    }
    needed = {
        name: float(required_period(source, target=0.95, grace=1.0))
        for name, (source, _) in sources.items()
    }
    kept = [
        {"T": days, "alpha": 0.95, "top": 1.045, "name": name, "said": format_duration(days)}
        for name, days in needed.items()
    ]
    ticks = {0.25: "6 h", 1: "a day", 7: "a week", 30: "a month", 91: "3 months", 365: "a year"}
    labels = "{" + ",".join(f"'{days}':'{said}'" for days, said in ticks.items()) + "}"
    x = across(
        "T",
        "time between visits",
        [0.25, 730],
        log=True,
        values=list(ticks),
        labelExpr=f"{labels}[datum.value]",
    )
    y = upward(
        "alpha",
        "currency α, one day of grace",
        [0, 1.12],
        values=[0, 0.25, 0.5, 0.75, 0.95],
        format=".2~f",
    )
    legend = alt.Legend(title="updated", orient="bottom-left", offset=10)
    colour = colours("name", {name: paint for name, (_, paint) in sources.items()}, legend=legend)
    promise = marks([{"alpha": 0.95}], width=WIDTH, height=270)
    stems = marks(kept).mark_rule(strokeWidth=1)
    return finished(
        promise.mark_rule(color="#999", strokeDash=[4, 3]).encode(y=y)
        + stems.encode(x=x, y=y, y2="top:Q", color=colour)
        + marks(points(curves, "T", "alpha"))
        .mark_line(strokeWidth=2.5)
        .encode(x=x, y=y, color=colour)
        + marks(kept).mark_circle(size=60, opacity=1).encode(x=x, y=y, color=colour)
        + words(kept, x, alt.Y("top:Q"), "said", colour, dy=-8, fontSize=11),
        "How often must one look?",
        "The dots: the longest time between visits that keeps the promise (0.95, 1 day).",
    )
