"""What every answer of observant has in common: columns that travel, a readable print, notes.

A `Table` is a frozen value with named columns. It speaks the Arrow PyCapsule interface, so Polars,
pandas, DuckDB and PyArrow take it as it is. In a notebook it shows itself, `plot` draws it. A
`Note` is a doubt about an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from observant.errors import ExtraError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

__all__ = ["Drawn", "Note", "Table", "first_rows", "installed"]

_SHOWN = 10
_WIDEST = 48
_NUMBERS = {"double", "float", "int64", "int32", "int16", "int8", "uint8", "uint32", "uint64"}


def _plot(answer: Any) -> Any:
    """Draw it: an Altair chart, which a notebook shows and `observant.figures.save` writes."""
    from observant.plugins import load, needed

    if not answer.figure:
        name = type(answer).__name__
        raise InputError(f"there is no figure of a {name}; draw its columns with to_pandas()")
    try:
        return load(answer.figure)(answer)
    except ImportError as error:
        raise needed(error) from error


class Drawn:
    """An answer that is no table, and can be drawn by one of our figures."""

    figure: ClassVar[str] = ""
    """The figure, as ``module:function``. Figures are a higher layer, looked up when wanted."""
    plot = _plot


class Table:
    """Named columns of equal length, given by the fields listed in `columns`.

    A subclass is a frozen dataclass; its fields hold NumPy or Arrow arrays.
    """

    columns: ClassVar[tuple[str, ...]] = ()
    figure: ClassVar[str] = ""
    """What `plot` draws, as ``module:function``."""
    plot = _plot

    def __len__(self) -> int:
        return len(getattr(self, self.columns[0]))

    def to_arrow(self) -> pa.Table:
        """Return the columns as a PyArrow table. Not-a-number stays, as in any float column."""
        import pyarrow as pa

        return pa.table({name: _arrow(getattr(self, name)) for name in self.columns})

    def to_pandas(self) -> Any:
        """Return the columns as a pandas data frame; pandas must be installed."""
        installed("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return the columns as a Polars data frame; Polars must be installed."""
        return installed("polars").from_arrow(self.to_arrow())

    def summary(self) -> dict[str, Any]:
        """How many rows there are, and the median and the extremes of every column of numbers."""
        table = self.to_arrow()
        found: dict[str, Any] = {"rows": table.num_rows}
        for name, column in zip(table.column_names, table.columns, strict=True):
            values = np.asarray(column) if str(column.type) in _NUMBERS else np.empty(0)
            values = values[np.isfinite(values)]
            if values.size:
                low, middle, high = np.quantile(values, [0.0, 0.5, 1.0]).tolist()
                found[name] = {"least": low, "median": middle, "most": high}
        return found

    def _repr_html_(self) -> str:
        """What a notebook shows: the first rows, how many follow, and the notes."""
        from html import escape

        def line(cells: Iterable[object], tag: str) -> str:
            return f"<tr>{''.join(f'<{tag}>{escape(_shown(c))}</{tag}>' for c in cells)}</tr>"

        table = self.to_arrow()
        rows = [list(row.values()) for row in table.slice(0, _SHOWN).to_pylist()]
        more = table.num_rows - len(rows)
        below = [f"… and {more:,} more"] if more > 0 else []
        below += [str(note) for note in getattr(self, "notes", ())]
        body = "".join(line(row, "td") for row in rows)
        said = "".join(f"<p>{escape(text)}</p>" for text in below)
        return f"<table><thead>{line(table.column_names, 'th')}</thead>{body}</table>{said}"

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def rows(self) -> Iterator[dict[str, Any]]:
        """One dictionary a row, with plain Python values; what JSON cannot say becomes None."""
        for batch in self.to_arrow().to_batches(max_chunksize=65_536):
            for row in batch.to_pylist():
                yield {name: _plain(value) for name, value in row.items()}


class Note(str):
    """A doubt about an answer, which prints itself; one that counts adds up over parts of a log.

    `kind` is the sentence with ``{n}`` for the number, `one` the same in the singular.

    >>> few, one = (
    ...     Note("{n} dates were set aside", n, "{n} date was set aside") for n in (1200, 1)
    ... )
    >>> print(one, *Note.added([[one], [few], ["and so on"]]), sep="; ")
    1 date was set aside; 1,201 dates were set aside; and so on
    """

    __slots__ = ("kind", "number", "one")
    kind: str
    number: int | None
    one: str

    def __new__(cls, kind: str, number: int | None = None, one: str | None = None) -> Self:
        said = one if one is not None and number == 1 else kind
        note = super().__new__(cls, said if number is None else said.replace("{n}", f"{number:,}"))
        note.kind, note.number, note.one = kind, number, kind if one is None else one
        return note

    def __getnewargs__(self) -> tuple[str, int | None, str]:  # type: ignore[override]
        return self.kind, self.number, self.one

    @staticmethod
    def added(parts: Iterable[Iterable[str]]) -> list[str]:
        """Notes of the whole from those of its parts, each kind once, where it first appears."""
        found: dict[str, str] = {}
        for note in (note for notes in parts for note in notes):
            kind = note.kind if isinstance(note, Note) else note
            before = found.get(kind)
            if isinstance(note, Note) and note.number is not None and isinstance(before, Note):
                note = Note(kind, note.number + (before.number or 0), note.one)  # noqa: PLW2901
            found[kind] = note
        return list(found.values())

    @staticmethod
    def plain(notes: Iterable[str]) -> list[Any]:
        """Notes as JSON keeps them; `restored` makes notes of them again."""
        return [list(n.__getnewargs__()) if isinstance(n, Note) else n for n in notes]

    @staticmethod
    def restored(kept: Iterable[Any]) -> tuple[str, ...]:
        return tuple(Note(*note) if isinstance(note, list) else note for note in kept)


def first_rows(sources: Any, heading: str, row: Callable[[int], str]) -> str:
    """The head of a table for people: a line for each of the first sources, and how many follow.

    >>> print(first_rows(["a", "b"], "place", lambda i: f"{i + 1:5}"))
    source  place
    a           1
    b           2
    """
    names = [str(name)[:_WIDEST] for name in sources[:_SHOWN]]
    width = max([6, *map(len, names)])
    lines = [f"{'source':{width}}  {heading}"]
    lines += [f"{name:{width}}  {row(i)}" for i, name in enumerate(names)]
    if len(names) < len(sources):
        lines.append(f"… and {len(sources) - len(names):,} more")
    return "\n".join(lines)


def _arrow(column: Any) -> pa.Array:
    import pyarrow as pa

    if isinstance(column, np.ndarray) and column.dtype == object:
        return pa.array(column.tolist())
    return pa.array(column)


def installed(name: str) -> Any:
    """Import a package that people install themselves, or say how."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise ExtraError(f"{name} is not installed: pip install {name}") from error


def _shown(value: Any) -> str:
    if value is None or value != value:  # noqa: PLR0124 (not a number)
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)[:_WIDEST]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
