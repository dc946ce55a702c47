"""SQL stays SQL: named statements in files, and migrations by number.

A statement begins with ``-- name: its_name``. Parameters are written ``:parameter``; a list is
written ``IN :parameter``. Both are turned into what the engine's driver wants. A statement in the
engine's own file takes the place of one of the same name in ``common.sql``.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

__all__ = ["Migration", "migrations", "statements"]

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
    folder = files(__package__).joinpath("migrations").joinpath(engine)
    found = [
        Migration(int(match[1]), match[2], file.read_text("utf-8"))
        for file in folder.iterdir()
        if (match := _MIGRATION.fullmatch(file.name))
    ]
    return tuple(sorted(found))
