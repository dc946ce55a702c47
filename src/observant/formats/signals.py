"""Tables of signals: a row for every time that somebody said that a source may have changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from observant.errors import InputError, VisitLogError
from observant.formats import read_batches
from observant.times import MICROSECONDS_PER_DAY
from observant.visits.columns import MISSING, plain_column, text_in, times_in

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from observant.arrays import Floats, Integers

__all__ = ["SignalLog", "read_signals"]

_SOURCE, _TIME = ("source", "source_id", "url"), ("time", "t")


@dataclass(frozen=True, eq=False, repr=False)
class SignalLog:
    """Signals in the order of time; times are days since 1970."""

    names: tuple[str, ...]
    source: Integers
    """Of each signal, a number into `names`."""
    time: Floats
    """When it came."""
    kinds: tuple[str, ...]
    kind: Integers
    about: Floats
    """When it says that the change was; not-a-number where it does not."""

    def __len__(self) -> int:
        return len(self.time)

    def __repr__(self) -> str:
        return f"SignalLog: {len(self):,} signals about {len(self.names):,} sources"

    def numbered(self, sources: Sequence[str]) -> Integers:
        """The place of each signal's source in this list; −1 for one that is not there."""
        place = {name: i for i, name in enumerate(sources)}
        return np.array([place.get(name, -1) for name in self.names], np.int64)[self.source]


def read_signals(
    file: str | os.PathLike[str] | BinaryIO,
    *,
    format: str | None = None,  # noqa: A002 - the word users say
    time_unit: str = "s",
) -> SignalLog:
    """Read signals: the columns `source`, `time` and, where there are, `kind` and `changed_at`.

    `changed_at` is when the signal says that the change was. Without a `kind` all are "signal".
    """
    import pyarrow as pa

    name = str(getattr(file, "name", file))
    columns = (*_SOURCE, *_TIME, "kind", "changed_at")
    parts: list[tuple[Any, ...]] = []
    rows = 0
    for batch in read_batches(file, columns, format):
        here = batch.schema.names
        places = [next((c for c in known if c in here), None) for known in (_SOURCE, _TIME)]
        if None in places:
            raise InputError(
                f"a table of signals has the columns source and time, not {', '.join(here)}",
                file=name,
            )
        try:
            parts.append(_typed(batch, str(places[0]), str(places[1]), time_unit))
        except VisitLogError as error:
            row = None if error.row is None else rows + error.row + 1
            raise InputError(error.message, file=name, row=row, column=error.column) from error
        rows += batch.num_rows
    if not rows:
        raise InputError("has no rows", file=name)
    source, time, kind, about = zip(*parts, strict=True)
    at = np.concatenate(time)
    if np.isnan(at).any():
        raise InputError("a signal needs a time", file=name, row=int(np.argmax(np.isnan(at))) + 1)
    order = np.argsort(at, kind="stable")
    names, which = _codes(pa.chunked_array(source), order)
    kinds, sort = _codes(pa.chunked_array(kind), order)
    return SignalLog(names, which, at[order], kinds, sort, np.concatenate(about)[order])


def _typed(batch: Any, source: str, time: str, unit: str) -> tuple[Any, ...]:
    import pyarrow as pa

    def days(column: str) -> Floats:
        micros = times_in(plain_column(batch[column]), column, unit=unit)
        return np.where(micros == MISSING, np.nan, micros / MICROSECONDS_PER_DAY)

    here = batch.schema.names
    many = batch.num_rows
    kind = (
        text_in(plain_column(batch["kind"]), "kind").cast(pa.string()).fill_null("signal")
        if "kind" in here
        else pa.array(["signal"] * many)
    )
    return (
        text_in(plain_column(batch[source]), source).cast(pa.string()),
        days(time),
        kind,
        days("changed_at") if "changed_at" in here else np.full(many, np.nan),
    )


def _codes(column: Any, order: Integers) -> tuple[tuple[str, ...], Integers]:
    coded = column.combine_chunks().dictionary_encode()
    codes = np.asarray(coded.indices.to_numpy(zero_copy_only=False), np.int64)
    return tuple(coded.dictionary.to_pylist()), codes[order]
