"""Instants in every form: microseconds, seconds and days since 1970 UTC, datetimes and text.

The science counts days, the live half seconds, logs and stores microseconds. This module is where
they meet. Readers of text give microseconds, and raise `ValueError` with the reason for a text
that is no time, and for a time that no visit can have (before 1970, after 2200), so that a row of
a file can be named malformed.

>>> micros(1.5), seconds(1_500_000), iso(1.5)
(1500000, 1.5, '1970-01-01T00:00:01.500000Z')
>>> from_any("20260131") == from_any("2026-01-31") == from_any("Sat, 31 Jan 2026 12:00:00 GMT")
True
"""

from __future__ import annotations

import datetime as dt
import math
import re
from contextlib import suppress
from functools import lru_cache
from typing import Any, overload

from observant.errors import InputError

DAY = 86_400.0
"""Seconds in a day."""
HOURS = 24
"""Hours in a day."""
SECOND = 1.0 / DAY
"""Days in a second."""
MICROSECONDS = 1_000_000
"""In a second."""
MICROSECONDS_PER_DAY = 86_400_000_000
LATEST = 84_006
"""Days to 2200: a time outside is a mistake of unit far more often than a visit."""
COMPACT = r"((?:19[7-9]|2[01]\d)\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(\d{6})?"
"""A date in eight digits, or with its time in fourteen: no number of seconds since 1970."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_JAVA = re.compile(
    r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (\S{1,32}) (\d{4})"
)
_OFFSET = re.compile(r"(?:GMT|UTC)([+-])(\d{1,2}):?(\d\d)")
_DATE = re.compile(r"\d{4}(-\d\d(-\d\d)?)?")
_DIGITS = re.compile(r"[0-9]{4,20}", re.ASCII)
_FRACTION = re.compile(r"([.,]\d{6})\d+")


@overload
def micros(at: float) -> int: ...
@overload
def micros(at: None) -> None: ...
@overload
def micros(at: float | None) -> int | None: ...
def micros(at: float | None) -> int | None:
    """Whole microseconds of seconds since 1970, as a log or a database keeps an instant."""
    return None if at is None else round(at * 1e6)


@overload
def seconds(at: int) -> float: ...
@overload
def seconds(at: None) -> None: ...
@overload
def seconds(at: int | None) -> float | None: ...
def seconds(at: int | None) -> float | None:
    """Seconds since 1970 of microseconds, as running code keeps an instant."""
    return None if at is None else at / 1e6


@overload
def utc(at: float) -> dt.datetime: ...
@overload
def utc(at: None) -> None: ...
@overload
def utc(at: float | None) -> dt.datetime | None: ...
def utc(at: float | None) -> dt.datetime | None:
    """The date and time of seconds since 1970; None of None and of what is not finite.

    >>> utc(0.0).isoformat()
    '1970-01-01T00:00:00+00:00'
    """
    return None if at is None or not math.isfinite(at) else dt.datetime.fromtimestamp(at, dt.UTC)


@overload
def iso(at: float | dt.datetime) -> str: ...
@overload
def iso(at: None) -> None: ...
@overload
def iso(at: float | dt.datetime | None) -> str | None: ...
def iso(at: float | dt.datetime | None) -> str | None:
    """Seconds since 1970, or a datetime with a zone, as ISO 8601 for machines.

    >>> iso(0.0)
    '1970-01-01T00:00:00Z'
    """
    instant = at if isinstance(at, dt.datetime) else utc(at)
    return None if instant is None else instant.isoformat().replace("+00:00", "Z")


def from_datetime(instant: dt.datetime, zone: str | None = None) -> int:
    """Microseconds; what names no zone is of `zone`, or UTC."""
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=dt.UTC if zone is None else zone_of(zone))
    try:
        return (instant - _EPOCH) // dt.timedelta(microseconds=1)
    except OverflowError:
        raise ValueError("the time is not between 1970 and 2200") from None


def checked(at: int) -> int:
    """The microseconds themselves, if a visit can have this time."""
    if not 0 < at < LATEST * MICROSECONDS_PER_DAY:
        raise ValueError("the time is not between 1970 and 2200")
    return at


# -- text to an instant -------------------------------------------------------------------------


def from_any(value: Any, zone: str | None = None, *, noon: bool = True) -> int:
    """A number of seconds (of milliseconds, if it is that large), or any of the texts below.

    Eight or fourteen digits that spell a date are that date. `noon` is as in `from_iso`.

    >>> from_any(86400) == from_any("1970-01-02T00:00Z") == from_any("86400")
    True
    >>> from_any(1_763_000_000_000) == from_any(1_763_000_000)
    True
    >>> from_any("20260131120000") == from_any("2026-01-31T12:00:00Z")
    True
    """
    if isinstance(value, str):
        text = value.strip()
        if re.fullmatch(COMPACT, text):
            return from_digits(text + "12" if noon and len(text) == 8 else text)
        with suppress(ValueError):
            value = float(text)
    if isinstance(value, str):
        with suppress(ValueError):
            return from_iso(text, zone, noon=noon)
        with suppress(ValueError):
            return from_mail(text)
        return from_java(text, zone)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return from_seconds(value, 1_000 if abs(value) > 1e11 else MICROSECONDS)
    raise ValueError("this is no time")


def from_seconds(value: Any, unit: int = MICROSECONDS) -> int:
    """A number of seconds since 1970, as a number or a text.

    >>> from_seconds("1.5"), from_seconds(2000, unit=1000)
    (1500000, 2000000)
    """
    if isinstance(value, bool):
        raise ValueError("true and false are no times")  # noqa: TRY004 - one kind for all
    try:
        number = float(value)
    except (TypeError, OverflowError):
        raise ValueError("this is no number of seconds") from None
    if not math.isfinite(number) or abs(number) > 1e16:
        raise ValueError("this is no number of seconds")
    return checked(round(number * unit))


def parse_datetime(text: str) -> dt.datetime:
    """ISO 8601 or W3C date and time, with or without a zone; digits past microseconds are cut."""
    text = text.strip()
    if len(text) > 40:
        raise ValueError("this is no time")
    try:
        return dt.datetime.fromisoformat(_FRACTION.sub(r"\1", text))
    except ValueError:
        raise ValueError("this is no time") from None


def from_iso(text: str, zone: str | None = None, *, noon: bool = True) -> int:
    """ISO 8601 or W3C date and time; what names no zone is of `zone`, or UTC.

    A date without a time of day is its noon, unless `noon` is False: half a day is then the most
    it can be wrong by.

    >>> from_iso("1970-01-02T01:00:00+01:00") == from_iso("1970-01-02 00:00:00Z")
    True
    >>> from_iso("1970-01-02") - MICROSECONDS_PER_DAY == MICROSECONDS_PER_DAY // 2
    True
    """
    text = text.strip()
    if _DATE.fullmatch(text):
        text += "-01" * (2 - text.count("-")) + "T12:00:00" * noon
    return checked(from_datetime(parse_datetime(text), zone))


def is_date_only(text: str) -> bool:
    """Whether this is a date without a time of day.

    >>> is_date_only("2026-11-14"), is_date_only("2026-11-14T10:00Z")
    (True, False)
    """
    return _DATE.fullmatch(text.strip()) is not None


def from_digits(text: str) -> int:
    """A time of 4 to 20 digits, as archives write it; what is not given is as low as it can be.

    >>> from_digits("20260131235959") - from_digits("20260131")
    86399000000
    >>> from_digits("20261") == from_digits("202610"), from_digits("20260") == from_digits("202601")
    (True, True)
    """
    if not _DIGITS.fullmatch(text):
        raise ValueError(f"this is not a time of 4 to 20 digits: {text[:30]!r}")
    padded = (text + "0" * 20)[:20]
    year, month, day, hour, minute, second = (
        int(padded[:4]),
        *(int(padded[at : at + 2]) for at in range(4, 14, 2)),
    )
    # A whole "00" is no month; one that padding made is the lowest month there is.
    month = 1 if month == 0 and len(text) < 6 else month
    day = 1 if day == 0 and len(text) < 8 else day
    if not 1970 <= year < 2200:
        raise ValueError(f"the year is not between 1970 and 2199: {text!r}")
    try:
        whole = dt.datetime(year, month, day, hour, minute, tzinfo=dt.UTC) - _EPOCH
    except ValueError:
        second = 61
    if second > 60:  # a leap second
        raise ValueError(f"there is no such time: {text!r}")
    return (whole // dt.timedelta(seconds=1) + second) * MICROSECONDS + int(padded[14:])


def from_java(text: str, zone: str | None = None) -> int:
    """What Java's ``Date`` prints: ``Sat Nov 14 10:00:00 CET 2026``.

    Abbreviations of zones are ambiguous, so all but UTC and GMT need `zone`. Where clocks are set
    back, the abbreviation tells which of the two hours is meant.

    >>> from_java("Fri Jan 02 00:00:00 UTC 1970") == MICROSECONDS_PER_DAY
    True
    >>> one = from_java("Sun Oct 25 02:30:00 CEST 2026", "Europe/Berlin")
    >>> two = from_java("Sun Oct 25 02:30:00 CET 2026", "Europe/Berlin")
    >>> (two - one) // MICROSECONDS
    3600
    """
    found = _JAVA.fullmatch(text.strip())
    if found is None or found[1] not in _MONTHS:
        raise ValueError("this is no date as Java prints it")
    day, hour, minute, second, year = (int(found[i]) for i in (2, 3, 4, 5, 7))
    month = 1 + _MONTHS.index(found[1])
    local = dt.datetime(year, month, day, hour, minute, second)  # noqa: DTZ001
    name = found[6]
    offset = _OFFSET.fullmatch(name)
    if offset:
        sign = -1 if offset[1] == "-" else 1
        shift = dt.timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return checked(from_datetime(local - sign * shift))
    if name in {"UTC", "GMT", "Z"}:
        return checked(from_datetime(local))
    if zone is None:
        raise InputError(
            f"its times are in a zone called {name!r}, which may be one of several; say which "
            "with --zone, for example --zone Europe/Berlin"
        )
    place = zone_of(zone)
    for fold in (0, 1):
        instant = local.replace(tzinfo=place, fold=fold)
        if instant.tzname() == name:
            return checked(from_datetime(instant))
    raise ValueError(f"{name} is not what {zone} called its time then")


def from_mail(text: str) -> int:
    """RFC 2822 and its relatives, as in RSS and HTTP.

    >>> from_mail("Fri, 02 Jan 1970 00:00:00 GMT") == MICROSECONDS_PER_DAY
    True
    """
    found = http_date(text)
    if found is None:
        raise ValueError("this is no time")
    return checked(micros(found))


def http_date(text: str | None) -> float | None:
    """Seconds since 1970 of a date of HTTP or mail in any of its forms, or None; not `checked`.

    >>> http_date("Sun, 06 Nov 1994 08:49:37 GMT"), http_date("Sunday, 06-Nov-94 08:49:37 GMT")
    (784111777.0, 784111777.0)
    >>> http_date("yesterday") is None
    True
    """
    from email.utils import parsedate_tz

    if not text or len(text) > 64:
        return None
    try:
        fields = parsedate_tz(text)
        if fields is None or fields[5] > 60:  # a leap second
            return None
        minute = dt.datetime(*fields[:5], tzinfo=dt.UTC)
        return (minute - _EPOCH).total_seconds() + fields[5] - (fields[9] or 0)
    except (ValueError, OverflowError, IndexError, TypeError):
        return None


@lru_cache(maxsize=64)
def zone_of(name: str) -> dt.tzinfo:
    """The time zone of this name, or an `InputError`."""
    from zoneinfo import ZoneInfo

    try:
        return dt.UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (OSError, ValueError, KeyError, RecursionError):
        raise InputError(
            f"there is no time zone {name[:40]!r}; write for example Europe/Paris"
        ) from None
