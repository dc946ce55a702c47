"""What every answer of observant has in common: columns that travel, and a readable print.

A `Table` is a frozen value with named columns. It speaks the Arrow PyCapsule interface, so Polars,
pandas, DuckDB and PyArrow take it as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

__all__ = ["Table", "first_rows"]

_SHOWN = 10
_WIDEST = 48


class Table:
    """Named columns of equal length, given by the fields listed in `columns`.

    A subclass is a frozen dataclass; its fields hold NumPy or Arrow arrays.
    """

    columns: ClassVar[tuple[str, ...]] = ()

    def __len__(self) -> int:
        return len(getattr(self, self.columns[0]))

    def to_arrow(self) -> pa.Table:
        """Return the columns as a PyArrow table. Not-a-number stays, as in any float column."""
        import pyarrow as pa

        return pa.table({name: _arrow(getattr(self, name)) for name in self.columns})

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def rows(self) -> Iterator[dict[str, Any]]:
        """One dictionary a row, with plain Python values; what JSON cannot say becomes None."""
        for batch in self.to_arrow().to_batches(max_chunksize=65_536):
            for row in batch.to_pylist():
                yield {name: _plain(value) for name, value in row.items()}


def first_rows(sources: Any, heading: str, row: Callable[[int], str]) -> str:
    """The head of a table for people: a line for each of the first sources, and how many follow.

    >>> print(first_rows(["a", "b"], "place", lambda i: f"{i + 1:5}"))
    source  place
    a           1
    b           2
    """
    names = [str(name)[:_WIDEST] for name in sources[:_SHOWN]]
    width = max([6, *map(len, names)])
    lines = [f"{'source':{width}}  {heading}"]
    lines += [f"{name:{width}}  {row(i)}" for i, name in enumerate(names)]
    if len(names) < len(sources):
        lines.append(f"… and {len(sources) - len(names):,} more")
    return "\n".join(lines)


def _arrow(column: Any) -> pa.Array:
    import pyarrow as pa

    if isinstance(column, np.ndarray) and column.dtype == object:
        return pa.array(column.tolist())
    return pa.array(column)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
