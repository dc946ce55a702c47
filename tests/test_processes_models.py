"""What is particular to one model of change, checked against theory or direct computation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg

from observant.errors import InputError
from observant.processes import (
    Bursts,
    Constant,
    Exponential,
    Gamma,
    Pareto,
    Piecewise,
    Poisson,
    PowerLaw,
    Seasonal,
    Uniform,
    Updates,
    Weibull,
    sample_poisson,
)
from observant.processes.gamma import _far_hazard
from observant.processes.updates import sorted_uniforms

X = np.array([0.0, 0.05, 0.3, 1.0, 2.5, 7.0])


def uniform_distance(sample):
    """Kolmogorov-Smirnov distance to the uniform distribution on (0, 1)."""
    n = sample.size
    return float(np.max(np.abs(np.sort(sample) - (np.arange(n) + 0.5) / n)))


# --- one model is a special case of another ---------------------------------------------------


@pytest.mark.parametrize(
    "same",
    [
        Weibull(1.0, 2.0),
        Gamma(1.0, 2.0),
        Seasonal(0.5, [1.0] * 168),
        Bursts(0.5, 0.5, 1.0, 3.0),
        Bursts(0.5, 0.5, 100.0, 0.01),
    ],
)
def test_poisson_by_other_names(same):
    poisson = Poisson(0.5)
    for name in ("interval_cdf", "interval_pdf", "hazard", "age_cdf", "integrated_age_sf"):
        assert np.allclose(getattr(same, name)(X), getattr(poisson, name)(X), rtol=1e-12)
    assert Exponential is Poisson


def test_only_poisson_ages_are_distributed_as_its_intervals():
    # Brewington (2.18), and its contrary for another shape
    assert np.array_equal(Poisson(0.3).age_cdf(X), Poisson(0.3).interval_cdf(X))
    assert not np.allclose(Weibull(0.7, 1.0).age_cdf(X), Weibull(0.7, 1.0).interval_cdf(X))


def test_a_whole_gamma_shape_counts_poisson_events():
    source = Gamma(2.0, 0.5)
    assert np.allclose(source.interval_sf(X), np.exp(-2 * X) * (1 + 2 * X))
    assert np.allclose(source.age_sf(X), np.exp(-2 * X) * (1 + X))


def test_li_pareto():
    # Li section IV: α = 3, β = 1 "throughout the paper", µ = 2; the ages are Pareto(2, 1).
    source = Pareto(3.0, 1.0)
    assert source.rate == 2.0
    assert np.allclose(source.age_sf(X), (1 + X) ** -2)
    assert source.mean_age == 1.0  # errata L-10: E[A] = 1, infinite variance
    assert Pareto(2.0, 1.0).mean_age == math.inf


def test_new_worse_than_used_depends_on_the_shape():
    # errata L-3: Weibull ages are longer than intervals only up to shape 1.
    x = X[1:]
    bursty, regular = Weibull.with_mean(1.0, 0.5), Weibull.with_mean(1.0, 2.0)
    assert (bursty.age_sf(x) > bursty.interval_sf(x)).all()
    regular_gap = regular.age_sf(x) - regular.interval_sf(x)
    assert (regular_gap <= 0).all()
    assert (regular_gap[:3] < 0).all()


@pytest.mark.parametrize("shape", [0.05, 0.5, 3.0, 200.0])
def test_far_gamma_hazard_joins_the_near_one(shape):
    # Where density and survival both still have digits, the continued fraction agrees with them.
    source = Gamma(shape, 1.0)
    x = np.linspace(400.0, 600.0, 5) + 2 * shape
    near = source.interval_pdf(x) / source.interval_sf(x)
    assert np.allclose(_far_hazard(shape, x), near, rtol=1e-11)
    assert np.array_equal(source.hazard(3 * x), _far_hazard(shape, 3 * x))


def test_constant_intervals_do_not_drift():
    updates = Constant(0.1).sample(1000.0, 3, stationary=False)
    assert np.array_equal(updates.counts, [10_000] * 3)
    assert np.allclose(updates[0], 0.1 * np.arange(1, 10_001), rtol=1e-15)
    assert Constant(0.1).sample(0.3, stationary=False).counts.tolist() == [3]


def test_uniform_intervals_stay_in_bounds():
    updates = Uniform(0.5, 0.7).sample(100.0, 200, seed=1)
    gaps = np.diff(updates.times)[np.diff(updates.sources) == 0]
    assert gaps.min() >= 0.5 - 1e-12
    assert gaps.max() <= 0.7 + 1e-12


# --- Poisson populations ----------------------------------------------------------------------


def test_sample_poisson_draws_each_rate():
    rates = np.repeat([0.0, 0.2, 3.0, 40.0], 5000)
    updates = sample_poisson(rates, 10.0, seed=8)
    counts = updates.counts.reshape(4, -1)
    expected = np.array([0.0, 2.0, 30.0, 400.0])
    error = np.sqrt(expected / 5000)
    assert (np.abs(counts.mean(axis=1) - expected) <= 4 * error).all()
    # Poisson variance; the variance of a sample variance is about (2λ² + λ)/n.
    spread = np.sqrt((2 * expected**2 + expected) / 5000)
    assert (np.abs(counts.var(axis=1) - expected) <= 4 * spread).all()
    # Given their number, the times are uniform; 2.2/√n is the critical value at 1e-4.
    assert uniform_distance(updates.times / 10.0) < 2.2 / math.sqrt(updates.times.size)


def test_sample_poisson_takes_a_horizon_for_each_source():
    horizon = np.array([1.0, 100.0, 10_000.0])
    updates = sample_poisson([5.0, 5.0, 5.0], horizon, seed=4)
    assert (np.abs(updates.counts - 5 * horizon) < 4 * np.sqrt(5 * horizon)).all()
    for times, end in zip(updates, horizon, strict=True):
        assert 0.5 * end < times[-1] <= end
    for rates, days in ([[[1.0]], 1.0], [[-1.0], 1.0], [[1.0], 0.0], [[1.0], [1.0, 2.0]]):
        with pytest.raises(InputError):
            sample_poisson(rates, days)


@given(st.lists(st.integers(0, 40), max_size=30), st.integers(0, 2**32))
@settings(deadline=None)
def test_sorted_uniforms_are_sorted_and_inside(counts, seed):
    counts = np.array(counts, dtype=np.int64)
    values = sorted_uniforms(counts, np.random.default_rng(seed))
    assert values.size == counts.sum()
    for part in np.split(values, np.cumsum(counts)[:-1]) if counts.size else []:
        assert (np.diff(part) >= 0).all()
        assert ((part > 0) & (part < 1)).all()


def test_sorted_uniforms_across_blocks():
    # One source larger than a block, many small ones around it.
    counts = np.array([3] * 40_000 + [200_000] + [0, 1] * 1000)
    values = sorted_uniforms(counts, np.random.default_rng(0))
    updates = Updates(values, np.concatenate([[0], np.cumsum(counts)]))  # checks the order
    assert uniform_distance(updates[40_000]) < 2.2 / math.sqrt(200_000)
    # The k-th of three uniforms has mean k/4 and variance k(4 − k)/80.
    three = values[:120_000].reshape(-1, 3)
    error = np.sqrt(np.array([3, 4, 3]) / 80 / 40_000)
    assert (np.abs(three.mean(axis=0) - [0.25, 0.5, 0.75]) < 4 * error).all()


# --- bursts -----------------------------------------------------------------------------------


def test_bursts_against_the_matrix_exponential():
    on, off, leave_on, leave_off = 5.0, 0.3, 1 / 0.7, 1 / 4.0
    source = Bursts(on, off, 1 / leave_on, 1 / leave_off)
    D0 = np.array([[-leave_on - on, leave_on], [leave_off, -leave_off - off]])
    pi = np.array([leave_off, leave_on]) / (leave_on + leave_off)
    phi = pi * [on, off] / (pi @ [on, off])
    assert math.isclose(source.rate, pi @ [on, off])
    for x in X:
        flow = linalg.expm(D0 * x)
        assert math.isclose(source.interval_sf(float(x)), phi @ flow @ [1, 1], rel_tol=1e-12)
        assert math.isclose(source.age_sf(float(x)), pi @ flow @ [1, 1], rel_tol=1e-12)
        density = phi @ flow @ [on, off]
        assert math.isclose(source.interval_pdf(float(x)), density, rel_tol=1e-12)
    assert math.isclose(source.mean_age, -pi @ linalg.inv(D0) @ [1, 1])


def test_bursts_are_counted_with_their_correlation():
    # Var N(t) = rate·t + 2σ²(t/r − (1 − e^{−rt})/r²): F and G alone do not fix it.
    source = Bursts(on_rate=8.0, off_rate=0.5, on_time=0.8, off_time=2.0)
    t, sources = 6.0, 40_000
    share, r = 0.8 / 2.8, 1 / 0.8 + 1 / 2.0
    variance = share * (1 - share) * 7.5**2
    wanted = source.rate * t + 2 * variance * (t / r - (1 - math.exp(-r * t)) / r**2)
    counts = source.sample(t, sources, seed=6).counts
    error = math.sqrt(((counts - counts.mean()) ** 2).var() / sources)
    assert abs(counts.var() - wanted) < 4 * error
    assert wanted > 3 * source.rate * t  # far from Poisson


def test_bursts_that_hardly_end_have_a_hazard():
    assert np.isfinite(Bursts(1.0, 0.0, 1e300, 1.0).hazard(np.array([0.0, 1.0, 1e5]))).all()


# --- non-homogeneous Poisson ------------------------------------------------------------------

OFFICE = Seasonal(2.0, [0] * 8 + [3] * 4 + [1] * 6 + [0] * 6, period=1.0)


@pytest.mark.parametrize(
    "source",
    [OFFICE, Seasonal(0.1, [1.0, 5.0, 0.0], period=2.0), Seasonal(300.0, [1.0, 0.0], period=1.0)],
)
def test_seasonal_against_an_average_over_phases(source):
    # The midpoint rule over phases; it is exact to about the square of its step.
    phases = (np.arange(200_000) + 0.5) / 200_000 * source.period
    at_phase = source.intensity(phases)
    for x in (0.003, 0.11, 0.5, 0.97, 2.4):
        survival = source.no_update(phases, phases + x)
        then = source.intensity(phases + x)
        assert math.isclose(source.age_sf(x), survival.mean(), abs_tol=2e-5)
        assert math.isclose(
            source.interval_sf(x), (survival * at_phase).mean() / source.rate, abs_tol=2e-4
        )
        density = (survival * at_phase * then).mean() / source.rate
        assert math.isclose(source.interval_pdf(x), density, rel_tol=2e-3, abs_tol=2e-4)


@pytest.mark.slow
def test_seasonal_integral_at_high_and_low_rates():
    for rate in (1e-3, 1.0, 100.0, 3000.0):
        source = Seasonal(rate, [0] * 8 + [3] * 4 + [1] * 6 + [0] * 6, period=1.0)
        # Simpson on a grid that is fine near each edge, where 1 − G bends.
        for x in (0.02, 0.3, 1.0, 2.7):
            fine = np.linspace(0, 1, 2001) ** 3 / 24
            edges = np.arange(math.ceil(x * 24)) / 24
            grid = np.unique(np.append((edges[:, None] + fine).ravel(), x))
            grid = grid[grid <= x]
            middle = (grid[1:] + grid[:-1]) / 2
            ends, inner = source.age_sf(grid), source.age_sf(middle)
            simpson = (np.diff(grid) * (ends[1:] + ends[:-1] + 4 * inner) / 6).sum()
            assert math.isclose(source.integrated_age_sf(x), simpson, rel_tol=1e-9)


def test_seasonal_repeats():
    x = np.array([0.1, 0.45, 0.8])
    fade = math.exp(-OFFICE.rate * OFFICE.period)
    assert np.allclose(OFFICE.age_sf(x + 3), fade**3 * OFFICE.age_sf(x), rtol=1e-12)
    assert np.allclose(OFFICE.hazard(x + 500), OFFICE.hazard(x))
    assert np.allclose(OFFICE.cumulative(x - 2), OFFICE.cumulative(x) - 2 * OFFICE.rate)
    assert OFFICE.intensity(-0.6) == OFFICE.intensity(0.4) > 0
    assert np.isnan(OFFICE.intensity(math.inf))


def test_seasonal_samples_keep_the_hours():
    source = Seasonal(3.0, np.tile([0, 1, 2, 0, 5, 1, 0, 0], 3).tolist(), period=1.0)
    updates = source.sample(30.0, 2000, seed=3, phase=0.0)
    hours = np.bincount((updates.times % 1.0 * 24).astype(int), minlength=24)
    expected = np.array(source.weights) * 3.0 / 24 * 30 * 2000
    assert (hours[expected == 0] == 0).all()
    # Poisson counts: 4 standard errors.
    assert (np.abs(hours - expected) <= 4 * np.sqrt(expected)).all()
    late = source.sample(0.5, 20_000, seed=3, phase=0.5)
    assert abs(late.counts.mean() - (source.cumulative(1.0) - source.cumulative(0.5))) < 0.05
    assert source.sample(5.0, 2, seed=1, phase=[0.25, 7.25]).counts.sum() > 0


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.5])
def test_power_law(shape):
    source = PowerLaw.with_expected(30.0, horizon=50.0, shape=shape)
    t = np.array([0.5, 5.0, 50.0])
    h = 1e-5 * t
    slope = (source.cumulative(t + h) - source.cumulative(t - h)) / (2 * h)
    assert np.allclose(source.intensity(t), slope, rtol=1e-8)
    assert math.isclose(source.cumulative(50.0), 30.0)
    updates = source.sample(50.0, 4000, seed=9)
    assert abs(updates.counts.mean() - 30) < 4 * math.sqrt(30 / 4000)
    # Λ maps the times to a Poisson process: uniform given their number.
    assert uniform_distance(source.cumulative(updates.times) / 30) < 2.2 / math.sqrt(120_000)
    # Singh (3): (β/η)(t/η)^{β−1}
    eta = source.coefficient ** (-1 / shape)
    assert np.allclose(source.intensity(t), shape / eta * (t / eta) ** (shape - 1))
    again = PowerLaw.from_scale(eta, shape)
    assert math.isclose(again.coefficient, source.coefficient)
    assert math.isclose(source.scaled(2.0).cumulative(100.0), 30.0)


def test_piecewise():
    source = Piecewise([0, 10, 20, 25], [1.0, 0.0, 4.0, 0.5])
    assert source.cumulative(np.array([-1.0, 5, 15, 22, 35])).tolist() == [0, 5, 10, 18, 35]
    assert source.intensity(np.array([-1.0, 0, 10, 24.9, 1e6])).tolist() == [0, 1, 0, 4, 0.5]
    reached = np.array([1e-9, 4.0, 10.0, 10.1, 29.9, 30.5])
    assert np.allclose(source._cumulative(source._inverse(reached)), reached)
    ended = Piecewise([0, 10], [1.0, 0.0])
    assert ended._inverse(np.array([10.0])).tolist() == [10.0]
    updates = source.sample(40.0, 3000, seed=5)
    counts = [updates.count_until(b).sum() for b in (10.0, 20.0, 25.0, 40.0)]
    expected = np.array([10, 0, 20, 7.5]) * 3000
    found = np.diff([0, *counts])
    assert found[1] == 0
    assert (np.abs(found - expected) <= 4 * np.sqrt(expected)).all()
    assert math.isclose(source.no_update(9.0, 21.0), math.exp(-5))
    with pytest.raises(InputError, match="before its start"):
        source.no_update(2.0, 1.0)
    assert source.scaled(2.0).cumulative(44.0) == 18
    for starts, rates in ([[1], [1]], [[0, 1], [1]], [[], []], [[0, 0], [1, 1]], [[0], [-1]]):
        with pytest.raises(InputError, match="Piecewise"):
            Piecewise(starts, rates)


@pytest.mark.parametrize("source", [PowerLaw(1.0, 0.5), Piecewise((0, 1), (1, 2))])
@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.mean,
        lambda s: s.rate,
        lambda s: s.mean_age,
        lambda s: s.age_cdf(1.0),
        lambda s: s.age_sf(1.0),
        lambda s: s.age_pdf(1.0),
        lambda s: s.interval_cdf(np.array([1.0])),
        lambda s: s.interval_sf(1.0),
        lambda s: s.interval_pdf(1.0),
        lambda s: s.hazard(1.0),
        lambda s: s.integrated_age_sf(1.0),
        lambda s: s.sample(1.0, stationary=True),
    ],
)
def test_what_drifts_has_no_stationary_answers(source, ask):
    with pytest.raises(InputError, match="not stationary"):
        ask(source)


# --- updates ----------------------------------------------------------------------------------

lists_of_times = st.lists(
    st.lists(st.floats(0, 10), max_size=6).map(sorted), min_size=1, max_size=8
)


@given(lists_of_times, st.lists(st.floats(-1, 11), min_size=3, max_size=3))
@settings(deadline=None)
def test_looking_back_and_ahead(lists, moments):
    updates = Updates.from_lists(lists)
    at = np.tile(moments, (len(lists), 1))
    counts, ages, residuals = updates.count_until(at), updates.ages(at), updates.residuals(at)
    for i, times in enumerate(lists):
        assert updates[i].tolist() == times
        for j, moment in enumerate(moments):
            past = [t for t in times if t <= moment]
            future = [t for t in times if t > moment]
            assert counts[i, j] == len(past)
            age = moment - past[-1] if past else math.nan
            residual = future[0] - moment if future else math.nan
            assert np.array_equal([ages[i, j], residuals[i, j]], [age, residual], equal_nan=True)
    column = updates.ages(at[:, 0])
    assert np.array_equal(column, ages[:, 0], equal_nan=True)
    assert np.array_equal(updates.ages(moments[0]), column, equal_nan=True)


def test_updates_are_checked_once_and_then_frozen():
    updates = Updates.from_lists([[1.0], [], [0.5, 2.0]])
    assert updates.sources.tolist() == [0, 2, 2]
    assert updates[-1].tolist() == [0.5, 2.0]
    assert updates != "updates"
    with pytest.raises(ValueError, match="read-only"):
        updates.times[0] = 3.0
    with pytest.raises(IndexError, match="3 sources"):
        updates[3]
    for times, offsets, message in [
        ([1.0], [0], "end with 1"),
        ([1.0], [1, 1], "begin with 0"),
        ([1.0, 2.0], [0, 2, 1, 2], "not decrease"),
        ([2.0, 1.0], [0, 2], "source '0'.*sorted"),
        ([1.0, 3.0, 2.0], [0, 1, 3], "source '1'.*sorted"),
        ([math.nan], [0, 1], "finite"),
    ]:
        with pytest.raises(InputError, match=message):
            Updates(times, offsets)
    with pytest.raises(InputError, match="each of the 3 sources"):
        updates.ages([1.0, 2.0])
