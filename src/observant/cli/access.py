"""`observant access`: the accounts of people, and the tokens of programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from observant.cli.options import Group
from observant.cli.store_options import opened, picked, store_options
from observant.cli.values import Choice, Number
from observant.names import ROLES, SCOPES
from observant.times import iso

if TYPE_CHECKING:
    from observant.store import Store

__all__ = ["access"]


@click.group("access", cls=Group, short_help="Who may sign in, and which programs?")
def access() -> None:
    """Keep the accounts of people and the tokens of programs.

    Owners administer, editors change, viewers look. A program sends its token as `Authorization:
    Bearer obs_…`; a token may read, write (add, change and visit sources) or administer.

    \b
    Examples:
      observant access add mary --role editor
      observant access token backup --scope read --days 90
    """


@access.command("add")
@click.argument("name")
@click.option(
    "--role",
    type=Choice(ROLES),
    default="viewer",
    show_default=True,
    help="What the account may do.",
)
@store_options
def user_add(name: str, role: str, store: str | None, config: str | None, as_json: bool) -> None:
    """Add an account.

    The password is asked for, or read as a line from standard input.

    \b
    Examples:
      observant access add mary --role editor
      observant access add robot < password.txt
    """
    from observant.cli.console import print_json

    password = _password()
    with opened(store, config, create=True) as (found, _):
        account = _access(found).add_account(name, role, password)
    if as_json:
        print_json({"name": account.name, "role": account.role})
    else:
        click.echo(f"{account.name} is {account.role} now.")


@access.command("list")
@store_options
def user_list(store: str | None, config: str | None, as_json: bool) -> None:
    """List the accounts, and when each last signed in.

    \b
    Examples:
      observant access list
    """
    from observant.cli.console import print_json

    with opened(store, config) as (found, _):
        accounts = found.accounts.list()
    if as_json:
        fields = "name role created_at signed_in_at"
        print_json([picked(account, fields) for account in accounts])
        return
    for account in accounts:
        last = iso(account.signed_in_at) or "never"
        click.echo(f"{account.role:>7}  {account.name}  signed in: {last}")


@access.command("remove")
@click.argument("name")
@store_options
def user_remove(name: str, store: str | None, config: str | None, as_json: bool) -> None:
    """Remove an account, with its sessions and tokens.

    \b
    Examples:
      observant access remove mary
    """
    from observant.cli.console import print_json

    with opened(store, config) as (found, _):
        found.accounts.remove(name)
    if as_json:
        print_json({"removed": name})
    else:
        click.echo(f"{name} is removed.")


@access.command("password")
@click.argument("name")
@store_options
def user_password(name: str, store: str | None, config: str | None, as_json: bool) -> None:
    """Set a new password, and end all sessions of the account.

    The password is asked for, or read as a line from standard input.

    \b
    Examples:
      observant access password mary
    """
    from observant.cli.console import print_json

    password = _password()
    with opened(store, config) as (found, _):
        _access(found).change_account(name, password=password)
    if as_json:
        print_json({"changed": name})
    else:
        click.echo(f"{name} has a new password; all its sessions have ended.")


@access.command("token")
@click.argument("name")
@click.option(
    "--scope",
    type=Choice(SCOPES),
    default="read",
    show_default=True,
    help="What the token may do.",
)
@click.option(
    "--days", type=Number(0, min_open=True), help="How long it is valid.  [default: for ever]"
)
@store_options
def token_create(
    name: str,
    scope: str,
    days: float | None,
    store: str | None,
    config: str | None,
    as_json: bool,
) -> None:
    """Make a token, and print its secret, which cannot be read again.

    \b
    Examples:
      observant access token backup --scope read --days 90
    """
    from observant.cli.console import print_json

    with opened(store, config, create=True) as (found, _):
        row, secret = _access(found).new_token(name, scope, days=days)
    if as_json:
        expires = iso(row.expires_at)
        print_json({"id": row.id, "scope": row.scope, "secret": secret, "expires_at": expires})
    else:
        click.echo(secret)


@access.command("tokens")
@store_options
def token_list(store: str | None, config: str | None, as_json: bool) -> None:
    """List the tokens, without their secrets.

    \b
    Examples:
      observant access tokens
    """
    from observant.cli.console import print_json

    with opened(store, config) as (found, _):
        rows = found.tokens.list()
    if as_json:
        fields = "id name scope account created_at expires_at used_at"
        print_json([picked(row, fields) for row in rows])
        return
    for row in rows:
        last = iso(row.used_at) or "never"
        click.echo(f"{row.id:>4}  {row.scope:<5}  {row.name}  used: {last}")


@access.command("revoke")
@click.argument("number", type=int)
@store_options
def token_revoke(number: int, store: str | None, config: str | None, as_json: bool) -> None:
    """Take a token back, by the number that the list shows.

    \b
    Examples:
      observant access revoke 3
    """
    from observant.cli.console import print_json
    from observant.errors import InputError

    with opened(store, config) as (found, _):
        if not found.tokens.revoke(number):
            raise InputError(f"there is no token {number}: observant access tokens")
    if as_json:
        print_json({"revoked": number})
    else:
        click.echo(f"Token {number} is revoked.")


def _access(store: Store) -> Any:
    from observant.service.access import Access

    return Access(store)


def _password() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
    return sys.stdin.readline().rstrip("\n")
