"""observant: how often your sources change, how current your copy is, when to look again.

Everything a user calls is a name of this package; heavy parts load when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from observant.estimation.accuracy import accuracy
    from observant.estimation.classes import classify
    from observant.estimation.design import design
    from observant.estimation.online import OnlineRate
    from observant.estimation.rates import RateTable, estimate_rates
    from observant.formats import read_visits, write_table
    from observant.planning import plan
    from observant.visits import VisitLog

__all__ = [
    "OnlineRate",
    "RateTable",
    "VisitLog",
    "accuracy",
    "classify",
    "design",
    "estimate_rates",
    "plan",
    "read_visits",
    "write_table",
]

__version__ = "0.1.0"

_HOMES = {
    "OnlineRate": "observant.estimation.online",
    "RateTable": "observant.estimation.rates",
    "VisitLog": "observant.visits",
    "accuracy": "observant.estimation.accuracy",
    "classify": "observant.estimation.classes",
    "design": "observant.estimation.design",
    "estimate_rates": "observant.estimation.rates",
    "plan": "observant.planning",
    "read_visits": "observant.formats",
    "write_table": "observant.formats",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'observant' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
