"""The dashboard: pages made on the server. They work without JavaScript, but for the charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from observant.service.pages import (
    events,
    figures,
    health,
    overview,
    planning,
    settings,
    sign_in,
    source,
    sources,
    subscriptions,
)
from observant.service.pages.assets import static

if TYPE_CHECKING:
    from litestar.types import ControllerRouterHandler

__all__ = ["page_handlers"]


def page_handlers() -> list[ControllerRouterHandler]:
    """All routes of the dashboard."""
    return [
        static,
        *sign_in.HANDLERS,
        *overview.HANDLERS,
        *sources.HANDLERS,
        *source.HANDLERS,
        *planning.HANDLERS,
        *events.HANDLERS,
        *subscriptions.HANDLERS,
        *settings.HANDLERS,
        *health.HANDLERS,
        *figures.HANDLERS,
    ]
