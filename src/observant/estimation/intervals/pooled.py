"""Many sources, one shape: intervals of a whole collection, each source scaled by its mean.

One source alone rarely has enough changes for a curve. Sources of a kind (a host, a folder, a
template) often differ in their mean interval only, and then all their visits tell of one shape.
Shape and means are found in turns: the shape from all visits after dividing each source's times by
its mean, then each mean anew by the likelihood of its visits under that shape.

A mean that rests on few changes is itself uncertain, and its error blurs the shape, so sources with
fewer than five changes (or than five visits without one) wait for their mean until the shape is
known. With 60 visits to each of 200 sources G of the pooled shape is off by 0.01 to 0.04. Assume a
common shape where you have reason to; the table by groups shows whether shapes differ.

Pooling also sees what constant gaps hide: a gap of a day is long for one source and short for
another, so together they show G at many multiples of the mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observant.errors import EstimationError, InputError
from observant.estimation.evidence import Evidence
from observant.estimation.firth import bias_reduced_rates
from observant.estimation.intervals.answer import IntervalEstimate
from observant.estimation.intervals.concave import ConcaveFit, Pairs, fit_concave_pairs
from observant.estimation.intervals.curves import ProcessModel
from observant.estimation.intervals.diagnostics import MemoryTest, poisson_test_of_visits
from observant.estimation.intervals.observations import Observations
from observant.tables import Table
from observant.units import counted, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.processes import Process
    from observant.visits import VisitLog

__all__ = ["ALL", "PooledIntervals", "pool_intervals"]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

ALL = "all"
"""Name of the shape of the whole collection."""
_ROUNDS = 2
_ENOUGH = 5
"""Changes, and visits without one, from which on a source takes part in finding the shape."""
_MOST_PAIRS = 20_000
"""Of visits behind a shape: more of them cost time and gain little."""
_FEWEST_CHANGES = 20


@dataclass(frozen=True, eq=False, repr=False)
class PooledIntervals(Table):
    """A mean interval for every source, and the shape that the sources of a group share.

    The intervals of a source are those of the shape, whose mean is 1, times its mean.
    """

    columns: ClassVar[tuple[str, ...]] = ("source", "group", "visits", "changes", "mean_days")

    source: Any
    group_code: Integers
    groups: tuple[str, ...]
    """Names of the groups; `ALL` alone where there are none."""
    visits: Integers
    changes: Integers
    mean_days: Floats
    """Infinite for a source that never changed; NaN for one without a comparison."""
    shapes: dict[str, ConcaveFit]
    """By group, and `ALL`; x is in mean intervals."""
    memory: MemoryTest
    """Whether each source remembers its last update."""
    method: str
    notes: tuple[str, ...]

    @property
    def group(self) -> NDArray[np.str_]:
        """Group of each source."""
        return np.array(self.groups)[self.group_code]

    def process(self, source: str) -> Process:
        """One source as a process, for currency, planning and simulation."""
        place = self._place(source)
        mean = float(self.mean_days[place])
        if not 0.0 < mean < math.inf:
            raise EstimationError(f"source {source!r}: no change was seen, so it has no mean")
        return self.shape_of(self.groups[self.group_code[place]]).process().scaled(mean)

    def shape_of(self, group: str) -> ConcaveFit:
        """Shape of a group; that of all where the group has too few changes of its own."""
        return self.shapes.get(group, self.shapes[ALL])

    def penalty(self, s: ArrayLike, mean_days: ArrayLike, group_code: ArrayLike = 0) -> Floats:
        """G(s) of sources with these means and groups: the chance that a copy s days old is stale.

        This is what `observant.planning.Custom` takes, with `mean_days` and `group_code` as its
        arrays.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            x = np.asarray(s, np.float64) / np.asarray(mean_days, np.float64)
        x = np.nan_to_num(x, nan=0.0, posinf=np.inf)
        code = np.broadcast_to(np.asarray(group_code, np.int64), x.shape)
        stale = np.zeros(x.shape)
        for k, group in enumerate(self.groups):
            here = code == k
            if here.any():
                stale[here] = self.shape_of(group).age_cdf(x[here])
        return stale

    def typical(self, group: str = ALL) -> IntervalEstimate:
        """The shape of a group for a source with the group's median mean, as an estimate."""
        inside = np.ones(len(self), bool) if group == ALL else self.group == group
        means = self.mean_days[inside & np.isfinite(self.mean_days)]
        mean = float(np.median(means)) if len(means) else 1.0
        shape = self.shape_of(group)
        source = shape.process().scaled(mean)
        x = mean * np.geomspace(0.01, 20.0, 150)
        return IntervalEstimate(
            source=f"{counted(int(inside.sum()), 'source')}, scaled to a mean of "
            f"{format_duration(mean)}",
            x_days=x[source.age_cdf(x) < 0.9999] if source.age_cdf(x[0]) < 0.9999 else x[:2],
            method=self.method,
            why="sources pooled after scaling each by its mean",
            mean=source.mean if shape.identified else math.nan,
            mean_at_most=math.inf if shape.identified else source.mean,
            notes=self.notes,
            diagnostics=None,
            bands=None,
            _model=ProcessModel(source, shape.identified),
        )

    def plot(self) -> Any:
        """Draw the shape of all, for a typical source: an Altair chart."""
        return self.typical().plot()

    def group_rows(self) -> Iterator[dict[str, Any]]:
        """One line a group: how many sources, their means, and the shape in mean intervals."""
        names = self.groups if self.groups == (ALL,) else (*self.groups, ALL)
        for group in names:
            inside = np.ones(len(self), bool) if group == ALL else self.group == group
            means = self.mean_days[inside & np.isfinite(self.mean_days)]
            source = self.shape_of(group).process()
            yield {
                "group": group,
                "sources": int(inside.sum()),
                "own_shape": group in self.shapes,
                "median_mean_days": float(np.median(means)) if len(means) else math.nan,
                "median_interval_in_means": float(source.quantile(0.5)),
                "upper_interval_in_means": float(source.quantile(0.9)),
                "memory": self._memory_of(inside),
                "ageing": _kind(self._memory_of(inside)),
            }

    def _memory_of(self, inside: NDArray[np.bool_]) -> float:
        """γ of sources together, each weighted with what it knows."""
        weight = np.where(inside, self.memory.information, 0.0)
        known = weight > 0.0
        if not known.any():
            return math.nan
        return float(weight[known] @ self.memory.memory[known] / weight[known].sum())

    def summary(self) -> dict[str, Any]:
        """The answer as plain values, for JSON; the curve is that of a typical source."""
        typical = self.typical()
        return {
            "source": None,
            "method": self.method,
            "why": typical.why,
            "mean_days": typical.mean,
            "mean_at_most_days": typical.mean_at_most,
            "x_days": typical.x_days,
            "age_cdf": typical.age_cdf(typical.x_days),
            "interval_cdf": typical.interval_cdf(typical.x_days),
            "warnings": list(self.notes),
            "groups": list(self.group_rows()),
            "sources": list(self.rows()),
        }

    def __repr__(self) -> str:
        return f"<PooledIntervals: {len(self):,} sources in {counted(len(self.groups), 'group')}>"

    def _place(self, source: str) -> int:
        import pyarrow.compute as pc

        at = int(pc.index(self.source, source).as_py())
        if at < 0:
            raise InputError("not among these sources", source=source)
        return at


def pool_intervals(log: VisitLog, method: str = "auto", *, group: Any = None) -> PooledIntervals:
    """Estimate the shape that sources share and the mean interval of each; see the module.

    Groups are the log's own unless `group` gives a label for each source. A group with fewer than
    20 changes uses the shape of all. Sources that never changed, or always, tell nothing of the
    shape and are left out of it; always is judged without dates.

    >>> from observant.testing import synthetic_visits
    >>> log, rates = synthetic_visits(sources=100, visits=40, seed=5)  # Poisson sources
    >>> pooled = pool_intervals(log)
    >>> pooled
    <PooledIntervals: 100 sources in 1 group>
    >>> bool(abs(pooled.shapes["all"].age_cdf(1.0) - (1 - np.exp(-1))) < 0.06)
    True
    """
    if method not in {"auto", "concave"}:
        raise InputError(f"sources are pooled by `concave`; for {method!r} name one source")
    seen = Observations.from_log(log)
    code, names = _groups(log, group)
    count = len(log.sources)
    gaps, changed, owner = _comparisons(seen)
    compared = np.bincount(owner, minlength=count)
    changes = np.bincount(owner, changed, count).astype(np.int64)
    rates = bias_reduced_rates(Evidence.from_log(log))
    with np.errstate(divide="ignore"):
        means = np.where(compared > 0, 1.0 / rates, np.nan)
    telling = (changes > 0) & (changes < compared)
    if not telling.any():
        raise EstimationError(
            "no source both changed and stayed the same between visits, so there is no shape to "
            "find: visit more often, or longer"
        )
    pairs, of = _pairs(seen)
    shapes: dict[str, ConcaveFit] = {}
    notes: list[str] = []
    for name, inside in _members(code, names):
        chosen = telling & inside
        if name != ALL and changes[chosen].sum() < _FEWEST_CHANGES:
            continue
        known = chosen & (np.minimum(changes, compared - changes) >= _ENOUGH)
        known = known if changes[known].sum() >= _FEWEST_CHANGES else chosen
        shape, found = _shape(pairs, of, known, means, gaps, changed, owner)
        shapes[name] = shape
        means = np.where(chosen, found, means)
        notes += [f"{name}: {note}" if len(names) > 1 else note for note in shape.notes]
    left = int(np.count_nonzero(~telling))
    notes.insert(0, "one shape for all sources of a group, each scaled by its mean interval")
    if left:
        notes.append(
            f"{counted(left, 'source')} never changed or changed at every visit and tell nothing "
            "of the shape; their means are those of a Poisson source"
        )
    if seen.conflicts:
        dates = counted(seen.conflicts, "date of modification", "dates of modification")
        notes.append(f"{dates} set aside: they contradict what the visit found")
    return PooledIntervals(
        source=log.sources,
        group_code=code,
        groups=names,
        visits=np.diff(seen.offsets),
        changes=changes,
        mean_days=means,
        shapes=shapes,
        memory=poisson_test_of_visits(seen),
        method="concave",
        notes=tuple(dict.fromkeys(notes)),
    )


def _kind(memory: float) -> str | None:
    """Beyond a tenth: sources with few visits look a few hundredths too regular."""
    if math.isnan(memory):
        return None
    return "memoryless" if abs(memory) <= 0.1 else ("bursty" if memory < 0.0 else "regular")


def _shape(
    pairs: Pairs,
    of: Integers,
    chosen: NDArray[np.bool_],
    means: Floats,
    gaps: Floats,
    changed: NDArray[np.bool_],
    owner: Integers,
) -> tuple[ConcaveFit, Floats]:
    """The shape of the chosen sources, and all means in turn."""
    rows = np.flatnonzero(chosen[of])
    if len(rows) > _MOST_PAIRS:  # whole sources, evenly spread over the collection
        sources = np.flatnonzero(chosen)
        some = np.zeros(len(chosen), bool)
        some[sources[:: -(-len(rows) // _MOST_PAIRS)]] = True
        rows = np.flatnonzero(some[of])
    for turn in range(_ROUNDS):
        unit = means[of[rows]]
        last = turn == _ROUNDS - 1
        # How much to smooth is settled in the last turn; before, a fixed blur is good enough.
        blur: float | Literal["auto"] = "auto" if last else 0.25
        fit = fit_concave_pairs(*(side[rows] / unit for side in pairs), smoothing=blur)
        source = fit.process()
        if not last:
            means = _rescaled(source, means, gaps, changed, owner)
    # The shape has a mean of 1, whatever the last turn left. Where F is not identified the means
    # are the longest that agree with the visits, and the shape says so.
    return _with_mean_one(fit), means * source.mean


def _with_mean_one(fit: ConcaveFit) -> ConcaveFit:
    scaled = fit.source.scaled(1.0 / fit.source.mean)
    return replace(fit, source=scaled, identified_from=fit.identified_from / fit.source.mean)


def _rescaled(
    source: Process, means: Floats, gaps: Floats, changed: NDArray[np.bool_], owner: Integers
) -> Floats:
    """Each mean anew, by the likelihood of its visits when all have this shape."""
    steps = np.linspace(-1.5, 1.5, 31)
    table = np.geomspace(1e-5, 1e3, 2000) * source.mean
    G = np.clip(source.age_cdf(table), 1e-9, 1.0 - 1e-9)
    hit, miss, at = np.log(G), np.log1p(-G), np.log(table)
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.log(gaps / means[owner])
    score = np.empty((len(steps), len(means)))
    for k, step in enumerate(steps):
        shifted = np.where(changed, np.interp(x - step, at, hit), np.interp(x - step, at, miss))
        score[k] = np.bincount(owner, shifted, len(means))
    best = np.clip(score.argmax(axis=0), 1, len(steps) - 2)
    column = np.arange(len(means))
    before, here, after = (score[best + d, column] for d in (-1, 0, 1))
    curve = before - 2.0 * here + after
    with np.errstate(divide="ignore", invalid="ignore"):
        between = np.where(curve < 0.0, np.clip(0.5 * (before - after) / curve, -1.0, 1.0), 0.0)
        return np.asarray(means * np.exp(steps[best] + between * (steps[1] - steps[0])))


def _comparisons(seen: Observations) -> tuple[Floats, NDArray[np.bool_], Integers]:
    """Gap, outcome and source of every comparison."""
    used = np.flatnonzero(seen.changed >= 0)
    owner = np.searchsorted(seen.offsets, used, side="right") - 1
    return seen.times[used] - seen.times[used - 1], seen.changed[used] == 1, owner


def _pairs(seen: Observations) -> tuple[Pairs, Integers]:
    """`censored_pairs` for all segments of all sources at once, and the source of each visit."""
    t, n = seen.times, len(seen.times)
    here = np.arange(n)
    cut = seen.changed != 0  # a change, or the beginning of a segment
    last = np.maximum.accumulate(np.where(cut, here, 0))
    ahead = np.minimum.accumulate(np.where(cut, here, n)[::-1])[::-1]
    following = np.append(ahead[1:], n)
    changed_before = seen.changed[last] == 1
    a1 = t - t[last]
    a2 = np.where(changed_before, t - t[np.maximum(last - 1, 0)], np.inf)
    dated = np.flatnonzero(~np.isnan(seen.ages))[::-1]  # of several dates the first is kept
    date = np.full(n, np.nan)
    date[last[dated]] = (t - seen.ages)[dated]
    known = ~np.isnan(date[last])
    a1 = np.where(known, np.maximum(t - date[last], 0.0), a1)
    a2 = np.where(known, a1, a2)
    inside = np.minimum(following, n - 1)
    r1 = t[following - 1] - t
    changes_next = (following < n) & (seen.changed[inside] == 1)
    r2 = np.where(changes_next, t[inside] - t, np.inf)
    owner = np.searchsorted(seen.offsets, here, side="right") - 1
    return Pairs(a1, a2, r1, r2), owner


def _groups(log: VisitLog, group: Any) -> tuple[Integers, tuple[str, ...]]:
    import pyarrow as pa

    labels = log.groups if group is None else pa.array([str(label) for label in group])
    if labels is None:
        return np.zeros(len(log.sources), np.int64), (ALL,)
    if len(labels) != len(log.sources):
        raise InputError(f"{len(labels):,} groups for {len(log.sources):,} sources")
    encoded = labels.cast(pa.string()).fill_null("").dictionary_encode()
    return np.asarray(encoded.indices).astype(np.int64), tuple(encoded.dictionary.to_pylist())


def _members(code: Integers, names: tuple[str, ...]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """All first, so that each source's mean is at last that of its own group."""
    yield ALL, np.ones(len(code), bool)
    if names != (ALL,):
        for k, name in enumerate(names):
            yield name, code == k
