"""Files of lines, a visit each, read in large blocks by a compiled loop.

What the loop is not certain of goes, line by line, to the careful reader of the format. Small
files are read by that one alone, which is ready at once; the visits are the same.
"""

from __future__ import annotations

import hashlib
import queue
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from observant.errors import LeftOut
from observant.formats.imports.values import WIDEST_DIGEST, Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from observant.arrays import Integers
    from observant.formats.imports.report import Report

COMPILED_FROM = 1 << 21
"""Bytes in a file from which the compiled loop is worth its second of loading."""

BLOCK = 1 << 23
LONGEST_LINE = 1 << 20
_NO_STATUS = -32_768
_VISIT, _BLANK, _CAREFUL, _LEFT_OUT = 0, 1, 2, 3
_REVISIT, _TRUNCATED = 1, 2
_NOT_MODIFIED = 304
_EMPTY = [
    np.frombuffer(hashed.digest(), np.uint8)
    for hashed in (hashlib.sha1(usedforsecurity=False), hashlib.sha256())
]
"""Digests of nothing."""


class Readable(Protocol):
    """Anything with bytes in it."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; none at the end."""


class LineFormat(Protocol):
    """How the lines of a format are read."""

    def careful(self, line: bytes) -> Row | None:
        """The visit of a line, None if it is a heading; or raise `ValueError` or `LeftOut`."""

    def scan(self, data: NDArray[np.uint8], lines: Lines) -> int:
        """Run the compiled loop over a block of whole lines; return their number."""


class Lines:
    """What is known of each line of a block, in flat arrays that the compiled loop fills."""

    def __init__(self, count: int) -> None:
        self.states = np.full(count, _CAREFUL, np.uint8)
        self.lines = np.zeros((count, 2), np.int64)
        self.names = np.zeros((count, 2), np.int64)
        self.times = np.zeros(count, np.int64)
        self.status = np.full(count, _NO_STATUS, np.int16)
        self.size = np.full(count, -1, np.int64)
        self.flags = np.zeros(count, np.uint8)
        self.digests = np.zeros(WIDEST_DIGEST * count, np.uint8)
        self.digest_size = np.zeros(count, np.uint8)

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All of them, in the order in which the compiled loops take them."""
        return (
            self.states,
            self.lines,
            self.names,
            self.times,
            self.status,
            self.size,
            self.flags,
            self.digests,
            self.digest_size,
        )


def read_lines(stream: Readable, form: LineFormat, report: Report) -> Iterator[pa.RecordBatch]:
    """Yield the visits of a stream of lines, a batch a block."""
    before, compiled = 0, False
    with ahead(blocks_of(stream)) as blocks:
        for block in blocks:
            if not block.endswith(b"\n"):
                before += 1
                report.add_rows()
                report.malformed(before, f"a line of more than {LONGEST_LINE:,} bytes", block)
                continue
            compiled = compiled or len(block) >= COMPILED_FROM
            batch, count = read_block(block, form, report, before, compiled=compiled)
            before += count
            yield batch


def read_block(
    block: bytes, form: LineFormat, report: Report, lines_before: int = 0, *, compiled: bool = True
) -> tuple[pa.RecordBatch, int]:
    """The visits of a block of whole lines, and the number of its lines."""
    data = np.frombuffer(block, np.uint8)
    count = block.count(b"\n")
    lines = Lines(count)
    if compiled:
        form.scan(data, lines)
        if not _is_utf8(block):
            high = np.flatnonzero(data >= 0x80)
            ends = lines.lines[:, 1]
            lines.states[np.unique(np.searchsorted(ends, high, side="right"))] = _CAREFUL
    else:
        _find_lines(data, lines)
    names = _read_carefully(block, form, lines, report, lines_before)
    report.add_rows(int(np.count_nonzero(lines.states != _BLANK)))
    return _batch(data, names, lines, report, compiled=compiled), count


def _read_carefully(
    block: bytes, form: LineFormat, lines: Lines, report: Report, lines_before: int
) -> bytes:
    """Read the lines that are left, and write into the arrays; returns the names they have.

    A name's place is counted from the end of the block on.
    """
    extra = bytearray()
    for row in np.flatnonzero(lines.states == _CAREFUL).tolist():
        begin, end = lines.lines[row].tolist()
        line = block[begin:end]
        lines.states[row] = _BLANK
        try:
            found = form.careful(line) if line.strip() else None
            if found is None:
                continue
            name = found.source.encode()
        except LeftOut as reason:
            report.leave_out(str(reason))
            lines.states[row] = _LEFT_OUT
            continue
        except ValueError as reason:
            lost = isinstance(reason, UnicodeEncodeError)
            told = "the name is not text" if lost else str(reason)
            report.malformed(lines_before + row + 1, told, line)
            lines.states[row] = _LEFT_OUT
            continue
        lines.states[row] = _VISIT
        lines.names[row] = len(block) + len(extra), len(block) + len(extra) + len(name)
        extra += name
        lines.times[row] = found.time
        lines.status[row] = _NO_STATUS if found.status is None else found.status
        lines.size[row] = -1 if found.size is None else found.size
        lines.flags[row] = _REVISIT * found.revisit + _TRUNCATED * found.truncated
        digest = found.digest or b""
        lines.digest_size[row] = len(digest)
        at = row * WIDEST_DIGEST
        lines.digests[at : at + len(digest)] = np.frombuffer(digest, np.uint8)
    return bytes(extra)


def _batch(
    data: NDArray[np.uint8], extra: bytes, lines: Lines, report: Report, *, compiled: bool
) -> pa.RecordBatch:
    """The visits as columns, with what an archive means by its marks.

    A 304 and a revisit without a digest are unchanged visits. A revisit with a digest says it by
    the digest, and rightly so where the content went from A to B and back to an A of old. The
    digest of a truncated body, or of the empty body that a 304 has, is not that of the source
    (some indexers give a revisit the status of what it refers to: then the digest tells a 304).
    """
    import pyarrow as pa

    rows = np.flatnonzero(lines.states == _VISIT)
    status, flags = lines.status[rows], lines.flags[rows]
    revisit, truncated = (flags & _REVISIT) > 0, (flags & _TRUNCATED) > 0
    not_modified = status == _NOT_MODIFIED
    digests = lines.digests.reshape(-1, WIDEST_DIGEST)
    for empty in _EMPTY:
        of_nothing = rows[revisit & (lines.digest_size[rows] == len(empty))]
        of_nothing = of_nothing[(digests[of_nothing, : len(empty)] == empty).all(axis=1)]
        lines.digest_size[of_nothing] = 0
    without = truncated | not_modified
    lines.digest_size[rows[without]] = 0
    no_digest = lines.digest_size[rows] == 0
    unchanged = not_modified | (revisit & no_digest)
    report.count("revisits", int(np.count_nonzero(revisit | not_modified)))
    report.count("truncated captures, whose digest is left out", int(np.count_nonzero(truncated)))
    sizes = lines.size[rows]
    if compiled:
        source, digest = _compiled_texts(data, extra, lines, rows)
    else:
        source, digest = _texts(data, extra, lines, rows)
    digest = pa.Array.from_buffers(
        pa.binary(),
        len(rows),
        [pa.array(~no_digest).buffers()[1], *digest.buffers()[1:]],
    )
    return pa.RecordBatch.from_arrays(
        [
            source,
            pa.array(lines.times[rows]).view(pa.timestamp("us", "UTC")),
            pa.array(np.zeros(len(rows), bool), mask=~unchanged),
            digest,
            pa.array(status, mask=status == _NO_STATUS),
            pa.array(sizes, mask=sizes < 0),
        ],
        ["source", "time", "changed", "digest", "status", "bytes"],
    )


def _compiled_texts(
    data: NDArray[np.uint8], extra: bytes, lines: Lines, rows: Integers
) -> tuple[pa.Array, pa.Array]:
    import pyarrow as pa

    from observant.formats.imports.kernels import gather, pack

    if extra:
        data = np.concatenate([data, np.frombuffer(extra, np.uint8)])
    sizes = lines.names[rows, 1] - lines.names[rows, 0]
    names = np.empty(int(sizes.sum()), np.uint8)
    digests = np.empty(int(lines.digest_size[rows].sum(dtype=np.int64)), np.uint8)
    offsets = np.empty((2, len(rows) + 1), np.int32)
    gather(data, lines.names, rows, names, offsets[0])
    pack(lines.digests, lines.digest_size, rows, digests, offsets[1])
    parts = [
        pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(where), pa.py_buffer(values)])
        for kind, where, values in (
            (pa.string(), offsets[0], names),
            (pa.binary(), offsets[1], digests),
        )
    ]
    return parts[0], parts[1]


def _texts(
    data: NDArray[np.uint8], extra: bytes, lines: Lines, rows: Integers
) -> tuple[pa.Array, pa.Array]:
    import pyarrow as pa

    begin = len(data)
    names = [extra[at - begin : to - begin] for at, to in lines.names[rows].tolist()]
    raw = lines.digests.tobytes()
    digests = [
        raw[row * WIDEST_DIGEST : row * WIDEST_DIGEST + size]
        for row, size in zip(rows.tolist(), lines.digest_size[rows].tolist(), strict=True)
    ]
    return pa.array(names, pa.binary()).cast(pa.string()), pa.array(digests, pa.binary())


def blocks_of(stream: Readable, size: int = BLOCK) -> Iterator[bytes]:
    """Cut a stream into blocks of whole lines; the last line gets its end if it has none.

    A line longer than a megabyte is passed over without being held: of it, only the beginning
    comes, as a block that does not end a line.
    """
    carry = b""
    while chunk := stream.read(size):
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield (carry + chunk[:cut]) if carry else chunk[:cut]
            carry = chunk[cut:]
        else:
            carry += chunk
        if len(carry) > LONGEST_LINE:
            yield carry[:500]
            carry = _rest_of_line(stream)
            cut = carry.rfind(b"\n") + 1
            if cut:
                yield carry[:cut]
                carry = carry[cut:]
    if carry:
        yield carry + b"\n"


def _rest_of_line(stream: Readable) -> bytes:
    """Pass over the rest of a line; what was read behind it."""
    while chunk := stream.read(LONGEST_LINE):
        cut = chunk.find(b"\n") + 1
        if cut:
            return chunk[cut:]
    return b""


@contextmanager
def ahead(items: Iterator[Any], depth: int = 2) -> Iterator[Iterator[Any]]:
    """Produce items in another thread, a few ahead of who uses them; errors come through."""
    waiting: queue.Queue[tuple[str, Any]] = queue.Queue(depth)
    stopped = threading.Event()

    def put(kind: str, item: Any) -> None:
        while not stopped.is_set():
            try:
                waiting.put((kind, item), timeout=0.1)
            except queue.Full:
                continue
            return

    def produce() -> None:
        try:
            for item in items:
                put("item", item)
                if stopped.is_set():
                    return
            put("end", None)
        except BaseException as error:  # noqa: BLE001 - it is raised where the items are used
            put("error", error)

    def use() -> Iterator[Any]:
        while True:
            kind, item = waiting.get()
            if kind == "error":
                raise item
            if kind == "end":
                return
            yield item

    thread = threading.Thread(target=produce, name="observant-import", daemon=True)
    thread.start()
    try:
        yield use()
    finally:
        stopped.set()
        thread.join()


def _find_lines(data: NDArray[np.uint8], lines: Lines) -> None:
    ends = np.flatnonzero(data == ord("\n"))
    begins = np.concatenate([[0], ends[:-1] + 1])
    returned = (ends > begins) & (data[ends - 1] == ord("\r"))
    lines.lines[:, 0], lines.lines[:, 1] = begins, ends - returned


def _is_utf8(block: bytes) -> bool:
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True
