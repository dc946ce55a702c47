"""Indexes and files of web archives as visit logs, and a visit log as an index (CDXJ)."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, BinaryIO

from observant.errors import InputError
from observant.formats.imports.files import ImportFile
from observant.times import MICROSECONDS, utc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

_SCHEMES = {20: "sha1", 32: "sha256", 64: "sha512", 16: "md5"}


class Archive:
    """One of the formats of web archives."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read(self, file: BinaryIO, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the visits with these columns; what `observant import` refuses is refused."""
        from observant.formats.imports import ImportOptions, VisitImport

        visits = VisitImport([ImportFile(name, None, file)], self._name, ImportOptions(), None)
        kept = None
        for batch in visits:
            kept = [column for column in batch.schema.names if column in columns]
            yield batch.select(kept)
        if kept is None:
            raise InputError("there are no visits in it", file=name)

    def write(self, batches: Iterator[pa.RecordBatch], file: BinaryIO, _ending: str = "") -> None:
        """Write CDXJ; the other formats hold what a visit log does not have."""
        if self._name != "cdxj":
            raise InputError(
                f"a {self._name.upper()} file cannot be written; Parquet, CSV, JSON Lines and "
                "CDXJ can"
            )
        for batch in batches:
            file.writelines(line.encode() + b"\n" for line in cdxj_lines(batch))


def cdxj_lines(batch: pa.RecordBatch) -> Iterator[str]:
    """A line of CDXJ for each visit, in the order of the rows.

    A digest of a usual size is named by the hash of that size. An unchanged visit without a
    digest is a revisit. Sort the lines (``LC_ALL=C sort``) before a replay tool looks them up.

    >>> import pyarrow as pa
    >>> batch = pa.record_batch({"source": ["https://example.org/a"], "time": [0], "status": [200]})
    >>> print(*cdxj_lines(batch))
    org,example)/a 19700101000000 {"url": "https://example.org/a", "status": "200"}
    """
    import pyarrow as pa

    names = batch.schema.names
    if not {"source", "time"} <= set(names):
        raise InputError("CDXJ can hold a visit log only, with the columns source and time")
    instants = batch.column("time")
    if not pa.types.is_timestamp(instants.type):
        instants = instants.cast(pa.timestamp("s"))
    plain = instants.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    columns = {name: batch.column(name).to_pylist() for name in names if name in _HELD}
    for row, micros in enumerate(plain.to_pylist()):
        visit = {name: values[row] for name, values in columns.items()}
        url = str(visit["source"])
        record: dict[str, Any] = {"url": url}
        digest = visit.get("digest")
        if visit.get("changed") is False and digest is None:
            record["mime"] = "warc/revisit"
        if visit.get("status") is not None:
            record["status"] = str(visit["status"])
        if digest is not None:
            record["digest"] = _spelt(digest)
        if visit.get("bytes") is not None:
            record["length"] = str(visit["bytes"])
        yield f"{surt_key(url)} {_digits(micros)} {json.dumps(record, ensure_ascii=False)}"


_HELD = ("source", "changed", "digest", "status", "bytes")


def surt_key(url: str) -> str:
    """The key that an index sorts a URL by: the host's names in reverse, then the path.

    >>> surt_key("http://www.Example.org:80/a?B=1"), surt_key("not a url")
    ('org,example)/a?b=1', 'not%20a%20url')
    """
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        host, port = "", None
    if not host or parts.scheme.lower() not in {"http", "https"}:
        return url.replace(" ", "%20").replace("\n", "%0A") or "-"
    names = host.split(".")
    if len(names) > 2 and names[0].rstrip("0123456789") == "www":
        names = names[1:]
    place = ",".join(reversed(names)) if not host.replace(".", "").isdigit() else host
    default = {"http": 80, "https": 443}[parts.scheme.lower()]
    if port not in (None, default):
        place += f":{port}"
    query = f"?{parts.query}" if parts.query else ""
    key = f"{place}){parts.path or '/'}{query}".lower()
    return "".join(f"%{ord(sign):02x}" if sign <= " " else sign for sign in key)


def _spelt(digest: bytes | str) -> str:
    raw = digest.encode() if isinstance(digest, str) else digest
    scheme = _SCHEMES.get(len(raw))
    if scheme == "sha1":
        return f"sha1:{base64.b32encode(raw).decode()}"
    return f"{scheme or 'hex'}:{raw.hex()}"


def _digits(micros: int) -> str:
    """The time in 14 digits, with six more where it is not a whole second."""
    whole, rest = divmod(micros, MICROSECONDS)
    return f"{utc(whole):%Y%m%d%H%M%S}" + (f"{rest:06d}" if rest else "")
