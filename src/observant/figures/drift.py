"""Rates that drift, and whether predictions of change are right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from observant.figures.style import COLOURS, SERIES, data, decades, log_scale, styled

if TYPE_CHECKING:
    from collections.abc import Mapping

    import altair as alt

    from observant.estimation.drift import Prequential, RatePath


def rate_path_figure(path: RatePath) -> alt.VConcatChart:
    """The rate of one source as it was known after each visit, with its band; below, what the
    visits saw, and where the rate changed as seen from the end.
    """
    import altair as alt

    rows = [
        {
            "time": str(path.time[i]),
            "rate": float(path.rate_per_day[i]),
            "low": float(path.rate_low[i]),
            "high": float(path.rate_high[i]),
            "saw": "a change" if path.changed[i] else "no change",
            "moved": float(path.rate_changed[i]),
        }
        for i in range(len(path))
    ]
    x = alt.X("time:T", title=None, axis=alt.Axis(labels=False, ticks=False))
    y = alt.Y("rate:Q", scale=log_scale(), axis=decades("updates a day"))
    band = (
        alt.Chart(data(rows), width=560, height=240)
        .mark_area(opacity=0.2, color=COLOURS["ok"], interpolate="step-after")
        .encode(x=x, y=alt.Y("low:Q", scale=log_scale()), y2="high:Q")
    )
    line = (
        alt.Chart(data(rows))
        .mark_line(color=COLOURS["ok"], strokeWidth=2, interpolate="step-after")
        .encode(
            x=x,
            y=y,
            tooltip=[
                "time:T",
                alt.Tooltip("rate:Q", format=".3g"),
                alt.Tooltip("low:Q", format=".3g"),
                alt.Tooltip("high:Q", format=".3g"),
            ],
        )
    )
    moved = (
        alt.Chart(data(rows), width=560, height=50)
        .mark_bar(color=COLOURS["always-changed"], width=3)
        .encode(
            x=x,
            y=alt.Y(
                "moved:Q",
                title=["rate", "changed"],
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(values=[0, 1]),
            ),
            tooltip=["time:T", alt.Tooltip("moved:Q", title="probability", format=".2f")],
        )
    )
    saw = (
        alt.Chart(data(rows), width=560, height=44)
        .mark_tick(thickness=1.5, size=18)
        .encode(
            x=alt.X("time:T", title=None),
            y=alt.Y("saw:N", title="visit saw", sort=["a change", "no change"]),
            color=alt.Color(
                "saw:N",
                scale=alt.Scale(
                    domain=["a change", "no change"],
                    range=[COLOURS["always-changed"], COLOURS["never-changed"]],
                ),
                legend=None,
            ),
        )
    )
    percent = f"{100 * path.confidence:g} %"
    chart: alt.VConcatChart = styled(
        alt.vconcat(band + line, moved, saw, spacing=6)
        .resolve_scale(x="shared")
        .properties(title=f"{path.source}: its rate as known after each visit, {percent} band")
    )
    return chart


def reliability_figure(
    predictions: Prequential | Mapping[str, Prequential], bins: int = 10
) -> alt.VConcatChart:
    """How often visits saw a change, against how often they were said to; below, how many.

    A bar through a point is the 95 % interval of its share. On the diagonal, predictions are right.
    """
    import altair as alt

    from observant.estimation.drift import Prequential

    named = (
        {predictions.method: predictions}
        if isinstance(predictions, Prequential)
        else dict(predictions)
    )
    rows = [
        {"method": f"{name}, log loss {given.log_loss:.3f}", **row}
        for name, given in named.items()
        for row in given.calibration(bins).rows()
    ]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    # Every bin counts, also an empty one; and the last step needs its end.
    counted = {(row["method"], round(row["predicted_low"] * bins)): row["visits"] for row in rows}
    steps = [
        {"method": m, "from": k / bins, "visits": counted.get((m, min(k, bins - 1)), 0)}
        for m in methods
        for k in range(bins + 1)
    ]
    colour = alt.Color(
        "method:N",
        sort=methods,
        scale=alt.Scale(domain=methods, range=[COLOURS["ok"], SERIES[0], *SERIES[1:]]),
        legend=alt.Legend(title=None, orient="top-left", symbolType="circle"),
    )
    share = alt.Scale(domain=[0, 1])
    x = alt.X("predicted:Q", title=None, scale=share, axis=alt.Axis(labels=False, ticks=False))
    y = alt.Y("observed:Q", title="share of visits that saw a change", scale=share)
    right = (
        alt.Chart(data([{"predicted": p, "observed": p} for p in (0, 1)]), width=340, height=340)
        .mark_line(color="#999", strokeDash=[4, 4])
        .encode(x=x, y=y)
    )
    base = alt.Chart(data(rows)).encode(x=x, color=colour)
    reach = base.mark_rule(strokeWidth=2, opacity=0.5).encode(
        y=alt.Y("observed_low:Q"), y2="observed_high:Q"
    )
    line = base.mark_line(strokeWidth=1.5).encode(y=y)
    points = base.mark_point(filled=True, size=50, opacity=1).encode(
        y=y,
        tooltip=[
            "method:N",
            "visits:Q",
            alt.Tooltip("predicted:Q", format=".3f"),
            alt.Tooltip("observed:Q", format=".3f"),
        ],
    )
    many = (
        alt.Chart(data(steps), width=340, height=60)
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(
            x=alt.X("from:Q", title="predicted probability of a change", scale=share),
            y=alt.Y("visits:Q", title="visits", axis=alt.Axis(tickCount=3, format="~s")),
            color=colour,
        )
    )
    chart: alt.VConcatChart = styled(
        alt.vconcat(right + reach + line + points, many, spacing=8).properties(
            title="Does it happen as often as it was said to?"
        )
    )
    return chart
