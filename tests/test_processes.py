"""The contract of every stationary process: found by itself in the registry, checked here.

Statistical tolerances: counts within 4 standard errors; distributions by Kolmogorov and Smirnov on
independent sources with the critical value 2.2/√n (probability 1e-4 under the model). Seeds are
fixed, so a test that passes goes on passing.
"""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observant import processes
from observant.errors import InputError
from observant.processes import (
    Bursts,
    Constant,
    Gamma,
    Lognormal,
    Pareto,
    Poisson,
    Seasonal,
    Uniform,
    Weibull,
    examples,
)

EXAMPLES = examples()
X = np.array([0.0, 1e-6, 0.01, 0.1, 0.3, 0.69, 0.71, 0.99, 1.0, 1.29, 1.31, 1.9, 2.1, 4.0, 9.0])
every_process = pytest.mark.parametrize("process", EXAMPLES.values(), ids=EXAMPLES.keys())


def integral(function, x):
    """Gauss-Legendre on panels cut at every hour, at every kink of the examples, and ever finer
    towards 0. Independent of the quadrature in the package."""
    cuts = np.concatenate(
        [[0.0, 0.7, 1.3], 2.0 ** -np.arange(5.0, 60.0), np.arange(1.0, math.ceil(x * 24)) / 24]
    )
    cuts = np.append(np.unique(cuts[cuts < x]), x)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = np.diff(cuts)[:, None] / 2
    points = cuts[:-1, None] + half * (nodes + 1)
    return float((half * weights * function(points)).sum())


def ks_distance(sample, cdf, until=np.inf):
    """sup |empirical − cdf| over the points of the sample up to `until`; NaN counts as beyond."""
    x = np.sort(sample)
    x, steps = np.unique(x[x <= until], return_counts=True)
    return float(np.max(np.abs(np.cumsum(steps) / sample.size - cdf(x))))


def test_the_package_exports_what_it_says():
    assert sorted(processes.__all__) == sorted(set(processes.__all__))
    for name in processes.__all__:
        assert getattr(processes, name) is not None


@every_process
def test_intervals_have_a_distribution(process):
    F = process.interval_cdf(X)
    assert F[0] == 0
    assert (np.diff(F) >= 0).all()
    assert process.interval_cdf(np.inf) == 1
    assert process.interval_cdf(1e9) > 1 - 1e-9
    assert process.interval_cdf(-1.0) == 0
    assert np.allclose(F + process.interval_sf(X), 1, atol=1e-14)
    assert math.isclose(process.mean * process.rate, 1.0, rel_tol=1e-14)


@pytest.mark.slow
@every_process
def test_ages_follow_from_intervals(process):
    # Brewington (2.17), Li (5).
    G = process.age_cdf(X)
    numeric = [integral(process.interval_sf, x) / process.mean for x in X[1:]]
    assert np.allclose(G[1:], numeric, rtol=1e-10, atol=1e-12)
    assert np.allclose(G + process.age_sf(X), 1, atol=1e-14)
    assert np.allclose(process.age_pdf(X), process.interval_sf(X) / process.mean)
    assert process.age_cdf(np.inf) == 1
    assert process.age_cdf(-1.0) == 0
    slopes = np.diff(process.age_cdf(np.linspace(0, 5, 301)))
    assert (slopes >= -1e-14).all()
    assert (np.diff(slopes) <= 1e-13).all()  # concave


@pytest.mark.slow
@every_process
def test_integrated_age_survival(process):
    numeric = [integral(process.age_sf, x) for x in X[1:]]
    assert np.allclose(process.integrated_age_sf(X[1:]), numeric, rtol=1e-11)
    assert process.integrated_age_sf(0.0) == 0
    assert process.integrated_age_sf(-2.5) == -2.5
    assert process.integrated_age_sf(np.inf) == process.mean_age
    if math.isfinite(process.mean_age):
        assert math.isclose(process.integrated_age_sf(1e8), process.mean_age, rel_tol=1e-6)
    # so that currency is 1 when the period is within the grace
    period, grace = 2.0, 5.0
    assert (grace + process.integrated_age_sf(period - grace)) / period == 1


@every_process
def test_small_times_keep_their_digits(process):
    # G(x) = x/m and ∫₀ˣ(1 − G) = x to first order, whatever F does near 0.
    x = 1e-12
    assert math.isclose(process.age_cdf(x), x / process.mean, rel_tol=1e-4)
    assert math.isclose(process.integrated_age_sf(x), x, rel_tol=1e-11)


@every_process
def test_density_and_hazard(process):
    if not process.has_density:
        with pytest.raises(InputError, match="no density"):
            process.interval_pdf(1.0)
        assert process.hazard(0.5) == 0
        assert process.hazard(1.0) == np.inf
        return
    x = np.array([0.02, 0.3, 0.8, 1.1, 1.25])
    assert np.allclose(process.hazard(x) * process.interval_sf(x), process.interval_pdf(x))
    risen = [integral(process.interval_pdf, b) for b in x]
    # the singular densities leave some 1e-8 below the finest panel
    assert np.allclose(risen, process.interval_cdf(x), atol=1e-6)
    assert process.interval_pdf(-1.0) == 0
    assert process.hazard(-1.0) == 0


@every_process
def test_hazard_survives_where_the_survival_underflows(process):
    x = np.array([1e3, 1e4])
    hazard = process.hazard(x)
    assert not np.isnan(hazard).any()
    if not isinstance(process, Uniform | Constant):
        assert np.isfinite(hazard).all()


@every_process
def test_vectorised_equals_scalar(process):
    names = ["interval_cdf", "interval_sf", "age_cdf", "age_sf", "age_pdf", "integrated_age_sf"]
    names += ["hazard", "interval_pdf"] if process.has_density else ["hazard"]
    x = np.concatenate([[-1.0], X[1:]])
    for name in names:
        function = getattr(process, name)
        whole = function(x)
        assert whole.shape == x.shape
        each = [function(value) for value in x.tolist()]
        assert all(type(value) is float for value in each)
        assert np.array_equal(whole, each)
        assert np.array_equal(function(x.reshape(3, 5)), whole.reshape(3, 5))
        assert math.isnan(function(math.nan))


@every_process
@pytest.mark.parametrize("factor", [0.25, 3.0])
def test_time_scale(process, factor):
    stretched = process.scaled(factor)
    x = X[1:]
    assert math.isclose(stretched.mean, factor * process.mean)
    assert np.allclose(stretched.interval_cdf(factor * x), process.interval_cdf(x))
    assert np.allclose(stretched.age_cdf(factor * x), process.age_cdf(x))
    assert np.allclose(stretched.hazard(factor * x[:5]) * factor, process.hazard(x[:5]))
    wanted = factor * process.integrated_age_sf(x)
    assert np.allclose(stretched.integrated_age_sf(factor * x), wanted)
    slow, plain = stretched.sample(20 * factor, 50, seed=3), process.sample(20, 50, seed=3)
    assert np.array_equal(slow.offsets, plain.offsets)
    assert np.allclose(slow.times, factor * plain.times)


@every_process
def test_samples_are_reproducible(process):
    one = process.sample(30.0, 40, seed=11)
    assert one == process.sample(30.0, 40, seed=11)
    assert one == process.sample(30.0, 40, seed=np.random.default_rng(11))
    assert one != process.sample(30.0, 40, seed=12)
    assert one.times.min() > 0
    assert one.times.max() <= 30
    assert len(process.sample(30.0, 0)) == 0
    assert process.sample(1e-9, 3, seed=0).times.size == 0


@every_process
def test_processes_are_values(process):
    assert pickle.loads(pickle.dumps(process)) == process  # noqa: S301
    assert copy.deepcopy(process) == process
    assert hash(process.scaled(1.0)) == hash(process)
    field = next(iter(process.__dataclass_fields__))
    with pytest.raises(AttributeError):
        setattr(process, field, 1.0)
    if not isinstance(process, Seasonal):
        assert eval(repr(process), vars(processes)) == process  # noqa: S307


@pytest.mark.slow
@every_process
@pytest.mark.parametrize("stationary", [True, False])
def test_sampling_in_one_block_or_many(process, stationary, monkeypatch):
    # Small blocks take every path of the sampler: many blocks, many rounds.
    monkeypatch.setattr("observant.processes.renewal.BLOCK", 64)
    updates = process.sample(20.3, 2000, seed=5, stationary=stationary)
    if stationary:
        assert abs(updates.counts.mean() - 20.3) < 4 * updates.counts.std() / math.sqrt(2000)
    assert len(updates) == 2000
    assert (np.diff(updates.times)[np.diff(updates.sources) == 0] >= 0).all()


@pytest.mark.slow
@every_process
def test_simulation_agrees(process):
    sources, horizon = 20_000, 40.3
    updates = process.sample(horizon, sources, seed=2024)

    # A stationary start makes the expected count exactly rate·horizon, for any horizon.
    for until in (0.4, horizon):
        counts = updates.count_until(until)
        error = counts.std() / math.sqrt(sources)
        assert abs(counts.mean() - until * process.rate) < 4 * error

    # One moment for each source, so the ages are independent. Beyond 15 days nothing is claimed:
    # there a source may have no update before the moment (its age is then over 15 as well).
    critical = 2.2 / math.sqrt(sources)
    moments = np.random.default_rng(7).uniform(15.0, 25.0, sources)
    assert ks_distance(updates.ages(moments), process.age_cdf, until=15) < critical
    assert ks_distance(updates.residuals(moments), process.age_cdf, until=15) < critical

    # From the start too: the first update comes after a residual life.
    assert ks_distance(updates.residuals(0.0), process.age_cdf, until=40) < critical


@pytest.mark.slow
@every_process
def test_an_ordinary_start_is_an_update(process):
    sources = 20_000
    updates = process.sample(40.0, sources, seed=99, stationary=False)
    first = updates.residuals(0.0)
    assert ks_distance(first, process.interval_cdf, until=40) < 2.2 / math.sqrt(sources)


@st.composite
def any_process(draw):
    mean = 10 ** draw(st.floats(-4, 4))
    shape = draw(st.floats(0.25, 8.0))
    return draw(
        st.sampled_from(
            [
                Poisson.with_mean(mean),
                Weibull.with_mean(mean, shape),
                Pareto.with_mean(mean, 1.0 + shape),
                Gamma.with_mean(mean, shape),
                Lognormal.with_mean(mean, shape / 3.0),
                Uniform.with_mean(mean, min(shape / 8.0, 1.0)),
                Constant.with_mean(mean),
                Bursts.with_mean(mean, shape * mean, 3.0 * mean, quiet=shape / 10.0),
                Seasonal.with_mean(mean, [1.0, shape, 0.0, 2.0], period=7.0),
            ]
        )
    )


@pytest.mark.slow
@given(any_process(), st.lists(st.floats(0, 50), min_size=2, max_size=8))
@settings(max_examples=150, deadline=None)
def test_laws_hold_for_all_parameters(process, points):
    x = np.sort(np.array(points)) * process.mean
    F, G, integrated = process.interval_cdf(x), process.age_cdf(x), process.integrated_age_sf(x)
    near = 1e-10
    for values in (F, G):
        assert (values >= 0).all()
        assert (values <= 1 + near).all()
        assert (np.diff(values) >= -near).all()
    assert (np.diff(integrated) >= -near * process.mean).all()
    # G lies below its tangent at 0, its integral below both bounds.
    assert (x / process.mean >= G - near).all()
    assert (integrated <= x + near * process.mean).all()
    assert (integrated <= process.mean_age * (1 + near)).all()
    # ∫(1 − G) is concave with slope 1 − G: the chord lies between the slopes at its ends.
    chord, step = np.diff(integrated), np.diff(x)
    room = near * (process.mean + x[1:])
    assert (chord <= step * process.age_sf(x[:-1]) + room).all()
    assert (chord >= step * process.age_sf(x[1:]) - room).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Poisson(0), "rate must be a finite number above zero"),
        (lambda: Poisson([1.0, 2.0]), "one process describes one source"),
        (lambda: Poisson("fast"), "must be one number"),
        (lambda: Poisson(math.nan), "finite"),
        (lambda: Poisson.with_mean(-1), "mean must be"),
        (lambda: Weibull(0.001, 1.0), "too small"),
        (lambda: Weibull(1.0, math.inf), "scale must be a finite"),
        (lambda: Pareto(1.0, 1.0), "shape must be above 1"),
        (lambda: Gamma.with_mean(1.0, shape=0), "shape must be"),
        (lambda: Lognormal(0.0, 30.0), "second moment"),
        (lambda: Uniform(2.0, 1.0), "low must be below high"),
        (lambda: Uniform.with_mean(1.0, spread=2.0), "spread must be at most 1"),
        (lambda: Constant(0.0), "interval must be"),
        (lambda: Seasonal(1.0, [0.0, 0.0]), "at least one weight"),
        (lambda: Seasonal(1.0, [1.0, -1.0]), "weight must be"),
        (lambda: Bursts(1.0, -1.0, 1.0, 1.0), "off_rate must be"),
        (lambda: Bursts.with_mean(1.0, 1.0, 1.0, quiet=2.0), "quiet must be at most 1"),
        (lambda: Poisson(1.0).scaled(0.0), "factor must be"),
        (lambda: Poisson(1.0).sample(0.0), "horizon must be"),
        (lambda: Weibull(1.0, 1.0).sample(math.inf), "horizon must be"),
        (lambda: Poisson(1.0).sample(1.0, -1), "sources must be zero or more"),
        (lambda: Poisson(1.0).sample(1.0, 1.5), "sources must be a whole number"),
        (lambda: Poisson(1.0).sample(1.0, seed=-1), "a seed is"),
        (lambda: Seasonal(1.0, [1.0]).sample(1.0, phase=math.nan), "phase"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
