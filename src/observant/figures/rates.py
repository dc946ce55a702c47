"""Rates with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.figures.style import COLOURS, data, decades, log_bins, log_scale, styled

if TYPE_CHECKING:
    import altair as alt

    from observant.estimation.rates import RateTable

_MOST_INTERVALS = 300


def rate_figure(table: RateTable) -> alt.VConcatChart:
    """How many sources change how often, and below it rates with their intervals.

    Of a large collection, evenly spaced sources in order of their rate are shown with intervals.
    """
    import altair as alt

    order = _spread(table)
    rows = [_row(table, int(i), place) for place, i in enumerate(order)]
    rates = table.rate_per_day[np.isfinite(table.rate_per_day) & (table.rate_per_day > 0)]
    counts, edges = log_bins(rates)
    bars = [
        {"from": float(left), "to": float(right), "sources": int(count), "none": 0}
        for left, right, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    upper = (
        alt.Chart(data(bars), width=560, height=160)
        .mark_rect(color=COLOURS["ok"], stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("from:Q", scale=log_scale(), axis=decades("updates per day")),
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
    base = alt.Chart(data(rows), width=560, height=260).encode(
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
    rate_axis = decades("updates per day")
    lower = base.mark_rule(opacity=0.5).encode(
        y=alt.Y("low:Q", scale=log_scale(), axis=rate_axis), y2="high:Q"
    ) + base.mark_point(filled=True, size=14, opacity=1).encode(
        y=alt.Y("rate:Q", scale=log_scale(), axis=rate_axis)
    )
    percent = f"{100 * table.confidence:g} %"
    chart: alt.VConcatChart = styled(
        alt.vconcat(
            upper.properties(title=f"How often {len(table):,} sources change ({table.method})"),
            lower.properties(title=f"Rates with {percent} intervals"),
        )
    )
    return chart


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
