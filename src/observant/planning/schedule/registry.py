"""Names and places: which source and host stands where in the flat arrays of the scheduler."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError
from observant.planning.schedule.admission import rest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Registry", "pack", "unpack"]


class Registry:
    """Flat arrays that double when they are full, and the names of their places."""

    def __init__(self, grid: NDArray[np.float64], prior: NDArray[np.float64]) -> None:
        from observant.planning.schedule import heaps

        self._codes: Any = heaps
        self._sources = np.zeros(0, heaps.SOURCE)
        self._heaps = np.zeros((2, 0), heaps.HEAP)
        self._hosts = np.zeros(0, heaps.HOST)
        self._clock = np.zeros(1, heaps.CLOCK)
        self._grid, self._prior = grid, prior
        self._evidence = np.zeros((0, len(grid)))
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

    def _gather(self) -> None:
        """Gather what every kernel takes; anew whenever an array was replaced."""
        many = max(len(self._grid), 1)
        self._state = (
            self._sources,
            self._heaps,
            self._hosts,
            self._clock,
            self._grid,
            self._evidence,
            self._prior,
            np.zeros(many),
            np.zeros(many),
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
        fresh["delay"], fresh["interval"] = rest(*self._host_defaults)
        fresh["free"] = fresh["booked"] = -np.inf
        fresh["front"] = fresh["tail"] = -1
        return np.array([self._host_slot[name] for name in names], np.int64)


def _longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    longer = np.zeros((size, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def pack(array: NDArray[Any]) -> dict[str, Any]:
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return {"shape": list(array.shape), "data": data}


def unpack(packed: dict[str, Any], kind: np.dtype[Any]) -> NDArray[Any]:
    data = base64.b64decode(packed["data"])
    return np.frombuffer(data, kind).reshape(packed["shape"]).copy()
