"""Currency against exact arithmetic, theory, enumeration, simulation and the published numbers."""

import math
from decimal import Decimal, localcontext
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observant.currency import (
    AgeTable,
    GammaRates,
    RateMixture,
    WeibullPopulation,
    bandwidth,
    changed_probability,
    collection_currency,
    currency,
    growing_period,
    heuristic_time_to_live,
    hidden_share,
    irregular_gaps,
    mean_missed_updates,
    mean_staleness,
    missed_updates,
    over_gaps,
    performance_surface,
    required_grace,
    required_period,
    stale_probability,
    staleness,
    time_to_live,
)
from observant.errors import InputError
from observant.papers.thesis import (
    chain_changed,
    chain_currency,
    chain_time_out_of_date,
    expected_out_of_date,
    expected_time_out_of_date,
)
from observant.processes import PowerLaw, examples

WEB = WeibullPopulation(1.4, 152.2)  # Brewington's fit by lifetimes, section 3.3.3

exponents = st.floats(-12.0, 6.0)
graces = st.floats(0.0, 0.999)


# One Poisson source ------------------------------------------------------------------------------


def exact_poisson(rate, period, grace):
    """α, 1 − α and the mean staleness in 60 digits, from (2.40) as it is printed."""
    with localcontext() as context:
        context.prec = 60
        rate, period, grace = Decimal(rate), Decimal(period), Decimal(grace)
        alpha = grace / period + (1 - (-rate * (period - grace)).exp()) / (rate * period)
        age = period / 2 - 1 / rate + (1 - (-rate * period).exp()) / (rate * rate * period)
        return alpha, 1 - alpha, age


def relative_error(computed, exact):
    return abs(float((Decimal(float(computed)) - exact) / exact))


@pytest.mark.slow
@settings(max_examples=300)
@given(exponents, st.floats(0.01, 100.0), graces)
def test_poisson_is_exact_to_rounding_for_any_number_of_updates_per_period(exponent, period, share):
    rate, grace = 10.0**exponent / period, share * period
    alpha, lost, age = exact_poisson(rate, period, grace)
    assert relative_error(currency(rate, period, grace), alpha) < 1e-15
    # The period less the grace is rounded once; where they nearly meet that is the error.
    assert relative_error(stale_probability(rate, period, grace), lost) < 1e-14 / (1.0 - share)
    assert relative_error(mean_staleness(rate, period), age) < 2e-15


def test_published_value_of_one_source():
    # Errata B-7: 0.503 is (2.40); 0.727 would forgive earlier updates outside the grace.
    assert round(float(currency(0.3, 10, 2)), 3) == 0.503


def test_limits_of_figure_2_4():
    # λT → ∞: α → ν. λT → 0: α → 1, whatever ν.
    shares = np.array([0.0, 0.1, 0.5, 0.9])
    assert currency(1e12, 10.0, 10.0 * shares) == pytest.approx(shares, abs=1e-12)
    assert currency(1e-14, 10.0, 10.0 * shares) == pytest.approx(np.ones(4), abs=1e-12)


@pytest.mark.parametrize(
    ("rate", "period", "grace", "alpha"),
    [
        (0.3, 2.0, 2.0, 1.0),  # errata B-8: 1 where the period is not longer than the grace
        (0.3, 1.0, 2.0, 1.0),
        (0.3, 0.0, 0.0, 1.0),  # watched all the time
        (0.0, 10.0, 1.0, 1.0),
        (0.0, np.inf, 1.0, 1.0),  # never visited, never changed
        (0.3, np.inf, 1.0, 0.0),
        (np.inf, 10.0, 1.0, 0.1),  # changes all the time
        (np.inf, 1.0, 1.0, 1.0),
        (np.nan, 10.0, 1.0, np.nan),
    ],
)
def test_edges(rate, period, grace, alpha):
    assert currency(rate, period, grace) == pytest.approx(alpha, abs=1e-15, nan_ok=True)
    lost = stale_probability(rate, period, grace)
    assert lost == pytest.approx(1 - alpha, abs=1e-15, nan_ok=True)


def test_edges_of_the_companions():
    assert mean_staleness([0.0, 0.3, 0.3], [np.inf, np.inf, 0.0]).tolist() == [0.0, np.inf, 0.0]
    assert missed_updates([0.0, np.inf], [np.inf, 0.0]).tolist() == [0.0, 0.0]
    assert mean_missed_updates(0.3, 10.0) == pytest.approx(1.5)


def test_a_scalar_answers_with_a_scalar_and_arrays_broadcast():
    assert np.ndim(currency(0.3, 10.0, 2.0)) == 0
    rates, periods = np.array([0.1, 1.0, 0.0])[:, None], np.array([1.0, 5.0, 20.0, np.inf])
    for function in (currency, stale_probability, mean_staleness, mean_missed_updates):
        together = function(rates, periods)
        one_by_one = [[function(r, t) for t in periods] for r in rates[:, 0]]
        assert together.shape == (3, 4)
        assert np.array_equal(together, np.array(one_by_one))


@settings(max_examples=50)
@given(st.floats(0.01, 10.0), st.floats(0.01, 100.0), graces, st.floats(0.001, 1000.0))
def test_the_unit_of_time_does_not_matter(rate, period, share, factor):
    grace = share * period
    scaled = currency(rate / factor, period * factor, grace * factor)
    assert scaled == pytest.approx(currency(rate, period, grace), rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((-0.1, 10.0, 0.0), "rate"),
        ((0.1, -10.0, 0.0), "period"),
        ((0.1, 10.0, -1.0), "grace"),
        ((0.1, 10.0, np.inf), "grace"),
        (("often", 10.0, 0.0), "rate"),
    ],
)
def test_bad_input_is_named(arguments, said):
    with pytest.raises(InputError, match=said):
        currency(*arguments)


def test_moments_are_what_a_simulation_sees():
    # One visit at time 0, Poisson updates, a look after 5 days. 4 standard errors.
    rng, rate, elapsed, draws = np.random.default_rng(1), 0.2, 5.0, 200_000
    first = rng.exponential(1 / rate, draws)
    late = np.maximum(elapsed - first, 0.0)
    for answer, sample in (
        (changed_probability(rate, elapsed), first <= elapsed),
        (staleness(rate, elapsed), late),
        (missed_updates(rate, elapsed), rng.poisson(rate * elapsed, draws)),
        (mean_staleness(rate, elapsed), np.maximum(rng.uniform(0, elapsed, draws) - first, 0.0)),
    ):
        assert answer == pytest.approx(sample.mean(), abs=4 * sample.std() / math.sqrt(draws))


# Any stationary source ---------------------------------------------------------------------------


def lomax_ages(x):
    """G of a renewal source with Pareto (Lomax) intervals of shape 1.5, scale 1 and mean 2."""
    return 1.0 - (1.0 + np.asarray(x)) ** -0.5


def constant_ages(x):
    """G of a source that changes every 2 days."""
    return np.minimum(np.asarray(x) / 2.0, 1.0)


def test_a_function_g_of_exponential_shape_gives_the_poisson_answer():
    periods = np.array([1e-6, 0.1, 1.0, 30.0, 1e5])
    for grace in (0.0, 1e-7):
        by_g = currency(lambda x: -np.expm1(-0.7 * x), periods, grace)
        assert by_g == pytest.approx(currency(0.7, periods, grace), rel=1e-12)
        lost = stale_probability(lambda x: -np.expm1(-0.7 * x), periods, grace)
        assert lost == pytest.approx(stale_probability(0.7, periods, grace), rel=1e-12)
    by_g = mean_staleness(lambda x: -np.expm1(-0.7 * x), periods)
    assert by_g == pytest.approx(mean_staleness(0.7, periods), rel=1e-12)


def test_a_function_g_with_a_heavy_tail():
    # ∫₀ˣ (1 + s)^(−1/2) ds = 2 (√(1 + x) − 1)
    periods = np.array([0.01, 1.0, 100.0, 1e6])
    assert currency(lomax_ages, periods) == pytest.approx(
        2.0 * (np.sqrt(1.0 + periods) - 1.0) / periods, rel=1e-12
    )


def test_a_regular_source_is_less_current_than_a_poisson_source_of_its_rate():
    # α = 1 − T/(2m) up to T = m, then m/(2T).
    periods = np.array([0.5, 2.0, 8.0])
    exact = np.array([0.875, 0.5, 0.125])
    table = AgeTable([2.0], [1.0])
    assert currency(table, periods) == pytest.approx(exact, rel=1e-15)
    assert currency(constant_ages, periods) == pytest.approx(exact, abs=2e-4)  # G has a corner
    assert currency(0.5, 2.0) - 0.5 > 0.13


def test_a_table_of_g_is_integrated_exactly():
    ages, cdf = np.array([0.0, 1.0, 3.0, 10.0]), np.array([0.0, 0.4, 0.7, 0.9])
    table, fine = AgeTable(ages, cdf), np.linspace(0.0, 20.0, 2_000_001)
    values = np.interp(fine, ages, cdf)
    steps = (values[1:] + values[:-1]) / 2.0 * np.diff(fine)
    brute = np.append(0.0, np.cumsum(steps))
    at = np.array([0.0, 0.5, 1.0, 2.2, 10.0, 20.0])
    expected = brute[np.searchsorted(fine, at)]
    assert table.integrated_age_cdf(at) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert table.integrated_age_sf(at) == pytest.approx(at - expected, rel=1e-9, abs=1e-12)
    assert table.mean_rate == pytest.approx(0.4)
    # One in ten sources never changes: the currency of those never visited is 0.1.
    assert currency(table, np.inf) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("ages", "cdf"),
    [
        ([1.0, 1.0], [0.1, 0.2]),
        ([-1.0, 1.0], [0.1, 0.2]),
        ([1.0, np.inf], [0.1, 0.2]),
        ([1.0, 2.0], [0.3, 0.2]),
        ([1.0, 2.0], [0.3, 1.2]),
        ([1.0, 2.0], [0.3]),
        ([], []),
    ],
)
def test_a_table_that_is_no_distribution_is_refused(ages, cdf):
    with pytest.raises(InputError):
        AgeTable(ages, cdf)


def test_the_rate_of_a_plain_function_is_not_known():
    with pytest.raises(InputError, match="rate of this source is not known"):
        missed_updates(lomax_ages, 1.0)


def simulated_currency(gaps, period, grace):
    """Visit renewal sources every `period` and measure; also the standard error.

    `gaps(shape)` draws intervals. Each row is one source, watched for five periods after so long
    that its start is forgotten; the rows are independent, the periods within one are not.
    """
    rows, periods = 20_000, 5
    updates = np.cumsum(gaps((rows, 400)), axis=1)
    begin = np.random.default_rng(5).uniform(60.0, 80.0, (rows, 1))
    shares = np.empty((rows, periods))
    for number in range(periods):
        visit = begin + number * period
        wait = np.where(updates > visit, updates - visit, np.inf).min(axis=1)
        shares[:, number] = np.minimum(wait + grace, period) / period
    means = shares.mean(axis=1)
    return means.mean(), means.std() / math.sqrt(rows)


@pytest.mark.slow
def test_poisson_currency_is_wrong_for_a_bursty_source():
    # Intervals are short (mean 0.1) nine times in ten, long (mean 9.1) else: mean 1, bursty. Its
    # ages are a mixture of the two exponentials, weighted by the time spent in each.
    rng = np.random.default_rng(2)

    def gaps(shape):
        return rng.exponential(np.where(rng.random(shape) < 0.9, 0.1, 9.1))

    bursty = RateMixture([1 / 0.1, 1 / 9.1], [0.9 * 0.1, 0.1 * 9.1])
    assert bursty.age_cdf(1e-9) == pytest.approx(1e-9)  # one update a day, as the Poisson source
    measured, error = simulated_currency(gaps, period=3.0, grace=0.5)
    assert error < 0.005 / 3
    assert currency(bursty, 3.0, 0.5) == pytest.approx(measured, abs=0.005)
    assert measured - currency(1.0, 3.0, 0.5) > 0.3


@pytest.mark.slow
def test_poisson_currency_is_wrong_for_a_regular_source():
    # Uniform intervals from 0.8 to 1.2. ∫₀ˣ (1 − F), with F by hand, is G.
    rng = np.random.default_rng(3)
    grid = np.linspace(0.0, 1.2, 2401)
    sf = 1.0 - np.clip((grid - 0.8) / 0.4, 0.0, 1.0)
    cdf = np.append(0.0, np.cumsum((sf[1:] + sf[:-1]) / 2.0 * np.diff(grid)))
    regular = AgeTable(grid, np.minimum(cdf, 1.0))
    measured, error = simulated_currency(
        lambda shape: rng.uniform(0.8, 1.2, shape), period=1.5, grace=0.25
    )
    assert error < 0.005 / 3
    assert currency(regular, 1.5, 0.25) == pytest.approx(measured, abs=0.005)
    assert currency(1.0, 1.5, 0.25) - measured > 0.1


PROCESSES = examples(mean=1.4)


@pytest.mark.parametrize("name", PROCESSES)
def test_currency_of_a_process_is_what_its_sample_shows(name):
    process, period, grace, periods, sources = PROCESSES[name], 2.0, 0.4, 5, 20_000
    updates = process.sample(periods * period, sources, seed=11)
    visits = np.broadcast_to(period * np.arange(periods), (sources, periods))
    wait = np.nan_to_num(updates.residuals(visits), nan=np.inf)  # none left: after the last visit
    shares = np.minimum(wait + grace, period) / period  # 10⁵ periods
    assert shares.mean(axis=1).std() / math.sqrt(sources) < 0.005 / 2
    alpha = currency(process, period, grace)
    assert alpha == pytest.approx(shares.mean(), abs=0.005)
    # By quadrature of the bare G as well, and backwards.
    assert currency(process.age_cdf, period, grace) == pytest.approx(alpha, abs=2e-4)
    assert required_period(process, alpha, grace) == pytest.approx(period, rel=1e-9)
    lifetime = time_to_live(process, 0.2)
    assert changed_probability(process, lifetime) == pytest.approx(0.2, rel=1e-9)
    assert mean_missed_updates(process, period) == pytest.approx(period / process.mean / 2)
    late = np.maximum(period - wait[:, 0], 0.0)
    assert staleness(process, period) == pytest.approx(
        late.mean(), abs=4 * late.std() / math.sqrt(sources)
    )


def test_a_source_that_is_not_stationary_has_no_currency():
    with pytest.raises(InputError, match="not stationary"):
        currency(PowerLaw(1.0, 0.5), 1.0)


# Rates that are not known exactly ----------------------------------------------------------------


@settings(max_examples=60)
@given(st.floats(0.05, 50.0), st.floats(0.1, 100.0), st.floats(0.001, 1000.0), graces)
def test_gamma_posterior_is_the_average_over_its_rates(shape, exposure, period, share):
    from scipy.special import gammaincinv

    grace = share * period
    # Midpoint rule in probability: 4000 equally likely rates. Their error is a few 1e-4 at most.
    rates = gammaincinv(shape, (np.arange(4000) + 0.5) / 4000) / exposure
    gamma = GammaRates(shape, exposure)
    assert currency(gamma, period, grace) == pytest.approx(
        currency(rates, period, grace).mean(), abs=3e-4
    )
    assert mean_staleness(gamma, period) / period == pytest.approx(
        mean_staleness(rates, period).mean() / period, abs=3e-4
    )


def test_gamma_posterior_in_closed_form():
    # DESIGN section 5: b/((a−1)T) · (1 − (b/(b+T))^(a−1)), and its limit at a = 1.
    a, b, T = np.array([0.3, 1.7, 3.0, 40.0]), 10.0, np.array([[0.1], [10.0], [1000.0]])
    printed = b / ((a - 1) * T) * (1 - (b / (b + T)) ** (a - 1))
    assert currency(GammaRates(a, b), T) == pytest.approx(printed, rel=1e-12)
    at_one = currency(GammaRates(1.0, b), T[:, 0])
    assert at_one == pytest.approx(b / T[:, 0] * np.log1p(T[:, 0] / b), rel=1e-14)
    for near in (1 - 1e-12, 1 + 1e-12):
        assert currency(GammaRates(near, b), T[:, 0]) == pytest.approx(at_one, rel=1e-10)
    # With much evidence it is the Poisson source of the rate a/b.
    assert currency(GammaRates(3e9, 1e10), 10.0, 2.0) == pytest.approx(currency(0.3, 10.0, 2.0))


@settings(max_examples=200)
@given(st.floats(-6.0, 3.0), st.floats(-9.0, 6.0))
def test_gamma_staleness_keeps_its_digits(log_shape, log_period):
    a, period = 10.0**log_shape, 10.0**log_period
    with localcontext() as context:
        context.prec = 60
        shape, x = Decimal(a), Decimal(period)
        if shape == 1:
            wait = (1 + x).ln()
        else:
            wait = (1 - (-(shape - 1) * (1 + x).ln()).exp()) / (shape - 1)
        lost = (x - wait) / x
    assert relative_error(stale_probability(GammaRates(a, 1.0), period), lost) < 1e-13


def test_grid_posteriors_of_many_sources_at_once():
    rng = np.random.default_rng(7)
    rates, weights = np.geomspace(1e-3, 10.0, 50), rng.random((6, 50))
    grid, periods = RateMixture(rates, weights), np.geomspace(0.1, 100.0, 6)
    share = weights / weights.sum(axis=1, keepdims=True)
    for function in (currency, stale_probability, mean_staleness, mean_missed_updates):
        expected = (share * function(rates, periods[:, None])).sum(axis=1)
        assert function(grid, periods) == pytest.approx(expected, rel=1e-13)


def test_a_large_mixture_is_averaged_in_blocks():
    rates = np.geomspace(1e-3, 10.0, 700_001)
    assert currency(RateMixture(rates), 5.0) == pytest.approx(currency(rates, 5.0).mean())


@pytest.mark.parametrize(
    "make",
    [
        lambda: GammaRates(0.0, 1.0),
        lambda: GammaRates(1.0, -1.0),
        lambda: RateMixture([1.0, 2.0], [0.0, 0.0]),
        lambda: RateMixture([1.0, 2.0], [1.0, 1.0, 1.0]),
        lambda: RateMixture([1.0, -2.0]),
        lambda: WeibullPopulation(0.0, 1.0),
        lambda: WeibullPopulation(1.4, np.inf),
    ],
)
def test_impossible_rates_are_refused(make):
    with pytest.raises(InputError):
        make()


# The population of the thesis --------------------------------------------------------------------


def test_population_of_figure_3_22():
    assert round(WEB.mean, 1) == 138.7  # "around 138 days"
    assert round(WEB.median, 1) == 117.1  # "117 days"
    assert round(WEB.mode, 1) == 62.2  # "62 days"
    assert WeibullPopulation(0.8, 10.0).mode == 0.0
    assert WeibullPopulation(0.8, 10.0).mean_rate == np.inf


def test_population_moments_by_sampling():
    times = 152.2 * np.random.default_rng(4).weibull(1.4, 400_000)
    assert WEB.mean == pytest.approx(times.mean(), abs=4 * times.std() / math.sqrt(times.size))
    alpha = currency(1.0 / times, 30.0, 5.0)
    assert currency(WEB, 30.0, 5.0) == pytest.approx(
        alpha.mean(), abs=4 * alpha.std() / math.sqrt(times.size)
    )


@pytest.mark.parametrize("shape", [0.3, 0.7, 1.0, 1.4, 3.0, 8.0])
@pytest.mark.parametrize(("period", "grace"), [(1e-4, 0.0), (8.5, 1.0), (1e4, 3.0)])
def test_population_average_against_adaptive_quadrature(shape, period, grace):
    from scipy.integrate import quad

    def integrand(u):  # (3.17) with t = 100 eᵘ
        power = math.exp(shape * u)
        lost = stale_probability(math.exp(-u) / 100.0, period, grace)
        return shape * power * math.exp(-power) * float(lost)

    low, high = -60.0 / shape, math.log(50.0) / shape
    exact = quad(integrand, low, high, epsabs=0.0, epsrel=1e-12, limit=1000)[0]
    population = WeibullPopulation(shape, 100.0)
    assert stale_probability(population, period, grace) == pytest.approx(exact, rel=1e-11)
    assert currency(population, period, grace) == pytest.approx(1.0 - exact, rel=1e-11, abs=1e-13)


def test_population_of_shape_one_has_a_closed_form():
    # ∫ e^(−v) e^(−z/v) dv = 2√z K₁(2√z), z = x/δ: the case Brewington singles out.
    from scipy.special import kv

    x = np.array([1e-3, 1.0, 100.0, 3000.0])
    root = 2.0 * np.sqrt(x / 50.0)
    assert 1.0 - WeibullPopulation(1.0, 50.0).age_cdf(x) == pytest.approx(
        root * kv(1, root), rel=1e-11
    )


def test_required_periods_of_the_thesis():
    # Errata B-12: 8.5 and 18 days are printed.
    assert required_period(WEB, 0.95, [1.0, 7.0]).round(2).tolist() == [8.58, 18.49]
    # Errata B-16: the thesis reads 75 to 120 days and 100 to 150 days off its figures.
    assert required_period(WEB, 0.95, [73.0, 104.0]).round().tolist() == [103.0, 140.0]
    assert required_period(WEB, [0.60, 0.50], 1.0).round().tolist() == [111.0, 169.0]


def test_surface_of_the_thesis():
    # Section 4.3.2; errata B-17: 0.529 where 0.47 is printed.
    alpha = performance_surface(WEB, [10.0, 100.0, 150.0, 600.0], [1.0])
    assert alpha.shape == (4, 1)
    assert alpha[:, 0].round(3).tolist() == [0.941, 0.624, 0.529, 0.216]
    with pytest.raises(InputError, match="one source or one population"):
        performance_surface([0.1, 0.2], [1.0], [1.0])


def test_bandwidth_of_the_thesis():
    # (3.18) and (3.19); errata B-13: 104 and 9.4 are printed, with two meanings of kB.
    web = bandwidth(800e6, 8.5, 12_000)
    assert round(float(web.pages_per_day) / 1e6, 1) == 94.1
    assert round(float(web.bits_per_second) / 1e6, 1) == 104.6
    index = bandwidth(150e6, 18.0, 12_000)
    assert round(float(index.pages_per_day) / 1e6, 2) == 8.33
    assert round(float(index.bits_per_second) / 1e6, 2) == 9.26
    # Chapter 1: "around 50 megabits/second" for the whole web at (0.95, 1 week).
    assert round(float(bandwidth(800e6, 18.0, 12_000).bits_per_second) / 1e6) == 49
    with pytest.raises(InputError, match="period of 0"):
        bandwidth(100, 0.0, 12_000)


def test_level_set_of_figure_3_24():
    # "As T₀ becomes large β approaches 0.95 × T₀", from below.
    periods = np.array([10.0, 100.0, 1e4, 1e6])
    grace = required_grace(WEB, 0.95, periods)
    assert required_period(WEB, 0.95, grace) == pytest.approx(periods, rel=1e-9)
    assert np.all(np.diff(grace / periods) > 0.0)
    assert grace[-1] / periods[-1] == pytest.approx(0.95, abs=2e-4)


# Collections -------------------------------------------------------------------------------------


def test_a_collection_is_the_average_over_its_sources():
    rates, periods = np.array([0.01, 0.1, 1.0]), np.array([30.0, 10.0, 3.0])
    alpha = currency(rates, periods, 1.0)
    assert collection_currency(rates, periods, 1.0) == pytest.approx(alpha.mean())
    weighted = collection_currency(rates, periods, 1.0, importance=[1, 0, 3])
    assert weighted == pytest.approx((alpha[0] + 3 * alpha[2]) / 4)
    # A joint distribution on a grid of rates and periods, (2.33).
    joint = np.array([[0.1, 0.2], [0.3, 0.4]])
    both = currency([[0.1], [1.0]], [5.0, 10.0], 1.0)
    assert collection_currency([[0.1], [1.0]], [5.0, 10.0], 1.0, joint) == pytest.approx(
        (joint * both).sum()
    )


@pytest.mark.parametrize("importance", [[0, 0, 0], [1, 2], [1, -1, 1], [np.inf, 1, 1]])
def test_impossible_importance_is_refused(importance):
    with pytest.raises(InputError, match="importance"):
        collection_currency([0.1, 0.2, 0.3], 5.0, 0.0, importance)


# The period or the grace that is needed ----------------------------------------------------------


@settings(max_examples=200)
@given(st.floats(-9.0, 4.0), st.floats(1e-9, 0.999), st.floats(0.0, 100.0))
def test_required_period_is_the_inverse_of_currency(log_rate, lost, grace):
    rate, target = 10.0**log_rate, 1.0 - lost
    period = required_period(rate, target, grace)
    assert period >= grace
    assert stale_probability(rate, period, grace) == pytest.approx(1.0 - target, rel=1e-8)


SOURCES = {
    "gamma": GammaRates(0.8, 20.0),
    "sharp gamma": GammaRates(300.0, 500.0),
    "grid": RateMixture([0.01, 0.3, 20.0], [5, 3, 2]),
    "population": WEB,
    "table": AgeTable([1.0, 3.0, 10.0], [0.4, 0.7, 1.0]),
    "function": lomax_ages,
}


@pytest.mark.parametrize("name", SOURCES)
def test_required_period_of_any_source_is_the_inverse_of_its_currency(name):
    source = SOURCES[name]
    targets, grace = np.array([0.999, 0.95, 0.6, 0.3]), np.array([[0.0], [0.3], [25.0]])
    period = required_period(source, targets, grace)
    assert period.shape == (3, 4)
    assert currency(source, period, grace) == pytest.approx(
        np.broadcast_to(targets, (3, 4)), rel=1e-9
    )
    again = required_grace(source, targets, period)
    assert again == pytest.approx(np.broadcast_to(grace, (3, 4)), rel=1e-6, abs=1e-9)


def test_a_corner_in_a_function_g_costs_three_digits():
    # The quadrature cannot know where G bends; a table or a process does.
    period = required_period(constant_ages, [0.9, 0.5, 0.1])
    assert currency(AgeTable([2.0], [1.0]), period) == pytest.approx([0.9, 0.5, 0.1], abs=5e-4)


def test_required_period_at_its_limits():
    rates = [0.0, 0.1, 1.0]
    assert required_period(rates, 1.0, 2.0).tolist() == [np.inf, 2.0, 2.0]
    assert required_period(rates, 1.0).tolist() == [np.inf, 0.0, 0.0]
    assert required_period(rates, 0.0, 2.0).tolist() == [np.inf] * 3
    assert required_period(rates, 0.9)[0] == np.inf
    # Seven of ten sources never change: 0.6 needs no visits, 0.8 does.
    mostly_dead = RateMixture([0.0, 1.0], [7, 3])
    assert required_period(mostly_dead, 0.6) == np.inf
    period = required_period(mostly_dead, 0.8)
    assert currency(mostly_dead, period) == pytest.approx(0.8)
    assert required_period(AgeTable([1.0], [0.3]), 0.6) == np.inf
    # Nothing known, and a source that changes all the time: β/T is all its currency.
    answer = required_period([np.nan, np.inf], 0.9, 1.8)
    assert answer == pytest.approx([np.nan, 2.0], nan_ok=True)
    for target in (-0.1, 1.1):
        with pytest.raises(InputError, match="target"):
            required_period(0.1, target)


def test_required_grace_at_its_limits():
    assert required_grace([0.0, 0.1, 0.1], [0.9, 1.0, 0.0], 10.0).tolist() == [0.0, 10.0, 0.0]
    assert required_grace(0.1, 0.95, 0.5) == 0.0  # current enough without


@pytest.mark.slow
def test_many_required_periods_at_once():
    rng = np.random.default_rng(8)
    rates, targets = 10.0 ** rng.uniform(-6, 3, 100_000), rng.uniform(0.01, 0.999, 100_000)
    period = required_period(rates, targets, 1.0)
    assert currency(rates, period, 1.0) == pytest.approx(targets, rel=1e-10)


# Caches ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("risk", [1e-6, 0.05, 0.5])
def test_a_copy_at_the_end_of_its_life_is_stale_with_the_risk_asked_for(name, risk):
    lifetime = time_to_live(SOURCES[name], risk)
    assert changed_probability(SOURCES[name], lifetime) == pytest.approx(risk, rel=1e-9)
    assert time_to_live(SOURCES[name], risk, grace=3.0) == pytest.approx(lifetime + 3.0)


def test_time_to_live_of_many_and_at_its_limits():
    assert time_to_live([0.0, 0.1], [0.05, 0.05]) == pytest.approx([np.inf, 0.5129329438755058])
    assert time_to_live([0.0, 0.1], 0.0).tolist() == [np.inf, 0.0]
    assert time_to_live(RateMixture([0.0, 1.0], [7, 3]), [0.2, 0.4]).tolist() == [
        pytest.approx(math.log(3.0)),  # 0.3 (1 − e^(−x)) = 0.2
        np.inf,
    ]
    posteriors = GammaRates([1.0, 5.0], [10.0, 20.0])
    assert changed_probability(posteriors, time_to_live(posteriors, 0.1)) == pytest.approx(0.1)
    with pytest.raises(InputError, match="risk"):
        time_to_live(0.1, 1.0)


def test_the_tenth_of_the_age_rule_is_a_risk_of_one_in_eleven_whatever_the_rate():
    # Fetched at a random moment the age is exponential; the next update is independent of it.
    rng, draws = np.random.default_rng(9), 200_000
    for rate in (0.01, 3.0):
        age, wait = rng.exponential(1 / rate, (2, draws))
        stale = np.mean(wait <= heuristic_time_to_live(age))
        assert stale == pytest.approx(1 / 11, abs=4 * math.sqrt(1 / 11 * 10 / 11 / draws))
    # And it is what someone would say who has seen one age and nothing else.
    ages = np.array([0.5, 30.0])
    assert time_to_live(GammaRates(1.0, ages), 1 / 11) == pytest.approx(
        heuristic_time_to_live(ages)
    )
    assert heuristic_time_to_live(ages, longest=1.0).tolist() == [0.05, 1.0]
    with pytest.raises(InputError):
        heuristic_time_to_live(ages, fraction=0.0)


# Discrete time -----------------------------------------------------------------------------------


def enumerate_paths(p_reset, age, elapsed):
    """Walk every path of the age chain, one change or none a unit: P(changed) and E[time late]."""
    changed = late = 0.0
    for path in product((False, True), repeat=elapsed):
        chance, now = 1.0, age
        for resets in path:
            p = p_reset[min(now, len(p_reset) - 1)]
            chance *= p if resets else 1.0 - p
            now = 0 if resets else now + 1
        if any(path):
            changed += chance
            late += chance * (elapsed - path.index(True))
    return changed, late


probabilities = st.lists(st.floats(0.0, 1.0) | st.sampled_from([0.0, 1.0]), min_size=1, max_size=5)


@settings(max_examples=100)
@given(probabilities, st.integers(0, 6), st.integers(0, 8))
def test_the_chain_agrees_with_the_enumeration_of_its_paths(p_reset, age, elapsed):
    changed, late = enumerate_paths(p_reset, age, elapsed)
    assert chain_changed(p_reset, age, elapsed) == pytest.approx(changed, abs=1e-12)
    assert chain_time_out_of_date(p_reset, age, elapsed) == pytest.approx(late, abs=1e-11)


def test_the_chain_agrees_with_the_power_of_its_matrix_within_its_states():
    p = np.array([0.1, 0.3, 0.2, 0.4, 0.25, 0.5, 0.05])
    matrix = np.diag(1.0 - p[:-1], 1)
    matrix[:, 0], matrix[-1, -1] = p, 1.0 - p[-1]
    for age, elapsed in ((0, 1), (0, 6), (2, 3), (1, 5)):
        power = np.linalg.matrix_power(matrix, elapsed)
        assert chain_changed(p, age, elapsed) == pytest.approx(1.0 - power[age, age + elapsed])
    # Errata B-5: beyond the last state the power counts chains that changed; 0.858 is true.
    p, truth = [0.1, 0.3, 0.2, 0.4, 0.25], 1 - 0.7 * 0.8 * 0.6 * 0.75**3
    assert chain_changed(p, 1, 6) == pytest.approx(truth)
    assert round(truth, 3) == 0.858


def test_z_by_the_printed_sums():
    # (2.23) with P of (2.26); errata B-6: P(0, 0) = p_reset(0), not P(1, 0).
    p = [0.3, 0.0, 0.6, 0.2]
    P = [0.3, 0.7 * 0.0, 0.7 * 1.0 * 0.6, 0.7 * 1.0 * 0.4 * 0.2]
    assert chain_time_out_of_date(p, 0, 3) == pytest.approx(3 * P[0] + 2 * P[1] + P[2])
    assert chain_time_out_of_date(p, 0, 4) == pytest.approx(4 * P[0] + 3 * P[1] + 2 * P[2] + P[3])
    # In the limit each unit adds one.
    far = chain_time_out_of_date(p, 0, [1000, 1001])
    assert far[1] - far[0] == pytest.approx(1.0)


def test_a_memoryless_chain_is_the_poisson_source():
    # p = 1 − e^(−λ): S_k = 1 − e^(−λk); and the mean over a period tends to (2.40) for small λ.
    p = -math.expm1(-1e-3)
    units = np.arange(1, 3001)
    changed = chain_changed([p], 0, units)
    assert changed == pytest.approx(changed_probability(1e-3, units), rel=1e-12)
    assert 1.0 - changed.mean() == pytest.approx(currency(1e-3, 3000.0), abs=4e-4)
    assert chain_time_out_of_date([p], 0, units) == pytest.approx(np.cumsum(changed), rel=1e-9)


def test_costs_of_a_collection_of_chains():
    rng = np.random.default_rng(10)
    p, age, elapsed = rng.random((5, 4)), rng.integers(0, 6, 5), rng.integers(0, 9, 5)
    rows = [enumerate_paths(*row) for row in zip(p.tolist(), age, elapsed, strict=True)]
    changed, late = np.array(rows).T
    assert expected_out_of_date(p, age, elapsed) == pytest.approx(changed.sum())
    assert expected_time_out_of_date(p, age, elapsed) == pytest.approx(late.sum())
    assert chain_currency(p, age, elapsed) == pytest.approx(1.0 - changed.mean())
    weighted = chain_currency(p, age, elapsed, importance=[1, 0, 0, 0, 1])
    assert weighted == pytest.approx(1.0 - (changed[0] + changed[4]) / 2)


def test_objects_of_one_collection_stop_at_their_own_times():
    p, ages, units = [0.3, 0.1, 0.5, 0.2, 0.4, 0.05, 0.6, 0.25], [[0], [2], [5]], np.arange(6)
    for number, function in enumerate((chain_changed, chain_time_out_of_date)):
        expected = [[enumerate_paths(p, i, k)[number] for k in units] for (i,) in ages]
        assert function(p, ages, units) == pytest.approx(np.array(expected), abs=1e-14)


def test_a_long_wait_in_the_last_state_takes_no_longer():
    assert chain_changed([0.5, 1e-9], 0, 10**12) == pytest.approx(1.0)
    assert chain_changed([0.0, 0.0], 0, 10**12) == 0.0
    assert chain_changed([0.0, 1.0], 0, [1, 2, 3]).tolist() == [0.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([1.2], 0, 1), "p_reset"),
        (([-0.2], 0, 1), "p_reset"),
        (([], 0, 1), "p_reset"),
        (([0.2], -1, 1), "age"),
        (([0.2], 0, 1.5), "elapsed"),
    ],
)
def test_impossible_chains_are_refused(arguments, said):
    with pytest.raises(InputError, match=said):
        chain_changed(*arguments)


# -- visits that are not periodic, collections that grow ------------------------------------------


@pytest.mark.parametrize("variation", [0.3, 1.0, 1.5])
def test_irregular_visits_agree_with_simulation(variation):
    """Updates and visits drawn; a moment is current when no update since the visit is too old."""
    rng = np.random.default_rng(5)
    rate, mean, grace, many = 0.3, 10.0, 2.0, 200_000
    gaps = rng.gamma(variation**-2, mean * variation**2, many)
    first = rng.exponential(1 / rate, many)  # the first update after a visit
    current = np.minimum(first + grace, gaps)
    truth = current.sum() / gaps.sum()
    error = np.std(current - truth * gaps) / np.sqrt(many) / mean
    found = over_gaps(currency, rate, irregular_gaps(mean, variation), grace)
    assert abs(found - truth) < 4 * error
    assert over_gaps(currency, rate, gaps, grace) == pytest.approx(found, abs=4 * error)


def test_random_visits_have_their_formulas_and_a_fixed_period_is_itself():
    gaps = irregular_gaps(10.0, 1.0)
    assert gaps.mean() == pytest.approx(10.0)
    assert over_gaps(currency, 0.3, gaps) == pytest.approx(0.1 / 0.4, abs=1e-3)
    assert over_gaps(hidden_share, 0.3, gaps) == pytest.approx(0.3 / 0.4, abs=1e-3)
    assert over_gaps(currency, 0.3, irregular_gaps(10.0, 0.0), 2.0) == currency(0.3, 10.0, 2.0)
    with pytest.raises(InputError):
        over_gaps(currency, 0.3, [0.0])


def test_a_queue_that_grows_has_copies_of_the_age_that_is_told():
    """A round-robin queue simulated visit by visit, with births at its end."""
    growth, start, speed = 0.002, 400.0, 4.0  # per day; sources; visits a day
    queue, ages, oldest = [-np.inf] * int(start), [], []
    for step in range(int(1200 * speed)):
        now = step / speed
        size = start * np.exp(growth * now)
        queue += [-np.inf] * (int(size) - len(queue))
        queue.pop(0)
        queue.append(now)
        if now > 900 and step % 40 == 0:
            ages.append(now - min(at for at in queue if at > -np.inf))
            oldest.append(float(growing_period(size / speed, growth)))
    np.testing.assert_allclose(np.mean(ages), np.mean(oldest), rtol=0.01)
    assert growing_period(100.0, 0.0) == 100.0


# -- replicas -------------------------------------------------------------------------------------


@pytest.mark.parametrize("grace", [0.0, 0.3])
def test_the_best_of_some_replicas_is_as_current_as_a_simulation_says(grace):
    """Pareto updates, replicas at phases of their own; 40,000 moments, three standard errors."""
    from observant.currency import replica_currency
    from observant.processes import Pareto

    source, period, replicas, moments = Pareto(3.0, 1.0), 2.0, 4, 40_000
    rng = np.random.default_rng(5)
    updates = source.sample(400_000.0, seed=rng).times
    now = np.sort(rng.uniform(1_000, 399_000, moments))
    looked = now - (period * rng.random((replicas, moments))).min(axis=0)
    seen = np.searchsorted(updates, np.maximum(now - grace, looked)) - np.searchsorted(
        updates, looked
    )
    share = np.mean(seen == 0)
    wanted = replica_currency(source, period, replicas, grace)
    assert abs(share - wanted) < 3 * np.sqrt(wanted * (1 - wanted) / moments) + 0.002


def test_as_many_replicas_are_asked_as_are_needed():
    from observant.currency import currency, replica_currency, replicas_needed

    assert replica_currency(0.3, 10.0, 1, 2.0) == pytest.approx(
        float(currency(0.3, 10, 2)), abs=1e-4
    )
    k = replicas_needed(1.0, 1.0, 0.95)
    assert replica_currency(1.0, 1.0, k) >= 0.95 > replica_currency(1.0, 1.0, k - 1)
    with pytest.raises(InputError, match="between 0 and 1"):
        replicas_needed(1.0, 1.0, 1.0)
