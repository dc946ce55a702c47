"""The dashboard: pages made on the server. They work without JavaScript, but for the charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from observant.service.api.routes import handlers_in
from observant.service.pages import (
    assets,
    overview,
    reference,
    settings,
    sign_in,
    source,
    sources,
    subscriptions,
)
from observant.service.pages import assets as figures
from observant.service.pages import overview as events
from observant.service.pages import overview as health
from observant.service.pages import plan as planning

if TYPE_CHECKING:
    from litestar.types import ControllerRouterHandler

__all__ = ["page_handlers"]


def page_handlers() -> list[ControllerRouterHandler]:
    """All routes of the dashboard."""
    return handlers_in(
        assets,
        sign_in,
        overview,
        sources,
        source,
        planning,
        events,
        subscriptions,
        settings,
        reference,
        health,
        figures,
    )
