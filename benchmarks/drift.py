"""Rates that drift: how soon a jump is seen, and how well real sources are foretold.

    python -m benchmarks.drift [--traces FOLDER] [--sources N] [--seed N] [--figures FOLDER]

Jumps: the rate of every source becomes ten times or a tenth of what it was. The error is the mean
of |log(estimate / truth)|, at so many visits after the jump.

Traces: real sources are visited at random, knowing only whether there was a change. Each method
gives, before each visit, the probability that it sees one; the table shows the log loss. What a
method has to learn (prior, shares, season) it learns from one half of the sources, and is
tested on the other, and the other way round.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from observant import VisitLog
from observant.estimation.drift import METHODS, estimate_drift, prequential
from observant.estimation.drift.experts import Experts
from observant.estimation.evidence import Evidence
from observant.estimation.priors import fit_mixture, grid_likelihood, rate_grid

ENOUGH_FOR_A_SEASON = 20  # sources that have to agree on it
STAGES = {"before": (40, 60), "5-15": (65, 75), "20-30": (80, 90), "50-60": (110, 120)}


def jumps(sources=400, visits=60, factor=10.0, spread=1.0, regular=False, seed=0):
    """Gaps, outcomes and true rates of sources whose rate jumps after `visits` visits."""
    rng = np.random.default_rng(seed)
    before = 0.5 * np.exp(rng.normal(0.0, spread, (sources, 1)))
    after = before * np.where(rng.random((sources, 1)) < 0.5, factor, 1 / factor)
    rates = np.repeat(np.hstack([before, after]), visits, axis=1)
    gaps = np.ones(rates.shape) if regular else rng.exponential(1.0, rates.shape) + 1e-3
    return gaps, rng.random(rates.shape) < -np.expm1(-rates * gaps), rates


def jump_errors(gaps, changed, rates, prior=None):
    """|log(estimate / truth)| at each visit, of each method."""
    evidence = Evidence.from_gaps(gaps, changed)
    if prior is None:
        grid = rate_grid(evidence)
        prior = fit_mixture(grid_likelihood(evidence, grid), grid)
    errors = {}
    for method in (*METHODS, "auto"):
        experts = Experts.of(prior, method)
        experts = experts.learn(experts.follow(evidence).score)
        belief = experts.follow(evidence, each_visit=True).belief
        found = (belief @ np.log(prior.rates)).reshape(rates.shape)
        errors[method] = np.abs(found - np.log(rates))
    return errors


def on_jumps(seed=0):
    print("| visits | method | " + " | ".join(STAGES) + " |")
    print("|---" * (len(STAGES) + 2) + "|")
    for how in ("at random", "regular"):
        errors = jump_errors(*jumps(regular=how == "regular", seed=seed))
        for method, error in errors.items():
            shown = " | ".join(f"{error[:, a:b].mean():.2f}" for a, b in STAGES.values())
            print(f"| {how} | {method} | {shown} |")
    print("\nno jump (the rates stay as they are):\n")
    gaps, changed, rates = jumps(factor=1.0, seed=seed)
    for method, error in jump_errors(gaps, changed, rates).items():
        print(f"- {method}: {error[:, 110:120].mean():.2f}")


def visit_traces(folder, name, sources, seed):
    """Visit logs of the sources of a collection, with existence of change only.

    Each source is visited by a Poisson process of its own, with 1 to 10 visits in the mean time
    between its updates, at most 300 in a row, within the time it was observed.
    """
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    rng = np.random.default_rng([seed, *name.encode()])
    about = pq.read_table(folder / "sources.parquet")
    about = about.filter(pc.equal(about["collection"], name)).sort_by("source_id")
    keep = np.unique(np.linspace(0, len(about) - 1, sources).astype(int))
    about = about.take(keep)
    table = pq.read_table(folder / f"{name}.parquet")
    updates = {}
    ids = np.array(table["source_id"].to_pylist(), object)
    times = table["t"].to_numpy() / 86_400
    begins = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    for begin, end in zip(begins, [*begins[1:], len(ids)], strict=True):
        updates[ids[begin]] = times[begin:end]
    names, when, seen = [], [], []
    for row in about.to_pylist():
        own = updates[row["source_id"]]
        start, stop = row["obs_start"] / 86_400, row["obs_end"] / 86_400
        gap = (stop - start) / len(own) / 10 ** rng.uniform(0, 1)
        longest = 300 * gap
        if stop - start > longest:
            start = rng.uniform(start, stop - longest)
            stop = start + longest
        visits = start + np.cumsum(np.maximum(rng.exponential(gap, 400), 1e-4))
        visits = visits[visits < stop]
        if len(visits) < 5:
            continue
        names += [row["source_id"]] * len(visits)
        when.append(visits)
        seen.append(np.diff(np.searchsorted(own, visits), prepend=0) > 0)
    shift = 1.0 if np.concatenate(when).min() < 1 else 0.0  # relative times begin at 0
    return VisitLog.from_columns(
        names, np.concatenate(when) + shift, np.concatenate(seen), time_unit="d"
    )


def learnt_season(log, prior, comparisons=5000):
    """A season found in some of the often visited sources, if it foretells the others better.

    A season shows in gaps shorter than itself, so only the sources with the shortest gaps are
    asked: every second one for the shape, the rest whether it holds for them.
    """
    from observant.estimation.season import estimate_seasons

    if len(log.sources) < ENOUGH_FOR_A_SEASON:
        return None
    visits = log.visits_per_source
    span = log.time[log.offsets[1:] - 1] - log.time[log.offsets[:-1]]
    order = np.argsort(span / visits)
    order = order[: 2 + np.searchsorted(np.cumsum(visits[order]), comparisons)]
    fitted, judging = np.zeros((2, len(visits)), bool)
    fitted[order[::2]], judging[order[1::2]] = True, True
    season = estimate_seasons(log.select(fitted)).season
    judge = log.select(judging)
    plain, seasonal = (estimate_drift(judge, prior=prior, season=shape) for shape in (None, season))
    return season if seasonal.score.sum() > plain.score.sum() else None


def halves(log):
    """Predictions of every source, learnt from the other half of the sources."""
    odd = np.arange(len(log.sources)) % 2 == 1
    found, seasons = {}, 0
    for test in (odd, ~odd):
        teacher, pupil = log.select(~test), log.select(test)
        prior = estimate_drift(teacher, "constant").posterior.prior
        season = learnt_season(teacher, prior)
        seasons += season is not None
        for method in (*METHODS, "auto"):
            learnt = estimate_drift(teacher, method, prior=prior)
            told = prequential(pupil, learnt=learnt)
            found.setdefault(method, []).append(told)
            if method in {"constant", "auto"}:
                if season is not None:
                    learnt = estimate_drift(teacher, method, prior=prior, season=season)
                    told = prequential(pupil, learnt=learnt)
                found.setdefault(f"{method}, season", []).append(told)
    return found, seasons


def on_traces(folder, sources, seed):
    columns = [*METHODS, "auto", "constant, season", "auto, season"]
    print("| collection | sources | visits | " + " | ".join(columns) + " | seasons | gain |")
    print("|---" * (len(columns) + 5) + "|")
    better, total = dict.fromkeys(columns, 0), 0
    for file in sorted(folder.glob("*.parquet")):
        if file.stem == "sources":
            continue
        log = visit_traces(folder, file.stem, sources, seed)
        found, seasons = halves(log)
        losses = {
            name: np.concatenate([part.losses for part in parts]) for name, parts in found.items()
        }
        mean = {name: float(loss.mean()) for name, loss in losses.items()}
        best = min(mean.values())
        gains = [a.gain_over(b) for a, b in zip(found[columns[-1]], found["constant"], strict=True)]
        visits = np.array([len(part) for part in found["constant"]])
        gain = sum(g * n for (g, _), n in zip(gains, visits, strict=True)) / visits.sum()
        spread = np.sqrt(sum((s * n) ** 2 for (_, s), n in zip(gains, visits, strict=True)))
        shown = " | ".join(
            f"**{mean[c]:.4f}**" if mean[c] == best else f"{mean[c]:.4f}" for c in columns
        )
        print(
            f"| {file.stem} | {len(log.sources):,} | {visits.sum():,} | {shown} "
            f"| {seasons} | {gain:.4f} ± {spread / visits.sum():.4f} |",
            flush=True,
        )
        total += 1
        for c in columns:
            better[c] += mean[c] < mean["constant"]
    print("\nseasons: halves in which one was found that held for other sources")
    print("gain: of auto, season over constant, with its standard error (sources independent)")
    told = ", ".join(f"{c} on {better[c]}" for c in columns[1:])
    print(f"lower log loss than the constant rate, of {total} collections: {told}")


def draw(folder, seed):
    """The pictures of the documentation."""
    from observant.figures import save
    from observant.figures.drift import rate_path_figure, reliability_figure

    gaps, changed, rates = jumps(sources=200, seed=seed)
    times = 20_000 + np.hstack([np.zeros((200, 1)), np.cumsum(gaps, axis=1)])
    seen = np.hstack([np.full((200, 1), None), changed])
    names = np.repeat(np.char.mod("page %03d", np.arange(200)), times.shape[1])
    log = VisitLog.from_columns(names, times.ravel(), seen.ravel(), time_unit="d")
    faster = np.flatnonzero(rates[:, -1] > rates[:, 0])[3]
    save(
        rate_path_figure(estimate_drift(log).path(f"page {faster:03d}")),
        str(folder / "drift-path.svg"),
    )
    told = {method: prequential(log, method) for method in ("auto", "constant")}
    save(reliability_figure(told), str(folder / "drift-reliability.svg"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, help="folder of update histories")
    parser.add_argument("--sources", type=int, default=200, help="of each collection at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figures", type=Path, help="folder to draw the pictures into")
    options = parser.parse_args()
    started = time.perf_counter()
    if options.figures:
        draw(options.figures, options.seed)
    elif options.traces:
        on_traces(options.traces, options.sources, options.seed)
    else:
        on_jumps(options.seed)
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
