"""Visits to a source whose updates are known: what each of Li's simulations begins with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from observant.processes import Exponential, Pareto

if TYPE_CHECKING:
    from observant.arrays import Flags, Floats
    from observant.processes import Process


LI = Pareto(shape=3.0, scale=1.0)
"""The source of all of Li's simulations: a mean interval of one half, so μ = 2."""

_EARLIER = 1000.0
"""Time before the first visit, long enough to hold an update (all but once in a million)."""


@dataclass(frozen=True, eq=False)
class Sampled:
    """What the visits to one source saw."""

    times: Floats
    changed: Flags
    ages: Floats


def sampled(updates: Floats, times: Floats) -> Sampled:
    """Look at the updates at these times; times before the first update are left out."""
    seen = np.searchsorted(updates, times, side="right")
    times, seen = times[seen > 0], seen[seen > 0]
    return Sampled(times, np.diff(seen, prepend=seen[:1]) > 0, times - updates[seen - 1])


def sample_visits(
    duration: float,
    rng: np.random.Generator,
    gaps: Process | float,
    updates: Process = LI,
) -> Sampled:
    """Draw updates and visits, both from a random moment on."""
    drawn = updates.sample(_EARLIER + duration, seed=rng).times
    if isinstance(gaps, float):
        times = regular_times(duration, gaps, rng)
    else:
        times = gaps.sample(duration, seed=rng).times
    return sampled(drawn, _EARLIER + times)


def exponential_times(duration: float, gap: float, rng: np.random.Generator) -> Floats:
    return Exponential(1.0 / gap).sample(duration, seed=rng).times


def regular_times(duration: float, gap: float, rng: np.random.Generator) -> Floats:
    """Visits one gap apart, the first one within the first gap."""
    count = round(duration / gap)
    return gap * (rng.random() + np.arange(count, dtype=np.float64))
