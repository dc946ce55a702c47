"""Table 4: visiting when the next update is predicted; and how good the prediction itself is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.estimation.windows.consistent import consistent_windows
from observant.estimation.windows.points import UpdatePoints, from_updates
from observant.estimation.windows.prediction import next_after, roll_forward
from observant.estimation.windows.weibull_rate import log_sum
from observant.papers.result import Check, Experiment, Options, Reproduction
from observant.papers.singh.data import (
    FIRST_READING,
    KINDS,
    PUBLISHED,
    READINGS,
    cut,
    datasets,
    histories,
)
from observant.processes.updates import Updates

if TYPE_CHECKING:
    from observant.arrays import Floats
    from observant.estimation.windows.consistent import Windows


DEFAULT = "gap, points"
"""How observant cuts windows unless told otherwise."""


# -- table 4 --------------------------------------------------------------------------------------

_TABLE_4 = {
    "synthetic": {
        "cho": (94.9, 36.0, 0.64, 154.0),
        "matloff": (95.2, 36.3, 0.637, 153.0),
        "weibull": (74.1, 23.8, 0.762, 100.0),
        "duane": (91.2, 29.5, 0.7, 129.0),
    },
    "real": {
        "cho": (95.1, 41.5, 0.58, 155.0),
        "matloff": (95.5, 42.0, 0.58, 157.0),
        "weibull": (72.3, 30.9, 0.69, 100.0),
        "duane": (88.6, 36.4, 0.64, 133.0),
    },
}


@Experiment.named(
    "singh-table-4", "Singh, table 4: visiting at predicted times", seconds=10, uses_traces=True
)
def table_4(options: Options) -> Reproduction:
    """Observed and premature visits, precision and visits, and N(t)/t with as few visits."""
    rows, checks = [], []
    data = datasets(options)
    for done, (kind, points) in enumerate(data.items()):
        paper = _TABLE_4["real" if kind == "real" else "synthetic"]
        windows = cut(points, FIRST_READING)
        rolled = {
            name: roll_forward(windows, name, shortest=1.0)
            for name in (*PUBLISHED, "weibull-corrected", "count")
        }
        budget = rolled["weibull"].visits
        rolled["count, as few visits"] = _as_few(windows, budget)
        for name, answer in rolled.items():
            said = paper.get(name)
            rows.append(
                {
                    "data": kind,
                    "estimator": name,
                    "paper: observed %": said[0] if said else None,
                    "observed %": round(100 * answer.observed, 1),
                    "paper: premature %": said[1] if said else None,
                    "premature %": round(100 * answer.premature, 1),
                    "paper: precision": said[2] if said else None,
                    "precision": round(answer.precision, 3),
                    "paper: visits %": said[3] if said else None,
                    "visits %": round(100 * answer.visits / budget, 0),
                }
            )
        checks += [
            Check(
                f"{kind}: precision of {name}",
                str(paper[name][2]),
                round(rolled[name].precision, 3),
                within=3 * float(np.sqrt(0.25 / rolled[name].visits)),
                why="other data, and the paper does not say what a premature visit teaches",
            )
            for name in PUBLISHED
        ]
        options.done((done + 1) / len(data))
    return Reproduction(
        title="Visits at predicted times: observed, premature, precision, visits",
        checks=checks,
        table=rows,
        notes=(
            (
                "a visit comes 1/λ(tₙ) after the one before, at least one τ; the first window, at "
                "most 10 points of it, opens; a visit that finds something adds its date"
            ),
            "published visits of Duane on synthetic data: 134 by its own precision (erratum S-7)",
            "precision rewards visiting less: the last row gives N(t)/t the visits of Weibull",
        ),
    )


def _as_few(windows: Windows, visits: int) -> Any:
    """N(t)/t with its intervals stretched until it makes no more visits than that."""
    low, high = 1.0, 20.0
    for _ in range(12):
        middle = (low + high) / 2
        made = roll_forward(windows, "count", shortest=1.0, stretch=middle).visits
        low, high = (low, middle) if made <= visits else (middle, high)
    return roll_forward(windows, "count", shortest=1.0, stretch=high)


# -- ours: the next update, foretold ------------------------------------------------------------


@Experiment.named(
    "singh-next-update",
    "Singh, beyond: the next update foretold from the latest window, out of sample",
    seconds=10,
    uses_traces=True,
)
def next_update(options: Options) -> Reproduction:
    """Cut each history at a random place, foretell the next update, and score the prediction.

    The score is the logarithm of the probability density given to the gap that came, so no
    estimator is scored on what it was fitted to.
    """
    rows = []
    data = histories(options)
    for done, (kind, updates) in enumerate(data.items()):
        points, gap = _stopped(updates, options.rng(100 + done))
        if len(points):
            readings = READINGS if kind in KINDS else {DEFAULT: READINGS[DEFAULT]}
            rows += [_scored(kind, reading, points, gap) for reading in readings]
        options.done((done + 1) / len(data))
    return Reproduction(
        title="The next update, foretold from the latest window",
        table=rows,
        notes=(
            (
                "score: mean logarithm of the density that one constant rate gives the next gap; "
                "higher is better; the next three columns are gains over it, by the whole history "
                "or the latest window (size: its updates); in 90 %: came within that interval"
            ),
            "here the threshold is 3 mean gaps of the source, or 3 points, not 3 days",
            "the reading that observant uses by default was chosen on the real traces",
        ),
    )


def _stopped(updates: Updates, rng: np.random.Generator) -> tuple[UpdatePoints, Floats]:
    """Histories up to a random update, the ninth or later, and the gap to the next one."""
    good = updates.counts >= 10
    counts, first = updates.counts[good], updates.offsets[:-1][good]
    known = rng.integers(9, counts)
    rows = np.repeat(first - np.append(0, np.cumsum(known)[:-1]), known) + np.arange(known.sum())
    points = from_updates(Updates(updates.times[rows], np.append(0, np.cumsum(known))))
    gap = updates.times[first + known] - updates.times[first + known - 1]
    return points, np.maximum(gap, 1e-5)


def _scored(kind: str, reading: str, points: UpdatePoints, gap: Floats) -> dict[str, Any]:
    whole = consistent_windows(points, threshold=np.inf)
    windows = consistent_windows(points, **READINGS[reading])
    latest = windows.select(windows.is_last)
    constant = _score(whole, "count", gap).mean()
    _, low, high = next_after(latest, 0.9, "weibull")
    came = latest.origin + latest.end + gap
    return {
        "data": kind,
        "windows": reading,
        "sources": len(latest),
        "size": round(float(latest.n.mean()), 1),
        "score": round(float(constant), 3),
        "power law": round(float(_score(whole, "weibull", gap).mean() - constant), 3),
        "latest, constant": round(float(_score(latest, "count", gap).mean() - constant), 3),
        "latest, power law": round(float(_score(latest, "weibull", gap).mean() - constant), 3),
        "in 90 %": round(float(100 * np.mean((low <= came) & (came <= high))), 1),
    }


def _score(windows: Windows, model: str, gap: Floats) -> Floats:
    """Logarithm of the predictive density of the next gap; see `predict_next`."""
    n, s, end = windows.n, log_sum(windows), windows.end
    grown = np.log1p(gap / end)
    if model == "count":
        return np.asarray(np.log(n / end) - (n + 1) * grown)
    return np.asarray(np.log(n * (n - 1) / s) - n * np.log1p(n * grown / s) - np.log(end + gap))
