"""Every batch of every importer leaves in one shape: types, times, kinds of digest, no twins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.formats.imports.base import visit_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from observant.formats.imports.base import ImportOptions
    from observant.formats.imports.report import Report

_NOT_MODIFIED = 304


class Shaper:
    """Shapes the batches of one import, one after the other."""

    def __init__(self, options: ImportOptions, report: Report) -> None:
        self._options, self._report = options, report
        self._digest_size: int | None = None
        self._last: tuple[str, int] | None = None

    def shape(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The visits of a batch that can be told to the user, counted where they cannot."""
        batch = self._within(_typed(batch))
        if self._options.key == "surt":
            batch = self._without_redirects(_keyed(batch))
        return self._without_twins(self._one_kind_of_digest(batch))

    def _within(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Leave out visits before or after the times that the user asks for."""
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = batch.schema.field("time").type
        for limit, keep, reason in (
            (self._options.earliest, pc.greater_equal, "before the earliest time asked for"),
            (self._options.latest, pc.less, "after the latest time asked for"),
        ):
            if limit is not None:
                batch = self._keep(
                    batch, keep(batch.column("time"), pa.scalar(limit, kind)), reason
                )
        return batch

    def _without_redirects(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Under one key, http and https are one source: a redirect between them is no content."""
        import pyarrow as pa

        status = np.asarray(batch.column("status").fill_null(200))
        redirect = (status >= 300) & (status < 400) & (status != _NOT_MODIFIED)
        return self._keep(batch, pa.array(~redirect), "redirects, often to the same key")

    def _one_kind_of_digest(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Digests of two kinds cannot be compared; the kind of the first ones stays."""
        import pyarrow as pa
        import pyarrow.compute as pc

        digest = batch.column("digest")
        if digest.null_count == len(digest):
            return batch
        sizes = pc.binary_length(digest)
        if self._digest_size is None:
            self._digest_size = pc.mode(sizes)[0]["mode"].as_py()
        other = pc.fill_null(pc.not_equal(sizes, self._digest_size), False)
        count = pc.sum(other).as_py()
        if not count:
            return batch
        self._report.warn(
            "{n} digests are of another kind than the first ones, and cannot be compared with "
            "them; they are left out, their visits stay",
            count,
        )
        digest = pc.if_else(other, pa.scalar(None, digest.type), digest)
        return batch.set_column(batch.schema.get_field_index("digest"), "digest", digest)

    def _without_twins(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Of visits to one source at one time that follow each other, the first stays."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not batch.num_rows:
            return batch
        source, time = batch.column("source"), np.asarray(batch.column("time").cast("int64"))
        twin = np.zeros(len(time), bool)
        same = np.flatnonzero(time[1:] == time[:-1])
        if len(same):
            equal = pc.equal(source.take(pa.array(same)), source.take(pa.array(same + 1)))
            twin[same + 1] = np.asarray(equal.fill_null(False))
        twin[0] = self._last == (source[0].as_py(), int(time[0]))
        self._last = (source[len(source) - 1].as_py(), int(time[-1]))
        return self._keep(batch, pa.array(~twin), "second visits to a source at the same time")

    def _keep(self, batch: pa.RecordBatch, kept: pa.Array, reason: str) -> pa.RecordBatch:
        import pyarrow.compute as pc

        if pc.all(kept, min_count=0).as_py():
            return batch
        few = batch.filter(kept)
        self._report.leave_out(reason, batch.num_rows - few.num_rows)
        return few


def _keyed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Name sources by their keys. An index has told them; elsewhere they follow from the URLs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from observant.formats.archives import surt_key

    names = pc.dictionary_encode(batch.column("source"))
    urls = names.dictionary.to_pylist()
    if not any("://" in url for url in urls):
        return batch
    keys = pa.array([surt_key(url) if "://" in url else url for url in urls], pa.string())
    return batch.set_column(
        batch.schema.get_field_index("source"),
        batch.schema.field("source"),
        keys.take(names.indices),
    )


def _typed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """All columns of the visit log with their types; those that are not there are null."""
    import pyarrow as pa

    schema = visit_schema()
    if batch.schema.equals(schema):
        return batch
    names = batch.schema.names
    return pa.RecordBatch.from_arrays(
        [
            batch.column(column.name).cast(column.type)
            if column.name in names
            else pa.nulls(batch.num_rows, column.type)
            for column in schema
        ],
        schema=schema,
    )
