"""PostgreSQL: one database that several observers share.

Each process keeps one connection to write and a few to read. A lost connection is opened again,
and what was under way is done once more: a visit that was committed after all is recognised, so
nothing is counted twice. Deadlocks and the like are tried again as well. A server that stays away
for more than a second is a `StoreAwayError`.
"""

from __future__ import annotations

import contextlib
import random
import re
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from observant.errors import StoreAwayError, StoreBusyError, StoreError
from observant.store.engine import Engine, Row, Session
from observant.store.types import Finding

try:
    import psycopg
    from psycopg import errors, sql
except ImportError as error:  # pragma: no cover - the extra is always there in the tests
    raise StoreError(
        "PostgreSQL needs the psycopg package; install it with: pip install 'observant[postgres]'"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

T = TypeVar("T")

_ATTEMPTS = 6
_LOCK_SECONDS = 20
_IDLE_READERS = 4
_OLDEST_SERVER = 130_000
_MIGRATING = 0x6F627376  # the advisory lock of those who change the tables
_CONNECTION: dict[str, Any] = {
    "application_name": "observant",
    "connect_timeout": 10,
    # A network that swallows everything is noticed within half a minute, not within a quarter of
    # an hour.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
_LIST = re.compile(r"\bIN :(\w+)")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_AGAIN = (errors.DeadlockDetected, errors.SerializationFailure, errors.ForeignKeyViolation)


class PostgresSession(Session):
    """A transaction in PostgreSQL."""

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        super().__init__("postgres")
        self._connection = connection

    def sql(self, text: str, parameters: dict[str, Any]) -> list[Row]:
        return self._connection.execute(_translated(text), parameters).fetchall()

    def change(self, text: str, parameters: dict[str, Any]) -> int:
        return self._connection.execute(_translated(text), parameters).rowcount

    def change_many(self, text: str, rows: Sequence[dict[str, Any]]) -> int:
        with self._connection.cursor() as cursor:
            cursor.executemany(_translated(text), rows)
            return cursor.rowcount

    def script(self, text: str) -> None:
        self._connection.execute(text.encode())

    def now(self) -> float:
        return float(self.sql("SELECT extract(epoch FROM clock_timestamp())", {})[0][0])

    def load(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> int:
        count = 0
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
                count += 1
        return count

    def stream(self, text: str, size: int) -> Iterator[list[Row]]:
        with self._connection.cursor(name="observant_stream") as cursor:
            cursor.execute(_translated(text))
            while rows := cursor.fetchmany(size):
                yield rows


class PostgresEngine(Engine):
    """A store in a schema of a PostgreSQL database."""

    name = "postgres"

    def __init__(self, url: str, *, create: bool = True, durable: bool = True) -> None:
        self._url, self._schema = _schema_of(url)
        self._durable = durable
        self._writing = threading.RLock()
        self._pool = threading.Lock()  # another one: nobody who reads waits for those who write
        self._idle: list[psycopg.Connection[Row]] = []
        self._writer: psycopg.Connection[Row] | None = None
        self._closed = False
        try:
            self._prepare(create=create)
            self.migrate(create=create)
        except BaseException:
            self.close()
            raise

    def __str__(self) -> str:
        parts = urlsplit(self._url)  # without name and password: this goes into messages
        return f"postgresql://{parts.hostname or ''}{parts.path} (schema {self._schema})"

    def _prepare(self, *, create: bool) -> None:
        with self._told(), self._connect() as connection:
            if connection.info.server_version < _OLDEST_SERVER:
                raise StoreError(f"{self}: PostgreSQL 13 or newer is needed")
            encoding = connection.info.parameter_status("server_encoding")
            if encoding != "UTF8":
                raise StoreError(f"{self}: the database must be encoded in UTF8, not {encoding}")
            if create and not connection.execute("SELECT current_schema()").fetchall()[0][0]:
                with contextlib.suppress(errors.UniqueViolation):  # made by somebody else just now
                    connection.execute(
                        sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(
                            sql.Identifier(self._schema)
                        )
                    )

    def _connect(self) -> psycopg.Connection[Row]:
        connection = psycopg.connect(
            self._url, autocommit=True, **{**_CONNECTION, **_options_of(self._url)}
        )
        for setting, value in (
            ("search_path", f'"{self._schema}"'),
            ("lock_timeout", f"{_LOCK_SECONDS}s"),
            ("timezone", "UTC"),
            ("synchronous_commit", "on" if self._durable else "off"),
        ):
            connection.execute("SELECT set_config(%s, %s, false)", [setting, value])
        return connection

    def migrate(self, *, create: bool) -> None:
        if self.version() and not create:
            super().migrate(create=create)
            return
        with self._told(), self._connect() as connection:  # only one at a time changes tables
            connection.execute("SELECT pg_advisory_lock(%s)", [_MIGRATING])
            super().migrate(create=create)

    def read(self, work: Callable[[Session], T]) -> T:
        def once() -> T:
            try:
                with self._snapshot() as session:
                    return work(session)
            except psycopg.OperationalError as error:
                if _connection_lost(error):
                    self._drop_idle()
                raise

        with self._told():
            return _until_it_works(once)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Session]:
        with self._told(), self._snapshot() as session:
            yield session

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[Session]:
        connection = self._begun()
        try:
            yield PostgresSession(connection)
        finally:
            with contextlib.suppress(psycopg.Error):
                connection.execute("ROLLBACK")
            self._give_back(connection)

    def _begun(self) -> psycopg.Connection[Row]:
        """A connection in a reading transaction; those that died while they were idle are left."""
        while True:
            with self._pool:
                if self._closed:
                    raise StoreError(f"{self}: the store is closed")
                idle = self._idle.pop() if self._idle else None
            connection = idle or self._connect()
            try:
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            except psycopg.OperationalError:
                connection.close()
                if idle is None:
                    raise
            else:
                return connection

    def _give_back(self, connection: psycopg.Connection[Row]) -> None:
        with self._pool:
            if not (connection.closed or self._closed) and len(self._idle) < _IDLE_READERS:
                self._idle.append(connection)
                return
        connection.close()

    def _drop_idle(self) -> None:
        with self._pool:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def write(self, work: Callable[[Session], T]) -> T:
        def once() -> T:
            with self._writing:
                if self._closed:
                    raise StoreError(f"{self}: the store is closed")
                if self._writer is None or self._writer.closed:
                    self._writer = self._connect()
                try:
                    with self._writer.transaction():
                        return work(PostgresSession(self._writer))
                except psycopg.OperationalError as error:
                    if _connection_lost(error):
                        self._writer.close()
                    raise

        with self._told():
            return _until_it_works(once)

    def findings(self) -> list[Finding]:
        with self.snapshot() as session:
            broken = session.all("invalid_indices")
        if not broken:
            return []
        return [
            Finding(
                severity="error",
                check="integrity",
                message="indices are not valid; run REINDEX",
                count=len(broken),
                examples=tuple(str(row[0]) for row in broken[:5]),
            )
        ]

    def after_restore(self, session: Session) -> None:
        for table in (
            "digests",
            "sources",
            "visits",
            "snapshots",
            "events",
            "audit",
            "subscriptions",
            "deliveries",
            "accounts",
            "tokens",
        ):
            session.sql(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), "  # noqa: S608
                f"(SELECT coalesce(max(id), 0) + 1 FROM {table}), false)",
                {},
            )

    def close(self) -> None:
        with self._pool:
            self._closed = True
        self._drop_idle()
        with self._writing:
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Tell the driver's errors as ours."""
        try:
            yield
        except errors.LockNotAvailable as error:
            raise StoreBusyError(
                f"{self}: somebody has held a row for {_LOCK_SECONDS} seconds; nothing was written"
            ) from error
        except psycopg.Error as error:
            away = isinstance(error, psycopg.OperationalError) and _connection_lost(error)
            if away:
                raise StoreAwayError(f"{self} is away: {' '.join(str(error).split())}") from error
            raise StoreError(f"{self}: {str(error).strip()}") from error


def _until_it_works(once: Callable[[], T]) -> T:
    """Try again, a few times, after deadlocks and lost connections."""
    for attempt in range(_ATTEMPTS):
        last = attempt >= _ATTEMPTS - 1
        try:
            return once()
        except _AGAIN:
            if last:
                raise
        except psycopg.OperationalError as error:
            if last or not _connection_lost(error):
                raise
        time.sleep(_pause(attempt))
    raise AssertionError


def _options_of(url: str) -> dict[str, str]:
    """What the URL itself says of a connection; it has the last word."""
    return {key: value for key, value in parse_qsl(urlsplit(url).query) if key in _CONNECTION}


def _translated(text: str) -> str:
    """Write parameters as psycopg wants them."""
    text = _LIST.sub(r"= ANY(:\1)", text.replace("%", "%%"))
    return _PARAMETER.sub(r"%(\1)s", text)


def _schema_of(url: str) -> tuple[str, str]:
    """Take our own parameter out of the URL."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise StoreError(f"this is not a URL of a database: {error}") from error
    if re.search(r"[@\s]", parts.netloc.rpartition("@")[0]):  # messages of others would quote it
        raise StoreError(
            "percent-encode name and password in the address of a database: %40 for @, %20 for a "
            "space"
        )
    options = parse_qsl(parts.query, keep_blank_values=True)
    schema = dict(options).get("schema", "observant")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", schema):
        raise StoreError(f"a schema is named by letters, digits and _, not {schema!r}")
    rest = urlencode([(key, value) for key, value in options if key != "schema"])
    return urlunsplit(parts._replace(query=rest)), schema


def _connection_lost(error: psycopg.OperationalError) -> bool:
    """Whether trying again on a new connection can help."""
    state = error.sqlstate
    return state is None or state[:2] in {"08", "57"} or state == "53300"  # too many connections


def _pause(attempt: int) -> float:
    return float(0.02 * 2**attempt * (0.5 + random.random()))  # noqa: S311 - only spreads retries
