"""Settings, export and import, tokens and accounts."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath

from observant.errors import DeniedError, MissingError, ObservantError
from observant.names import OBJECTIVES
from observant.notifications.channels.mail import MailServer
from observant.observer.settings import SettingsChanges
from observant.service.access import Access
from observant.service.access.check import identity_of
from observant.service.access.secrets import SHORTEST
from observant.service.access.sign_in import client_address
from observant.service.answers import AccountItem, TokenItem
from observant.service.collection import Collection
from observant.service.collection.export import CollectionDocument
from observant.service.forms import Form, GivenAccess, GivenCollection, GivenForm, number_in
from observant.service.pages.render import back_to, page
from observant.service.pages.routes import CANNOT, Asked, changing, reading
from observant.store.accounts import ROLES, SCOPES


@get("/settings", **reading("settings"))
def settings(request: Asked, collection: GivenCollection) -> Response[str]:
    """The settings in force, tokens, accounts."""
    return _page(request, collection)


@post("/settings", **changing("change_settings"))
def change(request: Asked, collection: GivenCollection, form: GivenForm) -> Response[Any]:
    """Change budget, objective, grace or retention."""
    try:
        collection.settings.change(_changes(form))
    except CANNOT as error:
        return _page(request, collection, problem=str(error))
    return back_to(request, "/settings", "applied")


@post("/settings/import", **changing("import_document"))
def take_in(request: Asked, collection: GivenCollection, form: GivenForm) -> Response[Any]:
    """Take in a document that was exported."""
    sent = form.files.get("document")
    try:
        text = b"" if sent is None else sent.file.read()
        found = collection.document.import_(msgspec.json.decode(text, type=CollectionDocument))
    except CANNOT as error:
        return _page(request, collection, problem=f"this was not imported: {error}")
    if found.refused:
        first = found.refused[0]
        told = (
            f"{found.added} added, {found.changed} changed, {len(found.refused)} refused: "
            f"{first.what}: {first.reason}"
        )
        return _page(request, collection, problem=told)
    return back_to(request, "/settings", "imported")


@get("/settings/export", **reading("export"))
def export(request: Asked, collection: GivenCollection) -> Response[bytes]:
    """Everything that was entered, as a file; secrets only for those who administer."""
    secrets = bool(request.query_params.get("secrets"))
    found = collection.document.export(secrets=secrets, who=identity_of(request))
    return Response(
        msgspec.json.format(msgspec.json.encode(found), indent=2),
        media_type="application/json",
        headers={"Content-Disposition": 'attachment; filename="observant.json"'},
    )


@post("/settings/mail", **changing("set_mail"))
def set_mail(request: Asked, collection: GivenCollection, form: GivenForm) -> Response[Any]:
    """Enter the server for e-mail."""
    try:
        fields: dict[str, Any] = {key: form[key] for key in ("host", "user", "password", "sender")}
        fields |= {"port": int(number_in(form, "port", 0.0)), "security": form["security"]}
        collection.subscriptions.set_mail(msgspec.convert(fields, MailServer))
    except CANNOT as error:
        return _page(request, collection, problem=str(error))
    return back_to(request, "/settings", "saved")


@post("/settings/mail/test", **changing("test_mail"))
def try_mail(request: Asked, collection: GivenCollection, form: GivenForm) -> Response[Any]:
    """Send a test message to an address."""
    try:
        tried = collection.subscriptions.test_mail(form["to"])
    except CANNOT as error:
        return _page(request, collection, problem=str(error))
    if not tried.ok:
        problem = f"The test message was not delivered: {tried.error}"
        return _page(request, collection, problem=problem)
    return back_to(request, "/settings", "tried")


@post("/settings/tokens", **changing("create_token"))
def create_token(
    request: Asked, collection: GivenCollection, access: GivenAccess, form: GivenForm
) -> Response[Any]:
    """Make a token for a program; its secret is shown this once."""
    try:
        days = number_in(form, "days", None)
        _, secret = access.create_token(identity_of(request), form["name"], form["scope"], days)
    except CANNOT as error:
        return _page(request, collection, problem=str(error))
    return _page(request, collection, secret=secret)


@post("/settings/tokens/{number:int}/revoke", **changing("revoke_token"))
def revoke_token(request: Asked, access: GivenAccess, number: FromPath[int]) -> Response[Any]:
    """Take a token back: one's own, or any for those who administer."""
    access.revoke_token(identity_of(request), number)
    return back_to(request, "/settings", "token-removed")


@post("/settings/password", **changing("change_password"))
def own_password(
    request: Asked, collection: GivenCollection, access: GivenAccess, form: GivenForm
) -> Response[Any]:
    """Set a new password of one's own; all sessions end."""
    who = identity_of(request)
    try:
        access.change_password(who, form["old"], form["new"], client_address(request))
    except DeniedError:
        raise
    except ObservantError as error:
        return _page(request, collection, problem=str(error))
    return back_to(request, "/login")


@post("/settings/accounts", **changing("update_account"))
def save_account(
    request: Asked, collection: GivenCollection, access: GivenAccess, form: GivenForm
) -> Response[Any]:
    """Add somebody who may sign in, or give them another role or password."""
    name, role, password = form["name"], form["role"], form["password"]
    try:
        if access.store.accounts.get(name) is None:
            access.add_account(name, role, password)
        else:
            access.change_account(name, role=role, password=password or None)
    except ObservantError as error:
        return _page(request, collection, problem=str(error))
    return back_to(request, "/settings", "account")


@post("/settings/accounts/{number:int}/remove", **changing("remove_account"))
def remove_account(
    request: Asked, collection: GivenCollection, access: GivenAccess, number: FromPath[int]
) -> Response[Any]:
    """Remove an account with its sessions and tokens."""
    try:
        access.store.accounts.remove(access.account(number).name)
    except MissingError:
        raise
    except ObservantError as error:
        return _page(request, collection, problem=str(error))
    return back_to(request, "/settings", "account-removed")


def _page(
    request: Asked, collection: Collection, *, problem: str = "", secret: str = ""
) -> Response[str]:
    access: Access = request.app.state.access
    who = identity_of(request)
    accounts = access.store.accounts.list() if who.may("admin") else []
    return page(
        request,
        "settings.html",
        status=422 if problem else 200,
        view=collection.settings.get(),
        objectives=list(dict.fromkeys([*OBJECTIVES, collection.given.objective])),
        tokens=[TokenItem.of(row) for row in access.tokens(who)],
        accounts=[AccountItem.of(account) for account in accounts],
        roles=ROLES,
        mail=collection.subscriptions.mail() if who.may("admin") else None,
        securities={"starttls": "STARTTLS", "tls": "TLS", "none": "none"},
        scopes=[scope for scope in SCOPES if who.may(scope)],
        shortest=SHORTEST,
        secret=secret,
        problem=problem,
    )


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
