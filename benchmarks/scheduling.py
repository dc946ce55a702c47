"""Speed of the scheduler: decisions a second while the collection grows.

    python -m benchmarks.scheduling

A decision is one `due` that names a source and one `visited` that reports it. The budget is one
visit per source and day; nobody is late. Point rates, then rates learned on a grid. Then what the
schedule of an observer weighs with a million sources, and for how long a step blocks its loop while
100,000 are taken up. Seconds are those of the processor.
"""

import gc
import time
from pathlib import Path

import numpy as np

from observant.estimation.priors import Prior
from observant.observer.schedule import Planned, Schedule
from observant.planning.schedule import Scheduler

AT_ONCE = 2_000
"""Sources that an observer adds before it gives way."""


def prepared(sources, *, learned=False, seed=0):
    rng = np.random.default_rng(seed)
    rates = rng.gamma(0.6, 1 / 0.6, sources) + 1e-6
    prior = None
    if learned:
        grid = np.geomspace(1e-3, 16, 48)
        weights = grid**0.6 * np.exp(-0.6 * grid)
        prior = Prior(grid, weights / weights.sum())
    given = {"rate": None if learned else rates, "importance": rng.pareto(2, sources) + 1}
    scheduler = Scheduler(float(sources), prior=prior)
    scheduler.add(range(sources), **given, last=0.0)
    # Each somewhere in its period, as after a while: nobody is late.
    periods = np.minimum([scheduler.due_at(k) for k in range(sources)], 50.0)
    scheduler = Scheduler(float(sources), prior=prior)
    scheduler.add(range(sources), **given, last=-periods * rng.random(sources))
    return scheduler, rates, rng


def decisions_per_second(scheduler, rates, rng, decisions, batch):
    """Drive it: one call of `due` for each visit, or one for a batch of them."""
    chance = rng.random(decisions + batch).tolist()
    rate = rates.tolist()
    last = {}
    done, now = 0, scheduler.next_time()
    began = time.process_time()
    while done < decisions:
        now = scheduler.next_time() if batch == 1 else now + batch / scheduler.budget
        for source in scheduler.due(now, batch):
            gap = now - last.get(source, now - 1.0)
            last[source] = now
            scheduler.visited(source, now, chance[done] < rate[source] * gap)
            done += 1
    return done / (time.process_time() - began)


def main(*, most=1_000_000):
    small, *_ = prepared(100)
    small.due(1.0)  # compiled before the clock starts
    print("scheduler, decisions (due and visited) a second:")
    for learned in (False, True):
        for sources in (10_000, 100_000, 1_000_000):
            if sources > most:
                continue
            began = time.perf_counter()
            scheduler, rates, rng = prepared(sources, learned=learned)
            ready = time.perf_counter() - began
            decisions = 50_000 if learned else 200_000
            speeds = [
                decisions_per_second(scheduler, rates, rng, decisions, batch) for batch in (1, 100)
            ]
            print(
                f"  {sources:9,} sources, {'learned' if learned else 'given  '} rates:"
                f" {speeds[0]:9,.0f} one by one, {speeds[1]:9,.0f} in batches of 100;"
                f" {ready:.1f} s to add them",
                flush=True,
            )
    print("schedule of an observer:")
    for sources in (100_000, 1_000_000):
        if sources <= most:
            take_up(sources)


def resident():
    """Bytes of memory of this process; 0 where the system does not tell."""
    try:
        words = Path("/proc/self/status").read_text("ascii").split("VmRSS:")[1].split()
    except (OSError, IndexError):
        return 0
    return 1024 * int(words[0])


def take_up(sources):
    """Add sources as an observer does, some at a time; print weight, time and longest step."""
    schedule = Schedule(float(sources), start=0.0)
    planned = [
        Planned(f"https://host{k % 1000}.example/{k // 1000 % 7}/{k}", f"host{k % 1000}.example")
        for k in range(sources)
    ]
    gc.collect()
    before, longest, steps, began = resident(), 0.0, 0, time.process_time()

    def stepped(since):
        nonlocal longest, steps
        longest, steps = max(longest, time.process_time() - since), steps + 1
        return time.process_time()

    for some in range(0, sources, AT_ONCE):
        now = time.process_time()
        schedule.place(planned[some : some + AT_ONCE])
        stepped(now)
    now = time.process_time()
    for _ in schedule.settling():
        now = stepped(now)
    stepped(now)
    print(
        f"  {sources:9,} sources: {(resident() - before) / sources:.0f} bytes a source;"
        f" {time.process_time() - began:.1f} s in {steps} steps, "
        f"the longest {1000 * longest:.0f} ms",
        flush=True,
    )


if __name__ == "__main__":
    main()
