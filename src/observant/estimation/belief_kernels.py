"""`belief_loops`, compiled. Import this only where it is used: numba takes a second to load."""

import types

from observant.compiled import borrowing, jit
from observant.estimation import belief_loops

_NAMES = (
    *("clear", "spread", "learn", "level_out", "follow", "move", "log_at", "slope_at"),
    *("weigh", "unchanged", "summarise"),
    *("learn_histories", "weigh_all", "summarise_all", "unchanged_all", "grid_rows"),
)
_MAKE_ARRAYS = {"move", "summarise", "learn_histories", "grid_rows"}
"""The others borrow those that they are given."""
_room = dict(vars(belief_loops))
for _name in _NAMES:  # each calls the others as they are compiled
    _plain = _room[_name]
    _copy = types.FunctionType(_plain.__code__, _room, _name, _plain.__defaults__)
    _copy.__module__, _copy.__qualname__ = __name__, _name
    _room[_name] = (jit if _name in _MAKE_ARRAYS else borrowing)(_copy)

clear, spread, learn, weigh = (_room[name] for name in ("clear", "spread", "learn", "weigh"))
unchanged, summarise = _room["unchanged"], _room["summarise"]
learn_histories, weigh_all = _room["learn_histories"], _room["weigh_all"]
summarise_all, unchanged_all = _room["summarise_all"], _room["unchanged_all"]
grid_rows, level_out = _room["grid_rows"], _room["level_out"]
