"""Tables of rates, as `observant estimate -o` writes them or as people have them."""

from __future__ import annotations

import sys
from typing import Any

from observant.cli.console import named_format
from observant.errors import InputError
from observant.units import parse_duration

_NUMBERS = ("rate_per_day", "importance", "cost")
_EVIDENCE = ("rate_ahead", "rate_mean", "visits", "changes", "exposure_days", "method", "evidence")
"""What the tables of `observant estimate -o` tell of how well each rate is known."""


def read_rates(
    file: str, importance: str | None = None, format_: str | None = None
) -> dict[str, Any]:
    """Read the columns; every number is checked, and a bad one named with its source."""
    import pyarrow as pa

    from observant.batch.plan_file import numbers_in
    from observant.formats import read_batches

    named_format([file], format_)
    wanted = (
        "source",
        *_NUMBERS,
        *_EVIDENCE,
        "host",
        "grace",
        *([importance] if importance else []),
    )
    batches = list(read_batches(sys.stdin.buffer if file == "-" else file, wanted, format_))
    table = pa.Table.from_batches(batches) if batches else pa.table({})
    name = "standard input" if file == "-" else file
    for column in ("source", "rate_per_day", *([importance] if importance else [])):
        if column not in table.column_names:
            hint = "; `observant estimate -o` makes a table of rates"
            raise InputError(
                f"has no column {column!r}; its columns are {', '.join(table.column_names)}"
                f"{hint if column == 'rate_per_day' else ''}",
                file=name,
            )
    if not table.num_rows:
        raise InputError("has no sources", file=name)
    columns: dict[str, Any] = {"source": [str(s) for s in table["source"].to_pylist()]}
    _refuse_doubled(columns["source"], name)
    for column in {*_NUMBERS, importance or "importance"} & set(table.column_names):
        columns[column] = numbers_in(
            table[column].combine_chunks(), column, columns["source"], name
        )
    if "host" in table.column_names:
        columns["host"] = [str(host or "") for host in table["host"].to_pylist()]
    if "grace" in table.column_names:
        columns["grace"] = _durations(table["grace"], "grace", columns["source"], name)
    columns["known"], columns["notes"] = _known(table, columns, name)
    return columns


def _known(table: Any, columns: dict[str, Any], file: str) -> tuple[Any, tuple[str, ...]]:
    """All that a table tells of the rates, and what is to be said of it; else the rates alone."""
    from observant.batch.plan_file import numbers_in
    from observant.batch.rate_file import evidence_codes, known_means
    from observant.estimation.rates import RateTable
    from observant.planning.inputs import known_rates, posterior_of

    def numbers(column: str) -> Any:
        return numbers_in(table[column].combine_chunks(), column, columns["source"], file)

    present = set(table.column_names)
    if "rate_mean" in present and known_means(table["rate_mean"]):
        name = "rate_ahead" if "rate_ahead" in present else "rate_per_day"
        ahead, means = (numbers(c) for c in (name, "rate_mean"))
        return known_rates(ahead, means), ()
    if not present.issuperset(_EVIDENCE[2:]):
        return columns["rate_per_day"], ()
    counts = ("visits", "changes", "exposure_days")
    seen = {name: numbers(name) for name in counts}
    methods = set(table["method"].to_pylist())
    rate = columns["rate_per_day"]
    return posterior_of(
        RateTable(
            source=table["source"],
            **seen,
            rate_per_day=rate,
            rate_low=rate,  # not asked for
            rate_high=rate,
            evidence_code=evidence_codes(table["evidence"].combine_chunks()),
            method=str(methods.pop()) if len(methods) == 1 else "",
            confidence=0.95,
        )
    )


def _refuse_doubled(sources: list[str], file: str) -> None:
    if len(set(sources)) < len(sources):
        seen: set[str] = set()
        for row, source in enumerate(sources, 1):
            if source in seen:
                raise InputError("is there twice", file=file, row=row, source=source)
            seen.add(source)


def _durations(column: Any, name: str, sources: list[str], file: str) -> Any:
    """Days in a column of durations or numbers of days; NaN where a cell is empty."""
    import numpy as np

    encoded = column.combine_chunks().dictionary_encode()
    days = []
    for cell in encoded.dictionary.to_pylist():
        try:
            days.append(np.nan if cell == "" else parse_duration(cell))
        except InputError:
            days.append(-1.0)
    where = encoded.indices.fill_null(len(days)).to_numpy(zero_copy_only=False)
    values = np.array([*days, np.nan])[where]
    if (values < 0.0).any():
        at = int(np.argmax(values < 0.0))
        raise InputError(
            f"must be a duration such as 6h, or days, not negative, and is {column[at].as_py()!r}",
            file=file,
            row=at + 1,
            column=name,
            source=sources[at],
        )
    return values
