"""The record of one page visit: Brewington's table 3.1, with hashes of today.

It is small enough to be kept for every visit for ever, and tells which attributes of a page change
(figure 3.4) and how a page's style goes with its age (figure 3.5).
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from observant.observer.content.document import Document, short_digest

if TYPE_CHECKING:
    from observant.observer.fetched import Fetched


# -- Term vectors: how much of a text has changed (Brewington 3.2) --------------------------------
#
# A text is the vector of how often each word stands in it, not normalised. Between two versions:
#
#     angle      1 − cos θ₁₂                       (3.1), figure 3.12
#     distance   ‖v₂ − v₁‖                         figure 3.13
#     magnitude  ‖v₂ − v₁‖ / max(‖v₁‖, ‖v₂‖)       figure 3.14, cut off at 1
#
# The paper's bound for the last is 2; counts are never negative, so it is √2 here, reached by two
# texts of equal length without a common word. A source that appears or disappears has 1.


_WORD = re.compile(r"[^\W_]+")
_SPACE = re.compile(r"\s")
_PIECE = 1 << 18
_ASCII = {i: chr(i).lower() if chr(i).isalnum() else " " for i in range(128)}


class Difference(NamedTuple):
    """How far one text is from another."""

    angle: float
    distance: float
    magnitude: float
    length: float = 0.0
    """‖v₁‖"""


def term_vector(text: str, terms: str = "words") -> Counter[str]:
    """How often each word occurs; as "stems", each without its plural; as "phrases", also each pair
    of words that stand side by side in a line (Brewington 3.2.1).

    >>> sorted(term_vector("To be, or not to be").items())
    [('be', 2), ('not', 1), ('or', 1), ('to', 2)]
    >>> sorted(term_vector("bees, a bee", "stems").items())
    [('a', 1), ('bee', 2)]
    >>> term_vector("belief networks", "phrases")["belief networks"]
    1
    """
    found = _words(text)
    if terms == "stems":
        stems: Counter[str] = Counter()
        for word, count in found.items():
            stems[_stem(word)] += count
        return stems
    if terms == "phrases":
        for line in text.splitlines():
            for piece in pieces(line):
                found.update(map(" ".join, pairwise(_WORD.findall(piece.lower()))))
    return found


def _stem(word: str) -> str:
    """An English word without its plural ending: Harman's S stemmer (1991)."""
    if len(word) > 3 and word.endswith("s"):
        if word.endswith("ies") and word[-4] not in "ae":
            return word[:-3] + "y"
        if word.endswith("es") and word[-3] not in "aeo":
            return word[:-1]
        if word[-2] not in "us":
            return word[:-1]
    return word


def query_weights(queries: Iterable[str], most: int = 500) -> dict[str, float]:
    """How much each term matters, by how often people ask for it, 0 to 1: log(1 + n) over the most.

    >>> {term: round(w, 2) for term, w in query_weights(["bees", "Bees keeping", "law"]).items()}
    {'bees': 1.0, 'keeping': 0.63, 'law': 0.63}
    """
    counts: Counter[str] = Counter()
    for query in queries:
        counts.update(term_vector(query).keys())
        if len(counts) > 100 * most:  # a log of any length
            counts = Counter(dict(counts.most_common(10 * most)))
    top = counts.most_common(most)
    largest = math.log1p(top[0][1]) if top else 1.0
    return {term: math.log1p(count) / largest for term, count in top}


def _words(text: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for piece in pieces(text):  # the words of a large text at once would take ten times its memory
        if piece.isascii():  # the same words, four times faster
            found.update(piece.translate(_ASCII).split())
        else:
            found.update(_WORD.findall(piece.lower()))
    return found


def pieces(text: str) -> Iterator[str]:
    """The text in pieces of bounded length, cut at white space where there is any."""
    start = 0
    while len(text) - start > _PIECE:
        cut = _SPACE.search(text, start + _PIECE)
        end = cut.start() if cut else len(text)
        yield text[start:end]
        start = end
    yield text[start:] if start else text


def gone_and_come(old: list[str], new: list[str]) -> tuple[Counter[str], Counter[str]]:
    """The lines that went and those that came, and how often. Where is not asked.

    >>> gone_and_come(["a", "b", "c"], ["b", "x", "b", "c"])
    (Counter({'a': 1}), Counter({'b': 1, 'x': 1}))
    """
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0  # most of a page stays as it was: it need not be counted
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    past, now = Counter(old[start : len(old) - end]), Counter(new[start : len(new) - end])
    return past - now, now - past


def compare_terms(
    old: Iterable[str],
    new: Iterable[str],
    query: Mapping[str, float] | None = None,
    other_terms: float = 0.0,
    terms: str = "words",
) -> Difference:
    """Compare two texts given as lines.

    With `query` each term counts by its weight, all other terms by `other_terms`: only what the
    user asked for moves the vector (Brewington 3.2.3).

    >>> compare_terms(["a b c d"], ["a b c e"])
    Difference(angle=0.25, distance=1.4142135623730951, magnitude=0.7071067811865476, length=2.0)
    >>> compare_terms(["a b c d"], ["a b c e"], {"a": 1.0, "b": 1.0}).magnitude
    0.0
    """
    new = list(new)
    # Lines that stay cancel in the difference; only one full count of the words is needed.
    gone, come = (
        term_vector("\n".join(lines.elements()), terms) for lines in gone_and_come(list(old), new)
    )
    change = {term: come[term] - gone[term] for term in come.keys() | gone.keys()}
    after = term_vector("\n".join(new), terms)
    weights: dict[str, float] | None = None
    if query is not None:
        weights = {}
        for phrase, weight in query.items():
            for term in term_vector(phrase, terms):
                weights[term] = max(weight, weights.get(term, 0.0))

    def squares(counts: Mapping[str, int]) -> float:
        if weights is None:
            return float(sum([n * n for n in counts.values()]))
        return sum((n * weights.get(term, other_terms)) ** 2 for term, n in counts.items())

    def inner(counts: Mapping[str, int]) -> float:
        if weights is None:
            return float(sum(n * after[term] for term, n in counts.items()))
        return sum(
            n * after[term] * weights.get(term, other_terms) ** 2 for term, n in counts.items()
        )

    new_square, square = squares(after), squares(change)
    if square == 0:
        return Difference(0.0, 0.0, 0.0, math.sqrt(new_square))
    dot = new_square - inner(change)  # v₁·v₂, as v₁ = v₂ − change
    old_square = max(new_square - 2 * inner(change) + square, 0.0)
    larger = math.sqrt(max(old_square, new_square))
    both = math.sqrt(old_square) * math.sqrt(new_square)
    distance = math.sqrt(square)
    return Difference(
        angle=min(max(1 - dot / both, 0.0), 1.0) if both else 1.0,
        distance=distance,
        magnitude=min(distance / larger, 1.0) if larger else 1.0,
        length=math.sqrt(old_square),
    )


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

_WORDS = {"title", "last_modified", "content_length", "text_hash"}
STRUCTURE: tuple[str, ...] = tuple(name for name in ATTRIBUTES if name not in _WORDS)
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
