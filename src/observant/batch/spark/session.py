"""A Spark session that works, visits read into it, and answers written from it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from observant import errors
from observant.batch.rows import merge_sorted
from observant.errors import InputError
from observant.formats import format_of, write_batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


_OURS = re.compile(r"observant\.errors\.(\w+): (.+)")


def require_spark() -> None:
    """Say what to install when Spark or its Java is missing."""
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise InputError("Spark is not installed: pip install 'observant[spark]'") from error
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        raise InputError("Spark needs Java 17 or newer: install one, or set JAVA_HOME")


def session(master: str | None = None, **config: str | int) -> SparkSession:
    """The session that runs, or a new one; under spark-submit that of the cluster.

    Workers use the interpreter of the driver unless PYSPARK_PYTHON names another. A session of our
    own runs on this machine, listens on the loopback address only, and has no page of its own.
    Further settings are given with underscores for dots: ``spark_executor_memory="2g"``.
    """
    require_spark()
    from pyspark import SparkConf
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None and master is None and not config:
        return running
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    given = SparkConf()
    builder = SparkSession.builder.appName("observant")
    if master is not None or not given.contains("spark.master"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.master(master or "local[*]")
        for name, setting in {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            # Whole partitions pass through Python: larger batches, fewer of them.
            "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",
            # The time of a visit is an instant, whatever the zone of the machine.
            "spark.sql.session.timeZone": "UTC",
        }.items():
            if not given.contains(name):
                builder = builder.config(name, setting)
    for name, value in config.items():
        builder = builder.config(name.replace("_", "."), str(value))
    try:
        return builder.getOrCreate()
    except (PySparkException, RuntimeError) as error:
        raise InputError(f"Spark does not start: {str(error).splitlines()[0]}") from error


def read_visits(spark: SparkSession, *files: str, format: str | None = None) -> DataFrame:  # noqa: A002
    """Visits in Parquet, CSV or JSON Lines as a data frame; text is read as it stands.

    Paths are those that Spark knows: files, folders, patterns, and addresses of object stores.
    """
    if not files:
        raise InputError("no file to read visits from")
    kind = format or format_of(files[0].rstrip("/"))
    with errors_told():
        if kind == "parquet":
            return spark.read.parquet(*files)
        if kind == "csv":
            separator = "\t" if ".tsv" in files[0] else ","
            return spark.read.csv(list(files), header=True, sep=separator, escape='"')
        return spark.read.json(list(files), primitivesAsString=True)


def write_file(answer: DataFrame, output: str) -> None:
    """Write a data frame with a column source: to one sorted file, or to a folder of files.

    An output that ends in a slash or names another file system (``s3a://…``) is a folder of
    Parquet files that the executors write, each sorted by source. Otherwise these are merged into
    one Parquet, CSV or JSON Lines file by the driver, which must see where the executors write.
    """
    # A sort of the whole would compute the answer twice: once to find where to cut it.
    ordered = answer.sortWithinPartitions("source")
    if output.endswith("/") or "://" in output:
        with errors_told():
            ordered.write.mode("overwrite").parquet(output)
        return
    format_of(output)
    parts = Path(f"{output}.parts").resolve()
    try:
        with errors_told():
            ordered.write.mode("overwrite").parquet(parts.as_uri())
        write_batches(_merged(sorted(parts.glob("*.parquet"))), output)
    finally:
        shutil.rmtree(parts, ignore_errors=True)


@contextmanager
def errors_told() -> Iterator[None]:
    """Our own errors come back from executors inside Spark's; Spark's are told in a line."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        found = _OURS.findall(str(error))
        if found:
            name, message = found[-1]
            kind = getattr(errors, name, InputError)
            raise kind(message.strip()) from error
        raise InputError(f"Spark: {str(error).strip().splitlines()[0]}") from error


def _merged(files: list[Path]) -> Iterator[pa.RecordBatch]:
    """All rows of the parts in order; the columns without rows where there are none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not files:
        raise InputError("Spark wrote no file that the driver can see; give a folder to write to")
    yield pa.RecordBatch.from_pylist([], schema=pq.read_schema(files[0]).remove_metadata())
    readers = (pq.ParquetFile(file, pre_buffer=False) for file in files)
    parts = [reader.iter_batches(batch_size=1 << 14) for reader in readers]
    for table in merge_sorted(parts):
        yield from table.replace_schema_metadata(None).to_batches()


# -- Batches of a partition, cut anew so that no source is in two of them -------------------------


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
