"""Access logs: how often each source was asked for, counted without holding the log.

Read are the common and the combined format (Apache, nginx; also with the host in front), and JSON
objects, one a line (nginx, Caddy, Traefik and others). An access is an answered GET: status 2xx or
304, by a client that does not call itself a robot.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
import numpy as np

from observant.errors import InputError
from observant.formats.imports.blocks import BLOCK, blocks_of
from observant.formats.imports.files import ImportFile
from observant.planning.importance import AccessTable, access_importance
from observant.times import DAY, from_iso

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

_LINE = (
    r"^(?:(?P<host>\S+?)(?::\d+)? )?\S+ \S+ \S+ \[(?P<time>[^\]]*)\] "
    r'"(?P<method>[A-Z]+) (?P<target>\S+)[^"]*" (?P<status>\d{3}) \S+'
    r'(?: "(?:[^"\\]|\\.)*" "(?P<agent>(?:[^"\\]|\\.)*)")?'
)
_TARGET = r"^(?:[Hh][Tt][Tt][Pp][Ss]?://(?P<host>[^/?#:]*)(?::\d+)?)?(?P<path>/?[^?#]*)(?P<query>\?[^#]*)?"
_ROBOT = r"(?i)bot\b|crawl|spider|slurp|observant"
_ANSWERED = r"^(2\d\d|304)$"
_REQUEST = re.compile(r"([A-Z]+) (\S+)")
_FIELDS = {
    "host": ("host", "http_host", "vhost", "server_name", "RequestHost"),
    "target": ("request_uri", "uri", "url", "path", "RequestPath"),
    "method": ("request_method", "method", "RequestMethod"),
    "status": ("status", "DownstreamStatus", "status_code", "sc-status"),
    "agent": ("http_user_agent", "user_agent", "agent", "request_User-Agent", "User-Agent"),
    "time": ("time_iso8601", "@timestamp", "timestamp", "time", "ts", "StartUTC", "time_local"),
}


class Accesses:
    """How often each of these sources was asked for.

    Logs name a path, and not always the host: `site` says it, where the sources are of several.
    A path with a query that no source has counts for the path without it.

    >>> seen = Accesses(["https://example.org/", "https://example.org/news"])
    >>> line = '192.0.2.1 - - [10/Oct/2025:13:55:36 +0000] "GET /news?from=mail HTTP/1.1" 200 99'
    >>> seen.add_block(line.encode() + b"\\n")
    >>> seen.counts.tolist(), seen.lines
    ([0.0, 1.0], 1)
    """

    def __init__(self, sources: Sequence[str], site: str = "", *, robots: bool = False) -> None:
        import pyarrow as pa

        self.sources = sources
        self.counts = np.zeros(len(sources))
        self.lines = self.malformed = self.robots = self.refused = self.elsewhere = 0
        self.first, self.last = np.inf, -np.inf
        """Seconds since 1970, of the earliest and the latest line."""
        self._count_robots = robots
        host, path, query = _parts(pa.array(sources, pa.large_string()).cast(pa.large_binary()))
        self._host = host
        self._keys = _joined(host, path, query)
        self._seen: set[bytes] = set()
        hosts = {h for h in host.unique().to_pylist() if h}
        given = _parts(pa.array([site.encode()]))[0][0].as_py()
        self._site = given or (site.encode().lower() if site else None)
        if self._site is None and len(hosts) == 1:
            (self._site,) = hosts

    def read(self, files: Iterable[str]) -> None:
        """Count the accesses of these files (- is standard input), compressed or not."""
        import sys
        from pathlib import Path

        for name in files:
            file = (
                ImportFile(name, stream=sys.stdin.buffer)
                if name == "-"
                else ImportFile(name, Path(name))
            )
            with file.open() as stream:
                self.add(stream, name)

    def add(self, stream: BinaryIO, name: str = "") -> None:
        """Count the accesses of a log."""
        before = self.lines - self.malformed
        for block in blocks_of(stream):
            self.add_block(block, name)
        if before == self.lines - self.malformed:
            raise InputError(
                "no line of it is one of an access log (common, combined, or JSON)",
                file=name or None,
            )

    def add_block(self, block: bytes, name: str = "") -> None:
        """Count the accesses of some whole lines."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not block.endswith(b"\n"):  # the beginning of a line that is too long
            self.lines, self.malformed = self.lines + 1, self.malformed + 1
            return
        table = _json_rows(block) if block.lstrip()[:1] == b"{" else _text_rows(block)
        self.lines += len(table)
        good = table.drop_null()
        self.malformed += len(table) - len(good)
        if not len(good):
            return
        for at in (good[0], good[-1]):
            when = _instant(at["time"].as_py())
            self.first, self.last = min(self.first, when), max(self.last, when)
        field = {name: pc.struct_field(good, name) for name in _FIELDS}
        wanted = pc.equal(field["method"], b"GET")
        answered = pc.match_substring_regex(field["status"], _ANSWERED)
        self.refused += int(pc.sum(pc.invert(pc.and_(wanted, answered))).as_py() or 0)
        keep = pc.and_(wanted, answered)
        if not self._count_robots:
            robot = pc.and_(keep, pc.match_substring_regex(field["agent"], _ROBOT))
            self.robots += int(pc.sum(robot).as_py() or 0)
            keep = pc.and_not(keep, robot)
        told, path, query = _parts(field["target"].filter(keep))
        host = pc.if_else(pc.equal(told, b""), _lower(field["host"].filter(keep)), told)
        unknown = pc.equal(host, b"")
        if self._site is not None:
            host = pc.if_else(unknown, pa.scalar(self._site, pa.large_binary()), host)
        elif pc.any(unknown).as_py():
            raise InputError(
                "the log names no hosts, and the sources are of several: say which site it is of "
                "(observant settings importance --site example.org), or plan for that site alone",
                file=name or None,
            )
        self._seen.update(host.unique().to_pylist())
        where = pc.index_in(_joined(host, path, query), value_set=self._keys)
        plain = pc.index_in(_joined(host, path, None), value_set=self._keys)
        found = pc.coalesce(where, plain)
        self.elsewhere += found.null_count
        found = np.asarray(found.drop_null()).astype(np.int64)
        self.counts += np.bincount(found, minlength=len(self.counts))

    @property
    def days(self) -> float:
        """Between the first and the last line; a day at least."""
        return max((self.last - self.first) / DAY, 1.0) if self.last > self.first else 1.0

    def fade(self, share: float) -> None:
        """Let what was counted so far weigh only this share of it."""
        self.counts *= share

    def importance(self) -> tuple[np.ndarray[Any, np.dtype[np.bool_]], AccessTable]:
        """Accesses a day of the sources whose host the log is of (and which these are)."""
        hosts = self._host.to_pylist()
        ours = np.array([host in self._seen for host in hosts], bool)
        if not self.counts.any():
            raise InputError(
                f"none of the {self.lines:,} lines asks for one of the {len(hosts):,} sources"
            )
        return ours, access_importance(self.counts[ours], self.days)


class LogEnd:
    """The end of a log that grows, is cut, or is replaced: what has come since the last look."""

    def __init__(self, path: Path) -> None:
        self._path, self._inode, self._offset = path, -1, 0

    def news(self) -> Iterable[bytes]:
        """The whole lines that are new, in blocks."""
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._inode or status.st_size < self._offset:
                    self._inode, self._offset = status.st_ino, 0
                file.seek(self._offset)
                while chunk := file.read(BLOCK):
                    cut = chunk.rfind(b"\n") + 1
                    if not cut and len(chunk) < BLOCK:
                        return  # a line that is still being written
                    self._offset += cut or len(chunk)
                    yield chunk[:cut] or chunk
                    file.seek(self._offset)
        except FileNotFoundError:
            return  # it is being replaced


def _text_rows(block: bytes) -> Any:
    """The fields of each line, nothing where a line has them not."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + 1
    offsets = np.concatenate([[0], ends]).astype(np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(block)]
    lines = pa.Array.from_buffers(pa.large_binary(), len(ends), buffers)
    blank = pc.match_substring_regex(lines, r"^\s*$")
    return pc.extract_regex(lines.filter(pc.invert(blank)), _LINE)


def _json_rows(block: bytes) -> Any:
    import pyarrow as pa

    decode = msgspec.json.Decoder(dict[str, Any]).decode
    rows: list[dict[str, bytes] | None] = []
    for line in block.splitlines():
        if not line.strip():
            continue
        row = None
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            row = _json_row(decode(line))
        rows.append(row)
    kind = pa.struct([(name, pa.large_binary()) for name in _FIELDS])
    return pa.array(rows, kind)


def _json_row(found: Mapping[str, Any]) -> dict[str, bytes] | None:
    request = found.get("request")
    inner = request if isinstance(request, dict) else {}
    row: dict[str, Any] = {}
    for name, spellings in _FIELDS.items():
        texts = (part.get(spelling) for part in (found, inner) for spelling in spellings)
        row[name] = next((t for t in texts if isinstance(t, str | int | float)), "")
    if isinstance(request, str) and (parts := _REQUEST.match(request)):
        row["method"], row["target"] = parts.groups()
    if isinstance(headers := inner.get("headers"), dict):
        agent = headers.get("User-Agent", "")
        row["agent"] = agent[0] if isinstance(agent, list) and agent else agent
    if not row["target"]:
        return None
    row["method"] = row["method"] or "GET"
    row["status"] = row["status"] or "200"
    row["host"] = re.sub(r":\d+$", "", str(row["host"]))
    return {name: str(value).encode("utf-8", "replace") for name, value in row.items()}


def _parts(targets: Any) -> tuple[Any, Any, Any]:
    """Host, path and query of each address; a host that is not named is empty."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.extract_regex(targets.cast(pa.large_binary()), _TARGET)
    host, path, query = (
        pc.fill_null(pc.struct_field(found, name), b"") for name in ("host", "path", "query")
    )
    path = pc.if_else(pc.equal(path, b""), pa.scalar(b"/", pa.large_binary()), path)
    return _lower(host), path, query


def _lower(hosts: Any) -> Any:
    """In lower case; there are few, and their bytes may be anything."""
    import pyarrow as pa

    encoded = hosts.dictionary_encode()
    few = pa.array([host.lower() for host in encoded.dictionary.to_pylist()], pa.large_binary())
    return few.take(encoded.indices)


def _joined(host: Any, path: Any, query: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = [host, path] if query is None else [host, path, query]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


def _instant(text: bytes) -> float:
    """Seconds since 1970 of a time as logs write it; NaN if it is none."""
    plain = text.decode("latin-1")
    with suppress(ValueError):
        return dt.datetime.strptime(plain, "%d/%b/%Y:%H:%M:%S %z").timestamp()
    with suppress(ValueError, InputError, OverflowError):
        return float(plain) if re.fullmatch(r"[\d.]+(e\d+)?", plain) else from_iso(plain) / 1e6
    return np.nan
