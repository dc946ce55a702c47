"""Which objects to visit in the coming time units: Brewington 4.1, over age chains.

Time runs in units. At each unit `visits` of the d objects can be visited. An object visited in a
unit costs nothing there; any other costs the probability that it has changed since it was last
seen. An object was last seen `elapsed` units before the coming unit, with the age `age`.

`greedy` takes the largest costs of the coming unit. `plan_visits` looks several units ahead. It
minimises the expected cost of the whole plan, exactly. The thesis gives each object one of 2ⁿ
strategies, words of X (do not visit) and O (visit); `strategy_costs` and `assign` are that form.
`plan_visits` says the same with n² arcs an object, each from one visit to the next, so that longer
plans stay small.

>>> from observant.papers.thesis import AgeChain
>>> chain = AgeChain.poisson([0.9, 0.3])
>>> greedy(chain, age=0, elapsed=[1, 5], visits=1)
array([0])
>>> plan_visits(chain, age=0, elapsed=[1, 5], visits=1, steps=3).strategies
('XOO', 'OXX')
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from observant.errors import InputError, ObservantError
from observant.papers.thesis import chain_changed, chain_time_out_of_date

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from observant.arrays import Flags, Floats, Integers
    from observant.papers.thesis import AgeChain

__all__ = [
    "MixedPlan",
    "VisitPlan",
    "assign",
    "greedy",
    "mix",
    "plan_visits",
    "strategy_costs",
    "strategy_names",
    "strategy_value",
    "two_step_costs",
]


@dataclass(frozen=True, eq=False)
class VisitPlan:
    """Which sources are visited in each unit, and what the plan is expected to cost."""

    visited: Flags
    """One row an object, one column a unit."""
    cost: float
    """Expected number of objects out of date, summed over the units with the discount."""
    bound: float
    """No plan costs less: the value of the linear program, whose answer may be fractional."""

    @property
    def strategies(self) -> tuple[str, ...]:
        """The word of each object: O where it is visited, X where it is not."""
        return tuple("".join("XO"[visit] for visit in row) for row in self.visited.astype(int))

    def first(self) -> NDArray[np.intp]:
        """The objects to visit in the coming unit; plan again after it, with what was seen."""
        return np.flatnonzero(self.visited[:, 0])


# -- one unit ahead -------------------------------------------------------------------------------


def greedy(
    chain: AgeChain,
    age: ArrayLike,
    elapsed: ArrayLike,
    visits: int,
    *,
    cost: Literal["objects", "time"] = "objects",
    rng: np.random.Generator | None = None,
) -> NDArray[np.intp]:
    """The objects with the largest cost in the coming unit: Brewington (4.1), (4.2).

    With `cost="objects"` that is the probability of having changed, C₍₁₎; with `"time"` the
    expected units out of date, C₍₂₎. Equal costs are taken in a random order when `rng` is given,
    as the thesis asks for, otherwise in the order of the objects.

    No object is forgotten for ever when its last p_reset is above 0. Its time out of date grows
    without end, so C₍₂₎ comes to it. Its probability of having changed tends to 1, so C₍₁₎ comes
    to it if the other chances of a change in one unit stay below a number below 1. It never gets
    to be 1, as the proof in the thesis has it (errata B-5), so objects that change in every unit
    can keep C₍₁₎ for themselves.

    >>> from observant.papers.thesis import AgeChain
    >>> chain = AgeChain.poisson([0.9, 0.2])
    >>> greedy(chain, age=0, elapsed=[1, 11], visits=1)
    array([1])
    """
    if cost not in ("objects", "time"):
        raise InputError(f"the cost is 'objects' or 'time', not {cost!r}")
    measure = chain_changed if cost == "objects" else chain_time_out_of_date
    first, units, objects = _objects(chain, age, elapsed)
    _visits(visits, objects)
    costs = np.asarray(measure(chain.p_reset, first, units))
    order = np.arange(objects) if rng is None else rng.permutation(objects)
    return np.sort(order[np.argsort(-costs[order], kind="stable")[:visits]])


# -- the strategies of the thesis -----------------------------------------------------------------


def strategy_names(steps: int) -> tuple[str, ...]:
    """The 2ⁿ words in the order of the columns of `strategy_costs`; the first letter is now.

    >>> strategy_names(2)
    ('XX', 'XO', 'OX', 'OO')
    """
    return tuple("".join("XO"[bit] for bit in word) for word in _words(steps).astype(int))


def strategy_costs(
    chain: AgeChain, age: ArrayLike, elapsed: ArrayLike, steps: int = 2, *, discount: float = 1.0
) -> Floats:
    """Expected cost of every strategy of every object: Brewington (4.4) to (4.9), for n steps.

    One row an object, one column a strategy. What a visit will find is not known when the plan is
    made, so its cost is averaged over the ages it may find, (4.8). The cost of unit t, the coming
    one being 0, counts `discount`ᵗ (4.3).

    >>> from observant.papers.thesis import AgeChain
    >>> strategy_costs(AgeChain.poisson([0.5, 0.2]), age=0, elapsed=1).round(3)
    array([[1.25, 0.5 , 0.5 , 0.  ],
           [0.56, 0.2 , 0.2 , 0.  ]])
    """
    table = _stale(chain, age, elapsed, steps, discount)
    words = _words(steps)
    costs = np.zeros((table.shape[0], len(words)))
    for column, word in enumerate(words):
        last = 0  # the last visit is the one before the plan
        for step, visit in enumerate(word):
            if visit:
                last = step + 1
            else:
                costs[:, column] += table[:, last, step]
    return costs


def two_step_costs(
    chain: AgeChain, age: ArrayLike, elapsed: ArrayLike, *, discount: float = 1.0
) -> dict[str, Floats]:
    """C_XX, C_XO, C_OX and C_OO of every object by name: Brewington (4.4) to (4.9)."""
    costs = strategy_costs(chain, age, elapsed, 2, discount=discount)
    return dict(zip(strategy_names(2), costs.T, strict=True))


def strategy_value(costs: ArrayLike, plan: tuple[str, ...] | list[str]) -> float:
    """Cost of giving each object the named strategy, (4.12).

    >>> table_4_1 = [[0.85 + 0.95, 0.85, 0.25, 0.0], [0.80 + 0.81, 0.80, 0.05, 0.0]]
    >>> plans = {"AB": ("OX", "XO"), "BA": ("XO", "OX"), "AA": ("OO", "XX"), "BB": ("XX", "OO")}
    >>> {name: round(strategy_value(table_4_1, plan), 2) for name, plan in plans.items()}
    {'AB': 1.05, 'BA': 0.9, 'AA': 1.61, 'BB': 1.8}
    """
    table, steps = _cost_table(costs)
    names = strategy_names(steps)
    if len(plan) != len(table) or not set(plan) <= set(names):
        raise InputError(
            f"give one word of {steps} letters X and O for each of {len(table)} objects"
        )
    return float(sum(row[names.index(word)] for row, word in zip(table, plan, strict=True)))


def assign(
    costs: ArrayLike, visits: int, *, method: Literal["program", "flows"] = "program"
) -> VisitPlan:
    """Give each object one strategy, so that exactly `visits` are visited in every unit, at the
    least cost: the n-step problem of Brewington 4.1.3.

    "program" solves one mixed-integer program (HiGHS). "flows" solves one minimum-cost flow for
    each way to choose how many objects follow each strategy, as the thesis does; the number of
    ways grows fast, so it is for small problems and as a check. For two steps there are
    N_o + 1 ways at most (errata B-20).

    >>> assign([[1.80, 0.85, 0.25, 0.0], [1.61, 0.80, 0.05, 0.0]], visits=1).strategies
    ('XO', 'OX')
    """
    table, steps = _cost_table(costs)
    _visits(visits, len(table))
    if method == "program":
        return _by_program(table, _words(steps), visits)
    if method == "flows":
        return _by_flows(table, _words(steps), visits)
    raise InputError(f"the method is 'program' or 'flows', not {method!r}")


@dataclass(frozen=True, eq=False)
class MixedPlan:
    """How likely each object is to follow each strategy (4.1.3: flows that need not be whole)."""

    share: Floats
    """One row an object, one column a strategy, in the order of `strategy_names`; rows sum to 1."""
    cost: float
    """Expected, over what is drawn and over what happens."""

    def draw(self, rng: np.random.Generator) -> VisitPlan:
        """A strategy for each object, drawn by these shares. Visits in a unit are right on average,
        and nearly always in fact: few objects have more than one strategy.
        """
        reached = np.cumsum(self.share, axis=1)
        level = rng.random((len(reached), 1))
        chosen = np.minimum((reached <= level).sum(axis=1), reached.shape[1] - 1)
        words = _words(int(np.log2(reached.shape[1])))
        return VisitPlan(words[chosen], self.cost, self.cost)


def mix(costs: ArrayLike, visits: float) -> MixedPlan:
    """Mixed strategies of least expected cost, with `visits` visits in every unit on average.

    The visits need not be a whole number: three in two units are 1.5. With a whole number nothing
    is gained but speed, since the program nearly always has a whole answer.

    >>> half = mix([[1.80, 0.85, 0.25, 0.0], [1.61, 0.80, 0.05, 0.0]], visits=0.5)
    >>> print(half.share.round(2).tolist(), round(half.cost, 3))
    [[0.5, 0.5, 0.0, 0.0], [0.5, 0.0, 0.5, 0.0]] 2.155
    """
    from scipy import sparse
    from scipy.optimize import linprog

    table, steps = _cost_table(costs)
    if not 0.0 <= visits <= len(table):
        raise InputError(f"between 0 and {len(table)} of the objects are visited, not {visits!r}")
    words = _words(steps)
    found = linprog(
        table.ravel(),
        A_eq=sparse.vstack(
            [
                sparse.kron(sparse.eye_array(len(table)), np.ones((1, len(words)))),
                sparse.kron(np.ones((1, len(table))), words.T.astype(float)),
            ],
            format="csr",
        ),
        b_eq=np.append(np.ones(len(table)), np.full(steps, float(visits))),
        bounds=(0.0, 1.0),
    )
    if not found.success:
        raise ObservantError(f"the program of the plan was not solved: {found.message}")
    share = np.clip(np.asarray(found.x).reshape(table.shape), 0.0, 1.0)
    share /= share.sum(axis=1, keepdims=True)
    return MixedPlan(share, float((share * table).sum()))


# -- many units ahead -----------------------------------------------------------------------------


def plan_visits(
    chain: AgeChain,
    age: ArrayLike,
    elapsed: ArrayLike,
    visits: int,
    steps: int = 2,
    *,
    discount: float = 1.0,
) -> VisitPlan:
    """The plan of least expected cost over `steps` units, exactly `visits` visits in each.

    It is the optimum of `assign(strategy_costs(...))`, found on a smaller program: an object's
    strategy is a path from visit to visit, of which there are (n+1)(n+2)/2 arcs and not 2ⁿ words.
    """
    table = _stale(chain, age, elapsed, steps, discount)
    objects = len(table)
    _visits(visits, objects)
    # An arc goes from the visit in unit a − 1 (a = 0: the one before the plan) to that in unit
    # b − 1 (b = n + 1: after the plan), and pays for the units between.
    begin, end = np.triu_indices(steps + 2, k=1)
    paid = np.concatenate([np.zeros((objects, steps + 1, 1)), np.cumsum(table, axis=-1)], axis=-1)
    arcs = paid[:, begin, end - 1] - paid[:, begin, begin]
    flow = _path_constraints(objects, begin, end, steps)
    used, bound = _solve(arcs, flow, np.r_[np.tile(np.eye(steps + 1)[0], objects)], visits, steps)
    visited = np.zeros((objects, steps), dtype=bool)
    which, arc = np.nonzero(used)
    inside = end[arc] <= steps
    visited[which[inside], end[arc[inside]] - 1] = True
    return VisitPlan(visited, float(arcs[used].sum()), bound)


# -- the costs ------------------------------------------------------------------------------------


def _stale(
    chain: AgeChain, age: ArrayLike, elapsed: ArrayLike, steps: int, discount: float
) -> Floats:
    """Discounted chance to be out of date, [object, last visit, unit].

    Last visit 0 is the one before the plan, last visit s the one in unit s − 1.
    """
    if steps < 1 or steps != int(steps):
        raise InputError(f"a plan has at least one step, not {steps!r}")
    if not 0.0 <= discount <= 1.0:
        raise InputError(f"the discount must lie between 0 and 1, not {discount!r}")
    first, units, objects = _objects(chain, age, elapsed)
    table = np.zeros((objects, steps + 1, steps))
    states = np.arange(chain.states)
    matrix = np.broadcast_to(chain.transition_matrix(), (objects, chain.states, chain.states))
    ages = _ages_now(matrix, np.minimum(first, chain.states - 1), units)
    # chance[m][object, age]: changed within m units of a visit that found this age.
    p_reset = np.broadcast_to(chain.p_reset, (objects, chain.states))
    chance = [
        chain_changed(p_reset[:, None, :], states[None, :], np.asarray(m)) for m in range(steps)
    ]
    for step in range(steps):
        table[:, 0, step] = chain_changed(p_reset, first, units + step)
    for visit in range(steps):
        for step in range(visit + 1, steps):
            table[:, visit + 1, step] = (ages * chance[step - visit]).sum(axis=-1)
        ages = np.einsum("ri,rij->rj", ages, matrix)
    return table * float(discount) ** np.arange(steps)


def _ages_now(matrix: Floats, first: Integers, units: Integers) -> Floats:
    """Distribution of the age now, row i of Mᵏ for each object."""
    ages = np.eye(matrix.shape[-1])[first]
    power, left = matrix, units.copy()
    while (left > 0).any():  # by repeated squaring: k may be large
        step = np.einsum("ri,rij->rj", ages, power)
        ages = np.where((left % 2 == 1)[:, None], step, ages)
        left //= 2
        if (left > 0).any():
            power = power @ power
    return ages


# -- the programs ---------------------------------------------------------------------------------


def _by_program(table: Floats, words: Flags, visits: int) -> VisitPlan:
    from scipy import sparse

    objects, steps = len(table), words.shape[1]
    one_each = sparse.kron(sparse.eye_array(objects), np.ones((1, len(words))), format="csr")
    per_unit = sparse.kron(np.ones((1, objects)), words.T.astype(float), format="csr")
    matrix = sparse.vstack([one_each, per_unit], format="csr")
    used, bound = _solve(table, matrix, np.ones(objects), visits, steps)
    return VisitPlan(words[used.argmax(axis=1)], float(table[used].sum()), bound)


def _path_constraints(
    objects: int, begin: NDArray[np.intp], end: NDArray[np.intp], steps: int
) -> Any:
    """Rows: for each object, one path out of the start and as much out of a visit as into it;
    then for each unit, the visits in it.
    """
    from scipy import sparse

    nodes = np.arange(steps + 1)[:, None]
    balance = (begin == nodes).astype(float) - (end == nodes)
    into = (end == nodes[1:]).astype(float)
    return sparse.vstack(
        [
            sparse.kron(sparse.eye_array(objects), balance),
            sparse.kron(np.ones((1, objects)), into),
        ],
        format="csr",
    )


def _solve(
    costs: Floats, matrix: Any, ones: Floats, visits: int, steps: int
) -> tuple[Flags, float]:
    """Least cost with whole numbers, and the bound when fractions are allowed.

    The program with fractions is solved first. Its answer is nearly always whole already.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    right = np.append(ones, np.full(steps, float(visits)))
    options: dict[str, Any] = {
        "constraints": LinearConstraint(matrix, right, right),
        "bounds": Bounds(0.0, 1.0),
    }
    relaxed = milp(costs.ravel(), **options)
    answer = relaxed
    if relaxed.success and np.abs(relaxed.x - np.round(relaxed.x)).max() > 1e-6:
        answer = milp(
            costs.ravel(),
            integrality=np.ones(costs.size, int),
            options={"mip_rel_gap": 0.0},
            **options,
        )
    if not answer.success:
        raise ObservantError(f"the program of the plan was not solved: {answer.message}")
    return np.round(answer.x).astype(bool).reshape(costs.shape), float(relaxed.fun or 0.0)


def _by_flows(table: Floats, words: Flags, visits: int) -> VisitPlan:
    """One assignment of objects to places for each choice of the sizes of the strategies."""
    from scipy.optimize import linear_sum_assignment

    best, plan = np.inf, None
    for sizes in _sizes(len(table), words, visits):
        places = np.repeat(np.arange(len(words)), sizes)
        rows, columns = linear_sum_assignment(table[:, places])
        cost = float(table[rows, places[columns]].sum())
        if cost < best:
            best, plan = cost, places[columns]
    if plan is None:
        raise ObservantError("no sizes of the strategies meet the number of visits")
    return VisitPlan(words[plan], best, best)


def _sizes(objects: int, words: Flags, visits: int) -> Iterator[tuple[int, ...]]:
    """All ways to share the objects among the strategies with `visits` visits in every unit."""
    strategies = len(words)
    for bars in combinations(range(objects + strategies - 1), strategies - 1):
        edges = np.array([-1, *bars, objects + strategies - 1])
        sizes = np.diff(edges) - 1
        if (sizes @ words == visits).all():
            yield tuple(sizes.tolist())


# -- checks ---------------------------------------------------------------------------------------


def _words(steps: int) -> Flags:
    """The n-bit labels of the strategies, the bit of the coming unit first."""
    if not 1 <= steps <= 20:
        raise InputError(f"there are 2ⁿ strategies: give 1 to 20 steps, not {steps!r}")
    numbers = np.arange(2**steps)[:, None]
    return np.asarray((numbers >> np.arange(steps)[::-1]) % 2 == 1)


def _cost_table(costs: ArrayLike) -> tuple[Floats, int]:
    table = np.asarray(costs, dtype=np.float64)
    steps = int(np.log2(max(table.shape[-1], 1))) if table.ndim == 2 else 0
    if steps < 1 or table.shape[-1] != 2**steps or not np.isfinite(table).all():
        raise InputError("costs must hold one row an object and a finite cost for each strategy")
    return table, steps


def _objects(chain: AgeChain, age: ArrayLike, elapsed: ArrayLike) -> tuple[Integers, Integers, int]:
    arrays = []
    for name, value in (("age", age), ("elapsed", elapsed)):
        values = np.asarray(value)
        if not np.issubdtype(values.dtype, np.integer) or (values < 0).any():
            raise InputError(f"the {name} of an object is a whole number of units, zero or more")
        arrays.append(values.astype(np.int64))
    try:
        shape = np.broadcast_shapes(chain.p_reset.shape[:-1], *(a.shape for a in arrays), (1,))
    except ValueError:
        raise InputError("chains, ages and elapsed units must agree in number") from None
    if len(shape) != 1:
        raise InputError("give the objects along one axis")
    first, units = (np.broadcast_to(a, shape) for a in arrays)
    return first, units, shape[0]


def _visits(visits: int, objects: int) -> None:
    if visits != int(visits) or not 1 <= visits <= objects:
        raise InputError(
            f"the visits in a unit must be a whole number from 1 to the number of objects, "
            f"{objects}, not {visits!r}"
        )
