"""Partitions as finished visit logs on disk: grouped, sorted and compared, ready to be read again.

The pooled methods look at the visits twice, once for the prior and once for the rates. What costs
most, putting rows in order, is done once; the second look reads plain columns.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from observant.batch.rows import (
    EVIDENCE_COLUMNS,
    RowReader,
    hashes_of,
    merge_sorted,
    name_of,
    read_stream,
    write_stream,
)
from observant.formats import read_batches
from observant.visits import VisitLog
from observant.visits.reader import LogReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

    from observant.arrays import Integers
    from observant.batch.folder import Folder


# -------------------------------------------------------------------------------------------------
# Visits that outgrow memory, on disk: partitioned by a hash of their source, in the order given
#
# All visits of a source (or of a group of sources) are in one partition, so each partition is a
# visit log of its own that can be read, checked and estimated apart. Rows pass the same door as in
# memory (`LogReader`), and keep their number, so that an error names the same file and row.
#
# The visits are written in generations: after so many rows all files of a generation are closed and
# the manifest says how far the input was read. A run that was killed goes on from there.


ROWS_PER_GENERATION = 1 << 26


class Spill:
    """Visits on disk, partition by partition."""

    def __init__(self, folder: Folder, reading: dict[str, Any]) -> None:
        self._folder, self._reading = folder, reading

    @property
    def rows(self) -> list[int]:
        """How many visits each partition has."""
        generations = self._folder.state["generations"]
        return np.sum([g["rows"] for g in generations], axis=0).tolist() if generations else []

    def log(self, partition: int) -> VisitLog:
        """Read one partition as a visit log, checked as in memory."""
        reader = _PartitionReader(self, partition, self._reading)
        columns = self._folder.state["columns"]
        for batch in self.batches(partition):
            reader.add(batch.select(columns))
        return reader.finish()

    def batches(self, partition: int) -> Iterator[pa.RecordBatch]:
        """Rows of one partition, in the order they were given."""
        import pyarrow as pa

        for number, generation in enumerate(self._folder.state["generations"]):
            if generation["rows"][partition]:
                with pa.OSFile(os.fspath(_file(self._folder, number, partition))) as stream:
                    yield from pa.ipc.open_stream(stream)

    def place(self, row: int) -> tuple[str | None, int]:
        """File and row, counted from 1, of a row counted over all files."""
        files = self._folder.state["files"]
        at = bisect_right(files, row, key=lambda file: int(file["start"])) - 1
        return files[at]["name"], row - int(files[at]["start"]) + 1

    def remove(self, partition: int) -> None:
        """Forget the rows of a partition that are no longer needed."""
        for number in range(len(self._folder.state["generations"])):
            _file(self._folder, number, partition).unlink(missing_ok=True)


def spill_visits(
    files: Sequence[Any],
    folder: Folder,
    partitions: int,
    *,
    by: str = "source",
    format: str | None = None,  # noqa: A002 - the word users say
    rows_at_once: int = 1 << 20,
    progress: Callable[[int], object] | None = None,
    **reading: Any,
) -> Spill:
    """Read visits once and write them to the partitions; go on where an earlier run stopped.

    The rows of one source, or of one group if `by` says so, stay together. So many rows are
    collected before they are scattered: the more, the fewer small writes.
    """
    state = folder.state
    if "key" not in state:
        # Hostile ids cannot be made to fall into one partition: the key is of this run.
        state.update(
            key=int.from_bytes(os.urandom(8)) | 1,
            partitions=partitions,
            generations=[],
            files=[],
            columns=[],
            spilled=False,
        )
        folder.save()
    spill = Spill(folder, reading)
    if state["spilled"]:
        return spill
    done = state["generations"][-1] if state["generations"] else {"file": 0, "read": 0}
    state["files"] = state["files"][: done["file"] + 1]
    door = RowReader(reading, state["files"], state["columns"])
    wanted = (*EVIDENCE_COLUMNS, *([reading["group"]] if reading.get("group") else []))
    with _Generation(folder, by, rows_at_once) as generation:
        for number in range(done["file"], len(files)):
            skip = done["read"] if number == done["file"] else 0
            if number >= len(state["files"]):
                door.begin(name_of(files[number]))
                state["files"].append({"name": name_of(files[number]), "start": door.rows})
            read = 0
            for batch in read_batches(files[number], wanted, format):
                read += batch.num_rows
                if progress is not None:
                    progress(batch.num_rows)
                if read <= skip:
                    door.skip(batch.num_rows)
                    continue
                generation.add(door.checked(batch))
                state["columns"] = door.columns
                generation.file, generation.read = number, read
                if generation.taken >= ROWS_PER_GENERATION:
                    generation.close()
    if door.rows == 0:
        door.finish()  # says that there are no visits
    state["spilled"] = True
    folder.save()
    return spill


class _Generation:
    """The files of one stretch of the input, one a partition; known to the manifest once closed."""

    def __init__(self, folder: Folder, by: str, rows_at_once: int) -> None:
        self._folder, self._by, self._rows_at_once = folder, by, rows_at_once
        self._begin()

    def _begin(self) -> None:
        self._open = ExitStack()
        self._writers: dict[int, Any] = {}
        self._rows = np.zeros(self._folder.state["partitions"], np.int64)
        self._waiting: list[pa.RecordBatch] = []
        self.taken, self.file, self.read = 0, 0, 0

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self.taken += batch.num_rows
        if sum(part.num_rows for part in self._waiting) >= self._rows_at_once:
            self._scatter()

    def _scatter(self) -> None:
        import pyarrow as pa

        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting).combine_chunks()
        self._waiting = []
        state = self._folder.state
        for batch in table.to_batches():
            by = batch.column(self._by)
            # The high bits: the low ones find the slot of a hash table elsewhere.
            into = (hashes_of(by, state["key"]) >> np.uint64(40)) % np.uint64(state["partitions"])
            into = into.astype(np.uint16)
            ordered = batch.take(pa.array(np.argsort(into, kind="stable")))
            counts = np.bincount(into, minlength=state["partitions"])
            starts = np.cumsum(counts) - counts
            for partition in np.flatnonzero(counts).tolist():
                part = ordered.slice(int(starts[partition]), int(counts[partition]))
                self._writer(partition, part.schema).write_batch(part)
            self._rows += counts

    def _writer(self, partition: int, schema: pa.Schema) -> Any:
        import pyarrow as pa

        if partition not in self._writers:
            number = len(self._folder.state["generations"])
            stream = pa.OSFile(os.fspath(_file(self._folder, number, partition)), "wb")
            self._open.enter_context(stream)
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            self._writers[partition] = self._open.enter_context(
                pa.ipc.new_stream(stream, schema, options=options)
            )
        return self._writers[partition]

    def close(self) -> None:
        """Finish the files and write down how far the input was read."""
        self._scatter()
        self._open.close()
        if self.taken:
            self._folder.state["generations"].append(
                {"file": self.file, "read": self.read, "rows": self._rows.tolist()}
            )
            self._folder.save()
        self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._open.close()


class _PartitionReader(LogReader):
    """Reads a partition; names the place of a row in the files it first came from."""

    def __init__(self, spill: Spill, partition: int, reading: dict[str, Any]) -> None:
        super().__init__(**{**reading, "group": "group" if reading.get("group") else None})
        self._spill, self._partition = spill, partition

    def place(self, row: int) -> tuple[str | None, int]:
        for batch in self._spill.batches(self._partition):
            if row < batch.num_rows:
                return self._spill.place(batch.column("row")[row].as_py())
            row -= batch.num_rows
        raise IndexError(row)


def _file(folder: Folder, generation: int, partition: int) -> Path:
    return folder.path / f"visits-{generation:04}-{partition:04}.arrow"


_ROWS_PER_BATCH = 1 << 18


class GroupedLogs:
    """Visit logs of partitions, by their number."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def save(self, partition: int, log: VisitLog, names_per_batch: int = 1 << 14) -> None:
        """Write a log; the digests stay behind, for what they say is in `changed`."""
        import pyarrow as pa

        rows: dict[str, Any] = {"time": log.time, "changed": log.changed}
        if log.last_modified is not None:
            rows["last_modified"] = log.last_modified
        if "status" in log.extras:
            rows["status"] = log.extras["status"]
        sources: dict[str, Any] = {
            "source": log.sources.cast(pa.large_string()),
            "visits": log.visits_per_source,
            "place": np.arange(len(log.sources)),
            "partition": np.full(len(log.sources), partition, np.int32),
        }
        if log.groups is not None:
            sources["group"] = log.groups.cast(pa.large_string())
        write_stream(self._file(partition, "rows"), pa.table(rows), _ROWS_PER_BATCH)
        write_stream(self._file(partition, "sources"), pa.table(sources), names_per_batch)

    def load(self, partition: int, notes: tuple[str, ...] = ()) -> VisitLog:
        """Read a log back."""
        import pyarrow as pa

        rows = pa.Table.from_batches(read_stream(self._file(partition, "rows"))).combine_chunks()
        sources = pa.Table.from_batches(
            read_stream(self._file(partition, "sources"))
        ).combine_chunks()
        offsets = np.zeros(len(sources) + 1, np.int64)
        np.cumsum(sources["visits"].to_numpy(), out=offsets[1:])
        names = set(rows.column_names)
        return VisitLog(
            sources=_text(sources["source"]),
            offsets=offsets,
            time=rows["time"].to_numpy(),
            changed=rows["changed"].to_numpy(),
            last_modified=rows["last_modified"].to_numpy() if "last_modified" in names else None,
            extras={"status": _one(rows["status"])} if "status" in names else {},
            groups=_text(sources["group"]) if "group" in sources.column_names else None,
            notes=notes,
        )

    def at_ranks(self, partitions: list[int], ranks: Integers) -> dict[int, Integers]:
        """Which sources of each partition have these places in the alphabet of all sources."""
        found: dict[int, list[Integers]] = {}
        streams = [read_stream(self._file(partition, "sources")) for partition in partitions]
        before = 0
        for table in merge_sorted(streams):
            first, last = np.searchsorted(ranks, [before, before + len(table)])
            chosen = ranks[first:last] - before
            before += len(table)
            owner, place = (table[name].to_numpy()[chosen] for name in ("partition", "place"))
            for partition in np.unique(owner).tolist():
                found.setdefault(partition, []).append(place[owner == partition])
        return {partition: np.concatenate(places) for partition, places in found.items()}

    def _file(self, partition: int, part: str) -> Path:
        return self._path / f"log-{partition:04}-{part}.arrow"


def _one(column: pa.ChunkedArray) -> pa.Array:
    joined = column.combine_chunks()
    return joined.chunk(0) if hasattr(joined, "chunk") else joined


def _text(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    texts = _one(column)
    return texts.cast(pa.string()) if texts.nbytes < 2**31 - 1 else texts
