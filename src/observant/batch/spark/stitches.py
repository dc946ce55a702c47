"""Batches of a partition, cut anew so that no source is in two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

__all__ = ["whole_sources"]

ROWS = 1 << 19


def whole_sources(
    batches: Iterable[pa.RecordBatch], column: str = "source", rows: int = ROWS
) -> Iterator[pa.Table]:
    """Tables of about `rows` rows, each with all rows of the sources in it.

    The rows of a source come one after the other. A source with more rows than that is a table of
    its own with whatever waits before it; its batches are put together once, at its end.

    >>> import pyarrow as pa
    >>> parts = (pa.record_batch({"source": list(ids)}) for ids in ("aab", "bb", "bcc", "cd"))
    >>> ["".join(table["source"].to_pylist()) for table in whole_sources(parts, rows=4)]
    ['aabbbb', 'ccc', 'd']
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    waiting: list[pa.RecordBatch] = []
    count, before = 0, None
    for batch in batches:
        if not batch.num_rows:
            continue
        names = batch.column(column)
        last = names[-1].as_py()
        if count + batch.num_rows >= rows:
            # The rows of the last source may go on in the next batch.
            begins = pc.index(names, names[-1]).as_py()
            if begins or (before is not None and before != last):
                waiting.append(batch.slice(0, begins))
                table = pa.Table.from_batches(waiting)
                if len(table):
                    yield table
                waiting, count, batch = [], 0, batch.slice(begins)  # noqa: PLW2901
        waiting.append(batch)
        count += batch.num_rows
        before = last
    if waiting:
        yield pa.Table.from_batches(waiting)
