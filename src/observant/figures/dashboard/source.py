"""One source: its age over time, its rate, and what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from observant.figures.dashboard.basics import BLUE, CHANGE, DAY_LABELS, GREY, data, log_axis
from observant.figures.style import COLOURS, SERIES, decades, log_scale, span_axis, styled
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Sequence

OUTCOMES = {"changed": CHANGE, "same": "#b4bcc6", "failed": COLOURS["too-few"]}
"""What a visit found, in three words."""


def timeline_figure(
    visits: Sequence[dict[str, Any]], now: float, signals: Sequence[dict[str, Any]] = ()
) -> Any:
    """Figure 2.1 for one source: its age, which falls to 0 at each update, and the visits below.

    A visit is a dictionary with at, found (a word of `OUTCOMES`) and update (when the source was
    updated, as far as is known; None where it was not). A signal, a mark above the visits, has at,
    kind and worth (what the next visit found). Instants are seconds since 1970.
    """
    import altair as alt

    ordered = sorted(visits, key=lambda visit: visit["at"])
    updates = sorted({v["update"] for v in ordered if v["update"] is not None})
    teeth: list[dict[str, Any]] = []
    for place, at in enumerate(updates):
        end = updates[place + 1] if place + 1 < len(updates) else now
        teeth += [
            {"at": at * 1000, "age": 0.0},
            {"at": end * 1000, "age": (end - at) / DAY},
        ]
    x = _time(8)
    height = 210
    zoom = _zoom()
    marks = (
        alt.Chart(data([{"at": v["at"] * 1000, "found": v["found"]} for v in ordered]))
        .mark_tick(thickness=1.5, size=14, clip=True)
        .encode(
            x=x,
            y=alt.value(height - 8),
            color=alt.Color(
                "found:N",
                title=None,
                scale=alt.Scale(domain=list(OUTCOMES), range=list(OUTCOMES.values())),
                legend=alt.Legend(orient="top", direction="horizontal", symbolType="square"),
            ),
            tooltip=[alt.Tooltip("at:T", format="%d %b %Y %H:%M", title="visit"), "found:N"],
        )
        .add_params(zoom)
    )
    if signals:
        marks = marks + (
            alt.Chart(data([one | {"at": one["at"] * 1000} for one in signals]))
            .mark_point(shape="triangle-down", filled=True, size=40, color=SERIES[-1], clip=True)
            .encode(
                x=x,
                y=alt.value(height - 22),
                tooltip=[
                    alt.Tooltip("at:T", format="%d %b %Y %H:%M", title="signal"),
                    "kind:N",
                    alt.Tooltip("worth:N", title="then"),
                ],
            )
        )
    if not teeth:
        return styled(marks.properties(width=560, height=height))
    most = max(tooth["age"] for tooth in teeth)
    up = alt.Y(
        "age:Q",
        axis=span_axis("age", most),
        scale=alt.Scale(domain=[-0.16 * most, 1.04 * most], nice=False),
    )
    line = (
        alt.Chart(data(teeth), width=560, height=height)
        .mark_line(color=BLUE, strokeWidth=1.75, strokeJoin="bevel", clip=True)
        .encode(x=x, y=up)
    )
    area = (
        alt.Chart(data(teeth))
        .mark_area(color=BLUE, opacity=0.1, clip=True)
        .encode(x=x, y=up, y2=alt.datum(0))
    )
    return styled(area + line + marks)


def posterior_figure(
    rates: Sequence[float],
    posterior: Sequence[float],
    prior: Sequence[float],
    interval: tuple[float, float, float],
) -> Any:
    """What is believed of a source's rate, beside what is believed before any visit.

    `interval` is low, middle and high.
    """
    import altair as alt

    low, middle, high = interval
    rows = [
        {"rate": float(r), "density": float(p), "prior": float(q), "none": 0}
        for r, p, q in zip(rates, posterior, prior, strict=True)
    ]
    shown = [row for row in rows if max(row["density"], 0.3 * row["prior"]) > 1e-4] or rows
    x = alt.X("rate:Q", scale=log_scale(), axis=decades("updates per day"))
    y = alt.Y("density:Q", axis=alt.Axis(title="belief", labels=False, ticks=False, grid=False))
    base = alt.Chart(data(shown), width=420, height=180)
    inside = [row for row in shown if low <= row["rate"] <= high]
    return styled(
        base.mark_area(color=BLUE, opacity=0.12, interpolate="monotone").encode(x=x, y=y)
        + alt.Chart(data(inside or shown))
        .mark_area(color=BLUE, opacity=0.22, interpolate="monotone")
        .encode(x=x, y=y)
        + base.mark_line(color=GREY, strokeDash=[4, 3], interpolate="monotone").encode(
            x=x, y="prior:Q"
        )
        + base.mark_line(color=BLUE, strokeWidth=2, interpolate="monotone").encode(
            x=x,
            y=y,
            tooltip=[
                alt.Tooltip("rate:Q", format=".3g", title="updates per day"),
                alt.Tooltip("density:Q", format=".3f", title="belief"),
                alt.Tooltip("prior:Q", format=".3f", title="before any visit"),
            ],
        )
        + alt.Chart(data([{"rate": middle}])).mark_rule(color=CHANGE, strokeWidth=1.5).encode(x=x)
    )


def rate_history_figure(rows: list[dict[str, Any]]) -> Any:
    """The rate of one source as it was known after each visit, with its band.

    A row has at (a time as text), saw (what the visit saw), rate, low and high.
    """
    import altair as alt

    x = _time(6)
    up = log_axis("updates per day", min(r["low"] for r in rows), max(r["high"] for r in rows))
    base = alt.Chart(data(rows), width=420, height=180)
    return styled(
        base.mark_area(color=BLUE, opacity=0.16, interpolate="step-after").encode(
            x=x, y=alt.Y("low:Q", scale=log_scale(), axis=up), y2="high:Q"
        )
        + base.mark_line(color=BLUE, strokeWidth=2, interpolate="step-after").encode(
            x=x,
            y=alt.Y("rate:Q", scale=log_scale(), axis=up),
            tooltip=[
                alt.Tooltip("at:T", format="%d %b %Y %H:%M", title="visit"),
                "saw:N",
                alt.Tooltip("rate:Q", format=".3g", title="rate, per day"),
                alt.Tooltip("low:Q", format=".3g", title="at least"),
                alt.Tooltip("high:Q", format=".3g", title="at most"),
            ],
        )
    )


def correlation_figure(lags: Any, rho: Any, noise: float) -> Any:
    """Li's curve ρ(h): how alike intervals are that lie h updates apart; dashed: what is chance."""
    import altair as alt

    rows = [{"lag": int(h), "rho": float(r), "none": 0} for h, r in zip(lags, rho, strict=True)]
    base = alt.Chart(data(rows), width=420, height=150).encode(
        x=alt.X("lag:Q", axis=alt.Axis(title="lag h, updates", tickMinStep=1, format="d")),
        y=alt.Y("rho:Q", axis=alt.Axis(title="autocorrelation ρ(h)", tickCount=5)),
        tooltip=[alt.Tooltip("lag:Q", title="updates apart"), alt.Tooltip("rho:Q", format=".2f")],
    )
    chance = alt.Chart(data([{"rho": -noise}, {"rho": noise}])).encode(y="rho:Q")
    return styled(
        base.mark_rule(color=BLUE, opacity=0.6).encode(y2="none:Q")
        + base.mark_circle(color=BLUE, size=34, opacity=1)
        + chance.mark_rule(color=GREY, strokeDash=[4, 3])
    )


def magnitude_figure(changes: Sequence[dict[str, Any]]) -> Any:
    """How much changed at each change: dictionaries with at, magnitude, reason, attributes."""
    import altair as alt

    rows = [
        {
            "at": change["at"] * 1000,
            "magnitude": change["magnitude"],
            "reason": change["reason"],
            "attributes": ", ".join(change["attributes"]),
            "none": 0,
        }
        for change in changes
    ]
    base = alt.Chart(data(rows), width=420, height=150).encode(
        x=_time(6, padding=8),
        y=alt.Y("magnitude:Q", axis=alt.Axis(title="magnitude", tickCount=4)),
        tooltip=[
            alt.Tooltip("at:T", format="%d %b %Y %H:%M", title="found"),
            alt.Tooltip("magnitude:Q", format=".3f"),
            "attributes:N",
            "reason:N",
        ],
    )
    return styled(
        base.mark_rule(color=CHANGE, opacity=0.5).encode(y2="none:Q")
        + base.mark_circle(color=CHANGE, size=34, opacity=1)
    )


_FEW = 6
"""Fewer changes than these have a tick each."""


def attributes_figure(counts: dict[str, int]) -> Any:
    """Which attributes of the record changed, and how often."""
    import altair as alt

    rows = [
        {"attribute": name.replace("_", " "), "changes": count} for name, count in counts.items()
    ]
    most = max(counts.values(), default=0)
    few = {"values": [*range(most + 1)]} if most < _FEW else {"tickMinStep": 1, "tickCount": 5}
    base = alt.Chart(data(rows), width=420, height=20 * len(rows)).encode(
        y=alt.Y("attribute:N", sort="-x", axis=alt.Axis(title=None, labelLimit=150)),
        x=alt.X("changes:Q", axis=alt.Axis(title="changes", format="d", **few)),
    )
    return styled(base.mark_bar(color=BLUE, height=12, cornerRadiusEnd=2))


def _time(ticks: int, **more: Any) -> Any:
    """Along the time, in UTC."""
    import altair as alt

    scale = alt.Scale(type="utc", nice=False, **more)
    axis = alt.Axis(title=None, grid=False, tickCount=ticks, labelExpr=DAY_LABELS)
    return alt.X("at:T", scale=scale, axis=axis)


def _zoom() -> Any:
    """Drag to move along time, Shift and the wheel to zoom: the wheel alone scrolls the page."""
    import altair as alt

    return alt.selection_interval(
        bind="scales", encodings=["x"], zoom="wheel![event.shiftKey]", name="zoom"
    )
