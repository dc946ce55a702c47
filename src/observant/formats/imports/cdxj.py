"""CDXJ: a sorted index of captures, ``key time {json}`` a line; also in ZipNum clusters."""

from __future__ import annotations

import json
import os
import re
import zlib
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from observant.errors import InputError
from observant.formats.imports.base import Batches, Importer
from observant.formats.imports.blocks import COMPILED_FROM, Lines, read_block, read_lines
from observant.formats.imports.lines import lines
from observant.formats.imports.values import Row, checked_row, digest_in, size_in, status_in
from observant.times import from_digits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.files import ImportFile
    from observant.formats.imports.report import Report


# -- ZipNum clusters: an index of gzip members of some thousand lines of CDXJ, read in parallel ---


_LINE = re.compile(r"(\S+(?: \d{4,20})?)\t([^\t/\\\0]+)\t(\d{1,15})\t(\d{1,12})(?:\t(\d{1,12}))?")
_LARGEST_MEMBER = 1 << 26
_LARGEST_CONTENT = 1 << 28
_GROUP = 1 << 23  # bytes of lines that are worth a batch


class ZipMember(NamedTuple):
    """Where a gzip member is."""

    line: int
    shard: str
    offset: int
    length: int


class ZipNum(Importer):
    """The secondary index of a cluster; the shards that it names lie in the same folder."""

    name = "zipnum"
    title = "ZipNum cluster of CDXJ (cluster.idx and its shards)"
    evidence: Evidence = "V"
    endings = (".idx",)

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether the first line is one of a secondary index."""
        first = head.partition(b"\n")[0].rstrip(b"\r").decode(errors="replace")
        return _LINE.fullmatch(first) is not None

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield a batch a group of members, in their order, decompressed in threads."""
        if file.path is None:
            raise InputError("the shards lie beside the index, so it must be a file on disk")
        form = CdxjLines(by_key=options.key == "surt")
        workers = min(os.cpu_count() or 1, 8)
        shards: dict[str, BinaryIO] = {}
        number = 0
        try:
            with file.open() as stream, ThreadPoolExecutor(workers) as pool:
                for group in _groups(_unpacked(stream, file, shards, report, pool, 4 * workers)):
                    compiled = len(group) >= COMPILED_FROM
                    batch, count = read_block(group, form, report, number, compiled=compiled)
                    number += count
                    yield batch
        finally:
            for shard in shards.values():
                shard.close()


def _unpacked(
    stream: BinaryIO,
    file: ImportFile,
    shards: dict[str, BinaryIO],
    report: Report,
    pool: ThreadPoolExecutor,
    at_once: int,
) -> Iterator[bytes]:
    """The lines of each member, some of them unpacked at the same time."""
    assert file.path is not None  # noqa: S101 - looked at by the caller
    folder, members = file.path.parent, _members(stream, report)
    while some := list(islice(members, at_once)):
        packed = [_bytes_of(member, folder, shards) for member in some]
        for member, content in zip(some, pool.map(_unpack, packed), strict=True):
            if content is None:
                report.add_rows()
                report.malformed(
                    member.line, f"{member.shard} has no sound gzip member at {member.offset:,}"
                )
            elif content:
                yield content


def _members(stream: BinaryIO, report: Report) -> Iterator[ZipMember]:
    for number, text in lines(stream, report):
        match = _LINE.fullmatch(text)
        if match is None:
            report.add_rows()
            report.malformed(number, "this is not: key and time, shard, offset, length", text)
            continue
        yield ZipMember(number, match[2], int(match[3]), int(match[4]))


def _bytes_of(member: ZipMember, folder: Path, shards: dict[str, BinaryIO]) -> bytes:
    if member.shard not in shards:
        # The name has no slash in it; so it is in the folder, or it is one of these.
        if member.shard in {".", ".."}:
            raise InputError(f"a shard cannot be called {member.shard!r}", row=member.line)
        path = folder / member.shard
        if not path.is_file() and path.with_name(f"{member.shard}.gz").is_file():
            path = path.with_name(f"{member.shard}.gz")
        try:
            shards[member.shard] = path.open("rb")
        except OSError as error:
            raise InputError(
                f"the shard {member.shard} cannot be read: {error.strerror}", row=member.line
            ) from error
    shard = shards[member.shard]
    shard.seek(member.offset)
    return shard.read(min(member.length, _LARGEST_MEMBER))


def _unpack(packed: bytes) -> bytes | None:
    """The content of one gzip member, or None if it is broken, or a bomb."""
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        content = unpacker.decompress(packed, _LARGEST_CONTENT)
    except zlib.error:
        return None
    if not unpacker.eof:
        return None
    return content if content.endswith(b"\n") or not content else content + b"\n"


def _groups(contents: Iterator[bytes]) -> Iterator[bytes]:
    """Join contents until they are worth a batch."""
    waiting: list[bytes] = []
    size = 0
    for content in contents:
        waiting.append(content)
        size += len(content)
        if size >= _GROUP:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


_NAMES = {
    "url": ("url", "original", "u"),
    "mime": ("mime", "mimetype", "m"),
    "status": ("status", "statuscode", "s"),
    "digest": ("digest", "d"),
    "length": ("length", "l"),
    "timestamp": ("timestamp", "t"),
    "urlkey": ("urlkey", "k"),
}
"""What indexers call the same thing, the usual name first."""


class Cdxj(Importer):
    """CDXJ as pywb, cdxj-indexer, Browsertrix and Common Crawl write it."""

    name = "cdxj"
    title = "CDXJ index of a web archive"
    evidence: Evidence = "V"
    endings = (".cdxj",)

    def sniff(self, head: bytes, name: str) -> bool:
        for line in head.split(b"\n")[:50]:
            if line.startswith((b"!", b"@", b" CDX")) or not line.strip():
                continue
            parts = line.split(b" ", 2)
            return len(parts) == 3 and parts[1].isdigit() and parts[2].lstrip().startswith(b"{")
        return False

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        with file.open() as stream:
            yield from read_lines(stream, CdxjLines(by_key=options.key == "surt"), report)


class CdxjLines:
    """Reads lines of CDXJ; with `bare`, lines that are a JSON object and nothing else."""

    def __init__(self, *, by_key: bool = False, bare: bool = False) -> None:
        self._by_key, self._bare = by_key, bare

    def scan(self, data: NDArray[np.uint8], lines: Lines) -> int:
        from observant.formats.imports.kernels import scan_json

        return int(scan_json(data, self._bare, self._by_key, *lines.arrays))

    def careful(self, line: bytes) -> Row | None:
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise ValueError("this is not text in UTF-8") from error
        if self._bare:
            return record_row(_object_in(text), by_key=self._by_key)
        if text.startswith(("!", "@", " CDX")):
            return None
        parts = text.split(" ", 2)
        if len(parts) != 3:
            raise ValueError("this is not: key, time, JSON object")
        record = _object_in(parts[2])
        time = from_digits(parts[1])
        return record_row(record, by_key=self._by_key, key=parts[0], time=time)


def record_row(
    record: Mapping[str, Any], *, by_key: bool, key: str | None = None, time: int | None = None
) -> Row:
    """The visit that an object describes, whichever names its keys have.

    >>> record_row({"original": "http://a/", "t": "1970", "s": "200"}, by_key=False)
    Row(source='http://a/', time=0, status=200, size=None, digest=None, revisit=False, \
truncated=False)
    """

    def text(what: str) -> str | None:
        value = next((record[name] for name in _NAMES[what] if name in record), None)
        if value is not None and not isinstance(value, str):
            raise ValueError(f"the {what} is not a text: {str(value)[:30]!r}")
        return value

    def value(what: str) -> Any:
        return next((record[name] for name in _NAMES[what] if name in record), None)

    key = text("urlkey") if key is None else key
    if time is None:
        time = from_digits(text("timestamp") or "")
    url, mime, truncated = text("url"), text("mime"), record.get("truncated")
    return checked_row(
        name=key if by_key else url,
        url=url,
        time=time,
        status=status_in(value("status")),
        size=size_in(value("length")),
        digest=digest_in(text("digest")),
        revisit=mime == "warc/revisit",
        truncated=bool(truncated) and truncated != "-",
    )


def _object_in(text: str) -> dict[str, Any]:
    try:
        record = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError("this is not a JSON object") from error
    if not isinstance(record, dict):
        raise ValueError("this is JSON, and not an object")  # noqa: TRY004 - one kind for all
    return record


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


IMPORTERS = (Cdxj(), ZipNum())
