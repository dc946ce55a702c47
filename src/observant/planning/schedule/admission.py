"""What the scheduler is told is checked here, once; the source is named in every complaint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.planning.objectives import OBJECTIVES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from observant.arrays import Floats
    from observant.planning.objectives.own import Penalty


def check_objective(objective: str | Penalty, grace: float, *, learned: bool) -> str:
    """Which objective compiled code takes it for. One of somebody's own is in a table, and taken
    for harmonic: its index, too, has no limit that is known beforehand.
    """
    own = callable(objective)
    if not own and objective not in OBJECTIVES:
        raise InputError(f"no objective {objective!r}; choose from {', '.join(OBJECTIVES)}")
    if own and not learned:
        raise InputError("an objective of your own needs rates that are learned: give a prior")
    if grace and objective != "currency":
        kind = "one of your own" if own else objective
        raise InputError(f"a grace belongs to the objective currency, not to {kind}")
    return "harmonic" if callable(objective) else objective


def between(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InputError(f"{name} must be from {low} to {high}, not {value}")


def check(name: str, value: float, low: float, *, above: bool = False) -> float:
    if not (low < value < np.inf or (value == low and not above)):
        kind = "above" if above else "not below"
        raise InputError(f"{name} must be a finite number {kind} {low:g}, not {value}")
    return value


def column(
    name: str,
    values: ArrayLike,
    sources: Sequence[str | int],
    *,
    above: bool = False,
    endless: bool = False,
) -> Floats:
    column = np.asarray(values, float)
    if column.ndim > 1 or column.size not in {1, len(sources)}:
        raise InputError(f"{name} has {column.size} values for {len(sources)} sources")
    column = np.broadcast_to(column, (len(sources),))
    bad = ~(column > 0 if above else column >= 0)
    if not endless:
        bad |= np.isinf(column)
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        kind = "above" if above else "not below"
        raise InputError(
            f"{name} must be a number {kind} 0, not {column[at]}", source=str(sources[at])
        )
    return column


def columns_of(
    names: Sequence[str | int],
    importance: ArrayLike,
    cost: ArrayLike,
    shortest: ArrayLike,
    longest: ArrayLike,
    grace: ArrayLike,
) -> dict[str, Floats]:
    """The numbers that every source has, by their names in the record of a source."""
    columns = {
        "importance": column("importance", importance, names),
        "cost": column("cost", cost, names, above=True),
        "minimum": column("min_period", shortest, names),
        "maximum": column("max_period", longest, names, above=True, endless=True),
        "grace": column("grace", grace, names),
    }
    for name, short, long in zip(names, columns["minimum"], columns["maximum"], strict=True):
        if short > long:
            raise InputError(f"min_period {short} is above max_period {long}", source=str(name))
    return columns


def times(values: ArrayLike, sources: Sequence[str | int]) -> Floats:
    """Times of last visits; NaN for never."""
    column = np.broadcast_to(np.asarray(values, float), (len(sources),))
    return np.asarray(np.where(np.isnan(column), -np.inf, column))


def host_rest(delay: float, cap: float) -> tuple[float, float]:
    """Days a host rests after a visit, at least and on average."""
    if not 0 <= delay < np.inf:
        raise InputError(f"the delay between visits to a host must be 0 or more days, not {delay}")
    if not cap > 0:
        raise InputError(f"the cap of a host must be above 0 visits a day, not {cap}")
    return delay, 1 / cap


def lasting(drift: float) -> float:
    """Days that a rate lasts, on average."""
    if not drift > 0:
        raise InputError(f"drift is a number of days above 0, infinite for none, not {drift}")
    return drift
