"""Rows to sources: ids become numbers, and rows are put in order of source and time.

Small logs take plain Arrow and NumPy, which are ready at once. From `COMPILED_FROM` rows on, the
same two steps run compiled, in a fraction of the time and memory.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["COMPILED_FROM", "SourceIndex", "blocks_of_sources", "sort_rows"]

COMPILED_FROM = 1_000_000


def blocks_of_sources(offsets: NDArray[np.int64], rows: int = 1 << 21) -> Iterator[tuple[int, int]]:
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
            ids = pa.chunked_array([part.cast(pa.string()) for part in self._waiting])
            encoded = ids.combine_chunks().dictionary_encode()
            codes, distinct = np.asarray(encoded.indices), encoded.dictionary
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
    codes: NDArray[np.int32],
    time: NDArray[np.int64],
    sources: int,
    *,
    compiled_from: int = COMPILED_FROM,
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Order of the rows by source, then time, then as given; and where each source begins."""
    offsets = np.zeros(sources + 1, np.int64)
    np.cumsum(np.bincount(codes, minlength=sources), out=offsets[1:])
    if len(codes) < compiled_from:
        return np.lexsort((time, codes)), offsets
    order: NDArray[Any] = _kernels()["sort"](codes, time, offsets)
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

        ids = ids.cast(pa.large_string())
        _, offsets_buffer, data_buffer = ids.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int64)[ids.offset : ids.offset + len(ids) + 1]
        data = np.frombuffer(data_buffer or b"", np.uint8)
        codes = np.empty(len(ids), np.int32)
        step, done = 1 << 17, 0
        while done < len(ids):
            until = min(done + step, len(ids))
            self._make_room(until - done, int(offsets[until] - offsets[done]))
            self._count = _kernels()["encode"](
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
        while self._count + rows > len(self._hashes):
            self._hashes = _doubled(self._hashes)
            self._starts = np.concatenate([self._starts, np.zeros(len(self._starts) - 1, np.int64)])
        while self._starts[self._count] + size > len(self._bytes):
            self._bytes = _doubled(self._bytes)
        if 2 * (self._count + rows) > len(self._slots):
            while 2 * (self._count + rows) > len(self._slots):
                self._slots = np.empty(2 * len(self._slots), np.int32)
            self._slots[:] = -1
            _kernels()["refill"](self._slots, self._hashes, self._count)


def _doubled(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([array, np.empty_like(array)])


@functools.cache
def _kernels() -> dict[str, Any]:
    """Compile on first use; the machine code is kept on disk for the next run."""
    import numba

    from numba.core import cgutils, types

    jit = numba.njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
    inlined = numba.njit(inline="always")

    @numba.extending.intrinsic
    def word(_context, data, at):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        """Eight bytes of an array, at any place in it, as one number."""

        def load(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            place = builder.gep(array.data, [arguments[1]])
            number = builder.load(builder.bitcast(place, cgutils.ir.IntType(64).as_pointer()))
            number.align = 1
            return number

        return types.uint64(data, at), load

    @inlined
    def equal(data, begin, end, stored, starts, code):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        at, size = starts[code], end - begin
        same, i = starts[code + 1] - at == size, 0
        if size >= 8:
            while same and i + 8 < size:
                same = word(data, begin + i) == word(stored, at + i)
                i += 8
            return same and word(data, end - 8) == word(stored, at + size - 8)
        while same and i < size:
            same = data[begin + i] == stored[at + i]
            i += 1
        return same

    @jit
    def hash_rows(data, offsets, key, hashes):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        for row in range(len(offsets) - 1):
            at, end = offsets[row], offsets[row + 1]
            h = key ^ np.uint64(end - at)
            tail = np.uint64(0)
            if end - at >= 8:
                tail = word(data, end - 8)
                while at + 8 < end:
                    h = (h ^ word(data, at)) * np.uint64(0x9E3779B97F4A7C15)
                    h ^= h >> np.uint64(32)
                    at += 8
            else:
                while at < end:
                    tail = (tail << np.uint64(8)) | np.uint64(data[at])
                    at += 1
            h = (h ^ tail) * np.uint64(0xD6E8FEB86659FD93)
            h = (h ^ (h >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
            hashes[row] = h ^ (h >> np.uint64(32))

    @jit
    def encode(data, offsets, key, slots, hashes, starts, stored, count, codes):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        # Most ids were seen before, and most of the time goes into waiting for memory. So the
        # likely answer of every row is fetched in passes of independent reads, which overlap;
        # only the rows it does not hold for are looked up one by one.
        rows = len(offsets) - 1
        mask = np.uint64(len(slots) - 1)
        new = np.empty(rows, np.uint64)
        hash_rows(data, offsets, key, new)
        for row in range(rows):
            codes[row] = slots[new[row] & mask]
        for row in range(rows):
            if codes[row] >= 0 and hashes[codes[row]] != new[row]:
                codes[row] = -1
        for row in range(rows):
            code = codes[row]
            if code >= 0 and not equal(data, offsets[row], offsets[row + 1], stored, starts, code):
                codes[row] = -1
        for row in range(rows):
            if codes[row] >= 0:
                continue
            begin, end, h = offsets[row], offsets[row + 1], new[row]
            slot = h & mask
            while True:
                code = slots[slot]
                if code < 0:
                    code = slots[slot] = count
                    hashes[code] = h
                    at = starts[code]
                    for i in range(end - begin):
                        stored[at + i] = data[begin + i]
                    starts[code + 1] = at + (end - begin)
                    count += 1
                    break
                if hashes[code] == h and equal(data, begin, end, stored, starts, code):
                    break
                slot = (slot + np.uint64(1)) & mask
            codes[row] = code
        return count

    @jit
    def refill(slots, hashes, count):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        mask = np.uint64(len(slots) - 1)
        for code in range(count):
            slot = hashes[code] & mask
            while slots[slot] >= 0:
                slot = (slot + np.uint64(1)) & mask
            slots[slot] = code

    @jit
    def sort(codes, time, offsets):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        order = np.empty(len(codes), np.uint32)
        place = offsets[:-1].copy()
        for row in range(len(codes)):
            order[place[codes[row]]] = row
            place[codes[row]] += 1
        for source in range(len(offsets) - 1):
            begin, end = offsets[source], offsets[source + 1]
            in_order = True
            for i in range(begin + 1, end):
                if time[order[i]] < time[order[i - 1]]:
                    in_order = False
                    break
            if in_order:
                continue
            if end - begin > 64:
                part = order[begin:end].copy()
                order[begin:end] = part[np.argsort(time[part], kind="mergesort")]
                continue
            for i in range(begin + 1, end):
                row = order[i]
                j = i
                while j > begin and time[order[j - 1]] > time[row]:
                    order[j] = order[j - 1]
                    j -= 1
                order[j] = row
        return order

    return {"encode": encode, "refill": refill, "sort": sort}
