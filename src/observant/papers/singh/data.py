"""Sources as Singh saw them: visited every τ, a change at the middle of the gap it was found in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.estimation.windows.consistent import consistent_windows
from observant.estimation.windows.points import UpdatePoints, from_updates
from observant.papers.result import Check, Experiment, Reproduction, real_traces
from observant.processes.updates import Updates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.estimation.windows.consistent import Windows
    from observant.papers.result import Options

PUBLISHED = ("cho", "matloff", "weibull", "duane")
"""The paper compares these four; its λ_norman is Matloff's."""

READINGS: dict[str, dict[str, Any]] = {
    "cumulative, each": {"measure": "cumulative", "limit": "each"},
    "gap, each": {"measure": "gap", "limit": "each"},
    "gap, points": {"measure": "gap", "limit": "points"},
}
"""What "threshold 3" may mean (errata S-5): the mean or the gap; 3 τ a point, or 3 points."""

FIRST_READING = "cumulative, each"
"""The one whose results come nearest to the paper's."""

_VISITS = 200
_SOURCES = 1_500


KINDS = ("constant", "regimes", "seasonal")


def datasets(options: Options) -> dict[str, UpdatePoints]:
    """Made-up sources of three kinds, and the real ones if there is a folder of traces."""
    found = {}
    for number, kind in enumerate(KINDS):
        rng = options.rng(number)
        rate = _daily_rates(kind, options.runs or _SOURCES, rng)
        changed = rng.random(rate.shape) < -np.expm1(-rate)
        times = np.broadcast_to(np.arange(_VISITS) + 0.5, changed.shape)[changed]
        found[kind] = _enough(Updates(times, np.append(0, np.cumsum(changed.sum(axis=1)))))
    if options.traces is not None:
        found["real"] = _visited(trace.updates for _, trace in real_traces(options.traces))
    return found


def histories(options: Options) -> dict[str, Updates]:
    """The same sources with all their updates, to the moment; real ones by collection."""
    found = {}
    for number, kind in enumerate(KINDS):
        rng = options.rng(number)
        rate = _daily_rates(kind, options.runs or _SOURCES, rng)
        counts = rng.poisson(rate)
        source, day = (np.repeat(axis.ravel(), counts.ravel()) for axis in np.indices(rate.shape))
        times = day + rng.random(len(day))
        order = np.lexsort((times, source))
        found[kind] = Updates(times[order], np.append(0, np.cumsum(counts.sum(axis=1))))
    if options.traces is not None:
        found |= {name: trace.updates for name, trace in real_traces(options.traces)}
    return found


def _daily_rates(kind: str, sources: int, rng: np.random.Generator) -> Any:
    """A rate for each source and day; of 200, 103 ± 46 have a change, as in Singh's table 1.

    ``constant``: one rate each. ``regimes``: every 30 to 60 days another rate, rising or falling
    as a power of time within. ``seasonal``: a quarter of the rate at weekends.
    """
    share = rng.beta(1.96, 1.85, sources)
    rate = np.tile(-np.log1p(-share)[:, None], (1, _VISITS))
    day = np.arange(_VISITS)
    if kind == "seasonal":
        week = np.where(day % 7 >= 5, 0.25, 1.0)
        return rate * week / week.mean()
    if kind == "regimes":
        lengths = rng.integers(30, 61, (sources, 8))
        ends = np.cumsum(lengths, axis=1)
        which = (day[None, :, None] >= ends[:, None, :]).sum(axis=2)
        at = np.arange(sources)[:, None]
        begin = np.concatenate([np.zeros((sources, 1), int), ends], axis=1)[at, which]
        shape = np.exp(rng.normal(0.0, 0.5, (sources, 9)))[at, which]
        level = np.exp(rng.normal(0.0, 0.6, (sources, 9)))[at, which]
        within = (day - begin + 0.5) / lengths[at, np.minimum(which, 7)]
        return rate * level * shape * within ** (shape - 1)
    return rate


def _visited(traces: Iterator[Updates]) -> UpdatePoints:
    """Every trace, visited twice per mean gap, which finds changes about as often as the paper.

    Of each source the latest 200 visits are kept, as many as the paper's longest record has.
    """
    times, counts = [], []
    for updates in traces:
        first, last = (
            updates.times[np.minimum(at, updates.times.size - 1)]
            for at in (updates.offsets[:-1], updates.offsets[1:] - 1)
        )
        period = np.maximum((last - first) / np.maximum(2 * (updates.counts - 1), 1), 1e-9)
        owner = updates.sources
        visit = np.ceil((last[owner] - updates.times) / period[owner] + 1e-9)
        kept = visit <= _VISITS
        kept[1:] &= (visit[1:] != visit[:-1]) | (owner[1:] != owner[:-1])
        times.append(_VISITS - visit[kept] + 0.5)
        counts.append(np.bincount(owner[kept], minlength=len(updates)))
    return _enough(Updates(np.concatenate(times), np.append(0, np.cumsum(np.concatenate(counts)))))


def _enough(updates: Updates) -> UpdatePoints:
    """Sources with four points or more after the first, as in the paper."""
    good = updates.counts >= 5
    times = updates.times[np.repeat(good, updates.counts)]
    return from_updates(Updates(times, np.append(0, np.cumsum(updates.counts[good]))))


def cut(points: UpdatePoints, reading: str) -> Windows:
    """Windows with the paper's threshold of 3, in units of τ."""
    return consistent_windows(points, threshold=3.0, unit=1.0, tolerance=0.0, **READINGS[reading])


@Experiment.named("singh-table-1", "Singh, table 1: the data", seconds=3, uses_traces=True)
def table_1(options: Options) -> Reproduction:
    """Updates seen of a page: least, most, mean and spread; ours beside those of the paper."""
    columns = ("pages", "least", "most", "mean", "standard deviation")
    printed = {"real": (26_972, 4, 57, 27, 11.46), "synthetic": (299_324, 4, 201, 103, 45.85)}
    updates = {"real": 744_385, "synthetic": 30_931_883}
    rows = [
        {"data": f"{k} (Singh)", **dict(zip(columns, v, strict=True))} for k, v in printed.items()
    ]
    found = {}
    for kind, points in datasets(options).items():
        seen = points.counts + 1
        values = len(seen), int(seen.min()), int(seen.max()), seen.mean(), seen.std()
        found[kind] = dict(zip(columns, values, strict=True))
        rows.append({"data": kind, **found[kind]})
    checks = [
        Check(
            f"{kind}: mean, from {updates[kind]:,} updates of all pages",
            str(mean),
            updates[kind] / pages,
            why="27.6 is cut off, not rounded (S-11)",
        )
        for kind, (pages, _, _, mean, _) in printed.items()
    ]
    error = 3 * found["constant"]["standard deviation"] / np.sqrt(found["constant"]["pages"])
    return Reproduction(
        checks=[
            *checks,
            Check(
                "synthetic: most updates in 200 accesses", "< 200", 201, why="one too many (S-9)"
            ),
            Check("ours, constant: mean (fitted to it)", None, found["constant"]["mean"], error),
        ],
        table=rows,
        notes=[
            (
                "the pages are gone; ours are drawn so that mean and spread are those of Singh's "
                "synthetic ones"
            ),
        ],
    )
