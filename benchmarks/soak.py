"""The observer for long, and with many: does it stay small, and does its schedule stay quick?

    python -m benchmarks.soak day [SECONDS] [SOURCES] [HOURS]
    python -m benchmarks.soak many [SOURCES] [SECONDS]

`day` lets 24 hours pass in SECONDS (default 120): 2,000 pages of the synthetic web, real HTTP on
loopback, a real store, a visit to each page every hour. What must not grow is looked at every
second: memory, threads, file descriptors, tasks, downloaders, the write-ahead log of SQLite.

`many` puts 100,000 sources into one SQLite store and watches them for SECONDS (default 60) with
functions in place of the network, 333 visits a second: once while all are new, and once when all
were visited within the last day (after a restart). It tells how long a step of the schedule takes
(what is due, what a visit taught, when to ask again), how long the event loop stood still, how soon
the observer stood, and how much memory the process took.
"""

import asyncio
import json
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from observant.observer.clock import AcceleratedClock
from observant.observer.config import Config
from observant.observer.content import Comparer
from observant.observer.fetched import Fetched, visit_of
from observant.observer.loop import Observer
from observant.observer.program import describe
from observant.observer.schedule import warm_up
from observant.observer.synthetic.server import locate, serving
from observant.observer.synthetic.web import DemoWorld
from observant.observer.transport import Guard, Politeness, Transport
from observant.store import Entry, Source, open_store
from observant.times import DAY

START = 1_790_000_000.0
MB = 2**20


# -- a day ----------------------------------------------------------------------------------------

COLUMNS = ("hour", "memory", "objects", "threads", "descriptors", "tasks", "downloaders", "log")


def day(seconds=120.0, sources=2000, hours=24.0, visits_per_hour=1.0):
    """Returns a row of `COLUMNS` for every look; memory and log in MB, objects in thousands."""
    world = DemoWorld(pages=sources, hosts=max(sources // 20, 1), days=hours / 24, seed=11)
    clock = AcceleratedClock(speed=hours * 3600 / seconds, start=START)
    budget = sources * visits_per_hour * 24
    config = Config(budget=budget, defaults={"min_period": "1s"})
    warm_up()
    rows = []

    async def look(observer, log):
        while True:
            await asyncio.sleep(min(1.0, seconds / 60))
            rows.append(
                (
                    (clock.time() - START) / 3600,
                    memory(),
                    sys.getallocatedblocks() / 1000,
                    threading.active_count(),
                    descriptors(),
                    len(asyncio.all_tasks()),
                    observer.status().downloaders,
                    log.stat().st_size / MB if log.exists() else 0.0,
                )
            )

    async def watch(store, server, file):
        transport = Transport(
            guard=Guard(allow=["127.0.0.0/8"]),
            politeness=Politeness(patience=30 * DAY),
            proxies={},
            locate=locate(server.port),
            clock=clock,
        )
        server.begin(clock)
        async with transport:
            observer = Observer(store, config, clock=clock, transport=transport, seed=1)
            looking = asyncio.create_task(look(observer, Path(f"{file}-wal")))
            status = await observer.run(seconds=hours * 3600)
            looking.cancel()
            return status

    with tempfile.TemporaryDirectory() as folder, serving(world) as server:
        file = f"{folder}/observant.db"
        with open_store(file, durable=False, clock=clock.time) as store:
            store.sources.add([describe(world.url(page)) for page in range(sources)])
            clock.restart()
            status = asyncio.run(watch(store, server, file))
    return np.array(rows), status, budget * hours / 24


def tell_day(*arguments):
    rows, status, budget = day(*arguments)
    hours = rows[:, 0]
    print(
        f"{hours[-1]:.1f} hours of {status.sources:,} sources: {status.visits:,} visits of "
        f"{budget:,.0f}, {status.changes:,} changes, {status.failures:,} failures"
    )
    print(f"  {'':<14}{'first third':>14}{'last third':>14}{'most':>10}")
    early, end = hours < hours[-1] / 3, hours > 2 * hours[-1] / 3
    for name, column in zip(COLUMNS[1:], rows.T[1:], strict=True):
        unit = {"memory": " MB", "log": " MB", "objects": " thousand"}.get(name, "")
        print(
            f"  {name:<14}{column[early].mean():>14.1f}{column[end].mean():>14.1f}"
            f"{column.max():>10.1f}{unit}"
        )
    middle = ~early & ~end
    for name, column in zip(COLUMNS[1:3], rows.T[1:3], strict=True):
        slopes = [np.polyfit(hours[part], column[part], 1)[0] for part in (middle, end)]
        unit = "MB" if name == "memory" else "thousand"
        print(
            f"  {name}: {slopes[0]:+.3f} {unit} an hour in the middle, {slopes[1]:+.3f} at the end"
        )


# -- many sources ---------------------------------------------------------------------------------


class Steps:
    """How long the calls of the loop to its schedule take: by the wall, and of the processor."""

    def __init__(self, schedule):
        self.times = {"due": [], "visited": [], "next_at": []}
        for name, took in self.times.items():
            setattr(schedule, name, self._timed(getattr(schedule, name), took))

    @staticmethod
    def _timed(call, took):
        def timed(*arguments, **more):
            began, worked = time.perf_counter(), time.thread_time()
            try:
                return call(*arguments, **more)
            finally:
                took.append((time.perf_counter() - began, time.thread_time() - worked))

        return timed

    def quantiles(self):
        """Calls, and (median, p99, longest) in ms by the wall and of the processor, by name.

        `step` is a visit with a question before it and one after it, as if each had its own.
        """
        times = {name: np.array(took) for name, took in self.times.items()}
        step = times["visited"].copy()
        for name in ("due", "next_at"):
            step += np.resize(times[name], step.shape)
        return {
            name: (len(took), *(1e3 * np.quantile(took, [0.5, 0.99, 1.0], axis=0).T))
            for name, took in (times | {"step": step}).items()
        }


def many(sources=100_000, seconds=60.0):
    """Watch so many sources, new and after a restart; returns what was measured of each."""
    hosts = max(sources // 20, 1)
    config = Config(budget=sources / 300 * 86_400, host_delay=0, defaults={"min_period": "1s"})
    begin, rng = time.time(), np.random.default_rng(1)
    chance, past = rng.random(sources) ** 4, rng.random(sources) * DAY

    def value(number):
        return {"row": number, "value": int((time.time() - begin) * chance[number] / 5)}

    class Rows:
        """The functions by their names, made when they are asked for: no memory of their own."""

        def __contains__(self, name):
            return name.startswith("row:")

        def __getitem__(self, name):
            async def row(_previous):
                return value(int(name[4:]))

            return row

    warm_up()

    async def watch(store):
        told = {}
        observer = Observer(store, config, functions=Rows(), seed=1)
        began = time.perf_counter()
        loop, stood, tick = asyncio.get_running_loop(), [(0.0, 0.0)], [0.0, 0.0]

        def beat():
            """How late this is, and how much of that time this thread has worked: the rest of it
            others had the processor."""
            now, worked = loop.time(), time.thread_time()
            if tick[0]:
                late = max(now - tick[0] - 0.005, 0.0)
                stood.append((late, min(late, worked - tick[1])))
            tick[:] = now, worked
            loop.call_later(0.005, beat)

        def end():
            """Stop, but not before there is something to tell: a busy machine may take longer."""
            times = told["steps"].times
            if all(times.values()) and len(times["visited"]) > 20:
                observer.stop()
            else:
                loop.call_later(0.1, end)

        begin_loop = observer._loop  # noqa: SLF001

        async def stands(*arguments):
            told["stood after"] = time.perf_counter() - began
            told["steps"] = Steps(observer.schedule)
            beat()
            loop.call_later(seconds, end)
            await begin_loop(*arguments)

        observer._loop = stands  # noqa: SLF001
        told["status"] = await observer.run()
        told["stood still"] = 1e3 * np.quantile(stood, [0.5, 0.99, 1.0], axis=0)
        told["memory"] = memory()
        return told

    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/observant.db"
        with open_store(file) as store:
            for start in range(0, sources, 10_000):
                store.sources.add(
                    [
                        Source(name=f"row:{number}", kind="callable", host=f"h{number % hosts}")
                        for number in range(start, min(start + 10_000, sources))
                    ]
                )
        with open_store(file) as store:
            yield "all new", asyncio.run(watch(store))
        with open_store(file) as store:
            for start in range(0, sources, 1000):
                numbers = range(start, min(start + 1000, sources))
                store.visits.record_many(
                    [first_visit(f"row:{k}", value(k), begin - past[k]) for k in numbers]
                )
        with open_store(file) as store:
            yield "visited before", asyncio.run(watch(store))


def first_visit(name, value, at):
    """What an observer would have committed then."""
    page = Fetched(
        url=name,
        status=200,
        body=json.dumps(value, sort_keys=True).encode(),
        content_type="application/json",
        charset="utf-8",
        started_at=at,
        ended_at=at,
    )
    return Entry(visit=visit_of(name, page, Comparer().compare(None, page)))


def tell_many(sources=100_000, seconds=60.0):
    for what, told in many(sources, seconds):
        status = told["status"]
        print(
            f"{what}: {status.sources:,} sources stood after {told['stood after']:.1f} s; "
            f"{status.visits:,} visits, {status.visits / seconds:,.0f} a second, "
            f"{status.changes:,} changes"
        )
        print(f"  {'ms':<10}{'calls':>9}{'median':>9}{'p99':>9}{'longest':>9}{'CPU p99':>10}")
        for name, (calls, wall, work) in told["steps"].quantiles().items():
            print(
                f"  {name:<10}{calls:>9,}{wall[0]:>9.3f}{wall[1]:>9.3f}{wall[2]:>9.1f}"
                f"{work[1]:>10.3f}"
            )
        half, most, longest = told["stood still"]
        print(
            f"  the event loop stood still for {half[0]:.1f} ms (median), {most[0]:.1f} ms (p99), "
            f"{longest[0]:.0f} ms (longest), and worked for {most[1]:.1f} and {longest[1]:.0f} ms "
            f"of that; memory {told['memory']:,.0f} MB",
            flush=True,
        )
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"the most memory this process ever took: {most:,.0f} MB")


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def memory():
    """What this process has in memory now, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / MB


if __name__ == "__main__":
    what, *numbers = [*sys.argv[1:], "day"][: max(len(sys.argv) - 1, 1)]
    if what == "many":
        tell_many(*(kind(n) for kind, n in zip((int, float), numbers, strict=False)))
    else:
        tell_day(*(kind(n) for kind, n in zip((float, int, float), numbers, strict=False)))
