"""Times, digests, outcomes and names as archives write them, one value at a time.

This is the careful reader: the compiled loops take a value only where they agree with it.
"""

from __future__ import annotations

import base64
import binascii
import calendar
import datetime as dt
import hashlib
import re
from typing import NamedTuple

__all__ = [
    "LeftOut",
    "Row",
    "Unreadable",
    "checked_row",
    "digest_in",
    "instant_of",
    "iso_instant",
    "size_in",
    "status_in",
]

WIDEST_DIGEST = 64
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_YEARS = (1970, 2199)
_NOT_WEB = ("dns:", "whois:", "filedesc:", "warcinfo:")
_HEX = re.compile(r"[0-9a-fA-F]+", re.ASCII)
_BASE32 = re.compile(r"[A-Z2-7]+=*", re.ASCII)
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE
)
_BYTES_OF = {"sha1": 20, "sha256": 32, "sha512": 64, "md5": 16}


class Unreadable(Exception):  # noqa: N818 - no error of ours: it becomes a malformed row
    """A row that cannot be read, and why."""


class LeftOut(Exception):  # noqa: N818 - the same
    """A sound row that is no visit, and why."""


class Row(NamedTuple):
    """What one line of an archive's index says about a visit."""

    source: str
    time: int
    status: int | None = None
    size: int | None = None
    digest: bytes | None = None
    revisit: bool = False
    truncated: bool = False


def checked_row(
    *,
    name: str | None,
    url: str | None,
    time: int,
    status: int | None = None,
    size: int | None = None,
    digest: bytes | None = None,
    revisit: bool = False,
    truncated: bool = False,
) -> Row:
    """A row under this name, unless it is of something that is no source (a DNS answer)."""
    shown = url or name
    if shown is not None and shown.startswith(_NOT_WEB):
        raise LeftOut(f"{shown.partition(':')[0]} records, which are not captures")
    if not name or name == "-":
        raise Unreadable("the source has no name; is there a key to use instead (--key surt)?")
    return Row(name, time, status, size, digest, revisit, truncated)


def instant_of(text: str) -> int:
    """Microseconds since 1970 of 4 to 20 digits; what is not given is as low as it can be.

    >>> instant_of("20260131235959") - instant_of("20260131")
    86399000000
    >>> instant_of("20261") == instant_of("202610"), instant_of("20260") == instant_of("202601")
    (True, True)
    """
    if not _DIGITS.fullmatch(text) or not 4 <= len(text) <= 20:
        raise Unreadable(f"this is not a time of 4 to 20 digits: {text[:30]!r}")
    padded = (text + "0" * 20)[:20]
    year, month, day, hour, minute, second = (
        int(padded[:4]),
        *(int(padded[at : at + 2]) for at in range(4, 14, 2)),
    )
    # A whole "00" is no month; one that padding made is the lowest month there is.
    month = 1 if month == 0 and len(text) < 6 else month
    day = 1 if day == 0 and len(text) < 8 else day
    if not _YEARS[0] <= year <= _YEARS[1]:
        raise Unreadable(f"the year is not between {_YEARS[0]} and {_YEARS[1]}: {text!r}")
    if not (
        1 <= month <= 12
        and 1 <= day <= calendar.monthrange(year, month)[1]
        and hour < 24
        and minute < 60
        and second <= 60  # a leap second
    ):
        raise Unreadable(f"there is no such time: {text!r}")
    whole = dt.datetime(year, month, day, hour, minute, tzinfo=dt.UTC) - _EPOCH
    return (whole // dt.timedelta(seconds=1) + second) * 1_000_000 + int(padded[14:])


def iso_instant(text: str) -> int:
    """Microseconds since 1970 of a WARC-Date: ISO 8601 with a zone, finer digits cut.

    >>> iso_instant("1970-01-01T00:00:01.0000019Z")
    1000001
    """
    match = _ISO.fullmatch(text.strip())
    if match is None:
        raise Unreadable(f"this is not a time with a zone in ISO 8601: {text[:40]!r}")
    zone = match[3].upper()
    try:
        at = dt.datetime.fromisoformat(match[1] + ("+00:00" if zone == "Z" else zone))
    except ValueError as error:
        raise Unreadable(f"there is no such time: {text[:40]!r}") from error
    if not _YEARS[0] <= at.astimezone(dt.UTC).year <= _YEARS[1]:
        raise Unreadable(f"the year is not between {_YEARS[0]} and {_YEARS[1]}: {text[:40]!r}")
    return (at - _EPOCH) // dt.timedelta(seconds=1) * 1_000_000 + int(
        (match[2] or "").ljust(6, "0")[:6]
    )


def digest_in(text: str | None) -> bytes | None:
    """The bytes that a digest spells, so that one hash has one form; None for a dash or nothing.

    Base32 and hexadecimal spell the same SHA-1; a name before a colon is left out. What is
    neither is kept as it is written.

    >>> digest_in("sha1:" + "00" * 20) == digest_in("A" * 32) == bytes(20)
    True
    >>> digest_in("-"), digest_in("v2")
    (None, b'v2')
    """
    if text is None or text in {"", "-"}:
        return None
    scheme, colon, value = text.rpartition(":")
    scheme = scheme.lower().replace("-", "")
    wanted = _BYTES_OF.get(scheme)
    value = value if colon and scheme else text
    if value in {"", "-"}:
        return None
    if _BASE32.fullmatch(value) and not (wanted and len(value) == 2 * wanted):
        bare = value.rstrip("=")
        try:
            spelt = base64.b32decode(bare + "=" * (-len(bare) % 8))
        except binascii.Error:
            spelt = b""
        if len(spelt) in ((wanted,) if wanted else (20, 32, 64)):
            return spelt
    if _HEX.fullmatch(value) and len(value) in ((2 * wanted,) if wanted else (32, 40, 64, 128)):
        return bytes.fromhex(value)
    raw = value.encode("utf-8", "surrogatepass")
    return raw if len(raw) <= WIDEST_DIGEST else hashlib.blake2b(raw, digest_size=63).digest()


def status_in(value: object) -> int | None:
    """An outcome, written as a number or as text; None for a dash or nothing."""
    number = _whole(value, "status")
    if number is not None and not -32_767 <= number <= 32_767:
        raise Unreadable(f"this is not a status: {str(value)[:30]!r}")
    return number


def size_in(value: object) -> int | None:
    """A size in bytes; None for a dash or nothing."""
    number = _whole(value, "length")
    if number is not None and not 0 <= number < 2**63:
        raise Unreadable(f"this is not a length: {str(value)[:30]!r}")
    return number


def _whole(value: object, what: str) -> int | None:
    if value is None or value in ("", "-"):
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) <= 20:
        digits = value.removeprefix("-")
        if _DIGITS.fullmatch(digits):
            return int(value)
    raise Unreadable(f"this is not a {what}: {str(value)[:30]!r}")
