"""`observant import`: visits that other tools have kept."""

from __future__ import annotations

import datetime as dt
import sys
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from observant.cli.console import print_json, print_table, progress_bar, when
from observant.cli.options import (
    Inherited,
    json_option,
    list_option,
    output_option,
    since_option,
    time_unit_option,
    until_option,
)
from observant.cli.values import ZONE, Choice
from observant.names import KEYS
from observant.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from observant.formats.imports import ImportOptions, Report, SourceDescription
    from observant.store import Source
    from observant.visits import VisitLog

_SAMPLES = 5
"""Refusals that are told."""


@click.command("import", short_help="Take in visits that other tools have kept.")
@click.argument("files", nargs=-1, metavar="[FILES]...")
@click.option(
    "--format", "format_", metavar="NAME", help="The format.  [default: found by looking]"
)
@list_option()
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option(
    "--accept",
    multiple=True,
    metavar="NAME",
    help="Accept an assumption that the evidence needs; a refusal and --dry-run name it. May be "
    "given again.",
)
@click.option(
    "--on-bad",
    type=Choice(["skip", "fail"]),
    default="skip",
    help="A malformed row: leave it out and count it, or stop.",
)
@click.option(
    "--map",
    "mapping",
    multiple=True,
    metavar="COLUMN=NAME",
    help="Which name in the file a column of the visit log has: --map source=url. May be given "
    "again.",
)
@click.option(
    "--key",
    type=Choice(KEYS),
    default="url",
    help="Name sources by URL, or by the key of an index (http and https are one).",
)
@click.option(
    "--zone",
    type=ZONE,
    help="Time zone of times that name none (UTC without this), or only an abbreviation.",
)
@time_unit_option
@since_option
@until_option
@output_option("the visits", more="CDXJ")
@click.option(
    "--store",
    cls=Inherited,
    metavar="FILE|URL",
    help="Watch the sources that the files describe or have visits to, in this store.",
)
@json_option
def import_(
    files: tuple[str, ...],
    format_: str | None,
    list_: bool,
    dry_run: bool,
    output: str | None,
    store: str | None,
    as_json: bool,
    **said: Any,
) -> None:
    """Import visits that other tools have recorded: archives, crawlers, watchers, feeds.

    FILES are paths or globs, compressed or not; a format is found by looking into each. The
    report says what the evidence can and cannot support. What cannot support rates (lists of
    changes only, collapsed indexes) is refused, unless you accept the assumption it names.

    \b
    Examples:
      observant import --list
      observant import crawl.cdxj.gz --dry-run
      observant import 'cdx-*.gz' -o visits.parquet --since 2026-01-01
      observant import backup.zip --store observant.db
    """
    from observant.formats import format_of
    from observant.formats.imports import examine

    if list_:
        _print_formats(as_json=as_json)
        return
    if not files:
        raise click.UsageError("give the files to import; --list shows the formats")
    if not dry_run and not output and not store:
        raise click.UsageError("say where the visits go (-o FILE or --store STORE), or --dry-run")
    if store and said["key"] == "surt":
        raise click.UsageError("a store names sources by their URLs: --key surt needs -o FILE")
    if output:
        format_of(output)  # a bad name is better found before the work than after
    options = _options(**said)
    given = [sys.stdin.buffer if name == "-" else name for name in files]
    with progress_bar("reading", "visits") as advance:
        if dry_run:
            report, log = examine(*given, format=format_, options=options, progress=advance), None
        else:
            report, log = _import(given, format_, options, advance, output, keep=bool(store))
    told: dict[str, Any] = {}
    if store and not dry_run:
        told = _watch(store, given, format_, options, log)
    if as_json:
        print_json(report.as_dict() | told)
        return
    _print_report(report, dry_run=dry_run)
    if output and not dry_run:
        click.echo(f"written to {output}")
    if store and told:
        from observant.cli.store_options import place

        click.echo(
            f"{counted(told['sources_added'], 'source')} added to {place(store)}, "
            f"{counted(told['visits_recorded'], 'visit')} recorded"
        )
        if told["sources_refused"]:
            number = counted(told["sources_refused"], "source")
            click.echo(f"note: {number} cannot be watched, for example")
        for reason in told["refusals"]:
            click.echo(f"  {reason}")


def _import(
    files: list[Any],
    format_: str | None,
    options: ImportOptions,
    advance: Any,
    output: str | None,
    *,
    keep: bool,
) -> tuple[Report, VisitLog | None]:
    """Read the visits, write them to the output, and with `keep` return them as a log."""
    from observant.errors import InputError
    from observant.formats import write_batches
    from observant.formats.imports import import_visits
    from observant.visits import LogReader

    visits = import_visits(*files, format=format_, options=options, progress=advance)
    reader = LogReader(on_duplicate="first")

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in visits:
            if keep:
                reader.add(batch)
            yield batch

    rest = batches()
    first = next(rest, None)
    if first is None:
        if output:
            raise InputError(
                f"there is no visit to write in {counted(visits.report.rows, 'row')}; see --dry-run"
            )
        return visits.report, None
    every = chain([first], rest)
    if output:
        write_batches(every, output)
    else:
        for _ in every:
            pass
    return visits.report, reader.finish() if keep else None


def _watch(
    store: str,
    files: list[Any],
    format_: str | None,
    options: ImportOptions,
    log: VisitLog | None,
) -> dict[str, Any]:
    """Watch the sources that the files describe or have visits to, and record the visits."""
    from observant.cli.store_options import Common
    from observant.errors import InputError
    from observant.formats.imports import SourceDescription, describe_sources
    from observant.observer.imported import take_in
    from observant.observer.program import add_sources

    found: dict[str, Source] = {}
    refused: dict[str, str] = {}
    with Common(store, None).opened(create=True) as (opened_store, config):

        def take(told: SourceDescription) -> None:
            try:
                source = _source(told)
                config.settings_of(source.tags, source.config, source.name, kind=source.kind)
                found[told.address] = source
            except InputError as error:
                refused[told.address] = str(error)

        for told in describe_sources(*files, format=format_, options=options):
            take(told)
        for name in [] if log is None else log.sources.to_pylist():
            if name not in found and name not in refused:
                take(SourceDescription(address=name))
        added = add_sources(
            opened_store, config, list({source.name: source for source in found.values()}.values())
        )
        recorded = 0
        if log is not None:
            names = {given: source.name for given, source in found.items()}
            with progress_bar("recording", "visits", total=len(log)) as advance:
                recorded = take_in(opened_store, log, names, advance)
    return {
        "sources_added": added,
        "visits_recorded": recorded,
        "sources_refused": len(refused),
        "refusals": list(refused.values())[:_SAMPLES],
    }


def _source(told: SourceDescription) -> Source:
    import msgspec

    from observant.observer.program import describe

    source = describe(
        told.address,
        kind=told.kind,
        title=told.title,
        tags=told.tags,
        importance=told.importance,
        settings=dict(told.settings),
    )
    return msgspec.structs.replace(source, state="paused") if told.paused else source


def _options(
    *,
    accept: tuple[str, ...],
    on_bad: str,
    mapping: tuple[str, ...],
    key: str,
    zone: str | None,
    time_unit: str,
    since: str | None,
    until: str | None,
) -> ImportOptions:
    from observant.errors import InputError
    from observant.formats.imports import ImportOptions
    from observant.visits.log import COLUMNS

    pairs = {}
    for pair in mapping:
        column, equals, name = pair.partition("=")
        if not equals or not name:
            raise InputError(f"a mapping is COLUMN=NAME, not {pair!r}")
        if column not in COLUMNS:
            raise InputError(f"no column {column!r}; the columns are {', '.join(COLUMNS)}")
        pairs[column] = name
    return ImportOptions(
        key=key,
        zone=zone,
        time_unit=time_unit,
        accept=frozenset(accept),
        on_bad=on_bad,
        mapping=pairs,
        earliest=None if since is None else when("--since", since),
        latest=None if until is None else when("--until", until),
    )


def _print_formats(*, as_json: bool) -> None:
    from observant.formats.imports import EVIDENCE, importers

    known = importers().values()
    if as_json:
        print_json(
            [
                {
                    "name": importer.name,
                    "title": importer.title,
                    "evidence": importer.evidence,
                    "supports": EVIDENCE[importer.evidence],
                    "accept": importer.assumption or None,
                }
                for importer in known
            ]
        )
        return
    print_table(
        ("format", "", "evidence", "--accept"),
        [
            (importer.name, importer.title, importer.evidence, importer.assumption)
            for importer in known
        ],
        words={"", "evidence", "--accept"},
        pipe_width=120,
    )
    click.echo()
    for letter, meaning in EVIDENCE.items():
        click.echo(f"{letter}  {meaning}")


def _print_report(report: Report, *, dry_run: bool) -> None:
    from observant.units import format_duration

    about = "" if report.sources_are_exact else "about "
    files = ", ".join(f"{name} ({counted(n, 'file')})" for name, n in report.formats.items())
    click.echo(f"format     {files}")
    click.echo(f"evidence   {report.evidence}: {report.supports}")
    click.echo(f"rows       {report.rows:,}")
    click.echo(f"visits     {report.visits:,} to {about}{counted(report.sources, 'source')}")
    if report.described:
        click.echo(f"described  {counted(report.described, 'source')}")
    if report.span:
        first, last = report.span
        days = (last - first) / dt.timedelta(days=1)
        click.echo(
            f"span       {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC "
            f"({format_duration(days)})"
        )
    for what, number in report.counts.items():
        click.echo(f"           {what}: {number:,}")
    for reason, number in report.left_out.items():
        click.echo(f"left out   {reason}: {number:,}")
    for name, sentence in report.assumed.items():
        verb = "would assume" if dry_run else "assumed"
        click.echo(f"{verb}: {sentence} (--accept {name})")
    for warning in report.warnings:
        click.echo(f"note: {warning}")
    for bad in report.samples:
        line = "" if bad.line is None else f", row {bad.line:,}"
        click.echo(f"  {bad.file}{line}: {bad.reason}{f': {bad.text}' if bad.text else ''}")
