"""What the records of many visits tell: which attributes change, how style goes with age, how
often words, links and hosts occur (Brewington figures 3.4, 3.5, 3.12 to 3.14, and the appendix).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

import numpy as np

from observant.errors import InputError
from observant.estimation.exact import wilson
from observant.observer.content.record import ATTRIBUTES, compare_terms, term_vector
from observant.tables import Table
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from observant.store.visit import Comparison

__all__ = [
    "AttributeShares",
    "Census",
    "Magnitudes",
    "RankFrequency",
    "StyleByAge",
    "TermDrift",
    "attribute_shares",
    "magnitudes",
    "rank_frequency",
    "style_by_age",
    "term_drift",
]


@dataclasses.dataclass(frozen=True)
class AttributeShares(Table):
    """Of all changes, the share in which each attribute changed (figure 3.4), most often first."""

    figure: ClassVar[str] = "observant.papers.thesis.figures:attributes_figure"

    attribute: np.ndarray[Any, np.dtype[np.object_]]
    """Name of an attribute of the record of a page (Brewington, table 3.1)."""
    changes: np.ndarray[Any, np.dtype[np.int64]]
    share: np.ndarray[Any, np.dtype[np.float64]]
    """Share of all changes in which it changed."""
    low: np.ndarray[Any, np.dtype[np.float64]]
    high: np.ndarray[Any, np.dtype[np.float64]]
    total: int

    columns: ClassVar[tuple[str, ...]] = ("attribute", "changes", "share", "low", "high")


def attribute_shares(changes: Iterable[Sequence[str]]) -> AttributeShares:
    """Figure 3.4 from `Comparison.attributes` of every visit that saw a change.

    A change by Brewington's broad definition is any attribute of table 3.1 that differs, so visits
    without one do not count. `low` and `high` are Wilson's 95 % interval, which takes the changes
    to be independent.

    >>> shares = attribute_shares([("content_length", "text_hash"), ("text_hash",)])
    >>> [(row["attribute"], row["share"]) for row in shares.rows()]
    [('text_hash', 1.0), ('content_length', 0.5)]
    """
    counts: Counter[str] = Counter()
    total = 0
    for names in changes:
        if names:
            total += 1
            counts.update(set(names) & set(ATTRIBUTES))
    order = sorted(counts, key=lambda name: (-counts[name], name))
    k = np.array([counts[name] for name in order], dtype=np.int64)
    share = k / max(total, 1)
    low, high = wilson(share, max(total, 1))
    return AttributeShares(np.array(order, dtype=object), k, share, low, high, total)


@dataclasses.dataclass(frozen=True)
class StyleByAge(Table):
    """The distribution of attributes for pages of several ages (figure 3.5)."""

    figure: ClassVar[str] = "observant.papers.thesis.figures:style_figure"

    attribute: np.ndarray[Any, np.dtype[np.object_]]
    """Name of an attribute of the record of a page."""
    group: np.ndarray[Any, np.dtype[np.object_]]
    value: np.ndarray[Any, np.dtype[np.float64]]
    """A value that the attribute takes."""
    share: np.ndarray[Any, np.dtype[np.float64]]
    """Share of the group's pages with at most this value."""
    pages: dict[str, int]
    undated: int

    columns: ClassVar[tuple[str, ...]] = ("attribute", "group", "value", "share")

    def median(self, attribute: str, group: str) -> float:
        chosen = (self.attribute == attribute) & (self.group == group)
        if not chosen.any():
            raise InputError(f"there are no pages for {attribute!r} in {group!r}")
        return float(np.interp(0.5, self.share[chosen], self.value[chosen]))


def style_by_age(
    records: Iterable[Mapping[str, Any]],
    *,
    ages: Sequence[float] = (30.0, 365.0),
    attributes: Sequence[str] = ("content_length", "num_images"),
    points: int = 200,
) -> StyleByAge:
    """Figure 3.5: do pages last modified long ago look different?

    Age is the time from Last-Modified to the visit, in days. `ages` are the limits between the
    groups. Records without Last-Modified are counted in `undated` and left out; they are the more
    volatile half of the web (Brewington 3.1.1), so the groups are not a sample of all pages.

    >>> old = {"last_observed": 9e7, "last_modified": 0.0, "content_length": 500, "num_images": 0}
    >>> new = {**old, "last_modified": 9e7 - 60, "content_length": 9000, "num_images": 7}
    >>> style = style_by_age([old, new], ages=[365])
    >>> style.pages, style.median("num_images", "younger than 365 d")
    ({'younger than 365 d': 1, '365 d and older': 1}, 7.0)
    """
    limits = [float(age) for age in ages]
    if not limits or sorted(set(limits)) != limits or limits[0] <= 0:
        raise InputError("ages: give at least one limit, in days, from young to old")
    dated: list[tuple[float, list[float]]] = []
    undated = 0
    for record in records:
        if record.get("last_modified") is None or record.get("last_observed") is None:
            undated += 1
            continue
        age = max((record["last_observed"] - record["last_modified"]) / DAY, 0.0)
        dated.append((age, [float(record.get(name) or 0) for name in attributes]))
    names = [f"younger than {limits[0]:g} d"]
    names += [f"{a:g} to {b:g} d" for a, b in itertools.pairwise(limits)]
    names += [f"{limits[-1]:g} d and older"]
    place = np.searchsorted(limits, [age for age, _ in dated], side="right")
    values = np.array([row for _, row in dated], dtype=float).reshape(len(dated), len(attributes))
    columns: list[tuple[str, str, float, float]] = []
    for column, attribute in enumerate(attributes):
        for i, name in enumerate(names):
            ordered = np.sort(values[place == i, column]) if dated else np.zeros(0)
            if not len(ordered):
                continue
            kept = np.unique(
                np.linspace(0, len(ordered) - 1, min(points, len(ordered))).astype(int)
            )
            columns += [(attribute, name, float(ordered[k]), (k + 1) / len(ordered)) for k in kept]
    return StyleByAge(
        np.array([row[0] for row in columns], dtype=object),
        np.array([row[1] for row in columns], dtype=object),
        np.array([row[2] for row in columns], dtype=float),
        np.array([row[3] for row in columns], dtype=float),
        {name: int(np.sum(place == i)) for i, name in enumerate(names)},
        undated,
    )


@dataclasses.dataclass(frozen=True)
class Magnitudes(Table):
    """Every change: length of the old text, size of the change (figures 3.12 to 3.14)."""

    figure: ClassVar[str] = "observant.papers.thesis.figures:magnitudes_figure"

    length: np.ndarray[Any, np.dtype[np.float64]]
    """Length of the term vector of the old text."""
    angle: np.ndarray[Any, np.dtype[np.float64]]
    """1 − cos of the angle between the vectors (3.1)."""
    distance: np.ndarray[Any, np.dtype[np.float64]]
    """Length of the difference of the vectors."""
    magnitude: np.ndarray[Any, np.dtype[np.float64]]
    """The same relative to the longer of the two, 0 to 1."""

    columns: ClassVar[tuple[str, ...]] = ("length", "angle", "distance", "magnitude")

    @property
    def wholesale(self) -> float:
        """Share of changes with a magnitude of 0.95 and more: appearances, disappearances."""
        return float(np.mean(self.magnitude >= 0.95)) if len(self) else float("nan")


def magnitudes(comparisons: Iterable[Comparison]) -> Magnitudes:
    """Collect what changed, and how much, from comparisons whose text differed."""
    rows = [
        (found.length, found.angle, found.distance, found.magnitude)
        for found in comparisons
        if found.changed
        and found.length is not None
        and found.angle is not None
        and found.distance is not None
        and found.magnitude is not None
    ]
    columns = np.array(rows, dtype=float).reshape(len(rows), 4).T
    return Magnitudes(*(np.ascontiguousarray(column) for column in columns))


@dataclasses.dataclass(frozen=True)
class TermDrift(Table):
    """How far texts are from their first version, by how many versions later (figure 3.11)."""

    step: np.ndarray[Any, np.dtype[np.int64]]
    """Versions since the first."""
    sources: np.ndarray[Any, np.dtype[np.int64]]
    """How many pages have so many versions."""
    from_first: np.ndarray[Any, np.dtype[np.float64]]
    """Mean of ‖v_k − v₁‖ over the longer of the two: how change accumulates."""
    from_last: np.ndarray[Any, np.dtype[np.float64]]
    """The same from the version before."""

    columns: ClassVar[tuple[str, ...]] = ("step", "sources", "from_first", "from_last")


def term_drift(versions: Iterable[Sequence[str]]) -> TermDrift:
    """The limiting behaviour of v_k − v₁ (Brewington 3.2.1): do pages wander off, or come back?

    A page that wanders like a random walk is √k times as far from its first version as one step
    takes it; one that moves about a mean stays near it.

    >>> drift = term_drift([["a b c d", "a b c e", "a b f e"]])
    >>> print(drift.from_first.round(2), drift.from_last.round(2))
    [0.71 1.  ] [0.71 0.71]
    """
    rows: list[tuple[int, float, float]] = []
    for texts in versions:
        rows += [
            (k, compare_terms([texts[0]], [text]).magnitude, compare_terms([old], [text]).magnitude)
            for k, (old, text) in enumerate(itertools.pairwise(texts), 1)
        ]
    step, first, last = np.array(rows, float).reshape(len(rows), 3).T
    place = step.astype(np.int64)
    count = np.bincount(place)
    steps = np.flatnonzero(count)
    return TermDrift(
        steps,
        count[steps],
        np.bincount(place, first)[steps] / count[steps],
        np.bincount(place, last)[steps] / count[steps],
    )


# -- how often -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class RankFrequency(Table):
    """The most frequent first, and the power laws through them (appendix, equations 1 and 2)."""

    figure: ClassVar[str] = "observant.papers.thesis.figures:rank_figure"

    rank: np.ndarray[Any, np.dtype[np.int64]]
    """1 is the most frequent."""
    frequency: np.ndarray[Any, np.dtype[np.int64]]
    """How often it occurs."""
    slope: float
    """−p of f ∝ r⁻ᵖ, fitted over the middle ranks."""
    intercept: float
    """log₁₀ k"""
    fitted: tuple[int, int]
    """First and last rank of the fit."""
    density_slope: float
    """Slope of the density of frequencies (figures 4 and 5): −(1 + 1/p) for an exact power law."""
    distinct: int
    total: int

    columns: ClassVar[tuple[str, ...]] = ("rank", "frequency")


def rank_frequency(
    counts: Mapping[str, int], *, fit: tuple[int, int] | None = None, at_least: int = 5
) -> RankFrequency:
    """Rank-frequency curve with its power-law slope.

    The line is fitted by least squares through points evenly spaced in log rank, so that the many
    rare items do not outvote the others, and over the middle ranks, "where the slope estimates are
    more reliable": from rank 10 to the last item that occurs `at_least` times, or as `fit` says.
    The density's slope is the maximum-likelihood estimate of a discrete power law over items that
    occur `at_least` times (Clauset, Shalizi and Newman 2009, equation 3.7).

    >>> curve = rank_frequency({f"word{r}": round(1e6 / r) for r in range(1, 2001)})
    >>> round(curve.slope, 3), round(curve.density_slope, 1)
    (-1.0, -2.0)
    """
    frequency = np.sort(np.fromiter(counts.values(), dtype=np.int64, count=len(counts)))[::-1]
    frequency = frequency[frequency > 0]
    if len(frequency) < 3:
        raise InputError("a rank-frequency curve needs at least three different items")
    rank = np.arange(1, len(frequency) + 1)
    common = int(np.sum(frequency >= at_least))
    first, last = fit or (min(10, max(1, common // 10)), max(common, 3))
    if not 1 <= first < last <= len(frequency):
        raise InputError(f"fit: ranks {first} to {last} are not within 1 to {len(frequency)}")
    at = np.unique(np.geomspace(first, last, 200).round().astype(int)) - 1
    slope, intercept = np.polyfit(np.log10(rank[at]), np.log10(frequency[at]), 1)
    tail = frequency[frequency >= at_least].astype(float)
    density = float("nan")
    if len(tail) > 1 and tail[0] > tail[-1]:
        density = -(1 + len(tail) / float(np.sum(np.log(tail / (tail[-1] - 0.5)))))
    return RankFrequency(
        rank,
        frequency,
        float(slope),
        float(intercept),
        (int(first), int(last)),
        density,
        len(frequency),
        int(frequency.sum()),
    )


class Census:
    """Counts terms, links and hosts of many pages in bounded memory.

    When a table holds more than `largest` items, those seen least are forgotten; the curve's head
    and middle stay right, its tail is cut off, and `forgotten` says how much was lost.

    >>> census = Census()
    >>> census.add("to be or not to be", ["https://a.example/1", "/2"], "https://b.example/")
    >>> census.terms["be"], census.hosts["a.example"], sorted(census.links)
    (2, 1, ['https://a.example/1', 'https://b.example/2'])
    """

    def __init__(self, largest: int = 1_000_000) -> None:
        self.terms: Counter[str] = Counter()
        self.links: Counter[str] = Counter()
        self.hosts: Counter[str] = Counter()
        self.pages = 0
        self.forgotten = 0
        self.largest = largest

    def add(self, text: str, links: Iterable[str] = (), base: str = "") -> None:
        """Count one page: its text, and its links as they stand on a page at address `base`."""
        from urllib.parse import urljoin

        self.pages += 1
        self.terms.update(term_vector(text))
        for link in links:
            try:
                target = urljoin(base, link.strip()[:2048])
                host = urlsplit(target).hostname
            except ValueError:
                continue
            self.links[target] += 1
            if host:
                self.hosts[host] += 1
        for table in (self.terms, self.links, self.hosts):
            if len(table) > self.largest:
                self._shrink(table)

    def add_page(self, body: bytes, base: str = "", charset: str | None = None) -> None:
        """Count one HTML page from its bytes."""
        from observant.observer.content.normalisation import read

        page = read(body, "html", charset)
        self.add(page.text, page.links, base)

    def _shrink(self, table: Counter[str]) -> None:
        kept = table.most_common(self.largest // 2)
        self.forgotten += sum(table.values()) - sum(count for _, count in kept)
        table.clear()
        table.update(dict(kept))
