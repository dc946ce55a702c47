"""The contract of an importer: what it says about itself, what it is given, what it yields.

An importer turns one file that another tool wrote into batches of visits. It lives in a module of
this package that lists it in ``IMPORTERS``; that is all it takes to be found.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from observant.errors import InputError
from observant.names import KEYS, TIME_UNITS

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from observant.formats.imports.files import ImportFile
    from observant.formats.imports.report import Report

Batches: TypeAlias = "Iterator[pa.RecordBatch]"
Described: TypeAlias = "Iterator[SourceDescription]"
Evidence = Literal["V", "C", "S", "D"]

EVIDENCE: dict[str, str] = {
    "V": "every visit with what it saw: supports rates",
    "C": "changes only, the visits between them are not recorded: no rate without an assumption",
    "S": "the state of each source at one time: no rate without an assumption",
    "D": "dates that the sources declare: as good as the sources' word",
}
"""What each class of evidence can and cannot support."""


@runtime_checkable
class Importer(Protocol):
    """Reads one kind of file.

    Attributes
    ----------
    name
        The word for ``--format``: short, lower case, ``a-z0-9-``.
    title
        What people call the format, for lists and messages.
    evidence
        ``V`` full visit log, ``C`` changes only, ``S`` state only, ``D`` declared dates.
    endings
        Ends of file names (lower case, with the dot, compression left out) that belong to it.
    assumption
        For evidence that cannot support rates: the name that the user gives to ``--accept``.
        Without it the import is refused. Empty where nothing must be assumed.
    assumes
        That assumption in one sentence.
    """

    name: str
    title: str
    evidence: Evidence
    endings: tuple[str, ...] = ()
    assumption: str = ""
    assumes: str = ""

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether this is the format, by the first bytes (at most 64 KiB, after decompression).

        Must be strict (true for no other format) and must never raise; `name` is in lower case,
        without the ending of a compression. What is inside is told where the first bytes do not:
        for a folder, `name` ends in a slash and `head` is the sorted names of its entries, one a
        line; for a zip, ``PK\\x03\\x04`` and a line end go before the names of its entries; for
        Parquet, ``PAR1`` and a line end go before the names of its columns.
        """

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield the visits in batches with columns of the visit log, times in microseconds.

        ``source`` and ``time`` are there always, others where the format knows them; rows may
        come in any order. Memory stays bounded by the batch. A row that cannot be read goes to
        `Report.malformed`, every row read is counted with `Report.add_rows`, and a file that is
        not of this format at all is an `InputError`.
        """


@runtime_checkable
class DescribesSources(Protocol):
    """An importer whose files also say what is watched: watch settings, OPML, job files."""

    def sources(self, file: ImportFile, options: ImportOptions, report: Report) -> Described:
        """Yield the sources that the file describes, whether or not they have visits."""


class Describer(Importer):
    """A format that describes sources and tells of no visits."""

    @abstractmethod
    def sources(self, file: ImportFile, options: ImportOptions, report: Report) -> Described: ...

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield nothing; the file is read for what there is to report."""
        report.warn(f"this is a {self.title}: it describes sources and tells of no visits")
        for _ in self.sources(file, options, report):
            pass
        yield from ()


@dataclass(frozen=True, kw_only=True)
class SourceDescription:
    """A source as another tool describes it; what has no place here is told as a warning."""

    address: str
    kind: str = "http"
    title: str = ""
    tags: tuple[str, ...] = ()
    importance: float = 1.0
    paused: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings by the names of `observant add`: min_period, max_period, css, ignore, headers, …"""


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """What the user says about an import; the same for every format."""

    key: str = "url"
    """Which name a source gets: its ``url``, or its ``surt`` key (http and https are one)."""
    zone: str | None = None
    """Time zone of times that name none, or that name it by an abbreviation ("Europe/Berlin")."""
    time_unit: str = "s"
    """Unit of times that are numbers since 1970, in tables of your own."""
    accept: frozenset[str] | set[str] = frozenset()
    """Assumptions that the user accepts, by name."""
    on_bad: str = "skip"
    """A malformed row: ``skip`` (counted, sampled in the report) or ``fail``."""
    batch_rows: int = 1 << 17
    """About how many rows a batch has."""
    mapping: Mapping[str, str] = field(default_factory=dict)
    """Column of the visit log to column or key of the file, for formats without fixed names."""
    earliest: dt.datetime | None = None
    """Visits before this are left out."""
    latest: dt.datetime | None = None
    """Visits at or after this are left out."""

    def __post_init__(self) -> None:
        if self.key not in KEYS:
            raise InputError(f"a source is named by its url or its surt key, not by {self.key!r}")
        if self.time_unit not in TIME_UNITS:
            raise InputError(f"time_unit is {', '.join(TIME_UNITS)}, not {self.time_unit!r}")
        if self.on_bad not in {"skip", "fail"}:
            raise InputError(f"a malformed row is one to skip or to fail at, not {self.on_bad!r}")
        if self.batch_rows < 1:
            raise InputError(f"a batch has at least one row, not {self.batch_rows}")
        if not isinstance(self.accept, set | frozenset):
            raise InputError("accept is a set of names of assumptions")  # a text is none
        for limit in (self.earliest, self.latest):
            if limit is not None and limit.tzinfo is None:
                raise InputError(f"the time {limit.isoformat()} needs a zone; UTC, for one")


def visit_schema() -> pa.Schema:
    """The columns of the visit log with their types: what every imported batch comes out as."""
    import pyarrow as pa

    instant = pa.timestamp("us", "UTC")
    return pa.schema(
        {
            "source": pa.string(),
            "time": instant,
            "changed": pa.bool_(),
            "last_modified": instant,
            "digest": pa.binary(),
            "magnitude": pa.float64(),
            "status": pa.int16(),
            "bytes": pa.int64(),
        }
    )


class VisitRows:
    """Collects visits one by one, for formats that are read one by one, and gives batches.

    >>> rows = VisitRows(2)
    >>> for day in range(3):
    ...     rows.add("a", day * 86_400_000_000, changed=None if day == 0 else True)
    ...     if rows.full:
    ...         print(rows.take().num_rows)
    2
    >>> rows.take().num_rows
    1
    """

    def __init__(self, batch_rows: int) -> None:
        self._batch_rows = batch_rows
        self._rows: list[tuple[Any, ...]] = []

    def add(
        self,
        source: str,
        time: int,
        *,
        changed: bool | None = None,
        last_modified: int | None = None,
        digest: bytes | None = None,
        magnitude: float | None = None,
        status: int | None = None,
        bytes: int | None = None,  # noqa: A002 - the column's name
    ) -> None:
        """Add a visit; times are microseconds since 1970 UTC."""
        self._rows.append((source, time, changed, last_modified, digest, magnitude, status, bytes))

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def full(self) -> bool:
        """Whether it is time to `take` a batch."""
        return len(self._rows) >= self._batch_rows

    def take(self) -> pa.RecordBatch:
        """Return what was added since the last time, as one batch."""
        import pyarrow as pa

        rows, self._rows = self._rows, []
        columns = list(zip(*rows, strict=True)) if rows else [()] * 8
        schema = visit_schema()
        return pa.RecordBatch.from_arrays(
            [pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)],
            schema=schema,
        )
