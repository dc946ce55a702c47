"""Traces made of models: any process, with a population of rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError
from observant.processes import Updates
from observant.processes.base import positive
from observant.processes.updates import generator

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.processes.updates import Seed
    from observant.simulation.traces.trace import Trace

__all__ = ["sampled"]


def sampled(
    trace: type[Trace],
    process: Any,
    rates: ArrayLike,
    *,
    horizon: float,
    seed: Seed,
    start: float,
    groups: int,
) -> Trace:
    """See `Trace.sample`."""
    rate = np.atleast_1d(np.asarray(rates, float))
    if rate.ndim != 1 or not rate.size:
        raise InputError("give the rates of one source or more, along one axis")
    if not (np.isfinite(rate) & (rate >= 0)).all():
        raise InputError("rates must be finite and not negative")
    span = positive("horizon", horizon)
    rng = generator(seed)
    # Sources of one rate are drawn together.
    distinct, which = np.unique(rate, return_inverse=True)
    lists: list[Any] = [np.empty(0)] * rate.size
    for k, value in enumerate(distinct.tolist()):
        if value == 0:
            continue
        mine = np.flatnonzero(which == k)
        own = process.scaled(1.0 / (value * process.mean))
        drawn = own.sample(span, mine.size, seed=rng)
        for i, times in zip(mine.tolist(), drawn, strict=True):
            lists[i] = start + times
    width = len(str(rate.size - 1))
    names = [f"{i:0{width}}" for i in range(rate.size)]
    group = group_names = None
    if groups:
        drawn_group = rng.integers(0, groups, rate.size)
        used, group = np.unique(drawn_group, return_inverse=True)
        group_names = tuple(str(g) for g in used)
        names = [f"{group_names[g]}/{name}" for g, name in zip(group, names, strict=True)]
        order = sorted(range(rate.size), key=names.__getitem__)
        names = [names[i] for i in order]
        lists = [lists[i] for i in order]
        group = group[np.array(order)]
    return trace(
        sources=tuple(names),
        updates=Updates.from_lists(_once(times) for times in lists),
        start=float(start),
        end=float(start) + span,
        group=group,
        groups=group_names,
    )


def _once(times: Any) -> Any:
    return times if times.size < 2 or (np.diff(times) > 0).all() else np.unique(times)
