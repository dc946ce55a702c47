"""Sessions, accounts and tokens."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from litestar import Request, Response, delete, get, patch, post, put
from litestar.exceptions import PermissionDeniedException
from litestar.params import JSONBody, PathParameter
from msgspec import Meta

from observant.service.access.check import COOKIE, identity_of, session_of
from observant.service.access.secrets import LONGEST, SHORTEST
from observant.service.access.sign_in import client_address, session_cookie
from observant.service.answers import AccountItem, NewToken, SessionView, TokenItem
from observant.service.api.routes import LARGEST_CREDENTIALS, LARGEST_ID, specs_of
from observant.service.collection.entries import Entered
from observant.service.forms import GivenAccess, GivenPrefix
from observant.store.accounts import LONGEST_ACCOUNT

spec = specs_of("access")

Number = Annotated[int, PathParameter(ge=1, le=LARGEST_ID)]
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_ACCOUNT)]
Password = Annotated[str, Meta(min_length=SHORTEST, max_length=LONGEST)]
Role = Literal["viewer", "editor", "owner"]


class Credentials(Entered, frozen=True, kw_only=True):
    """To sign in."""

    name: Annotated[str, Meta(max_length=LONGEST_ACCOUNT)]
    password: Annotated[str, Meta(max_length=LONGEST)]


class NewPassword(Entered, frozen=True, kw_only=True):
    """One's own password, before and after."""

    old: Annotated[str, Meta(max_length=LONGEST)]
    new: Password


class NewAccount(Entered, frozen=True, kw_only=True):
    """Somebody who may sign in."""

    name: Name
    role: Role
    password: Password


class AccountChanges(Entered, frozen=True, kw_only=True):
    """A new role or password; either ends all sessions of the account."""

    role: Role | None = None
    password: Password | None = None


class TokenRequest(Entered, frozen=True, kw_only=True):
    """A token to be made, with no more than its maker's own permission."""

    name: Name
    scope: Literal["read", "write", "admin"] = "read"
    days: Annotated[float, Meta(gt=0, le=36_500)] | None = None


@get("/session", **spec("session"))
def session(request: Request[Any, Any, Any]) -> SessionView:
    """Who is asking, and the token that changes must carry."""
    return SessionView.of(identity_of(request))


@post(
    "/session",
    request_max_body_size=LARGEST_CREDENTIALS,
    **spec("sign_in"),
)
def sign_in(
    request: Request[Any, Any, Any],
    access: GivenAccess,
    prefix: GivenPrefix,
    data: JSONBody[Credentials],
) -> Response[SessionView]:
    """Sign in with a name and a password; the answer sets the cookie of a new session."""
    if request.content_type[0] != "application/json":
        raise PermissionDeniedException("sign in with application/json")
    secret = access.sign_in(
        data.name, data.password, client_address(request), old=session_of(request.scope)
    )
    return Response(
        SessionView.of(access.of_session(secret)),
        cookies=[session_cookie(request, secret, prefix)],
    )


@delete("/session", **spec("sign_out"))
def sign_out(
    request: Request[Any, Any, Any], access: GivenAccess, prefix: GivenPrefix
) -> Response[None]:
    """Sign out."""
    secret = session_of(request.scope)
    if secret:
        access.sign_out(secret)
    response: Response[None] = Response(None, status_code=204)
    response.delete_cookie(COOKIE, path=prefix or "/")
    return response


@put("/session/password", **spec("change_password", status_code=204))
def change_password(
    request: Request[Any, Any, Any], access: GivenAccess, data: JSONBody[NewPassword]
) -> None:
    """Set a new password of one's own; all sessions end."""
    access.change_password(identity_of(request), data.old, data.new, client_address(request))


@get("/accounts", **spec("accounts"))
def accounts(access: GivenAccess) -> list[AccountItem]:
    """Who may sign in."""
    return [AccountItem.of(account) for account in access.store.accounts.list()]


@post("/accounts", **spec("add_account"))
def add_account(access: GivenAccess, data: JSONBody[NewAccount]) -> AccountItem:
    """Add somebody who may sign in."""
    return AccountItem.of(access.add_account(data.name, data.role, data.password))


@patch("/accounts/{number:int}", **spec("update_account"))
def update_account(
    access: GivenAccess, number: Number, data: JSONBody[AccountChanges]
) -> AccountItem:
    """Give an account another role or password; all its sessions end."""
    name = access.account(number).name
    return AccountItem.of(access.change_account(name, role=data.role, password=data.password))


@delete("/accounts/{number:int}", **spec("remove_account"))
def remove_account(access: GivenAccess, number: Number) -> None:
    """Remove an account with its sessions and tokens."""
    access.store.accounts.remove(access.account(number).name)


@get("/tokens", **spec("tokens"))
def tokens(request: Request[Any, Any, Any], access: GivenAccess) -> list[TokenItem]:
    """One's own tokens, without their secrets; all of them for those who administer."""
    return [TokenItem.of(row) for row in access.tokens(identity_of(request))]


@post("/tokens", **spec("create_token"))
def create_token(
    request: Request[Any, Any, Any], access: GivenAccess, data: JSONBody[TokenRequest]
) -> NewToken:
    """Make a token for a program. Its secret is shown this once."""
    row, secret = access.create_token(identity_of(request), data.name, data.scope, data.days)
    return NewToken(token=TokenItem.of(row), secret=secret)


@delete("/tokens/{number:int}", **spec("revoke_token"))
def revoke_token(request: Request[Any, Any, Any], access: GivenAccess, number: Number) -> None:
    """Take a token back: one's own, or any for those who administer."""
    access.revoke_token(identity_of(request), number)
