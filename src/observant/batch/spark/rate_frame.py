"""Rates of sources whose visits are in a Spark data frame.

The visits are repartitioned by source (or by group) and sorted within partitions; each partition
then streams through `observant.estimate_rates`, whole sources at a time. What a partition answers
depends on its rows alone, so a task that is run again, on whatever machine, answers the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.batch.rows import EVIDENCE_COLUMNS
from observant.batch.spark.session import errors_told, require_spark, whole_sources
from observant.errors import EstimationError, InputError, VisitLogError
from observant.estimation import rates as single
from observant.estimation.pooling import learn_prior, rates_under, sampled_ranks
from observant.estimation.rates import ENOUGH_TO_POOL, refuse_bad_options
from observant.visits.reader import HOST_PATTERN, LogReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from observant.estimation.priors import Prior
    from observant.visits import VisitLog

RATES = (
    "source string, visits long, changes long, exposure_days double, rate_per_day double, "
    "rate_low double, rate_high double, rate_ahead double, rate_mean double, method string, "
    "evidence string"
)
_ROW = re.compile(r" \(the first is (?:[^,()]+, )?row \d+\)")


def estimate_rates(
    df: DataFrame,
    method: str = "bias-reduced",
    *,
    confidence: float = 0.95,
    use_first_age: bool = False,
    zero_truncated: bool = False,
    group: str | None = None,
    prior: Prior | None = None,
    time_unit: str = "s",
    skew: float = 1.0,
    partitions: int | None = None,
) -> DataFrame:
    """Estimate how often each source changes; a data frame with the columns of a `RateTable`.

    The rates are those of `observant.estimate_rates` for the same visits: the same bits, or where
    NumPy adds up in another order within 1e-9 of them; with `group` within 1e-2.

    Parameters
    ----------
    df
        The visits, with the columns of the visit log; others are passed over. Two visits to one
        source at one time are refused: rows of a data frame have no order to choose by.
    method
        One of `observant.estimation.rates.METHODS`.
    group
        Pool within the groups of this column (method ``pooled``); ``host`` is taken from URLs
        where there is no such column. A source must belong to one group.
    prior
        What `pool` found, to be used again; learned from `df` unless given.
    partitions
        Into how many parts the visits are put; Spark decides unless told.

    The other options are those of `observant.estimate_rates` and `observant.read_visits`. The
    answer is lazy, as data frames are, except that a prior is learned at once.
    """
    require_spark()
    from pyspark.sql import functions as F  # noqa: N812 - as everybody does

    refuse_bad_options(method, confidence, zero_truncated=zero_truncated)
    visits = _visits(df, group)
    if method == "auto":
        with errors_told():
            counted = visits.select("source").distinct().limit(ENOUGH_TO_POOL).count()
            few = counted < ENOUGH_TO_POOL
        method = "bias-reduced" if few else "pooled"
    if method.startswith("pooled") and prior is None:
        prior = pool(
            df,
            method,
            use_first_age=use_first_age,
            zero_truncated=zero_truncated,
            time_unit=time_unit,
            skew=skew,
        )
    by = "source" if group is None else "group"
    reading = {"time_unit": time_unit, "skew": skew, "group": None if group is None else "group"}
    options = {"confidence": confidence, "use_first_age": use_first_age, "threads": 1}
    answer = _answering(by, reading, method, prior, options)
    placed = visits.repartition(by) if partitions is None else visits.repartition(partitions, by)
    # The rows of a source must come together, in whatever order of sources. Hashes are compared
    # at once, where URLs agree in their first dozen bytes.
    return placed.sortWithinPartitions(F.xxhash64(by), by).mapInArrow(answer, RATES)


def pool(
    df: DataFrame,
    method: str = "pooled",
    *,
    use_first_age: bool = False,
    zero_truncated: bool = False,
    time_unit: str = "s",
    skew: float = 1.0,
) -> Prior:
    """Learn the prior of a collection: how its rates are distributed.

    Each partition gives the histories of the sources it holds among at most 20,000, evenly spread
    over the alphabet: those that one machine would take, so that the prior is the same. Together
    they are what the driver holds.
    """
    require_spark()
    if method not in {"pooled", "pooled-gamma"}:
        raise InputError(f"a prior is learned by pooled or pooled-gamma, not by {method!r}")
    visits = _visits(df, None)
    with errors_told():
        names = visits.select("source").distinct()
        count = names.count()
        if count == 0:
            raise EstimationError("there are no visits, so there is nothing to pool")
        ranks = sampled_ranks(count)
        if len(ranks) < count:
            chosen = _at_ranks(names, ranks)
            visits = visits.join(chosen.hint("broadcast"), "source", "left_semi")
        log = _log([visits.toArrow()], {"time_unit": time_unit, "skew": skew})
    return learn_prior(log, method, use_first_age=use_first_age, zero_truncated=zero_truncated)[0]


def _answering(
    by: str,
    reading: dict[str, Any],
    method: str,
    prior: Prior | None,
    options: dict[str, Any],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def answer(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in whole_sources(batches, by):
            log = _log([table], reading)
            if prior is None:
                rates = single.estimate_rates(log, method, **options)
            else:
                rates = rates_under(log, prior, method, **options)
            yield from rates.to_arrow().to_batches(max_chunksize=1 << 16)

    return answer


def _at_ranks(names: DataFrame, ranks: Any) -> DataFrame:
    """The names at these places in the alphabet of all, found where they are."""
    import pyarrow as pa

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = sum(batch.num_rows for batch in batches)
        yield pa.record_batch({"part": [_part()], "rows": [rows]})

    ordered = names.repartitionByRange("source").sortWithinPartitions("source").persist()
    try:
        counts = ordered.mapInArrow(count, "part long, rows long").toArrow()
        sizes = dict(zip(*(counts[n].to_pylist() for n in ("part", "rows")), strict=True))
        starts, before = {}, 0
        for part in sorted(sizes):
            starts[part] = before
            before += sizes[part]

        def pick(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            at = starts[_part()]
            for batch in batches:
                first, last = np.searchsorted(ranks, [at, at + batch.num_rows])
                yield batch.take(pa.array(ranks[first:last] - at))
                at += batch.num_rows

        chosen = ordered.mapInArrow(pick, "source string").toArrow()
    finally:
        ordered.unpersist()
    return names.sparkSession.createDataFrame(chosen)


def _part() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def _log(tables: Iterable[pa.Table], reading: dict[str, Any]) -> VisitLog:
    """A checked log; rows have no number in a data frame, so errors name the source only."""
    reader = LogReader(**reading)
    try:
        for table in tables:
            for batch in table.to_batches():
                reader.add(batch)
        return reader.finish()
    except VisitLogError as error:
        message = _ROW.sub("", error.message).partition(", or keep")[0]
        raise VisitLogError(message, column=error.column, source=error.source) from error


def _visits(df: DataFrame, group: str | None) -> DataFrame:
    """The columns that are evidence, and the group."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody does

    for needed in ("source", "time"):
        if needed not in df.columns:
            raise VisitLogError(
                f"there is no column {needed!r}; the columns are {', '.join(df.columns)}"
            )
    columns = [F.col(name) for name in EVIDENCE_COLUMNS if name in df.columns]
    if group is not None:
        if group in df.columns:
            named = F.coalesce(F.col(group).cast("string"), F.lit(""))
        elif group == "host":
            pattern = HOST_PATTERN.replace("?P<host>", "")
            source = F.col("source")
            host = F.lower(F.regexp_extract(source, pattern, 1))
            named = F.when(source.rlike(pattern), host).otherwise(source)
        else:
            raise VisitLogError(
                f"there is no column {group!r} to group by; the columns are "
                f"{', '.join(df.columns)} ('host' is derived from URLs where there is none)"
            )
        columns.append(named.alias("group"))
    return df.select(*columns)
