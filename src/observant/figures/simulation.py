"""What each policy achieved in a replay, and how it learned."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from observant.figures.style import COLOURS, SERIES, data, styled
from observant.units import format_share

if TYPE_CHECKING:
    from collections.abc import Mapping

    from observant.simulation import PolicyComparison

_TITLES = {
    "freshness": "share of time the copy is fresh",
    "currency": "share of time the copy is current",
    "detected_share": "share of updates detected",
    "mean_age_days": "mean age of the copy (days)",
    "mean_delay_days": "mean delay of an update (days)",
}
_YARDSTICKS = {"uniform": "#8a8f98", "clairvoyant": "#222222"}
_SHARES = {"freshness", "currency", "detected_share"}
_CURVES = 6
"""More lines than this cannot be told apart."""


def simulation_figure(answer: PolicyComparison) -> Any:
    """Bars of the objective with their standard errors; below, the same over time."""
    import altair as alt

    bars = _bars(answer)
    if answer.metric not in {"freshness", "detected_share"}:
        return styled(bars)
    both = alt.vconcat(bars, _curves(answer), spacing=24)
    return styled(both.resolve_scale(color="independent"))


def _bars(answer: PolicyComparison) -> Any:
    import altair as alt

    rows = []
    for result in answer.results:
        value = result.metrics[answer.metric]
        error = result.errors.get(answer.metric, math.nan)
        if answer.metric == "currency":
            value = list(value.values())[-1]
        error = 0.0 if math.isnan(error) else error
        stale, saved = result.relative_staleness, result.visits_saved
        label = "" if math.isnan(stale) else f"{stale:.2f}"
        label += "" if math.isnan(saved) else f", {saved:.2f}× the visits"
        rows.append(
            {
                "policy": result.policy,
                "value": value,
                "low": value - error,
                "high": value + error,
                "label": label,
                "kind": "yardstick" if result.policy in _YARDSTICKS else "policy",
            }
        )
    # A policy far below all yardsticks would press the others together: it stays at the edge.
    known = {row["policy"]: row["value"] for row in rows}
    floor = known["uniform"] - 1.5 * abs(known["clairvoyant"] - known["uniform"])
    for row in rows if answer.metric in _SHARES else []:
        if row["value"] < floor:
            row |= {
                "value": floor,
                "low": floor,
                "high": floor,
                "label": f"far below: {row['label']}",
            }
    low = min(row["low"] for row in rows)
    high = max(row["high"] for row in rows)
    room = 0.15 * (high - low) or 0.05
    domain = [max(low - room, 0.0), high + 1.6 * room]
    order = [row["policy"] for row in sorted(rows, key=lambda row: -row["value"])]
    for row in rows:
        row["least"] = domain[0]
    y = alt.Y("policy:N", sort=order, title=None, axis=alt.Axis(labelLimit=240))
    x = alt.X(
        "value:Q",
        title=_TITLES[answer.metric],
        scale=alt.Scale(domain=domain, zero=False, nice=False),
    )
    base = alt.Chart(data(rows)).encode(y=y)
    colour = alt.Color(
        "kind:N",
        legend=None,
        scale=alt.Scale(domain=["policy", "yardstick"], range=[COLOURS["ok"], "#8a8f98"]),
    )
    rule = base.mark_rule(color="#dddddd").encode(x="least:Q", x2="value:Q")
    dots = base.mark_circle(size=90, opacity=1).encode(x=x, color=colour)
    errors = base.mark_rule(color="#222222", strokeWidth=1.5).encode(x="low:Q", x2="high:Q")
    text = base.mark_text(align="left", dx=9, color="#555555", fontSize=10).encode(
        x="high:Q", text="label:N"
    )
    return (rule + dots + errors + text).properties(
        width=560,
        height=alt.Step(22),
        title=alt.Title(
            f"{answer.sources:,} sources, {answer.budget / answer.sources:.3g} visits per source "
            f"and day, evidence {answer.evidence}",
            subtitle="beside each policy: what is stale over what is with uniform visits, and the "
            "visits uniform needs for the same; lines: standard error over seeds",
            subtitleColor="#666666",
        ),
    )


def _curves(answer: PolicyComparison) -> Any:
    import altair as alt

    others = [r for r in answer.results if r.policy not in _YARDSTICKS]
    best = sorted(others, key=lambda r: -r.metrics[answer.metric])[: _CURVES - 2]
    shown = [r for r in answer.results if r.policy in _YARDSTICKS or r in best]
    rows = [
        {"policy": result.policy, "day": part["day"], "value": part[answer.metric]}
        for result in shown
        for part in result.scores[0].learning_curve()
        if not math.isnan(part[answer.metric])
    ]
    names = [result.policy for result in shown]
    colours = iter(SERIES)
    paint = [_YARDSTICKS.get(name) or next(colours) for name in names]
    lines = (
        alt.Chart(data(rows))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("day:Q", title="day of the replay", scale=alt.Scale(nice=False)),
            y=alt.Y("value:Q", title=_TITLES[answer.metric], scale=alt.Scale(zero=False)),
            color=alt.Color(
                "policy:N",
                title=None,
                sort=names,
                scale=alt.Scale(domain=names, range=paint),
                legend=alt.Legend(orient="right"),
            ),
        )
    )
    if answer.score_from > answer.start:
        mark = alt.Chart(data([{"day": answer.score_from - answer.start}]))
        lines = mark.mark_rule(strokeDash=[4, 4], color="#888888").encode(x="day:Q") + lines
    return lines.properties(width=560, height=220)


def worth_figure(answers: Mapping[str, PolicyComparison], names: Mapping[str, str]) -> Any:
    """What planning is worth: copies out of date under each policy, one panel a comparison.

    `names` are the policies to show, in this order, as people know them.
    """
    import altair as alt

    panels = []
    for title, answer in answers.items():
        rows = []
        for one in (answer[policy] for policy in names):
            stale, saved = 1 - one.metrics["freshness"], one.visits_saved
            cost = "" if math.isnan(saved) else f"  ({saved * answer.budget:,.0f} visits)"
            rows.append(
                {
                    "policy": names[one.policy],
                    "stale": stale,
                    "label": format_share(stale) + cost,
                    "paint": COLOURS["ok"] if one.policy == "observant" else "#b9bec6",
                }
            )
        base = alt.Chart(data(rows)).encode(
            y=alt.Y(
                "policy:N", sort=list(names.values()), title=None, axis=alt.Axis(labelLimit=240)
            ),
            x=alt.X(
                "stale:Q",
                title="copies out of date",
                axis=alt.Axis(format="%"),
                scale=alt.Scale(domain=[0, 1.5 * max(row["stale"] for row in rows)], nice=False),
            ),
        )
        bars = base.mark_bar(height=16).encode(color=alt.Color("paint:N", scale=None))
        text = base.mark_text(align="left", dx=6, fontSize=11).encode(text="label:N")
        subtitle = (
            f"{answer.sources:,} sources, {answer.budget:,.0f} visits a day; in brackets, what it "
            "would take with all alike"
        )
        panels.append(
            (bars + text).properties(
                width=420,
                height=alt.Step(28),
                title=alt.Title(title, subtitle=subtitle, subtitleColor="#666666"),
            )
        )
    return styled(alt.hconcat(*panels, spacing=36))
