"""Seasons from visits: recovery, false alarms, detection delay, speed.

    python -m benchmarks.season [--windows 1000000] [--repeats 100]
    python -m benchmarks.season --traces FOLDER [--seeds 3] [--sources 150] [--only NAME …]

Without histories everything is simulated with a fixed seed, and the true season is never given to
the estimator. With a folder of real histories (a Parquet file a collection, columns `source_id` and
`t`), the policy is replayed with and without its hours: staleness with hours over that without.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from observant import VisitLog
from observant.estimation.season import Season, WallClock, estimate_seasons
from observant.estimation.season.shape import Likelihood, ObservedWindows, smooth_priors
from observant.estimation.season.table import flat_p_value
from observant.planning.phases import best_times
from observant.planning.policy import ObservantPolicy
from observant.simulation import simulate
from observant.simulation.traces import Trace

HOURS = np.arange(24)
OFFICE = np.where((HOURS >= 8) & (HOURS < 18), 1.0, 0.0)
OFFICE_WEEK = np.concatenate([np.where(OFFICE > 0, 1.0, 0.1)] * 5 + [np.full(24, 0.1)] * 2)
MONDAY = 19_723.0  # 2024-01-01
RECOVERY = {100: (0.13, 0.03), 400: (0.14, 0.02), 4000: (0.143, 0.014)}
"""Plain EM with 24 free bins, per hour by day and by night, as measured before this package."""


def visited(rng, season, rates, times):
    """Log of sources with known seasons and rates; row i of `times` are the visits to source i."""
    rates = np.asarray(rates, float).reshape(-1, 1)
    chance = -np.expm1(-rates * season.exposure(times[:, :-1], times[:, 1:]))
    changed = np.full(times.shape, None, object)
    changed[:, 1:] = rng.random(chance.shape) < chance
    source = np.repeat(np.char.mod("s%07d", np.arange(len(times))), times.shape[1])
    return VisitLog.from_columns(source, times.ravel(), changed.ravel().tolist(), time_unit="d")


def random_times(rng, sources, visits, gap):
    start = MONDAY + 7 * rng.random((sources, 1))
    gaps = rng.exponential(gap, (sources, visits)) + 1e-4
    return np.hstack([start, start + np.cumsum(gaps, axis=1)])


def recovery(rng, visits, repeats):
    """Mean estimated rate per hour by day and by night, where the truth is .15 and .01."""
    day = (HOURS >= 8) & (HOURS < 20)
    season = Season(np.where(day, 0.15, 0.01), bins="hour-of-day")
    rate = 24 * 0.08
    found = []
    for _ in range(repeats):
        log = visited(rng, season, [rate], random_times(rng, 1, visits, 6 / 24))
        answer = estimate_seasons(log, "hour-of-day", significance=1)
        hourly = answer.season.weights * answer.rate_per_day[0] / 24
        found.append((hourly[day].mean(), hourly[~day].mean()))
    return np.mean(found, axis=0), np.std(found, axis=0)


def flat_p_values(rng, repeats, visits):
    """P-values of "no season" for sources that have none; they should be uniform."""
    clock = WallClock("hour-of-day")
    flat, priors = Season(np.ones(24), bins="hour-of-day"), smooth_priors(clock)
    logs = (visited(rng, flat, [2.0], random_times(rng, 1, visits, 6 / 24)) for _ in range(repeats))
    return np.array(
        [flat_p_value(Likelihood(ObservedWindows.from_log(log, clock)), priors) for log in logs]
    )


def office_delay(rng, *, learning_days=60, days=2000, rate=3.0, visits=8):
    """Mean hours from update to visit: planned from an estimated season, and evenly spaced.

    The season is learned from `visits` visits a day at random times; then updates are drawn and
    the next visit of the plan sees them.
    """
    truth = Season(OFFICE, bins="hour-of-day")
    n = learning_days * visits
    times = MONDAY + np.sort(rng.random((1, n)) * learning_days, axis=1)
    answer = estimate_seasons(visited(rng, truth, [rate], times), "hour-of-day")
    plan = best_times(answer.season, visits)
    updates = truth.process(rate).sample(days, seed=rng, phase=0.0).times % 1.0
    return delay(updates, plan.times), delay(updates, (np.arange(visits) + rng.random()) / visits)


def delay(updates, visits):
    visits = np.sort(visits)
    after = np.searchsorted(visits, updates)
    seen = np.append(visits, visits[0] + 1.0)[after]
    return 24 * float(np.mean(seen - updates))


def speed(rng, windows):
    season = Season(OFFICE_WEEK)
    sources = max(1, windows // 1000)
    times = random_times(rng, sources, min(windows, 1000), 0.5)
    log = visited(rng, season, rng.gamma(1.0, 1.0, sources), times)
    began = time.perf_counter()
    answer = estimate_seasons(log)
    return time.perf_counter() - began, answer


def history(folder, collection, most, days=90):
    """The last days of so many drawn sources that were updated in them; None if there are few."""
    table = pq.read_table(Path(folder) / f"{collection}.parquet", columns=["source_id", "t"])
    source, t = table["source_id"].to_numpy(), table["t"].to_numpy() / 86_400
    end = t.max()
    names, counts = np.unique(source[t > end - days], return_counts=True)
    names = names[counts >= 5]  # the others say nothing of hours
    if len(names) < 20:
        return None
    chosen = np.random.default_rng(0).permutation(names)[:most]
    kept = np.isin(source, chosen)
    trace = Trace.from_columns(source[kept], t[kept]).window(end - days, end)
    return trace.grouped("prefix") if any("/" in name for name in trace.sources) else trace


def replays(options):
    """Staleness of the policy with hours over that without, the second half scored."""
    every = sorted(p.stem for p in Path(options.traces).glob("*.parquet") if p.stem != "sources")
    print("staleness with hours / without (± standard error over seeds); visits a source and day")
    for collection in options.only or every:
        trace = history(options.traces, collection, options.sources)
        if trace is None:
            continue
        for evidence, budget in (("existence", 4), ("existence", 1), ("dated", 4), ("dated", 1)):
            ratios = []
            for seed in range(options.seeds):
                answer = simulate(
                    trace,
                    [ObservantPolicy(hours=False, name="even"), "observant"],
                    budget=budget * len(trace),
                    evidence=evidence,
                    score_from="half",
                    seeds=[seed + 1],
                )
                stale = [1 - answer[name].metrics["freshness"] for name in ("observant", "even")]
                ratios.append(stale[0] / stale[1])
            error = np.std(ratios, ddof=1) / np.sqrt(len(ratios)) if len(ratios) > 1 else np.nan
            print(
                f"{collection:22} {len(trace):5} sources  {evidence:9} {budget:3}  "
                f"{np.mean(ratios):.3f} ±{error:.3f}",
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--traces", help="a folder of real histories")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sources", type=int, default=150, help="of each collection, drawn")
    parser.add_argument("--only", nargs="*", help="these collections")
    options = parser.parse_args()
    if options.traces:
        replays(options)
        return
    rng = np.random.default_rng(1)
    print("day .15 and night .01 per hour, a visit every 6 h: mean estimate (spread)")
    for visits, (day, night) in RECOVERY.items():
        mean, spread = recovery(rng, visits, max(2, options.repeats // 5))
        print(
            f"  {visits:5} visits  day {mean[0]:.3f} ({spread[0]:.3f})  night {mean[1]:.4f} "
            f"({spread[1]:.4f})  plain EM {day}/{night}",
            flush=True,
        )
    rng = np.random.default_rng(2)
    for visits in (100, 400):
        p = flat_p_values(rng, 10 * options.repeats, visits)
        shares = ", ".join(
            f"{100 * np.mean(p < x):.1f} % below {x}" for x in (0.01, 0.05, 0.1, 0.5)
        )
        print(f"p-values of {len(p)} flat sources, {visits} visits each: {shares}", flush=True)
    rng = np.random.default_rng(3)
    found = np.array([office_delay(rng) for _ in range(max(2, options.repeats // 5))])
    print(
        f"office hours, 8 visits a day, season from 60 days of visits: mean delay "
        f"{found[:, 0].mean():.2f} h (worst {found[:, 0].max():.2f}), evenly "
        f"{found[:, 1].mean():.2f} h",
        flush=True,
    )
    speed(rng, 2000)  # compile
    seconds, answer = speed(rng, options.windows)
    error = np.log(answer.season.weights / Season(OFFICE_WEEK).weights)
    print(
        f"{options.windows:,} windows, 168 bins: {seconds:.1f} s, error of the shape "
        f"{100 * np.sqrt(np.mean(error**2)):.0f} %"
    )


if __name__ == "__main__":
    main()
