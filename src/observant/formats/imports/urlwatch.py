"""urlwatch and webchanges: their databases of snapshots.

Only snapshots that differed are kept (webchanges keeps four), and nothing tells of the visits
between them. So the changes are all there is, and they are taken as a complete history of updates
only from users who accept that (``every-change-seen``). Databases name jobs by the SHA-1 of their
address; the addresses themselves are taken from a job file beside the database, if there is one.

A database may be hostile: it is opened read-only, nothing of its schema is trusted, its table must
be a table, and contents of snapshots are not read.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import sqlite3
import time
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from observant.errors import InputError
from observant.formats.imports.base import (
    Batches,
    Described,
    Describer,
    Importer,
    SourceDescription,
    VisitRows,
)
from observant.formats.imports.files import ImportFile
from observant.formats.imports.histories import add_history
from observant.formats.imports.lines import plain_text
from observant.times import from_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.report import Report


# -- Job files of urlwatch and webchanges: what they watch. They tell no visits -------------------
#
# They are YAML, one document a job. PyYAML reads them where it is installed; it is no dependency of
# observant. Commands are never taken over from a file: what is run here is only what the user's own
# configuration names.


_LARGEST = 1 << 24
_MOST_VALUES = 2_000_000
_SELECTORS = {"css": "css", "xpath": "xpath", "jsonpath": "jsonpath", "element-by-id": "css"}
_HARMLESS = {"html2text", "strip", "strip_each_line", "beautify", "format-json", "pretty-xml"}
_WITHOUT_PLACE = {
    "diff_filter": "filters of differences",
    "diff_filters": "filters of differences",
    "http_proxy": "proxies",
    "https_proxy": "proxies",
    "proxy": "proxies",
    "cookies": "cookies (they may hold secrets)",
    "additions_only": "the wish for additions only",
    "deletions_only": "the wish for deletions only",
    "ssl_no_verify": "the wish not to verify certificates",
    "differ": "ways to show differences",
}


class JobFile(Describer):
    """``urls.yaml`` of urlwatch, ``jobs.yaml`` of webchanges."""

    name = "urlwatch-jobs"
    title = "urlwatch or webchanges job file"
    evidence: Evidence = "S"
    endings = ("urls.yaml", "jobs.yaml")

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether this is YAML by its name, with a job at the top."""
        if not name.endswith((".yaml", ".yml")):
            return False
        keys = rb"(?m)^(?:- )?(?:url|navigate|command|name|kind): *\S"
        return re.search(keys, head) is not None and b"seeds:" not in head

    def sources(self, file: ImportFile, options: ImportOptions, report: Report) -> Described:
        """Yield the jobs that have an address."""
        for number, job in enumerate(_jobs(file), 1):
            report.add_rows()
            described = _described(job, number, report)
            if described is not None:
                yield described


def addresses_in(file: ImportFile) -> list[str]:
    """Locations of all jobs, as the databases know them."""
    keys = ("user_visible_url", "url", "navigate", "command")
    jobs = [job for job in _jobs(file) if isinstance(job, dict)]
    return [job[key] for job in jobs for key in keys if isinstance(job.get(key), str)]


def _jobs(file: ImportFile) -> list[Any]:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise InputError(
            "job files are YAML, and PyYAML is not installed: pip install 'observant[archive]'"
        ) from None
    with file.open() as stream:
        text = stream.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise InputError("is larger than 16 MiB, which no job file is")
    try:
        for document in yaml.compose_all(text, yaml.SafeLoader):
            _check_expansion(document, {})
        jobs = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        told = " ".join(str(error).split())
        raise InputError(f"this is no YAML: {told[:200]}") from error
    return [job for job in jobs if job is not None]


_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_LONGEST_NUMBER = 1_000
"""Characters: what 1:1:1:… stands for grows without end, and nobody could print it."""


def _check_expansion(node: Any, sizes: dict[int, int]) -> int:
    """How many values a part of a document has, written out; InputError if that is absurd.

    An alias stands for a whole part, also for one with aliases in it: forty lines can stand for
    more values than any memory holds.
    """
    size = sizes.setdefault(id(node), 0)
    if size:
        return size
    children = getattr(node, "value", None)
    if node is not None and node.tag in _NUMBERS and len(str(children)) > _LONGEST_NUMBER:
        raise InputError(f"has a number of {len(str(children)):,} characters")
    sizes[id(node)] = _MOST_VALUES  # a part that holds itself never ends
    size = 1
    for child in children if isinstance(children, list) else ():
        for part in child if isinstance(child, tuple) else (child,):
            size += _check_expansion(part, sizes)
    if size > _MOST_VALUES:
        raise InputError(f"its aliases stand for more than {_MOST_VALUES:,} values")
    sizes[id(node)] = size
    return size


def _described(job: Any, number: int, report: Report) -> SourceDescription | None:
    if not isinstance(job, dict):
        report.malformed(number, "a job is a list of keys and values", str(job)[:100])
        return None
    if isinstance(job.get("command"), str) and "url" not in job:
        report.warn("{n} jobs run commands, which are not taken over from a file")
        return None
    address = job.get("url") or job.get("navigate")
    if not isinstance(address, str) or not address.lower().startswith(("http://", "https://")):
        report.malformed(number, "a job without an address that can be visited", str(job)[:100])
        return None
    rules = _selection(job, report)
    settings: dict[str, Any] = {"compare": rules} if rules else {}
    headers = job.get("headers")
    if isinstance(headers, dict) and headers:
        settings["headers"] = {str(key): str(value) for key, value in headers.items()}
    paused = job.get("enabled") is False
    if job.get("data") or str(job.get("method") or "GET").upper() != "GET":
        report.warn("{n} jobs ask by another method than GET: they are paused")
        paused = True
    if job.get("navigate") or job.get("use_browser"):
        report.warn("{n} jobs use a browser; their pages will be fetched without one")
    for key, words in _WITHOUT_PLACE.items():
        if job.get(key):
            report.warn(f"{words} of {{n}} jobs have no counterpart and were left out")
    tags = job.get("tags")
    return SourceDescription(
        # A number as fragment makes a second job of one address.
        address=plain_text(re.sub(r"#\d+$", "", address)),
        title=str(job.get("name") or ""),
        tags=tuple(str(tag) for tag in tags) if isinstance(tags, list) else (),
        paused=paused,
        settings=settings,
    )


def _selection(job: dict[Any, Any], report: Report) -> dict[str, Any]:
    filters = job.get("filter", job.get("filters")) or []
    if isinstance(filters, str):
        filters = [part.partition(":")[::2] for part in filters.split(",")]
        filters = [{name: value} if value else name for name, value in filters]
    settings: dict[str, Any] = {}
    for step in filters if isinstance(filters, list) else []:
        name, value = next(iter(step.items())) if isinstance(step, dict) and step else (step, None)
        if isinstance(value, dict):
            value = value.get("path") or value.get("selector") or value.get("query")
        if name in _SELECTORS and isinstance(value, str):
            wanted = f"#{value}" if name == "element-by-id" else value
            if any(language in settings for language in ("css", "xpath", "jsonpath")):
                report.warn("{n} jobs select more than once: the first selection was taken")
            else:
                settings[_SELECTORS[name]] = wanted
        elif name == "re.sub" and isinstance(value, str):
            settings.setdefault("ignore", []).append(value)
        elif name not in _HARMLESS:
            report.warn(f"the filter {str(name)[:40]!r} of {{n}} jobs has no counterpart")
    return settings


EVERY_CHANGE_SEEN = "every-change-seen"
_LAYOUTS = {
    "CacheEntry": ("guid", {"guid", "timestamp", "tries"}),
    "webchanges": ("uuid", {"uuid", "timestamp", "msgpack_data"}),
}
_LARGEST_BLOB = 1 << 26
_SECONDS = 600
_JOB_FILES = ("urls.yaml", "jobs.yaml")


class _Packed(msgspec.Struct):
    """What is wanted of a snapshot; the page itself is passed over."""

    t: int | None = 0
    err: Any = None


class SnapshotDatabase(Importer):
    """``cache.db`` of urlwatch, ``snapshots.db`` of webchanges."""

    name = "urlwatch"
    title = "urlwatch or webchanges database"
    evidence: Evidence = "C"
    endings = (".db", ".sqlite", ".sqlite3")
    assumption = EVERY_CHANGE_SEEN
    assumes = (
        "visits were so frequent that every change was seen, soon after it happened, up to the "
        "last time when the file was written"
    )

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether this is a SQLite database with a table of snapshots."""
        if not head.startswith(b"SQLite format 3\x00"):
            return False
        lower = head.lower()
        return any(
            name.lower().encode() in lower and all(column.encode() in lower for column in columns)
            for name, (_, columns) in _LAYOUTS.items()
        )

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield the history of each job, as visits that are worth exactly that."""
        rows = VisitRows(options.batch_rows)
        names = _names_beside(file, report)
        until = file.saved_at()
        with file.local() as path, closing(_connect(path)) as database:
            for guid, snapshots in groupby(_snapshots(database, report), key=itemgetter(0)):
                source = names.get(guid, guid)
                add_history(rows, source, {at for _, at in snapshots}, until)
                if rows.full:
                    yield rows.take()
        yield rows.take()


IMPORTERS = (SnapshotDatabase(), JobFile())


def _connect(path: Path) -> sqlite3.Connection:
    """Open for reading only, as a file that nobody else writes: no journal is replayed."""
    address = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
    try:
        database = sqlite3.connect(address, uri=True)
        database.text_factory = bytes
        for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0"):
            database.execute(f"PRAGMA {pragma}")
    except sqlite3.Error as error:
        raise InputError(f"cannot be read as SQLite: {error}") from error
    deadline = time.monotonic() + _SECONDS
    database.set_progress_handler(lambda: time.monotonic() > deadline, 1_000_000)
    return database


def _snapshots(database: sqlite3.Connection, report: Report) -> Iterator[tuple[str, int]]:
    """Job and time of every snapshot, job by job; failed visits and bad rows are counted."""
    try:
        table, key = _layout(database)
        content = (
            f"CASE WHEN length(msgpack_data) <= {_LARGEST_BLOB} THEN msgpack_data END"
            if table == "webchanges"
            else "tries"
        )
        query = f"SELECT {key}, timestamp, {content} FROM {table} ORDER BY {key}, timestamp"  # noqa: S608
        for number, (guid, timestamp, told) in enumerate(database.execute(query), 1):
            report.add_rows()
            try:
                tries = _tries(told) if table == "webchanges" else int(told or 0)
                name = guid.decode() if isinstance(guid, bytes) else ""
                if not name:
                    raise ValueError("there is no job")  # noqa: TRY301
                at = from_seconds(timestamp.decode() if isinstance(timestamp, bytes) else timestamp)
            except (ValueError, TypeError) as error:
                report.malformed(number, str(error))
                continue
            if tries > 0:
                report.leave_out("a visit that failed")
                continue
            yield name, at
    except sqlite3.Error as error:
        raise InputError(f"cannot be read as SQLite: {error}") from error


def _layout(database: sqlite3.Connection) -> tuple[str, str]:
    """The table of snapshots and its column of jobs."""
    for table, (key, columns) in _LAYOUTS.items():
        kind = database.execute("SELECT type FROM sqlite_master WHERE name = ?", (table,))
        if kind.fetchone() != (b"table",):
            continue
        found = {row[1].decode() for row in database.execute(f"PRAGMA table_info({table})")}
        if columns <= found:
            return table, key
    raise InputError("has no table of snapshots of urlwatch or webchanges")


def _tries(packed: Any) -> int:
    """How often a visit had failed in a row, from what webchanges packs beside the content."""
    if not isinstance(packed, bytes):
        raise ValueError("the snapshot is missing or too large")  # noqa: TRY004 - a bad row
    try:
        told = msgspec.msgpack.decode(packed, type=_Packed)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"the snapshot cannot be read: {error}") from error
    return max(told.t or 0, int(bool(told.err)))


def _names_beside(file: ImportFile, report: Report) -> dict[str, str]:
    """Addresses by their SHA-1, from a job file in the same folder."""
    if file.path is None:
        return {}
    for name in _JOB_FILES:
        path = file.path.with_name(name)
        if path.is_file() and not path.is_symlink():
            try:
                addresses = addresses_in(ImportFile(str(path), path))
            except InputError as error:
                report.warn(f"jobs keep their numbers for names: {error}")
                return {}
            report.warn(f"addresses were taken from {name} beside the database")
            return {_guid(address): plain_text(address) for address in addresses}
    report.warn("jobs have numbers for names: put their job file (urls.yaml) beside the database")
    return {}


def _guid(address: str) -> str:
    return hashlib.sha1(address.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()
