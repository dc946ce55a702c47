"""The figures of the papers, redrawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError
from observant.figures.style import SERIES, data, decades, styled

if TYPE_CHECKING:
    import altair as alt

    from observant.papers import Curve, Picture, Reproduction

COLOURS = [*SERIES, "#9a6bab", "#7a7f88", "#1b9aaa", "#b5a642", "#e07a9b"]
MOST_POINTS, MOST_OF_A_LINE = 41, 161
"""So many of its values are drawn of a curve; more would only hide others and fill the file."""


def reproduction_figure(found: Reproduction, title: str | None = None) -> alt.ConcatChart:
    """All pictures of a reproduction, two in a row, under a title: its own unless one is given."""
    import altair as alt

    if not found.pictures:
        raise InputError(f"{found.name} is a table and has no picture")
    labels = [[curve.label for curve in picture.curves] for picture in found.pictures]
    last = len(labels) - 1
    parts = [
        # Pictures with the same curves share the legend of the last one.
        _picture(picture, legend=k == last or labels[k] != labels[last])
        for k, picture in enumerate(found.pictures)
    ]
    title = title or found.title
    more = "" if found.title.lower() in title.lower() else found.title
    heading = alt.TitleParams(title, subtitle=more, subtitleColor="#666")
    chart: alt.ConcatChart = styled(
        alt.concat(*parts, columns=2, spacing=40, title=heading).resolve_scale(
            color="independent", x="independent", y="independent"
        )
    )
    return chart


def _picture(picture: Picture, *, legend: bool) -> Any:
    import altair as alt

    labels = [curve.label for curve in picture.curves]
    colour = alt.Color(
        "curve:N",
        scale=alt.Scale(domain=labels, range=COLOURS[: len(labels)]),
        legend=alt.Legend(title=None, labelLimit=280, symbolStrokeWidth=3)
        if legend and len(labels) > 1
        else None,
    )
    # Points lie above lines, so that both are seen where they agree.
    axes = {
        name: _axis(picture, name, [row[name] for c in picture.curves for row in _rows(c, picture)])
        for name in ("x", "y")
    }
    layers = []
    for points in (False, True):
        rows = [row for c in picture.curves if c.points == points for row in _rows(c, picture)]
        if not rows:
            continue
        base = alt.Chart(data(rows), width=420, height=280)
        marks = (
            base.mark_point(filled=True, size=36, opacity=0.9)
            if points
            else base.mark_line(strokeWidth=2, clip=True)
        )
        layers.append(
            marks.encode(
                x=alt.X("x:Q", **axes["x"]),
                y=alt.Y("y:Q", **axes["y"]),
                color=colour,
                detail="part:N",
                tooltip=[
                    "curve:N",
                    alt.Tooltip("x:Q", format=".4g"),
                    alt.Tooltip("y:Q", format=".4g"),
                ],
            )
        )
    return alt.layer(*layers)


def _axis(picture: Picture, name: str, values: list[float]) -> dict[str, Any]:
    """Title, scale and marks of an axis; on a logarithmic one, room above and below the curves."""
    import altair as alt

    title, log = (
        (picture.x_title, picture.log_x) if name == "x" else (picture.y_title, picture.log_y)
    )
    if not log or not values:
        return {"title": title, "scale": alt.Scale(zero=False)}
    room = 1.0 if name == "x" else 1.08
    low, high = min(values) / room, max(values) * room
    axis = decades(title) if high / low > 50 else alt.Axis(title=title, format="~g", tickCount=5)
    return {"axis": axis, "scale": alt.Scale(type="log", domain=[low, high], nice=False)}


def _rows(curve: Curve, picture: Picture) -> list[dict[str, Any]]:
    """The points of a curve; a gap, where a value is missing, ends one part and begins another."""
    x, y = (np.atleast_1d(np.asarray(values, float)) for values in (curve.x, curve.y))
    shown = np.isfinite(x) & np.isfinite(y)
    shown &= ~((x <= 0) & picture.log_x) & ~((y <= 0) & picture.log_y)
    part = np.cumsum(~shown)[shown]
    x, y = x[shown], y[shown]
    most = MOST_POINTS if curve.points else MOST_OF_A_LINE
    if len(x) > most:
        some = np.unique(np.linspace(0, len(x) - 1, most).astype(int))
        x, y, part = x[some], y[some], part[some]
    return [
        {"curve": curve.label, "x": float(f"{a:.5g}"), "y": float(f"{b:.5g}"), "part": int(k)}
        for a, b, k in zip(x, y, part, strict=True)
    ]
