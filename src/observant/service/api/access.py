# ruff: noqa: TC001, TC002 (Litestar looks at the types of a handler)
"""Sessions, accounts and tokens."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, delete, get, patch, post, put
from litestar.exceptions import PermissionDeniedException
from litestar.params import JSONBody, PathParameter
from litestar.types import ControllerRouterHandler
from msgspec import Meta

from observant.service.access import Access, Identity
from observant.service.access.guarding import COOKIE, identity_of, session_of
from observant.service.access.secrets import LONGEST, SHORTEST
from observant.service.access.signing_in import client_address, session_cookie
from observant.service.answers import AccountItem, NewToken, SessionView, TokenItem, instant
from observant.service.api.routes import LARGEST_CREDENTIALS, LARGEST_ID, spec
from observant.service.collection.base import MissingError
from observant.service.given import GivenAccess, GivenPrefix
from observant.store.accounts import LONGEST_ACCOUNT, Account, TokenRow

__all__ = ["access_handlers"]

Number = Annotated[int, PathParameter(ge=1, le=LARGEST_ID)]
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_ACCOUNT)]
Password = Annotated[str, Meta(min_length=SHORTEST, max_length=LONGEST)]
Role = Literal["viewer", "editor", "owner"]


class _Entered(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Credentials(_Entered, frozen=True, kw_only=True):
    """To sign in."""

    name: Annotated[str, Meta(max_length=LONGEST_ACCOUNT)]
    password: Annotated[str, Meta(max_length=LONGEST)]


class NewPassword(_Entered, frozen=True, kw_only=True):
    """One's own password, before and after."""

    old: Annotated[str, Meta(max_length=LONGEST)]
    new: Password


class NewAccount(_Entered, frozen=True, kw_only=True):
    """Somebody who may sign in."""

    name: Name
    role: Role
    password: Password


class AccountChanges(_Entered, frozen=True, kw_only=True):
    """A new role or password; either ends all sessions of the account."""

    role: Role | None = None
    password: Password | None = None


class TokenRequest(_Entered, frozen=True, kw_only=True):
    """A token to be made, with no more than its maker's own permission."""

    name: Name
    scope: Literal["read", "write", "admin"] = "read"
    days: Annotated[float, Meta(gt=0, le=36_500)] | None = None


@get("/session", **spec("read", "session", topic="access"))
def session(request: Request[Any, Any, Any]) -> SessionView:
    """Who is asking, and the token that changes must carry."""
    return _view(identity_of(request))


@post(
    "/session",
    request_max_body_size=LARGEST_CREDENTIALS,
    **spec("nothing", "sign_in", topic="access"),
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
        _view(access.of_session(secret)),
        cookies=[session_cookie(request, secret, prefix)],
    )


@delete("/session", **spec("read", "sign_out", topic="access"))
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


@put("/session/password", **spec("read", "change_password", topic="access", status_code=204))
def change_password(
    request: Request[Any, Any, Any], access: GivenAccess, data: JSONBody[NewPassword]
) -> None:
    """Set a new password of one's own; all sessions end."""
    who = identity_of(request)
    if who.csrf is None:
        raise PermissionDeniedException("only somebody who has signed in has a password")
    secret = access.sign_in(who.name, data.old, client_address(request))
    access.sign_out(secret)
    access.change_account(who.name, password=data.new)


@get("/accounts", **spec("admin", "accounts", topic="access"))
def accounts(access: GivenAccess) -> list[AccountItem]:
    """Who may sign in."""
    return [_account(account) for account in access.store.accounts()]


@post("/accounts", **spec("admin", "add_account", topic="access"))
def add_account(access: GivenAccess, data: JSONBody[NewAccount]) -> AccountItem:
    """Add somebody who may sign in."""
    return _account(access.add_account(data.name, data.role, data.password))


@patch("/accounts/{number:int}", **spec("admin", "update_account", topic="access"))
def update_account(
    access: GivenAccess, number: Number, data: JSONBody[AccountChanges]
) -> AccountItem:
    """Give an account another role or password; all its sessions end."""
    name = _numbered(access, number).name
    return _account(access.change_account(name, role=data.role, password=data.password))


@delete("/accounts/{number:int}", **spec("admin", "remove_account", topic="access"))
def remove_account(access: GivenAccess, number: Number) -> None:
    """Remove an account with its sessions and tokens."""
    access.store.remove_account(_numbered(access, number).name)


@get("/tokens", **spec("read", "tokens", topic="access"))
def tokens(request: Request[Any, Any, Any], access: GivenAccess) -> list[TokenItem]:
    """One's own tokens, without their secrets; all of them for those who administer."""
    return [_token(row) for row in _visible(identity_of(request), access)]


@post("/tokens", **spec("read", "create_token", topic="access"))
def create_token(
    request: Request[Any, Any, Any], access: GivenAccess, data: JSONBody[TokenRequest]
) -> NewToken:
    """Make a token for a program. Its secret is shown this once."""
    who = identity_of(request)
    if not who.may(data.scope):
        raise PermissionDeniedException(f"you may not {data.scope} yourself")
    if who.csrf is None and not who.may("admin"):
        raise PermissionDeniedException("a token makes no tokens, unless it may administer")
    owner = who.name if access.store.account(who.name) is not None else None
    row, secret = access.new_token(data.name, data.scope, account=owner, days=data.days)
    return NewToken(token=_token(row), secret=secret)


@delete("/tokens/{number:int}", **spec("read", "revoke_token", topic="access"))
def revoke_token(request: Request[Any, Any, Any], access: GivenAccess, number: Number) -> None:
    """Take a token back: one's own, or any for those who administer."""
    who = identity_of(request)
    if who.csrf is None and not who.may("admin"):
        raise PermissionDeniedException("a token revokes no tokens, unless it may administer")
    if number not in {row.id for row in _visible(who, access)}:
        raise MissingError(f"there is no token {number}")
    access.store.revoke_token(number)


def _visible(who: Identity, access: Access) -> list[TokenRow]:
    mine = who.may("admin")
    return [row for row in access.store.tokens() if mine or row.account == who.name]


def _view(who: Identity) -> SessionView:
    return SessionView(name=who.name, role=who.role, scope=who.scope, csrf=who.csrf)


def _numbered(access: Access, number: int) -> Account:
    for account in access.store.accounts():
        if account.id == number:
            return account
    raise MissingError(f"there is no account {number}")


def _account(account: Account) -> AccountItem:
    return AccountItem(
        id=account.id,
        name=account.name,
        role=account.role,
        created_at=instant(account.created_at),
        signed_in_at=instant(account.signed_in_at),
    )


def _token(row: TokenRow) -> TokenItem:
    return TokenItem(
        id=row.id,
        name=row.name,
        scope=row.scope,
        account=row.account,
        created_at=instant(row.created_at),
        expires_at=instant(row.expires_at),
        used_at=instant(row.used_at),
    )


def access_handlers() -> list[ControllerRouterHandler]:
    return [
        session,
        sign_in,
        sign_out,
        change_password,
        accounts,
        add_account,
        update_account,
        remove_account,
        tokens,
        create_token,
        revoke_token,
    ]
