"""Every figure once, as an Altair chart: for the command line, the documentation and the page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError
from observant.units import format_duration

if TYPE_CHECKING:
    import altair as alt

    from observant.audit import Audit
    from observant.estimation.population import Population
    from observant.estimation.rates import RateTable
    from observant.planning import Plan

__all__ = [
    "audit_figure",
    "budget_figure",
    "currency_figure",
    "population_figure",
    "rate_figure",
    "save",
]

COLOURS = {
    "ok": "#2a78b8",
    "never-changed": "#8a8f98",
    "always-changed": "#c2492f",
    "too-few": "#d8b13c",
}
"""What a colour means, the same in every figure."""

SERIES = ["#c2492f", "#d8943c", "#2a78b8", "#4a4f7a", "#3c8d6e"]
"""Colours of lines that belong together, from strict to lenient."""

_MOST_INTERVALS = 300


def rate_figure(table: RateTable) -> alt.VConcatChart:
    """How many sources change how often, and below it rates with their intervals.

    Of a large collection, evenly spaced sources in order of their rate are shown with intervals.
    """
    import altair as alt

    order = _spread(table)
    rows = [_row(table, int(i), place) for place, i in enumerate(order)]
    rates = table.rate_per_day[np.isfinite(table.rate_per_day) & (table.rate_per_day > 0)]
    counts, edges = _log_bins(rates)
    bars = [
        {"from": float(left), "to": float(right), "sources": int(count), "none": 0}
        for left, right, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    upper = (
        alt.Chart(_data(bars), width=560, height=160)
        .mark_rect(color=COLOURS["ok"], stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("from:Q", scale=_log_scale(), axis=_decades("updates per day")),
            x2="to:Q",
            y=alt.Y("sources:Q", title="sources"),
            y2="none:Q",
            tooltip=[
                alt.Tooltip("from:Q", format=".3g"),
                alt.Tooltip("to:Q", format=".3g"),
                "sources:Q",
            ],
        )
    )
    base = alt.Chart(_data(rows), width=560, height=260).encode(
        x=alt.X(
            "place:Q",
            axis=alt.Axis(title="sources in order of their rate", labels=False, ticks=False),
            scale=alt.Scale(nice=False),
        ),
        color=alt.Color(
            "evidence:N",
            scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())),
            legend=alt.Legend(title=None, orient="bottom"),
        ),
        tooltip=["source:N", "visits:Q", "changes:Q", alt.Tooltip("rate:Q", format=".3g")],
    )
    rate_axis = _decades("updates per day")
    lower = base.mark_rule(opacity=0.5).encode(
        y=alt.Y("low:Q", scale=_log_scale(), axis=rate_axis), y2="high:Q"
    ) + base.mark_point(filled=True, size=14, opacity=1).encode(
        y=alt.Y("rate:Q", scale=_log_scale(), axis=rate_axis)
    )
    percent = f"{100 * table.confidence:g} %"
    chart: alt.VConcatChart = _styled(
        alt.vconcat(
            upper.properties(title=f"How often {len(table):,} sources change ({table.method})"),
            lower.properties(title=f"Rates with {percent} intervals"),
        )
    )
    return chart


def currency_figure(source: Any, period: float, grace: float) -> alt.LayerChart:
    """Currency as a function of the time between visits, for several graces (figure 3.24 read
    along its other axis); a dot marks the period and grace asked about.

    `source` is anything that `observant.currency` takes.
    """
    import altair as alt

    from observant.currency import currency

    graces = sorted({0.0, grace, *(g for g in (1.0, 7.0, 30.0) if g != grace)})
    periods = np.geomspace(period / 30, period * 30, 121)
    rows = [
        {"period": float(t), "alpha": float(a), "grace": format_duration(g)}
        for g in graces
        for t, a in zip(periods, np.asarray(currency(source, periods, g)), strict=True)
    ]
    lines = (
        alt.Chart(_data(rows), width=560, height=300)
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("period:Q", scale=_log_scale(), axis=_decades("days between visits")),
            y=alt.Y("alpha:Q", title="currency α", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color(
                "grace:N",
                sort=[format_duration(g) for g in graces],
                scale=alt.Scale(range=SERIES),
                legend=alt.Legend(title="grace"),
            ),
            tooltip=[
                alt.Tooltip("period:Q", format=".3g"),
                alt.Tooltip("alpha:Q", format=".3f"),
                "grace:N",
            ],
        )
    )
    alpha = float(currency(source, period, grace))
    asked = [{"period": period, "alpha": alpha, "label": f"α = {alpha:.3f}"}]
    dot = alt.Chart(_data(asked)).encode(x="period:Q", y="alpha:Q")
    chart: alt.LayerChart = _styled(
        (
            lines
            + dot.mark_point(filled=True, size=80, color="black")
            + dot.mark_text(align="left", dx=8, dy=-8, fontSize=12).encode(text="label:N")
        ).properties(title="How current is a copy that is refreshed every so often?")
    )
    return chart


def budget_figure(plan: Plan) -> alt.LayerChart:
    """Currency as a function of the budget: planned, and with all sources visited alike.

    A dot marks the plan.
    """
    import altair as alt

    curve = plan.budget_curve()
    rows = [
        {"budget": float(budget), "alpha": float(alpha), "visits": how}
        for how, values in (("planned", curve.alpha), ("all alike", curve.uniform_alpha))
        for budget, alpha in zip(curve.budget, values, strict=True)
    ]
    lines = (
        alt.Chart(_data(rows), width=560, height=300)
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("budget:Q", scale=_log_scale(), axis=_decades("visits a day")),
            y=alt.Y("alpha:Q", title="currency α", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color(
                "visits:N",
                sort=["planned", "all alike"],
                scale=alt.Scale(range=[COLOURS["ok"], COLOURS["never-changed"]]),
                legend=alt.Legend(title="visits"),
            ),
            tooltip=[
                alt.Tooltip("budget:Q", format=".3g"),
                alt.Tooltip("alpha:Q", format=".3f"),
                "visits:N",
            ],
        )
    )
    alpha = plan.collection_alpha
    asked = [{"budget": plan.budget, "alpha": alpha, "label": f"α = {alpha:.3f}"}]
    dot = alt.Chart(_data(asked)).encode(x="budget:Q", y="alpha:Q")
    chart: alt.LayerChart = _styled(
        (
            lines
            + dot.mark_point(filled=True, size=80, color="black")
            + dot.mark_text(align="left", dx=8, dy=12, fontSize=12).encode(text="label:N")
        ).properties(title="What would another budget buy?")
    )
    return chart


def audit_figure(audit: Audit) -> alt.LayerChart:
    """Currency of an index against the grace: corrected with its band, and as others count it."""
    import altair as alt

    names = {
        "alpha": "corrected for aliasing",
        "printed": "as printed (3.20)",
        "uncorrected": "uncorrected",
    }
    rows = list(audit.rows())
    lines = [
        {"grace": row["grace_days"], "alpha": row[name], "count": label}
        for name, label in names.items()
        for row in rows
    ]
    x = alt.X("grace:Q", title="grace, days", scale=alt.Scale(type="symlog", constant=1))
    band = (
        alt.Chart(_data([{"grace": r["grace_days"], **r} for r in rows]), width=560, height=300)
        .mark_area(opacity=0.25, color=COLOURS["ok"])
        .encode(x=x, y=alt.Y("low:Q", title="currency α"), y2="high:Q")
    )
    curves = (
        alt.Chart(_data(lines))
        .mark_line(point=True)
        .encode(
            x=x,
            y=alt.Y("alpha:Q", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color(
                "count:N",
                sort=list(names.values()),
                scale=alt.Scale(
                    domain=list(names.values()),
                    range=[COLOURS["ok"], COLOURS["too-few"], COLOURS["always-changed"]],
                ),
                legend=alt.Legend(title=None, orient="bottom"),
            ),
            tooltip=["count:N", "grace:Q", alt.Tooltip("alpha:Q", format=".3f")],
        )
    )
    title = f"How current is the index? {audit.rows_used:,} entries looked at"
    chart: alt.LayerChart = _styled((band + curves).properties(title=title))
    return chart


def population_figure(population: Population) -> alt.VConcatChart:
    """Mean times between updates, fitted and without a form; ages and lifetimes; the week."""
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
        panels.append(_cumulative(shown, "days, mean of a source", title))
    curves = [
        {"days": float(days), "share": float(share), "curve": name}
        for name, values in (
            ("age at the first visit", population.description.ages),
            ("lifetime", population.description.lifetimes),
        )
        if len(values)
        for days, share in _empirical(values)
    ]
    if curves:
        panels.append(_cumulative(curves, "days", "Ages and lifetimes that were seen"))
    hours = population.description.hours_of_week
    if hours.sum():
        days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
        week = [
            {"day": days[i // 24], "hour": i % 24, "updates": int(count)}
            for i, count in enumerate(hours)
        ]
        panels.append(
            alt.Chart(_data(week), width=560, height=130)
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
    chart: alt.VConcatChart = _styled(
        alt.vconcat(*panels).resolve_scale(color="independent", x="independent")
    )
    return chart


def _cumulative(rows: list[dict[str, Any]], over: str, title: str) -> Any:
    import altair as alt

    return (
        alt.Chart(_data(rows), width=560, height=180)
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X("days:Q", scale=_log_scale(), axis=_decades(over)),
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


def _empirical(values: Any, points: int = 200) -> Any:
    """Points of the distribution of what was seen; at most so many, evenly spaced in share."""
    ordered = np.sort(np.maximum(values, 1e-3))
    place = np.unique(np.linspace(0, len(ordered) - 1, min(points, len(ordered))).astype(int))
    return zip(ordered[place], (place + 1) / len(ordered), strict=True)


def save(chart: Any, file: str) -> None:
    """Write a chart to a file: SVG, PNG, HTML or JSON by its ending. No browser is needed."""
    ending = Path(file).suffix.lower()
    if ending not in {".svg", ".png", ".html", ".json"}:
        raise InputError("a picture ends in .svg, .png, .html or .json", file=file)
    try:
        if ending == ".html":
            chart.save(file, inline=True)
        elif ending == ".png":
            chart.save(file, scale_factor=2)
        else:
            chart.save(file)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=file) from error


def _data(rows: list[dict[str, Any]]) -> Any:
    import altair as alt

    return alt.Data(values=rows)  # type: ignore[no-untyped-call]


def _log_scale() -> Any:
    import altair as alt

    return alt.Scale(type="log", nice=False)


def _decades(title: str) -> Any:
    """Label an axis over many decades with powers of ten only."""
    import altair as alt

    powers = [10.0**k for k in range(-12, 13)]
    return alt.Axis(title=title, values=powers, format="~g")


def _styled(chart: Any) -> Any:
    return (
        chart.configure_view(stroke=None)
        .configure_axis(gridColor="#e8e8e8", domainColor="#888", tickColor="#888")
        .configure_title(anchor="start", fontWeight="normal", fontSize=14)
    )


def _spread(table: RateTable) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Sources to draw with their intervals: by rate, and by upper bound where it is zero."""
    drawable = np.flatnonzero(np.isfinite(table.rate_per_day) & (table.exposure_days > 0))
    key = np.lexsort((table.rate_high[drawable], table.rate_per_day[drawable]))
    order = drawable[key]
    if len(order) <= _MOST_INTERVALS:
        return order
    return np.asarray(order[np.linspace(0, len(order) - 1, _MOST_INTERVALS).astype(np.int64)])


def _row(table: RateTable, i: int, place: int) -> dict[str, Any]:
    rate, low, high = table.rate_per_day[i], table.rate_low[i], table.rate_high[i]
    # A logarithmic axis has no zero and no infinity: open ends stop a decade away.
    known = min(float(v) for v in (rate, low, high) if 0 < v < np.inf)
    return {
        "place": place,
        "source": table.source[i].as_py(),
        "visits": int(table.visits[i]),
        "changes": int(table.changes[i]),
        "rate": float(rate) if rate > 0 else None,
        "low": float(low) or known / 10,
        "high": float(high) if np.isfinite(high) else 10 * float(rate),
        "evidence": str(table.evidence[i]),
    }


def _log_bins(
    rates: np.ndarray[Any, np.dtype[np.float64]], bins: int = 40
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    if not len(rates):
        return np.zeros(0, int), np.ones(1)
    edges = np.geomspace(rates.min() * 0.999, rates.max() * 1.001, bins + 1)
    return np.histogram(rates, bins=edges)[0], edges
