"""What every figure shares: colours, scales, fonts, and how it is saved."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from observant.errors import InputError

COLOURS = {
    "ok": "#2a78b8",
    "never-changed": "#8a8f98",
    "always-changed": "#c2492f",
    "too-few": "#d8b13c",
}
"""What a colour means, the same in every figure."""

SERIES = ["#c2492f", "#d8943c", "#2a78b8", "#4a4f7a", "#3c8d6e"]
"""Colours of lines that belong together, from strict to lenient."""


def save(chart: Any, file: str) -> None:
    """Write a chart to a file: SVG, PNG, HTML or JSON by its ending. No browser is needed."""
    ending = Path(file).suffix.lower()
    if ending not in {".svg", ".png", ".html", ".json"}:
        raise InputError("a picture ends in .svg, .png, .html or .json", file=file)
    if not Path(file).parent.is_dir():
        raise InputError(f"cannot be written: there is no folder {Path(file).parent}", file=file)
    try:
        if ending == ".html":
            chart.save(file, inline=True)
        elif ending == ".png":
            chart.save(file, scale_factor=2)
        else:
            chart.save(file)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=file) from error


def data(rows: list[dict[str, Any]]) -> Any:
    import altair as alt

    return alt.Data(values=rows)  # type: ignore[no-untyped-call]


def log_scale() -> Any:
    import altair as alt

    return alt.Scale(type="log", nice=False)


def decades(title: str) -> Any:
    """Label an axis over many decades with powers of ten only."""
    import altair as alt

    powers = [10.0**k for k in range(-12, 13)]
    return alt.Axis(title=title, values=powers, format="~g")


_SPANS = (("days", 1.0), ("hours", 1 / 24), ("minutes", 1 / 1440), ("seconds", 1 / 86400))
"""Units of time, in days; each is taken from two of it on, and the last below that too."""


def unit_of(days: float) -> tuple[str, float]:
    """The unit in which a person would tell times up to so many days, and its length in days.

    >>> unit_of(30)[0], unit_of(0.5)[0], unit_of(1e-4)[0]
    ('days', 'hours', 'seconds')
    """
    return next((one for one in _SPANS if days >= 2 * one[1]), _SPANS[-1])


def span_axis(title: str, most: float) -> Any:
    """An axis of times from 0 to so many days, in the unit that a person would take."""
    import altair as alt

    unit, days = unit_of(most)
    wanted = most / days / 5
    power = 10.0 ** math.floor(math.log10(wanted)) if wanted > 0 else 1.0
    step = next(step * power for step in (1, 2, 5, 10) if step * power >= wanted)
    ticks = [step * k for k in range(math.floor(most / days / step + 1e-9) + 1)]
    return alt.Axis(
        title=f"{title} ({unit})" if title else unit,
        values=[tick * days for tick in ticks],
        labelExpr=f"format(datum.value / {days!r}, '.3~g')",
    )


def styled(chart: Any) -> Any:
    return (
        chart.configure_view(stroke=None)
        .configure_axis(gridColor="#e8e8e8", domainColor="#888", tickColor="#888")
        .configure_title(anchor="start", fontWeight="normal", fontSize=14)
    )


def log_bins(
    rates: np.ndarray[Any, np.dtype[np.float64]], bins: int = 40
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    if not len(rates):
        return np.zeros(0, int), np.ones(1)
    edges = np.geomspace(rates.min() * 0.999, rates.max() * 1.001, bins + 1)
    return np.histogram(rates, bins=edges)[0], edges
