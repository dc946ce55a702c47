"""What a visit costs, in plain visits: measured for each source, beginning with that of its kind.

A visit that takes 5 ms of processor time and 50 kB on the wire costs 1: half for each. That is a
usual page without a browser; with one it is about a hundred (`python -m benchmarks.rendering`). The
processor time is ours (of the visit's own steps, and of the worker that reads what came), and that
of a browser.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from observant.observer.browser.need import RENDERED

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

    from observant.store.visit import Visit

T = TypeVar("T")

_CPU, _BYTES = 0.005, 50_000.0
"""Seconds of processor time and bytes of a visit that costs 1."""
_BROWSER_CPU = 1.0
"""Seconds of a visit with a browser that cannot be measured, since it runs elsewhere."""
_FIRST = {"plain": 1.0, "browser": 100.0}
_OWN, _KIND = 0.2, 0.02
"""Weight of the latest visit in the cost of its source, and in that of its kind."""


def cost_of(size: int, cpu: float | None, *, browser: bool = False) -> float:
    """What a visit costs that took so many bytes, and seconds of processor time.

    >>> cost_of(50_000, None), cost_of(450_000, 1.0, browser=True)
    (1.0, 104.5)
    """
    seconds = cpu or (_BROWSER_CPU if browser else _CPU)
    return 0.5 * seconds / _CPU + 0.5 * size / _BYTES


def is_rendered(visit: Visit) -> bool:
    """Whether a browser has looked."""
    found = visit.comparison
    return found is not None and found.selection_version.endswith(RENDERED)


class Spent:
    """Seconds of processor time that one task takes, among many in an event loop.

    >>> import asyncio
    >>> async def work():
    ...     await asyncio.sleep(0)
    ...     spend(0.25)  # what somebody else did for it
    ...     return 7
    >>> spent = Spent()
    >>> asyncio.run(spent.by(work())), 0.25 <= spent.seconds < 0.5
    (7, True)
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    async def by(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for it, and count what its steps take."""
        before = _SPENT.set(self)
        try:
            found: T = await _Steps(self, work)
        finally:
            _SPENT.reset(before)
        return found


class _Steps:
    def __init__(self, spent: Spent, work: Coroutine[Any, Any, T]) -> None:
        self._spent, self._work = spent, work

    def __await__(self) -> Generator[Any, Any, Any]:
        given, problem = None, None
        while True:
            began = time.thread_time()
            try:
                asked = self._work.send(given) if problem is None else self._work.throw(problem)
            except StopIteration as end:
                return end.value
            finally:
                self._spent.seconds += time.thread_time() - began
            given, problem = None, None
            try:
                given = yield asked
            except BaseException as raised:  # noqa: BLE001 (it is the task's own)
                problem = raised


_SPENT: ContextVar[Spent | None] = ContextVar("spent", default=None)


def spend(seconds: float) -> None:
    """Count what somebody else did for the visit under way."""
    if (spent := _SPENT.get()) is not None:
        spent.seconds += seconds


class VisitCosts:
    """The costs of both kinds of visits, plain and with a browser; a source begins with them.

    Every visit then moves the cost of its source by a fifth of the difference: what was seen once
    counts little, and the kind makes up for the rest.
    """

    def __init__(self) -> None:
        self._kinds = dict(_FIRST)

    def first(self, *, browser: bool) -> float:
        """What a visit to a source costs that was never visited."""
        return self._kinds["browser" if browser else "plain"]

    def after(self, before: float | None, way_before: str, visit: Visit) -> float | None:
        """The cost of a source after a visit; `way_before` is what was compared before."""
        found = visit.comparison
        if visit.outcome == "failed" or found is None:
            return before
        browser = is_rendered(visit)
        paid = cost_of(visit.bytes or 0, visit.cpu, browser=browser)
        kind, usual = "browser" if browser else "plain", self.first(browser=browser)
        self._kinds[kind] = usual + _KIND * (paid - usual)
        if before is None or way_before.endswith(RENDERED) != browser:
            before = usual
        return before + _OWN * (paid - before)

    def state(self) -> dict[str, float]:
        return dict(self._kinds)

    def restore(self, state: Any) -> None:
        """Go on with the costs of before."""
        for kind in self._kinds:
            if isinstance(found := state.get(kind), float) and found > 0:
                self._kinds[kind] = found
