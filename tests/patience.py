"""Time in tests: what they say of the code must not depend on the machine, or on who else uses it.

- `until` and `eventually` wait for what has to come, and give up when only a hang takes so long.
- `in_simulated_time` runs coroutines that need no network on a clock that leaps.
- `cpu_within` bounds work: a process that has to wait for its turn does not spend anything.
- `Heartbeat` bounds what a loop may wait: while the machine does something else, no heart beats.
"""

import asyncio
import os
import socket
import time
from contextlib import closing, contextmanager

from observant.testing import in_simulated_time

__all__ = ["in_simulated_time"]

PATIENCE = 1200.0
"""Seconds until we give up on something; a busy machine that has to compile first is no failure."""


def patience_here(seconds=120.0):
    """So many seconds on an idle machine, more the more others use it, and never for ever."""
    return min(seconds * (1 + max(os.getloadavg()) / (os.cpu_count() or 1)), PATIENCE)


def until(look, what="it", *, every=0.02):
    """What `look` finds, as soon as it finds something."""
    end = time.monotonic() + PATIENCE
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(every)


async def eventually(look, what="it", *, every=0.02):
    """The same among coroutines."""
    end = time.monotonic() + PATIENCE
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < end, f"waited in vain for {what}"
        await asyncio.sleep(every)


def run(work):
    """Run a coroutine to its end, but not for ever."""
    return asyncio.run(asyncio.wait_for(work, PATIENCE))


class Heartbeat:
    """Beats beside the coroutines of a loop, in `async with`.

    `waited` are the seconds in which the loop had nothing to do, `worked` those of CPU; `blocked`
    is the longest that the loop worked on one thing.
    """

    _PAUSE = 0.01

    async def __aenter__(self):
        self.beats, self.blocked, self._began = 0, 0.0, time.process_time()
        self._task = asyncio.create_task(self._beat())
        return self

    async def __aexit__(self, *_):
        self.worked = time.process_time() - self._began
        self._task.cancel()

    @property
    def waited(self):
        return self.beats * self._PAUSE

    async def _beat(self):
        last = time.thread_time()
        while True:
            await asyncio.sleep(self._PAUSE)
            now = time.thread_time()
            self.beats, self.blocked, last = self.beats + 1, max(self.blocked, now - last), now


@contextmanager
def cpu_within(seconds, what=""):
    """What is inside spends at most so many seconds of CPU."""
    began = time.process_time()
    yield
    spent = time.process_time() - began
    assert spent < seconds, f"{spent:.1f} s of CPU {what}"


def check_cpu(work, seconds, what=""):
    """Do it in so many seconds of CPU; if it took longer, once more: now everything is compiled."""
    try:
        with cpu_within(seconds, what):
            work()
    except AssertionError:
        with cpu_within(seconds, what):
            work()


def free_port():
    """A port of the loopback at which nobody listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        return taken.getsockname()[1]
