"""Visits that others have made: they go into the store, and teach the schedule, like our own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.estimation.belief import Likelihoods
from observant.estimation.evidence import Evidence
from observant.estimation.priors import Prior, first
from observant.planning.policy import group_of
from observant.store.visit import Entry, Outcome, Posterior, Recorded, Visit
from observant.times import MICROSECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from observant.store import Store
    from observant.visits import VisitLog

_AT_ONCE = 2_000


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

    learned = Likelihoods.of(Evidence.from_log(log))
    kept = store.settings.get("observer.prior")
    prior = first() if kept is None else Prior.restore(kept)
    named = [names.get(source, "") for source in log.sources.to_pylist()]
    rows = {name: store.sources.get(name) for name in named if name}
    groups = prior.row_of([group_of(n, rows[n].host) if n else "" for n in named])
    believed = learned.under(prior.rows(), groups).summary()
    rates = np.column_stack(believed).tolist()
    for i, name in enumerate(named):
        if not name:
            continue
        begin, last = int(log.offsets[i]), int(log.offsets[i + 1])
        untouched = rows[name].visited_at is None
        for row in range(begin, last):
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
                rate, low, high = rates[i]
                posterior = Posterior(data=learned.pack(i), rate=rate, rate_low=low, rate_high=high)
                entry = Entry(visit=entry.visit, posterior=posterior)
            waiting.append(entry)
            if len(waiting) >= _AT_ONCE:
                commit()
    if waiting:
        commit()
    return taken


_OUTCOMES: dict[int, Outcome] = {1: "changed", 0: "same"}
