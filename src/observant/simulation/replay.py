"""What is visited when: every kind of policy, driven over the same world for the same budget.

The budget is a row of slots at a constant rate, and every slot is used. So all policies spend the
same, never more and never less. A rule may ask for more visits than there are, or for fewer. Then
`world.queue` says what is visited in a slot: the source that is ``due`` first, were it due later
than now (what a crawler's queue does; all waits become longer or shorter by the same time), or the
one of whose wait the largest ``share`` has passed (all waits are stretched by the same factor).

A `Policy` has one of these forms:

- `Runner`: `replay(world) → visits`, runs by itself;
- `Periodic`: `periods(world) → days`, a fixed period for each source; a `Plan` is one, too;
- `Rule`: `start` and `next_period`, sets the next visit after each visit; it is driven in ticks of
  a fiftieth of the mean period, so that a source is visited at most once a tick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from observant.errors import InputError
from observant.planning.allocation import Plan
from observant.planning.rivals.rule import (
    CHANGED,
    FAILED,
    SAME,
    UNKNOWN,
    FixedPeriods,
    Rule,
    Seen,
)
from observant.simulation.world import WorldVisits

if TYPE_CHECKING:
    from observant.arrays import Flags, Floats, Integers
    from observant.simulation.world import World

_TICKS = 50
"""Ticks in a mean period."""
_ORDER, _PHASE, _POLICY = 1, 2, 3
"""Purposes of random numbers."""


@runtime_checkable
class Runner(Protocol):
    """A policy that runs by itself."""

    def replay(self, world: World) -> Any:
        """Its `WorldVisits`, or anything with the columns `source` and `time`."""


@runtime_checkable
class Periodic(Protocol):
    """A policy that visits each source with a period of its own."""

    def periods(self, world: World) -> Floats: ...


Policy: TypeAlias = Runner | Rule | Periodic | Plan


def replay(policy: Policy, world: World, *, as_asked: bool = False) -> WorldVisits:
    """Run a policy over a world. With `as_asked`, a rule spends what it asks, budget or not."""
    if isinstance(policy, Runner):
        return WorldVisits.of(policy.replay(world), world)
    if isinstance(policy, FixedPeriods) and not policy.jitter and not as_asked:
        return WorldVisits.of(fixed_periods(policy.periods, world), world)
    if isinstance(policy, Rule):
        return run_as_asked(policy, world) if as_asked else run_policy(policy, world)
    if isinstance(policy, Periodic):
        return WorldVisits.of(fixed_periods(policy.periods(world), world), world)
    if isinstance(policy, Plan):
        return WorldVisits.of(fixed_periods(policy.period_days, world), world)
    raise InputError(
        f"a {type(policy).__name__} is no policy: it needs the methods start and next_period, or "
        "periods(world), or replay(world)"
    )


def round_robin(world: World) -> WorldVisits:
    """All sources alike, in one random order, over and over."""
    from observant.simulation import kernels

    rank = world.rng(_ORDER).permutation(world.sources)
    if world.cost is not None:
        rounds = int(world.slots / world.cost.sum()) + 1
        which, when = world.in_turn(np.tile(np.argsort(rank), rounds))
        return WorldVisits.from_flat(which, when, sources=world.sources)
    return WorldVisits(*kernels.carousel(rank, world.slots, world.start, world.budget))


def fixed_periods(periods: Any, world: World) -> WorldVisits:
    """Each source with its own period, from a random phase; an infinite period means never.

    The periods say in what order and how often relative to each other; the slots say when. Where
    the periods ask for more or less than the budget, all are stretched alike.
    """
    from observant.simulation import kernels

    try:
        period = np.broadcast_to(np.asarray(periods, float), (world.sources,))
    except ValueError:
        raise InputError(f"give one period for each of {world.sources} sources") from None
    if not (period > 0).all():
        raise InputError("a period must be more than 0 days; infinite means never")
    if not np.isfinite(period).any():
        raise InputError("every period is infinite: nobody would ever be visited")
    if (period == period[0]).all():
        return round_robin(world)
    first = 0 if world.known else min(world.sources, world.slots)
    slots = world.slots - first
    visited = np.flatnonzero(np.isfinite(period))
    some = period[visited] / period[visited].min()
    phase = some * world.rng(_PHASE).random(world.sources)[visited]
    cost = np.ones(len(some)) if world.cost is None else world.cost[visited]
    until = _time_of_count(phase, some, slots, cost)
    offsets, virtual = kernels.repeat_periods(phase, some, until)
    rank = kernels.ranks(virtual, until) if len(virtual) else np.empty(0, np.int64)
    if world.cost is not None:
        begins = np.empty(0, int) if world.known else world.rng(_ORDER).permutation(world.sources)
        follows = np.repeat(visited, np.diff(offsets))[np.argsort(rank)]
        which, when = world.in_turn(np.concatenate([begins, follows]))
        return WorldVisits.from_flat(which, when, sources=world.sources)
    kept = rank < slots
    source = np.repeat(visited, np.diff(offsets))[kept]
    time = world.slot_time(first + rank[kept])
    if first:
        order = world.rng(_ORDER).permutation(world.sources)[:first]
        source = np.concatenate([order, source])
        time = np.concatenate([world.slot_time(np.arange(first)), time])
        return WorldVisits.from_flat(source, time, sources=world.sources)
    counts = np.bincount(source, minlength=world.sources)
    return WorldVisits(np.concatenate([[0], np.cumsum(counts)]), time)


def _time_of_count(phase: Floats, period: Floats, wanted: int, cost: Floats) -> float:
    """A time before which visits with these periods cost as much as `wanted`, and hardly more."""
    if wanted <= 0:
        return 0.0

    def count(until: float) -> float:
        return float((cost * np.maximum(np.ceil((until - phase) / period), 0.0)).sum())

    high = (wanted + 1) / float((cost / period).sum())
    while count(high) < wanted:
        high *= 1.1
    low = 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if count(middle) < wanted:
            low = middle
        else:
            high = middle
    return float(np.nextafter(high, np.inf))


# -- rules that look at every visit ---------------------------------------------------------------


def run_policy(policy: Rule, world: World) -> WorldVisits:
    """Drive a policy slot by slot, a tick at a time: the sources that are due first."""
    rule = _Driven(policy, world)
    n, slots = world.sources, world.slots
    size = max(n // _TICKS, 1)
    cost = np.ones(n) if world.cost is None else world.cost
    spent, pieces = 0.0, []
    while spent < slots:
        which = rule.most_due(min(size, n), world.start + (spent + 0.5) / world.budget)
        paid = spent + np.cumsum(cost[which])
        which = which[: np.searchsorted(paid, slots * (1 + 1e-12), side="right")]
        if not which.size:
            break
        at = world.start + (paid[: len(which)] - 0.5 * cost[which]) / world.budget
        pieces.append((which, at, rule.visit(which, at)))
        spent = float(paid[len(which) - 1])
    return _joined(pieces, world)


def run_as_asked(policy: Rule, world: World) -> WorldVisits:
    """Drive a policy at the times it asks for, whatever that costs."""
    rule = _Driven(policy, world)
    tick = world.mean_period / _TICKS
    now, pieces = world.start, []
    while now < world.end:
        now = min(max(now + tick, float(rule.due.min())), world.end)
        while (which := np.flatnonzero(rule.due <= now)).size:
            at = np.maximum(rule.due[which], world.start)
            pieces.append((which, at, rule.visit(which, at)))
    return _joined(pieces, world)


def _joined(pieces: list[tuple[Integers, Floats, Flags]], world: World) -> WorldVisits:
    """Visits that were made some at a time: source, time, and whether each failed."""
    empty = (np.empty(0, np.int64), np.empty(0), np.empty(0, bool))
    source, time, failed = (np.concatenate(part) for part in zip(empty, *pieces, strict=True))
    return WorldVisits.from_flat(
        source, time, failed if world.failure else None, sources=world.sources
    )


class _Driven:
    """A policy and all that it remembers, in a world."""

    def __init__(self, policy: Rule, world: World) -> None:
        self.policy, self.world = policy, world
        n = world.sources
        self.rng = world.rng(_POLICY)
        self.state: Any = policy.start(n)
        self.last = np.full(n, np.nan)
        self.number = np.zeros(n, np.int64)
        order = world.rng(_ORDER).permutation(n)
        # All are due at once, in a random order.
        self.begun = world.start - 1.0 - (order + 1) / n
        self.wait = np.full(n, 1e-9)
        if world.known:
            start = np.full(n, world.start)
            everyone = np.arange(n)
            _, age = world.look(everyone, start, start)
            outcome = np.full(n, UNKNOWN)
            wait, self.state = policy.next_period(
                self.state, Seen(start, outcome, age=age, entry_age=age), self.rng
            )
            self.last = start.copy()
            # A first crawl takes a while: the sources are somewhere within their first period.
            share = world.rng(_PHASE).random(n)
            self.wait = self._checked(wait)
            self.begun = world.start - share * np.where(np.isinf(wait), 0.0, wait)

    @property
    def due(self) -> Floats:
        """When each source asks to be visited."""
        return np.asarray(self.begun + self.wait)

    def most_due(self, count: int, now: float) -> Integers:
        """The sources to visit next, in that order; see the top of this module.

        Those who asked never to be visited come last, the one that waited longest first: nobody
        else is left then, and the slots are paid for.
        """
        passed = now - self.due if self.world.queue == "due" else (now - self.begun) / self.wait
        never = np.isinf(self.wait)
        if never.any():
            passed[never] = -1e9 - 1.0 / (1.0 + now - self.begun[never])
        n = len(passed)
        which = np.argpartition(-passed, count - 1)[:count] if count < n else np.arange(n)
        return np.asarray(which[np.argsort(-passed[which], kind="stable")])

    def _checked(self, wait: Floats) -> Floats:
        if not (wait > 0).all():
            raise InputError(f"policy {self.policy.name} asks for a wait that is not above 0 days")
        return wait

    def visit(self, which: Integers, at: Floats) -> Flags:
        """Visit some sources; answers which visits failed."""
        world = self.world
        failed = world.fails(which, self.number[which])
        self.number[which] += 1
        since = self.last[which]
        new = np.isnan(since)
        changed, age = world.look(which, np.where(new, at, since), at)
        outcome = np.where(new, UNKNOWN, np.where(changed, CHANGED, SAME))
        outcome = np.where(failed, FAILED, outcome)
        age = np.where(failed, np.nan, age)
        wait, part = self.policy.next_period(
            self.state.take(which), Seen(at, outcome, age=age, entry_age=age), self.rng
        )
        self.state = self.state.put(which, part)
        self.last[which] = np.where(failed, since, at)
        self.begun[which], self.wait[which] = at, self._checked(wait)
        return failed
