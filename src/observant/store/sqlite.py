"""SQLite: one file, one writer at a time, readers that are never in its way (WAL).

Every commit survives any death of the process. With `durable` (synchronous=FULL) the log is
forced to the disk at each commit, so it survives a loss of power too; group commit makes that
cheap. Without it (synchronous=NORMAL) the file is as sound after a loss of power, but the last
commits may be missing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import sqlite3
import tempfile
import threading
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from observant.errors import StoreBusyError, StoreError, StoreVersionError
from observant.store.engine import Engine, Row, Session
from observant.store.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

T = TypeVar("T")

APPLICATION_ID = 0x6F627376  # "obsv": tells our files from those of others
_BUSY_SECONDS = 20.0
_IDLE_READERS = 4
_LIST = re.compile(r"\bIN :(\w+)")
_MOST_IN_LIST = 30_000

# Locks do not work, or not always, over these: WAL needs memory shared by all who use the file.
_NETWORK = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "ncpfs", "9p", "afs", "davfs"),
        *("ceph", "glusterfs", "lustre", "beegfs", "gpfs", "ocfs2", "gfs2", "pvfs2", "orangefs"),
        *("fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.davfs2", "fuse.glusterfs"),
        *("fuse.cephfs", "fuse.gcsfuse", "fuse.goofys", "fuse.juicefs", "fuse.mount_s3"),
    )
)


class SqliteSession(Session):
    """A transaction in SQLite."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__("sqlite")
        self._connection = connection

    def sql(self, text: str, parameters: dict[str, Any]) -> list[Row]:
        return self._connection.execute(*_expanded(text, parameters)).fetchall()

    def change(self, text: str, parameters: dict[str, Any]) -> int:
        return self._connection.execute(*_expanded(text, parameters)).rowcount

    def change_many(self, text: str, rows: Sequence[dict[str, Any]]) -> int:
        return self._connection.executemany(text, rows).rowcount

    def script(self, text: str) -> None:
        statement = ""
        for line in text.splitlines(keepends=True):  # executescript would commit on its own
            statement += line
            if sqlite3.complete_statement(statement):
                self._connection.execute(statement)
                statement = ""
        if statement.strip():
            self._connection.execute(statement)

    def now(self) -> float:
        return time.time()

    def load(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> int:
        marks = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608
        return self._connection.executemany(statement, rows).rowcount

    def stream(self, text: str, size: int) -> Iterator[list[Row]]:
        cursor = self._connection.execute(text)
        while rows := cursor.fetchmany(size):
            yield rows


class SqliteEngine(Engine):
    """A store in one file."""

    name = "sqlite"
    local = True

    def __init__(
        self, place: str, *, create: bool = True, durable: bool = True, allow_network: bool = False
    ) -> None:
        self._folder: str | None = None
        if place == ":memory:":
            # Readers and the writer need a connection each, so it is a file after all: one that
            # nobody waits for and that goes with the store.
            self._folder = tempfile.mkdtemp(prefix="observant-")
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            place, durable = os.path.join(self._folder, "store.db"), False  # noqa: PTH118
        self.path = Path(place)
        self._durable = durable
        self._writing = threading.RLock()
        self._pool = threading.Lock()  # another one: nobody who reads waits for those who write
        self._idle: list[sqlite3.Connection] = []
        self._writer: sqlite3.Connection | None = None
        self._read_only = ""
        """The address of a file that we may not write; empty for others."""
        self._closed = False
        try:
            self._open(create=create, allow_network=allow_network)
        except BaseException:
            self.close()
            raise

    def __str__(self) -> str:
        return str(self.path)

    def _open(self, *, create: bool, allow_network: bool) -> None:
        if not allow_network:
            _refuse_network(self.path)
        if not self.path.exists():
            if not create:
                raise StoreError(
                    f"{self.path}: there is no store; `observant add` makes one, --store names one"
                )
            if not self.path.parent.is_dir():
                raise StoreError(f"{self.path}: there is no folder {self.path.parent}")
            try:  # sources may hold credentials: nobody else reads it
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            except OSError as error:
                raise StoreError(f"{self.path}: cannot be made: {error.strerror}") from error
        if self.path.is_dir():
            raise StoreError(f"{self.path}: is a folder; --store names a file")
        if not os.access(self.path, os.R_OK):
            raise StoreError(f"{self.path}: cannot be read: {os.strerror(errno.EACCES)}")
        self._read_only = _read_only_uri(self.path)
        if self._read_only:
            with _told(self), contextlib.closing(self._connect()) as connection:
                _refuse_foreign(connection, self.path)
            self.migrate(create=False)
            return
        with _told(self):
            self._writer = self._connect()
            _refuse_foreign(self._writer, self.path)
            mode = self._writer.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise StoreError(f"{self.path}: cannot be put into WAL mode (it stays {mode})")
            self._writer.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self.migrate(create=create)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._read_only or self.path,
            uri=bool(self._read_only),
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        for pragma in (
            f"synchronous = {'FULL' if self._durable else 'NORMAL'}",
            "foreign_keys = ON",
            "trusted_schema = OFF",
            "cache_size = -32768",
            # A group of visits touches a page per source: copy them back many groups at a time.
            "wal_autocheckpoint = 8192",
            "journal_size_limit = 67108864",
            "temp_store = MEMORY",
        ):
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def read(self, work: Callable[[Session], T]) -> T:
        with self.snapshot() as session:
            return work(session)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Session]:
        with _told(self):
            connection = self._reader()
            try:
                connection.execute("BEGIN")
                yield SqliteSession(connection)
            finally:
                self._give_back(connection)

    def _reader(self) -> sqlite3.Connection:
        with self._pool:
            if self._closed:
                raise StoreError(f"{self.path}: the store is closed")
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with contextlib.suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        with self._pool:
            if not self._closed and len(self._idle) < _IDLE_READERS:
                self._idle.append(connection)
                return
        connection.close()

    def write(self, work: Callable[[Session], T]) -> T:
        with self._writing, _told(self):
            if self._writer is None and self._read_only and not self._closed:
                raise StoreError(f"{self.path}: may only be read, not written")
            if self._writer is None:
                raise StoreError(f"{self.path}: the store is closed")
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                result = work(SqliteSession(self._writer))
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise
            return result

    def copy_to(self, path: Path) -> None:
        """Copy the whole database, as it is at one moment, while it is in use."""
        with _told(self):
            source = self._connect()
            target = sqlite3.connect(path, isolation_level=None)
            try:
                # In one step: with writers about, a copy in steps starts again at each commit.
                source.backup(target)
                target.execute("PRAGMA journal_mode = DELETE")
            finally:
                target.close()
                source.close()

    def findings(self) -> list[Finding]:
        with _told(self), self.snapshot() as session:
            checked = session.sql("PRAGMA integrity_check(20)", {})
            troubles = [row[0] for row in checked if row[0] != "ok"]
            loose = session.sql("PRAGMA foreign_key_check", {})
        found = []
        if troubles:
            found.append(
                Finding(
                    severity="error",
                    check="integrity",
                    message="the file is damaged; restore the last backup",
                    count=len(troubles),
                    examples=tuple(troubles[:5]),
                )
            )
        if loose:
            found.append(
                Finding(
                    severity="error",
                    check="references",
                    message="rows refer to others that are not there; restore the last backup",
                    count=len(loose),
                    examples=tuple(f"{row[0]} row {row[1]}" for row in loose[:5]),
                )
            )
        return found + _disk_findings(self.path)

    def after_restore(self, session: Session) -> None:
        """Nothing to do: SQLite goes on after the highest key."""

    def close(self) -> None:
        with self._pool:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        with self._writing:
            if self._writer is not None:
                with contextlib.suppress(sqlite3.Error):
                    self._writer.execute("PRAGMA optimize")
                self._writer.close()
                self._writer = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _read_only_uri(path: Path) -> str:
    """How to open a file that may only be read, or lies where nothing may be written."""
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        return ""
    # Without a log there is nothing to wait for: so none is looked for, which takes writing.
    log = path.with_name(f"{path.name}-wal")
    settled = not (log.exists() and log.stat().st_size)
    return f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if settled else ''}"


def _expanded(text: str, parameters: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Write a list out: one parameter for each of its members."""
    if " IN :" not in text:
        return text, parameters
    parameters = dict(parameters)

    def write_out(match: re.Match[str]) -> str:
        values = list(parameters.pop(match[1]))
        if len(values) > _MOST_IN_LIST:
            raise StoreError(f"{len(values)} values in one list; at most {_MOST_IN_LIST}")
        names = [f"{match[1]}_{i}" for i in range(len(values))]
        parameters.update(zip(names, values, strict=True))
        return f"IN ({', '.join(':' + name for name in names)})"

    return _LIST.sub(write_out, text), parameters


@contextlib.contextmanager
def _told(engine: SqliteEngine) -> Iterator[None]:
    """Tell the driver's errors as ours, with what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        reason = str(error)
        if "locked" in reason or "busy" in reason:
            raise StoreBusyError(
                f"{engine}: another process has held the store for {_BUSY_SECONDS:.0f} seconds; "
                "nothing was written"
            ) from error
        if "full" in reason:
            raise StoreError(f"{engine}: the disk is full; nothing was written") from error
        if "readonly" in reason:
            raise StoreError(f"{engine}: may only be read, not written") from error
        raise StoreError(f"{engine}: {reason}") from error
    except sqlite3.Error as error:
        if "not a database" in str(error):
            raise StoreError(f"{engine}: is not a SQLite database") from error
        raise StoreError(f"{engine}: {error}") from error


def _refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    """Keep out of other people's databases."""
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    marked = connection.execute("PRAGMA application_id").fetchone()[0]
    if tables and marked != APPLICATION_ID:
        raise StoreVersionError(f"{path}: is a SQLite database, but not an observant store")


def filesystem_of(path: Path, mounts: str = "/proc/self/mountinfo") -> str | None:
    """The type of the filesystem a path is on, where the system tells (Linux)."""
    try:
        lines = Path(mounts).read_text("utf-8", "replace").splitlines()
        place = os.path.realpath(path)
    except OSError:
        return None
    best, found = -1, None
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        mount = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), fields[4])
        inside = place == mount or place.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= best:
            best, found = len(mount), after.split()[0]
    return found


def _refuse_network(path: Path) -> None:
    kind = filesystem_of(path)
    if kind in _NETWORK:
        raise StoreError(
            f"{path}: is on a network filesystem ({kind}), where SQLite's locks cannot be trusted "
            "and a store can be destroyed; put it on a local disk, use PostgreSQL, or say "
            "allow_network_filesystem if only one machine ever opens it"
        )


def _disk_findings(path: Path) -> list[Finding]:
    found = []
    kind = filesystem_of(path)
    if kind in _NETWORK:
        found.append(
            Finding(
                severity="warning",
                check="filesystem",
                message=f"the store is on a network filesystem ({kind}); move it to a local disk",
            )
        )
    free, size = shutil.disk_usage(path.parent).free, path.stat().st_size
    if free < max(100 << 20, size // 20):
        found.append(
            Finding(
                severity="warning",
                check="disk",
                message=f"only {free >> 20:,} MiB are free for a store of {size >> 20:,} MiB; "
                "make room, or keep fewer snapshots",
            )
        )
    return found
