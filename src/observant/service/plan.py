"""What a plan would bring before it is applied, and what other rules would have brought.

`what_if` solves the allocation anew for another budget, grace, objective or importance. The rates
come from the collection's own posteriors. `replay_rivals` replays the changes this collection has
seen under other rules, for the same number of visits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from observant.arrays import Flags, Floats
    from observant.currency import RateMixture
    from observant.planning import Plan
    from observant.planning.objectives.own import Penalty
    from observant.service.posteriors import ActiveSources
    from observant.simulation import PolicyComparison
    from observant.visits import VisitLog

SOURCES = 1000
"""Sources a what-if is computed for; of more, an even sample with its share of the budget."""
MOST_REPLAYED = 30_000
"""Visits that a replay makes, about; of a longer history every so-manieth source is taken."""
PLAIN = 10.0
"""A visit that costs more than so many plain ones is taken for one with a browser."""
BUDGETS = (0.5, 0.75, 1.0, 1.25, 1.5)
"""Multiples of a budget that are tried beside it."""
RIVALS = (
    "observant", "proportional", "square_root", "cho-improved", "nutch_adaptive", "stormcrawler",
    "heritrix", "changedetection", "miniflux",
)  # fmt: skip
"""What is replayed beside uniform visiting and a clairvoyant."""


@dataclass(frozen=True, eq=False)
class PlanAnswer:
    """A plan for the collection as it is believed to be."""

    budget: float
    counts_cost: bool
    """Whether the budget is one of cost, in which a plain visit counts 1."""
    paid_for_browsers: float
    """How much α would be higher if every visit were a plain one."""
    grace: float
    """Of the collection; sources may have their own."""
    objective: str
    importance: tuple[tuple[str, float], ...]
    """Tags whose importance was multiplied, and by how much."""
    alpha: float
    """Expected currency at the grace."""
    uniform_alpha: float
    price: float
    spent: float
    starved: int
    """Sources, of the whole collection, that are never worth a visit."""
    sources: int
    sampled: int
    name: Sequence[str] = field(repr=False)
    rate: Floats = field(repr=False)
    period: Floats = field(repr=False)
    """Days; infinite for a starved source."""
    weight: Floats = field(repr=False)
    starving: Flags = field(repr=False)
    """Visited never, or no more often than the longest period forces."""
    cost: Floats = field(repr=False)
    """What a visit takes of the budget."""
    longest: Floats = field(repr=False)
    own_grace: Floats = field(repr=False)
    model: RateMixture = field(repr=False)
    plan: Plan = field(repr=False)

    def promised(self, graces: Sequence[float | None]) -> list[float]:
        """α at each grace (None: every source at its own), if all are visited as planned."""
        from observant.currency import currency

        share = self.weight / max(self.weight.sum(), 1e-300)
        tried = (self.own_grace if grace is None else grace for grace in graces)
        return [float(share @ currency(self.model, self.period, grace)) for grace in tried]

    def curve(self, multiples: Sequence[float] = BUDGETS) -> list[dict[str, float]]:
        """What other budgets would buy, planned and uniform; budgets of the whole collection."""
        share = self.sampled / max(self.sources, 1)
        wanted = [self.budget * share * m for m in multiples]
        floor = float(np.sum(self.cost / self.longest))
        wanted = [b for b in wanted if b >= floor * (1 + 1e-9)]
        found = self.plan.budget_curve(wanted)
        return [
            {"budget": float(b) / share, "alpha": float(a), "uniform": float(u)}
            for b, a, u in zip(found.budget, found.alpha, found.uniform_alpha, strict=True)
        ]


def what_if(
    beliefs: ActiveSources,
    *,
    budget: float,
    cost: bool = False,
    grace: float | None = None,
    objective: str | Penalty = "freshness",
    importance: Mapping[str, float] | None = None,
) -> PlanAnswer:
    """Plan for another budget (visits a day, or their `cost`), grace (days), objective or
    importance of tags.

    The grace is that of the collection: sources that have one of their own keep it. `importance`
    multiplies the importance of all sources with a tag.
    """
    from observant.currency import RateMixture
    from observant.planning import plan
    from observant.planning.objectives.own import name_of

    if not len(beliefs):
        raise InputError("there are no active sources to plan for: add some first")
    known, rows = beliefs.thinned(SOURCES)
    weight = beliefs.importance[rows].copy()
    for tag, factor in (importance or {}).items():
        having = np.array([f'"{tag}"' in beliefs.columns.tags[i] for i in rows])
        weight[having] *= factor
    share = len(rows) / max(beliefs.total, 1)
    longest = beliefs.max_period[rows]
    costs = np.nan_to_num(beliefs.columns.cost[rows], nan=1.0) if cost else np.ones(len(rows))
    least = float(np.sum(costs / longest))
    if budget * share < least:
        raise InputError(
            f"the longest periods of the sources alone need {least / share:,.4g} visits a day: "
            "a smaller budget cannot keep them"
        )
    model = RateMixture(known.rates, known.weights)
    own = beliefs.graces(grace, name_of(objective))[rows]
    given: dict[str, Any] = {
        "budget": budget * share,
        "grace": own,
        "objective": objective,
        "importance": weight,
        "min_period": beliefs.min_period[rows],
        "max_period": longest,
    }
    found = plan(model, cost=costs, **given)
    dear = costs > PLAIN
    paid = 0.0
    if dear.any():
        plain = plan(model, cost=np.where(dear, 1.0, costs), **given)
        paid = plain.collection_alpha - found.collection_alpha
    period = found.period_days
    starved = ~np.isfinite(period) | (period >= longest * (1 - 1e-9))
    return PlanAnswer(
        budget=budget,
        counts_cost=cost,
        paid_for_browsers=paid,
        grace=beliefs.grace if grace is None else grace,
        objective=name_of(objective),
        importance=tuple(sorted((importance or {}).items())),
        alpha=found.collection_alpha,
        uniform_alpha=found.uniform_alpha,
        price=found.price,
        spent=found.spent / share,
        starved=round(float(starved.sum()) / share),
        sources=beliefs.total,
        sampled=len(rows),
        name=[beliefs.columns.name[i] for i in rows],
        rate=beliefs.rate[rows],
        period=period,
        weight=weight,
        starving=starved,
        cost=costs,
        longest=longest,
        own_grace=own,
        model=model,
        plan=found,
    )


@dataclass(frozen=True, eq=False)
class Rivals:
    """Other rules on the history of this collection."""

    comparison: PolicyComparison = field(repr=False)
    days: float
    updates: int
    notes: tuple[str, ...]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a rule, the best first."""
        return sorted(self.comparison.rows(), key=lambda row: -row["freshness"])


def replay_rivals(log: VisitLog | None) -> Rivals:
    """Replay the changes that visits have found, under rival rules and the same number of visits.

    An update is put at the date the source gave, else into the middle of the gap it was found in;
    updates that no visit saw are missing, so all rules look a little better than they were.
    """
    from observant.simulation import simulate
    from observant.simulation.traces import trace_of_visits

    if log is None or not len(log):
        raise InputError("there are no visits yet: run the observer for a while")
    if len(log) > MOST_REPLAYED:
        step = -(-len(log) // MOST_REPLAYED)
        log = log.select(np.arange(len(log.sources)) % step == 0)
    trace = trace_of_visits(log)
    days = trace.end - trace.start
    if days < _FEWEST_DAYS or not len(trace.updates.times):
        raise InputError(
            "there is not enough history yet: a replay needs a few days with visits and changes"
        )
    budget = len(log) / days
    comparison = simulate(trace, RIVALS, budget=budget, score_from="half", jobs=1)
    return Rivals(
        comparison=comparison,
        days=days,
        updates=len(trace.updates.times),
        notes=(
            "updates between two visits that found one change count once",
            "judged on the second half of the time; the first half is for learning",
        ),
    )


_FEWEST_DAYS = 1.0
