"""Rates that vary: windows over the count of updates, and rates of the calendar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError
from observant.estimation.windows.consistent import STATES
from observant.figures.style import data, styled
from observant.times import DAY

if TYPE_CHECKING:
    import altair as alt

    from observant.estimation.windows import (
        CalendarRates,
        LocalRates,
        Predictions,
        UpdatePoints,
    )

STATE_COLOURS = {"increasing": "#c2492f", "constant": "#8a8f98", "decreasing": "#2a78b8"}
_MOST_SOURCES = 4
_MOST_POINTS = 2_000


def trend_figure(answer: LocalRates, predictions: Predictions | None = None) -> alt.VConcatChart:
    """Windows as coloured spans over the count of updates, with the power law fitted to each.

    Of many sources, those with most updates are drawn. The dotted line is when the next update is
    due, the band its interval.
    """
    import altair as alt

    windows = answer.windows
    if not len(windows):
        raise InputError("no source was seen to be updated, so there is nothing to draw")
    counts = np.bincount(windows.owner, weights=windows.n, minlength=len(windows.points))
    chosen = np.sort(np.argsort(-counts, kind="stable")[:_MOST_SOURCES])
    panels = [_panel(answer, int(i), predictions) for i in chosen if counts[i] > 0]
    chart: alt.VConcatChart = styled(alt.vconcat(*panels, spacing=24))
    return chart


def _panel(answer: LocalRates, source: int, predictions: Predictions | None) -> Any:
    import altair as alt

    windows, calendar = answer.windows, answer.windows.points.calendar
    mine = np.flatnonzero(windows.owner == source)
    first, last = int(windows.offsets[mine[0]]), int(windows.offsets[mine[-1] + 1])
    times = windows.points.times[first:last]
    begin = float(windows.origin[mine[0]])
    kind = "T" if calendar else "Q"

    def moment(day: float) -> float:
        return float(day) * DAY * 1000.0 if calendar else float(day)

    spans, curves, reached = [], [], 0
    for w in mine:
        start, length, n = float(windows.origin[w]), float(windows.end[w]), int(windows.n[w])
        state = STATES[windows.state[w] + 1]
        spans.append(
            {
                "from": moment(start),
                "to": moment(start + length),
                "rate": state,
                "updates": n,
                "beta": float(answer.beta[w]),
                "p": float(answer.p_value[w]),
            }
        )
        shape = float(answer.beta[w]) if np.isfinite(answer.beta[w]) else 1.0
        curves += [
            {"at": moment(start + x * length), "count": reached + n * x**shape, "window": int(w)}
            for x in np.linspace(0.0, 1.0, 25)
        ]
        reached += n
    shown = np.unique(np.linspace(0, len(times) - 1, _MOST_POINTS).astype(int))
    steps = [{"at": moment(begin), "count": 0}]
    steps += [{"at": moment(times[k]), "count": int(k) + 1} for k in shown]
    axis = alt.Axis(title="time (UTC)" if calendar else "days", grid=False)
    scale = alt.Scale(type="utc", nice=False) if calendar else alt.Scale(nice=False)
    layers = [
        alt.Chart(data(spans))
        .mark_rect(opacity=0.16)
        .encode(
            x=alt.X(f"from:{kind}", axis=axis, scale=scale),
            x2="to",
            color=alt.Color(
                "rate:N",
                scale=alt.Scale(domain=list(STATE_COLOURS), range=list(STATE_COLOURS.values())),
                legend=alt.Legend(title="the rate is", orient="bottom"),
            ),
            tooltip=[
                "rate:N",
                "updates:Q",
                alt.Tooltip("beta:Q", format=".2f"),
                alt.Tooltip("p:Q", title="p-value", format=".3f"),
            ],
        ),
        alt.Chart(data(spans))
        .mark_rule(color="#aaa", strokeDash=[2, 3], strokeWidth=0.8)
        .encode(x=alt.X(f"to:{kind}", axis=axis)),
        alt.Chart(data(steps))
        .mark_line(interpolate="step-after", color="#444", strokeWidth=1.2)
        .encode(x=alt.X(f"at:{kind}", axis=axis), y=alt.Y("count:Q", title="updates seen")),
        alt.Chart(data(curves))
        .mark_line(color="#d8943c", strokeWidth=2.2)
        .encode(x=alt.X(f"at:{kind}", axis=axis), y="count:Q", detail="window:N"),
    ]
    if predictions is not None:
        layers += _due(predictions, source, moment, kind, axis, begin, float(times[-1]))
    name = str(windows.points.names([source])[0])
    return alt.layer(*layers).properties(width=620, height=230, title=_title(answer, source, name))


def _due(
    predictions: Predictions,
    source: int,
    moment: Any,
    kind: str,
    axis: Any,
    begin: float,
    last: float,
) -> list[Any]:
    """The next update as a dotted line, in a band that stays within a quarter of the picture."""
    import altair as alt

    due, low, high = (
        float(predictions.days[name][source]) for name in ("next_update", "next_low", "next_high")
    )
    edge = last + 0.25 * (last - begin)
    band = [{"from": moment(low), "to": moment(min(high, edge)), "what": "next update"}]
    layers = []
    if low < edge:
        layers.append(
            alt.Chart(data(band))
            .mark_rect(color="#3c8d6e", opacity=0.15)
            .encode(x=alt.X(f"from:{kind}", axis=axis), x2="to")
        )
    if due < edge:
        line = alt.Chart(data([{"at": moment(due)}]))
        layers.append(
            line.mark_rule(color="#3c8d6e", strokeDash=[4, 3], strokeWidth=2).encode(
                x=alt.X(f"at:{kind}", axis=axis)
            )
        )
    return layers


def _title(answer: LocalRates, source: int, name: str) -> Any:
    import altair as alt

    rows = np.flatnonzero(np.unique(answer.windows.owner) == source)
    whole, i = answer.overall, int(rows[0])
    verdict = {"rising": "rising rate", "falling": "falling rate", "none": "no clear trend"}
    p = float(whole.p_value[i])
    tested = f"p = {p:.3g}" if p >= 1e-3 else "p < 0.001"
    shape = f", β = {whole.beta[i]:.2f}" if np.isfinite(whole.beta[i]) else ""
    return alt.TitleParams(
        text=name,
        subtitle=f"whole history: {verdict[str(whole.trend[i])]} ({tested}{shape}); "
        "orange: power law of each window; green: when the next update is due",
        subtitleColor="#666",
    )


def duane_figure(points: UpdatePoints, source: int | None = None) -> alt.LayerChart:
    """Duane's plot (Singh 3.3): the mean time between updates so far, t/N(t), on logarithmic axes.

    A power law is a straight line: level for a constant rate, falling where updates come faster
    and faster. The line is the regression that `duane` estimates rates by. Of many sources the one
    with most updates is drawn, unless one is named.
    """
    import altair as alt

    if not len(points) or points.counts.max(initial=0) < 2:
        raise InputError("a Duane plot needs a source with two updates or more")
    which = int(np.argmax(points.counts)) if source is None else source
    times = points.times[points.offsets[which] : points.offsets[which + 1]] - points.start[which]
    count = np.arange(1, len(times) + 1)
    x, y = np.log(times), np.log(times / count)
    slope, level = np.polyfit(x, y, 1)
    some = np.unique(np.linspace(0, len(times) - 1, _MOST_POINTS).astype(int))
    rows = [
        {"days": float(times[i]), "mean": float(times[i] / count[i]), "updates": int(count[i])}
        for i in some
    ]
    ends = [{"days": float(t), "mean": float(np.exp(level) * t**slope)} for t in times[[0, -1]]]
    log = alt.Scale(type="log", nice=False)
    axes = {
        "x": alt.X("days:Q", scale=log, title="days since watching began"),
        "y": alt.Y("mean:Q", scale=log, title="mean time between updates so far, days"),
    }
    dots = alt.Chart(data(rows)).mark_circle(size=30, opacity=0.7, color="#2a78b8")
    line = alt.Chart(data(ends)).mark_line(color="#c2492f", strokeWidth=1.5)
    tooltip = [
        "updates:Q",
        alt.Tooltip("days:Q", format=".3g"),
        alt.Tooltip("mean:Q", format=".3g"),
    ]
    chart: alt.LayerChart = styled(
        (dots.encode(**axes, tooltip=tooltip) + line.encode(**axes)).properties(
            width=520,
            height=300,
            title=alt.Title(
                str(points.names([which])[0].as_py()),
                subtitle=f"slope {slope:.2f}: the rate grows as t^{-slope:.2f} "
                f"(a power law with β = {1 - slope:.2f})",
                subtitleColor="#666",
            ),
        )
    )
    return chart


def calendar_figure(answer: CalendarRates) -> alt.Chart:
    """The rate of each stretch of the calendar with its interval, source by source."""
    import altair as alt

    known = [row for row in answer.rows() if row["rate_per_day"] is not None]
    if not known:
        raise InputError("no visit falls into these stretches, so there is nothing to draw")
    sources = list(dict.fromkeys(row["source"] for row in known))[:12]
    highest = max(row["rate_per_day"] for row in known)
    rows = [
        {
            "source": row["source"],
            "window": row["window"],
            "rate": row["rate_per_day"],
            "low": row["rate_low"],
            "high": min(row["rate_high"] or np.inf, 4 * highest),
            "changes": row["changes"],
        }
        for row in known
        if row["source"] in sources
    ]
    order = list(dict.fromkeys(row["window"] for row in rows))
    base = alt.Chart(data(rows)).encode(
        x=alt.X("window:N", title=None, sort=order, axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("source:N"),
        color=alt.Color(
            "source:N", legend=alt.Legend(title=None, orient="bottom") if len(sources) > 1 else None
        ),
        tooltip=["source:N", "window:N", alt.Tooltip("rate:Q", format=".3g"), "changes:Q"],
    )
    chart: alt.Chart = styled(
        (
            base.mark_rule(strokeWidth=2, opacity=0.5).encode(
                y=alt.Y("low:Q", title="updates per day"), y2="high:Q"
            )
            + base.mark_point(filled=True, size=60, opacity=1).encode(y="rate:Q")
        ).properties(
            width=max(200, 90 * len(order)),
            height=240,
            title=f"Rates with {100 * answer.confidence:g} % intervals",
        )
    )
    return chart
