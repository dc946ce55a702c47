"""The same optimum, one visit at a time: a scheduler that any caller can drive."""

from observant.planning.schedule.hints import HintQuality, fit_hints
from observant.planning.schedule.scheduler import Scheduler

__all__ = ["HintQuality", "Scheduler", "fit_hints"]
