"""The whole collection as its visits show it: how old, how fast, at which hours.

Everything here is computed from one visit log: that of all sources, or of an even sample of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from observant.errors import InputError, ObservantError
from observant.visits.columns import MISSING

if TYPE_CHECKING:
    from observant.estimation.population import Population
    from observant.visits import VisitLog

__all__ = ["PopulationAnswer", "change_hours", "population"]

Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PopulationAnswer:
    """Brewington's chapter 3 for this collection."""

    sources: int
    """Active sources in the store."""
    sampled: int
    visits: int
    fits: Population | None = field(repr=False)
    hours: NDArray[np.float64] = field(repr=False)
    """Changes by hour of the week, Monday 00:00 UTC first."""
    hours_from: str
    """dates of modification, or visits that found a change."""
    notes: tuple[str, ...]


def population(log: VisitLog | None, sources: int) -> PopulationAnswer:
    """Describe a collection of so many active sources by the log of all or some of them."""
    from observant.estimation.population import fit_population

    if log is None or not len(log):
        raise InputError("there are no visits yet: run the observer for a while")
    notes: list[str] = []
    fits = None
    try:
        fits = fit_population(log)
    except ObservantError as error:
        notes.append(str(error))
    hours, origin = change_hours(log)
    return PopulationAnswer(
        sources=sources,
        sampled=len(log.sources),
        visits=len(log),
        fits=fits,
        hours=hours,
        hours_from=origin,
        notes=tuple(notes),
    )


def change_hours(log: VisitLog) -> tuple[Array, str]:
    """Changes by hour of the week, each spread over the hours in which it may have happened.

    Where sources date their updates, the dates are counted instead.
    """
    owner = np.searchsorted(log.offsets, np.arange(len(log)), side="right") - 1
    good = np.flatnonzero(log.succeeded)
    dates = None if log.last_modified is None else log.last_modified[good]
    changed = log.changed[good] == 1
    if dates is not None and (dated := changed & (dates != MISSING)).sum() > 0.5 * changed.sum():
        hour = dates[dated] // (3_600_000_000) + 3 * 24
        return np.bincount(hour % 168, minlength=168).astype(float), "dates of modification"
    time, who = log.time[good] / 3.6e9, owner[good]
    rows = np.flatnonzero(changed[1:] & (who[1:] == who[:-1])) + 1
    # A gap of more than two days says nothing of the hour.
    rows = rows[time[rows] - time[rows - 1] <= 48][:200_000]
    first = time[rows - 1].astype(np.int64)
    hours = time[rows].astype(np.int64) - first + 1
    within = np.arange(hours.sum()) - np.repeat(np.cumsum(hours) - hours, hours)
    counts = np.bincount(
        (np.repeat(first, hours) + within + 3 * 24) % 168, np.repeat(1.0 / hours, hours), 168
    )
    return np.asarray(counts, np.float64), "visits that found a change"
