"""Durations, rates and budgets: what is written can be read, and nonsense is refused in words."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from observant.errors import ObservantError, UnitError
from observant.units import (
    format_duration,
    format_rate,
    parse_budget,
    parse_duration,
    parse_rate,
)

UNITS = {
    "us": 1e-6 / 86400,
    "ms": 1e-3 / 86400,
    "s": 1 / 86400,
    "sec": 1 / 86400,
    "seconds": 1 / 86400,
    "m": 1 / 1440,
    "min": 1 / 1440,
    "h": 1 / 24,
    "hours": 1 / 24,
    "d": 1.0,
    "day": 1.0,
    "w": 7.0,
    "weeks": 7.0,
    "mo": 365.2425 / 12,
    "y": 365.2425,
}
amounts = st.floats(1e-6, 1e9)


@given(amounts, st.sampled_from(sorted(UNITS)), st.sampled_from(["", " "]))
def test_a_number_and_a_unit(amount, unit, space):
    for written in (unit, unit.upper()):
        assert parse_duration(f"{amount}{space}{written}") == pytest.approx(amount * UNITS[unit])


@given(st.lists(st.tuples(amounts, st.sampled_from(sorted(UNITS))), min_size=1, max_size=4))
def test_parts_add_up(parts):
    text = " ".join(f"{amount}{unit}" for amount, unit in parts)
    assert parse_duration(text) == pytest.approx(sum(a * UNITS[u] for a, u in parts))


@given(st.floats(1e-15, 1e15))
@example(59.96 / 1440)
@example(23.96 / 24)
@example(0.9996 / 86400)
@example(1e-12)
def test_a_duration_survives_print_and_parse_to_three_digits(days):
    # Three significant digits: at most half a unit of the third, so 0.5 % of the smallest, 1.00.
    assert parse_duration(format_duration(days)) == pytest.approx(days, rel=5.1e-3)


@given(st.floats(1e-12, 1e12))
def test_a_rate_survives_print_and_parse_to_three_digits(per_day):
    assert parse_rate(format_rate(per_day)) == pytest.approx(per_day, rel=5.1e-3)


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (0.0, "0s"),
        (20 / 86400, "20s"),
        (59.96 / 86400, "1min"),
        (59.96 / 1440, "1h"),
        (23.96 / 24, "1d"),
        (59.9 / 1440, "59.9min"),
        (0.9996e-3 / 86400, "1ms"),
        (0.9996 / 86400, "1s"),
        (8.5, "8.5d"),
        (365.0, "365d"),
        (366.0, "1y"),
        (-1.5, "-1.5d"),
        (-59.99 / 1440, "-1h"),
        (1e-12, "8.64e-05ms"),
        (math.inf, "never"),
        (math.nan, "?"),
    ],
)
def test_a_duration_as_a_person_would_write_it(days, text):
    assert format_duration(days) == text


@pytest.mark.parametrize(
    ("per_day", "text"),
    [
        (0.0, "0"),
        (5e-324, "0"),
        (1 / 7, "1/7d"),
        (1.0, "1/d"),
        (86400.0, "86400/d"),
        (24.0, "24/d"),
        (math.inf, "∞"),
        (math.nan, "?"),
    ],
)
def test_a_rate_as_a_person_would_write_it(per_day, text):
    assert format_rate(per_day) == text


@pytest.mark.parametrize("number", [3, 3.0, np.int64(3), np.float32(3), "3", " 3 ", "+3", "3e0"])
def test_a_bare_number_is_days_or_per_day(number):
    assert parse_duration(number) == parse_rate(number) == parse_budget(number) == 3.0


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "soon",
        "5 parsecs",
        "5e",
        "d5",
        "1d-12h",
        "-1d",
        "--1d",
        "1.5.2d",
        "1/2d",
        "nan",
        "inf",
        "1e999d",
        "9" * 500,
        "1d ago",
        "1,5d",
        -1,
        -0.5,
        math.nan,
        math.inf,
        10**400,
        pytest.param(10**5000, id="a number of 5000 digits"),
        None,
        True,
        b"1d",
        [1],
        1j,
    ],
)
def test_no_duration(text):
    with pytest.raises(UnitError):
        parse_duration(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "often",
        "/d",
        "1/",
        "1/0d",
        "1/-7d",
        "-1/d",
        "1/1e-320us",
        "1e308/us",
        "1/7",
        "1/7x",
        "1/d/d",
        -1,
        math.inf,
        None,
        True,
        b"1/d",
    ],
)
def test_no_rate(text):
    with pytest.raises(UnitError):
        parse_rate(text)


@pytest.mark.parametrize("text", [0, "0", "0/day", "-0"])
def test_a_budget_of_nothing_is_refused(text):
    with pytest.raises(UnitError, match="more than zero"):
        parse_budget(text)


@pytest.mark.parametrize("parse", [parse_budget, parse_duration, parse_rate])
def test_endless_spaces_are_refused_at_once(parse):
    """The patterns would take time that grows with their square (found by fuzzing)."""
    with pytest.raises(UnitError) as refused:
        parse("2/" + " " * 1_000_000)
    assert len(str(refused.value)) < 500


def test_minus_zero_is_zero():
    assert math.copysign(1, parse_duration("-0")) == math.copysign(1, parse_duration(-0.0)) == 1


def test_a_refusal_quotes_the_text_and_shows_how_to_write_it():
    with pytest.raises(UnitError, match=r"unknown unit 'fortnight'.*'1fortnight'.*90s"):
        parse_duration("1fortnight")
    with pytest.raises(UnitError, match=r"unknown unit 'x'.*1/7d"):
        parse_rate("1/7x")


@pytest.mark.slow
@settings(max_examples=300)
@given(st.one_of(st.text(), st.text("0123456789.+-eEdhwmsy/ ")))
def test_any_text_is_read_or_refused(text):
    for parse in (parse_duration, parse_rate, parse_budget):
        try:
            value = parse(text)
        except ObservantError:
            continue
        assert math.isfinite(value)
        assert value >= 0
