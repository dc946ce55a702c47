"""All that a scheduler is, as plain values that JSON can hold, and back.

A scheduler that was restored decides exactly as the one that was saved would have.
"""

from __future__ import annotations

import base64
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from observant.errors import InputError
from observant.estimation.priors import Prior
from observant.planning.schedule.quality import SignalledVisits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from observant.planning.schedule.scheduler import Scheduler

T = TypeVar("T", bound="Scheduler")

_TYPE = "observant scheduler, version 9"
_ARRAYS = ("sources", "heaps", "hosts", "clock", "given", "prior", "values", "place", "daily")
_OF_SIGNALS = ("heard", "more", "channels")
_OF_GROUPS = ("shared", "parent", "found", "placed", "expected", "activity", "shown")
_NEWS = ("moved", "news")
"""Of `siblings`: what was found since the clocks were read."""
_VALUES = ("names", "host_slot", "free")


def state_of(scheduler: Scheduler) -> dict[str, Any]:
    own = vars(scheduler)
    if callable(own["_objective"]):
        raise InputError(
            "a scheduler with an objective of your own cannot be saved as plain values"
        )
    state = own["_state"]
    arrays = {name: getattr(state, name) for name in _ARRAYS}
    arrays |= {name: getattr(state, name) for name in _OF_SIGNALS}
    arrays |= {name: getattr(state.groups, name) for name in _OF_GROUPS}
    arrays |= {name: getattr(state.known, name) for name in _NEWS}
    return {
        "type": _TYPE,
        "objective": own["_objective"],
        "grace": own["_grace"],
        "burst": [own["_price"].burst, own["_price"].ready, own["_price"].least_share],
        "bounds": [_text(x) for x in own["_bounds"]],
        "host_defaults": [_text(x) for x in state.host_defaults],
        "nodes": dict(state.groups.node_of),
        "members": dict(state.groups.members),
        "learned": own["_prior"].state(),
        "learning": [state.learning, own["_adapting"], own["_price"].patient, own["pace"].follows],
        "seen": [own["_seen"], own["_price"].touched, own["_next_look"], own["_brought"]],
        "hints": [list(row) for row in own["signals"].compared.rows],
        "arrays": {name: _pack(array) for name, array in arrays.items()},
        "channels": [list(key) for key in own["signals"].places],
        "spare": list(own["signals"].spare),
        "lists": [[name, slots.tolist(), at] for name, (slots, at) in own["signals"].lists.items()],
        **{name: _copy(getattr(state, name)) for name in _VALUES},
    }


def load_state(kind: type[T], saved: dict[str, Any]) -> T:
    """A scheduler of this kind that goes on where `saved` was taken."""
    if saved.get("type") != _TYPE:
        raise InputError(f"this is not the state of a scheduler: {saved.get('type')!r}")
    learning, adapting, patient, hours = saved["learning"]
    new = kind(
        1.0,
        objective=saved["objective"],
        grace=saved["grace"],
        burst=saved["burst"][0],
        ready=saved["burst"][1],
        least_share=saved["burst"][2],
        prior="learn" if learning else None,
        patient=patient,
        hours=hours,
    )
    own, packed = vars(new), saved["arrays"]
    state = own["_state"]
    for name in (*_ARRAYS, *_OF_SIGNALS):
        setattr(state, name, _unpack(packed[name], getattr(state, name).dtype))
    for name in _OF_GROUPS:
        setattr(state.groups, name, _unpack(packed[name], getattr(state.groups, name).dtype))
    for name in _VALUES:
        setattr(state, name, _copy(saved[name]))
    state.slot = {name: i for i, name in enumerate(state.names) if name is not None}
    state.groups.node_of, state.groups.members = saved["nodes"], Counter(saved["members"])
    state.host_defaults = tuple(float(x) for x in saved["host_defaults"])
    own["_adapting"], own["signals"].compared = adapting, SignalledVisits(saved["hints"])
    own["_prior"] = Prior.restore(saved["learned"])
    own["_bounds"] = tuple(float(x) for x in saved["bounds"])
    own["_seen"], own["_price"].touched, own["_next_look"], own["_brought"] = saved["seen"]
    own["signals"].places = {tuple(key): c for c, key in enumerate(saved["channels"])}
    own["signals"].spare = list(saved["spare"])
    own["signals"].lists = {name: (np.array(some), at) for name, some, at in saved["lists"]}
    own["signals"].gather()
    for name in _NEWS:
        array = getattr(state.known, name)
        array[:] = _unpack(packed[name], array.dtype)
    return new


def _copy(value: Any) -> Any:
    return type(value)(value) if isinstance(value, (list, dict)) else value


def _text(value: float) -> float | str:
    return value if np.isfinite(value) else str(value)


def _pack(array: NDArray[Any]) -> dict[str, Any]:
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return {"shape": list(array.shape), "data": data}


def _unpack(packed: dict[str, Any], kind: np.dtype[Any]) -> NDArray[Any]:
    data = base64.b64decode(packed["data"])
    return np.frombuffer(data, kind).reshape(packed["shape"]).copy()
