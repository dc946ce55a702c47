"""REST under /api/v1: the same `Collection` as the pages, by topic; feeds and metrics beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litestar import Router

from observant.service import feeds, push
from observant.service.api import access, overview, settings, sources, subscriptions
from observant.service.api import metrics as monitoring
from observant.service.api import plan as planning
from observant.service.api.routes import handlers_in

if TYPE_CHECKING:
    from litestar.types import ControllerRouterHandler

__all__ = ["api_handlers"]


def api_handlers() -> list[ControllerRouterHandler]:
    """All routes of the API, and those beside it."""
    routes = handlers_in(overview, sources, planning, subscriptions, settings, access)
    return [Router("/api/v1", route_handlers=routes), *handlers_in(monitoring, feeds, push)]
