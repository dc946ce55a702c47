"""Exact sampling properties against plain enumeration, quadrature, simulation and Cho's numbers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom

from observant.errors import EstimationError, InputError
from observant.estimation.accuracy import (
    Accuracy,
    accuracy,
    information,
    precision_reached,
    probability_within,
    singularity_offset,
)
from observant.estimation.design import (
    PEAK_RATIO,
    VisitDesign,
    best_ratio,
    design_visits,
    largest_ratio,
    visits_needed,
)
from observant.estimation.exact import FEW, _sum_of_few, _sum_of_many

unhurried = settings(deadline=None)  # a busy machine is not a failure
counts = st.integers(1, 60)
ratios = st.floats(-3, 2).map(lambda power: 10.0**power)


def outcomes(method, n, r, a=0.5, b=0.5):
    """Each possible estimate with its probability, straight from corollary 4.3."""
    changed = -math.expm1(-r)
    for k in range(n + 1):
        chance = math.comb(n, k) * changed**k * math.exp(-r * (n - k))
        yield (k / n if method == "naive" else -math.log((n - k + a) / (n + b))), chance


def enumerated(*args, **kwargs):
    pairs = list(outcomes(*args, **kwargs))
    mean = math.fsum(value * chance for value, chance in pairs)
    return mean, math.sqrt(math.fsum((value - mean) ** 2 * chance for value, chance in pairs))


def x_prime(n, k):
    """Figure 13 as printed, with the limits of footnotes 5 and 12."""
    if k in (0, n):
        return 0.0 if k == 0 else n - 1.0
    return (k - 1) - k / (n * math.log(1 - k / n))


# Bias and spread


@given(counts, ratios)
@unhurried
def test_naive_is_theorem_4_1_and_corollary_4_2(n, r):
    result = accuracy("naive", n, r)
    assert result.expected == pytest.approx(-math.expm1(-r), rel=1e-12)
    assert result.sd == pytest.approx(math.sqrt(math.exp(-r) * -math.expm1(-r) / n), rel=1e-9)


@given(counts, ratios, st.floats(0.05, 3), st.floats(0, 2))
@unhurried
def test_improved_and_bayes_are_the_sum_of_corollary_4_3(n, r, a, more):
    mean, sd = enumerated("improved", n, r, a, a + more)
    improved = accuracy("improved", n, r, offsets=(a, a + more))
    assert improved.expected == pytest.approx(mean, rel=1e-9, abs=1e-15)
    assert improved.bias == pytest.approx(mean / r - 1, rel=1e-9, abs=1e-9)
    assert improved.sd == pytest.approx(sd, rel=1e-7, abs=1e-12)
    if more:
        bayes = accuracy("bayes-beta", n, r, beta_prior=(more, a))
        assert bayes.expected == pytest.approx(mean, rel=1e-9, abs=1e-15)


def test_bayes_is_the_uniform_prior_unless_told():
    # Appendix B: -log((n - X + 1) / (n + 2)).
    assert accuracy("bayes-beta", 7, 0.8).expected == pytest.approx(
        enumerated("improved", 7, 0.8, 1, 2)[0], rel=1e-12
    )


@pytest.mark.parametrize("r", [0.01, 1.5, 8.0])
def test_ten_thousand_visits_are_still_exact(r):
    n, k = 10_000, np.arange(10_001)
    value, chance = -np.log((n - k + 0.5) / (n + 0.5)), binom.pmf(k, n, -np.expm1(-r))
    mean = value @ chance
    result = accuracy("improved", n, r)
    assert result.expected == pytest.approx(mean, rel=1e-11)
    assert result.sd == pytest.approx(math.sqrt((value - mean) ** 2 @ chance), rel=1e-9)


def test_a_million_visits_follow_the_fisher_information():
    # The next term of the expansion is of order 1/n.
    n = 1_000_000
    for method, dated in (("improved", False), ("last-modified", True)):
        result = accuracy(method, n, [0.3, 1.5, 4.0])
        limit = 1 / np.sqrt(n * information([0.3, 1.5, 4.0], dated=dated))
        assert result.relative_sd == pytest.approx(limit, rel=1e-4)
        assert np.abs(result.bias).max() < 1e-4


def irwin_hall(k, t):
    if k == 1:
        return 1.0
    if k == 2:
        return t if t < 1 else 2 - t
    return t * t / 2 if t < 1 else (6 * t - 2 * t * t - 3) / 2 if t < 2 else (3 - t) ** 2 / 2


@pytest.mark.parametrize("method", ["last-modified", "last-modified-raw"])
@pytest.mark.parametrize("r", [1e-3, 0.3, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("n", [2, 3])
def test_last_modified_is_lemma_d1_with_the_mended_densities(n, r, method):
    # Erratum C-8. The joint density of X = k and T = n-k+t is C(n,k) r^k e^(-rT) IrwinHall_k(t).
    def moment(power):
        total = 0.0
        for k in range(1, n + 1):
            c = x_prime(n, k) if method == "last-modified" else k
            for piece in range(k):

                def density(t, k=k):
                    return irwin_hall(k, t) * math.exp(-r * (n - k + t)) * (n - k + t) ** -power

                breaks = [x for x in (1 / r, 5 / r, 20 / r) if piece < x < piece + 1]
                area, _ = quad(
                    density, piece, piece + 1, epsabs=0, epsrel=1e-11, points=breaks or None
                )
                total += c**power * math.comb(n, k) * r**k * area
        return total

    result = accuracy(method, n, r)
    mean = moment(1)
    assert result.expected == pytest.approx(mean, rel=1e-9)
    if n == 2:
        assert result.sd == np.inf
    else:
        assert result.sd == pytest.approx(math.sqrt(moment(2) - mean**2), rel=1e-8)


@pytest.mark.parametrize("n", [2, 3, 10, 1000])
def test_the_limits_of_theorem_d2(n):
    large, small = accuracy("last-modified-raw", n, [200.0, 1e-7]).bias + 1
    assert large == pytest.approx(n / (n - 1), rel=1e-9)
    assert small == pytest.approx(n * math.log(n / (n - 1)), rel=1e-5)
    # Figure 13 removes the bias at both ends.
    assert accuracy("last-modified", n, [200.0, 1e-7]).bias == pytest.approx(0, abs=1e-5)


def test_one_dated_visit():
    assert accuracy("last-modified", 1, 2.0).expected == 0
    assert accuracy("last-modified", 1, 2.0).sd == 0
    assert accuracy("last-modified-raw", 1, 2.0).expected == np.inf


@pytest.mark.parametrize(("n", "r"), [(5, 4.0), (12, 0.4), (40, 1.5), (90, 0.15)])
def test_last_modified_against_simulation(n, r):
    # 100,000 series: the tolerance is 4.5 standard errors of what is compared; that of σ² uses
    # the sampled fourth moment.
    rng = np.random.default_rng(20030801)
    until_change = rng.exponential(1 / r, (100_000, n))
    changes, time = (until_change < 1).sum(axis=1), np.minimum(until_change, 1).sum(axis=1)
    table = np.array([x_prime(n, k) for k in range(n + 1)])
    sample = table[changes] / time
    result = accuracy("last-modified", n, r)
    assert abs(sample.mean() - result.expected) < 4.5 * result.sd / math.sqrt(sample.size)
    squares = (sample - result.expected) ** 2
    assert abs(squares.mean() - result.sd**2) < 4.5 * squares.std() / math.sqrt(sample.size)
    for precision in (0.05, 0.35, 0.9, 1.3):
        chance = probability_within("last-modified", n, r, precision)
        hits = np.mean(np.abs(sample / r - 1) <= precision)
        assert abs(hits - chance) < 4.5 * math.sqrt(chance * (1 - chance) / sample.size)


@pytest.mark.parametrize("r", [1e-5, 0.1, 1.0, 3.0, 30.0])
def test_the_law_of_few_ages_hands_over_to_the_law_of_many(r):
    k, ratio = np.full(60, float(FEW - 1)), np.full(60, r)
    t = np.linspace(0.01, 1, 60) * k / (1 + r / 3)
    few, many = _sum_of_few(t, k, ratio), _sum_of_many(t, k, ratio)
    assert few == pytest.approx(many, abs=1e-8)
    assert few[-1] - few[0] > 0.9


@pytest.mark.parametrize(("n", "r", "precision"), [(300, 0.5, 0.1), (10_000, 1.0, 0.01)])
def test_figure_10_is_a_sum_of_equal_terms(n, r, precision):
    # X/T <= y means that the visits' terms [changed] - y × time add up to at most zero, so that one
    # Fourier inversion (Gil-Pelaez) of their transform to the n gives the same probability.
    def at_most(y):
        width = 24 * math.sqrt(n)  # a term has a standard deviation below one
        w = 2 * np.pi / width * (np.arange(4000) + 0.5)
        s = r + 1j * w * y
        one = np.exp(-s) + np.exp(1j * w) * r * -np.expm1(-s) / s
        return 0.5 - ((one**n).imag / w).sum() * 2 / width

    wanted = at_most(r * (1 + precision)) - at_most(r * (1 - precision))
    found = probability_within("last-modified-raw", n, r, precision)
    assert 0.5 < wanted < 0.9
    assert found == pytest.approx(wanted, abs=1e-8)


# The numbers of Cho


def test_example_3_and_figure_4():
    assert accuracy("naive", 10, 2.0).bias == pytest.approx(-0.57, abs=0.005)
    assert 2 * accuracy("naive", 10, 1 / 7).relative_sd == pytest.approx(1.5, abs=0.05)
    assert largest_ratio(10, method="naive") == pytest.approx(0.21, abs=0.005)
    assert visits_needed([1.0, 0.3], relative_sd=0.5, method="naive").tolist() == [1, 9]


def test_figure_6():
    # Printed: r < 3.5 for n = 20, and r < 5 for n = 80, where we find 5.14.
    assert largest_ratio([20, 80]) == pytest.approx([3.5, 5.1], abs=0.05)


def test_figure_7():
    assert accuracy("improved", [10, 40], 1.5).relative_sd == pytest.approx([0.4, 0.2], abs=0.005)
    # Erratum C-4: the bias for n = 20, r < 2 is printed as less than 0.1 %.
    grid = np.linspace(0.01, 2, 200)
    bias = np.abs(accuracy("improved", 20, grid).bias)
    assert bias.max() == pytest.approx(0.0017, abs=5e-5)
    assert grid[bias.argmax()] == pytest.approx(1.59, abs=0.02)


def test_example_4():
    # Erratum C-5: the 75 % belong to r = 1.5, not to the 10 days of the text.
    assert abs(accuracy("improved", 10, 1.5).bias) < 0.003
    chance = probability_within("improved", 10, [1.5, 10 / 7], 0.35)
    assert chance == pytest.approx([0.755, 0.53], abs=0.002)


def test_example_6():
    # Erratum C-5: a month of four weeks.
    assert accuracy("improved", 5, 4.0).bias == pytest.approx(-0.43, abs=0.005)
    assert accuracy("improved", 5, 30 / 7).bias + 1 == pytest.approx(0.542, abs=5e-4)
    assert abs(accuracy("last-modified", 5, 4.0).bias) < 0.001


def test_figures_11_and_12():
    grid = np.geomspace(1e-3, 1e3, 400)
    assert accuracy("last-modified-raw", 2, grid[grid > 5]).bias.min() > 0.9
    assert np.abs(accuracy("last-modified", 2, grid).bias).max() == pytest.approx(0.0144, abs=1e-4)
    many = accuracy("last-modified", np.arange(3, 80)[:, None], grid[::8]).bias
    assert np.abs(many).max() < 0.011


def test_section_6_2():
    assert accuracy("improved", [160, 500], [5.0, 6.0]).bias == pytest.approx(
        [-0.029, -0.018], abs=5e-4
    )
    # Erratum C-11: at n = 50 σ without dates is the smaller one from r = 4.46 on, not 7.
    without, dated = (accuracy(m, 50, [4.45, 4.47]).sd for m in ("improved", "last-modified"))
    assert (without < dated).tolist() == [False, True]


# Appendix B, regions and best intervals


@given(st.integers(1, 10**7))
@unhurried
def test_singularity_offset_solves_its_equation(n):
    a = float(singularity_offset(n))
    # n log((n+a)/(n-1+a)) - 1 = 0, written without cancellation: -n log1p(-1/(n+a)) = 1
    assert -n * math.log1p(-1 / (n + a)) == pytest.approx(1, abs=1e-12)
    assert abs(a - 0.5) <= 0.0821


def test_the_offset_removes_the_bias_of_small_ratios():
    for n in (1, 2, 5):
        a = float(singularity_offset(n))
        assert abs(accuracy("improved", n, 1e-7, offsets=(a, a)).bias) < 1e-6
        assert abs(accuracy("improved", n, 1e-7).bias) > 1e-3


@pytest.mark.slow
@given(counts, st.floats(0.1, 0.5), st.sampled_from(["naive", "improved"]))
@unhurried
def test_largest_ratio_is_the_edge_of_the_region(n, bound, method):
    edge = float(largest_ratio(n, bound, method=method))
    assert accuracy(method, n, edge).bias == pytest.approx(-bound, abs=1e-9)
    inside = np.abs(accuracy(method, n, np.linspace(0.002, 0.999, 60) * edge).bias)
    assert inside.max() <= bound
    assert accuracy(method, n, edge * np.array([1.001, 2, 10])).bias.max() < -bound


def test_largest_ratio_knows_all_and_nothing():
    assert np.isnan(largest_ratio(1, method="last-modified"))
    assert largest_ratio(2, method="last-modified") == np.inf
    assert np.isnan(largest_ratio(1, 0.1, offsets=(1.0, 1.0)))  # log 2 - 1 = -31 % already at r = 0
    # X/T: the bias grows from 1/(2n) to 1/(n-1).
    edge = largest_ratio([4, 8, 12], method="last-modified-raw")
    assert np.isnan(edge[0])
    assert edge[2] == np.inf
    assert accuracy("last-modified-raw", 8, edge[1]).bias == pytest.approx(0.1)


def spread_and_bluntness(n):
    grid = np.arange(0.1, 3.0, 0.01)
    pairs = np.array([enumerated("improved", n, r) for r in grid])
    slope = np.gradient(pairs[:, 0], grid)
    return grid, pairs[:, 1] / grid, pairs[:, 1] / (grid * slope)


def test_best_ratio_is_the_local_minimum_of_figure_7():
    # Erratum C-6: 1.35 at n = 20, 1.44 at 40, 1.52 at 80.
    assert best_ratio([20, 40, 80]) == pytest.approx([1.35, 1.44, 1.52], abs=0.005)
    for n in (18, 30):
        grid, spread, _ = spread_and_bluntness(n)
        region = grid < 1.6
        assert best_ratio(n) == pytest.approx(grid[region][spread[region].argmin()], abs=0.011)


@pytest.mark.parametrize("n", [12, 17])
def test_below_18_visits_there_is_no_minimum_and_we_say_what_we_take(n):
    grid, spread, bluntness = spread_and_bluntness(n)
    assert np.all(np.diff(spread[grid <= largest_ratio(n)]) < 0)
    assert best_ratio(n) == pytest.approx(grid[1:-1][bluntness[1:-1].argmin()], abs=0.011)


@pytest.mark.slow
def test_best_ratio_stays_within_its_limits():
    n = np.arange(1, 200)
    best = best_ratio(n)
    assert np.all(best <= np.minimum(largest_ratio(n), PEAK_RATIO) + 1e-9)
    assert best_ratio(10) == pytest.approx(PEAK_RATIO)
    assert best_ratio(3) == pytest.approx(largest_ratio(3))
    assert best_ratio(10, bias=0.001) == pytest.approx(largest_ratio(10, 0.001))
    assert best_ratio(10**5) == pytest.approx(PEAK_RATIO, abs=1e-4)
    assert best_ratio(10, method="naive") == pytest.approx(largest_ratio(10, method="naive"))
    assert best_ratio([2, 50], method="last-modified") == pytest.approx(-math.log(0.05))


def test_information_peaks_where_it_should():
    around = information(PEAK_RATIO + np.array([-1e-3, 0, 1e-3]))
    assert around.argmax() == 1
    assert around[1] == pytest.approx(0.6476, abs=5e-5)
    assert pytest.approx(2 * -math.expm1(-PEAK_RATIO), rel=1e-15) == PEAK_RATIO
    # It is -E[d²log p / d(log λ)²]: by central differences.
    r, h = 0.7, 1e-4

    def log_likelihood(log_r):
        return np.array([-math.exp(log_r), math.log(-math.expm1(-math.exp(log_r)))])

    at = math.log(r)
    curve = (log_likelihood(at + h) - 2 * log_likelihood(at) + log_likelihood(at - h)) / h**2
    slope = (log_likelihood(at + h) - log_likelihood(at - h)) / (2 * h)
    weight = np.array([math.exp(-r), -math.expm1(-r)])
    assert weight @ slope == pytest.approx(0, abs=1e-7)
    assert information(r) == pytest.approx(-(weight @ curve), rel=1e-6)


# Precision and the visits it takes


@given(
    st.sampled_from(["naive", "improved"]),
    st.integers(1, 40),
    st.floats(0.02, 6),
    st.floats(0.01, 2.5),
)
@unhurried
def test_probability_within_counts_the_outcomes(method, n, r, precision):
    off = [(abs(value / r - 1) - precision, chance) for value, chance in outcomes(method, n, r)]
    if min(abs(gap) for gap, _ in off) < 1e-7:
        return  # a tie to within rounding: the next test
    wanted = math.fsum(chance for gap, chance in off if gap <= 0)
    assert probability_within(method, n, r, precision) == pytest.approx(wanted, abs=1e-12)


def test_ties_are_within():
    # X/n is 0.25 or 0.5 or 0.75 of four visits, and r(1 ± 0.5) = 0.25, 0.75.
    wanted = sum(
        chance for value, chance in outcomes("naive", 4, 0.5) if value in (0.25, 0.5, 0.75)
    )
    assert probability_within("naive", 4, 0.5, 0.5) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("method", ["naive", "improved", "bayes-beta", "last-modified"])
def test_precision_reached_is_the_smallest(method):
    n, wanted = np.array([[1], [4], [30], [200]]), np.array([0.5, 0.75, 0.95])
    reached = precision_reached(method, n, 1.3, wanted)
    assert np.all(probability_within(method, n, 1.3, reached) >= wanted)
    assert np.all(probability_within(method, n, 1.3, reached * (1 - 1e-6)) < wanted)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("r", "precision", "probability"), [(1.5, 0.35, 0.75), (0.5, 0.35, 0.75), (1.5, 0.2, 0.95)]
)
def test_visits_needed_is_one_past_the_last_failure(r, precision, probability):
    n = np.arange(1, 1500)
    low, high = r * (1 - precision), r * (1 + precision)
    enough = []
    for count in n:
        k = np.arange(count + 1)
        value = -np.log((count - k + 0.5) / (count + 0.5))
        inside = (value >= low) & (value <= high)
        enough.append(binom.pmf(k, count, -math.expm1(-r))[inside].sum() >= probability)
    last_failure = n[~np.array(enough)][-1]
    found = visits_needed(r, precision=precision, probability=probability)
    assert found == last_failure + 1
    # The numbers before it are not all failures: that is why "from here on" matters.
    assert any(enough[: last_failure - 1])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["improved", "last-modified"])
def test_visits_needed_for_a_spread(method):
    spread = accuracy(method, np.arange(1, 400), 1.5).relative_sd
    found = int(visits_needed(1.5, relative_sd=0.15, method=method))
    assert found == np.flatnonzero(spread > 0.15)[-1] + 2
    large = visits_needed(1.5, relative_sd=0.01, method=method)
    at, before = accuracy(method, [large, large - 1], 1.5).relative_sd
    assert at <= 0.01 < before


def test_a_spread_that_is_small_because_the_estimator_saturates_does_not_count():
    # At r = 6 the spread is under 12 % for any number of visits, while the bias is up to -82 %.
    result = accuracy("improved", np.arange(1, 2000), 6.0)
    assert result.relative_sd.max() < 0.12
    for wish in (0.12, 0.2):
        failed = np.flatnonzero(np.abs(result.bias) > wish)
        assert visits_needed(6.0, relative_sd=wish) == failed[-1] + 2


def test_visits_needed_with_dates():
    n = np.arange(1, 200)
    chance = probability_within("last-modified", n, 3.0, 0.35)
    found = int(visits_needed(3.0, precision=0.35, method="last-modified"))
    assert found == n[chance < 0.95][-1] + 1 == 34
    large = int(visits_needed(3.0, precision=0.05, method="last-modified"))
    after = probability_within("last-modified", large + np.arange(0, 300, 30), 3.0, 0.05)
    assert after.min() >= 0.95 > probability_within("last-modified", large - 1, 3.0, 0.05)


def test_what_no_number_of_visits_can_do():
    with pytest.raises(EstimationError, match="stays biased by -57 %"):
        visits_needed(2.0, precision=0.35, method="naive")
    with pytest.raises(EstimationError, match="no number of visits gives 20 %"):
        visits_needed(2.0, relative_sd=0.2, method="naive")
    with pytest.raises(EstimationError, match="more than 5,000,000 visits"):
        visits_needed(40.0, precision=0.35)
    # Where the bias leaves room, the naive estimator gets there.
    found = int(visits_needed(0.3, precision=0.35, method="naive"))
    assert probability_within("naive", found, 0.3, 0.35) >= 0.95


# Manners


@given(st.lists(counts, min_size=1, max_size=4), st.lists(ratios, min_size=1, max_size=4))
@settings(unhurried, max_examples=30)
def test_arrays_give_what_scalars_give(n, r):
    for method in ("improved", "last-modified"):
        table = accuracy(method, np.array(n)[:, None], r)
        assert table.expected.shape == (len(n), len(r))
        single = accuracy(method, n[-1], r[0])
        assert isinstance(single, Accuracy)
        assert table.expected[-1, 0] == pytest.approx(single.expected, rel=1e-11)
        assert table.sd[-1, 0] == pytest.approx(single.sd, rel=1e-9, abs=1e-12)
        chance = probability_within(method, np.array(n)[:, None], r, 0.4)
        assert chance[-1, 0] == pytest.approx(
            probability_within(method, n[-1], r[0], 0.4), abs=1e-9
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: accuracy("mle", 3, 1.0), "unknown method 'mle'; choose from naive"),
        (
            lambda: accuracy("naive", 3, 1.0, offsets=(1, 1)),
            "offsets belongs to the method 'improved'",
        ),
        (lambda: accuracy("improved", 3, 1.0, offsets=(0.5, 0.2)), "0 < a <= b"),
        (lambda: accuracy("bayes-beta", 3, 1.0, beta_prior=(1, 0)), "beta_prior above zero"),
        (lambda: accuracy("improved", 0, 1.0), "whole number, at least 1"),
        (lambda: accuracy("improved", 2.5, 1.0), "whole number"),
        (lambda: accuracy("improved", [], 1.0), "whole number"),
        (lambda: accuracy("improved", 3, [1.0, 0.0]), "above zero"),
        (lambda: accuracy("improved", 3, np.nan), "above zero"),
        (lambda: probability_within("improved", 3, 1.0, -0.1), "the precision must be"),
        (lambda: precision_reached("improved", 3, 1.0, 1.0), "between 0 and 1"),
        (lambda: largest_ratio(3, 1.0), "bound on the bias"),
        (lambda: visits_needed(1.0), "either a precision or a relative_sd"),
        (lambda: visits_needed(1.0, precision=0.1, relative_sd=0.1), "not both"),
        (lambda: visits_needed(1.0, relative_sd=0.0), "wanted spread must be"),
        (lambda: visits_needed(1.0, precision=0.1, probability=95), "between 0 and 1"),
        (lambda: design_visits(1.0), "how many visits"),
        (lambda: design_visits(0.0, visits=3), "the rate must be"),
        (lambda: design_visits("often", visits=3), "not a rate"),
        (lambda: design_visits(1.0, visits=3, interval=0), "the interval must be"),
        (lambda: design_visits(1.0, visits=3, precision=-1.0), "the precision must be"),
        (lambda: design_visits(1.0, visits=0), "at least 1"),
        (lambda: design_visits(1.0, visits=3, probability=95.0), "between 0 and 1"),
        (lambda: design_visits(1.0, visits=3, method="naive", dated=True), "cannot use dates"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


# The user's question


def test_design_from_visits_recommends_the_best_interval():
    answer = design_visits("1/7d", visits=10)
    assert answer.interval_days == pytest.approx(7 * best_ratio(10)) == answer.best_interval_days
    assert answer.duration_days == pytest.approx(10 * answer.interval_days)
    assert answer.unbiased_interval_days == pytest.approx(7 * largest_ratio(10))
    assert (answer.probability, answer.precision) == (0.95, answer.precision_95)
    assert answer.precision_75 == pytest.approx(
        precision_reached("improved", 10, answer.ratio, 0.75)
    )
    assert answer.visits_needed is None
    assert design_visits("1/7d", visits=10, probability=0.75).precision == answer.precision_75


def test_design_judges_example_4_as_it_stands():
    answer = design_visits("1/7d", visits=10, interval="10.5d", precision=0.35, probability=0.75)
    assert answer.ratio == pytest.approx(1.5)
    assert answer.interval_days == 10.5
    assert answer.probability == pytest.approx(0.755, abs=5e-4)
    assert answer.visits_needed == visits_needed(1.5, precision=0.35, probability=0.75)


@pytest.mark.slow
@pytest.mark.parametrize("dated", [False, True])
@pytest.mark.parametrize(("precision", "probability"), [(0.35, 0.75), (0.35, None), (0.1, 0.9)])
def test_design_from_precision_keeps_its_promise(precision, probability, dated):
    answer = design_visits("1/7d", precision=precision, probability=probability, dated=dated)
    method = "last-modified" if dated else "improved"
    assert answer.method == method
    wanted = probability or 0.95
    more = probability_within(method, answer.visits + np.arange(60), answer.ratio, precision)
    assert more.min() >= wanted
    assert more[0] == pytest.approx(answer.probability, abs=1e-12)
    assert probability_within(method, answer.visits - 1, answer.ratio, precision) < wanted
    assert answer.visits == answer.visits_needed
    # Within the last round of taking turns, the interval is the best one for the visits.
    assert answer.interval_days == pytest.approx(answer.best_interval_days, rel=0.02)


def test_design_with_a_given_interval():
    answer = design_visits(2.0, precision=0.3, interval="6h")
    assert (answer.interval_days, answer.ratio) == (0.25, 0.5)
    assert answer.visits == visits_needed(0.5, precision=0.3)


def test_design_scales_with_time():
    day, hour = (
        design_visits("1/d", visits=12, precision=0.4),
        design_visits("1/h", visits=12, precision=0.4),
    )
    assert hour.interval_days * 24 == pytest.approx(day.interval_days)
    assert hour.probability == pytest.approx(day.probability)


def test_design_says_what_is_out_of_reach():
    answer = design_visits("1/7d", visits=10, interval="14d", precision=0.35, method="naive")
    assert answer.visits_needed is None
    assert "95 % is out of reach at this interval" in str(answer)
    with pytest.raises(EstimationError):
        design_visits("1/7d", interval="14d", precision=0.35, method="naive")


def test_design_prints_and_travels():
    answer = design_visits("1/7d", visits=10, interval="10.5d", precision=0.35)
    assert str(answer) == (
        "A source that changes about once every 7d, visited 10 times, once every 10.5d (r = 1.5), "
        "for 105d:\n"
        "  estimator improved: bias -0.298 %, spread σ/r 40.2 %\n"
        "  within 35 % of the true rate with probability 75.5 %; 95 % takes 52 visits\n"
        "  within 29.7 % with probability 75 %, within 103 % with probability 95 %\n"
        "  best interval 11.2d; bias under 10 % up to 18.5d"
    )
    two = design_visits(5.0, visits=2, dated=True)
    assert isinstance(two, VisitDesign)
    assert (two.to_dict()["relative_sd"], two.to_dict()["unbiased_interval_days"]) == (None, None)
    assert "5 times a day" in str(two)
    assert "spread σ/r unlimited" in str(two)
    assert "bias under 10 % at any interval" in str(two)
    one = str(design_visits(5.0, visits=1, dated=True))
    assert "visited once" in one
    assert "bias over 10 % at any interval" in one
