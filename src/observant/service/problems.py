"""What goes wrong, told as RFC 9457 problem details (API), as a page (to people with a browser), or
as plain text (to all others). What was asked for may be hostile: it comes back as text, escaped.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import MediaType, Response
from litestar.exceptions import HTTPException

from observant.errors import (
    BusyError,
    DeniedError,
    InputError,
    MissingError,
    ObservantError,
    SignInError,
    StoreAwayError,
    StoreBusyError,
    StoreError,
    TooManyError,
    UnknownSourceError,
)
from observant.service.collection.collection import STORE_AWAY

if TYPE_CHECKING:
    from litestar import Request

log = logging.getLogger("observant.service")

_TITLES = {
    400: "this cannot be used",
    401: "sign in first",
    403: "not allowed",
    404: "there is no such thing",
    405: "not allowed here",
    409: "in conflict with what is there",
    413: "too large",
    415: "a form that is not understood",
    422: "this cannot be used",
    429: "too many attempts",
    500: "a fault of ours",
    503: "not now",
}


class ProblemDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """RFC 9457."""

    title: str
    status: int
    type: str = "about:blank"
    detail: str = ""
    source: str | None = None


def handlers(prefix: str) -> dict[Any, Any]:
    """Exception handlers for the application."""

    def handle(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
        status, detail, headers = _told(error)
        about = {"path": request.scope["path"]}
        if status >= 500 and "Retry-After" in headers:  # nobody's fault, and soon over
            log.warning("a request was turned away", extra=about | {"reason": str(error)})
        elif status >= 500:
            log.error("a request failed", exc_info=error, extra=about)
        inside = request.scope["path"].removeprefix(prefix)
        title = _TITLES.get(status, "this did not work")
        if inside.startswith("/api/"):
            problem = ProblemDetails(
                title=title,
                status=status,
                detail=detail,
                source=error.source if isinstance(error, InputError) else None,
            )
            return Response(
                msgspec.json.encode(problem),
                status_code=status,
                media_type="application/problem+json",
                headers=headers,
            )
        if _wants_page(request) and not inside.startswith(_FOR_MACHINES):
            from observant.service.pages.failure import failure_page

            return failure_page(request, status, title, detail, headers)
        text = f"{status}: {title}\n{detail}\n" if detail else f"{status}: {title}\n"
        return Response(text, status_code=status, media_type=MediaType.TEXT, headers=headers)

    return {Exception: handle, HTTPException: handle}


_FOR_MACHINES = ("/feeds/", "/metrics", "/health", "/static/", "/websub/", "/indexnow")


def _wants_page(request: Request[Any, Any, Any]) -> bool:
    """Whether a person with a browser is to be told."""
    return "text/html" in request.headers.get("accept", "")


def _told(error: Exception) -> tuple[int, str, dict[str, str]]:
    if isinstance(error, HTTPException):
        detail = error.detail if error.status_code < 500 else ""
        extra = getattr(error, "extra", None)
        if isinstance(extra, list):
            reasons = [str(one.get("message", "")) for one in extra if isinstance(one, dict)]
            detail = "; ".join([detail.partition(" for ")[0], *reasons])
        return error.status_code, detail, dict(error.headers or {})
    if isinstance(error, TooManyError):
        return 429, str(error), {"Retry-After": f"{error.seconds:.0f}"}
    if isinstance(error, SignInError):
        return 401, str(error), {}
    if isinstance(error, DeniedError):
        return 403, str(error), {}
    if isinstance(error, UnknownSourceError | MissingError):
        return 404, str(error), {}
    if isinstance(error, InputError):
        return 422, str(error), {}
    if isinstance(error, StoreAwayError):
        return 503, STORE_AWAY, {"Retry-After": "5"}
    if isinstance(error, StoreBusyError):
        return 503, "the store is busy: try again", {"Retry-After": "5"}
    if isinstance(error, StoreError):  # its message says where the store is
        return 503, "the store cannot be used now; the log of the service says why", {}
    if isinstance(error, msgspec.ValidationError):
        return 400, str(error), {}
    if isinstance(error, RecursionError):  # a body of thousands of brackets
        return 400, "this is nested too deeply", {}
    if isinstance(error, BusyError):
        return 503, str(error), {"Retry-After": "5"}
    if isinstance(error, ObservantError):
        return 503, str(error), {}
    return 500, "", {}
