"""The price of a plan for sources that are in parts: solved on a sketch, settled by exact sums.

A source's period depends on its rate and on importance over cost only, so sources that are alike
in both are one source that is so many times as important and as costly. The sketch is the table of
these cells, `CELLS_PER_OCTAVE` to a doubling of each: small, and mergeable by adding. The planner
itself solves it (`Problem`), which gives the price to a few parts in a hundred thousand.

That price is put to the sources: one pass adds up what they really spend. The ratio to what the
sketch spends at the same price corrects the budget that the sketch is solved for, and a pass or two
later the sum is the budget to the tolerance. Every pass is a sum, so it can run anywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import EstimationError, InputError
from observant.planning.inputs import known_rates, read_problem
from observant.planning.objectives import Objective, objective
from observant.planning.problem import Doubt, Problem, Solution, filled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from observant.arrays import Floats, Integers


CELLS_PER_OCTAVE = 32
TOLERANCE = 1e-10
"""By which what is spent may differ from the budget, as a share of it."""
_PASSES = 150
_NOTHING = -(1 << 30)
"""The place of a rate or an importance of 0, which has no logarithm."""


@dataclass(frozen=True)
class PlanOptions:
    """What is asked of a plan, as for `observant.plan`; durations in days."""

    budget: float | None = None
    target: float | None = None
    objective: str = "freshness"
    grace: float = 0.0
    min_period: float = 0.0
    max_period: float = math.inf

    def problem(self, rates: Floats, means: Floats, importance: Any, cost: Any) -> Problem:
        """The problem of some of the sources, which were checked before."""
        known = known_rates(rates, means)
        same = self.objective == "currency" or (self.objective == "freshness" and not self.grace)
        return Problem(
            objective=objective(self.objective, known, self.grace),
            current=None if same else objective("currency", known, self.grace),
            importance=np.asarray(importance, float),
            cost=np.asarray(cost, float),
            shortest=np.asarray(self.min_period, float),
            longest=np.asarray(self.max_period, float),
        )


@dataclass(frozen=True, eq=False)
class Cells:
    """Sources that are alike, added up."""

    rate_cell: Integers
    mean_cell: Integers
    """Of the mean over the rate, which says how well a rate is known."""
    value_cell: Integers
    sources: Integers
    cost: Floats
    importance: Floats
    cost_rate: Floats
    """Sum of rate times cost, for the mean rate of a cell."""
    cost_mean: Floats
    """The same of the means."""

    @classmethod
    def of(cls, rates: Floats, means: Floats, importance: Floats, cost: Floats) -> Cells:
        """Sketch some sources.

        >>> one, rates = np.ones(4), np.array([1.0, 1.001, 2.0, 0.0])
        >>> Cells.of(rates, rates, one, one).sources.tolist()
        [1, 2, 1]
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            value, known = importance / cost, np.where(rates > 0.0, means / rates, 1.0)
        return cls(
            _cell(rates), _cell(known), _cell(value), np.ones(len(rates), np.int64), cost,
            importance, rates * cost, means * cost,
        ).compact()  # fmt: skip

    @classmethod
    def merged(cls, parts: Iterable[Cells]) -> Cells:
        """Add up the sketches of parts."""
        names = tuple(cls.__dataclass_fields__)
        listed = list(parts)
        columns = [np.concatenate([getattr(part, name) for part in listed]) for name in names]
        return cls(*columns).compact()

    def compact(self) -> Cells:
        """Add up what is in the same cell."""
        both = np.stack([self.rate_cell, self.mean_cell, self.value_cell])
        kept, where = np.unique(both, axis=1, return_inverse=True)
        where, count = np.ravel(where), kept.shape[1]

        def total(values: NDArray[Any]) -> NDArray[Any]:
            return np.bincount(where, values, count)

        return Cells(
            kept[0],
            kept[1],
            kept[2],
            total(self.sources).astype(np.int64),
            total(self.cost),
            total(self.importance),
            total(self.cost_rate),
            total(self.cost_mean),
        )

    def problem(self, options: PlanOptions) -> Problem:
        """The sketch as a problem of its own, one source a cell."""
        known = known_rates(self.cost_rate / self.cost, self.cost_mean / self.cost)
        return read_problem(
            known, options.objective, options.grace, self.importance,
            self.cost, None, None, options.min_period, options.max_period, None, None,
        )[0]  # fmt: skip


@dataclass(frozen=True)
class Sums:
    """What some sources spend and gain at a price; sums of all sources are sums of the parts'."""

    sources: int = 0
    starved: int = 0
    spent: float = 0.0
    importance: float = 0.0
    alpha: float = 0.0
    """Currency times importance."""
    penalty: float = 0.0
    uniform_alpha: float = 0.0
    doubt: Doubt = field(default_factory=Doubt)

    @classmethod
    def of(cls, problem: Problem, solution: Solution, alike: float) -> Sums:
        """Add up some sources; `alike` is the period if all were visited alike."""
        rows = slice(0, len(problem))
        period = problem.mixed_periods(solution, rows)
        weight = filled(problem.importance, rows)
        model = problem.current or problem.objective
        uniform = np.clip(np.full(len(period), alike), problem.shortest, problem.longest)

        def weighed(penalties: Objective, periods: Floats, *, gain: bool) -> float:
            values = penalties.mean_penalty(periods)
            with np.errstate(invalid="ignore"):
                values = weight * (1.0 - values if gain else values)
            return math.fsum(np.where(weight > 0.0, values, 0.0))

        with np.errstate(divide="ignore"):
            visits = 1.0 / period
        return cls(
            sources=len(period),
            starved=int(np.count_nonzero(~(visits > 0.0))),
            spent=_total(filled(problem.cost, rows) * visits),
            importance=math.fsum(weight),
            alpha=weighed(model, period, gain=True),
            penalty=weighed(problem.objective, period, gain=False),
            uniform_alpha=weighed(model, uniform, gain=True),
            doubt=Doubt.of(problem, period, alike, rows),
        )

    @classmethod
    def merged(cls, parts: Iterable[Sums]) -> Sums:
        """Add up the sums of parts; the same whatever their order."""
        listed = list(parts)
        whole = [sum(getattr(p, n) for p in listed) for n in ("sources", "starved")]
        rest = [
            _total([getattr(p, n) for p in listed])
            for n in ("spent", "importance", "alpha", "penalty", "uniform_alpha")
        ]
        doubt = Doubt.merged(part.doubt for part in listed)
        return cls(*whole, *rest, doubt)  # type: ignore[call-arg]


@dataclass(frozen=True)
class Priced:
    """The price that was found, and what all sources spend and gain at it."""

    solution: Solution
    sums: Sums
    budget: float
    passes: int
    """How often the sources were added up."""

    @property
    def price(self) -> float:
        """What one more unit of budget a day gains."""
        return self.solution.price


def solve_price(
    cells: Cells,
    options: PlanOptions,
    add_up: Callable[[Solution, float], Sums],
    tolerance: float = TOLERANCE,
) -> Priced:
    """Find the price of a plan; `add_up(solution, alike)` is one pass over all sources.

    >>> rates, one = np.linspace(1.0, 5.0, 5), np.ones(5)
    >>> options = PlanOptions(budget=5.0)
    >>> problem = options.problem(rates, rates, one, one)
    >>> cells = Cells.of(rates, rates, one, one)
    >>> found = solve_price(cells, options, lambda s, t: Sums.of(problem, s, t))
    >>> print(round(found.sums.alpha / 5, 5), round(found.sums.spent, 9))
    0.37389 5.0
    """
    sketch = cells.problem(options)
    wanted, by_target = _wanted(options)
    all_costs = float(cells.cost.sum())
    passes = 0

    def at(solution: Solution) -> Priced:
        nonlocal passes
        passes += 1
        alike = all_costs / options.budget if options.budget else math.nan
        sums = add_up(solution, alike)
        return Priced(solution, sums, options.budget or sums.spent, passes)

    def reached(found: Priced) -> float:
        return found.sums.alpha / found.sums.importance if by_target else found.sums.spent

    # What is reached falls with the price: the dearest price known that reaches more than wanted,
    # and the cheapest that does not.
    cheap, dear = -math.inf, math.inf
    over = under = math.nan
    asked, known = wanted, list[tuple[float, float]]()
    for _ in range(_PASSES):
        place = _secant(known)
        if place is None or not cheap < place < dear:
            price = _sketch_price(sketch, asked, wanted, by_target=by_target)
            if price in {0.0, math.inf}:
                return _finished(at(Solution(price, math.nan)), options, all_costs, add_up)
            place = math.log(price)
        place = place if cheap < place < dear else _between(cheap, dear)
        if not cheap < place < dear:
            # Between two neighbouring floats the value jumps: both sides, mixed (`Solution`).
            mix = (over - wanted) / (over - under)
            mixed = Solution(math.exp(cheap), math.nan, math.exp(dear), mix)
            return _finished(at(mixed), options, all_costs, add_up)
        found = at(Solution(math.exp(place), math.nan))
        value = reached(found)
        if abs(value / wanted - 1.0) <= tolerance:
            return _finished(found, options, all_costs, add_up)
        if value > wanted:
            cheap, over = place, value
        else:
            dear, under = place, value
        known.append((place, math.log(max(value / wanted, 1e-300))))
        estimate = sketch.alpha_at(found.price) if by_target else sketch.spending(found.price)
        good = 0.0 < estimate < math.inf and value > 0.0
        asked = wanted * min(max(estimate / value, 0.1), 10.0) if good else wanted
    raise EstimationError(f"no price was found in {_PASSES} passes: the sources are too unlike")


def _wanted(options: PlanOptions) -> tuple[float, bool]:
    """What is to be reached, and whether it is a currency; else it is a sum to spend."""
    if options.budget is None and options.target is None:
        raise InputError("give a budget (visits a day) or a target (the currency to reach)")
    if options.budget is not None and not 0.0 < options.budget < math.inf:
        raise InputError(f"the budget must be a finite number above 0, not {options.budget!r}")
    if options.target is None:
        return float(options.budget or 0.0), False
    if not 0.0 < options.target < 1.0:
        raise InputError(f"the target must be a currency between 0 and 1, not {options.target:g}")
    return float(options.target), True


def _between(cheap: float, dear: float) -> float:
    """A place inside a bracket, of which one end may not be known yet."""
    if math.isinf(cheap):
        return dear - 1.0
    return cheap + 1.0 if math.isinf(dear) else 0.5 * (cheap + dear)


def _secant(known: list[tuple[float, float]]) -> float | None:
    """Where a line through the last two points reaches 0."""
    if len(known) < 2 or known[-1][1] == known[-2][1]:
        return None
    (x0, y0), (x1, y1) = known[-2:]
    return x1 - y1 * (x1 - x0) / (y1 - y0)


def _sketch_price(problem: Problem, asked: float, wanted: float, *, by_target: bool) -> float:
    if not by_target:
        return problem.for_budget(asked).price
    # A corrected target can leave what is possible by a hair; then the wanted one says more.
    try:
        return problem.for_target(min(asked, 1.0 - 1e-12)).price
    except InputError:
        return problem.for_target(wanted).price


def _finished(
    found: Priced,
    options: PlanOptions,
    all_costs: float,
    add_up: Callable[[Solution, float], Sums],
) -> Priced:
    """With a target, the budget is what it costs, and uniform visits are paid from the same."""
    if options.target is None:
        return found
    spent = found.sums.spent
    if options.budget is not None and spent > options.budget * (1 + 1e-9):
        raise InputError(
            f"the target {options.target:g} needs a budget of {spent:.6g} a day, more than the "
            f"{options.budget:g} given: raise the budget or lower the target"
        )
    alike = all_costs / spent if spent > 0.0 else math.inf
    return Priced(found.solution, add_up(found.solution, alike), spent, found.passes + 1)


def _cell(values: Floats) -> Integers:
    with np.errstate(divide="ignore"):
        place = np.floor(np.log2(values) * CELLS_PER_OCTAVE)
    return np.where(values > 0.0, place, _NOTHING).astype(np.int64)


def _total(values: Any) -> float:
    listed = np.asarray(values, float)
    return math.inf if np.isinf(listed).any() else math.fsum(listed)
