"""The policy of observant: one scheduler for the observer, the replay and Scrapy.

`make_scheduler` is the only place where it is set up. It learns all it needs while it visits: the
distribution of rates (of the collection, and of groups that are large enough), each source's
posterior, how far the age at a first visit can be believed, and which sources change together.
Nothing has to be known beforehand. `ObservantPolicy` runs it over recorded updates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from observant.estimation.belief import DRIFT
from observant.planning.schedule import Scheduler

if TYPE_CHECKING:
    from observant.arrays import Flags, Floats, Integers
    from observant.estimation.priors import Prior
    from observant.planning.objectives.own import Penalty

__all__ = [
    "SAMPLING",
    "BlindPolicy",
    "IgnoringPolicy",
    "MixedPolicy",
    "ObservantPolicy",
    "ReplayedVisits",
    "group_of",
    "make_scheduler",
]

JITTER = 0.05
"""Share of its period by which a visit is moved, so that visits do not lock to a phase."""
MIXED = 0.9
"""The same where gaps are to mix ages: even between a tenth of a period and nearly two of them, so
that the log shows the distribution of intervals inside a period (Li, VI). It costs freshness."""
SAMPLING = {"even": JITTER, "mixed": MIXED}
"""How far a visit is moved, by the name of the sampling."""
LONGEST = 365.0
"""Days after which a source is visited, however little that is worth."""
LEAST_SHARE = 0.1
"""Of the visits that a source would get if all were visited alike: for one that changes so often
that visits cannot keep it current."""


def make_scheduler(
    budget: float,
    *,
    prior: Prior | Literal["learn"] = "learn",
    drift: float = DRIFT,
    jitter: float = JITTER,
    explore: float = 0.0,
    max_period: float = LONGEST,
    least_share: float = LEAST_SHARE,
    burst: float = 1.0,
    **options: Any,
) -> Scheduler:
    """The scheduler of our policy, without sources.

    A visit that the budget allows is made at once (`burst`: so many may wait for a loop that is
    busy), at the source that is worth most. The rest are options of `Scheduler`.
    """
    return Scheduler(
        budget,
        prior=prior,
        drift=drift,
        jitter=jitter,
        explore=explore,
        max_period=max_period,
        least_share=least_share,
        burst=burst,
        ready=1.0,
        **options,
    )


def group_of(name: str, host: str = "") -> str:
    """The siblings of a source, as a path: its host and folders, or the folders of a file.

    >>> group_of("https://docs.example/guide/start.html?page=2")
    'docs.example/guide'
    >>> group_of("pkg:tools/make"), group_of("/etc/hosts", "disk")
    ('pkg:tools', 'disk/etc')
    """
    scheme, found, rest = name.partition("://")
    path = (rest if found else scheme).split("?", 1)[0].split("#", 1)[0]
    parts = path.split("/")[:-1]
    if found:
        parts = [host or parts[0] if parts else path, *parts[1:]]
    elif host:
        parts = [host, *parts]
    return "/".join(part for part in parts if part)


@dataclass(frozen=True, eq=False)
class ReplayedVisits:
    """The visits of a replay, in order."""

    source: Integers
    time: Floats
    failed: Flags
    reads: Floats
    """When lists of signals were read, each instead of a visit."""


@dataclass(frozen=True)
class ObservantPolicy:
    """Visit what is worth most now, by a posterior that is learned on the way.

    Each ingredient can be left out, to see what it adds: `siblings` (sources of a group share a
    clock), `ages` (of dated first visits), `hours` (of the day at which visits are made), and
    forgetting (`drift`: days that a rate lasts on average; infinite never forgets). Signals of
    change are believed as far as it is `learned` that they can be, ``ignored``, or trusted `blind`:
    whoever is announced is visited at once. A `prior` that is given is not learned again. An
    `objective`, a name or a penalty of λs, is pursued in place of the one that the replay is scored
    by.
    """

    siblings: bool = True
    ages: bool = True
    hours: bool = True
    drift: float = DRIFT
    jitter: float = JITTER
    max_period: float = LONGEST
    least_share: float = LEAST_SHARE
    signals: str = "learned"
    prior: Prior | Literal["learn"] = "learn"
    objective: str | Penalty | None = None
    name: str = "observant"

    def replay(self, world: Any) -> ReplayedVisits:
        """Visit a recorded world (`observant.simulation.World`), one source a slot."""
        from observant.planning.schedule import driving

        n, objective = world.sources, self.objective or world.objective
        # Those that are equal go in the order in which they were added, so that is drawn.
        order = world.rng(1).permutation(n)
        said = world.signals if self.signals != "ignored" else None
        lists = said.lists() if said is not None else []
        cost = np.ones(n) if world.cost is None else world.cost[order]
        cost = np.append(cost, np.ones(len(lists)))  # a read costs a visit
        slot = 1.0 if (cost == 1.0).all() else float(cost.min())
        scheduler = make_scheduler(
            world.budget,
            prior=self.prior,
            drift=self.drift,
            jitter=self.jitter,
            max_period=self.max_period,
            least_share=self.least_share,
            objective=objective,
            grace=world.grace if objective == "currency" else 0.0,
            burst=1.0 if (cost == 1.0).all() else 1.0 + slot,  # nothing of a slot is lost
            seed=world.seed,
            start=world.start,
            hours=self.hours,
        )
        seen = None
        if world.known:
            _, age = world.look(order, np.full(n, -np.inf), np.full(n, world.start))
            seen = np.where(np.isnan(age) | (not self.ages), -1.0, age)
            seen = np.append(seen, np.full(len(lists), -1.0))
        groups = None
        if self.siblings:
            labels = world.groups or ("",)
            groups = [labels[g] for g in world.group[order]] + [group for _, group, _ in lists]
        scheduler.add(
            range(n + len(lists)),
            importance=np.append(world.importance[order], np.ones(len(lists))),
            cost=cost,
            last=world.start if world.known else None,
            group=groups,
            age=seen,
        )
        pushed, listed = self._listen(scheduler, world, said, lists, np.argsort(order))
        lengths = np.diff(world.offsets)[order]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.arange(offsets[-1]) + np.repeat(world.offsets[order] - offsets[:-1], lengths)
        times = world.times[rows]
        before = np.concatenate([[0], np.cumsum(times <= world.start)])
        known_by_start = before[offsets[1:]] - before[offsets[:-1]]
        pointer = offsets[:-1] + (known_by_start if world.known else 0)
        who, when, failed = scheduler.drive(
            driving.drive,
            int(world.slots / slot),
            (times, offsets, pointer, world.dated[order], pushed, listed),
            (world.start, world.budget / slot, world.failure),
        )
        page = who < n
        return ReplayedVisits(order[who[page]], when[page], failed[page], when[~page])

    def _listen(
        self, scheduler: Scheduler, world: Any, said: Any, lists: list[Any], place: Any
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Let sources listen; answer what is pushed and what stands in lists, for `drive`."""
        n, signals = world.sources, scheduler.signals
        number = np.full(n, len(lists))
        for kind, group, sources in () if said is None else said.channels():
            signals.listen(place[sources].tolist(), kind, group, blind=self.signals == "blind")
        for k, (kind, group, sources) in enumerate(lists):
            number[sources] = k
            if world.known:
                signals.read(kind, group, world.start)
                signals.weigh(n + k, place[sources].tolist(), kind, group)
                scheduler.reweight(n + k, 1.0)
        nothing = np.zeros(0, np.int64)
        source, time, about = (
            (nothing, np.zeros(0), np.zeros(0))
            if said is None
            else (said.source, said.time, said.about)
        )
        ends = np.searchsorted(np.sort(number[source]), np.arange(len(lists) + 2))
        order = np.argsort(number[source], kind="stable")
        parts = (place[source][order].astype(np.int64), time[order], about[order])
        members = [place[sources].astype(np.int64) for _, _, sources in lists]
        upto = ends[len(lists)]
        return tuple(one[upto:] for one in parts), (
            *(one[:upto] for one in parts),
            *(ends[1:], ends[:-1].copy(), np.concatenate([nothing, *members])),
            np.concatenate([[0], np.cumsum([len(m) for m in members], dtype=np.int64)]),
            np.array([signals.places[kind, group] for kind, group, _ in lists], np.int64),
        )


@dataclass(frozen=True)
class IgnoringPolicy(ObservantPolicy):
    """The same without signals."""

    signals: str = "ignored"
    name: str = "observant-ignoring"


@dataclass(frozen=True)
class BlindPolicy(ObservantPolicy):
    """Whoever is announced is visited at once; what is left of the budget is spent as ever."""

    signals: str = "blind"
    name: str = "observant-blind"


@dataclass(frozen=True)
class MixedPolicy(ObservantPolicy):
    """The same with gaps that mix ages, to see what that costs."""

    jitter: float = MIXED
    name: str = "observant-mixed"
