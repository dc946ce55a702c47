"""REST under /api/v1: the same `Collection` as the pages, by topic; feeds and metrics beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litestar import Router

from observant.service.api.access import access_handlers
from observant.service.api.monitoring import monitoring_handlers
from observant.service.api.overview import overview_handlers
from observant.service.api.planning import planning_handlers
from observant.service.api.settings import settings_handlers
from observant.service.api.sources import source_handlers
from observant.service.api.subscriptions import telling_handlers
from observant.service.feeds import feed_handlers

if TYPE_CHECKING:
    from litestar.types import ControllerRouterHandler

__all__ = ["api_handlers"]


def api_handlers() -> list[ControllerRouterHandler]:
    """All routes of the API, and those beside it."""
    routes = [
        *overview_handlers(),
        *source_handlers(),
        *planning_handlers(),
        *telling_handlers(),
        *settings_handlers(),
        *access_handlers(),
    ]
    return [Router("/api/v1", route_handlers=routes), *monitoring_handlers(), *feed_handlers()]
