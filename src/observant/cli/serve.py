"""`observant serve`: watch the sources, and show them in a browser."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click

from observant.cli.add import budget_in_words
from observant.cli.options import (
    allow_option,
    budget_option,
    contact_option,
    grace_option,
    log_option,
    objective_option,
    sampling_option,
    several,
    verbose_option,
)
from observant.cli.store_options import Common, store_options
from observant.cli.values import Integer


@click.command("serve", short_help="Watch the sources, and show them in a browser.")
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    help="Where to listen; others can reach 0.0.0.0.",
)
@click.option(
    "--port", type=Integer(0, 65_535), default=8321, help="Port to listen on; 0 takes a free one."
)
@click.option(
    "--prefix",
    default="",
    show_default=False,
    metavar="PATH",
    help="Path below which it is served.",
)
@several(
    "--proxy-headers",
    metavar="ADDRESS",
    text="A reverse proxy whose X-Forwarded headers are believed",
)
@click.option("--no-observer", is_flag=True, help="Only show; another process makes the visits.")
@budget_option("grows with the sources")
@objective_option(shown="freshness")
@grace_option(text=True, shown="0d")
@sampling_option
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
    common: Common,
    **flags: Any,
) -> None:
    """Watch all sources and serve dashboard, API and feeds, until Ctrl-C.

    Nobody gets in without an account or a token. The first run creates an account and prints its
    password, once. It listens on loopback unless --host says otherwise. Prints its address to
    standard error, with --json to standard output.

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
        if common.as_json:
            from observant.cli.console import print_json

            name, password = credentials or (None, None)
            print_json({"address": address, "name": name, "password": password})
            sys.stdout.flush()
            return
        click.echo(f"Serving at {address}", err=True)
        if credentials is not None:
            click.echo(
                f"First run: sign in as {credentials[0]!r} with the password {credentials[1]}\n"
                "It is shown only now. Change it: observant access password owner",
                err=True,
            )
        if not is_loopback(host) and not proxy_headers:
            click.echo(
                "Others can reach this address, and HTTP is not encrypted: put a reverse proxy "
                "with TLS before it.",
                err=True,
            )

    with common.opened(create=True, **flags) as (found, loaded):
        set_up_logging(loaded.log, logging.DEBUG if verbose else logging.INFO)
        take_up_config(found, loaded)
        give_way(found, flags)

        if not no_observer and (pace := budget_in_words(found, loaded)):
            click.echo(pace, err=True)

        async def main() -> None:
            observer = None if no_observer else Observer(found, loaded)
            await run(found, loaded, serving, observer=observer, told=told)

        asyncio.run(main())
