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
import sqlite3
import time
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from observant.errors import InputError
from observant.formats.imports.base import Batches, Importer, VisitRows
from observant.formats.imports.files import ImportFile
from observant.formats.imports.histories import add_history
from observant.formats.imports.loose import plain_text
from observant.times import from_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.report import Report

__all__ = ["EVERY_CHANGE_SEEN", "IMPORTERS", "SnapshotDatabase"]

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

    def sniff(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the contract's
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


IMPORTERS = (SnapshotDatabase(),)


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
    from observant.formats.imports.urlwatch_jobs import addresses_in

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
