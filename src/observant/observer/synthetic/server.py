"""Serve a synthetic web on loopback: one small HTTP/1.1 server for all its hosts.

It can run in the process of the caller (`DemoServer`) or in one of its own (`serving`), so that a
demonstration does not share its processor core with what it demonstrates.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from observant.observer.clock import AcceleratedClock
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.process import BaseProcess

    from observant.observer.synthetic.web import DemoWorld, WorldAnswer

_REASONS = {200: "OK", 304: "Not Modified", 404: "Not Found", 500: "Error", 503: "Unavailable"}
_LARGEST_REQUEST = 16_384


class DemoServer:
    """The synthetic web, on a port of 127.0.0.1, for as long as the ``async with`` lasts."""

    def __init__(self, world: DemoWorld, clock: AcceleratedClock) -> None:
        self._world, self.clock = world, clock
        self._server: asyncio.Server | None = None
        self._visits: dict[int, int] = {}
        self.port = 0

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    def answer(self, path: str, etag: str | None) -> WorldAnswer | None:
        """Return what is to be said about this path; None if there is no such page."""
        name, _, number = path.strip("/").partition("/")
        now = self.clock.time()
        day = (now - self.clock.start) / DAY
        if name == "sitemap" and number.isdecimal():
            return self._world.sitemap(int(number), day, now=now)
        if name != "page" or not number.isdecimal() or int(number) >= self._world.pages:
            return None
        page = int(number)
        visit = self._visits[page] = self._visits.get(page, 0) + 1
        return self._world.answer(page, day, now=now, etag=etag, visit=visit)


def locate(port: int) -> Callable[[str, int], tuple[str, int] | None]:
    """Where the transport finds the hosts of the synthetic web (its parameter `locate`)."""
    return lambda host, _: ("127.0.0.1", port) if host.endswith(".example") else None


class _Connection(asyncio.Protocol):
    """One connection: requests without a body, answered in order."""

    def __init__(self, server: DemoServer) -> None:
        self._server = server
        self._unread = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while (end := self._unread.find(b"\r\n\r\n")) >= 0:
            request, self._unread = self._unread[:end], self._unread[end + 4 :]
            self._reply(request.decode("latin-1"))
        if len(self._unread) > _LARGEST_REQUEST:
            self._transport.close()

    def _reply(self, request: str) -> None:
        first, *lines = request.split("\r\n")
        _, path, *_ = [*first.split(" "), "/"]
        etag = None
        for line in lines:
            name, _, value = line.partition(":")
            if name.lower() == "if-none-match":
                etag = value.strip()
        answer = self._server.answer(path, etag)
        if answer is None:
            self._send(404, (), b"")
        elif answer.delay:
            loop = asyncio.get_running_loop()
            loop.call_later(answer.delay, self._send, answer.status, answer.headers, answer.body)
        else:
            self._send(answer.status, answer.headers, answer.body)

    def _send(self, status: int, headers: tuple[tuple[str, str], ...], body: bytes) -> None:
        if self._transport.is_closing():
            return
        if not status:
            self._transport.abort()
            return
        lines = [f"HTTP/1.1 {status} {_REASONS[status]}", *(f"{k}: {v}" for k, v in headers)]
        if status != 304:
            lines.append(f"content-length: {len(body)}")
        head = "\r\n".join(lines).encode() + b"\r\n\r\n"
        self._transport.write(head + body)


class ServedWeb:
    """A server in a process of its own. Time stands still there until `begin`."""

    def __init__(self, port: int, pipe: Any) -> None:
        self.port, self._pipe = port, pipe

    def begin(self, clock: AcceleratedClock) -> None:
        self._pipe.send(clock)


def start_deaf(process: BaseProcess) -> None:
    """Start a process that Ctrl-C does not reach: its parent answers, and ends it.

    From its first moment: while it imports, a process of Python's would print where it was.
    """
    if threading.current_thread() is not threading.main_thread():
        process.start()
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def serving(world: DemoWorld) -> Iterator[ServedWeb]:
    """Serve from a process of its own, for as long as the ``with`` lasts."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(world, theirs), daemon=True)
    start_deaf(process)
    theirs.close()
    try:
        yield ServedWeb(int(ours.recv()), ours)
    finally:
        ours.close()
        process.join(5)
        if process.is_alive():
            process.kill()
            process.join()


def _serve(world: DemoWorld, pipe: Any) -> None:
    async def run() -> None:
        world.version(0, 0.0)  # all updates are made before the first visitor comes
        async with DemoServer(world, AcceleratedClock(speed=0.0)) as server:
            done = asyncio.Event()

            def told() -> None:
                try:
                    server.clock = pipe.recv()
                except (EOFError, OSError):  # the caller is done, or dead
                    done.set()

            asyncio.get_running_loop().add_reader(pipe.fileno(), told)
            pipe.send(server.port)
            await done.wait()

    asyncio.run(run())
