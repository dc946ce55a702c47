"""What may go into a store: checked once, here, whoever brings it (user, import, restore)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import InputError
from observant.store.types import STATES, Event, Source, shard_of
from observant.times import micros

if TYPE_CHECKING:
    from collections.abc import Mapping

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
LONGEST_NAME = 2000
"""Bytes in UTF-8. More would not fit an index of PostgreSQL."""
LONGEST_TEXT = 1 << 20
MOST_IMPORTANCE = 1e9
_EARLIEST, _LATEST = -62_135_596_800.0, 253_402_300_799.0  # the years 1 and 9999


def checked_name(name: object, what: str = "source", longest: int = LONGEST_NAME) -> str:
    """A name that every engine can keep, or an `InputError`."""
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"a {what} needs a name, not {name!r}")
    if _CONTROL.search(name):
        raise InputError(f"the name of a {what} holds a control character: {name[:100]!r}")
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise InputError(f"the name of a {what} is not Unicode: {name[:100]!r}") from None
    if length > longest:
        raise InputError(
            f"the name of a {what} has {length:,} bytes, more than {longest:,}; give it a shorter "
            f"name and put the address into url: {name[:60]!r}..."
        )
    return name


def clean(text: object, longest: int = LONGEST_TEXT) -> str:
    """Any text of the world, without what a database cannot hold.

    >>> clean("a\\0b\\ud800")
    'a�b�'
    """
    shown = str(text)[:longest].replace("\0", "\N{REPLACEMENT CHARACTER}")
    if shown.isascii():
        return shown
    return "".join("\N{REPLACEMENT CHARACTER}" if "\ud800" <= c <= "\udfff" else c for c in shown)


def as_json(value: Any, what: str = "a value") -> str:
    """JSON text of any plain value. What is no Unicode or no number is mended."""
    try:
        return msgspec.json.encode(value, enc_hook=_plain).decode()
    except UnicodeError:
        return msgspec.json.encode(_mended(msgspec.to_builtins(value, enc_hook=_plain))).decode()
    except (TypeError, RecursionError, msgspec.MsgspecError) as error:
        raise InputError(f"{what} cannot be written as JSON: {error}") from None


def from_json(text: str | None) -> Any:
    """What `as_json` wrote."""
    return None if text is None else msgspec.json.decode(text)


def as_bytes(digest: object) -> bytes | None:
    """A digest as bytes; a text is hexadecimal."""
    if digest is None or isinstance(digest, bytes):
        return digest
    if isinstance(digest, str):
        try:
            return bytes.fromhex(digest)
        except ValueError:
            pass
    raise InputError(f"a digest is bytes or hexadecimal text, not {digest!r}")


def instant(at: float | None, what: str) -> int | None:
    """Microseconds of an instant, or an `InputError` if it is none."""
    try:
        known = at is None or _EARLIEST <= at <= _LATEST
    except TypeError:
        known = False
    if not known:
        raise InputError(f"{what} must be seconds since 1970, not {at!r}")
    return micros(at)


def checked_importance(importance: float, source: str | None = None) -> float:
    """The weight of a source, or an `InputError`: sums over all sources must stay numbers."""
    if not 0 <= importance <= MOST_IMPORTANCE:
        raise InputError(
            f"importance must be a number from 0 to {MOST_IMPORTANCE:,.0f}, not {importance!r}",
            source=source or None,
        )
    return importance


def checked_source(source: Source, now: float) -> dict[str, Any]:
    """The columns of a source, or an `InputError` that names it."""
    name = checked_name(source.name)
    if source.state not in STATES:
        raise InputError(f"no state {source.state!r}; one of {', '.join(STATES)}", source=name)
    importance = checked_importance(source.importance, name)
    if not isinstance(source.config, dict):
        raise InputError("config must be a dictionary", source=name)
    tags = sorted({checked_name(tag, "tag", 200) for tag in source.tags})
    host = checked_name(source.host, "host", 1000).lower() if source.host else ""
    title = clean(source.title, 1000)
    return {
        "name": name,
        "kind": checked_name(source.kind, "kind", 100),
        "url": clean(source.url),
        "host": host,
        "shard": shard_of(host or name),
        "title": title,
        "importance": float(importance),
        "state": source.state,
        "due_at": instant(now if source.due_at is None else source.due_at, "due_at"),
        "tags": as_json(tags),
        "config": as_json(source.config, "config"),
        "searched": f"{name}\n{title}".casefold(),
    }


def checked_event(event: Event, source: int | None, now: float) -> dict[str, Any]:
    """The columns of an event."""
    return {
        "event": checked_name(event.id, "event", 500),
        "topic": checked_name(event.topic, "topic", 200),
        "source": source,
        "now": micros(now),
        "due_at": instant(now if event.not_before is None else event.not_before, "not_before"),
        "payload": as_json(event.payload, "the payload of an event"),
    }


def _plain(value: Any) -> Any:
    """What msgspec does not know: numbers of NumPy, and such."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"a {type(value).__name__} is no JSON value")


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list | tuple):
        return [_mended(one) for one in value]
    if isinstance(value, dict):
        return _mended_mapping(value)
    return value


def _mended_mapping(value: Mapping[Any, Any]) -> dict[Any, Any]:
    return {_mended(key): _mended(one) for key, one in value.items()}
