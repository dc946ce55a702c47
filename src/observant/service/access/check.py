"""The one guard: who is asking, may they, and did they mean to?

Every handler says what it needs (`rules.rule`). One that does not say keeps the application from
starting. A change made with a session must carry the token that only our own pages
know, and must not come from another site.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote

from litestar import Request
from litestar.concurrency import sync_to_thread
from litestar.enums import ScopeType
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException
from litestar.middleware import ASGIMiddleware
from litestar.response.redirect import ASGIRedirectResponse

from observant.errors import InputError
from observant.language import languages, preferred, use
from observant.service.access.identity import ANONYMOUS, Identity
from observant.service.access.rights import NEEDS

if TYPE_CHECKING:
    from litestar import Litestar
    from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

    from observant.service.access.identity import Access

COOKIE = "observant_session"
LANGUAGE = "observant_language"
"""The cookie that holds the language somebody has chosen."""
CSRF_HEADER = "x-csrf-token"
CSRF_FIELD = "csrf_token"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


def identity_of(request: Any) -> Identity:
    """Who made this request."""
    found: Identity = request.scope.get("user") or ANONYMOUS
    return found


def check_routes(app: Litestar) -> None:
    """Refuse to start with a handler that does not say what it needs."""
    for route in app.routes:
        for handler in getattr(route, "route_handlers", [getattr(route, "route_handler", None)]):
            need = handler.opt.get("needs")
            automatic = set(getattr(handler, "http_methods", ())) == {"OPTIONS"}
            if need not in NEEDS and not automatic:
                raise InputError(
                    f"the handler of {route.path} does not say what it needs; one of "
                    f"{', '.join(NEEDS)}"
                )


def _shows_something(scope: HTTPScope) -> bool:
    """Whether whoever asks says who they are; strangers are answered without the store."""
    return (
        any(key == b"authorization" for key, _ in scope["headers"])
        or bool(scope["route_handler"].opt.get("token_in_query") and scope["query_string"])
        or bool(session_of(scope))
    )


class AccessGuard(ASGIMiddleware):
    """Stands before every handler."""

    scopes = (ScopeType.HTTP, ScopeType.WEBSOCKET, ScopeType.ASGI)

    def __init__(self, access: Access, *, prefix: str = "") -> None:
        self._access, self._prefix, self._sign_in = access, prefix, f"{prefix}/login"

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        if scope["type"] != ScopeType.HTTP:
            raise PermissionDeniedException("only HTTP is spoken here")
        # A handler that does not say (the answer to OPTIONS) needs what reading needs.
        need = scope["route_handler"].opt.get("needs", "read")
        use(language_of(scope, self._prefix))
        who = await sync_to_thread(self._who, scope) if _shows_something(scope) else ANONYMOUS
        scope["user"] = who
        if not who.may(need):
            if who.anonymous and self._is_page(scope):
                await self._to_sign_in(scope, receive, send)
                return
            if who.anonymous:
                raise NotAuthorizedException(
                    "sign in, or send a token: Authorization: Bearer obs_…",
                    headers={"WWW-Authenticate": 'Bearer realm="observant"'},
                )
            who.must(need, f"this needs the permission to {_VERBS[need]}")
        if scope["method"] not in SAFE:
            # Signing in has a token of its own: it may not hang on the session it puts an end to.
            await self._refuse_forged(scope, receive, ANONYMOUS if need == "nothing" else who)
        await next_app(scope, receive, send)

    def _who(self, scope: HTTPScope) -> Identity:
        headers = {key: value for key, value in scope["headers"] if key in _CREDENTIALS}
        given = headers.get(b"authorization")
        if given is not None:  # whoever sends a token means it: the cookie is not looked at
            may_be_basic = scope["method"] in SAFE
            return self._access.of_token(_token_in(given.decode("latin-1"), basic=may_be_basic))
        if scope["route_handler"].opt.get("token_in_query"):
            token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
            if token:
                found = self._access.of_token(token)
                # It stands in an address, so it may be seen: one that can change things is void.
                return found if found.scope == "read" else ANONYMOUS
        secret = session_of(scope)
        return self._access.of_session(secret) if secret else ANONYMOUS

    async def _refuse_forged(self, scope: Scope, receive: Receive, who: Identity) -> None:
        """A change must have been meant: by a program with a token, or by a page of ours."""
        request: Request[Any, Any, Any] = Request(scope, receive)
        if request.headers.get("sec-fetch-site", "none") not in {"same-origin", "none"}:
            raise PermissionDeniedException("this came from another site")
        if who.csrf is None:
            return
        sent = request.headers.get(CSRF_HEADER)
        if sent is None and request.headers.get("content-type", "").startswith(_FORMS):
            sent = (await request.form()).get(CSRF_FIELD)
        if not isinstance(sent, str) or not self._access.is_csrf(who, sent):
            raise PermissionDeniedException(
                f"the form is too old, or not ours: load the page again ({CSRF_HEADER})"
            )

    def _is_page(self, scope: HTTPScope) -> bool:
        """Whether a person with a browser asks for a page."""
        accept = dict(scope["headers"]).get(b"accept", b"")
        inside = scope["path"].removeprefix(self._prefix)
        return (
            scope["method"] == "GET"
            and b"text/html" in accept
            and not inside.startswith(_FOR_PROGRAMS)
        )

    async def _to_sign_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = scope["query_string"].decode("latin-1")
        wanted = scope["path"] + (f"?{query}" if query else "")
        where = f"{self._sign_in}?next={quote(wanted, safe='')}"
        await ASGIRedirectResponse(path=where, status_code=303)(scope, receive, send)


_CREDENTIALS = {b"authorization"}
_FOR_PROGRAMS = ("/api/", "/feeds/", "/metrics")
_VERBS = {"read": "read", "write": "change things", "admin": "administer"}


def _token_in(authorization: str, *, basic: bool) -> str:
    """The token of an Authorization header: Bearer, or the password of Basic.

    Browsers send Basic on their own, also for pages of other sites: it is good for looking only.
    """
    kind, _, value = authorization.partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() == "basic" and basic:
        try:
            pair = base64.b64decode(value.strip(), validate=True).decode("latin-1")
        except binascii.Error:
            return ""
        return pair.partition(":")[2]
    return ""


def language_of(scope: Scope, prefix: str) -> str:
    """The language of a page: chosen by its address, chosen before, or wished by the browser.

    Programs are answered in English.
    """
    if scope["path"].removeprefix(prefix).startswith(_FOR_PROGRAMS):
        return "en"
    asked = parse_qs(scope["query_string"].decode("latin-1")).get("language", [""])[0]
    chosen = asked or cookie_of(scope, LANGUAGE) or ""
    if chosen in languages():
        return chosen
    return preferred(dict(scope["headers"]).get(b"accept-language", b"").decode("latin-1"))


def session_of(scope: Scope) -> str | None:
    """The secret of the session that a browser sent."""
    return cookie_of(scope, COOKIE)


def cookie_of(scope: Scope, wanted: str) -> str | None:
    """A cookie that a browser sent."""
    for key, value in scope["headers"]:
        if key == b"cookie":
            for part in value.decode("latin-1").split(";"):
                name, _, sent = part.strip().partition("=")
                if name == wanted and sent:
                    return sent
    return None
