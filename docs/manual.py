"""The man page, made of the help texts: docs/observant.1.

    python docs/manual.py

`pip install` puts it where `man observant` finds it; tests/test_documentation.py sees to it that
it is up to date.
"""

import inspect
import re
from pathlib import Path

import click

from observant.cli import SECTIONS, cli

PAGE = Path(__file__).parent / "observant.1"


def page():
    context = click.Context(cli, info_name="observant")
    yield '.TH OBSERVANT 1 "" "observant" "User Commands"'
    yield from (".SH NAME", "observant \\- how often sources change, how current a copy is")
    yield from (".SH SYNOPSIS", ".B observant", "[\\fICOMMAND\\fR] [\\fIARGUMENTS\\fR]")
    yield from (".SH DESCRIPTION", *text(cli.help), ".SH OPTIONS", *options(cli))
    for section, commands in SECTIONS.items():
        yield f".SH {section.upper()}"
        for name in commands:
            yield from described(cli.get_command(context, name), name)
    yield from (".SH SHELL", *described(cli.get_command(context, "completion"), "completion"))
    yield from (".SH ENVIRONMENT", ".TP", "OBSERVANT_STORE", "The store, for want of --store.")
    yield from (".TP", "OBSERVANT_CONFIG", "The configuration, for want of --config.")
    yield from (".SH EXIT STATUS", "0: all is well. 1: an answer that is bad news. 2: a mistake.")
    yield "10: something changed (check --exit-code). 130: stopped by Ctrl-C."


def described(command, name):
    """A command with its options, or the commands of a group."""
    is_group = isinstance(command, click.Group)
    if not is_group or command.invoke_without_command:
        given = " ".join(p.make_metavar(click.Context(command)) for p in command.params
                         if isinstance(p, click.Argument))  # fmt: skip
        yield from (f".SS observant {name} {given}".rstrip(), *text(command.help))
        yield from options(command)
    if is_group:
        inner = click.Context(command)
        for part in command.list_commands(inner):
            yield from described(command.get_command(inner, part), f"{name} {part}")


def options(command):
    for option in command.params:
        if isinstance(option, click.Option):
            record = option.get_help_record(click.Context(command, **cli.context_settings))
            if record:
                yield from (".TP", f"\\fB{escaped(record[0])}\\fR", escaped(record[1]))


def text(help_):
    """Paragraphs; lines after a backspace stay as they are."""
    for part in inspect.cleandoc(help_ or "").split("\n\n"):
        kept = part.startswith("\b")
        lines = [escaped(line) for line in part.removeprefix("\b\n").splitlines()]
        yield from (".PP", *(("." + "nf", *lines, ".fi") if kept else lines))


def escaped(line):
    line = re.sub(r"\s+", " ", line) if not line.startswith(" ") else line
    line = line.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{line}" if line.startswith((".", "'")) else line


def made():
    return "\n".join(page()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(made(), "utf-8")
