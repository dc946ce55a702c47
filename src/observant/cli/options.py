"""The options that several commands have, each written once: one name, one text, one unit.

Those of every command (`Shared`) are listed once, by `observant --help`; settings that few people
need (`Setting`) are given as `--set NAME=VALUE`. Options of large input are in `engine`. The order
in a command's help is: what it is about, how input is read, where the work is done, how the answer
is told, which store (`ORDER`).
"""

from __future__ import annotations

import difflib
import os
from functools import partial, wraps
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from observant.cli.values import BUDGET, DURATION, NETWORK, Choice, Integer, Number
from observant.errors import InputError
from observant.names import DUPLICATES, OBJECTIVES, SAMPLINGS, TABLE_FORMATS, TIME_UNITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.core import ParameterSource
    from click.shell_completion import CompletionItem

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


# -------------------------------------------------------------------------------------------------
# Commands that hold commands. They are listed in the order in which they were written; without
# one the help is shown; a misspelt one is told the nearest


_MANY = 9
"""So many commands are better read in the help."""


class Group(click.Group):
    """A group of commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            near = difflib.get_close_matches(args[0], known, n=1)
            few = f"; there are {', '.join(known)}" if len(known) < _MANY else ""
            hint = f"; did you mean {near[0]}?" if near else few
            ctx.fail(f"there is no command {args[0]!r}{hint}")
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, click.Group):
            _refuse_unused(ctx, f"{ctx.command_path} {name}", command)
        return name, command, rest


def _refuse_unused(ctx: click.Context, path: str, command: click.Command) -> None:
    """Options before the name of a command that it does not have are a mistake."""
    root, own = ctx.find_root(), {param.name for param in command.params}
    for param in root.command.params:
        given = param.name and root.get_parameter_source(param.name)
        if given and given.name == "COMMANDLINE" and param.expose_value and param.name not in own:
            ctx.fail(f"`{path}` takes no {param.opts[0]}: leave it out")


ORDER = (
    "--format", "--time-unit", "--skew", "--on-duplicate", "--engine", "--memory", "--spill",
    "--sort", "--descending", "--rows", "--limit", "--output", "--plot", "--store", "--config",
    "--json", "--help",
)  # fmt: skip


def together(*options: Decorator) -> Decorator:
    """Several options as one decorator."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


# -- of every command -----------------------------------------------------------------------------


class Inherited(click.Option):
    """An option that may stand before the name of the command, too."""

    def consume_value(self, ctx: click.Context, opts: Any) -> tuple[Any, ParameterSource]:
        found, origin = super().consume_value(ctx, opts)
        above = ctx.parent
        if origin.name == "DEFAULT":
            while above is not None:
                found, above = above.params.get(self.name or "") or found, above.parent
        return found, origin


class Shared(Inherited):
    """An option that every command takes; `observant --help` explains it once for all."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        names = [p.opts[0] for p in ctx.command.params if isinstance(p, Shared)]
        if self.opts[0] != names[-1]:
            return None
        few = len(names) == 1
        text = "Print JSON." if few else "Common to all commands: see observant --help."
        return ", ".join(names), text


def _shared(cls: type[click.Option]) -> tuple[Decorator, Decorator, Decorator]:
    store = "The store: a file, or postgresql://…  [default: observant.db]"
    config = "Configuration.  [default: observant.toml, if there is one]"
    path = click.Path(dir_okay=False)
    return (
        click.option("--store", metavar="FILE|URL", help=store, cls=cls),
        click.option("--config", type=path, metavar="FILE", help=config, cls=cls),
        click.option("--json", "as_json", is_flag=True, help="Print JSON.", cls=cls),
    )


shared_options = together(*_shared(click.Option))
"""Add --store, --config and --json to `observant` itself."""
store_options = together(*_shared(Shared))
"""Add them to a command."""
json_option = _shared(Shared)[-1]


# -- settings -------------------------------------------------------------------------------------


class Setting(click.Option):
    """A setting: `--set NAME=VALUE`. Those that few people need are hidden."""

    @property
    def shown(self) -> str:
        """Its name in `--set`."""
        return self.opts[0].removeprefix("--").removeprefix("no-")


class SettingCommand(click.Command):
    """A command with `--set`, which stands for the `Setting` of that name."""

    def settings(self) -> dict[str, Setting]:
        """What can be set, by name."""
        return {p.shown: p for p in self.params if isinstance(p, Setting)}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            args = list(self._spelled_out(ctx, args))
        return super().parse_args(ctx, args)

    def _spelled_out(self, ctx: click.Context, args: list[str]) -> Iterator[str]:
        old = {p.opts[0]: name for name, p in self.settings().items() if p.hidden}
        rest = iter(args)
        for word in rest:
            name, equals, value = word.partition("=")
            if name == "--set":
                yield from self._option(ctx, value if equals else next(rest, ""))
            else:
                if name in old:
                    click.echo(f"`{name}` is `--set {old[name]}=…` now.", err=True)
                yield word
            if word == "--":
                yield from rest

    def _option(self, ctx: click.Context, given: str) -> Iterator[str]:
        """The option that `--set` stands for."""
        key, equals, value = given.partition("=")
        name = key.strip().lower().replace("_", "-")
        known = self.settings()
        if given == "help":
            formatter = ctx.make_formatter()
            named = [(n + "=no" * p.is_flag, p.help or "") for n, p in known.items() if p.hidden]
            formatter.write_dl(named)
            click.echo(formatter.getvalue().rstrip())
            ctx.exit()
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else "--set help lists them"
            ctx.fail(f"--set: there is no setting {key!r}; {hint}")
        if not equals:
            ctx.fail(f"--set: {name} needs a value: --set {name}=…")
        is_flag = known[name].is_flag
        if is_flag and value not in {"", "no", "yes"}:
            ctx.fail(f"--set: {name} is yes or no, not {value!r}")
        if is_flag and value == "no":
            yield known[name].opts[0]
        elif value and not is_flag:
            yield f"--{name}={value}"
        elif any(p.name == "unset" for p in self.params):
            yield f"--unset={name}"
        elif not value:
            ctx.fail(f"--set: {name} needs a value: --set {name}=…")


class _SettingName(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    name = "setting"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        known = ctx.command.settings() if isinstance(ctx.command, SettingCommand) else {}
        return [CompletionItem(f"{n}=") for n in known if n.startswith(incomplete)]


set_option = click.option(
    "--set",
    "set_",
    type=_SettingName(),
    multiple=True,
    expose_value=False,
    metavar="NAME=VALUE",
    help="Another setting, such as xpath=//h1; --set help explains them. May be given again.",
)


# -- what is asked --------------------------------------------------------------------------------


def budget_option(default: str = "") -> Decorator:
    """Add --budget; `default` is what holds without one."""
    return click.option(
        "--budget",
        type=BUDGET,
        help=_text("Visits to make, 1000/day or 2/s; or their cost, 1000 cost/day.", default),
    )


def objective_option(
    *, default: str | None = None, shown: str = "", among: Any = OBJECTIVES
) -> Decorator:
    """Add --objective; `shown` is a default that the configuration sets."""
    return click.option(
        "--objective",
        type=Choice(among),
        default=default,
        help=_text("What the budget is spent for.", shown),
    )


def grace_option(*, text: bool = False, shown: str = "", **more: Any) -> Decorator:
    """Add --grace; with `text` it is kept as it was written."""
    return click.option(
        "--grace",
        **{"type": DURATION.kept() if text else DURATION, **more},
        help=_text("How late a copy may be and still count as current.", shown),
    )


def group_option() -> Decorator:
    return click.option(
        "--group",
        metavar="COLUMN",
        help="Pool within the groups of this column; 'host' takes the host of URLs.",
    )


def seed_option(default: int | None = 1, *, shown: str = "") -> Decorator:
    return click.option(
        "--seed",
        type=Integer(0),
        default=default,
        help=_text("Random seed; the same seed gives the same answer.", shown),
    )


def several(
    *names: str, text: str, option: Callable[..., Decorator] = click.option, **more: Any
) -> Decorator:
    """Add an option that may be given again, as its help says after `text`."""
    return option(*names, multiple=True, help=f"{text}; may be given again.", **more)


def list_option(name: str = "list_") -> Decorator:
    return click.option(
        "--list", name, is_flag=True, help="List the names to choose from, and stop."
    )


confidence_option = click.option(
    "--confidence",
    type=Number(0, 1, min_open=True, max_open=True),
    default=0.95,
    help="Confidence level of the intervals.",
)
weibull_option = click.option(
    "--weibull",
    type=(Number(0, min_open=True), DURATION.above_zero()),
    metavar="SHAPE SCALE",
    help="A population whose mean times between updates are Weibull: 1.4 152.2d.",
)
min_period_option = partial(
    click.option, "--min-period", type=DURATION.kept(), help="Never visit more often than this."
)
max_period_option = partial(
    click.option, "--max-period", type=DURATION.kept(), help="Never wait longer than this."
)
robots_option = partial(
    click.option,
    "--no-robots",
    is_flag=True,
    help="Do not obey robots.txt (your own sites, say).",
)
since_option = click.option(
    "--since",
    metavar="TIME",
    help="Leave out visits before this time: 2026-01-31, or 30d for the last 30 days.",
)
until_option = click.option("--until", metavar="TIME", help="Leave out visits from this time on.")
start_option = click.option(
    "--start", metavar="TIME", help="When watching began.  [default: the first update]"
)
end_option = click.option(
    "--end", metavar="TIME", help="When watching ended.  [default: the last update]"
)


# -- how input is read ----------------------------------------------------------------------------

visits_argument = click.argument("visits", nargs=-1, required=True, metavar="VISITS...")
format_option = click.option(
    "--format",
    "format_",
    type=Choice(TABLE_FORMATS),
    help="Format of the input, if its name does not show it (standard input, for example).",
)
time_unit_option = click.option(
    "--time-unit",
    type=Choice(TIME_UNITS),
    default="s",
    help="Unit of times that are numbers, since 1970.",
)
reading_options = together(
    format_option,
    time_unit_option,
    click.option(
        "--skew",
        type=DURATION,
        default="1d",
        help="How far last_modified may lie after its visit before it is set aside.",
    ),
    click.option(
        "--on-duplicate",
        type=Choice(DUPLICATES),
        default="error",
        help="Two visits to one source at one time: stop, or keep the first or last.",
    ),
)


# -- visiting -------------------------------------------------------------------------------------

sampling_option = click.option(
    "--sampling",
    type=Choice(SAMPLINGS),
    help="How gaps vary: even, or mixed, so that the visit log shows the distribution of intervals "
    "inside a period; a quarter more copies may be stale.  [default: even]",
)
allow_option = click.option(
    "--allow",
    multiple=True,
    type=NETWORK,
    help="A private network that may be reached: 192.168.1.0/24. May be given again.",
)
contact_option = click.option(
    "--contact", metavar="ADDRESS", help="Your address, for the people whose servers you visit."
)
log_option = click.option(
    "--log", type=Choice(["text", "json"]), help="Format of the log on standard error."
)
verbose_option = click.option("--verbose", "-v", is_flag=True, help="Log every visit.")


# -- how the answer is told -----------------------------------------------------------------------


def output_option(what: str, *, more: str = "", **given: Any) -> Decorator:
    """Add -o, saying what is written; `more` are formats beyond those of every table."""
    formats = "Parquet, CSV, JSON Lines or " + more if more else "Parquet, CSV or JSON Lines"
    option = click.option(
        "--output",
        "-o",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help=f"Write {what} to FILE: {formats} by its ending.",
        **given,
    )

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def sparing(*words: Any, output: str | None, **options: Any) -> Any:
            _spare_input(output)
            return command(*words, output=output, **options)

        return option(sparing)

    return add


_WRITTEN = frozenset({"output", "plot"})
"""Options that name a file which is written."""


def _spare_input(output: str | None) -> None:
    """Refuse to write the answer over a file that the command reads: a log exists only once."""
    if output is None or not is_file(output):
        return
    for name, given in click.get_current_context().params.items():
        words = given if isinstance(given, tuple) else (given,)
        for word in () if name in _WRITTEN else words:
            if isinstance(word, str) and any(Path(file).samefile(output) for file in _files(word)):
                raise InputError(
                    "is what is read here, and would be written over; give -o another name",
                    file=output,
                )


def _files(word: str) -> list[str]:
    """The files that a word of the command line may name, also with wildcards."""
    if is_file(word):
        return [word]
    found = glob(word, recursive=True) if has_magic(word) else []  # noqa: PTH207 (absolute ones too)
    return [file for file in found if is_file(file)]


def is_file(word: str) -> bool:
    """Whether a word of the command line names a file: also if it is longer than any name."""
    return os.path.isfile(word)  # noqa: PTH113 (which Path.is_file does not answer)


def plot_option(what: str) -> Decorator:
    """Add --plot, saying what is drawn."""
    return click.option(
        "--plot",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help=f"Draw {what}: SVG, PNG or HTML by the ending of FILE.",
    )


signals_option = click.option(
    "--signals",
    metavar="FILE",
    help="A table of signals of change beside the visits: source and time, and optionally "
    "kind and changed_at. The visits show how far they can be trusted.",
)
rows_option = click.option(
    "--rows", type=Integer(0), default=20, help="How many rows to print at most."
)
limit_option = click.option(
    "--limit", type=Integer(1), default=50, help="How many to show at most."
)


def _text(help_: str, default: str) -> str:
    return f"{help_}  [default: {default}]" if default else help_
