"""Policies by name, and those that estimate as they go.

uniform, clairvoyant            the yardsticks
proportional, square_root, …    an allocation of `rivals.ALLOCATIONS`, from estimated rates
naive-azar, pooled-plan, …      the same, ESTIMATOR-ALLOCATION
cho-naive, cho-improved, …      the policies of Cho 6.4, as published
nutch, heritrix, …              a rule of `rivals.RULES`
package.module:name             your own
"""

from __future__ import annotations

import difflib
import importlib.util
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError
from observant.planning.rivals import ALLOCATIONS, RULES
from observant.plugins import load_own
from observant.simulation.replay import Policy, round_robin
from observant.simulation.world import WorldVisits

if TYPE_CHECKING:
    from observant.arrays import Flags, Floats, Integers
    from observant.estimation.rates import Own
    from observant.simulation.world import World

REGISTRY: dict[str, str] = {
    "observant": "observant.planning.policy:ObservantPolicy",
    "observant-ignoring": "observant.planning.policy:IgnoringPolicy",
    "observant-blind": "observant.planning.policy:BlindPolicy",
    "observant-mixed": "observant.planning.policy:MixedPolicy",
}
"""Policies that live elsewhere: name → module:attribute, made without arguments."""

ESTIMATORS = ("naive", "improved", "mle", "bias-reduced", "pooled", "pooled-gamma")
"""How rates are estimated on line; see `observant.estimation.rates.METHODS`."""

_OPTIMAL = "plan"
_DEFAULT_ESTIMATOR = "bias-reduced"


@dataclass(frozen=True)
class UniformPolicy:
    """Every source as often as any other, in one random order."""

    name: str = "uniform"

    def replay(self, world: World) -> WorldVisits:
        return round_robin(world)


@dataclass(frozen=True)
class Clairvoyant:
    """Knows how many updates each source will have from start to end, and plans with that.

    It takes the sources for Poisson with that rate, so it is the best of all policies with fixed
    periods only where that is true: sources that drift or burst leave room above it.
    """

    name: str = "clairvoyant"

    def periods(self, world: World) -> Floats:
        return periods_for(world.rates, _OPTIMAL, world)


@dataclass(frozen=True)
class Estimating:
    """Estimates all rates every so often from what it has seen, and divides the budget by them.

    At first every source is visited alike, `first` times. After that the rates are estimated anew
    `every` so many days (the mean period or 1/12 of the whole time, whichever is longer, unless
    told; infinite: once). Where nothing was seen to change, `floor` changes are taken as seen: with
    a floor of 0 such a source is never visited again.

    The estimator is one of `ESTIMATORS`, or a function of your own, as `estimate_rates` takes it.
    """

    estimator: str | Own = _DEFAULT_ESTIMATOR
    allocation: str = _OPTIMAL
    first: int = 2
    every: float | None = None
    floor: float = 0.5
    name: str = "estimating"

    def replay(self, world: World) -> WorldVisits:
        from observant.simulation import kernels

        if world.cost is not None:
            raise InputError(f"{self.name} counts visits, and these differ in cost: leave it out")
        history = _History(world)
        every = max(world.mean_period, (world.end - world.start) / 12)
        every = every if self.every is None else self.every
        n, slots = world.sources, world.slots
        warm = min(self.first * n, slots)
        order = world.rng(1).permutation(n)
        slot = np.arange(warm)
        history.add(order[slot % n], world.slot_time(slot))
        per_plan = max(int(min(every * world.budget, slots)), 1)
        done = warm
        while done < slots:
            period = periods_for(self._rates(history), self.allocation, world)
            upto = slots if np.isinf(every) else min(done + per_plan, slots)
            source, time = kernels.queue(
                history.last + period, period, done, upto, world.start, world.budget
            )
            history.add(source, time)
            done = upto
        return history.visits()

    def _rates(self, history: _History) -> Any:
        if isinstance(self.estimator, str) and self.estimator.startswith("pooled"):
            return history.pooled(self.estimator)
        rates = history.rates(self.estimator)
        known = rates[np.isfinite(rates)]
        rates = np.minimum(rates, known.max() if known.size else 1.0)
        return np.maximum(rates, self.floor / np.maximum(history.exposure, 1e-9))


def periods_for(rates: Any, allocation: str, world: World) -> Floats:
    """The period of each source when the budget is divided by these rates (or their posterior)."""
    from observant.planning import plan

    point = np.asarray(getattr(rates, "rate_per_day", rates), float)
    if not (point > 0).any():
        return np.full(world.sources, world.mean_period)
    if allocation == _OPTIMAL:
        chosen = plan(
            _plannable(rates, world.objective),
            budget=world.budget,
            objective=world.objective,
            grace=world.grace,
            importance=world.importance,
            cost=world.cost,
        )
        visits = chosen.visits_per_day
    else:
        visits = ALLOCATIONS[allocation](point, world.importance, world.budget)
    if not visits.sum() > 0:
        return np.full(world.sources, world.mean_period)
    # What the optimum has no use for is spent all the same: every policy spends the same.
    visits = visits * (world.budget / np.sum(visits * (1.0 if world.cost is None else world.cost)))
    never = np.full(world.sources, np.inf)
    return np.asarray(np.divide(1.0, visits, out=never, where=visits > 0))


def _plannable(rates: Any, objective: str) -> Any:
    """Rates or posterior in the form that a plan is made of quickly, every few days anew."""
    from observant.currency import GammaRates

    posterior = getattr(rates, "posterior", None)
    if posterior is None:
        return rates
    if objective in {"freshness", "currency"}:  # these have closed forms
        return GammaRates(*posterior.gamma())
    return posterior.mean


class _History:
    """What an estimating policy has seen so far."""

    def __init__(self, world: World) -> None:
        self.world = world
        n = world.sources
        self.last = np.full(n, world.start if world.known else np.nan)
        self.number = np.zeros(n, np.int64)
        self.compared, self.changes = np.zeros(n), np.zeros(n)
        self.exposure = np.zeros(n)
        self._pieces: list[tuple[Integers, Floats, Flags, Flags, Floats]] = []

    def add(self, source: Integers, time: Floats) -> None:
        """Take in visits in the order of time; a source may be there more than once."""
        from observant.simulation import kernels

        world = self.world
        offsets, at, place = kernels.group(source, time, world.sources)
        which = source[place]
        within = np.arange(len(at)) - offsets[which]
        failed = world.fails(which, self.number[which] + within)
        self.number += np.diff(offsets)
        # The visit before, among those that succeeded, here or earlier.
        good = np.flatnonzero(~failed)
        since = self.last[which]
        before = np.empty(len(good))
        before[1:] = at[good][:-1]
        first = np.ones(len(good), bool)
        first[1:] = which[good][1:] != which[good][:-1]
        since[good] = np.where(first, self.last[which[good]], before)
        new = np.isnan(since)
        changed, age = world.look(which, np.where(new, at, since), at)
        self.last[which[good]] = at[good]  # in order of time: the last one stays
        useful = ~failed & ~new
        self.compared += np.bincount(which[useful], minlength=world.sources)
        self.changes += np.bincount(which[useful & changed], minlength=world.sources)
        gap = at - np.where(new, at, since)
        self.exposure += np.bincount(which[useful], gap[useful], minlength=world.sources)
        self._pieces.append((which, at, changed & useful, failed, age))

    def visits(self) -> WorldVisits:
        source, time, _, failed, _ = self._all()
        counts = np.bincount(source, minlength=self.world.sources)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return WorldVisits(offsets, time, failed if self.world.failure else None)

    def rates(self, method: str | Own) -> Floats:
        """Updates a day of each source by itself."""
        n, changes = self.compared, self.changes
        gap = self.exposure / np.maximum(n, 1)
        if method == "naive":
            return np.divide(changes, self.exposure, out=np.zeros(len(n)), where=self.exposure > 0)
        if method == "improved":  # Cho 4.2, with the mean gap for regular visits
            share = np.log((n + 0.5) / (n - changes + 0.5))
            return np.divide(share, gap, out=np.zeros(len(n)), where=gap > 0)
        from observant.estimation.rates import estimate_rates

        return np.nan_to_num(
            estimate_rates(self.log, method, threads=1).rate_per_day, posinf=np.inf
        )

    def pooled(self, method: str) -> Any:
        from observant.estimation.rates import estimate_rates

        return estimate_rates(self.log, method, threads=1)

    def _all(self) -> tuple[Integers, Floats, Flags, Flags, Floats]:
        source, time, changed, failed, age = (
            np.concatenate(column) for column in zip(*self._pieces, strict=True)
        )
        order = np.argsort(source, kind="stable")
        return source[order], time[order], changed[order], failed[order], age[order]

    @property
    def log(self) -> Any:
        """All visits so far as a visit log: what the policy knows, and nothing else."""
        return visit_log(self.world, *self._all())


def visit_log(
    world: World, source: Integers, time: Floats, changed: Flags, failed: Flags, age: Floats
) -> Any:
    """A `VisitLog` of visits in order of source and time, with the first crawl where there was one.

    Sources keep their order, and are called by their numbers.
    """
    import pyarrow as pa

    from observant.times import MICROSECONDS_PER_DAY
    from observant.visits import VisitLog
    from observant.visits.columns import MISSING

    n = world.sources
    outcome = changed.astype(np.int8)
    if world.known:
        _, first_age = world.look(np.arange(n), world.start, world.start)
        source = np.concatenate([np.arange(n), source])
        time = np.concatenate([np.full(n, world.start), time])
        age = np.concatenate([first_age, age])
        failed = np.concatenate([np.zeros(n, bool), failed])
        outcome = np.concatenate([np.full(n, -1, np.int8), outcome])
        order = np.argsort(source, kind="stable")
        source, time, age = source[order], time[order], age[order]
        failed, outcome = failed[order], outcome[order]
    good = ~failed
    source, time, age, outcome = source[good], time[good], age[good], outcome[good]
    first = np.ones(len(source), bool)
    first[1:] = source[1:] != source[:-1]
    outcome[first] = -1
    micros = np.round(time * MICROSECONDS_PER_DAY).astype(np.int64)
    dates = None
    if world.dated.any():
        dates = np.full(len(micros), MISSING)
        told = ~np.isnan(age)
        dates[told] = micros[told] - np.round(age[told] * MICROSECONDS_PER_DAY).astype(np.int64)
    counts = np.bincount(source, minlength=n)
    width = len(str(n))
    return VisitLog(
        sources=pa.array([f"{i:0{width}}" for i in range(n)]),
        offsets=np.concatenate([[0], np.cumsum(counts)]),
        time=micros,
        changed=outcome,
        last_modified=dates,
        groups=None if not world.group.any() else pa.array([f"{g:09}" for g in world.group]),
    )


# -- by name --------------------------------------------------------------------------------------


@cache
def _made() -> dict[str, Policy]:
    made: dict[str, Policy] = {
        "uniform": UniformPolicy(),
        "clairvoyant": Clairvoyant(),
        "cho-naive": Estimating("naive", "square_root", 5, float("inf"), 0.0, name="cho-naive"),
        "cho-improved": Estimating(
            "improved", "square_root", 5, float("inf"), 0.0, name="cho-improved"
        ),
        "cho-square-root": Estimating("improved", "square_root", name="cho-square-root"),
    }
    for allocation in (*ALLOCATIONS, _OPTIMAL):
        if allocation not in {"uniform", _OPTIMAL}:
            made[allocation] = Estimating(allocation=allocation, name=allocation)
        for estimator in ESTIMATORS:
            name = f"{estimator}-{allocation.replace('_', '-')}"
            if allocation != "uniform":
                made[name] = Estimating(estimator, allocation, name=name)
    return made | RULES


def names() -> list[str]:
    """Every name that `named` knows."""
    return [*_made(), *(name for name, where in REGISTRY.items() if _exists(where))]


def named(name: str) -> Policy:
    """The policy of this name, or the one at ``module:name``.

    >>> named("uniform")
    UniformPolicy(name='uniform')
    """
    if name in _made():
        return _made()[name]
    if name in REGISTRY and _exists(REGISTRY[name]):
        return _loaded(REGISTRY[name])
    if ":" in name:
        return _loaded(name)
    near = difflib.get_close_matches(name, names(), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names())}"
    raise InputError(f"there is no policy {name!r}; {hint} (your own: module:name)")


def _exists(where: str) -> bool:
    module = where.partition(":")[0]
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _loaded(where: str) -> Policy:
    """What stands at ``module:name``; a class is made without arguments."""
    made = load_own(where, "policy")
    policy: Policy = made() if isinstance(made, type) else made
    return policy
