"""`Trace`: when every source was really updated."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError
from observant.planning.policy import group_of as folder_of
from observant.processes import Updates
from observant.processes.base import positive
from observant.processes.updates import generator
from observant.times import DAY, MICROSECONDS_PER_DAY
from observant.units import counted, format_duration
from observant.visits.reader import HOST_PATTERN

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import ArrayLike

    from observant.arrays import Flags, Floats, Integers
    from observant.processes.updates import Seed


_HOST = re.compile(HOST_PATTERN)


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """The real update times of a collection of sources; times are days since 1970.

    >>> trace = Trace.from_columns(["b/x", "a/y", "b/x"], [3.0, 1.0, 2.0])
    >>> trace
    Trace: 3 updates of 2 sources over 2d
    >>> trace.sources, trace.updates[1]
    (('a/y', 'b/x'), array([2., 3.]))
    """

    sources: tuple[str, ...]
    """Names, alphabetical, each once."""
    updates: Updates
    start: float
    """The first update, unless told otherwise."""
    end: float
    group: Integers | None = None
    """The group of each source, a number into `groups`."""
    groups: tuple[str, ...] | None = None
    importance: Floats | None = None
    cost: Floats | None = None
    """What a visit to each source takes of the budget; 1 where nothing is said."""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.sources) != len(self.updates):
            raise InputError(f"{len(self.sources)} names for the updates of {len(self.updates)}")

    @classmethod
    def from_columns(
        cls,
        source: Any,
        time: ArrayLike,
        *,
        group: Any = None,
        importance: ArrayLike | None = None,
        cost: ArrayLike | None = None,
        start: float | None = None,
        end: float | None = None,
    ) -> Trace:
        """Build a trace from columns, a row an update, in any order; times are days since 1970.

        A row whose time is not-a-number declares a source without updates. Updates of one source
        at one time count once. Group, importance and cost are those of the source's first row
        that has one.
        """
        codes, names = _encoded(source, "source")
        at = np.atleast_1d(np.asarray(time, float))
        if at.shape != codes.shape:
            raise InputError(f"{len(codes)} sources and {at.size} times: give one of each a row")
        if np.isinf(at).any():
            raise InputError(
                "the time of an update must be finite", row=int(np.argmax(~(at < np.inf))) + 1
            )
        happened = ~np.isnan(at)
        order = np.lexsort((at, codes))
        order = order[happened[order]]
        which, when = codes[order], at[order]
        new = np.ones(len(which), bool)
        new[1:] = (which[1:] != which[:-1]) | (when[1:] != when[:-1])
        doubled = len(which) - int(np.count_nonzero(new))
        which, when = which[new], when[new]
        offsets = np.concatenate([[0], np.cumsum(np.bincount(which, minlength=len(names)))])
        notes = []
        if doubled:
            notes.append(f"{counted(doubled, 'row')} repeated an update and counted once")
        code, group_names = (None, None) if group is None else _groups(codes, group, len(names))
        first = float(when.min()) if when.size else 0.0
        last = float(when.max()) if when.size else first
        return cls(
            sources=tuple(names),
            updates=Updates(when, offsets.astype(np.int64)),
            start=first if start is None else float(start),
            end=last if end is None else float(end),
            group=code,
            groups=group_names,
            importance=None if importance is None else _numbers(codes, importance, names),
            cost=None if cost is None else _numbers(codes, cost, names, "cost"),
            notes=tuple(notes),
        )

    @classmethod
    def sample(
        cls,
        process: Any,
        rates: ArrayLike,
        *,
        horizon: float,
        seed: Seed = None,
        start: float = 0.0,
        groups: int = 0,
    ) -> Trace:
        """Draw updates of one source for each rate, from a process stretched to that rate.

        With `groups`, so many groups share the sources out at random.

        >>> from observant.processes import Weibull
        >>> Trace.sample(Weibull.with_mean(1.0, shape=2.0), [0.1, 0.0], horizon=365, seed=0)
        Trace: 35 updates of 2 sources over 365d
        """
        return sampled(cls, process, rates, horizon=horizon, seed=seed, start=start, groups=groups)

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def span(self) -> float:
        """Days from start to end."""
        return self.end - self.start

    def grouped(self, by: str | None) -> Trace:
        """The same trace in other groups: ``prefix`` (the name up to its last slash), ``host``
        (of URLs), a regular expression whose first bracket is the group, or none.

        >>> Trace.from_columns(["a/x", "a/y", "z"], [1, 2, 3]).grouped("prefix").groups
        ('', 'a')
        """
        if by is None:
            return replace(self, group=None, groups=None)
        names = [group_of(name, by) for name in self.sources]
        codes, distinct = _encoded(names, "group")
        return replace(self, group=codes, groups=tuple(distinct))

    def window(self, start: float | None = None, end: float | None = None) -> Trace:
        """The same trace with another start or end; no update is thrown away."""
        begin = self.start if start is None else float(start)
        finish = self.end if end is None else float(end)
        if not begin < finish:
            raise InputError("a trace must end after it starts")
        return replace(self, start=begin, end=finish)

    def select(self, which: Any) -> Trace:
        """Some of the sources, by indices or mask."""
        some = np.arange(len(self))[which]
        chosen = [self.updates[int(i)] for i in some]
        return replace(
            self,
            sources=tuple(self.sources[int(i)] for i in some),
            updates=Updates.from_lists(chosen),
            group=None if self.group is None else self.group[some],
            importance=None if self.importance is None else self.importance[some],
            cost=None if self.cost is None else self.cost[some],
        )

    def to_arrow(self) -> pa.Table:
        """A row an update with the columns source and time, and group, importance and cost if any.

        A source without updates has one row without a time.
        """
        import pyarrow as pa

        silent = np.flatnonzero(self.updates.counts == 0)
        which = np.concatenate([self.updates.sources, silent])
        micros = np.round(self.updates.times * MICROSECONDS_PER_DAY).astype(np.int64)
        micros = np.concatenate([micros, np.zeros(len(silent), np.int64)])
        missing = np.arange(len(which)) >= len(self.updates.times)
        order = np.argsort(which, kind="stable")
        which = which[order]
        times = pa.array(micros[order], mask=missing[order]).cast(pa.timestamp("us", tz="UTC"))
        columns = {"source": pa.array(self.sources, pa.string()).take(which), "time": times}
        if self.group is not None:
            columns["group"] = pa.array(self.groups, pa.string()).take(self.group[which])
        for name in ("importance", "cost"):
            if (values := getattr(self, name)) is not None:
                columns[name] = pa.array(values[which])
        return pa.table(columns)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def summary(self) -> dict[str, Any]:
        """The trace in a few numbers."""
        counts = self.updates.counts
        return {
            "sources": len(self),
            "updates": int(self.updates.times.size),
            "without_updates": int(np.count_nonzero(counts == 0)),
            "groups": None if self.groups is None else len(self.groups),
            "start": _iso(self.start),
            "end": _iso(self.end),
            "span_days": self.span,
            "updates_per_source_quartiles": np.quantile(counts, [0.25, 0.5, 0.75]).tolist()
            if len(self)
            else [],
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        return (
            f"Trace: {counted(self.updates.times.size, 'update')} of "
            f"{counted(len(self), 'source')} over {format_duration(max(self.span, 0.0))}"
        )


def group_of(source: str, by: str = "prefix") -> str:
    """The group that a source's name tells of.

    >>> group_of("https://example.org/news/1"), group_of("https://example.org/news/1", "host")
    ('example.org/news', 'example.org')
    """
    if by == "prefix":
        return folder_of(source)
    if by == "host":
        found = _HOST.match(source)
        return found.group(1).lower() if found else ""
    try:
        pattern = re.compile(by)
    except re.error as error:
        raise InputError(
            f"group by prefix, host, or a regular expression, not {by!r} ({error})"
        ) from error
    found = pattern.search(source)
    if not found:
        return ""
    return (found.group(1) or "") if pattern.groups else found.group(0)


def _encoded(values: Any, column: str) -> tuple[Integers, list[str]]:
    """Numbers of values, and the distinct values in alphabetical order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        texts = values if isinstance(values, pa.Array) else pa.array(list(values))
        texts = texts.cast(pa.string())
        texts.validate(full=True)  # files may call anything text
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise InputError(f"must be text ({error})", column=column) from error
    if texts.null_count:
        row = int(np.argmax(np.asarray(texts.is_null())))
        raise InputError("is empty", row=row + 1, column=column)
    encoded = texts.dictionary_encode()
    order = np.asarray(pc.sort_indices(encoded.dictionary))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    codes = rank[np.asarray(encoded.indices)] if len(texts) else np.empty(0, np.int64)
    return codes, encoded.dictionary.take(order).to_pylist()


def _first_rows(codes: Integers, given: Flags, sources: int) -> Integers:
    """The first row of each source that has a value, or −1."""
    rows = np.full(sources, -1)
    have = np.flatnonzero(given)[::-1]
    rows[codes[have]] = have
    return rows


def _groups(codes: Integers, group: Any, sources: int) -> tuple[Integers, tuple[str, ...]]:
    values = [None if value is None else str(value) for value in _listed(group)]
    if len(values) != len(codes):
        raise InputError(f"{len(codes)} sources and {len(values)} groups: give one of each a row")
    rows = _first_rows(codes, np.array([value is not None for value in values], bool), sources)
    own = [values[row] or "" if row >= 0 else "" for row in rows.tolist()]
    numbers, names = _encoded(own, "group")
    return numbers, tuple(names)


def _numbers(
    codes: Integers, given: ArrayLike, names: list[str], column: str = "importance"
) -> Floats:
    """A number for each source: importance, or cost, which is above 0."""
    values = np.asarray(given, float)
    if values.shape != codes.shape:
        raise InputError(f"{len(codes)} sources and {values.size} numbers", column=column)
    rows = _first_rows(codes, ~np.isnan(values), len(names))
    weights = np.where(rows >= 0, values[rows], 1.0)
    least, kind = (0.0, "not negative") if column == "importance" else (1e-6, "above 0")
    bad = ~((weights >= least) & (weights < np.inf))
    if bad.any():
        at = int(np.argmax(bad))
        raise InputError(
            f"must be a finite number, {kind}, and is {weights[at]:g}",
            column=column,
            source=names[at],
        )
    if len(weights) and not weights.any():
        raise InputError("is 0 for every source", column=column)
    return weights


def _listed(values: Any) -> list[Any]:
    return list(values.to_pylist() if hasattr(values, "to_pylist") else values)


def _iso(days: float) -> str:
    return str(np.datetime64(round(days * DAY), "s")) + "Z"


# -- drawn from a process -------------------------------------------------------------------------


def sampled(
    trace: type[Trace],
    process: Any,
    rates: ArrayLike,
    *,
    horizon: float,
    seed: Seed,
    start: float,
    groups: int,
) -> Trace:
    """See `Trace.sample`."""
    rate = np.atleast_1d(np.asarray(rates, float))
    if rate.ndim != 1 or not rate.size:
        raise InputError("give the rates of one source or more, along one axis")
    if not (np.isfinite(rate) & (rate >= 0)).all():
        raise InputError("rates must be finite and not negative")
    span = positive("horizon", horizon)
    rng = generator(seed)
    # Sources of one rate are drawn together.
    distinct, which = np.unique(rate, return_inverse=True)
    lists: list[Any] = [np.empty(0)] * rate.size
    for k, value in enumerate(distinct.tolist()):
        if value == 0:
            continue
        mine = np.flatnonzero(which == k)
        own = process.scaled(1.0 / (value * process.mean))
        drawn = own.sample(span, mine.size, seed=rng)
        for i, times in zip(mine.tolist(), drawn, strict=True):
            lists[i] = start + times
    width = len(str(rate.size - 1))
    names = [f"{i:0{width}}" for i in range(rate.size)]
    group = group_names = None
    if groups:
        drawn_group = rng.integers(0, groups, rate.size)
        used, group = np.unique(drawn_group, return_inverse=True)
        group_names = tuple(str(g) for g in used)
        names = [f"{group_names[g]}/{name}" for g, name in zip(group, names, strict=True)]
        order = sorted(range(rate.size), key=names.__getitem__)
        names = [names[i] for i in order]
        lists = [lists[i] for i in order]
        group = group[np.array(order)]
    return trace(
        sources=tuple(names),
        updates=Updates.from_lists(_once(times) for times in lists),
        start=float(start),
        end=float(start) + span,
        group=group,
        groups=group_names,
    )


def _once(times: Any) -> Any:
    return times if times.size < 2 or (np.diff(times) > 0).all() else np.unique(times)
