"""Bodies, unpacked while they arrive, and never further than the limit.

A megabyte on the wire can be a gigabyte unpacked. So every stage unpacks a piece at a time and
counts; a stage below the last may not produce more than the limit either, since a packed body is no
longer than its content. Unpacking takes time as well: beyond what an ordinary page has, it waits
until the body is there, and is done in another thread.
"""

from __future__ import annotations

import math
import zlib
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from observant.errors import BadBody, Refusal, TooLarge

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCEPT_ENCODING = "gzip, br, zstd"
_PIECE = 2**16
_AT_ONCE = 2**19
"""Bytes that are unpacked as they come; after these, one piece for every piece of the wire."""
_LONGEST_WAIT = 2**20
"""Bytes of the wire that may wait: in a gigabyte of nothing, that is where it is found out."""


class Body:
    """Collects a body of at most `limit` bytes, through the given content codings.

    >>> body = Body(limit=100, codings=["gzip"])
    >>> body.feed(zlib.compress(b"hello", wbits=31))
    >>> body.finish()
    b'hello'
    """

    __slots__ = ("_fault", "_limit", "_made", "_pieces", "_rest", "_stages", "_waiting")

    def __init__(self, limit: int, codings: list[str], most: int = 2) -> None:
        if len(codings) > most:
            raise BadBody(f"{len(codings)} content codings on top of each other")
        self._limit, self._pieces = limit, list[bytes]()
        # The coding applied last is named last and must come off first.
        self._stages = [_stage(name) for name in reversed(codings)]
        self._made = [0] * (len(self._stages) + 1)
        self._rest: deque[Iterator[None]] = deque()
        self._fault: Refusal | None = None
        self._waiting = 0

    def feed(self, data: bytes) -> None:
        """Take a piece from the wire. Raises TooLarge or BadBody; what fitted is kept."""
        self._rest.append(self._take(0, data))
        self._waiting += len(data)
        self._work(_AT_ONCE if self._waiting < _LONGEST_WAIT else math.inf)

    @property
    def heavy(self) -> bool:
        """Whether `settle` takes so long that others should not wait for it."""
        return bool(self._rest) or self._made[-1] > _AT_ONCE

    def settle(self) -> None:
        """Unpack what waits, in whichever thread; what is wrong with it, `finish` says."""
        try:
            self._work(math.inf)
        except Refusal as fault:
            self._fault = fault
        self._pieces = [self.so_far()]

    def finish(self) -> bytes:
        """The whole body. Raises TooLarge, or BadBody when it was cut short."""
        self.settle()
        if self._fault is not None:
            raise self._fault
        if self._stages and self._made[0] and not all(stage.ended for stage in self._stages):
            raise BadBody("the packed body is cut short")
        return self.so_far()

    def so_far(self) -> bytes:
        pieces = self._pieces
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _work(self, enough: float) -> None:
        """Unpack until nothing waits, or until so many bytes are there and a piece more."""
        while self._rest:
            for _ in self._rest[0]:
                if self._made[-1] >= enough:
                    return
            self._rest.popleft()
        self._waiting = 0

    def _take(self, level: int, data: bytes) -> Iterator[None]:
        made = self._made[level] + len(data)
        self._made[level] = made
        last = level == len(self._stages)
        # Packing makes small or random content a little longer.
        if made > self._limit + (0 if last else self._limit // 16 + 1024):
            if last:
                self._pieces.append(data[: len(data) - (made - self._limit)])
            raise TooLarge(f"the body has more than {self._limit} bytes")
        if last:
            self._pieces.append(data)
            yield
        else:
            for piece in self._stages[level].unpack(data):
                yield from self._take(level + 1, piece)


class _Stage(Protocol):
    ended: bool

    def unpack(self, data: bytes) -> Iterator[bytes]: ...


def _stage(name: str) -> _Stage:
    try:
        return _STAGES[name]()
    except KeyError:
        raise BadBody(f"the content coding {name[:40]!r} is unknown") from None


class _Gzip:
    """gzip, also several members in a row; what follows the last one is ignored."""

    def __init__(self) -> None:
        self.ended = False
        self._member: Any = zlib.decompressobj(31)

    def unpack(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self.ended:
                if data[0] != 0x1F:  # padding after the last member
                    return
                self._member, self.ended = zlib.decompressobj(31), False
            yield from _inflate(self._member, data)
            data = b""
            if self._member.eof:
                self.ended, data = True, self._member.unused_data


class _Deflate:
    """zlib as the standard says, or raw deflate as some servers do."""

    def __init__(self) -> None:
        self.ended = False
        self._stream: Any = None

    def unpack(self, data: bytes) -> Iterator[bytes]:
        if self._stream is None and data:
            self._stream = zlib.decompressobj(15 if data[0] & 0x0F == 8 else -15)
        if not self.ended:
            yield from _inflate(self._stream, data)
            self.ended = self._stream.eof


def _inflate(stream: Any, data: bytes) -> Iterator[bytes]:
    try:
        piece = stream.decompress(data, _PIECE)
        while piece:
            yield piece
            piece = stream.decompress(stream.unconsumed_tail, _PIECE)
    except zlib.error:
        raise BadBody("the packed body is damaged") from None


class _Brotli:
    def __init__(self) -> None:
        import brotli

        if not hasattr(brotli.Decompressor, "process"):
            raise BadBody("the old package brotlipy hides the package brotli: uninstall it")
        self.ended = False
        self._stream, self._error = brotli.Decompressor(), brotli.error

    def unpack(self, data: bytes) -> Iterator[bytes]:
        if self.ended:
            return
        try:
            piece = self._stream.process(data, output_buffer_limit=_PIECE)
            while True:
                if piece:
                    yield piece
                self.ended = self._stream.is_finished()
                if self.ended or (len(piece) < _PIECE and self._stream.can_accept_more_data()):
                    return
                piece = self._stream.process(b"", output_buffer_limit=_PIECE)
        except self._error:
            raise BadBody("the packed body is damaged") from None


class _Zstandard:
    """Four bytes can stand for 128 KiB, and the library has no limit of its own: small bites."""

    _BITE = 128

    def __init__(self) -> None:
        import zstandard

        # RFC 8878 and 9659: no window above 8 MiB on the web.
        self._engine = zstandard.ZstdDecompressor(max_window_size=2**23)
        self._frame, self._error = self._engine.decompressobj(), zstandard.ZstdError
        self.ended = False

    def unpack(self, data: bytes) -> Iterator[bytes]:
        try:
            for start in range(0, len(data), self._BITE):
                bite = data[start : start + self._BITE]
                while bite:
                    if self.ended:
                        self._frame, self.ended = self._engine.decompressobj(), False
                    piece = self._frame.decompress(bite)
                    bite = b""
                    if self._frame.eof:
                        self.ended, bite = True, self._frame.unused_data
                    if piece:
                        yield piece
        except self._error:
            raise BadBody("the packed body is damaged") from None


_STAGES: dict[str, type[_Stage]] = {
    "gzip": _Gzip,
    "x-gzip": _Gzip,
    "deflate": _Deflate,
    "br": _Brotli,
    "zstd": _Zstandard,
}
