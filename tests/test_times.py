"""The one converter of time, against the standard library and against the calendar."""

import datetime as dt
import email.utils

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observant import VisitLog
from observant.errors import VisitLogError
from observant.times import DAY, from_any, from_iso, http_date, iso, micros, seconds, utc
from observant.visits.columns import times_in

INSTANTS = st.datetimes(dt.datetime(1971, 1, 1), dt.datetime(2199, 12, 31))  # noqa: DTZ001


@given(INSTANTS)
def test_all_forms_of_one_instant_agree(naive):
    instant = naive.replace(tzinfo=dt.UTC)
    whole = instant.replace(microsecond=0)
    expected = round(instant.timestamp() * 1e6)
    assert utc(instant.timestamp()) == instant
    assert from_iso(iso(instant)) == from_any(iso(instant)) == expected
    assert micros(seconds(expected)) == expected
    at = round(whole.timestamp()) * 1_000_000
    assert from_any(email.utils.format_datetime(whole)) == at
    assert http_date(email.utils.format_datetime(whole, usegmt=True)) == whole.timestamp()
    assert from_any(f"{whole:%a %b %d %H:%M:%S UTC %Y}") == at
    assert from_any(f"{whole:%Y%m%d%H%M%S}") == at
    assert from_any(f"{whole:%Y%m%d}", noon=False) == at - at % int(DAY * 1e6)


@pytest.mark.parametrize(
    "written",
    [
        pa.array(["20260101", "20260131", None]),
        pa.array(["20260101", "20260131000000", ""]),
        pa.array([20260101, 20260131, None]),
    ],
)
def test_eight_digits_are_a_date_and_not_seconds(written):
    found = times_in(written, "time")
    assert [str(at) for at in found[:2].view("M8[us]").astype("M8[D]")] == [
        "2026-01-01",
        "2026-01-31",
    ]


def test_seconds_stay_seconds_where_they_cannot_all_be_dates():
    assert (times_in(pa.array(["20260101", "20260199"]), "time") // 1_000_000).tolist() == [
        20_260_101,
        20_260_199,
    ]
    assert times_in(pa.array([20260101, 86_400]), "time")[0] == 20_260_101_000_000
    assert times_in(pa.array([20260101]), "time", unit="ms")[0] == 20_260_101_000


def test_a_day_that_no_month_has_is_refused():
    with pytest.raises(VisitLogError, match="this is not a time: '20260230'"):
        VisitLog.from_columns(["a", "a"], ["20260101", "20260230"], [None, True])
