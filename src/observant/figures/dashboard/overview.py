"""The collection at a glance: how current it is, and what goes on hour by hour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.figures.dashboard.basics import BLUE, CHANGE, GREY, HOUR_LABELS, data
from observant.figures.population import cumulative, empirical, survival_rows
from observant.figures.season import week_map
from observant.figures.style import styled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from observant.arrays import Floats
    from observant.estimation.population import Description, PriorComparison, Turnover


_GRACES = [0, 1 / 24, 0.25, 1, 3, 7, 30, 90, 365]
_GRACE_LABELS = (
    "datum.value == 0 ? '0' : datum.value < 1 ? round(datum.value * 24) + ' h' : datum.value + ' d'"
)


def performance_figure(curve: Sequence[Any], grace: float, promised: Sequence[float] = ()) -> Any:
    """α as a function of the grace β, with its interval: Brewington's performance curve.

    `curve` has points with grace_days, alpha, low and high; `promised` is what the plan promises
    for long, at the same graces. The parameter ``grace`` of the chart moves the mark.
    """
    import altair as alt

    rows = [{"grace": p.grace_days, "alpha": p.alpha, "low": p.low, "high": p.high} for p in curve]
    x = alt.X(
        "grace:Q",
        scale=alt.Scale(type="symlog", constant=1 / 24, nice=False),
        axis=alt.Axis(title="grace β", values=_GRACES, labelExpr=_GRACE_LABELS, grid=False),
    )
    percent = alt.Axis(title="currency α", format=".0%", tickCount=6)
    lowest = min([row["low"] for row in rows] + [float(alpha) for alpha in promised] or [0.0])
    floor = max(lowest - 0.06, 0.0)
    span = alt.Scale(domain=[floor, 1.0], nice=False)
    base = alt.Chart(data(rows), width=560, height=240)
    band = base.mark_area(opacity=0.18, color=BLUE).encode(
        x=x, y=alt.Y("low:Q", scale=span, axis=percent), y2="high:Q"
    )
    line = base.mark_line(strokeWidth=2.5, color=BLUE).encode(
        x=x,
        y=alt.Y("alpha:Q", scale=span, axis=percent),
        tooltip=[
            alt.Tooltip("grace:Q", format=".3g", title="grace, days"),
            alt.Tooltip("alpha:Q", format=".1%", title="α now"),
            alt.Tooltip("low:Q", format=".1%", title="at least"),
            alt.Tooltip("high:Q", format=".1%", title="at most"),
        ],
    )
    layers = [band, line]
    if len(promised) == len(rows):
        plan = [
            {"grace": r["grace"], "plan": float(a)} for r, a in zip(rows, promised, strict=True)
        ]
        layers.append(
            alt.Chart(data(plan))
            .mark_line(strokeDash=[5, 4], strokeWidth=1.5, color=GREY)
            .encode(
                x=x,
                y=alt.Y("plan:Q", scale=span),
                tooltip=[alt.Tooltip("plan:Q", format=".1%", title="α the plan promises")],
            )
        )
    chosen = alt.param(name="grace", value=float(grace))
    mark = (
        alt.Chart(data([{"none": 0}]))
        .transform_calculate(at="grace")
        .mark_rule(color=CHANGE, strokeWidth=1.5)
        .encode(x=alt.X("at:Q", scale=alt.Scale(type="symlog", constant=1 / 24, nice=False)))
    )
    return styled(alt.layer(*layers, mark).add_params(chosen))


def activity_figure(hours: Sequence[Any]) -> Any:
    """Visits, changes and failures hour by hour; `hours` have at, visits, changes, failures."""
    import altair as alt

    rows = [
        {
            "from": h.at.timestamp() * 1000,
            "to": h.at.timestamp() * 1000 + 3_600_000,
            "visits": h.visits,
            "changes": h.changes,
            "failures": h.failures,
            "none": 0,
        }
        for h in hours
    ]
    base = alt.Chart(data(rows), width=560, height=150).encode(
        x=alt.X(
            "from:T",
            scale=alt.Scale(type="utc", nice=False),
            axis=alt.Axis(title=None, grid=False, tickCount=8, labelExpr=HOUR_LABELS),
        ),
        x2="to:T",
        y2="none:Q",
        tooltip=[
            alt.Tooltip("from:T", format="%d %b %H:%M", title="hour"),
            "visits:Q",
            "changes:Q",
            "failures:Q",
        ],
    )
    up = alt.Axis(title="per hour", tickCount=4)
    return styled(
        base.mark_rect(color="#9cc3e0", stroke="white", strokeWidth=0.5).encode(
            y=alt.Y("visits:Q", axis=up)
        )
        + base.mark_rect(color=CHANGE, stroke="white", strokeWidth=0.5).encode(
            y=alt.Y("changes:Q", axis=up)
        )
    )


# -- The whole collection: ages, lifetimes, rates, hours and change ratios ------------------------


def ages_figure(description: Description) -> Any:
    """Ages at the first visit and lifetimes, as they were seen (figures 3.8 and 3.18)."""
    rows = [
        {"days": float(days), "share": float(share), "curve": name}
        for name, values in (
            ("age at the first visit", description.ages),
            ("lifetime", description.lifetimes),
        )
        if len(values)
        for days, share in empirical(values)
    ]
    return _cumulative(rows, "days")


def mean_times_figure(prior: PriorComparison) -> Any:
    """Mean times between updates over the sources: no form assumed, and the Weibull (fig. 3.22)."""
    rows = [
        {"days": row["days"], "share": row[name], "curve": label}
        for row in prior.rows()
        for name, label in (("prior", "no form assumed"), ("weibull", "Weibull"))
    ]
    shown = [row for row in rows if 5e-4 < row["share"] < 1 - 5e-4]
    return _cumulative(shown or rows, "mean days between updates")


def links_figure(rot: Turnover) -> Any:
    """The share of links that still work, by the time since they were first seen."""
    return _cumulative(survival_rows(rot), "days since first seen")


def week_figure(hours: Floats) -> Any:
    """Changes by hour of the week, Monday 00:00 UTC first (figure 3.1)."""
    import altair as alt

    return week_map(
        hours.reshape(7, 24).round(2),
        "changes",
        "UTC",
        scale=alt.Scale(range=["#eaf2f9", BLUE, "#12344f"], zero=False, nice=False),
        legend=alt.Legend(title=None, gradientLength=150, tickCount=4),
    )


def change_ratio_figure(description: Description) -> Any:
    """Share of sources by the share of their visits that found a change (figure 3.6)."""
    import altair as alt

    ratios, below = description.change_ratio_cdf
    rows = [
        {"ratio": float(r), "share": float(s)}
        for r, s in zip(np.append(0.0, ratios), np.append(0.0, below), strict=True)
    ]
    rows.append({"ratio": 1.0, "share": 1.0})
    return styled(
        alt.Chart(data(rows), width=420, height=210)
        .mark_line(color=BLUE, strokeWidth=2, interpolate="step-after")
        .encode(
            x=alt.X(
                "ratio:Q",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(
                    title="share of visits that found a change", format=".0%", tickCount=5
                ),
            ),
            y=alt.Y(
                "share:Q",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(title="share of sources", format=".0%"),
            ),
            tooltip=[
                alt.Tooltip("ratio:Q", format=".0%", title="changed at"),
                alt.Tooltip("share:Q", format=".0%", title="of sources, or fewer"),
            ],
        )
    )


def _cumulative(rows: list[dict[str, Any]], over: str) -> Any:
    """The curves of `figures.population`, with the legend on top and without a title."""
    import altair as alt

    chart = cumulative([], over, "").properties(width=420, height=210)
    chart.title, chart.data = alt.Undefined, data(rows)
    chart.encoding.color.legend = alt.Legend(title=None, orient="top")
    return styled(chart)
