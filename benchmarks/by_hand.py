"""By hand or by a library: CPU seconds of both, where the code says why it is by hand.

    python -m benchmarks.by_hand [--lines 200000] [--records 5000]

Lines of archives by our compiled loop, by DuckDB (its reader of lines and its JSON functions;
digests are spelt by our loop there, since DuckDB has no base32) and line by line; WARC records by
our reader and by fastwarc; JSONPath by ours and by jsonpath-rfc9535 (pip install it; left out
otherwise). The spill of large logs is held against DuckDB by `benchmarks.scale --engines`, and
the docstrings of `visits.kernels` and `planning.objectives.numerics` have ids and root finding.
"""

import argparse
import gzip
import tempfile
import time
from pathlib import Path

import duckdb
import msgspec
from fastwarc.warc import ArchiveIterator

from benchmarks.imports import generate, ours
from observant.errors import UnreadableError
from observant.formats.imports import blocks, cdxj
from observant.formats.imports.values import digests_in
from observant.observer.content.jsonpath import compile_jsonpath


def told(way, function, first=0.0):
    """Print and return the CPU seconds of the second call."""
    function()  # load what is compiled
    began = time.process_time()
    function()
    took = time.process_time() - began
    print(f"  {way:<28}{took:9.4f} s of CPU  {took / (first or took):5.1f} times", flush=True)
    return took


def by_duckdb(file):
    """DuckDB's readers on one thread; returns the number of visits."""
    fields = "['$.url', '$.digest', '$.status', '$.length', '$.mime', '$.truncated']"
    found = duckdb.connect(config={"threads": 1}).sql(
        f"""
        WITH lines AS (
            SELECT split_part(line, ' ', 2) AS stamp,
                json_extract_string(substr(line, instr(line, '{{')), {fields}) AS j
            FROM read_csv(?, columns = {{'line': 'VARCHAR'}}, delim = chr(1), quote = '',
                escape = '', header = false, auto_detect = false)
        )
        SELECT j[1], strptime(stamp, '%Y%m%d%H%M%S'), j[2] AS digest, j[3]::INT, j[4]::BIGINT
        FROM lines
        """,
        params=[str(file)],
    )
    table = found.to_arrow_table()
    digests_in(table["digest"].combine_chunks())
    return table.num_rows


def index_lines(lines):
    """Lines of CDXJ: our compiled loop, DuckDB, and a line at a time."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "index.cdxj"
        generate(lines, file.with_suffix(".gz"))
        file.write_bytes(gzip.decompress(file.with_suffix(".gz").read_bytes()))

        print(f"{lines:,} lines of CDXJ")
        first = told("compiled loop, ours", lambda: ours(file))
        told("DuckDB, one thread", lambda: by_duckdb(file), first)
        blocks.COMPILED_FROM = 1 << 60
        told("line by line, json", lambda: ours(file), first)
        cdxj.json.loads = lambda text, **_: msgspec.json.decode(text)
        told("line by line, msgspec", lambda: ours(file), first)


def warc(records):
    """Pages of 20 kB in a WARC: visits by our reader, records alone by fastwarc."""
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + b"x" * 20_000
    head = (
        b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: https://example.org/%d\r\n"
        b"WARC-Date: 2026-01-01T00:00:00Z\r\nWARC-Payload-Digest: sha1:" + b"A" * 32 + b"\r\n"
        b"WARC-Record-ID: <urn:uuid:%d>\r\nContent-Length: %d\r\n\r\n"
    )
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "pages.warc.gz"
        whole = (head % (k, k, len(page)) + page + b"\r\n\r\n" for k in range(records))
        file.write_bytes(b"".join(gzip.compress(record, 1) for record in whole))

        def by_fastwarc():
            with file.open("rb") as stream:
                return sum(1 for _ in ArchiveIterator(stream, parse_http=True))

        print(f"{records:,} records of WARC, gzip")
        told("fastwarc, records alone", by_fastwarc, told("ours", lambda: ours(file)))


def jsonpath():
    """Expressions on 5,000 objects, and one that is meant to hurt."""
    try:
        import jsonpath_rfc9535 as rival
    except ImportError:
        print("jsonpath-rfc9535 is not installed")
        return
    shop = {"items": [{"id": k, "price": k % 50} for k in range(5_000)]}
    for text in ("$.items[*].price", "$..price", "$.items[?(@.price < 10)].id"):
        print(text)
        query, theirs = compile_jsonpath(text), rival.compile(text)
        first = told("ours", lambda query=query: query(shop))
        told("jsonpath-rfc9535", lambda theirs=theirs: theirs.find(shop), first)
    deep = 1
    for _ in range(60):
        deep = {"a": deep, "b": 1}
    text = "$..*..*..*..*"

    def refused():
        try:
            compile_jsonpath(text)(deep)
        except UnreadableError:
            return
        raise SystemExit("it is not refused")

    print(f"{text} of 60 objects in each other")
    first = told("ours, until it refuses", refused)
    told("jsonpath-rfc9535", lambda: sum(1 for _ in rival.compile(text).finditer(deep)), first)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--records", type=int, default=5_000)
    options = parser.parse_args()
    jsonpath()
    warc(options.records)
    index_lines(options.lines)
