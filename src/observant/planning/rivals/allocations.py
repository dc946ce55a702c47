"""Rivals that know the rates and share out a budget of visits per day."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from observant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from observant.arrays import Floats


# -- rules of thumb -------------------------------------------------------------------------------


def uniform(rates: ArrayLike, importance: ArrayLike = 1.0, budget: float = 1.0) -> Floats:
    """Every source as often as any other.

    >>> uniform([1.0, 4.0], budget=1.0)
    array([0.5, 0.5])
    """
    return power(rates, importance, budget, exponent=0.0)


def proportional(rates: ArrayLike, importance: ArrayLike = 1.0, budget: float = 1.0) -> Floats:
    """Visits proportional to the rate. It sees the most changes of all (errata C-13).

    >>> proportional([1.0, 4.0], budget=1.0)
    array([0.2, 0.8])
    """
    return power(rates, importance, budget, exponent=1.0)


def square_root(rates: ArrayLike, importance: ArrayLike = 1.0, budget: float = 1.0) -> Floats:
    """Visits proportional to the square root of the rate (Cho 6.4)."""
    return power(rates, importance, budget, exponent=0.5)


def power(
    rates: ArrayLike, importance: ArrayLike = 1.0, budget: float = 1.0, *, exponent: float = 0.5
) -> Floats:
    """Visits proportional to rate^exponent, whatever the importance.

    >>> power([1.0, 4.0], budget=3.0)
    array([1., 2.])
    """
    rates, _, budget = _checked(rates, importance, budget)
    share = rates**exponent
    if not share.sum() > 0.0:  # nothing is known to change: all are equal
        share = np.ones_like(rates)
    return np.asarray(budget * share / share.sum())


def queues(
    rates: ArrayLike, importance: ArrayLike = 1.0, budget: float = 1.0, *, count: int = 6
) -> Floats:
    """Brewington's queues of fixed rate (4.2): sources of a queue are visited in turn.

    Six of them, as many as his grid has on a side; see `Plan.queues`.

    >>> print(queues([0.1, 0.2, 0.5, 1.0, 2.0], budget=2.0, count=2).round(3))
    [0.291 0.291 0.564 0.564 0.291]
    """
    from observant.planning.allocation import plan

    rates, importance, budget = _checked(rates, importance, budget)
    if not np.any(rates * importance > 0.0):
        return uniform(rates, importance, budget)
    return plan(rates, budget=budget, importance=importance).queues(count).visits_per_day


def cho_policy(
    changes: ArrayLike,
    visits: int,
    period: float,
    budget: float,
    *,
    policy: Literal["uniform", "naive", "improved"] = "improved",
    exponent: float = 0.5,
    floor: float = 0.0,
) -> Floats:
    """The policies of Cho 6.4: estimate from a few regular visits, then visit as λ^exponent.

    `changes` of the first `visits` visits, one a `period`, saw a change (Cho: 5 visits, a week
    apart). "naive" estimates X/(nI), "improved" −log((n−X+½)/(n+½))/I. As published, a source that
    was never seen to change is never visited again, and both can then lose to uniform (errata
    C-13). `floor` takes that many changes as the least number seen, for instance 0.5.

    >>> cho_policy([0, 1, 5], visits=5, period=7, budget=3 / 7).round(4)
    array([0.    , 0.0962, 0.3324])
    """
    seen = np.atleast_1d(np.asarray(changes, float))
    if visits < 1 or not ((seen >= 0) & (seen <= visits)).all():
        raise InputError(f"the changes seen must lie between 0 and the number of visits, {visits}")
    if not period > 0 or not 0.0 <= floor <= visits:
        raise InputError("the period must be above 0, the floor between 0 and the visits")
    seen = np.maximum(seen, floor)
    estimates = {
        "uniform": np.ones_like(seen),
        "naive": seen / visits / period,
        "improved": -np.log((visits - seen + 0.5) / (visits + 0.5)) / period,
    }
    if policy not in estimates:
        raise InputError(f"the policies are {', '.join(estimates)}, not {policy!r}")
    return power(np.maximum(estimates[policy], 0.0), 1.0, budget, exponent=exponent)


# -- optima for crawling at random times ----------------------------------------------------------


def azar(
    rates: ArrayLike, importance: ArrayLike = 1.0, budget: float = 1.0, *, epsilon: float = 0.0
) -> Floats:
    """Visits that maximise Σ μρ/(ρ+Δ), freshness under visits at random (Poisson) times.

    Azar, Horvitz, Lubetzky, Peres, Shahaf 2018, in O(n log n). No source gets less than
    `epsilon` times its even share of the budget; 0.4 was best for Bing (Kolobov et al. 2019).

    >>> azar([1.0, 2.0, 30.0], budget=3.0).round(4)
    array([1.4853, 1.5147, 0.    ])
    """
    rates, importance, budget = _checked(rates, importance, budget)
    if not 0.0 <= epsilon <= 1.0:
        raise InputError(f"epsilon is a share of the even visits, 0 to 1, not {epsilon!r}")
    if not importance.sum() > 0.0:
        raise InputError("not every importance may be zero")
    least = epsilon * budget / len(rates)
    # ρ = √(μΔ/Λ) − Δ where that is above the least. The sources that get the least are those of
    # smallest slope there, μΔ/(Δ+least)²; with k of them, the budget gives 1/√Λ directly.
    root = np.sqrt(importance * rates)
    with np.errstate(invalid="ignore", divide="ignore"):
        slope = np.where(root > 0.0, root / (rates + least), 0.0)
    order = np.argsort(slope, kind="stable")
    roots = np.cumsum(root[order][::-1])[::-1]
    left = np.cumsum(rates[order][::-1])[::-1] + budget - least * np.arange(len(rates))
    above = slope[order] * left > roots
    if not above.any():  # nothing to gain: what nobody needs is shared out evenly
        return np.full(len(rates), budget / len(rates))
    first = int(np.argmax(above))
    visits = np.full(len(rates), least)
    busy = order[first:]
    visits[busy] = np.maximum(root[busy] * (left[first] / roots[first]) - rates[busy], least)
    return visits


def polite_azar(
    rates: ArrayLike,
    importance: ArrayLike = 1.0,
    budget: float = 1.0,
    *,
    hosts: ArrayLike,
    caps: Mapping[Any, float] | float,
) -> Floats:
    """Azar's optimum with at most so many visits per day to each host (Kolobov et al. 2019).

    Solve without caps; give every host that broke its cap exactly the cap, shared out within it;
    take it away, and solve again for the rest. What no host may take is not spent.

    >>> polite_azar([1, 1, 1], budget=3.0, hosts=["a", "a", "b"], caps={"a": 1.0}).round(3)
    array([0.5, 0.5, 2. ])
    """
    rates, importance, budget = _checked(rates, importance, budget)
    names, host = np.unique(np.asarray(hosts), return_inverse=True)
    if host.shape != rates.shape:
        raise InputError(f"give one host for each of {len(rates)} sources")
    if isinstance(caps, Mapping):
        cap = np.array([float(caps.get(name, np.inf)) for name in names.tolist()])
    else:
        cap = np.full(len(names), float(caps))
    if not (cap > 0).all():
        worst = names[np.flatnonzero(~(cap > 0))[0]]
        raise InputError(f"the cap of host {str(worst)!r} must be more than 0 visits per day")
    members = np.split(np.argsort(host, kind="stable"), np.cumsum(np.bincount(host))[:-1])
    visits = np.zeros(len(rates))
    free = np.ones(len(names), dtype=bool)
    while free.any():
        some = free[host]
        if not importance[some].sum() > 0.0:
            break
        visits[some] = azar(rates[some], importance[some], budget)
        spent = np.bincount(host, weights=visits, minlength=len(names))
        broken = free & (spent > cap)
        if not broken.any():
            break
        for h in np.flatnonzero(broken):
            visits[members[h]] = azar(rates[members[h]], importance[members[h]], cap[h])
        free &= ~broken
        budget -= float(cap[broken].sum())
        visits[free[host]] = 0.0
        if budget <= 0.0:
            break
    return visits


def lambda_crawl(
    rates: ArrayLike,
    importance: ArrayLike = 1.0,
    budget: float = 1.0,
    *,
    notified: ArrayLike = False,
) -> Floats:
    """LambdaCrawl: visits at random times of least harmonic cost (Kolobov et al. 2019).

    A source is charged 1 + 1/2 + … + 1/N for N missed changes, Σ μ log((ρ+Δ)/ρ) in the mean. Every
    source that changes and matters is visited. Where `notified`, every change is announced
    (complete observation): the source is visited after an announcement with probability p, and
    the answer is p·Δ visits per day; its cost is −μ log p. Both kinds share one budget and one
    price. When all are notified the budget may be more than can be used, and then p is 1.

    >>> lambda_crawl([1.0, 1.0], importance=[1, 3], budget=2.0).round(4)
    array([0.6458, 1.3542])
    >>> lambda_crawl([1.0, 4.0], budget=2.0, notified=True)
    array([1., 1.])
    >>> lambda_crawl([1.0, 4.0], budget=2.0, notified=[False, True]).round(4)
    array([0.7321, 1.2679])
    """
    rates, importance, budget = _checked(rates, importance, budget)
    told = np.broadcast_to(np.asarray(notified, bool), rates.shape)
    wanted = (rates > 0.0) & (importance > 0.0)
    if not wanted.any():
        raise InputError("no source both changes and matters: there is nothing to plan")

    def visits_at(log_price: float) -> Floats:
        q = importance * np.exp(-log_price)
        with np.errstate(divide="ignore", invalid="ignore"):
            at_random = 2.0 * q / (1.0 + np.sqrt(1.0 + 4.0 * q / rates))
        return np.where(wanted, np.where(told, np.minimum(q, rates), at_random), 0.0)

    if (told | ~wanted).all() and rates[wanted].sum() <= budget:
        return np.where(wanted, rates, 0.0)
    return visits_at(_root(lambda x: float(visits_at(x).sum()) / budget - 1.0))


def lambda_crawl_approx(
    rates: ArrayLike, importance: ArrayLike = 1.0, budget: float = 1.0
) -> Floats:
    """LambdaCrawlApprox: visits proportional to importance, the rates not looked at.

    >>> lambda_crawl_approx([1.0, 9.0], importance=[1, 3], budget=2.0)
    array([0.5, 1.5])
    """
    rates, importance, budget = _checked(rates, importance, budget)
    if not importance.sum() > 0.0:
        raise InputError("not every importance may be zero")
    return np.asarray(budget * importance / importance.sum())


ALLOCATIONS: dict[str, Callable[..., Floats]] = {
    "uniform": uniform,
    "proportional": proportional,
    "square_root": square_root,
    "azar": azar,
    "azar_floor": partial(azar, epsilon=0.4),
    "lambda_crawl": lambda_crawl,
    "lambda_crawl_approx": lambda_crawl_approx,
    "queues": queues,
}
"""Every rival that needs only `rates, importance, budget`, by name."""


# -- helpers --------------------------------------------------------------------------------------


def _root(excess: Callable[[float], float]) -> float:
    """Where a falling function of the logarithm of the price is zero."""
    from scipy.optimize import brentq

    low, high, step = -1.0, 1.0, 2.0
    while excess(low) < 0.0:
        low, step = low - step, 2.0 * step
    step = 2.0
    while excess(high) > 0.0:
        high, step = high + step, 2.0 * step
    return float(brentq(excess, low, high, xtol=1e-14, rtol=8.9e-16))


def _checked(
    rates: ArrayLike, importance: ArrayLike, budget: float
) -> tuple[Floats, Floats, float]:
    known = np.atleast_1d(np.asarray(rates, float))
    if known.ndim != 1 or known.size == 0:
        raise InputError("give the rates of one source or more, along one axis")
    try:
        weights = np.broadcast_to(np.asarray(importance, float), known.shape)
    except ValueError:
        raise InputError(f"give one importance for each of {known.size} sources") from None
    for name, values in (("rate", known), ("importance", weights)):
        bad = ~(np.isfinite(values) & (values >= 0.0))
        if bad.any():
            i = int(np.argmax(bad))
            raise InputError(
                f"the {name} of source number {i} must be finite and not negative: {values[i]}"
            )
    if not 0.0 < budget < np.inf:
        raise InputError(f"the budget must be a finite number of visits per day above 0: {budget}")
    return known, weights, float(budget)
