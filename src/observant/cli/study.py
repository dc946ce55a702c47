"""`observant study`: questions that are asked now and then."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import click

from observant.cli import STUDIES
from observant.cli.options import Group

if TYPE_CHECKING:
    from click import Command, Context, HelpFormatter

__all__ = ["study"]


class _Studies(Group):
    """Lists commands without importing them."""

    def list_commands(self, ctx: Context) -> list[str]:
        del ctx
        return list(STUDIES)

    def get_command(self, ctx: Context, name: str) -> Command | None:
        del ctx
        if name not in STUDIES:
            return None
        command: Command = getattr(importlib.import_module(f"observant.cli.{name}"), name)
        return command

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(STUDIES.items()))


@click.group("study", cls=_Studies)
def study() -> None:
    """Ask what you ask now and then: of intervals, trends, a collection, an index, the papers.

    \b
    Examples:
      observant study intervals visits.csv --source https://example.org/
      observant study trend visits.csv
      observant study trace git ~/project -o updates.parquet
    """
