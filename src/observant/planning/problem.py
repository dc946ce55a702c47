"""One allocation as functions of the price, and the two solves that find the price.

Everything runs over chunks of sources, on all cores, and is summed in the order of the chunks, so
that memory is bounded and the answer does not depend on the number of cores.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError
from observant.planning.objectives import OBJECTIVES, Objective

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from observant.arrays import Flags, Floats, Integers


@dataclass(frozen=True)
class Solution:
    """A price that spends the budget; `mix` > 0 where the spending jumps at it.

    Where an index stays level over a range of periods, the cost is linear in the visits and every
    mixture of the visits on both sides of the jump is optimal: `mix` is the share of the dear.
    """

    price: float
    spent: float
    dear: float = math.nan
    mix: float = 0.0


@dataclass(frozen=True)
class Doubt:
    """What is not known of the mean currency of a plan, as sums that can be added up.

    Each source adds its own posterior variance. The prior behind them was learned from the same
    visits, and its error is common to all: where visits tell but a share of what makes sources
    differ, the error is larger by one over the root of that share (for normal errors this is exact;
    the share is taken with all sources visited alike).
    """

    weight: float = 0.0
    own: float = math.nan
    """Variances times importance squared; not-a-number where the rates are taken as known."""
    alike: float = 0.0
    level: float = 0.0
    square: float = 0.0

    @classmethod
    def of(cls, problem: Problem, period: Floats, alike: float, rows: slice) -> Doubt:
        """The sums of some sources, which have these periods."""
        model = (problem.current or problem.objective).select(rows)
        even = np.full(len(period), alike)
        own, common = model.mean_penalty_variance(period), model.mean_penalty_variance(even)
        if own is None or common is None:
            return cls()
        weight, level = filled(problem.importance, rows), model.mean_penalty(even)
        sums = (weight, weight**2 * own, weight * common, weight * level, weight * level**2)
        return cls(*(float(values.sum()) for values in sums))

    @classmethod
    def merged(cls, parts: Iterable[Doubt]) -> Doubt:
        """Add up the sums of parts."""
        return cls(*(math.fsum(values) for values in zip(*map(astuple, parts), strict=True)))

    @property
    def error(self) -> float:
        """Standard error of the mean currency."""
        if not self.weight > 0.0:
            return math.nan
        between = max(self.square / self.weight - (self.level / self.weight) ** 2, 0.0)
        share = between / (between + self.alike / self.weight) if between > 0.0 else 1.0
        return math.sqrt(self.own) / self.weight / math.sqrt(share)


@dataclass(frozen=True, eq=False)
class Problem:
    """The data of one allocation, and its answers as functions of the price."""

    objective: Objective
    current: Objective | None
    """Whose mean penalty is 1 − α; None where it is the objective itself."""
    importance: Floats
    cost: Floats
    shortest: Floats
    longest: Floats
    host: Integers | None = None
    host_names: tuple[str, ...] = ()
    caps: Floats | None = None
    host_price: Floats | None = None
    """The price at which each host spends its cap; 0 where it never reaches it."""
    memory: Floats | None = None
    """The periods found last: the next price is near, so are its periods."""
    others: Callable[[str], Objective | None] = field(default=lambda _: None)

    def __len__(self) -> int:
        return len(self.objective)

    # Answers at a price -----------------------------------------------------------------

    def periods(self, price: float, rows: slice) -> Floats:
        """Periods of some sources when one unit of budget has this price."""
        own: Any = price
        if self.host is not None and self.host_price is not None:
            own = np.maximum(price, self.host_price[self.host[rows]])
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            own = np.asarray(own * part(self.cost, rows) / part(self.importance, rows))
            own = np.where(np.isnan(own), np.inf, own)  # 0/0: free, and worth nothing
            start = None if self.memory is None else self.memory[rows]
            period = self.objective.select(rows).period_at(own, start)
        if self.memory is not None:
            self.memory[rows] = period
        return np.clip(period, part(self.shortest, rows), part(self.longest, rows))

    def spending(self, price: float) -> float:
        """Budget spent a day at a price."""
        return self.total(lambda rows: self._cost_rate(self.periods(price, rows), rows).sum())

    def spending_by_host(self, prices: Floats) -> Floats:
        """The same for each host, every host at a price of its own."""
        at_prices = replace(self, host_price=prices)
        assert self.host is not None  # noqa: S101 - for the type checker
        host = self.host
        return np.asarray(
            sum(
                self.map(
                    lambda rows: np.bincount(
                        host[rows],
                        weights=self._cost_rate(at_prices.periods(0.0, rows), rows),
                        minlength=len(self.host_names),
                    )
                )
            )
        )

    def alpha_of(self, periods: Callable[[slice], Floats]) -> float:
        """Mean currency, weighted with the importance, of any periods."""
        model = self.current or self.objective
        return 1.0 - self.mean(
            lambda rows: model.select(rows).mean_penalty(periods(rows)),
        )

    def alpha_at(self, price: float) -> float:
        """Mean currency at a price."""
        return self.alpha_of(lambda rows: self.periods(price, rows))

    def alpha_of_solution(self, solution: Solution) -> float:
        """Mean currency of a solution."""
        return self.alpha_of(lambda rows: self.mixed_periods(solution, rows))

    def alpha_error(self, period: Floats, alike: float) -> float:
        """Standard error of the mean currency of these periods; see `Doubt`."""
        return Doubt.merged(
            self.map(lambda rows: Doubt.of(self, period[rows], alike, rows))
        ).error  # fmt: skip

    def alike(self, budget: float) -> float:
        """The one period of all sources that spends the budget."""
        return self.total(lambda rows: filled(self.cost, rows).sum()) / budget

    def uniform_alpha(self, budget: float) -> float:
        """Mean currency if all had the same period, longer only where a cap or limit says so."""
        alike = self.alike(budget)
        needed: Floats | None = None
        if self.host is not None and self.caps is not None:
            cost = np.broadcast_to(self.cost, self.host.shape)
            needed = np.bincount(self.host, cost, len(self.caps)) / self.caps

        def periods(rows: slice) -> Floats:
            period = np.full(rows.stop - rows.start, alike)
            if needed is not None and self.host is not None:
                period = np.maximum(period, needed[self.host[rows]])
            return np.clip(period, part(self.shortest, rows), part(self.longest, rows))

        return self.alpha_of(periods)

    def mixed_periods(self, solution: Solution, rows: slice) -> Floats:
        """Periods of a solution; see `Solution` for the mixture."""
        period = self.periods(solution.price, rows)
        if not solution.mix:
            return period
        with np.errstate(divide="ignore"):
            visits = (1.0 - solution.mix) / period
            return 1.0 / (visits + solution.mix / self.periods(solution.dear, rows))

    def other_penalties(self, period: Floats) -> dict[str, float]:
        answer = {}
        for name in OBJECTIVES:
            model = self.others(name)
            if model is not None:
                answer[name] = self.mean(_penalty_of(model, period))
        return answer

    # Solving ----------------------------------------------------------------------------

    def for_budget(self, budget: float) -> Solution:
        """The price at which the whole budget is spent; 0 if there is no use for all of it."""
        least = self.spending(math.inf)
        if budget < least * (1 - 1e-12):
            raise InputError(
                f"the longest periods alone need {least:g} a day, more than the budget of "
                f"{budget:g}: raise the budget or the longest period"
            )
        most = self.spending(0.0)
        if most <= budget:
            return Solution(0.0, most)
        guess = self._sampled().guess(budget / len(self)) if len(self) > _BIG else None
        return self._solve(Problem.spending, budget, guess)

    def guess(self, budget_per_source: float) -> float:
        """A price near the right one, for a sample."""
        return self.for_budget(budget_per_source * len(self)).price

    def for_target(self, target: float) -> Solution:
        """The highest price at which the collection still reaches a currency."""
        if not 0.0 < target < 1.0:
            raise InputError(f"the target must be a currency between 0 and 1, not {target:g}")
        if self.alpha_at(math.inf) >= target:
            return Solution(math.inf, self.spending(math.inf))
        best = self.alpha_at(0.0)
        if best < target:
            raise InputError(
                f"the target {target:g} cannot be reached: even without a budget the caps and "
                f"the shortest periods allow no more than {best:.6g}"
            )
        return self._solve(Problem.alpha_at, target)

    def _solve(
        self,
        value: Callable[[Problem, float], float],
        wanted: float,
        guess: float | None = None,
        *,
        quick: bool = True,
    ) -> Solution:
        """Find the price at which a value that falls with it is as wanted.

        It is `quick` to begin every period at that of the price before. Where sources stop being
        worth a visit, many periods have the same index, and then the path must not matter.
        """
        from scipy.optimize import brentq

        near = replace(self, memory=np.full(len(self), np.nan)) if quick else self
        known: dict[float, float] = {}

        def excess(log_price: float) -> float:
            if log_price not in known:
                ratio = value(near, math.exp(log_price)) / wanted
                logarithm = math.log(ratio) if ratio > 0.0 else -_HUGE
                known[log_price] = min(logarithm, _HUGE) if abs(logarithm) > _EXACT else 0.0
            return known[log_price]

        ends = [math.log(guess or 1.0)]
        step = 0.02 if guess else 1.0
        rise = excess(ends[0]) > 0.0
        while len(ends) == 1 or (excess(ends[-1]) > 0.0) == rise:
            ends.append(ends[-1] + (step if rise else -step))
            step *= 2.0
        brentq(excess, ends[-2], ends[-1], xtol=1e-15, rtol=8.9e-16, maxiter=200)
        # The dearest price known that spends too much, the cheapest that does not.
        cheap = max(t for t, found in known.items() if found >= 0.0)
        dear = min(t for t, found in known.items() if found <= 0.0)
        best = min(cheap, dear, key=lambda t: abs(known[t]))
        price = math.exp(best)
        if abs(known[best]) < _JUMP:
            if quick and abs(value(self, price) / wanted - 1.0) > _STEADY:
                return self._solve(value, wanted, price, quick=False)
            return Solution(price, near.spending(price))
        # Between two neighbouring floats the value jumps: mix both sides.
        sides = math.exp(cheap), math.exp(dear)
        over, under = (value(self, side) for side in sides)
        if quick and not over > wanted > under:
            return self._solve(value, wanted, price, quick=False)
        mix = (over - wanted) / (over - under)
        most, least = (self.spending(side) for side in sides)
        return Solution(sides[0], (1.0 - mix) * most + mix * least, sides[1], mix)

    def with_host_prices(self) -> Problem:
        """Find the price at which each capped host spends exactly its cap."""
        if self.caps is None or self.host is None:
            return self
        capped = np.isfinite(self.caps)
        least = self.spending_by_host(np.full(len(self.caps), np.inf))
        impossible = least > self.caps * (1 + 1e-12)
        if impossible.any():
            h = int(np.argmax(impossible))
            raise InputError(
                f"the cap of {self.caps[h]:g} a day of host {self.host_names[h]!r} is impossible: "
                f"the longest periods of its sources alone need {least[h]:g} a day"
            )
        capped &= self.spending_by_host(np.zeros(len(self.caps))) > self.caps
        if not capped.any():
            return replace(self, host_price=np.zeros(len(self.caps)))
        with np.errstate(divide="ignore"):
            wanted = np.log(self.caps)
        low, high = np.full(len(self.caps), -1.0), np.full(len(self.caps), 1.0)
        for _ in range(60):
            too_high = capped & (self._log_by_host(low) < wanted)
            too_low = capped & (self._log_by_host(high) > wanted)
            if not (too_high | too_low).any():
                break
            low, high = (
                np.where(too_high, 3.0 * low, np.where(too_low, high, low)),
                np.where(too_low, 3.0 * high, np.where(too_high, low, high)),
            )
        root = _host_roots(self._log_by_host, wanted, low, high, capped)
        return replace(self, host_price=np.where(capped, np.exp(root), 0.0))

    def _log_by_host(self, log_price: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(self.spending_by_host(np.exp(log_price)))

    # Chunks -----------------------------------------------------------------------------

    def _cost_rate(self, period: Floats, rows: slice) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(part(self.cost, rows) / period)

    def mean(self, value: Callable[[slice], Floats]) -> float:
        """Mean over the sources, weighted with the importance; the unimportant count nothing."""

        def one(rows: slice) -> tuple[float, float]:
            weight = filled(self.importance, rows)
            with np.errstate(invalid="ignore"):
                values = np.where(weight > 0.0, weight * value(rows), 0.0)
            return float(values.sum()), float(weight.sum())

        sums = self.map(one)
        return math.fsum(s for s, _ in sums) / math.fsum(w for _, w in sums)

    def total(self, value: Callable[[slice], Any]) -> float:
        parts = [float(v) for v in self.map(value)]
        return math.inf if math.inf in parts else math.fsum(parts)

    def map(self, value: Callable[[slice], Any]) -> list[Any]:
        """Apply to all chunks, on all cores; the order, and so the answer, is always the same."""
        chunks = chunks_of(len(self))
        if len(chunks) == 1:
            return [value(chunks[0])]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(value, chunks))

    def _sampled(self) -> Problem:
        """Every k-th source, with the prices of the hosts as they are."""
        rows = slice(0, len(self), len(self) // _SAMPLE)

        def of(values: Any) -> Any:
            return values if values is None or values.ndim == 0 else values[rows]

        return replace(
            self,
            objective=self.objective.select(rows),
            importance=of(self.importance),
            cost=of(self.cost),
            shortest=of(self.shortest),
            longest=of(self.longest),
            host=of(self.host),
        )


_CHUNK = 1 << 16
_SAMPLE = 1 << 17
_BIG = 4 * _SAMPLE
"""So many sources are worth a first solve on a sample."""
_HUGE = 1e3
_EXACT = 1e-13
_JUMP = 1e-11
_STEADY = 1e-7


def chunks_of(count: int) -> list[slice]:
    return [slice(i, min(i + _CHUNK, count)) for i in range(0, count, _CHUNK)] or [slice(0, 0)]


def part(values: Floats, rows: slice) -> Floats:
    return values if values.ndim == 0 else values[rows]


def _penalty_of(model: Objective, period: Floats) -> Callable[[slice], Floats]:
    return lambda rows: model.select(rows).mean_penalty(period[rows])


def filled(values: Floats, rows: slice) -> Floats:
    return np.broadcast_to(part(values, rows), (rows.stop - rows.start,))


def _host_roots(
    f: Callable[[Floats], Floats], wanted: Floats, low: Floats, high: Floats, capped: Flags
) -> Floats:
    """Where a falling function reaches the wanted value, for every host at once.

    Regula falsi with Illinois weights, and bisection where that is slow. The answer is the end at
    which no host spends more than its cap.
    """
    with np.errstate(invalid="ignore"):
        f_low = np.minimum(f(low) - wanted, _HUGE)
        f_high = np.maximum(f(high) - wanted, -_HUGE)
    w_low, w_high = f_low.copy(), f_high.copy()
    for turn in range(200):
        width = high - low
        open_ = capped & (width > 4e-16 * (1 + np.abs(low))) & (f_high < -1e-13) & (f_low > 1e-13)
        if not open_.any():
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            share = w_low / (w_low - w_high)
        share = np.where((turn % 4 == 3) | ~np.isfinite(share), 0.5, share)
        t = np.where(open_, low + np.clip(share, 0.0, 1.0) * width, high)
        with np.errstate(invalid="ignore"):
            value = np.clip(f(t) - wanted, -_HUGE, _HUGE)
        up, down = open_ & (value > 0.0), open_ & (value <= 0.0)
        low, f_low, w_low = (np.where(up, new, old) for new, old in
                             ((t, low), (value, f_low), (value, w_low)))  # fmt: skip
        high, f_high, w_high = (np.where(down, new, old) for new, old in
                                ((t, high), (value, f_high), (value, w_high)))  # fmt: skip
        w_high, w_low = np.where(up, w_high / 2, w_high), np.where(down, w_low / 2, w_low)
    return np.where(np.abs(f_low) <= 1e-13, low, high)
