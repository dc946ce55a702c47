"""Pages with words, links and versions: drawn, or those that a store of one's own has kept.

The thesis's pages are gone. Drawn ones have Zipf's words (the appendix's slopes), most edits of one
to three words and one in twenty of everything; they show that the methods find what was put in.
With a store the same figures tell of real pages.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError
from observant.observer.content import Comparer, Rules
from observant.observer.fetched import Fetched
from observant.papers.thesis.style import Census
from observant.store.visit import Comparison, Previous
from observant.times import DAY

if TYPE_CHECKING:
    from observant.arrays import Floats, Integers
    from observant.papers.result import Options
    from observant.store import Store

DRAWN = "data: synthetic, since the Informant's are gone; --store takes pages of your own"
OWN = "data: the pages of the store"
WORD_SLOPE, HOST_SLOPE, LINK_SLOPE = -0.8, -0.85, -0.69
"""Slopes of rank and frequency, appendix: between −0.7 and −0.9, about −0.85, roughly −0.69."""
_WORDS, _HOSTS, _LINKS = 20_000, 4_000, 40_000
_SOURCES, _VERSIONS = 400, 40
"""Of a store."""
_WHOLESALE = 0.05


@dataclass
class Content:
    """What the figures of 3.1 to 3.2 are made of."""

    comparisons: list[Comparison] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    versions: list[list[str]] = field(default_factory=list)
    """Texts of each page, in order of time."""
    census: Census = field(default_factory=Census)
    queries: Counter[str] = field(default_factory=Counter)
    """How often each word was asked for."""
    own: bool = False

    @property
    def note(self) -> str:
        return OWN if self.own else DRAWN


def content_of(options: Options) -> Content:
    """The pages of the store that the options name, or drawn ones."""
    if options.store is not None:
        from observant.store import open_store

        with open_store(options.store, create=False) as store:
            return _kept(store)
    return _drawn(options.seed, max(min(options.runs or 300, 300), 100))


def _kept(store: Store) -> Content:
    found = Content(own=True)
    rows = list(store.sources.each(limit=1000))[:_SOURCES]
    for row in rows:
        for visit in store.visits.list(row.name, changed=True, limit=_VERSIONS, details=True):
            told = visit.detail or {}
            names = {"attributes", "angle", "distance", "length"} & told.keys()
            kept = {name: told[name] for name in names}
            found.comparisons.append(
                Comparison(outcome=visit.outcome, magnitude=visit.magnitude, **_tuples(kept))
            )
        record = store.sources.previous(row.name, text=False).record
        if record:
            found.records.append(record)
        versions = store.snapshots.versions(row.name, limit=_VERSIONS)[::-1]
        texts = [store.snapshots.get(v.digest).decode("utf-8", "replace") for v in versions]
        found.versions.append(texts)
        if texts:
            found.census.add(texts[-1])
        if row.kind == "query":
            found.queries.update(row.config.get("query", {}).get("terms", {}).keys())
    if not found.comparisons:
        raise InputError(
            "no page of the store was seen to change yet: run the observer for a while"
        )
    return found


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}


@lru_cache(maxsize=1)
def _drawn(seed: int, pages: int) -> Content:
    """Words, links and hosts have the slopes of the appendix; young pages are longer."""
    rng = np.random.default_rng([seed, 32])
    words, links, hosts = (
        _zipf(slope, many)
        for slope, many in ((WORD_SLOPE, _WORDS), (LINK_SLOPE, _LINKS), (HOST_SLOPE, _HOSTS))
    )
    comparer = Comparer(Rules(learn_noise=False))
    found = Content()
    now = 1.0e9
    for page in range(pages):
        age = rng.exponential(400.0)
        length = int(np.clip(rng.lognormal(5.0, 1.2) * (2.0 if age < 365 else 1.0), 5, 5000))
        text = rng.choice(_WORDS, length, p=words)
        linked = rng.choice(_LINKS, rng.poisson(20) + 1, p=links)
        images = rng.poisson(6.0 if age < 365 else 2.0)
        previous, texts = None, []
        for version in range(6):
            if version:
                text, linked, images = _edited(rng, text, linked, images, words, links)
            body = _page(text, linked, images)
            fetched = Fetched(
                url=f"https://p{page}.example/",
                status=200,
                body=body,
                content_type="text/html",
                last_modified=now - age * DAY,
                started_at=now,
                ended_at=now,
            )
            comparison = comparer.compare(previous, fetched)
            if comparison.changed:
                found.comparisons.append(comparison)
            if not version and comparison.record:
                found.records.append(comparison.record)
            texts.append(comparison.text or (previous.text if previous else "") or "")
            previous = Previous(
                digest_raw=comparison.digest_raw,
                digest_text=comparison.digest_text,
                record=comparison.record or {},
                memory=comparison.memory,
                text=texts[-1],
                selection_version=comparison.selection_version,
                visited_at=now,
            )
        found.versions.append(texts)
        found.census.add(texts[-1], [f"https://h{k % 97}.example/{k}" for k in linked.tolist()])
    found.census.hosts = Counter(
        dict(zip(*_counted(rng.choice(_HOSTS, 60_000, p=hosts)), strict=True))
    )
    found.census.links = Counter(
        dict(zip(*_counted(rng.choice(_LINKS, 120_000, p=links)), strict=True))
    )
    # Askers choose words of middling frequency: neither "the" nor what nobody has heard of.
    asked = words * np.exp(-((np.log(np.arange(1, _WORDS + 1) / 1500.0)) ** 2) / 2.0)
    found.queries = Counter(
        dict(zip(*_counted(rng.choice(_WORDS, 30_000, p=asked / asked.sum())), strict=True))
    )
    return found


def _zipf(slope: float, many: int) -> Floats:
    weights = np.arange(1, many + 1, dtype=float) ** slope
    return np.asarray(weights / weights.sum())


def _counted(drawn: Integers) -> tuple[list[str], list[int]]:
    items, counts = np.unique(drawn, return_counts=True)
    return [f"w{item}" for item in items.tolist()], counts.tolist()


def _edited(
    rng: np.random.Generator, text: Any, linked: Any, images: int, words: Any, links: Any
) -> tuple[Any, Any, int]:
    """Another version: of everything now and then, of a few words and links mostly."""
    if rng.random() < _WHOLESALE:
        return rng.choice(_WORDS, rng.integers(5, 600), p=words), linked[:1], 0
    text, linked = text.copy(), linked.copy()
    for _ in range(rng.integers(1, 4)):
        text[rng.integers(len(text))] = rng.choice(_WORDS, p=words)
    if rng.random() < 0.4:
        text = np.append(text, rng.choice(_WORDS, rng.integers(1, 9), p=words))
    if rng.random() < 0.5:
        linked[rng.integers(len(linked))] = rng.choice(_LINKS, p=links)
    if rng.random() < 0.3:
        linked = np.append(linked, rng.choice(_LINKS, p=links))
    return text, linked, images + int(rng.random() < 0.2)


def _page(text: Any, linked: Any, images: int) -> bytes:
    body = " ".join(f"w{word}" for word in text.tolist())
    anchors = "".join(f'<a href="https://h{k % 97}.example/{k}">x</a>' for k in linked.tolist())
    pictures = "".join(f'<img src="{k}.png">' for k in range(images))
    return f"<html><title>t</title><body><p>{body}</p>{anchors}{pictures}</body></html>".encode()
