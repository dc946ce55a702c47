"""The whole collection: ages, lifetimes, rates, hours and change ratios."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.figures.dashboard.basics import BLUE, data
from observant.figures.population import cumulative, empirical
from observant.figures.season import week_map
from observant.figures.style import styled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from observant.estimation.population import Description, PriorComparison

__all__ = ["ages_figure", "change_ratio_figure", "mean_times_figure", "week_figure"]


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


def week_figure(hours: NDArray[np.float64]) -> Any:
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
