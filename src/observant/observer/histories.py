"""Visits that others have made: they go into the store, and teach the schedule, like our own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.observer.scheduling import GRID, quantiles
from observant.store.visit import Entry, Outcome, Posterior, Recorded, Visit
from observant.times import MICROSECONDS, MICROSECONDS_PER_DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from observant.store import Store
    from observant.visits import VisitLog

__all__ = ["evidence_of", "take_in"]

_AT_ONCE = 2_000
_BROAD = 2.5


def take_in(
    store: Store,
    log: VisitLog,
    names: Mapping[str, str],
    progress: Callable[[int], object] | None = None,
) -> int:
    """Record the visits of a log under the names that its sources have in the store.

    Sources without a name are passed over, visits that are there already too; returns how many
    were new. Digests are not kept: those of other tools cannot be compared with ours, so the
    observer's first own visit compares with nothing. What the visits teach about the rate is
    kept with the last of them, unless the store knows the source by visits of its own.
    """
    seconds = log.time / MICROSECONDS
    good = log.succeeded
    sizes = log.extras["bytes"].to_pylist() if "bytes" in log.extras else None
    status = log.extras["status"].to_pylist() if "status" in log.extras else None
    taken = 0
    waiting: list[Entry] = []

    def commit() -> None:
        nonlocal taken
        taken += sum(told is Recorded.NEW for told in store.visits.record_many(waiting))
        if progress is not None:
            progress(len(waiting))
        waiting.clear()

    for i, source in enumerate(log.sources.to_pylist()):
        name = names.get(source)
        if name is None:
            continue
        first, last = int(log.offsets[i]), int(log.offsets[i + 1])
        untouched = store.sources.get(name).visited_at is None
        for row in range(first, last):
            changed = int(log.changed[row])
            outcome = _OUTCOMES.get(changed, "first") if good[row] else "failed"
            entry = Entry(
                visit=Visit(
                    source=name,
                    started_at=float(seconds[row]),
                    ended_at=float(seconds[row]),
                    outcome=outcome,
                    changed=None if changed < 0 else bool(changed),
                    status=None if status is None else status[row],
                    bytes=None if sizes is None else sizes[row],
                )
            )
            if row == last - 1 and untouched:
                entry = Entry(visit=entry.visit, posterior=_posterior(log, i))
            waiting.append(entry)
            if len(waiting) >= _AT_ONCE:
                commit()
    if waiting:
        commit()
    return taken


_OUTCOMES: dict[int, Outcome] = {1: "changed", 0: "same"}


def evidence_of(log: VisitLog, source: int) -> NDArray[np.float64]:
    """Log-likelihood of each rate of the schedule's grid, for one source of a log.

    A visit that compares with the visit t days before is worth exp(−λt) if it found no change,
    and 1 − exp(−λt) if it did.
    """
    rows = slice(int(log.offsets[source]), int(log.offsets[source + 1]))
    seen = log.succeeded[rows]
    time, changed = log.time[rows][seen], log.changed[rows][seen]
    gaps = np.diff(time) / MICROSECONDS_PER_DAY
    quiet, busy = gaps[changed[1:] == 0], gaps[changed[1:] == 1]
    likelihood = -GRID * quiet.sum()
    if len(busy):
        likelihood = likelihood + np.log(-np.expm1(-np.outer(busy, GRID))).sum(axis=0)
    return np.asarray(likelihood)


def _posterior(log: VisitLog, source: int) -> Posterior:
    """What the observer would have kept, had it made these visits, before it learned a prior."""
    likelihood = evidence_of(log, source)
    likelihood = np.clip(likelihood - likelihood.max(), -1e30, 0)
    prior = -0.5 * (np.log(GRID) / _BROAD) ** 2
    weight = np.exp(likelihood + prior - (likelihood + prior).max())
    low, middle, high = quantiles(weight[None, :] / weight.sum(), (0.025, 0.5, 0.975))[0]
    return Posterior(
        data=likelihood.astype(np.float32).tobytes(),
        rate=float(middle),
        rate_low=float(low),
        rate_high=float(high),
    )
