"""Rows of a visit log that are not kept in memory: checked, typed, handed on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import VisitLogError
from observant.visits.columns import MISSING
from observant.visits.log import COLUMNS
from observant.visits.reader import HOST_PATTERN, LogReader, first_broken_text

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["EVIDENCE_COLUMNS", "RowReader", "hashes_of", "name_of"]

EVIDENCE_COLUMNS = tuple(name for name in COLUMNS if name not in {"magnitude", "bytes"})
"""Columns of the visit log that some estimator looks at."""


class RowReader(LogReader):
    """Reads a visit log as `LogReader` does; rows are handed on instead of kept."""

    def __init__(
        self, reading: dict[str, Any], files: list[dict[str, Any]], columns: list[str]
    ) -> None:
        super().__init__(**reading)
        self._file_names = [file["name"] for file in files]
        self._file_starts = [int(file["start"]) for file in files]
        self._rows = self._file_starts[-1] if files else 0
        self._sources: Any = _Latest()
        self.columns = list(columns)
        """Those that any file had so far, in the order of the spill."""

    @property
    def rows(self) -> int:
        return self._rows

    def begin(self, name: str) -> None:
        self.begin_file(name)

    def skip(self, rows: int) -> None:
        """Pass over rows that an earlier run has taken."""
        self._rows += rows

    def checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Refuse what is wrong with a batch; return its columns in the types of the spill."""
        import pyarrow as pa
        import pyarrow.compute as pc

        first = self._rows
        self.add(batch)
        ids = self._sources.ids
        broken = first_broken_text(ids)
        if broken is not None:
            file, row = self.place(first + broken)
            raise VisitLogError("this is not text in UTF-8", file=file, row=row, column="source")
        found: dict[str, Any] = {
            name: pieces[-1][1] for name, pieces in self._pieces.items() if pieces
        }
        # The keys stay: the reader remembers by them which columns earlier batches had.
        self._pieces = {name: [] for name in self._pieces}
        if self._group_is_host:
            host = pc.struct_field(pc.extract_regex(ids, HOST_PATTERN), 0)
            found["group"] = pc.coalesce(pc.utf8_lower(host), ids)
        elif "group" in found:
            found["group"] = found["group"].fill_null("")
        columns: dict[str, pa.Array] = {}
        for name, kind in spill_types(group=self._group is not None).items():
            if name == "source":
                values = ids
            elif name == "row":
                values = pa.array(np.arange(first, first + len(ids)))
            elif name not in found:
                values = pa.nulls(len(ids), kind)
            elif name in {"time", "last_modified"}:
                values = pa.array(found[name], mask=found[name] == MISSING)
            elif name == "changed":
                values = pa.array(found[name] == 1, mask=found[name] < 0)
            else:
                values = found[name]
            columns[name] = values.cast(kind)
        seen = {"source", *self.columns, *found}
        self.columns = [name for name in columns if name in seen]
        return pa.RecordBatch.from_pydict(columns)


class _Latest:
    """Stands where a reader collects ids; holds only those that came last."""

    def add(self, ids: pa.Array) -> None:
        self.ids = ids


def spill_types(*, group: bool) -> dict[str, pa.DataType]:
    """Columns of the spill: those of the visit log that are evidence, and the row's number."""
    import pyarrow as pa

    instant = pa.timestamp("us", "UTC")
    return {
        "source": pa.string(),
        "time": instant,
        "changed": pa.bool_(),
        "last_modified": instant,
        "digest": pa.binary(),
        "status": pa.int16(),
        **({"group": pa.string()} if group else {}),
        "row": pa.int64(),
    }


def hashes_of(ids: pa.Array, key: int) -> NDArray[np.uint64]:
    """Hash texts with a key, by compiled code."""
    import pyarrow as pa

    from observant.visits import kernels

    ids = ids.cast(pa.large_string())
    _, offsets_buffer, data = ids.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[ids.offset : ids.offset + len(ids) + 1]
    found = np.empty(len(ids), np.uint64)
    kernels.hash_rows(np.frombuffer(data or b"", np.uint8), offsets, np.uint64(key), found)
    return found


def name_of(file: Any) -> str:
    return (
        os.fspath(file)
        if isinstance(file, str | os.PathLike)
        else str(getattr(file, "name", "<stream>"))
    )
