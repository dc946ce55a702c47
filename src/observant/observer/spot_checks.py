"""Spot checks: visits at random times to random sources, which measure how current the copies are.

The schedule looks where it expects changes, so what its visits find says little of the sources it
leaves alone. A spot check is left to chance: a small share of the budget is spent at the moments of
a Poisson process, each time on one of the active sources, all alike. Whether the copy was current
just before is an unbiased sample of the currency of the collection, whatever the rates are and
whatever the plan does. Each one is recorded with the rate at which its source could expect it, for
the weights (Horvitz and Thompson).
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Sequence

_TRIES = 1000


class SpotChecks:
    """When the next one is, and of which source.

    >>> checks = SpotChecks(seed=1)
    >>> checks.set_rate(24.0, now=0.0)
    >>> picked = [checks.pick(3600.0 * hour, ["a", "b"]) for hour in range(240)]
    >>> 80 < sum(name is not None for name in picked) < 240, checks.expected(2)
    (True, 12.0)
    """

    def __init__(self, seed: int = 0) -> None:
        self._chance = random.Random(seed)  # noqa: S311
        self.per_day = 0.0
        self.next_at = math.inf

    def set_rate(self, per_day: float, now: float) -> None:
        """So many a day from now on. Their moments have no memory, so this may come at any time."""
        if per_day != self.per_day:
            self.per_day = per_day
            self._draw(now)

    def pick(self, now: float, places: Sequence[str | None]) -> str | None:
        """Which source is to be looked at, if the moment has come; some places may be empty.

        The sources are never listed for it: of a million that would take longer than the visit.
        """
        if now < self.next_at:
            return None
        self._draw(now)
        for _ in range(_TRIES if places else 0):
            if (name := self._chance.choice(places)) is not None:
                return name
        taken = [name for name in places if name is not None]
        return self._chance.choice(taken) if taken else None

    def expected(self, sources: int) -> float:
        """Spot checks a day that each of so many sources can expect."""
        return self.per_day / sources

    def _draw(self, now: float) -> None:
        wait = self._chance.expovariate(self.per_day) * DAY if self.per_day > 0 else math.inf
        self.next_at = now + wait
