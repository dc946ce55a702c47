"""What the processes of a browser have used, and their end."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_PROC = Path("/proc")


class Usage(NamedTuple):
    """Of a process and all that came of it."""

    seconds: float
    """Of processor time, those of children that have ended included."""
    memory: int
    """Bytes that no other process shares."""
    pids: tuple[int, ...]


class ProcessTree:
    """The process whose command line has this mark, and its descendants (where there is /proc)."""

    def __init__(self, mark: str) -> None:
        self._mark = mark.encode()
        self._root = 0

    def usage(self) -> Usage:
        """Read /proc once; where there is none, time on the clock stands for that of the processor.

        >>> ProcessTree("no process has this mark").usage().pids
        ()
        """
        if not _PROC.is_dir():
            return Usage(time.monotonic(), 0, ())
        children: dict[int, list[int]] = {}
        spent: dict[int, float] = {}
        for entry in os.listdir(_PROC):  # noqa: PTH208 (names are all that is needed)
            if not entry.isdigit():
                continue
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = (_PROC / entry / "stat").read_bytes().rpartition(b")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry))
                spent[int(entry)] = sum(map(int, fields[11:15])) / _TICKS
        if self._root not in spent:
            self._root = self._find(spent)
        found, waiting = list[int](), [self._root] if self._root else []
        while waiting:
            found.append(waiting.pop())
            waiting += children.get(found[-1], ())
        memory = sum(_memory(pid) for pid in found)
        return Usage(sum(spent.get(pid, 0.0) for pid in found), memory, tuple(found))

    def kill(self) -> None:
        """End all of them at once."""
        for pid in self.usage().pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def _find(self, pids: dict[int, float]) -> int:
        for pid in pids:
            with contextlib.suppress(OSError):
                if self._mark in (_PROC / str(pid) / "cmdline").read_bytes():
                    return pid
        return 0


class Meter:
    """Divides what a counter grows by among those who are busy meanwhile.

    >>> counter = iter([0.0, 0.0, 4.0, 6.0])
    >>> meter = Meter(lambda: next(counter))
    >>> meter.start("a"), meter.start("b")
    (None, None)
    >>> meter.stop("a"), meter.stop("b")
    (2.0, 4.0)
    """

    def __init__(self, count: Callable[[], float]) -> None:
        self._count, self._last = count, 0.0
        self._lock = threading.Lock()
        self._busy: dict[Hashable, float] = {}

    def start(self, key: Hashable) -> None:
        with self._lock:
            self._share()
            self._busy[key] = 0.0

    def stop(self, key: Hashable) -> float:
        with self._lock:
            self._share()
            return self._busy.pop(key, 0.0)

    def _share(self) -> None:
        now = self._count()
        for key in self._busy:
            self._busy[key] += max(now - self._last, 0.0) / len(self._busy)
        self._last = now


def _memory(pid: int) -> int:
    try:
        _, resident, shared, *_ = (_PROC / str(pid) / "statm").read_bytes().split()
        return (int(resident) - int(shared)) * _PAGE
    except (OSError, ValueError):
        return 0


_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
