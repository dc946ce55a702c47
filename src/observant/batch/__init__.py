"""One machine, big logs: the same answers from more visits, or sources, than memory holds.

Why not DuckDB's `COPY … ORDER BY` and whole sources streamed behind it: for 4 million visits within
500 MB that takes 14.2 s of CPU and 815 MB, and this 5.9 s and 619 MB, for equal rates (`python -m
benchmarks.scale --visits 4000000 --engines disk duckdb`); nor does it go on after a kill.

>>> import tempfile
>>> from pathlib import Path
>>> from observant import write_table
>>> from observant import batch as scale
>>> from observant.testing import synthetic_visits
>>> folder = tempfile.TemporaryDirectory()
>>> visits, rates, plan = (Path(folder.name) / f"{n}.parquet" for n in ("visits", "rates", "plan"))
>>> write_table(synthetic_visits(sources=200)[0], visits)
>>> len(scale.estimate_rates(visits, method="pooled", output=rates, memory="1GB"))
200
>>> round(scale.plan(rates, budget=50.0, output=plan).spent, 6)
50.0
>>> folder.cleanup()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from observant.plugins import lazy

if TYPE_CHECKING:
    from observant.batch.memory import (
        available_memory,
        choose_engine,
        expected_memory,
        format_size,
        parse_size,
    )
    from observant.batch.plan_file import PlanFile, plan
    from observant.batch.rate_file import RateFile, estimate_rates, rate_table_of, read_rates
    from observant.batch.sample import sample_visits

__all__ = [
    "PlanFile",
    "RateFile",
    "available_memory",
    "choose_engine",
    "estimate_rates",
    "expected_memory",
    "format_size",
    "parse_size",
    "plan",
    "rate_table_of",
    "read_rates",
    "sample_visits",
]

# `observant estimate` asks whether a log fits into memory; it need not load planning for that.
_HOMES = {
    "PlanFile": "observant.batch.plan_file",
    "RateFile": "observant.batch.rate_file",
    "available_memory": "observant.batch.memory",
    "choose_engine": "observant.batch.memory",
    "estimate_rates": "observant.batch.rate_file",
    "expected_memory": "observant.batch.memory",
    "format_size": "observant.batch.memory",
    "parse_size": "observant.batch.memory",
    "plan": "observant.batch.plan_file",
    "rate_table_of": "observant.batch.rate_file",
    "read_rates": "observant.batch.rate_file",
    "sample_visits": "observant.batch.sample",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
