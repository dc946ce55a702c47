"""Commands that hold commands. They are listed in the order in which they were written; without one
the help is shown; a misspelt one is told the nearest.
"""

from __future__ import annotations

import difflib

import click

__all__ = ["Group"]

_MANY = 9
"""So many commands are better read in the help."""


class Group(click.Group):
    """A group of commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and self.no_args_is_help:
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], known, n=1)
            few = f"; there are {', '.join(known)}" if len(known) < _MANY else ""
            hint = f"; did you mean {near[0]}?" if near else few
            ctx.fail(f"there is no command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)
