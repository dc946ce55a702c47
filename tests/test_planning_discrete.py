"""Brewington's discrete optimisers against his table, brute force, and simulation."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observant.errors import InputError
from observant.papers.thesis import AgeChain, chain_changed, chain_time_out_of_date
from observant.papers.thesis.strategies import (
    assign,
    greedy,
    mix,
    plan_visits,
    strategy_costs,
    strategy_names,
    strategy_value,
    two_step_costs,
)

# Objects A and B of table 4.1: the costs of XX, XO, OX and OO.
TABLE_4_1 = [[0.85 + 0.95, 0.85, 0.25, 0.0], [0.80 + 0.81, 0.80, 0.05, 0.0]]


def test_table_4_1():
    plans = {"AB": ("OX", "XO"), "BA": ("XO", "OX"), "AA": ("OO", "XX"), "BB": ("XX", "OO")}
    values = {name: round(strategy_value(TABLE_4_1, plan), 2) for name, plan in plans.items()}
    assert values == {"AB": 1.05, "BA": 0.90, "AA": 1.61, "BB": 1.80}
    for method in ("program", "flows"):
        best = assign(TABLE_4_1, visits=1, method=method)
        assert best.strategies == plans["BA"]
        assert best.cost == pytest.approx(0.90)
    # The greedy choice of the coming unit is A (0.85 against 0.80), which leads to AB.
    assert TABLE_4_1[0][1] > TABLE_4_1[1][1]


# -- the costs ------------------------------------------------------------------------------------


def exact_cost(p_reset, age, elapsed, word, discount):
    """The cost of one strategy, by walking through every history of updates."""
    last = len(p_reset) - 1
    total = 0.0
    for history in product((0, 1), repeat=elapsed + len(word) - 1):
        chance, now, stale, cost = 1.0, age, False, 0.0
        for unit in range(elapsed + len(word)):
            step = unit - elapsed
            if step >= 0:
                stale = stale and word[step] == "X"
                cost += discount**step * stale
            if unit < len(history):
                chance *= p_reset[now] if history[unit] else 1 - p_reset[now]
                stale = stale or bool(history[unit])
                now = 0 if history[unit] else min(now + 1, last)
        total += chance * cost
    return total


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=4),
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(1, 3),
    st.floats(0, 1),
)
@settings(max_examples=40)
def test_costs_equal_enumeration(p_reset, age, elapsed, steps, discount):
    age = min(age, len(p_reset) - 1)
    costs = strategy_costs(AgeChain(p_reset), age, elapsed, steps, discount=discount)[0]
    for cost, word in zip(costs, strategy_names(steps), strict=True):
        assert cost == pytest.approx(exact_cost(p_reset, age, elapsed, word, discount), abs=1e-12)


def test_two_step_costs_are_those_of_the_thesis():
    """(4.4) to (4.9) by powers of the matrix, where those are right (age + elapsed + 1 ≤ N)."""
    p = np.array([0.1, 0.3, 0.2, 0.4, 0.25, 0.6, 0.35])
    chain, i, k = AgeChain(p), 1, 3
    matrix = chain.transition_matrix()
    power = np.linalg.matrix_power(matrix, k)
    costs = {name: float(cost[0]) for name, cost in two_step_costs(chain, i, k).items()}
    assert costs["XO"] == pytest.approx(1 - power[i, i + k])  # (4.4)
    later = 1 - np.linalg.matrix_power(matrix, k + 1)[i, i + k + 1]
    assert costs["XX"] == pytest.approx(costs["XO"] + later)  # (4.6), first line
    # (4.6), second line with the index of (2.26) (errata B-18): P(k + i, i).
    assert costs["XX"] == pytest.approx(2 * costs["XO"] + power[i, i + k] * p[i + k])
    assert costs["OX"] == pytest.approx(power[i] @ matrix[:, 0])  # (4.8), errata B-19
    assert costs["OO"] == 0.0
    assert 0 <= 2 * costs["XO"] <= costs["XX"] <= 2  # (4.7)
    # A visit may be worth more in the second unit: certain to change then and not before.
    wait = two_step_costs(AgeChain([0.0, 1.0, 0.0]), 0, 1)
    assert (wait["XO"][0], wait["OX"][0]) == (0.0, 1.0)


# -- the programs ---------------------------------------------------------------------------------


def brute_force(costs, visits):
    names = strategy_names(int(np.log2(costs.shape[1])))
    words = np.array([[letter == "O" for letter in name] for name in names])
    best = np.inf
    for choice in product(range(len(names)), repeat=len(costs)):
        which = list(choice)
        if (words[which].sum(axis=0) == visits).all():
            best = min(best, costs[np.arange(len(costs)), which].sum())
    return best


def fast_brute_force(costs, visits):
    """The same by dynamic programming over the visits used in each unit: still every plan."""
    steps = int(np.log2(costs.shape[1]))
    words = [tuple(letter == "O" for letter in name) for name in strategy_names(steps)]
    best = {(0,) * steps: 0.0}
    for row in costs:
        after = {}
        for used, cost in best.items():
            for word, extra in zip(words, row, strict=True):
                now = tuple(a + b for a, b in zip(used, word, strict=True))
                if max(now) <= visits and cost + extra < after.get(now, np.inf):
                    after[now] = cost + extra
        best = after
    return best[(visits,) * steps]


@st.composite
def problems(draw, genuine=True):
    objects, steps = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    visits = draw(st.integers(1, objects))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if not genuine:
        return rng.integers(0, 4, (objects, 2**steps)).astype(float), visits, None
    states = draw(st.integers(1, 4))
    chain = AgeChain(rng.random((objects, states)) ** draw(st.sampled_from([0.5, 1, 3])))
    age, elapsed = rng.integers(0, states, objects), rng.integers(0, 6, objects)
    discount = draw(st.sampled_from([1.0, 0.9, 0.5]))
    costs = strategy_costs(chain, age, elapsed, steps, discount=discount)
    return costs, visits, (chain, age, elapsed, visits, steps, discount)


def test_the_two_brute_forces_agree():
    rng = np.random.default_rng(1)
    for steps, objects, visits in ((1, 4, 2), (2, 4, 2), (2, 5, 1), (3, 3, 2)):
        costs = rng.random((objects, 2**steps))
        assert fast_brute_force(costs, visits) == pytest.approx(brute_force(costs, visits))


@pytest.mark.slow
@given(problems())
@settings(max_examples=80)
def test_the_programs_equal_brute_force(problem):
    costs, visits, (*given_, steps, discount) = problem
    exact = fast_brute_force(costs, visits)
    plans = {
        "words": assign(costs, visits),
        "paths": plan_visits(*given_, steps, discount=discount),
    }
    if steps < 3 or len(costs) < 5:  # the number of flows grows fast
        plans["flows"] = assign(costs, visits, method="flows")
    for plan in plans.values():
        assert plan.cost == pytest.approx(exact, abs=1e-9)
        assert plan.bound <= exact + 1e-9
        assert (plan.visited.sum(axis=0) == visits).all()
        assert strategy_value(costs, plan.strategies) == pytest.approx(exact, abs=1e-9)


@pytest.mark.slow
@given(problems(genuine=False))
@settings(max_examples=60)
def test_any_costs_are_solved_in_whole_numbers(problem):
    costs, visits, _ = problem
    assert assign(costs, visits).cost == pytest.approx(fast_brute_force(costs, visits), abs=1e-9)


@pytest.mark.parametrize(("objects", "visits"), [(5, 2), (6, 3), (6, 1)])
def test_three_steps_of_flows_equal_the_program(objects, visits):
    rng = np.random.default_rng(objects + visits)
    chain = AgeChain(rng.random((objects, 3)))
    costs = strategy_costs(chain, 0, rng.integers(1, 4, objects), 3)
    flows = assign(costs, visits, method="flows")
    assert flows.cost == pytest.approx(assign(costs, visits).cost)


def test_the_relaxation_can_be_fractional():
    """Errata B-20: costs (XX, XO, OX, OO) for which the linear program alone gives 0.5."""
    costs = [(1, 0, 0, 0), (1, 1, 1, 0)]
    plan = assign(costs, visits=1)
    assert (plan.bound, plan.cost) == (pytest.approx(0.5), pytest.approx(1.0))
    assert assign(costs, visits=1, method="flows").cost == pytest.approx(1.0)


def test_long_plans_stay_small():
    """Twelve units ahead for 60 objects: 4096 words an object, but 91 arcs."""
    rng = np.random.default_rng(0)
    chain = AgeChain(rng.random((60, 5)) * 0.4)
    plan = plan_visits(chain, age=0, elapsed=rng.integers(1, 10, 60), visits=6, steps=12)
    assert (plan.visited.sum(axis=0) == 6).all()
    assert plan.bound - 1e-6 <= plan.cost <= plan.bound * 1.02


# -- greedy, liveness, and what looking ahead buys -------------------------------------------------


def test_greedy_takes_the_largest_costs():
    rng = np.random.default_rng(2)
    chain = AgeChain(rng.random((20, 4)))
    age, elapsed = rng.integers(0, 4, 20), rng.integers(1, 6, 20)
    for cost, measure in (("objects", chain_changed), ("time", chain_time_out_of_date)):
        chosen = greedy(chain, age, elapsed, 5, cost=cost)
        costs = measure(chain.p_reset, age, elapsed)
        assert set(chosen) == set(np.argsort(-costs)[:5])


@pytest.mark.slow
def test_ties_are_broken_without_preference():
    """Ten equal objects, 2000 draws of one: each within 5 standard deviations of 200."""
    rng = np.random.default_rng(3)
    chain = AgeChain.poisson(np.full(10, 0.3))
    taken = [greedy(chain, 0, 1, 1, rng=rng)[0] for _ in range(2000)]
    assert np.abs(np.bincount(taken, minlength=10) - 200).max() < 5 * np.sqrt(200 * 0.9)


def run(chain, visits, units, choose, seed=0):
    """Let objects change and be visited; return out-of-date objects per unit and last visits."""
    rng = np.random.default_rng(seed)
    objects, last = chain.p_reset.shape[0], chain.states - 1
    now = np.zeros(objects, int)  # the true age, hidden between visits
    age, elapsed = now.copy(), np.zeros(objects, int)
    stale, seen, total = np.zeros(objects, bool), np.zeros(objects, int), 0
    for unit in range(units):
        changed = rng.random(objects) < chain.p_reset[np.arange(objects), now]
        now = np.where(changed, 0, np.minimum(now + 1, last))
        stale, elapsed = stale | changed, elapsed + 1
        chosen = choose(age, elapsed, rng, unit)
        age, elapsed, stale = age.copy(), elapsed.copy(), stale.copy()
        age[chosen], elapsed[chosen], stale[chosen], seen[chosen] = now[chosen], 0, False, unit + 1
        total += stale.sum()
        assert len(chosen) == visits
    return total / units, seen


@pytest.mark.slow
@pytest.mark.parametrize("cost", ["objects", "time"])
def test_no_object_is_forgotten(cost):
    """Liveness: slow and fast objects together, one visit a unit, and all come round again."""
    chain = AgeChain.poisson([0.95, 0.95, 0.9, 0.5, 0.02, 0.01], states=3)

    def choose(age, elapsed, rng, _):
        return greedy(chain, age, elapsed, 1, cost=cost, rng=rng)

    _, seen = run(chain, 1, 1500, choose)
    # 1 − 0.99ᵏ passes 0.9975 = 1 − 0.05², all that two units do to a fast object, at k = 597.
    assert seen.min() > 1500 - 640


def test_liveness_as_restated():
    """Errata B-5: the chance never reaches 1, so one certain object keeps C₍₁₎ for itself; the
    time out of date grows without end, so C₍₂₎ comes to the other.
    """
    chain = AgeChain.poisson([1.0, 0.2])
    assert chain_changed(chain.p_reset[1], 0, 100) < 1.0
    assert greedy(chain, 0, [1, 100], 1, cost="objects").tolist() == [0]
    assert greedy(chain, 0, [1, 100], 1, cost="time").tolist() == [1]
    # And an object that stops changing is rightly left alone.
    still = AgeChain([[0.5, 0.5], [0.3, 0.0]])
    assert greedy(still, 0, [1, 10_000], 1).tolist() == [0]


@pytest.mark.slow
def test_looking_ahead_beats_greed():
    """Errata B-19: 4.22 objects out of date for greedy, 3.02 for round robin, 3.05 two steps.

    The means of 4000 units have a standard error near 0.02, taken as independent over the few
    units that an object stays out of date.
    """
    chain = AgeChain.poisson([0.95, 0.9, 0.2, 0.2, 0.2, 0.1])
    rules = {
        "greedy": (lambda a, e, rng, _: greedy(chain, a, e, 1, rng=rng), 4000),
        "round robin": (lambda *x: np.array([x[-1] % 6]), 4000),
        "two-step": (lambda a, e, *_: plan_visits(chain, a, e, 1, 2).first(), 800),
    }
    stale = {name: run(chain, 1, units, rule)[0] for name, (rule, units) in rules.items()}
    assert stale["round robin"] == pytest.approx(3.02, abs=0.12)
    assert stale["greedy"] == pytest.approx(4.22, abs=0.15)
    assert stale["two-step"] == pytest.approx(3.05, abs=0.25)


# -- bad input ------------------------------------------------------------------------------------


def test_bad_input_is_named():
    chain = AgeChain.poisson([0.1, 0.2])
    with pytest.raises(InputError, match="from 1 to the number of objects, 2, not 3"):
        greedy(chain, 0, 1, 3)
    with pytest.raises(InputError, match="'objects' or 'time'"):
        greedy(chain, 0, 1, 1, cost="money")
    with pytest.raises(InputError, match="agree in number"):
        plan_visits(chain, [0, 0, 0], 1, 1)
    with pytest.raises(InputError, match="whole number of units"):
        plan_visits(chain, 0, 1.5, 1)
    with pytest.raises(InputError, match="discount"):
        strategy_costs(chain, 0, 1, discount=2)
    with pytest.raises(InputError, match="at least one step"):
        plan_visits(chain, 0, 1, 1, steps=0)
    with pytest.raises(InputError, match="one row an object"):
        assign([[1.0, 2.0, 3.0]], 1)
    with pytest.raises(InputError, match="'program' or 'flows'"):
        assign(TABLE_4_1, 1, method="guess")
    with pytest.raises(InputError, match="one word of 2 letters"):
        strategy_value(TABLE_4_1, ("XX",))


def test_mixed_strategies_cost_no_more_and_may_visit_one_and_a_half():
    rng = np.random.default_rng(4)
    costs = strategy_costs(AgeChain.poisson(rng.random(30)), 0, rng.integers(1, 9, 30), 3)
    whole = {visits: assign(costs, visits) for visits in (6, 7)}
    for visits, plan in whole.items():
        assert mix(costs, visits).cost == pytest.approx(plan.bound, rel=1e-9)
        assert mix(costs, visits).cost <= plan.cost + 1e-9
    between = mix(costs, 6.5)
    assert between.cost <= (whole[6].bound + whole[7].bound) / 2 + 1e-9  # the value is convex
    np.testing.assert_allclose(between.share.sum(axis=1), 1.0)
    words = np.array([[letter == "O" for letter in name] for name in strategy_names(3)])
    np.testing.assert_allclose((between.share @ words).sum(axis=0), 6.5, atol=1e-9)
    drawn = [between.draw(rng) for _ in range(2000)]
    seen = np.mean([plan.visited for plan in drawn], axis=0)
    np.testing.assert_allclose(seen, between.share @ words, atol=4 * 0.5 / np.sqrt(2000))
    with pytest.raises(InputError, match="between 0 and 30"):
        mix(costs, 31)
