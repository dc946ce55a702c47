"""The distribution of the time between updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.figures.style import COLOURS, data, log_scale, span_axis, styled
from observant.units import format_duration

if TYPE_CHECKING:
    import altair as alt

    from observant.estimation.intervals import IntervalEstimate

_F = "time between updates (F)"
_G = "age at a random moment (G)"
_POISSON = "both, if it were Poisson"


def interval_figure(estimate: IntervalEstimate) -> alt.LayerChart:
    """F and G with their bands, and what both would be for a Poisson source of the same mean.

    F above G: bursts, an old copy is safer than a new one. F below G: a regular source.
    """
    import altair as alt

    x = _axis_points(estimate)
    curves = {_G: estimate.age_cdf(x)}
    colours = {_G: COLOURS["ok"]}
    if estimate.identified:
        curves = {_F: estimate.interval_cdf(x), **curves, _POISSON: -np.expm1(-x / estimate.mean)}
        colours = {_F: COLOURS["always-changed"], **colours, _POISSON: COLOURS["never-changed"]}
    rows = [
        {"x": float(at), "p": float(value), "curve": name}
        for name, values in curves.items()
        for at, value in zip(x, values, strict=True)
    ]
    across = alt.X(
        "x:Q",
        # G of a lattice is made of straight lines, which a logarithm would bend.
        scale=log_scale() if estimate.identified else alt.Scale(nice=False),
        axis=(
            alt.Axis(title="days", format="~g", tickCount=8)
            if estimate.identified
            else span_axis("", float(x[-1]))
        ),
    )
    up = alt.Y("p:Q", title="probability", scale=alt.Scale(domain=[0, 1]))
    colour = alt.Color(
        "curve:N",
        sort=list(curves),
        scale=alt.Scale(domain=list(colours), range=list(colours.values())),
        legend=alt.Legend(title=None, orient="bottom", labelLimit=260, columns=2),
    )
    lines = (
        alt.Chart(data(rows), width=560, height=320)
        .mark_line(strokeWidth=2, point=not estimate.identified and len(x) < 60)
        .encode(
            x=across,
            y=up,
            color=colour,
            strokeDash=alt.StrokeDash(
                "curve:N",
                sort=list(curves),
                scale=alt.Scale(
                    domain=list(colours),
                    range=[[5, 4] if name == _POISSON else [1, 0] for name in colours],
                ),
                legend=alt.Legend(title=None, orient="bottom", labelLimit=260, columns=2),
            ),
            tooltip=[
                "curve:N",
                alt.Tooltip("x:Q", format=".3g", title="days"),
                alt.Tooltip("p:Q", format=".3f", title="probability"),
            ],
        )
    )
    layers = [*_bands(estimate, across, colours), lines]
    chart: alt.LayerChart = styled(alt.layer(*layers).properties(title=_title(estimate)))
    return chart


def _axis_points(estimate: IntervalEstimate) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Where G rises; the measured points themselves where there is nothing between them."""
    x = estimate.x_days[estimate.age_cdf(estimate.x_days) >= 0.01]
    x = x if len(x) > 1 else estimate.x_days
    if not estimate.identified:
        return np.append(0.0, x)
    low, high = float(x[0]), float(x[-1])
    return np.geomspace(low, high, 300) if high > low else np.array([low, 2.0 * low])


def _bands(estimate: IntervalEstimate, across: Any, colours: dict[str, str]) -> list[Any]:
    import altair as alt

    bands = estimate.bands
    if bands is None:
        return []
    shown = estimate.x_days >= _axis_points(estimate)[0]
    sides = [(_G, bands.age_low, bands.age_high)]
    if estimate.identified:
        sides.append((_F, bands.interval_low, bands.interval_high))
    return [
        alt.Chart(
            data(
                [
                    {"x": float(at), "low": float(a), "high": float(b)}
                    for at, a, b in zip(
                        estimate.x_days[shown], low[shown], high[shown], strict=True
                    )
                ]
            )
        )
        .mark_area(opacity=0.18, color=colours[name])
        .encode(x=across, y=alt.Y("low:Q", title="probability"), y2="high:Q")
        for name, low, high in sides
    ]


def _title(estimate: IntervalEstimate) -> Any:
    import altair as alt

    name = estimate.source if len(estimate.source) <= 48 else f"…{estimate.source[-47:]}"
    if estimate.identified:
        mean = f"mean interval {format_duration(estimate.mean)}"
    else:
        mean = "intervals not identified by these visits"
    bands = estimate.bands
    share = f", bands {100 * bands.confidence:g} %" if bands is not None else ""
    return alt.TitleParams(
        f"How long between updates of {name}?",
        subtitle=f"{mean}; method {estimate.method}{share}",
        subtitleColor="#555",
    )
