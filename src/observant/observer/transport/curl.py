"""libcurl on asyncio: sockets and timers are watched by the event loop, transfers run in C.

One `CurlEngine` is one pool of connections. `perform` runs one request, follows nothing, and never
raises for what the other side does: the `Reply` says what happened. The guard is asked for every
socket that is opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import select
import ssl
import threading
from typing import TYPE_CHECKING

import pycurl

from observant.errors import InputError
from observant.observer.transport.transfer import Transfer

if TYPE_CHECKING:
    from collections.abc import Callable

    Drive = Callable[[list[tuple[int, int]]], None]
    from observant.observer.clock import Clock
    from observant.observer.transport.guard import Guard
    from observant.observer.transport.transfer import Reply, Request


# -- Watching libcurl's sockets from an asyncio event loop ----------------------------------------


def watch(loop: asyncio.AbstractEventLoop, drive: Drive) -> EpollSockets | LoopSockets:
    """The best way this machine has. `drive` is told which sockets are ready for what."""
    if isinstance(loop, getattr(asyncio, "ProactorEventLoop", ())):
        raise InputError(
            "watching needs Linux or macOS; on Windows, run it in the Linux subsystem (WSL) or in "
            "a container"
        )
    return (EpollSockets if hasattr(select, "epoll") else LoopSockets)(loop, drive)


class EpollSockets:
    """Sockets watched by an epoll of our own, which the event loop watches as one: cheaper by half
    than telling the event loop about every change of every socket.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, drive: Drive) -> None:
        self._loop, self._drive = loop, drive
        self._epoll = select.epoll()
        self._watched: set[int] = set()
        loop.add_reader(self._epoll.fileno(), self._on_ready)

    def on_change(self, event: int, number: int, _multi: object, _data: object) -> None:
        watched = self._watched
        if self._epoll.closed:
            return
        if event == pycurl.POLL_REMOVE:
            if number in watched:
                watched.discard(number)
                with contextlib.suppress(OSError):
                    self._epoll.unregister(number)
            return
        mask = _TO_EPOLL[event & 3]
        if number in watched:
            self._epoll.modify(number, mask)
        else:
            watched.add(number)
            self._epoll.register(number, mask)

    def close(self) -> None:
        if not self._loop.is_closed():
            self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _on_ready(self) -> None:
        if not self._epoll.closed:
            self._drive([(number, _from_epoll(mask)) for number, mask in self._epoll.poll(0, 256)])


class LoopSockets:
    """Sockets watched by the event loop itself, where there is no epoll."""

    def __init__(self, loop: asyncio.AbstractEventLoop, drive: Drive) -> None:
        self._loop, self._drive = loop, drive
        self._watched: dict[int, int] = {}
        self._closed = False

    def on_change(self, event: int, number: int, _multi: object, _data: object) -> None:
        if self._closed:
            return
        before = self._watched.pop(number, 0)
        after = 0 if event == pycurl.POLL_REMOVE else event & 3
        loop = self._loop
        if after & ~before & pycurl.POLL_IN:
            loop.add_reader(number, self._drive, [(number, pycurl.CSELECT_IN)])
        if after & ~before & pycurl.POLL_OUT:
            loop.add_writer(number, self._drive, [(number, pycurl.CSELECT_OUT)])
        self._unwatch(number, before & ~after)
        if after:
            self._watched[number] = after

    def close(self) -> None:
        self._closed = True
        for number, mask in self._watched.items():
            self._unwatch(number, mask)
        self._watched.clear()

    def _unwatch(self, number: int, mask: int) -> None:
        if mask & pycurl.POLL_IN:
            self._loop.remove_reader(number)
        if mask & pycurl.POLL_OUT:
            self._loop.remove_writer(number)


_TO_EPOLL = (0, 1, 4, 5)
"""POLL_NONE, IN, OUT, INOUT as EPOLLIN and EPOLLOUT."""


def _from_epoll(mask: int) -> int:
    """EPOLLIN, EPOLLOUT and the rest (errors, hang-ups) as what libcurl calls them."""
    return (
        (pycurl.CSELECT_IN if mask & 0x1 else 0)
        | (pycurl.CSELECT_OUT if mask & 0x4 else 0)
        | (pycurl.CSELECT_ERR if mask & ~0x5 else 0)
    )


_SWEEP = 0.1
_GRACE = 1.0
_IDLE_HANDLES = 256
_IDLE_CONNECTIONS = 512


class CurlEngine:
    """A pool of connections, driven by the event loop it is first used in."""

    def __init__(self, guard: Guard, clock: Clock, user_agent: str) -> None:
        self.guard, self.clock, self.user_agent = guard, clock, user_agent
        self.cafile, self.capath = _certificates()
        self._idle: list[Transfer] = []
        self._running: dict[pycurl.Curl, Transfer] = {}
        self._loop = asyncio.get_running_loop()
        self._sockets = watch(self._loop, self._drive)
        self._timer: asyncio.TimerHandle | None = None
        self._soon: asyncio.Handle | None = None
        self._due = math.inf
        self._sweeper: asyncio.TimerHandle | None = None
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._sockets.on_change)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, _IDLE_CONNECTIONS)

    async def perform(self, request: Request) -> Reply:
        """Run one request to its end. Cancelling the task ends the transfer at once."""
        plain = request.method == "GET" and request.body is None
        transfer = self._idle.pop() if plain and self._idle else Transfer(self)
        transfer.prepare(request)
        transfer.done = self._loop.create_future()
        now = self._loop.time()
        transfer.answer_due = now + min(request.limits.first_byte, request.seconds)
        transfer.end_due = now + request.seconds + _GRACE
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_SWEEP, self._sweep)
        self._running[transfer.curl] = transfer
        self._multi.add_handle(transfer.curl)
        try:
            code, message = await transfer.done
            if (body := transfer.heavy_body) is not None:
                from observant.observer.pool import aside

                await aside(body.settle)
            return transfer.reply(code, message)
        finally:
            self._remove(transfer)
            if plain and len(self._idle) < _IDLE_HANDLES:
                transfer.clear()
                self._idle.append(transfer)
            else:
                transfer.curl.close()

    def close(self) -> None:
        """End everything at once; transfers under way are answered as broken off."""
        for transfer in list(self._running.values()):
            transfer.finish(pycurl.E_ABORTED_BY_CALLBACK, "the transport was closed")
            self._remove(transfer)
        for transfer in self._idle:
            transfer.curl.close()
        self._idle.clear()
        self._sockets.close()
        for handle in (self._timer, self._soon, self._sweeper):
            if handle is not None:
                handle.cancel()
        # libcurl waits here for its threads that still look names up, and a dead name server takes
        # many seconds. Nobody else has to wait for that.
        closing = threading.Thread(target=self._multi.close, daemon=True)
        closing.start()
        closing.join(_GRACE)

    @property
    def running(self) -> int:
        """Transfers under way."""
        return len(self._running)

    def later(self, action: Callable[[], object]) -> None:
        """Do something outside of libcurl's callbacks."""
        self._loop.call_soon(action)

    def _remove(self, transfer: Transfer) -> None:
        if self._running.pop(transfer.curl, None) is not None:
            self._multi.remove_handle(transfer.curl)

    def _on_timer(self, milliseconds: int) -> None:
        """Call back in so many milliseconds, but never from libcurl's own callback.

        It changes its mind many times per transfer, so a timer that is set too early is left and
        set again when it fires.
        """
        if milliseconds < 0:
            self._due = math.inf
        elif milliseconds == 0:
            self._due = math.inf
            if self._soon is None:
                self._soon = self._loop.call_soon(self._on_soon)
        else:
            self._due = self._loop.time() + milliseconds / 1000
            if self._timer is None or self._timer.when() > self._due:
                self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._due, self._on_due)

    def _on_soon(self) -> None:
        self._soon = None
        self._drive([(pycurl.SOCKET_TIMEOUT, 0)])

    def _on_due(self) -> None:
        self._timer = None
        if self._loop.time() >= self._due - 0.001:
            self._due = math.inf
            self._drive([(pycurl.SOCKET_TIMEOUT, 0)])
        elif self._due < math.inf:
            self._set_timer()

    def _sweep(self) -> None:
        """End the transfers that got no answer in time, and any that libcurl did not end itself."""
        now = self._loop.time()
        for transfer in list(self._running.values()):
            if transfer.answer_due <= now:
                transfer.no_answer()
            if transfer.end_due <= now:
                transfer.finish(pycurl.E_OPERATION_TIMEDOUT, "the time for the fetch is over")
        self._sweeper = self._loop.call_later(_SWEEP, self._sweep) if self._running else None

    def _drive(self, events: list[tuple[int, int]]) -> None:
        running = 0
        try:
            for number, mask in events:
                _, running = self._multi.socket_action(number, mask)
        except pycurl.error as fault:  # a bug somewhere below us: nobody may wait for ever
            for transfer in list(self._running.values()):
                transfer.finish(pycurl.E_RECV_ERROR, f"libcurl: {fault}")
            return
        if running < len(self._running):
            more = 1
            while more:
                more, good, bad = self._multi.info_read()
                for curl in good:
                    self._finish(curl, 0, "")
                for curl, code, message in bad:
                    self._finish(curl, code, message)

    def _finish(self, curl: pycurl.Curl, code: int, message: str) -> None:
        transfer = self._running.get(curl)
        if transfer is not None:
            transfer.finish(code, message)
            self._remove(transfer)


def _certificates() -> tuple[str | None, str | None]:
    """Where this machine keeps the certificates it trusts."""
    given = os.environ.get("CURL_CA_BUNDLE")
    if given:
        return given, None
    paths = ssl.get_default_verify_paths()
    return paths.cafile, paths.capath
