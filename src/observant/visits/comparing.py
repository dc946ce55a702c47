"""Did the source change between two visits? Filled in where the log does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.visits.grouping import blocks_of_sources
from observant.visits.log import succeeded
from observant.visits.parsing import MISSING, numbers_in

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["compare_visits"]

_NOT_MODIFIED = 304


def compare_visits(
    offsets: NDArray[np.int64],
    time: NDArray[np.int64],
    changed: NDArray[np.int8],
    last_modified: NDArray[np.int64] | None,
    digests: pa.Array | None,
    status: pa.Array | None,
) -> list[str]:
    """Complete `changed` in place and return what is worth a note.

    A failed visit observes nothing. A first visit has nothing to be compared with. Elsewhere, in
    this order: what the log says; 304 Not Modified; two digests that are equal or not; a date of
    modification after the last successful visit, or not. Content that goes from A to B and back
    to A is a change each time a visit sees it; between visits it stays hidden, as it must.
    """
    given_to_first = 0
    codes = None if digests is None else _digest_codes(digests)
    outcome = None if status is None else numbers_in(status, 200)
    for first, last in blocks_of_sources(offsets):
        start, stop = int(offsets[first]), int(offsets[last])
        seen = np.arange(start, stop)
        if outcome is not None:
            good = succeeded(outcome[start:stop])
            changed[start:stop][~good] = -1
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
        if codes is not None:
            known = (changed[now] < 0) & (codes[now] >= 0) & (codes[before] >= 0)
            changed[now[known]] = codes[now[known]] != codes[before[known]]
        if last_modified is not None:
            known = (changed[now] < 0) & (last_modified[now] != MISSING)
            changed[now[known]] = last_modified[now[known]] > time[before[known]]
    if not given_to_first:
        return []
    note = (
        f"{given_to_first:,} sources begin with a visit marked changed or unchanged; what it was "
        "compared with is not in the log, so it counts as a first visit"
    )
    return [note]


def _digest_codes(digests: pa.Array) -> NDArray[np.int64]:
    return numbers_in(digests.dictionary_encode().indices, -1)
