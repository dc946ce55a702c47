"""Does a source remember? Poisson or not, from visits alone.

Nothing but the outcome of visits is needed, so this works where no update time is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from observant.estimation.intervals.observations import Observations
from observant.tables import Table

if TYPE_CHECKING:
    from observant.visits import VisitLog

__all__ = ["MemoryTest", "poisson_test_of_visits"]

Floats: TypeAlias = NDArray[np.float64]

_FEWEST = 5


@dataclass(frozen=True, eq=False, repr=False)
class MemoryTest(Table):
    """For every source: does the chance of a change depend on the time since the last one?"""

    columns: ClassVar[tuple[str, ...]] = (
        "source",
        "comparisons",
        "changes",
        "memory",
        "memory_p",
        "verdict",
    )

    source: Any
    comparisons: NDArray[np.int64]
    """With a change before them, so that an age is known."""
    changes: NDArray[np.int64]
    memory: Floats
    """γ in: rate ∝ ageᵞ. 0 for Poisson, below for bursts, above for regular sources."""
    memory_p: Floats
    """How often a Poisson source would show so much memory; NaN with too few comparisons."""
    information: Floats
    """About `memory`: one over its variance."""
    level: float

    @property
    def tested(self) -> NDArray[np.bool_]:
        """Sources with enough comparisons to say anything."""
        return ~np.isnan(self.memory_p)

    @property
    def verdict(self) -> NDArray[np.str_]:
        """too-few, possible (Poisson), bursty or regular."""
        with np.errstate(invalid="ignore"):
            fails = self.memory_p < self.level
            kinds = np.where(fails, np.where(self.memory < 0, "bursty", "regular"), "possible")
        return np.where(self.tested, kinds, "too-few")

    @property
    def share_failing(self) -> float:
        """Share of the tested sources that are not Poisson; NaN when none was tested."""
        return (
            float(np.mean(self.memory_p[self.tested] < self.level)) if self.tested.any() else np.nan
        )


def poisson_test_of_visits(log: VisitLog | Observations, *, level: float = 0.05) -> MemoryTest:
    """Test from visits whether sources are Poisson, for all sources of a log at once.

    A Poisson source forgets: a gap of t days holds an update with probability 1 − e^(−λt),
    whatever the age of the source when the gap began. This is the score test of γ = 0 in
    λ·ageᵞ, with λ estimated; the age is known to the gap in which the last change fell (its
    middle is taken) or from the date of modification. It needs 5 changes and 5 visits without.
    It sees what the visits can see: bursts shorter than the gaps leave no trace.

    >>> from observant.testing import synthetic_visits
    >>> log, rates = synthetic_visits(sources=500, visits=60, seed=3)  # Poisson sources
    >>> test = poisson_test_of_visits(log)
    >>> bool(0.03 < test.share_failing < 0.08)
    True
    """
    seen = log if isinstance(log, Observations) else Observations.from_log(log)
    count = len(seen.offsets) - 1
    names = log.sources if not isinstance(log, Observations) else np.arange(count)
    owner = np.repeat(np.arange(count), np.diff(seen.offsets))
    gap = np.diff(seen.times, prepend=0.0)
    last = _last_update(seen, gap)
    age = seen.times - gap - np.concatenate([[np.nan], last[:-1]])
    used = (seen.changed >= 0) & (age > 0) & np.isfinite(age)
    owner, gap, z = owner[used], gap[used], np.log(age[used])
    x = seen.changed[used] == 1

    def total(values: Any) -> Floats:
        return np.asarray(np.bincount(owner, values, count), np.float64)

    comparisons = np.bincount(owner, minlength=count)
    changes = np.bincount(owner, x, count).astype(np.int64)
    rate = _null_rate(owner, gap, x, count)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        y = rate[owner] * gap
        score = np.where(x, y / np.expm1(y), -y)
        weight = np.where(y > 0, y * y / np.expm1(y), 0.0)
        centre = total(weight * z) / total(weight)
        away = z - centre[owner]
        information = total(weight * away**2)
        u = total(away * score)
        enough = (np.minimum(changes, comparisons - changes) >= _FEWEST) & (information > 1e-9)
        memory = np.where(enough, u / information, np.nan)
        z_score = np.where(enough, u / np.sqrt(information), np.nan)
    from scipy.special import ndtr

    return MemoryTest(
        source=names,
        comparisons=comparisons,
        changes=changes,
        memory=memory,
        memory_p=2.0 * ndtr(-np.abs(z_score)),
        information=np.where(enough, information, 0.0),
        level=level,
    )


def _last_update(seen: Observations, gap: Floats) -> Floats:
    """Time of the last update as known after each visit; NaN before anything is known."""
    known = np.where(np.isnan(seen.ages), np.nan, seen.times - seen.ages)
    known = np.where((seen.changed == 1) & np.isnan(known), seen.times - gap / 2, known)
    known[(seen.changed < 0) & np.isnan(seen.ages)] = -np.inf  # a segment forgets
    place = np.where(np.isnan(known), -1, np.arange(len(known)))
    latest = np.maximum.accumulate(place)
    return np.where(latest >= 0, known[latest], np.nan)


def _null_rate(owner: NDArray[np.int64], gap: Floats, x: NDArray[np.bool_], count: int) -> Floats:
    """Maximum likelihood of one rate per source, by Newton in log λ; NaN where it has none."""
    changes, exposure = np.bincount(owner, x, count), np.bincount(owner, gap, count)
    total = np.bincount(owner, minlength=count)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = np.clip(changes / total, 0.02, 0.98)
        log_rate = np.log(-np.log1p(-share) * total / exposure)
        for _ in range(30):
            y = np.exp(log_rate)[owner] * gap
            score = np.bincount(owner, np.where(x, y / np.expm1(y), -y), count)
            step = score / np.bincount(owner, np.where(y > 0, y * y / np.expm1(y), 0.0), count)
            log_rate = log_rate + np.clip(np.nan_to_num(step), -1.0, 1.0)
            if np.max(np.abs(step[(changes > 0) & (changes < total)]), initial=0.0) < 1e-9:
                break
        return np.where((changes > 0) & (changes < total), np.exp(log_rate), np.nan)
