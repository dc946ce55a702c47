"""The optimum for a budget: published numbers, a generic solver, conditions of optimality."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from observant import VisitLog, estimate_rates
from observant.currency import GammaRates, currency
from observant.errors import InputError
from observant.planning import (
    Custom,
    RenewalObjective,
    access_importance,
    count_accesses,
    objective,
    plan,
)
from observant.planning import problem as problem_module
from observant.processes import Constant


def test_published_example():
    """Cho and Garcia-Molina 2003: λ = 1 … 5 a day, 5 visits a day."""
    best = plan([1, 2, 3, 4, 5], budget=5)
    assert best.visits_per_day == pytest.approx([1.150, 1.358, 1.354, 1.138, 0.0], abs=5e-4)
    assert round(best.collection_alpha, 5) == 0.37389
    assert round(best.uniform_alpha, 4) == 0.3651
    assert best.spent == pytest.approx(5, rel=1e-12)
    assert best.starved.tolist() == [False, False, False, False, True]
    assert best.penalties["freshness"] == pytest.approx(1 - best.collection_alpha)
    assert best.penalties["age"] == math.inf


def test_hosts_may_be_numbers():
    rates, hosts = [1.0, 2.0, 3.0], [1, 1, 2]
    best = plan(rates, budget=2, hosts=hosts, host_caps={1: 0.5, 2: 1.0})
    named = plan(rates, budget=2, hosts=["1", "1", "2"], host_caps={"1": 0.5, "2": 1.0})
    assert best.visits_per_day.tolist() == named.visits_per_day.tolist()
    assert best.visits_per_day[:2].sum() <= 0.5 + 1e-9
    with pytest.raises(InputError, match="capped host '3'"):
        plan(rates, budget=2, hosts=hosts, host_caps={3: 1.0})


def test_detected_changes_want_visits_in_proportion():
    """Errata C-13: f ~ λ exactly, not its square root."""
    best = plan([1, 2, 3, 4, 5], budget=5, objective="detected")
    assert best.visits_per_day == pytest.approx(np.arange(1, 6) / 3, rel=1e-10)


# -- a generic solver --------------------------------------------------------------------------


def generic_optimum(known, budget, weight, cost, host=None, caps=None, longest=None):
    """The same problem for SLSQP, in visits a day; returns its best mean penalty."""
    n = len(known)
    weight = weight / weight.sum()

    def penalty(visits):
        return weight @ known.mean_penalty(1 / np.maximum(visits, 1e-12))

    def slope(visits):  # d/df of the mean penalty at T = 1/f is −W(T)
        return -weight * known.index(1 / np.maximum(visits, 1e-12))

    limits = [{"type": "ineq", "fun": lambda f: budget - cost @ f, "jac": lambda f: -cost + 0 * f}]
    for h, cap in enumerate([] if caps is None else caps):
        own = np.where(host == h, cost, 0.0)
        limits.append(
            {"type": "ineq", "fun": lambda f, own=own, cap=cap: cap - own @ f,
             "jac": lambda f, own=own: -own + 0 * f}
        )  # fmt: skip
    low = 1e-9 if longest is None else 1 / longest
    start = np.full(n, max(low, 0.5 * min([budget, *([] if caps is None else caps)]) / cost.sum()))
    found = minimize(
        penalty, start, jac=slope, bounds=[(low, None)] * n, constraints=limits, method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 2000},
    )  # fmt: skip
    return found.fun


@pytest.mark.parametrize("name", ["freshness", "currency", "harmonic", "age", "delay", "detected"])
@pytest.mark.parametrize("seed", range(3))
def test_equals_a_generic_solver(name, seed):
    rng = np.random.default_rng(seed)
    n = 8
    rates, weight, cost = (
        rng.gamma(1, 1, n) + 0.05,
        rng.gamma(1, 1, n) + 0.1,
        rng.uniform(0.5, 2, n),
    )
    host, caps = rng.integers(0, 3, n), rng.uniform(0.4, 2.0, 3)
    given_ = {"objective": name, "grace": 0.5, "importance": weight, "cost": cost}
    known = objective(name, rates, 0.5)
    free = plan(rates, budget=4.0, **given_)
    assert free.penalty == pytest.approx(generic_optimum(known, 4.0, weight, cost), rel=1e-7)
    capped = plan(
        rates, budget=3.0, hosts=[f"h{h}" for h in host], max_period=60.0,
        host_caps={f"h{h}": caps[h] for h in np.unique(host)}, **given_,
    )  # fmt: skip
    rival = generic_optimum(known, 3.0, weight, cost, host, caps, longest=60.0)
    assert capped.penalty == pytest.approx(rival, rel=1e-7)
    assert capped.spent <= 3.0 * (1 + 1e-12)
    spent = np.bincount(host, cost * capped.visits_per_day, 3)
    assert np.all(spent <= caps * (1 + 1e-10))


@settings(max_examples=40)
@given(
    st.integers(0, 10_000),
    st.sampled_from(["freshness", "currency", "harmonic", "age", "delay", "detected"]),
    st.floats(-3, 3),
)
def test_conditions_of_optimality(seed, name, log_budget):
    """Karush, Kuhn, Tucker: one price; below it no visit, at the limits the right inequality."""
    rng = np.random.default_rng(seed)
    n = 60
    rates, weight, cost = rng.gamma(0.5, 1, n), rng.pareto(1.5, n) + 0.01, rng.uniform(0.1, 3, n)
    shortest, longest = 0.2, 50.0
    budget = (cost / longest).sum() + np.exp(log_budget)
    best = plan(
        rates, budget=budget, objective=name, grace=1.0, importance=weight, cost=cost,
        min_period=shortest, max_period=longest,
    )  # fmt: skip
    assert best.spent <= budget * (1 + 1e-10)
    if best.price:
        assert best.spent == pytest.approx(budget, rel=1e-10)
    gain = weight * objective(name, rates, 1.0).index(best.period_days) / cost
    inside = (best.period_days > shortest * (1 + 1e-12)) & (best.period_days < longest)
    assert gain[inside] == pytest.approx(best.price, rel=1e-9)
    assert np.all(gain[best.period_days == shortest] >= best.price * (1 - 1e-9))
    assert np.all(gain[best.period_days == longest] <= best.price * (1 + 1e-9))


def test_price_is_the_slope_of_the_budget_curve():
    rng = np.random.default_rng(3)
    rates, weight = rng.gamma(0.6, 1, 200), rng.gamma(1, 1, 200)
    best = plan(rates, budget=40, importance=weight)
    step = 1e-4
    curve = best.budget_curve([40 - step, 40 + step])
    slope = np.diff(curve.alpha)[0] / (2 * step) * weight.sum()
    assert slope == pytest.approx(best.price, rel=1e-4)
    assert np.all(np.diff(best.budget_curve().alpha) > 0)
    assert np.all(curve.alpha >= curve.uniform_alpha)


def test_target_is_the_inverse_of_the_budget():
    rates = np.random.default_rng(4).gamma(0.6, 1, 300)
    best = plan(rates, budget=50, objective="currency", grace=0.5)
    back = plan(rates, target=best.collection_alpha, objective="currency", grace=0.5)
    assert back.budget == pytest.approx(50, rel=1e-9)
    assert back.price == pytest.approx(best.price, rel=1e-8)
    lazy = plan([0.0, 0.0, 1.0], target=0.5)  # two of three never change: nothing to do
    assert (lazy.budget, lazy.collection_alpha) == (0, pytest.approx(2 / 3))


def test_spare_budget_is_not_spent():
    best = plan([1.0, 2.0], budget=100, objective="currency", grace=1.0)
    assert best.period_days.tolist() == [1.0, 1.0]
    assert (best.price, best.spent, best.collection_alpha) == (0.0, 2.0, 1.0)
    assert "no use" in best.notes[0]


def test_saturated_hosts_are_named():
    best = plan([1, 2, 3], budget=6, hosts=["a", "a", "b"], host_caps={"a": 1.0})
    assert list(best.saturated_hosts) == ["a"]
    assert best.saturated_hosts["a"] > best.price
    assert best.visits_per_day[:2].sum() == pytest.approx(1.0, rel=1e-11)
    assert best.visits_per_day[2] == pytest.approx(5.0)


def test_order_scale_and_number_of_chunks_do_not_matter(monkeypatch):
    rng = np.random.default_rng(5)
    rates, weight = rng.gamma(0.6, 1, 1000), rng.gamma(1, 1, 1000)
    best = plan(rates, budget=200, importance=weight)
    order = rng.permutation(1000)
    shuffled = plan(rates[order], budget=200, importance=7 * weight[order])
    assert shuffled.visits_per_day == pytest.approx(best.visits_per_day[order], rel=1e-9)
    assert shuffled.price == pytest.approx(7 * best.price, rel=1e-10)
    monkeypatch.setattr(problem_module, "_CHUNK", 64)
    monkeypatch.setattr(problem_module, "_SAMPLE", 100)
    monkeypatch.setattr(problem_module, "_BIG", 400)
    chunked = plan(rates, budget=200, importance=weight)
    assert chunked.visits_per_day == pytest.approx(best.visits_per_day, rel=1e-9)


# -- other sources -----------------------------------------------------------------------------


def test_renewal_sources_and_a_jump():
    """Strictly periodic sources, all alike: at one price the period jumps from 2 days to never.

    The optimum is then any mixture that spends the budget; its value is linear in between.
    """
    alike = RenewalObjective(Constant(2.0), count=4)
    best = plan([0.5] * 4, budget=1.0, objective=alike)
    assert best.spent == pytest.approx(1.0, rel=1e-9)
    assert best.price == pytest.approx(1.0, rel=1e-9)  # W(2) = 2 − ∫₀² s/2 = 1
    # A visited source is fresh half of the time; half of the visits that would give all that.
    assert best.collection_alpha == pytest.approx(0.25, abs=1e-6)


@pytest.mark.slow
def test_custom_objective_plans():
    rates = np.array([0.5, 1.0, 3.0])
    own = plan(rates, budget=2, objective=Custom(lambda s, r: -np.expm1(-r * s), rates))
    assert own.visits_per_day == pytest.approx(plan(rates, budget=2).visits_per_day, rel=1e-6)
    unbounded = plan(rates, budget=2, objective=Custom(lambda s, r: r * s, rates))
    delay = plan(rates, budget=2, objective="delay")
    assert unbounded.visits_per_day == pytest.approx(delay.visits_per_day, rel=1e-6)
    assert unbounded.alpha == pytest.approx(delay.alpha, rel=1e-6)


def test_gamma_posterior_plans():
    known = GammaRates(shape=[3.0, 2.0, 5.0], exposure=[10.0, 1.0, 2.0])
    best = plan(None, posterior=known, budget=2.0)
    gain = RenewalObjective(known).index(best.period_days)
    assert gain[best.visits_per_day > 0] == pytest.approx(best.price, rel=1e-9)
    assert best.collection_alpha == pytest.approx(np.mean(currency(known, best.period_days, 0.0)))


# -- few visits: the pooled posterior against not estimating at all -------------------------------


def populations(rng, n):
    return {
        "Gamma": rng.gamma(0.6, 1.0, n),
        "bimodal": np.where(rng.random(n) < 0.5, 0.02, 2.0) * np.exp(rng.normal(0, 0.2, n)),
        "lognormal": np.exp(rng.normal(-1.2, 1.3, n)),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Gamma", "bimodal", "lognormal"])
def test_with_three_visits_the_pooled_posterior_beats_uniform_and_plug_in_does_not(kind):
    """Frontier section 9: three visits a source, gaps of a few days, 0.2 visits a source a day.

    The freshness reached is exact (true rates, closed form), so only the histories are random; at
    3,000 sources the margin of the posterior over uniform is several times its spread over seeds.
    """
    rng = np.random.default_rng(9)
    n, visits = 3_000, 3
    rates = populations(rng, n)[kind]
    gaps = rng.exponential(3.0, (n, visits)) + 0.2
    times = np.concatenate([np.zeros((n, 1)), np.cumsum(gaps, axis=1)], axis=1)
    changed = rng.random((n, visits)) < -np.expm1(-rates[:, None] * gaps)
    log = VisitLog.from_columns(
        source=np.repeat([f"s{i:05}" for i in range(n)], visits + 1).tolist(),
        time=times.ravel(),
        time_unit="d",
        changed=[None if i % (visits + 1) == 0 else bool(c) for i, c in enumerate(
            np.concatenate([np.zeros((n, 1), bool), changed], axis=1).ravel())],
    )  # fmt: skip
    budget = 0.2 * n

    def freshness(best):
        return float(np.mean(1 - objective("freshness", rates).mean_penalty(best.period_days)))

    uniform = float(np.mean(1 - objective("freshness", rates).mean_penalty(n / budget)))
    oracle = plan(rates, budget=budget).collection_alpha
    pooled = freshness(plan(estimate_rates(log, "pooled"), budget=budget))
    mle = np.clip(estimate_rates(log, "mle").rate_per_day, 1e-4, 50.0)
    plug_in = freshness(plan(mle, budget=budget))
    assert plug_in < uniform < pooled <= oracle
    # At least an eighth of what perfect knowledge would gain.
    assert pooled - uniform > 0.125 * (oracle - uniform)


@pytest.mark.slow
def test_posterior_is_read_in_blocks(monkeypatch):
    from observant.planning.objectives import averaged

    rng = np.random.default_rng(2)
    log = VisitLog.from_columns(
        source=np.repeat([f"s{i:03}" for i in range(150)], 5).tolist(),
        time=np.tile(np.arange(5.0), 150),
        time_unit="d",
        changed=[None if i % 5 == 0 else bool(rng.random() < 0.4) for i in range(750)],
    )
    table = estimate_rates(log, "pooled")
    whole = plan(table, budget=60, objective="currency", grace=0.5)
    monkeypatch.setattr(averaged, "_ROWS", 32)
    blocks = plan(table, budget=60, objective="currency", grace=0.5)
    assert blocks.visits_per_day == pytest.approx(whole.visits_per_day, rel=1e-9)
    dense = plan(
        None, budget=60,
        objective=averaged.PosteriorMean("currency", *table.posterior.points(), 0.5),
    )  # fmt: skip
    assert dense.collection_alpha == pytest.approx(whole.collection_alpha, rel=1e-9)
    assert whole.source[0].as_py() == "s000"
    picked = objective("freshness", table.posterior).select(np.array([3, 140]))
    rates, weights = table.posterior.points()
    assert picked.grid == pytest.approx(rates[[3, 140]])
    assert picked.weights == pytest.approx(weights[[3, 140]])


# -- importance from accesses ------------------------------------------------------------------


def test_importance_is_pooled_and_calibrated():
    """Gamma rates of access: 95 % intervals cover 95 % (± 4 standard errors of 4,000 sources)."""
    rng = np.random.default_rng(6)
    truth = rng.gamma(0.7, 2.0, 4_000)
    counts = rng.poisson(truth * 3.0)
    table = access_importance(counts, 3.0)
    covered = np.mean((table.low <= truth) & (truth <= table.high))
    assert covered == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 4_000))
    pooled = np.mean((table.importance - truth) ** 2)
    raw = access_importance(counts, 3.0, pooled=False)
    assert pooled < np.mean((raw.importance - truth) ** 2)
    assert raw.importance == pytest.approx(counts / 3.0)
    assert table.shape == pytest.approx(0.7, rel=0.15)


def test_erlang_interval_is_exact():
    """The interval of a count N in T days covers by (4.30): P(Erlang mean ≤ bound) = 2.5 %."""
    from scipy.stats import poisson

    table = access_importance([4], 10.0, pooled=False)
    assert poisson.sf(3, table.low[0] * 10) == pytest.approx(0.025)
    assert poisson.cdf(4, table.high[0] * 10) == pytest.approx(0.025)
    assert table.gap_days[0] == 2.5


def test_accesses_are_counted():
    assert count_accesses(["a", "b"], ["b", "x", "b"]).tolist() == [0, 2]
    with pytest.raises(InputError, match="no source was accessed"):
        access_importance([0, 0], 1.0)
    with pytest.raises(InputError, match="days"):
        access_importance([1], 0.0)
    with pytest.raises(InputError, match="accesses"):
        access_importance([-1], 1.0)
    with pytest.raises(InputError, match="confidence"):
        access_importance([1], 1.0, confidence=1.0)


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({}, "budget .* or a target"),
        ({"budget": 0.0}, "budget"),
        ({"budget": math.inf}, "budget"),
        ({"budget": math.nan}, "budget"),
        ({"budget": 1.0, "rates": [1.0, math.nan]}, "'b'.*rate"),
        ({"budget": 1.0, "rates": [1.0, math.inf]}, "'b'.*rate"),
        ({"budget": 1.0, "rates": []}, "no sources"),
        ({"budget": 1.0, "importance": [1.0, -1.0]}, "'b'.*importance"),
        ({"budget": 1.0, "importance": [1.0, 1.0, 1.0]}, "importance"),
        ({"budget": 1.0, "importance": 0.0}, "importance"),
        ({"budget": 1.0, "cost": [0.0, 1.0]}, "'a'.*cost"),
        ({"budget": 1.0, "max_period": [0.5, 0.0]}, "'b'.*longest"),
        ({"budget": 1.0, "min_period": [1, 3], "max_period": 2}, "'b'.*shortest"),
        ({"budget": 0.1, "max_period": 1.0}, "longest periods alone need 2"),
        ({"budget": 1.0, "host_caps": 1.0}, "host of each"),
        ({"budget": 1.0, "hosts": ["x", "y"], "host_caps": 0.0}, "'x'"),
        ({"budget": 1.0, "hosts": ["x"], "host_caps": 1.0}, "1 hosts"),
        ({"budget": 1.0, "hosts": ["x", "y"], "host_caps": {"z": 1.0}}, "'z'"),
        ({"budget": 9.0, "hosts": ["x", "y"], "host_caps": {"y": 0.5}, "max_period": 1.0}, "'y'"),
        ({"target": 1.0}, "target"),
        ({"target": -0.5}, "target"),
        ({"target": 0.9, "hosts": ["x", "y"], "host_caps": 1.0}, "cannot be reached"),
        ({"target": 0.9, "min_period": 1.0}, "cannot be reached"),
        ({"target": 0.9, "budget": 1.0}, "needs a budget of"),
        ({"budget": 1.0, "grace": -1.0, "objective": "currency"}, "grace"),
        ({"budget": 1.0, "objective": "speed"}, "speed"),
        ({"budget": 1.0, "source": ["a"]}, "1 names"),
    ],
)
def test_bad_input_is_named(given_, words):
    given_ = {"rates": [1.0, 2.0], "source": ["a", "b"], **given_}
    if given_["rates"] == []:
        given_["source"] = []
    with pytest.raises(InputError, match=words):
        plan(given_.pop("rates"), **given_)


def test_queues_spend_the_budget_and_lose_less_the_more_there_are():
    rng = np.random.default_rng(3)
    rates, weights = rng.lognormal(-2, 1.5, 400), rng.lognormal(0, 1, 400)
    best = plan(rates, budget=40.0, importance=weights)
    found = [best.queues(count) for count in (1, 2, 4, 8, 400)]
    for few in found:
        assert few.spent == pytest.approx(40.0)
        assert few.collection_alpha <= best.collection_alpha + 1e-12
        alpha = freshness(rates, few.period_days)
        assert few.collection_alpha == pytest.approx(np.average(alpha, weights=weights))
    alphas = [few.collection_alpha for few in found]
    assert alphas == sorted(alphas)
    assert alphas[-1] == pytest.approx(best.collection_alpha, abs=1e-6)
    assert [len(np.unique(few.period_days[np.isfinite(few.period_days)])) for few in found[:3]] == [
        1,
        2,
        4,
    ]
    # A queue has those whose best periods lie together: no grid over rate and importance.
    order = np.argsort(best.period_days)
    assert np.all(np.diff(found[2].period_days[order][~best.starved[order]]) >= 0)
    with pytest.raises(InputError, match="one queue"):
        best.queues(0)


def freshness(rates, period):
    with np.errstate(invalid="ignore"):
        x = rates * period
        return np.where(np.isfinite(period), -np.expm1(-x) / x, 0.0)
