"""One worker process: it reads what strangers sent, within limits of processor time and memory.

Started by `observant.observer.pool` as ``python -m observant.observer.worker``. It takes one
request after the other from its standard input and writes one reply each; when nobody has asked for
a while, or the other end is gone, it ends. Before each request it limits itself: over the processor
time the system ends it, over the memory allocations fail. Values go both ways as MessagePack of
known types: nothing that a stranger might take over can make the other side run code.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from observant.errors import InputError, ObservantError

if TYPE_CHECKING:
    from collections.abc import Callable

IDLE = 60.0
"""Seconds without a request after which a worker ends."""
_GROWN = 48 << 20
"""A worker that has kept so many bytes after a request ends, and gives them back."""
_PIPE = 1 << 20
_LONGEST = 500
"""Characters of an error."""


class WorkerRequest(msgspec.Struct, array_like=True):
    """One thing to do, and what it may cost. What it is to be done with follows."""

    task: str
    size: int
    """Bytes that follow."""
    seconds: int
    """Of processor time."""
    memory: int
    """Bytes beyond what the process has now."""


class WorkerReply(msgspec.Struct, array_like=True):
    """What came of it: a value, which follows, or the words of an error."""

    what: Literal["done", "input", "refused", "memory", "broken"]
    size: int = 0
    message: str = ""
    seconds: float = 0.0
    """Of processor time that it took."""


def answer(
    task: str, given: bytes | bytearray, run: Callable[[str, Any], bytes]
) -> tuple[WorkerReply, bytes]:
    """Do it; whatever happens becomes a reply."""
    try:
        value = run(task, given)
    except InputError as error:
        return WorkerReply("input", message=str(error)[:_LONGEST]), b""
    except ObservantError as error:
        return WorkerReply("refused", message=str(error)[:_LONGEST]), b""
    except (MemoryError, SystemError):  # the second is Python's own when it is short of memory
        return WorkerReply("memory"), b""
    except Exception as error:  # noqa: BLE001 (a reader that stumbles is told like any other)
        return WorkerReply("broken", message=f"{type(error).__name__}: {error}"[:_LONGEST]), b""
    return WorkerReply("done", len(value)), value


def main() -> None:
    """Serve requests until there are no more."""
    from observant.observer.tasks import run

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started us
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)  # nobody else writes between the replies
    decode = msgspec.msgpack.Decoder(WorkerRequest).decode
    _soft("RLIMIT_CORE", 0)
    at_first = _memory_now()
    while True:
        if not select.select([incoming], [], [], IDLE)[0]:
            return
        head = _take(incoming, 4)
        if len(head) < 4:
            return
        request = decode(_take(incoming, int.from_bytes(head, "big")))
        given = _take(incoming, request.size)
        with _Limits(request.seconds, request.memory):
            began = time.process_time()
            reply, value = answer(request.task, given, run)
            reply.seconds = time.process_time() - began
        del given
        packed = msgspec.msgpack.encode(reply)
        _give(outgoing, len(packed).to_bytes(4, "big") + packed)
        _give(outgoing, value)
        del value
        if _memory_now() > at_first + _GROWN:
            return


def _take(place: int, size: int) -> bytes | bytearray:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        count = os.readv(place, [view[done : done + _PIPE]])
        if not count:
            break
        done += count
    return data if done == size else b""


def _give(place: int, packed: bytes) -> None:
    view = memoryview(packed)
    while view:
        view = view[os.write(place, view) :]


class _Limits:
    """Holds for one request; systems without such limits have none."""

    def __init__(self, seconds: int, memory: int) -> None:
        self._seconds, self._memory = seconds, memory

    def __enter__(self) -> None:
        try:
            import resource
        except ImportError:  # Windows
            return
        used = resource.getrusage(resource.RUSAGE_SELF)
        _soft("RLIMIT_CPU", int(used.ru_utime + used.ru_stime) + 1 + self._seconds)
        size = _memory_now()
        if size:
            _soft("RLIMIT_AS", size + self._memory)

    def __exit__(self, *_: object) -> None:
        _soft("RLIMIT_CPU", None)
        _soft("RLIMIT_AS", None)


def _soft(name: str, value: int | None) -> None:
    """Set the limit that can be raised again; None takes it away."""
    try:
        import resource

        which = getattr(resource, name)
        hard = resource.getrlimit(which)[1]
        if value is None or (hard != resource.RLIM_INFINITY and value > hard):
            value = hard
        resource.setrlimit(which, (value, hard))
    except (ImportError, AttributeError, ValueError, OSError):
        pass


@cache
def _statm() -> int:
    """What tells of memory, opened once: it is read twice for every request."""
    return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)


def _memory_now() -> int:
    """Bytes of address space; 0 where the system does not say."""
    try:
        return int(os.pread(_statm(), 100, 0).split(b" ", 1)[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):  # the last on Windows
        return 0


if __name__ == "__main__":
    main()
    sys.stdout.flush()
