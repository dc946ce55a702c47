"""`observant access`: the accounts of people, and the tokens of programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from observant.cli.options import Group
from observant.cli.store_options import Common, picked, store_options
from observant.cli.values import Choice, Number
from observant.names import ROLES, SCOPES
from observant.times import iso

if TYPE_CHECKING:
    from observant.store import Store


@click.group(
    "access",
    cls=Group,
    invoke_without_command=True,
    short_help="Who may sign in, and which programs?",
)
@store_options
@click.pass_context
def access(ctx: click.Context, common: Common) -> None:
    """List the accounts of people; add and remove them, and the tokens of programs.

    Owners administer, editors change, viewers look. A program sends its token as `Authorization:
    Bearer obs_…`; a token may read, write (add, change and visit sources) or administer.

    \b
    Examples:
      observant access
      observant access add mary --role editor
      observant access token backup --scope read --days 90
    """
    if ctx.invoked_subcommand is not None:
        return
    with common.opened() as (found, _):
        accounts = found.accounts.list()
    lines = [
        f"{a.role:>7}  {a.name}  signed in: {iso(a.signed_in_at) or 'never'}" for a in accounts
    ]
    nobody = () if lines else ("No accounts yet; `observant serve` makes that of the owner.",)
    told = [picked(a, "name role created_at signed_in_at") for a in accounts]
    common.tell(told, *lines, *nobody)


@access.command("add")
@click.argument("name")
@click.option("--role", type=Choice(ROLES), default="viewer", help="What the account may do.")
@store_options
def user_add(name: str, role: str, common: Common) -> None:
    """Add an account.

    The password is asked for, or read from a line of standard input.

    \b
    Examples:
      observant access add mary --role editor
      observant access add robot < password.txt
    """
    password = _password()
    with common.opened(create=True) as (found, _):
        account = _access(found).add_account(name, role, password)
    given = {"name": account.name, "role": account.role}
    common.tell(given, f"{account.name} is {account.role} now.")


@access.command("remove")
@click.argument("name")
@store_options
def user_remove(name: str, common: Common) -> None:
    """Remove an account, with its sessions and tokens.

    \b
    Examples:
      observant access remove mary
    """
    with common.opened() as (found, _):
        found.accounts.remove(name)
    common.tell({"removed": name}, f"{name} is removed.")


@access.command("password")
@click.argument("name")
@store_options
def user_password(name: str, common: Common) -> None:
    """Set a new password, and end all sessions of the account.

    The password is asked for, or read from a line of standard input.

    \b
    Examples:
      observant access password mary
    """
    password = _password()
    with common.opened() as (found, _):
        _access(found).change_account(name, password=password)
    ended = f"{name} has a new password; all its sessions have ended."
    common.tell({"changed": name}, ended)


@access.command("token", short_help="Make, list and revoke the tokens of programs.")
@click.argument("name", required=False)
@click.option("--scope", type=Choice(SCOPES), default="read", help="What the token may do.")
@click.option(
    "--days", type=Number(0, min_open=True), help="How many days it is valid.  [default: for ever]"
)
@click.option("--list", "list_", is_flag=True, help="List the tokens, without their secrets.")
@click.option("--revoke", is_flag=True, help="Revoke a token; NAME is its number in the list.")
@store_options
def token(
    name: str | None,
    scope: str,
    days: float | None,
    list_: bool,
    revoke: bool,
    common: Common,
) -> None:
    """Make a token called NAME, and print its secret, which is shown only once.

    \b
    Examples:
      observant access token backup --scope read --days 90
      observant access token --list
      observant access token 3 --revoke
    """
    from observant.errors import InputError

    if not list_ and not name:
        raise click.UsageError("NAME is missing: of the new token, or its number with --revoke")
    with common.opened(create=not (list_ or revoke)) as (found, _):
        if list_:
            rows = found.tokens.list()
            lines = [
                f"{row.id:>4}  {row.scope:<5}  {row.name}  used: {iso(row.used_at) or 'never'}"
                for row in rows
            ]
            fields = "id name scope account created_at expires_at used_at"
            common.tell([picked(row, fields) for row in rows], *lines)
        elif revoke:
            if not (name or "").isdecimal() or not found.tokens.revoke(int(name or "")):
                raise InputError(f"there is no token {name}: observant access token --list")
            common.tell({"revoked": int(name or "")}, f"Token {name} is revoked.")
        else:
            row, secret = _access(found).new_token(name, scope, days=days)
            expires = {"secret": secret, "expires_at": iso(row.expires_at)}
            common.tell({"id": row.id, "scope": row.scope, **expires}, secret)


def _access(store: Store) -> Any:
    from observant.service.access import Access

    return Access(store)


def _password() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
    return sys.stdin.readline().rstrip("\n")
