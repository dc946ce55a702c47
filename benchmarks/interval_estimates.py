"""The measured numbers of docs/update-intervals.md: `python -m benchmarks.interval_estimates`.

Errors of `estimate_intervals` on Li's Pareto source, what visits without dates cost, and what
pooling does to the means. About a minute on one core.
"""

import numpy as np

from observant import VisitLog, estimate_rates
from observant.estimation.intervals import estimate_intervals, visits_needed
from observant.processes import Exponential, Gamma, Pareto

PARETO = Pareto(3.0, 1.0)
X = np.arange(0.05, 10.0, 0.05)


def visit_log(process, visits, *, dated=False, seed=0):
    """One source, visited once a day on average, at random."""
    rng = np.random.default_rng(seed)
    time = np.cumsum(rng.exponential(1.0, visits))
    updates = process.sample(time[-1] + 1.0, seed=seed + 100).times
    version = np.searchsorted(updates, time)
    last = np.append(np.nan, updates)[version]
    dates = [None if np.isnan(at) else at + 20_000 for at in last] if dated else None
    changed = [None, *(np.diff(version) > 0).tolist()]
    return VisitLog.from_columns(["S"] * visits, time + 20_000, changed, dates, time_unit="d")


def accuracy():
    print("visits method  dated  error of G, of F, of the mean (means over logs)")
    for visits, logs in ((100, 20), (1000, 20), (10_000, 4)):
        for method, dated in (("concave", 1), ("m2", 1), ("concave", 0), ("m6", 0)):
            bins = {"step": 0.05, "maximum": 10.0} if method == "m6" else {}
            errors = []
            for seed in range(logs):
                log = visit_log(PARETO, visits, dated=bool(dated), seed=seed)
                found = estimate_intervals(log, method=method, bands=0, **bins)
                G = np.abs(found.age_cdf(X) - PARETO.age_cdf(X)).max()
                F = np.abs(found.interval_cdf(X) - PARETO.interval_cdf(X)).max()
                errors.append([G, F, abs(found.mean / PARETO.mean - 1.0)])
            shown = "  ".join(f"{100 * e:5.1f} %" for e in np.nanmean(errors, axis=0))
            print(f"{visits:6} {method:8} {dated}     {shown}")


def cost_of_blindness(visits=500, logs=50):
    print("variance of G at the worst x, beside that of the formula for dated visits")
    for process in (PARETO, Pareto(3.0, 4.0), Gamma(4.0, 0.25), Exponential(1.0)):
        x = process.mean * np.geomspace(0.1, 5.0, 25)
        expected = (0.05 / 1.96) ** 2 * visits_needed(process, 0.05, gap=1.0, dated=True) / visits
        for dated in (True, False):
            off = []
            for seed in range(logs):
                log = visit_log(process, visits, dated=dated, seed=seed)
                found = estimate_intervals(log, method="concave", bands=0)
                off.append(found.age_cdf(x) - process.age_cdf(x))
            ratio = np.mean(np.square(off), axis=0).max() / expected
            print(f"{process}  {'dated' if dated else 'blind'}: {ratio:.2f}")


def pooling(collections=8):
    print("error of the mean level of the means, over collections (root mean square), and of G")
    for process in (Gamma(4.0, 0.25), Pareto(3.0, 2.0), Exponential(1.0)):
        unit = process.scaled(1.0 / process.mean)
        x = np.geomspace(0.05, 10.0, 50)
        for constant in (False, True):
            errors = []
            for seed in range(collections):
                log, means = collection(process, constant=constant, seed=seed)
                pooled = estimate_intervals(log)
                rates = estimate_rates(log).rate_per_day
                known = (rates > 0) & np.isfinite(pooled.mean_days)
                errors.append(
                    [
                        -np.log(rates[known] * means[known]).mean(),
                        np.log(pooled.mean_days[known] / means[known]).mean(),
                        np.abs(pooled.shapes["all"].age_cdf(x) - unit.age_cdf(x)).max(),
                    ]
                )
            alone, together, off = np.sqrt(np.mean(np.square(errors), axis=0))
            gaps = "constant" if constant else "random"
            print(
                f"{process}  {gaps} gaps: taken for Poisson {alone:.0%}, pooled {together:.0%}, "
                f"G off by {off:.3f}"
            )


def collection(process, *, constant, seed, sources=200, visits=60):
    """Sources of one shape and different means, visited once a day."""
    rng = np.random.default_rng(seed)
    means = np.exp(rng.normal(0.5, 0.8, sources))
    columns = {"source": [], "time": [], "changed": []}
    for i, mean in enumerate(means):
        time = np.cumsum(np.ones(visits) if constant else rng.exponential(1.0, visits))
        scaled = process.scaled(mean / process.mean)
        updates = scaled.sample(time[-1] + 1, seed=1000 * seed + i).times
        seen = np.searchsorted(updates, time)
        columns["source"] += [f"s{i:04}"] * visits
        columns["time"] += list(time + 20_000)
        columns["changed"] += [None, *(np.diff(seen) > 0).tolist()]
    return VisitLog.from_columns(**columns, time_unit="d"), means


if __name__ == "__main__":
    accuracy()
    cost_of_blindness()
    pooling()
