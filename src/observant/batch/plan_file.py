"""A plan for more sources than memory holds: a few passes over a file of rates, then the answer.

The file is read and checked once; its numbers are kept on disk, 32 bytes a source, and added up at
the prices that `sketch` asks for. A last pass writes the plan, in the order of the file.
"""

from __future__ import annotations

import heapq
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.batch.folder import open_folder
from observant.batch.rate_file import known_means
from observant.batch.rows import hashes_of, read_stream
from observant.batch.sketch import Cells, PlanOptions, Sums, solve_price
from observant.errors import InputError
from observant.formats import format_of, read_batches, write_batches
from observant.planning.allocation import key_figures
from observant.visits.columns import plain_column, text_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from observant.arrays import Floats
    from observant.batch.sketch import Priced
    from observant.planning.problem import Problem, Solution


# -- What a plan achieves whose sources are not held: totals, in the words of `planning.Plan` -----


@dataclass(frozen=True, eq=False, kw_only=True)
class PlanTotals:
    """What a plan costs and achieves over all its sources; see `observant.planning.Plan`."""

    price: float
    collection_alpha: float
    alpha_error: float
    uniform_alpha: float
    penalty: float
    budget: float
    spent: float
    objective: str
    sources: int
    starved: int
    passes: int
    """How often the sources were added up to settle the price."""

    def summary(self) -> dict[str, Any]:
        """The plan in a few numbers."""
        return {
            **key_figures(self, self.sources, self.starved),
            "penalty": self.penalty,
            "passes": self.passes,
        }


def totals_of(found: Priced, objective: str) -> dict[str, Any]:
    """The fields of `PlanTotals` for a plan at the price that was found."""
    sums = found.sums
    return {
        "price": found.price,
        "collection_alpha": sums.alpha / sums.importance,
        "alpha_error": sums.doubt.error,
        "uniform_alpha": sums.uniform_alpha / sums.importance,
        "penalty": sums.penalty / sums.importance,
        "budget": found.budget,
        "spent": sums.spent,
        "objective": objective,
        "sources": sums.sources,
        "starved": sums.starved,
        "passes": found.passes,
    }


NUMBERS = ("rate_per_day", "rate_mean", "importance", "cost")
"""What a plan needs to know of each source."""


@dataclass(frozen=True, eq=False)
class PlanFile(PlanTotals):
    """A plan written to a file, and what it achieves; see `observant.planning.Plan`."""

    path: str | None
    first: tuple[dict[str, Any], ...]
    """The sources with the most visits, as rows."""
    sketch: Problem
    """The collection in cells, for questions that need no more."""

    def alpha_with(self, budget: float) -> float | None:
        """What another budget would buy, to four digits or so; None if it cannot suffice."""
        try:
            return self.sketch.alpha_of_solution(self.sketch.for_budget(budget))
        except InputError:
            return None


def plan(
    rates: Any,
    *,
    output: str | os.PathLike[str] | None = None,
    budget: float | None = None,
    target: float | None = None,
    objective: str = "freshness",
    grace: float = 0.0,
    importance: str | None = None,
    min_period: float = 0.0,
    max_period: float = float("inf"),
    format: str | None = None,  # noqa: A002 - the word users say
    spill: str | os.PathLike[str] | None = None,
    rows: int = 20,
) -> PlanFile:
    """Divide a visiting budget over the sources of a file of any size.

    The plan is that of `observant.plan` for the same rates: what is spent agrees with the budget
    to 1e-10, visits and currency to about 1e-9.

    Parameters
    ----------
    rates
        A file with the columns source and rate_per_day, and if there are any rate_ahead and
        rate_mean (as the pooled methods give them), importance and cost.
    output
        Where the plan goes, in the order of the rates.
    importance
        The name of the column with the weights, if it is another.
    rows
        How many of the most visited sources the answer holds.

    The other options are those of `observant.plan`. Caps on hosts need the plan in memory.
    """
    if output is not None:
        format_of(os.fspath(output))
    options = PlanOptions(budget, target, objective, grace, min_period, max_period)
    place = f"{os.fspath(output)}.spill" if spill is None and output is not None else spill
    with open_folder(place, None, {}) as folder:
        stored = _StoredRates.read(rates, folder.path, importance, format)
        found = solve_price(stored.cells, options, lambda s, t: stored.add_up(options, s, t))
        most: list[tuple[float, int, dict[str, Any]]] = []
        batches = stored.planned(options, found.solution, most, rows)
        if output is not None:
            write_batches(batches, output)
        elif rows:
            for _ in batches:
                pass
        return PlanFile(
            **totals_of(found, objective),
            path=None if output is None else os.fspath(output),
            first=tuple(row for *_, row in sorted(most, key=lambda item: (-item[0], -item[1]))),
            sketch=stored.cells.problem(options),
        )


def planned(names: pa.Array, problem: Problem, solution: Solution) -> pa.RecordBatch:
    """The rows of a plan for some sources: visits a day, period and currency in a solution."""
    import pyarrow as pa

    period = problem.mixed_periods(solution, slice(0, len(problem)))
    with np.errstate(divide="ignore"):
        visits = 1.0 / period
    return pa.record_batch(
        {
            "source": names,
            "visits_per_day": visits,
            "period_days": period,
            "alpha": 1.0 - (problem.current or problem.objective).mean_penalty(period),
        }
    )


class _StoredRates:
    """Checked rates on disk, batch by batch: numbers to be read often, names to be read once."""

    def __init__(self, path: Path, cells: Cells) -> None:
        self._path, self.cells = path, cells

    @classmethod
    def read(cls, file: Any, path: Path, importance: str | None, kind: str | None) -> _StoredRates:
        import pyarrow as pa

        name = os.fspath(file) if isinstance(file, str | os.PathLike) else "standard input"
        wanted = (
            "source",
            "time",
            "changes",
            "grace",
            "rate_ahead",
            *NUMBERS,
            *([importance] if importance else []),
        )
        once, cells, rows = _Once(name), [], 0
        numbers_file = pa.OSFile(os.fspath(path / "numbers.arrow"), "wb")
        names_file = pa.OSFile(os.fspath(path / "names.arrow"), "wb")
        packed = pa.ipc.IpcWriteOptions(compression="lz4")
        number_schema = pa.schema([(column, pa.float64()) for column in NUMBERS])
        name_schema = pa.schema([("source", pa.string())])
        with (
            numbers_file,
            names_file,
            pa.ipc.new_stream(numbers_file, number_schema) as numbers,
            pa.ipc.new_stream(names_file, name_schema, options=packed) as names,
        ):
            for batch in read_batches(file, wanted, kind):
                columns = checked_rates(batch, importance, name, rows)
                if "grace" in batch.schema.names:
                    raise InputError("graces of sources need the plan in memory", file=name)
                once.add(columns["source"], rows)
                rows += batch.num_rows
                if batch.num_rows:
                    cells.append(Cells.of(*(columns[n] for n in NUMBERS)))
                names.write_batch(pa.record_batch([columns["source"]], schema=name_schema))
                numbers.write_batch(
                    pa.record_batch([columns[n] for n in NUMBERS], schema=number_schema)
                )
        if not rows:
            raise InputError("has no sources", file=name)
        once.refuse(path / "names.arrow")
        return cls(path, Cells.merged(cells))

    def add_up(self, options: PlanOptions, solution: Solution, alike: float) -> Sums:
        return Sums.merged(Sums.of(problem, solution, alike) for problem in self._problems(options))

    def planned(
        self,
        options: PlanOptions,
        solution: Solution,
        most: list[tuple[float, int, dict[str, Any]]],
        rows: int,
    ) -> Iterator[pa.RecordBatch]:
        """The plan in batches; `most` is filled with the most visited sources."""
        before = 0
        for names, problem in zip(
            read_stream(self._path / "names.arrow"), self._problems(options), strict=True
        ):
            batch = planned(names.column("source"), problem, solution)
            visits = batch.column("visits_per_day").to_numpy()
            for at in np.argsort(-visits, kind="stable")[:rows].tolist():
                item = float(visits[at]), -(before + at)
                if len(most) < rows or item > most[0][:2]:
                    push = heapq.heappush if len(most) < rows else heapq.heapreplace
                    push(most, (*item, batch.slice(at, 1).to_pylist()[0]))
            before += len(visits)
            yield batch

    def _problems(self, options: PlanOptions) -> Iterator[Problem]:
        for batch in read_stream(self._path / "numbers.arrow"):
            if batch.num_rows:
                yield options.problem(*(batch.column(name).to_numpy() for name in NUMBERS))


class _Once:
    """Refuses a source that is there twice, at no cost where the file is sorted."""

    def __init__(self, file: str) -> None:
        self._file, self._sorted, self._last = file, True, ""
        self._key = int.from_bytes(os.urandom(8)) | 1
        self._hashes: list[NDArray[np.uint64]] = []

    def add(self, names: pa.Array, before: int) -> None:
        import pyarrow.compute as pc

        if not len(names):
            return
        rising = bool(pc.all(pc.less(names[:-1], names[1:]), min_count=0).as_py())
        rising &= before == 0 or self._last < names[0].as_py()
        self._last = names[-1].as_py()
        self._sorted &= rising
        self._hashes.append(hashes_of(names, self._key))

    def refuse(self, names: Path) -> None:
        if self._sorted:
            return
        ordered = np.sort(np.concatenate(self._hashes))
        doubled = ordered[1:][ordered[1:] == ordered[:-1]]
        if not len(doubled):
            return
        seen: set[str] = set()
        row = 0
        for batch in read_stream(names):
            column = batch.column("source")
            for at in np.flatnonzero(np.isin(hashes_of(column, self._key), doubled)).tolist():
                source = column[at].as_py()
                if source in seen:
                    raise InputError(
                        "is there twice", file=self._file, row=row + at + 1, source=source
                    )
                seen.add(source)
            row += len(column)


def checked_rates(
    batch: pa.RecordBatch, importance: str | None, file: str, before: int
) -> dict[str, Any]:
    """Columns of a batch of rates; a bad number is named with its row and source."""
    import pyarrow as pa

    present = batch.schema.names
    weight = importance or "importance"
    for column in ("source", "rate_per_day", *([importance] if importance else [])):
        if column not in present:
            raise InputError(
                f"has no column {column!r}; its columns are {', '.join(present)}", file=file
            )
    names = text_in(plain_column(batch.column("source")), "source").cast(pa.string())
    columns: dict[str, Any] = {"source": names}
    rate = "rate_per_day" if _unknown(batch, "rate_ahead") else "rate_ahead"
    for column, given in zip(NUMBERS, (rate, "rate_mean", weight, "cost"), strict=True):
        if given not in present or (column == "rate_mean" and _unknown(batch, column)):
            alone = columns["rate_per_day"] if column == "rate_mean" else np.ones(batch.num_rows)
            columns[column] = alone
            continue
        cells = batch.column(given)
        columns[column] = numbers_in(cells, given, names, file, before, zero=column != "cost")
    _refuse_never_seen(batch, columns, file, before)
    return columns


def numbers_in(
    column: pa.Array, name: str, sources: Any, file: str, before: int = 0, *, zero: bool = True
) -> Floats:
    """The numbers of a column, none below zero; a bad one is named with its row and source."""
    values = _floats(column)
    good = np.isfinite(values) & (values >= 0.0 if zero else values > 0.0)
    if not good.all():
        at = int(np.argmin(good))
        unknown = name in {"rate_per_day", "rate_ahead"} and not np.isfinite(values[at])
        hint = "; `observant estimate --method pooled` gives every source a rate" if unknown else ""
        raise InputError(
            f"must be a finite number, {'not negative' if zero else 'above 0'}, "
            f"and is {column[at].as_py()!r}{hint}",
            file=file,
            row=before + at + 1,
            column=name,
            source=str(sources[at]),
        )
    return values


def _unknown(batch: pa.RecordBatch, column: str) -> bool:
    """Whether a table leaves a column open, as methods do that look at a source alone."""
    return column not in batch.schema.names or not known_means(batch.column(column))


def _refuse_never_seen(
    batch: pa.RecordBatch, columns: dict[str, Any], file: str, before: int
) -> None:
    """A source that was never seen to change is not one that never changes."""
    if "changes" not in batch.schema.names:
        return
    never = (columns["rate_per_day"] == 0.0) & (_floats(batch.column("changes")) == 0.0)
    if never.any():
        at = int(np.argmax(never))
        raise InputError(
            "was never seen to change, which is not a rate of 0: take the rates of `observant "
            "estimate --method pooled`, or plan in memory (--engine memory)",
            file=file,
            row=before + at + 1,
            column="rate_per_day",
            source=columns["source"][at].as_py(),
        )


def _floats(column: pa.Array) -> Floats:
    import pyarrow as pa

    try:
        cast = plain_column(column).cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return np.array([_float(cell) for cell in column.to_pylist()])
    return np.asarray(cast.to_numpy(zero_copy_only=False))


def _float(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return float("nan")
