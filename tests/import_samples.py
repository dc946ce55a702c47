"""A small sample of every format that can be imported, written as the real tools write them."""

import gzip
import io
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq

A, B = "A" * 32, "B" * 32

CDX = """ CDX N b a m s k r M S V g
org,example)/ 20260101000000 https://example.org/ text/html 200 {a} - - 500 0 a.warc.gz
org,example)/ 20260102000000 https://example.org/ warc/revisit - {a} - - 200 500 a.warc.gz
org,example)/ 20260103000000 https://example.org/ text/html 200 {b} - - 500 700 a.warc.gz
"""
CDXJ = """org,example)/ 20260101000000 {{"url": "https://example.org/", "mime": "text/html", \
"status": "200", "digest": "{a}", "length": "500", "offset": "0", "filename": "a.warc.gz"}}
org,example)/ 20260102000000 {{"url": "https://example.org/", "mime": "warc/revisit", \
"digest": "{a}", "length": "200", "offset": "500", "filename": "a.warc.gz"}}
org,example)/ 20260103000000 {{"url": "https://example.org/", "mime": "text/html", \
"status": "200", "digest": "{b}", "length": "500", "offset": "700", "filename": "a.warc.gz"}}
"""
HERITRIX = (
    "2026-01-01T00:00:01.500Z   200       1234 https://example.org/ L https://example.org/x "
    "text/html #042 20260101000000123+1377 sha1:{a} https://example.org/ - {{}}\n"
    "2026-01-02T00:00:01.500Z   200       1234 https://example.org/ L https://example.org/x "
    "text/html #042 20260102000000123+377 sha1:{a} https://example.org/ duplicate:digest,2t\n"
    "2026-01-03T00:00:01.500Z    -9998          - https://example.org/no L https://example.org/x "
    "unknown #007 - - https://example.org/ -\n"
    "2026-01-04T00:00:01.500Z     1         56 dns:example.org LP https://example.org/ "
    "text/dns #007 20260104000000123+3 - https://example.org/ content-size:56\n"
)
NUTCH = """https://example.org/\tVersion: 7
Status: 2 (db_fetched)
Fetch time: Sun Feb 01 00:00:00 UTC 2026
Modified time: Thu Jan 01 00:00:00 UTC 2026
Retries since fetch: 0
Retry interval: 2592000 seconds (30 days)
Score: 1.0
Signature: 0123456789abcdef0123456789abcdef
Metadata:
 \t_pst_=success(1), lastModified=0

"""
SEGMENT = """
Recno:: 0
URL:: https://example.org/

CrawlDatum::
Version: 7
Status: 33 (fetch_success)
Fetch time: Sun Feb 01 00:00:00 UTC 2026
Modified time: Thu Jan 01 00:00:00 UTC 1970
Retries since fetch: 0
Retry interval: 2592000 seconds (30 days)
Score: 1.0
Signature: null
Metadata:

CrawlDatum::
Version: 7
Status: 65 (signature)
Fetch time: Sun Feb 01 00:00:00 UTC 2026
Modified time: Thu Jan 01 00:00:00 UTC 1970
Retries since fetch: 0
Retry interval: 0 seconds (0 days)
Score: 1.0
Signature: 0123456789abcdef0123456789abcdef
Metadata:

"""
STORMCRAWLER = (
    '{"url": "https://example.org/", "status": "FETCHED", '
    '"nextFetchDate": "2026-01-02T00:00:00.000Z", "metadata": {"signature": ["0123"], '
    '"fetchInterval": ["1440"], "fetch.statusCode": ["200"]}, "key": "example.org"}\n'
)
SCRAPY_LOG = (
    "2026-01-01 00:00:00 [scrapy.core.engine] INFO: Spider opened\n"
    "2026-01-01 00:00:01 [scrapy.core.engine] DEBUG: Crawled (200) <GET https://example.org/> "
    "(referer: None)\n"
)
SCRAPY_ITEMS = (
    '<?xml version="1.0" encoding="utf-8"?>\n<items>\n<item><url>https://example.org/</url>'
    "<time>2026-01-01T00:00:00Z</time><price>3</price></item>\n</items>"
)
SITEMAP = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url>'
    "<loc>https://example.org/</loc><lastmod>2025-01-01T00:00:00Z</lastmod></url></urlset>"
)
FEED = (
    '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">'
    "<title>News</title><id>urn:x</id><updated>2025-01-02T00:00:00Z</updated>"
    '<link rel="self" href="https://example.org/feed"/>'
    "<entry><title>a</title><id>urn:a</id><updated>2025-01-02T00:00:00Z</updated></entry>"
    "<entry><title>b</title><id>urn:b</id><updated>2025-01-01T00:00:00Z</updated></entry></feed>"
)
OPML = (
    '<?xml version="1.0"?><opml version="2.0"><head/><body>'
    '<outline text="News" xmlUrl="https://example.org/feed"/></body></opml>'
)
BING = "7\t0.5\t[[1.0, 0], [2.0, 1], [3.0, 0]]\n"
JOBS = "name: one\nurl: https://example.org/\n---\nname: two\nurl: https://example.org/two\n"
TABLE = "source,time,changed\na,2026-01-01,\na,2026-01-02,0\na,2026-01-03,1\n"


def cdx_server():
    names = ["urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length"]
    rows = [
        ["org,example)/", f"2026010{day}000000", "https://example.org/", "text/html", "200", d, "9"]
        for day, d in ((1, A), (2, A), (3, B))
    ]
    return json.dumps([names, *rows], indent=0).encode()


def warc(*, compressed=True):
    from warcio.statusandheaders import StatusAndHeaders
    from warcio.warcwriter import WARCWriter

    out = io.BytesIO()
    writer = WARCWriter(out, gzip=compressed, warc_version="1.1")
    for day, body in ((1, b"one"), (2, b"one"), (3, b"two")):
        head = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.1")
        write_record(
            writer,
            writer.create_warc_record(
                "https://example.org/",
                "response",
                payload=io.BytesIO(body),
                http_headers=head,
                warc_headers_dict={"WARC-Date": f"2026-01-0{day}T00:00:00Z"},
            ),
        )
    return out.getvalue()


def write_record(writer, record):
    """Write a record of warcio's, and close what warcio leaves open."""
    writer.write_record(record)
    for holder in (record, getattr(record, "_buff", None), record.raw_stream):
        for stream in vars(holder).values() if hasattr(holder, "__dict__") else ():
            if isinstance(stream, tempfile.SpooledTemporaryFile):
                stream.close()
    if isinstance(record.raw_stream, tempfile.SpooledTemporaryFile):
        record.raw_stream.close()


def wacz(**more):
    out = io.BytesIO()
    members = {
        "datapackage.json": b"{}",
        "indexes/index.cdx.gz": gzip.compress(CDXJ.format(a=A, b=B).encode()),
        "archive/data.warc.gz": warc(),
        **more,
    }
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            if content is not None:
                archive.writestr(name, content)
    return out.getvalue()


def zipnum(folder):
    """Write a cluster of two members; returns its index."""
    lines = CDXJ.format(a=A, b=B).encode().splitlines(keepends=True)
    parts = [gzip.compress(b"".join(lines[:2])), gzip.compress(lines[2])]
    (folder / "cdx-00000.gz").write_bytes(b"".join(parts))
    index = folder / "cluster.idx"
    index.write_text(
        f"org,example)/ 20260101000000\tcdx-00000.gz\t0\t{len(parts[0])}\t1\n"
        f"org,example)/ 20260103000000\tcdx-00000.gz\t{len(parts[0])}\t{len(parts[1])}\t2\n"
    )
    return index


def common_crawl():
    table = pa.table(
        {
            "url_surtkey": ["org,example)/"] * 3,
            "url": ["https://example.org/"] * 3,
            "fetch_time": pa.array([0, 86_400_000, 172_800_000], pa.timestamp("ms")),
            "fetch_status": pa.array([200] * 3, pa.int16()),
            "content_digest": [A, A, B],
            "content_truncated": [None, None, "length"],
            "warc_record_length": pa.array([9] * 3, pa.int32()),
            "crawl": ["CC-MAIN-2026-05"] * 3,
            "subset": ["warc", "warc", "warc"],
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def changedetection():
    watch = {
        "uuid": "0b2d1ef5-5b0f-4d1f-9b0a-0123456789ab",
        "url": "https://example.org/",
        "date_created": 1_767_225_600,
        "last_checked": 1_767_830_400,
        "check_count": 8,
        "time_between_check": {"days": 1},
    }
    uuid, out = watch["uuid"], io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("url-watches.json", json.dumps({"watching": {uuid: watch}}))
        archive.writestr(f"{uuid}/watch.json", json.dumps(watch))
        archive.writestr(f"{uuid}/history.txt", "1767225600,a.txt\n1767484800,b.txt\n")
        archive.writestr(f"{uuid}/a.txt", "one")
        archive.writestr(f"{uuid}/b.txt", "two")
    return out.getvalue()


def urlwatch(path):
    database = sqlite3.connect(path)
    database.execute(
        "CREATE TABLE CacheEntry (id INTEGER PRIMARY KEY, guid TEXT, timestamp INTEGER, "
        "data TEXT, tries INTEGER, etag TEXT)"
    )
    rows = [(f"{7:040x}", 1_767_225_600 + day * 86_400, str(day), 0, "") for day in range(3)]
    database.executemany(
        "INSERT INTO CacheEntry (guid, timestamp, data, tries, etag) VALUES (?, ?, ?, ?, ?)", rows
    )
    database.commit()
    database.close()


def git(folder):
    folder.mkdir()
    env = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")

    def run(*words):
        subprocess.run([shutil.which("git"), *words], cwd=folder, env=env, check=True)  # noqa: S603

    run("init", "-q")
    for day in (1, 2):
        (folder / "page.txt").write_text(str(day))
        run("add", ".")
        date = f"2026-01-0{day}T00:00:00Z"
        env |= {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        run(*who, "commit", "-qm", "x")


def write_samples(folder):
    """Write a sample of each format; returns the files and folders by the format's name."""
    texts = {
        "cdx": ("index.cdx", CDX.format(a=A, b=B)),
        "cdxj": ("index.cdxj", CDXJ.format(a=A, b=B)),
        "heritrix": ("crawl.log", HERITRIX.format(a=A)),
        "nutch": ("part-r-00000", NUTCH),
        "nutch-segment": ("segment.dump", SEGMENT),
        "stormcrawler": ("status.jsonl", STORMCRAWLER),
        "scrapy-log": ("spider.log", SCRAPY_LOG),
        "scrapy-items": ("items.xml", SCRAPY_ITEMS),
        "sitemap": ("sitemap.xml", SITEMAP),
        "feed": ("feed.xml", FEED),
        "opml": ("feeds.opml", OPML),
        "bing": ("urlid_offset_history.txt", BING),
        "urlwatch-jobs": ("jobs.yaml", JOBS),
        "table": ("visits.csv", TABLE),
    }
    contents = {
        "cdx-server": ("answer.json", cdx_server()),
        "warc": ("data.warc.gz", warc()),
        "wacz": ("archive.wacz", wacz()),
        "commoncrawl": ("part-00000.parquet", common_crawl()),
        "changedetection": ("backup.zip", changedetection()),
        **{name: (file, text.encode()) for name, (file, text) in texts.items()},
    }
    found = {}
    for name, (file, content) in contents.items():
        found[name] = folder / file
        found[name].write_bytes(content)
    (folder / "zipnum").mkdir()
    found["zipnum"] = zipnum(folder / "zipnum")
    found["urlwatch"] = folder / "cache.db"
    urlwatch(found["urlwatch"])
    found["git"] = folder / "repository"
    git(found["git"])
    entry = folder / "httpcache" / "spider" / "ab" / ("ab" + "0" * 38)
    entry.mkdir(parents=True)
    (entry / "meta").write_text(
        "{'url': 'https://example.org/', 'method': 'GET', 'status': 200, "
        "'response_url': 'https://example.org/', 'timestamp': 1767225600.5}"
    )
    (entry / "response_headers").write_bytes(b"Content-Type: text/html\r\n")
    (entry / "response_body").write_bytes(b"one")
    found["scrapy-cache"] = folder / "httpcache"
    return found
