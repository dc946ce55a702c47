"""Speed of importing: a CDXJ of ten million lines to rates to a plan, by commands.

    python -m benchmarks.imports [--lines 10000000] [--folder /where/there/is/room]

The rival is a reader in pure Python, as one would write it: a line at a time, `json.loads`, the
same columns out. Both read the same gzip file in the same run; the rival reads the first million
lines of it. Lines are as Common Crawl writes them, 100 captures a page, pages that change at rates
from once a year to once a day.
"""

import argparse
import base64
import calendar
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

CAPTURES = 100
ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", np.uint8)
REST = (
    '"length": "%d", "offset": "%d", "filename": "crawl-data/CC-MAIN-2026-05/segments/1767225600.00'
    '/warc/CC-MAIN-20260101000000-20260101030000-00042.warc.gz", "languages": "eng", '
    '"encoding": "UTF-8"}\n'
)


def generate(lines, file, seed=0):
    """Write the index; in order of key and time, as an index is."""
    rng = np.random.default_rng(seed)
    days = np.arange(CAPTURES) * 10 + 10_957
    stamps = [time.strftime("%Y%m%d", time.gmtime(day * 86_400)) for day in days.tolist()]
    with gzip.open(file, "wb", 1) as out:
        for page in range(lines // CAPTURES):
            host, rate = f"site{page % 5_000:04d}", np.exp(rng.uniform(np.log(1 / 365), 0))
            changed = rng.random(CAPTURES) < -np.expm1(-10 * rate)
            digests = ALPHABET[rng.integers(0, 32, (CAPTURES, 32))].tobytes().decode()
            which = np.maximum.accumulate(np.where(changed, np.arange(CAPTURES), 0)).tolist()
            seconds = rng.integers(0, 86_400, CAPTURES).tolist()
            text = []
            for k in range(CAPTURES):
                clock = seconds[k]
                at = f"{stamps[k]}{clock // 3600:02d}{clock // 60 % 60:02d}{clock % 60:02d}"
                digest = digests[32 * which[k] : 32 * which[k] + 32]
                text.append(
                    f"org,{host})/page/{page} {at} "
                    f'{{"url": "https://{host}.org/page/{page}", "mime": "text/html", '
                    f'"mime-detected": "text/html", "status": "200", "digest": "{digest}", '
                    + REST
                    % (9_000 + clock, clock * 1_000)
                )
            out.write("".join(text).encode())


def rival(file, lines):
    """A reader in pure Python; returns the number of visits."""
    rows = 0
    with gzip.open(file, "rb") as stream:
        while some := list(islice(stream, min(100_000, lines - rows))):
            columns = ([], [], [], [], [])
            for line in some:
                _, stamp, text = line.split(b" ", 2)
                record = json.loads(text)
                at = calendar.timegm(
                    (
                        int(stamp[:4]),
                        int(stamp[4:6]),
                        int(stamp[6:8]),
                        int(stamp[8:10]),
                        int(stamp[10:12]),
                        int(stamp[12:14]),
                    )
                )
                columns[0].append(record["url"])
                columns[1].append(at * 1_000_000)
                columns[2].append(base64.b32decode(record["digest"]))
                columns[3].append(int(record["status"]))
                columns[4].append(int(record["length"]))
            pa.record_batch(list(columns), ["source", "time", "digest", "status", "bytes"])
            rows += len(some)
    return rows


def ours(*files, key="url"):
    """Our reader; returns the number of visits."""
    from observant.formats.imports import ImportOptions, import_visits

    visits = import_visits(*files, options=ImportOptions(key=key))
    return sum(batch.num_rows for batch in visits)


def timed(function, *arguments):
    began = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - began


def cluster(file, folder, members=3_000):
    """The same lines as a ZipNum cluster; returns its index."""
    folder.mkdir(exist_ok=True)
    index, offset = [], 0
    with gzip.open(file, "rb") as stream, (folder / "cdx-00000.gz").open("wb") as shard:
        while some := list(islice(stream, members)):
            packed = gzip.compress(b"".join(some), 1)
            start = b" ".join(some[0].split(b" ", 2)[:2]).decode()
            index.append(f"{start}\tcdx-00000.gz\t{offset}\t{len(packed)}\t{len(index) + 1}\n")
            shard.write(packed)
            offset += len(packed)
    (folder / "cluster.idx").write_text("".join(index))
    return folder / "cluster.idx"


def plain_cdx(file, target):
    """The same captures as a CDX of eleven fields."""
    with gzip.open(file, "rb") as stream, gzip.open(target, "wb", 1) as out:
        out.write(b" CDX N b a m s k r M S V g\n")
        for line in stream:
            key, stamp, text = line.split(b" ", 2)
            r = json.loads(text)
            out.write(
                f"{key.decode()} {stamp.decode()} {r['url']} {r['mime']} {r['status']} "
                f"{r['digest']} - - {r['length']} {r['offset']} {r['filename']}\n".encode()
            )


def command(*words):
    """Run a command; returns its seconds and the most memory that any command took, in GiB."""
    _, seconds = timed(
        lambda: subprocess.run(  # noqa: S603
            [sys.executable, "-m", "observant", *map(str, words)],
            check=True,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        )
    )
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


def main(lines=10_000_000, folder=None, few=1_000_000):
    with tempfile.TemporaryDirectory(dir=folder) as name:
        place = Path(name)
        file = place / "index.cdxj.gz"
        _, seconds = timed(generate, lines, file)
        print(f"{lines:,} lines written in {seconds:.0f} s, {file.stat().st_size / 2**20:,.0f} MiB")
        few = min(few, lines)
        ours_small = place / "warm.cdxj.gz"
        generate(20_000, ours_small)
        ours(ours_small)  # compile, or load what was compiled
        rows, seconds = timed(rival, file, few)
        slow = rows / seconds
        print(f"pure Python                 {slow:12,.0f} lines/s  ({rows:,} lines)")
        rows, seconds = timed(ours, file)
        print(f"cdxj, gzip                  {rows / seconds:12,.0f} lines/s  "
              f"{rows / seconds / slow:.1f} times the pure Python reader")  # fmt: skip
        small = place / "small.cdxj.gz"
        generate(few, small)
        rows, seconds = timed(ours, cluster(small, place / "cluster"))
        print(f"ZipNum cluster              {rows / seconds:12,.0f} lines/s")
        plain_cdx(small, place / "index.cdx.gz")
        rows, seconds = timed(ours, place / "index.cdx.gz")
        print(f"cdx, gzip                   {rows / seconds:12,.0f} lines/s")
        visits, rates, plan = (place / f"{part}.parquet" for part in ("visits", "rates", "plan"))
        for words in (
            ("import", file, "-o", visits),
            ("estimate", visits, "-o", rates),
            ("plan", rates, "--budget", f"{lines // CAPTURES // 10}/day", "-o", plan),
        ):
            seconds, memory = command(*words)
            print(
                f"observant {words[0]:<10}        {seconds:8.1f} s, at most {memory:.2f} GiB so far"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--folder", help="where the files are written, for a while")
    options = parser.parse_args()
    main(options.lines, options.folder)
