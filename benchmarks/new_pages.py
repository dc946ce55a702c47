"""What is known of a page before its first visit? Errors of its rate after 0, 1 and 3 visits.

    python -m benchmarks.new_pages --traces FOLDER

FOLDER is that of `benchmarks.policies`. Of every collection three in ten sources are new; the
others have had four visits, as far apart as an eighth of the window and at most 20 days. The rate
of a new source is guessed

    collection   from the mix of rates of all others,
    folder       from that of its folder, or the next one above with thirty sources (what the policy
                 does),
    address      from that of the sources whose addresses promise a like rate: a ridge regression of
                 log λ on folders, depth, type of file and words of the name, in up to twelve
                 classes with a mix each; the class of a source is found without what it has shown,

each time with the visits that the new source has had itself. Error is the root mean square of the
logarithm against the realised rate of the window, in days with updates. Means of three draws.
"""

import argparse
import re
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks.policies import collections, trace_of
from observant.estimation.belief import GRID
from observant.estimation.priors import fit_collection
from observant.planning.schedule.learning import priors_of_groups

__all__ = ["errors", "main", "shape_of"]

WAYS = ("collection", "folder", "address")
VISITS = (0, 1, 3)
RIDGE, MOST_SHAPES, CLASSES, FOLDS, DRAWS = 10.0, 400, 12, 5, 3
_LEAST = 30


def shape_of(name):
    """What an address shows: folders, depth, type of file, and words of its name.

    >>> shape_of("docs:guide/de/first-steps.md")
    ['depth 3', 'guide', 'guide/de', 'in guide', 'in de', '.md', 'first', 'steps', 'words 2']
    """
    *folders, last = name.partition(":")[2].split("/")
    stem, dot, kind = last.rpartition(".")
    words = re.findall(r"[a-z]+", re.sub("([a-z])([A-Z])", r"\1 \2", stem or last).lower())[:6]
    return [
        f"depth {len(folders) + 1}",
        *("/".join(folders[: k + 1]) for k in range(len(folders))),
        *(f"in {folder}" for folder in folders),
        *([f".{kind}"] if dot else []),
        *words,
        f"words {len(words)}",
    ]


def _shapes(names):
    shown = [set(shape_of(name)) for name in names]
    often = Counter(shape for one in shown for shape in one).most_common(MOST_SHAPES)
    kept = [shape for shape, many in often if 5 <= many < len(names)]
    return np.array([[shape in one for shape in kept] for one in shown], float)


def _folders(names):
    """The folder of each source that has thirty sources, as a number."""
    paths = [name.partition(":")[2].split("/")[:-1] for name in names]
    many = Counter("/".join(path[:k]) for path in paths for k in range(len(path) + 1))
    own = []
    for path in paths:
        depth = len(path)
        while depth and many["/".join(path[:depth])] < _LEAST:
            depth -= 1
        own.append("/".join(path[:depth]))
    return np.unique(own, return_inverse=True)[1]


def _likelihood(trace, start, gap, visits):
    owner = np.repeat(np.arange(len(trace)), trace.updates.counts)
    log = np.zeros((len(trace), len(GRID)))
    for k in range(visits):
        after = trace.updates.times - (start + k * gap)
        changed = np.bincount(owner[(after > 0) & (after <= gap)], minlength=len(trace)) > 0
        log += np.where(changed[:, None], np.log(-np.expm1(-GRID * gap)), -GRID * gap)
    return np.exp(log - log.max(axis=1, keepdims=True))


def _mean_log(prior, likelihood):
    share = prior * likelihood
    return share @ np.log(GRID) / share.sum(axis=1)


def _promised(shapes, known, seen, rng):
    """The log rate that an address promises, less the mean; from sources other than itself."""
    fold, promised = (
        np.where(known, rng.integers(FOLDS, size=len(known)), FOLDS),
        np.zeros(len(known)),
    )
    for part in range(FOLDS + 1):
        taught = known & (fold != part)
        x = shapes[taught]
        ridge = RIDGE * np.eye(shapes.shape[1])
        fitted = np.linalg.solve(x.T @ x + ridge, x.T @ (seen - seen[known].mean())[taught])
        promised[fold == part] = shapes[fold == part] @ fitted
    return promised


def errors(trace, seed=0):
    """A row for each number of visits, a column for each way to guess."""
    rng = np.random.default_rng(seed)
    days = trace.end - trace.start
    owner = np.repeat(np.arange(len(trace)), trace.updates.counts)
    inside = (trace.updates.times > trace.start) & (trace.updates.times <= trace.end)
    day = np.floor(trace.updates.times[inside] - trace.start)
    busy = np.unique(np.stack([owner[inside], day]), axis=1)[0].astype(int)
    truth = np.log((np.bincount(busy, minlength=len(trace)) + 0.5) / days)
    gap = min(20.0, days / 8)
    known = rng.random(len(trace)) >= 0.3
    seen = _likelihood(trace, trace.start, gap, 4)
    prior = fit_collection(seen[known]).weights
    shapes = _shapes(trace.sources)
    promised = _promised(shapes - shapes[known].mean(axis=0), known, _mean_log(prior, seen), rng)
    classes = max(2, min(CLASSES, int(known.sum()) // (2 * _LEAST)))
    edges = np.quantile(promised[known], np.linspace(0, 1, classes + 1)[1:-1])
    nobody = np.zeros(len(trace), int)
    priors = [
        priors_of_groups(seen[known], group[known], group.max() + 1, prior)[group]
        if group.any()
        else np.tile(prior, (len(trace), 1))
        for group in (nobody, _folders(trace.sources), np.searchsorted(edges, promised))
    ]
    new, rows = ~known, []
    for visits in VISITS:
        own = _likelihood(trace, trace.start + 4 * gap, gap, visits)[new]
        wrong = [_mean_log(one[new], own) - truth[new] for one in priors]
        rows.append([float(np.sqrt(np.mean(one**2))) for one in wrong])
    return np.array(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traces", type=Path, required=True, help="as for benchmarks.policies")
    parser.add_argument("--collections", nargs="+", help="all that have folders or words in names")
    options = parser.parse_args()
    titles = [f"{way}, {visits} visits" for visits in VISITS for way in WAYS]
    print(f"| collection | {' | '.join(titles)} |\n|---|{'--:|' * len(titles)}")
    found = []
    for collection in options.collections or collections(options.traces):
        trace = trace_of(options.traces, collection)
        if trace is None or not _shapes(trace.sources).size:
            continue  # too small, or its names are numbers
        found.append(np.mean([errors(trace, seed) for seed in range(DRAWS)], axis=0))
        cells = " | ".join(f"{one:.3f}" for one in found[-1].ravel())
        print(f"| {collection} | {cells} |", flush=True)
    cells = " | ".join(f"{one:.3f}" for one in np.mean(found, axis=0).ravel())
    print(f"| mean | {cells} |")


if __name__ == "__main__":
    main()
