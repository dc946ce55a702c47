"""The command line: `observant COMMAND`. Each command is one thin file over the library.

Only click is loaded to print help; a command's own module is imported when it runs.
"""

from __future__ import annotations

import difflib
import errno
import os
import sys
from pathlib import Path
from typing import Any

import click

from observant import __version__
from observant.cli.options import Group, Setting, shared_options
from observant.cli.study import STUDIES
from observant.plugins import load

__all__ = ["main"]

SECTIONS = {
    "Watch": {
        "add": "Watch these addresses, a list of them, a feed, or a sitemap's pages.",
        "serve": "Watch the sources, and show them in a browser.",
        "run": "Watch the sources within a budget, without a browser.",
        "list": "Which sources are watched, and how often do they change?",
        "show": "Everything about one source, or the results of a query.",
        "check": "Visit a source now.",
        "signal": "Say that sources may have changed.",
        "diff": "What changed between two versions of a source?",
        "edit": "Change the settings of sources, pause and resume them.",
        "remove": "Stop watching sources.",
        "query": "Standing queries: lists whose results are tracked.",
    },
    "Tell": {
        "notify": "Who is notified of changes, and what could not be delivered?",
    },
    "Keep": {
        "import": "Import visits recorded by archives, crawlers, watchers and feeds.",
        "store": "Export, back up, restore and check the store.",
        "settings": "Budget, objective and grace; everything entered, out and in.",
        "access": "Who may sign in, and which programs may use the API?",
    },
    "Estimate": {
        "estimate": "How often does each source change?",
    },
    "Plan": {
        "currency": "How current is a copy that is refreshed every so often?",
        "plan": "How often should each source be visited, for a budget?",
    },
    "Study": {
        "demo": "See what planning is worth.",
        "simulate": "What would a policy have achieved on these updates?",
        "study": "Intervals, trends, populations, audits, traces, the papers.",
    },
}
"""The commands by what one wants of them, in the order in which they are listed."""

COMMANDS = {name: answers for section in SECTIONS.values() for name, answers in section.items()}
"""All of them, and what each answers."""

_HOMES = {
    "check": "run:check",
    "import": "imports:import_",
    "store": "store:store_group",
    "list": "sources:list_",
    "show": "sources:show",
    "diff": "sources:diff",
    "edit": "add:edit",
    "remove": "sources:remove",
}
"""Commands that are not the name of a module of their own name."""

_QUERY = {"add": "query", "list": "query", "show": "show", "remove": "remove"}
OLD = {
    **{name: f"study {name}" for name in STUDIES},
    **{name: f"store {name}" for name in ("export", "backup", "restore", "doctor")},
    **{name: f"edit --{name}" for name in ("pause", "resume")},
    "preview": "add --preview",
    **{f"query {name}": new for name, new in _QUERY.items()},
    "settings show": "settings",
    "subscribe": "notify add",
    **{f"subscriptions {name}": f"notify {name}" for name in ("change", "remove", "test")},
    "subscriptions list": "notify",
    "notifications log": "notify log",
    "notifications retry": "notify log --retry",
    "notifications dead": "notify log --state dead",
    **{f"user {name}": f"access {name}" for name in ("add", "remove", "password")},
    "user list": "access",
    "token create": "access token",
    "token list": "access token --list",
    "token revoke": "access token --revoke",
    **dict.fromkeys(("subscriptions", "notifications"), "notify"),
    **dict.fromkeys(("user", "token"), "access"),
}
"""Spellings of 0.1, and what they are now. They go with the next release."""


class _Commands(Group):
    """Lists commands without importing them, in sections."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS and name != "completion":
            return None
        command: click.Command = load(f"observant.cli.{_HOMES.get(name, f'{name}:{name}')}")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        for words in (args[:2], args[:1]):
            if new := OLD.get(" ".join(words)):
                click.echo(f"`observant {' '.join(words)}` is `observant {new}` now.", err=True)
                args = [*new.split(), *args[len(words) :]]
                break
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(f"{name:<{width}}", told) for name, told in commands.items()])


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, message="observant %(version)s")
@shared_options
@click.pass_context
def cli(ctx: click.Context, store: str | None, config: str | None, as_json: bool) -> None:
    """Know how often your sources change, how current your copy is, and when to look again.

    \b
    Start here:
      observant demo                      see what planning is worth
      observant add https://example.org/  watch a page ...
      observant serve                     ... and all others, in your browser
      observant estimate visits.csv       how often does each source change?

    A visit log is a table with the columns source, time and changed (or digest, or last_modified),
    in Parquet, CSV or JSON Lines. Options of every command may stand before its name or after it.
    `observant` alone says what to do next.
    """
    if ctx.invoked_subcommand is None:
        from observant.cli.first import what_next

        told = what_next(store, config)
        if as_json:
            from observant.cli.console import print_json

            print_json({"next": told.splitlines()})
        else:
            click.echo(told)


_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Why a file that standard output goes to may take no more."""


def main() -> Any:
    """Run the command line; a user's mistake is one line on standard error, never a traceback."""
    from observant.cli.console import Inert
    from observant.errors import ObservantError

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us: nobody wants to hear it
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 (for as long as we run)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that knows no α shows a ?
    sys.stdout, sys.stderr = Inert.of(sys.stdout), Inert.of(sys.stderr)
    output = sys.stdout
    try:
        answer = cli.main(standalone_mode=False, prog_name="observant")
        sys.stdout.flush()  # what could not be printed is complained of while it can be
    except ObservantError as error:
        _complain(str(error))
    except click.exceptions.Exit as leaving:
        sys.exit(leaving.exit_code)
    except click.exceptions.Abort:
        click.echo("Stopped.", err=True)
        sys.exit(130)
    except click.ClickException as error:
        _complain(_one_line(error))
    except SystemExit as leaving:
        # click meets a closed pipe by wrapping the stream, and leaves with 1.
        sys.exit(leaving.code if sys.stdout is output else 0)
    except BrokenPipeError:
        # The reader of our output has had enough (`| head`): leave quietly.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
    except OSError as error:
        if error.filename is None:
            if error.errno not in _NO_ROOM:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            _complain(f"the answer cannot be printed: {error.strerror}")
            sys.exit(2)
        _complain(f"{os.fsdecode(error.filename)}: cannot be used: {error.strerror}")
    except ImportError as error:
        from observant.plugins import needed

        if needed(error) is error:
            raise
        _complain(str(needed(error)))
    except MemoryError:
        _complain(
            "this needs more memory than there is: ask for less, or where a command has it "
            "work with --engine disk"
        )
    else:
        return answer
    sys.exit(2)


_ALIKE = 0.7
"""How much alike two names of options must be for one to be a misspelling of the other."""


def _one_line(error: click.ClickException) -> str:
    """What click complains of, with the option in front and where to read on behind."""
    context = getattr(error, "ctx", None)
    told = error.format_message()
    if isinstance(error, click.NoSuchOption):
        likely = difflib.get_close_matches(error.option_name, error.possibilities or (), 1, _ALIKE)
        near = f"; did you mean {likely[0]}?" if likely else ""
        told = f"there is no option {error.option_name}{near}"
    elif isinstance(error, click.BadParameter) and error.param is not None:
        param = error.param
        name = param.opts[0] if isinstance(param, click.Option) else param.human_readable_name
        name = f"--set {param.shown}" if isinstance(param, Setting) and param.hidden else name
        missing = isinstance(error, click.MissingParameter)
        told = f"{name} is missing" if missing else f"{name}: {error.message}"
    return f"{told.rstrip('.')} (see {context.command_path} --help)" if context else told


def _complain(message: str) -> None:
    from observant.cli.console import beneath, inert

    told = f"{click.style('Error:', fg='red')} {inert(' '.join(message.split()))}"
    click.echo(told, file=beneath(sys.stderr))
