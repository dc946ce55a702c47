"""How current a copy is, and what a budget buys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.figures.style import COLOURS, SERIES, data, decades, log_scale, styled
from observant.units import format_duration

if TYPE_CHECKING:
    import altair as alt

    from observant.currency.audit import Audit
    from observant.planning import Plan


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
    return _curves_and_dot(
        rows,
        alt.X("period:Q", scale=log_scale(), axis=decades("days between visits")),
        alt.Color("grace:N", sort=[*map(format_duration, graces)], scale=alt.Scale(range=SERIES)),
        {"period": period, "alpha": float(currency(source, period, grace))},
        {"align": "left", "dx": 8},
        "How current is a copy that is refreshed every so often?",
    )


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
    pair = alt.Scale(range=[COLOURS["ok"], COLOURS["never-changed"]])
    return _curves_and_dot(
        rows,
        alt.X("budget:Q", scale=log_scale(), axis=decades("visits a day")),
        alt.Color("visits:N", sort=["planned", "all alike"], scale=pair),
        {"budget": plan.budget, "alpha": plan.collection_alpha},
        # Above and to the left there is room: the curve bends the other way.
        {"align": "right", "dx": -10},
        "What would another budget buy?",
    )


def _curves_and_dot(
    rows: list[dict[str, Any]], x: Any, colour: Any, dot: dict[str, float], label: Any, title: str
) -> alt.LayerChart:
    """Currency along x, a line for each colour, and a dot with its value."""
    import altair as alt

    across, name = x.shorthand, colour.shorthand
    lines = (
        alt.Chart(data(rows), width=560, height=300)
        .mark_line(strokeWidth=2)
        .encode(
            x=x,
            y=alt.Y("alpha:Q", title="currency α", scale=alt.Scale(domain=[0, 1])),
            color=colour.legend(title=name.removesuffix(":N")),
            tooltip=[
                alt.Tooltip(across, format=".3g"),
                alt.Tooltip("alpha:Q", format=".3f"),
                name,
            ],
        )
    )
    asked = dot | {"label": f"α = {dot['alpha']:.3f}"}
    here = alt.Chart(data([asked])).encode(x=across, y="alpha:Q")
    chart: alt.LayerChart = styled(
        (
            lines
            + here.mark_point(filled=True, size=80, color="black")
            + here.mark_text(dy=-8, fontSize=12, **label).encode(text="label:N")
        ).properties(title=title)
    )
    return chart


def audit_figure(audits: Audit | Mapping[str, Audit]) -> alt.LayerChart:
    """Currency against the grace: of one index, corrected with its band and as others count it; of
    several, corrected, side by side (figure 3.26).
    """
    import altair as alt

    several = audits if isinstance(audits, Mapping) else {"": audits}
    names = {
        "alpha": "corrected for aliasing",
        "printed": "as printed (3.20)",
        "uncorrected": "uncorrected",
    }
    rows = [row for one in several.values() for row in one.rows()]
    lines = [
        {"grace": row["grace_days"], "alpha": row[name], "count": label}
        for name, label in names.items()
        for row in rows
    ]
    colours = [COLOURS["ok"], COLOURS["too-few"], COLOURS["always-changed"]]
    if len(several) > 1:
        lines = [
            {"grace": row["grace_days"], "alpha": row["alpha"], "count": name}
            for name, one in several.items()
            for row in one.rows()
        ]
        names, rows = {name: name for name in several}, []
        colours = SERIES[: len(several)]
    x = alt.X("grace:Q", title="grace, days", scale=alt.Scale(type="symlog", constant=1))
    band = (
        alt.Chart(data([{"grace": r["grace_days"], **r} for r in rows]), width=560, height=300)
        .mark_area(opacity=0.25, color=COLOURS["ok"])
        .encode(x=x, y=alt.Y("low:Q", title="currency α"), y2="high:Q")
    )
    curves = (
        alt.Chart(data(lines))
        .mark_line(point=True)
        .encode(
            x=x,
            y=alt.Y("alpha:Q", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color(
                "count:N",
                sort=list(names.values()),
                scale=alt.Scale(
                    domain=list(names.values()),
                    range=colours,
                ),
                legend=alt.Legend(title=None, orient="bottom"),
            ),
            tooltip=["count:N", "grace:Q", alt.Tooltip("alpha:Q", format=".3f")],
        )
    )
    looked_at = sum(one.rows_used for one in several.values())
    title = f"How current is the index? {looked_at:,} entries looked at"
    chart: alt.LayerChart = styled((band + curves).properties(title=title))
    return chart
