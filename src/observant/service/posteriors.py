"""What is believed of the whole collection: rates with their posteriors, periods, importance.

Of a large collection an even sample is read; shares and averages of the sample stand for all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from observant.currency.measures import expected_currency
from observant.errors import InputError
from observant.estimation.belief import Beliefs, Likelihoods
from observant.estimation.priors import Prior, first
from observant.observer.config import Config, SourceSettings
from observant.planning.policy import group_of
from observant.times import DAY
from observant.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from observant.arrays import Floats, Integers
    from observant.store import Store
    from observant.store.types import SourceColumns


@dataclass(frozen=True, eq=False)
class ActiveSources:
    """Active sources (a sample of them) as an observer believes them to be, at one instant."""

    at: float
    columns: SourceColumns
    importance: Floats
    min_period: Floats
    max_period: Floats
    own_grace: Floats
    """Days; NaN where a source has the grace of the collection."""
    objective: str
    grace: float
    """Of the collection."""
    beliefs: Beliefs

    def __len__(self) -> int:
        return len(self.importance)

    @property
    def total(self) -> int:
        """Active sources in the store."""
        return self.columns.total

    @property
    def waited(self) -> Floats:
        """Days since the last good visit; infinite where there was none."""
        days = (self.at - self.columns.good_at) / DAY
        return np.where(np.isnan(days), np.inf, np.maximum(days, 0.0))

    @cached_property
    def rate(self) -> Floats:
        """The rate of every source."""
        return self.beliefs.summary(())[0]

    @property
    def share(self) -> Floats:
        return np.asarray(self.importance / max(self.importance.sum(), 1e-300))

    def expected(self, graces: Sequence[float | None]) -> tuple[Floats, Floats, Floats]:
        """α now at each grace (None: every source at its own), with its 95 % interval."""
        found = [
            expected_currency(
                self.beliefs,
                self.importance,
                self.waited,
                self.graces() if grace is None else grace,
                self.total,
            )
            for grace in graces
        ]
        mean, low, high = (np.array(column) for column in zip(*found, strict=True))
        return mean, low, high

    def graces(self, of_all: float | None = None, objective: str = "") -> Floats:
        """The grace of each source: its own, or that of all. Only currency knows graces."""
        usual = np.full(len(self), self.grace if of_all is None else of_all)
        if "currency" not in {objective, self.objective}:
            return usual
        return np.where(np.isnan(self.own_grace), usual, self.own_grace)

    def thinned(self, most: int) -> tuple[Beliefs, Integers]:
        """What is believed of so many sources at most, and which they are."""
        rows = np.arange(len(self))[:: max(-(-len(self) // most), 1)]
        return Beliefs(self.beliefs.place[rows], self.beliefs.weights[rows]), rows


def read_beliefs(store: Store, config: Config, now: float, limit: int = 4000) -> ActiveSources:
    """Read the collection, or an even sample of it."""
    columns = store.sources.columns(limit)
    importance, shortest, longest, own_grace = limits_of(
        config, columns.tags, columns.config, columns.importance.tolist()
    )
    if wishes := store.subscriptions.wishes():
        tags = map(msgspec.json.decode, columns.tags)
        wished = [*map(wishes.period, columns.name, tags, columns.host)]
        longest = np.minimum(longest, np.maximum(wished, shortest))
    return ActiveSources(
        at=now,
        columns=columns,
        importance=importance,
        min_period=shortest,
        max_period=longest,
        own_grace=own_grace,
        objective=config.objective,
        grace=config.grace_days,
        beliefs=beliefs_of(store, columns.name, columns.host, columns.posterior),
    )


def kept_prior(store: Store) -> Prior:
    """The prior that an observer has learned, or the first one."""
    kept = store.settings.get("observer.prior")
    return first() if kept is None else Prior.restore(kept)


def beliefs_of(
    store: Store, names: Sequence[str], hosts: Sequence[str], likelihoods: Sequence[bytes | None]
) -> Beliefs:
    """What is believed of these sources, a row each."""
    prior = kept_prior(store)
    groups = [group_of(name, host) for name, host in zip(names, hosts, strict=True)]
    known = Likelihoods.unpack(likelihoods)
    return known.under(prior.rows(), prior.row_of(groups))


def limits_of(
    config: Config, tags: Iterable[str], own: Iterable[str], importance: Iterable[float]
) -> tuple[Floats, Floats, Floats, Floats]:
    """Importance, shortest and longest period, own grace (or NaN), by tags and settings (JSON)."""
    known: dict[tuple[str, str, float], tuple[float, ...]] = {}
    rows = []
    for key in zip(tags, own, importance, strict=True):
        if key not in known:  # most of many sources have the same settings
            known[key] = _limits(config, *key)
        rows.append(known[key])
    table = np.array(rows, np.float64).reshape(-1, 4)
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3]


def _limits(config: Config, tags: str, own: str, importance: float) -> tuple[float, ...]:
    settings: dict[str, Any] = msgspec.json.decode(own)
    if importance != 1.0:
        settings = settings | {"importance": importance}
    try:
        found = config.settings_of(msgspec.json.decode(tags), settings)
    except InputError:  # a source that cannot be visited as it is described
        found = SourceSettings(importance=importance)
    own_grace = math.nan if found.grace is None else parse_duration(found.grace)
    return found.importance, found.shortest, found.longest, own_grace
