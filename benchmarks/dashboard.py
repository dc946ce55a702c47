"""Server time of every page of the dashboard, over many sources and visits in SQLite.

    python -m benchmarks.dashboard [--sources 100000] [--visits 10000000] [--observer] [--keep FILE]

The store is filled through its own tables in a minute or two. Then `observant serve` runs in a
process of its own, with an observer beside it if told, which visits as often as the budget says;
every page and figure is asked for `--times` times, after a first round in which the answers that
take long are computed. The target is 300 ms at the 95th percentile for every page. The column CPU
is what the server computed for a request on average (with all that the observer does meanwhile): it
does not depend on what else runs on the machine.
"""

import argparse
import asyncio
import http.client
import multiprocessing
import os
import re
import sqlite3
import tempfile
import time
import urllib.parse
from pathlib import Path

import numpy as np

from observant.estimation.belief import OLD_GRID as GRID
from observant.store import Entry, Event, Posterior, Source, Visit, open_store

DAYS = 30.0
DAY = 86_400.0
TARGET = 300.0
PASSWORD = "correct horse battery staple"  # noqa: S105
PAGES = (
    "/", "/?grace=6h", "/sources", "/sources?sort=rate&descending=1", "/sources?sort=period",
    "/sources?sort=doubt&descending=1", "/sources?search=page+77", "/sources?tag=tag7",
    "/sources?host=host12.example", "/sources?state=paused", "/sources/{id}", "/plan",
    "/plan?budget=2000000/day&grace=2h", "/population", "/events", "/events?topic=changed",
    "/subscriptions", "/queries", "/settings", "/status",
    "/charts/performance.json", "/charts/activity.json", "/charts/timeline.json?source={id}",
    "/charts/posterior.json?source={id}", "/charts/intervals.json?source={id}",
    "/charts/history.json?source={id}", "/charts/magnitude.json?source={id}",
    "/charts/plan.json", "/charts/budgets.json", "/charts/rivals.json",
    "/charts/mean-times.json", "/charts/week.json", "/charts/change-ratio.json",
)  # fmt: skip


def fill(file, sources, visits):
    """A store with so many sources and visits, made by bulk statements."""
    now = time.time()
    start = now - DAYS * DAY
    rng = np.random.default_rng(1)
    rates = 10.0 ** rng.uniform(-2.0, 1.0, sources)
    gap = DAYS * sources / visits
    with open_store(file) as store:
        for first in range(0, sources, 10_000):
            store.sources.add(
                [
                    Source(
                        name=f"https://host{i % 5000}.example/page/{i}",
                        kind="callable",
                        host=f"host{i % 5000}.example",
                        title=f"Page {i} of the benchmark" if i % 3 else "",
                        tags=(f"tag{i % 20}",),
                        importance=float(1 + i % 3),
                    )
                    for i in range(first, min(first + 10_000, sources))
                ],
                now=start,
            )
    database = sqlite3.connect(file, isolation_level=None)
    database.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;")
    chance = (1e6 * -np.expm1(-rates * gap)).astype(int)
    database.execute("CREATE TEMP TABLE chances (source INTEGER PRIMARY KEY, one INTEGER)")
    database.executemany("INSERT INTO chances VALUES (?, ?)", enumerate(chance.tolist(), 1))
    index = database.execute("SELECT sql FROM sqlite_master WHERE name = 'visits_source'")
    (sql,) = index.fetchone()
    database.execute("DROP INDEX visits_source")
    # Visits in order of time, one after the other, to sources in a scrambled but even order.
    database.execute(
        f"""
        INSERT INTO visits (
            id, source, started_at, took, outcome, changed, status, magnitude, bytes
        )
        WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {visits - 1}),
        v AS (
            SELECT i, (i * 7919) % {sources} + 1 AS source,
                ((i * 2654435761 + i / {sources} * 40503) >> 4) % 1000000 AS chance FROM n
        )
        SELECT i + 1, v.source, {int(start * 1e6)} + i * {int(DAYS * DAY * 1e6 / visits)}, 200000,
            CASE WHEN i < {sources} THEN 'first' WHEN chance < one THEN 'changed' ELSE 'same' END,
            CASE WHEN i < {sources} THEN NULL ELSE chance < one END, 200,
            CASE WHEN i >= {sources} AND chance < one THEN (i % 97) / 97.0 END, 2000
        FROM v JOIN chances ON chances.source = v.source
        """
    )
    database.execute(sql)
    database.executescript(
        f"""
        DELETE FROM hours;
        INSERT INTO hours SELECT started_at / 3600000000, count(*), coalesce(sum(changed), 0),
            sum(outcome = 'failed'), sum(bytes) FROM visits GROUP BY 1;
        UPDATE sources SET visits = s.n, changes = s.k, visited_at = s.last, good_at = s.last,
            changed_at = s.changed, outcome = 'same', status = 200
        FROM (SELECT source, count(*) AS n, coalesce(sum(changed), 0) AS k, max(started_at) AS last,
            max(CASE WHEN changed = 1 THEN started_at END) AS changed
            FROM visits GROUP BY source) AS s WHERE s.source = sources.id;
        UPDATE sources SET state = 'paused' WHERE id % 97 = 0;
        UPDATE sources SET failed_in_row = 3, error = 'timeout' WHERE id % 501 = 0;
        INSERT INTO events (event, topic, source, created_at, due_at, payload)
        SELECT 'e' || id, 'changed', source, started_at, started_at,
            '{{"title":"A page","reason":"the text changed by 20 %","magnitude":0.2,"at":'
            || (started_at / 1000000.0) || '}}'
        FROM visits WHERE changed = 1 AND id > {visits} - 400000;
        """
    )
    database.execute("BEGIN")  # the script has ended the first transaction
    counts = database.execute("SELECT visits, changes FROM sources ORDER BY id").fetchall()
    n, k = np.array(counts, np.float64).T
    n = np.maximum(n - 1, 0)
    for first in range(0, sources, 5000):
        part = slice(first, first + 5000)
        x = np.minimum(gap * GRID, 50.0)
        evidence = np.outer(k[part], np.log(-np.expm1(-x))) - np.outer((n - k)[part], gap * GRID)
        evidence -= evidence.max(axis=1, keepdims=True)
        weights = np.exp(evidence)
        weights /= weights.sum(axis=1, keepdims=True)
        middle = np.exp(weights @ np.log(GRID))
        spread = np.exp(2 * np.sqrt(weights @ np.log(GRID) ** 2 - np.log(middle) ** 2 + 1e-9))
        ids = range(first + 1, first + len(evidence) + 1)
        rows = np.clip(evidence, -1e30, 0).astype(np.float32)
        database.executemany(
            "INSERT INTO posteriors VALUES (?, ?)",
            [(i, row.tobytes()) for i, row in zip(ids, rows, strict=True)],
        )
        period = np.clip(1.5 / np.sqrt(middle), 0.05, 60.0) * DAY * 1e6
        database.executemany(
            "UPDATE sources SET rate = ?, rate_low = ?, rate_high = ?,"
            " due_at = coalesce(good_at, created_at) + ? WHERE id = ?",
            list(
                zip(
                    middle.tolist(),
                    (middle / spread).tolist(),
                    (middle * spread).tolist(),
                    period.astype(int).tolist(),
                    ids,
                    strict=True,
                )
            ),
        )
    database.execute("COMMIT")
    database.execute("ANALYZE")
    database.close()
    with open_store(file) as store:
        described(store, now)


def described(store, now):
    """One source with versions, so that its page has a difference to show."""
    name = store.sources.list(limit=1).sources[0].name
    words = ["forest", "window", "signal", "river", "market", "council", "winter", "budget"]
    for number in range(6):
        text = " ".join(words[(i * (number + 3)) % len(words)] for i in range(1200))
        visit = Visit(
            source=name,
            started_at=now - 60.0 * (6 - number),
            ended_at=now - 60.0 * (6 - number) + 1,
            outcome="changed",
            changed=True,
            status=200,
            magnitude=0.2,
        )
        entry = Entry(
            visit=visit,
            snapshot=text,
            posterior=Posterior(data=np.zeros(len(GRID), np.float32).tobytes(), rate=1.0),
            outbox=[Event(id=f"own{number}", topic="changed", payload={"at": now})],
        )
        store.visits.record_many([entry])


class Everything(dict):
    """A function for every source: a page that changes now and then."""

    def __bool__(self):
        return True

    def __contains__(self, name):
        return True

    def __getitem__(self, name):
        async def look(_):
            await asyncio.sleep(0.05)
            return f"{name} at {int(time.time() / 7)}"

        return look


def served(file, budget, observing, tell):
    """`observant serve` in this process, until it is ended."""
    from observant.observer.config import Config
    from observant.observer.loop import Observer
    from observant.service.access import Access
    from observant.service.server import Serving, serve

    config = Config(store=file, budget=budget, downloaders=32)
    with open_store(file) as store:
        if not store.accounts.list():
            Access(store, log_n=10).add_account("owner", "owner", PASSWORD)

        async def run():
            observer = Observer(store, config, functions=Everything()) if observing else None
            await serve(
                store,
                config,
                Serving(port=0),
                observer=observer,
                told=lambda address, _: tell.put(address),
            )

        asyncio.run(run())


class Browser:
    """Signed in, over one connection."""

    def __init__(self, address):
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(address).netloc)
        self.cookies = {}
        form = self.get("/login")[1].decode()
        token = re.search(r'name="csrf_token" value="([^"]*)"', form)[1]
        fields = {"name": "owner", "password": PASSWORD, "csrf_token": token}
        body = urllib.parse.urlencode(fields)
        self.ask("POST", "/login", body, {"Content-Type": "application/x-www-form-urlencoded"})

    def get(self, path):
        return self.ask("GET", path)

    def ask(self, method, path, body=None, headers=None):
        cookies = "; ".join(f"{key}={value}" for key, value in self.cookies.items())
        sent = {"Cookie": cookies, "Accept": "text/html", **(headers or {})}
        self.connection.request(method, path, body, sent)
        answer = self.connection.getresponse()
        for key, value in answer.getheaders():
            if key.lower() == "set-cookie":
                name, _, rest = value.partition("=")
                self.cookies[name] = rest.partition(";")[0]
        return answer.status, answer.read()


def processor_time(process):
    """Milliseconds that a process has computed; on Linux only."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return 1e3 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(browser, times, process):
    """Milliseconds of each page, after a round that lets heavy answers be made."""
    number = re.search(rb'href="/sources/(\d+)"', browser.get("/sources")[1])[1].decode()
    paths = [path.replace("{id}", number) for path in PAGES]
    end = time.monotonic() + 180
    waiting = list(paths)
    first = {}
    while waiting and time.monotonic() < end:
        for path in list(waiting):
            began = time.perf_counter()
            status, body = browser.get(path)
            first.setdefault(path, 1e3 * (time.perf_counter() - began))
            if status != 202 and b"data-reload" not in body:
                waiting.remove(path)
        time.sleep(1.0 if waiting else 0.0)
    found = {}
    for path in paths:
        took, before = [], processor_time(process)
        for _ in range(times):
            began = time.perf_counter()
            status, _ = browser.get(path)
            took.append(1e3 * (time.perf_counter() - began))
        computed = (processor_time(process) - before) / times
        found[path] = (status, first[path], computed, np.array(took))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=int, default=100_000)
    parser.add_argument("--visits", type=int, default=10_000_000)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--observer", action="store_true", help="with an observer beside")
    parser.add_argument("--keep", help="the file of the store; used as it is if it is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = options.keep or str(Path(folder, "observant.db"))
        if not Path(file).exists():
            began = time.perf_counter()
            fill(file, options.sources, options.visits)
            print(f"filled in {time.perf_counter() - began:.0f} s")
        print(f"{Path(file).stat().st_size / 1e9:.2f} GB")
        tell = multiprocessing.Queue()
        budget = options.visits / DAYS
        server = multiprocessing.Process(
            target=served, args=(file, budget, options.observer, tell), daemon=True
        )
        server.start()
        try:
            found = measure(Browser(tell.get(timeout=300)), options.times, server.pid)
        finally:
            server.terminate()
            server.join(20)
    print(f"  {'':<44}{'status':>7}{'first':>9}{'CPU':>9}{'median':>9}{'p95':>9}")
    for path, (status, first, computed, took) in found.items():
        p95 = float(np.quantile(took, 0.95))
        late = "  late" if p95 > TARGET else ""
        print(
            f"  {path:<44}{status:>7}{first:>6.0f} ms{computed:>6.0f} ms"
            f"{np.median(took):>6.0f} ms{p95:>6.0f} ms{late}"
        )


if __name__ == "__main__":
    main()
