"""Ages, lifetimes and rates of a whole collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError
from observant.figures.style import SERIES, data, decades, log_scale, styled

if TYPE_CHECKING:
    import altair as alt

    from observant.estimation.population import Population, Turnover


def population_figure(population: Population, rot: Turnover | None = None) -> alt.VConcatChart:
    """Mean times between updates, fitted and without a form; ages and lifetimes; links; week."""
    import altair as alt

    panels: list[Any] = []
    if population.prior is not None:
        rows = [
            {"days": row["days"], "share": row[name], "curve": label}
            for row in population.prior.rows()
            for name, label in (("prior", "no form assumed"), ("weibull", "Weibull"))
        ]
        shown = [row for row in rows if 5e-4 < row["share"] < 1 - 5e-4]
        title = "How long between updates? Sources whose mean time is shorter"
        panels.append(cumulative(shown, "days, mean of a source", title))
    curves = [
        {"days": float(days), "share": float(share), "curve": name}
        for name, values in (
            ("age at the first visit", population.description.ages),
            ("lifetime", population.description.lifetimes),
        )
        if len(values)
        for days, share in empirical(values)
    ]
    if curves:
        panels.append(cumulative(curves, "days", "Ages and lifetimes that were seen"))
    if rot is not None and rot.died.sum():
        panels.append(
            cumulative(survival_rows(rot), "days since first seen", "Links that still work")
        )
    hours = population.description.hours_of_week
    if hours.sum():
        days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
        week = [
            {"day": days[i // 24], "hour": i % 24, "updates": int(count)}
            for i, count in enumerate(hours)
        ]
        panels.append(
            alt.Chart(data(week), width=560, height=130)
            .mark_rect()
            .encode(
                x=alt.X("hour:O", title="hour of the day, UTC", axis=alt.Axis(labelAngle=0)),
                y=alt.Y("day:O", sort=days, title=None),
                color=alt.Color("updates:Q", scale=alt.Scale(scheme="blues"), title="updates"),
                tooltip=["day:N", "hour:O", "updates:Q"],
            )
            .properties(title="When sources are modified")
        )
    if not panels:
        raise InputError("there is nothing to draw: no changes, ages or dates were seen")
    chart: alt.VConcatChart = styled(
        alt.vconcat(*panels).resolve_scale(color="independent", x="independent")
    )
    return chart


def cumulative(rows: list[dict[str, Any]], over: str, title: str) -> Any:
    import altair as alt

    return (
        alt.Chart(data(rows), width=560, height=180)
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X("days:Q", scale=log_scale(), axis=decades(over)),
            y=alt.Y("share:Q", title="share", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color(
                "curve:N",
                scale=alt.Scale(range=SERIES[2:] + SERIES[:2]),
                legend=alt.Legend(title=None),
            ),
            tooltip=["curve:N", alt.Tooltip("days:Q", format=".3g"), "share:Q"],
        )
        .properties(title=title)
    )


def survival_rows(rot: Turnover) -> list[dict[str, Any]]:
    """The share of links that still work, as counted and by the rate that was estimated."""
    pairs = zip(np.maximum(rot.age, 0.1).tolist(), rot.surviving.tolist(), strict=True)
    rows = [{"days": days, "share": share, "curve": "still there"} for days, share in pairs]
    smooth = np.geomspace(1.0, max(float(rot.age[-1]), 2.0), 60)
    shares = np.exp(-rot.death_rate * smooth)
    return rows + [
        {"days": float(days), "share": float(share), "curve": "at a constant rate"}
        for days, share in zip(smooth, shares, strict=True)
    ]


def empirical(values: Any, points: int = 200) -> Any:
    """Points of the distribution of what was seen; at most so many, evenly spaced in share."""
    ordered = np.sort(np.maximum(values, 1e-3))
    place = np.unique(np.linspace(0, len(ordered) - 1, min(points, len(ordered))).astype(int))
    return zip(ordered[place], (place + 1) / len(ordered), strict=True)
