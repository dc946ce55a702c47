"""What the commands about a store share: which store, which configuration, how times are told."""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from observant.observer.config import Config
    from observant.store import Store, StoredSource

__all__ = ["ago", "instant", "json_option", "opened", "source_json", "store_options"]

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options --store, --config and --json."""
    for option in reversed(
        [
            click.option(
                "--store",
                metavar="FILE|URL",
                help="The store: a file, or postgresql://…  [default: observant.db]",
            ),
            click.option(
                "--config",
                type=click.Path(dir_okay=False),
                help="Configuration.  [default: observant.toml, if there is one]",
            ),
            json_option,
        ]
    ):
        command = option(command)
    return command


@contextmanager
def opened(
    store: str | None, config: str | None, *, create: bool = False, **flags: Any
) -> Iterator[tuple[Store, Config]]:
    """The store and the configuration that these options name."""
    from observant.observer.config import load_config
    from observant.store import open_store

    loaded = load_config(config, {"store": store, **flags})
    with open_store(loaded.store, create=create) as found:
        yield found, loaded


def instant(at: float | None) -> str | None:
    """Write an instant for machines.

    >>> instant(0.0)
    '1970-01-01T00:00:00Z'
    """
    if at is None:
        return None
    return dt.datetime.fromtimestamp(at, dt.UTC).isoformat().replace("+00:00", "Z")


def ago(at: float | None, now: float) -> str:
    """Write an instant for people.

    >>> ago(0.0, 7200.0), ago(7200.0, 0.0), ago(None, 0.0)
    ('2h ago', 'in 2h', 'never')
    """
    from observant.units import format_duration

    if at is None:
        return "never"
    if at >= now:
        return f"in {format_duration((at - now) / 86_400)}"
    return f"{format_duration((now - at) / 86_400)} ago"


def source_json(source: StoredSource) -> dict[str, Any]:
    """A source as JSON tells it: instants in words, digests in hexadecimal."""
    import msgspec

    values = msgspec.structs.asdict(source)
    for name, value in values.items():
        if name.endswith("_at") or name == "last_modified":
            values[name] = instant(value)
        elif isinstance(value, bytes):
            values[name] = value.hex()
    return values
