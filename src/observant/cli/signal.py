"""`observant signal`: say that sources may have changed."""

from __future__ import annotations

import click

from observant.cli.store_options import Common, store_options


@click.command("signal", short_help="Say that sources may have changed.")
@click.argument("addresses", nargs=-1, metavar="[ADDRESS]...")
@click.option(
    "--file",
    "-f",
    "file",
    metavar="FILE",
    help="A file of addresses, one per line; - is standard input.",
)
@click.option(
    "--kind",
    default="ping",
    metavar="WORD",
    help="The sender; signals of one kind about one host are trusted alike.",
)
@store_options
def signal(
    addresses: tuple[str, ...],
    file: str | None,
    kind: str,
    common: Common,
) -> None:
    """Announce that sources may have changed. A running observer hears of it within seconds.

    A signal is not an order. It makes a visit more urgent, in proportion to how often signals of
    this kind about this host have been right, and costs no budget. Addresses that are not watched
    are counted and otherwise ignored.

    \b
    Examples:
      observant signal https://example.org/news
      git diff --name-only HEAD~1 | sed 's|^|https://docs.example.org/|' | observant signal -f -
      observant signal -f changed.txt --kind cms
    """
    import msgspec

    from observant.cli.console import text_of
    from observant.errors import InputError
    from observant.service.collection.entries import NewSignal
    from observant.units import counted

    named = list(addresses)
    if file:
        named += filter(None, map(str.strip, text_of(file).splitlines()))
    if not named:
        raise click.UsageError("give an ADDRESS, or a list of them: --file FILE (- for stdin)")
    try:
        given = msgspec.convert([{"url": one, "kind": kind} for one in named], list[NewSignal])
    except msgspec.ValidationError as error:
        raise InputError(f"this is no signal: {error}") from error
    with common.collected() as collection:
        answer = collection.signals.add(given)
    unknown = answer.signals - answer.watched
    left = f"; {unknown:,} not watched" if unknown else ""
    common.tell(answer, f"{counted(answer.watched, 'signal')} taken in{left}")
