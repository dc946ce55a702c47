# ruff: noqa: TC001, TC002 (Litestar looks at the types of a handler)
"""Settings, export and import, tokens and accounts."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from litestar import Request, Response, get, post
from litestar.exceptions import NotFoundException, PermissionDeniedException
from litestar.params import FromPath

from observant.errors import InputError, ObservantError
from observant.observer.settings import SettingsChanges
from observant.planning import OBJECTIVES
from observant.service.access import Access, Identity
from observant.service.access.guarding import identity_of
from observant.service.access.secrets import LONGEST, SHORTEST
from observant.service.answers import instant
from observant.service.collection import Collection
from observant.service.collection.transfer import Document
from observant.service.forms import number_in
from observant.service.given import GivenAccess, GivenCollection, GivenPrefix
from observant.service.pages.rendering import back_to, page
from observant.service.pages.routes import Form, changing, form_of, reading

__all__ = ["HANDLERS"]

ROLES = ("viewer", "editor", "owner")
SCOPES = ("read", "write", "admin")


@get("/settings", **reading())
def settings(request: Request[Any, Any, Any], collection: GivenCollection) -> Response[str]:
    """The settings in force, tokens, accounts."""
    return _page(request, collection)


@post("/settings", **changing())
async def change(
    request: Request[Any, Any, Any], collection: GivenCollection, prefix: GivenPrefix
) -> Response[Any]:
    """Change budget, objective, grace or retention."""
    form = await form_of(request)

    def work() -> Response[Any]:
        try:
            collection.change_settings(_changes(form))
        except (InputError, msgspec.ValidationError) as error:
            return _page(request, collection, problem=str(error))
        return back_to(prefix, "/settings", "applied")

    return await asyncio.to_thread(work)


@post("/settings/import", **changing())
async def take_in(
    request: Request[Any, Any, Any], collection: GivenCollection, prefix: GivenPrefix
) -> Response[Any]:
    """Take in a document that was exported."""
    form = await form_of(request)
    file = form.files.get("document")
    text = await file.read() if file is not None else b""

    def work() -> Response[Any]:
        try:
            document = msgspec.json.decode(text, type=Document)
            found = collection.import_(document)
        except (InputError, msgspec.MsgspecError) as error:
            return _page(request, collection, problem=f"this was not imported: {error}")
        if found.refused:
            first = found.refused[0]
            told = (
                f"{found.added} added, {found.changed} changed, {len(found.refused)} refused: "
                f"{first.what}: {first.reason}"
            )
            return _page(request, collection, problem=told)
        return back_to(prefix, "/settings", "imported")

    return await asyncio.to_thread(work)


@get("/settings/export", **reading())
def export(request: Request[Any, Any, Any], collection: GivenCollection) -> Response[bytes]:
    """Everything that was entered, as a file; secrets only for those who administer."""
    secrets = bool(request.query_params.get("secrets"))
    if secrets and not identity_of(request).may("admin"):
        raise PermissionDeniedException("secrets are for those who may administer")
    return Response(
        msgspec.json.format(msgspec.json.encode(collection.export(secrets=secrets)), indent=2),
        media_type="application/json",
        headers={"Content-Disposition": 'attachment; filename="observant.json"'},
    )


@post("/settings/tokens", **changing("read"))
async def create_token(
    request: Request[Any, Any, Any], collection: GivenCollection, access: GivenAccess
) -> Response[Any]:
    """Make a token for a program; its secret is shown this once."""
    form = await form_of(request)
    who = identity_of(request)

    def work() -> Response[Any]:
        try:
            secret = _new_token(access, who, form)
        except InputError as error:
            return _page(request, collection, problem=str(error))
        return _page(request, collection, secret=secret)

    return await asyncio.to_thread(work)


@post("/settings/tokens/{number:int}/revoke", **changing("read"))
async def revoke_token(
    request: Request[Any, Any, Any], access: GivenAccess, prefix: GivenPrefix, number: FromPath[int]
) -> Response[Any]:
    """Take a token back: one's own, or any for those who administer."""
    who = identity_of(request)

    def work() -> Response[Any]:
        if number not in {row.id for row in _tokens(access, who)}:
            raise NotFoundException("there is no such token")
        access.store.revoke_token(number)
        return back_to(prefix, "/settings", "token-removed")

    return await asyncio.to_thread(work)


@post("/settings/password", **changing("read"))
async def own_password(
    request: Request[Any, Any, Any],
    collection: GivenCollection,
    access: GivenAccess,
    prefix: GivenPrefix,
) -> Response[Any]:
    """Set a new password of one's own; all sessions end."""
    from observant.service.access.signing_in import client_address

    form = await form_of(request)
    who = identity_of(request)

    def work() -> Response[Any]:
        try:
            password = _password(form, "new")
            access.sign_out(access.sign_in(who.name, form["old"], client_address(request)))
            access.change_account(who.name, password=password)
        except ObservantError as error:
            return _page(request, collection, problem=str(error))
        return back_to(prefix, "/login")

    return await asyncio.to_thread(work)


@post("/settings/accounts", **changing("admin"))
async def save_account(
    request: Request[Any, Any, Any],
    collection: GivenCollection,
    access: GivenAccess,
    prefix: GivenPrefix,
) -> Response[Any]:
    """Add somebody who may sign in, or give them another role or password."""
    form = await form_of(request)

    def work() -> Response[Any]:
        try:
            if access.store.account(form["name"]) is None:
                access.add_account(form["name"], form["role"], _password(form, "password"))
            else:
                password = _password(form, "password") if form["password"] else None
                access.change_account(form["name"], role=form["role"], password=password)
        except ObservantError as error:
            return _page(request, collection, problem=str(error))
        return back_to(prefix, "/settings", "account")

    return await asyncio.to_thread(work)


@post("/settings/accounts/{number:int}/remove", **changing("admin"))
async def remove_account(
    request: Request[Any, Any, Any],
    collection: GivenCollection,
    access: GivenAccess,
    prefix: GivenPrefix,
    number: FromPath[int],
) -> Response[Any]:
    """Remove an account with its sessions and tokens."""

    def work() -> Response[Any]:
        names = [one.name for one in access.store.accounts() if one.id == number]
        if not names:
            raise NotFoundException("there is no such account")
        try:
            access.store.remove_account(names[0])
        except ObservantError as error:
            return _page(request, collection, problem=str(error))
        return back_to(prefix, "/settings", "account-removed")

    return await asyncio.to_thread(work)


def _page(
    request: Request[Any, Any, Any],
    collection: Collection,
    *,
    problem: str = "",
    secret: str = "",
) -> Response[str]:
    access: Access = request.app.state.access
    who = identity_of(request)
    return page(
        request,
        "settings.html",
        status=422 if problem else 200,
        view=collection.settings(),
        objectives=list(OBJECTIVES),
        tokens=[_dated(row, "created_at", "expires_at", "used_at") for row in _tokens(access, who)],
        accounts=[_dated(one, "created_at", "signed_in_at") for one in access.store.accounts()]
        if who.may("admin")
        else [],
        roles=ROLES,
        scopes=[scope for scope in SCOPES if who.may(scope)],
        shortest=SHORTEST,
        secret=secret,
        problem=problem,
    )


def _tokens(access: Access, who: Identity) -> list[Any]:
    rows = access.store.tokens()
    return [row for row in rows if who.may("admin") or row.account == who.name]


def _dated(row: Any, *names: str) -> dict[str, Any]:
    """A row for the page, with instants that can be shown."""
    shown = {name: getattr(row, name) for name in ("id", "name")}
    for name in ("scope", "account", "role"):
        shown[name] = getattr(row, name, None)
    return shown | {name: instant(getattr(row, name)) for name in names}


def _changes(form: Form) -> SettingsChanges:
    # An empty field goes back to what the configuration file says.
    values: dict[str, Any] = {key: form[key] or None for key in ("budget", "grace", "objective")}
    retention = {
        "max_age": form["max_age"] or None,
        "max_versions": int(number_in(form, "max_versions", 0.0)) or None,
        "max_bytes": int(number_in(form, "max_megabytes", 0.0) * 1e6) or None,
    }
    values["retention"] = retention if any(retention.values()) else None
    return msgspec.convert(values, SettingsChanges)


def _new_token(access: Access, who: Identity, form: Form) -> str:
    if form["scope"] not in SCOPES or not who.may(form["scope"]):
        raise InputError("choose a permission that you have yourself")
    if who.csrf is None:
        raise InputError("a token makes no tokens here")
    days = number_in(form, "days", None)
    return access.new_token(form["name"], form["scope"], account=who.name, days=days)[1]


def _password(form: Form, key: str) -> str:
    found = form[key]
    if not SHORTEST <= len(found) <= LONGEST:
        raise InputError(f"a password has from {SHORTEST} to {LONGEST} characters")
    return found


HANDLERS = [
    settings, change, take_in, export, create_token, revoke_token, own_password, save_account,
    remove_account,
]  # fmt: skip
