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
    "demo": "See it work: a synthetic web, watched for a minute by the real observer.",
    "add": "Watch these addresses, a list of them, a feed, or the pages of a sitemap.",
    "run": "Watch all sources within a budget, until you stop it.",
    "serve": "Watch the sources, and show them in a browser.",
    "list": "Which sources are watched, how often do they change, when are they due?",
    "show": "Everything about one source.",
    "check": "Visit a source now.",
    "diff": "What changed between two versions of a source?",
    "pause": "Stop visiting sources for a while.",
    "resume": "Go on visiting them.",
    "remove": "Stop watching sources.",
    "query": "Standing queries: lists whose results are tracked.",
    "subscribe": "Be told of changes: by webhook, e-mail, or Apprise.",
    "subscriptions": "Who is told of what?",
    "notifications": "What was told, and what could not be?",
    "settings": "Budget, objective and grace; everything entered, out and in.",
    "user": "Who may sign in?",
    "token": "Which programs may use the API?",
    "import": "Take in visits that other tools have kept: archives, crawlers, watchers, feeds.",
    "export": "Write visits, changes or sources to a file, while visits go on.",
    "backup": "Write the whole store to one file, while visits go on.",
    "restore": "Fill a store from a backup.",
    "doctor": "Is the store sound?",
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

_TOGETHER = {
    "add": "adding:add",
    "run": "running:run",
    "serve": "serving:serve",
    "user": "serving:user",
    "token": "serving:token",
    "query": "querying:query",
    "subscribe": "notifying:subscribe",
    "subscriptions": "notifying:subscriptions",
    "notifications": "notifying:notifications",
    "import": "importing:import_",
    "check": "running:check",
    "list": "watching:list_",
    "show": "watching:show",
    "diff": "watching:diff",
    "pause": "watching:pause",
    "resume": "watching:resume",
    "remove": "watching:remove",
    "export": "keeping:export",
    "backup": "keeping:backup",
    "restore": "keeping:restore",
    "doctor": "keeping:doctor",
}
"""Commands that share a module. Any other has one of its own name."""


class _Commands(click.Group):
    """Lists commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        del ctx
        if name not in COMMANDS:
            return None
        module, _, attribute = _TOGETHER.get(name, f"{name}:{name}").partition(":")
        found = importlib.import_module(f"observant.cli.{module}")
        command: click.Command = getattr(found, attribute)
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
      observant demo                      see it work on a synthetic web
      observant add https://example.org/  watch a page ...
      observant serve                     ... and all others, in your browser
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
