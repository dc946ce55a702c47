"""How a budget is shared out, what it buys, and what other rules would have done with it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.figures.dashboard.basics import BLUE, CHANGE, GREY, data, log_axis
from observant.figures.style import SERIES, decades, styled, unit_of
from observant.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from observant.simulation import PolicyComparison


def plan_figure(answer: Any, most: int = 1500) -> Any:
    """The period of each source against its rate, coloured by importance.

    Sources that are not worth a visit are in the band at the top. `answer` has name, rate, period,
    weight and starving.
    """
    import altair as alt

    starving = np.asarray(answer.starving, bool)
    period = np.where(np.isfinite(answer.period), answer.period, np.nan)
    fed = period[~starving & np.isfinite(period)]
    highest = float(fed.max()) if fed.size else 365.0
    lowest = float(fed.min()) if fed.size else 1.0
    edge, top = highest * 2.2, highest * 5.0
    some = np.arange(len(starving))[:: max(-(-len(starving) // most), 1)]
    rows = [
        {
            "source": str(answer.name[i]),
            "rate": float(answer.rate[i]),
            "period": math.sqrt(edge * top) if starving[i] else float(period[i]),
            "importance": float(answer.weight[i]),
            "visited": "not worth a visit"
            if starving[i]
            else f"every {format_duration(float(period[i]))}",
        }
        for i in some
    ]
    rates = [rate for i in some if (rate := float(answer.rate[i])) > 0]
    across = alt.Scale(type="log", nice=False, padding=8)  # no dot on the edge
    if rates and max(rates) < 1.1 * min(rates):  # one point has no scale of its own
        across = alt.Scale(type="log", nice=False, domain=[min(rates) / 12, max(rates) * 12])
    x = alt.X("rate:Q", scale=across, axis=decades("updates per day"))
    unit, days = unit_of(lowest)
    up = log_axis(f"{unit} between visits", lowest * 0.8, edge, unit=days)
    scale = alt.Scale(type="log", nice=False, domain=[lowest * 0.8, top])
    y = alt.Y("period:Q", scale=scale, axis=up)
    weights = np.asarray(answer.weight, float)[some]
    even = bool(weights.size) and float(weights.min()) == float(weights.max())
    colour: Any = (
        alt.value(BLUE)
        if even
        else alt.Color(
            "importance:Q",
            scale=alt.Scale(type="log", range=["#7fb2da", BLUE, "#3a2f6b"]),
            legend=alt.Legend(title="importance", orient="top", gradientLength=120),
        )
    )
    dots = (
        alt.Chart(data(rows), width=560, height=320)
        .mark_circle(size=22, opacity=0.65)
        .encode(
            x=x,
            y=y,
            color=colour,
            tooltip=[
                "source:N",
                alt.Tooltip("rate:Q", format=".3g", title="updates per day"),
                "visited:N",
                alt.Tooltip("importance:Q", format=".3g"),
            ],
        )
    )
    band = (
        alt.Chart(data([{"low": edge, "high": top}]))
        .mark_rect(color=CHANGE, opacity=0.08)
        .encode(y=alt.Y("low:Q", scale=scale), y2="high:Q")
    )
    number = int(starving.sum())
    told = "starved: not worth a visit at this price" if number else "nobody is starved"
    label = (
        alt.Chart(data([{"at": math.sqrt(edge * top), "label": told}]))
        .mark_text(align="left", dx=6, fontSize=11, color=CHANGE, baseline="middle", opacity=0.9)
        .encode(y=alt.Y("at:Q", scale=scale), x=alt.value(0), text="label:N")
    )
    return styled(band + dots + label)


def budgets_figure(curves: dict[str, Sequence[dict[str, float]]], marks: dict[str, Any]) -> Any:
    """α against the budget. `curves`: lines by name; `marks`: dots by name, (budget, α)."""
    import altair as alt

    paint = dict(zip(curves, (BLUE, SERIES[1], GREY, SERIES[3]), strict=False))
    rows = [
        {"budget": point["budget"], "alpha": point["alpha"], "visits": name}
        for name, points in curves.items()
        for point in points
    ]
    x = alt.X(
        "budget:Q",
        scale=alt.Scale(nice=False),
        axis=alt.Axis(title="visits per day", tickCount=6, format="~s"),
    )
    y = alt.Y(
        "alpha:Q",
        scale=alt.Scale(zero=False, nice=False, padding=12),
        axis=alt.Axis(title="currency α", format=".2~%", tickCount=5),
    )
    lines = (
        alt.Chart(data(rows), width=420, height=230)
        .mark_line(strokeWidth=2)
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "visits:N",
                title=None,
                sort=list(paint),
                scale=alt.Scale(domain=list(paint), range=list(paint.values())),
                legend=alt.Legend(orient="top", columns=2),
            ),
            tooltip=[
                "visits:N",
                alt.Tooltip("budget:Q", format=",.4~g", title="visits per day"),
                alt.Tooltip("alpha:Q", format=".1%", title="α"),
            ],
        )
    )
    dots = [{"budget": b, "alpha": a, "label": name} for name, (b, a) in marks.items()]
    here = alt.Chart(data(dots)).encode(x=x, y=y)
    return styled(
        lines
        + here.mark_point(filled=True, size=70, color=CHANGE, opacity=1)
        + here.mark_text(align="right", dx=-9, dy=-8, fontSize=11, color="#555555").encode(
            text="label:N"
        )
    )


def hours_figure(visits: Sequence[float]) -> Any:
    """Visits at each hour of the day (UTC); 1 is as usual."""
    import altair as alt

    rows = [{"hour": hour, "visits": round(many, 3)} for hour, many in enumerate(visits)]
    base = alt.Chart(data(rows), width=560, height=110)
    return styled(
        base.mark_bar(color=BLUE).encode(
            x=alt.X("hour:O", axis=alt.Axis(title="hour, UTC", labelAngle=0)),
            y=alt.Y("visits:Q", axis=alt.Axis(title="visits, over the mean", tickCount=4)),
            tooltip=["hour:O", alt.Tooltip("visits:Q", format=".2f")],
        )
        + base.mark_rule(color=GREY).encode(y=alt.datum(1.0))
    )


def rivals_figure(answer: PolicyComparison) -> Any:
    """The share of time that copies were fresh under each rule; ours and the yardsticks marked."""
    import altair as alt

    kinds = {"observant": "ours", "uniform": "yardstick", "clairvoyant": "yardstick"}
    rows = [
        {
            "rule": result.policy.replace("_", " "),
            "fresh": result.metrics["freshness"],
            "found": result.metrics["detected_share"],
            "delay": result.metrics["mean_delay_days"],
            "kind": kinds.get(result.policy, "rule"),
            "stale": result.relative_staleness,
            "label": f"{100 * result.metrics['freshness']:.1f} %, "
            f"{result.relative_staleness:.2f} as stale as uniform",
        }
        for result in answer.results
    ]
    low = min(row["fresh"] for row in rows)
    high = max(row["fresh"] for row in rows)
    room = 0.12 * (high - low) or 0.02
    domain = [max(low - room, 0.0), high + 4 * room]
    for row in rows:
        row["least"] = domain[0]
    base = alt.Chart(data(rows), width=560, height=23 * len(rows)).encode(
        y=alt.Y(
            "rule:N",
            sort=alt.EncodingSortField("fresh", order="descending"),
            axis=alt.Axis(title=None, labelLimit=130, ticks=False, domain=False),
        ),
        tooltip=[
            "rule:N",
            alt.Tooltip("fresh:Q", format=".1%", title="fresh"),
            alt.Tooltip("stale:Q", format=".3f", title="stale, over uniform"),
            alt.Tooltip("found:Q", format=".1%", title="updates found"),
            alt.Tooltip("delay:Q", format=".2f", title="mean delay, days"),
        ],
    )
    x = alt.X(
        "fresh:Q",
        scale=alt.Scale(domain=domain, nice=False, zero=False),
        axis=alt.Axis(title="share of time that copies were fresh", format=".0%", tickCount=6),
    )
    colour = alt.Color(
        "kind:N",
        legend=None,
        scale=alt.Scale(domain=["ours", "rule", "yardstick"], range=[CHANGE, BLUE, GREY]),
    )
    return styled(
        base.mark_rule(color="#dddddd").encode(x="least:Q", x2="fresh:Q")
        + base.mark_circle(size=90, opacity=1).encode(x=x, color=colour)
        + base.mark_text(align="left", dx=9, fontSize=11, color="#555555").encode(
            x=x, text="label:N"
        )
    )
