"""Spark against one process: `estimate` of the same log, by the number of partitions.

    python -m benchmarks.spark [--visits 10000000] [--partitions 8 32 128] [--skew 1000000]

One process reads, estimates and writes a Parquet log in memory; Spark does the same in local mode
with two workers. With --skew one source more has so many visits. The answers are compared.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.scale import largest_difference, make_log
from observant.batch import spark as cluster

SINGLE = """
import os, sys
from observant import estimate_rates, read_visits, write_table
write_table(estimate_rates(read_visits(*sys.argv[2:], evidence_only=True), threads=1), sys.argv[1])
"""


def make_skewed(path, visits, seed=1):
    rng = np.random.default_rng(seed)
    time_ = 20_000 * 86_400_000_000 + np.arange(visits) * 5_000_000
    table = pa.table(
        {
            "source": ["https://skewed.example/"] * visits,
            "time": pa.array(time_).cast(pa.timestamp("us", "UTC")),
            "changed": rng.random(visits) < 0.2,
        }
    )
    pq.write_table(table, path, row_group_size=1 << 18)


def main(
    visits=10_000_000, partitions=(8, 32, 128), skew=1_000_000, master="local[2]", folder=None
):
    with tempfile.TemporaryDirectory(dir=folder) as place:
        work = Path(place)
        files = [str(work / "visits.parquet")]
        make_log(files[0], visits)
        if skew:
            files.append(str(work / "skewed.parquet"))
            make_skewed(files[1], skew)
        start = time.perf_counter()
        subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", SINGLE, str(work / "single.parquet"), *files], check=True
        )
        single = time.perf_counter() - start
        print(f"{visits + skew:,} visits, one source with {skew:,} of them")
        print(f"one process, one thread: {single:.1f} s, {(visits + skew) / single:,.0f} visits/s")
        start = time.perf_counter()
        session = cluster.session(master, spark_driver_memory="3g", spark_local_dir=str(work / "l"))
        print(f"session of {master}: {time.perf_counter() - start:.1f} s")
        df = cluster.read_visits(session, *files)
        for count in partitions:
            start = time.perf_counter()
            rates = cluster.estimate_rates(df, partitions=count)
            cluster.write_file(rates, str(work / "spark.parquet"))
            seconds = time.perf_counter() - start
            differs = largest_difference(work / "spark.parquet", work / "single.parquet")
            print(
                f"{count:5} partitions: {seconds:7.1f} s, {(visits + skew) / seconds:10,.0f} "
                f"visits/s, {seconds / single:5.2f} times one process, differs by {differs:.1g}",
                flush=True,
            )
        session.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--visits", type=int, default=10_000_000)
    parser.add_argument("--partitions", type=int, nargs="+", default=[8, 32, 128])
    parser.add_argument("--skew", type=int, default=1_000_000)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--folder", help="where the files go; the system's place unless told")
    given = parser.parse_args()
    main(given.visits, given.partitions, given.skew, given.master, given.folder)
