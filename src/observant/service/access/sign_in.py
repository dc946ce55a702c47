"""Signing in and out with a form. The page with the form is in `observant.service.pages`."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

import msgspec
from litestar import Request, post
from litestar.datastructures import Cookie
from litestar.enums import RequestEncodingType
from litestar.exceptions import PermissionDeniedException
from litestar.params import Body
from litestar.response import Redirect, Response

from observant.service.access.check import COOKIE, session_of
from observant.service.access.identity import SESSION_SECONDS
from observant.service.access.rights import rule
from observant.service.access.secrets import csrf_token, same
from observant.service.forms import GivenAccess, GivenPrefix

SIGN_IN_COOKIE = "observant_sign_in"


class LoginForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the form sends."""

    name: str
    password: str
    csrf_token: str = ""
    next: str = ""


def sign_in_form(request: Request[Any, Any, Any], path: str = "/") -> tuple[str, Cookie]:
    """The hidden token of a form to sign in, and the cookie to set with the page: before there is
    a session, they keep other sites from signing somebody in as somebody else.
    """
    secret = request.cookies.get(SIGN_IN_COOKIE) or secrets.token_urlsafe(32)
    cookie = Cookie(
        key=SIGN_IN_COOKIE,
        value=secret,
        path=path,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
        max_age=3600,
    )
    return csrf_token(secret), cookie


@post(
    "/login",
    opt=rule("sign_in"),
    request_max_body_size=16 << 10,
    include_in_schema=False,
    sync_to_thread=True,
    status_code=303,
)
def login(
    request: Request[Any, Any, Any],
    data: Annotated[LoginForm, Body(media_type=RequestEncodingType.URL_ENCODED)],
    access: GivenAccess,
    prefix: GivenPrefix,
) -> Redirect:
    """Sign in: a new session, whatever session the browser came with."""
    planted = request.cookies.get(SIGN_IN_COOKIE, "")
    if not planted or not same(csrf_token(planted), data.csrf_token):
        raise PermissionDeniedException("the form is too old, or not ours: load the page again")
    request.state.entered = data  # the page that says what was wrong is filled in already
    secret = access.sign_in(
        data.name, data.password, client_address(request), old=session_of(request.scope)
    )
    return Redirect(
        inside(data.next, prefix),
        status_code=303,
        cookies=[session_cookie(request, secret, prefix)],
    )


@post(
    "/logout",
    opt=rule("sign_out"),
    include_in_schema=False,
    sync_to_thread=True,
    status_code=303,
)
def logout(
    request: Request[Any, Any, Any], access: GivenAccess, prefix: GivenPrefix
) -> Response[Any]:
    """Sign out."""
    secret = session_of(request.scope)
    if secret:
        access.sign_out(secret)
    response = Redirect(f"{prefix}/login", status_code=303)
    response.delete_cookie(COOKIE, path=prefix or "/")
    return response


def session_cookie(request: Request[Any, Any, Any], secret: str, prefix: str) -> Cookie:
    """The cookie that holds a session."""
    return Cookie(
        key=COOKIE,
        value=secret,
        path=prefix or "/",
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
        max_age=int(SESSION_SECONDS),
    )


def client_address(request: Request[Any, Any, Any]) -> str:
    """Where a request comes from, as far as the server below knows."""
    return request.client.host if request.client else ""


def inside(path: str, prefix: str) -> str:
    """A path within the service to go on to, never another site.

    >>> inside("/observant/sources", "/observant"), inside("//evil.example/", "")
    ('/observant/sources', '/')
    """
    fine = (
        path.startswith(f"{prefix}/")
        and not path.startswith("//")
        and "\\" not in path
        and path.isprintable()
        and path.isascii()
    )
    return path if fine else f"{prefix}/"
