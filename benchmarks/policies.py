"""Which policy wins on real histories, by how much, and what each ingredient of ours adds.

    python -m benchmarks.policies --traces FOLDER --output rows.jsonl
    python -m benchmarks.policies --traces FOLDER --short
    python -m benchmarks.policies --traces FOLDER --objective detected --budget 0.1
    python -m benchmarks.policies --traces FOLDER --evidence dated --collections pkg-scoop

FOLDER holds one Parquet file a collection (columns source_id and t, in seconds) and, if there is
one, sources.parquet (source_id, collection, obs_start, obs_end in seconds: when a source was there
to be seen). Replayed is the last year of each collection, with the sources that were there from its
beginning to its end. The second half of the year is scored; in the first, policies learn (changes
detected are counted over the whole year). Sources are grouped by the folder in their name.
Collections with fewer than 300 such sources, or twenty days, are left out.

The whole of it (three budgets, two kinds of evidence, five seeds, all rivals) takes many hours;
cells that --output holds already are not run again. `--short` runs collections of at most 1,500
sources at two budgets, existence only, two seeds, with the rivals that are best elsewhere and
without leaving out ingredients (nor does `--whole`). `--bound` adds our policy with the true mix of
rates given instead of learned: what no way to learn a better prior can go beyond.

A third of the collections is kept aside: every third by name. Parameters are chosen on the others,
and both parts are reported. A cell (a collection, a budget, a kind of evidence) is won or lost
against the best rival in it where the difference is beyond two standard errors over the seeds.

Every policy spends the same, a visit a slot. Rules of crawlers run with both queues (see
`observant.simulation.replay`) and count with the better one: they are given the benefit of looking
back. The tables are in Markdown; ± is a standard error over the seeds.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

from observant.estimation.belief import Likelihoods
from observant.estimation.evidence import Evidence
from observant.planning.policy import ObservantPolicy, make_scheduler
from observant.planning.rivals import RULES
from observant.simulation import simulate
from observant.simulation.comparison import METRICS
from observant.simulation.traces import Trace

__all__ = ["collections", "known_mix", "main", "observed", "run", "study", "trace_of"]

YEAR = 365.0
LEAST_SOURCES, LEAST_DAYS = 300, 20.0
SECONDS = 86_400.0

PLANNERS = (
    *("cho-naive", "cho-improved", "cho-square-root"),
    *("proportional", "lambda_crawl", "bias-reduced-plan", "pooled-plan"),
)
"""Policies that estimate rates and divide the budget by them."""
RIVALS = (*PLANNERS, *RULES)
BEST_RIVALS = ("lambda_crawl", "bias-reduced-plan", "pooled-plan", "cho-square-root")
"""Those that are ahead of the others in most cells."""
OURS = "observant"
KNOWS = "knows the mix"
WITHOUT = {
    "siblings": ObservantPolicy(siblings=False, name="without siblings"),
    "drift": ObservantPolicy(drift=np.inf, name="without drift"),
    "ages": ObservantPolicy(ages=False, name="without ages"),
    "least share": ObservantPolicy(least_share=0.0, name="without least share"),
}


# -- the histories --------------------------------------------------------------------------------


def collections(folder):
    """Names of the collections in a folder."""
    return sorted(path.stem for path in Path(folder).glob("*.parquet") if path.stem != "sources")


def kept_aside(collection, folder):
    """Whether parameters must not be chosen on a collection: every third by name."""
    return collections(folder).index(collection) % 3 == 1


def trace_of(folder, collection, *, slack=0.0):
    """The trace of a collection with its last year as the window; None if it is too small.

    The window ends `slack` days before the collection does. A collection may be made of several
    repositories, and without slack only the one that was read last has sources up to the end.
    """
    import pyarrow.parquet as pq

    table = pq.read_table(Path(folder) / f"{collection}.parquet", columns=["source_id", "t"])
    source, t = table["source_id"].to_numpy(), table["t"].to_numpy() / SECONDS
    names, code = np.unique(source, return_inverse=True)
    seen_from, seen_to = observed(folder, collection, names, code, t)
    end = seen_to.max() - slack
    start = max(end - YEAR, seen_from.min())
    there = (seen_from <= start) & (seen_to >= end - 1 / SECONDS)
    if there.sum() < LEAST_SOURCES or end - start < LEAST_DAYS:
        return None
    kept = there[code] & (t <= end)
    trace = Trace.from_columns(source[kept], t[kept]).window(start, end)
    return trace.grouped("prefix") if any("/" in name for name in trace.sources) else trace


def observed(folder, collection, names, code, t):
    """When each source was there to be seen."""
    import pyarrow.parquet as pq

    path = Path(folder) / "sources.parquet"
    first = np.full(len(names), np.inf)
    np.minimum.at(first, code, t)
    if not path.exists():
        return first, np.full(len(names), t.max())
    table = pq.read_table(path, filters=[("collection", "=", collection)])
    if not len(table):
        return first, np.full(len(names), t.max())
    listed = table["source_id"].to_numpy()
    order = np.argsort(listed)
    place = order[np.searchsorted(listed, names, sorter=order)]
    if not (listed[place] == names).all():
        sys.exit(f"{path}: not every source of {collection} is listed")
    return (table[column].to_numpy()[place] / SECONDS for column in ("obs_start", "obs_end"))


def known_mix(trace, gap):
    """The mix of rates, of the collection and of its larger groups, as a year shows it: learned in
    the same way as ever, but from visits to all sources, `gap` days apart, up to the end.
    """
    visits = np.arange(trace.start, trace.end + 1e-9, gap)
    owner = np.repeat(np.arange(len(trace)), trace.updates.counts)
    window = np.searchsorted(visits, trace.updates.times) - 1
    inside = (window >= 0) & (window < len(visits) - 1)
    changed = np.zeros((len(trace), len(visits) - 1), bool)
    changed[owner[inside], window[inside]] = True
    seen = Likelihoods.of(Evidence.from_gaps(np.full(changed.shape, gap), changed), np.inf)
    scheduler = make_scheduler(1.0)
    scheduler.add(
        range(len(trace)),
        group=None if trace.groups is None else [trace.groups[g] for g in trace.group],
        likelihood=[seen.pack(row) for row in range(len(trace))],
    )
    scheduler.learn_prior()
    return scheduler.prior


# -- the study ------------------------------------------------------------------------------------


def study(
    trace, *, budget, objective, evidence, seeds, rivals=RIVALS, ingredients=True, bound=False
):
    """Scores of every policy on one trace: name → array over the seeds; the gap closed; and how
    many times the visits uniform visiting would need (not of rules).
    """
    rules = [name for name in rivals if name in RULES]
    planners = [name for name in rivals if name not in RULES]
    options = {
        "budget": budget * len(trace),
        "objective": objective,
        "evidence": evidence,
        "start": trace.start,
        "end": trace.end,
        # Changes that wait for a visit at the border of the halves would count for the second.
        "score_from": "start" if objective == "detected" else "half",
        "seeds": range(1, seeds + 1),
        "jobs": 1,
    }
    ours = [OURS]
    if ingredients:
        ours += [WITHOUT["siblings"], WITHOUT["drift"], WITHOUT["least share"]]
    if ingredients and evidence != "existence":
        ours.append(WITHOUT["ages"])
    if bound:
        ours.append(ObservantPolicy(prior=known_mix(trace, 1 / budget), name=KNOWS))
    found = simulate(trace, [*ours, *planners], visits_saved=True, **options)
    saved = {result.policy: result.visits_saved for result in found.results}
    scores = _scores(found)
    if rules:
        queues = [
            _scores(simulate(trace, rules, queue=queue, **options)) for queue in ("due", "share")
        ]
        for rule in rules:
            scores[rule] = max((by[rule] for by in queues), key=np.mean)
    low, high = scores["uniform"], scores["clairvoyant"]
    with np.errstate(divide="ignore", invalid="ignore"):
        gaps = {name: (score - low) / (high - low) for name, score in scores.items()}
    return scores, gaps, saved


def _scores(comparison):
    metric = comparison.metric
    return {
        result.policy: np.array([score.summary()[metric] for score in result.scores])
        for result in comparison.results
    }


def run(
    folder,
    *,
    budgets=(0.1, 0.02),
    objectives=("freshness", "detected"),
    evidence=("existence", "dated"),
    chosen=None,
    seeds=2,
    rivals=RIVALS,
    slack=0.0,
    most=None,
    ingredients=True,
    bound=False,
    done=(),
    report=lambda _row: None,
):
    """A row for each collection, objective, evidence and budget that is not done already."""
    rows = list(done)
    cells = {(r["collection"], r["objective"], r["evidence"], r["budget"]) for r in rows}
    for collection in chosen or collections(folder):
        trace = trace_of(folder, collection, slack=slack)
        if trace is None or (most is not None and len(trace) > most):
            continue
        for objective in objectives:
            for kind in evidence:
                for budget in budgets:
                    if (collection, objective, kind, budget) in cells:
                        continue
                    began = time.perf_counter()
                    scores, gaps, saved = study(
                        trace,
                        budget=budget,
                        objective=objective,
                        evidence=kind,
                        seeds=seeds,
                        rivals=rivals,
                        ingredients=ingredients,
                        bound=bound,
                    )
                    row = {
                        "collection": collection,
                        "sources": len(trace),
                        "kept_aside": kept_aside(collection, folder),
                        "objective": objective,
                        "evidence": kind,
                        "budget": budget,
                        "scores": {name: score.tolist() for name, score in scores.items()},
                        "gaps": {name: gap.tolist() for name, gap in gaps.items()},
                        "saved": saved,
                        "seconds": time.perf_counter() - began,
                    }
                    rows.append(row)
                    report(row)
    return rows


# -- the tables -----------------------------------------------------------------------------------


def tables(rows):
    """Markdown: for every objective, evidence and budget three tables, then where ours loses."""
    parts = []
    settings = list(dict.fromkeys((r["objective"], r["evidence"], r["budget"]) for r in rows))
    for setting in settings:
        objective, evidence, budget = setting
        some = [r for r in rows if (r["objective"], r["evidence"], r["budget"]) == setting]
        parts += [
            f"## {METRICS[objective]}, {evidence}, {budget:g} visits per source and day",
            _winners(some),
            *([_ingredients(some)] if WITHOUT["drift"].name in some[0]["gaps"] else []),
            *([_bound(some)] if all(KNOWS in row["scores"] for row in some) else []),
            _everybody(some),
        ]
    return "\n\n".join([_summary(rows, settings), *parts, _losses(rows)])


def staleness(row, name):
    """What is stale, or missed, over that of uniform visits; one for each seed."""
    by_policy = {
        who: np.array(row["scores"][who])
        if row["objective"] in {"age", "delay"}
        else 1 - np.array(row["scores"][who])
        for who in ("uniform", name)
    }
    return by_policy[name] / by_policy["uniform"]


def _summary(rows, settings):
    """Staleness relative to uniform visits, and cells won and lost; both parts by themselves."""
    titles = (
        *("cells", "observant", "best rival on average", "its", "clairvoyant", "visits saved"),
        *("won", "lost", "undecided", "below uniform"),
    )
    lines = [
        "## Staleness relative to uniform visits",
        "",
        f"| objective, evidence, budget | part | {' | '.join(titles)} |",
        "|---|---|" + "--:|" * len(titles),
    ]
    for setting in settings:
        some = [r for r in rows if (r["objective"], r["evidence"], r["budget"]) == setting]
        for part, own in (
            ("all", some),
            ("chosen on", [r for r in some if not r["kept_aside"]]),
            ("kept aside", [r for r in some if r["kept_aside"]]),
        ):
            if own:
                name = ", ".join(map(str, setting)) if part == "all" else ""
                lines.append(f"| {name} | {part} | {' | '.join(_summary_cells(own))} |")
    return "\n".join(lines)


def _summary_cells(rows):
    def mean(name):
        return float(np.mean([staleness(row, name).mean() for row in rows]))

    rivals = [
        n for n in _strangers(rows[0]) if n != "uniform" and all(n in r["scores"] for r in rows)
    ]
    best = min(rivals, key=mean, default="uniform")
    leads = [staleness(row, _best(row)) - staleness(row, OURS) for row in rows]
    below = [1 - staleness(row, OURS) for row in rows]
    saved = [row["saved"][OURS] for row in rows]
    return (
        str(len(rows)),
        f"**{mean(OURS):.3f}**",
        best,
        f"{mean(best):.3f}",
        f"{mean('clairvoyant'):.3f}",
        f"{np.nanmean(saved):.2f}" if np.isfinite(saved).any() else "",
        str(sum(_beyond(lead) > 0 for lead in leads)),
        str(sum(_beyond(lead) < 0 for lead in leads)),
        str(sum(_beyond(lead) == 0 for lead in leads)),
        str(sum(_beyond(lead) < 0 for lead in below)),
    )


def _beyond(differences):
    """The sign of a mean that is beyond two standard errors; of one seed, nothing is known."""
    if len(differences) < 2:
        return 0
    error = np.std(differences, ddof=1) / np.sqrt(len(differences))
    return int(np.sign(np.mean(differences))) if abs(np.mean(differences)) > 2 * error else 0


def _strangers(row):
    """Policies that are not ours and do not know the future."""
    mine = {OURS, KNOWS, "clairvoyant", *(policy.name for policy in WITHOUT.values())}
    return [name for name in row["scores"] if name not in mine]


def _best(row):
    return max(_strangers(row), key=lambda name: np.mean(row["scores"][name]))


def _winners(rows):
    titles = ("uniform", "best rival", "its", "observant", "clairvoyant", "rival's gap", "our gap")
    lines = [
        f"| collection | sources | {' | '.join(titles)} |",
        "|---|--:|--:|---|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        scores, gaps, best = row["scores"], row["gaps"], _best(row)
        lines.append(
            f"| {row['collection']} | {row['sources']:,} | {_mean(scores['uniform'])} | {best} "
            f"| {_mean(scores[best])} | {_with_error(scores[OURS], 4)} "
            f"| {_mean(scores['clairvoyant'])} | {_mean(gaps[best], 2)} "
            f"| **{_with_error(gaps[OURS], 2)}** |"
        )
    return "\n".join(lines)


def _ingredients(rows):
    """Gap closed with everything, and with one ingredient left out."""
    names = [p.name for p in WITHOUT.values() if p.name in rows[0]["gaps"]]
    lines = [
        "Gap closed when an ingredient is left out:",
        "",
        f"| collection | observant | {' | '.join(names)} |",
        "|---|" + "--:|" * (1 + len(names)),
    ]
    for row in rows:
        cells = [_with_error(row["gaps"][name], 2) for name in (OURS, *names)]
        lines.append(f"| {row['collection']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _bound(rows):
    """Staleness relative to uniform visits with a prior that is learned, and one that is true."""
    names = (OURS, KNOWS, "clairvoyant")
    lines = [
        f"| collection, staleness | {' | '.join(names)} |",
        "|---|" + "--:|" * len(names),
        *(
            f"| {row['collection']} "
            f"| {' | '.join(_with_error(staleness(row, name), 3) for name in names)} |"
            for row in rows
        ),
    ]
    means = [_mean([staleness(row, name).mean() for row in rows], 3) for name in names]
    return "\n".join([*lines, f"| mean | {' | '.join(means)} |"])


def _everybody(rows):
    """Gap closed of all, a column a collection."""
    lines = [
        "Gap closed of every policy that does not know the future:",
        "",
        f"| policy | {' | '.join(row['collection'] for row in rows)} |",
        "|---|" + "--:|" * len(rows),
    ]
    for name in (*_strangers(rows[0]), OURS):
        cells = [_mean(row["gaps"][name], 2) for row in rows]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _losses(rows):
    lines = ["## Where ours is not the best", ""]
    for row in rows:
        own = np.array(row["scores"][OURS])
        for name in _strangers(row):
            lead = np.array(row["scores"][name]) - own
            if lead.mean() > 0:
                lines.append(
                    f"- {row['collection']}, {row['objective']}, {row['evidence']}, "
                    f"{row['budget']:g}: {name} is ahead by {_with_error(lead, 4)}"
                )
    return "\n".join(lines if len(lines) > 2 else [*lines, "Nowhere."])


def _mean(values, digits=4):
    return f"{np.mean(values):.{digits}f}"


def _with_error(values, digits):
    if len(values) < 2:
        return _mean(values, digits)
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{_mean(values, digits)} ±{error:.{digits}f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traces", type=Path, help="folder with a Parquet file a collection")
    parser.add_argument(
        "--budget",
        type=float,
        nargs="+",
        help="visits per source and day",
    )
    parser.add_argument("--objective", nargs="+", default=["freshness"], choices=METRICS)
    parser.add_argument(
        "--evidence",
        nargs="+",
        choices=["existence", "dated", "mixed"],
    )
    parser.add_argument("--short", action="store_true", help="a part that takes half an hour")
    parser.add_argument("--whole", action="store_true", help="leave out no ingredient of ours")
    parser.add_argument("--bound", action="store_true", help="ours with the true mix of rates too")
    parser.add_argument("--collections", nargs="+", help="all that are large enough unless told")
    parser.add_argument("--seeds", type=int, help="5 by default")
    parser.add_argument("--rivals", nargs="+", choices=RIVALS, help="all by default")
    parser.add_argument("--slack", type=float, default=0.0, help="days left out at the end")
    parser.add_argument("--output", type=Path, help="go on with the rows of this file, JSON lines")
    parser.add_argument("--read", type=Path, help="run nothing: tables of rows from --output")
    options = parser.parse_args()
    short = options.short
    options.budget = options.budget or ([0.1, 0.02] if short else [0.1, 0.02, 0.5])
    options.evidence = options.evidence or (["existence"] if short else ["existence", "dated"])
    options.seeds = options.seeds or (2 if short else 5)
    options.rivals = options.rivals or (BEST_RIVALS if short else RIVALS)
    if not (options.read or options.traces):
        parser.error("give --traces, the folder with the collections")
    for name in options.collections or ():
        if options.traces and not (options.traces / f"{name}.parquet").exists():
            parser.error(f"there is no {name}.parquet in {options.traces}")

    def report(row):
        print(
            f"{row['collection']}, {row['objective']}, {row['evidence']}, {row['budget']:g}: "
            f"gap closed {_with_error(row['gaps'][OURS], 3)} ({row['seconds']:.0f} s)",
            file=sys.stderr,
            flush=True,
        )
        if options.output:
            with options.output.open("a") as file:
                file.write(json.dumps(row) + "\n")

    if options.read:
        rows = [json.loads(line) for line in options.read.read_text().splitlines()]
    else:
        done = options.output and options.output.exists() and options.output.read_text()
        rows = run(
            options.traces,
            budgets=options.budget,
            objectives=options.objective,
            evidence=options.evidence,
            chosen=options.collections,
            seeds=options.seeds,
            rivals=options.rivals,
            slack=options.slack,
            most=1500 if short else None,
            ingredients=not (short or options.whole),
            bound=options.bound,
            done=[json.loads(line) for line in (done or "").splitlines()],
            report=report,
        )
    print(tables(rows))


if __name__ == "__main__":
    main()
