"""As many whole histories as memory holds, of a log of any size, in one pass.

Some questions are about a collection, not about each of its sources: how the rates spread, which
shape intervals have. A random sample of sources answers them. Sources are kept while their hash is
below a threshold; when the rows at hand outgrow the memory, the threshold is halved and half of the
sources leave, with all of their visits. So every source has the same chance, whole histories stay,
and a log that fits is kept whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.batch.memory import BYTES_PER_VISIT, parse_size
from observant.batch.rows import EVIDENCE_COLUMNS, RowReader, hashes_of, name_of
from observant.estimation.priors import Prior
from observant.formats import read_batches
from observant.units import counted
from observant.visits import VisitLog
from observant.visits.reader import LogReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray


# -- The prior of a collection that is in parts: the histories it is learned from, and its file ----
#
# In memory the prior is learned from the histories of at most 20,000 sources, evenly spread over
# the alphabet (`observant.estimation.pooling.sampled_ranks`). A collection in parts is asked for
# the histories of the very same sources: they are the statistic that is merged, its size does not
# grow with the log, and the prior is the same to the bit.


def joined(tables: Iterable[pa.Table]) -> VisitLog:
    """One log of many small ones, given as tables of visits that were checked before."""
    import pyarrow as pa

    parts = [
        part.drop_columns([n for n in ("group",) if n in part.column_names]) for part in tables
    ]
    return VisitLog.from_arrow(pa.concat_tables(parts, promote_options="default"), skew=36_525.0)


def save_prior(prior: Prior, path: Path) -> None:
    """Write the prior of a collection to a file."""
    with path.open("wb") as stream:
        np.savez(
            stream,
            rates=prior.rates,
            weights=prior.weights,
            lasting=[] if prior.lasting is None else prior.lasting,
            scalars=np.array([prior.log_likelihood, *(prior.gamma or ())]),
        )


def load_prior(path: Path) -> Prior:
    """Read what `save_prior` wrote."""
    with np.load(path) as found:
        likelihood, *gamma = found["scalars"].tolist()
        return Prior(
            rates=found["rates"],
            weights=found["weights"],
            log_likelihood=likelihood,
            gamma=(gamma[0], gamma[1]) if gamma else None,
            lasting=found["lasting"] if len(found["lasting"]) else None,
        )


_KEY = 0x9E3779B97F4A7C15
"""The same sources in every run: the answer is deterministic."""
_WHOLE = 1 << 64


def sample_visits(
    *files: Any,
    memory: str | int,
    source: str | None = None,
    format: str | None = None,  # noqa: A002 - the word users say
    group: str | None = None,
    time_unit: str = "s",
    skew: float = 1.0,
    on_duplicate: str = "error",
    progress: Callable[[int], object] | None = None,
) -> VisitLog:
    """Read the visits of as many sources as fit; a note says how many of the visits that is.

    With `source`, the visits of that source alone, all of them. The other options are those of
    `observant.read_visits`.
    """
    reading = {
        "group": group, "time_unit": time_unit, "skew": skew, "on_duplicate": on_duplicate,
    }  # fmt: skip
    kept = _Kept(max(parse_size(memory) // BYTES_PER_VISIT, 1), source)
    door = RowReader(reading, [], [])
    for file in files:
        door.begin(name_of(file))
        for batch in read_batches(file, (*EVIDENCE_COLUMNS, *([group] if group else [])), format):
            kept.add(door.checked(batch))
            if progress is not None:
                progress(batch.num_rows)
    if door.rows == 0:
        door.finish()  # says that there are no visits
    reader = _SampleReader(kept, door, reading)
    for part in kept.parts:
        reader.add(part.select(door.columns))
    log = reader.finish()
    if kept.threshold == _WHOLE:
        return log
    share = f"{100 * len(log) / door.rows:.3g} %"
    note = (
        f"from a random sample of {counted(len(log.sources), 'source')}, {share} of "
        f"{counted(door.rows, 'visit')}: more do not fit in the memory allowed"
    )
    return type(log)(**{**{n: getattr(log, n) for n in log.__dataclass_fields__},
                        "notes": (*log.notes, note)})  # fmt: skip


class _Kept:
    """Rows whose source's hash is below the threshold."""

    def __init__(self, most: int, source: str | None) -> None:
        self._most, self._source = most, source
        self.threshold = _WHOLE
        self.parts: list[pa.RecordBatch] = []
        self._hashes: list[NDArray[np.uint64]] = []
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._source is not None:
            self.parts.append(batch.filter(pc.equal(batch.column("source"), self._source)))
            return
        hashes = hashes_of(batch.column("source"), _KEY)
        if self.threshold < _WHOLE:
            inside = hashes < np.uint64(self.threshold)
            batch, hashes = batch.filter(pa.array(inside)), hashes[inside]
        self.parts.append(batch)
        self._hashes.append(hashes)
        self._rows += batch.num_rows
        while self._rows > self._most and self.threshold > 1 and len(self.parts):
            self._halve()

    def _halve(self) -> None:
        import pyarrow as pa

        self.threshold //= 2
        inside = [hashes < np.uint64(self.threshold) for hashes in self._hashes]
        if not any(mask.any() for mask in inside):
            self.threshold *= 2
            self._most = self._rows  # one source is more than asked for; it is kept all the same
            return
        self.parts = [p.filter(pa.array(m)) for p, m in zip(self.parts, inside, strict=True)]
        self._hashes = [h[m] for h, m in zip(self._hashes, inside, strict=True)]
        self._rows = sum(part.num_rows for part in self.parts)


class _SampleReader(LogReader):
    """Names the place of a row in the files it came from."""

    def __init__(self, kept: _Kept, door: RowReader, reading: dict[str, Any]) -> None:
        super().__init__(**{**reading, "group": "group" if reading.get("group") else None})
        self._kept, self._door = kept, door

    def place(self, row: int) -> tuple[str | None, int]:
        for part in self._kept.parts:
            if row < part.num_rows:
                return self._door.place(part.column("row")[row].as_py())
            row -= part.num_rows
        raise IndexError(row)
