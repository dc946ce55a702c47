"""Engines: databases in whose sessions named statements run, and their migrations."""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec

from observant.errors import StoreError, StoreVersionError
from observant.times import micros

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from observant.store.types import Finding


# -- SQL stays SQL: named statements in files, and migrations by number ---------------------------
#
# A statement begins with ``-- name: its_name``. Parameters are written ``:parameter``; a list is
# written ``IN :parameter``. Both are turned into what the engine's driver wants. A statement in the
# engine's own file takes the place of one of the same name in ``common.sql``.


_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_MIGRATION = re.compile(r"(\d{3})_(\w+)\.sql")


class Migration(NamedTuple):
    """One step from a version of the tables to the next."""

    number: int
    name: str
    sql: str


@cache
def statements(engine: str) -> dict[str, str]:
    """Every named statement for an engine ("sqlite" or "postgres").

    >>> statements("sqlite")["setting"]
    'SELECT value FROM settings WHERE key = :key'
    """
    from importlib.resources import files  # workers need no statements

    folder = files(__package__).joinpath("sql")
    found: dict[str, str] = {}
    for file in ("common.sql", f"{engine}.sql"):
        _, *parts = _NAME.split(folder.joinpath(file).read_text("utf-8"))
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            lines = [line for line in text.splitlines() if not line.startswith("--")]
            found[name] = "\n".join(lines).strip().removesuffix(";")
    return found


@cache
def migrations(engine: str) -> tuple[Migration, ...]:
    """All migrations of an engine, in order.

    >>> [(step.number, step.name) for step in migrations("sqlite")][:3]
    [(1, 'store'), (2, 'observers'), (3, 'notifications')]
    """
    from importlib.resources import files

    folder = files(__package__).joinpath("migrations").joinpath(engine)
    found = [
        Migration(int(match[1]), match[2], file.read_text("utf-8"))
        for file in folder.iterdir()
        if (match := _MIGRATION.fullmatch(file.name))
    ]
    return tuple(sorted(found))


T = TypeVar("T")
Row = tuple[Any, ...]

CHUNK = 1000
"""Rows that are asked for at a time."""


def chunks(values: Iterable[T], size: int = CHUNK) -> Iterator[Sequence[T]]:
    """The values in lists of at most so many, each value once."""
    unique = list(dict.fromkeys(values))
    for start in range(0, len(unique), size):
        yield unique[start : start + size]


_FORMS: dict[str, Callable[[Any], Any]] = {
    "json": msgspec.json.decode,
    "words": msgspec.json.Decoder(tuple[str, ...]).decode,
    "bool": bool,
}


class Columns(Generic[T]):
    """Rows of a statement as structs: its columns, in order, are fields of the struct.

    What ends in ``_at`` is an instant: microseconds in the database, seconds here. Other columns
    that are kept in another form say which (``payload:json``); `forms` are further forms.
    """

    def __init__(self, kind: Callable[..., T], columns: str, **forms: Callable[[Any], Any]) -> None:
        known: dict[str, Any] = _FORMS | forms | {"kind": kind}
        fields = []
        for place, column in enumerate(columns.split()):
            name, _, form = column.partition(":")
            value = f"row[{place}]"
            if form == "at" or (not form and name.endswith("_at")):
                value = f"None if {value} is None else {value} / 1e6"
            elif form:
                value = f"None if {value} is None else {form}({value})"
            fields.append(f"{name}={value}")
        # As fast as if it were written by hand: a scheduler reads every source.
        self._made = eval(f"lambda row, **more: kind({', '.join(fields)}, **more)", known)  # noqa: S307

    def __call__(self, row: Row, **more: Any) -> T:
        """One row; `more` are fields that it does not hold."""
        return self._made(row, **more)  # type: ignore[no-any-return]

    def all(self, rows: Iterable[Row]) -> list[T]:
        """Many rows."""
        return list(map(self._made, rows))


class Session(ABC):
    """One transaction on one connection."""

    def __init__(self, engine: str) -> None:
        self._named = statements(engine)

    def all(self, name: str, /, **parameters: Any) -> list[Row]:
        """Every row that a named statement gives."""
        return self.sql(self._named[name], parameters)

    def one(self, name: str, /, **parameters: Any) -> Row | None:
        """The first row, if there is one."""
        rows = self.all(name, **parameters)
        return rows[0] if rows else None

    def value(self, name: str, /, **parameters: Any) -> Any:
        """The first value of the first row."""
        row = self.one(name, **parameters)
        return None if row is None else row[0]

    def run(self, name: str, /, **parameters: Any) -> int:
        """Run a named statement; returns how many rows it touched."""
        return self.change(self._named[name], parameters)

    def many(self, name: str, rows: Sequence[dict[str, Any]]) -> int:
        """Run a named statement for each of these; returns how many rows were touched."""
        return self.change_many(self._named[name], rows) if rows else 0

    def text(self, name: str) -> str:
        """A named statement, to be put together with others."""
        return self._named[name]

    @abstractmethod
    def sql(self, text: str, parameters: dict[str, Any]) -> list[Row]:
        """The rows of any statement."""

    @abstractmethod
    def change(self, text: str, parameters: dict[str, Any]) -> int:
        """Run a statement; returns how many rows it touched."""

    @abstractmethod
    def change_many(self, text: str, rows: Sequence[dict[str, Any]]) -> int:
        """Run a statement many times."""

    @abstractmethod
    def script(self, text: str) -> None:
        """Run several statements."""

    @abstractmethod
    def now(self) -> float:
        """The clock that everybody who uses this database shares."""

    @abstractmethod
    def load(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> int:
        """Put many rows into a table; returns how many."""

    @abstractmethod
    def stream(self, text: str, size: int) -> Iterator[list[Row]]:
        """The rows of a statement, so many at a time."""


class Engine(ABC):
    """A database. `read` and `write` run a function in a transaction of its own."""

    name: ClassVar[str]
    local: ClassVar[bool] = False
    """Whether only processes of one machine can use it."""
    clock: Callable[[], float] | None = None
    """Stands in for the database's own clock."""

    def now(self, given: float | None = None, session: Session | None = None) -> float:
        """The instant that was given, or now by the clock of the store."""
        if given is not None:
            return float(given)
        if self.clock is not None:
            return self.clock()
        return self.read(lambda own: own.now()) if session is None else session.now()

    @abstractmethod
    def read(self, work: Callable[[Session], T]) -> T:
        """Run `work` on one state of the database."""

    @abstractmethod
    def write(self, work: Callable[[Session], T]) -> T:
        """Run `work` and commit; on any error nothing of it happened."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[Session]:
        """A reading session that sees one state of the database for as long as it is open."""

    @abstractmethod
    def findings(self) -> list[Finding]:
        """Trouble with the database itself."""

    @abstractmethod
    def after_restore(self, session: Session) -> None:
        """Make new keys start after those that were restored."""

    @abstractmethod
    def close(self) -> None:
        """Let go of every connection."""

    def migrate(self, *, create: bool) -> None:
        """Bring the tables to this version, in one transaction; refuse what is newer."""
        place = str(self)
        steps = migrations(self.name)
        newest = steps[-1].number

        def work(session: Session) -> None:
            if not session.value("has_migrations"):
                if not create:
                    raise StoreError(f"{place} holds no store; `observant add` creates one")
                session.script(session.text("create_migrations"))
            done = session.value("version") or 0
            if done > newest:
                raise StoreVersionError(
                    f"{place} was written by a newer observant (its tables have version {done}, "
                    f"this one knows {newest}); install a newer observant, or restore a backup"
                )
            for step in steps:
                if step.number > done:
                    session.script(step.sql)
                    session.run(
                        "migrated", number=step.number, name=step.name, now=micros(time.time())
                    )

        if self.version() != newest:  # looked at first without a lock: opening is mostly reading
            self.write(work)

    def version(self) -> int:
        """The version of the tables; 0 if there are none."""

        def work(session: Session) -> int:
            return (session.value("version") or 0) if session.value("has_migrations") else 0

        return self.read(work)


class StorePiece:
    """A part of a store, which works through its engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
