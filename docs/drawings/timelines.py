"""Lines of time: updates as ticks, visits as dots; and beside them what the visits make of it."""

import altair as alt
import numpy as np

from drawings import (
    BLUE,
    GOLD,
    PALE,
    RED,
    across,
    colours,
    downward,
    log_of,
    marks,
    outcome,
    seen_changes,
    visit_dots,
    words,
)
from observant import estimate_rates

ROW = 62  # pixels


def timelines(rows, horizon):
    """A line for each row: its name, its updates, and the visits to it.

    An update is lost when another one follows it before the next visit.
    """
    ticks, dots = [], []
    for at, (_, updates, visits) in enumerate(rows):
        visit = np.searchsorted(visits, updates, side="left")
        shown = visit != np.append(visit[1:], -1)[: len(visit)]
        ticks += [
            {"t": float(t), "y": at - 0.12, "y2": at - 0.5, "update": "seen" if s else "lost"}
            for t, s in zip(updates, shown, strict=True)
        ]
        dots += [
            {"t": float(t), "y": at, "visit": outcome(c)}
            for t, c in zip(visits[1:], seen_changes(updates, visits), strict=True)
        ]
    names = [{"t": 0, "y": at, "name": name} for at, (name, _, _) in enumerate(rows)]
    x = across("t", "days", [0, horizon], grid=False, tickCount=8)
    y = downward("y", -0.7, len(rows) - 0.55)
    lines = marks(names, width=470, height=ROW * len(rows)).mark_rule(color="#e0e3e8").encode(y=y)
    updated = (
        marks(ticks)
        .mark_rule(strokeWidth=2, strokeCap="round", aria=False)
        .encode(x=x, y=y, y2="y2:Q", color=colours("update", {"seen": RED, "lost": PALE}))
    )
    return (
        lines + updated + visit_dots(dots, x, y) + words(names, x, y, "name", align="right", dx=-12)
    )


def estimates_beside(found, truth, most):
    """Estimates with their intervals, row by row as in `timelines`; an open end is an arrow."""
    table = [{**row, "y": at, "high": min(row["high"], most)} for at, row in enumerate(found)]
    x = across("low", "updates a day", [0, most], grid=False, tickCount=4)
    y = downward("y", -0.7, len(found) - 0.55)
    right = marks([{"truth": truth}], width=150, height=ROW * len(found))
    spans = marks(table).mark_rule(color=BLUE, strokeWidth=5, opacity=0.3, strokeCap="round")
    arrows = marks([row for row in table if row["high"] == most]).mark_point(
        shape="triangle-right", filled=True, size=90, color=BLUE, opacity=0.45
    )
    naive = marks(table).mark_tick(color=GOLD, thickness=3, height=16)
    best = marks(table).mark_circle(size=80, opacity=1, color=BLUE)
    return (
        right.mark_rule(color="#999", strokeDash=[4, 3]).encode(x="truth:Q")
        + spans.encode(x=x, x2="high:Q", y=y)
        + arrows.encode(x="high:Q", y=y)
        + naive.encode(x="naive:Q", y=y)
        + best.encode(x="rate:Q", y=y)
    )


def estimates(updates, visits):
    """What a log of these visits says: changes over time, and the default estimate."""
    log = log_of(visits, seen_changes(updates, visits))
    best, naive = estimate_rates(log, "bias-reduced"), estimate_rates(log, "naive")
    return {
        "rate": float(best.rate_per_day[0]),
        "low": float(best.rate_low[0]),
        "high": float(best.rate_high[0]),
        "naive": float(naive.rate_per_day[0]),
    }


def side_by_side(rows, horizon, found, truth, most):
    return alt.hconcat(timelines(rows, horizon), estimates_beside(found, truth, most))
