"""Speed and memory of the rate estimates, each against a rival measured in the same run.

    python -m benchmarks.rates [--large]

- `bias-reduced` with intervals, against a loop over sources that solves the same equations with
  scipy.optimize.brentq.
- `observant estimate` on a Parquet file, against DuckDB ordering the same file within each source
  and adding up visits, changes and observed time.
- The time per source from ten thousand to five million sources: it should not grow.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from observant.estimation.evidence import Evidence
from observant.estimation.firth import WEIGHT_OF_TIES
from observant.estimation.rates import solve


def poisson_evidence(sources, visits=20, seed=0):
    rng = np.random.default_rng(seed)
    rates = rng.gamma(0.6, 1 / 0.6, (sources, 1))
    gaps = rng.exponential(1.0, (sources, visits)) + 1e-3
    return Evidence.from_gaps(gaps, rng.random(gaps.shape) < -np.expm1(-rates * gaps))


def by_brentq(gaps, changed, tail=0.025):
    """Rate and interval of one source, the way one would write it with SciPy."""
    from scipy.optimize import brentq
    from scipy.special import ndtr

    n, x = len(gaps), int(changed.sum())
    if x == 0:
        return 0.0, 0.0, -np.log(tail) / gaps.sum()

    def score(s):
        lam = np.exp(s)
        growth = np.expm1(lam * gaps)
        information = gaps**2 / growth
        total = (gaps[changed] / growth[changed]).sum() - gaps[~changed].sum()
        return total - 0.5 * (information * gaps).sum() / information.sum()

    def likelihood(s):
        lam = np.exp(s)
        return np.log(-np.expm1(-lam * gaps[changed])).sum() - lam * gaps[~changed].sum()

    def logit(x):
        """log(exp(x) − 1), also where exp(x) is too large a number."""
        return x + np.log(-np.expm1(-x))

    def surplus(s):
        """Log probability of evidence as far out, less that of the tail (`estimation.score`)."""
        w = np.sqrt(2 * max(top - likelihood(s), 0.0))
        tilt = np.abs(logit(np.exp(best) * gaps) - logit(np.exp(s) * gaps))
        u2, cubes = (tilt**2 * variance).sum(), (tilt**3 * variance).sum()
        step = cubes / u2
        half = 1 / np.sqrt(scale * u2)
        share = half * (1 + (2 * WEIGHT_OF_TIES - 1) * (step / -np.expm1(-step) - 1)) - 1 / w
        once = np.exp(-(w**2) / 2)
        p = min(ndtr(-w) + once / np.sqrt(2 * np.pi) * share, WEIGHT_OF_TIES * once)
        return np.log(max(p, 1e-290)) - np.log(tail)

    middle = np.log(max(x, 0.5) / gaps.sum())
    with np.errstate(over="ignore"):
        s = brentq(score, middle - 5, middle + 6, xtol=1e-12)
        if x == n:
            low = brentq(
                lambda s: np.log(-np.expm1(-np.exp(s) * gaps)).sum() - np.log(tail),
                s - 12,
                s + 2,
                xtol=1e-9,
            )
            return np.exp(s), np.exp(low), np.inf
        equation = lambda s: (  # noqa: E731
            (gaps[changed] / np.expm1(np.exp(s) * gaps[changed])).sum() - gaps[~changed].sum()
        )
        best = brentq(equation, middle - 5, middle + 9, xtol=1e-12)
        top, x = likelihood(best), np.exp(best) * gaps
        variance = -np.expm1(-x) * np.exp(-x)
        each = x**2 / np.expm1(x)
        scale = (each[changed] / -np.expm1(-x[changed])).sum() / each.sum()
        low = brentq(surplus, best - 12, best - 1e-3, xtol=1e-9)
        high = brentq(surplus, best + 1e-3, best + 6, xtol=1e-9)
    return np.exp(s), np.exp(low), np.exp(high)


def against_brentq(sources, sample=400):
    from concurrent.futures import ThreadPoolExecutor

    evidence = poisson_evidence(sources)
    solve(poisson_evidence(10), 0.95, fast=True)  # compiled, or loaded, before the clock starts
    blocks = np.array_split(np.arange(sources), max(1, sources // 25_000))

    def block(rows):
        start, stop = evidence.offsets[rows[0]], evidence.offsets[rows[-1] + 1]
        part = Evidence(
            evidence.offsets[rows[0] : rows[-1] + 2] - start,
            evidence.gaps[start:stop],
            evidence.kind[start:stop],
            evidence.ages[start:stop],
        )
        return solve(part, 0.95, fast=True)

    began = time.process_time()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = list(pool.map(block, blocks))
    ours = (time.process_time() - began) / sources
    found = np.concatenate([np.column_stack(part) for part in parts])

    chosen = np.linspace(0, sources - 1, sample).astype(int)
    began = time.process_time()
    slow = np.array(
        [
            by_brentq(
                evidence.gaps[evidence.offsets[i] : evidence.offsets[i + 1]],
                evidence.kind[evidence.offsets[i] : evidence.offsets[i + 1]] == 1,
            )
            for i in chosen
        ]
    )
    theirs = (time.process_time() - began) / sample
    np.testing.assert_allclose(found[chosen], slow, rtol=1e-5)
    print(
        f"bias-reduced with intervals, {sources:,} sources x 20 visits:"
        f" {1e6 * ours:.2f} us of CPU each"
        f" ({1 / ours:,.0f} a second); brentq loop {1e6 * theirs:,.0f} us;"
        f" {theirs / ours:,.0f} times faster, the same answers"
    )


def write_log(path, sources, visits=20, seed=1):
    """A crawler's log in order of time: every source once a day, in another order each day."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    host = rng.integers(0, sources // 50 + 1, sources).astype("U8")
    number = np.arange(sources).astype("U8")
    names = pa.array(np.char.add(np.char.add("https://host", host), np.char.add("/page/", number)))
    rates = rng.gamma(0.6, 1 / 0.6, sources)
    stamp = pa.timestamp("us", "UTC")
    schema = pa.schema([("source", pa.string()), ("time", stamp), ("changed", pa.bool_())])
    last = np.zeros(sources)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for day in range(visits):
            now = day + rng.random(sources)
            changed = rng.random(sources) < -np.expm1(-rates * np.maximum(now - last, 1e-6))
            order = rng.permutation(sources)
            micros = (now[order] * 86_400e6).astype("i8") + 1_700_000_000_000_000
            columns = [
                names.take(pa.array(order)),
                pa.array(micros).cast(stamp),
                pa.array(changed[order], mask=np.full(sources, day == 0)),
            ]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=1 << 20)
            last = now


ORDER_AND_AGGREGATE = """
    create table answer as
    select source, count(*) as visits, count_if(changed) as changes, sum(gap) as observed
    from (select source, changed,
                 epoch(time) - lag(epoch(time)) over (partition by source order by time) as gap
          from read_parquet('{path}'))
    group by source
"""


def run(command):
    """Seconds, those of its cores, and peak memory (GiB) of a command."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:  # noqa: S603 - our own
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{command} failed")
    busy = usage.ru_utime + usage.ru_stime
    return time.perf_counter() - began, busy, usage.ru_maxrss / 2**20


def against_duckdb(sources):
    import duckdb  # noqa: F401 - fail early where it is missing

    observant = Path(sys.executable).with_name("observant")
    with tempfile.TemporaryDirectory() as folder:
        path, output = f"{folder}/visits.parquet", f"{folder}/rates.parquet"
        write_log(path, sources)
        query = ORDER_AND_AGGREGATE.format(path=path)
        code = (
            "import duckdb; c = duckdb.connect(config={'memory_limit': '6GB', "
            f"'temp_directory': '{folder}/spill'}}); c.execute('''{query}''')"
        )
        run([observant, "estimate", "--help"])
        theirs, their_cores, their_memory = run([sys.executable, "-c", code])
        ours, our_cores, our_memory = run([observant, "estimate", path, "-o", output])
    print(
        f"observant estimate, {20 * sources:,} visits to {sources:,} sources: {ours:.1f} s "
        f"({our_cores:.1f} s of CPU), {our_memory:.1f} GiB; DuckDB to order and aggregate: "
        f"{theirs:.1f} s ({their_cores:.1f}), {their_memory:.1f} GiB; ratio {ours / theirs:.2f}, "
        f"of CPU {our_cores / their_cores:.2f}"
    )


def growth(most):
    from observant import estimate_rates, read_visits

    print("time per source as the collection grows, 20 visits each (read + estimate):")
    for sources in [n for n in (10_000, 100_000, 1_000_000, 5_000_000) if n <= most]:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/visits.parquet"
            write_log(path, sources)
            began = time.perf_counter()
            log = read_visits(path, evidence_only=True)
            between = time.perf_counter()
            estimate_rates(log)
            ended = time.perf_counter()
        print(
            f"  {sources:9,}: {1e6 * (between - began) / sources:6.1f} + "
            f"{1e6 * (ended - between) / sources:5.1f} us",
            flush=True,
        )


def main(*, large=False):
    against_brentq(1_000_000 if large else 200_000)
    against_duckdb(5_000_000 if large else 250_000)
    growth(5_000_000 if large else 1_000_000)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory of this process {peak:.1f} GiB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true")
    main(large=parser.parse_args().large)
