"""One request at a time to a host, and a pause after each.

The pause is the largest of a floor, a multiple of the host's usual latency (a slow host is a busy
host), and what its robots.txt asks for. A host that says "too many" (429, 503) or does not answer
gets longer and longer pauses; every good answer halves them again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from observant.errors import InputError
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.observer.clock import Clock


class Politeness(msgspec.Struct, frozen=True, kw_only=True):
    """How much rest hosts get. All in seconds.

    >>> Politeness(floor=-1.0)
    Traceback (most recent call last):
        ...
    observant.errors.InputError: politeness: floor must not be negative, not -1.0
    """

    floor: float = 1.0
    """From the end of a request to the start of the next; never less."""
    latency_factor: float = 2.0
    """A host that takes two seconds to answer rests four."""
    ceiling: float = 30.0
    """The pause that follows latency is at most this."""
    crawl_delay_cap: float = 300.0
    """The pause a robots.txt can ask for is at most this."""
    backoff_first: float = 10.0
    """After the first 429 or 503; doubled with each one that follows."""
    backoff_cap: float = 3600.0
    outage_first: float = 2.0
    """After a failure to connect or a time-out; doubled with each one that follows."""
    outage_cap: float = 300.0
    retry_after_cap: float = DAY
    patience: float = 300.0
    """A fetch that would have to wait longer than this for its turn is not made."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not getattr(self, name) >= 0:
                raise InputError(
                    f"politeness: {name} must not be negative, not {getattr(self, name)}"
                )


_NOBODY: deque[asyncio.Future[None]] = deque(maxlen=0)
"""Shared by all hosts that nobody waits for: a deque of their own would be most of their weight."""


class Host:
    """What we know about one host, and who waits for it."""

    __slots__ = (
        "_rules",
        "busy",
        "crawl_delay",
        "failures",
        "free",
        "hurried",
        "latency",
        "name",
        "penalty",
        "requests",
        "silent",
        "waiting",
        "waker",
    )

    def __init__(self, name: str, rules: Politeness) -> None:
        self.name, self._rules = name, rules
        self.busy = False
        self.free = 0.0
        """Monotonic instant before which nothing is asked."""
        self.latency = 0.0
        self.crawl_delay = 0.0
        self.penalty = 0.0
        self.hurried = False
        """Whether a first visit is under way, which somebody may be waiting for."""
        self.failures = 0
        """Failures in a row: 429, 503, no connection, no answer."""
        self.requests = 0
        self.silent: float | None = None
        """The penalty of before, while a host does not answer."""
        self.waiting = _NOBODY
        self.waker: asyncio.Task[None] | None = None

    @property
    def delay(self) -> float:
        """The usual pause after a request, in seconds."""
        return self._rest(self._rules.floor)

    @property
    def pause(self) -> float:
        """The pause after the request that ends now: a quarter of the floor among first visits."""
        return self._rest(self._rules.floor / 4 if self.hurried else self._rules.floor)

    def _rest(self, floor: float) -> float:
        rules = self._rules
        return max(
            floor,
            min(rules.latency_factor * self.latency, rules.ceiling),
            min(self.crawl_delay, rules.crawl_delay_cap),
            self.penalty,
        )

    def ended(self, now: float, seconds: float, *, status: int, retry_after: float | None) -> None:
        """A request is over: `status` 0 means that there was no answer."""
        rules = self._rules
        self.requests += 1
        if status:
            self.silent = None
        elif self.silent is None:
            self.silent = self.penalty
        if status in (429, 503):
            self.failures += 1
            self.penalty = min(max(2 * self.penalty, rules.backoff_first), rules.backoff_cap)
        elif status == 0:
            self.failures += 1
            self.penalty = max(
                self.penalty, min(max(2 * self.penalty, rules.outage_first), rules.outage_cap)
            )
        else:
            self.failures = 0
            halved = self.penalty / 2
            self.penalty = halved if halved >= max(rules.floor, 0.1) else 0.0
            self.latency = seconds if not self.latency else 0.7 * self.latency + 0.3 * seconds
        rest = self.pause
        if retry_after is not None and (status in (429, 503)):
            rest = max(rest, min(retry_after, rules.retry_after_cap))
        self.free = now + rest


class Hosts:
    """All hosts we have spoken to. `enter` waits for the host's turn, `leave` ends it."""

    def __init__(self, rules: Politeness, clock: Clock) -> None:
        self.rules, self._clock = rules, clock
        self._table: dict[str, Host] = {}
        self._enough = _ENOUGH
        self.closed = False

    def __getitem__(self, name: str) -> Host:
        host = self._table.get(name)
        if host is None:
            if len(self._table) >= self._enough:
                self._forget()
            host = self._table[name] = Host(name, self.rules)
        return host

    def __contains__(self, name: str) -> bool:
        return name in self._table

    def __iter__(self) -> Iterator[Host]:
        return iter(self._table.values())

    def __len__(self) -> int:
        return len(self._table)

    def free_at(self, name: str) -> float:
        """The epoch second when this host could be asked, if nobody else comes first."""
        now = self._clock.time()
        host = self._table.get(name)
        return now if host is None else now + self.wait(host)

    def wait(self, host: Host) -> float:
        """Seconds until somebody who comes now has a turn; a request under way ends now."""
        turns = len(host.waiting) + host.busy
        return max(host.free - self._clock.monotonic(), 0.0) + turns * host.pause

    def enter_now(self, host: Host) -> bool:
        """Take the turn if it is free at this moment."""
        if self.closed:
            return True
        if host.busy or host.waiting or self._clock.monotonic() < host.free:
            return False
        host.busy = True
        return True

    async def enter(self, host: Host, *, first: bool = False) -> None:
        """Wait for this host's turn; `first` goes ahead of others (the next hop of a fetch)."""
        if self.enter_now(host):
            return
        turn = asyncio.get_running_loop().create_future()
        if host.waiting is _NOBODY:
            host.waiting = deque()
        if first:
            host.waiting.appendleft(turn)
        else:
            host.waiting.append(turn)
        self._wake(host)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it came just as we gave up
                host.busy = False
                self._wake(host)
            raise

    def leave(
        self,
        host: Host,
        seconds: float,
        *,
        status: int,
        retry_after: float | None = None,
    ) -> None:
        """End the turn: a request took `seconds` and came back with `status`."""
        host.ended(self._clock.monotonic(), seconds, status=status, retry_after=retry_after)
        host.busy = False
        if host.waiting:
            self._wake(host)

    def abandon(self, host: Host) -> None:
        """End the turn of a request that was given up by us; the host rests all the same."""
        host.free = self._clock.monotonic() + host.pause
        host.busy = False
        self._wake(host)

    def forgive(self) -> None:
        """Take back the penalties for not answering: it was not the hosts, the network was out."""
        now = self._clock.monotonic()
        for host in self._table.values():
            if host.silent is None:
                continue
            host.penalty, host.silent = host.silent, None
            host.free = min(host.free, now + host.delay)
            if host.waker is not None:  # it sleeps for the rest that was too long
                host.waker.cancel()
                host.waker = None
                self._wake(host)

    def close(self) -> None:
        """Let everybody go who waits; they must look at `closed`."""
        self.closed = True
        for host in self._table.values():
            if host.waker is not None:
                host.waker.cancel()
            for turn in host.waiting:
                if not turn.done():
                    turn.set_result(None)

    def _wake(self, host: Host) -> None:
        if not host.waiting or host.busy or host.waker is not None:
            return
        if host.free <= self._clock.monotonic():
            self._give_turn(host)
        else:
            host.waker = asyncio.get_running_loop().create_task(self._let_rest(host))

    async def _let_rest(self, host: Host) -> None:
        try:
            while (rest := host.free - self._clock.monotonic()) > 0:
                await self._clock.sleep(rest)
        finally:
            if host.waker is asyncio.current_task():
                host.waker = None
        self._give_turn(host)

    def _give_turn(self, host: Host) -> None:
        while host.waiting and not host.busy:
            turn = host.waiting.popleft()
            if not turn.done():
                host.busy = True
                turn.set_result(None)
        if not host.waiting:
            host.waiting = _NOBODY

    def _forget(self) -> None:
        """Drop hosts that are well rested and have nothing to remember."""
        long_ago = self._clock.monotonic() - _LONG
        for name, host in list(self._table.items()):
            if host.free < long_ago and not (host.busy or host.waiting):
                del self._table[name]
        self._enough = max(_ENOUGH, 2 * len(self._table))  # do not look through all again at once


_ENOUGH = 100_000
_LONG = 3600.0
