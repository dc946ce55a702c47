"""When all updates of a source are known: the visits that say exactly that, and no more.

A log of visits can hold a complete history without a model of its own. For updates at t₁ < … < tₙ,
known up to T, let one visit be at t₁, one just before each later update, and one at T, each with
the date of the last update before it. Under a rate λ a dated visit is worth λ·exp(−λ·age) when it
found a change and exp(−λ·gap) when not, so that together they are worth

    λⁿ⁻¹ · exp(−λ (T − t₁)),

the likelihood of the history, given that it begins with t₁. What was before t₁ (entries that have
left a feed, commits that were cut off) is not claimed to be known.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from observant.formats.imports.base import VisitRows

__all__ = ["add_history", "history"]


def history(updates: Iterable[int], until: int) -> Iterator[tuple[int, int]]:
    """Yield time and date of modification of the visits that tell this history.

    Times are microseconds. Updates at one instant are one update; those after `until` are passed
    over.

    >>> list(history([30, 10, 30], until=50))
    [(10, 10), (29, 10), (50, 30)]
    """
    known = sorted({time for time in updates if time <= until})
    if not known:
        return
    yield known[0], known[0]
    last_visit = known[0]
    for before, after in pairwise(known):
        if after - 1 > last_visit:
            last_visit = after - 1
            yield last_visit, before
    if until > last_visit:
        yield until, known[-1]


def add_history(rows: VisitRows, source: str, updates: Iterable[int], until: int) -> None:
    """Add the visits that tell the history of a source."""
    for time, modified in history(updates, until):
        rows.add(source, time, last_modified=modified)
