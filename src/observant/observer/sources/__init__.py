"""Kinds of sources, one a file. Programs add more by `add_kind`, packages by entry points of the
group observant.sources.

A kind is a class that is made like `base.Compared` (name, url, settings, comparer, surroundings)
and has ``async visit(previous)``. The shortest is a `ReadSource` with a method `read`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from observant.errors import InputError
from observant.observer.sources.base import SourceKind, Surroundings, host_of
from observant.observer.sources.function import ReadSource
from observant.plugins import added, load

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.observer.config import SourceSettings
    from observant.observer.content import Comparer

__all__ = [
    "KINDS",
    "ReadSource",
    "SourceKind",
    "Surroundings",
    "add_kind",
    "host_of",
    "is_added_here",
    "kinds",
    "make_source",
]

KINDS = {
    "http": "observant.observer.sources.http:HttpSource",
    "file": "observant.observer.sources.file:FileSource",
    "feed": "observant.observer.sources.feed:FeedSource",
    "sitemap": "observant.observer.sources.sitemap:SitemapSource",
    "query": "observant.observer.sources.query:QuerySource",
    "product": "observant.observer.sources.product:ProductSource",
    "command": "observant.observer.sources.command:CommandSource",
    "callable": "observant.observer.sources.function:CallableSource",
}
"""The kinds that are built in, and the class of each."""
GROUP = "observant.sources"
_ADDED: dict[str, Callable[..., SourceKind]] = {}


def add_kind(kind: str, maker: Callable[..., SourceKind]) -> None:
    """Let this program have a kind of source of its own; again under the same name replaces it.

    >>> class Even(ReadSource):
    ...     def read(self, previous):
    ...         return int(self.url) % 2 == 0
    >>> add_kind("even", Even)
    >>> "even" in kinds()
    True
    """
    if kind in KINDS:
        raise InputError(f"the kind {kind!r} is built in; give yours another name")
    _ADDED[kind] = maker
    kinds.cache_clear()


def is_added_here(kind: str) -> bool:
    """Whether this program has added the kind itself."""
    return kind in _ADDED


@cache
def kinds() -> dict[str, Any]:
    """The kinds that are built in, those that this program has added, and those that installed
    packages add: ``module:class``, or the class itself.
    """
    return added(GROUP) | _ADDED | KINDS


def make_source(
    kind: str,
    name: str,
    url: str,
    settings: SourceSettings,
    comparer: Comparer,
    around: Surroundings,
) -> SourceKind:
    """The source that this is, ready to be visited."""
    try:
        maker = kinds()[kind]
    except KeyError:
        known = ", ".join(sorted(kinds()))
        raise InputError(
            f"there is no kind of source {kind!r}; known: {known}", source=name
        ) from None
    if isinstance(maker, str):
        maker = load(maker)
    source: SourceKind = maker(name, url, settings, comparer, around)
    return source
