"""How a live observer did: estimated against true rates, and how current it was, day by day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from observant.figures.style import COLOURS, data, decades, log_scale, styled
from observant.units import format_share

if TYPE_CHECKING:
    from observant.observer.synthetic.trial import Judgement

_PAINT = {
    "achieved (the truth)": "#2a78b8",
    "predicted by the observer": "#d8943c",
    "uniform, same budget": "#8a8f98",
    "clairvoyant": "#222222",
}
_DOTS = 700
_INTERVALS = 150
"""More intervals than this hide each other."""


def observer_figure(answer: Judgement) -> Any:
    """Left: the rates. Right: the share of fresh copies over time."""
    import altair as alt

    both = alt.hconcat(_rates(answer), _days(answer), spacing=36)
    return styled(both.resolve_scale(color="independent"))


def _rates(answer: Judgement) -> Any:
    import altair as alt

    rows = [
        {
            "truth": float(truth),
            "rate": float(rate),
            "low": float(low),
            "high": float(high),
            "kind": kind,
            "held": "inside" if low <= truth <= high else "outside",
        }
        for truth, rate, low, high, kind in zip(
            answer.truth,
            answer.rate,
            answer.rate_low,
            answer.rate_high,
            answer.world.kinds,
            strict=True,
        )
    ]
    # More dots than this only make the file large.
    rows = rows[:: 1 + len(rows) // _DOTS]
    ends = [min(row["truth"] for row in rows), max(row["truth"] for row in rows)]
    scale = log_scale()
    x = alt.X("truth:Q", scale=scale, axis=decades("true rate (updates per day)"))
    y = alt.Y("rate:Q", scale=scale, axis=decades("estimated rate (updates per day)"))
    dots = (
        alt.Chart(data(rows))
        .mark_circle(size=14, opacity=0.55)
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "held:N",
                title="true rate in the 95 % interval",
                scale=alt.Scale(
                    domain=["inside", "outside"],
                    range=[COLOURS["ok"], COLOURS["always-changed"]],
                ),
                legend=alt.Legend(orient="top"),
            ),
        )
    )
    some = alt.Chart(data(rows[:: max(1, len(rows) // _INTERVALS)]))
    bars = some.mark_rule(color="#9aa3ad", opacity=0.5).encode(x=x, y="low:Q", y2="high:Q")
    line = (
        alt.Chart(data([{"truth": end, "rate": end} for end in ends]))
        .mark_line(color="#444444", strokeDash=[4, 3])
        .encode(x=x, y=y)
    )
    title = alt.Title(
        f"{format_share(answer.covered_poisson, 0)} of the intervals of Poisson pages hold the "
        "true rate",
        subtitle=f"{format_share(answer.covered, 0)} of all; {answer.world.pages:,} pages, "
        f"{answer.visits / answer.world.pages:.0f} visits each on average",
        subtitleColor="#666666",
    )
    return (bars + dots + line).properties(width=360, height=340, title=title)


def _days(answer: Judgement) -> Any:
    import altair as alt

    named = {
        "achieved (the truth)": "achieved",
        "predicted by the observer": "predicted",
        "uniform, same budget": "uniform",
    }
    rows: list[dict[str, Any]] = [
        {"day": part["day"], "share": part[key], "what": label}
        for part in answer.curve
        for label, key in named.items()
    ]
    half = answer.world.days / 2
    rows += [
        {"day": day, "share": answer.clairvoyant, "what": "clairvoyant"}
        for day in (half, answer.world.days)
    ]
    # The first days, before every page was visited once, would press the rest together.
    settled = [row["share"] for row in rows if row["day"] > answer.world.days / 6]
    low, high = min(settled), max(settled)
    domain = [max(low - 0.3 * (high - low) - 0.02, 0.0), min(high + 0.01, 1.0)]
    lines = (
        alt.Chart(data(rows))
        .mark_line(strokeWidth=2, clip=True)
        .encode(
            x=alt.X("day:Q", title="day of the synthetic web", scale=alt.Scale(nice=False)),
            y=alt.Y(
                "share:Q",
                title="share of copies that are fresh",
                axis=alt.Axis(format="%"),
                scale=alt.Scale(domain=domain, nice=False),
            ),
            color=alt.Color(
                "what:N",
                title=None,
                sort=list(_PAINT),
                scale=alt.Scale(domain=list(_PAINT), range=list(_PAINT.values())),
                legend=alt.Legend(orient="top", columns=2),
            ),
        )
    )
    mark = alt.Chart(data([{"day": half}])).mark_rule(strokeDash=[4, 4], color="#888888")
    title = alt.Title(
        f"{format_share(answer.achieved)} fresh, {format_share(answer.predicted)} predicted, "
        f"{format_share(answer.uniform)} with uniform visits",
        subtitle="in the second half of the time; the first half is for learning",
        subtitleColor="#666666",
    )
    return (mark.encode(x="day:Q") + lines).properties(width=420, height=340, title=title)
