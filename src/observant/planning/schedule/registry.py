"""Names and places: which source and host stands where in the flat arrays of the scheduler."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray  # noqa: TC002 - a NamedTuple looks at its types

from observant.errors import InputError
from observant.planning.schedule.admission import host_rest

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Mind", "Registry"]

_LEAST_SIBLINGS = 3
_DEEPEST = 6


class Mind(NamedTuple):
    """What the scheduler believes: of rates, and of groups whose sources change together."""

    grid: NDArray[np.float64]
    evidence: NDArray[np.float64]
    """Log-likelihood of each rate of the grid, a row for each source."""
    posterior: NDArray[np.float64]
    """Probability of each rate, a row for each source."""
    prior: NDArray[np.float64]
    """Probability of each rate, a row for each group of sources; the first is for all."""
    table: NDArray[np.float64]
    left: NDArray[np.float64]
    factors: NDArray[np.float64]
    """Of `grids`: the index and e⁻ˣ of every product of a rate and a time."""
    rates: NDArray[np.float64]
    weights: NDArray[np.float64]
    """Room for one rate that is given."""
    tides: NDArray[Any]
    parent: NDArray[np.int64]
    found: NDArray[np.float64]
    expected: NDArray[np.float64]
    activity: NDArray[np.float64]
    shown: NDArray[np.float64]
    moved: NDArray[np.float64]
    news: NDArray[np.bool_]
    eldest: NDArray[np.int64]
    """One source of each group; the others follow by `sibling`."""


class Registry:
    """Flat arrays that double when they are full, and the names of their places."""

    def __init__(self, grid: NDArray[np.float64], prior: NDArray[np.float64]) -> None:
        from observant.planning.schedule import heaps, siblings

        self._codes: Any = heaps
        self._tides = np.zeros(1, siblings.TIDE)
        self._bins = siblings.BINS
        self._parent = np.full(1, -1)
        self._found = np.zeros((1, siblings.BINS))
        self._expected = self._found.copy()
        self._activity = np.ones((1, siblings.BLEND + 1, siblings.BINS))
        self._shown = np.zeros_like(self._activity)
        self._node_of: dict[str, int] = {}
        self._members: Counter[str] = Counter()
        self._sources = np.zeros(0, heaps.SOURCE)
        self._heaps = np.zeros((2, 0), heaps.HEAP)
        self._hosts = np.zeros(0, heaps.HOST)
        self._clock = np.zeros(1, heaps.CLOCK)
        self._grid, self._prior = grid, np.atleast_2d(prior)
        self._evidence = np.zeros((0, len(grid)))
        self._posterior = np.zeros((0, len(grid)))
        self._tables = np.zeros(1), np.zeros(1), np.zeros(1)
        self._slot: dict[str | int, int] = {}
        self._names: list[str | int | None] = []
        self._host_slot: dict[str, int] = {}
        self._host_defaults = 0.0, np.inf
        self._free: list[int] = []
        self._state: tuple[Any, ...] = ()
        self._gather()

    def __len__(self) -> int:
        return len(self._slot)

    def __contains__(self, source: object) -> bool:
        return source in self._slot

    def _find(self, source: str | int) -> int:
        try:
            return self._slot[source]
        except KeyError:
            raise InputError("this source is not scheduled", source=str(source)) from None

    def _here(self) -> NDArray[np.int64]:
        """The places that sources have."""
        return np.flatnonzero(self._sources["state"] != self._codes.GONE)

    def _gather(self) -> None:
        """Gather what every kernel takes; anew whenever an array was replaced."""
        self._tides["stale"] = 1
        self._state = (
            self._sources,
            self._heaps,
            self._hosts,
            self._clock,
            Mind(
                self._grid,
                self._evidence,
                self._posterior,
                self._prior,
                *self._tables,
                np.zeros(1),
                np.ones(1),
                self._tides,
                self._parent,
                self._found,
                self._expected,
                self._activity,
                self._shown,
                np.zeros(len(self._parent)),
                np.zeros(len(self._parent), bool),
                np.full(len(self._parent), -1),
            ),
        )

    def _room(self, many: int) -> NDArray[np.int64]:
        """Free places for new sources, used ones first."""
        reused: list[int] = []
        leaving: list[int] = []  # removed, but still in the queue of their host
        while self._free and len(reused) < many:
            i = self._free.pop()
            gone = self._sources["state"][i] == self._codes.GONE
            (reused if gone else leaving).append(i)
        self._free += leaving
        used = int(self._clock["slots"][0])
        wanted = used + many - len(reused)
        if wanted > len(self._sources):
            size = max(wanted, 2 * len(self._sources), 16)
            self._sources = _longer(self._sources, size)
            self._heaps = np.stack([_longer(heap, size) for heap in self._heaps])
            self._evidence = _longer(self._evidence, size)
            self._posterior = _longer(self._posterior, size)
            self._gather()
        self._names.extend([None] * (wanted - used))
        self._clock["slots"] = wanted
        return np.concatenate([np.array(reused, np.int64), np.arange(used, wanted)])

    def _host_index(self, host: str | Sequence[str] | None, many: int) -> NDArray[np.int64]:
        if host is None:
            return np.full(many, -1)
        names = [host] * many if isinstance(host, str) else list(host)
        if len(names) != many:
            raise InputError(f"{len(names)} hosts for {many} sources")
        known = len(self._host_slot)
        for name in names:
            self._host_slot.setdefault(name, len(self._host_slot))
        number = len(self._host_slot)
        if number > len(self._hosts):
            self._hosts = _longer(self._hosts, max(number, 2 * len(self._hosts), 16))
            self._gather()
        fresh = self._hosts[known:number]
        fresh["delay"], fresh["interval"] = host_rest(*self._host_defaults)
        fresh["free"] = fresh["booked"] = -np.inf
        fresh["front"] = fresh["tail"] = -1
        return np.array([self._host_slot[name] for name in names], np.int64)

    def _nodes_of(self, groups: Sequence[str]) -> NDArray[np.int64]:
        """The place of each group in the tree of siblings; places are made where they are needed.

        A group is a path, such as host/folder/folder. The whole collection is the root. A folder
        of fewer than three sources, or with all the sources of the folder above, is part of that.
        """
        paths = [tuple(part for part in group.split("/") if part)[:_DEEPEST] for group in groups]
        self._members[""] += len(paths)
        for path in paths:
            for depth in range(len(path)):
                self._members["/".join(path[: depth + 1])] += 1
        if "" not in self._node_of:
            self._node_of[""] = 0
            self._tides["nodes"] = 1
        parents = [-1] if len(self._parent) == 1 else self._parent.tolist()
        places = np.zeros(len(paths), np.int64)
        known: dict[tuple[str, ...], int] = {}
        for row, path in enumerate(paths):
            if path not in known:
                node, above = 0, self._members[""]
                for depth in range(len(path)):
                    name = "/".join(path[: depth + 1])
                    many = self._members[name]
                    if name in self._node_of:
                        node = self._node_of[name]
                    elif _LEAST_SIBLINGS <= many < above:
                        parents.append(node)
                        node = self._node_of[name] = len(parents) - 1
                    above = many
                known[path] = node
            places[row] = known[path]
        if len(parents) > len(self._parent):
            more = len(parents)
            used = len(self._parent)
            self._parent = np.array(parents)
            self._found, self._expected = _longer(self._found, more), _longer(self._expected, more)
            self._activity, self._shown = _longer(self._activity, more), _longer(self._shown, more)
            self._activity[used:] = 1.0
            self._tides["nodes"] = more
            self._tides["due"] = -np.inf
            self._gather()
        return places


def _longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    longer = np.zeros((size, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer
