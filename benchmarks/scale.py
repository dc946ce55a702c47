"""Logs larger than memory: time, memory and disk of `observant estimate --engine disk`.

    python -m benchmarks.scale [--visits 1000000 10000000] [--memory 500MB] [--method pooled]

For each size a crawl log is made (twenty visits to each page, in the order of time, so that the
visits of a page are spread over the whole file) and estimated in memory and on disk by the real
command. Printed are the seconds, those of its cores (which do not depend on what else the machine
does), the most memory the process had, and the most room the spill took; the answers are compared.
Above 100 million visits only the disk is tried; a billion need about 60 GB of free disk.

With `--engines disk duckdb` the rival of our spill is DuckDB: it orders the rows within the same
memory (`COPY … ORDER BY source, time`), and whole sources are then streamed through
`estimate_rates`. That is what the package could be instead.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

VISITS_PER_SOURCE = 20
MOST_IN_MEMORY = 100_000_000


def make_log(path, visits, seed=0):
    """A crawl log: in each round every page is visited once, in an order of its own."""
    rng = np.random.default_rng(seed)
    sources = visits // VISITS_PER_SOURCE
    rates = rng.lognormal(np.log(0.15), 1.4, sources)
    day = 86_400_000_000
    schema = pa.schema(
        [("source", pa.string()), ("time", pa.timestamp("us", "UTC")), ("changed", pa.bool_())]
    )
    last = np.zeros(sources)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for visit in range(VISITS_PER_SOURCE):
            order = rng.permutation(sources)
            for first in range(0, sources, 1 << 20):
                which = order[first : first + (1 << 20)]
                place = (first + np.arange(len(which)) + rng.random(len(which))) / sources
                now = 20_000.0 + 3.0 * (visit + place)
                changed = rng.random(len(which)) < -np.expm1(-rates[which] * (now - last[which]))
                last[which] = now
                number = pa.array(which).cast(pa.string())
                host = pa.array(which % max(sources // 40, 1)).cast(pa.string())
                source = pc.binary_join_element_wise(
                    "https://site", host, ".example/page/", number, ""
                )
                writer.write_table(
                    pa.table(
                        {
                            "source": source,
                            "time": pa.array((now * day).astype(np.int64)).cast(schema[1].type),
                            "changed": pa.array(changed, mask=np.full(len(which), visit == 0)),
                        },
                        schema,
                    )
                )


def measured(command, spill=None):
    """Run a command; seconds, seconds of its cores, most memory, and most room in a folder."""
    most, done = [0], threading.Event()

    def watch():
        while not done.wait(0.2):
            if spill is not None and spill.is_dir():
                sizes = [file.stat().st_size for file in spill.glob("*.arrow") if file.exists()]
                most[0] = max(most[0], sum(sizes))

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    if status:
        raise SystemExit(f"{command} failed")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, most[0]


def by_duckdb(log, output, memory, method):
    """Rates of a log that DuckDB has ordered on disk, in parts that hold whole sources."""
    import duckdb

    from observant import VisitLog, estimate_rates

    ordered = f"{output}.ordered"
    place = {"memory_limit": memory, "temp_directory": f"{output}.spill"}
    settings = {**place, "preserve_insertion_order": False}
    with duckdb.connect(config=settings) as connection:
        connection.execute(
            f"COPY (SELECT * FROM '{log}' ORDER BY source, time) TO '{ordered}' (FORMAT parquet)"
        )
    rest, writer = None, None
    parts = pq.ParquetFile(ordered)
    for number, batch in enumerate(parts.iter_batches(1 << 20)):
        part = pa.Table.from_batches([batch])
        part = part if rest is None else pa.concat_tables([rest, part])
        starts = np.flatnonzero(
            pc.not_equal(part["source"][1:], part["source"][:-1]).to_numpy(zero_copy_only=False)
        )
        is_last = (number + 1) << 20 >= parts.metadata.num_rows
        cut = len(part) if is_last or not len(starts) else int(starts[-1]) + 1
        rest, part = part.slice(cut), part.slice(0, cut)
        answer = estimate_rates(VisitLog.from_arrow(part), method=method).to_arrow()
        writer = writer or pq.ParquetWriter(output, answer.schema)
        writer.write_table(answer)
    writer.close()


def largest_difference(one, other):
    """Of any number in two files of rates, relative; they are read side by side."""
    worst = 0.0
    columns = ["source", "visits", "changes", "rate_per_day", "rate_low", "rate_high"]
    files = [pq.ParquetFile(file) for file in (one, other)]
    if files[0].metadata.num_rows != files[1].metadata.num_rows:
        raise SystemExit("the answers differ in length")
    tables = [file.read(columns) for file in files]
    for name in columns:
        a, b = (table[name] for table in tables)
        if a.type in {pa.string(), pa.large_string()}:
            if not a.cast(pa.large_string()).equals(b.cast(pa.large_string())):
                raise SystemExit("the answers differ in their sources")
            continue
        a, b = a.to_numpy(), b.to_numpy()
        unlike = (a != b) & ~(np.isnan(a) & np.isnan(b))
        if unlike.any():
            worst = max(worst, float(np.abs(a[unlike] / b[unlike] - 1.0).max()))
    return worst


def main(
    sizes=(1_000_000, 10_000_000),
    memory="500MB",
    method="bias-reduced",
    folder=None,
    engines=("memory", "disk"),
):
    command = Path(sys.executable).with_name("observant")
    print(f"observant estimate --method {method}: in memory, and on disk with --memory {memory}\n")
    print(
        f"{'visits':>13} {'file':>8} {'engine':>7} {'seconds':>8} {'CPU':>7} {'visits/s':>10} "
        f"{'memory':>9} "
        f"{'spill':>8} {'differs':>8}"
    )
    with tempfile.TemporaryDirectory(dir=folder) as place:
        work = Path(place)
        for visits in sizes:
            log = work / "visits.parquet"
            make_log(log, visits)
            answers = {}
            for engine in engines:
                if engine == "memory" and visits > MOST_IN_MEMORY:
                    continue
                output = work / f"{engine}.parquet"
                options = ["--engine", engine, "-m", method, "-o", str(output)]
                if engine == "disk":
                    options += ["--memory", memory]
                words = [command, "estimate", str(log), *options]
                if engine == "duckdb":
                    given = f"{str(log)!r}, {str(output)!r}, {memory!r}, {method!r}"
                    code = f"from benchmarks.scale import by_duckdb; by_duckdb({given})"
                    words = [sys.executable, "-c", code]
                seconds, busy, peak, room = measured(words, work / f"{engine}.parquet.spill")
                answers[engine] = output
                differs = ""
                if len(answers) == 2:
                    differs = f"{largest_difference(*answers.values()):.1g}"
                print(
                    f"{visits:13,} {log.stat().st_size / 1e6:6.0f}MB {engine:>7} {seconds:8.1f} "
                    f"{busy:7.1f} "
                    f"{visits / seconds:10,.0f} {peak / 1e6:7.0f}MB {room / 1e6:6.0f}MB "
                    f"{differs:>8}",
                    flush=True,
                )
            log.unlink()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--visits", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--memory", default="500MB")
    parser.add_argument("--method", default="bias-reduced")
    parser.add_argument("--engines", nargs="+", default=["memory", "disk"])
    parser.add_argument("--folder", help="where the files go; the system's place unless told")
    given = parser.parse_args()
    main(given.visits, given.memory, given.method, given.folder, given.engines)
