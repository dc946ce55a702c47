"""All models by name, and typical examples of the stationary ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.processes.bursts import Bursts
from observant.processes.constant import Constant
from observant.processes.gamma import Gamma
from observant.processes.lognormal import Lognormal
from observant.processes.pareto import Pareto
from observant.processes.piecewise import Piecewise
from observant.processes.poisson import Poisson
from observant.processes.powerlaw import PowerLaw
from observant.processes.seasonal import Seasonal
from observant.processes.uniform import Uniform
from observant.processes.weibull import Weibull

if TYPE_CHECKING:
    from observant.processes.base import Process
    from observant.processes.intensity import NonStationary

STATIONARY: dict[str, type[Process]] = {
    "poisson": Poisson,
    "weibull": Weibull,
    "pareto": Pareto,
    "gamma": Gamma,
    "lognormal": Lognormal,
    "uniform": Uniform,
    "constant": Constant,
    "seasonal": Seasonal,
    "bursts": Bursts,
}
"""Processes with ages at a random moment, by name: all that currency needs."""

NON_STATIONARY: dict[str, type[NonStationary]] = {
    "power-law": PowerLaw,
    "piecewise": Piecewise,
}
"""Processes whose rate depends on the time, by name."""


def examples(mean: float = 1.0) -> dict[str, Process]:
    """Every stationary model at one mean interval, some of them in more than one shape.

    Made for tests and comparisons that want "all kinds of sources".

    >>> all(abs(process.mean - 7.0) < 1e-9 for process in examples(mean=7.0).values())
    True
    """
    hour = np.arange(168)
    office = np.where((hour < 120) & (hour % 24 >= 8) & (hour % 24 < 18), 1.0, 0.1)
    nights_off = np.where((hour % 24 >= 6) & (hour % 24 < 22), 1.0, 0.0)
    return {
        "poisson": Poisson.with_mean(mean),
        "weibull, bursty": Weibull.with_mean(mean, shape=0.5),
        "weibull, regular": Weibull.with_mean(mean, shape=4.0),
        "pareto": Pareto.with_mean(mean, shape=3.0),
        "pareto, infinite mean age": Pareto.with_mean(mean, shape=2.0),
        "gamma, bursty": Gamma.with_mean(mean, shape=0.4),
        "gamma, regular": Gamma.with_mean(mean, shape=3.0),
        "lognormal": Lognormal.with_mean(mean, sigma=1.2),
        "uniform": Uniform.with_mean(mean),
        "uniform, narrow": Uniform.with_mean(mean, spread=0.3),
        "constant": Constant.with_mean(mean),
        "seasonal, office hours": Seasonal.with_mean(mean, office),
        "seasonal, nights off": Seasonal.with_mean(mean, nights_off),
        "bursts": Bursts.with_mean(mean, on_time=0.5 * mean, off_time=4.0 * mean, quiet=0.02),
        "bursts, interrupted": Bursts.with_mean(mean, on_time=mean, off_time=5.0 * mean),
    }
