"""What the figures of the dashboard share: colours, axes, and data that are not copied around."""

from __future__ import annotations

from typing import Any

import msgspec

from observant.figures.style import COLOURS

CHANGE = COLOURS["always-changed"]
GREY = COLOURS["never-changed"]
BLUE = COLOURS["ok"]
HOUR_LABELS = "utcFormat(datum.value, utchours(datum.value) == 0 ? '%a %d %b' : '%H:%M')"
DAY_LABELS = (
    "utcFormat(datum.value, utcseconds(datum.value) ? '%H:%M:%S' : "
    "utchours(datum.value) || utcminutes(datum.value) ? '%H:%M' : "
    "utcdate(datum.value) == 1 && utcmonth(datum.value) == 0 ? '%Y' : '%d %b')"
)


def spec_of(chart: Any) -> dict[str, Any]:
    """The Vega-Lite specification of any chart, its data as rows."""

    def plain(part: Any) -> Any:
        if isinstance(part, list):
            return [plain(one) for one in part]
        if not isinstance(part, dict):
            return part
        values = part.get("values")
        if isinstance(values, str) and part.get("format") == {"type": "json"}:
            return {"values": msgspec.json.decode(values)}
        return {key: inner if key == "values" else plain(inner) for key, inner in part.items()}

    # Checking would look at every row.
    found: dict[str, Any] = plain(chart.to_dict(validate=False))
    return found


def data(rows: list[dict[str, Any]]) -> Any:
    """Rows as one text: Altair copies and checks all that it is given, again and again."""
    import altair as alt

    text = msgspec.json.encode(rows).decode()
    return alt.Data(values=text, format=alt.DataFormat(type="json"))  # type: ignore[no-untyped-call]


def log_axis(title: str, low: float, high: float, unit: float = 1.0) -> Any:
    """Label a logarithmic axis: powers of ten, and what is between them where there is room.

    The labels count in units of so many of what is drawn.
    """
    import altair as alt

    steps = (1, 2, 5) if high / max(low, 1e-300) < 300 else (1,)
    values = [unit * m * 10.0**k for k in range(-9, 9) for m in steps]
    inside = [value for value in values if low <= value <= high]
    if unit == 1:
        return alt.Axis(title=title, values=inside, format="~g")
    return alt.Axis(title=title, values=inside, labelExpr=f"format(datum.value / {unit!r}, '~g')")
