"""The columnar index of Common Crawl: Parquet, one row a capture."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from observant.errors import InputError
from observant.formats.imports.base import Batches, Importer

if TYPE_CHECKING:
    import pyarrow as pa

    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.files import ImportFile
    from observant.formats.imports.report import Report

_NEEDED = ("url", "fetch_time", "fetch_status")
_WANTED = (
    "url",
    "url_surtkey",
    "fetch_time",
    "fetch_status",
    "content_digest",
    "content_truncated",
    "warc_record_length",
    "subset",
    "warc_type",
)
_NOT_PAGES = ("robotstxt",)
_SUBSET = re.compile(r"subset=([a-z]+)")


class CommonCrawl(Importer):
    """Only the columns that a visit needs are read."""

    name = "commoncrawl"
    title = "Common Crawl columnar index (Parquet)"
    evidence: Evidence = "V"
    endings = (".parquet",)

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether this is Parquet with the columns of the index."""
        columns = head.split(b"\n")
        return columns[0] == b"PAR1" and {b"url", b"fetch_time", b"fetch_status"} <= set(columns)

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield the captures of pages; robots.txt and what is no response are left out."""
        import pyarrow.parquet as pq

        name = "url_surtkey" if options.key == "surt" else "url"
        with file.local() as path:
            parquet = pq.ParquetFile(path, pre_buffer=False)
            present = parquet.schema_arrow.names
            missing = [column for column in (*_NEEDED, name) if column not in present]
            if missing:
                raise InputError(f"there is no column {missing[0]!r}; this is no such index")
            wanted = [column for column in _WANTED if column in present]
            report.warn(
                "Common Crawl visits a page about once a crawl, and chooses pages by score, not at "
                "random: rates say how often such pages change, between a crawl and the next"
            )
            folder = _SUBSET.search(file.name)
            for batch in parquet.iter_batches(batch_size=options.batch_rows, columns=wanted):
                report.add_rows(batch.num_rows)
                yield _visits(batch, name, folder[1] if folder else None, report)


def _visits(batch: pa.RecordBatch, name: str, subset: str | None, report: Report) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    from observant.formats.imports.values import digests_in

    def column(of: str) -> pa.Array:
        if of in batch.schema.names:
            return batch.column(of)
        return pa.nulls(batch.num_rows, pa.string())

    part = column("subset") if subset is None else pa.array([subset] * batch.num_rows)
    pages = pc.invert(pc.fill_null(pc.is_in(part.cast(pa.string()), pa.array(_NOT_PAGES)), False))
    sound = pc.and_(column(name).is_valid(), column("fetch_time").is_valid())
    report.leave_out("captures of robots.txt", pc.sum(pc.invert(pages)).as_py() or 0)
    for _ in range(pc.sum(pc.and_(pages, pc.invert(sound))).as_py() or 0):
        report.malformed(None, "a capture without url or time")
    batch = batch.filter(pc.and_(pages, sound))
    kind = column("warc_type").cast(pa.string())
    truncated = column("content_truncated").is_valid()
    status = column("fetch_status").cast(pa.int16())
    revisit = pc.fill_null(pc.equal(kind, "revisit"), False)
    not_modified = pc.fill_null(pc.equal(status, 304), False)
    usable = pc.invert(pc.or_(truncated, not_modified))
    digest = digests_in(column("content_digest").cast(pa.string()))
    digest = pc.if_else(usable, digest, pa.scalar(None, pa.binary()))
    unchanged = pc.or_(not_modified, pc.and_(revisit, digest.is_null()))
    report.count("truncated captures, whose digest is left out", pc.sum(truncated).as_py() or 0)
    report.count("revisits", pc.sum(pc.or_(revisit, not_modified)).as_py() or 0)
    return pa.RecordBatch.from_arrays(
        [
            column(name).cast(pa.string()),
            _utc(column("fetch_time")),
            pc.if_else(unchanged, pa.scalar(False), pa.scalar(None, pa.bool_())),
            digest,
            status,
            column("warc_record_length").cast(pa.int64()),
        ],
        ["source", "time", "changed", "digest", "status", "bytes"],
    )


def _utc(time: pa.Array) -> pa.Array:
    """Microseconds in UTC; finer ones are cut, and a time without a zone is in UTC already."""
    import pyarrow as pa

    if pa.types.is_timestamp(time.type) and time.type.tz is not None:
        return time.cast(pa.timestamp("us", "UTC"), safe=False)
    if not pa.types.is_timestamp(time.type):
        raise InputError(f"the column fetch_time has no times but {time.type}")
    return time.cast(pa.timestamp("us"), safe=False).cast(pa.timestamp("us", "UTC"))


IMPORTERS = (CommonCrawl(),)
