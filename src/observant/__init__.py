"""observant: how often your sources change, how current your copy is, when to look again.

Everything a user calls is a name of this package; heavy parts load when they are first used.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from observant.plugins import MovedModules, lazy

if TYPE_CHECKING:
    from observant.estimation.accuracy import accuracy
    from observant.estimation.classes import classify
    from observant.estimation.design import design
    from observant.estimation.drift import drift
    from observant.estimation.intervals import IntervalEstimate, estimate_intervals
    from observant.estimation.online import OnlineRate
    from observant.estimation.overdue import change_probability, overdue
    from observant.estimation.rates import RateTable, estimate_rates
    from observant.estimation.season import seasonal_rates
    from observant.estimation.windows import local_rates, predict_next
    from observant.formats import read_visits, write_table
    from observant.planning import plan
    from observant.planning.schedule import Scheduler
    from observant.service.client import Client
    from observant.simulation import simulate
    from observant.simulation.traces import read_trace
    from observant.visits import VisitLog

__all__ = [
    "Client",
    "IntervalEstimate",
    "OnlineRate",
    "RateTable",
    "Scheduler",
    "VisitLog",
    "accuracy",
    "change_probability",
    "classify",
    "design",
    "drift",
    "estimate_intervals",
    "estimate_rates",
    "local_rates",
    "overdue",
    "plan",
    "predict_next",
    "read_trace",
    "read_visits",
    "seasonal_rates",
    "simulate",
    "write_table",
]

__version__ = "0.1.0"

_HOMES = {
    "Client": "observant.service.client",
    "IntervalEstimate": "observant.estimation.intervals",
    "OnlineRate": "observant.estimation.online",
    "RateTable": "observant.estimation.rates",
    "Scheduler": "observant.planning.schedule",
    "VisitLog": "observant.visits",
    "accuracy": "observant.estimation.accuracy",
    "change_probability": "observant.estimation.overdue",
    "classify": "observant.estimation.classes",
    "design": "observant.estimation.design",
    "drift": "observant.estimation.drift",
    "estimate_intervals": "observant.estimation.intervals",
    "estimate_rates": "observant.estimation.rates",
    "local_rates": "observant.estimation.windows",
    "overdue": "observant.estimation.overdue",
    "plan": "observant.planning",
    "predict_next": "observant.estimation.windows",
    "read_trace": "observant.simulation.traces",
    "read_visits": "observant.formats",
    "seasonal_rates": "observant.estimation.season",
    "simulate": "observant.simulation",
    "write_table": "observant.formats",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)

_MOVED = {
    "observant.audit": "observant.currency.audit",
    "observant.estimation.local": "observant.estimation.windows",
    "observant.planning.discrete": "observant.papers.thesis.strategies",
    "observant.planning.partition": "observant.papers.thesis.partition",
    "observant.reproduction": "observant.papers",
    "observant.scale": "observant.batch",
    "observant.spark": "observant.batch.spark",
    "observant.traces": "observant.simulation.traces",
}
"""Documented modules that have moved, for one release."""

sys.meta_path.insert(0, MovedModules(_MOVED))
