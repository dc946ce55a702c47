"""What the commands about a store share: which store, which configuration, how times are told."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from observant.cli import options
from observant.cli.console import print_json
from observant.names import usual_store
from observant.times import DAY, iso

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from observant.observer.config import Config
    from observant.service.collection import Collection
    from observant.store import Store, StoredSource


class Common(NamedTuple):
    """What every command about a store is given: --store, --config, --json."""

    store: str | None
    config: str | None
    as_json: bool = False

    @contextmanager
    def opened(self, *, create: bool = False, **flags: Any) -> Iterator[tuple[Store, Config]]:
        """The store and the configuration that these options name."""
        from observant.observer.config import load_config
        from observant.store import open_store

        loaded = load_config(self.config, {"store": self.store, **flags})
        if create and loaded.store == usual_store(os.environ):
            Path(loaded.store).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open_store(loaded.store, create=create) as found:
            yield found, loaded

    @contextmanager
    def collected(self, *, create: bool = False, **flags: Any) -> Iterator[Collection]:
        """The collection, for commands that change it as pages and API do."""
        from observant.service.collection import Collection

        with self.opened(create=create, **flags) as (found, loaded):
            collection = Collection(found, loaded)
            try:
                yield collection
            finally:
                collection.cache.close()

    def new_file(self) -> Path | None:
        """The file that opening the store would make; None if there is one, or if it is none."""
        from observant.observer.config import load_config

        place = load_config(self.config, {"store": self.store}).store
        return Path(place) if "://" not in place and not Path(place).exists() else None

    def tell(self, answer: Any, *lines: str) -> None:
        """Print the answer as JSON where that was asked for, else these lines."""
        if self.as_json:
            print_json(answer)
            return
        for line in lines:
            click.echo(line)

    def next_command(self, command: str, allow: Sequence[str] = ()) -> str:
        """A command to go on with, on the same store and with the same networks allowed.

        >>> Common("my pages.db", None).next_command("serve", ["127.0.0.1"])
        "observant serve --store 'my pages.db' --allow 127.0.0.1"
        """
        words = [*command.split()]
        words += ["--store", place(self.store)] if self.store else []
        words += ["--config", self.config] if self.config else []
        for network in allow:
            words += ["--allow", network]
        return f"{program()} {shlex.join(words)}"


def store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --store, --config and --json to a command, which is given them as `common`."""

    @wraps(command)
    def run(*args: Any, store: str | None, config: str | None, as_json: bool, **given: Any) -> Any:
        return command(*args, common=Common(store, config, as_json), **given)

    return options.store_options(run)


def tell_disabled(store: Store, config: Config) -> list[dict[str, str]]:
    """Say to standard error which sources are not visited until the configuration allows them."""
    from observant.observer.permission import Permission, not_allowed

    found = [
        {"source": s.name, "kind": s.kind, "reason": why}
        for s, why in not_allowed(store, Permission(config))
    ]
    for one in found:
        click.echo(f"not visited: {one['source']}: {one['reason']}", err=True)
    return found


def chosen(store: Store, sources: tuple[str, ...], tag: str | None) -> list[StoredSource]:
    """The sources that are meant: by name or a part of it, or by tag."""
    from observant.errors import InputError

    rows = [store.sources.find(source) for source in sources]
    if tag:
        rows += store.sources.each(tag=tag)
    if not rows:
        raise InputError(
            f"there is no source with the tag {tag!r}"
            if tag
            else "say which sources: their names, or --tag"
        )
    return list({row.id: row for row in rows}.values())


def seconds(at: float | dt.datetime | None) -> float | None:
    """An instant of the store, or of an answer, in seconds since 1970."""
    return at if at is None or isinstance(at, int | float) else at.timestamp()


def ago(at: float | dt.datetime | None, now: float) -> str:
    """Write an instant for people.

    >>> ago(0.0, 7200.0), ago(7200.0, 0.0), ago(None, 0.0)
    ('2h ago', 'in 2h', 'never')
    """
    from observant.units import format_duration

    if (then := seconds(at)) is None:
        return "never"
    if then >= now:
        return f"in {format_duration((then - now) / DAY)}"
    return f"{format_duration((now - then) / DAY)} ago"


def due(at: float | dt.datetime | None, now: float) -> str:
    """Write when something is due, for people.

    >>> due(0.0, 7200.0), due(7200.0, 0.0), due(None, 0.0)
    ('now', 'in 2h', 'never')
    """
    then = seconds(at)
    return "now" if then is not None and then <= now else ago(then, now)


def place(store: str) -> str:
    """The name of a store as it may be printed: without a password.

    >>> place("postgresql://me:secret@db.example/watch"), place("observant.db")
    ('postgresql://me@db.example/watch', 'observant.db')
    """
    if "://" not in store:
        return store
    without = re.sub(r"://([^/?#:]*):[^/?#]*@", r"://\1@", store)
    return re.sub(r"([?&]password=)[^&]*", r"\1•••", without)


def program() -> str:
    """How to call this program from here: its path where the shell would not find it."""
    called = Path(sys.argv[0])
    if called.name != "observant" or not called.is_file():
        return "observant"
    on_path = shutil.which("observant")
    if on_path and Path(on_path).resolve() == called.resolve():
        return "observant"
    here, place = Path.cwd(), called.absolute()
    return str(place.relative_to(here) if place.is_relative_to(here) else place)


def tell_remedies(failed: Iterable[tuple[str | None, int | None]]) -> None:
    """Say to standard error what helps against each kind of failure: error and status."""
    from observant.observer.failures import failure, remedy

    for error, status in dict.fromkeys(failed):
        if helps := remedy(error, status):
            click.echo(f'What helps against "{failure(error, status)}": {helps}', err=True)


def picked(row: Any, names: str) -> dict[str, Any]:
    """Some fields of a stored value as JSON tells them."""
    return {
        name: iso(getattr(row, name)) if name.endswith("_at") else getattr(row, name)
        for name in names.split()
    }
