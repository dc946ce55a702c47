"""All that a scheduler is, as plain values that JSON can hold, and back.

A scheduler that was restored decides exactly as the one that was saved would have.
"""

from __future__ import annotations

import base64
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from observant.planning.schedule.registry import Mind

__all__ = ["attributes_of", "options_of", "restore_news", "state_of"]

_TYPE = "observant scheduler, version 2"
_ARRAYS = (
    *("sources", "heaps", "hosts", "clock", "grid", "prior", "evidence", "posterior"),
    *("tides", "parent", "rows", "found", "expected", "activity", "shown"),
)
_NEWS = ("moved", "news")
"""Of `siblings`, in the mind: what was found since the clocks were read."""
_VALUES = {
    "given_burst": "given_burst",
    "names": "names",
    "hosts_by_name": "host_slot",
    "free": "free",
    "nodes": "node_of",
    "touched": "touched",
}
"""What is saved as it is: the name in the state, and that of the scheduler's attribute."""


def state_of(own: dict[str, Any], mind: Mind) -> dict[str, Any]:
    """The state of a scheduler that has these attributes and this mind."""
    arrays = {name: own[f"_{name}"] for name in _ARRAYS}
    arrays |= {name: getattr(mind, name) for name in _NEWS}
    return {
        "type": _TYPE,
        "objective": own["_objective"],
        "grace": own["_grace"],
        "bounds": [_text(x) for x in own["_bounds"]],
        "host_defaults": [_text(x) for x in own["_host_defaults"]],
        "members": dict(own["_members"]),
        "learning": [own["_adapting"], own["_seen"], own["_next_look"]],
        "hint_log": [list(row) for row in own["_hint_log"]],
        "arrays": {name: _pack(array) for name, array in arrays.items()},
        **{key: _copy(own[f"_{name}"]) for key, name in _VALUES.items()},
    }


def options_of(state: dict[str, Any]) -> dict[str, Any]:
    """Options of a new scheduler that can take the attributes of this state."""
    if state.get("type") != _TYPE:
        raise InputError(f"this is not the state of a scheduler: {state.get('type')!r}")
    return {"budget": 1.0, "objective": state["objective"], "grace": state["grace"]}


def attributes_of(state: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The attributes of the scheduler that was saved, for one that has `new` ones."""
    packed = state["arrays"]
    own: dict[str, Any] = {
        f"_{name}": _unpack(packed[name], new[f"_{name}"].dtype) for name in _ARRAYS
    }
    own |= {f"_{name}": _copy(state[key]) for key, name in _VALUES.items()}
    own["_bounds"] = tuple(float(x) for x in state["bounds"])
    own["_host_defaults"] = tuple(float(x) for x in state["host_defaults"])
    own["_slot"] = {name: i for i, name in enumerate(state["names"]) if name is not None}
    own["_members"] = Counter(state["members"])
    own["_adapting"], own["_seen"], own["_next_look"] = state["learning"]
    own["_hint_log"] = [tuple(row) for row in state["hint_log"]]
    own["_hinted"] = bool((own["_sources"]["signal"] > 0).any() or state["hint_log"])
    return own


def restore_news(mind: Mind, state: dict[str, Any]) -> None:
    """Put back what the siblings had found since their clocks were read."""
    for name in _NEWS:
        array = getattr(mind, name)
        array[:] = _unpack(state["arrays"][name], array.dtype)


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
