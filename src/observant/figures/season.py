"""The hours at which sources change, and the best times to visit them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.figures.style import SERIES, data, styled
from observant.units import format_duration

if TYPE_CHECKING:
    import altair as alt

    from observant.arrays import Floats
    from observant.estimation.season import Season, Seasons
    from observant.planning.phases import VisitTimes

_DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]


def season_figure(season: Season) -> alt.LayerChart | alt.Chart:
    """A map of the week, hour by weekday; of a season of the day, its bars with intervals."""
    if season.bins == "hour-of-day":
        return _day_figure(season)
    import altair as alt

    return week_map(
        season.by_hour(),
        "weight",
        season.time_zone,
        title=_title(season),
        scale=alt.Scale(scheme="blues", domainMin=0),
        legend=alt.Legend(title=["relative", "rate"], gradientLength=150),
    )


def seasons_figure(table: Seasons) -> alt.LayerChart | alt.Chart:
    """The season of all sources; where groups have one each, choose one with ``of(source)``."""
    return season_figure(table.season)


def week_map(
    table: Floats, name: str, zone: str, *, scale: alt.Scale, legend: alt.Legend, title: Any = ""
) -> alt.Chart:
    """A table of weekdays and hours as a map of the week; `name` is what it holds."""
    import altair as alt

    rows = [
        {"day": day, "from": hour, "to": hour + 1, name: float(table[d, hour])}
        for d, day in enumerate(_DAYS)
        for hour in range(24)
    ]
    axis = alt.Axis(title=f"hour of the day ({zone})", values=list(range(0, 25, 3)), grid=False)
    chart: alt.Chart = styled(
        alt.Chart(data(rows), width=600, height=210, title=title)
        .mark_rect(stroke="white", strokeWidth=1.5, cornerRadius=2)
        .encode(
            x=alt.X("from:Q", scale=alt.Scale(domain=[0, 24], nice=False), axis=axis),
            x2="to:Q",
            y=alt.Y("day:N", sort=_DAYS, axis=alt.Axis(title=None, ticks=False, domain=False)),
            color=alt.Color(f"{name}:Q", scale=scale, legend=legend),
            tooltip=["day:N", "from:Q", alt.Tooltip(f"{name}:Q", format=".3~g")],
        )
    )
    return chart


def visit_times_figure(plan: VisitTimes) -> alt.LayerChart:
    """The best times to visit, over the intensity they were found for."""
    import altair as alt

    hours = 24 * plan.period / plan.weights.size
    rows = [
        {"from": b * hours, "to": (b + 1) * hours, "weight": float(w), "none": 0}
        for b, w in enumerate(plan.weights)
    ]
    weekly = plan.period > 1
    width = 760 if weekly else 600
    axis = alt.Axis(
        title=f"day of the week ({plan.time_zone})"
        if weekly
        else f"hour of the day ({plan.time_zone})",
        values=list(range(0, 169, 24)) if weekly else list(range(0, 25, 3)),
        labelExpr=f"{_DAYS}[datum.value / 24] || ''" if weekly else "datum.label",
        labelAlign="left" if weekly else "center",
        grid=False,
    )
    end = 24 * plan.period
    top = 1.12 * float(plan.weights.max())
    area = (
        alt.Chart(data(rows), width=width, height=220)
        .mark_rect(color="#cfe0ee", stroke="#cfe0ee", strokeWidth=0.4)
        .encode(
            x=alt.X("from:Q", scale=alt.Scale(domain=[0, end], nice=False), axis=axis),
            x2="to:Q",
            y=alt.Y(
                "weight:Q",
                title="relative rate (mean 1)",
                scale=alt.Scale(domain=[0, top], nice=False),
            ),
            y2="none:Q",
            tooltip=["from:Q", alt.Tooltip("weight:Q", format=".2f")],
        )
    )
    visits = [
        {"at": 24 * float(t), "clock": clock, "top": top, "none": 0}
        for t, clock in zip(plan.times, plan.clock, strict=True)
    ]
    marks = alt.Chart(data(visits)).encode(x="at:Q", tooltip=["clock:N"])
    layers = [
        area,
        marks.mark_rule(color=SERIES[0], strokeWidth=1.5).encode(y="none:Q", y2="top:Q"),
        marks.mark_point(color=SERIES[0], filled=True, size=45, opacity=1).encode(y="top:Q"),
    ]
    closest = np.diff(np.append(plan.times, plan.times[0] + plan.period)).min()
    if 600 * closest / plan.period > 34:  # pixels that a label needs
        layers.append(
            marks.mark_text(dy=-12, fontSize=11, color="#444").encode(y="top:Q", text="clock:N")
        )
    each = "week" if weekly else "day"
    chart: alt.LayerChart = styled(
        alt.layer(*layers).properties(
            title=alt.Title(
                f"{len(plan.times)} visits a {each} at their best times",
                subtitle=f"mean delay {format_duration(plan.delay)}, "
                f"evenly spaced {format_duration(plan.even_delay)}",
                subtitleColor="#666",
                offset=22,
            )
        )
    )
    return chart


def _day_figure(season: Season) -> alt.LayerChart:
    import altair as alt

    low = season.weights if season.low is None else season.low
    high = season.weights if season.high is None else season.high
    # One interval of a dark hour may reach far: the bars decide the scale.
    top = float(max(1.35 * season.weights.max(), 2.0))
    rows = [
        {
            "from": h,
            "to": h + 1,
            "middle": h + 0.5,
            "weight": float(season.weights[h]),
            "low": float(low[h]),
            "high": min(float(high[h]), top),
            "none": 0,
        }
        for h in range(24)
    ]
    base = alt.Chart(data(rows), width=600, height=240)
    hours = alt.Axis(
        title=f"hour of the day ({season.time_zone})", values=list(range(0, 25, 3)), grid=False
    )
    span = alt.Scale(domain=[0, 24], nice=False)
    bars = base.mark_rect(color="#9cc3e0", stroke="white", strokeWidth=1).encode(
        x=alt.X("from:Q", scale=span, axis=hours),
        x2="to:Q",
        y=alt.Y("weight:Q", title="relative rate (mean 1)", scale=alt.Scale(domain=[0, top])),
        y2="none:Q",
        tooltip=["from:Q", alt.Tooltip("weight:Q", format=".2f")],
    )
    rules = base.mark_rule(color="#4a4f7a", strokeWidth=1.5).encode(
        x="middle:Q", y="low:Q", y2="high:Q"
    )
    even = (
        alt.Chart(data([{"one": 1}])).mark_rule(color="#888", strokeDash=[4, 4]).encode(y="one:Q")
    )
    chart: alt.LayerChart = styled((bars + rules + even).properties(title=_title(season)))
    return chart


def _title(season: Season) -> str:
    of = f" {season.name}" if season.name else " the sources"
    if season.flat:
        return f"No season was found for{of} (p = {season.p_value:.2g})"
    return f"When{of} change" + ("s" if season.name else "")
