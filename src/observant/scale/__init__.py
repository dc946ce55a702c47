"""One machine, big logs: the same answers from more visits, or sources, than memory holds.

>>> import tempfile
>>> from pathlib import Path
>>> from observant import scale, write_table
>>> from observant.testing import synthetic_visits
>>> folder = tempfile.TemporaryDirectory()
>>> visits, rates, plan = (Path(folder.name) / f"{n}.parquet" for n in ("visits", "rates", "plan"))
>>> write_table(synthetic_visits(sources=200)[0], visits)
>>> len(scale.estimate_rates(visits, output=rates, memory="1GB"))
200
>>> round(scale.plan(rates, budget=50.0, output=plan).spent, 6)
50.0
>>> folder.cleanup()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
    "PlanFile": "planning",
    "RateFile": "ratefile",
    "available_memory": "memory",
    "choose_engine": "memory",
    "estimate_rates": "estimating",
    "expected_memory": "memory",
    "format_size": "memory",
    "parse_size": "memory",
    "plan": "planning",
    "rate_table_of": "ratefile",
    "read_rates": "ratefile",
    "sample_visits": "sampling",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
