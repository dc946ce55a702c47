"""The Scrapy add-on, with real spiders in processes of their own against a loopback site."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from observant.errors import InputError
from observant.formats import read_visits, write_table
from observant.observer.fetched import Fetched
from observant.store import open_store

from .forked import Forked
from .patience import PATIENCE, until

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("scrapy")

SPIDER = """
import sys, json
from scrapy import Spider, Request
from scrapy.crawler import CrawlerProcess
from scrapy.spiders import CrawlSpider, Rule
from scrapy.linkextractors import LinkExtractor

BASE, KIND = sys.argv[1], sys.argv[2]
settings = {"TELNETCONSOLE_ENABLED": False, "LOG_LEVEL": "DEBUG", "RETRY_TIMES": 1,
            "ADDONS": {"observant.scrapy.Observant": 500}, "DOWNLOAD_DELAY": 0,
            "ROBOTSTXT_OBEY": True} | json.loads(sys.argv[3])


class Plain(Spider):
    name = "plain"
    start_urls = [BASE + "/"]

    def parse(self, response):
        yield {"url": response.url, "by": "parse"}
        for link in response.css("a::attr(href)").getall():
            # Handing on meta is a habit of many spiders.
            yield response.follow(link, self.parse_page, meta=response.meta)

    def parse_page(self, response):
        yield {"url": response.url, "by": "parse_page"}


class Slow(Plain):
    custom_settings = {"DOWNLOAD_DELAY": 0.05, "CONCURRENT_REQUESTS": 1}


class Crawl(CrawlSpider):
    name = "crawl"
    start_urls = [BASE + "/"]
    rules = (Rule(LinkExtractor(allow="page"), callback="parse_page"),)

    def parse_page(self, response):
        yield {"url": response.url, "by": "rule"}


class Asynchronous(Plain):
    async def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, self.parse_page)
        yield Request(BASE + "/login", self.parse_page, meta={"observant": False})

    def due_request(self, url, callback):
        return Request(url, callback=callback, headers={"X-Own": "1"})


process = CrawlerProcess(settings)
crawler = process.create_crawler({"plain": Plain, "slow": Slow, "crawl": Crawl,
                                  "async": Asynchronous}[KIND])
process.crawl(crawler)
process.start()
stats = crawler.stats.get_stats().items()
print(json.dumps({k: v for k, v in stats if k.startswith(("observant", "item"))}))
"""


class Site:
    """Pages of which one changes with every answer; some redirect, are missing or break off.

    After so many answers the others have to wait until it may `go_on`.
    """

    def __init__(self, pages: int = 6, hold_after: int | None = None) -> None:
        self.go_on = threading.Event()
        self.asked: Counter[str] = Counter()
        self.headers: dict[str, str] = {}
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path
                site.asked[path] += 1
                if hold_after is not None and site.asked.total() > hold_after:
                    site.go_on.wait(PATIENCE)
                site.headers[path] = self.headers.get("X-Own", "")
                status, body, extra = 200, f"<p>This is {path}</p>", {}
                if path == "/":
                    links = [f"page{k}" for k in range(pages)]
                    links += ["moved", "missing", "broken#part", "robots-page"]
                    body = "".join(f"<a href='/{link}'>{link}</a>" for link in links)
                elif path == "/page0":
                    body = f"<p>news number {site.asked[path]}, said in words</p>"
                elif path == "/robots.txt":
                    body = "User-agent: *\nDisallow: /robots-page\n"
                elif path == "/moved":
                    status, extra = 302, {"Location": "/target"}
                elif path == "/missing":
                    status = 404
                elif path == "/broken":
                    self.close_connection = True
                    return
                if self.headers.get("If-Modified-Since") and path.startswith("/page1"):
                    status, body = 304, ""
                data = body.encode()
                self.send_response(status)
                self.send_header("Cache-Control", "max-age=0")
                kind = "text/plain" if path == "/robots.txt" else "text/html; charset=utf-8"
                for name, value in {"Content-Type": kind, **extra}.items():
                    self.send_header(name, value)
                self.send_header("Last-Modified", "Sat, 14 Nov 2020 10:00:00 GMT")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.base = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def site():
    site = Site()
    yield site
    site.close()


IMPORTED = (
    "scrapy.crawler", "scrapy.core.downloader.handlers.http11", "scrapy.extensions.httpcache",
    "scrapy.linkextractors", "scrapy.spiders", "tldextract", "numba", "observant.scrapy",
    "observant.scrapy.store_ledger", "observant.observer.content", "observant.observer.schedule",
    "observant.planning.schedule.dispatch", "observant.store.sqlite",
)  # fmt: skip


def start(folder: Path, site: Site, kind: str, settings: dict) -> Forked:
    script = folder / "spider.py"
    script.write_text(SPIDER)
    return Forked(folder, script, site.base, kind, json.dumps(settings), preload=IMPORTED)


def crawl(folder: Path, site: Site, kind: str = "plain", **settings) -> tuple[dict, str]:
    """Run a spider to its end; its statistics and its log."""
    process = start(folder, site, kind, settings)
    out, log = process.communicate()
    assert process.poll() == 0, log
    return json.loads(out.strip().splitlines()[-1]), log


def rewind(file: Path, seconds: float) -> None:
    """Make the visits of a file look older, as if so much time had passed."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows:
        time_ = datetime.fromisoformat(row["time"]) - timedelta(seconds=seconds)
        row["time"] = time_.isoformat().replace("+00:00", "Z")
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_second_run_visits_only_what_is_due(tmp_path, site):
    settings = {"OBSERVANT_VISITS": "visits.jsonl", "OBSERVANT_BUDGET": "10/day"}
    stats, log = crawl(tmp_path, site, **settings)
    assert stats["observant/visits"] == 10, log  # not robots.txt, not what it forbids
    assert stats["item_scraped_count"] == 8
    first = site.asked.copy()

    stats, log = crawl(tmp_path, site, **settings)
    assert stats.get("observant/visits", 0) == 0, log
    assert stats["observant/not_due"] == 1  # the start page, so its links were not even found
    assert site.asked == first + Counter(["/robots.txt"]) or site.asked == first

    # A day and an hour later everything has had its period of about one day.
    rewind(tmp_path / "visits.jsonl", 90_000)
    stats, log = crawl(tmp_path, site, **settings)
    assert stats["observant/due"] == 10
    assert stats["observant/visits"] == 10
    # Pages found by a link are parsed by the method that parsed them the first time.
    assert stats["item_scraped_count"] == 8

    visits = read_visits(tmp_path / "visits.jsonl")
    assert len(visits) == 20
    changed = dict(
        zip(visits.sources.to_pylist(), visits.changed[visits.offsets[1:] - 1], strict=True)
    )
    assert changed[f"{site.base}/page0"] == 1
    assert changed[f"{site.base}/page1"] == 0
    assert f"{site.base}/moved" in changed  # the source is what was asked for
    assert f"{site.base}/target" not in changed
    assert f"{site.base}/broken" in changed  # without its fragment


def test_what_is_recorded(tmp_path, site):
    crawl(tmp_path, site, OBSERVANT_VISITS="visits.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "visits.jsonl").read_text().splitlines()]
    by_path = {row["source"].removeprefix(site.base): row for row in rows}
    page = by_path["/page1"]
    assert page["status"] == 200
    assert page["callback"] == "parse_page"
    assert page["bytes"] == len("<p>This is /page1</p>")
    assert page["last_modified"] == "2020-11-14T10:00:00.000000Z"
    assert abs(time.time() - _seconds(page["time"])) < PATIENCE
    from observant.observer.content import compare

    same = Fetched(url="x:", status=200, body=b"<p>This  is\n /page1", content_type="text/html")
    assert page["digest"] == f"hex:{compare(None, same).digest_text.hex()}"
    assert "callback" not in by_path["/"]
    assert by_path["/missing"]["status"] == 404
    assert "digest" not in by_path["/missing"]
    assert by_path["/broken"]["status"] == 0
    assert "/robots.txt" not in by_path


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_a_plan_says_what_is_due(tmp_path, site):
    from observant import plan

    now = datetime.now(UTC)
    file = tmp_path / "visits.jsonl"
    with file.open("w") as log:
        for hours, name in ((1, ""), (20, "page0"), (30, "page1"), (2, "page2")):
            at = (now - timedelta(hours=hours)).isoformat()
            log.write(json.dumps({"source": f"{site.base}/{name}", "time": at}) + "\n")
    names = [f"{site.base}/{name}" for name in ("", "page0", "page1", "page9")]
    write_table(plan([1.0] * 4, budget=4.0, source=names), tmp_path / "plan.csv")
    stats, _ = crawl(tmp_path, site, OBSERVANT_VISITS="visits.jsonl", OBSERVANT_PLAN="plan.csv")
    # Due: the one of 30 h ago, one planned and never visited, one that is not in the plan.
    assert set(site.asked) - {"/robots.txt"} == {"/page1", "/page9", "/page2"}
    assert (stats["observant/due"], stats["observant/not_due"]) == (3, 1)


@pytest.mark.parametrize("kind", ["crawl", "async"])
def test_other_kinds_of_spiders(tmp_path, site, kind):
    settings = {"OBSERVANT_VISITS": "visits.jsonl", "OBSERVANT_BUDGET": "10/day"}
    first, _ = crawl(tmp_path, site, kind, **settings)
    rewind(tmp_path / "visits.jsonl", 2 * 86_400)
    second, log = crawl(tmp_path, site, kind, **settings)
    assert second["observant/due"] == first["observant/visits"], log
    assert second["observant/visits"] == first["observant/visits"]
    assert second.get("observant/errors") is None
    assert second["item_scraped_count"] == first["item_scraped_count"]
    if kind == "async":
        assert site.headers["/page1"] == "1"  # as the spider's own due_request has it
        assert site.asked["/login"] == 2  # always made, and never recorded
        assert "/login" not in (tmp_path / "visits.jsonl").read_text()


def test_a_store_learns_and_says_what_is_due(tmp_path, site):
    settings = {"OBSERVANT_STORE": "observant.db", "OBSERVANT_BUDGET": "10/day"}
    stats, log = crawl(tmp_path, site, **settings)
    assert stats["observant/visits"] == 10, log
    stats, log = crawl(tmp_path, site, **settings)
    assert stats.get("observant/visits", 0) == 0, log
    page, still = f"{site.base}/page0", f"{site.base}/page1"
    with open_store(tmp_path / "observant.db") as store:
        assert store.sources.get(page).visits == 1
        assert store.sources.get(page).tags == ("scrapy:parse_page",)
        assert store.sources.get(page).due_at > time.time()
        store.sources.set_due({page: 0.0, still: 0.0})
    stats, log = crawl(tmp_path, site, **settings)
    assert stats["observant/due"] == 2, log
    assert stats["item_scraped_count"] == 2
    with open_store(tmp_path / "observant.db") as store:
        assert (store.sources.get(page).visits, store.sources.get(page).changes) == (2, 1)
        assert (store.sources.get(still).visits, store.sources.get(still).changes) == (2, 0)
        assert [event.topic for event in store.outbox.list(source=page)] == ["changed"]
        assert store.outbox.list(source=still) == []
        assert store.sources.get(page).rate > store.sources.get(still).rate
        assert store.doctor() == []


def test_a_killed_spider_loses_the_last_batch_only(tmp_path):
    site = Site(pages=200)
    try:
        settings = {"OBSERVANT_VISITS": "visits.jsonl", "OBSERVANT_BATCH": 5}
        process = start(tmp_path, site, "slow", settings)
        file = tmp_path / "visits.jsonl"
        until(lambda: file.exists() and file.read_bytes().count(b"\n") >= 15, "15 visits")
        asked = sum(site.asked.values())
        process.kill()
        process.communicate()
        kept = file.read_bytes().count(b"\n")
        assert kept >= 15
        assert asked - kept <= 5 + 2  # a batch, robots.txt, and one under way
        with file.open("ab") as torn:
            torn.write(b'{"source": "half a')
        settings["CLOSESPIDER_PAGECOUNT"] = 3
        _, log = crawl(tmp_path, site, "slow", **settings)
        assert "half a visit" in log
        assert len(read_visits(file, on_duplicate="last")) > kept
    finally:
        site.close()


def test_visits_that_wait_are_written_in_time(tmp_path):
    site = Site(pages=100, hold_after=10)
    try:
        settings = {"OBSERVANT_VISITS": "visits.jsonl", "OBSERVANT_BATCH_SECONDS": 0.2}
        process = start(tmp_path, site, "slow", settings)
        file = tmp_path / "visits.jsonl"
        until(file.exists, "a file")
        assert process.poll() is None  # it is still at work, and the batch of 100 is not full
        process.kill()
        site.go_on.set()
        process.communicate()
        assert 0 < file.read_bytes().count(b"\n") < 100
    finally:
        site.close()


def test_troubles_are_logged_and_the_spider_goes_on(tmp_path, site):
    (tmp_path / "visits.jsonl").mkdir()
    stats, log = crawl(tmp_path, site, OBSERVANT_VISITS="visits.jsonl", OBSERVANT_BUDGET="1/day")
    assert stats["item_scraped_count"] == 8, log
    (tmp_path / "visits.jsonl").rmdir()
    (tmp_path / "visits.jsonl").write_text('{"when": 1}\n')
    stats, log = crawl(tmp_path, site, OBSERVANT_VISITS="visits.jsonl", OBSERVANT_BUDGET="1/day")
    assert stats["item_scraped_count"] == 8
    assert "no visit log" in log


def test_a_cached_answer_is_no_visit(tmp_path, site):
    settings = {"OBSERVANT_VISITS": "visits.jsonl", "HTTPCACHE_ENABLED": True}
    first, log = crawl(tmp_path, site, **settings)
    assert "the HTTP cache is on" in log
    assert first["observant/visits"] == 10
    again, _ = crawl(tmp_path, site, **settings)
    assert again["observant/visits"] == 1  # the one that broke off was not cached


def test_a_page_that_the_server_confirms_is_an_unchanged_visit(tmp_path, site):
    settings = {
        "OBSERVANT_VISITS": "visits.jsonl",
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_POLICY": "scrapy.extensions.httpcache.RFC2616Policy",
    }
    for _ in range(2):
        stats, log = crawl(tmp_path, site, **settings)
        assert stats["observant/visits"] == 10, log
    visits = read_visits(tmp_path / "visits.jsonl")
    names = visits.sources.to_pylist()
    at = names.index(f"{site.base}/page1")
    rows = slice(visits.offsets[at], visits.offsets[at + 1])
    assert visits.changed[rows].tolist() == [-1, 0]
    assert visits.extras["status"][visits.offsets[at] + 1].as_py() == 304


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "set OBSERVANT_VISITS"),
        ({"OBSERVANT_VISITS": "a.jsonl", "OBSERVANT_STORE": "b"}, "both"),
        ({"OBSERVANT_VISITS": "a.csv"}, "end its name in .jsonl"),
        ({"OBSERVANT_STORE": "a", "OBSERVANT_PLAN": "b"}, "goes with"),
        ({"OBSERVANT_VISITS": "a.jsonl", "OBSERVANT_BUDGET": "often"}, "OBSERVANT_BUDGET"),
        ({"OBSERVANT_VISITS": "a.jsonl", "OBSERVANT_BATCH": 0}, "OBSERVANT_BATCH"),
        ({"OBSERVANT_VISITS": "a.jsonl", "OBSERVANT_COMPARE": {"css": "["}}, "OBSERVANT_COMPARE"),
        ({"OBSERVANT_VISITS": "a.jsonl", "OBSERVANT_COMPARE": {"no": 1}}, "OBSERVANT_COMPARE"),
    ],
)
def test_bad_settings_are_named(settings, told):
    from observant.scrapy import AddonSettings

    with pytest.raises(InputError, match=told):
        AddonSettings.read(settings)


def test_without_scrapy_the_error_says_what_to_do():
    words = "import sys; sys.modules['scrapy'] = None; import observant.scrapy"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", words], capture_output=True, check=False, timeout=PATIENCE
    )
    assert b"pip install 'observant[scrapy]'" in done.stderr


def test_many_responses_use_bounded_memory(tmp_path):
    from observant.scrapy import AddonSettings, open_ledger

    chosen = {"OBSERVANT_VISITS": str(tmp_path / "v.jsonl"), "OBSERVANT_BATCH": 50}
    ledger = open_ledger(AddonSettings.read(chosen), now=0.0)
    for k in range(1000):
        ledger.record(f"x:{k}", Fetched(url="x:", status=200, body=b"one", started_at=1e9 + k))
        assert len(ledger._waiting) < 50
    ledger.close()
    assert len(read_visits(tmp_path / "v.jsonl")) == 1000
    chosen |= {"OBSERVANT_BUDGET": "1000/day", "OBSERVANT_MOST": 10}
    ledger = open_ledger(AddonSettings.read(chosen), now=2e9)
    assert [due.source for due in ledger.due(2e9)] == [f"x:{k}" for k in range(10)]
