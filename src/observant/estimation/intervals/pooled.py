"""Many sources, one shape: intervals of a whole collection, each source scaled by its mean.

One source alone rarely has enough changes for a curve. Sources of a kind (a host, a folder, a
template) often differ in their mean interval only, and then all their visits tell of one shape.
Shape and means are found in turns: each mean by the likelihood of its visits under the present
shape, then the shape from all visits, each source's times divided by its mean. With 60 visits to
each of 200 sources G of the pooled shape is off by 0.01 to 0.04.

A mean that rests on few changes is itself uncertain, and a source divided by the mean of its own
few changes looks as if it kept a rhythm. Where most sources have fewer than ten changes, all means
together are therefore the prior of each, every source takes part at several means, as far apart as
they are uncertain, and so do sources that never changed, or always. Assume a common shape where you
have reason to; the table by groups shows whether shapes differ.

Pooling also sees what constant gaps hide: a gap of a day is long for one source and short for
another, so together they show G at many multiples of the mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from observant.errors import EstimationError, InputError
from observant.estimation.intervals.answer import IntervalEstimate
from observant.estimation.intervals.concave import ConcaveFit, Pairs, fit_concave_pairs
from observant.estimation.intervals.curves import ProcessModel
from observant.estimation.intervals.diagnostics import MemoryTest, poisson_test_of_visits
from observant.estimation.intervals.observations import Observations
from observant.processes import Exponential
from observant.tables import Table
from observant.units import counted, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from observant.arrays import Flags, Floats, Integers
    from observant.processes import Process
    from observant.visits import VisitLog


ALL = "all"
"""Name of the shape of the whole collection."""
_ROUNDS = 2
_ENOUGH, _MANY = 5, 10
"""Changes, and visits without one, from which a source may speak for itself; and what the median of
these sources must have before others are left out."""
_STEP = 0.15
"""Of the logarithms of the means that are tried."""
_TURNS = 200
"""Of the search for the distribution of means."""
_COPIES = 8
"""Of a source, at means as far apart as they are uncertain; fewer where there are many visits."""
_MOST_PAIRS = 20_000
"""Of visits behind a shape: more of them cost time and gain little."""
_FEWEST_CHANGES = 20
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)


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
    """The geometric mean of what is believed of it; NaN for a source without a comparison."""
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
                "ageing": _kind(self._memory_of(inside), float(self.changes[inside].mean())),
            }

    def _memory_of(self, inside: Flags) -> float:
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
    20 changes uses the shape of all.

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
    means = np.full(count, np.nan)
    telling = (changes > 0) & (changes < compared)
    if not telling.any():
        raise EstimationError(
            "no source both changed and stayed the same between visits, so there is no shape to "
            "find: visit more often, or longer"
        )
    visits = _Visits(*_pairs(seen), gaps, changed, owner)
    shapes: dict[str, ConcaveFit] = {}
    notes: list[str] = []
    for name, inside in _members(code, names):
        chosen = inside & (compared > 0)
        if name != ALL and changes[chosen & telling].sum() < _FEWEST_CHANGES:
            continue
        scarcer = np.minimum(changes, compared - changes)
        known = chosen & (scarcer >= _ENOUGH)
        sure = bool(known.any()) and float(np.median(scarcer[chosen & telling])) >= _MANY
        shapes[name] = _shape(visits, np.flatnonzero(known if sure else chosen), sure=sure)
        units, weights = _means(shapes[name].process(), visits, np.flatnonzero(chosen))
        means[chosen] = np.exp(weights @ np.log(units))
        notes += [f"{name}: {note}" if len(names) > 1 else note for note in shapes[name].notes]
    notes.insert(0, "one shape for all sources of a group, each scaled by its mean interval")
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


def _kind(memory: float, changes: float) -> str | None:
    """What γ says; with few changes a source looks too regular, by up to one over their number."""
    if math.isnan(memory):
        return None
    if memory < -0.1:
        return "bursty"
    return "regular" if memory > 0.1 + 1.0 / max(changes, 1.0) else "memoryless"


class _Visits(NamedTuple):
    """Pairs of windows with their sources, and comparisons with theirs."""

    pairs: Pairs
    of: Integers
    gaps: Floats
    changed: Flags
    owner: Integers


def _shape(visits: _Visits, sources: Integers, *, sure: bool) -> ConcaveFit:
    """The shape of these sources, whose means their visits alone tell where that is `sure`."""
    size = np.bincount(visits.of, minlength=int(visits.of.max()) + 1)
    many = -(-int(size[sources].sum()) // _MOST_PAIRS)
    sources = sources[:: max(many, 1)]  # whole, evenly spread over all
    rows = np.flatnonzero(np.isin(visits.of, sources))
    of = np.searchsorted(sources, visits.of[rows])
    copies = 1 if sure else min(max(_MOST_PAIRS // len(rows), 1), _COPIES)
    turned = np.arange(len(sources)) * _GOLDEN  # so that the copies of all together are even
    quantiles = (np.arange(copies) + (turned % 1.0)[:, None]) / copies
    which = np.repeat(rows, copies)
    source: Process = Exponential(1.0)
    for turn in range(_ROUNDS):
        units, weights = _means(source, visits, sources, turns=0 if sure else _TURNS)
        best = np.exp(weights @ np.log(units))[:, None]
        scales = (best if sure else _drawn(units, weights, quantiles))[of].ravel()
        # How much to smooth is settled in the last turn; before, a fixed blur is good enough.
        blur: float | Literal["auto"] = "auto" if turn == _ROUNDS - 1 else 0.25
        fit = fit_concave_pairs(*(side[which] / scales for side in visits.pairs), smoothing=blur)
        # The shape has a mean of 1. Where F is not identified the means are the longest that
        # agree with the visits, and the shape says so.
        fit = _with_mean_one(fit)
        source = fit.process()
    return fit


def _with_mean_one(fit: ConcaveFit) -> ConcaveFit:
    scaled = fit.source.scaled(1.0 / fit.source.mean)
    return replace(fit, source=scaled, identified_from=fit.identified_from / fit.source.mean)


def _means(
    shape: Process, visits: _Visits, sources: Integers, turns: int = _TURNS
) -> tuple[Floats, Floats]:
    """Means that are possible, and what is believed of them: a row for each of these sources.

    The prior is how the means of these sources are distributed, by expectation and maximisation;
    without turns of that, any mean is as likely as another.
    """
    used = np.isin(visits.owner, sources)
    gaps, changed = visits.gaps[used], visits.changed[used]
    owner = np.searchsorted(sources, visits.owner[used])
    longest = np.bincount(owner, gaps, len(sources)).max()
    units = np.exp(np.arange(math.log(0.05 * gaps.min()), math.log(20.0 * longest), _STEP))
    table = np.geomspace(1e-6, 1e6, 4000)
    G = np.clip(shape.age_cdf(table), 1e-9, 1.0 - 1e-9)
    hit, miss, at = np.log(G), np.log1p(-G), np.log(table)
    x = np.log(gaps)
    score = np.empty((len(sources), len(units)))
    for k, unit in enumerate(np.log(units)):
        told = np.where(changed, np.interp(x - unit, at, hit), np.interp(x - unit, at, miss))
        score[:, k] = np.bincount(owner, told, len(sources))
    likelihood = np.exp(score - score.max(axis=1, keepdims=True))
    prior = np.full(len(units), 1.0 / len(units))
    for _ in range(turns):
        prior = prior * (likelihood / (likelihood @ prior)[:, None]).mean(axis=0)
    weights = likelihood * prior
    return units, weights / weights.sum(axis=1, keepdims=True)


def _drawn(units: Floats, weights: Floats, quantiles: Floats) -> Floats:
    """These quantiles of what is believed of each mean."""
    below = np.cumsum(weights, axis=1)
    at = (below[:, None, :] < quantiles[:, :, None]).sum(axis=2)
    return np.asarray(units[np.minimum(at, len(units) - 1)])


def _comparisons(seen: Observations) -> tuple[Floats, Flags, Integers]:
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


def _members(code: Integers, names: tuple[str, ...]) -> Iterator[tuple[str, Flags]]:
    """All first, so that each source's mean is at last that of its own group."""
    yield ALL, np.ones(len(code), bool)
    if names != (ALL,):
        for k, name in enumerate(names):
            yield name, code == k
