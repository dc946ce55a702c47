"""`observant study`: what is asked now and then."""

from __future__ import annotations

import click

from observant.cli.options import Group
from observant.plugins import load

STUDIES = {
    "intervals": "How long between updates? The whole distribution.",
    "trend": "Does it change more or less often than before?",
    "population": "How are rates distributed, and how many links rot?",
    "design": "How often must I look to know a rate?",
    "audit": "How current is an index that somebody else keeps?",
    "trace": "Real update times: from your visits, git, release lists.",
    "reproduce": "Rebuild the tables and figures of the papers.",
}
"""The commands of `observant study`."""


class _Studies(Group):
    """Lists commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(STUDIES)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return load(f"observant.cli.{name}:{name}") if name in STUDIES else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(STUDIES.items()))


@click.group("study", cls=_Studies)
def study() -> None:
    """Studies for now and then: intervals, trends, a whole collection, an index, the papers.

    \b
    Examples:
      observant study intervals visits.csv --source https://example.org/
      observant study trend visits.csv
      observant study trace git ~/project -o updates.parquet
    """
