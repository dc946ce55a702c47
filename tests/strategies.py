"""Hypothesis strategies for visit logs, and what it means that two logs are the same."""

import numpy as np
from hypothesis import strategies as st

from observant.times import MICROSECONDS_PER_DAY
from observant.visits import VisitLog

__all__ = ["assert_same_log", "log_of", "permuted", "rows_of", "source_ids", "visit_columns"]

_LATEST = 84_006 * MICROSECONDS_PER_DAY
# Ids that some reader somewhere takes for a number, a time, a null, or the end of a cell.
_AWKWARD = [
    " ",
    " a",
    "a ",
    "a,b",
    'say "a"',
    '"',
    "a\nb",
    "a\r\nb",
    "\r",
    "a;b|c\td",
    "é",
    "\U0001f578",
    "\ufeffa",
    "a\x00b",
    "null",
    "NULL",
    "NA",
    "nan",
    "true",
    "1",
    "1.0",
    "1e5",
    "2026-01-31",
    "2026-01-31T12:00:00Z",
    "hex:00",
    "{}",
    "https://example.org/?q=a,b#c",
    "=1+1",
    "\\N",
    "'",
    "x" * 300,
]


def source_ids():
    text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
    return st.one_of(st.sampled_from(_AWKWARD), text, st.sampled_from(["a", "b"]))


def times(latest=_LATEST):
    """Microseconds since 1970, near to each other or far apart."""
    return st.one_of(st.integers(0, 20), st.integers(0, latest))


@st.composite
def visit_columns(draw, max_rows=12, *, sources=None, instants=None, group=True):
    """Keyword arguments of `VisitLog.from_columns`, times in microseconds; no row is refused.

    Each optional column is there or not, and each of its entries may be null. `sources` and
    `instants` are strategies that can make long histories of few sources.
    """
    sources = source_ids() if sources is None else sources
    instants = times() if instants is None else instants
    visits = draw(
        st.lists(st.tuples(sources, instants), min_size=1, max_size=max_rows, unique=True)
    )
    visited, at = zip(*visits, strict=True)
    digest_size = draw(st.integers(0, 4))
    optional = {
        "changed": st.booleans(),
        "last_modified": instants,
        "digest": st.one_of(
            st.sampled_from([b"A" * digest_size, b"B" * digest_size]),
            st.binary(min_size=digest_size, max_size=digest_size),
        ),
        "magnitude": st.floats(0, 1),
        "status": st.sampled_from([200, 200, 200, 304, 301, 404, 500, 0, -1, 32767, -32768]),
        "bytes": st.integers(0, 2**63 - 1),
    }
    columns = {"source": list(visited), "time": list(at)}
    for name, values in optional.items():
        if draw(st.booleans()):
            entry = st.one_of(st.none(), values)
            columns[name] = draw(
                st.lists(entry, min_size=len(visits), max_size=len(visits)).map(list)
            )
    if group and draw(st.booleans()):
        member = {source: draw(source_ids()) for source in sorted(set(visited))}
        columns["group"] = [member[source] for source in visited]
    return columns


def log_of(columns, **options):
    return VisitLog.from_columns(**columns, time_unit="us", **options)


@st.composite
def permuted(draw, columns):
    order = draw(st.permutations(range(len(columns["source"]))))
    return {name: [values[i] for i in order] for name, values in columns.items()}


def rows_of(log):
    return log.to_arrow().to_pylist()


def assert_same_log(left, right):
    """Every column, type and null of two logs is equal. Notes are not part of the data."""
    assert left.to_arrow().schema == right.to_arrow().schema
    assert rows_of(left) == rows_of(right)
    assert left.sources.to_pylist() == right.sources.to_pylist()
    assert np.array_equal(left.offsets, right.offsets)
    assert np.array_equal(left.time, right.time)
    assert np.array_equal(left.changed, right.changed)
    assert (left.last_modified is None) == (right.last_modified is None)
    if left.last_modified is not None:
        assert np.array_equal(left.last_modified, right.last_modified)
    assert {name: column.to_pylist() for name, column in left.extras.items()} == {
        name: column.to_pylist() for name, column in right.extras.items()
    }
    groups = [None if log.groups is None else log.groups.to_pylist() for log in (left, right)]
    assert groups[0] == groups[1]
