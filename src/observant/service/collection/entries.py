"""What people may enter: one set of types, checked here only, for pages, API and import.

Unknown fields are refused. Over the network only web addresses may be entered: what would read
files, run commands or call code is for the configuration file and the command line.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from observant.errors import InputError
from observant.observer.content.rules import SELECTORS
from observant.observer.program import describe
from observant.observer.sources.base import origin_of
from observant.store.types import STATES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from observant.observer.config import Config
    from observant.store import Source, StoredSource


# -- Secrets that people enter with their sources: passwords in addresses, values of headers ------
#
# They are shown to nobody who only reads. A masked value that comes back means: keep what is there.


MASK = "•••"
_CREDENTIALS = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]*://)([^/?#]*)@")


def masked_url(url: str) -> str:
    """An address without its password.

    >>> masked_url("https://ada:secret@example.org/a"), masked_url("https://example.org/@b")
    ('https://•••@example.org/a', 'https://example.org/@b')
    """
    return _CREDENTIALS.sub(rf"\1{MASK}@", url)


def masked_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with the values of headers masked."""
    headers = settings.get("headers")
    if not isinstance(headers, dict) or not headers:
        return dict(settings)
    return settings | {"headers": dict.fromkeys(headers, MASK)}


def unmasked_url(new: str, old: str) -> str:
    """A new address; a masked password stands for the one of the old address."""
    masked, kept = _CREDENTIALS.match(new), _CREDENTIALS.match(old)
    if masked is None or masked[2] != MASK or kept is None:
        return new
    return f"{masked[1]}{kept[2]}@{new[masked.end() :]}"


def unmasked_settings(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """New settings; a masked header stands for its old value."""
    headers, before = new.get("headers"), old.get("headers") or {}
    if not isinstance(headers, dict):
        return new
    known = {
        name: before.get(name, value) if value == MASK else value for name, value in headers.items()
    }
    return new | {"headers": known}


WEB_KINDS = ("http", "feed", "sitemap", "query", "product")  # those of `ON_THE_WEB`, in order
"""Kinds of sources that may be entered over the network."""
MOST_SOURCES = 100_000
MOST_SIGNALS = 10_000
MOST_LOOKS = 20
"""Addresses that are looked at together before they are watched."""
_STRANGE = re.compile(r"[\s\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202f\u2060-\u2064\ufeff\\]")
_WEB = re.compile(r"https?://[^/?#@\s]", re.IGNORECASE)

_FORMULA = ("=", "+", "-", "@", "\t", "\r")

Tag = Annotated[str, Meta(min_length=1, max_length=200)]
Title = Annotated[str, Meta(max_length=1000)]
Url = Annotated[str, Meta(min_length=1, max_length=8192)]
Name = Annotated[str, Meta(max_length=2000)]
Importance = Annotated[float, Meta(ge=0, le=1e9)]


class Entered(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that came from outside."""


class NewSource(Entered, frozen=True, kw_only=True):
    """A source to be watched."""

    url: Url
    kind: Annotated[str, Meta(max_length=100)] = "http"
    """http, feed, sitemap, query."""
    name: Name = ""
    """Its canonical address by default."""
    title: Title = ""
    tags: Annotated[tuple[Tag, ...], Meta(max_length=100)] = ()
    importance: Importance = 1.0
    state: Literal["active", "paused", "gone"] = "active"
    settings: dict[str, Any] = {}
    """As in the configuration file: min_period, max_period, active, headers, compare, …"""


class SourceChanges(Entered, frozen=True, kw_only=True):
    """What is to be changed of a source; what is not given stays."""

    url: Url | UnsetType = UNSET
    title: Title | UnsetType = UNSET
    tags: Annotated[tuple[Tag, ...], Meta(max_length=100)] | UnsetType = UNSET
    importance: Importance | UnsetType = UNSET
    state: Literal["active", "paused"] | UnsetType = UNSET
    settings: dict[str, Any] | UnsetType = UNSET
    """Replaces all of its own settings."""
    patch: dict[str, Any] | UnsetType = UNSET
    """Merged into its own settings (RFC 7396): what is null is taken away."""
    add_tags: Annotated[tuple[Tag, ...], Meta(max_length=100)] = ()
    remove_tags: Annotated[tuple[Tag, ...], Meta(max_length=100)] = ()

    @classmethod
    def of(cls, source: Source) -> SourceChanges:
        """What a description says of a source that is there already: more tags, other settings."""
        importance = source.importance if source.importance != 1.0 else UNSET
        return cls(
            title=source.title or UNSET,
            importance=source.config.get("importance", importance),
            patch=source.config or UNSET,
            add_tags=source.tags,
        )


class StepsRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Steps to be tried on the page of a source; nothing is saved."""

    steps: tuple[str, ...] = ()
    sign_in: tuple[str, ...] = ()


class PreviewRequest(Entered, frozen=True, kw_only=True):
    """Settings to be tried on a source that is watched, or on an address."""

    source: int | None = None
    """The number of a source ..."""
    url: Annotated[str, Meta(max_length=8192)] = ""
    """... or an address."""
    kind: Annotated[str, Meta(max_length=100)] = "http"
    changes: SourceChanges = SourceChanges()
    """What is tried."""


class AddressRequest(Entered, frozen=True, kw_only=True):
    """Addresses to be looked at before they are watched."""

    urls: Annotated[tuple[Url, ...], Meta(min_length=1, max_length=MOST_LOOKS)]


class SeenEvents(Entered, frozen=True, kw_only=True):
    """Events that somebody has seen."""

    numbers: Annotated[tuple[int, ...], Meta(max_length=1000)] = ()
    until: Annotated[int, Meta(ge=0, le=2**53)] = 0
    """All up to this number, too."""


class NewSignal(Entered, frozen=True, kw_only=True):
    """A source may have changed."""

    url: Url
    kind: Annotated[str, Meta(min_length=1, max_length=50, pattern=r"^[a-z][a-z0-9_-]*$")] = "ping"
    """Who says so: signals of one kind about one host are believed alike."""
    changed_at: dt.datetime | None = None
    """When the change was, where that is known."""


class BulkChange(Entered, frozen=True, kw_only=True):
    """One change to many sources: those of these ids, or all that the filters let through."""

    action: Literal["pause", "resume", "tag", "untag", "importance", "edit", "remove"]
    ids: Annotated[tuple[int, ...], Meta(max_length=10_000)] = ()
    search: str | None = None
    tag: str | None = None
    host: str | None = None
    state: str | None = None
    kind: str | None = None
    all: bool = False
    """Must be said to change every source there is."""
    value: Tag | Importance | None = None
    """The tag, or the importance."""
    changes: SourceChanges = SourceChanges()
    """What to edit."""
    dry_run: bool = False
    """Only say what would be edited."""

    def as_changes(self) -> SourceChanges:
        """What is to be changed of each source."""
        if self.action in {"tag", "untag"}:
            if not isinstance(self.value, str):
                raise InputError(f"to {self.action} sources, give the tag as value")
            tags = (self.value,)
            added = self.action == "tag"
            return SourceChanges(add_tags=tags) if added else SourceChanges(remove_tags=tags)
        if self.action == "importance":
            if not isinstance(self.value, int | float):
                raise InputError("to set the importance, give a number as value")
            return SourceChanges(importance=float(self.value))
        if self.action == "edit":
            return self.changes
        return SourceChanges(state="paused" if self.action == "pause" else "active")


def web_address(url: str) -> str:
    """An address that may be entered over the network, as it was given; else an `InputError`.

    No disguise helps: white space, control characters, backslashes, credentials in odd places,
    missing slashes, other schemes are refused before anybody tries to make sense of them.

    >>> web_address("https://example.org/a")
    'https://example.org/a'
    """
    from observant.errors import BadURL
    from observant.observer.transport.urls import parse

    if _STRANGE.search(url):
        raise InputError("an address holds no spaces, control characters or backslashes")
    plain = re.sub(r"^(https?://)[^/?#]*@", r"\1", url, flags=re.IGNORECASE)
    if not _WEB.match(plain):
        raise InputError("only addresses that begin with http:// or https:// can be watched here")
    try:
        parse(url)
    except BadURL as error:
        raise InputError(str(error)) from None
    return url


def with_scheme(address: str) -> str:
    """An address as somebody types it, with https:// before it if it says nothing.

    >>> with_scheme(" example.org/a "), with_scheme("http://example.org"), with_scheme("file:x")
    ('https://example.org/a', 'http://example.org', 'file:x')
    """
    address = address.strip()
    plain = "://" not in address and ":" not in address.partition("/")[0]
    return f"https://{address}" if plain and address else address


def checked(entry: NewSource, config: Config, *, trusted: bool = False) -> Source:
    """A source for the store, or an `InputError` that says what is wrong with the entry.

    `trusted` is for the command line, which may enter whatever its user may read.
    """
    if not trusted:
        if entry.kind not in WEB_KINDS:
            raise InputError(
                f"sources of the kind {entry.kind[:50]!r} cannot be entered here, only "
                f"{', '.join(WEB_KINDS)}"
            )
        web_address(entry.url)
        if entry.name.startswith(_FORMULA):
            raise InputError(
                f"a name does not begin with {entry.name[0]!r}: a spreadsheet would compute it",
                source=entry.name,
            )
    source = describe(
        entry.url,
        kind=entry.kind,
        name=entry.name,
        title=entry.title,
        tags=entry.tags,
        importance=entry.importance,
        settings=entry.settings,
    )
    _check_settings(source, source.config, source.tags, config, trusted=trusted)
    return msgspec.structs.replace(source, state=entry.state)


def checked_changes(
    before: StoredSource, changes: SourceChanges, config: Config, *, trusted: bool = False
) -> dict[str, Any]:
    """Fields of the store to be changed, after the same checks as a new source.

    Headers may hold secrets: they are never sent to an origin they were not entered for. Who moves
    a source to another host, port or scheme enters its headers again.
    """
    found = {
        name: value
        for name, value in ((n, getattr(changes, n)) for n in changes.__struct_fields__)
        if value is not UNSET
    }
    settings, patch = before.config, found.pop("patch", {})
    if "settings" in found:
        settings = found.pop("settings")
    if "importance" in found and "importance" in settings:
        patch = {"importance": found["importance"]} | patch
    if patch:
        settings = patched(settings, patch)
    if settings is not before.config:
        settings = found["config"] = unmasked_settings(settings, before.config)
    added, removed = found.pop("add_tags"), {*found.pop("remove_tags")}
    if added or removed:
        both = (*found.get("tags", before.tags), *added)
        found["tags"] = tuple(dict.fromkeys(tag for tag in both if tag not in removed))
    if "url" in found:
        address = unmasked_url(found["url"], before.url)
        entry = NewSource(url=address, kind=before.kind, settings=settings)
        moved = checked(entry, config, trusted=trusted)
        found |= {"url": moved.url, "host": moved.host}
        if origin_of(moved.url) != origin_of(before.url or before.name):
            kept = before.config.get("headers") or {}
            sent = settings.get("headers") or {}
            if any(kept.get(name) == value for name, value in sent.items()):
                raise InputError(
                    "its headers were entered for another host, port or scheme: enter them again "
                    "with the new address, or take them away",
                    source=before.name,
                )
            if address != changes.url:  # the mask stood for the old one
                raise InputError(
                    "its password was entered for another host, port or scheme: enter it again",
                    source=before.name,
                )
    tags = found.get("tags", before.tags)
    if "config" in found or "url" in found or ({*tags} ^ {*before.tags}) & config.tags.keys():
        _check_settings(before, settings, tags, config, trusted=trusted)
    if "state" in found and found["state"] not in STATES:
        raise InputError(f"no state {found['state']!r}")
    return found


def patched(settings: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Settings after a merge patch (RFC 7396); a new selector takes the place of another.

    >>> patched({"compare": {"css": "p", "confirm": 1}}, {"compare": {"xpath": "//b"}})
    {'compare': {'confirm': 1, 'xpath': '//b'}}
    >>> patched({"headers": {"A": "b"}, "render": "never"}, {"headers": None})
    {'render': 'never'}
    """
    if any(patch.get(name) for name in SELECTORS[:4]):
        settings = {k: v for k, v in settings.items() if k not in SELECTORS[:4]}
    merged = dict(settings)
    for key, value in patch.items():
        before = merged.pop(key, None)
        inner = before if isinstance(before, dict) else {}
        after = patched(inner, value) or None if isinstance(value, dict) else value
        if after is not None:
            merged[key] = after
    return merged


def _check_settings(
    of: Source | StoredSource,
    settings: dict[str, Any],
    tags: Iterable[str],
    config: Config,
    *,
    trusted: bool,
) -> None:
    """Settings that no visit could use are refused now, and so are those that nobody knows.

    Limits protect the machine: whoever is not trusted may narrow them, and not lift them.
    """
    config.settings_of(tuple(tags), settings, of.name, kind=of.kind)
    own = settings.get("limits")
    if trusted or not own:
        return
    from observant.observer.transport.limits import Limits

    usual = config.limits | config.settings_of(tuple(tags), {}, of.name).limits
    before, after = (msgspec.convert(given, Limits, strict=False) for given in (usual, usual | own))
    lifted = after.lifted(before)
    if lifted:
        raise InputError(
            f"the limits {', '.join(lifted)} can only be lifted in the configuration file",
            source=of.name,
        )
