"""Visit the real sources: transport, comparing, the loop.

What a program of your own needs of it are the names of this package; they load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from observant.plugins import lazy

if TYPE_CHECKING:
    from observant.observer.clock import AcceleratedClock
    from observant.observer.config import Config, load_config
    from observant.observer.imported import take_in
    from observant.observer.loop import Observer
    from observant.observer.program import add_sources, describe, run_observer
    from observant.observer.schedule import warm_up
    from observant.observer.sources import ReadSource, add_kind

__all__ = [
    "AcceleratedClock",
    "Config",
    "Observer",
    "ReadSource",
    "add_kind",
    "add_sources",
    "describe",
    "load_config",
    "run_observer",
    "take_in",
    "warm_up",
]

_HOMES = {
    "AcceleratedClock": "observant.observer.clock",
    "Config": "observant.observer.config",
    "Observer": "observant.observer.loop",
    "ReadSource": "observant.observer.sources",
    "add_kind": "observant.observer.sources",
    "add_sources": "observant.observer.program",
    "describe": "observant.observer.program",
    "load_config": "observant.observer.config",
    "run_observer": "observant.observer.program",
    "take_in": "observant.observer.imported",
    "warm_up": "observant.observer.schedule",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
