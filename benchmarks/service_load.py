"""`observant serve` at work: thousands of sources, many visits asked, and people who read pages.

    python -m benchmarks.service_load [--sources 5000] [--budget 1000/s] [--readers 10]
                                      [--pause 0] [--seconds 120] [--answers same|changed|304]

The pages of `benchmarks.load` (20 kB each, on 500 addresses of loopback) are visited by the service
while readers walk through its dashboard, with so many seconds of rest after each page (`--pause`;
none by default, which is what a script does and no person). A row for every tenth of the time:
visits a second, and the processor time of the service and its workers for each visit (pages for
readers are in it), which does not depend on what else runs on the machine. A decline shows from the
first row to the last.
"""

import argparse
import contextlib
import http.client
import sqlite3
import threading
import time

import numpy as np

from benchmarks.attack import family, service, wait_for
from benchmarks.dashboard import PASSWORD, Browser, processor_time
from benchmarks.load import serving

READ = ("/", "/sources", "/sources?sort=rate&descending=1", "/plan", "/events", "/status")
HOSTS = 500
ROWS = 10


def run(sources=5000, budget="1000/s", readers=10, pause=0.0, seconds=120.0, answers="same"):
    """Rows of seconds, visits and CPU seconds; and the milliseconds of all pages that were read."""
    took, over = [], threading.Event()
    with serving() as web:
        config = [f'budget = "{budget}"', 'allow = ["127.0.0.0/8"]', "host_delay = 0"]
        config += ['defaults = {min_period = "1s", render = "never"}']
        for number in range(sources):
            host = f"127.0.{1 + number % HOSTS // 250}.{1 + number % 250}"
            config += ["[[sources]]", f'url = "http://{host}:{web.port}/page/{number}"']
        with service("\n".join(config), prepare=with_owner) as (process, port, place):
            wait_for(process, port, place / "log")
            for _ in range(readers):
                reader = threading.Thread(target=read, args=(port, over, took, pause), daemon=True)
                reader.start()
            rows = []
            for number in range(ROWS + 1):
                web.send({"version": number * (answers == "changed"), "etags": answers == "304"})
                web.recv()
                rows.append((time.monotonic(), visits(place / "o.db"), computed(process.pid)))
                print(row(rows), flush=True)
                time.sleep(seconds / ROWS)
            over.set()
    return rows, took


def with_owner(file):
    from observant.service.access import Access
    from observant.store import open_store

    with open_store(file) as store:
        Access(store, log_n=10).add_account("owner", "owner", PASSWORD)


def read(port, over, took, pause):
    browser = Browser(f"http://127.0.0.1:{port}")
    while not over.is_set():
        for path in READ:
            began = time.perf_counter()
            with contextlib.suppress(OSError, http.client.HTTPException):
                browser.get(path)
                took.append(1e3 * (time.perf_counter() - began))
            over.wait(pause)


def visits(file):
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        return database.execute("SELECT max(id) FROM visits").fetchone()[0] or 0


def computed(pid):
    return sum(processor_time(one) for one in family(pid)) / 1e3


def row(rows):
    if len(rows) < 2:
        return f"{'seconds':>8}{'visits/s':>10}{'CPU of one':>12}{'CPU':>8}"
    (before, made, spent), (now, made_now, spent_now) = rows[-2:]
    wall, new, cpu = now - before, made_now - made, spent_now - spent
    each = f"{1e6 * cpu / max(new, 1):,.0f} us"
    return f"{now - rows[0][0]:8.0f}{new / wall:10,.0f}{each:>12}{cpu / wall:8.0%}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=int, default=5000)
    parser.add_argument("--budget", default="1000/s")
    parser.add_argument("--readers", type=int, default=10)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--answers", choices=("same", "changed", "304"), default="same")
    options = parser.parse_args()
    rows, took = run(**vars(options))
    (began, first, _), (ended, last, _) = rows[0], rows[-1]
    print(f"{(last - first) / (ended - began):,.0f} visits a second of {options.budget} asked")
    if took:
        print(f"{len(took):,} pages read, 95 of 100 within {np.quantile(took, 0.95):,.0f} ms")


if __name__ == "__main__":
    main()
