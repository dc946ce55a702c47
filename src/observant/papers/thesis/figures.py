"""How pages change and how they look: Brewington's figures 3.4, 3.5, 3.14 and the appendix's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError
from observant.figures.style import SERIES, data, decades, log_scale, styled

if TYPE_CHECKING:
    import altair as alt

    from observant.papers.thesis.style import (
        AttributeShares,
        Magnitudes,
        RankFrequency,
        StyleByAge,
    )

NAMES = {
    "content_length": "content length",
    "text_hash": "plain text",
    "link_hash": "link targets",
    "image_hash": "image sources",
    "structure_hash": "order of tags",
    "last_modified": "last modified",
    "title": "title",
    "num_tokens": "number of tokens",
    "num_images": "number of images",
    "num_links": "number of links",
    "num_tables": "number of tables",
    "num_forms": "number of forms",
    "num_ads": "number of adverts",
    "num_lists": "number of lists",
}
MOST_POINTS = 4000


def attributes_figure(shares: AttributeShares) -> alt.LayerChart:
    """Of all changes, how many included each attribute (figure 3.4)."""
    import altair as alt

    if not shares.total:
        raise InputError("there is nothing to draw: no changes were seen")
    rows = [
        {**row, "attribute": NAMES.get(row["attribute"], row["attribute"])} for row in shares.rows()
    ]
    order = [row["attribute"] for row in rows]
    base = alt.Chart(data(rows), width=520, height=22 * len(rows)).encode(
        y=alt.Y("attribute:N", sort=order, title=None)
    )
    percent = alt.Axis(format="%")
    scale = alt.Scale(domain=[0, 1])
    bars = base.mark_bar(color=SERIES[2]).encode(
        x=alt.X("share:Q", title="share of changes", scale=scale, axis=percent),
        tooltip=["attribute:N", alt.Tooltip("share:Q", format=".1%"), "changes:Q"],
    )
    whiskers = base.mark_rule(color="#222").encode(x=alt.X("low:Q"), x2="high:Q")
    title = f"What changes when a page changes ({shares.total:,} changes, 95 % intervals)"
    chart: alt.LayerChart = styled((bars + whiskers).properties(title=title))
    return chart


def style_figure(style: StyleByAge) -> alt.HConcatChart:
    """Do old pages look different? One panel for each attribute (figure 3.5)."""
    import altair as alt

    if not len(style):
        raise InputError("there is nothing to draw: no page told when it was last modified")
    groups = [name for name, pages in style.pages.items() if pages]
    panels = []
    for attribute in dict.fromkeys(style.attribute.tolist()):
        rows = [row for row in style.rows() if row["attribute"] == attribute]
        wide = attribute == "content_length"
        for row in rows:
            row["value"] = max(row["value"], 1.0) if wide else row["value"]
        axis = decades("bytes") if wide else alt.Axis(title=NAMES.get(attribute, attribute))
        scale = log_scale() if wide else alt.Scale(type="symlog", constant=3)
        panels.append(
            alt.Chart(data(rows), width=270, height=210)
            .mark_line(interpolate="step-after", strokeWidth=2)
            .encode(
                x=alt.X("value:Q", scale=scale, axis=axis),
                y=alt.Y("share:Q", title="share of pages with at most this"),
                color=alt.Color(
                    "group:N",
                    sort=groups,
                    scale=alt.Scale(domain=groups, range=[SERIES[i] for i in (2, 1, 0, 3, 4)]),
                    legend=alt.Legend(title="last modified", orient="bottom"),
                ),
                tooltip=["group:N", "value:Q", alt.Tooltip("share:Q", format=".1%")],
            )
            .properties(title=NAMES.get(attribute, attribute).capitalize())
        )
    chart: alt.HConcatChart = styled(alt.hconcat(*panels))
    return chart


def magnitudes_figure(changes: Magnitudes) -> alt.HConcatChart:
    """Every change, the old text's length against the relative change (figure 3.14)."""
    import altair as alt

    if not len(changes):
        raise InputError("there is nothing to draw: no changes of text were seen")
    chosen = np.unique(np.linspace(0, len(changes) - 1, min(len(changes), MOST_POINTS)).astype(int))
    rows = [
        {"length": max(float(changes.length[i]), 1.0), "magnitude": float(changes.magnitude[i])}
        for i in chosen
    ]
    up = alt.Y("magnitude:Q", scale=alt.Scale(domain=[0, 1]), title="magnitude of the change")
    points = (
        alt.Chart(data(rows), width=420, height=300)
        .mark_circle(size=12, opacity=0.35, color=SERIES[2])
        .encode(
            x=alt.X("length:Q", scale=log_scale(), axis=decades("length of the old text, terms")),
            y=up,
        )
        .properties(title="How much changes, by length of text")
    )
    ordered = np.sort(changes.magnitude)
    place = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), 300)).astype(int))
    curve = [
        {"magnitude": float(ordered[k]), "share": float((k + 1) / len(ordered))} for k in place
    ]
    line = (
        alt.Chart(data(curve), width=150, height=300)
        .mark_line(strokeWidth=2, color=SERIES[0])
        .encode(
            x=alt.X(
                "share:Q",
                title="share of changes",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format="%", values=[0, 0.5, 1]),
            ),
            y=alt.Y("magnitude:Q", scale=alt.Scale(domain=[0, 1]), title=None),
            order="magnitude:Q",
        )
        .properties(title="Share of changes up to this")
    )
    chart: alt.HConcatChart = styled(alt.hconcat(points, line))
    return chart


def rank_figure(
    curves: RankFrequency | dict[str, RankFrequency], points: int = 300
) -> alt.LayerChart:
    """Rank-frequency curves with their fitted lines (appendix, figures 1 to 3)."""
    import altair as alt

    curves = curves if isinstance(curves, dict) else {"words": curves}
    if not curves:
        raise InputError("there is nothing to draw: give at least one curve")
    seen: list[dict[str, Any]] = []
    fits: list[dict[str, Any]] = []
    names = [f"{name}, slope {curve.slope:.2f}" for name, curve in curves.items()]
    for name, curve in zip(names, curves.values(), strict=True):
        at = np.unique(np.geomspace(1, len(curve.rank), points).round().astype(int)) - 1
        seen += [
            {"curve": name, "rank": int(curve.rank[i]), "frequency": int(curve.frequency[i])}
            for i in at
        ]
        fits += [
            {"curve": name, "rank": r, "frequency": 10**curve.intercept * r**curve.slope}
            for r in curve.fitted
        ]
    colour = alt.Color(
        "curve:N",
        sort=names,
        scale=alt.Scale(domain=names, range=[SERIES[i] for i in (2, 0, 4, 1, 3)]),
        legend=alt.Legend(title=None, orient="top-right"),
    )
    x = alt.X("rank:Q", scale=log_scale(), axis=decades("rank"))
    y = alt.Y("frequency:Q", scale=log_scale(), axis=decades("times seen"))
    dots = alt.Chart(data(seen), width=520, height=300).mark_circle(size=14).encode(x, y, colour)
    lines = (
        alt.Chart(data(fits))
        .mark_line(strokeDash=[5, 4], strokeWidth=1.5)
        .encode(x, y, colour, detail="curve:N")
    )
    chart: alt.LayerChart = styled((dots + lines).properties(title="How often each is seen"))
    return chart
