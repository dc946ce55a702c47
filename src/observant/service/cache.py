"""Heavy answers are computed beside the pages, once, and kept with the instant they were made.

A page never waits long: it takes what is there, even if it is a little old, and the new answer is
made in the background. Where there is nothing yet it says so, and asks again.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import OrderedDict
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from observant.errors import ObservantError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

log = logging.getLogger("observant.service")
T = TypeVar("T")
_WORKERS = "observant-answers"
_STALE = 10.0


@dataclass(frozen=True)
class Cached(Generic[T]):
    """An answer, or the word that there is none yet, or why there will be none."""

    value: T | None = None
    age: float = 0.0
    """Seconds since it was made."""
    error: str = ""
    pending: bool = False
    """There is no answer yet: ask again soon."""


class Cache:
    """Answers by key. Safe to use from many threads; `workers` answers are made at a time, and as
    many that are heavy.

    >>> cache = Cache()
    >>> cache.get("two", lambda: 1 + 1, wait=5.0).value
    2
    >>> cache.close()
    """

    def __init__(self, *, workers: int = 1, most: int = 200) -> None:
        self._most, self._closed, self._era = most, False, 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[float, Any, str]] = OrderedDict()
        self._making: dict[Hashable, Future[None]] = {}
        # Whatever takes seconds has workers of its own: what is quick never waits behind it.
        self._quick = ThreadPoolExecutor(workers, thread_name_prefix=_WORKERS)
        self._heavy = ThreadPoolExecutor(workers, thread_name_prefix=_WORKERS)

    def get(
        self,
        key: Hashable,
        make: Callable[[], T],
        *,
        max_age: float = 60.0,
        wait: float = 0.1,
        heavy: bool = False,
    ) -> Cached[T]:
        """The answer for a key: at once if it is kept, else after at most `wait` seconds.

        `heavy` answers take seconds to make.
        One older than `max_age` seconds is given as it is, while a new one is made; one ten times
        older than that is not given any more.
        """
        found = self._look(key)
        if found is not None and found.age > _STALE * max_age >= 0.0:
            found = None
        if found is None or found.age > max_age:
            job = self._begin(key, make, self._heavy if heavy else self._quick)
            if found is None and job is not None:
                if self._inside() and job.cancel():
                    # An answer that needs this one must not wait for a free worker: it is one.
                    self._make(key, make)
                else:
                    self._await(key, job, wait)
                found = self._look(key)
        return cast("Cached[T]", found or Cached(pending=True))

    def peek(self, key: Hashable, *, max_age: float) -> Any:
        """What is kept for a key and not older than that; None if there is nothing."""
        found = self._look(key)
        return None if found is None or found.age > max_age else found.value

    def put(self, key: Hashable, value: Any) -> None:
        """Keep an answer that was made elsewhere."""
        with self._lock:
            self._keep(key, value, "")

    def forget(self) -> None:
        """Drop every answer: something that all depend on has changed."""
        with self._lock:
            self._kept.clear()
            self._era += 1

    def close(self) -> None:
        """Make no more answers; those that are being made are not waited for."""
        self._closed = True
        for pool in (self._quick, self._heavy):
            pool.shutdown(wait=False, cancel_futures=True)

    def _await(self, key: Hashable, job: Future[None], seconds: float) -> None:
        end = time.monotonic() + seconds
        try:
            job.result(timeout=seconds)
        except TimeoutError:
            return
        except CancelledError:  # another answer needed it, and makes it itself
            while self._look(key) is None and time.monotonic() < end:
                time.sleep(0.01)

    @staticmethod
    def _inside() -> bool:
        return threading.current_thread().name.startswith(_WORKERS)

    def _look(self, key: Hashable) -> Cached[Any] | None:
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            made, value, error = self._kept[key]
        return Cached(value, time.monotonic() - made, error)

    def _begin(
        self, key: Hashable, make: Callable[[], Any], pool: ThreadPoolExecutor
    ) -> Future[None] | None:
        with self._lock:
            if key in self._making:
                return self._making[key]
            try:
                job = self._making[key] = pool.submit(self._make, key, make)
            except RuntimeError:  # closed: the service is going down
                return None
            return job

    def _make(self, key: Hashable, make: Callable[[], Any]) -> None:
        value, error, era = None, "", self._era
        try:
            value = make()
        except ObservantError as problem:
            error = str(problem)
        except Exception:
            if self._closed:  # the pools it works with have ended under it
                return
            log.exception("an answer could not be made", extra={"answer": str(key)})
            error = "this could not be computed; the log of the service says why"
        with self._lock:
            self._making.pop(key, None)
            # Begun before something changed, it is good for those who wait for it, and no more.
            self._keep(key, value, error, old=era != self._era)

    def _keep(self, key: Hashable, value: Any, error: str, *, old: bool = False) -> None:
        self._kept[key] = (-math.inf if old else time.monotonic(), value, error)
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
