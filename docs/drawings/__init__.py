"""What the drawings of the documentation share: a list of them, the card, short words for marks.

A drawing is a function that returns a chart, under `@picture(NAME)`. `docs/pictures.py` writes it
to docs/images/NAME.svg.
"""

from collections.abc import Callable
from typing import Any

import altair as alt
import numpy as np

from observant import VisitLog
from observant.figures.style import COLOURS, SERIES, data, styled

PICTURES: dict[str, Callable[[], Any]] = {}
"""What can be drawn, by the name of its file."""

WIDTH = 560
BLUE, GREY, RED = COLOURS["ok"], COLOURS["never-changed"], COLOURS["always-changed"]
GOLD, NIGHT, GREEN = SERIES[1], SERIES[3], SERIES[4]
PALE, INK = "#b9c0ca", "#444"
OUTCOME = {"change": RED, "no change": "white"}
"""A visit that found a change is a filled dot."""


def picture(name):
    """Let a function draw docs/images/NAME.svg."""

    def listed(draw):
        PICTURES[name] = draw
        return draw

    return listed


def finished(chart, title, *subtitle):
    """The house style, on a white card that can be read on a dark page too."""
    heading = alt.Title(
        title, subtitle=list(subtitle), subtitleColor="#666", subtitleFontSize=12, offset=14
    )
    chart = styled(chart.properties(title=heading, background="white", padding=14))
    chart.config.axis.labelColor = chart.config.axis.titleColor = INK
    chart.config.axis.titleFontWeight = "normal"
    chart.config.axis.titleFontSize = 12
    return chart


# -- axes -----------------------------------------------------------------------------------------


def across(field, title, span, *, log=False, **axis):
    return alt.X(f"{field}:Q", scale=scale(span, log=log), axis=alt.Axis(title=title, **axis))


def upward(field, title, span, *, log=False, **axis):
    return alt.Y(f"{field}:Q", scale=scale(span, log=log), axis=alt.Axis(title=title, **axis))


def downward(field, first, last):
    """Rows from top to bottom, without an axis."""
    return alt.Y(f"{field}:Q", scale=scale([last, first]), axis=None)


def scale(span, *, log=False):
    return alt.Scale(type="log" if log else "linear", domain=span, nice=False)


def colours(field, chosen, kind=alt.Color, legend=None):
    """Colours by name. Without a legend the words of the picture say what they are."""
    return kind(
        f"{field}:N",
        scale=alt.Scale(domain=list(chosen), range=list(chosen.values())),
        legend=legend,
    )


# -- marks ----------------------------------------------------------------------------------------


def marks(rows, **size):
    return alt.Chart(data(rows), **size)


def words(rows, x, y, field, colour=None, **where):
    """Text at (x, y). Colours are those of a scale, or ink."""
    chart = marks(rows).mark_text(**({"fontSize": 12, "color": INK} | where))
    chart = chart.encode(x=x, y=y, text=f"{field}:N")
    return chart if colour is None else chart.encode(color=colour)


def visit_dots(rows, x, y, size=52):
    """Visits, filled where the field `visit` says that they found a change."""
    return (
        marks(rows)
        .mark_circle(size=size, opacity=1, strokeWidth=1.2 + size / 130, aria=False)
        .encode(x=x, y=y, fill=colours("visit", OUTCOME, alt.Fill), stroke=alt.value(RED))
    )


def outcome(changed):
    return "change" if changed else "no change"


def points(named, x, y, name="name"):
    """Rows of many curves: {name: (xs, ys)}."""
    return [
        {x: float(a), y: float(b), name: one}
        for one, (xs, ys) in named.items()
        for a, b in zip(xs, ys, strict=True)
    ]


# -- what visits see ------------------------------------------------------------------------------


def log_of(visits, changed):
    """A log of one source; its first visit has nothing to compare with."""
    return VisitLog.from_columns(
        ["page"] * len(visits), visits, [None, *map(bool, changed)], time_unit="d"
    )


def seen_changes(updates, visits):
    """Whether each visit but the first finds a change."""
    return np.diff(np.searchsorted(updates, visits, side="right")) > 0
