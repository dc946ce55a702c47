"""The flat arrays of a scheduler, and the names of their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray  # noqa: TC002 - a NamedTuple looks at its types

from observant.errors import InputError
from observant.estimation.belief import GRID, POINTS, Beliefs, Likelihoods
from observant.estimation.belief_loops import cumulated
from observant.planning.schedule.admission import host_rest
from observant.planning.schedule.groups import Groups, lengthen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from observant.arrays import Flags, Floats, Integers
    from observant.planning.objectives.own import Penalty

_MORE = 1 << 15
"""Sources for which room is made at once at most: nobody has to wait for more."""


class Known(NamedTuple):
    """What the compiled functions read of rates, and of groups whose sources change together."""

    values: Floats
    place: NDArray[np.int16]
    """The likelihood of each source (`observant.estimation.belief`), where rates are learned."""
    given: NDArray[Any]
    """Rates, and how good signals are, where they are given."""
    sums: Floats
    """Priors, added up; a row for each group of sources, the first for all."""
    table: Floats
    coarse: Floats
    left: Floats
    left_coarse: Floats
    factors: Floats
    """Of `index_tables`."""
    rates: Floats
    weights: Floats
    worths: Floats
    """Room for the posterior of one source."""
    shared: NDArray[Any]
    parent: Integers
    found: NDArray[np.float32]
    placed: NDArray[np.float32]
    expected: NDArray[np.float32]
    activity: NDArray[np.float32]
    shown: Floats
    moved: Floats
    news: Flags
    first_of: Integers
    """One source of each group; the others follow by `sibling`."""
    heard: NDArray[Any]
    more: NDArray[Any]
    """What each channel said of sources that have several."""
    channels: NDArray[Any]
    signalled: Floats
    worths_of: Floats
    """Of `heard`: what signals said of each source, the channels, and the tables; empty without."""
    daily: NDArray[Any]
    """Of `hours`: when changes happen, and visits are made."""


class Glance(NamedTuple):
    """Some sources as they stand, a row each. Times are in days."""

    last: Floats
    """The last good visit; −inf before the first."""
    due: Floats
    period: Floats
    """Between visits, as things stand."""
    importance: Floats
    grace: Floats
    beliefs: Beliefs | None
    """Of their rates, where these are learned."""


class State:
    """Arrays that grow when they are full. `all` is what every compiled function takes."""

    def __init__(self, prior: Floats | None, objective: str | Penalty) -> None:
        from observant.planning.schedule import heaps, heard, hours

        self.codes: Any = heaps
        self.learning = prior is not None
        self.groups = Groups()
        self.sources = np.zeros(0, heaps.SOURCE)
        self.heaps = np.zeros((2, 0), heaps.HEAP)
        self.hosts = np.zeros(0, heaps.HOST)
        self.clock = np.zeros(1, heaps.CLOCK)
        self.given = np.zeros(0, heaps.GIVEN)
        self.prior = np.zeros((1, len(GRID))) if prior is None else np.atleast_2d(prior)
        nothing = Likelihoods.empty(0)
        self.values, self.place = nothing.values, nothing.place
        self.slot: dict[str | int, int] = {}
        self.names: list[str | int | None] = []
        self.free: list[int] = []
        self.host_slot: dict[str, int] = {}
        self.host_defaults = 0.0, np.inf
        self.heard, self.channels = np.zeros(0, heard.HEARD), np.zeros(0, heard.CHANNEL)
        self.more = np.zeros(0, heard.HEARD)
        self.signal_tables: tuple[Any, Any] = np.zeros((1, 1, 1)), np.zeros((1, 1))
        self.daily = np.zeros(1, hours.DAILY)
        self._tables = (np.zeros(1),) * 5
        if self.learning:
            from observant.planning.schedule.index_tables import make_tables

            tables: Any = make_tables
            self._tables = tables(objective)
        self.all: tuple[Any, ...] = ()
        self.gather()

    @property
    def known(self) -> Known:
        return self.all[4]  # type: ignore[no-any-return]

    @property
    def likelihoods(self) -> Likelihoods:
        """What the visits say, a row for each place."""
        return Likelihoods(self.values, self.place)

    def find(self, source: str | int) -> int:
        try:
            return self.slot[source]
        except KeyError:
            raise InputError("this source is not scheduled", source=str(source)) from None

    def places_of(self, sources: Iterable[str | int]) -> Integers:
        """The places of many."""
        try:
            return np.fromiter(map(self.slot.__getitem__, sources), np.int64)
        except KeyError as error:
            raise InputError("this source is not scheduled", source=str(error.args[0])) from None

    def here(self) -> Integers:
        """The places that sources have."""
        return np.flatnonzero(self.sources["state"] != self.codes.GONE)

    def gather(self) -> None:
        """Gather what the compiled functions take; anew whenever an array was replaced."""
        groups = self.groups
        groups.shared["stale"] = 1
        nodes = len(groups.parent)
        self.all = (
            self.sources,
            self.heaps,
            self.hosts,
            self.clock,
            Known(
                self.values,
                self.place,
                self.given,
                np.asarray(cumulated(self.prior)),
                *self._tables,
                *(np.ones(POINTS), np.ones(POINTS), np.ones(POINTS)),
                groups.shared,
                groups.parent,
                groups.found,
                groups.placed,
                groups.expected,
                groups.activity,
                groups.shown,
                *(np.zeros(nodes), np.zeros(nodes, bool), np.full(nodes, -1)),
                self.heard,
                self.more,
                self.channels,
                *self.signal_tables,
                self.daily,
            ),
        )

    def beliefs(self, slots: Integers) -> Beliefs:
        """The estimate of its rates of the sources at these places."""
        rows = self.sources[slots]
        return Likelihoods(self.values[slots], self.place[slots]).weighed(
            self.known.sums,
            rows["group"].astype(np.int64),
            age=rows["age"].astype(np.float64),
            age_weight=float(self.clock["age_weight"][0]),
        )

    def new_cost(self) -> float:
        """What the first visits to all sources that are new would cost."""
        new = (self.sources["why"] == self.codes.NEW) & (
            self.sources["state"] == self.codes.WAITING
        )
        return float(self.sources["cost"][new].sum())

    def room(self, many: int) -> Integers:
        """Free places for new sources, used ones first."""
        reused: list[int] = []
        leaving: list[int] = []  # removed, but still in the queue of their host
        while self.free and len(reused) < many:
            i = self.free.pop()
            gone = self.sources["state"][i] == self.codes.GONE
            (reused if gone else leaving).append(i)
        self.free += leaving
        used = int(self.clock["slots"][0])
        wanted = used + many - len(reused)
        if wanted > len(self.sources):
            more = min(len(self.sources) // 8, _MORE)
            size = max(wanted, len(self.sources) + more, 16)
            heaps = np.zeros((2, size), self.heaps.dtype)
            heaps[:, : len(self.sources)] = self.heaps
            self.heaps = heaps
            lengthen(self.sources, size)
            for array in (self.values, self.place) if self.learning else (self.given,):
                lengthen(array, size)
            if len(self.channels):
                lengthen(self.heard, size)
            self.gather()
        self.names.extend([None] * (wanted - used))
        self.clock["slots"] = wanted
        if len(self.channels):
            self.heard[reused] = 0
        return np.concatenate([np.array(reused, np.int64), np.arange(used, wanted)])

    def name(self, slots: Integers, names: Sequence[str | int]) -> None:
        """Give these places these names."""
        for name, i in zip(names, slots.tolist(), strict=True):
            self.slot[name] = i
            self.names[i] = name

    def forget(self, source: str | int) -> None:
        """The place of this source may be used by another."""
        i = self.slot.pop(source)
        self.names[i] = None
        self.free.append(i)

    def host_index(self, host: str | Sequence[str] | None, many: int) -> Integers:
        if host is None:
            return np.full(many, -1)
        names = [host] * many if isinstance(host, str) else list(host)
        if len(names) != many:
            raise InputError(f"{len(names)} hosts for {many} sources")
        known = len(self.host_slot)
        for name in names:
            self.host_slot.setdefault(name, len(self.host_slot))
        number = len(self.host_slot)
        if number > len(self.hosts):
            lengthen(self.hosts, max(number, 2 * len(self.hosts), 16))
            self.gather()
        fresh = self.hosts[known:number]
        fresh["delay"], fresh["interval"] = host_rest(*self.host_defaults)
        fresh["free"] = fresh["booked"] = -np.inf
        fresh["front"] = fresh["tail"] = -1
        return np.array([self.host_slot[name] for name in names], np.int64)
