"""What is believed of the whole collection: rates with their posteriors, periods, importance.

Of a large collection an even sample is read; shares and averages of the sample stand for all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from observant.errors import InputError
from observant.observer.scheduling import GRID
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

    from observant.observer.config import Config
    from observant.store import Store
    from observant.store.types import SourceColumns

__all__ = ["Beliefs", "limits_of", "posterior_of", "read_beliefs"]

Array: TypeAlias = NDArray[np.float64]

_MIDDLE, _BROAD = math.log(0.1), 2.5
_NORMAL = 1.96


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Active sources (a sample of them) as an observer believes them to be, at one instant."""

    at: float
    columns: SourceColumns
    importance: Array
    min_period: Array
    max_period: Array
    posterior: Array
    """Probability of each rate of `GRID`, a row a source."""

    def __len__(self) -> int:
        return len(self.importance)

    @property
    def total(self) -> int:
        """Active sources in the store."""
        return self.columns.total

    @property
    def waited(self) -> Array:
        """Days since the last good visit; infinite where there was none."""
        days = (self.at - self.columns.good_at) / DAY
        return np.where(np.isnan(days), np.inf, np.maximum(days, 0.0))

    @cached_property
    def rate(self) -> Array:
        """The middle of each posterior: exponential of the mean of log λ."""
        return np.asarray(np.exp(self.posterior @ np.log(GRID)))

    @property
    def share(self) -> Array:
        return np.asarray(self.importance / max(self.importance.sum(), 1e-300))

    def expected(self, graces: ArrayLike) -> tuple[Array, Array, Array]:
        """α now at each grace, with its 95 % interval."""
        means, spreads = [], []
        for grace in np.atleast_1d(np.asarray(graces, float)).tolist():
            waited = self.waited
            late = np.maximum(np.where(np.isinf(waited), 1e12, waited) - grace, 0.0)
            fresh = np.einsum("ij,ij->i", self.posterior, np.exp(-np.outer(late, GRID)))
            fresh = np.minimum(fresh, 1.0)  # rounding may carry a sum of probabilities past it
            means.append(float(self.share @ fresh))
            own = float(np.sum(self.share**2 * fresh * (1 - fresh)))
            # Of a sample, what the others are like is uncertain as well.
            left_out = 1.0 - len(self) / max(self.total, 1)
            sampled = float(np.sum(self.share**2 * (fresh - means[-1]) ** 2)) * left_out
            spreads.append(_NORMAL * math.sqrt(own * (1.0 - left_out) + sampled))
        mean, spread = np.array(means), np.array(spreads)
        return mean, np.maximum(mean - spread, 0.0), np.minimum(mean + spread, 1.0)

    def coarse(self, most: int) -> tuple[Array, Array, NDArray[np.int64]]:
        """A thinner grid, the posteriors on it, and the sources they are of: at most so many.

        Mass between two points of the new grid is shared by nearness in log λ, so that the mean
        of log λ stays what it was.
        """
        rows = np.arange(len(self))[:: max(-(-len(self) // most), 1)]
        octave = np.log2(GRID)
        place = (octave - octave[0]) / _COARSE
        low = np.floor(place).astype(int)
        shares = np.zeros((len(GRID), int(low[-1]) + 2))
        shares[np.arange(len(GRID)), low] = 1.0 - (place - low)
        shares[np.arange(len(GRID)), low + 1] += place - low
        grid = 2.0 ** (octave[0] + _COARSE * np.arange(shares.shape[1]))
        return grid, np.maximum(self.posterior[rows] @ shares, 0.0), rows


_COARSE = 0.75
"""Octaves between the points of the grid that plans are made on."""


def read_beliefs(store: Store, config: Config, now: float, limit: int = 4000) -> Beliefs:
    """Read the collection, or an even sample of it."""
    columns = store.sources.columns(limit)
    importance, shortest, longest = limits_of(
        config, columns.tags, columns.config, columns.importance.tolist()
    )
    prior = store.settings.get("observer.prior")
    return Beliefs(
        at=now,
        columns=columns,
        importance=importance,
        min_period=shortest,
        max_period=longest,
        posterior=posterior_of(columns.posterior, prior),
    )


def posterior_of(evidence: list[bytes | None], prior: list[float] | None) -> Array:
    """The posterior on `GRID` of sources with this evidence, a row each."""
    if prior is None or len(prior) != len(GRID):
        before = np.exp(-0.5 * ((np.log(GRID) - _MIDDLE) / _BROAD) ** 2)
    else:
        before = np.maximum(np.asarray(prior, np.float64), 1e-12)
    rows = np.zeros((len(evidence), len(GRID)))
    for row, data in zip(rows, evidence, strict=True):
        if data is not None and len(data) == 4 * len(GRID):
            row[:] = np.frombuffer(data, np.float32)
    weights = before * np.exp(rows - rows.max(axis=1, keepdims=True, initial=-1e30))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def limits_of(
    config: Config, tags: Iterable[str], own: Iterable[str], importance: Iterable[float]
) -> tuple[Array, Array, Array]:
    """Importance, shortest and longest period of sources with these tags and settings (JSON)."""
    known: dict[tuple[str, str, float], tuple[float, float, float]] = {}
    rows = []
    for key in zip(tags, own, importance, strict=True):
        if key not in known:  # most of many sources have the same settings
            known[key] = _limits(config, *key)
        rows.append(known[key])
    table = np.array(rows, np.float64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def _limits(config: Config, tags: str, own: str, importance: float) -> tuple[float, float, float]:
    settings: dict[str, Any] = msgspec.json.decode(own)
    if importance != 1.0:
        settings = settings | {"importance": importance}
    try:
        found = config.settings_of(msgspec.json.decode(tags), settings)
    except InputError:  # a source that cannot be visited as it is described
        return importance, 1.0 / 1440, 365.0
    return found.importance, found.shortest, found.longest
