"""How up to date is the copy?

A copy is β-current when every update it has missed is younger than the grace β. Its currency α is
the probability of that at a random moment; freshness is α at β = 0. All of it follows from one
curve, the age distribution G of the source (Brewington 2.17), because after a visit at a random
moment the wait for the next update has the same distribution:

    α(T, β) = (1/T) ∫₀ᵀ (1 − G((t − β)⁺)) dt

Wherever a function takes a `source`, give what you know of how it changes: a rate (or an array of
rates) of Poisson sources, a posterior (`GammaRates`, `RateMixture`), a whole population
(`WeibullPopulation`), a measured G (`AgeTable` or any function), or a process of
`observant.processes`.

>>> print(currency(0.3, period=10, grace=2).round(3))
0.503
>>> print(required_period(WeibullPopulation(1.4, 152.2), target=0.95, grace=1).round(2))
8.58
"""

from observant.currency.age_models import (
    AgeModel,
    AgeProcess,
    AgeTable,
    PoissonRates,
)
from observant.currency.collection import (
    Bandwidth,
    bandwidth,
    collection_currency,
    performance_surface,
)
from observant.currency.gaps import growing_period, irregular_gaps, over_gaps
from observant.currency.measures import (
    changed_probability,
    currency,
    hidden_share,
    mean_missed_updates,
    mean_staleness,
    missed_updates,
    stale_probability,
    staleness,
)
from observant.currency.mixtures import GammaRates, RateMixture, WeibullPopulation
from observant.currency.replicas import replica_currency, replicas_needed
from observant.currency.required import (
    heuristic_time_to_live,
    required_grace,
    required_period,
    time_to_live,
)

currency_of = currency
"""The same, where the name of the package is taken: `from observant import currency_of`."""

__all__ = [
    "AgeModel",
    "AgeProcess",
    "AgeTable",
    "Bandwidth",
    "GammaRates",
    "PoissonRates",
    "RateMixture",
    "WeibullPopulation",
    "bandwidth",
    "changed_probability",
    "collection_currency",
    "currency",
    "currency_of",
    "growing_period",
    "heuristic_time_to_live",
    "hidden_share",
    "irregular_gaps",
    "mean_missed_updates",
    "mean_staleness",
    "missed_updates",
    "over_gaps",
    "performance_surface",
    "replica_currency",
    "replicas_needed",
    "required_grace",
    "required_period",
    "stale_probability",
    "staleness",
    "time_to_live",
]
