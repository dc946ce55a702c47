"""Times as other tools write them, to microseconds since 1970 UTC.

Every function raises `ValueError` with the reason for a text that is no time, and for a time that
no visit can have (before 1970, after 2200), so that a row of a file can be named malformed.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from email.utils import parsedate_tz
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from observant.errors import InputError

if TYPE_CHECKING:
    from observant.formats.imports.opening import ImportFile

__all__ = [
    "checked",
    "from_any",
    "from_iso",
    "from_java",
    "from_mail",
    "from_seconds",
    "is_date_only",
    "when_saved",
    "zone_of",
]

SECOND = 1_000_000
DAY = 86_400 * SECOND
_LATEST = 84_006 * DAY  # 2200, as the door of the visit log has it
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}
_JAVA = re.compile(
    r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (\S{1,32}) (\d{4})"
)
_OFFSET = re.compile(r"(?:GMT|UTC)([+-])(\d{1,2}):?(\d\d)")
_DATE = re.compile(r"\d{4}(-\d\d(-\d\d)?)?")
_FRACTION = re.compile(r"([.,]\d{6})\d+")


def checked(micros: int) -> int:
    """The time itself, if a visit can have it."""
    if not 0 < micros < _LATEST:
        raise ValueError("the time is not between 1970 and 2200")
    return micros


def from_seconds(value: Any, unit: int = SECOND) -> int:
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


def from_iso(text: str, zone: str | None = None) -> int:
    """ISO 8601 or W3C date and time; what names no zone is of `zone`, or UTC.

    A date without a time of day is its noon: half a day is then the most it can be wrong by.

    >>> from_iso("1970-01-02T01:00:00+01:00") == from_iso("1970-01-02 00:00:00Z") == DAY
    True
    >>> from_iso("1970-01-02") - DAY == DAY // 2
    True
    """
    text = text.strip()
    if len(text) > 40:
        raise ValueError("this is no time")
    if _DATE.fullmatch(text):
        text += "-01" * (2 - text.count("-")) + "T12:00:00"
    try:
        instant = dt.datetime.fromisoformat(_FRACTION.sub(r"\1", text))
    except ValueError:
        raise ValueError("this is no time") from None
    return _micros(instant, zone)


def is_date_only(text: str) -> bool:
    """Whether this is a date without a time of day.

    >>> is_date_only("2026-11-14"), is_date_only("2026-11-14T10:00Z")
    (True, False)
    """
    return _DATE.fullmatch(text.strip()) is not None


def from_java(text: str, zone: str | None = None) -> int:
    """What Java's ``Date`` prints: ``Sat Nov 14 10:00:00 CET 2026``.

    Abbreviations of zones are ambiguous, so all but UTC and GMT need `zone`. Where clocks are set
    back, the abbreviation tells which of the two hours is meant.

    >>> from_java("Fri Jan 02 00:00:00 UTC 1970") == DAY
    True
    >>> one = from_java("Sun Oct 25 02:30:00 CEST 2026", "Europe/Berlin")
    >>> two = from_java("Sun Oct 25 02:30:00 CET 2026", "Europe/Berlin")
    >>> (two - one) // SECOND
    3600
    """
    found = _JAVA.fullmatch(text.strip())
    if found is None or found[1] not in _MONTHS:
        raise ValueError("this is no date as Java prints it")
    day, hour, minute, second, year = (int(found[i]) for i in (2, 3, 4, 5, 7))
    local = dt.datetime(year, _MONTHS[found[1]], day, hour, minute, second)  # noqa: DTZ001
    name = found[6]
    offset = _OFFSET.fullmatch(name)
    if offset:
        sign = -1 if offset[1] == "-" else 1
        shift = dt.timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return _micros(local.replace(tzinfo=dt.UTC) - sign * shift, None)
    if name in {"UTC", "GMT", "Z"}:
        return _micros(local.replace(tzinfo=dt.UTC), None)
    if zone is None:
        raise InputError(
            f"its times are in a zone called {name!r}, which may be one of several; say which "
            "with --zone, for example --zone Europe/Berlin"
        )
    place = zone_of(zone)
    for fold in (0, 1):
        instant = local.replace(tzinfo=place, fold=fold)
        if instant.tzname() == name:
            return _micros(instant, None)
    raise ValueError(f"{name} is not what {zone} called its time then")


def from_mail(text: str) -> int:
    """RFC 2822 and its relatives, as in RSS and HTTP.

    >>> from_mail("Fri, 02 Jan 1970 00:00:00 GMT") == DAY
    True
    """
    if len(text) > 64:
        raise ValueError("this is no time")
    try:
        fields = parsedate_tz(text)
    except (ValueError, IndexError, TypeError, OverflowError):
        fields = None
    if fields is None:
        raise ValueError("this is no time")
    try:
        instant = dt.datetime(*fields[:6], tzinfo=dt.UTC)
        return _micros(instant - dt.timedelta(seconds=fields[9] or 0), None)
    except OverflowError:
        raise ValueError("this is no time") from None


def from_any(value: Any, zone: str | None = None) -> int:
    """A number of seconds (of milliseconds, if it is that large), or any of the texts above.

    >>> from_any(86400) == from_any("1970-01-02T00:00Z") == from_any("86400") == DAY
    True
    >>> from_any(1_763_000_000_000) == from_any(1_763_000_000)
    True
    """
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            pass
        else:
            return from_any(value)
        for read in (lambda text: from_iso(text, zone), from_mail):
            try:
                return read(value)
            except ValueError:
                continue
        return from_java(value, zone)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return from_seconds(value, 1_000 if abs(value) > 1e11 else SECOND)
    raise ValueError("this is no time")


@lru_cache(maxsize=16)
def zone_of(name: str) -> dt.tzinfo:
    """The time zone of this name, or an `InputError`."""
    try:
        return dt.UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (OSError, ValueError, KeyError, RecursionError):
        raise InputError(
            f"there is no time zone {name!r}; write for example Europe/Paris"
        ) from None


def when_saved(file: ImportFile) -> int:
    """When a file was written, as far as the disk knows; now, for what comes as a stream."""
    import time

    saved = time.time() if file.path is None else file.path.stat().st_mtime
    return round(saved * SECOND)


def _micros(instant: dt.datetime, zone: str | None) -> int:
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=dt.UTC if zone is None else zone_of(zone))
    try:
        return checked((instant - _EPOCH) // dt.timedelta(microseconds=1))
    except OverflowError:
        raise ValueError("the time is not between 1970 and 2200") from None
