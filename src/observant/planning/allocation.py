"""The exact optimum for a budget: how often to visit every source, and what a visit is worth.

The problem is: periods T that minimise Σ importance · mean penalty, such that Σ cost/T stays
within the budget, within the cap of every host, and T between a shortest and a longest period. The
mean penalty is convex in the visits 1/T, so the conditions of Karush, Kuhn and Tucker say all: one
price Λ, each source visited when importance · W(s) / cost reaches it (see `objectives`). A capped
host has a price of its own, at which it spends exactly its cap, and its sources pay the higher of
the two prices; that is the exact optimum, in two solves of one unknown each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from observant.errors import InputError
from observant.planning.inputs import read_problem
from observant.planning.objectives import Objective, Penalty
from observant.planning.objectives.own import name_of
from observant.planning.problem import Problem, Solution, filled
from observant.tables import Table, first_rows
from observant.units import format_duration, format_rate, in_days, parse_budget, per_day

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

    from observant.arrays import Flags, Floats

_Objective: TypeAlias = Objective


def plan(
    rates: Any,
    *,
    budget: float | str | None = None,
    target: float | None = None,
    objective: str | _Objective | Penalty = "freshness",
    grace: ArrayLike | str = 0.0,
    importance: ArrayLike | None = None,
    cost: ArrayLike | None = None,
    hosts: Sequence[str] | None = None,
    host_caps: float | Mapping[str, float] | None = None,
    min_period: ArrayLike | str = 0.0,
    max_period: ArrayLike | str = math.inf,
    posterior: Any | None = None,
    source: Sequence[str] | None = None,
    signals: Any | None = None,
) -> Plan:
    """Divide a visiting budget over sources so that the objective is as good as it can be.

    Parameters
    ----------
    rates
        Updates a day of each source, taken as known; a `RateTable`, of which everything is used
        that it tells of each rate (`known`); or a posterior (`RatePosterior`, `RateMixture`,
        `GammaRates`).
    budget
        Visits a day, or whatever `cost` counts, a day; or text such as ``"100/h"``. Rates, the
        grace and periods may be text too (``"1/7d"``, ``"6h"``).
    target
        The currency α the collection must reach, for the smallest budget that does it. With a
        budget beside it, that budget must suffice.
    objective
        A name of `objectives.OBJECTIVES`; a penalty of your own, a function of the updates λs that
        are expected since a visit; or an `Objective` (`Renewal`, `Custom`) of these sources.
    grace
        How late, in days, the copy may be and still count as current. Every plan reports α at it.
    importance
        Weight of each source; 0 means never worth a visit. All alike by default.
    cost
        Of one visit to each source: 1 by default; bytes or seconds make the budget one of those.
    hosts, host_caps
        The host of each source, and the most a host may spend a day: one number for every host or
        one each by name.
    min_period, max_period
        Days, one for all or one for each source.
    posterior
        What is known of the rates, used instead of the point rates.
    source
        Names, for the answer and for errors.
    signals
        What `estimate_signals` found: changes of some sources will be announced. For freshness.

    >>> best = plan([1, 2, 3, 4, 5], budget=5)  # Cho and Garcia-Molina's example
    >>> print(best.visits_per_day.round(3), round(best.collection_alpha, 5))
    [1.15  1.358 1.354 1.138 0.   ] 0.37389
    >>> print(round(plan([1, 2, 3, 4, 5], target=0.5).budget, 3))
    8.322
    """
    problem, names, notes = read_problem(
        per_day(rates), objective, in_days(grace), importance, cost, hosts, host_caps,
        in_days(min_period), in_days(max_period), posterior, source, signals,
    )  # fmt: skip
    given = parse_budget(budget, len(problem.objective)) if isinstance(budget, str) else budget
    if given is None and target is None:
        raise InputError("give a budget (visits a day) or a target (the currency to reach)")
    if given is not None and not 0.0 < given < math.inf:
        raise InputError(f"the budget must be a finite number above 0, not {given!r}")
    if target is not None:
        solution = problem.for_target(float(target))
        if given is not None and solution.spent > given * (1 + 1e-9):
            raise InputError(
                f"the target {target:g} needs a budget of {solution.spent:.6g} a day, more than "
                f"the {given:g} given: raise the budget or lower the target"
            )
        given = solution.spent
    else:
        solution = problem.for_budget(given or 0.0)
    answer = _plan_of(problem, solution, given or 0.0, names, notes)
    if signals is None:
        return answer
    from observant.planning.signals import with_waits

    return with_waits(answer, problem.objective)


def key_figures(plan: Any, sources: int, starved: int) -> dict[str, Any]:
    """What every plan says of itself, in memory, on disk or on a cluster."""
    return {
        "price": plan.price,
        "alpha": plan.collection_alpha,
        "alpha_error": plan.alpha_error,
        "uniform_alpha": plan.uniform_alpha,
        "objective": plan.objective,
        "budget_per_day": plan.budget,
        "spent_per_day": plan.spent,
        "sources": sources,
        "starved": starved,
    }


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Table):
    """How often to visit each source, what that achieves, and what one more visit would."""

    figure: ClassVar[str] = "observant.figures.currency:budget_figure"

    columns: ClassVar[tuple[str, ...]] = ("source", "visits_per_day", "period_days", "alpha")

    source: Any
    visits_per_day: Floats
    """How often to visit each source; 0 for never."""
    period_days: Floats
    """Infinite for a source that is not worth a visit at this price."""
    alpha: Floats
    """Expected currency of each source at the plan's grace: its freshness where that is 0."""
    price: float
    """Λ: what one more unit of budget a day gains, in the objective times importance."""
    collection_alpha: float
    """Mean of `alpha`, weighted with the importance."""
    alpha_error: float
    """Standard error of `collection_alpha`, from what is not known of the rates; not-a-number where
    they were taken as known. It counts chance, not sources that are no Poisson processes."""
    uniform_alpha: float
    """The same if all sources were visited alike, for the same budget, as far as caps allow."""
    penalty: float
    """Mean of the objective's penalty, weighted with the importance."""
    budget: float
    spent: float
    objective: str
    saturated_hosts: dict[str, float]
    """Hosts at their cap, with the price a visit there would be worth."""
    notes: tuple[str, ...] = ()
    _problem: Problem = field(repr=False, default=None)  # type: ignore[assignment]

    @property
    def starved(self) -> Flags:
        """Sources the plan never visits: their rate is too high or their importance too low."""
        return ~(self.visits_per_day > 0.0)

    @property
    def still(self) -> Flags:
        """Sources the plan never visits because they are said never to change: current as is."""
        return np.asarray(self.starved & (self.alpha == 1.0))

    @cached_property
    def penalties(self) -> dict[str, float]:
        """Mean penalty of this plan under every objective that the same knowledge allows."""
        return self._problem.other_penalties(self.period_days)

    def budget_curve(self, budgets: Sequence[float] | None = None) -> BudgetCurve:
        """What other budgets would buy; from a tenth of this one to ten times it by default.

        >>> curve = plan([1, 2, 3, 4, 5], budget=5).budget_curve([5, 10, 20])
        >>> print(curve.alpha.round(3))
        [0.374 0.55  0.722]
        """
        if budgets is None:
            budgets = [self.budget * 10.0**e for e in np.linspace(-1.0, 1.0, 21)]
            floor = self._problem.spending(math.inf)
            budgets = [b for b in budgets if b >= floor]
        solved = [self._problem.for_budget(float(b)) for b in budgets]
        return BudgetCurve(
            budget=np.asarray(budgets, float),
            alpha=np.array([self._problem.alpha_of_solution(s) for s in solved]),
            price=np.array([s.price for s in solved]),
            uniform_alpha=np.array([self._problem.uniform_alpha(float(b)) for b in budgets]),
        )

    def queues(self, count: int) -> Plan:
        """The same budget in so many queues, each going round its sources at a rate of its own.

        Brewington (4.2) divides sources by a grid over rate and importance; here a queue has the
        sources whose best periods are near each other, which is the division that counts, and its
        borders are no grid. The periods of the queues are then stretched to spend the budget.

        >>> best = plan([0.1, 0.2, 0.5, 1.0, 2.0], budget=2.0)
        >>> few = best.queues(2)
        >>> print(few.period_days.round(2), round(few.spent, 6))
        [3.44 3.44 1.77 1.77 3.44] 2.0
        """
        if count < 1:
            raise InputError("a plan needs one queue or more")
        logs = np.sort(np.log(self.period_days[~self.starved]))
        centres = np.unique(np.quantile(logs, (np.arange(count) + 0.5) / count))
        for _ in range(100):
            ends = np.searchsorted(logs, (centres[1:] + centres[:-1]) / 2)
            sums = np.add.reduceat(logs, np.append(0, ends)[: len(centres)])
            sizes = np.diff(np.append(np.append(0, ends), len(logs)))
            after = np.where(sizes > 0, sums / np.maximum(sizes, 1), centres)
            if np.allclose(after, centres, rtol=0, atol=1e-9):
                break
            centres = np.unique(after)
        plain = self.rounded(np.exp(centres))
        made = replace(self, period_days=plain.period_days * (plain.spent / self.spent))
        kept = made.rounded(np.exp(centres) * (plain.spent / self.spent))
        told = f"{len(centres)} queues of fixed rate, with the periods above"
        return replace(kept, budget=self.budget, notes=(*self.notes, told))

    def rounded(self, paces: ArrayLike) -> Plan:
        """The same plan with every period moved to the nearest of these, in days.

        Crawls often run at a few paces, daily or weekly, and not at one for each source. What the
        plan spends and achieves is worked out anew. Limits and caps are not looked at again.

        >>> best = plan([0.1, 0.5, 2.0], budget=1.5)
        >>> best.period_days.round(2), best.rounded([1, 7]).period_days
        (array([3.23, 1.71, 1.65]), array([7., 1., 1.]))
        """
        steps = np.unique(np.asarray(paces, float))
        if not (steps.size and np.all((steps > 0.0) & (steps < np.inf))):
            raise InputError("paces must be one duration above 0 or more")
        problem, model = self._problem, self._problem.current or self._problem.objective
        nearest = steps[np.searchsorted(np.sqrt(steps[1:] * steps[:-1]), self.period_days)]
        period = np.where(self.starved, math.inf, nearest)
        with np.errstate(divide="ignore"):
            visits = 1.0 / period
        alpha = np.concatenate(
            problem.map(lambda rows: 1.0 - model.select(rows).mean_penalty(period[rows]))
        )
        spent = problem.total(lambda rows: (filled(problem.cost, rows) * visits[rows]).sum())
        chosen = problem.objective
        told = f"periods moved to the nearest of {', '.join(map(format_duration, steps))}"
        return replace(
            self,
            visits_per_day=visits,
            period_days=period,
            alpha=alpha,
            collection_alpha=float(
                np.average(alpha, weights=np.broadcast_to(problem.importance, alpha.shape))
            ),
            uniform_alpha=problem.uniform_alpha(spent) if spent > 0.0 else math.nan,
            penalty=problem.mean(lambda rows: chosen.select(rows).mean_penalty(period[rows])),
            budget=spent,
            spent=spent,
            notes=(*self.notes, f"{told}: {spent:.4g} visits a day, not {self.spent:.4g}"),
        )

    def summary(self) -> dict[str, Any]:
        """The plan in a few numbers."""
        return {
            **key_figures(self, len(self), int(self.starved.sum())),
            "saturated_hosts": len(self.saturated_hosts),
            "penalties": self.penalties,
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        return (
            f"<Plan: {len(self):,} sources, {self.objective}, {self.spent:g} a day, "
            f"α = {self.collection_alpha:.4f}>"
        )

    def __str__(self) -> str:
        def row(i: int) -> str:
            visits, period = (
                format_rate(self.visits_per_day[i]),
                format_duration(self.period_days[i]),
            )
            return f"{visits:>9}  {period:>7}  {self.alpha[i]:6.4f}"

        return first_rows(self.source, f"{'visits':>9}  {'period':>7}  {'α':>6}", row)


@dataclass(frozen=True, eq=False)
class BudgetCurve(Table):
    """The currency of the collection as a function of the budget."""

    columns: ClassVar[tuple[str, ...]] = ("budget", "alpha", "price", "uniform_alpha")

    budget: Floats
    """Visits (or cost) per day."""
    alpha: Floats
    """Currency of the collection that the best plan reaches with it."""
    price: Floats
    """Λ: what one more unit of budget a day would gain there."""
    uniform_alpha: Floats
    """Currency if all sources were visited alike."""


def _plan_of(
    problem: Problem, solution: Solution, budget: float, names: Any, told: tuple[str, ...]
) -> Plan:
    model = problem.current or problem.objective

    def one(rows: slice) -> tuple[Floats, Floats]:
        period = problem.mixed_periods(solution, rows)
        return period, 1.0 - model.select(rows).mean_penalty(period)

    parts = problem.map(one)
    period = np.concatenate([p for p, _ in parts])
    alpha = np.concatenate([a for _, a in parts])
    with np.errstate(divide="ignore"):
        visits = 1.0 / period
    spent = problem.total(lambda rows: (filled(problem.cost, rows) * visits[rows]).sum())
    weight = np.broadcast_to(problem.importance, alpha.shape)
    saturated: dict[str, float] = {}
    if problem.host_price is not None:
        for h in np.flatnonzero(problem.host_price > solution.price).tolist():
            saturated[problem.host_names[h]] = float(problem.host_price[h])
    notes = list(told)
    if solution.price == 0.0 and spent < budget:
        notes.append(f"there is no use for more than {spent:g} of the {budget:g} a day")
    penalty = problem.mean(lambda rows: problem.objective.select(rows).mean_penalty(period[rows]))
    mean_alpha = float(np.average(alpha, weights=weight))
    uniform = problem.uniform_alpha(budget) if budget > 0.0 else math.nan
    named = name_of(getattr(problem.objective, "kind", problem.objective.name))
    if mean_alpha < uniform - 1e-6 and problem.current is not None:
        notes.append(
            f"this is the plan for {named}; if currency is wanted, all visited alike have more of "
            f"it, {uniform:.4f} (the objective currency plans for it)"
        )
    return Plan(
        source=names if names is not None else np.arange(len(period)),
        visits_per_day=visits,
        period_days=period,
        alpha=alpha,
        price=solution.price,
        collection_alpha=mean_alpha,
        alpha_error=problem.alpha_error(period, problem.alike(budget or math.nan)),
        uniform_alpha=uniform,
        penalty=penalty,
        budget=budget,
        spent=spent,
        objective=named,
        saturated_hosts=saturated,
        notes=tuple(notes),
        _problem=problem,
    )
