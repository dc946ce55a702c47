# ruff: noqa: S101, S603 - it starts itself, and what it finds must hold
"""Observers that are killed: whole processes over real HTTP, and a look at what they leave.

`python lives.py FILE PORT` imports and compiles everything once, and then forks an
observer for every line it reads; so a life begins within milliseconds, and there is time for many.
A forked observer writes a line for every visit that was committed.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter

LEASE = 0.25
"""Seconds: so soon the next observer may take up what the dead one held."""
SOURCES = 40
HOSTS = 10


# -- the observer that is killed ------------------------------------------------------------------


def nursery(file, port):
    from observant.observer.config import Config
    from observant.observer.loop import Observer
    from observant.observer.schedule import warm_up
    from observant.observer.transport import Guard, Politeness, Transport
    from observant.store import open_store
    from observant.store.engine import micros

    warm_up()
    config = Config(budget="400/s", host_delay=0, downloaders=16, defaults={"min_period": "1ms"})

    async def live():
        transport = Transport(
            guard=Guard(allow=["127.0.0.0/8"]),
            politeness=Politeness(floor=0.0, latency_factor=0.0, outage_first=0.0),
            proxies={},
            locate=lambda _host, _port: ("127.0.0.1", int(port)),
        )
        with open_store(file) as store:
            async with transport:
                observer = Observer(store, config, transport=transport, lease=LEASE)
                await observer.run(on_visit=tell)

    def tell(visit):
        os.write(1, f"{visit.source} {micros(visit.started_at)} {visit.outcome}\n".encode())

    os.write(1, b"ready\n")
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            try:
                asyncio.run(live())
            finally:
                os._exit(1)  # it was to be killed, not to end
        os.write(1, f"pid {child}\n".encode())
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        os.write(1, b"dead\n" if killed else b"ended by itself\n")


# -- the one who kills ----------------------------------------------------------------------------


class Lives:
    """Lets observers live for a random while, and checks the store after each."""

    def __init__(self, file, seed=0):
        from observant.observer.program import describe
        from observant.store import open_store

        self.file, self.rng = str(file), random.Random(seed)  # noqa: S311
        self.server = Pages()
        with open_store(self.file) as store:
            store.sources.add(
                [describe(f"http://h{k % HOSTS}.example/{k}") for k in range(SOURCES)]
            )
        self.visits: dict[tuple[str, int], str] = {}
        self.last_row = self.idle = 0
        self.process = subprocess.Popen(
            # -P: modules beside this one (benchmarks.coverage) must not hide others of their names
            [sys.executable, "-P", __file__, self.file, str(self.server.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "ready\n"

    def one(self):
        """One life: told visits are there, none is there twice, and nothing else is wrong."""
        self.process.stdin.write("live\n")
        self.process.stdin.flush()
        out = self.process.stdout
        told, pid, killer = [], None, None
        # Some while they rise; most at some moment of their visits.
        at_birth = self.rng.random() < 0.2
        enough = 0 if at_birth else self.rng.randrange(1, 80)
        for line in out:
            if line == "dead\n":
                break
            assert line != "ended by itself\n"
            if line.startswith("pid "):
                pid = int(line.split()[1])
            else:
                told.append(line)
            if killer is None and pid is not None and len(told) >= enough:
                moment = self.rng.uniform(0.0, 0.6 if at_birth else 0.01)
                killer = threading.Timer(moment, os.kill, [pid, signal.SIGKILL])
                killer.start()
        killer.join()
        self._look(told)

    def _look(self, told):
        from observant.store import open_store
        from observant.store.engine import micros

        with open_store(self.file) as store:
            rows = store.visits.list(
                limit=1_000_000, after=self.last_row or None, oldest_first=True
            )
            self.last_row = rows[-1].id if rows else self.last_row
            self.idle += not rows
            for row in rows:
                key = (row.source, micros(row.started_at))
                assert key not in self.visits, f"a visit is there twice: {key}"
                self.visits[key] = row.outcome
            for line in told:
                source, at, outcome = line.split()
                assert self.visits.get((source, int(at))) == outcome, f"a visit is lost: {line}"
            counts = Counter(source for source, _ in self.visits)
            last = {}
            for source, at in self.visits:
                last[source] = max(at, last.get(source, 0))
            for source in store.sources.list(limit=1000).sources:
                assert source.visits == counts[source.name]
                if counts[source.name]:
                    assert micros(source.visited_at) == last[source.name]
                    assert source.due_at is not None
            changes = [key for key, found in self.visits.items() if found in WORTH_TELLING]
            events = [e for e in store.outbox.list(limit=1_000_000) if e.topic in WORTH_TELLING]
            assert len({event.id for event in events}) == len(events) == len(changes)
            told_of = {(e.payload["source"], micros(e.payload["at"])) for e in events}
            assert told_of == set(changes)
            troubles = [f for f in store.doctor() if f.severity == "error"]
            assert troubles == []

    def learned_once(self):
        """How far what the store has learned is from what its visits teach, each counted once."""
        import numpy as np

        from observant.observer.schedule import Planned, Schedule
        from observant.store import open_store

        with open_store(self.file) as store:
            rows = store.visits.list(limit=1_000_000, oldest_first=True)
            known = store.sources.previous_many({row.source for row in rows}, text=False)
        schedule = Schedule(1e6, start=rows[0].started_at)
        schedule.add([Planned(name, name.split("/")[2]) for name in known])
        for row in rows:
            schedule.visited(row.source, row.started_at, row.changed)
        return max(
            float(np.abs(_likelihood(schedule.likelihood(name)) - _likelihood(one.posterior)).max())
            for name, one in known.items()
        )

    def close(self):
        self.process.stdin.close()
        self.process.wait(120)
        self.process.stdout.close()
        self.server.close()


WORTH_TELLING = {"changed", "gone", "back"}


def _likelihood(kept):
    """Probabilities of what was seen at the rates of the grid, at most 1."""
    from observant.estimation.belief import Likelihoods

    row = Likelihoods.unpack([kept]).on_grid()[0]
    return row / row.max()


class Pages:
    """A small server in a thread: every page changes with every third request to it."""

    def __init__(self):
        self.requests = Counter()
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait(120)

    def close(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self, started):
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            self._loop.create_server(lambda: _Connection(self.requests), "127.0.0.1", 0)
        )
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()
        server.close()
        self._loop.run_until_complete(server.wait_closed())
        self._loop.close()


class _Connection(asyncio.Protocol):
    def __init__(self, requests):
        self.requests, self.rest = requests, b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        *requests, self.rest = (self.rest + data).split(b"\r\n\r\n")
        for request in requests:
            path = request.split(b" ", 2)[1].decode()
            if path == "/robots.txt":
                self.transport.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                continue
            self.requests[path] += 1
            version = self.requests[path] // 3
            words = " ".join(f"word{version * 7 + k}" for k in range(60))
            body = f"<html><body><h1>Page {path}</h1><p>{words}</p></body></html>".encode()
            self.transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s"
                % (len(body), body)
            )


def kill_at_random_moments(file, rounds, seed=0, progress=None):
    """Kill so many observers; returns all visits, lives that made none, and `learned_once`."""
    lives = Lives(file, seed)
    try:
        for number in range(rounds):
            lives.one()
            if progress is not None:
                progress(number + 1, len(lives.visits))
        return lives.visits, lives.idle, lives.learned_once()
    finally:
        lives.close()


if __name__ == "__main__":
    nursery(*sys.argv[1:])
