"""The tree of groups whose sources may change together: hosts, and their folders."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from observant.arrays import Integers

_LEAST = 3
"""Sources that make a group."""
_DEEPEST = 6
_BINS_PER_PERIOD = 10
_SLACK = 0.03
_MEMORY = 3_000.0
"""Of `siblings`: bins of time in a mean period, how far (in mean periods) a clock may be put right
before its sources move, and visits that a judgement lasts."""


class Groups:
    """Who is whose sibling, and how active each group was: the memory of `siblings`."""

    def __init__(self) -> None:
        from observant.planning.schedule import siblings

        self.bins: int = siblings.BINS
        self.spread: int = siblings.SPREAD
        self.shared = np.zeros(1, siblings.SHARED)
        self.parent = np.full(1, -1)
        self.found = np.zeros((1, siblings.BINS), np.float32)
        self.placed, self.expected = self.found.copy(), self.found.copy()
        self.activity = np.ones((1, siblings.BINS, siblings.BLEND + 1), np.float32)
        self.shown = np.zeros((1, siblings.BINS // siblings.STEP, siblings.BLEND + 1))
        self.node_of: dict[str, int] = {}
        self.members: Counter[str] = Counter()

    def begin(self, now: float, period: float) -> None:
        """Set the clocks, once it is known how often a source is visited on average."""
        shared = self.shared[0]
        shared["width"] = min(period / _BINS_PER_PERIOD, 1.0)
        shared["memory"], shared["level"] = _MEMORY, 1.0
        idle = len(shared["weight"]) - 1 - self.spread
        shared["weight"] = [*[1.0] * self.spread, *[0.0] * idle, 1.0]
        shared["weight"] /= self.spread + 1
        shared["bin"] = shared["oldest"] = np.floor(now / shared["width"])
        shared["due"] = shared["round"] = -np.inf
        shared["slack"] = _SLACK * period

    def place(self, groups: Sequence[str]) -> Integers:
        """The node of each group; nodes are made where they are needed.

        A group is a path, such as host/folder/folder. The whole collection is the root. A folder
        of fewer than three sources, or with all the sources of the folder above, is part of that.
        """
        counts = Counter(groups)
        above = {group: _folders(group) for group in counts}
        self.members[""] += len(groups)
        for group, many in counts.items():
            for folder in above[group]:
                self.members[folder] += many
        if "" not in self.node_of:
            self.node_of[""] = 0
            self.shared["nodes"] = 1
        parents: list[int] = []
        known: dict[str, int] = {}
        for group, folders in above.items():
            node, whole = 0, self.members[""]
            for name in folders:
                many = self.members[name]
                if name in self.node_of:
                    node = self.node_of[name]
                elif _LEAST <= many < whole:
                    parents.append(node)
                    node = self.node_of[name] = len(self.parent) + len(parents) - 1
                whole = many
            known[group] = node
        if parents:
            self._grow(parents)
        return np.array([known[group] for group in groups], np.int64)

    def _grow(self, parents: list[int]) -> None:
        used, more = len(self.parent), len(self.parent) + len(parents)
        self.parent = np.concatenate([self.parent, np.array(parents, self.parent.dtype)])
        for array in (self.found, self.placed, self.expected, self.activity, self.shown):
            lengthen(array, more)
        self.activity[used:] = 1.0
        self.shared["nodes"] = more
        self.shared["due"] = -np.inf

    def activity_of(self, group: str) -> float:
        """How much faster than usual the sources of a group change now; 1 is as usual."""
        path = [part for part in group.split("/") if part]
        while path and "/".join(path) not in self.node_of:
            path.pop()
        node = self.node_of.get("/".join(path), 0)
        return float(self.activity[node, self.shared["bin"][0] % self.bins, -1])


def _folders(group: str) -> list[str]:
    """The folders of a path, the outermost first.

    >>> _folders("a.example//guide/")
    ['a.example', 'a.example/guide']
    """
    parts = [part for part in group.split("/") if part][:_DEEPEST]
    return list(accumulate(parts, "{}/{}".format))


def lengthen(array: NDArray[Any], size: int) -> None:
    """Make room for so many rows in place, where it can be done without a copy.

    Nobody may keep a part of an array that grows: its memory may move.
    """
    array.resize((size, *array.shape[1:]), refcheck=False)
