"""Four observers of one store, against one: how current are the copies, and what is spent?

    python -m benchmarks.fleet [--seconds 120] [--days 60] [--observers 4] [--postgres URL]

The sources are functions that change at rates of their own, on hosts that differ a hundredfold; the
clock is fast, so that DAYS pass in SECONDS. The observers are processes of their own on one
PostgreSQL (URL, or a server of the tests). Measured are one observer, several, and several of which
one is killed at half-time: the share of copies that were current in the second half (of the days
that a source was up to date, by what really happened), the visits made for each that the budget
allowed, and how far the prices of the observers were apart. A second table shows the price of every
observer, and what all of them have spent, at ten moments.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from itertools import pairwise

import numpy as np

from observant.observer.clock import AcceleratedClock
from observant.observer.config import Config
from observant.observer.loop import Observer
from observant.observer.program import add_sources, describe
from observant.observer.schedule import warm_up
from observant.store import open_store
from observant.times import DAY

__all__ = ["main", "measure"]

START = 20_000.0
HOSTS = [(40, 0.5, 0.5), (20, 3.0, 1.0), (300, 0.01, 1.0), (40, 0.05, 1.5)]
"""Pages of each kind of host, their rate, and how far it varies (logarithm)."""
PER_SOURCE = 0.1
"""Visits a day."""


def world(days, seed=1):
    """Times of updates of every source, by name: sixteen hosts of four kinds."""
    rng = np.random.default_rng(seed)
    updates = {}
    for kind, (many, rate, spread) in enumerate(HOSTS):
        for k in range(many):
            own = rate * np.exp(rng.normal(0, spread))
            times = START + np.sort(rng.uniform(0, days, rng.poisson(own * days)))
            host = f"{'abcdefghijklmnopqrstuvwxyz'[(7 * kind + 5 * k) % 26]}{kind}.example"
            updates[f"https://{host}/{k:03}"] = times
    return updates


def config_of(updates):
    return Config(
        first_visits=0,
        budget=f"{PER_SOURCE * len(updates)}/day",
        host_delay=0,
        spot_checks=0,
        defaults={"compare": {"learn_noise": False}},
    )


def observe(url, name, seconds, days):
    """One observer, in a process of its own: says that it is ready, is told when to begin, and
    says its price every second, with the day.
    """
    updates = world(days)
    warm_up()
    print("ready", flush=True)
    begin = float(sys.stdin.readline())
    clock = AcceleratedClock(speed=days * DAY / seconds, start=START * DAY, origin=begin)

    def made(source):
        return lambda _: f"{np.searchsorted(updates[source] * DAY, clock.time())} updates"

    async def run():
        with open_store(url, clock=clock.time) as store:
            observer = Observer(
                store,
                config_of(updates),
                clock=clock,
                functions={source: made(source) for source in updates},
                name=name,
                lease=8.0,
                seed=int(name.split()[-1]),
            )
            telling = asyncio.create_task(tell_price(observer, clock))
            await observer.run(until=(START + days) * DAY)
            telling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await telling

    asyncio.run(run())


async def tell_price(observer, clock):
    while True:
        await asyncio.sleep(1.0)
        print(clock.time() / DAY - START, observer.schedule.price, flush=True)


def measure(server, many, *, seconds, days, killed=False):
    """Freshness in the second half; the days of all visits; and the prices of each observer, as
    rows of days and prices.
    """
    updates, mark = world(days), "&" if "?" in server else "?"
    url = f"{server}{mark}schema=fleet_{os.urandom(4).hex()}"
    with open_store(url) as store:
        sources = [describe(x, kind="callable", host=x.split("/")[2]) for x in updates]
        add_sources(store, config_of(updates), sources)
        program = [sys.executable, "-m", "benchmarks.fleet", "--observe", url]
        children = [
            subprocess.Popen(  # noqa: S603
                [*program, f"observer {k}", str(seconds), str(days)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for k in range(many)
        ]
        for child in children:
            child.stdout.readline()
        begin = time.monotonic()
        for child in children:
            child.stdin.write(f"{begin}\n")
            child.stdin.flush()
        try:
            while any(child.poll() is None for child in children):
                time.sleep(1.0)
                passed = time.monotonic() - begin
                if killed and passed > seconds / 2:
                    children[0].send_signal(signal.SIGKILL)
                    killed = False
        finally:
            for child in children:
                child.kill() if child.poll() is None else None
        prices = [np.loadtxt(child.stdout, ndmin=2) for child in children]
        seen = defaultdict(list)
        for visit in store.visits.list(limit=10**6):
            seen[visit.source].append(visit.started_at / DAY)
    made = np.sort(np.concatenate(list(seen.values()))) - START
    return fresh_share(updates, seen, days), made[(made >= 0) & (made <= days)], prices


def fresh_share(updates, seen, days):
    half, end, current = START + days / 2, START + days, 0.0
    for name, times in updates.items():
        for at, after in pairwise([*sorted(seen[name]), end]):
            if after > half:
                missed = times[(times > at) & (times <= after)]
                current += max((missed[0] if len(missed) else after) - max(at, half), 0.0)
    return current / (len(updates) * (end - half))


def main():
    if sys.argv[1:2] == ["--observe"]:
        url, name, *numbers = sys.argv[2:]
        observe(url, name, *map(float, numbers))
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--days", type=float, default=60.0)
    parser.add_argument("--observers", type=int, default=4)
    parser.add_argument("--postgres", help="a database; without it a server is started")
    parser.add_argument("--json", action="store_true", help="prices over time, too")
    options = parser.parse_args()
    if options.postgres:
        _report(options.postgres, options)
        return
    from tests.postgres_server import servers

    for server in servers():
        _report(server.url, options)


def _report(server, options):
    cases = ((1, False), (options.observers, False), (options.observers, True))
    days, found = options.days, []
    print("| observers | α in the second half | visits for each of the budget | prices apart |")
    print("|---|--:|--:|--:|")
    for many, killed in cases:
        alpha, made, prices = measure(
            server, many, seconds=options.seconds, days=days, killed=killed
        )
        found.append((made, prices))
        late = np.linspace(days / 4, days, 100)
        known = [row for row in _prices_at(prices, late) if len(row) > 1]
        apart = f"{np.mean([max(row) / min(row) - 1 for row in known]):.1%}" if known else ""
        name = f"{many}, one killed at half-time" if killed else str(many)
        print(f"| {name} | {alpha:.2%} | {_spent(made, days):.3f} | {apart} |", flush=True)
        if options.json:
            print(json.dumps([rows.tolist() for rows in prices]))
    moments = np.linspace(days / 10, days, 10)
    titles = [f"{many} killed" if killed else str(many) for many, killed in cases]
    print()
    print(f"| day | {' | '.join(f'price, {name} | spent, {name}' for name in titles)} |")
    print("|--:|" + "--:|" * 2 * len(cases))
    columns = [(_prices_at(prices, moments), made) for made, prices in found]
    for k, day in enumerate(moments):
        cells = [
            f"{', '.join(f'{price:.3f}' for price in prices[k])} | {_spent(made, day):.3f}"
            for prices, made in columns
        ]
        print(f"| {day:g} | {' | '.join(cells)} |")


def _spent(made, day):
    """Visits up to a day for each that the budget allowed."""
    many = sum(pages for pages, _, _ in HOSTS)
    return (made <= day).sum() / (PER_SOURCE * many * day)


def _prices_at(prices, moments):
    """The last price that each observer told before each moment; none of one that was killed."""
    rows = [[] for _ in moments]
    for told in prices:
        step = np.diff(told[:, 0]).max(initial=0.0)
        for row, at in zip(rows, moments, strict=True):
            k = np.searchsorted(told[:, 0], at, side="right") - 1
            if k >= 0 and at - told[k, 0] <= 2 * step:
                row.append(told[k, 1])
    return rows


if __name__ == "__main__":
    main()
