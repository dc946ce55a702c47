"""`observant study audit`: how current is an index that somebody else keeps?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from observant.cli.console import named_format, print_json, print_table, tell_notes
from observant.cli.options import (
    allow_option,
    confidence_option,
    format_option,
    plot_option,
    seed_option,
    several,
    time_unit_option,
    weibull_option,
)
from observant.cli.store_options import Common, store_options
from observant.cli.values import DURATION, DURATIONS, Integer, Number
from observant.units import format_duration

if TYPE_CHECKING:
    from observant.currency.audit import Audit, Claims


@click.command("audit", short_help="How current is an index that somebody else keeps?")
@click.argument("claims", metavar="[CLAIMS]...", nargs=-1)
@several("--query", "queries", metavar="NAME", text="Audit the results of a standing query instead")
@click.option(
    "--indexes",
    metavar="FILE",
    help="Put random queries to these indexes: TOML, a table each with url, items, date.",
)
@click.option(
    "--draw-from",
    "terms",
    metavar="FILE",
    help="With --indexes: the queries to draw from, one per line.",
)
@click.option(
    "--sample",
    type=Integer(1),
    default=20,
    help="With --indexes: how many queries each index gets, the same for all.",
)
@allow_option
@click.option(
    "--grace",
    type=DURATIONS,
    default="0d,1d,7d,30d",
    help="How late a copy may be and still count as current; one or more, with commas.",
)
@weibull_option
@click.option(
    "--target",
    type=Number(0, 1, min_open=True, max_open=True),
    default=0.95,
    metavar="ALPHA",
    help="The currency whose grace tells the index's period.",
)
@confidence_option
@click.option(
    "--resamples", type=Integer(1), default=200, help="Bootstrap samples behind the intervals."
)
@seed_option()
@format_option
@time_unit_option
@click.option(
    "--skew",
    type=DURATION,
    default="1d",
    help="Dates that differ by no more are the same: clocks and rounding.",
)
@plot_option("currency against the grace")
@store_options
def audit(
    claims: tuple[str, ...],
    queries: tuple[str, ...],
    indexes: str | None,
    terms: str | None,
    sample: int,
    allow: tuple[str, ...],
    common: Common,
    grace: list[float],
    skew: float,
    weibull: tuple[float, float] | None,
    format_: str | None,
    time_unit: str,
    plot: str | None,
    **options: Any,
) -> None:
    """Measure how current an index is, from the dates it claims.

    Compares several if you give several: files, standing queries, or --indexes to which random
    queries are put.

    CLAIMS is a Parquet, CSV or JSON Lines file (also .gz, .zst), or - for standard input, one row
    for each entry looked at:

    \b
      source            which one
      claimed_modified  when it was last modified, says the index
      actual_modified   when it was last modified, says the source itself
      checked_at        when you looked

    \b
    Examples:
      observant study audit claims.csv --grace 0d,1d,7d,30d --json
      observant study audit claims.parquet --skew 1h --weibull 1.4 152.2d
      observant study audit --query news
      observant study audit --indexes engines.toml --draw-from queries.txt --sample 50

    An entry is current within a grace when every update it has missed is younger than the grace.
    Only the last update can be seen; older ones hide behind it, most of all for sources that change
    fast. The table shows the currency corrected for that, with its interval; the correction printed
    in Brewington's thesis (3.20), which is too strict; and the plain count, which is too kind.

    The index's period is that of an index visiting at regular times with the same currency; the
    population of sources is found from the claims, unless --weibull gives it.

    With --query the index is a standing query whose results carry dates, and the truth is what the
    results tell themselves; they must be watched.
    """
    from observant.currency.audit import audit_claims

    if bool(claims) + bool(queries) + (indexes is not None) != 1:
        raise click.UsageError("give either files of claims, --query NAME, or --indexes FILE")
    if (indexes is None) != (terms is None):
        raise click.UsageError("--indexes and --draw-from go together")
    if indexes is not None:
        found = _asked(indexes, terms or "", sample, options["seed"], common.config, allow)
    else:
        found = {name: _query_claims(name, common) for name in queries}
        found |= {name: _read_claims(name, format_, time_unit) for name in claims}
    answers = {
        name: audit_claims(one, grace, skew=skew, population=weibull, **options)
        for name, one in found.items()
    }
    if plot is not None:
        from observant.figures import audit_figure, save

        save(audit_figure(answers), plot)
    if len(answers) > 1:
        _compare(answers, common.as_json)
        return
    (answer,) = answers.values()
    if common.as_json:
        print_json(answer.to_dict())
        return
    click.echo(f"{answer.rows_used:,} entries, {answer.stale:,} of them stale\n")
    click.echo(str(answer))
    tell_notes(answer.notes)


def _compare(answers: dict[str, Audit], as_json: bool) -> None:
    """Several indexes side by side, a row a grace."""
    if as_json:
        print_json({name: answer.to_dict() for name, answer in answers.items()})
        return
    first = next(iter(answers.values()))
    rows = [
        (
            format_duration(grace),
            *(f"{a.alpha[i]:.3f} ({a.low[i]:.3f} to {a.high[i]:.3f})" for a in answers.values()),
        )
        for i, grace in enumerate(first.grace_days.tolist())
    ]
    rows.append(
        (
            f"{first.target:g} at",
            *(_reached(a) for a in answers.values()),
        )
    )
    rows.append(("entries", *(f"{a.rows_used:,}, {a.stale:,} stale" for a in answers.values())))
    print_table(("grace", *answers), rows)
    for name, answer in answers.items():
        for note in answer.notes:
            click.echo(f"note: {name}: {note}")


def _reached(answer: Audit) -> str:
    return format_duration(answer.crossing_days) if answer.crossing_days >= 0 else "?"


def _asked(
    indexes: str, terms: str, sample: int, seed: int, config: str | None, allow: tuple[str, ...]
) -> dict[str, Claims]:
    import asyncio

    from observant.cli.console import progress_bar, text_of
    from observant.errors import InputError
    from observant.observer.config import load_config
    from observant.observer.connections import make_transport
    from observant.observer.query_sample import ask_indexes, read_indexes

    known, words = read_indexes(indexes), text_of(terms).splitlines()
    words = [word.strip() for word in words if word.strip()]
    if not words:
        raise InputError("has no query", file=terms)
    loaded = load_config(config, {"allow": allow} if allow else {})

    async def ask() -> dict[str, Claims]:
        with progress_bar("asking", "percent", 100) as advance:
            done = 0

            def tick(share: float) -> None:
                nonlocal done
                advance(int(100 * share) - done)
                done = int(100 * share)

            async with make_transport(loaded) as transport:
                return await ask_indexes(
                    transport, known, words, sample=sample, seed=seed, tick=tick
                )

    return asyncio.run(ask())


def _query_claims(name: str, common: Common) -> Claims:
    from observant.observer.query_members import claims_of_query

    with common.opened() as (found, _):
        return claims_of_query(found, found.sources.find(name).name)


def _read_claims(file: str, format_: str | None, time_unit: str) -> Claims:
    from observant.currency.audit import COLUMNS, Claims
    from observant.formats import format_of, read_batches

    named_format([file], format_)
    if format_ is None:
        format_ = format_of(file)  # a bad name is better found before the file is looked for
    batches = read_batches(sys.stdin.buffer if file == "-" else file, COLUMNS, format_)
    return Claims.from_batches(batches, time_unit=time_unit, name=file)
