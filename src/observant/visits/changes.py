"""Did the source change between two visits? Filled in where the log does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.tables import Note
from observant.visits.columns import MISSING, numbers_in
from observant.visits.log import succeeded
from observant.visits.order import blocks_of_sources

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from observant.arrays import Flags, Integers

_NOT_MODIFIED = 304


def compare_visits(
    offsets: Integers,
    time: Integers,
    changed: NDArray[np.int8],
    last_modified: Integers | None,
    digests: pa.Array | None,
    status: pa.Array | None,
) -> list[str]:
    """Complete `changed` in place and return what is worth a note.

    A failed visit observes nothing, but for one that the log calls a change and that found the
    source gone (404, 410). A first visit has nothing to be compared with. Elsewhere, in
    this order: what the log says; 304 Not Modified; two digests that are equal or not; a date of
    modification after the last successful visit, or not. Content that goes from A to B and back
    to A is a change each time a visit sees it; between visits it stays hidden, as it must.

    An unchanged visit without a digest of its own (a 304 has none) saw the content of the visit
    before, so it has that digest. A date that a visit repeats from the visit before tells of no
    change, even where the source's clock runs ahead and the date lies between the two.
    """
    given_to_first = given_to_failed = 0
    codes = None if digests is None else _digest_codes(digests)
    outcome = None if status is None else numbers_in(status, 200)
    for first, last in blocks_of_sources(offsets):
        start, stop = int(offsets[first]), int(offsets[last])
        seen = np.arange(start, stop)
        if outcome is not None:
            good = succeeded(outcome[start:stop])
            gone = succeeded(outcome[start:stop], changed[start:stop]) & ~good
            good |= gone & _seen_before(offsets, seen, good)
            failed = seen[~good]
            given_to_failed += int(np.count_nonzero(changed[failed] >= 0))
            changed[failed] = -1
            seen = seen[good]
        if not len(seen):
            continue
        source = np.searchsorted(offsets, seen, side="right")
        is_first = np.ones(len(seen), bool)
        is_first[1:] = source[1:] != source[:-1]
        given_to_first += int(np.count_nonzero(changed[seen[is_first]] >= 0))
        changed[seen[is_first]] = -1

        open_ = np.flatnonzero(~is_first & (changed[seen] < 0))
        now, before = seen[open_], seen[open_ - 1]
        if outcome is not None:
            changed[now[outcome[now] == _NOT_MODIFIED]] = 0
        dated = None if last_modified is None else _by_date(now, before, time, last_modified)
        if codes is not None:
            if dated is not None:
                alone = (changed[now] < 0) & (codes[now] < 0)
                changed[now[alone]] = dated[alone]
            inherits = (changed[seen] == 0) & (codes[seen] < 0)
            places = np.where(inherits, 0, np.arange(len(seen)))
            content = codes[seen[np.maximum.accumulate(places)]]
            known = (changed[now] < 0) & (content[open_] >= 0) & (content[open_ - 1] >= 0)
            changed[now[known]] = (content[open_] != content[open_ - 1])[known]
        if dated is not None:
            rest = changed[now] < 0
            changed[now[rest]] = dated[rest]
    notes: list[str] = []
    if given_to_first:
        why = (
            "with a visit marked changed or unchanged; what it was compared with is not in the "
            "log, so it counts as a first visit"
        )
        notes.append(
            Note(f"{{n}} sources begin {why}", given_to_first, f"{{n}} source begins {why}")
        )
    if given_to_failed:
        notes.append(
            Note(
                "{n} failed visits were marked changed or unchanged; a failed visit observes "
                "nothing, so their marks were set aside",
                given_to_failed,
            )
        )
    return notes


def _seen_before(offsets: Integers, rows: Integers, good: Flags) -> Flags:
    """Which rows have a good one of their source before them: only what was there can be gone."""
    first = offsets[np.searchsorted(offsets, rows, side="right") - 1] - rows[0]
    before = np.concatenate([[0], np.cumsum(good)])
    return np.asarray(before[:-1] > before[first])


def _by_date(
    now: Integers, before: Integers, time: Integers, last_modified: Integers
) -> NDArray[np.int8]:
    """1, 0 or -1 (no date) for each visit and the one before it."""
    date = last_modified[now]
    changed = (date > time[before]) & (date != last_modified[before])
    return np.where(date == MISSING, -1, changed).astype(np.int8)


def _digest_codes(digests: pa.Array) -> Integers:
    return numbers_in(digests.dictionary_encode().indices, -1)
