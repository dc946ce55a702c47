"""Watching libcurl's sockets from an asyncio event loop."""

from __future__ import annotations

import contextlib
import select
from typing import TYPE_CHECKING

import pycurl

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    Drive = Callable[[list[tuple[int, int]]], None]

__all__ = ["EpollSockets", "LoopSockets", "watch"]


def watch(loop: asyncio.AbstractEventLoop, drive: Drive) -> EpollSockets | LoopSockets:
    """The best way this machine has. `drive` is told which sockets are ready for what."""
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
