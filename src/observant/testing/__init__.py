"""Stand-ins for the world, for our tests and for yours.

`synthetic_visits` makes a visit log of sources whose rates are known. For sources, policies and
channels of your own there are a `SimulatedClock` (days pass in no time with `in_simulated_time`), a
`ScriptedFetcher`, a store in memory and a small web on loopback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from observant.plugins import lazy

if TYPE_CHECKING:
    from observant.testing.stand_ins import (
        ScriptedFetcher,
        SimulatedClock,
        in_simulated_time,
        memory_store,
        synthetic_web,
    )
    from observant.testing.synthetic_visits import synthetic_visits

__all__ = [
    "ScriptedFetcher",
    "SimulatedClock",
    "in_simulated_time",
    "memory_store",
    "synthetic_visits",
    "synthetic_web",
]

__getattr__, __dir__ = lazy(
    __name__,
    {"synthetic_visits": "observant.testing.synthetic_visits"}
    | {name: "observant.testing.stand_ins" for name in __all__ if name != "synthetic_visits"},
)
