"""Rates in a file: what was written, in a few numbers, and how to read it back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.estimation.rates import EVIDENCE, RateTable
from observant.formats import read_batches

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["RateFile", "evidence_codes", "known_means", "rate_table_of", "read_rates"]


@dataclass(frozen=True, eq=False)
class RateFile:
    """Rates written to a file, and the collection in a few numbers."""

    path: str
    visits: int
    changes: int
    rate_per_day: NDArray[np.float64]
    """Of every source, in the order of the file."""
    evidence_code: NDArray[np.int8]
    method: str
    confidence: float
    notes: tuple[str, ...]
    partitions: int
    resumed: bool
    """Whether an earlier, interrupted run had done a part of the work."""

    def __len__(self) -> int:
        return len(self.rate_per_day)

    def summary(self) -> dict[str, Any]:
        """The same few numbers as those of a `RateTable`."""
        empty = np.empty(0)
        return RateTable(
            source=self.rate_per_day,  # only their number is asked for
            visits=np.array([self.visits]),
            changes=np.array([self.changes]),
            exposure_days=empty,
            rate_per_day=self.rate_per_day,
            rate_low=empty,
            rate_high=empty,
            evidence_code=self.evidence_code,
            method=self.method,
            confidence=self.confidence,
            notes=self.notes,
        ).summary()

    def table(self) -> RateTable:
        """Read the file back, for as many sources as memory holds."""
        return read_rates(self.path, self.method, self.confidence, self.notes)

    def __repr__(self) -> str:
        return f"<RateFile {self.path}: {len(self):,} sources, method {self.method}>"


def read_rates(
    file: str, method: str, confidence: float = 0.95, notes: tuple[str, ...] = ()
) -> RateTable:
    """Rates that were written to a file, as a table."""
    import pyarrow as pa

    batches = read_batches(file, (*RateTable.columns, "time"))
    return rate_table_of(pa.Table.from_batches(batches), method, confidence, notes)


def rate_table_of(
    table: pa.Table, method: str, confidence: float, notes: tuple[str, ...] = ()
) -> RateTable:
    """Rates in an Arrow table with the columns of a `RateTable`, as a table of ours."""
    import pyarrow as pa

    kinds = dict.fromkeys(("visits", "changes"), pa.int64())
    numbers = {
        name: table[name].cast(kinds.get(name, pa.float64())).to_numpy()
        for name in RateTable.columns[1:8]
        if name != "rate_mean"
    }
    if "rate_mean" in table.column_names and known_means(table["rate_mean"]):
        numbers["rate_mean"] = table["rate_mean"].cast(pa.float64()).to_numpy()
    return RateTable(
        source=table["source"].cast(pa.large_string()).combine_chunks(),
        **numbers,
        evidence_code=evidence_codes(table["evidence"].combine_chunks()),
        method=method,
        confidence=confidence,
        notes=notes,
    )


def known_means(column: Any) -> bool:
    """Whether a column of means holds any; methods that look at a source alone leave it empty."""
    return not set(column.slice(0, 1).to_pylist()) <= {None, ""}


def evidence_codes(evidence: pa.Array) -> NDArray[np.int8]:
    """Index into `EVIDENCE` of each word."""
    import pyarrow as pa
    import pyarrow.compute as pc

    codes = pc.index_in(evidence, pa.array(EVIDENCE))
    return np.asarray(codes.to_numpy(zero_copy_only=False), np.int8)
