# ruff: noqa: TC001 (Litestar looks at the types of a handler)
"""The first page: how current is the collection, and what is going on?"""

from __future__ import annotations

from litestar import Response, get

from observant.service.forms import days_in, number_in
from observant.service.given import GivenCollection
from observant.service.pages.render import page
from observant.service.pages.routes import Asked, reading
from observant.service.summaries import CurvePoint
from observant.units import format_duration


@get("/", **reading("overview"))
def overview(request: Asked, collection: GivenCollection) -> Response[str]:
    """The collection on one page."""
    params = request.query_params
    grace = days_in(params, "grace", None)
    place = number_in(params, "place", None)
    if place is not None and (curve := collection.currency.curve()):
        grace = _grace_at(curve, place)
    view = collection.overview(grace)
    today = view.hours[-24:]
    base = next((o.alpha for o in view.budget.options if o.factor == 1), None)
    return page(
        request,
        "overview.html",
        view=view,
        problems=[p for p in collection.health().problems if "observer" not in p],
        base_alpha=base,
        changes_today=sum(hour.changes for hour in today),
        failures_today=sum(hour.failures for hour in today),
        grace_text=format_duration(view.grace_days) if view.grace_days else "0",
        slider=_slider(view.curve),
        slider_steps=max(len(view.curve) - 1, 0),
        slider_place=round(_place_of(view.curve, view.grace_days), 1),
    )


def _slider(curve: list[CurvePoint]) -> str:
    """The curve as numbers, for the slider."""
    rows = (f"[{p.grace_days:.5g},{p.alpha:.4f},{p.low:.4f},{p.high:.4f}]" for p in curve)
    return f"[{','.join(rows)}]" if curve else ""


def _grace_at(curve: list[CurvePoint], place: float) -> float:
    """The grace at a place of the slider, between the points of the curve."""
    import numpy as np

    return float(np.interp(place, range(len(curve)), [p.grace_days for p in curve]))


def _place_of(curve: list[CurvePoint], grace: float) -> float:
    import numpy as np

    if not curve:
        return 0.0
    return float(np.interp(grace, [p.grace_days for p in curve], range(len(curve))))
