"""Kinds of sources, one a file. Packages add more by entry points of the group observant.sources.

An entry point names a class that is made like `base.Compared`: name, url, settings, comparer,
surroundings; and that has ``async visit(previous)``.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

from observant.errors import InputError
from observant.observer.sources.base import Seen, Source, Surroundings, host_of

if TYPE_CHECKING:
    from observant.observer.comparing import Comparer
    from observant.observer.config import SourceSettings

__all__ = ["KINDS", "Seen", "Source", "Surroundings", "host_of", "kinds", "make_source"]

KINDS = {
    "http": "observant.observer.sources.http:HttpSource",
    "file": "observant.observer.sources.file:FileSource",
    "feed": "observant.observer.sources.feed:FeedSource",
    "sitemap": "observant.observer.sources.sitemap:SitemapSource",
    "query": "observant.observer.sources.query:QuerySource",
    "command": "observant.observer.sources.command:CommandSource",
    "callable": "observant.observer.sources.function:CallableSource",
}
GROUP = "observant.sources"


@cache
def kinds() -> dict[str, str]:
    """The kinds that are built in, and those that installed packages add."""
    from importlib.metadata import entry_points

    return {entry.name: entry.value for entry in entry_points(group=GROUP)} | KINDS


def make_source(
    kind: str,
    name: str,
    url: str,
    settings: SourceSettings,
    comparer: Comparer,
    around: Surroundings,
) -> Source:
    """The source that this is, ready to be visited."""
    try:
        module, _, attribute = kinds()[kind].partition(":")
    except KeyError:
        known = ", ".join(sorted(kinds()))
        raise InputError(
            f"there is no kind of source {kind!r}; known: {known}", source=name
        ) from None
    maker: Any = getattr(importlib.import_module(module), attribute)
    source: Source = maker(name, url, settings, comparer, around)
    return source
