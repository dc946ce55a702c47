"""One machine, big logs: the same answers from more visits, or sources, than memory holds.

>>> import tempfile
>>> from pathlib import Path
>>> from observant import scale, write_table
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
    from observant.scale.estimating import estimate_rates
    from observant.scale.memory import (
        available_memory,
        choose_engine,
        expected_memory,
        format_size,
        parse_size,
    )
    from observant.scale.planning import PlanFile, plan
    from observant.scale.ratefile import RateFile, rate_table_of, read_rates
    from observant.scale.sampling import sample_visits

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
    "PlanFile": "observant.scale.planning",
    "RateFile": "observant.scale.ratefile",
    "available_memory": "observant.scale.memory",
    "choose_engine": "observant.scale.memory",
    "estimate_rates": "observant.scale.estimating",
    "expected_memory": "observant.scale.memory",
    "format_size": "observant.scale.memory",
    "parse_size": "observant.scale.memory",
    "plan": "observant.scale.planning",
    "rate_table_of": "observant.scale.ratefile",
    "read_rates": "observant.scale.ratefile",
    "sample_visits": "observant.scale.sampling",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
