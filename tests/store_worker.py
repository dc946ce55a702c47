# ruff: noqa: T201, S311 - it speaks to the test through its standard output
"""Processes that use a store, to be killed: python store_worker.py TASK PLACE …

Each line on the standard output tells what was done, after it was done.
"""

import asyncio
import json
import random
import subprocess
import sys
import time

from observant.store import Comparison, Entry, Event, Posterior, Recorded, Visit, open_store

START = 1_800_000_000.0
STEP = 0.125
"""Seconds from a visit to the next of a source: so short that the clock never seems to jump."""

HELD = 0.5
"""Seconds of a lease."""


def start_worker(*arguments):
    return subprocess.Popen(  # noqa: S603
        [sys.executable, __file__, *arguments],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def lease(place, name, seconds):
    """Take shards, give some back, let some run out; tell from when to when each was held."""
    held = {}
    rng = random.Random(name)
    with open_store(place, durable=False) as store:
        end = time.time() + float(seconds)
        while time.time() < end or len(held) < 60:  # on a busy machine it takes longer
            asked = time.time()
            fences = store.leases.take(name, 24, seconds=HELD)
            answered = time.time()
            for lease in fences.items():
                held.setdefault(lease, [answered, 0.0])[1] = asked + HELD
            if rng.random() < 0.3:
                for lease in fences.items():
                    held[lease][1] = min(held[lease][1], time.time())
                store.leases.release(name, fences)
            time.sleep(rng.choice([0.02, 0.1, 0.3]))
        gone = time.time()  # who has ended holds nothing: others may take it at once
    spans = {lease: (begin, min(end, gone)) for lease, (begin, end) in held.items()}
    print(json.dumps([[*lease, *span] for lease, span in spans.items() if span[0] < span[1]]))


def hold(place, name, seconds):
    """Hold all shards for so long, without ever renewing them."""
    with open_store(place, durable=False) as store:
        print(len(store.leases.take(name, 64, seconds=float(seconds))), flush=True)
        time.sleep(3600)


def observe(place, ahead):
    """Watch what the store holds, with a clock that is so many seconds ahead, and tell visits."""
    from observant.observer.clock import SteadyClock
    from observant.observer.config import Config
    from observant.observer.loop import Observer

    def wall():
        return time.time() + float(ahead)

    def row(_previous):
        return {"row": 1}

    with open_store(place, durable=False, clock=wall) as store:
        names = [source.name for source in store.sources.list(limit=1000).sources]
        config = Config(
            budget="1000/s", host_delay=0, defaults={"min_period": "100ms", "max_period": "1s"}
        )
        observer = Observer(
            store, config, clock=SteadyClock(wall=wall), functions=dict.fromkeys(names, row)
        )
        asyncio.run(observer.run(on_visit=lambda visit: print(visit.source, flush=True)))


def write(place, seed):
    """Commit groups of visits without end, and tell each group once it is committed."""
    rng = random.Random(int(seed))
    with open_store(place) as store:
        sources = [s for s in store.sources.list(limit=1000).sources if s.state == "active"]
        counts = {s.name: s.visits for s in sources}
        print("ready", flush=True)
        while True:
            group = rng.sample(sorted(counts), rng.choice([1, 1, 2, 5, 20]))
            entries = []
            for name in group:
                number = counts[name]
                at = START + number * STEP
                changed = number % 3 == 0
                entries.append(
                    Entry(
                        visit=Visit(
                            source=name,
                            started_at=at,
                            ended_at=at + STEP / 2,
                            outcome="changed" if changed else "same",
                            changed=changed,
                            status=200,
                            comparison=Comparison(
                                outcome="changed" if changed else "same",
                                memory={"number": number},
                                record={"number": number},
                            ),
                        ),
                        snapshot=f"{name} {number} " + "x" * rng.randrange(5000)
                        if changed
                        else None,
                        posterior=Posterior(data=str(number).encode(), rate=float(number)),
                        due_at=at + STEP,
                        outbox=[Event(id=f"{name} {number}")] if changed else (),
                    )
                )
            told = store.visits.record_many(entries)
            assert told == [Recorded.NEW] * len(group), told
            for name in group:
                counts[name] += 1
            if rng.random() < 0.05:
                store.snapshots.retain(max_versions=2)
            if rng.random() < 0.1:
                done = store.outbox.take(limit=5, seconds=0.01)
                store.outbox.delivered([event.id for event in done])
            print(json.dumps({name: counts[name] for name in group}), flush=True)


if __name__ == "__main__":
    {"lease": lease, "hold": hold, "observe": observe, "write": write}[sys.argv[1]](*sys.argv[2:])
