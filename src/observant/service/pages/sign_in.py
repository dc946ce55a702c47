"""The page to sign in. The form goes to `observant.service.access.sign_in`."""

from __future__ import annotations

from typing import Any

from litestar import Response, get

from observant.service.access import Access
from observant.service.access.check import identity_of
from observant.service.access.sign_in import LoginForm, inside, sign_in_form
from observant.service.pages.render import back_to, page
from observant.service.pages.routes import Asked, reading


@get("/login", **reading("sign_in"))
def sign_in(request: Asked) -> Response[Any]:
    """Sign in."""
    if not identity_of(request).anonymous:
        return back_to(request, "/")
    return sign_in_page(request)


def sign_in_page(request: Asked, *, problem: str = "", status: int = 200) -> Response[str]:
    """The form to sign in; after a failed attempt with the reason and what was entered."""
    state = request.app.state
    entered: LoginForm | None = request.state.get("entered")
    access: Access = state.access
    token, cookie = sign_in_form(request, state.prefix or "/")
    accounts = access.store.accounts.list()
    return page(
        request,
        "login.html",
        status=status,
        cookies=[cookie],
        sign_in_token=token,
        next=inside(
            entered.next if entered else request.query_params.get("next", ""), state.prefix
        ),
        name=entered.name if entered else "",
        problem=problem,
        first_run=all(account.signed_in_at is None for account in accounts),
    )
