"""Backup and restore, the same file for both engines.

A backup is a SQLite store of observant. It can be looked into with any SQLite tool, opened as a
store, and restored into either engine. Restoring trusts nothing in it: the file holds no paths,
its tables must be ours and nothing else, and every row goes through the same checks as new data.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import BackupError, InputError, StoreError, StoreVersionError
from observant.store.deliveries import check_delivery, check_subscription
from observant.store.engine import migrations, statements
from observant.store.snapshots import LARGEST, unpacked
from observant.store.sqlite import APPLICATION_ID, SqliteEngine
from observant.store.types import shard_of
from observant.store.validation import checked_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from observant.store.engine import Engine, Row, Session

# In an order in which every row finds those it refers to. Leases end with the store they belong to.
TABLES = (
    "digests",
    "sources",
    "tags",
    "visits",
    "comparisons",
    "posteriors",
    "memories",
    "snapshots",
    "versions",
    "events",
    "settings",
    "observers",
    "audit",
    "subscriptions",
    "deliveries",
    "members",
    "accounts",
    "tokens",
    "hours",
)
_ROWS = 5000
_BAD_ROWS = (sqlite3.Error, InputError, msgspec.MsgspecError, ValueError, TypeError)
_BAD_KEYS = {"IntegrityError", "UniqueViolation", "ForeignKeyViolation", "CheckViolation"}


def write(engine: Engine, path: str | os.PathLike[str]) -> int:
    """Write the whole store to one new file; returns its size."""
    place = Path(path)
    if place.exists():
        raise InputError("there is a file already; a backup is never written over", file=str(place))
    if not place.parent.is_dir():
        raise InputError("there is no such folder", file=str(place.parent))
    try:
        handle, name = tempfile.mkstemp(prefix=".observant-", dir=place.parent)
    except OSError as error:
        raise StoreError(f"{place}: cannot be written: {error.strerror}") from error
    os.close(handle)
    unfinished = Path(name)
    try:
        if isinstance(engine, SqliteEngine):
            engine.copy_to(unfinished)
        else:
            with engine.snapshot() as session:
                _dump(session, unfinished)
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        _put(unfinished, place)
    except FileExistsError:
        raise InputError("there is a file already", file=str(place)) from None
    except OSError as error:
        raise StoreError(f"{place}: cannot be written: {error.strerror}") from error
    finally:
        for leftover in (name, f"{name}-wal", f"{name}-shm", f"{name}-journal"):
            Path(leftover).unlink(missing_ok=True)
    return place.stat().st_size


def restore(engine: Engine, path: str | os.PathLike[str], *, replace: bool) -> int:
    """Fill a store from a backup; returns the number of visits."""
    place = Path(path)
    with tempfile.TemporaryDirectory(prefix="observant-") as folder:
        file = _checked(place, Path(folder))

        def work(session: Session) -> int:
            with closing(_opened(file)) as backup:
                _make_room(session, replace=replace)
                visits = _load(session, backup)
                engine.after_restore(session)
                return visits

        try:
            return engine.write(work)
        except _BAD_ROWS as error:
            raise BackupError(f"{place}: is not a sound backup: {error}") from error
        except StoreError as error:
            if type(error.__cause__).__name__ in _BAD_KEYS:
                raise BackupError(f"{place}: is not a sound backup: {error}") from error
            raise


def _put(unfinished: Path, place: Path) -> None:
    """Whole or not at all, and never over a file that appeared meanwhile."""
    try:
        os.link(unfinished, place)
    except FileExistsError:
        raise
    except OSError:  # a filesystem without links
        unfinished.replace(place)


def columns_of(version: int | None = None) -> dict[str, list[str]]:
    """The columns of every table, from our own migrations."""
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.execute(statements("sqlite")["create_migrations"])
        for step in migrations("sqlite"):
            if version is None or step.number <= version:
                empty.executescript(step.sql)
        return _columns(empty)


def _columns(database: sqlite3.Connection) -> dict[str, list[str]]:
    tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {
        name: [row[1] for row in database.execute("SELECT * FROM pragma_table_xinfo(?)", [name])]
        for (name,) in tables
        if not name.startswith("sqlite_")
    }


def _dump(session: Session, path: Path) -> None:
    """Write every table of another engine into a new SQLite store."""
    path.unlink()
    engine = SqliteEngine(str(path), durable=False, allow_network=True)
    try:

        def work(target: Session) -> None:
            known = columns_of()
            for table in TABLES:
                columns = known[table]
                statement = f"SELECT {', '.join(columns)} FROM {table}"  # noqa: S608
                for rows in session.stream(statement, _ROWS):
                    target.load(table, columns, rows)
            for shard, fence in session.sql("SELECT shard, fence FROM leases", {}):
                target.change(
                    "UPDATE leases SET fence = :fence WHERE shard = :shard",
                    {"fence": fence, "shard": shard},
                )

        engine.write(work)
    finally:
        engine.close()
    with closing(sqlite3.connect(path)) as done:
        done.execute("PRAGMA journal_mode = DELETE")


def _opened(path: Path) -> sqlite3.Connection:
    """Open a file that we do not trust: only to read, and nothing in it can make us do more."""
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    for pragma in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _checked(path: Path, folder: Path) -> Path:
    """The file itself, or a copy brought to this version; `BackupError` if it is not ours."""
    try:
        with path.open("rb") as file:
            if file.read(16) != b"SQLite format 3\0":
                raise BackupError(f"{path}: is not a backup of observant")
    except OSError as error:
        raise BackupError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        with closing(_opened(path)) as backup:
            version = _version(backup, path)
            troubles = backup.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if troubles != "ok":
                raise BackupError(f"{path}: is damaged: {troubles}")
            _refuse_strange(backup, path, version)
    except sqlite3.Error as error:
        raise BackupError(f"{path}: is not a sound backup: {error}") from error
    if version == migrations("sqlite")[-1].number:
        return path
    copy = folder / "backup.db"
    shutil.copyfile(path, copy)
    SqliteEngine(str(copy), create=False, durable=False, allow_network=True).close()
    return copy


def _version(backup: sqlite3.Connection, path: Path) -> int:
    if backup.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise BackupError(f"{path}: is a SQLite database, but no backup of observant")
    version = backup.execute("SELECT max(number) FROM migrations").fetchone()[0]
    newest = migrations("sqlite")[-1].number
    if not isinstance(version, int) or version < 1:
        raise BackupError(f"{path}: does not tell its version")
    if version > newest:
        raise StoreVersionError(
            f"{path}: was written by a newer observant (version {version} of the tables, this one "
            f"knows {newest}); install a newer observant"
        )
    return version


def _refuse_strange(backup: sqlite3.Connection, path: Path, version: int) -> None:
    """Only our own tables, with our own columns; no triggers, no virtual tables."""
    strange = backup.execute(
        "SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index', 'view') "
        "OR (type = 'view' AND name <> 'visit_log') "
        "OR (type = 'table' AND upper(sql) LIKE 'CREATE VIRTUAL%')"
    ).fetchone()
    if strange is not None:
        raise BackupError(f"{path}: holds a {strange[0]} that is not ours: {strange[1]!r}")
    if _columns(backup) != columns_of(version):
        raise BackupError(f"{path}: its tables are not those of a store")


def _make_room(session: Session, *, replace: bool) -> None:
    used = any(
        session.sql(f"SELECT 1 FROM {table} LIMIT 1", {})  # noqa: S608
        for table in ("sources", "visits", "events", "settings")
    )
    if used and not replace:
        raise StoreError(
            "the store is not empty: restore into a new one, or replace what is there (--replace)"
        )
    for table in reversed(TABLES):
        session.change(f"DELETE FROM {table}", {})  # noqa: S608


def _load(session: Session, backup: sqlite3.Connection) -> int:
    visits = 0
    known = columns_of()
    for table in TABLES:
        columns = known[table]
        check = _CHECKS.get(table)
        rows = backup.execute(f"SELECT {', '.join(columns)} FROM {table}")  # noqa: S608
        count = session.load(table, columns, _passed(rows, columns, check))
        visits = count if table == "visits" else visits
    for shard, fence in backup.execute("SELECT shard, fence FROM leases"):
        session.change(
            "UPDATE leases SET observer = '', expires_at = 0, "
            "fence = CASE WHEN fence > :fence THEN fence ELSE :fence END "
            "WHERE shard = :shard",
            {"fence": int(fence), "shard": int(shard)},
        )
    return visits


def _passed(
    rows: Iterator[Row], columns: list[str], check: Callable[[dict[str, Any]], None] | None
) -> Iterator[Row]:
    if check is None:
        yield from rows
        return
    for row in rows:
        named = dict(zip(columns, row, strict=True))
        check(named)
        yield tuple(named.values())


def _check_source(row: dict[str, Any]) -> None:
    checked_name(row["name"])
    if not isinstance(msgspec.json.decode(row["config"]), dict):
        raise InputError("config must be a dictionary", source=row["name"])
    for tag in msgspec.json.decode(row["tags"], type=list[str]):
        checked_name(tag, "tag", 200)
    row["shard"] = shard_of(row["host"] or row["name"])
    row["searched"] = f"{row['name']}\n{row['title']}".casefold()


def _check_tag(row: dict[str, Any]) -> None:
    checked_name(row["tag"], "tag", 200)


def _check_snapshot(row: dict[str, Any]) -> None:
    """A content must be what its name says, and not larger than it says."""
    if len(row["digest"]) != 32 or not 0 <= row["size"] <= LARGEST:
        raise InputError("a snapshot has an impossible name or size")
    try:
        unpacked(row["content"], row["size"], row["digest"])
    except StoreError as error:
        raise InputError(str(error)) from error
    row["stored"] = len(row["content"])


def _check_event(row: dict[str, Any]) -> None:
    checked_name(row["event"], "event", 500)
    msgspec.json.decode(row["payload"])


def _check_member(row: dict[str, Any]) -> None:
    checked_name(row["url"], "member")


def _check_json(*columns: str) -> Callable[[dict[str, Any]], None]:
    def check(row: dict[str, Any]) -> None:
        for column in columns:
            if row[column] is not None:
                msgspec.json.decode(row[column])

    return check


_CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "sources": _check_source,
    "tags": _check_tag,
    "comparisons": _check_json("detail"),
    "memories": _check_json("validators", "memory", "record"),
    "snapshots": _check_snapshot,
    "events": _check_event,
    "settings": _check_json("value"),
    "observers": _check_json("detail"),
    "audit": _check_json("detail"),
    "subscriptions": check_subscription,
    "deliveries": check_delivery,
    "members": _check_member,
}
