"""A sitemap: compared as the list of its pages with their dates."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from observant.observer.sources.http import HttpSource

if TYPE_CHECKING:
    from observant.observer.fetched import Fetched

_LARGEST = 50 * 1024 * 1024
_ADDRESS = re.compile(r"https?://\S+")


class Sitemap(NamedTuple):
    """Pages with what the sitemap claims of their last change, and further sitemaps."""

    pages: list[tuple[str, str]]
    sitemaps: list[str]


class SitemapSource(HttpSource):
    """One line a page: its address and the date that the sitemap claims."""

    form = "sitemap"


def as_list(fetched: Fetched) -> Fetched:
    """The sitemap as the text that is compared."""
    if not fetched.ok or fetched.not_modified:
        return fetched
    sitemap = read_sitemap(fetched.body)
    if sitemap is None:
        return msgspec.structs.replace(
            fetched, error="content", message="this is no sitemap that can be read"
        )
    lines = [f"{page} {date}".strip() for page, date in sitemap.pages]
    text = "\n".join([*lines, *sitemap.sitemaps])
    return msgspec.structs.replace(
        fetched, body=text.encode("utf-8", "replace"), content_type="text/plain", charset="utf-8"
    )


def read_sitemap(body: bytes) -> Sitemap | None:
    """Read XML, gzipped XML or a plain list of addresses; None if it is none of these.

    >>> read_sitemap(b"<urlset><url><loc> https://a.example/ </loc></url></urlset>")
    Sitemap(pages=[('https://a.example/', '')], sitemaps=[])
    """
    if body[:2] == b"\x1f\x8b":
        unpacked = _unpacked(body)
        if unpacked is None:
            return None
        body = unpacked
    if body.lstrip()[:1] != b"<":
        lines = [line.strip() for line in body.decode("utf-8", "replace").splitlines()]
        pages = [(line, "") for line in lines if _ADDRESS.fullmatch(line)]
        return Sitemap(pages, []) if pages else None
    from lxml import etree

    from observant.observer.content.normalisation import check_memory

    parser = etree.XMLParser(
        recover=True, resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )
    try:
        root = etree.fromstring(body, parser)
    except (etree.XMLSyntaxError, ValueError):
        check_memory(parser)
        return None
    check_memory(parser)
    if root is None or _local(root) not in {"urlset", "sitemapindex"}:
        return None
    found = Sitemap([], [])
    for entry in root:
        parts = {_local(part): (part.text or "").strip() for part in entry}
        if not _ADDRESS.fullmatch(parts.get("loc", "")):
            continue
        if _local(root) == "urlset":
            found.pages.append((parts["loc"], parts.get("lastmod", "")))
        else:
            found.sitemaps.append(parts["loc"])
    return found


def _local(element: object) -> str:
    tag = getattr(element, "tag", "")
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def _unpacked(body: bytes) -> bytes | None:
    try:
        with gzip.open(io.BytesIO(body)) as packed:
            text = packed.read(_LARGEST + 1)
    except (OSError, EOFError, ValueError, zlib.error):
        return None
    return text if len(text) <= _LARGEST else None
