"""Rows to sources: ids become numbers, and rows are put in order of source and time.

Small logs take plain Arrow and NumPy, which are ready at once. From `COMPILED_FROM` rows on, the
same two steps run compiled, in a fraction of the time and memory.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from observant.arrays import Integers

COMPILED_FROM = 1_000_000


def blocks_of_sources(offsets: Integers, rows: int = 1 << 21) -> Iterator[tuple[int, int]]:
    """Cut the sources into runs of about `rows` rows, so that temporaries stay small.

    >>> list(blocks_of_sources(np.array([0, 3, 4, 9]), rows=4))
    [(0, 2), (2, 3)]
    """
    first, sources = 0, len(offsets) - 1
    while first < sources:
        fits = int(np.searchsorted(offsets, offsets[first] + rows, side="right")) - 1
        last = min(max(fits, first + 1), sources)
        yield first, last
        first = last


class SourceIndex:
    """Gives each distinct id a number; in the end numbers follow the alphabet."""

    def __init__(self, compiled_from: int = COMPILED_FROM) -> None:
        self._compiled_from = compiled_from
        self._waiting: list[pa.Array] = []
        self._rows_waiting = 0
        self._codes: list[NDArray[np.int32]] = []
        self._compiled: _CompiledIndex | None = None

    def add(self, ids: pa.Array) -> None:
        """Take the ids of the next rows (text, no nulls)."""
        self._waiting.append(ids)
        self._rows_waiting += len(ids)
        if self._rows_waiting >= self._compiled_from:
            self._compile_waiting()

    def finish(self) -> tuple[NDArray[np.int32], pa.Array]:
        """Return the number of each row's source, and the sources in alphabetical order."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._compiled is None:
            small = sum(part.nbytes for part in self._waiting) < 2**31 - 1
            small &= not any(part.type == pa.large_string() for part in self._waiting)
            kind = pa.string() if small else pa.large_string()
            ids = pa.chunked_array([part.cast(kind) for part in self._waiting], kind)
            encoded = ids.combine_chunks().dictionary_encode()
            codes, distinct = np.asarray(encoded.indices), encoded.dictionary
            distinct = distinct.cast(pa.string() if distinct.nbytes < 2**31 - 1 else kind)
        else:
            self._compile_waiting()
            codes = np.concatenate(self._codes)
            distinct = self._compiled.distinct()
        self._waiting, self._codes = [], []
        order = pc.sort_indices(distinct)
        rank = np.empty(len(distinct), np.int32)
        rank[np.asarray(order)] = np.arange(len(distinct), dtype=np.int32)
        return rank[codes], distinct.take(order)

    def _compile_waiting(self) -> None:
        if self._compiled is None:
            self._compiled = _CompiledIndex()
        self._codes += [self._compiled.encode(ids) for ids in self._waiting]
        self._waiting, self._rows_waiting = [], 0


def sort_rows(
    codes: NDArray[np.int32], time: Integers, sources: int, *, compiled_from: int = COMPILED_FROM
) -> tuple[NDArray[Any], Integers]:
    """Order of the rows by source, then time, then as given; and where each source begins."""
    offsets = np.zeros(sources + 1, np.int64)
    np.cumsum(np.bincount(codes, minlength=sources), out=offsets[1:])
    if len(codes) < compiled_from:
        return np.lexsort((time, codes)), offsets
    from observant.visits import kernels

    order: NDArray[Any] = kernels.sort(codes, time, offsets)
    return order, offsets


class _CompiledIndex:
    """An open-addressing hash table over the bytes of the ids, filled by compiled code.

    Ids are hostile: the hash is keyed anew in each process, and equality is decided on the bytes.
    """

    def __init__(self) -> None:
        self._key = np.uint64(int.from_bytes(os.urandom(8)) | 1)
        self._slots = np.full(1 << 16, -1, np.int32)
        self._hashes = np.empty(1 << 15, np.uint64)
        self._starts = np.zeros((1 << 15) + 1, np.int64)
        self._bytes = np.empty(1 << 20, np.uint8)
        self._count = 0

    def encode(self, ids: pa.Array) -> NDArray[np.int32]:
        import pyarrow as pa

        from observant.visits import kernels

        ids = ids.cast(pa.large_string())
        _, offsets_buffer, data_buffer = ids.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int64)[ids.offset : ids.offset + len(ids) + 1]
        data = np.frombuffer(data_buffer or b"", np.uint8)
        data.flags.writeable = False  # one type of array: compiled once
        codes = np.empty(len(ids), np.int32)
        step, done = 1 << 17, 0
        while done < len(ids):
            until = min(done + step, len(ids))
            self._make_room(until - done, int(offsets[until] - offsets[done]))
            self._count = kernels.encode(
                data,
                offsets[done : until + 1],
                self._key,
                self._slots,
                self._hashes,
                self._starts,
                self._bytes,
                self._count,
                codes[done:until],
            )
            done = until
        return codes

    def distinct(self) -> pa.Array:
        import pyarrow as pa

        end = self._starts[self._count]
        return pa.Array.from_buffers(
            pa.large_string(),
            self._count,
            [
                None,
                pa.py_buffer(self._starts[: self._count + 1].copy()),
                pa.py_buffer(self._bytes[:end].copy()),
            ],
        ).cast(pa.string() if end < 2**31 - 1 else pa.large_string())

    def _make_room(self, rows: int, size: int) -> None:
        """Room for `rows` new ids of `size` bytes in all, and a table at most half full."""
        from observant.visits import kernels

        while self._count + rows > len(self._hashes):
            self._hashes = _doubled(self._hashes)
            self._starts = np.concatenate([self._starts, np.zeros(len(self._starts) - 1, np.int64)])
        while self._starts[self._count] + size > len(self._bytes):
            self._bytes = _doubled(self._bytes)
        if 2 * (self._count + rows) > len(self._slots):
            while 2 * (self._count + rows) > len(self._slots):
                self._slots = np.empty(2 * len(self._slots), np.int32)
            self._slots[:] = -1
            kernels.refill(self._slots, self._hashes, self._count)


def _doubled(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([array, np.empty_like(array)])
