"""The record of one page visit: Brewington's table 3.1, with hashes of today.

It is small enough to be kept for every visit for ever, and tells which attributes of a page change
(figure 3.4) and how a page's style goes with its age (figure 3.5).
"""

__all__ = ["ATTRIBUTES", "STRUCTURE", "changed_attributes", "observed_again", "record_of"]

from typing import TYPE_CHECKING, Any

from observant.observer.content.digests import short_digest
from observant.observer.content.document import Document

if TYPE_CHECKING:
    from observant.observer.fetched import Fetched

ATTRIBUTES: tuple[str, ...] = (
    "title",
    "last_modified",
    "content_length",
    "num_tokens",
    "num_images",
    "num_links",
    "num_tables",
    "num_forms",
    "num_ads",
    "num_lists",
    "text_hash",
    "image_hash",
    "link_hash",
    "structure_hash",
)
"""All of table 3.1 but the URL and the time of the visit, and `structure_hash`, which is ours: the
order of all tags."""

STRUCTURE: tuple[str, ...] = (
    "num_tokens",
    "num_images",
    "num_links",
    "num_tables",
    "num_forms",
    "num_ads",
    "num_lists",
    "image_hash",
    "link_hash",
    "structure_hash",
)
"""What "structure" means when a source does not choose its attributes."""


def record_of(document: Document, fetched: "Fetched", text_hash: str) -> dict[str, Any]:
    """Table 3.1 for one visit. Counts are not cut off at 2⁸, hashes have 64 bits instead of 16.

    >>> from observant.observer.content.normalisation import read
    >>> from observant.observer.fetched import Fetched
    >>> page = Fetched(url="x:", body=b"<title>T</title><a href=1>a</a><ul><li>b</ul>")
    >>> record = record_of(read(page.body, "html"), page, "0")
    >>> record["title"], record["num_links"], record["num_lists"], record["content_length"]
    ('T', 1, 1, 45)
    """
    tags = document.tags
    return {
        "url": fetched.final_url,
        "title": document.title[:80],
        "last_modified": fetched.last_modified,
        "last_observed": fetched.started_at,
        "content_length": len(fetched.body),
        "num_tokens": len(tags),
        "num_images": tags.count("img"),
        "num_links": tags.count("a"),
        "num_tables": tags.count("table"),
        "num_forms": tags.count("form"),
        "num_ads": document.adverts,
        "num_lists": tags.count("ul") + tags.count("ol"),
        "text_hash": text_hash,
        "image_hash": short_digest("\n".join(document.images)),
        "link_hash": short_digest("\n".join(document.links)),
        "structure_hash": short_digest(" ".join(tags)),
    }


def observed_again(record: dict[str, Any], fetched: "Fetched") -> dict[str, Any]:
    """The record of a visit that found the same bytes, or was told so by a 304."""
    again = {**record, "last_observed": fetched.started_at}
    if fetched.last_modified is not None:
        again["last_modified"] = fetched.last_modified
    return again


def changed_attributes(old: dict[str, Any], new: dict[str, Any]) -> tuple[str, ...]:
    """Which attributes differ (figure 3.4).

    >>> changed_attributes({"num_links": 3, "title": "a"}, {"num_links": 4, "title": "a"})
    ('num_links',)
    """
    return tuple(
        name for name in ATTRIBUTES if name in old and name in new and old[name] != new[name]
    )
