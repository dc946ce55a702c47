"""What is at an address: a page, a feed, a sitemap, JSON, a PDF, an image, an empty shell.

Said before a source is added, with how it would be watched. The bytes are a stranger's: they are
read in a worker process (`tasks.recognise`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import msgspec

from observant.errors import UnreadableError
from observant.language import N_
from observant.language import gettext as _
from observant.observer.browser.need import BrowserNeed, has_scripts
from observant.observer.content import Comparer
from observant.observer.content.document import utf8
from observant.observer.content.normalisation import html_tree, is_pdf, kind_of
from observant.observer.sources.feed import entries_of
from observant.observer.sources.product import product_of
from observant.observer.sources.sitemap import read_sitemap

if TYPE_CHECKING:
    from observant.observer.fetched import Fetched

WORDS = {
    "page": N_("a web page"),
    "shell": N_("a web page that is empty without a browser"),
    "product": N_("a page of a shop: {detail}"),
    "feed": N_("a feed; its list of entries is watched, {count} now"),
    "sitemap": N_("a sitemap; its list of pages is watched, {count} now"),
    "json": N_("JSON; its values are watched"),
    "xml": N_("XML; its text is watched"),
    "pdf": N_("a PDF; its text is watched"),
    "pdf-bytes": N_("a PDF; its text needs observant[pdf], its bytes are watched"),
    "image": N_("an image; its bytes are watched"),
    "text": N_("plain text"),
    "file": N_("a file; its bytes are watched"),
}
"""What is said of each thing that is found."""
_KINDS = {"feed": "feed", "sitemap": "sitemap"}
_FEED = re.compile(rb"<(?:rss|rdf:rdf|(?:\w+:)?feed)[\s>]", re.IGNORECASE)
_FEED_TYPES = ("application/rss+xml", "application/atom+xml", "application/feed+json")
_HEAD = 4096
_MOST_FEEDS = 5


class Recognised(msgspec.Struct, frozen=True, kw_only=True):
    """What was found at an address."""

    what: str
    """One of `WORDS`."""
    count: int = 0
    """Entries of a feed, pages of a sitemap."""
    title: str = ""
    detail: str = ""
    """What a shop says of what it sells."""
    feeds: list[str] = []
    """Feeds that a page names."""

    @property
    def kind(self) -> str:
        """The kind of source that fits."""
        return _KINDS.get(self.what, "http")

    def __str__(self) -> str:
        return _(WORDS[self.what]).format(count=f"{self.count:,}", detail=self.detail)


def recognised(fetched: Fetched) -> Recognised:
    """What an answer is.

    >>> from observant.observer.fetched import Fetched
    >>> page = b"<rss version='2.0'><channel><item><title>One</title></item></channel></rss>"
    >>> found = recognised(Fetched(url="https://a.example/", status=200, body=page))
    >>> found.kind, str(found)
    ('feed', 'a feed; its list of entries is watched, 1 now')
    """
    try:
        return _listing(fetched) or _document(fetched)
    except UnreadableError:
        return Recognised(what="file")


def _listing(fetched: Fetched) -> Recognised | None:
    """A feed or a sitemap, whatever the server calls it."""
    body = fetched.body
    start = body[:_HEAD].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] == b"<" or body[:2] == b"\x1f\x8b":
        entries = entries_of(body) if _FEED.search(start) else None
        pages = None if entries is not None else read_sitemap(body)
        if pages is not None:
            return Recognised(what="sitemap", count=len(pages.pages) + len(pages.sitemaps))
    else:
        entries = entries_of(body) if start[:1] == b"{" and b"jsonfeed.org" in start else None
    return None if entries is None else Recognised(what="feed", count=len(entries))


def _document(fetched: Fetched) -> Recognised:
    body, kind = fetched.body, kind_of(fetched)
    if is_pdf(fetched):
        return Recognised(what="pdf-bytes" if kind == "bytes" else "pdf")
    if fetched.content_type.startswith("image/"):
        return Recognised(what="image")
    if kind != "html":
        return Recognised(what={"bytes": "file"}.get(kind, kind))
    found = Comparer().compare(None, fetched)
    title = str((found.record or {}).get("title", ""))[:1000]
    page = utf8(body, fetched.charset)
    feeds = list(_feeds(page, fetched.final_url))[:_MOST_FEEDS]
    need = BrowserNeed().read_plainly(found, scripts=has_scripts(fetched), whole=True)
    if need.shell:
        return Recognised(what="shell", title=title, feeds=feeds)
    product = product_of(page)
    if product is not None:
        price = "" if product.price is None else f"{product.price:.12g} {product.currency}".strip()
        said = ", ".join(part for part in (product.name, price, product.availability) if part)
        return Recognised(what="product", title=title, detail=said, feeds=feeds)
    return Recognised(what="page", title=title, feeds=feeds)


def _feeds(page: bytes, base: str) -> dict[str, None]:
    """Addresses of feeds that a page names, in order."""
    found: dict[str, None] = {}
    for link in html_tree(page).iter("link"):
        rel, kind = (link.get("rel") or "").lower().split(), (link.get("type") or "").lower()
        if "alternate" in rel and kind.strip() in _FEED_TYPES and link.get("href"):
            try:
                address = urljoin(base, link.get("href").strip())
            except ValueError:
                continue
            if address.startswith(("http://", "https://")):
                found[address] = None
    return found
