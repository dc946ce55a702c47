"""observant: how often your sources change, how current your copy is, when to look again.

Everything a user calls is a name of this package; heavy parts load when they are first used.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from observant.plugins import MovedModules, lazy

if TYPE_CHECKING:
    from observant.currency import currency_of, required_period
    from observant.estimation.accuracy import accuracy
    from observant.estimation.classes import classify
    from observant.estimation.design import design_visits
    from observant.estimation.drift import estimate_drift
    from observant.estimation.intervals import IntervalEstimate, estimate_intervals
    from observant.estimation.online import OnlineRate
    from observant.estimation.overdue import change_probability, overdue
    from observant.estimation.rates import RateTable, estimate_rates
    from observant.estimation.season import estimate_seasons
    from observant.estimation.windows import estimate_windows, predict_next
    from observant.formats import read_visits, write_table
    from observant.formats.signals import read_signals
    from observant.planning import plan
    from observant.planning.schedule import Scheduler
    from observant.planning.signals import estimate_signals
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
    "currency_of",
    "design_visits",
    "estimate_drift",
    "estimate_intervals",
    "estimate_rates",
    "estimate_seasons",
    "estimate_signals",
    "estimate_windows",
    "overdue",
    "plan",
    "predict_next",
    "read_signals",
    "read_trace",
    "read_visits",
    "required_period",
    "simulate",
    "write_table",
]

__version__ = "0.2.0"

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
    "currency_of": "observant.currency",
    "design_visits": "observant.estimation.design",
    "estimate_drift": "observant.estimation.drift",
    "estimate_intervals": "observant.estimation.intervals",
    "estimate_rates": "observant.estimation.rates",
    "estimate_seasons": "observant.estimation.season",
    "estimate_signals": "observant.planning.signals",
    "estimate_windows": "observant.estimation.windows",
    "overdue": "observant.estimation.overdue",
    "plan": "observant.planning",
    "predict_next": "observant.estimation.windows",
    "read_signals": "observant.formats.signals",
    "read_trace": "observant.simulation.traces",
    "read_visits": "observant.formats",
    "required_period": "observant.currency",
    "simulate": "observant.simulation",
    "write_table": "observant.formats",
}

_RENAMED = {
    "design": "design_visits",
    "drift": "estimate_drift",
    "local_rates": "estimate_windows",
    "seasonal_rates": "estimate_seasons",
}
"""Public names of 0.1, for one release."""

__getattr__, __dir__ = lazy(__name__, _HOMES, _RENAMED)

_MOVED = {
    "observant.audit": "observant.currency.audit",
    "observant.estimation.local": "observant.estimation.windows",
    "observant.estimation.sampling_plan": "observant.estimation.design",
    "observant.planning.discrete": "observant.papers.thesis.strategies",
    "observant.planning.partition": "observant.papers.thesis.partition",
    "observant.planning.schedule.hints": "observant.planning.schedule.quality",
    "observant.reproduction": "observant.papers",
    "observant.scale": "observant.batch",
    "observant.spark": "observant.batch.spark",
    "observant.traces": "observant.simulation.traces",
}
"""Documented modules that have moved, for one release."""

sys.meta_path.insert(0, MovedModules(_MOVED))
