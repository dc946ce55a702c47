"""What people see when something went wrong: the form to sign in again, or a page that says why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from observant.language import gettext as _
from observant.language import use
from observant.service.access.check import language_of
from observant.service.pages.render import page
from observant.service.pages.sign_in import sign_in_page

if TYPE_CHECKING:
    from litestar import Request, Response


def failure_page(
    request: Request[Any, Any, Any], status: int, title: str, detail: str, headers: dict[str, str]
) -> Response[str]:
    """A page for a person; the status stays what it is."""
    use(language_of(request.scope, request.app.state.prefix))  # nobody stands before no route
    path = request.scope["path"].removeprefix(request.app.state.prefix)
    if path == "/login":
        answer = sign_in_page(request, problem=detail or title, status=status)
    else:
        if status == 404 and detail == "Not Found":
            title, detail = _("page not found"), _("There is no page at this address.")
        answer = page(request, "error.html", status=status, title=title, detail=detail)
    answer.headers.update(headers)
    return answer
