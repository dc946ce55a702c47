"""Guessing passwords is slow: failures are counted, and soon one has to wait.

They are counted in the store, so that it does not matter which of several processes is asked, or
whether it was started anew.
"""

from __future__ import annotations

import hashlib
import math
import threading
import time
from typing import TYPE_CHECKING, Any

from observant.errors import TooManyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from observant.store import Store

_KEPT = "access.failures"


class Throttle:
    """Lets `free` failures of a key pass; then each failure doubles the wait, up to `longest`.

    Counted are the account together with the address, the address, and (more patiently, so that
    nobody can lock others out for long) the account. What failed long ago is forgotten. Without a
    store the failures are counted in this process alone.

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
        most: int = 2000,
        clock: Callable[[], float] = time.time,
        store: Store | None = None,
    ) -> None:
        self._free, self._first, self._longest, self._most = free, first, longest, most
        self._clock, self._store = clock, store
        self._lock = threading.Lock()
        self._here: dict[str, list[float]] = {}

    @property
    def failures(self) -> dict[str, list[float]]:
        """How often each key has failed and when last, by a digest of the key."""
        kept = self._here if self._store is None else self._store.settings.get(_KEPT)
        return kept if isinstance(kept, dict) else {}

    def wait(self, keys: Iterable[str]) -> float:
        """Seconds until these may try again."""
        now, failures = self._clock(), self.failures
        return max([0.0, *(self._until(key, failures, now) - now for key in keys)])

    def failed(self, keys: Iterable[str]) -> None:
        """These have failed to sign in."""
        now, named = self._clock(), [_digest(key) for key in keys]

        def count(kept: Any) -> dict[str, list[float]]:
            failures: dict[str, list[float]] = dict(kept) if isinstance(kept, dict) else {}
            for key in named:
                before, last = failures.pop(key, (0, now))
                fresh = abs(now - last) < 2 * self._longest
                failures[key] = [before + 1 if fresh else 1, now]
            lately = sorted(failures.items(), key=lambda item: item[1][1])
            return dict(lately[-self._most :])

        self._change(count)

    def succeeded(self, keys: Iterable[str]) -> None:
        """These have signed in: begin anew."""
        named = {_digest(key) for key in keys}
        if named & set(self.failures):
            self._change(lambda kept: {k: v for k, v in (kept or {}).items() if k not in named})

    def _change(self, work: Callable[[Any], dict[str, list[float]]]) -> None:
        if self._store is not None:
            self._store.settings.change(_KEPT, lambda kept: work(kept) or None)
            return
        with self._lock:
            self._here = work(self._here)

    def _until(self, key: str, failures: dict[str, list[float]], now: float) -> float:
        """The instant from which this key may try again."""
        count, last = failures.get(_digest(key), (0, 0.0))
        beyond = count - self._free * (10 if key.startswith("account:") else 1)
        if beyond <= 0 or last > now + self._longest:  # the clock was set back meanwhile
            return 0.0
        return last + min(self._first * 2.0 ** min(beyond - 1, 30), self._longest)


def _digest(key: str) -> str:
    """What is kept of a key: who has tried to sign in, and from where, is nobody's business."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:24]


class RateLimit:
    """So many of something at once, and so many a second after that, for each key; else 429.

    Counted in this process, for the keys that were used last.

    >>> now = 0.0
    >>> limit = RateLimit(burst=2, per_second=0.5, clock=lambda: now)
    >>> limit.take("k"), limit.take("k")
    (None, None)
    >>> limit.take("k")
    Traceback (most recent call last):
        ...
    observant.errors.TooManyError: too many attempts: wait 2 seconds
    """

    def __init__(
        self,
        *,
        burst: float,
        per_second: float,
        most: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._burst, self._speed, self._most, self._clock = burst, per_second, most, clock
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}
        """What each key had left, and when."""

    def take(self, key: str, number: float = 1.0) -> None:
        """Use so many, or raise `TooManyError`, and none is used."""
        with self._lock:
            left = self._now(key)
            if left < number:
                raise TooManyError(math.ceil((number - left) / self._speed))
            self._left[key] = left - number, self._clock()
            if len(self._left) > self._most:
                del self._left[next(iter(self._left))]

    def check(self, key: str) -> None:
        """Raise `TooManyError` if nothing is left."""
        with self._lock:
            left = self._now(key)
        if left < 1:
            raise TooManyError(math.ceil((1 - left) / self._speed))

    def _now(self, key: str) -> float:
        left, at = self._left.pop(key, (self._burst, 0.0))
        found = min(left + self._speed * (self._clock() - at), self._burst)
        if found < self._burst:
            self._left[key] = found, self._clock()
        return found
