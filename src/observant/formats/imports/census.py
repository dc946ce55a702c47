"""How many sources, and do their digests ever repeat? From one pass, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.times import MICROSECONDS_PER_DAY

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from observant.arrays import Flags, Integers
    from observant.formats.imports.report import Report


UNITS = {"hour": MICROSECONDS_PER_DAY // 24, "day": MICROSECONDS_PER_DAY}
"""Units of time that lists of captures are thinned by."""

_COMPILED_FROM = 200_000  # rows
_SLOTS = 1 << 17
_KEY = np.uint64(0x9E3779B97F4A7C15)
_UNKNOWN, _UNCHANGED, _CHANGED = 0, 1, 2


class SourceSample:
    """Counts distinct sources, and compares consecutive visits of a sample of them.

    Sources are sampled by their hash, at most some 65,000 of them, all of them while they are
    fewer. "Consecutive" is in the order of the files.

    >>> import pyarrow as pa
    >>> sample = SourceSample()
    >>> batch = pa.record_batch({"source": ["a", "a", "b"], "digest": [b"x", b"x", b"x"]})
    >>> sample.add(batch, np.array([0, 1, 2]))
    >>> sample.distinct, sample.compared, sample.repeated
    (2, 1, 1)
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[pa.RecordBatch, Integers]] | None = []
        self._rows = 0
        self._slots: NDArray[np.uint64] = np.empty((0, 3), np.uint64)
        self._held = self._level = 0
        self._tallies = np.zeros(2 + 2 * len(UNITS))

    def add(self, batch: pa.RecordBatch, time: Integers) -> None:
        """Take in a batch of visits."""
        names = [
            name for name in ("source", "changed", "digest", "status") if name in batch.schema.names
        ]
        self._rows += batch.num_rows
        if self._waiting is None:
            self._take(batch.select(names), time)
            return
        self._waiting.append((batch.select(names), time))
        if self._rows >= _COMPILED_FROM:
            waiting, self._waiting = self._waiting, None
            self._slots = np.zeros((_SLOTS, 3), np.uint64)
            for part, times in waiting:
                self._take(part, times)

    @property
    def distinct(self) -> int:
        """Distinct sources; an estimate (standard error below one per cent) if not `is_exact`."""
        self._settle()
        return self._held << self._level

    @property
    def is_exact(self) -> bool:
        """Whether all sources are in the sample."""
        return self._level == 0

    @property
    def compared(self) -> int:
        """Visits that tell whether the source changed since the visit before."""
        self._settle()
        return int(self._tallies[0])

    @property
    def repeated(self) -> int:
        """Those of them that saw no change."""
        self._settle()
        return int(self._tallies[1])

    def in_one(self, unit: str) -> tuple[int, float]:
        """How many consecutive visits were within one hour or day of the clock.

        And how many would be if hours and days began anywhere.
        """
        self._settle()
        at = 2 + 2 * list(UNITS).index(unit)
        return int(self._tallies[at]), float(self._tallies[at + 1])

    def _take(self, batch: pa.RecordBatch, time: Integers) -> None:
        from observant.formats.imports.kernels import take_sample

        seen = _succeeded(batch)
        contents = _contents(batch, _hashes)
        hashes = _hashes(batch.column("source"))
        hashes[hashes == 0] = 1
        # A failed visit counts its source, and tells nothing of the content.
        contents[~seen] = _UNKNOWN
        self._held, self._level = take_sample(
            hashes,
            contents,
            np.require(time, requirements="W"),  # one type of array: compiled once
            self._slots,
            self._held,
            self._level,
            np.array(list(UNITS.values())),
            self._tallies,
        )

    def _settle(self) -> None:
        """Count what is waiting, few enough to do it without the compiled loop."""
        if not self._waiting:
            return
        import pyarrow as pa

        table = pa.Table.from_batches([batch for batch, _ in self._waiting]).combine_chunks()
        batch = table.to_batches()[0]
        time = np.concatenate([part for _, part in self._waiting])
        contents = _contents(batch, _codes)
        contents[~_succeeded(batch)] = _UNKNOWN
        codes = batch.column("source").dictionary_encode()
        self._held = len(codes.dictionary)
        order = np.argsort(np.asarray(codes.indices), kind="stable")
        source = np.asarray(codes.indices)[order]
        contents, time = contents[order], time[order]
        told = (contents == _UNCHANGED) | (contents == _CHANGED)
        same_source = source[1:] == source[:-1]
        # The last known digest of the source, if there is one.
        known = np.where(contents > _CHANGED, np.arange(len(source)), -1)
        last = np.concatenate([[-1], np.maximum.accumulate(known)[:-1]])
        comparable = (contents > _CHANGED) & (last >= 0) & (source[last] == source)
        pairs = told | comparable
        equal = (contents == _UNCHANGED) | (comparable & (contents == contents[last]))
        self._tallies[0] = np.count_nonzero(pairs)
        self._tallies[1] = np.count_nonzero(equal)
        for k, unit in enumerate(UNITS.values()):
            gap = np.abs(np.diff(time))
            near = same_source & (gap < unit)
            self._tallies[2 + 2 * k] = np.count_nonzero(
                near & (time[1:] // unit == time[:-1] // unit)
            )
            self._tallies[3 + 2 * k] = np.sum(1.0 - gap[near] / unit)


def _succeeded(batch: pa.RecordBatch) -> Flags:
    from observant.visits.columns import numbers_in
    from observant.visits.log import succeeded

    if "status" not in batch.schema.names:
        return np.ones(batch.num_rows, bool)
    return succeeded(numbers_in(batch.column("status"), 200))


def _contents(batch: pa.RecordBatch, number: object) -> NDArray[np.uint64]:
    """What each visit tells of the content: a number for its digest, or that it (un)changed."""
    from observant.visits.columns import flags_in

    contents = np.zeros(batch.num_rows, np.uint64)
    if "digest" in batch.schema.names:
        digest = batch.column("digest")
        known = np.asarray(digest.is_valid())
        hashes = number(digest.fill_null(b""))  # type: ignore[operator]
        contents = np.where(known, np.maximum(hashes, _CHANGED + 1), _UNKNOWN).astype(np.uint64)
    if "changed" in batch.schema.names:
        changed = flags_in(batch.column("changed"), "changed")
        contents[changed == 0] = _UNCHANGED
        contents[(changed == 1)] = _CHANGED
    return contents


def _codes(column: pa.Array) -> NDArray[np.uint64]:
    return np.asarray(column.dictionary_encode().indices).astype(np.uint64) + np.uint64(3)


def _hashes(column: pa.Array) -> NDArray[np.uint64]:
    import pyarrow as pa

    from observant.visits.kernels import hash_rows

    buffers = column.buffers()
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    kind = np.int64 if wide else np.int32
    offsets = np.frombuffer(buffers[1], kind)[column.offset : column.offset + len(column) + 1]
    data = np.frombuffer(buffers[2] if buffers[2] is not None else b"\0", np.uint8)
    hashes = np.empty(len(column), np.uint64)
    hash_rows(data, offsets.astype(np.int64), _KEY, hashes)
    return hashes


# -- lists that were thinned before we got them ---------------------------------------------------
# A list collapsed by digest has no unchanged visit left, so every source seems to change at every
# visit. It cannot be told apart from sources that do; so it is refused, and the user decides.


ASSUMPTION = "complete"
_REFUSED_FROM = 20  # comparisons without one repeated digest
_DOUBTED_FROM = 5
_EXPECTED = 20.0  # visits within one hour or day; by chance alone, none has odds of e^-20


def look_for_collapse(report: Report) -> None:
    """Refuse visits whose digests never repeat, unless the user vouches for the list.

    Also says where a list seems to be thinned to one visit an hour or a day (``collapse`` by
    time): sources have many visits close to each other, and never two in one hour of the clock.
    That leaves the evidence sound, and less of it.
    """
    sample = report.sample
    if report.evidence != "V":
        return
    if sample.repeated == 0 and sample.compared >= _REFUSED_FROM:
        report.file = ""
        report.assume(
            ASSUMPTION,
            f"the list is complete: no digest repeats in {sample.compared:,} comparisons, as if "
            "unchanged visits had been left out (collapse=digest on a CDX server does that), and "
            "each of these visits did find a change",
        )
    elif sample.repeated == 0 and sample.compared >= _DOUBTED_FROM:
        report.warn(
            f"no digest repeats in {sample.compared} comparisons: were unchanged visits left out "
            "(collapse=digest)? Then rates come out too high"
        )
    for unit in ("hour", "day"):
        seen, expected = sample.in_one(unit)
        if seen == 0 and expected >= _EXPECTED:
            report.warn(
                f"there are never two visits to a source in one {unit}, and by chance there would "
                f"be about {expected:,.0f}: the list seems thinned (collapse=timestamp). Rates are "
                "right; fast sources are told less well"
            )
