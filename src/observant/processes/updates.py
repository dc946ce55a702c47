"""Update times of many sources: flat times plus offsets, and the draws they are made from."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from observant.errors import InputError
from observant.processes.base import positive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import ArrayLike

    from observant.arrays import Flags, Floats, Integers

Seed: TypeAlias = int | np.random.Generator | np.random.SeedSequence | None


@dataclass(frozen=True, eq=False, repr=False)
class Updates:
    """Update times in days, source after source; source i owns times[offsets[i]:offsets[i + 1]].

    >>> updates = Updates.from_lists([[1.0, 4.0], [], [2.5]])
    >>> updates
    Updates(3 sources, 3 updates)
    >>> updates.counts, updates[0]
    (array([2, 0, 1]), array([1., 4.]))
    """

    times: Floats
    offsets: Integers

    def __post_init__(self) -> None:
        times = np.array(self.times, dtype=np.float64, ndmin=1)
        offsets = np.array(self.offsets, dtype=np.int64, ndmin=1)
        if times.ndim != 1 or offsets.ndim != 1 or not np.isfinite(times).all():
            raise InputError("updates need flat, finite times and flat offsets")
        if offsets.size == 0 or offsets[0] != 0 or offsets[-1] != times.size:
            raise InputError(f"offsets must begin with 0 and end with {times.size}, the last time")
        if (np.diff(offsets) < 0).any():
            raise InputError("offsets must not decrease")
        unsorted = np.diff(times) < 0
        inner = offsets[(offsets > 0) & (offsets < times.size)]
        unsorted[inner - 1] = False
        if unsorted.any():
            source = int(np.searchsorted(offsets, np.argmax(unsorted), side="right")) - 1
            raise InputError("update times must be sorted within a source", source=str(source))
        times.flags.writeable = offsets.flags.writeable = False
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "offsets", offsets)

    @classmethod
    def from_lists(cls, sources: Iterable[ArrayLike]) -> Updates:
        """Collect one list of sorted update times per source."""
        lists = [np.asarray(times, dtype=np.float64) for times in sources]
        offsets = np.cumsum([0, *(times.size for times in lists)])
        return cls(np.concatenate([np.empty(0), *lists]), offsets)

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, source: int) -> Floats:
        index = operator.index(source)
        if not -len(self) <= index < len(self):
            raise IndexError(f"there are {len(self)} sources, no source {source}")
        index %= len(self)
        return self.times[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[Floats]:
        return (self[source] for source in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Updates):
            return NotImplemented
        return np.array_equal(self.times, other.times) and np.array_equal(
            self.offsets, other.offsets
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Updates({len(self)} sources, {self.times.size} updates)"

    @property
    def counts(self) -> Integers:
        """Number of updates of each source."""
        return np.diff(self.offsets)

    @property
    def sources(self) -> Integers:
        """The source of each update time, as a column beside `times`."""
        return np.repeat(np.arange(len(self)), self.counts)

    def count_until(self, at: ArrayLike) -> Integers:
        """Count the updates of each source up to and including the time `at`.

        `at` is one time for all sources, or an array whose first axis is the source.

        >>> Updates.from_lists([[1.0, 4.0], [2.5]]).count_until([4.0, 2.0])
        array([2, 0])
        """
        at = self._one_per_source(at)
        tail = (1,) * (at.ndim - 1)
        low = np.broadcast_to(self.offsets[:-1].reshape(-1, *tail), at.shape)
        high = np.broadcast_to(self.offsets[1:].reshape(-1, *tail), at.shape)
        first = low
        # The bisection of every source at once.
        while (low < high).any():
            middle = (low + high) // 2
            passed = self.times[np.minimum(middle, self.times.size - 1)] <= at
            open_ = low < high
            low = np.where(open_ & passed, middle + 1, low)
            high = np.where(open_ & ~passed, middle, high)
        return low - first

    def ages(self, at: ArrayLike) -> Floats:
        """Time since the last update, per source, as in Li (1); NaN before the first update."""
        at = self._one_per_source(at)
        count = self.count_until(at)
        return self._distance(at, count - 1, count > 0)

    def residuals(self, at: ArrayLike) -> Floats:
        """Time to the next update, per source, as in Li (2); NaN after the last update."""
        at = self._one_per_source(at)
        count = self.count_until(at)
        total = self.counts.reshape(-1, *(1,) * (at.ndim - 1))
        return -self._distance(at, count, count < total)

    def _distance(self, at: Floats, index: Integers, known: Flags) -> Floats:
        place = self.offsets[:-1].reshape(-1, *(1,) * (at.ndim - 1)) + index
        out = np.full(at.shape, np.nan)
        out[known] = at[known] - self.times[place[known]]
        return out

    def _one_per_source(self, at: ArrayLike) -> Floats:
        times = np.asarray(at, dtype=np.float64)
        if times.ndim == 0:
            return np.full(len(self), float(times))
        if times.shape[0] != len(self):
            raise InputError(
                f"give one time, or one row of times for each of the {len(self)} sources, "
                f"not the shape {times.shape}"
            )
        return times


def generator(seed: Seed) -> np.random.Generator:
    """Return the random numbers of a seed; a generator is used as it is."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise InputError(
            f"a seed is a whole number, zero or more, or a NumPy generator, not {seed!r}"
        ) from None


def check_request(horizon: float, sources: int) -> tuple[float, int]:
    """Check what every `sample` is asked for."""
    try:
        count = operator.index(sources)
    except TypeError:
        raise InputError(f"sources must be a whole number, not {sources!r}") from None
    if count < 0:
        raise InputError(f"sources must be zero or more, not {sources!r}")
    return positive("horizon", horizon), count


def offsets_of(counts: Integers) -> Integers:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def sorted_uniforms(counts: Integers, rng: np.random.Generator) -> Floats:
    """Draw `counts[i]` sorted uniform numbers in (0, 1) for each i, as one flat array.

    Partial sums of n + 1 exponentials over their total are n sorted uniforms, so nothing is
    sorted. Blocks keep the running sums small, which keeps their digits.
    """
    block = 1 << 16
    drawn = offsets_of(counts + 1)
    out = np.empty(int(counts.sum()))
    filled = low = 0
    while low < counts.size:
        high = max(low + 1, int(np.searchsorted(drawn, drawn[low] + block, side="right")) - 1)
        here = counts[low:high]
        last = np.cumsum(here + 1) - 1
        sums = np.cumsum(rng.standard_exponential(int(last[-1]) + 1))
        start = np.concatenate([[0.0], sums[last[:-1]]])
        total = sums[last] - start
        inner = np.ones(sums.size, dtype=np.bool_)
        inner[last] = False
        size = int(here.sum())
        out[filled : filled + size] = (sums[inner] - np.repeat(start, here)) / np.repeat(
            total, here
        )
        filled, low = filled + size, high
    return out
