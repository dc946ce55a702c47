"""The command line: `observant COMMAND`. Each command is one thin file over the library.

Only click is loaded to print help; a command's own module is imported when it runs.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

__all__ = ["main"]

COMMANDS = {
    "demo": "Make a visit log, estimate from it, draw a picture: see it work.",
    "estimate": "How often does each source change? From a log of visits.",
    "intervals": "How long between updates? The whole distribution, not only the rate.",
    "trend": "Is it changing more, or less, than it did? Windows, drift, seasons.",
    "design": "How often, and how many times, must I look to know a rate?",
    "currency": "How current is a copy that is refreshed every so often?",
    "population": "How are the rates of a whole collection distributed?",
    "plan": "Whom to visit how often, for a budget?",
    "audit": "How current is an index that somebody else keeps?",
    "trace": "Real update times: from a git repository, a release list, a process.",
    "simulate": "What would a policy have achieved on these updates?",
    "reproduce": "Rebuild the tables and figures of the papers.",
}
"""The commands in the order in which they are listed, and what each answers."""


class _Commands(click.Group):
    """Lists commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        del ctx
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"observant.cli.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        import difflib

        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else " See 'observant --help'."
            ctx.fail(f"There is no command '{args[0]}'.{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="observant", message="observant %(version)s")
def cli() -> None:
    """Know how often your sources change, how current your copy is, and when to look again.

    \b
    Start here:
      observant demo                      see it work on made-up sources
      observant estimate visits.csv       how often does each source change?

    A visit log is a table with the columns source, time and changed (or digest, or
    last_modified), in Parquet, CSV or JSON Lines. Commands that answer take --json, and
    --plot where there is a picture.
    """


def main() -> Any:
    """Run the command line; a user's mistake is one line on standard error, never a traceback."""
    from observant.errors import ObservantError

    try:
        return cli.main(standalone_mode=False, prog_name="observant")
    except ObservantError as error:
        _complain(str(error))
        sys.exit(2)
    except click.exceptions.Abort:
        _complain("interrupted")
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.exceptions.Exit as leaving:
        sys.exit(leaving.exit_code)
    except BrokenPipeError:
        # The reader of our output has had enough (`| head`): leave quietly.
        sys.stderr.close()
        sys.exit(0)


def _complain(message: str) -> None:
    click.echo(f"{click.style('Error:', fg='red')} {message}", err=True)
