"""Pages per second of the whole observer, and of a Scrapy spider that does the same job.

    python -m benchmarks.load [--pages 6000] [--rounds 2]

A server in a process of its own gives 20 kB pages from memory, on 64 addresses of loopback. Both
clients fetch them 64 at a time, with robots.txt read and obeyed and no pauses, parse them with
lxml, take the visible text, digest it, compare it with the digest of the last visit, and keep
visit, digest and (when it is new) the compressed text in SQLite (WAL, synchronous=FULL, many
visits in one transaction). The observer also does what it always does: learns noise, keeps the
record of the page, the posterior of its rate and its next due time, writes events, audits.

Five rounds over the same pages: the first visit; a second one that finds all as it was; one that
finds every page changed, where the observer looks at each three times before it tells of it, as it
does with pages that it hardly knows; one with conditional requests that are answered 304; and one
that finds every page changed again, after twelve changes that stayed, so that the observer looks
once, as the spider always does (`trusted`). Time runs from
the first request to the last commit; starting either program is not counted. Processor time is
that of the client's process for one page, and beside it that of the observer's workers, which read
pages of more than 16 kB (with their own start, where they start in that time). Scrapy has only what
the job needs: no middleware but robots.txt, no extensions, no log.
"""

import argparse
import asyncio
import contextlib
import hashlib
import multiprocessing
import resource
import sqlite3
import tempfile
import time
import zlib
from pathlib import Path

import numpy as np

from benchmarks.comparing import page, words_of

AT_ONCE = 64
HOSTS = [f"127.0.1.{number}" for number in range(1, AT_ONCE + 1)]
PHASES = ("first", "same", "changed", "304", "trusted")
VERSIONS = (0, 0, 1, 1, 2)


def run(pages=6000, rounds=2):
    """Both clients in turns; returns pages per second and CPU by client and phase, the best."""
    found = {}
    with serving() as server:
        for _ in range(rounds):
            for name, client in (("observant", observants), ("scrapy", scrapys)):
                with tempfile.TemporaryDirectory() as folder:
                    for number, phase in enumerate(PHASES):
                        server.send({"version": VERSIONS[number], "etags": number >= 2})
                        server.recv()
                        told = in_a_process(client, server.port, folder, phase, pages)
                        key = (name, phase)
                        if key not in found or told["rate"] > found[key]["rate"]:
                            found[key] = told
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    found = run(options.pages, options.rounds)
    print(f"{options.pages:,} pages of 20 kB, {AT_ONCE} at a time; the best of {options.rounds}")
    columns = f"{'observant':>12}{'CPU':>9}{'workers':>11}{'Scrapy':>12}{'CPU':>9}{'times':>8}"
    print(f"  {'':<10}{columns}")
    for phase in PHASES:
        ours, theirs = found["observant", phase], found["scrapy", phase]
        print(
            f"  {phase:<10}{ours['rate']:>10,.0f}/s{ours['cpu']:>6,.0f} us"
            f"{ours['workers']:>8,.0f} us"
            f"{theirs['rate']:>10,.0f}/s{theirs['cpu']:>6,.0f} us"
            f"{ours['rate'] / theirs['rate']:>8.2f}"
        )
    starts = [found["observant", phase]["start"] for phase in PHASES]
    print(f"  the observer stood after {min(starts):.2f} to {max(starts):.2f} s")


# -- the observer ---------------------------------------------------------------------------------


def observants(port, folder, phase, pages):
    from observant.observer.config import Config
    from observant.observer.loop import Observer
    from observant.observer.program import describe
    from observant.observer.transport import Guard, Politeness, Transport
    from observant.store import open_store

    config = Config(
        budget="100000/s",
        first_visits=0,
        downloaders=AT_ONCE,
        host_delay=0,
        defaults={"min_period": "1000d", "max_period": "10000d", "render": "never"},
    )
    watch = Watch()

    async def observe(store):
        transport = Transport(
            guard=Guard(allow=["127.0.0.0/8"]),
            politeness=Politeness(floor=0, latency_factor=0),
            proxies={},
        )
        async with transport:
            observer = Observer(store, config, transport=transport)
            dispatch = observer._dispatch  # noqa: SLF001

            def first(now):
                watch.start()
                return dispatch(now)

            observer._dispatch = first  # noqa: SLF001
            outcomes = []
            await observer.run(
                visits=pages, on_visit=lambda v: outcomes.append((v.outcome, v.status))
            )
            return outcomes

    with open_store(f"{folder}/observant.db") as store:
        if phase == "first":
            store.sources.add([describe(url) for url in addresses(port, pages)])
        else:
            # Everything is due at once, whatever was learned: what is measured is visiting.
            ago = 86400000000 * 2000
            long_ago = (
                f"UPDATE sources SET good_at = good_at - {ago}, visited_at = visited_at - {ago}"
            )
            store.engine.write(lambda session: session.change(long_ago, {}))
        if phase == "trusted":
            stayed = "UPDATE memories SET memory = json_set(memory, '$.confirmed', 12)"
            store.engine.write(lambda session: session.change(stayed, {}))
        outcomes = asyncio.run(observe(store))
        watch.stop()
        check(outcomes, phase, pages)
    return watch.told(pages)


# -- Scrapy ---------------------------------------------------------------------------------------

TABLES = """
CREATE TABLE IF NOT EXISTS sources
    (url TEXT PRIMARY KEY, digest BLOB, raw BLOB, etag TEXT, visits INTEGER);
CREATE TABLE IF NOT EXISTS visits
    (source TEXT, at REAL, took REAL, outcome TEXT, status INTEGER, digest BLOB, bytes INTEGER);
CREATE TABLE IF NOT EXISTS snapshots (digest BLOB PRIMARY KEY, content BLOB);
"""


class Log:
    """What a careful person would write for a spider: groups of visits, one transaction each."""

    def __init__(self, file):
        self.database = sqlite3.connect(file, isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 8192"):
            self.database.execute(f"PRAGMA {pragma}")
        self.database.executescript(TABLES)
        self.known = {
            row[0]: row[1:]
            for row in self.database.execute("SELECT url, digest, raw, etag FROM sources")
        }
        self.waiting = []

    def add(self, row):
        self.waiting.append(row)
        if len(self.waiting) >= 100:
            self.flush()

    def flush(self):
        run_many = self.database.executemany
        self.database.execute("BEGIN IMMEDIATE")
        run_many(
            "INSERT INTO visits VALUES (:url,:at,:took,:outcome,:status,:text,:bytes)", self.waiting
        )
        run_many(
            "INSERT INTO sources VALUES (:url, :text, :raw, :etag, 1) ON CONFLICT (url) DO UPDATE"
            " SET digest = :text, raw = :raw, etag = :etag, visits = visits + 1",
            self.waiting,
        )
        fresh = [row for row in self.waiting if row["content"] is not None]
        run_many("INSERT OR IGNORE INTO snapshots VALUES (:text, :content)", fresh)
        self.database.execute("COMMIT")
        self.waiting = []


def scrapys(port, folder, phase, pages):
    import scrapy
    from lxml import etree
    from scrapy.crawler import CrawlerProcess

    watch, log, outcomes = Watch(), Log(f"{folder}/scrapy.db"), []
    visible = etree.XPath("//text()[not(parent::script or parent::style or parent::title)]")
    parser = etree.HTMLParser(encoding="utf-8")

    class Spider(scrapy.Spider):
        name = "visible text"

        async def start(self):
            watch.start()
            for url in addresses(port, pages):
                etag = log.known[url][2] if phase == "304" else None
                yield scrapy.Request(
                    url,
                    dont_filter=True,
                    headers={"If-None-Match": etag} if etag else None,
                    meta={"began": time.time()},
                )

        handle_httpstatus_list = (304,)

        def parse(self, response):
            url, began, status = response.url, response.meta["began"], response.status
            before = log.known.get(url)
            body, content = response.body, None
            raw = text = etag = None
            if status == 304:
                text, raw, etag = before
            else:
                raw = hashlib.blake2b(body, digest_size=32).digest()
                etag = response.headers.get("ETag", b"").decode()
                if before is not None and raw == before[1]:
                    text = before[0]
                else:
                    parts = visible(etree.fromstring(body, parser))
                    lines = "\n".join(" ".join(part.split()) for part in parts)
                    text = hashlib.blake2b(lines.encode(), digest_size=32).digest()
                    if before is None or before[0] != text:
                        content = zlib.compress(lines.encode(), 1)
            outcome = "first" if before is None else "same" if before[0] == text else "changed"
            now = time.time()
            log.add(
                {
                    "url": url, "at": began, "took": now - began, "outcome": outcome,
                    "status": status, "text": text, "raw": raw, "etag": etag, "content": content,
                    "bytes": len(body),
                }
            )  # fmt: skip
            outcomes.append((outcome, status))

        def closed(self, _reason):
            log.flush()
            watch.stop()

    process = CrawlerProcess(scrapy_settings())
    process.crawl(Spider)
    process.start()
    check(outcomes, phase, pages)
    return watch.told(pages)


def scrapy_settings():
    from scrapy.settings import default_settings as usual

    def none_but(base, *kept):
        return {name: place if name.endswith(kept) else None for name, place in base.items()}

    return {
        "LOG_ENABLED": False,
        "USER_AGENT": "observant/0.1",
        "ROBOTSTXT_OBEY": True,
        "CONCURRENT_REQUESTS": AT_ONCE,
        "CONCURRENT_REQUESTS_PER_DOMAIN": AT_ONCE,
        "DOWNLOAD_DELAY": 0,
        "COOKIES_ENABLED": False,
        "DOWNLOADER_MIDDLEWARES": none_but(
            usual.DOWNLOADER_MIDDLEWARES_BASE, "RobotsTxtMiddleware", "UserAgentMiddleware"
        ),
        "SPIDER_MIDDLEWARES": none_but(
            usual.SPIDER_MIDDLEWARES_BASE, "StartSpiderMiddleware", "HttpErrorMiddleware"
        ),
        "EXTENSIONS": none_but(usual.EXTENSIONS_BASE, "nothing"),
        "TELNETCONSOLE_ENABLED": False,
        "STATS_CLASS": "scrapy.statscollectors.DummyStatsCollector",
    }


# -- what both share ------------------------------------------------------------------------------


def addresses(port, pages):
    return [f"http://{HOSTS[number % AT_ONCE]}:{port}/page/{number}" for number in range(pages)]


def check(outcomes, phase, pages):
    expected = {"304": ("same", 304), "trusted": ("changed", 200)}.get(phase, (phase, 200))
    wrong = [told for told in outcomes if told != expected]
    if len(outcomes) < pages or len(wrong) > len(outcomes) // 3:
        raise SystemExit(f"{phase}: {len(outcomes)} visits, {len(wrong)} wrong: {wrong[:3]}")


class Watch:
    """The time of a phase, and the processor time of this process and of its workers."""

    def __init__(self):
        self.made, self.began = time.perf_counter(), None

    def start(self):
        if self.began is None:
            self.began, self.cpu = time.perf_counter(), time.process_time()
            self.before = spent_by_workers()

    def stop(self):
        self.wall = time.perf_counter() - self.began
        self.spent = time.process_time() - self.cpu
        self.elsewhere = spent_by_workers() - self.before

    def told(self, pages):
        return {
            "rate": pages / self.wall,
            "cpu": 1e6 * self.spent / pages,
            "workers": 1e6 * self.elsewhere / pages,
            "start": self.began - self.made,
        }


def spent_by_workers():
    """Seconds of processor time of the processes that this one has started, ended or not."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = ended.ru_utime + ended.ru_stime
    for thread in Path("/proc/self/task").iterdir():
        for child in (thread / "children").read_text().split():
            with contextlib.suppress(OSError):  # it has just ended
                spent += time.clock_gettime((~int(child) << 3) | 2)  # its clock, as Linux names it
    return spent


def in_a_process(work, *arguments):
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_tell, args=(theirs, work, arguments))
    process.start()
    theirs.close()
    try:
        return ours.recv()
    finally:
        process.join()


def _tell(pipe, work, arguments):
    pipe.send(work(*arguments))


@contextlib.contextmanager
def serving():
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    port = ours.recv()
    try:
        yield Server(ours, port)
    finally:
        ours.close()
        process.join(5)


class Server:
    def __init__(self, pipe, port):
        self.send, self.recv, self.port = pipe.send, pipe.recv, port


def _serve(pipe):
    words, bodies = words_of(), []
    for seed in range(40):
        head, _, tail = page(words, np.random.default_rng(seed)).partition(b"<p")
        bodies.append((head, b"<p" + tail))
    state = {"version": 0, "etags": False}
    robots = b"User-agent: *\nDisallow: /private/\nDisallow: /*.cgi$\nAllow: /\n"
    rules = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(
        robots
    )

    def answer(request):
        path = request[4 : request.index(b" ", 4)]
        if path == b"/robots.txt":
            return (rules + robots,)
        number, version = int(path[6:]), state["version"]
        etag = b'"%d-%d"' % (number, version)
        if b"\nIf-None-Match: " + etag in request:
            return (b"HTTP/1.1 304 Not Modified\r\nETag: " + etag + b"\r\n\r\n",)
        head, tail = bodies[number % len(bodies)]
        line = b"<p>This is page %d in its version number %d.</p>" % (number, version)
        size = len(head) + len(line) + len(tail)
        lines = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
        if state["etags"]:
            lines += b"ETag: " + etag + b"\r\n"
        return (b"%sContent-Length: %d\r\n\r\n" % (lines, size), head, line, tail)

    class Connection(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport, self.rest = transport, b""

        def data_received(self, data):
            *requests, self.rest = (self.rest + data).split(b"\r\n\r\n")
            for request in requests:
                self.transport.write(b"".join(answer(request)))

    async def serve():
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        server = await loop.create_server(Connection, "0.0.0.0", 0, backlog=1024)  # noqa: S104
        pipe.send(server.sockets[0].getsockname()[1])

        def told():
            try:
                state.update(pipe.recv())
                pipe.send("ready")
            except (EOFError, OSError):
                done.set()

        loop.add_reader(pipe.fileno(), told)
        await done.wait()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
