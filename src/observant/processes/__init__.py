"""How can a source change? One model per file, all with the promises of `Process`."""

from observant.processes.base import Process
from observant.processes.bursts import Bursts
from observant.processes.constant import Constant
from observant.processes.gamma import Gamma
from observant.processes.lognormal import Lognormal
from observant.processes.pareto import Pareto
from observant.processes.piecewise import Piecewise
from observant.processes.poisson import Exponential, Poisson, sample_poisson
from observant.processes.powerlaw import PowerLaw
from observant.processes.registry import NON_STATIONARY, STATIONARY, examples
from observant.processes.renewal import Renewal
from observant.processes.seasonal import Seasonal
from observant.processes.transforms import (
    age_cdf_from,
    age_cdf_on_grid,
    interval_cdf_from,
    interval_cdf_on_grid,
)
from observant.processes.uniform import Uniform
from observant.processes.updates import Updates
from observant.processes.weibull import Weibull

__all__ = [
    "NON_STATIONARY",
    "STATIONARY",
    "Bursts",
    "Constant",
    "Exponential",
    "Gamma",
    "Lognormal",
    "Pareto",
    "Piecewise",
    "Poisson",
    "PowerLaw",
    "Process",
    "Renewal",
    "Seasonal",
    "Uniform",
    "Updates",
    "Weibull",
    "age_cdf_from",
    "age_cdf_on_grid",
    "examples",
    "interval_cdf_from",
    "interval_cdf_on_grid",
    "sample_poisson",
]
