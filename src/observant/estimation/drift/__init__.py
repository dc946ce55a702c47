"""Rates that drift, from visits of any kind: forgetting, change points, and the choice of both."""

from observant.estimation.drift.experts import DISCOUNTS, HAZARDS, METHODS
from observant.estimation.drift.follower import SeasonLike, SeasonsLike
from observant.estimation.drift.moments import RateChanges
from observant.estimation.drift.prequential import Calibration, Prequential, prequential
from observant.estimation.drift.table import (
    DriftPosterior,
    DriftTable,
    RatePath,
    estimate_drift,
)

__all__ = [
    "DISCOUNTS",
    "HAZARDS",
    "METHODS",
    "Calibration",
    "DriftPosterior",
    "DriftTable",
    "Prequential",
    "RateChanges",
    "RatePath",
    "SeasonLike",
    "SeasonsLike",
    "estimate_drift",
    "prequential",
]
