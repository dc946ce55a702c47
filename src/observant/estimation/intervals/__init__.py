"""How long between updates? The distribution of intervals, F, and of ages, G, from visits.

`estimate_intervals` takes a visit log; the methods behind it (Li's M1 to M6, and ours) take arrays
and are in the modules of this package.
"""

from __future__ import annotations

from observant.estimation.intervals.answer import Bands, Diagnostics, IntervalEstimate
from observant.estimation.intervals.choice import ChosenModel, chosen_model
from observant.estimation.intervals.diagnostics import (
    MemoryTest,
    SamplingCheck,
    ageing,
    poisson_test_of_visits,
    sampling_check,
    visits_needed,
)
from observant.estimation.intervals.estimate import METHODS, estimate_intervals
from observant.estimation.intervals.poisson_tests import PoissonTest, autocorrelation, poisson_test
from observant.estimation.intervals.pooled import PooledIntervals, pool_intervals

__all__ = [
    "METHODS",
    "Bands",
    "ChosenModel",
    "Diagnostics",
    "IntervalEstimate",
    "MemoryTest",
    "PoissonTest",
    "PooledIntervals",
    "SamplingCheck",
    "ageing",
    "autocorrelation",
    "chosen_model",
    "estimate_intervals",
    "poisson_test",
    "poisson_test_of_visits",
    "pool_intervals",
    "sampling_check",
    "visits_needed",
]
