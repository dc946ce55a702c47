"""How often does a 95 % interval hold the true rate? Exactly where that can be had, else simulated.

    python -m benchmarks.coverage

Regular visits without dates can end in n + 1 ways only, so their coverage is a sum, without any
chance in it. Irregular and dated visits are simulated. The last table leaves the assumption behind
all of it, a Poisson process, to show what then happens.

A source that never changed has the interval from 0 to its upper bound, one that always changed the
interval from its lower bound to infinity; both count like any other interval.
"""

import numpy as np

from observant.estimation.evidence import Evidence
from observant.estimation.rates import solve
from observant.processes import Bursts, Gamma, Poisson, Weibull

__all__ = ["exact_coverage", "run", "simulated_coverage"]

VISITS = (1, 2, 3, 5, 8, 10, 20, 40, 80)
RATIOS = np.geomspace(0.05, 5.0, 2001)  # dense: coverage jumps between neighbouring rates
FEW_RATIOS = np.array([0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 3.7, 5.0])


def exact_coverage(visits, ratios=RATIOS, confidence=0.95):
    """Probability that the interval holds each ratio r = rate × gap, for regular undated visits.

    `visits` counts comparisons, as everywhere: the first look is not one of them.
    """
    from scipy.special import gammaln, xlogy

    x = np.arange(visits + 1)
    changed = np.arange(visits) < x[:, None]
    _, low, high = solve(Evidence.from_gaps(np.ones(changed.shape), changed), confidence)
    ways = gammaln(visits + 1) - gammaln(x + 1) - gammaln(visits - x + 1)
    r = np.asarray(ratios)[:, None]
    probability = np.exp(ways + xlogy(x, -np.expm1(-r)) - r * (visits - x))
    return (probability * ((low <= r) & (r <= high))).sum(axis=1)


def simulated_coverage(visits, ratio, *, gaps, dated, histories=20_000, confidence=0.95, seed=0):
    """Share of simulated histories whose interval holds the rate of a Poisson source.

    `gaps` is ``regular`` or ``exponential``, with mean 1; a share `dated` of the visits is dated.
    """
    rng = np.random.default_rng([seed, visits, round(1000 * ratio), round(10 * dated)])
    shape = (histories, visits)
    gap = np.ones(shape) if gaps == "regular" else np.maximum(rng.exponential(1.0, shape), 1e-9)
    age = rng.exponential(1 / ratio, shape)  # looking back from a visit, the last update
    told = rng.random(shape) < dated
    return _share(gap, age < gap, np.where(told, age, np.nan), ratio, confidence)


def process_coverage(process, visits, ratio, *, histories=20_000, confidence=0.95, seed=0):
    """The same for a source of any stationary process, visited regularly, without dates."""
    source = process.scaled(process.rate / ratio)  # now its rate is `ratio`, and the gap is 1
    updates = source.sample(float(visits), histories, seed=seed)
    owner = np.repeat(np.arange(histories), updates.counts)
    changed = np.zeros((histories, visits), bool)
    changed[owner, np.minimum(updates.times.astype(int), visits - 1)] = True
    return _share(np.ones(changed.shape), changed, None, ratio, confidence)


def _share(gap, changed, age, ratio, confidence):
    _, low, high = solve(Evidence.from_gaps(gap, changed, age), confidence, fast=True)
    return float(np.mean((low <= ratio) & (ratio <= high)))


def run(histories=20_000):
    """All tables, as pairs of a title and rows; a row is a name and its numbers."""
    exact = []
    for visits in VISITS:
        covered = exact_coverage(visits)
        # Where a history has two bounds (some visits saw a change, some did not) half the time.
        two = -np.expm1(-RATIOS * visits) - (-np.expm1(-RATIOS)) ** visits >= 0.5
        both = covered[two].mean() if two.any() else np.nan
        worst = RATIOS[covered.argmin()]
        exact.append((f"{visits}", (covered.min(), worst, covered.mean(), both)))
    title = "regular visits, no dates: exact, r = 0.05 to 5"
    yield title, ("least", "at r", "mean", "mean where two-sided"), exact

    every = {visits: exact_coverage(visits).min() for visits in range(2, 121)}
    least = sorted(every, key=every.__getitem__)[:3]
    title = "the same, the three least of all numbers of visits from 2 to 120"
    yield title, ("least",), [(f"{visits}", (every[visits],)) for visits in least]

    kinds = {
        "exponential gaps, no dates": ("exponential", 0.0),
        "regular gaps, dated": ("regular", 1.0),
        "exponential gaps, dated": ("exponential", 1.0),
        "exponential gaps, half of them dated": ("exponential", 0.5),
    }
    for name, (gaps, dated) in kinds.items():
        rows = []
        for visits in VISITS:
            covered = np.array(
                [
                    simulated_coverage(visits, r, gaps=gaps, dated=dated, histories=histories)
                    for r in FEW_RATIOS
                ]
            )
            worst = FEW_RATIOS[covered.argmin()]
            rows.append((f"{visits}", (covered.min(), worst, covered.mean())))
        yield f"{name}: {histories:,} histories a point", ("least", "at r", "mean"), rows

    processes = {
        "Poisson": Poisson(1.0),
        "Weibull, shape 0.5 (bursty)": Weibull.with_mean(1.0, shape=0.5),
        "on and off": Bursts(on_rate=10, off_rate=0, on_time=0.5, off_time=4.5),
        "Gamma, shape 4 (steady)": Gamma.with_mean(1.0, shape=4.0),
    }
    rows = [
        (
            name,
            [process_coverage(process, n, 0.5, histories=histories) for n in (5, 10, 20, 40)],
        )
        for name, process in processes.items()
    ]
    yield "sources that are not Poisson, r = 0.5, by visits", ("5", "10", "20", "40"), rows


def main():
    for title, names, rows in run():
        width = max(len(name) for name, _ in rows)
        print(f"\n{title}\n{'':{width}}" + "".join(f"  {name:>7}" for name in names))
        for name, numbers in rows:
            cells = zip(names, numbers, strict=True)
            print(f"{name:{width}}" + "".join(f"  {v:{max(len(n), 7)}.3f}" for n, v in cells))


if __name__ == "__main__":
    main()
