"""Importers of crawlers, watchers, feeds and lists: every trap of the formats, once."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import sqlite3
import subprocess
import sys
import threading
import zipfile
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observant import VisitLog
from observant.errors import InputError
from observant.estimation.evidence import CHANGED, DATED, Evidence
from observant.formats.imports import (
    ImportOptions,
    describe_sources,
    examine,
    find_importer,
    import_visits,
    importers,
)
from observant.formats.imports.files import ImportFile
from observant.formats.imports.histories import history

from .patience import PATIENCE

DAY = 86_400_000_000


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1_000_000)


def rows_of(*files, format=None, **options):  # noqa: A002
    """Every imported visit as a dictionary, in order, and the report."""
    found = import_visits(*files, format=format, options=ImportOptions(**options))
    rows = [row for batch in found for row in batch.to_pylist()]
    for row in rows:
        row["time"] = at(row["time"].isoformat())
        if row["last_modified"] is not None:
            row["last_modified"] = at(row["last_modified"].isoformat())
    return rows, found.report


def save(path, content, mtime: str | None = None):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    if mtime:
        seconds = datetime.fromisoformat(mtime).timestamp()
        os.utime(path, (seconds, seconds))
    return path


def format_found(path) -> str:
    return find_importer(ImportFile(str(path), path)).name


# -- complete histories -----------------------------------------------------------------------


def worth(visits: list[tuple[int, int]]) -> tuple[int, float]:
    """The powers in λᵏ exp(−λ S) that dated visits are worth together: k and S in days."""
    log = VisitLog.from_columns(
        source=["a"] * len(visits),
        time=np.array([time for time, _ in visits]),
        last_modified=np.array([modified for _, modified in visits]),
        time_unit="us",
    )
    evidence = Evidence.from_log(log)
    assert evidence.conflicts == 0
    found = evidence.kind == CHANGED | DATED
    return int(found.sum()), float(evidence.ages[found].sum() + evidence.gaps[~found].sum())


def test_a_history_as_visits_is_worth_what_the_history_is():
    """λⁿ⁻¹ exp(−λ (T − t₁)); the estimate is then near (n−1)/(T − t₁)."""
    rng = np.random.default_rng(5)
    updates = np.cumsum(rng.exponential(3.0, 40)) + 100
    until = updates[-1] + 2.0
    visits = list(history((updates * DAY).astype(np.int64).tolist(), int(until * DAY)))
    count, exposure = worth(visits)
    assert count == 39
    assert exposure == pytest.approx(until - updates[0], rel=1e-9)


@given(st.lists(st.integers(1, 10**6), max_size=30), st.integers(1, 10**6))
def test_a_history_is_in_order_and_never_ahead_of_its_visits(updates, until):
    visits = list(history(updates, until))
    times = [time for time, _ in visits]
    assert times == sorted(set(times))
    assert all(modified <= time <= until for time, modified in visits)
    assert bool(visits) == any(update <= until for update in updates)


# -- Nutch ------------------------------------------------------------------------------------

DUMP = """http://example.org/a\tVersion: 7
Status: 2 (db_fetched)
Fetch time: Mon Dec 14 10:00:00 UTC 2026
Modified time: Sat Nov 14 10:00:00 UTC 2026
Retries since fetch: 0
Retry interval: 2592000 seconds (30 days)
Score: 1.0
Signature: 00112233445566778899aabbccddeeff
Metadata:
 \t_pst_=success(1), lastModified=0
\tContent-Type=text/html

http://example.org/new\tVersion: 7
Status: 1 (db_unfetched)
Fetch time: Mon Dec 14 10:00:00 UTC 2026
Modified time: Thu Jan 01 00:00:00 UTC 1970
Retries since fetch: 0
Retry interval: 2592000 seconds (30 days)
Score: 1.0
Signature: null
Metadata:

http://example.org/gone\tVersion: 7
Status: 3 (db_gone)
Fetch time: Mon Dec 14 10:00:00 UTC 2026
Modified time: Thu Jan 01 00:00:00 UTC 1970
Retries since fetch: 0
Retry interval: 86400 seconds (1 days)
Score: 1.0
Signature: null
Metadata:

http://example.org/bad\tVersion: 7
Status: 2 (db_fetched)
Fetch time: tomorrow
Modified time: Thu Jan 01 00:00:00 UTC 1970
Retry interval: 86400 seconds (1 days)
Signature: null
Metadata:
"""
HEADER = (
    "Url,Status code,Status name,Fetch Time,Modified Time,Retries since fetch,"
    "Retry interval seconds,Retry interval days,Score,Signature,Metadata\n"
)


def test_the_fetch_time_of_a_nutch_dump_is_the_next_due_time(tmp_path):
    file = save(tmp_path / "part-r-00000", DUMP)
    assert format_found(file) == "nutch"
    rows, report = rows_of(file)
    assert [row["source"][19:] for row in rows] == ["a", "gone"]
    assert rows[0]["time"] == at("2026-11-14T10:00:00Z")  # 30 days before it is due
    assert rows[0]["digest"] == bytes.fromhex("00112233445566778899aabbccddeeff")
    assert rows[0]["last_modified"] is None  # what Nutch found is not what the page declares
    assert (rows[1]["status"], rows[1]["digest"]) == (404, None)
    assert (report.rows, report.malformed_rows, report.evidence) == (4, 1, "S")
    assert report.left_out == {"never fetched, or not since the last failure": 1}
    assert any("supports no rate" in warning for warning in report.warnings)
    rows, _ = rows_of(file, accept={"changed-when-found"})
    assert rows[0]["last_modified"] == at("2026-11-14T10:00:00Z")
    assert rows[1]["last_modified"] is None  # 1970 stands for never


def test_several_dumps_of_different_days_give_visits_to_compare(tmp_path):
    later = DUMP.replace("Dec 14", "Dec 20").replace("00112233", "ff112233")
    first, second = save(tmp_path / "one", DUMP), save(tmp_path / "two", later)
    found = import_visits(first, second)
    log = VisitLog.from_arrow(_table(found))
    assert log.changed.tolist()[:2] == [-1, 1]
    # So they are visits like any others, and said to be.
    report = examine(first, second)
    assert report.evidence == found.report.evidence == "V"
    assert not any("supports no rate" in warning for warning in report.warnings)
    assert any("taken together as visits" in warning for warning in report.warnings)


def _table(batches):
    import pyarrow as pa

    return pa.Table.from_batches(list(batches))


def test_nutch_dumps_as_csv_and_json_say_the_same(tmp_path):
    line = (
        '"http://example.org/a",2,"db_fetched",Mon Dec 14 10:00:00 UTC 2026,'
        "Sat Nov 14 10:00:00 UTC 2026,0,2592000.0,30.0,1.0,"
        '"00112233445566778899aabbccddeeff","_pst_:success(1), ""x""|||"\n'
    )
    as_csv = save(tmp_path / "dump.csv", HEADER + line + "too,few\n")
    item = {
        "url": "http://example.org/a",
        "statusCode": 2,
        "statusName": "db_fetched",
        "fetchTime": "Mon Dec 14 10:00:00 UTC 2026",
        "modifiedTime": "Sat Nov 14 10:00:00 UTC 2026",
        "retriesSinceFetch": 0,
        "retryIntervalSeconds": 2592000,
        "retryIntervalDays": 30,
        "score": 1.0,
        "signature": "00112233445566778899aabbccddeeff",
        "metadata": {},
    }
    as_json = save(tmp_path / "dump.json", json.dumps(item) + "\nnot json\n")
    expected, _ = rows_of(save(tmp_path / "dump.txt", DUMP))
    for file in (as_csv, as_json):
        assert format_found(file) == "nutch"
        rows, report = rows_of(file)
        assert rows == expected[:1]
        assert (report.rows, report.malformed_rows) == (2, 1)


def test_java_dates_need_a_zone_unless_they_are_utc(tmp_path):
    text = DUMP.replace("UTC", "CET")
    file = save(tmp_path / "dump", text)
    with pytest.raises(InputError, match=r"'CET'.*--zone"):
        rows_of(file)
    rows, _ = rows_of(file, zone="Europe/Berlin")
    assert rows[0]["time"] == at("2026-11-14T09:00:00Z")
    with pytest.raises(InputError, match="no time zone"):
        rows_of(file, zone="Mars/Olympus")
    _, report = rows_of(file, zone="America/New_York")  # which never calls its time CET
    assert report.visits == 0
    assert "New_York" in report.samples[0].reason


def test_the_folder_of_a_dump_is_read_part_by_part(tmp_path):
    save(tmp_path / "dump" / "part-r-00000", DUMP)
    save(
        tmp_path / "dump" / "part-r-00001.gz", gzip.compress(DUMP.replace("org/", "net/").encode())
    )
    save(tmp_path / "dump" / "_SUCCESS", "")
    rows, _ = rows_of(tmp_path / "dump")
    assert len(rows) == 4


SEGMENT = """Recno:: 0
URL:: http://example.org/a

CrawlDatum::
Version: 7
Status: 1 (db_unfetched)
Fetch time: Fri Nov 13 10:00:00 UTC 2026
Modified time: Thu Jan 01 00:00:00 UTC 1970
Signature: null
Metadata:

CrawlDatum::
Version: 7
Status: 33 (fetch_success)
Fetch time: Sat Nov 14 10:00:00 UTC 2026
Signature: null
Metadata:

CrawlDatum::
Version: 7
Status: 65 (signature)
Fetch time: Sat Nov 14 10:00:05 UTC 2026
Signature: 00112233445566778899aabbccddeeff
Metadata:

Content::
Version: -1
url: http://example.org/a
Content:
Recno:: 7
URL:: http://forged.example/
Recno:: 1
no URL follows this line of a page
CrawlDatum::
Status: 37 (fetch_gone)
Fetch time: Sat Nov 14 10:00:00 UTC 2026

Recno:: 1
URL:: http://example.org/b

CrawlDatum::
Version: 7
Status: 38 (fetch_notmodified)
Fetch time: Sat Nov 14 11:00:00 UTC 2026
Signature: null
Metadata:

Recno:: 2
URL:: http://example.org/linked

CrawlDatum::
Version: 7
Status: 67 (linked)
Fetch time: Sat Nov 14 11:00:00 UTC 2026

Recno:: 3
URL:: http://example.org/c

CrawlDatum::
Version: 7
Status: 34 (fetch_retry)
Fetch time: Sat Nov 14 12:00:00 UTC 2026
"""


def test_segments_are_visits_and_pages_cannot_forge_records(tmp_path):
    file = save(tmp_path / "segment" / "dump", SEGMENT)
    assert format_found(file) == format_found(tmp_path / "segment") == "nutch-segment"
    rows, report = rows_of(file)
    assert [(row["source"][-1], row["status"]) for row in rows] == [
        ("a", 200),
        ("b", 304),
        ("c", 0),
    ]
    assert rows[0]["time"] == at("2026-11-14T10:00:00Z")
    assert rows[0]["digest"].hex().startswith("0011")
    assert report.left_out == {"generated or linked to, and not fetched": 1}
    assert (report.malformed_rows, report.evidence) == (0, "V")


# -- StormCrawler and URLFrontier -------------------------------------------------------------


def test_stormcrawler_documents(tmp_path):
    good = {
        "url": "https://example.org/",
        "status": "FETCHED",
        "nextFetchDate": "2026-11-15T10:00:00.000Z",
        "metadata": {
            "fetchInterval": ["1440"],
            "signature": ["00112233445566778899aabbccddeeff"],
            "fetch%2EstatusCode": ["200"],
            "last-modified": ["Sat, 14 Nov 2026 08:00:00 GMT"],
        },
    }
    wrapped = {"_source": {**good, "metadata": {"lastProcessedDate": "2026-11-14T09:00:00Z"}}}
    documents = [
        good,
        wrapped,
        {**good, "status": "DISCOVERED"},
        {**good, "metadata": {}},
        {**good, "status": "FETCH_ERROR", "metadata": {"fetchInterval": "60"}},
        {**good, "url": None},
        {**good, "metadata": {**good["metadata"], "signature": "xyz"}},
    ]
    file = save(tmp_path / "status.json", "\n".join(map(json.dumps, documents)))
    assert format_found(file) == "stormcrawler"
    rows, report = rows_of(file)
    assert rows[0]["time"] == at("2026-11-14T10:00:00Z")  # due, less one day of 1440 minutes
    assert rows[0]["last_modified"] == at("2026-11-14T08:00:00Z")
    assert rows[1]["time"] == at("2026-11-14T09:00:00Z")
    assert (rows[2]["status"], rows[2]["time"]) == (0, at("2026-11-15T09:00:00Z"))
    assert len(rows) == 3
    assert report.malformed_rows == 2
    assert sum(report.left_out.values()) == 2
    assert report.evidence == "S"


def test_stormcrawler_sql_and_urlfrontier(tmp_path):
    table = (
        "url,status,nextfetchdate,metadata,bucket,host\n"
        "https://example.org/,FETCHED,2026-11-15 10:00:00,"
        '"fetchInterval=1440\tsignature=00ff",1,example.org\n'
        "broken row\n"
    )
    file = save(tmp_path / "urls.csv", table)
    assert format_found(file) == "stormcrawler"
    rows, report = rows_of(file, zone="Europe/Berlin")
    assert rows[0]["time"] == at("2026-11-14T09:00:00Z")
    assert rows[0]["digest"] == b"\x00\xff"
    assert report.malformed_rows == 1

    info = {"url": "https://example.org/", "key": "example.org", "crawlID": "DEFAULT"}
    known = {"info": {**info, "metadata": {"fetchInterval": ["1440"]}}}
    lines = [
        {"known": {**known, "refetchable_from_date": at("2026-11-15T10:00:00Z") // 1_000_000}},
        {"known": {**known, "refetchable_from_date": 0}},
        {"discovered": {"info": info}},
    ]
    file = save(tmp_path / "frontier.jsonl", "\n".join(map(json.dumps, lines)))
    assert format_found(file) == "stormcrawler"
    rows, report = rows_of(file)
    assert [row["time"] for row in rows] == [at("2026-11-14T10:00:00Z")]
    assert sum(report.left_out.values()) == 2  # never again, and not yet


def test_a_seed_list_for_urlfrontier_is_what_its_importer_reads(tmp_path):
    from observant import plan
    from observant.formats.seeds import seed_lines

    best = plan([1.0, 0.5], budget=2, source=["http://a.example/", "http://b.example/"])
    file = save(tmp_path / "seeds", "\n".join(seed_lines(best, "urlfrontier", now=1e9)))
    assert format_found(file) == "stormcrawler"
    _, report = rows_of(file)
    assert (report.rows, report.malformed_rows) == (2, 0)


# -- Scrapy -----------------------------------------------------------------------------------

SPIDER = """
import sys
from datetime import datetime, UTC
from scrapy import Spider, Request, FormRequest
from scrapy.crawler import CrawlerProcess


class Pages(Spider):
    name = "pages"
    start_urls = [f"{sys.argv[1]}/{k}" for k in range(3)]

    def parse(self, response):
        now = datetime.now(UTC).isoformat()
        for offer in response.css("p::text").getall():
            yield {"url": response.url, "scraped_at": now, "offer": offer}
        if response.url.endswith("/0"):
            yield Request(sys.argv[1] + "/lost", errback=lambda failure: None)
            yield Request(sys.argv[1] + "/search", method="POST", callback=lambda response: None)


feeds = {name: {"format": kind} for name, kind in (
    ("items.jsonl", "jsonlines"), ("items.json", "json"), ("items.csv", "csv"),
    ("items.xml", "xml"))}
feeds["indented.json"] = {"format": "json", "indent": 4}
process = CrawlerProcess({
    "TELNETCONSOLE_ENABLED": False, "LOG_FILE": "spider.log", "FEEDS": feeds, "RETRY_TIMES": 0,
    "HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": "httpcache",
    "HTTPCACHE_GZIP": sys.argv[2] == "gzip",
})
process.crawl(Pages)
process.start()
"""


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/lost":
            self.close_connection = True
            return
        body = f"<p>one of {self.path}</p><p>two</p>".encode()
        packed = gzip.compress(body, mtime=len(self.server.asked))  # differs each time
        self.server.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Last-Modified", "Sat, 14 Nov 2020 10:00:00 GMT")
        self.send_header("Content-Length", str(len(packed)))
        self.end_headers()
        self.wfile.write(packed)

    do_POST = do_GET  # noqa: N815 - the server's name for it

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def scraped(tmp_path_factory):
    """What a real Scrapy writes: feeds, log and cache of two runs, the second with gzip."""
    pytest.importorskip("scrapy")
    folder = tmp_path_factory.mktemp("scrapy")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    server.daemon_threads, server.asked = True, []
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    for run in ("plain", "gzip"):
        place = folder / run
        place.mkdir()
        script = save(place / "spider.py", SPIDER)
        subprocess.run(  # noqa: S603
            [sys.executable, str(script), base, run], cwd=place, check=True, timeout=PATIENCE,
            capture_output=True,
        )  # fmt: skip
    server.shutdown()
    server.server_close()
    return folder, base


@pytest.mark.slow
def test_the_log_of_a_real_spider(scraped):
    folder, base = scraped
    log = folder / "plain" / "spider.log"
    assert format_found(log) == "scrapy-log"
    rows, report = rows_of(log)
    found = {row["source"].removeprefix(base): row["status"] for row in rows}
    assert found == {"/0": 200, "/1": 200, "/2": 200}
    assert report.left_out == {"a request by POST, not GET": 1}
    assert any("UTC" in warning for warning in report.warnings)
    assert report.malformed_rows == 0


def test_lines_of_a_log_that_are_special(tmp_path):
    engine = "2026-11-14 10:00:0{} [scrapy.core.engine] DEBUG: Crawled ({}) <{} http://a/{}> {}\n"
    text = (
        engine.format(1, 200, "GET", "x", "(referer: None)")
        + engine.format(2, 200, "GET", "x", "(referer: http://a/) ['cached']")
        + engine.format(3, 304, "GET", "x", "(referer: None)")
        + "2026-11-14 10:00:04 [scrapy.core.scraper] ERROR: Error downloading <GET http://a/y>\n"
        + "Traceback (most recent call last):\n  File\n"
        + engine.format(9, 200, "GET", "z", "(referer: None)").replace("11-14", "13-14")
    )
    file = save(tmp_path / "spider.log", text)
    rows, report = rows_of(file, zone="America/New_York")
    assert [(row["source"][-1], row["status"], row["changed"]) for row in rows] == [
        ("x", 200, None),
        ("x", 304, False),
        ("y", 0, None),
    ]
    assert rows[0]["time"] == at("2026-11-14T15:00:01Z")
    assert report.left_out == {"answered from the cache: no visit": 1}
    assert report.malformed_rows == 1


def test_the_cache_of_a_real_spider(scraped):
    folder, base = scraped
    plain, zipped = (folder / run / ".scrapy" / "httpcache" for run in ("plain", "gzip"))
    if not plain.exists():  # a script outside a project has its cache here
        plain, zipped = (folder / run / "httpcache" for run in ("plain", "gzip"))
    assert format_found(plain) == format_found(plain / "pages") == "scrapy-cache"
    rows, report = rows_of(plain, zipped)
    assert report.malformed_rows == 0
    assert len(rows) == 6
    log = VisitLog.from_columns(
        source=[row["source"] for row in rows],
        time=[row["time"] for row in rows],
        digest=[row["digest"] for row in rows],
        time_unit="us",
    )
    # The bytes on the wire differ in the gzip header; the page does not.
    assert log.changed.tolist() == [-1, 0] * 3
    assert rows[0]["last_modified"] == at("2020-11-14T10:00:00Z")
    body = f"<p>one of {rows[0]['source'].removeprefix(base)}</p><p>two</p>".encode()
    assert rows[0]["digest"] == hashlib.sha256(body).digest()[:16]


def test_a_cache_is_never_unpickled_and_never_followed(tmp_path):
    class Trap:
        def __reduce__(self):
            return (os.system, (f"touch {tmp_path}/sprung",))

    import pickle

    cache = tmp_path / "httpcache" / "spider"

    def entry(name: str, meta: str) -> None:
        place = cache / name[:2] / name
        save(place / "meta", meta)
        save(place / "response_headers", "Content-Type: text/html\r\n")
        save(place / "response_body", b"body")
        save(place / "pickled_meta", pickle.dumps(Trap()))

    good = {"url": "http://a/", "method": "GET", "status": 200, "timestamp": 1.5e9}
    entry("aa" * 20, repr(good))
    entry("ab" * 20, "__import__('os').system('touch sprung')")
    entry("ac" * 20, "(" * 5000)
    entry("ad" * 20, repr(good | {"timestamp": float("inf")}).replace("inf", "1e999"))
    entry("ae" * 20, repr(good | {"status": "200"}))
    entry("af" * 20, "x" * 100_000)
    entry("ba" * 20, repr(good | {"method": "POST"}))
    outside = tmp_path / "outside" / ("bb" * 20)
    save(outside / "meta", repr(good))
    (cache / "bb").symlink_to(tmp_path / "outside")
    rows, report = rows_of(tmp_path / "httpcache")
    assert [row["source"] for row in rows] == ["http://a/"]
    assert report.malformed_rows == 5
    assert not (tmp_path / "sprung").exists()
    with pytest.raises(InputError, match="pickles are not read"):
        rows_of(save(tmp_path / "spider.db", b"x"), format="scrapy-cache")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["items.jsonl", "items.json", "items.csv", "items.xml", "indented.json"]
)
def test_item_feeds_of_a_real_spider(scraped, name):
    """Two offers of a page are one visit; the second run is another one, with the same offers."""
    folder, base = scraped
    files = [folder / run / name for run in ("plain", "gzip")]
    rows, report = rows_of(*files, format="scrapy-items")
    assert sorted({row["source"].removeprefix(base) for row in rows}) == ["/0", "/1", "/2"]
    assert len(rows) == 6
    assert report.counts["items that share a visit with another item"] == 6
    log = VisitLog.from_columns(
        source=[row["source"] for row in rows],
        time=[row["time"] for row in rows],
        digest=[row["digest"] for row in rows],
        time_unit="us",
    )
    assert log.changed.tolist() == [-1, 0] * 3
    assert any("'scraped_at'" in warning for warning in report.warnings)


def test_numbers_of_a_table_are_in_the_unit_that_is_said(tmp_path):
    file = save(tmp_path / "visits.csv", "source,time\na,1700000000000\n")
    assert rows_of(file, time_unit="ms")[0][0]["time"] == 1_700_000_000_000_000
    with pytest.raises(InputError, match="time_unit is us, ms, s, d"):
        rows_of(file, time_unit="weeks")


def test_items_with_a_mapping_and_with_troubles(tmp_path):
    items = [
        {"page": "http://a/", "when": 1_500_000_000, "price": 1},
        {"page": "http://a/", "when": 1_500_100_000_000, "price": 2},  # milliseconds
        {"page": "", "when": 1_500_000_000},
        {"page": "http://a/", "when": "later"},
    ]
    lines = [json.dumps(item) for item in items]
    # Appending to a JSON feed makes two arrays; a crash cuts the last line.
    text = f"[\n{lines[0]}\n][\n{lines[1]},\n{lines[2]},\n{lines[3]},\n{{'cut"
    file = save(tmp_path / "items.json", text)
    mapping = {"source": "page", "time": "when", "digest": "price"}
    rows, report = rows_of(file, format="scrapy-items", mapping=mapping)
    assert [row["time"] for row in rows] == [1_500_000_000_000_000, 1_500_100_000_000_000]
    assert rows[0]["digest"] != rows[1]["digest"]
    assert report.malformed_rows == 3
    with pytest.raises(InputError, match="which field holds the source"):
        rows_of(file, format="scrapy-items")
    with pytest.raises(InputError, match="no field 'link'"):
        rows_of(file, format="scrapy-items", mapping={"source": "link"})
    with pytest.raises(InputError, match="cannot be mapped"):
        rows_of(file, format="scrapy-items", mapping={"colour": "page"})
    # A CSV feed that was appended to has its header twice.
    text = "url,time,hash\nhttp://a/,1500000000,x\nurl,time,hash\nhttp://a/,1500100000,y\nodd\n"
    rows, report = rows_of(save(tmp_path / "items.csv", text), format="scrapy-items")
    assert (len(rows), report.malformed_rows) == (2, 1)


# -- changedetection.io -----------------------------------------------------------------------

UUID = "11111111-2222-3333-4444-{:012d}"
CREATED = 1_700_000_000


def backup(tmp_path, watches, histories, *, legacy=False, name="backup.zip", extra=()):
    path = tmp_path / name
    tags = {UUID.format(99): {"title": "news"}}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        settings = {"settings": {"application": {"tags": tags}}}
        if legacy:
            archive.writestr("url-watches.json", json.dumps(settings | {"watching": watches}))
        else:
            archive.writestr("changedetection.json", json.dumps(settings))
            for uuid, watch in watches.items():
                archive.writestr(f"{uuid}/watch.json", json.dumps(watch))
        for uuid, lines in histories.items():
            archive.writestr(f"{uuid}/history.txt", "\n".join(lines))
        for entry, content in extra:
            archive.writestr(entry, content)
    return path


@pytest.mark.parametrize("legacy", [False, True])
def test_changedetection_needs_an_assumption_and_gives_regular_visits(tmp_path, legacy):
    watch = {
        "url": "https://example.org/",
        "date_created": CREATED,
        "last_checked": CREATED + 100 * 3600,
        "check_count": 101,
    }
    lines = [f"{CREATED},a.txt", f"{CREATED + 30 * 3600 + 600},b.txt.br", f"{CREATED + 180_000},c"]
    file = backup(tmp_path, {UUID.format(1): watch}, {UUID.format(1): lines}, legacy=legacy)
    assert format_found(file) == "changedetection"
    with pytest.raises(InputError, match="regular-visits"):
        rows_of(file)
    assert examine(file).evidence == "C"
    rows, report = rows_of(file, accept={"regular-visits"})
    assert len(rows) == 101
    assert rows[0]["changed"] is None  # the first line is the baseline, not a change
    changes = [row["time"] // 1_000_000 for row in rows if row["changed"]]
    assert changes == [CREATED + 30 * 3600 + 600, CREATED + 180_000]
    assert sum(row["changed"] is False for row in rows) == 98
    gaps = np.diff([row["time"] for row in rows]) / 3.6e9
    assert np.all((gaps > 0.8) & (gaps < 1.2))
    assert any("approximate" in warning for warning in report.warnings)


@pytest.mark.slow
def test_odd_watches_of_changedetection(tmp_path):
    base = {"url": "https://example.org/", "date_created": CREATED}
    watches = {
        UUID.format(1): base,  # never checked
        UUID.format(2): base | {"last_checked": CREATED + 36_000, "check_count": 10**15},
        UUID.format(3): base | {"last_checked": CREATED + 36_000},  # no count: by the interval
        UUID.format(4): base | {"url": None},
        UUID.format(5): base | {"last_checked": "soon"},
    }
    history_ = {
        UUID.format(2): [f"{CREATED},a"],
        UUID.format(3): [f"{CREATED},a", "no comma", "soon,b", f"{CREATED + 9000},c"],
        UUID.format(5): [f"{CREATED},a", f"{CREATED + 90},b"],
    }
    # A processor has a history of its own.
    other = (f"{UUID.format(5)}/history-restock_diff.txt", f"{CREATED + 180},c")
    file = backup(tmp_path, watches, history_, extra=[other])
    rows, report = rows_of(file, accept={"all"})
    # Every 3 h is built in: 4 checks, one moved to the change.
    assert len(rows) == 100_000 + 4 + 3
    assert report.malformed_rows == 3
    assert report.left_out == {"a watch without a snapshot: nothing was seen of it": 1}


@pytest.mark.slow
def test_a_hostile_backup_is_survived(tmp_path):
    watches = {UUID.format(1): {"url": "https://example.org/"}}
    bomb = b"0" * (70 << 20)  # 70 MiB that are 70 kB in the archive
    extra = [
        ("../../escape/" + UUID.format(2) + "/watch.json", '{"url": "https://evil.example/"}'),
        (UUID.format(3) + "/watch.json", bomb),
        (UUID.format(4) + "/watch.json", "[" * 100_000),
        (UUID.format(5) + "/watch.json", b"\xff\xfe"),
    ]
    before = set(tmp_path.parent.rglob("*"))
    file = backup(tmp_path, watches, {}, extra=extra)
    _, report = rows_of(file, accept={"all"})
    assert report.malformed_rows >= 3
    assert set(tmp_path.parent.rglob("*")) - before == {file}  # nothing was unpacked
    with pytest.raises(InputError):
        rows_of(save(tmp_path / "cut.zip", file.read_bytes()[:-40]), format="changedetection",
                accept={"all"})  # fmt: skip


def test_settings_of_watches_in_our_words(tmp_path):
    watch = {
        "url": "source:https://example.org/prices",
        "title": "Prices",
        "tags": [UUID.format(99), UUID.format(98)],
        "tag": "old, older",
        "paused": True,
        "time_between_check": {"weeks": None, "days": 1, "hours": 2},
        "include_filters": ["#price", ".stock", "//h1"],
        "subtractive_selectors": [".advert"],
        "ignore_text": ["Updated at", "/v[0-9]+/"],
        "headers": {"Cookie": "a=b"},
        "trigger_text": ["sale"],
        "notification_urls": ["mailto://user:secret@example.org"],
        "fetch_backend": "html_webdriver",
        "time_schedule_limit": {
            "enabled": True,
            "timezone": "Europe/Berlin",
            "monday": {"enabled": True, "start_time": "09:00", "duration": {"hours": "8"}},
            "friday": {
                "enabled": True,
                "start_time": "22:00",
                "duration": {"hours": "4", "minutes": "30"},
            },
            "sunday": {"enabled": False},
        },
    }
    watches = {
        UUID.format(1): watch,
        UUID.format(2): {"url": "https://example.org/{% now 'utc' %}"},
        UUID.format(3): {"url": "https://example.org/form", "method": "POST"},
        UUID.format(4): {"url": "file:///etc/passwd"},
        UUID.format(5): {"url": "https://example.org/json", "include_filters": ["json:$.price"]},
    }
    tag = (f"{UUID.format(98)}/tag.json", '{"title": "shops"}')
    file = backup(tmp_path, watches, {}, extra=[tag])
    found = list(describe_sources(file))
    assert len(found) == 4  # a file of this machine is no watch to take over
    warnings = " ".join(examine(file).warnings)
    assert "notification addresses" in warnings
    assert "templates" in warnings
    first = found[0]
    assert first.address == "https://example.org/prices"
    assert (first.title, first.paused, first.tags) == (
        "Prices",
        True,
        ("news", "shops", "old", "older"),
    )
    assert first.settings["max_period"] == "93600s"
    rules = first.settings["compare"]
    assert rules["css"] == "#price, .stock"
    assert rules["drop"] == [".advert"]
    assert rules["change"] == "bytes"
    assert first.settings["active"] == ["mon 09:00-17:00", "fri 22:00-02:30"]
    assert first.settings["timezone"] == "Europe/Berlin"
    assert [source.paused for source in found[1:]] == [True, True, False]
    assert found[3].settings == {"compare": {"jsonpath": "$.price"}}
    assert "secret" not in repr(found)
    # What comes out is what the observer takes.
    from observant.observer.config import Config

    assert Config().settings_of((), dict(first.settings)).hours is not None
    from observant.observer.content import Rules, compare
    from observant.observer.fetched import Fetched

    ignoring = msgspec.convert({"ignore": rules["ignore"]}, Rules)
    one, two = (
        compare(
            None,
            Fetched(url="x:", status=200, body=text, content_type="text/plain"),
            ignoring,
        ).digest_text
        for text in (b"price 1\nlast updated at 10:00\nv12", b"price 1\nlast Updated at 11:00\nv13")
    )
    assert one == two


def test_the_datastore_folder_itself_can_be_read(tmp_path):
    store = tmp_path / "datastore"
    watch = {"url": "https://example.org/", "date_created": CREATED, "last_checked": CREATED + 9}
    save(store / "url-watches.json", json.dumps({"watching": {}}))
    save(store / UUID.format(1) / "watch.json", json.dumps(watch))
    outside = save(tmp_path / "outside" / "watch.json", json.dumps({"url": "https://evil/"}))
    (store / UUID.format(2)).symlink_to(outside.parent)
    assert format_found(store) == "changedetection"
    assert [source.address for source in describe_sources(store)] == ["https://example.org/"]


# -- urlwatch and webchanges ------------------------------------------------------------------


def guid(address: str) -> str:
    return hashlib.sha1(address.encode()).hexdigest()  # noqa: S324


def urlwatch_db(path, rows):
    database = sqlite3.connect(path)
    database.execute(
        "CREATE TABLE CacheEntry (id INTEGER PRIMARY KEY, guid TEXT, timestamp INTEGER, "
        "data TEXT, tries INTEGER, etag TEXT)"
    )
    database.executemany(
        "INSERT INTO CacheEntry (guid, timestamp, data, tries) VALUES (?, ?, 'x', ?)", rows
    )
    database.commit()
    database.close()
    os.utime(path, (CREATED + 10 * 86_400,) * 2)
    return path


def test_urlwatch_snapshots_are_changes_only(tmp_path):
    pytest.importorskip("yaml")
    address = "https://example.org/"
    rows = [(guid(address), CREATED + k * 86_400, 0) for k in (0, 2, 6)]
    rows += [(guid(address), CREATED + 3 * 86_400, 2), (guid("x"), None, 0), ("y", "soon", 0)]
    file = urlwatch_db(tmp_path / "cache.db", rows)
    assert format_found(file) == "urlwatch"
    with pytest.raises(InputError, match="every-change-seen"):
        rows_of(file)
    found, report = rows_of(file, accept={"every-change-seen"})
    assert {row["source"] for row in found} == {guid(address)}  # nobody says where it is
    save(tmp_path / "urls.yaml", f"name: Home\nurl: {address}\n---\ncommand: ls\n")
    found, report = rows_of(file, accept={"every-change-seen"})
    assert {row["source"] for row in found} == {address}
    assert report.left_out == {"a visit that failed": 1}
    assert report.malformed_rows == 2
    # Two changes in the ten days to the last run.
    dated = [(row["time"], row["last_modified"]) for row in found]
    assert worth(dated) == (2, pytest.approx(10, rel=1e-6))


def test_webchanges_snapshots(tmp_path):
    file = tmp_path / "snapshots.db"
    database = sqlite3.connect(file)
    database.execute("CREATE TABLE webchanges (uuid TEXT, timestamp REAL, msgpack_data BLOB)")
    pack = msgspec.msgpack.encode
    entries = [
        ("job", CREATED, pack({"d": "page", "t": 0, "e": "", "m": "text/plain", "err": {}})),
        ("job", CREATED + 86_400, pack({"d": b"\x00" * 100_000, "t": 0})),
        ("job", CREATED + 90_000, pack({"d": "", "t": 3, "err": {"type": "timeout"}})),
        ("job", CREATED + 95_000, b"\xc1"),
        ("job", CREATED + 96_000, pack({"d": 1, "t": "many"})),
        ("job", CREATED + 97_000, None),
    ]
    database.executemany("INSERT INTO webchanges VALUES (?, ?, ?)", entries)
    database.commit()
    database.close()
    assert format_found(file) == "urlwatch"
    rows, report = rows_of(file, accept={"all"})
    assert len({row["last_modified"] for row in rows}) == 2
    assert (report.rows, report.malformed_rows) == (6, 3)
    assert report.left_out == {"a visit that failed": 1}


def test_hostile_databases(tmp_path):
    view = tmp_path / "view.db"
    database = sqlite3.connect(view)
    database.execute(
        "CREATE VIEW CacheEntry AS WITH RECURSIVE n(guid, timestamp, tries) AS "
        "(SELECT 'a', 1, 0 UNION ALL SELECT guid, timestamp + 1, 0 FROM n) SELECT * FROM n"
    )
    database.commit()
    database.close()
    with pytest.raises(InputError, match="no table of snapshots"):
        rows_of(view, format="urlwatch", accept={"all"})
    good = urlwatch_db(tmp_path / "cache.db", [("a" * 40, CREATED + k, 0) for k in range(2000)])
    data = bytearray(good.read_bytes())
    data[4096:12_288] = os.urandom(8192)
    broken = save(tmp_path / "broken.db", bytes(data))
    with pytest.raises(InputError, match="SQLite"):
        rows_of(broken, format="urlwatch", accept={"all"})
    with pytest.raises(InputError, match="SQLite"):
        rows_of(save(tmp_path / "text.db", "no database"), format="urlwatch", accept={"all"})
    # A journal beside it is not replayed, and nothing is written.
    before = sorted(tmp_path.iterdir())
    rows_of(good, accept={"all"})
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.slow
def test_job_files(tmp_path):
    pytest.importorskip("yaml")
    text = """
name: News
url: https://example.org/news#2
tags: [a, b]
filter:
  - css: .news
  - re.sub: '[0-9]+ views'
  - html2text
  - shellpipe: rm -rf /
headers: {Accept: text/html}
---
kind: url
url: https://example.org/form
data: {a: 1}
---
command: rm -rf /
---
navigate: https://example.org/app
enabled: false
filter: element-by-id:main,strip
---
just a text
---
"""
    file = save(tmp_path / "jobs.yaml", text)
    assert format_found(file) == "urlwatch-jobs"
    rows, report = rows_of(file)
    assert rows == []
    assert (report.described, report.rows, report.malformed_rows) == (3, 5, 1)
    assert any("'shellpipe' of 1 jobs" in warning for warning in report.warnings)
    assert any("run commands" in warning for warning in report.warnings)
    news, form, app = describe_sources(file)
    assert (news.address, news.title, news.tags) == (
        "https://example.org/news",
        "News",
        ("a", "b"),
    )
    assert news.settings == {
        "compare": {"css": ".news", "ignore": ["[0-9]+ views"]},
        "headers": {"Accept": "text/html"},
    }
    assert form.paused
    assert (app.paused, app.settings) == (True, {"compare": {"css": "#main"}})
    for bad in ("a: !!python/object/apply:os.system ['touch sprung']", "a: [", "[" * 5000):
        hostile = save(tmp_path / "urls.yaml", bad)
        with pytest.raises(InputError, match="YAML"):
            list(describe_sources(hostile, format="urlwatch-jobs"))


# -- sitemaps ---------------------------------------------------------------------------------


def sitemap(*pages: str) -> str:
    return (
        '<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" '
        'xmlns:news="http://www.google.com/schemas/sitemap-news/0.9">'
        + "".join(pages)
        + "</urlset>"
    )


def page(name: str, lastmod: str = "", more: str = "") -> str:
    date = f"<lastmod>{lastmod}</lastmod>" if lastmod else ""
    return f"<url><loc> https://example.org/{name} </loc>{date}{more}</url>"


def test_a_sitemap_declares_dates(tmp_path):
    news = "<news:news><news:publication_date>2026-11-01</news:publication_date></news:news>"
    text = sitemap(
        page("a", "2026-11-10T08:00:00+01:00", "<changefreq>weekly</changefreq>"),
        page("b", "2026-11-10"),
        page("c", more="<priority>0.8</priority>"),
        page("d", "yesterday"),
        page("e", "2031-01-01"),
        page("f", more=news),
        page("g", more="<changefreq>never</changefreq>"),
        "<url><loc>javascript:alert(1)</loc></url>",
        f"<url><loc>https://example.org/{'x' * 3000}</loc></url>",
    )
    packed = gzip.compress(text.encode())
    file = save(tmp_path / "sitemap.xml.gz", packed, "2026-11-14T00:00:00+00:00")
    assert format_found(file) == "sitemap"
    rows, report = rows_of(file)
    by = {row["source"][-1]: row for row in rows}
    assert sorted(by) == list("abcdefg")
    assert by["a"]["time"] == at("2026-11-14T00:00:00Z")
    assert by["a"]["last_modified"] == at("2026-11-10T07:00:00Z")
    assert by["b"]["last_modified"] == at("2026-11-10T12:00:00Z")  # noon, with a note
    assert by["d"]["last_modified"] is None
    assert by["e"]["last_modified"] is None
    assert by["f"]["last_modified"] == at("2026-11-01T12:00:00Z")
    assert (report.malformed_rows, report.evidence) == (3, "D")
    assert any("no time of day" in warning for warning in report.warnings)
    described = {source.address[-1]: source for source in describe_sources(file)}
    assert described["a"].settings == {"max_period": "7d"}
    assert (described["c"].importance, described["a"].importance) == (1.6, 1.0)
    assert described["g"].paused


def test_sitemaps_of_different_days_show_declared_changes(tmp_path):
    days = [("01", "2026-10-30"), ("05", "2026-10-30"), ("09", "2026-11-09"), ("13", "2026-11-09")]
    files = [
        save(tmp_path / f"{day}.xml", sitemap(page("a", date)), f"2026-11-{day}T16:00:00+00:00")
        for day, date in days
    ]
    log = VisitLog.from_arrow(_table(import_visits(*files)))
    # The page changed on the 9th before the visit, though noon is after that of the 5th.
    assert log.changed.tolist() == [-1, 0, 1, 0]


@pytest.mark.parametrize("dates", [["2026-11-13T10:00:00Z"] * 6, "just now"])
def test_dates_of_the_sitemap_itself_are_set_aside(tmp_path, dates):
    if dates == "just now":
        dates = [f"2026-11-13T23:59:0{k}Z" for k in range(6)]
    text = sitemap(*(page(str(k), date) for k, date in enumerate(dates)))
    rows, report = rows_of(save(tmp_path / "sitemap.xml", text, "2026-11-14T00:00:00+00:00"))
    assert all(row["last_modified"] is None for row in rows)
    assert any("set aside" in warning for warning in report.warnings)


def test_hostile_and_odd_sitemaps(tmp_path):
    secret = save(tmp_path / "secret", "hidden")
    entity = (
        f'<!DOCTYPE urlset [<!ENTITY x SYSTEM "file://{secret}"><!ENTITY y "aaaa">]>'
        "<urlset><url><loc>https://example.org/&x;&y;</loc></url>"
        "<url><loc>https://example.org/b</loc></url></urlset>"
    )
    rows, _ = rows_of(save(tmp_path / "entity.xml", entity))
    assert not any("hidden" in row["source"] or "aaaa" in row["source"] for row in rows)
    laughs = '<!DOCTYPE urlset [<!ENTITY a0 "ha">' + "".join(
        f'<!ENTITY a{k} "{f"&a{k - 1};" * 10}">' for k in range(1, 12)
    )
    laughs += "]><urlset><url><loc>https://a/&a11;</loc></url></urlset>"
    with pytest.raises(InputError) if not _survives(tmp_path, laughs) else _nothing():
        rows_of(save(tmp_path / "laughs.xml", laughs))
    with pytest.raises(InputError, match="well-formed"):
        rows_of(save(tmp_path / "cut.xml", sitemap(page("a"))[:-20]))
    with pytest.raises(InputError, match="levels"):
        rows_of(save(tmp_path / "deep.xml", "<urlset>" + "<a>" * 250), format="sitemap")
    with pytest.raises(InputError, match="begins with <html>"):
        rows_of(save(tmp_path / "page.xml", "<html></html>"), format="sitemap")
    index = "<sitemapindex><sitemap><loc>https://example.org/s.xml</loc></sitemap></sitemapindex>"
    file = save(tmp_path / "index.xml", index)
    rows, report = rows_of(file)
    assert rows == []
    assert list(report.left_out.values()) == [1]
    (further,) = describe_sources(file)
    assert further.kind == "sitemap"
    plain = save(tmp_path / "list.txt", "https://a.example/\n\nno address\nhttps://b.example/\n")
    rows, report = rows_of(plain, format="sitemap")
    assert (len(rows), report.malformed_rows) == (2, 1)


def _survives(tmp_path, text) -> bool:
    rows, _ = _try(save(tmp_path / "try.xml", text))
    return rows is not None and all(len(row["source"]) < 100 for row in rows)


def _try(file):
    try:
        return rows_of(file)
    except InputError:
        return None, None


def _nothing():
    from contextlib import nullcontext

    return nullcontext()


# -- feeds ------------------------------------------------------------------------------------

RSS = """<?xml version="1.0"?>
<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>
<title>News</title><link>https://example.org/</link>
<atom:link rel="self" href="https://example.org/feed.xml"/><ttl>60</ttl>
<skipHours><hour>1</hour></skipHours>
<item><title>3</title><pubDate>Fri, 13 Nov 2026 10:00:00 GMT</pubDate></item>
<item><title>2</title><pubDate>Wed, 11 Nov 2026 12:00:00 +0200</pubDate></item>
<item><title>2b</title><pubDate>Wed, 11 Nov 2026 10:00:00 GMT</pubDate></item>
<item><title>no date</title></item>
<item><title>bad</title><pubDate>someday</pubDate></item>
<item><title>future</title><pubDate>Fri, 13 Nov 2099 10:00:00 GMT</pubDate></item>
<item><title>1</title><pubDate>Mon, 09 Nov 2026 10:00:00 GMT</pubDate></item>
</channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title>
<link rel="self" href="https://example.org/feed.xml"/>
<entry><published>2026-11-13T10:00:00Z</published><updated>2026-11-13T12:00:00Z</updated></entry>
<entry><updated>2026-11-11T10:00:00Z</updated></entry>
<entry><published>2026-11-09T10:00:00Z</published></entry></feed>"""
RDF = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
xmlns="http://purl.org/rss/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/"
xmlns:sy="http://purl.org/rss/1.0/modules/syndication/">
<channel><title>News</title><sy:updatePeriod>daily</sy:updatePeriod>
<sy:updateFrequency>4</sy:updateFrequency></channel>
<item><dc:date>2026-11-13T10:00:00Z</dc:date></item>
<item><dc:date>2026-11-11T10:00:00Z</dc:date></item>
<item><dc:date>2026-11-09T10:00:00Z</dc:date></item></rdf:RDF>"""
JSON_FEED = json.dumps(
    {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "News",
        "feed_url": "https://example.org/feed.json",
        "items": [
            {"id": "3", "date_published": "2026-11-13T10:00:00Z"},
            {"id": "2", "date_published": "2026-11-11T10:00:00Z"},
            {"id": "1", "date_published": "2026-11-09T10:00:00Z"},
            "odd",
        ],
    }
)


@pytest.mark.parametrize("text", [RSS, ATOM, RDF, JSON_FEED], ids=["rss", "atom", "rdf", "json"])
def test_entries_of_a_feed_are_its_updates(tmp_path, text):
    file = save(tmp_path / "feed", text, "2026-11-14T10:00:00+00:00")
    assert format_found(file) == "feed"
    rows, report = rows_of(file)
    assert {row["last_modified"] for row in rows} == {
        at(f"2026-11-{day}T10:00:00Z") for day in ("09", "11", "13")
    }
    assert rows[-1]["time"] == at("2026-11-14T10:00:00Z")
    # Two updates in the five days since the oldest entry, which begins what is known.
    dated = [(row["time"], row["last_modified"]) for row in rows]
    assert worth(dated) == (2, pytest.approx(5, rel=1e-6))
    assert any("oldest entry" in warning for warning in report.warnings)
    assert report.evidence == "D"


def test_feedparser_sees_the_same_dates(tmp_path):
    feedparser = pytest.importorskip("feedparser")
    import calendar

    for text in (RSS, ATOM, RDF):
        parsed = feedparser.parse(text)
        keys = ("published_parsed", "updated_parsed")
        dates = ([dict.get(entry, key) for key in keys] for entry in parsed.entries)
        told = {calendar.timegm(one or two) for one, two in dates if one or two}
        rows, _ = rows_of(save(tmp_path / "feed", text, "2026-11-14T10:00:00+00:00"))
        now = at("2026-11-14T10:00:00Z") // 1_000_000
        assert {row["last_modified"] // 1_000_000 for row in rows} == {t for t in told if t < now}


def test_feeds_describe_themselves_and_tell_their_troubles(tmp_path):
    file = save(tmp_path / "feed.rss", RSS, "2026-11-14T10:00:00+00:00")
    _, report = rows_of(file)
    assert report.malformed_rows == 1
    assert report.left_out == {"an entry without a date": 1, "an entry dated in the future": 1}
    (source,) = describe_sources(file)
    assert (source.address, source.kind, source.title) == (
        "https://example.org/feed.xml",
        "feed",
        "News",
    )
    assert source.settings == {"min_period": "60min"}
    nameless = save(tmp_path / "feed.rdf", RDF)
    assert list(describe_sources(nameless)) == []  # it tells no address
    # What is found while sources are described is told with the rest, and once.
    told = [text for text in examine(nameless).warnings if "cannot be watched" in text]
    assert len(told) == 1
    _, report = rows_of(save(tmp_path / "atom", ATOM, "2026-11-14T10:00:00+00:00"))
    assert report.counts == {"entries edited later, of which the publication counts": 1}
    with pytest.raises(InputError, match="JSON"):
        rows_of(save(tmp_path / "x.json", '{"version": "https://jsonfeed.org'), format="feed")


# -- OPML, Bing, git --------------------------------------------------------------------------


def test_opml_lists_feeds(tmp_path):
    text = """<?xml version="1.0"?><!DOCTYPE opml [<!ENTITY x SYSTEM "file:///etc/passwd">]>
    <opml version="2.0"><head><title>all</title></head><body>
    <outline text="Tech"><outline text="Deep"><outline type="rss" text="One" title="First"
      xmlUrl="https://a.example/feed" htmlUrl="https://a.example/"/></outline>
      <outline text="Two" xmlurl="https://b.example/feed" category="/News,/Local"/></outline>
    <outline text="Again" xmlUrl="https://a.example/feed"/>
    <outline text="Bad" xmlUrl="javascript:alert(1)"/>
    <outline text="&x;"/></body></opml>"""
    file = save(tmp_path / "feeds.opml", text)
    assert format_found(file) == "opml"
    rows, report = rows_of(file)
    assert rows == []
    assert (report.described, report.rows, report.malformed_rows) == (2, 4, 1)
    one, two = describe_sources(file)
    assert (one.address, one.kind, one.title, one.tags) == (
        "https://a.example/feed",
        "feed",
        "First",
        ("Tech", "Deep"),
    )
    assert two.tags == ("Tech", "News", "Local")
    with pytest.raises(InputError, match="OPML"):
        list(describe_sources(save(tmp_path / "x.xml", "<html/>"), format="opml"))


def test_the_bing_layout(tmp_path):
    folder = tmp_path / "bing"
    lines = [
        "5\t5.5143055555555556\t[[1.10396990740741, 0], [1.47311342592593, 1]]",
        "6\t0\t[]",
        "7\t1.0\t[[1.0, 2]]",
        "8\t1.0\t[[-1.0, 1]]",
        "9\tnan\t[[1.0, 1]]",
        "no tabs",
    ]
    save(folder / "urlid_offset_history.txt", "\n".join(lines))
    save(folder / "url_urlid_hostid.txt", "https://a.example/\t5\t1\nhttps://b.example/\t6\t1\n")
    save(folder / "urlid_imp.txt", "5\t70\n6\t3\n99\t1\n")
    assert format_found(folder) == format_found(folder / "urlid_offset_history.txt") == "bing"
    rows, report = rows_of(folder)
    assert [(row["source"], row["changed"]) for row in rows] == [
        ("5", None),
        ("5", False),
        ("5", True),
        ("6", None),
    ]
    start = at("2017-01-01T00:00:00Z")
    assert rows[0]["time"] - start == pytest.approx(5.5143055555555556 * DAY, abs=1)
    assert rows[1]["time"] - rows[0]["time"] == pytest.approx(1.10396990740741 * DAY, abs=1)
    assert report.malformed_rows == 4
    assert any("zero-truncated" in warning for warning in report.warnings)
    rows, _ = rows_of(folder, mapping={"source": "url"})
    assert rows[0]["source"] == "https://a.example/"
    options = ImportOptions(mapping={"source": "url"})
    sources = list(describe_sources(folder, options=options))
    assert [(s.address, s.importance) for s in sources] == [
        ("https://a.example/", 70.0),
        ("https://b.example/", 3.0),
    ]


def test_git_commits_are_changes_not_visits(tmp_path):
    repository = tmp_path / "repository"
    repository.mkdir()

    def git(*words: str, day: int = 0) -> None:
        when = f"2026-11-{day + 1:02}T10:00:00Z"
        environment = os.environ | {
            "GIT_COMMITTER_DATE": when,
            "GIT_AUTHOR_DATE": when,
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        subprocess.run(  # noqa: S603
            ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words],  # noqa: S607
            cwd=repository, check=True, capture_output=True, env=environment,
        )  # fmt: skip

    git("init", "-q")
    for day in (0, 2, 4, 9):
        save(repository / "a.txt", f"day {day}")
        if day != 4:
            save(repository / "b:\n.txt", f"day {day}")
        git("add", "-A", day=day)
        git("commit", "-qm", "x", day=day)
    assert format_found(repository) == "git"
    with pytest.raises(InputError, match="every-change-seen"):
        rows_of(repository)
    rows, report = rows_of(repository, accept={"every-change-seen"})
    assert {row["source"] for row in rows} == {"a.txt", "b:\n.txt"}
    dates = {row["last_modified"] for row in rows if row["source"] == "a.txt"}
    assert dates == {at(f"2026-11-{day + 1:02}T10:00:00Z") for day in (0, 2, 4, 9)}
    assert report.evidence == "C"
    assert report.rows == 4
    assert any("not visits" in warning for warning in report.warnings)


# -- all of them ------------------------------------------------------------------------------

TEXTS = {
    "bing": b"5\t5.5\t[[1.1, 0], [1.4, 1]]\n",
    "feed": RSS.encode(),
    "nutch": DUMP.encode(),
    "nutch-segment": SEGMENT.encode(),
    "opml": b'<opml><outline xmlUrl="https://a.example/"/></opml>',
    "scrapy-items": b'{"url": "http://a/", "time": 1500000000}\n',
    "scrapy-log": (
        b"2026-11-14 10:00:01 [scrapy.core.engine] DEBUG: Crawled (200) <GET http://a/> \n"
    ),
    "sitemap": sitemap(page("a", "2026-11-10")).encode(),
    "stormcrawler": b'{"url": "u", "status": "FETCHED", "nextFetchDate": 1e9, "metadata": {}}\n',
    "urlwatch-jobs": b"url: https://a.example/\n",
}


@pytest.mark.parametrize("name", sorted(set(TEXTS) - {"scrapy-items"}))
def test_a_file_is_known_by_its_look_and_taken_for_nothing_else(name):
    file_name = "urls.yaml" if name == "urlwatch-jobs" else "file"
    found = [key for key, one in importers().items() if one.sniff(TEXTS[name], file_name)]
    assert found == [name]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TEXTS))
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_mutated_files_are_read_or_refused(name, data):
    """Bytes cut, doubled or overwritten: an InputError or a report, and nothing else."""
    text = bytearray(TEXTS[name])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(text)))
        kind = data.draw(st.sampled_from(["cut", "insert", "double"]))
        if kind == "cut":
            del text[place : place + data.draw(st.integers(1, 40))]
        elif kind == "insert":
            text[place:place] = data.draw(st.binary(min_size=1, max_size=12))
        else:
            text[place:place] = text[place : place + 60]
    stream = io.BytesIO(bytes(text))
    options = ImportOptions(accept={"all"}, zone="Europe/Berlin")
    try:
        found = import_visits(stream, format=name, options=options)
        rows = sum(batch.num_rows for batch in found)
    except InputError:
        return
    assert rows == found.report.visits


def test_a_malformed_row_can_be_fatal(tmp_path):
    file = save(tmp_path / "dump", DUMP)
    with pytest.raises(InputError) as caught:
        rows_of(file, on_bad="fail")
    assert caught.value.row == 33
    assert caught.value.file == str(file)


def test_batches_are_bounded(tmp_path):
    item = '{{"url": "http://a/{}", "time": {}}}\n'
    text = "".join(item.format(k, 1_500_000_000 + k) for k in range(500))
    file = save(tmp_path / "items.jsonl", text)
    found = import_visits(file, format="scrapy-items", options=ImportOptions(batch_rows=64))
    assert max(batch.num_rows for batch in found) <= 64
    assert found.report.visits == 500
