"""What signals of change are worth on real histories, and what they cost when they are worthless.

    python -m benchmarks.signals --traces FOLDER
    python -m benchmarks.signals --traces FOLDER --seeds 1 --sources 500 --collections pkg-scoop
    python -m benchmarks.signals --traces FOLDER --lists
    python -m benchmarks.signals --liar
    python -m benchmarks.signals --speed
    python -m benchmarks.signals --live

FOLDER and the window are those of `benchmarks.policies`. Signals are drawn from the real updates
with a given recall and precision (`observant.simulation.world_signals`); how good they are is
learned from what visits find. Compared are our policy, the same without signals, and the same with
blind trust, all with the same visits. Staleness is relative to uniform visits; ± is its standard
error over the seeds. The last column is ours less the better of the other two, seed by seed: where
it is above zero by more than its error, ours is worse. `--sources` takes so many sources of each
collection, evenly. With `--lists` the signals stand in a sitemap for each host (or top group), and
say nothing until a policy spends a visit on reading it.

`--liar` replays a host that stamps everything with now at each daily read of its sitemap, beside an
honest one. `--speed` measures how many signals a second are taken in.

`--live` runs the observer over HTTP against the synthetic web on loopback: half of the hosts have
honest sitemaps, a quarter stamps all pages with now, a quarter has none. It watches no sitemap,
then the honest ones, then all. Each time it spends the same visits, reads of sitemaps among them.
The clock leaps while nobody is busy, so the answer does not depend on the speed of the machine.
"""

import argparse
import asyncio
import selectors
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.policies import collections, trace_of
from observant.observer.clock import AcceleratedClock
from observant.observer.config import Config
from observant.observer.loop import Observer
from observant.observer.pool import pool
from observant.observer.program import describe
from observant.observer.schedule import warm_up
from observant.observer.synthetic.server import DemoServer
from observant.observer.synthetic.trial import judge, transport_to
from observant.observer.synthetic.web import DemoWorld
from observant.observer.transport.curl import CurlEngine
from observant.planning.policy import make_scheduler
from observant.simulation import simulate
from observant.store import open_store
from observant.testing import stand_ins
from observant.times import DAY

__all__ = ["SETTINGS", "liar", "main", "run", "speed"]

SETTINGS = {
    ".9/.9": "recall=0.9,precision=0.9,delay=1h",
    ".8/.5": "recall=0.8,precision=0.5,delay=1h",
    ".5/.9": "recall=0.5,precision=0.9,delay=1h",
    ".9/.9 half": "recall=0.9,precision=0.9,delay=1h,share=0.5",
    "worthless": "recall=0,precision=0.5",
}
SORTS = ("honest", "honest", "lying", "none")  # the sitemaps of the hosts of a synthetic web


def run(
    folder, *, budgets=(0.1, 0.02), seeds=5, sources=0, chosen=(), settings=SETTINGS, lists=False
):
    """Yield (collection, budget, setting), then `_scores`."""
    for name in chosen or collections(folder):
        trace = trace_of(folder, name)
        if trace is None:
            continue
        if sources and len(trace) > sources:
            trace = trace.select(slice(0, None, -(-len(trace) // sources)))
        for budget in budgets:
            options = {
                "budget": budget * len(trace),
                "start": trace.start,
                "end": trace.end,
                "score_from": "half",
                "seeds": range(1, seeds + 1),
                "jobs": 1,
            }
            ignoring = simulate(trace, ["observant"], **options)["observant"]
            for setting, text in settings.items():
                said = text + ",kind=sitemap" * lists
                answer = simulate(trace, ["observant", "observant-blind"], signals=said, **options)
                found = (answer["observant"], ignoring, answer["observant-blind"])
                yield name, budget, setting, *_scores(found)


def _scores(found):
    """(mean, error) of each policy, and of ours less the better of the two others, by seeds."""
    stale = [1 - np.array([score.freshness.mean() for score in one.scores]) for one in found]
    better = min((1, 2), key=lambda k: found[k].relative_staleness)
    scale = found[better].relative_staleness / stale[better].mean()
    less = scale * (stale[0] - stale[better])
    error = less.std(ddof=1) / len(less) ** 0.5 if len(less) > 1 else np.nan
    rows = [(one.relative_staleness, one.relative_staleness_error) for one in found]
    return *rows, (less.mean(), error)


def liar(members=200, reads=30, rate=0.02, budget=0.1, seed=1):
    """A lying and an honest host, each with a sitemap read every day: after how many reads of the
    liar do its signals move nobody, and what is believed of both in the end?"""
    rng = np.random.default_rng(seed)
    scheduler = make_scheduler(2 * members * budget, seed=seed)
    scheduler.add(range(2 * members), last=-rng.random(2 * members) * 5)
    honest, lying = np.arange(members), np.arange(members, 2 * members)
    changed = np.full(2 * members, -np.inf)
    for host, some in (("honest", honest), ("lying", lying)):
        scheduler.signals.listen(some.tolist(), "sitemap", host)
    moved = []
    for read in range(1, reads + 1):
        new = rng.random(2 * members) < -np.expm1(-rate)
        changed[new] = read - rng.random(new.sum())
        said = honest[new[honest] & (rng.random(members) < 0.9)]
        for host in ("honest", "lying"):
            scheduler.signals.read("sitemap", host, float(read))
        scheduler.signals.receive(
            said.tolist(), np.full(len(said), float(read)), "sitemap", "honest"
        )
        before = [scheduler.due_at(i) for i in lying.tolist()]
        scheduler.signals.receive(lying.tolist(), np.full(members, float(read)), "sitemap", "lying")
        after = [scheduler.due_at(i) for i in lying.tolist()]
        moved.append(float(np.mean(np.array(after) < np.array(before) - 1.0)))
        while (now := scheduler.next_time()) < read + 1:
            for i in scheduler.due(now):
                last = scheduler.last_visit(i)
                scheduler.visited(i, now, bool(changed[i] > last) if last < now else None)
    ignored = next((r for r in range(reads) if max(moved[r:]) < 0.05), reads)
    return ignored, moved, scheduler.signals.reliability()


def speed(sources=100_000, signals=1_000_000):
    """Signals a second of CPU, a tenth of them at a time, over sources of a hundred hosts."""
    rng = np.random.default_rng(1)
    scheduler = make_scheduler(0.1 * sources)
    scheduler.add(range(sources), last=-10 * rng.random(sources))
    for host in range(100):
        scheduler.signals.listen(range(host, sources, 100), "ping", str(host))
    scheduler.signals.receive([0], [0.01], "ping", "0")  # compile
    which, at = rng.integers(0, sources, signals), np.sort(0.01 + rng.random(signals))
    begun = time.process_time()
    for some in np.array_split(np.arange(signals), 10):
        scheduler.signals.receive(which[some].tolist(), at[some], "ping", "0")
    return signals / (time.process_time() - begun)


class _Served(stand_ins._Leaping):  # noqa: SLF001
    """While requests or workers are under way time passes as it does; else the clock leaps."""

    def select(self, timeout=None):
        if not (self.loop.threads or pool().under_way):
            return super().select(timeout)
        began = time.monotonic()
        ready = selectors.SelectSelector.select(
            self, min(0.02 if timeout is None else timeout, 0.02)
        )
        self.loop.now += time.monotonic() - began
        return ready


class _Loop(stand_ins._Loop):  # noqa: SLF001
    def __init__(self):
        self.now, self.threads = 0.0, 0
        selector = _Served()
        asyncio.SelectorEventLoop.__init__(self, selector)
        selector.loop = self


async def _perform(self, request, perform=CurlEngine.perform):
    """A request on its way counts as a thread that works."""
    loop = asyncio.get_running_loop()
    loop.threads += 1
    try:
        return await perform(self, request)
    finally:
        loop.threads -= 1


async def watch(world, file, *, budget, sitemaps):
    """Watch a synthetic web on loopback for all its days; what was visited, as `judge` has it."""
    loop, start = asyncio.get_running_loop(), 1.7e9
    clock = AcceleratedClock(speed=5_000.0, start=start, ticks=loop.time)
    config = Config(budget=budget, first_visits=0, store=str(file), defaults={"min_period": "1h"})
    some = {"none": (), "honest": ("honest",), "all": ("honest", "lying")}[sitemaps]
    lists = [world.sitemap_url(host) for host in range(world.hosts) if SORTS[host % 4] in some]
    async with DemoServer(world, clock) as server:
        with open_store(file, durable=False, clock=clock.time) as store:
            store.sources.add([describe(world.url(page)) for page in range(world.pages)])
            store.sources.add([describe(url, kind="sitemap") for url in lists if url])
            transport = transport_to(server.port, clock)
            observer = Observer(store, config, clock=clock, transport=transport, seed=world.seed)
            observer.ticks = loop.time
            async with transport:
                status = await observer.run(until=start + world.days * DAY)
            return judge(world, store, observer, [status], start=start, seconds=1.0)


def live(seed, *, sitemaps, pages=240, hosts=12, days=60.0, budget=48.0):
    """Share of the time in which copies were fresh, of all pages and of those of each sort of host,
    by the truth, after the first half; visits, and reads of sitemaps among them."""
    world = DemoWorld(pages=pages, hosts=hosts, days=days, seed=seed)
    warm_up()
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=_Loop) as runner:
        file = Path(folder) / "web.db"
        judged = runner.run(watch(world, file, budget=budget, sitemaps=sitemaps))
    score = judged.comparison["observant"].scores[0]
    sort = np.array(SORTS)[np.arange(pages) % hosts % 4]
    shares = {name: score.freshness[sort == name].mean() for name in ("honest", "lying", "none")}
    uniform = judged.comparison["uniform"].metrics["freshness"]
    reads = judged.visits - int(judged.seen.sum())
    return {
        "all": score.freshness.mean(),
        **shares,
        "uniform": uniform,
        "visits": judged.visits,
        "reads": reads,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--traces", help="folder of the collections")
    parser.add_argument("--collections", nargs="*", default=())
    parser.add_argument("--budget", type=float, nargs="*", default=(0.1, 0.02))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sources", type=int, default=0)
    parser.add_argument("--lists", action="store_true", help="signals have to be read")
    parser.add_argument("--liar", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--live", action="store_true")
    args = parser.parse_args()
    if args.liar:
        ignored, moved, rows = liar()
        print(f"the liar is ignored after {ignored} reads; moved by each: {np.round(moved, 2)}")
        for row in rows:
            print(
                f"{row.group:8} recall {row.recall:.2f} [{row.recall_low:.2f}, "
                f"{row.recall_high:.2f}]  precision {row.precision:.2f} [{row.precision_low:.2f}, "
                f"{row.precision_high:.2f}]  {row.verdict}"
            )
    if args.speed:
        print(f"{speed():,.0f} signals a second of CPU")
    if args.live:
        CurlEngine.perform = _perform
        print("| seed | sitemaps | all | honest | lying | none | uniform | visits | reads |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
        for seed in range(1, args.seeds + 1):
            for sitemaps in ("none", "honest", "all"):
                found = live(seed, sitemaps=sitemaps)
                shown = " | ".join(
                    f"{x:.3f}" if isinstance(x, float) else f"{x}" for x in found.values()
                )
                print(f"| {seed} | {sitemaps} | {shown} |", flush=True)
    if not args.traces:
        return
    print("| collection | visits | signals | ours | ignoring | blind | ours less the better |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    found = {}
    for name, budget, setting, *scores in run(
        args.traces,
        budgets=args.budget,
        seeds=args.seeds,
        sources=args.sources,
        chosen=args.collections,
        lists=args.lists,
    ):
        shown = " | ".join(f"{mean:.3f} ±{error:.3f}" for mean, error in scores)
        print(f"| {name} | {budget:g} | {setting} | {shown} |", flush=True)
        found.setdefault((budget, setting), []).append([mean for mean, _ in scores])
    for (budget, setting), rows in found.items():
        shown = " | ".join(f"**{mean:.3f}**" for mean in np.mean(rows, axis=0))
        print(f"| mean of {len(rows)} | {budget:g} | {setting} | {shown} |")


if __name__ == "__main__":
    main()
