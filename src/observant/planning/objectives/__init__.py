"""What a plan minimises: an expected penalty c(s) and the index W(s) that follows from it.

s is the time since the last visit. For any penalty that never falls with s, visiting a source with
period T costs (1/T) ∫₀ᵀ c on average, and the gain of a visit after s days is the index

    W(s) = s·c(s) − ∫₀ˢ c

The optimal plan visits a source when importance · W(s) / cost reaches one price Λ, the same for
all (`frontier` of the field: Cho's optimum, Olston and Pandey's utility, Whittle's index are this).

| name        | c(s), with x = λs                        | W(s)                              |
|-------------|------------------------------------------|-----------------------------------|
| `freshness` | 1 − e⁻ˣ, the copy is out of date         | (1 − (1 + x)e⁻ˣ)/λ                |
| `currency`  | 1 − e⁻ˣ, x = λ(s − β): by more than β     | (1 + λβ − (1 + λβ + x)e⁻ˣ)/λ      |
| `harmonic`  | Ein(x) = E[1 + 1/2 + … + 1/N], N missed  | (x − 1 + e⁻ˣ)/λ                   |
| `age`       | age of the oldest missed update          | (x²/2 + (1 + x)e⁻ˣ − 1)/λ²        |
| `delay`     | λs, all missed updates wait              | λs²/2                             |
| `detected`  | λ(1 − e⁻ˣ), updates that stay unseen     | 1 − (1 + x)e⁻ˣ                    |

An objective holds many sources at once, one entry of its arrays each. `PosteriorMean` averages any
of them over what is known of the rates; `RenewalObjective` takes sources that are not Poisson, or
Gamma posteriors; `OwnObjective` takes a penalty of λs, and `Custom` any other.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.currency import GammaRates, RateMixture
from observant.errors import InputError
from observant.planning.objectives.averaged import Custom, PosteriorMean, RenewalObjective
from observant.planning.objectives.closed_forms import (
    POISSON,
    Currency,
    Delay,
    DetectedChanges,
    Freshness,
    Harmonic,
    OldestMissed,
)
from observant.planning.objectives.index import Objective
from observant.planning.objectives.own import OwnObjective, Penalty

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = [
    "OBJECTIVES",
    "Currency",
    "Custom",
    "Delay",
    "DetectedChanges",
    "Freshness",
    "Harmonic",
    "Objective",
    "OldestMissed",
    "OwnObjective",
    "Penalty",
    "PosteriorMean",
    "RenewalObjective",
    "objective",
]

OBJECTIVES: dict[str, Any] = dict(POISSON)
"""The objectives by name."""


def objective(
    name: str | Penalty,
    rates: Any,
    grace: ArrayLike = 0.0,
) -> Objective:
    """Return the objective of that name, or of that penalty, for Poisson sources of these rates.

    Instead of rates, give what is known of them: the posterior of a pooled `RateTable`, a
    `RateMixture` or `GammaRates`; the penalty is then averaged over it.

    >>> print(objective("freshness", [0.5, 2.0]).period_at(0.1).round(4))
    [0.7107 0.4122]
    """
    if not isinstance(name, str):
        if np.any(grace):
            raise InputError("a grace belongs to the objective currency, not to one of your own")
    elif name not in OBJECTIVES:
        raise InputError(f"unknown objective {name!r}; choose one of {', '.join(OBJECTIVES)}")
    kind = OBJECTIVES[name] if isinstance(name, str) else partial(OwnObjective, name)
    if isinstance(rates, GammaRates):
        if kind not in {Freshness, Currency}:
            raise InputError(
                "Gamma posteriors have closed forms for freshness and currency, not for others: "
                "give the posterior on a grid of rates"
            )
        return RenewalObjective(rates, grace if kind is Currency else 0.0)
    if isinstance(rates, RateMixture):
        grid = np.atleast_2d(rates.rates)
        alike = not np.any(grid != grid[0])
        weights = np.atleast_2d(rates.weights)
        return PosteriorMean(name, grid[0] if alike else grid, weights, grace)
    if hasattr(rates, "points"):
        return PosteriorMean(name, (), rates, grace)
    return kind(rates, grace) if kind is Currency else kind(rates)
