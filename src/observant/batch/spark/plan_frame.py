"""Plans and currency of sources whose rates are in a Spark data frame.

A plan takes one pass to a sketch of the collection, a solve on the driver, a few passes that add up
what is really spent until the price is exact, and a last, lazy pass that applies it.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.batch.plan_file import NUMBERS, PlanTotals, checked_rates, planned, totals_of
from observant.batch.sketch import Cells, PlanOptions, Sums, solve_price
from observant.batch.spark.session import errors_told, require_spark
from observant.errors import InputError
from observant.planning.problem import Doubt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from observant.planning.problem import Solution

_CELLS = (
    "rate_cell long, mean_cell long, value_cell long, sources long, cost double, "
    "importance double, cost_rate double, cost_mean double"
)
_SUMS = (
    "sources long, starved long, spent double, importance double, alpha double, penalty double, "
    "uniform_alpha double, doubt array<double>"
)
_PLAN = "source string, visits_per_day double, period_days double, alpha double"


@dataclass(frozen=True, eq=False)
class SparkPlan(PlanTotals):
    """How often to visit each source (`table`, a data frame), and what that achieves."""

    table: DataFrame


def plan(
    df: DataFrame,
    budget: float | None = None,
    *,
    target: float | None = None,
    objective: str = "freshness",
    grace: float = 0.0,
    importance: str | None = None,
    min_period: float = 0.0,
    max_period: float = math.inf,
    tolerance: float = 1e-9,
) -> SparkPlan:
    """Divide a visiting budget over the sources of a data frame.

    `df` has the columns source and rate_per_day, and if there are any rate_ahead and rate_mean (as
    the pooled methods give them), importance (or the column named so) and cost. What is spent
    agrees with the budget to `tolerance`; visits and currency are those of `observant.plan` to
    about ten times that. The other options are those of `observant.plan`; caps on hosts are not
    offered here.
    """
    require_spark()
    options = PlanOptions(budget, target, objective, grace, min_period, max_period)
    given = _rates(df, importance)
    numbers = given.drop("source").persist()
    try:
        with errors_told():
            table = given.mapInArrow(_sketching, _CELLS).toArrow()
            if not len(table):
                raise InputError("there are no sources to plan for")
            names = tuple(Cells.__dataclass_fields__)
            cells = Cells(*(table[name].to_numpy() for name in names)).compact()

            def add_up(solution: Solution, alike: float) -> Sums:
                found = numbers.mapInArrow(_adding(options, solution, alike), _SUMS).toArrow()
                return Sums.merged(
                    Sums(**row | {"doubt": Doubt(*row["doubt"])}) for row in found.to_pylist()
                )

            found = solve_price(cells, options, add_up, tolerance)
    finally:
        numbers.unpersist()
    return SparkPlan(
        **totals_of(found, objective),
        table=given.mapInArrow(_applying(options, found.solution), _PLAN),
    )


def currency(df: DataFrame, *, grace: float = 0.0, period: float | None = None) -> DataFrame:
    """Add the column alpha: how current the copy of each source is.

    `df` has the columns rate_per_day and period_days, unless `period` (days) is that of all. See
    `observant.currency`.
    """
    require_spark()
    from pyspark.sql.types import DoubleType, StructField, StructType

    needed = ["rate_per_day", *([] if period is not None else ["period_days"])]
    for column in needed:
        if column not in df.columns:
            raise InputError(
                f"there is no column {column!r}; the columns are {', '.join(df.columns)}"
            )
    kept = [field for field in df.schema.fields if field.name != "alpha"]
    schema = StructType([*kept, StructField("alpha", DoubleType())])
    names = [field.name for field in kept]

    def answer(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from observant.currency import currency as single

        for batch in batches:
            rates, periods = (
                batch.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False)
                for name in ("rate_per_day", needed[-1])
            )
            alpha = single(rates, periods if period is None else period, grace)
            yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(alpha)], [*names, "alpha"])

    return df.select(*names).mapInArrow(answer, schema)


def collection_currency(df: DataFrame, *, grace: float = 0.0, period: float | None = None) -> float:
    """Probability that an entry of the collection, asked for at random, is current.

    Sources count by the column importance, where there is one. See `currency`.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everybody does

    weight = F.col("importance") if "importance" in df.columns else F.lit(1.0)
    with errors_told():
        sums = (
            currency(df, grace=grace, period=period)
            .agg(F.sum(weight * F.col("alpha")).alias("alpha"), F.sum(weight).alias("weight"))
            .first()
        )
    if sums is None or not sums["weight"]:
        raise InputError("there are no sources, or none of any importance")
    return float(sums["alpha"] / sums["weight"])


def _rates(df: DataFrame, importance: str | None) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody does

    weight = importance or "importance"
    for column in ("source", "rate_per_day", *([importance] if importance else [])):
        if column not in df.columns:
            raise InputError(
                f"there is no column {column!r}; the columns are {', '.join(df.columns)}"
            )
    rate = F.col("rate_per_day").cast("double")
    mean = rate
    if "rate_mean" in df.columns:
        mean = F.coalesce(F.col("rate_mean").cast("double"), rate)
    if "rate_ahead" in df.columns:
        rate = F.coalesce(F.col("rate_ahead").cast("double"), rate)
    columns = [
        F.col("source").cast("string"), rate.alias("rate_per_day"), mean.alias("rate_mean")
    ]  # fmt: skip
    for name, given in (("importance", weight), ("cost", "cost")):
        value = F.col(given).cast("double") if given in df.columns else F.lit(1.0)
        columns.append(value.alias(name))
    return df.select(*columns)


def _sketching(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One sketch a partition; the numbers are checked on the way."""
    import pyarrow as pa

    parts = []
    for batch in batches:
        if batch.num_rows:
            columns = checked_rates(batch, None, "", 0)
            parts.append(Cells.of(*(np.asarray(columns[name]) for name in NUMBERS)))
    if parts:
        cells = Cells.merged(parts)
        yield pa.record_batch({n: getattr(cells, n) for n in Cells.__dataclass_fields__})


def _adding(
    options: PlanOptions, solution: Solution, alike: float
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def answer(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        sums = Sums.merged(
            Sums.of(options.problem(*_numbers(batch)), solution, alike)
            for batch in batches
            if batch.num_rows
        )
        row = {name: [getattr(sums, name)] for name in Sums.__dataclass_fields__}
        yield pa.record_batch(row | {"doubt": [list(astuple(sums.doubt))]})

    return answer


def _applying(
    options: PlanOptions, solution: Solution
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def answer(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                problem = options.problem(*_numbers(batch))
                yield planned(batch.column("source"), problem, solution)

    return answer


def _numbers(batch: pa.RecordBatch) -> list[Any]:
    return [batch.column(name).to_numpy(zero_copy_only=False) for name in NUMBERS]
