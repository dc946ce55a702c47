"""Rates in a file: what was written, in a few numbers, and how to read it back."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.batch.folder import Folder, fingerprint, open_folder
from observant.batch.memory import BYTES_PER_VISIT, choose_engine, expected_memory
from observant.batch.partitions import GroupedLogs, Spill, spill_visits
from observant.batch.rows import merge_sorted, read_stream, write_stream
from observant.batch.sample import joined, load_prior, save_prior
from observant.errors import InputError, VisitLogError
from observant.estimation import rates as in_memory
from observant.estimation.pooling import learn_prior, rates_under, sampled_ranks
from observant.estimation.rates import ENOUGH_TO_POOL, EVIDENCE, RateTable, refuse_bad_options
from observant.formats import format_of, read_batches, write_batches
from observant.tables import Note
from observant.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from observant.arrays import Floats
    from observant.estimation.priors import Prior
    from observant.visits import VisitLog


@dataclass(frozen=True, eq=False)
class RateFile:
    """Rates written to a file, and the collection in a few numbers."""

    path: str
    visits: int
    changes: int
    rate_per_day: Floats
    """Of every source, in the order of the file."""
    evidence_code: NDArray[np.int8]
    method: str
    confidence: float
    notes: tuple[str, ...]
    partitions: int
    resumed: bool
    """Whether an earlier, interrupted run had done a part of the work."""

    def __len__(self) -> int:
        return len(self.rate_per_day)

    def summary(self) -> dict[str, Any]:
        """The same few numbers as those of a `RateTable`."""
        empty = np.empty(0)
        return RateTable(
            source=self.rate_per_day,  # only their number is asked for
            visits=np.array([self.visits]),
            changes=np.array([self.changes]),
            exposure_days=empty,
            rate_per_day=self.rate_per_day,
            rate_low=empty,
            rate_high=empty,
            evidence_code=self.evidence_code,
            method=self.method,
            confidence=self.confidence,
            notes=self.notes,
        ).summary()

    def table(self) -> RateTable:
        """Read the file back, for as many sources as memory holds."""
        return read_rates(self.path, self.method, self.confidence, self.notes)

    def __repr__(self) -> str:
        return f"<RateFile {self.path}: {len(self):,} sources, method {self.method}>"


def read_rates(
    file: str, method: str, confidence: float = 0.95, notes: tuple[str, ...] = ()
) -> RateTable:
    """Rates that were written to a file, as a table."""
    import pyarrow as pa

    batches = read_batches(file, (*RateTable.columns, "time"))
    return rate_table_of(pa.Table.from_batches(batches), method, confidence, notes)


def rate_table_of(
    table: pa.Table, method: str, confidence: float, notes: tuple[str, ...] = ()
) -> RateTable:
    """Rates in an Arrow table with the columns of a `RateTable`, as a table of ours."""
    import pyarrow as pa

    kinds = dict.fromkeys(("visits", "changes"), pa.int64())
    numbers = {
        name: table[name].cast(kinds.get(name, pa.float64())).to_numpy()
        for name in RateTable.columns[1:9]
        if name not in {"rate_ahead", "rate_mean"}
    }
    for name in {"rate_ahead", "rate_mean"} & set(table.column_names):
        if known_means(table[name]):
            numbers[name] = table[name].cast(pa.float64()).to_numpy()
    return RateTable(
        source=table["source"].cast(pa.large_string()).combine_chunks(),
        **numbers,
        evidence_code=evidence_codes(table["evidence"].combine_chunks()),
        method=method,
        confidence=confidence,
        notes=notes,
    )


def known_means(column: Any) -> bool:
    """Whether a column of means holds any; methods that look at a source alone leave it empty."""
    return not set(column.slice(0, 1).to_pylist()) <= {None, ""}


def evidence_codes(evidence: pa.Array) -> NDArray[np.int8]:
    """Index into `EVIDENCE` of each word."""
    import pyarrow as pa
    import pyarrow.compute as pc

    codes = pc.index_in(evidence, pa.array(EVIDENCE))
    return np.asarray(codes.to_numpy(zero_copy_only=False), np.int8)


# -- Rates of a visit log that does not fit in memory: partition by partition, to one sorted file -
#
# 1. The visits are read once and spilled to partitions (`partitions`).
# 2. Each partition is a visit log and is estimated by `observant.estimate_rates`, some at a time.
#    The pooled methods first learn the prior from the sources that the in-memory method would take.
# 3. The answers of the partitions, each sorted by source, are merged into the output.
#
# Memory holds the partitions being worked on and, for the summary, nine bytes a source.


_MOST_PARTITIONS = 512
_UNKNOWN_PARTITIONS = 128
_WHILE_GROUPED = 6
"""A partition needs so many times the memory of the finished log while it becomes one."""
_BYTES_PER_ROW = 200
"""Of a row of the answer, while answers are merged."""


def estimate_rates(
    *files: Any,
    output: str | os.PathLike[str],
    method: str = "bias-reduced",
    confidence: float = 0.95,
    use_first_age: bool = False,
    zero_truncated: bool = False,
    group: str | None = None,
    format: str | None = None,  # noqa: A002 - the word users say
    time_unit: str = "s",
    skew: float = 1.0,
    on_duplicate: str = "error",
    memory: str | int | None = None,
    spill: str | os.PathLike[str] | None = None,
    partitions: int | None = None,
    workers: int | None = None,
    progress: Callable[[str, int], object] | None = None,
) -> RateFile:
    """Estimate how often each source changes, from more visits than memory holds.

    The rates are those of `observant.estimate_rates` for the same visits: the same bits, or where
    NumPy adds up in another order within 1e-9 of them; with `group` within 1e-2 (the groups' EM
    stops when those it runs with have settled). They are written sorted by source.

    Parameters
    ----------
    files
        As for `observant.read_visits`.
    output
        Where the rates go: Parquet, CSV or JSON Lines by its ending.
    memory
        The most to use, ``4GB`` for one; a share of what is free unless told.
    spill
        Folder for the partitions, empty or left by an interrupted run of the same files, which
        then continues. ``OUTPUT.spill`` unless told. It is removed in the end.
    partitions, workers
        How many there are, and how many are worked on at once; unless told, so that all of it
        fits in memory.
    progress
        Called with ``reading``, ``grouping``, ``estimating`` or ``writing``, and with how many
        rows or sources were done.

    The other options are those of `observant.estimate_rates` and `observant.read_visits`.
    """
    refuse_bad_options(method, confidence, zero_truncated=zero_truncated)
    if not files:
        raise InputError("no file to read visits from")
    format_of(os.fspath(output))
    question = {
        "method": method,
        "confidence": confidence,
        "use_first_age": use_first_age,
        "zero_truncated": zero_truncated,
    }
    reading = {
        "group": group, "time_unit": time_unit, "skew": skew, "on_duplicate": on_duplicate,
    }  # fmt: skip
    # Groups are pooled whole; where nothing is pooled within them, any source may go anywhere.
    by = "group" if group is not None and method in {"pooled", "auto"} else "source"
    prints = fingerprint(files)
    inputs = None if prints is None else {"files": prints, "format": format, "by": by, **reading}
    workers = workers or os.cpu_count() or 1
    needed = expected_memory(files, format)
    limit = choose_engine("disk", memory, needed)[1]
    count = partitions or _partitions(needed, limit, workers)
    tell = progress or (lambda _doing, _amount: None)
    place = f"{os.fspath(output)}.spill" if spill is None else spill
    with open_folder(place, inputs, question) as folder:
        spilled = spill_visits(
            files,
            folder,
            count,
            by=by,
            format=format,
            rows_at_once=min(max(limit // (8 * BYTES_PER_VISIT), 1 << 16), 1 << 20),
            progress=lambda n: tell("reading", n),
            **reading,
        )
        run = _Run(folder, spilled, question, workers, limit, tell)
        return run.answer(os.fspath(output))


class _Run:
    """The steps after the spill, each of which can be taken up again."""

    def __init__(
        self,
        folder: Folder,
        spill: Spill,
        question: dict[str, Any],
        workers: int,
        limit: int,
        tell: Callable[[str, int], object],
    ) -> None:
        self._folder, self._spill, self._tell = folder, spill, tell
        self._logs = GroupedLogs(folder.path)
        self._method: str = question["method"]
        self._options = {n: question[n] for n in ("confidence", "use_first_age")}
        self._zero_truncated: bool = question["zero_truncated"]
        rows = spill.rows
        self._partitions = [p for p, count in enumerate(rows) if count]
        self._workers = min(workers, len(self._partitions))
        share = limit // (4 * _BYTES_PER_ROW * len(self._partitions))
        self._rows_per_batch = min(max(share, 256), 1 << 16)

    def answer(self, output: str) -> RateFile:
        notes: list[str] = []
        if self._method == "auto" or self._method.startswith("pooled"):
            self._group()
            if self._method == "auto":
                # The same choice as in memory, now that the sources are counted.
                few = self._sources < ENOUGH_TO_POOL
                self._method = "bias-reduced" if few else "pooled"
                notes.append(
                    f"method {self._method} was chosen for {counted(self._sources, 'source')}"
                )
        prior: Prior | None = None
        if self._method.startswith("pooled"):
            prior, said = self._prior()
            notes += said
        self._estimate(prior)
        return self._merge(output, notes)

    # -- the steps -------------------------------------------------------------------------

    def _group(self) -> None:
        def one(partition: int) -> dict[str, Any]:
            log = self._spill.log(partition)
            self._logs.save(partition, log, min(self._rows_per_batch, 1 << 14))
            return {"sources": len(log.sources), "notes": Note.plain(log.notes)}

        self._each("grouped", "grouping", one, then=self._spill.remove)

    def _prior(self) -> tuple[Prior, list[str]]:
        path, state = self._folder.path / "answer-prior.npz", self._folder.state
        if "prior" in state["answered"]:
            return load_prior(path), list(Note.restored(state["answered"]["prior"]))
        chosen = self._logs.at_ranks(self._partitions, sampled_ranks(self._sources))
        tables = []
        for partition, places in chosen.items():
            log = self._log(partition)
            mask = np.zeros(len(log.sources), bool)
            mask[places] = True
            tables.append(log.select(mask).to_arrow())
        prior, notes = learn_prior(
            joined(tables),
            self._method,
            use_first_age=self._options["use_first_age"],
            zero_truncated=self._zero_truncated,
        )
        save_prior(prior, path)
        state["answered"]["prior"] = Note.plain(notes)
        self._folder.save()
        return prior, notes

    def _estimate(self, prior: Prior | None) -> None:
        threads = 1 if self._workers > 1 else None

        def one(partition: int) -> dict[str, Any]:
            log = self._log(partition)
            if prior is None:
                table = in_memory.estimate_rates(
                    log, self._method, threads=threads, **self._options
                )
            else:
                table = rates_under(log, prior, self._method, threads=threads, **self._options)
            write_stream(self._answer(partition), table.to_arrow(), self._rows_per_batch)
            return {
                "sources": len(table),
                "visits": int(table.visits.sum()),
                "changes": int(table.changes.sum()),
                "notes": Note.plain(table.notes),
            }

        self._each("answered", "estimating", one)

    def _merge(self, output: str, notes: list[str]) -> RateFile:
        answered = [self._folder.state["answered"][str(p)] for p in self._partitions]
        codes, rates = [], []

        def batches() -> Iterator[pa.RecordBatch]:
            before: str | None = None
            for table in merge_sorted([read_stream(self._answer(p)) for p in self._partitions]):
                before = _refuse_twice(table["source"], before)
                # A copy: a view would keep all columns of the batches that it was read in.
                rates.append(np.array(table["rate_per_day"].to_numpy()))
                evidence = table["evidence"].combine_chunks()
                codes.append(evidence_codes(evidence))
                self._tell("writing", len(table))
                yield from table.to_batches()

        write_batches(batches(), output)
        said = Note.added(Note.restored(part["notes"]) for part in answered)
        return RateFile(
            path=output,
            visits=sum(part["visits"] for part in answered),
            changes=sum(part["changes"] for part in answered),
            rate_per_day=np.concatenate(rates),
            evidence_code=np.concatenate(codes),
            method=self._method,
            confidence=self._options["confidence"],
            notes=(*said, *notes),
            partitions=len(self._partitions),
            resumed=self._folder.resumed,
        )

    # -- what they share ----------------------------------------------------------------------

    @property
    def _sources(self) -> int:
        return sum(self._folder.state["grouped"][str(p)]["sources"] for p in self._partitions)

    def _log(self, partition: int) -> VisitLog:
        grouped = self._folder.state.get("grouped", {}).get(str(partition))
        if grouped is None:
            return self._spill.log(partition)
        return self._logs.load(partition, Note.restored(grouped["notes"]))

    def _answer(self, partition: int) -> Path:
        return self._folder.path / f"answer-{partition:04}.arrow"

    def _each(
        self,
        step: str,
        doing: str,
        one: Callable[[int], dict[str, Any]],
        then: Callable[[int], object] = lambda _: None,
    ) -> None:
        """Do a step for the partitions that lack it, some at a time; each is written down."""
        import pyarrow as pa

        done = self._folder.state.setdefault(step, {})
        left = [p for p in self._partitions if str(p) not in done]
        with ThreadPoolExecutor(max(self._workers, 1)) as pool:
            running = {pool.submit(one, p): p for p in left}
            try:
                for future in as_completed(running):
                    partition = running[future]
                    done[str(partition)] = future.result()
                    self._folder.save()
                    pa.default_memory_pool().release_unused()
                    then(partition)
                    self._tell(doing, done[str(partition)]["sources"])
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise


def _partitions(needed: int | None, limit: int, workers: int) -> int:
    """So many that what is worked on at once fits: rows being put in order need more than later."""
    if needed is None:
        return _UNKNOWN_PARTITIONS
    wanted = -(-_WHILE_GROUPED * needed * workers // limit)
    return min(max(wanted, 2 * workers), _MOST_PARTITIONS)


def _refuse_twice(sources: pa.ChunkedArray, before: str | None) -> str:
    """A source that is in two partitions belongs to two groups."""
    import pyarrow.compute as pc

    names = sources.combine_chunks()
    twice = pc.equal(names[1:], names[:-1])
    found = None
    if before is not None and names[0].as_py() == before:
        found = before
    elif pc.any(twice).as_py():
        found = names[int(np.argmax(np.asarray(twice)))].as_py()
    if found is not None:
        raise VisitLogError("a source belongs to one group, and this one has two", source=found)
    return str(names[-1].as_py())
