"""F to G and back: as functions for every process, on grids for any shape."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observant.errors import InputError
from observant.processes import (
    Constant,
    Lognormal,
    Pareto,
    Poisson,
    Uniform,
    Weibull,
    age_cdf_from,
    age_cdf_on_grid,
    examples,
    interval_cdf_from,
    interval_cdf_on_grid,
)

EXAMPLES = examples(mean=2.0)
every_process = pytest.mark.parametrize("process", EXAMPLES.values(), ids=EXAMPLES.keys())
# Away from the jumps and kinks of F at 1.4, 2, 2.6 and 4 days, and of the seasons at full hours.
X = np.array([0.0, 0.02, 0.3, 0.77, 1.13, 1.9, 2.9, 3.37, 6.1, 30.1])


@pytest.mark.slow
@every_process
def test_ages_from_any_interval_distribution(process):
    assert np.allclose(age_cdf_from(process.interval_cdf)(X), process.age_cdf(X), rtol=0, atol=1e-7)
    known = age_cdf_from(process.interval_cdf, mean=process.mean)
    assert np.allclose(known(X), process.age_cdf(X), rtol=0, atol=1e-11)
    assert known(np.array([[3.0, -1.0], [np.inf, 0.0]])).shape == (2, 2)
    assert known(-1.0) == 0


@every_process
def test_intervals_from_any_age_distribution(process):
    # An infinite density at 0 (bursty Weibull and gamma) leaves 1e-2 in the slope at 0.
    singular = process.interval_pdf(0.0) == math.inf if process.has_density else False
    found = interval_cdf_from(process.age_cdf)(X)
    assert np.allclose(found, process.interval_cdf(X), rtol=0, atol=5e-3 if singular else 1e-5)
    known = interval_cdf_from(process.age_cdf, mean=process.mean)(X[2:])
    assert np.allclose(known, process.interval_cdf(X[2:]), rtol=0, atol=1e-6)


@pytest.mark.slow
@every_process
def test_round_trip_of_functions(process):
    there = age_cdf_from(process.interval_cdf, mean=process.mean)
    back = interval_cdf_from(there, mean=process.mean)
    assert np.allclose(back(X[2:]), process.interval_cdf(X[2:]), rtol=0, atol=1e-6)


@pytest.mark.parametrize("mean", [1e-5, 1.0, 3e4])
def test_functions_of_any_scale(mean):
    source = Lognormal.with_mean(mean, 0.8)
    x = mean * np.array([0.1, 1.0, 5.0])
    assert np.allclose(age_cdf_from(source.interval_cdf)(x), source.age_cdf(x), atol=1e-9)
    assert np.allclose(interval_cdf_from(source.age_cdf)(x), source.interval_cdf(x), atol=1e-7)


@pytest.mark.parametrize(
    "process", [Poisson(1.0), Weibull.with_mean(1.0, 2.0), Pareto.with_mean(1.0), Uniform(0.5, 1.5)]
)
def test_the_error_on_a_grid_falls_with_the_square_of_the_step(process):
    errors = []
    for points in (101, 401):
        x = np.linspace(0.0, 4.0, points)
        G = age_cdf_on_grid(x, process.interval_cdf(x), mean=process.mean)
        F = interval_cdf_on_grid(x, process.age_cdf(x), mean=process.mean)
        errors.append([np.max(np.abs(G - process.age_cdf(x))), 0.0])
        # the parabola rounds the kinks of the uniform F off, at the points beside them
        away = (np.abs(x - 0.5) > 0.05) & (np.abs(x - 1.5) > 0.05)
        errors[-1][1] = np.max(np.abs(F - process.interval_cdf(x))[away])
    assert errors[0][0] < 1e-3
    assert errors[0][1] < 2e-3
    assert errors[1][0] <= errors[0][0] / 12 + 1e-15
    assert errors[1][1] <= errors[0][1] / 12 + 1e-12


def test_grids_may_be_uneven_and_find_their_mean():
    process = Weibull.with_mean(3.0, 1.5)
    x = np.concatenate([[0.0], np.geomspace(1e-3, 60.0, 3000)])
    G = age_cdf_on_grid(x, process.interval_cdf(x))
    assert np.allclose(G, process.age_cdf(x), atol=2e-6)
    F = interval_cdf_on_grid(x, process.age_cdf(x))
    assert np.allclose(F, process.interval_cdf(x), atol=1e-4)


def test_a_parabola_is_exact_on_any_grid():
    # Uniform intervals on 0 to 2 have G = x − x²/4.
    x = np.concatenate([[0.0], np.cumsum(np.random.default_rng(4).uniform(0.001, 0.05, 60))])
    x = x[x <= 2]
    assert np.allclose(interval_cdf_on_grid(x, x - x**2 / 4), x / 2, atol=1e-12)


def test_a_jump_on_a_grid_stays_where_it_is():
    x = np.linspace(0, 2, 201)
    F = interval_cdf_on_grid(x, Constant(1.0).age_cdf(x))
    assert F[x < 0.985].max() < 1e-9
    assert F[x > 1.015].min() > 1 - 1e-9


@given(st.lists(st.floats(0, 1), min_size=3, max_size=40))
@settings(deadline=None)
def test_round_trip_of_any_grid(steps):
    rises = np.array(steps) + 1e-3
    F = np.concatenate([[0.0], np.cumsum(rises) / rises.sum()])
    F[-1] = 1.0
    x = np.arange(F.size, dtype=float)
    G = age_cdf_on_grid(x, F)
    assert G[0] == 0
    assert math.isclose(G[-1], 1.0)
    assert (np.diff(G, 2) <= 1e-12).all()
    mean = float(np.trapezoid(1 - F, x))
    again = interval_cdf_on_grid(x, G, mean=mean)
    assert (np.diff(again) >= 0).all()
    # g(xᵢ) comes out as (Sᵢ₋₁ + 2Sᵢ + Sᵢ₊₁)/4, so no point moves by more than a quarter of a step.
    assert np.max(np.abs(again - F)) <= np.diff(F).max() / 4 + 1e-9


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: age_cdf_on_grid([0, 1], [0, 0.9]), "give mean="),
        (lambda: age_cdf_on_grid([0, 1], [0.5, 0.4], mean=1), "F must rise"),
        (lambda: age_cdf_on_grid([1, 2], [0, 1]), "begin with 0"),
        (lambda: age_cdf_on_grid([0, 0], [0, 1]), "increase"),
        (lambda: age_cdf_on_grid([0, 1], [0, 1, 1]), "equal length"),
        (lambda: age_cdf_on_grid([0, 1], [0, math.nan]), "must be finite"),
        (lambda: age_cdf_on_grid([0, 1], [0, 1], mean=-1), "mean must be"),
        (lambda: interval_cdf_on_grid([0, 1], [0, 1]), "three points"),
        (lambda: interval_cdf_on_grid([0, 1, 2], [0, 0.1, 1]), "concave"),
        (lambda: interval_cdf_on_grid([0, 1, 2], [0.5, 0.8, 1]), "begin with 0"),
        (lambda: age_cdf_from(lambda x: x / (1 + x)), "no finite mean"),
        (lambda: age_cdf_from(np.ones_like), "no finite mean"),
        (lambda: interval_cdf_from(np.zeros_like), "distribution of an age"),
    ],
)
def test_bad_input_is_refused(ask, message):
    with pytest.raises(InputError, match=message):
        ask()
