"""Permission to run code and to read files of this machine, which the configuration alone gives.

What is in a store may come from a backup, from an import or from somebody at the dashboard. So a
source that would run a command, call code or read a file is visited only if the configuration
names it whole (its kind, and its very command line, function or path), or its folder among the
`files`, or its kind among the `kinds`; and if nobody else can write the configuration file.
"""

from __future__ import annotations

import os
import stat
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from observant.errors import InputError
from observant.names import OBJECTIVES
from observant.observer.sources import is_added_here, kinds
from observant.observer.sources.base import ON_THE_WEB, file_path
from observant.plugins import load_own

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from observant.observer.config import Config
    from observant.planning.objectives.own import Penalty
    from observant.store import Source, Store

_FILE = "a configuration file that nobody else can write"


class Permission:
    """What a configuration allows; `functions` are the sources that a program visits itself.

    >>> from observant.observer.config import Config
    >>> from observant.store import Source
    >>> allowed = Permission(Config(files=("/srv/reports",)))
    >>> allowed.refusal(Source(name="a", kind="file", url="/srv/reports/today.txt"))
    ''
    >>> allowed.refusal(Source(name="b", kind="file", url="/srv/reports/../private.txt"))[:41]
    'a file is read only if a configuration fi'
    """

    def __init__(self, config: Config, functions: Collection[str] = ()) -> None:
        self._config, self._functions = config, functions
        base = Path(config.file).parent if config.file else Path()
        self._folders = [(base / folder).resolve() for folder in config.files]

    @cached_property
    def _named(self) -> dict[str, Source]:
        from observant.observer.program import described

        return {source.name: source for source in described(self._config)}

    def refusal(self, source: Source) -> str:
        """Why a source may not be visited here; empty if it may."""
        kind, url = source.kind, source.url or source.name
        if kind in ON_THE_WEB or source.name in self._functions or is_added_here(kind):
            return ""
        named = self._named.get(source.name)
        if named is not None and (named.kind, named.url) == (kind, url):
            return self._unless_written_by_others()
        if kind in self._config.kinds or (kind == "file" and self._within(url)):
            return self._unless_written_by_others()
        what, how = _WORDS.get(
            kind, (f"a source of the kind {kind!r} is visited", f'kinds = ["{kind}"]')
        )
        other = "" if named is None else ", which has something else under this name"
        return f"{what} only if {_FILE} allows it: {how}{other}"

    def check(self, source: Source) -> None:
        """An `InputError` if a source may not be visited here."""
        if reason := self.refusal(source):
            raise InputError(reason, source=source.name)

    def _unless_written_by_others(self) -> str:
        if not self._config.file:
            return ""
        writer = who_else_can_write(self._config.file)
        return f"the configuration is to be {_FILE}: {writer}" if writer else ""

    def _within(self, url: str) -> bool:
        """Whether the file lies in one of the folders, wherever links lead."""
        try:
            place = file_path(url).resolve()
        except (OSError, ValueError, RuntimeError):  # a loop of links, a zero byte
            return False
        return any(place.is_relative_to(folder) for folder in self._folders)


def objective_of(config: Config) -> str | Penalty:
    """The objective of a configuration: a name, or the function that its file names."""
    if config.objective in OBJECTIVES:
        return config.objective
    import numpy as np

    from observant.planning.objectives.own import PenaltyTable

    if writer := config.file and who_else_can_write(config.file):
        raise InputError(f"an objective of your own needs {_FILE}: {writer}", file=config.file)
    try:
        found = load_own(config.objective, "objective", str(Path(config.file).parent))
        PenaltyTable.of(found, np.geomspace(1e-9, 1e9, 1000))
    except InputError as error:
        raise InputError(error.message, file=config.file or None) from error
    return found  # type: ignore[no-any-return]


def not_allowed(store: Store, permission: Permission) -> Iterator[tuple[Source, str]]:
    """The sources of a store that are not visited until the configuration allows them, and why."""
    for kind in sorted(set(kinds()) - ON_THE_WEB):
        for source in store.sources.each(kind=kind):
            if reason := permission.refusal(source):
                yield source, reason


_NAMED = "name the source there, with this very"
_WORDS = {
    "command": ("a command is run", f"{_NAMED} command"),
    "callable": ("a function is called", f"{_NAMED} function"),
    "file": ("a file is read", f"{_NAMED} path, or its folder among the files"),
}


def who_else_can_write(file: str | Path) -> str:
    """Say who besides us (and root) can write a file or swap it; empty if nobody can.

    Commands and callables are run as us, so they are taken only from such a file.
    """
    path = Path(file).resolve()
    if not hasattr(os, "getuid"):
        return "this system does not say who can write a file"
    for place in (path, path.parent):
        found = place.stat()
        if found.st_uid not in (0, os.getuid()):
            return f"{place} belongs to another user"
        sticky = place is path.parent and found.st_mode & stat.S_ISVTX
        if found.st_mode & stat.S_IWOTH and not sticky:
            return f"{place} can be written by everybody"
        if found.st_mode & stat.S_IWGRP and found.st_gid != os.getgid():
            return f"{place} can be written by another group"
        if found.st_mode & stat.S_IWGRP and place is path:
            return f"{place} can be written by its group"
    return ""
