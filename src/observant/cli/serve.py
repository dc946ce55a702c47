"""`observant serve`, and who may use it: accounts and tokens."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click

from observant.cli.options import (
    Group,
    allow_option,
    budget_option,
    contact_option,
    grace_option,
    log_option,
    objective_option,
    verbose_option,
)
from observant.cli.store_options import opened, picked, store_options
from observant.cli.values import Choice, Integer, Number
from observant.names import ROLES, SCOPES
from observant.times import iso

if TYPE_CHECKING:
    from observant.store import Store

__all__ = ["serve", "token", "user"]


@click.command("serve", short_help="Watch the sources, and show them in a browser.")
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Where to listen; others can reach 0.0.0.0.",
)
@click.option(
    "--port",
    type=Integer(0, 65_535),
    default=8321,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option("--prefix", default="", metavar="PATH", help="Path below which it is served.")
@click.option(
    "--proxy-headers",
    multiple=True,
    metavar="ADDRESS",
    help="A reverse proxy whose X-Forwarded headers are believed; may be given again.",
)
@click.option("--no-observer", is_flag=True, help="Only show; another process visits.")
@budget_option("1000/day")
@objective_option(shown="freshness")
@grace_option(text=True, shown="0d")
@allow_option
@contact_option
@log_option
@verbose_option
@store_options
def serve(
    host: str,
    port: int,
    prefix: str,
    proxy_headers: tuple[str, ...],
    no_observer: bool,
    verbose: bool,
    store: str | None,
    config: str | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Watch all sources and serve dashboard, API and feeds, until Ctrl-C.

    Nobody gets in without an account or a token. The first run makes an account and prints its
    password, once. It listens on loopback unless told otherwise. Prints its address to standard
    error, with --json to standard output.

    \b
    Examples:
      observant serve
      observant serve --host 0.0.0.0 --prefix /observant --proxy-headers 10.0.0.1
      observant serve --no-observer --store postgresql://…
    """
    import logging

    from observant.observer.loop import Observer
    from observant.observer.program import set_up_logging, take_up_config
    from observant.observer.settings import give_way
    from observant.service.server import Serving, is_loopback
    from observant.service.server import serve as run

    flags["allow"] = flags["allow"] or None
    serving = Serving(host=host, port=port, prefix=prefix, proxies=proxy_headers)

    def told(address: str, credentials: tuple[str, str] | None) -> None:
        if as_json:
            from observant.cli.console import print_json

            name, password = credentials or (None, None)
            print_json({"address": address, "name": name, "password": password})
            sys.stdout.flush()
            return
        click.echo(f"Serving at {address}", err=True)
        if credentials is not None:
            click.echo(
                f"First run: sign in as {credentials[0]!r} with the password {credentials[1]}\n"
                "It is shown only now. Change it: observant user password owner",
                err=True,
            )
        if not is_loopback(host) and not proxy_headers:
            click.echo(
                "Others can reach this address, and HTTP is not encrypted: put a reverse proxy "
                "with TLS before it.",
                err=True,
            )

    with opened(store, config, create=True, **flags) as (found, loaded):
        set_up_logging(loaded.log, logging.DEBUG if verbose else logging.INFO)
        take_up_config(found, loaded)
        give_way(found, flags)

        async def main() -> None:
            observer = None if no_observer else Observer(found, loaded)
            await run(found, loaded, serving, observer=observer, told=told)

        asyncio.run(main())


@click.group("user", cls=Group, short_help="Who may sign in?")
def user() -> None:
    """Keep the accounts of the service: owners administer, editors change, viewers look.

    \b
    Examples:
      observant user add mary --role editor
      observant user password mary
    """


@user.command("add")
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
      observant user add mary --role editor
      observant user add robot < password.txt
    """
    from observant.cli.console import print_json

    password = _password()
    with opened(store, config, create=True) as (found, _):
        account = _access(found).add_account(name, role, password)
    if as_json:
        print_json({"name": account.name, "role": account.role})
    else:
        click.echo(f"{account.name} is {account.role} now.")


@user.command("list")
@store_options
def user_list(store: str | None, config: str | None, as_json: bool) -> None:
    """List the accounts, and when each last signed in.

    \b
    Examples:
      observant user list
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


@user.command("remove")
@click.argument("name")
@store_options
def user_remove(name: str, store: str | None, config: str | None, as_json: bool) -> None:
    """Remove an account, with its sessions and tokens.

    \b
    Examples:
      observant user remove mary
    """
    from observant.cli.console import print_json

    with opened(store, config) as (found, _):
        found.accounts.remove(name)
    if as_json:
        print_json({"removed": name})
    else:
        click.echo(f"{name} is removed.")


@user.command("password")
@click.argument("name")
@store_options
def user_password(name: str, store: str | None, config: str | None, as_json: bool) -> None:
    """Set a new password, and end all sessions of the account.

    The password is asked for, or read as a line from standard input.

    \b
    Examples:
      observant user password mary
    """
    from observant.cli.console import print_json

    password = _password()
    with opened(store, config) as (found, _):
        _access(found).change_account(name, password=password)
    if as_json:
        print_json({"changed": name})
    else:
        click.echo(f"{name} has a new password; all its sessions have ended.")


@click.group("token", cls=Group, short_help="Which programs may use the API?")
def token() -> None:
    """Keep the tokens of programs, who send them as `Authorization: Bearer obs_…`.

    A token may read, write (add, change and visit sources) or administer.

    \b
    Examples:
      observant token create backup --scope read --days 90
    """


@token.command("create")
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
      observant token create backup --scope read --days 90
    """
    from observant.cli.console import print_json

    with opened(store, config, create=True) as (found, _):
        row, secret = _access(found).new_token(name, scope, days=days)
    if as_json:
        expires = iso(row.expires_at)
        print_json({"id": row.id, "scope": row.scope, "secret": secret, "expires_at": expires})
    else:
        click.echo(secret)


@token.command("list")
@store_options
def token_list(store: str | None, config: str | None, as_json: bool) -> None:
    """List the tokens, without their secrets.

    \b
    Examples:
      observant token list
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


@token.command("revoke")
@click.argument("number", type=int)
@store_options
def token_revoke(number: int, store: str | None, config: str | None, as_json: bool) -> None:
    """Take a token back, by the number that the list shows.

    \b
    Examples:
      observant token revoke 3
    """
    from observant.cli.console import print_json
    from observant.errors import InputError

    with opened(store, config) as (found, _):
        if not found.tokens.revoke(number):
            raise InputError(f"there is no token {number}: observant token list")
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
