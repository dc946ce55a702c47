"""What a scheduler knows: the price, who is due when, and what is believed of every rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray  # noqa: TC002 - a NamedTuple looks at its types

from observant.planning.schedule.learning import Lesson
from observant.planning.schedule.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Glance", "Knowledge"]


class Glance(NamedTuple):
    """Some sources as they stand, a row each. Times are in days."""

    last: NDArray[np.float64]
    """The last good visit; −inf before the first."""
    due: NDArray[np.float64]
    period: NDArray[np.float64]
    """Between visits, as things stand."""
    importance: NDArray[np.float64]
    posterior: NDArray[np.float64]
    """Probability of each rate; no columns where rates are given."""


class Knowledge(Registry):
    """The part of `Scheduler` that can be asked at any time and changes nothing."""

    @property
    def now(self) -> float:
        """The latest time that the scheduler was told of."""
        return float(self._clock["time"][0])

    @property
    def price(self) -> float:
        """Λ: the index at which a visit is worth its cost."""
        return float(self._clock["price"][0])

    @property
    def budget(self) -> float:
        """Cost per day."""
        return float(self._clock["budget"][0])

    @property
    def spent(self) -> float:
        """Cost of all visits so far."""
        return float(self._clock["spent"][0])

    @property
    def sources(self) -> list[str | int]:
        """Their names, in the order in which they were added."""
        return list(self._slot)

    # -- of one source ------------------------------------------------------------------------

    def due_at(self, source: str | int) -> float:
        """When a source is due as things stand; of one being visited, when it is offered again."""
        return float(self._sources["key"][self._find(source)])

    def last_visit(self, source: str | int) -> float:
        """When a source was last visited with success; −inf if it never was."""
        return float(self._sources["last"][self._find(source)])

    def posterior(self, source: str | int) -> NDArray[np.float64]:
        """Probability of each rate of `rates`, given the outcomes so far."""
        return np.array(self._posterior[self._find(source)])

    def evidence_of(self, source: str | int) -> NDArray[np.float64]:
        """What the outcomes say about each rate of `rates`, as logarithms; for `add` later."""
        return np.array(self._evidence[self._find(source)])

    # -- of many ------------------------------------------------------------------------------

    @property
    def rates(self) -> NDArray[np.float64]:
        """The rates that a source may have, where rates are learned."""
        return self._grid.copy()

    @property
    def prior(self) -> NDArray[np.float64]:
        """Probability of each rate of `rates` for a source of which nothing is known."""
        return np.array(self._prior[0])

    def posteriors(self, sources: Iterable[str | int]) -> NDArray[np.float64]:
        """The `posterior` of many sources, a row each."""
        slots = np.array([self._find(source) for source in sources], np.int64)
        return np.array(self._posterior[slots])

    def glance(self, most: int = 5000) -> Glance:
        """So many sources at most, taken evenly from all: enough to say how all of them stand."""
        here = self._here()
        some = here[:: max(-(-len(here) // most), 1)]
        rows = self._sources[some]
        return Glance(
            rows["last"],
            rows["key"],
            np.clip(rows["period"], rows["minimum"], rows["maximum"]),
            rows["importance"],
            self._posterior[some],
        )

    def activity(self, group: str = "") -> float:
        """How much faster than usual the sources of a group change now; 1 is as usual."""
        path = [part for part in group.split("/") if part]
        while path and "/".join(path) not in self._node_of:
            path.pop()
        node = self._node_of.get("/".join(path), 0)
        return float(self._activity[node, -1, self._tides["bin"][0] % self._bins])

    def lesson(self) -> Lesson:
        """What the prior is learned from, for `learning.learn_prior`."""
        here = self._here()
        return Lesson(
            self._grid.copy(),
            self._evidence[here],
            self._sources["age"][here],
            self._sources["node"][here],
            self._parent.copy(),
            self._prior[0].copy(),
        )
