"""The distribution of rates over a whole collection: described, fitted, and compared."""

from observant.estimation.population.descriptive import (
    Description,
    Histogram,
    age_densities,
    describe,
)
from observant.estimation.population.fits import (
    Population,
    PriorComparison,
    compare_prior,
    fit_ages,
    fit_histories,
    fit_lifetimes,
    fit_population,
)
from observant.estimation.population.inference import PopulationFit
from observant.estimation.population.link_rot import Turnover, turnover

__all__ = [
    "Description",
    "Histogram",
    "Population",
    "PopulationFit",
    "PriorComparison",
    "Turnover",
    "age_densities",
    "compare_prior",
    "describe",
    "fit_ages",
    "fit_histories",
    "fit_lifetimes",
    "fit_population",
    "turnover",
]
