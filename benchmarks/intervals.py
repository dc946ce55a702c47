"""Speed of the interval estimators: M6 against the direct double loop.

    python -m benchmarks.intervals

The double loop is Li (57) and (58) as printed, over all pairs of visits: in plain Python, and
compiled by numba. M6 counts the same pairs, up to the longest distance that is asked for.
"""

import math
import time

import numpy as np

from observant.estimation.intervals.methods import m6 as estimate_m6
from observant.processes import Pareto

STEP = 0.05


def visits(number, *, seed=0):
    """A visit a day on average to Li's Pareto source."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.exponential(1.0, number))
    updates = Pareto(3.0, 1.0).sample(times[-1], seed=rng).times
    return times, np.diff(np.searchsorted(updates, times), prepend=0) > 0


def double_loop(times, versions, step, pairs, updated):
    for i in range(len(times)):
        for j in range(i + 1, len(times)):
            place = math.ceil((times[j] - times[i]) / step) - 1
            if place < len(pairs):
                pairs[place] += 1
                if versions[j] != versions[i]:
                    updated[place] += 1


def seconds(function, *arguments, repeat=9):
    """The least of several times, on the processor's clock: other programs do not count."""
    best = math.inf
    for _ in range(repeat):
        began = time.process_time()
        function(*arguments)
        best = min(best, time.process_time() - began)
    return best


def m6():
    from numba import njit

    compiled = njit(double_loop)
    bins = 2000

    def loop(function, times, changed, kind=np.zeros):
        counts = kind(bins, np.int64), kind(bins, np.int64)
        function(times, np.cumsum(changed), STEP, *counts)
        return counts

    small = visits(100)
    loop(compiled, *small)
    estimate_m6(*small, STEP, 50.0)  # compiled before the clock starts
    times, changed = visits(20_000)
    ours = seconds(estimate_m6, times, changed, STEP, bins * STEP)
    loop_compiled = seconds(loop, compiled, times, changed)
    # All pairs of 20,000 visits take plain Python a minute; their number grows with the square.
    few = visits(2000)
    loop_python = seconds(
        double_loop, few[0].tolist(), np.cumsum(few[1]).tolist(), STEP, [0] * bins, [0] * bins,
        repeat=1,
    ) * (20_000 / 2000) ** 2  # fmt: skip
    expected = loop(compiled, times, changed)
    filled = expected[0] > 0
    curve = estimate_m6(times, changed, STEP, bins * STEP)
    same = np.array_equal(curve.counts, expected[0][filled])
    same = same and np.array_equal(curve.values, expected[1][filled] / expected[0][filled])
    print("M6, 20,000 visits, 2,000 bins of 0.05 d:")
    print(f"  ours                  {ours * 1e3:9.1f} ms; same counts: {same}")
    print(
        f"  double loop, numba    {loop_compiled * 1e3:9.1f} ms: {loop_compiled / ours:,.0f} times"
    )
    print(f"  double loop, Python   {loop_python * 1e3:9.0f} ms: {loop_python / ours:,.0f} times")
    for reach in (100.0, 10_000.0):
        million = visits(1_000_000)
        took = seconds(estimate_m6, *million, reach / bins, reach, repeat=1)
        print(f"  1,000,000 visits, 2,000 bins up to {reach:,.0f} d: {took:.2f} s", flush=True)


def main():
    m6()


if __name__ == "__main__":
    main()
