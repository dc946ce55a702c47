"""The only way out of the browser: a proxy of ours on loopback, one for each visit.

A page may ask for anything: by fetch, image, frame, form, worker, WebSocket or redirect, under a
name that leads to a private address from its second look-up on. All of it comes here as a request
to a proxy, since the browser resolves no names and knows no other way. The name is looked up once,
the guard judges the address, and the connection goes to that address (`Transport.connect`).
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import TYPE_CHECKING, Self

from observant.errors import BadURL, Unreachable
from observant.observer.transport.urls import parse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from observant.observer.transport.urls import Target
    from observant.store.visit import Error

    Connect = Callable[[Target], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]

_HEAD_SECONDS = 30.0
_LONGEST_HEAD = 256 << 10
_PIECE = 1 << 16
_HOP = (b"connection:", b"keep-alive:", b"proxy-", b"upgrade:")
"""Headers that are for us, or would let a connection be used for a second request."""


class FilteringProxy:
    """An HTTP proxy for one visit; `connect` judges every address and connects to it."""

    def __init__(self, connect: Connect, *, most_bytes: int, listen: str = "127.0.0.1") -> None:
        self._connect, self._listen, self.most_bytes = connect, listen, most_bytes
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.seal = secrets.token_hex(16)
        """Stands in a header of answers that are our own."""
        self.bytes = 0
        self.overdrawn = False
        """Whether the page wanted more bytes than it may have; then nothing passes any more."""
        self.refused: dict[str, tuple[Error, str]] = {}
        """Hosts that were not connected to, and why."""

    @property
    def address(self) -> str:
        if self._server is None:
            raise RuntimeError("the proxy has not been started")
        port = self._server.sockets[0].getsockname()[1]
        return f"http://{self._listen}:{port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self._listen, 0, limit=_LONGEST_HEAD)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        self._abort()

    def _abort(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            line, _, rest = head.partition(b"\r\n")
            method, where, _ = line.decode("ascii").split(" ")
            if method == "CONNECT":
                await self._tunnel(where, reader, writer)
            else:
                await self._forward(method, where, rest, reader, writer)
        except (OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError):
            pass  # the browser sees a connection that ends
        finally:
            self._open.discard(writer)
            writer.close()

    async def _reach(
        self, url: str, writer: asyncio.StreamWriter
    ) -> tuple[Target, asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Connect, or say why not."""
        if self.overdrawn:
            return None
        name = url
        try:
            target = parse(url)
            name = target.host
            there, back = await self._connect(target)
        except (BadURL, Unreachable) as problem:
            error: Error = problem.error if isinstance(problem, Unreachable) else "bad-url"
            self.refused.setdefault(name, (error, str(problem)))
            status = b"403 Refused" if error == "refused-address" else b"502 No Connection"
            writer.write(
                b"HTTP/1.1 %b\r\nX-Observant: %b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                % (status, self.seal.encode())
            )
            await writer.drain()
            return None
        return target, there, back

    async def _tunnel(
        self, where: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        reached = await self._reach(f"https://{where}/", writer)
        if reached is None:
            return
        _, there, back = reached
        with self._kept(back):
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            await self._both(self._pump(reader, back), self._pump(there, writer))

    async def _forward(
        self,
        method: str,
        where: str,
        rest: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """One request of plain HTTP, and its answer; then the connection ends."""
        reached = await self._reach(where, writer)
        if reached is None:
            return
        target, there, back = reached
        lines = [line for line in rest.split(b"\r\n") if line]
        length = 0
        for line in lines:
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
            elif line.lower().startswith(b"transfer-encoding:"):
                raise ValueError("a body of unknown length")
        path = target.href.removeprefix(target.origin) or "/"
        with self._kept(back):
            back.write(f"{method} {path} HTTP/1.1\r\n".encode() + _single(lines))
            await self._both(self._pump(reader, back, length), self._reply(there, writer))

    async def _reply(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await there.readuntil(b"\r\n\r\n")
            self._count(len(head))
            status, *lines = head[:-4].split(b"\r\n")
            if not status[8:].lstrip().startswith(b"1"):
                break
        writer.write(status + b"\r\n" + _single(lines))
        await self._pump(there, writer)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int | None = None
    ) -> None:
        """Pass bytes on until there are no more, or until there were this many."""
        while most is None or most > 0:
            piece = await reader.read(_PIECE if most is None else min(most, _PIECE))
            if not piece:
                break
            self._count(len(piece))
            most = None if most is None else most - len(piece)
            writer.write(piece)
            await writer.drain()
        if most is None and writer.can_write_eof():
            writer.write_eof()

    def _count(self, size: int) -> None:
        self.bytes += size
        if self.bytes > self.most_bytes:
            self.overdrawn = True
            self._abort()
            raise OSError("the page has had all the bytes that it may have")

    async def _both(self, up: Awaitable[None], down: Awaitable[None]) -> None:
        """Both directions; when the answer has ended, so has the rest."""
        sending = asyncio.ensure_future(up)
        try:
            await down
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    @contextlib.contextmanager
    def _kept(self, back: asyncio.StreamWriter):  # type: ignore[no-untyped-def]  # noqa: ANN202
        self._open.add(back)
        try:
            yield
        finally:
            self._open.discard(back)
            back.close()


def _single(lines: list[bytes]) -> bytes:
    """Headers that say: this connection ends after this."""
    kept = [line for line in lines if not line.lower().startswith(_HOP)]
    return b"\r\n".join([*kept, b"Connection: close", b"", b""])
