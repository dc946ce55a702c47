"""The age chain and the growing population of Brewington 2.1.1 and 2.1.2."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, linalg

from observant.errors import InputError
from observant.papers.thesis import AgeChain, GrowingPopulation
from observant.processes import Constant, Pareto, Poisson

chances = st.lists(st.floats(0, 1), min_size=1, max_size=7)
masses = st.lists(st.floats(0, 1), min_size=1, max_size=7).filter(lambda f: sum(f) > 1e-3)


# --- the chain --------------------------------------------------------------------------------


def test_the_matrix_of_the_thesis():
    # Brewington (2.1), written out
    p = [0.1, 0.3, 0.2, 0.4]
    wanted = [[0.1, 0.9, 0, 0], [0.3, 0, 0.7, 0], [0.2, 0, 0, 0.8], [0.4, 0, 0, 0.6]]
    assert np.allclose(AgeChain(p).transition_matrix(), wanted)
    # (2.4), an update every third step; (2.5), without memory
    assert AgeChain.periodic(3).transition_matrix().tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    poisson = AgeChain.poisson(0.25, states=3)
    assert poisson.transition_matrix().tolist() == [
        [0.25, 0.75, 0],
        [0.25, 0, 0.75],
        [0.25, 0, 0.75],
    ]
    assert AgeChain([0.3]).transition_matrix().tolist() == [[1.0]]


@given(chances)
def test_rows_are_distributions(p):
    matrix = AgeChain(p).transition_matrix()
    assert (matrix >= 0).all()
    assert np.allclose(matrix.sum(axis=1), 1)


@given(masses, st.floats(0.2, 1.0))
def test_lifetimes_come_back(f, inside):
    # (2.2), against the products of (2.26) with i = 0.
    f = np.array(f) / sum(f) * inside
    p = AgeChain.from_lifetimes(f).p_reset
    survived = np.concatenate([[1.0], np.cumprod(1 - p)[:-1]])
    assert np.allclose(p * survived, f, atol=1e-12)


def test_the_upper_end_of_a_lifetime_distribution():
    f = [0.5, 0.3, 0.2]
    assert AgeChain.from_lifetimes(f).p_reset.tolist() == [0.5, 0.6, 1.0]
    assert AgeChain.from_lifetimes(f, memoryless_tail=True).p_reset.tolist() == [0.5, 0.6, 0.6]
    assert AgeChain.from_lifetimes([0, 0, 1]) == AgeChain.periodic(3)
    assert AgeChain.from_lifetimes([0, 1, 0]).p_reset.tolist() == [0, 1, 1]
    # a tail of small masses keeps its digits: geometric lifetimes have one p_reset
    geometric = 0.5 * 0.5 ** np.arange(60)
    assert np.allclose(AgeChain.from_lifetimes(geometric).p_reset[:40], 0.5, rtol=1e-3)


@given(chances)
def test_stationary_ages_are_stationary(p):
    chain = AgeChain(p)
    pi = chain.stationary_ages()
    assert math.isclose(pi.sum(), 1.0)
    assert (pi >= 0).all()
    assert np.allclose(pi @ chain.transition_matrix(), pi, atol=1e-12)


def test_the_limit_of_powers_and_where_it_does_not_exist():
    # Brewington (2.7), by powers
    chain = AgeChain([0.1, 0.3, 0.2, 0.4, 0.25])
    limit = np.linalg.matrix_power(chain.transition_matrix(), 200)
    assert np.allclose(limit, chain.stationary_ages())
    # errata B-3: the powers of a periodic chain turn for ever; their mean is stationary
    turning = AgeChain.periodic(3)
    powers = [np.linalg.matrix_power(turning.transition_matrix(), k) for k in range(300)]
    assert not np.allclose(powers[-1], powers[-2])
    assert np.allclose(np.mean(powers, axis=0), turning.stationary_ages())
    # errata B-2: an oldest age that is never left takes all
    assert AgeChain([0.5, 0.5, 0.0]).stationary_ages().tolist() == [0, 0, 1]
    # and one that is never reached takes nothing, however rarely it would be left
    assert np.allclose(AgeChain([0.5, 1.0, 0.0]).stationary_ages(), [2 / 3, 1 / 3, 0])


def test_ages_and_lifetimes_tell_the_same():
    # The discrete (2.17): g(t) is proportional to the chance that a lifetime exceeds t.
    f = np.array([0.1, 0.4, 0.2, 0.3])
    chain = AgeChain.from_lifetimes(f)
    survival = 1 - np.concatenate([[0.0], np.cumsum(f)[:-1]])
    assert np.allclose(chain.stationary_ages(), survival / survival.sum())
    # and (2.3) leads back, but for the last age, which it cannot know
    again = AgeChain.from_ages(chain.stationary_ages()).p_reset
    assert np.allclose(again[:-1], chain.p_reset[:-1])
    assert again[-1] == again[-2]


@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=6))
def test_lumped_ages_come_back(p):
    chain = AgeChain([*p, p[-1]])  # memoryless at the end
    again = AgeChain.from_ages(chain.stationary_ages(), lumped=True)
    assert np.allclose(again.p_reset, chain.p_reset)


def literal_change_probability(chain, age, steps):
    """(2.19) as printed, with the matrix power."""
    power = np.linalg.matrix_power(chain.transition_matrix(), steps)
    return 1 - power[age, min(age + steps, chain.states - 1)]


def enumerated_change_probability(p, age, steps):
    """Walk through all ages step by step, with an absorbing state for "changed"."""
    n = len(p)
    matrix = np.zeros((n + 1, n + 1))
    matrix[n, n] = 1
    for i in range(n):
        matrix[i, n] = p[i]
        matrix[i, min(i + 1, n - 1)] += 1 - p[i]
    return np.linalg.matrix_power(matrix, steps)[age, n]


@given(chances, st.integers(0, 6), st.integers(0, 20))
def test_change_probability(p, age, steps):
    chain, age = AgeChain(p), min(age, len(p) - 1)
    value = chain.change_probability(age, steps)
    assert math.isclose(value, enumerated_change_probability(p, age, steps), abs_tol=1e-12)
    assert math.isclose(value + chain.survival(age, steps), 1.0)
    if age + steps < len(p) - 1:  # where the power of the thesis is right
        assert math.isclose(value, literal_change_probability(chain, age, steps), abs_tol=1e-12)


def test_the_thesis_beyond_the_oldest_age():
    # errata B-5: 0.858, where the matrix power says 0.739.
    p = [0.1, 0.3, 0.2, 0.4, 0.25]
    assert round(AgeChain(p).change_probability(1, 6), 3) == 0.858
    assert round(literal_change_probability(AgeChain(p), 1, 6), 3) == 0.739


def test_many_sources_at_once():
    rng = np.random.default_rng(1)
    p = rng.random((50, 6))
    p[3, 2] = 1.0
    age, steps = rng.integers(0, 9, 50), rng.integers(0, 12, 50)
    chains = AgeChain(p)
    together = chains.change_probability(age, steps)
    apart = [
        AgeChain(row).change_probability(int(a), int(k))
        for row, a, k in zip(p, age, steps, strict=True)
    ]
    assert np.allclose(together, apart)
    assert np.allclose(chains.stationary_ages()[7], AgeChain(p[7]).stationary_ages())
    assert np.allclose(chains.transition_matrix()[7], AgeChain(p[7]).transition_matrix())
    assert chains.change_probability(0, 5).shape == (50,)
    assert AgeChain(p[0]).change_probability(np.arange(4)[:, None], np.arange(3)).shape == (4, 3)
    with pytest.raises(InputError, match="one age for each source"):
        chains.change_probability([1, 2], [3, 4])


def test_a_chain_from_a_process():
    poisson = AgeChain.from_process(Poisson(0.7), step=0.5, states=5)
    assert np.allclose(poisson.p_reset, -math.expm1(-0.35))
    assert AgeChain.from_process(Constant(3.0), step=1.0, states=3) == AgeChain.periodic(3)
    # The chain says what the process says about the next k steps, when the age is known.
    source = Pareto(3.0, 2.0)
    chain = AgeChain.from_process(source, step=0.25, states=400)
    kept = source.interval_sf(5.0) / source.interval_sf(2.0)
    assert math.isclose(chain.survival(8, 12), kept, rel_tol=1e-12)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: AgeChain([]), "p_reset"),
        (lambda: AgeChain([0.5, 1.1]), "p_reset"),
        (lambda: AgeChain([math.nan]), "p_reset"),
        (lambda: AgeChain.periodic(0), "whole number of steps"),
        (lambda: AgeChain.poisson(0.5, states=0), "at least one state"),
        (lambda: AgeChain.from_lifetimes([0.5, 0.6]), "at most 1"),
        (lambda: AgeChain.from_lifetimes([-0.5, 0.6]), "negative"),
        (lambda: AgeChain.from_ages([0.2, 0.3]), "never rises"),
        (lambda: AgeChain.from_ages([1.0]), "two ages"),
        (lambda: AgeChain.from_process(Poisson(1.0), 1.0, 0), "at least one state"),
        (lambda: AgeChain([0.5]).change_probability(-1, 1), "age must be whole"),
        (lambda: AgeChain([0.5]).change_probability(1, 0.5), "steps must be whole"),
    ],
)
def test_a_bad_chain_is_refused(ask, message):
    with pytest.raises(InputError, match=message):
        ask()


# --- the growing population -------------------------------------------------------------------


@st.composite
def populations(draw):
    n = draw(st.integers(1, 6))
    rate = st.floats(0.01, 3)
    ageing = draw(st.lists(rate, min_size=n, max_size=n))
    updating = draw(st.lists(rate, min_size=n + 1, max_size=n + 1))
    return GrowingPopulation(ageing, updating, draw(st.floats(0, 0.5)))


@given(populations())
def test_conservation(population):
    # Brewington (2.11): the population grows by K, whatever C and R
    assert np.allclose(population.matrix().sum(axis=0), population.growth)


def test_the_corner_of_the_thesis_leaks():
    # errata B-4: six states, C = 0.8, R = 0.2, K = 0.05; at t = 30 only 13 % are left.
    n, C, R, K, t = 6, 0.8, 0.2, 0.05, 30.0
    population = GrowingPopulation([C] * (n - 1), [R] * n, K)
    literal = population.matrix()
    literal[-1, -1] -= C
    start = np.eye(n)[0]
    assert round((linalg.expm(literal * t) @ start).sum() / math.exp(K * t), 2) == 0.13
    assert math.isclose(population.solve(start, t).sum(), math.exp(K * t))


@given(populations())
@settings(max_examples=15, deadline=None)
def test_the_solution_follows_the_rate_equations(population):
    start = np.arange(1.0, population.updating.size + 1)
    times = np.array([0.0, 0.7, 3.0])
    path = integrate.solve_ivp(
        lambda _, s: population.matrix() @ s, (0, 3), start, t_eval=times, rtol=1e-9, atol=1e-11
    )
    solved = population.solve(start, times)
    assert np.allclose(solved, path.y.T, rtol=1e-6)
    shares = population.age_distribution(start, times)
    assert np.allclose(shares, solved / solved.sum(axis=1, keepdims=True))
    assert np.allclose(shares[0], start / start.sum())
    # time only moves on: S(3) from S(0.7)
    assert np.allclose(population.solve(solved[1], 2.3), solved[2])


@given(populations())
@settings(max_examples=25, deadline=None)
def test_the_limit(population):
    limit = population.limiting_ages()
    assert np.allclose(population.age_distribution(limit, 5.0), limit)
    late = population.age_distribution(np.eye(limit.size)[0], 1e5)
    assert np.allclose(late, limit, atol=1e-6)


def test_growth_makes_a_population_younger():
    chain = AgeChain.poisson(0.02, states=100)
    still = GrowingPopulation.from_chain(chain, step=1.0)
    growing = GrowingPopulation.from_chain(chain, step=1.0, growth=0.01)
    # without growth the limit is the stationary age distribution of the chain (2.7)
    assert np.allclose(still.limiting_ages(), chain.stationary_ages())
    older = 1 - np.cumsum(still.limiting_ages()), 1 - np.cumsum(growing.limiting_ages())
    assert (older[0][:-1] > older[1][:-1]).all()
    # growth adds its rate to the rate of the ages: g(i) falls by (C + R + K)/C each
    ratio = growing.limiting_ages()[:-2] / growing.limiting_ages()[1:-1]
    assert np.allclose(ratio, (1 + 0.01) / 0.98)


def test_large_populations_take_the_sparse_way():
    chain = AgeChain.poisson(0.05, states=300)
    population = GrowingPopulation.from_chain(chain, step=0.1, growth=0.02)
    start = np.eye(300)[0]
    times = np.array([5.0, 1.0, 1.0])
    shares = population.age_distribution(start, times)
    dense = linalg.expm(population.matrix() * 5.0) @ start
    assert np.allclose(shares[0], dense / dense.sum(), atol=1e-12)
    assert np.allclose(shares[1], shares[2])
    assert np.allclose(population.age_distribution(start, 1.0), shares[1])
    # an empty, unhurried future does not overflow
    assert np.allclose(
        population.age_distribution(start, 100.0), population.limiting_ages(), atol=1e-6
    )


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: GrowingPopulation([1.0], [1.0]), "ages 0 to N"),
        (lambda: GrowingPopulation([-1.0], [1.0, 1.0]), "zero or more"),
        (lambda: GrowingPopulation([1.0], [1.0, 1.0], -0.1), "growth must be"),
        (lambda: GrowingPopulation([1.0], [1.0, 1.0]).solve([1.0], 1.0), "each of 2 ages"),
        (lambda: GrowingPopulation([1.0], [1.0, 1.0]).solve([0.0, 0.0], 1.0), "not empty"),
        (lambda: GrowingPopulation([1.0], [1.0, 1.0]).solve([1.0, 0.0], -1.0), "times must be"),
        (lambda: GrowingPopulation([1.0], [1.0, 0.0]).limiting_ages(), "never left"),
        (lambda: GrowingPopulation.from_chain(AgeChain([[0.5]]), 1.0), "one source"),
    ],
)
def test_a_bad_population_is_refused(ask, message):
    with pytest.raises(InputError, match=message):
        ask()
