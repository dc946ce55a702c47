"""Guessing passwords is slow: failures are counted, and soon one has to wait."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Throttle"]


class Throttle:
    """Lets `free` failures of a key pass; then each failure doubles the wait, up to `longest`.

    Counted are the account together with the address, the address, and (more patiently, so that
    nobody can lock others out for long) the account. What failed long ago is forgotten.

    >>> now = 0.0
    >>> throttle = Throttle(free=2, clock=lambda: now)
    >>> for _ in range(3):
    ...     throttle.failed(["k"])
    >>> throttle.wait(["k"]), throttle.wait(["other"])
    (2.0, 0.0)
    """

    def __init__(
        self,
        *,
        free: int = 5,
        first: float = 2.0,
        longest: float = 900.0,
        most: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._free, self._first, self._longest, self._most = free, first, longest, most
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def wait(self, keys: Iterable[str]) -> float:
        """Seconds until these may try again."""
        now = self._clock()
        with self._lock:
            return max([0.0, *(self._until(key) - now for key in keys)])

    def failed(self, keys: Iterable[str]) -> None:
        """These have failed to sign in."""
        now = self._clock()
        with self._lock:
            for key in keys:
                count, last = self._failures.pop(key, (0, now))
                fresh = now - last < 2 * self._longest
                self._failures[key] = (count + 1 if fresh else 1, now)
            while len(self._failures) > self._most:
                self._failures.popitem(last=False)

    def succeeded(self, keys: Iterable[str]) -> None:
        """These have signed in: begin anew."""
        with self._lock:
            for key in keys:
                self._failures.pop(key, None)

    def _until(self, key: str) -> float:
        """The tick from which this key may try again."""
        count, last = self._failures.get(key, (0, 0.0))
        beyond = count - self._free * (10 if key.startswith("account:") else 1)
        if beyond <= 0:
            return 0.0
        return last + min(self._first * 2.0 ** min(beyond - 1, 30), self._longest)
