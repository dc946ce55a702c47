"""The same optimum, one visit at a time: a scheduler that any caller can drive."""

from observant.planning.schedule.quality import SignalQuality, fit_signals
from observant.planning.schedule.scheduler import Scheduler
from observant.plugins import lazy

__all__ = ["Scheduler", "SignalQuality", "fit_signals"]

__getattr__, __dir__ = lazy(
    __name__, {}, {"HintQuality": "SignalQuality", "fit_hints": "fit_signals"}
)
