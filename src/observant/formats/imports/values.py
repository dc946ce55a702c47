"""Times, digests, outcomes and names as archives write them, one value at a time.

This is the careful reader: the compiled loops take a value only where they agree with it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from observant.errors import LeftOut
from observant.times import (
    LATEST,
    MICROSECONDS_PER_DAY,
    from_datetime,
    from_iso,
    from_mail,
    parse_datetime,
)

if TYPE_CHECKING:
    import pyarrow as pa


WIDEST_DIGEST = 64
_NOT_WEB = ("dns:", "whois:", "filedesc:", "warcinfo:")
_HEX = re.compile(r"[0-9a-fA-F]+", re.ASCII)
_BASE32 = re.compile(r"[A-Z2-7]+=*", re.ASCII)
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
_BYTES_OF = {"sha1": 20, "sha256": 32, "sha512": 64, "md5": 16}


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
        raise ValueError("the source has no name; is there a key to use instead (--key surt)?")
    return Row(name, time, status, size, digest, revisit, truncated)


def iso_instant(text: str) -> int:
    """Microseconds since 1970 of a WARC-Date: ISO 8601 with a zone, finer digits cut.

    >>> iso_instant("1970-01-01T00:00:01.0000019Z")
    1000001
    """
    text = text.strip().upper()
    if not _ISO.fullmatch(text):
        raise ValueError(f"this is not a time with a zone in ISO 8601: {text[:40]!r}")
    try:
        at = from_datetime(parse_datetime(text))
    except ValueError:
        raise ValueError(f"there is no such time: {text!r}") from None
    if not 0 <= at < LATEST * MICROSECONDS_PER_DAY:
        raise ValueError(f"the year is not between 1970 and 2199: {text!r}")
    return at


def web_date(text: str, zone: str | None) -> int:
    """A time as feeds and sitemaps write it: by ISO 8601, or as in mail."""
    try:
        return from_iso(text, zone)
    except ValueError:
        return from_mail(text)


def header_date(text: str | None) -> int | None:
    """A time as a header has it; None where it has none, or no date."""
    try:
        return from_mail(text) if text else None
    except ValueError:
        return None


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
        raise ValueError(f"this is not a status: {str(value)[:30]!r}")
    return number


def size_in(value: object) -> int | None:
    """A size in bytes; None for a dash or nothing."""
    number = _whole(value, "length")
    if number is not None and not 0 <= number < 2**63:
        raise ValueError(f"this is not a length: {str(value)[:30]!r}")
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
    raise ValueError(f"this is not a {what}: {str(value)[:30]!r}")


# -- A whole column of digests, from text to the bytes that it spells -----------------------------


_COMPILED_FROM = 20_000  # rows


def digests_in(texts: pa.Array, compiled_from: int = _COMPILED_FROM) -> pa.Array:
    """Bytes for each text, as `observant.formats.imports.values.digest_in` reads it.

    >>> import pyarrow as pa
    >>> digests_in(pa.array(["-", "A" * 32, None])).to_pylist() == [None, bytes(20), None]
    True
    """
    import pyarrow as pa

    if len(texts) < compiled_from:
        return pa.array([digest_in(text) for text in texts.to_pylist()], pa.binary())
    from observant.formats.imports.kernels import pack, spell

    plain = texts.cast(pa.large_string()).fill_null("")
    offsets = np.frombuffer(plain.buffers()[1], np.int64)[plain.offset :][: len(plain) + 1]
    data = np.frombuffer(plain.buffers()[2] or b"\0", np.uint8)
    spelt = np.zeros(WIDEST_DIGEST * len(plain), np.uint8)
    sizes = np.zeros(len(plain), np.int64)
    spell(data, offsets, spelt, sizes)
    for row in np.flatnonzero(sizes < 0).tolist():
        digest = digest_in(plain[row].as_py()) or b""
        spelt[row * WIDEST_DIGEST :][: len(digest)] = np.frombuffer(digest, np.uint8)
        sizes[row] = len(digest)
    packed = np.empty(int(sizes.sum()), np.uint8)
    ends = np.empty(len(plain) + 1, np.int32)
    pack(spelt, sizes, np.arange(len(plain)), packed, ends)
    known = pa.array(sizes > 0).buffers()[1]
    return pa.Array.from_buffers(
        pa.binary(), len(plain), [known, pa.py_buffer(ends), pa.py_buffer(packed)]
    )
