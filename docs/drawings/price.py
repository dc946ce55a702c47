"""The price of a visit."""

import numpy as np

from drawings import (
    BLUE,
    GOLD,
    GREEN,
    INK,
    NIGHT,
    RED,
    WIDTH,
    across,
    colours,
    finished,
    marks,
    picture,
    points,
    upward,
    words,
)
from observant import plan
from observant.planning.objectives import objective
from observant.units import format_duration


@picture("idea-price-index")
def index_and_price():
    paint = {
        "once in 20 d": NIGHT,
        "once in 5 d": BLUE,
        "once a day": GREEN,
        "2.5 a day": GOLD,
        "8 a day": RED,
    }
    rates = dict(zip(paint, [0.05, 0.2, 1.0, 2.5, 8.0], strict=True))
    best = plan(list(rates.values()), budget=2.5)
    period = dict(zip(paint, best.period_days, strict=True))
    since = np.linspace(0, 5, 126)
    worth = {
        name: (since, objective("freshness", np.full(len(since), rate)).index(since))
        for name, rate in rates.items()
    }
    rows = [row for row in points(worth, "s", "W") if row["W"] < 1.03]
    waiting = [row for row in rows if row["s"] <= period[row["name"]]]
    ends = [[row for row in rows if row["name"] == name][-1] for name in paint]
    met = [
        {"s": float(days), "W": best.price, "name": name, "said": format_duration(float(days))}
        for name, days in period.items()
        if np.isfinite(days)
    ]
    above = [row for row in met if row["name"] == "2.5 a day"]  # or two labels would meet
    below = [row for row in met if row not in above]
    x = across("s", "days since the last visit", [0, 5])
    y = upward("W", "worth of a visit now", [0, 1.05])
    colour = colours("name", paint)
    price = [{"W": best.price, "s": 5, "said": f"the price Λ = {best.price:.2f}"}]
    curves = marks(rows, width=WIDTH, height=280).mark_line(strokeWidth=2, opacity=0.35)
    return finished(
        curves.encode(x=x, y=y, color=colour)
        + marks(waiting).mark_line(strokeWidth=3).encode(x=x, y=y, color=colour)
        + marks(price).mark_rule(color=INK, strokeWidth=1.5, strokeDash=[6, 3]).encode(y=y)
        + words(price, x, y, "said", align="left", dx=8)
        + marks(met).mark_circle(size=90, opacity=1).encode(x=x, y=y, color=colour)
        + words(below, x, y, "said", colour, align="left", dx=4, dy=14, fontSize=11)
        + words(above, x, y, "said", colour, align="right", dx=-4, dy=-12, fontSize=11)
        + words(ends, x, y, "name", colour, align="left", dx=6, dy=-6),
        "One price, and everybody knows when to go",
        "Each source is visited when its curve meets the price (dots). The red one never meets it.",
    )


@picture("idea-price-starved")
def who_is_starved():
    rates = np.geomspace(0.01, 100, 241)
    paint = {"freshness": RED, "harmonic": GOLD, "age": GREEN, "delay": NIGHT, "detected": BLUE}
    visits = {
        name: (rates, plan(rates, budget=len(rates), objective=name).visits_per_day)
        for name in paint
    }
    rows = [row for row in points(visits, "rate", "visits") if row["visits"] > 0.02]
    fresh = [row for row in rows if row["name"] == "freshness"]
    edge = fresh[-1]["rate"]
    rows.append({"rate": edge, "visits": 0.02, "name": "freshness"})
    ends = [row for row in rows if row["rate"] == rates[-1]]
    peak = max(fresh, key=lambda row: row["visits"])
    ticks = [0.01, 0.1, 1, 10, 100]
    x = across("rate", "updates a day", [0.01, 100], log=True, values=ticks, format="~g")
    y = upward("visits", "visits a day", [0.02, 20], log=True, values=[0.1, 1, 10], format="~g")
    colour = colours("name", paint)
    starved = marks([{"rate": edge, "to": 100, "visits": 0.02, "top": 20}], width=WIDTH, height=290)
    nobody = [{"rate": (edge * 100) ** 0.5, "visits": 0.03, "said": "never visited for freshness"}]
    return finished(
        starved.mark_rect(color=RED, opacity=0.08).encode(x=x, x2="to:Q", y=y, y2="top:Q")
        + marks([{"visits": 1}]).mark_rule(color="#999", strokeDash=[4, 3]).encode(y=y)
        + marks(rows).mark_line(strokeWidth=2.5).encode(x=x, y=y, color=colour)
        + words(ends, x, y, "name", colour, align="left", dx=8)
        + words([peak], x, y, "name", colour, dy=-10)
        + words(nobody, x, y, "said", color=RED, fontSize=11),
        "The same budget, five wishes",
        "How often the optimal plan visits a source, by how often it is updated. One visit a source"
        " and day (dashed: all alike).",
        "Who wants the copy to be right gives up on the fastest sources. Who wants to see every"
        " change runs after them.",
    )
