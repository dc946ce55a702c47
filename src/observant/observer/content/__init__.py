"""Content: what a visit fetched is selected, normalised and compared with the version before."""

from observant.observer.content.comparer import Comparer, compare
from observant.observer.content.diffs import diff
from observant.observer.content.noise import learned_noise
from observant.observer.content.rules import Rules

__all__ = ["Comparer", "Rules", "compare", "diff", "learned_noise"]
