"""Speed of the store: visits recorded a second, and the time of a page of a long list.

    python -m benchmarks.store [--visits 10000000] [--postgres postgresql://…] [--folder /where]

A visit here is committed with all that belongs to it: comparison, posterior of 400 bytes, next due
time; one in ten found a change and brings a snapshot of 5 kB and an event for the outbox.
"""

import argparse
import hashlib
import os
import random
import resource
import tempfile
import time
from pathlib import Path

from observant.store import Comparison, Entry, Event, Posterior, Source, Visit, open_store

START = 1_700_000_000.0


def add(store, sources):
    began = time.perf_counter()
    for first in range(0, sources, 10_000):
        store.sources.add(
            [
                Source(
                    name=f"https://host{i % 5000}.example/page/{i}",
                    host=f"host{i % 5000}.example",
                    tags=(f"tag{i % 20}",),
                    importance=1 + i % 9,
                )
                for i in range(first, min(first + 10_000, sources))
            ],
            now=START,
        )
    return sources / (time.perf_counter() - began)


def entries(sources, rounds, rng):
    """Entries without end, one source after the other in a fresh order each round."""
    words = [hashlib.sha256(bytes([i])).hexdigest()[:7] for i in range(256)]
    step = 0
    while step < rounds * sources:
        order = list(range(sources))
        rng.shuffle(order)
        for i in order:
            step += 1
            at = START + step * 0.01
            changed = rng.random() < 0.1
            digest = hashlib.sha256(f"{i} {step if changed else 0}".encode()).digest()
            found = {"digest_raw": digest, "digest_text": digest, "memory": {"seen": step}}
            if changed:
                found |= {
                    "record": {"size": 20_000, "links": i % 90, "title": f"page {i}"},
                    "text": f"{i} {step} " + " ".join(rng.choices(words, k=640)),
                    "attributes": ("text", "links"),
                }
            outcome = "changed" if changed else "same"
            yield Entry(
                visit=Visit(
                    source=f"https://host{i % 5000}.example/page/{i}",
                    started_at=at,
                    ended_at=at + 0.2,
                    outcome=outcome,
                    changed=changed,
                    status=200,
                    digest=digest,
                    magnitude=0.1 if changed else 0.0,
                    bytes=20_000,
                    comparison=Comparison(outcome=outcome, **found),
                ),
                posterior=Posterior(data=rng.randbytes(400), rate=rng.random()),
                due_at=at + 86_400 * rng.random(),
                outbox=[Event(id=f"{i}-{step}", payload={"page": i})] if changed else (),
            )


def recorded_per_second(store, sources, visits, group, rng):
    stream = entries(sources, visits // sources + 1, rng)
    prepared = [next(stream) for _ in range(visits)]
    began, worked = time.perf_counter(), time.process_time()
    for first in range(0, visits, group):
        store.visits.record_many(prepared[first : first + group], now=START)
    cpu = (time.process_time() - worked) / visits * 1e6
    return visits / (time.perf_counter() - began), cpu


def best_of(times, work):
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds) * 1000


def pages(store):
    """Milliseconds of what a person waits for."""

    for sort in ("name", "due_at", "visited_at", "changed_at", "importance", "rate", "visits"):
        took = best_of(3, lambda s=sort: store.sources.list(sort=s))
        print(f"    page by {sort:<15} {took:8.1f} ms")
    middle = store.sources.list(sort="due_at", limit=50_000).next
    for what, work in (
        ("page after 50,000", lambda: store.sources.list(sort="due_at", after=middle)),
        ("page by offset 50,000", lambda: store.sources.list(sort="name", offset=50_000)),
        ("search of two words", lambda: store.sources.list(search="host77 page")),
        ("page of a tag", lambda: store.sources.list(tag="tag3")),
        ("page of a host", lambda: store.sources.list(host="host7.example")),
        ("count", store.sources.count),
        ("count of a search", lambda: store.sources.count(search="host77")),
        ("totals", store.totals),
        ("due, 1000", lambda: store.sources.due(now=START + 50_000)),
        ("100 visits of a source", lambda: store.visits.list("https://host7.example/page/7")),
        ("100 latest changes", lambda: store.visits.list(changed=True)),
        ("what a visit needs", lambda: store.sources.previous("https://host7.example/page/7")),
        ("all, for the scheduler", lambda: sum(1 for _ in store.sources.scheduled())),
    ):
        print(f"    {what:<23} {best_of(3, work):8.1f} ms")


def fill(store, sources, visits, rng):
    """Make the log long, by the way that restoring takes; the record of visits is timed after."""
    began = time.perf_counter()
    columns = ("source", "started_at", "took", "outcome", "changed", "status", "bytes")
    first = int((START - 400 * 86_400) * 1e6)
    step = 400 * 86_400_000_000 // visits
    at_a_time = 1_000_000
    for start in range(0, visits, at_a_time):
        rows = [
            (rng.randrange(sources) + 1, first + step * n, 200_000, "same", 0, 200, 20_000)
            for n in range(start, min(start + at_a_time, visits))
        ]
        store.engine.write(lambda session, rows=rows: session.load("visits", columns, rows))
    recount = (
        "UPDATE sources SET visits = n.count, visited_at = n.latest FROM (SELECT source, "
        "count(*) AS count, max(started_at) AS latest FROM visits GROUP BY source) AS n "
        "WHERE n.source = sources.id"
    )
    store.engine.write(lambda session: session.change(recount, {}))
    speed = visits / (time.perf_counter() - began)
    print(f"  {visits:,} visits of the past put in, {speed:,.0f} a second", flush=True)


def measure(url, sources, visits, *, durable=True):
    rng = random.Random(0)  # noqa: S311
    with open_store(url, durable=durable) as store:
        print(f"{store!r}, durable={durable}")
        print(f"  {add(store, sources):9,.0f} sources added a second")
        if visits:
            fill(store, sources, visits, rng)
        for group, count in ((1, 2000), (20, 10_000), (500, 50_000)):
            speed, cpu = recorded_per_second(store, sources, count, group, random.Random(group))  # noqa: S311
            print(
                f"  {speed:9,.0f} visits a second in groups of {group}, {cpu:.0f} µs of CPU each",
                flush=True,
            )
        total = store.totals()
        print(f"  with {total.sources:,} sources, {total.visits:,} visits:")
        pages(store)
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            rows = store.visits.export(Path(folder) / "visits.parquet")
            print(f"  {rows / (time.perf_counter() - began):9,.0f} visits exported a second")
        if Path(url).exists():
            size = sum(os.path.getsize(url + end) for end in ("", "-wal"))  # noqa: PTH202
            print(f"  {size / 1e6:,.0f} MB on disk")
    print(
        f"  {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB of memory at most"
    )


def main(arguments=()):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=int, default=100_000)
    parser.add_argument("--visits", type=int, default=0, help="so many more, to see a large log")
    parser.add_argument("--postgres", help="measure this database (a new schema is made in it)")
    parser.add_argument("--folder", help="where the SQLite file lies while it is measured")
    parser.add_argument(
        "--quick", action="store_true", help="commits that a loss of power can take"
    )
    options = parser.parse_args(arguments)
    if options.postgres:
        mark = "&" if "?" in options.postgres else "?"
        url = f"{options.postgres}{mark}schema=benchmark_{os.getpid()}"
        measure(url, options.sources, options.visits, durable=not options.quick)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        measure(f"{folder}/store.db", options.sources, options.visits, durable=not options.quick)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
