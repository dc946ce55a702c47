"""`observant estimate` and `observant plan`, all defaults: is the promise kept, and is it worth it?

    python -m benchmarks.pipeline [--traces folder] [--seeds 3] [--ages]

Sources of made-up populations, and those of every trace in the folder, are visited 2, 6 and 20
times at one period; `observant estimate -o` and `observant plan` do the rest with as many visits.
What the plan promises stands beside what it achieves afterwards, and beside what visiting all alike
does: on made-up sources by formula, on real ones by replaying the second half of their history. The
learning visits to real sources lie in the last part of the first half.

With `--ages` each real source is visited 100 times in the first half. Those that are clearly not
Poisson are then planned by the ages that their visits show, and by their rate: which is better?
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from observant import VisitLog, estimate_rates, plan
from observant.cli import cli
from observant.papers.result import real_traces
from observant.planning.inputs import posterior_of
from observant.planning.objectives.composite import objective_of_visits

VISITS = (2, 6, 20)
POPULATIONS = {
    "lognormal, σ = 1.5": lambda rng, n: rng.lognormal(np.log(0.2), 1.5, n),
    "gamma, shape 0.8": lambda rng, n: rng.gamma(0.8, 1.0, n),
    "two kinds": lambda rng, n: np.where(
        rng.random(n) < 0.5, rng.lognormal(np.log(0.05), 0.3, n), rng.lognormal(np.log(2), 0.3, n)
    ),
}
SOURCES, MOST = 400, 2_000


def run(*words):
    result = CliRunner().invoke(cli, [str(word) for word in words])
    if result.exit_code:
        raise RuntimeError(result.output)
    return result.output


def pipeline(times, changed, budget):
    """Estimate and plan by the command line; the promise, its error, and a period for each row."""
    with tempfile.TemporaryDirectory() as folder:
        visits, rates = Path(folder) / "visits.csv", Path(folder) / "rates.csv"
        with visits.open("w") as out:
            out.write("source,time,changed\n")
            for i, row in enumerate(times):
                for k, time in enumerate(row):
                    seen = "" if k == 0 else int(changed[i, k])
                    out.write(f"s{i:05},{time * 86_400:.3f},{seen}\n")
        run("estimate", visits, "-o", rates)
        answer = json.loads(run("plan", rates, "--budget", f"{budget}/day", "--json"))
    rows = sorted(answer["sources"], key=lambda row: row["source"])
    return answer, np.array([row["period_days"] or np.inf for row in rows], float)


def expected(rates, periods):
    x = rates * periods
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isinf(periods), 0.0, -np.expm1(-x) / x)


def replayed(updates, start, end, periods, rng):
    """Share of [start, end] in which each copy is fresh; periods begin at a random phase."""
    fresh = np.zeros(len(periods))
    for i, period in enumerate(periods):
        own = updates[i]
        visits = np.arange(start - period * rng.random(), end, period) if period < 1e6 else []
        visits = np.concatenate([[start], np.asarray(visits)[np.asarray(visits) > start]])
        until = np.append(visits[1:], end)
        place = np.searchsorted(own, visits, side="right")
        change = np.append(own, np.inf)[place]
        seen = np.minimum(change, until) - visits
        # Never visited: the copy of the start counts until it changes, as in any replay.
        fresh[i] = seen.sum() / (end - start)
    return fresh


def made_up(name, visits, seed):
    rng = np.random.default_rng([seed, visits])
    rates = POPULATIONS[name](rng, SOURCES)
    period = 1.0
    times = np.cumsum(rng.exponential(period, (SOURCES, visits)), axis=1)
    gaps = np.diff(times, axis=1, prepend=times[:, :1])
    changed = rng.random(times.shape) < -np.expm1(-rates[:, None] * gaps)
    longer = 5.0  # a budget that hurts
    answer, periods = pipeline(times, changed, SOURCES / longer)
    return answer, expected(rates, periods), expected(rates, np.full(SOURCES, longer))


def real(trace, visits, seed):
    rng = np.random.default_rng([seed, visits])
    middle = (trace.start + trace.end) / 2
    old = np.flatnonzero(trace.updates.count_until(middle - 1) > 0)
    if len(old) > MOST:
        old = np.sort(rng.choice(old, MOST, replace=False))
    own = [np.asarray(trace.updates[int(i)]) for i in old]
    period = (trace.end - middle) / 25
    first = middle - period * (visits - rng.random(len(old)))
    times = first[:, None] + period * np.arange(visits)
    before = np.array([np.searchsorted(u, row) for u, row in zip(own, times, strict=True)])
    changed = np.diff(before, axis=1, prepend=before[:, :1]) > 0
    answer, periods = pipeline(times, changed, len(old) / period)
    alike = np.full(len(old), period)
    return answer, *(replayed(own, middle, trace.end, p, rng) for p in (periods, alike))


def by_ages(folder, seeds, visits=100, most=800):
    print(
        "| data | sources | not Poisson | stale by ages, over by rates | the same of those alone |"
    )
    print("|---|---:|---:|---:|---:|")
    for name, trace in real_traces(folder):
        if len(trace) < 50 or trace.span <= 60:
            continue
        ratios, odd = [], 0
        for seed in range(1, seeds + 1):
            rng = np.random.default_rng(seed)
            middle = (trace.start + trace.end) / 2
            old = np.flatnonzero(trace.updates.count_until(middle - 1) > 0)
            old = np.sort(rng.choice(old, min(most, len(old)), replace=False))
            own = [np.asarray(trace.updates[int(i)]) for i in old]
            times = np.sort(rng.uniform(trace.start, middle, (len(old), visits)), axis=1)
            before = np.array([np.searchsorted(u, row) for u, row in zip(own, times, strict=True)])
            changed = np.diff(before, axis=1, prepend=before[:, :1]) > 0
            log = VisitLog.from_columns(
                np.repeat([f"s{i:05}" for i in range(len(old))], visits).tolist(),
                times.ravel(),
                [None if k % visits == 0 else bool(x) for k, x in enumerate(changed.ravel())],
                time_unit="d",
            )
            table = estimate_rates(log, "pooled")
            ages, odd = objective_of_visits(log, posterior_of(table)[0])
            if not odd:
                continue
            budget = 50 * len(old) / (trace.end - middle)
            stale = []
            for best in (plan(table, budget=budget), plan(table, budget=budget, objective=ages)):
                periods = np.where(best.period_days > 0, best.period_days, np.inf)
                draws = np.random.default_rng(seed)
                found = [replayed(own, middle, trace.end, periods, draws) for _ in range(3)]
                stale.append(1 - np.mean(found))
            ratios.append(stale[1] / stale[0])
        if ratios:
            print(f"| {name} | {len(old)} | {odd} | {shown(ratios)} |", flush=True)


def main(folder, seeds):
    cases = {name: (made_up, name) for name in POPULATIONS}
    if folder is not None:
        cases |= {
            name: (real, trace)
            for name, trace in real_traces(folder)
            if len(trace) >= 50 and trace.span > 60
        }
    print("| data | visits | promised | achieved | all alike | stale, over all alike |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, (kind, data) in cases.items():
        for visits in VISITS:
            promised, ours, alike, ratios = [], [], [], []
            for seed in range(1, seeds + 1):
                answer, got, uniform = kind(data, visits, seed)
                promised.append(answer["alpha"])
                ours.append(got.mean())
                alike.append(uniform.mean())
                ratios.append((1 - got.mean()) / (1 - uniform.mean()))
            cells = [shown(values) for values in (promised, ours, alike, ratios)]
            print(f"| {name} | {visits} | {' | '.join(cells)} |", flush=True)


def shown(values):
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{np.mean(values):.3f}" + ("" if np.isnan(error) else f" ±{error:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, help="a file or folder of real update times")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ages", action="store_true", help="by ages or by rates?")
    options = parser.parse_args()
    (by_ages if options.ages else main)(options.traces, options.seeds)
