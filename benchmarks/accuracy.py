"""How far off is each method? Populations we know, and the histories of real sources.

    make study [TRACES=folder]        or    python -m benchmarks.accuracy [--traces folder]

Error is the root mean square of log(estimate / truth), so that being off by a factor of two counts
the same for fast and slow sources. Estimates of zero, infinity or none at all, which plug-in
methods give to sources that never or always changed, are clipped to [1e-4, 1e3] per day first; the
pooled methods never need it.

Real sources: each history is cut in the middle; a method sees a few simulated visits to the first
half, and is compared with the realised rate of the second, (updates + ½) / time.
"""

import argparse
from pathlib import Path

import numpy as np

from observant import VisitLog, estimate_rates

METHODS = ["naive", "improved", "bayes-beta", "mle", "bias-reduced", "pooled-gamma", "pooled"]
FLOOR, CEILING = 1e-4, 1e3

POPULATIONS = {
    "gamma": lambda rng, n: rng.gamma(0.6, 1 / 0.6, n),
    "bimodal": lambda rng, n: np.where(
        rng.random(n) < 0.5, rng.lognormal(np.log(0.05), 0.3, n), rng.lognormal(np.log(2), 0.3, n)
    ),
    "lognormal": lambda rng, n: rng.lognormal(np.log(0.5), 1.2, n),
}


def visit(updates, offsets, times):
    """Visit logs of sources with known update times: row i of `times` are visits to source i."""
    n, visits = times.shape
    changed = np.zeros((n, visits), bool)
    for i in range(n):
        own = updates[offsets[i] : offsets[i + 1]]
        seen = np.searchsorted(own, times[i], side="right")
        changed[i, 1:] = np.diff(seen) > 0
    source = np.repeat(np.char.mod("s%07d", np.arange(n)), visits)
    return VisitLog.from_columns(source, times.ravel(), changed.ravel(), time_unit="d")


def poisson_log(rng, rates, visits, period):
    gaps = rng.exponential(period, (len(rates), visits)) + 1e-3
    times = 1.0 + np.concatenate([np.zeros((len(rates), 1)), np.cumsum(gaps, axis=1)], axis=1)
    changed = np.zeros(times.shape, bool)
    changed[:, 1:] = rng.random(gaps.shape) < -np.expm1(-rates[:, None] * gaps)
    source = np.repeat(np.char.mod("s%07d", np.arange(len(rates))), times.shape[1])
    return VisitLog.from_columns(source, times.ravel(), changed.ravel(), time_unit="d")


def error(rate, truth):
    rate = np.clip(np.nan_to_num(rate, nan=FLOOR, posinf=CEILING), FLOOR, CEILING)
    return float(np.sqrt(np.mean(np.log(rate / truth) ** 2)))


def compare(log, truth):
    found = {}
    for method in METHODS:
        table = estimate_rates(log, method)
        found[method] = error(table.rate_per_day, truth)
    return found


def on_populations(sources=4000, period=1.0, seeds=3, first_seed=0):
    for name, draw in POPULATIONS.items():
        for visits in (3, 10):
            runs = []
            for seed in range(first_seed, first_seed + seeds):
                rng = np.random.default_rng([seed, visits])
                rates = np.maximum(draw(rng, sources), 1e-3)
                runs.append(compare(poisson_log(rng, rates, visits, period), rates))
            mean = {m: float(np.sqrt(np.mean([r[m] ** 2 for r in runs]))) for m in METHODS}
            yield (name, visits, sources * seeds), mean


DESIGNS = {
    "common": "one period for all, so that the visits span the first half of the median source",
    "recent": "one period for all, the median time between updates, just before the middle",
    "own": "random moments of each source's own first half, whatever its length",
}
"""How visits are placed. `pooled` was tuned on `common`, seed 0: read the others beside it."""


def visits_back(design, rng, visits, half, mean_gap):
    """Days before the middle of each history at which it is visited, earliest first."""
    shape = (len(half), visits)
    if design == "own":
        moments = np.sort(rng.random((len(half), visits + 1)), axis=1)[:, ::-1]
        return moments * half[:, None]
    if design == "recent":
        gaps = rng.exponential(np.median(mean_gap), shape) + 1e-3
    else:
        gaps = np.median(half) / visits * rng.uniform(0.5, 1.5, shape)
    back = np.cumsum(gaps[:, ::-1], axis=1)[:, ::-1]
    return np.column_stack([back, np.zeros(len(half))])


def on_traces(folder, most=4000, seed=0, design="common"):
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    about = pq.read_table(folder / "sources.parquet").to_pandas()
    for name, members in about.groupby("collection"):
        table = pq.read_table(folder / f"{name}.parquet")
        ids, times = table["source_id"].to_numpy(), table["t"].to_numpy() / 86400
        order = np.argsort(ids, kind="stable")
        ids, times = ids[order], times[order]
        names, starts = np.unique(ids, return_index=True)
        offsets = np.append(starts, len(ids))
        group = members.set_index("source_id").loc[names]
        begin, end = group.obs_start.to_numpy() / 86400, group.obs_end.to_numpy() / 86400
        middle = (begin + end) / 2
        # Sources too young for their visits are left out.
        for visits in (3, 10):
            mean_gap = group.mean_gap_s.to_numpy() / 86400
            back = visits_back(design, rng, visits, middle - begin, mean_gap)
            use = rng.permutation(np.flatnonzero(back[:, 0] < middle - begin))[:most]
            if len(use) < 50:
                continue
            late = [np.sum(times[offsets[i] : offsets[i + 1]] > middle[i]) for i in use]
            truth = (np.array(late) + 0.5) / (end - middle)[use]
            pieces = [times[offsets[i] : offsets[i + 1]] - begin[i] for i in use]
            own = np.concatenate([[0], np.cumsum([len(p) for p in pieces])])
            half = (middle - begin)[use]
            times_of_visits = half[:, None] - back[use]
            log = visit(np.concatenate(pieces), own, times_of_visits)
            yield (name, visits, len(use)), compare(log, truth)


def report(rows):
    """Print a table; its last lines weigh every source of all rows the same."""
    print(f"{'':44}" + "".join(f"{m:>14}" for m in METHODS))
    totals = {}
    for (name, visits, sources), errors in rows:
        best = min(errors, key=errors.get)
        cells = "".join(f"{errors[m]:13.3f}{'*' if m == best else ' '}" for m in METHODS)
        print(f"{name + f', {visits} visits, {sources:,} sources':44}{cells}", flush=True)
        total = totals.setdefault(visits, [0, dict.fromkeys(METHODS, 0.0)])
        total[0] += sources
        for method in METHODS:
            total[1][method] += sources * errors[method] ** 2
    for visits, (sources, squares) in totals.items():
        overall = {method: np.sqrt(total / sources) for method, total in squares.items()}
        best = min(overall, key=overall.get)
        cells = "".join(f"{overall[m]:13.3f}{'*' if m == best else ' '}" for m in METHODS)
        print(f"{f'all, {visits} visits, {sources:,} sources':44}{cells}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--traces",
        type=Path,
        help="folder with sources.parquet (source_id, collection, obs_start, obs_end in seconds) "
        "and <collection>.parquet (source_id, t in seconds)",
    )
    parser.add_argument("--design", choices=DESIGNS, default="common", help=f"{DESIGNS}")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    report(on_populations(first_seed=options.seed))
    if options.traces is not None:
        report(on_traces(options.traces, seed=options.seed, design=options.design))
    else:
        print("no --traces given: the comparison on real sources is skipped")


if __name__ == "__main__":
    main()
