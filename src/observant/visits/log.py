"""`VisitLog`: every visit to every source, as flat columns grouped by source and sorted by time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError, VisitLogError
from observant.tables import installed
from observant.times import MICROSECONDS_PER_DAY
from observant.units import counted, format_duration
from observant.visits.columns import MISSING, column_of, numbers_in, plain_column, text_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from numpy.typing import ArrayLike, NDArray

    from observant.arrays import Flags, Floats, Integers

COLUMNS = (
    "source",
    "time",
    "changed",
    "last_modified",
    "digest",
    "magnitude",
    "status",
    "bytes",
)
"""The columns of a visit log, in files and in Arrow; `source` and `time` are always there."""

_ROWS_PER_BATCH = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class VisitLog:
    """Every visit to every source. Build one with `from_columns` or `from_arrow`, or read a file
    with `observant.read_visits`.

    The visits of source ``i`` are rows ``offsets[i]:offsets[i + 1]`` of every column, in order of
    time; sources are in alphabetical order. What the log promises was checked when it was built:
    times are in range and strictly increasing within a source, dates of modification are not in
    the future, and `changed` says for each visit whether the source differed from the last
    successful one.

    >>> log = VisitLog.from_columns(
    ...     source=["a", "a", "b", "a"],
    ...     time=[0, 2, 1, 5],
    ...     digest=[b"x", b"x", b"q", b"y"],
    ...     time_unit="d",
    ... )
    >>> log
    VisitLog: 4 visits to 2 sources over 5d, 1 change in 2 comparisons
    >>> log.sources.to_pylist(), log.changed.tolist()  # -1: there was nothing to compare with
    (['a', 'b'], [-1, 0, 1, -1])
    """

    sources: pa.Array
    """Ids of the sources, alphabetical, each once."""
    offsets: Integers
    """Where the visits of each source begin; one more than there are sources."""
    time: Integers
    """Start of each visit, microseconds since 1970 UTC."""
    changed: NDArray[np.int8]
    """1 the visit found a change, 0 it found none, -1 it cannot be known."""
    last_modified: Integers | None = None
    """What the source claims, microseconds since 1970; `MISSING` where it claims nothing."""
    extras: Mapping[str, pa.Array] = field(default_factory=dict)
    """The columns digest, magnitude, status and bytes, those that were given."""
    groups: pa.Array | None = None
    """The group of each source (a host, a folder, a tag), if one was asked for."""
    notes: tuple[str, ...] = ()
    """What was set aside when it was made, in words."""
    announced: Floats | None = None
    """What signals say of each visit (`observant.estimate_signals`), three numbers a row: the share
    of changes that are announced, false signals a day, and how many days after the visit before
    the first signal came, infinite where none did."""

    @classmethod
    def from_columns(
        cls,
        source: Any,
        time: Any,
        changed: Any = None,
        last_modified: Any = None,
        *,
        digest: Any = None,
        magnitude: Any = None,
        status: Any = None,
        bytes: Any = None,  # noqa: A002 - the column's name
        group: Any = None,
        time_unit: str = "s",
        skew: float = 1.0,
        on_duplicate: str = "error",
    ) -> VisitLog:
        """Build a log from lists or arrays, one entry a visit, in any order.

        Times are datetimes, ISO 8601 strings, or numbers since 1970 in `time_unit` (``us``,
        ``ms``, ``s`` or ``d``). A `last_modified` more than `skew` days after the visit is set
        aside and counted in `notes`. Two visits to one source at the same time are refused,
        unless `on_duplicate` says to keep the ``first`` or the ``last`` given.
        """
        import pyarrow as pa

        given = {
            "source": source,
            "time": time,
            "changed": changed,
            "last_modified": last_modified,
            "digest": digest,
            "magnitude": magnitude,
            "status": status,
            "bytes": bytes,
            "group": group,
        }
        columns = {
            name: column_of(values, name) for name, values in given.items() if values is not None
        }
        lengths = {name: len(values) for name, values in columns.items()}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise VisitLogError(f"the columns differ in length: {told}")
        return cls.from_arrow(
            pa.table(columns),
            group="group" if group is not None else None,
            time_unit=time_unit,
            skew=skew,
            on_duplicate=on_duplicate,
        )

    @classmethod
    def from_arrow(
        cls,
        data: Any,
        *,
        group: str | None = None,
        time_unit: str = "s",
        skew: float = 1.0,
        on_duplicate: str = "error",
        name: str | None = None,
    ) -> VisitLog:
        """Build a log from anything that speaks Arrow: Polars, pandas, DuckDB, PyArrow.

        The columns are those of the visit log (``source`` and ``time`` are needed); others are
        passed over. `group` names a column that says which group a source belongs to. `name` is
        what error messages call the data.

        >>> import pyarrow as pa
        >>> VisitLog.from_arrow(
        ...     pa.table(
        ...         {
        ...             "source": ["a", "a"],
        ...             "time": ["2026-01-01", "2026-01-03"],
        ...             "changed": [None, True],
        ...         }
        ...     )
        ... )
        VisitLog: 2 visits to 1 source over 2d, 1 change in 1 comparison
        """
        from observant.visits.columns import batches_of
        from observant.visits.reader import LogReader

        reader = LogReader(
            name=name, group=group, time_unit=time_unit, skew=skew, on_duplicate=on_duplicate
        )
        for batch in batches_of(data):
            reader.add(batch)
        return reader.finish()

    def __len__(self) -> int:
        """Number of visits."""
        return len(self.time)

    @property
    def visits_per_source(self) -> Integers:
        """Number of visits to each source, failed ones included."""
        return np.diff(self.offsets)

    @property
    def succeeded(self) -> Flags:
        """Which visits saw the source: no status, or one from 200 to 399; or saw that it is gone
        (`succeeded`). The rest failed.
        """
        status = self.extras.get("status")
        if status is None:
            return np.ones(len(self), bool)
        return succeeded(numbers_in(status, 200), self.changed)

    @property
    def successes_per_source(self) -> Integers:
        """How many visits saw each source."""
        if "status" not in self.extras:
            return self.visits_per_source
        return np.add.reduceat(self.succeeded, self.offsets[:-1], dtype=np.int64)

    def select(self, sources: ArrayLike) -> VisitLog:
        """Return the log of some sources, given by their ids or by a Boolean mask.

        >>> log = VisitLog.from_columns(["a", "b", "a"], [0, 1, 2], [None, None, True])
        >>> log.select(["a"]).sources.to_pylist()
        ['a']
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        if isinstance(sources, str):
            sources = [sources]
        wanted = np.asarray(sources)
        if wanted.dtype != bool:
            given = pa.chunked_array([column_of(sources, "source")]).combine_chunks()
            ids = text_in(plain_column(given), "source").cast(self.sources.type)
            unknown = ids.filter(pc.invert(pc.is_in(ids, self.sources)))
            if len(unknown):
                raise VisitLogError("not in this log", source=str(unknown[0].as_py()))
            wanted = np.asarray(pc.is_in(self.sources, ids))
        elif wanted.shape != (len(self.sources),):
            raise VisitLogError(
                f"the mask has {wanted.size} entries and the log {len(self.sources)} sources"
            )
        if not wanted.any():
            raise VisitLogError("no source is selected, and a log cannot be empty")
        rows = np.repeat(wanted, self.visits_per_source)
        kept = pa.array(rows)
        return VisitLog(
            sources=self.sources.filter(pa.array(wanted)),
            offsets=np.concatenate([[0], np.cumsum(self.visits_per_source[wanted])]).astype(
                np.int64
            ),
            time=self.time[rows],
            changed=self.changed[rows],
            last_modified=None if self.last_modified is None else self.last_modified[rows],
            extras={name: column.filter(kept) for name, column in self.extras.items()},
            groups=None if self.groups is None else self.groups.filter(pa.array(wanted)),
            notes=self.notes,
            announced=None if self.announced is None else self.announced[rows],
        )

    def to_batches(self, rows: int = _ROWS_PER_BATCH) -> Iterator[pa.RecordBatch]:
        """Yield the log as Arrow record batches, with the columns of the visit log table."""
        import pyarrow as pa

        if rows < 1:
            raise InputError(f"a batch has at least one row, not {rows}")
        for start in range(0, len(self), rows):
            stop = min(start + rows, len(self))
            which = np.searchsorted(self.offsets, np.arange(start, stop), side="right") - 1
            instant = pa.timestamp("us", "UTC")
            columns: dict[str, pa.Array] = {
                "source": self.sources.take(pa.array(which)),
                "time": pa.array(self.time[start:stop]).cast(instant),
                "changed": pa.array(
                    self.changed[start:stop] == 1, mask=self.changed[start:stop] < 0
                ),
            }
            if self.last_modified is not None:
                dates = self.last_modified[start:stop]
                columns["last_modified"] = pa.array(dates, mask=dates == MISSING).cast(instant)
            for name, column in self.extras.items():
                columns[name] = column.slice(start, stop - start)
            if self.groups is not None:
                columns["group"] = self.groups.take(pa.array(which))
            yield pa.RecordBatch.from_pydict(columns)

    def to_arrow(self) -> pa.Table:
        """Return the whole log as one PyArrow table."""
        import pyarrow as pa

        return pa.Table.from_batches(self.to_batches())

    def to_pandas(self) -> Any:
        """Return the whole log as a pandas data frame; pandas must be installed."""
        installed("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return the whole log as a Polars data frame; Polars must be installed."""
        return installed("polars").from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        span = (int(self.time.max()) - int(self.time.min())) / MICROSECONDS_PER_DAY
        sources, changes = len(self.sources), int(np.count_nonzero(self.changed == 1))
        compared = changes + int(np.count_nonzero(self.changed == 0))
        return (
            f"VisitLog: {counted(len(self), 'visit')} to {counted(sources, 'source')} over "
            f"{format_duration(span)}, {counted(changes, 'change')} in "
            f"{counted(compared, 'comparison')}"
        )


GONE = (404, 410)


def succeeded(status: Integers, changed: NDArray[np.int8] | None = None) -> Flags:
    """Which visits saw the source (304 Not Modified among them).

    A 404 or 410 that the log calls a change saw it too: that it had disappeared.
    """
    good = (status >= 200) & (status < 400)
    return good if changed is None else good | (np.isin(status, GONE) & (changed == 1))


def require_log(log: Any) -> None:
    """Refuse what is no visit log, and say what is one."""
    if not isinstance(log, VisitLog):
        raise InputError(
            f"give a visit log (`read_visits` or `VisitLog.from_columns` makes one), not a "
            f"{type(log).__name__}"
        )
