"""How often does a 95 % interval hold the true rate? Exactly where that can be had, else simulated.

    python -m benchmarks.coverage [--page docs/intervals.md]

Regular visits without dates can end in n + 1 ways only, so their coverage is a sum, without any
chance in it; so can a few visits with gaps of any lengths, in 2ⁿ. There the intervals are held
against those of the likelihood ratio, and against bounds that know only how many visits saw a
change, which were ours before. Irregular and dated visits are simulated. The last two tables leave
the assumption behind all of it, a Poisson process, to show what then happens. With `--page`, the
tables of that
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

__all__ = [
    "by_likelihood_ratio",
    "exact_coverage",
    "ours",
    "process_coverage",
    "simulated_coverage",
    "uneven_coverage",
    "uneven_gaps",
]

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


# -- gaps of very different lengths -----------------------------------------------------------

SPREADS = (1, 10, 100, 1000)


def uneven_gaps(visits, spread):
    """Gaps that differ by a factor: evenly in their logarithm; one long gap; half of them long."""
    if spread == 1:
        return [np.ones(visits)]
    few = visits // 2
    return [
        np.geomspace(1.0, spread, visits),
        np.r_[np.ones(visits - 1), spread],
        np.r_[np.ones(visits - few), np.full(few, float(spread))],
    ]


def outcomes(visits):
    """Every way in which visits can find changes, one a row."""
    return (np.arange(2**visits)[:, None] >> np.arange(visits)) % 2 == 1


def uneven_coverage(gaps, low, high, points=400):
    """Least and mean coverage of bounds, one for each of the `outcomes`, and their mean log length.

    Over rates from which a third of an update is expected in all gaps, to four in the shortest. The
    length is that of intervals with two bounds, each as often as it comes.
    """
    gaps = np.asarray(gaps, float)
    rates = np.geomspace(0.3 / gaps.sum(), 4.0 / gaps.min(), points)
    changed = outcomes(len(gaps))
    chance = np.exp(log_likelihoods(gaps, changed, rates))
    covered = (chance * ((low[:, None] <= rates) & (rates <= high[:, None]))).sum(axis=0)
    two = changed.any(axis=1) & ~changed.all(axis=1)
    weight = chance[two].mean(axis=1)
    length = (weight * np.log(high[two] / low[two])).sum() / weight.sum()
    return covered.min(), covered.mean(), length


def log_likelihoods(gaps, changed, rates):
    x = np.outer(gaps, rates)
    return changed @ np.log(-np.expm1(-x)) - (~changed) @ x


def by_likelihood_ratio(gaps, confidence=0.95):
    """Bounds where twice the log likelihood is below its top by the quantile of χ²."""
    from scipy.stats import chi2

    return _bounds_on_grid(gaps, lambda l, best: 2 * (best - l) <= chi2.ppf(confidence, 1))


def by_counts(gaps, confidence=0.95, ties=0.7):
    """Bounds from the number of changes alone, the very number counting 0.7: ours before."""
    gaps = np.asarray(gaps, float)
    rates, changed = _rate_grid(gaps), outcomes(len(gaps))
    chance = np.zeros((len(gaps) + 1, len(rates)))
    chance[0] = 1.0
    for gap in gaps:
        quiet = np.exp(-rates * gap)
        chance[1:] = chance[1:] * quiet + chance[:-1] * (1 - quiet)
        chance[0] *= quiet
    number, tail = changed.sum(axis=1), (1 - confidence) / 2
    fewer = np.cumsum(chance, axis=0) - chance
    many, few = 1 - fewer - (1 - ties) * chance, fewer + ties * chance
    low = rates[np.minimum((many < tail).sum(axis=1), len(rates) - 1)][number]
    high = rates[np.maximum((few > tail).sum(axis=1) - 1, 0)][number]
    return _one_sided(gaps, low, high, tail)


def _bounds_on_grid(gaps, inside, confidence=0.95):
    gaps = np.asarray(gaps, float)
    rates, changed = _rate_grid(gaps), outcomes(len(gaps))
    likelihood = log_likelihoods(gaps, changed, rates)
    held = inside(likelihood, likelihood.max(axis=1, keepdims=True))
    low = rates[held.argmax(axis=1)]
    high = rates[len(rates) - 1 - held[:, ::-1].argmax(axis=1)]
    return _one_sided(gaps, low, high, (1 - confidence) / 2)


def _rate_grid(gaps, points=3000):
    return np.geomspace(1e-4 / gaps.sum(), 60.0 / gaps.min(), points)


def _one_sided(gaps, low, high, tail):
    """Where there is one bound only, it is the exact one, whoever makes the other."""
    changed = outcomes(len(gaps))
    _, exact_low, exact_high = solve(Evidence.from_gaps(np.tile(gaps, (len(changed), 1)), changed),
                                     1 - 2 * tail)  # fmt: skip
    one = ~changed.any(axis=1) | changed.all(axis=1)
    return np.where(one, exact_low, low), np.where(one, exact_high, high)


def ours(gaps, confidence=0.95):
    changed = outcomes(len(gaps))
    evidence = Evidence.from_gaps(np.tile(np.asarray(gaps, float), (len(changed), 1)), changed)
    return solve(evidence, confidence)[1:]


def uneven_table(visits=(3, 5, 8, 10)):
    ways = {"ours": ours, "counts alone": by_counts, "likelihood ratio": by_likelihood_ratio}
    yield "n", "gaps differ by", *(f"{name}: least, mean, length" for name in ways)
    for n in visits:
        for spread in SPREADS:
            cells = []
            for bounds in ways.values():
                found = np.array([uneven_coverage(g, *bounds(g)) for g in uneven_gaps(n, spread)])
                least, mean, length = found[:, 0].min(), found[:, 1].mean(), found[:, 2].mean()
                cells.append(f"{least:.3f}, {mean:.3f}, {length:.2f}")
            yield n, spread, *cells


def uneven_simulated_table(visits=(5, 10, 20, 40), histories=4000):
    """Gaps drawn log-uniformly over the spread, dated or not: least and mean over the rates."""
    shares = {"undated": 0.0, "half of them dated": 0.5, "dated": 1.0}
    yield "n", "gaps differ by", *shares
    for n in visits:
        for spread in SPREADS:
            cells = []
            for dated in shares.values():
                rng = np.random.default_rng([n, spread, round(10 * dated)])
                found = []
                for ratio in np.geomspace(0.02, 2.0, 7):
                    gap = np.exp(rng.uniform(0.0, np.log(spread), (histories, n)))
                    rate = ratio * n / gap.sum(axis=1).mean()
                    age = rng.exponential(1 / rate, gap.shape)
                    told = rng.random(gap.shape) < dated
                    found.append(_share(gap, age < gap, np.where(told, age, np.nan), rate, 0.95))
                cells.append(f"{min(found):.3f}, {np.mean(found):.3f}")
            yield n, spread, *cells


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
    "uneven": uneven_table,
    "uneven-simulated": uneven_simulated_table,
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
    parser.add_argument("--only", choices=TABLES, action="append", help="this table alone")
    given = parser.parse_args()
    page = given.page
    text = page.read_text("utf-8") if page else ""
    for name, rows in TABLES.items():
        if given.only and name not in given.only:
            continue
        table = markdown(rows())
        print(f"{name}\n\n{table}", flush=True)
        marks = rf"(<!-- coverage: {name} -->\n).*?(<!-- end of coverage -->)"
        text = re.sub(marks, rf"\g<1>\n{table}\n\g<2>", text, flags=re.DOTALL)
    if page:
        page.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
