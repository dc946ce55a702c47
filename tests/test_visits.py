"""The visit log: what goes in, what comes out, what is refused and how the refusal reads."""

import datetime as dt
import decimal
import pickle
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observant.errors import InputError, ObservantError, VisitLogError
from observant.estimation.evidence import CHANGED, Evidence
from observant.times import MICROSECONDS_PER_DAY
from observant.visits import LogReader, VisitLog
from observant.visits.columns import MISSING
from observant.visits.order import (
    SourceIndex,
    _CompiledIndex,
    blocks_of_sources,
    sort_rows,
)

from .strategies import assert_same_log, log_of, permuted, rows_of, source_ids, visit_columns

SECOND = 1_000_000
DAY = MICROSECONDS_PER_DAY
NEW_YEAR = 1_767_225_600  # 2026-01-01T00:00:00Z
quick = settings(max_examples=60, deadline=None)


def visits(*rows, **options):
    """A log of one source from (day, status or None, changed, digest, last_modified) rows."""
    day, status, changed, digest, last_modified = zip(*rows, strict=True)
    return VisitLog.from_columns(
        ["a"] * len(rows),
        list(day),
        list(changed),
        list(last_modified),
        digest=list(digest),
        status=list(status),
        time_unit="d",
        **options,
    )


# -- what holds for every log -------------------------------------------------------------------


@pytest.mark.slow
@quick
@given(st.data())
def test_the_order_of_rows_does_not_matter(data):
    columns = data.draw(visit_columns())
    assert_same_log(log_of(columns), log_of(data.draw(permuted(columns))))


@pytest.mark.slow
@quick
@given(visit_columns())
def test_the_log_keeps_every_visit_in_order_of_source_and_time(columns):
    log = log_of(columns)
    sources = log.sources.to_pylist()
    # Alphabetical by the bytes of UTF-8, which is the order of code points.
    assert sources == sorted(set(columns["source"]))
    assert len(log) == len(columns["source"])
    given_visits = sorted(zip(columns["source"], columns["time"], strict=True))
    kept = list(
        zip(np.repeat(sources, log.visits_per_source).tolist(), log.time.tolist(), strict=True)
    )
    assert [time for _, time in kept] == [time for _, time in given_visits]
    assert [row["source"] for row in rows_of(log)] == [source for source, _ in given_visits]
    for name in ("digest", "magnitude", "status", "bytes"):
        assert (name in log.extras) == (name in columns)
        if name in columns:
            rows = zip(columns["source"], columns["time"], columns[name], strict=True)
            told = {(source, time): value for source, time, value in rows}
            assert log.extras[name].to_pylist() == [told[visit] for visit in given_visits]


def expected_changes(columns, skew=DAY):
    """`changed`, one source and one visit at a time: the rules as a person would apply them."""
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    answers = []
    last = content = None
    for row in sorted(rows, key=lambda row: (row["source"], row["time"])):
        if last is not None and last["source"] != row["source"]:
            last = content = None
        status, digest, date = row.get("status"), row.get("digest"), row.get("last_modified")
        if date is not None and date > row["time"] + skew:
            date = row["last_modified"] = None
        gone = status in {404, 410} and row.get("changed") and last is not None
        if status is not None and not 200 <= status < 400 and not gone:
            answers.append(-1)
            continue
        answer = row.get("changed")
        if last is None:
            answer = None
        elif answer is None and status == 304:
            answer = False
        elif answer is None and digest is not None and content is not None:
            answer = digest != content
        elif answer is None and date is not None:
            answer = date > last["time"] and date != last.get("last_modified")
        content = content if digest is None and answer is False else digest
        last = row
        answers.append(-1 if answer is None else int(answer))
    return answers


histories = visit_columns(
    sources=st.sampled_from("ab"),
    instants=st.integers(0, 12).map(lambda half_days: half_days * DAY // 2),
    group=False,
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.one_of(histories, visit_columns(group=False)))
def test_changed_is_what_a_person_would_say(columns):
    assert log_of(columns).changed.tolist() == expected_changes(columns)


@pytest.mark.slow
@quick
@given(visit_columns(), st.integers(1, 5))
def test_batches_of_any_size_make_the_same_log(columns, rows):
    log = log_of(columns)
    batches = list(log.to_batches(rows))
    assert [batch.num_rows for batch in batches[:-1]] == [rows] * (len(batches) - 1)
    assert 1 <= batches[-1].num_rows <= rows
    reader = LogReader(group="group" if "group" in columns else None)
    for batch in batches:
        reader.add(batch)
    assert_same_log(reader.finish(), log)


@pytest.mark.slow
@quick
@given(st.data())
def test_select_keeps_the_visits_of_the_selected_sources(data):
    columns = data.draw(visit_columns())
    log = log_of(columns)
    ids = log.sources.to_pylist()
    mask = data.draw(st.lists(st.booleans(), min_size=len(ids), max_size=len(ids)).filter(any))
    wanted = [source for source, keep in zip(ids, mask, strict=True) if keep]
    by_mask = log.select(mask)
    # Built anew from the rows of the wanted sources only.
    kept = [i for i, source in enumerate(columns["source"]) if source in wanted]
    assert_same_log(
        by_mask, log_of({name: [values[i] for i in kept] for name, values in columns.items()})
    )
    assert_same_log(log.select(data.draw(st.permutations(wanted * 2))), by_mask)


# -- numbers for ids, and sorting: small and compiled are one -----------------------------------


def codes_and_sources(parts, compiled_from):
    index = SourceIndex(compiled_from=compiled_from)
    for part in parts:
        index.add(part if isinstance(part, pa.Array) else pa.array(part, pa.string()))
    codes, sources = index.finish()
    return codes.tolist(), sources.to_pylist()


@pytest.mark.slow
@quick
@given(st.lists(st.lists(st.one_of(st.just(""), source_ids()), max_size=8), min_size=1, max_size=4))
def test_compiled_numbering_equals_plain(parts):
    ids = [source for part in parts for source in part]
    codes, sources = codes_and_sources(parts, 1)
    assert sources == sorted(set(ids))
    assert [sources[code] for code in codes] == ids
    assert (codes, sources) == codes_and_sources(parts, 1000)
    # From the second batch on compiled, the first waits for it.
    assert (codes, sources) == codes_and_sources(parts, max(len(parts[0]) + 1, 1))


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 15, 16, 17, 1000])
def test_compiled_numbering_tells_apart_ids_with_a_long_common_part(size):
    common = "é" * (size // 2) + "x" * (size % 2)
    ids = [common, common + "a", common + "b", "a" + common, common + common, common + "a"]
    assert codes_and_sources([ids], 1) == codes_and_sources([ids], 1000)


@pytest.mark.slow
def test_the_table_of_ids_grows_in_bytes_and_in_entries():
    many = [f"source {i * 7919 % 150_000}" for i in range(300_000)]  # past 2 ** 17 rows, twice
    long = ["y" * 3_000_000 + str(i % 3) for i in range(6)]  # past the first mebibyte
    codes, sources = codes_and_sources([many[:100_000], long, many[100_000:], long], 1)
    assert sources == sorted(set(many + long))
    ids = [*many[:100_000], *long, *many[100_000:], *long]
    assert [sources[code] for code in codes] == ids


@pytest.mark.parametrize("compiled_from", [1, 1000])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_slices_of_ids_are_numbered_from_where_they_begin(kind, compiled_from):
    whole = pa.array(["w", "longer than eight bytes", "", "a", "w", "b"], kind)
    codes, sources = codes_and_sources([whole.slice(1, 4), whole.slice(5)], compiled_from)
    assert sources == ["", "a", "b", "longer than eight bytes", "w"]
    assert codes == [3, 0, 1, 4, 2]


def test_ids_are_told_apart_by_their_bytes_where_hashes_are_equal():
    # Of every length up to 25, one id for each place of the only letter that differs.
    ids = [
        "a" * place + "b" + "a" * (size - place - 1) for size in range(26) for place in range(size)
    ]
    ids = ["", *ids, *reversed(ids)]
    index = _CompiledIndex()
    index._key = np.uint64(0)  # everything times nothing: all hashes are one
    codes = index.encode(pa.array(ids))
    distinct = index.distinct().to_pylist()
    assert distinct == list(dict.fromkeys(ids))
    assert [distinct[code] for code in codes] == ids


def test_nobody_can_write_ids_that_collide_whatever_the_key():
    from observant.visits import kernels

    # Words that differ in their highest bit collided under every key when the factor was fixed.
    first = np.frombuffer(b"abcdefghabcdefghzzzzzzzz", np.uint8)
    second = first.copy()
    second[[7, 11, 15]] ^= 0x80
    hashes = np.empty(2, np.uint64)
    for key in (0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3):
        kernels.hash_rows(
            np.concatenate([first, second]), np.array([0, 24, 48]), np.uint64(key), hashes
        )
        assert hashes[0] != hashes[1]


@quick
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=200))
def test_compiled_sorting_equals_plain(rows):
    codes = np.array([code for code, _ in rows], np.int32)
    time = np.array([time for _, time in rows], np.int64)
    order, offsets = sort_rows(codes, time, 4, compiled_from=0)
    plain, plain_offsets = sort_rows(codes, time, 4)
    assert order.tolist() == plain.tolist() == np.lexsort((time, codes)).tolist()
    assert offsets.tolist() == plain_offsets.tolist()


def test_long_histories_are_sorted_stably():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 3, 3000).astype(np.int32)
    time = rng.integers(0, 100, 3000)
    order, _ = sort_rows(codes, time, 3, compiled_from=0)
    assert order.tolist() == np.lexsort((time, codes)).tolist()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 20))
def test_blocks_cover_all_sources_once(counts, rows):
    offsets = np.concatenate([[0], np.cumsum(counts)])
    blocks = list(blocks_of_sources(offsets, rows))
    assert [source for first, last in blocks for source in range(first, last)] == list(
        range(len(counts))
    )
    assert all(
        last - first == 1 or offsets[last] - offsets[first] <= rows for first, last in blocks
    )


def test_a_log_over_many_blocks_equals_the_plain_rules(monkeypatch):
    # Blocks of three rows, so that sources end within, at and across blocks.
    def tiny(offsets):
        return blocks_of_sources(offsets, 3)

    monkeypatch.setattr("observant.visits.reader.blocks_of_sources", tiny)
    monkeypatch.setattr("observant.visits.reader.blocks_of_sources", tiny)
    rng = np.random.default_rng(2)
    columns = {
        "source": [f"s{i // 5}" for i in range(60)],
        "time": list(range(60)),
        "digest": [bytes([int(b)]) for b in rng.integers(0, 2, 60)],
        "status": [int(s) for s in rng.choice([200, 304, 500], 60)],
    }
    assert log_of(columns).changed.tolist() == expected_changes(columns)
    with pytest.raises(VisitLogError, match=r"row 33.*source 's6'.*first is row 32"):
        log_of(columns | {"time": [*range(32), 31, *range(33, 60)]})


# -- changed ------------------------------------------------------------------------------------


def test_a_digest_tells_of_a_change_and_back():
    log = visits(*[(day, None, None, d, None) for day, d in enumerate([b"A", b"B", b"A", b"A"])])
    assert log.changed.tolist() == [-1, 1, 1, 0]


def test_what_the_log_says_stands_against_digest_and_date():
    log = visits(
        (0, None, None, b"A", None), (1, None, False, b"B", 0.5), (2, None, True, b"B", 0.5)
    )
    assert log.changed.tolist() == [-1, 0, 1]


def test_a_date_after_the_visit_before_is_a_change():
    log = visits(
        (1, None, None, None, 0.5),
        (2, None, None, None, 0.5),
        (3, None, None, None, 2.5),
        (4, None, None, None, 3.0),  # at the very instant of the visit before: not after it
        (5, None, None, None, None),
    )
    assert log.changed.tolist() == [-1, 0, 1, 0, -1]


def test_a_digest_is_believed_before_a_date():
    log = visits((0, 200, None, b"A", None), (1, 200, None, b"A", 0.5))
    assert log.changed.tolist() == [-1, 0]


def test_not_modified_is_no_change_and_keeps_the_digest():
    log = visits(
        (0, 200, None, b"A", None),
        (1, 304, None, None, None),
        (2, 304, None, None, None),
        (3, 200, None, b"B", None),
        (4, 304, None, None, None),
        (5, 200, None, b"B", None),
    )
    assert log.changed.tolist() == [-1, 0, 0, 1, 0, 0]


def test_an_unchanged_visit_without_digest_saw_the_content_before():
    log = visits(
        (0, None, None, b"A", None),
        (1, None, False, None, None),
        (2, None, None, b"B", None),
        (3, None, None, None, 0.5),  # unchanged by its date
        (4, None, None, b"B", None),
        (5, None, True, None, None),  # changed to who knows what
        (6, None, None, b"B", None),
    )
    assert log.changed.tolist() == [-1, 0, 1, 0, 0, 1, -1]


@pytest.mark.parametrize("status", [400, 404, 500, 599, 600, 0, -1, 100, 199, 32767])
def test_a_failed_visit_observes_nothing_and_the_gap_runs_on(status):
    log = visits(
        (0, 200, None, b"A", None),
        (1, status, None, b"B", 0.5),  # the error page's digest and date are not the source's
        (2, 200, None, b"A", None),
        (3, status, None, None, None),
        (4, 200, None, b"C", None),
    )
    assert log.changed.tolist() == [-1, -1, 0, -1, 1]
    assert log.succeeded.tolist() == [True, False, True, False, True]
    assert log.time.tolist() == [day * DAY for day in range(5)]  # the visit itself is kept


@pytest.mark.parametrize("status", [404, 410])
def test_a_source_that_is_gone_has_changed_if_the_log_says_so(status):
    log = visits(
        (0, status, True, None, None),  # nothing is gone that was never there
        (1, 200, None, b"A", None),
        (2, status, True, None, None),
        (3, status, False, None, None),  # still: says nothing
        (4, 200, True, b"A", None),
        (5, 500, True, None, None),
    )
    assert log.changed.tolist() == [-1, -1, 1, -1, 1, -1]
    assert log.succeeded.tolist() == [False, True, True, False, True, False]
    assert Evidence.from_log(log).kind.tolist() == [CHANGED, CHANGED]


@pytest.mark.parametrize("status", [200, 204, 301, 304, 399, None])
def test_a_successful_visit_observes(status):
    log = visits((0, 200, None, b"A", None), (1, status, True, b"B", None))
    assert log.changed.tolist() == [-1, 1]
    assert log.succeeded.all()


def test_failed_first_visits_leave_the_first_success_as_the_first():
    log = visits((0, 500, None, None, None), (1, 200, None, b"A", None), (2, 200, None, b"B", None))
    assert log.changed.tolist() == [-1, -1, 1]


def test_a_source_that_always_failed_says_nothing():
    log = visits((0, 500, True, b"A", None), (1, 404, False, b"B", None))
    assert log.changed.tolist() == [-1, -1]
    assert log.notes == (
        (
            "2 failed visits were marked changed or unchanged; a failed visit observes nothing, "
            "so their marks were set aside"
        ),
    )


def test_null_in_the_middle_of_a_history_stays_unknown():
    log = visits(*[(day, None, c, None, None) for day, c in enumerate([None, True, None, False])])
    assert log.changed.tolist() == [-1, 1, -1, 0]


def test_a_null_digest_is_compared_with_nothing():
    log = visits(*[(day, None, None, d, None) for day, d in enumerate([b"A", None, b"A", b"A"])])
    assert log.changed.tolist() == [-1, -1, -1, 0]


def test_a_first_visit_marked_changed_is_noted():
    log = VisitLog.from_columns(["a", "a", "b"], [0, 1, 0], [True, True, None])
    assert log.changed.tolist() == [-1, 1, -1]
    assert log.notes == (
        (
            "1 source begins with a visit marked changed or unchanged; what it was compared with "
            "is not in the log, so it counts as a first visit"
        ),
    )


# -- dates of modification ----------------------------------------------------------------------


def test_a_date_beyond_the_skew_is_set_aside_counted_and_told():
    log = visits(
        (10, None, None, None, None),
        (20, None, None, None, 21.001),
        (30, None, None, None, 31.0),
        (40, None, None, None, 99.0),
    )
    assert log.last_modified.tolist() == [MISSING, MISSING, 30 * DAY, MISSING]
    assert log.changed.tolist() == [-1, -1, 1, -1]
    assert log.notes == ("set aside: 2 dates of modification more than 1d after the visit",)


def test_the_skew_can_be_said():
    rows = (10, None, None, None, None), (20, None, None, None, 25.0)
    assert visits(*rows, skew=6).notes == ()
    assert visits(*rows, skew="1w").notes == ()
    assert "more than 12h after" in visits(*rows, skew=0.5).notes[0]
    assert "more than 0s after" in visits(*rows, skew=0).notes[0]
    assert visits(*rows, skew=1e300).last_modified.tolist() == [MISSING, 20 * DAY]


@pytest.mark.parametrize("skew", [-1, float("nan"), float("inf"), "soon", None])
def test_a_skew_that_is_no_duration_is_refused(skew):
    with pytest.raises(InputError):
        visits((0, None, None, None, None), skew=skew)


def test_a_source_whose_clock_runs_ahead_does_not_change_twice():
    # The same date, half a day ahead of the first visit, is seen by the second: one change only.
    log = visits(
        (1, None, None, None, 0.5),
        (2, None, None, None, 2.5),
        (3, None, None, None, 2.5),
        (4, None, None, None, 2.5),
    )
    assert log.changed.tolist() == [-1, 1, 0, 0]
    assert log.last_modified.tolist() == [DAY // 2, 2 * DAY, 5 * DAY // 2, 5 * DAY // 2]


def test_dates_before_1970_are_set_aside():
    log = VisitLog.from_columns(
        ["a"] * 4, [1, 2, 3, 4], last_modified=["", "1969-12-31T23:59:59Z", "0001-01-01", "-1"]
    )
    assert log.last_modified.tolist() == [MISSING] * 4
    assert log.notes == ("set aside: 3 dates of modification before 1970",)


@pytest.mark.parametrize("date", [1e300, 2**62, float("inf"), "9999-12-31", "1e400"])
def test_a_date_out_of_all_reason_is_set_aside(date):
    log = VisitLog.from_columns(["a"], [1], last_modified=[date])
    assert log.last_modified.tolist() == [MISSING]
    assert "1 date of modification more than 1d after" in log.notes[0]


# -- times --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-01-01", 0),
        ("2026-01-01T00:00:01Z", 1),
        ("2026-01-01T00:00:01", 1),
        ("2026-01-01 00:00:01", 1),
        ("2026-01-01 00:00:01Z", 1),
        ("2026-01-01T02:00:01+02:00", 1),
        ("2026-01-01T02:00:01+0200", 1),
        ("2026-01-01T02:00:01+02", 1),
        ("2025-12-31T19:30:01-04:30", 1),
        ("2026-01-01T00:01", 60),
        ("2026-01-01T00:01Z", 60),
        ("2026-01-01T00:00:00.5Z", 0.5),
        ("2026-01-01T00:00:00.123456", 0.123456),
        ("2026-01-01T00:00:00.123456789Z", 0.123456),
        ("2026-01-01T00:00:00.123456789+00:00", 0.123456),
        ("2026-01-01 00:00:01 UTC", 1),
        ("2026-01-01 00:00:01.5 UTC", 1.5),
        ("2026-01-01 02:00:01 +0200", 1),
        ("2026-01-01t00:00:01z", 1),
        ("  2026-01-01  ", 0),
        (str(NEW_YEAR), 0),
        (f"{NEW_YEAR}.25", 0.25),
        (f" +{NEW_YEAR} ", 0),
        ("1.7672256e9", 0),
    ],
)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_times_as_people_write_them(text, seconds, kind):
    expected = NEW_YEAR * SECOND + round(seconds * SECOND)
    alone = VisitLog.from_columns(["a"], pa.array([text], kind))
    assert alone.time.tolist() == [expected]
    # Amid other ways of writing, and as a date of modification.
    mixed = pa.array(["2020-01-01", text, "1e9", "2019-12-31T23:00:00-01:00"], kind)
    sources = ["b", "a", "c", "d"]
    log = VisitLog.from_columns(sources, mixed, last_modified=mixed.cast(pa.string()))
    assert log.time[0] == expected
    assert log.last_modified.tolist() == log.time.tolist()


@pytest.mark.parametrize(
    "text",
    [
        "soon",
        "yesterday",
        "2026-13-01",
        "2026-02-30",
        "2026-01-01T25:00:00Z",
        "2026-01-01T00:00:00+25:00",
        "2026-1-1",
        "01/02/2026",
        "Wed, 21 Oct 2015 07:28:00 GMT",
        "2026-01-01T",
        "1,5",
        "0x10",
        "1_000",
        "--5",
        "T",
        "nan",
        "\x00",
        "é",
    ],
)
def test_what_is_no_time_is_quoted_with_its_row(text):
    times = ["2026-01-01", "5", "2026-01-02T00:00:00.123456789Z", text, "later"]
    with pytest.raises(VisitLogError) as caught:
        VisitLog.from_columns(["a"] * 5, times)
    error = caught.value
    assert (error.row, error.column) == (4, "time")
    assert str(error).startswith(f"row 4, column time: this is not a time: {text!r}")


AT_NOON = dt.datetime(2026, 1, 1, 12)  # noqa: DTZ001 - naive is UTC
NOON = (NEW_YEAR + 43_200) * SECOND


@pytest.mark.parametrize(
    "time",
    [
        [AT_NOON],
        [AT_NOON.replace(tzinfo=dt.UTC)],
        [AT_NOON.replace(hour=13, tzinfo=ZoneInfo("Europe/Berlin"))],
        [pd.Timestamp(AT_NOON)],
        [pd.Timestamp(AT_NOON, tz="UTC").tz_convert("Asia/Tokyo")],
        pd.Series([pd.Timestamp(AT_NOON, tz="America/New_York").tz_convert("UTC")]).dt.tz_localize(
            None
        )
        - pd.Timedelta(hours=5),
        pd.DatetimeIndex([AT_NOON]),
        np.array([AT_NOON], "M8[s]"),
        np.array([AT_NOON], "M8[ms]"),
        np.array([AT_NOON], "M8[us]"),
        np.array([AT_NOON], "M8[ns]"),
        np.array([AT_NOON], "M8[h]"),
        np.array([AT_NOON], "M8[m]"),
        pl.Series([AT_NOON]),
        pl.Series([AT_NOON]).dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Kolkata"),
        pa.array([AT_NOON], pa.timestamp("s")),
        pa.array([NOON * 1000 + 999], pa.timestamp("ns", "UTC")),
        pa.chunked_array([pa.array([AT_NOON])]),
        [NOON / SECOND],
        [NOON // SECOND],
        np.array([NOON // SECOND], np.uint64),
        np.array([NOON // SECOND], np.uint32),
        [decimal.Decimal(NOON) / SECOND],
        ["2026-01-01T12:00"],
        pd.Series(["2026-01-01T12:00"], dtype="category"),
        pd.Series([NOON // SECOND], dtype="Int64"),
        pd.Series([NOON // SECOND], dtype="int64[pyarrow]"),
    ],
    ids=lambda time: f"{type(time).__name__} {getattr(time, 'dtype', getattr(time, 'type', ''))}",
)
def test_times_of_every_make(time):
    assert VisitLog.from_columns(["a"], time).time.tolist() == [NOON]


def test_dates_are_midnight():
    days = [dt.date(2026, 1, 1)]
    for time in (days, np.array(days, "M8[D]"), pa.array(days, pa.date64()), pl.Series(days)):
        assert VisitLog.from_columns(["a"], time).time.tolist() == [NEW_YEAR * SECOND]


def test_naive_and_aware_datetimes_may_be_mixed():
    aware = AT_NOON.replace(hour=14, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    for times in ([AT_NOON, aware], [aware, AT_NOON]):
        log = VisitLog.from_columns(["a", "b"], times)
        assert log.time.tolist() == [NOON, NOON]


@pytest.mark.parametrize(("unit", "factor"), [("us", 1), ("ms", 1000), ("s", SECOND), ("d", DAY)])
@pytest.mark.parametrize("make", [list, lambda v: [str(x) for x in v], lambda v: [float(v[0])]])
def test_numbers_are_in_the_time_unit(unit, factor, make):
    assert VisitLog.from_columns(["a"], make([17]), time_unit=unit).time.tolist() == [17 * factor]


@given(st.integers(0, 84_006 * DAY))
def test_seconds_as_floats_or_text_keep_their_microseconds(micros):
    whole, fraction = divmod(micros, SECOND)
    text = f"{whole}.{fraction:06}"
    assert VisitLog.from_columns(["a"], [text]).time.tolist() == [micros]
    assert VisitLog.from_columns(["a"], [float(text)]).time.tolist() == [micros]


@pytest.mark.parametrize(
    ("time", "told"),
    [
        ([-1], "the time -1 is before 1970"),
        (["-1"], "the time -1 is before 1970"),
        ([-0.001], "the time -0.001 is before 1970"),
        (["1969-12-31T23:59:59Z"], "the time 1969-12-31T23:59:59Z is before 1970"),
        ([float("-inf")], "the time -inf is before 1970"),
        ([-(2**63) + 1], "is before 1970"),
        ([1_767_225_600_000], "the time 1767225600000 is after 2200 (milliseconds, not seconds?)"),
        ([1_767_225_600_000.5], "is after 2200 (milliseconds, not seconds?)"),
        (["20260131120000"], "is after 2200"),
        (["9999-12-31"], "is after 2200"),
        ([float("inf")], "the time inf is after 2200"),
        ([1e308], "is after 2200"),
        (["1e400"], "is after 2200"),
        ([2**63 - 1], "is after 2200"),
        (np.array([2**64 - 1], np.uint64), "the time 18446744073709551615 is after 2200"),
        (pa.array([2**62], pa.timestamp("s")), "the time 4611686018427387904 is after 2200"),
        (pa.array([-(2**62)], pa.timestamp("ms")), "is before 1970"),
        (pa.array([dt.date(1, 1, 1)]), "the time 0001-01-01 is before 1970"),
        ([float("nan")], "the visit has no time"),
        (pl.Series([float("nan")]), "the visit has no time"),
        (pa.array([float("nan")]), "the visit has no time"),
        ([None], "the visit has no time"),
        ([""], "the visit has no time"),
        (["  "], "the visit has no time"),
        (np.array(["NaT"], "M8[us]"), "the visit has no time"),
        ([pd.NaT], "the visit has no time"),
    ],
)
def test_times_out_of_range(time, told):
    table = pa.table({"source": ["a", "a"], "time": _after_a_good_one(time)})
    with pytest.raises(VisitLogError) as caught:
        VisitLog.from_arrow(table)
    assert told in str(caught.value)
    assert (caught.value.row, caught.value.column) == (2, "time")


def _after_a_good_one(time):
    from observant.visits.columns import column_of

    column = column_of(time, "time")
    good = {pa.string(): "2020-01-01", pa.date32(): dt.date(2020, 1, 1)}.get(column.type, 1)
    if pa.types.is_null(column.type):
        return pa.array([1, None])
    return pa.concat_arrays([pa.array([good], column.type), column])


@pytest.mark.parametrize(
    "time",
    [[True], [[1]], [{"a": 1}], [dt.timedelta(1)], [dt.time(1)], [b"1"], [object()], [1, "2026"]],
    ids=lambda time: type(time[-1]).__name__,
)
def test_times_of_a_type_that_is_no_time(time):
    with pytest.raises(VisitLogError, match="column time"):
        VisitLog.from_columns(["a"] * len(time), time)


def test_an_unknown_time_unit():
    with pytest.raises(InputError, match="unknown time unit 'ns'; choose one of us, ms, s, d"):
        VisitLog.from_columns(["a"], [1], time_unit="ns")


# -- the other columns --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "flag"),
    [
        *[(text, 1) for text in ("true", "TRUE", "True", "t", "yes", "Y", "1", " 1 ", "1.0")],
        *[(text, 0) for text in ("false", "FALSE", "f", "no", "N", "0", "0.0")],
        *[(text, -1) for text in ("", " ", "null", "None", "NaN")],
        *[(True, 1), (False, 0), (None, -1), (1, 1), (0, 0), (1.0, 1), (0.0, 0)],
        *[(float("nan"), -1), (decimal.Decimal(1), 1)],
    ],
)
def test_changed_as_people_write_it(value, flag):
    assert VisitLog.from_columns(["a", "a"], [0, 1], [None, value]).changed.tolist() == [-1, flag]


@pytest.mark.parametrize("value", ["maybe", "2", 2, -1, 0.5, "truefalse", [1], {"a": 1}, AT_NOON])
def test_changed_that_is_neither_true_nor_false(value):
    with pytest.raises(VisitLogError, match="column changed") as caught:
        VisitLog.from_columns(["a", "a"], [0, 1], [None, value])
    if not isinstance(value, list | dict | dt.datetime):
        assert f"{value!r} is neither true nor false" in str(caught.value)
        assert caught.value.row == 2


@pytest.mark.parametrize(
    ("digest", "stored"),
    [
        ([b"\x00\xff"], b"\x00\xff"),
        ([b""], b""),
        (["abc"], b"abc"),
        (["hex:00ff"], b"\x00\xff"),
        (["hex:"], b""),
        ([""], None),
        ([None], None),
        ([12345], b"12345"),
        (pa.array([b"abcd"], pa.binary(4)), b"abcd"),
        (pa.array([b"abcd"], pa.large_binary()), b"abcd"),
        (pa.array([b"abcd"], pa.binary_view()), b"abcd"),
        (pa.array(["abcd"], pa.string_view()), b"abcd"),
        (pa.array(["abcd"]).dictionary_encode(), b"abcd"),
        (pl.Series([b"abcd"]), b"abcd"),
        (np.array([b"abcd"]), b"abcd"),
    ],
)
def test_digests_of_every_make(digest, stored):
    log = VisitLog.from_columns(["a"], [0], digest=digest)
    assert log.extras["digest"].type == pa.binary()
    assert log.extras["digest"].to_pylist() == [stored]


def test_a_digest_that_is_not_hexadecimal():
    with pytest.raises(VisitLogError, match=r"row 2, column digest: not hexadecimal.*'hex:xyz'"):
        VisitLog.from_columns(["a", "a"], [0, 1], digest=["hex:00", "hex:xyz"])


def test_mixed_digests_name_the_row_and_the_source():
    with pytest.raises(VisitLogError) as caught:
        VisitLog.from_columns(
            ["b", "a", "a", "a"], [0, 2, 0, 1], digest=[b"long one", b"abc", b"ab", None]
        )
    assert str(caught.value) == (
        "row 2, column digest, source 'a': mixed digests: this one has 3 bytes, the one before 2; "
        "digests of one source must come from one function"
    )


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("magnitude", 1.5, "1.5 is not between 0 and 1"),
        ("magnitude", -0.1, "-0.1 is not between 0 and 1"),
        ("magnitude", float("inf"), "inf is not between 0 and 1"),
        ("magnitude", "much", "this is not a number: 'much'"),
        ("status", "timeout", "this is not a whole number from -32768 to 32767: 'timeout'"),
        ("status", 99_999, "this is not a whole number from -32768 to 32767: 99999"),
        ("status", 200.5, "this is not a whole number from -32768 to 32767: 200.5"),
        ("bytes", -1, "-1 is not between 0 and"),
        ("bytes", "1.5", "this is not a whole number: '1.5'"),
        ("bytes", 1e30, "this is not a whole number: 1e+30"),
    ],
)
def test_numbers_out_of_range_name_the_row(name, value, told):
    good = "0" if isinstance(value, str) else type(value)(0)
    with pytest.raises(VisitLogError) as caught:
        VisitLog.from_columns(["a", "a"], [0, 1], **{name: [good, value]})
    assert str(caught.value).startswith(f"row 2, column {name}: {told}")


def test_not_a_number_is_null():
    for make in (list, np.array, pl.Series, pa.array):
        log = VisitLog.from_columns(
            ["a", "a"],
            [0, 1],
            magnitude=make([0.5, float("nan")]),
            status=make([200.0, float("nan")]),
            bytes=make([7.0, float("nan")]),
        )
        assert {name: column.to_pylist() for name, column in log.extras.items()} == {
            "magnitude": [0.5, None],
            "status": [200, None],
            "bytes": [7, None],
        }


def test_whole_numbers_that_passed_through_floats():
    log = VisitLog.from_columns(["a"] * 3, [0, 1, 2], status=["200.0", "304.", ""])
    assert log.extras["status"].to_pylist() == [200, 304, None]


def test_a_column_of_nulls_only_stays():
    log = VisitLog.from_columns(
        ["a"],
        [0],
        [None],
        [None],
        digest=[None],
        magnitude=[None],
        status=[None],
        bytes=[None],
    )
    assert rows_of(log)[0] | {"source": None, "time": None} == dict.fromkeys(
        ("source", "time", "changed", "last_modified", "digest", "magnitude", "status", "bytes")
    )
    assert log.to_arrow().schema.field("digest").type == pa.binary()


# -- sources and groups -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        np.array(["a", "b"]),
        np.array(["a", "b"], object),
        np.array([b"a", b"b"]),
        pd.Series(["a", "b"]),
        pd.Series(["a", "b"], dtype="category"),
        pd.Series(["a", "b"], dtype="string"),
        pd.Series(["a", "b"], dtype=object),
        pd.Index(["a", "b"]),
        pl.Series(["a", "b"]),
        pl.Series(["a", "b"], dtype=pl.Categorical),
        pl.Series(["a", "b"], dtype=pl.Enum(["b", "a"])),
        pa.array(["a", "b"], pa.string_view()),
        pa.array(["a", "b"], pa.large_string()),
        pa.array([b"a", b"b"], pa.binary(1)),
        pa.array(["a", "b"]).dictionary_encode(),
        pa.DictionaryArray.from_arrays([1, 0], pa.array(["b", "a"], pa.string_view())),
        pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), ["a", "b"]),
        pa.chunked_array([["a"], ["b"]]),
        (letter for letter in "ab"),
        ("a", "b"),
    ],
    ids=lambda source: f"{type(source).__name__} {getattr(source, 'dtype', '')}",
)
def test_sources_of_every_make(source):
    log = VisitLog.from_columns(source, [1, 2])
    assert log.sources.to_pylist() == ["a", "b"]
    assert log.sources.type == pa.string()


def test_numbers_may_be_ids():
    log = VisitLog.from_columns([10, 9, 10], [0, 1, 2])
    assert log.sources.to_pylist() == ["10", "9"]  # alphabetical: ids are text
    assert log.select([9]).sources.to_pylist() == ["9"]


@pytest.mark.parametrize("bad", [None, ""])
def test_a_visit_that_names_no_source(bad):
    with pytest.raises(VisitLogError, match="row 2, column source: the visit names no source"):
        VisitLog.from_columns(["a", bad], [0, 1])


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ([b"a", b"\xff"], r"row 2, column source: this is not text in UTF-8: b'\\xff'"),
        ([{"a": 1}, None], "column source: a value of type struct"),
        ([["a"], ["b"]], "column source: a value of type list"),
        ("ab", "column source: a str where a list or an array was expected"),
        (5, "column source: values of mixed or unknown type"),
        (["a", 1], "column source: values of mixed or unknown type"),
        (["a", "\ud800"], "column source: values of mixed or unknown type"),
        (np.zeros((2, 2)), "column source: values of mixed or unknown type"),
    ],
)
def test_ids_that_cannot_be(source, told):
    with pytest.raises(VisitLogError, match=told):
        VisitLog.from_columns(source, [0, 1])


def broken_text(text):
    """Arrow strings that break the promise to be UTF-8, as a hostile file may hold."""
    offsets = np.cumsum([0, *map(len, text)]).astype(np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(text), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(text))]
    )


@pytest.mark.parametrize("column", ["source", "time", "changed", "digest", "status", "team"])
def test_text_that_is_not_text_is_refused_with_its_row(column):
    columns = {
        "source": ["a", "a", "a"],
        "time": ["1", "2", "3"],
        "changed": ["", "1", "1"],
        "status": ["200", "200", "200"],
        "team": ["x", "x", "x"],
        column: broken_text([b"1", b"1", b"\xff"]),
    }
    if column == "digest":  # bytes are all that a digest is
        assert VisitLog.from_arrow(pa.table(columns)).extras["digest"][2].as_py() == b"\xff"
        return
    with pytest.raises(VisitLogError, match=f"row 3, column {column}: this is not"):
        VisitLog.from_arrow(pa.table(columns), group="team")


def test_groups_belong_to_sources():
    log = VisitLog.from_columns(["b", "a", "b"], [0, 1, 2], group=["x", "y", "x"])
    assert log.groups.to_pylist() == ["y", "x"]
    assert log.select(["b"]).groups.to_pylist() == ["x"]
    assert [row["group"] for row in rows_of(log)] == ["y", "x", "x"]


@pytest.mark.parametrize(
    "group",
    [[1, 1, 2], pd.Series(["1", "1", "2"], dtype="category"), pl.Series(["1", "1", "2"])],
    ids=lambda group: type(group).__name__,
)
def test_groups_of_every_make(group):
    assert VisitLog.from_columns(["a", "a", "b"], [0, 1, 2], group=group).groups.to_pylist() == [
        "1",
        "2",
    ]


def test_a_group_that_differs_within_a_source():
    with pytest.raises(VisitLogError) as caught:
        VisitLog.from_columns(["b", "a", "a"], [0, 5, 1], group=["x", "y", "z"])
    assert str(caught.value) == (
        "row 2, column group, source 'a': the group is 'y' here and 'z' at the first visit; a "
        "source belongs to one group"
    )


def test_no_group_is_a_group_of_its_own():
    assert VisitLog.from_columns(["a", "b"], [0, 1], group=[None, "x"]).groups.to_pylist() == [
        "",
        "x",
    ]
    with pytest.raises(VisitLogError, match="one group"):
        VisitLog.from_columns(["a", "a"], [0, 1], group=[None, "x"])


def test_the_group_may_be_the_host():
    urls = {
        "https://Example.org/a": "example.org",
        "https://example.org:8080/b?x=1": "example.org",
        "http://user:secret@example.com/": "example.com",
        "https://[2001:db8::1]:443/": "[2001:db8::1]",
        "ftp://example.net": "example.net",
        "https://example.net?q=@x": "example.net",
        "no url": "no url",
        "mailto:a@b.c": "mailto:a@b.c",
    }
    table = pa.table({"source": list(urls), "time": list(range(len(urls)))})
    log = VisitLog.from_arrow(table, group="host")
    assert dict(zip(log.sources.to_pylist(), log.groups.to_pylist(), strict=True)) == urls


def test_a_group_that_is_not_there():
    table = pa.table({"source": ["a"], "time": [1]})
    with pytest.raises(VisitLogError, match=r"no column 'team' to group by.*source, time"):
        VisitLog.from_arrow(table, group="team")


def test_a_host_in_one_batch_only():
    with_host = pa.record_batch({"source": ["a"], "time": [1], "host": ["h"]})
    without = with_host.select(["source", "time"])
    for first, second in ((with_host, without), (without, with_host)):
        reader = LogReader(group="host")
        reader.add(first)
        with pytest.raises(VisitLogError, match="host"):
            reader.add(second)


# -- duplicates ---------------------------------------------------------------------------------


def test_two_visits_at_one_time_are_refused_by_row_and_source():
    with pytest.raises(VisitLogError) as caught:
        VisitLog.from_columns(["a", "b", "b", "a"], [5, 1, 2, 5])
    assert str(caught.value) == (
        "row 4, column time, source 'a': the second visit at 1970-01-01T00:00:05Z (the first is "
        'row 1); drop one, or keep the "first" or the "last" (on_duplicate)'
    )
    assert (caught.value.row, caught.value.source) == (4, "a")


@pytest.mark.parametrize(("keep", "kept"), [("first", b"1"), ("last", b"3")])
def test_one_of_many_visits_at_one_time_may_be_kept(keep, kept):
    log = VisitLog.from_columns(
        ["a", "b", "a", "a", "a"],
        [5, 5, 5, 7, 5],
        digest=[b"1", b"x", b"2", b"4", b"3"],
        on_duplicate=keep,
    )
    assert log.extras["digest"].to_pylist() == [kept, b"4", b"x"]
    assert log.offsets.tolist() == [0, 2, 3]
    assert log.time.tolist() == [5 * SECOND, 7 * SECOND, 5 * SECOND]


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), min_size=1, max_size=12))
def test_duplicates_as_a_dictionary_would_settle_them(rows):
    source, time = map(list, zip(*rows, strict=True))
    number = [bytes([i]) for i in range(len(rows))]
    first = dict(reversed(list(zip(rows, number, strict=True))))
    last = dict(zip(rows, number, strict=True))
    for keep, told in (("first", first), ("last", last)):
        log = VisitLog.from_columns(source, time, digest=number, on_duplicate=keep)
        kept = {(row["source"], row["time"].second): row["digest"] for row in rows_of(log)}
        assert kept == told


def test_an_unknown_way_to_settle_duplicates():
    with pytest.raises(InputError, match="error, first or last, not 'both'"):
        VisitLog.from_columns(["a"], [1], on_duplicate="both")


# -- what is refused as a whole -----------------------------------------------------------------


def test_an_empty_log():
    for empty in (
        pa.table({"source": [], "time": []}),
        pl.DataFrame({"source": [], "time": []}),
        pd.DataFrame({"source": [], "time": []}),
        pa.table({"source": pa.array([], pa.string()), "time": pa.chunked_array([], pa.int64())}),
    ):
        with pytest.raises(VisitLogError, match="no visits: the log is empty"):
            VisitLog.from_arrow(empty)
    with pytest.raises(VisitLogError, match=r"visits\.csv: no visits"):
        LogReader(name="visits.csv").finish()
    with pytest.raises(VisitLogError, match="no visits"):
        VisitLog.from_columns([], [])


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["url", "time"], "no column 'source'; the columns are url, time; rename 'url' to"),
        (["Source", "time"], "no column 'source'.*rename 'Source' to 'source'"),
        (["sorce", "time"], "no column 'source'.*rename 'sorce' to 'source'"),
        (["source", "timestamp"], "no column 'time'.*rename 'timestamp' to 'time'"),
        (["source", "tiem"], "no column 'time'.*rename 'tiem' to 'time'"),
        (["x", "y"], "no column 'source'; the columns are x, y$"),
        (["source", "source", "time"], "there are 2 columns 'source'"),
        (["source", "time", "digest", "digest"], "there are 2 columns 'digest'"),
    ],
)
def test_missing_and_doubled_columns(names, told):
    table = pa.Table.from_arrays([pa.array(["1"])] * len(names), names)
    with pytest.raises(VisitLogError, match=told):
        VisitLog.from_arrow(table)


def test_doubled_columns_that_nobody_wants_are_passed_over():
    table = pa.Table.from_arrays([pa.array(["1"])] * 4, ["x", "source", "time", "x"])
    assert len(VisitLog.from_arrow(table)) == 1


def test_columns_of_unequal_length():
    with pytest.raises(VisitLogError, match="source has 2, time has 1"):
        VisitLog.from_columns(["a", "b"], [1])


@pytest.mark.parametrize(
    "data",
    [
        {"source": ["a"], "time": [1]},
        [1, 2],
        None,
        "visits.csv",
        pl.Series([1]),
        pa.chunked_array([[1]]),
        pd.DataFrame({"source": ["a", "b"], "time": [1, "2026-01-01"]}),
    ],
    ids=lambda data: type(data).__name__,
)
def test_what_is_no_table(data):
    with pytest.raises(InputError, match="Arrow"):
        VisitLog.from_arrow(data)


def test_rows_are_counted_over_batches_and_anew_in_each_file():
    def batch(*times):
        return pa.record_batch({"source": ["a"] * len(times), "time": list(times)})

    reader = LogReader(name="one.csv")
    reader.add(batch(1, 2))
    reader.add(batch(3))
    reader.begin_file("empty.csv")
    reader.begin_file("two.csv")
    reader.add(batch(4))
    reader.add(batch(5, 2))
    with pytest.raises(VisitLogError) as caught:
        reader.finish()
    assert str(caught.value) == (
        "two.csv, row 3, column time, source 'a': the second visit at 1970-01-01T00:00:02Z (the "
        'first is one.csv, row 2); drop one, or keep the "first" or the "last" (on_duplicate)'
    )
    with pytest.raises(VisitLogError, match=r"two\.csv, row 5, column time: the time -7"):
        reader.add(batch(6, -7))
    assert (caught.value.file, caught.value.row, caught.value.column, caught.value.source) == (
        "two.csv",
        3,
        "time",
        "a",
    )


def test_a_column_that_comes_and_goes_is_null_where_it_is_not():
    reader = LogReader()
    reader.add(pa.record_batch({"source": ["a"], "time": [3]}))
    reader.add(
        pa.record_batch(
            {
                "source": ["a"],
                "time": [2],
                "digest": pa.array([b"x"], pa.large_binary()),
                "status": [200],
                "last_modified": [1],
            }
        )
    )
    reader.add(pa.record_batch({"source": ["a"], "time": [1], "changed": [None]}))
    reader.add(pa.record_batch({"source": ["a"], "time": [4], "digest": [b"y"], "bytes": [9]}))
    log = reader.finish()
    assert log.extras["digest"].to_pylist() == [None, b"x", None, b"y"]
    assert log.extras["digest"].type == pa.binary()
    assert log.extras["status"].to_pylist() == [None, 200, None, None]
    assert log.extras["bytes"].to_pylist() == [None, None, None, 9]
    assert log.last_modified.tolist() == [MISSING, SECOND, MISSING, MISSING]


def test_columns_too_large_for_small_offsets_are_kept_in_large_ones(monkeypatch):
    monkeypatch.setattr("observant.visits.reader._LARGE", 3)
    log = VisitLog.from_columns(["b", "a"], [0, 1], digest=[b"1234", b"5678"], group=["x", "y"])
    assert log.extras["digest"].type == pa.large_binary()
    assert log.extras["digest"].to_pylist() == [b"5678", b"1234"]
    assert log.groups.to_pylist() == ["y", "x"]


# -- the way out --------------------------------------------------------------------------------

LOG = VisitLog.from_columns(
    ["b", "a", "a", "a"],
    ["2026-01-01", "2026-01-02", "2026-01-03T00:00:00.000001Z", "2026-01-05"],
    [None, None, True, False],
    [None, None, "2026-01-02T12:00:00Z", None],
    digest=[b"\x00", None, b"\xff", b"a"],
    magnitude=[None, None, 0.25, 0],
    status=[200, None, 200, 304],
    bytes=[2**62, None, 1, 0],
    group=["g", "h", "h", "h"],
)


def test_the_log_is_the_table_of_the_design():
    schema = LOG.to_arrow().schema
    assert {name: str(kind) for name, kind in zip(schema.names, schema.types, strict=True)} == {
        "source": "string",
        "time": "timestamp[us, tz=UTC]",
        "changed": "bool",
        "last_modified": "timestamp[us, tz=UTC]",
        "digest": "binary",
        "magnitude": "double",
        "status": "int16",
        "bytes": "int64",
        "group": "string",
    }


def through_polars():
    return pl.DataFrame(LOG)


def through_pandas():
    if hasattr(pd.DataFrame, "from_arrow"):  # from pandas 3 on
        return pd.DataFrame.from_arrow(LOG)
    return LOG.to_arrow().to_pandas()


def through_duckdb():
    with duckdb.connect() as connection:
        return connection.sql("from LOG select *").to_arrow_table()


@pytest.mark.parametrize(
    "travel",
    [
        through_polars,
        lambda: through_polars().with_columns(pl.col("source").cast(pl.Categorical)),
        through_pandas,
        lambda: through_pandas().astype({"source": "category", "status": "float64"}),
        lambda: through_pandas().convert_dtypes(dtype_backend="pyarrow"),
        through_duckdb,
        lambda: pa.table(LOG),
        lambda: pa.RecordBatchReader.from_stream(LOG),
        lambda: pa.table(LOG).combine_chunks().to_batches()[0],
        lambda: LOG,
    ],
    ids=[
        "polars",
        "polars categorical",
        "pandas",
        "pandas category and floats",
        "pandas pyarrow",
        "duckdb",
        "pyarrow",
        "pyarrow reader",
        "pyarrow batch",
        "itself",
    ],
)
def test_the_log_travels_and_comes_back(travel):
    assert_same_log(VisitLog.from_arrow(travel(), group="group"), LOG)


def test_a_query_that_has_not_run_yet_may_be_given():
    with duckdb.connect() as connection:
        relation = connection.sql(
            "select 'a' as source, to_timestamp(t) as time, t > 0 as changed from range(3) r(t)"
        )
        assert VisitLog.from_arrow(relation).changed.tolist() == [-1, 1, 1]


def test_big_tables_are_taken_in_slices(monkeypatch):
    monkeypatch.setattr("observant.visits.columns._ROWS_PER_BATCH", 2)
    table = LOG.to_arrow().combine_chunks()
    assert_same_log(VisitLog.from_arrow(table, group="group"), LOG)
    with pytest.raises(VisitLogError, match="row 4, column time"):
        VisitLog.from_columns(["a"] * 5, [1, 2, 3, -4, 5])


def test_the_log_prints_what_is_in_it():
    assert repr(LOG) == "VisitLog: 4 visits to 2 sources over 4d, 1 change in 2 comparisons"
    assert repr(LOG.select(["b"])) == (
        "VisitLog: 1 visit to 1 source over 0s, 0 changes in 0 comparisons"
    )
    many = VisitLog.from_columns(["a"] * 1500, range(1500), [True] * 1500)
    assert "1,500 visits to 1 source over 25min, 1,499 changes in 1,499 comp" in repr(many)


@pytest.mark.parametrize(
    "wanted",
    ["a", ["a"], ("a", "a"), np.array(["a"]), pa.array(["a"]), pl.Series(["a"]), [True, False]],
    ids=lambda wanted: type(wanted).__name__,
)
def test_select_by_ids_of_every_make(wanted):
    assert LOG.select(wanted).sources.to_pylist() == ["a"]


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (["a", "zz"], "source 'zz': not in this log"),
        ([None], "not in this log"),
        ([], "no source is selected"),
        ([False, False], "no source is selected"),
        ([True], "the mask has 1 entries and the log 2 sources"),
        ([[True, False]], "the mask has 2 entries"),
        ([["a"]], "column source"),
        (5, "column source"),
    ],
)
def test_select_what_is_not_there(wanted, told):
    with pytest.raises(VisitLogError, match=told):
        LOG.select(wanted)


def test_select_an_id_that_numpy_would_shorten():
    log = VisitLog.from_columns(["a", "a\x00"], [0, 1])
    assert log.select(["a\x00"]).sources.to_pylist() == ["a\x00"]


@pytest.mark.parametrize("rows", [0, -1])
def test_batches_of_nothing_are_refused(rows):
    with pytest.raises(InputError, match="at least one row"):
        list(LOG.to_batches(rows))


# -- errors -------------------------------------------------------------------------------------


def test_an_error_travels_between_processes_with_its_subject():
    error = VisitLogError("wrong", file="f.csv", row=3, column="time", source="a")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert str(copy) == str(error) == "f.csv, row 3, column time, source 'a': wrong"
    assert vars(copy) == vars(error)
    assert isinstance(copy, ObservantError)
