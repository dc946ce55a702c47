"""How often does a 95 % interval hold the true rate? Exactly where that can be had, else simulated.

    python -m benchmarks.coverage [--page docs/intervals.md]

Regular visits without dates can end in n + 1 ways only, so their coverage is a sum, without any
chance in it. Irregular and dated visits are simulated. The last two tables leave the assumption
behind all of it, a Poisson process, to show what then happens. With `--page`, the tables of that
page are written anew.

A source that never changed has the interval from 0 to its upper bound, one that always changed the
interval from its lower bound to infinity; both count like any other interval.
"""

import argparse
import re
from pathlib import Path

import numpy as np

from observant.estimation.evidence import Evidence
from observant.estimation.rates import solve
from observant.processes import Bursts, Gamma, Poisson, Weibull

__all__ = ["exact_coverage", "process_coverage", "simulated_coverage"]

VISITS = (1, 2, 3, 5, 8, 10, 20, 40, 80)
RATIOS = np.geomspace(0.05, 5.0, 2001)  # dense: coverage jumps between neighbouring rates
FEW_RATIOS = np.array([0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 3.7, 5.0])
HISTORIES = 20_000


def exact_coverage(visits, ratios=RATIOS, confidence=0.95):
    """Probability that the interval holds each ratio r = rate × gap, for regular undated visits.

    `visits` counts comparisons: the first look, which has nothing to compare with, is not counted.
    """
    from scipy.special import gammaln, xlogy

    x = np.arange(visits + 1)
    changed = np.arange(visits) < x[:, None]
    _, low, high = solve(Evidence.from_gaps(np.ones(changed.shape), changed), confidence)
    ways = gammaln(visits + 1) - gammaln(x + 1) - gammaln(visits - x + 1)
    r = np.asarray(ratios)[:, None]
    probability = np.exp(ways + xlogy(x, -np.expm1(-r)) - r * (visits - x))
    return (probability * ((low <= r) & (r <= high))).sum(axis=1)


def simulated_coverage(visits, ratio, *, gaps, dated, histories=HISTORIES, confidence=0.95, seed=0):
    """Share of simulated histories whose interval holds the rate of a Poisson source.

    `gaps` is ``regular`` or ``exponential``, with mean 1; a share `dated` of the visits is dated.
    """
    rng = np.random.default_rng([seed, visits, round(1000 * ratio), round(10 * dated)])
    shape = (histories, visits)
    gap = np.ones(shape) if gaps == "regular" else np.maximum(rng.exponential(1.0, shape), 1e-9)
    age = rng.exponential(1 / ratio, shape)  # looking back from a visit, the last update
    told = rng.random(shape) < dated
    return _share(gap, age < gap, np.where(told, age, np.nan), ratio, confidence)


def process_coverage(
    process, visits, ratio, *, dated=False, histories=HISTORIES, confidence=0.95, seed=0
):
    """Mean estimate over true rate, and coverage, for a source of any stationary process.

    It is visited regularly; if `dated`, every visit tells the time of the last update.
    """
    source = process.scaled(process.rate / ratio)  # now its rate is `ratio`, and the gap is 1
    updates = source.sample(float(visits), histories, seed=seed)
    owner = np.repeat(np.arange(histories), updates.counts)
    seen_by = np.minimum(updates.times.astype(int), visits - 1)
    last = np.full((histories, visits), -1.0)
    np.maximum.at(last, (owner, seen_by), updates.times)
    changed = last >= 0
    age = np.where(changed, np.arange(1, visits + 1) - last, 0.0) if dated else None
    evidence = Evidence.from_gaps(np.ones(changed.shape), changed, age)
    rate, low, high = solve(evidence, confidence, fast=True)
    return float(rate.mean() / ratio), float(np.mean((low <= ratio) & (ratio <= high)))


def _share(gap, changed, age, ratio, confidence):
    _, low, high = solve(Evidence.from_gaps(gap, changed, age), confidence, fast=True)
    return float(np.mean((low <= ratio) & (ratio <= high)))


# -- the tables -----------------------------------------------------------------------------------


def exact_table():
    yield "n", "least", "at r", "mean over r", "mean where two bounds are usual"
    for visits in VISITS:
        covered = exact_coverage(visits)
        # At least half of the histories have two bounds: some visits saw a change, some did not.
        two = -np.expm1(-RATIOS * visits) - (-np.expm1(-RATIOS)) ** visits >= 0.5
        both = covered[two].mean() if two.any() else "–"
        yield visits, covered.min(), RATIOS[covered.argmin()], covered.mean(), both


def least_table(up_to=120):
    yield f"least of all n from 2 to {up_to}", "at n"
    least = {visits: exact_coverage(visits).min() for visits in range(2, up_to + 1)}
    worst = min(least, key=least.__getitem__)
    yield least[worst], worst


def simulated_table():
    kinds = {
        "exponential gaps": ("exponential", 0.0),
        "regular, dated": ("regular", 1.0),
        "exponential, dated": ("exponential", 1.0),
        "exponential, half of them dated": ("exponential", 0.5),
    }
    yield "n", *kinds
    for visits in VISITS:
        cells = []
        for gaps, dated in kinds.values():
            covered = [simulated_coverage(visits, r, gaps=gaps, dated=dated) for r in FEW_RATIOS]
            cells.append(f"{min(covered):.3f}, {np.mean(covered):.3f}")
        yield visits, *cells


PROCESSES = {
    "Poisson": Poisson(1.0),
    "Weibull, shape 0.5 (bursty)": Weibull.with_mean(1.0, shape=0.5),
    "on and off": Bursts(on_rate=10, off_rate=0, on_time=0.5, off_time=4.5),
    "Gamma, shape 4 (steady)": Gamma.with_mean(1.0, shape=4.0),
}


def process_table(ratio=0.5):
    visits = (5, 10, 20, 40)
    yield f"source, r = {ratio}", *(f"n = {n}" for n in visits)
    for name, process in PROCESSES.items():
        yield name, *(_pair(process_coverage(process, n, ratio)) for n in visits)


def closer_table():
    """Watch for the same time, 20 mean intervals, with visits ever closer together."""
    ratios = (0.5, 0.1, 0.02)
    yield "source, 20 updates on average", "r = 0.5, dated", *(f"r = {r}" for r in ratios)
    for name, process in PROCESSES.items():
        cells = [process_coverage(process, 40, 0.5, dated=True)]
        cells += [process_coverage(process, round(20 / r), r, histories=4000) for r in ratios]
        yield name, *(_pair(cell) for cell in cells)


def _pair(cell):
    return f"{cell[0]:.2f}, {cell[1]:.3f}"


TABLES = {
    "exact": exact_table,
    "least": least_table,
    "simulated": simulated_table,
    "processes": process_table,
    "closer": closer_table,
}


def markdown(rows):
    header, *rest = rows
    lines = [header, ["---"] * len(header), *rest]
    return "\n".join(f"| {' | '.join(_cell(value) for value in line)} |" for line in lines) + "\n"


def _cell(value):
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path, help="write the tables into this page")
    page = parser.parse_args().page
    text = page.read_text("utf-8") if page else ""
    for name, rows in TABLES.items():
        table = markdown(rows())
        print(f"{name}\n\n{table}", flush=True)
        marks = rf"(<!-- coverage: {name} -->\n).*?(<!-- end of coverage -->)"
        text = re.sub(marks, rf"\g<1>\n{table}\n\g<2>", text, flags=re.DOTALL)
    if page:
        page.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
