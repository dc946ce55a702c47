"""The application: API, pages, feeds and metrics behind one guard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litestar import Litestar
from litestar.datastructures import State
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.router import Router

from observant import __version__
from observant.errors import InputError
from observant.service.access.check import AccessGuard, check_routes
from observant.service.access.sign_in import login, logout
from observant.service.api import api_handlers
from observant.service.forms import form_of
from observant.service.problems import handlers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from litestar.types import ControllerRouterHandler, Message, Scope

    from observant.service.access import Access
    from observant.service.collection import Collection

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
LARGEST_BODY = 4 << 20
"""Bytes of a request; imports may be larger, and what strangers send must be smaller."""
_HEADERS = {
    b"content-security-policy": CONTENT_SECURITY_POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}


def create_app(
    collection: Collection,
    *,
    access: Access,
    prefix: str = "",
    more: Sequence[ControllerRouterHandler] = (),
) -> Litestar:
    """Put the application together.

    `prefix` is the path below which it is served (``/observant``), if not the root. Handlers get
    `collection`, `access` and `prefix` when they ask (see `forms`). `more` are further handlers,
    guarded like all others.
    """
    from observant.service.pages import page_handlers

    prefix = checked_prefix(prefix)
    app = Litestar(
        # One router: handlers of one path that are registered one after the other would be wrapped
        # into threads twice (Litestar 2.25).
        [Router("/", route_handlers=[login, logout, *api_handlers(), *page_handlers(), *more])],
        path=prefix or None,
        dependencies={
            "collection": Provide(lambda: collection, sync_to_thread=False),
            "access": Provide(lambda: access, sync_to_thread=False),
            "prefix": Provide(lambda: prefix, sync_to_thread=False),
            "form": Provide(form_of),
        },
        middleware=[AccessGuard(access, prefix=prefix)],
        before_send=[_secure],
        exception_handlers=handlers(prefix),
        openapi_config=_openapi(),
        state=State({"collection": collection, "access": access, "prefix": prefix}),
        request_max_body_size=LARGEST_BODY,
        logging_config=None,
        debug=False,
    )
    check_routes(app)
    return app


def checked_prefix(prefix: str) -> str:
    """A prefix as paths begin with it.

    >>> checked_prefix("observant/"), checked_prefix("/")
    ('/observant', '')
    """
    import re

    parts = prefix.strip("/")
    if parts and not re.fullmatch(r"[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*", parts):
        raise InputError(f"a prefix is a path such as /observant, not {prefix!r}")
    return f"/{parts}" if parts else ""


async def _secure(message: Message, scope: Scope) -> None:
    """Headers that every answer has, unless its handler has set them itself."""
    del scope
    if message["type"] != "http.response.start":
        return
    headers: Any = list(message.get("headers", ()))
    message["headers"] = headers
    there = {key.lower() for key, _ in headers}
    headers.extend((key, value) for key, value in _HEADERS.items() if key not in there)


def _openapi() -> OpenAPIConfig:
    return OpenAPIConfig(
        title="observant",
        version=__version__,
        description="Know how often your sources change, how current your copy is, and when to "
        "look again. Errors are RFC 9457 problem details.",
        render_plugins=[JsonRenderPlugin(path="/openapi.json")],
        openapi_router=Router(
            "/api/v1", route_handlers=[], opt={"needs": "read"}, include_in_schema=False
        ),
        use_handler_docstrings=True,
        components=Components(
            security_schemes={
                "token": SecurityScheme(
                    type="http",
                    scheme="bearer",
                    description="A token: observant access token NAME.",
                ),
                "session": SecurityScheme(
                    type="apiKey",
                    security_scheme_in="cookie",
                    name="observant_session",
                    description="Changes also need the header X-CSRF-Token.",
                ),
            }
        ),
        security=[{"token": []}, {"session": []}],
    )
