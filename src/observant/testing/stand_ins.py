"""A world for tests: time that leaps, answers from a script, a store in memory, a small web."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import time
from typing import TYPE_CHECKING, Any, TypeVar

from observant.errors import InputError
from observant.observer.fetched import Fetched
from observant.observer.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping, Sequence

    from observant.observer.synthetic.web import DemoWorld
    from observant.store import Store

T = TypeVar("T")
_DEADLOCK = 120.0
"""Seconds of the world after which nobody can be expected to wake up any more."""


class SimulatedClock:
    """The clock of an event loop, which begins at `start` (seconds since 1970).

    Within `in_simulated_time` its hours pass in no time. It fits wherever observant takes a clock.

    >>> clock = SimulatedClock(start=1_000_000.0)
    >>> async def a_day():
    ...     await clock.sleep(86_400)
    ...     return clock.time()
    >>> in_simulated_time(a_day())
    1086400.0
    """

    speed = 1.0

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self.start = start

    def time(self) -> float:
        """Seconds since 1970."""
        return self.start + self.monotonic()

    def monotonic(self) -> float:
        """Seconds since the loop began; 0 outside of one."""
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return 0.0

    async def sleep(self, seconds: float) -> None:
        """Wait for so many seconds of this clock."""
        await asyncio.sleep(seconds)


def in_simulated_time(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a clock that leaps: when everybody waits, it goes to the next end.

    What threads and worker processes do takes no time: the clock stands still until they are done.
    Real connections are not served faster; use a `ScriptedFetcher`.
    """
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(work)


class _Leaping(selectors.SelectSelector):
    """Waiting takes no time: the loop's clock leaps ahead instead."""

    loop: _Loop

    def select(self, timeout: float | None = None) -> Any:
        from observant.observer.pool import pool

        began, patience = time.monotonic(), _DEADLOCK
        while time.monotonic() < began + patience:
            busy = self.loop.threads or pool().under_way  # before looking: who is done has told us
            patience = 10 * _DEADLOCK if busy else _DEADLOCK  # a thread may have to compile first
            if ready := super().select(0):
                return ready
            if timeout is not None and (timeout <= 0 or not busy):
                self.loop.now += max(timeout, 0.0)
                return []
            if ready := super().select(0.02 if busy else _DEADLOCK):
                return ready
        raise RuntimeError("everybody waits for somebody: a deadlock")


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.now, self.threads = 0.0, 0
        selector = _Leaping()
        super().__init__(selector)
        selector.loop = self

    def time(self) -> float:
        return self.now

    def run_in_executor(self, *given: Any) -> Any:  # type: ignore[override]
        self.threads += 1
        working = super().run_in_executor(*given)
        working.add_done_callback(self._one_less)
        return working

    def _one_less(self, _working: Any) -> None:
        self.threads -= 1


class ScriptedFetcher(Transport):
    """A transport that answers from a script: the answers of an address in turn, the last for ever.

    An answer is a page (text or bytes), an HTTP status (404), an error (``"timeout"``, as an
    exception: ``TimeoutError()``), or a `Fetched`. What was asked for is kept in `asked`.

    >>> web = ScriptedFetcher({"https://example.org/": ["one", "two", 404]})
    >>> async def look():
    ...     return [await web.fetch("https://example.org/") for _ in range(4)]
    >>> [(found.status, found.body) for found in in_simulated_time(look())]
    [(200, b'one'), (200, b'two'), (404, b''), (404, b'')]
    >>> len(web.asked)
    4
    """

    def __init__(
        self, script: Mapping[str, Sequence[Any] | str | bytes], clock: Any | None = None
    ) -> None:
        self._script = {
            url: [answers] if isinstance(answers, str | bytes) else list(answers)
            for url, answers in script.items()
        }
        if empty := [url for url, answers in self._script.items() if not answers]:
            raise InputError(f"there is no answer for {empty[0]}")
        super().__init__(user_agent="observant-testing/1", clock=clock or SimulatedClock())
        self.asked: list[str] = []

    async def fetch(self, url: str, **options: Any) -> Fetched:
        """The next answer for an address; 404 for one that is not in the script."""
        self.asked.append(url)
        answers = self._script.get(url, [404])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        now = self._clock.time()
        if isinstance(answer, Fetched):
            return answer
        told: dict[str, Any] = {"url": url, "started_at": now, "ended_at": now}
        if isinstance(answer, TimeoutError):
            return Fetched(**told, error="timeout", message="the script says so")
        if isinstance(answer, int):
            return Fetched(**told, status=answer)
        body = answer.encode() if isinstance(answer, str) else bytes(answer)
        kind = "text/html" if body.lstrip().startswith(b"<") else "text/plain"
        return Fetched(
            **told, status=200, body=body, content_type=kind, charset="utf-8", wire_bytes=len(body)
        )


def memory_store(clock: Any | None = None) -> Store:
    """A store that is gone when it is closed, with all that a real one does.

    >>> from observant.store import Source
    >>> with memory_store() as store:
    ...     _ = store.sources.add([Source(name="a")])
    ...     [row.name for row in store.sources.list().sources]
    ['a']
    """
    from observant.store import open_store

    return open_store(":memory:", **({} if clock is None else {"clock": clock.time}))


@contextlib.contextmanager
def synthetic_web(pages: int = 20, *, seed: int = 1) -> Iterator[tuple[DemoWorld, int]]:
    """A small web on loopback whose changes are known: the world, and the port it is served at.

    ``world.url(page)`` are addresses below ``.example``; give a `Transport` the parameter
    ``locate=observant.observer.synthetic.server.locate(port)`` and it finds them.
    """
    from observant.observer.synthetic.server import serving
    from observant.observer.synthetic.web import DemoWorld

    world = DemoWorld(pages=pages, hosts=max(pages // 20, 1), seed=seed)
    with serving(world) as server:
        yield world, server.port
