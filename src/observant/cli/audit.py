"""`observant study audit`: how current is an index that somebody else keeps?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from observant.cli.console import named_format, print_json
from observant.cli.options import (
    confidence_option,
    format_option,
    plot_option,
    seed_option,
    time_unit_option,
    weibull_option,
)
from observant.cli.store_options import opened, store_options
from observant.cli.values import DURATION, DURATIONS, Integer, Number

if TYPE_CHECKING:
    from observant.currency.audit import Claims

__all__ = ["audit"]


@click.command("audit", short_help="How current is an index that somebody else keeps?")
@click.argument("claims", metavar="[CLAIMS]", required=False)
@click.option("--query", metavar="NAME", help="Audit the results of a standing query instead.")
@click.option(
    "--grace",
    type=DURATIONS,
    default="0d,1d,7d,30d",
    show_default=True,
    help="How late a copy may be and still count as current; one or more, with commas.",
)
@weibull_option
@click.option(
    "--target",
    type=Number(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    metavar="ALPHA",
    help="The currency whose grace tells the index's period.",
)
@confidence_option
@click.option(
    "--resamples",
    type=Integer(1),
    default=200,
    show_default=True,
    help="Bootstrap samples behind the intervals.",
)
@seed_option()
@format_option
@time_unit_option
@click.option(
    "--skew",
    type=DURATION,
    default="1d",
    show_default=True,
    help="Dates that differ by no more are the same: clocks and rounding.",
)
@plot_option("currency against the grace")
@store_options
def audit(
    claims: str | None,
    query: str | None,
    store: str | None,
    config: str | None,
    grace: list[float],
    skew: float,
    weibull: tuple[float, float] | None,
    format_: str | None,
    time_unit: str,
    as_json: bool,
    plot: str | None,
    **options: Any,
) -> None:
    """Measure how current an index is, from the dates it claims.

    CLAIMS is a Parquet, CSV or JSON Lines file (also .gz, .zst), or - for standard input, one row
    for each entry looked at:

    \b
      source            which one
      claimed_modified  when it was last modified, says the index
      actual_modified   when it was last modified, says the source itself
      checked_at        when you looked

    \b
    Examples:
      observant study audit claims.csv
      observant study audit claims.csv --grace 0d,1d,7d,30d --json
      observant study audit claims.parquet --skew 1h --weibull 1.4 152.2d
      observant study audit --query news

    An entry is current within a grace when every update it has missed is younger than the grace.
    Only the last update can be seen; older ones hide behind it, most of all for sources that change
    fast. The table shows the currency corrected for that, with its interval; the correction printed
    in Brewington's thesis (3.20), which is too strict; and the plain count, which is too kind.

    The index's period is that of an index visiting at regular times with the same currency; the
    population of sources is found from the claims, unless --weibull tells it.

    With --query the index is a standing query whose results carry dates, and the truth is what the
    results tell themselves; they must be watched.
    """
    from observant.currency.audit import audit_claims

    if (claims is None) == (query is None):
        raise click.UsageError("give either a file of claims, or --query NAME")
    answer = audit_claims(
        _read_claims(claims, format_, time_unit)
        if claims is not None
        else _query_claims(query or "", store, config),
        grace,
        skew=skew,
        population=weibull,
        **options,
    )
    if plot is not None:
        from observant.figures import audit_figure, save

        save(audit_figure(answer), plot)
    if as_json:
        print_json(answer.to_dict())
        return
    click.echo(f"{answer.rows_used:,} entries, {answer.stale:,} of them stale\n")
    click.echo(str(answer))
    for note in answer.notes:
        click.echo(f"note: {note}")


def _query_claims(name: str, store: str | None, config: str | None) -> Claims:
    from observant.observer.query_members import claims_of_query

    with opened(store, config) as (found, _):
        return claims_of_query(found, found.sources.find(name).name)


def _read_claims(file: str, format_: str | None, time_unit: str) -> Claims:
    from observant.currency.audit import COLUMNS, Claims
    from observant.formats import format_of, read_batches

    named_format([file], format_)
    if format_ is None:
        format_ = format_of(file)  # a bad name is better found before the file is looked for
    batches = read_batches(sys.stdin.buffer if file == "-" else file, COLUMNS, format_)
    return Claims.from_batches(batches, time_unit=time_unit, name=file)
