"""Populations against quadrature, simulation, the published numbers and synthetic visit logs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observant.errors import EstimationError, InputError
from observant.estimation.evidence import Evidence
from observant.estimation.population import (
    Histogram,
    compare_prior,
    describe,
    fit_ages,
    fit_histories,
    fit_lifetimes,
    fit_population,
    mixture,
    turnover,
)
from observant.visits import VisitLog

SHAPE, SCALE = 1.4, 152.2  # Brewington's fit by lifetimes, section 3.3.2
GROWTH = 0.00176  # and by ages, 3.3.1, with shape 0.78 and scale 651.1
DAY = 86_400_000_000

shapes, scales = st.floats(0.3, 6.0), st.floats(0.1, 1e4)


def covers(fit):
    """Both parameters lie within three standard errors: one draw outside would be news."""
    far = [
        math.log(true / getattr(fit, name))
        / (math.log(fit.intervals[name][1] / getattr(fit, name)) / 1.96)
        for name, true in (("shape", SHAPE), ("scale", SCALE))
    ]
    return max(map(abs, far)) < 3.0


def finds_growth(fit, growth):
    return abs(fit.growth - growth) < 3.0 * (fit.intervals["growth"][1] - fit.growth) / 1.96


# What a Weibull population shows -----------------------------------------------------------------


@pytest.mark.parametrize("shape", [0.3, 0.78, 1.4, 5.0])
@pytest.mark.parametrize("t", [1e-3, 1.0, 150.0, 3000.0])
def test_averages_against_adaptive_quadrature(shape, t):
    from scipy.integrate import quad

    def exactly(power):
        def integrand(log_u):
            rate = math.exp(-log_u / shape) / SCALE
            return rate**power * math.exp(log_u - math.exp(log_u) - rate * t)

        return quad(integrand, -25 * min(shape, 1), 5, limit=500, epsabs=0, epsrel=1e-10)[0]

    computed = mixture.averages(t, shape, SCALE)
    # Below e^-25 in u lie 1e-11 of the sources (less for shapes above 1): all of 1e-7 is ample.
    np.testing.assert_allclose(computed, [exactly(p) for p in range(3)], rtol=1e-6)


def test_the_exponential_population_is_a_bessel_function():
    from scipy.special import kv

    t = np.array([0.1, 10.0, 1000.0])
    z = np.sqrt(t / SCALE)
    survival, density, _ = mixture.averages(t, 1.0, SCALE)
    np.testing.assert_allclose(survival, 2 * z * kv(1, 2 * z), rtol=1e-11)
    np.testing.assert_allclose(density, 2 * kv(0, 2 * z) / SCALE, rtol=1e-11)


def test_the_published_age_model():
    # Errata B-25: the thesis's fit, (3.8) with the sign of B-10, at 11, 100 and 365 days.
    ages = mixture.age_cdf([11.0, 100.0, 365.0], 0.78, 651.1, GROWTH)
    assert [round(float(a), 2) for a in ages] == [0.12, 0.45, 0.79]


@pytest.mark.parametrize("growth", [0.0, GROWTH])
@pytest.mark.parametrize("name", ["age", "lifetime"])
def test_densities_are_slopes_of_distributions(name, growth):
    t = np.geomspace(0.01, 2000.0, 25)
    spans = np.array([80.0])
    cdf, density, extra = {
        "age": (mixture.age_cdf, mixture.age_pdf, (growth,)),
        "lifetime": (mixture.lifetime_cdf, mixture.lifetime_pdf, (spans,)),
    }[name]
    pdf = density(t, SHAPE, SCALE, *extra)
    step = 1e-4 * t
    slope = (cdf(t + step, SHAPE, SCALE, *extra) - cdf(t - step, SHAPE, SCALE, *extra)) / (2 * step)
    np.testing.assert_allclose(pdf, slope, rtol=1e-4)
    assert cdf(1e7, SHAPE, SCALE, *extra) == pytest.approx(1.0, abs=1e-6)


@given(shapes, scales, st.floats(0.01, 100.0))
@settings(max_examples=30)
def test_only_ratios_to_the_scale_matter(shape, scale, factor):
    t = np.geomspace(1e-3, 30.0, 9) * scale
    spans = np.array([0.3, 2.0]) * scale
    for cdf, extra, stretched in (
        (mixture.age_cdf, (0.1 / scale,), (0.1 / scale / factor,)),
        (mixture.lifetime_cdf, (spans,), (spans * factor,)),
        (mixture.first_lifetime_cdf, (spans,), (spans * factor,)),
    ):
        values = cdf(t, shape, scale, *extra)
        assert np.all(np.diff(values) > -1e-12)
        assert np.all((values > -1e-12) & (values < 1.0 + 1e-12))
        np.testing.assert_allclose(
            cdf(t * factor, shape, scale * factor, *stretched), values, atol=1e-9
        )


def test_errors_of_the_mixture():
    with pytest.raises(InputError, match="shape"):
        mixture.age_cdf(1.0, 0.0, 10.0)
    with pytest.raises(InputError, match="negative"):
        mixture.age_cdf(-1.0, 1.0, 10.0)


# Lifetimes and their length bias -----------------------------------------------------------------


def simulated_lifetimes(rng, sources, spans, growth=0.0):
    """All lifetimes that end in the span of each source; the first one began before it."""
    times = SCALE * rng.weibull(SHAPE, sources)
    age = rng.exponential(times)
    if growth:
        age = np.minimum(age, rng.exponential(1.0 / growth, sources))
    now = rng.exponential(times)
    owners = [np.flatnonzero(now <= spans)]
    lifetimes = [(age + now)[owners[0]]]
    while len(owners[-1]):
        gap = rng.exponential(times[owners[-1]])
        now[owners[-1]] += gap
        inside = now[owners[-1]] <= spans[owners[-1]]
        lifetimes.append(gap[inside])
        owners.append(owners[-1][inside])
    return np.concatenate(lifetimes), np.concatenate(owners)


@pytest.mark.parametrize("growth", [0.0, 0.01])
def test_first_lifetimes_against_simulation(growth):
    rng = np.random.default_rng(2)
    spans = rng.choice([20.0, 90.0, 300.0], 100_000)
    lifetimes, sources = simulated_lifetimes(rng, len(spans), spans, growth)
    _, first = np.unique(sources, return_index=True)
    days = np.array([5.0, 20.0, 60.0, 100.0, 240.0, 500.0])
    seen = (lifetimes[first, None] <= days).mean(axis=0)
    expected = mixture.first_lifetime_cdf(days, SHAPE, SCALE, np.array([20.0, 90.0, 300.0]), growth)
    # Four standard errors of a share among the sources seen to change.
    np.testing.assert_allclose(seen, expected, atol=4 * 0.5 / math.sqrt(len(first)))


@pytest.mark.slow
def test_the_length_bias_of_errata_b14():
    # Errata B-14: dense observation, URL-equal weights. Exponential spans of mean 100 days give
    # its distributions (.139/.478/.857 seen, .178/.552/.884 by the model) and about its fit.
    rng = np.random.default_rng(14)
    spans = rng.exponential(100.0, 60_000)
    lifetimes, sources = simulated_lifetimes(rng, len(spans), spans)
    weight = 1.0 / np.bincount(sources)[sources]
    days = np.array([10.0, 60.0, 240.0])
    seen = [weight[lifetimes <= d].sum() / weight.sum() for d in days]
    np.testing.assert_allclose(seen, [0.139, 0.478, 0.857], atol=0.006)
    printed = mixture.lifetime_cdf(days, SHAPE, SCALE, np.quantile(spans, np.linspace(0, 1, 200)))
    np.testing.assert_allclose(printed, [0.178, 0.552, 0.884], atol=0.006)

    evenly = np.linspace(5.0, 1000.0, 200)
    uncorrected = fit_lifetimes(
        lifetimes, sources, spans, corrected=False, method="least-squares", points=evenly
    )
    assert uncorrected.shape == pytest.approx(1.78, abs=0.06)
    assert uncorrected.scale == pytest.approx(167.0, abs=5.0)
    assert not covers(uncorrected)
    assert uncorrected.p_value < 0.01
    assert "B-14" in str(uncorrected)

    for method in ("likelihood", "least-squares"):
        corrected = fit_lifetimes(lifetimes, sources, spans, method=method, points=evenly)
        assert covers(corrected)
        assert corrected.shape == pytest.approx(SHAPE, abs=0.1)
        assert corrected.scale == pytest.approx(SCALE, abs=8.0)
        assert corrected.p_value > 0.01


@pytest.mark.slow
def test_lifetimes_that_are_what_the_thesis_takes_them_for_are_fitted_without_bias():
    # Draws of Exp(λ) from the sources that (3.12) lets be seen: the printed model's own data.
    rng = np.random.default_rng(3)
    times, spans = SCALE * rng.weibull(SHAPE, 40_000), rng.exponential(100.0, 40_000)
    seen = np.flatnonzero(rng.exponential(times) <= spans)
    lifetimes = rng.exponential(times[seen])
    for method in ("likelihood", "least-squares"):
        assert covers(fit_lifetimes(lifetimes, seen, spans, corrected=False, method=method))


def test_growth_is_part_of_the_first_lifetime():
    rng = np.random.default_rng(4)
    spans = rng.exponential(100.0, 20_000)
    lifetimes, sources = simulated_lifetimes(rng, len(spans), spans, growth=0.004)
    assert not covers(fit_lifetimes(lifetimes, sources, spans))
    assert covers(fit_lifetimes(lifetimes, sources, spans, growth=0.004))
    estimated = fit_lifetimes(lifetimes, sources, spans, growth=None)
    assert covers(estimated)
    assert finds_growth(estimated, 0.004)


def test_the_error_surface_is_lowest_at_the_fit():
    # Figure 3.19: one dark patch, the cross in its middle.
    rng = np.random.default_rng(5)
    spans = rng.exponential(100.0, 5_000)
    lifetimes, sources = simulated_lifetimes(rng, len(spans), spans)
    for options in ({"corrected": False, "method": "least-squares"}, {"method": "likelihood"}):
        fit = fit_lifetimes(lifetimes, sources, spans, **options)
        shape, scale = (
            fit.shape * np.array([0.8, 0.9, 1, 1.1, 1.2]),
            fit.scale * np.array([0.9, 1, 1.1]),
        )
        surface = fit.error_surface(shape, scale)
        assert surface.shape == (5, 3)
        assert np.unravel_index(surface.argmin(), surface.shape) == (2, 1)
        assert surface.min() == pytest.approx(fit.objective, rel=1e-9)
        assert np.all(np.diff(surface[:, 1])[:2] < 0)
        assert np.all(np.diff(surface[:, 1])[2:] > 0)


# Ages --------------------------------------------------------------------------------------------


def simulated_ages(rng, sources, growth):
    ages = rng.exponential(SCALE * rng.weibull(SHAPE, sources))
    return np.minimum(ages, rng.exponential(1.0 / growth, sources)) if growth else ages


def test_least_squares_recovers_the_thesis_from_its_own_curve():
    # Errata B-14, last sentence: fits to the model's own distributions recover exactly. Here 20,000
    # quantiles stand for the curve of figure 3.16.
    t = np.geomspace(1e-3, 1e5, 4000)
    ages = np.interp((np.arange(20_000) + 0.5) / 20_000, mixture.age_cdf(t, 0.78, 651.1, GROWTH), t)
    fit = fit_ages(ages, method="least-squares")
    assert fit.growth == pytest.approx(GROWTH, rel=0.02)
    assert fit.shape == pytest.approx(0.78, rel=0.01)
    assert fit.scale == pytest.approx(651.1, rel=0.02)
    assert fit.objective < 1e-8
    assert fit.p_value > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("method", ["likelihood", "least-squares"])
def test_ages_without_the_growth_term_are_visibly_biased(method):
    ages = simulated_ages(np.random.default_rng(16), 20_000, GROWTH)
    fit = fit_ages(ages, method=method)
    assert covers(fit)
    assert finds_growth(fit, GROWTH)
    without = fit_ages(ages, method=method, growth=0.0)
    assert "growth" not in without.intervals
    # New sources are taken for busy ones: mean times a quarter too short, far outside the interval.
    assert without.scale < 0.8 * SCALE
    assert without.intervals["scale"][1] < 0.85 * SCALE
    assert covers(fit_ages(ages, method=method, growth=GROWTH))


@pytest.mark.slow
def test_intervals_cover_and_p_values_are_fair():
    rng = np.random.default_rng(7)
    hits, surprises = [], []
    for _ in range(25):
        fit = fit_ages(simulated_ages(rng, 1_000, 0.0), growth=0.0)
        ends = [*fit.intervals["shape"], *fit.intervals["scale"]]
        hits += [ends[0] <= SHAPE <= ends[1], ends[2] <= SCALE <= ends[3]]
        surprises.append(fit.p_value)
    # Of 50 ends 47.5 are expected inside. The two of a fit go together, so that three standard
    # errors are 3 × √(25 × 4 × 0.05 × 0.95) = 6.5.
    assert sum(hits) >= 41
    # Uniform numbers, 25 of them: their mean strays by less than 3 × 0.29/√25 = 0.17.
    assert abs(np.mean(surprises) - 0.5) < 0.17


def test_a_population_that_is_no_weibull_is_found_out():
    rng = np.random.default_rng(8)
    times = rng.choice([3.0, 400.0], 3_000)
    fit = fit_ages(rng.exponential(times), growth=0.0)
    assert fit.p_value <= 0.01
    assert fit.distance > 0.02


@pytest.mark.parametrize("factor", [0.01, 70.0])
def test_the_unit_of_time_does_not_matter(factor):
    ages = simulated_ages(np.random.default_rng(9), 500, 0.0)
    one = fit_ages(ages, growth=0.0, resolution=1e-3)
    other = fit_ages(ages * factor, growth=0.0, resolution=1e-3 * factor)
    assert other.shape == pytest.approx(one.shape, rel=1e-3)
    assert other.scale == pytest.approx(one.scale * factor, rel=1e-3)


def test_ages_below_the_resolution_are_young_and_no_more():
    ages = simulated_ages(np.random.default_rng(10), 5_000, 0.0)
    rounded = np.where(ages < 1.0, 0.0, ages)
    fit = fit_ages(rounded, growth=0.0, resolution=1.0)
    assert covers(fit)
    assert "count as young" in " ".join(fit.notes)
    # Taken at their word they would be sources of immense rate.
    assert fit_ages(np.maximum(rounded, 1e-9), growth=0.0, resolution=1e-10).shape < 1.2


# Whole visit logs --------------------------------------------------------------------------------


def synthetic_log(seed, sources=4_000, growth=GROWTH, mean_span=80.0, gap=5.0, dated=True):
    """A log as the thesis describes it: a growing collection, finite spans, aliasing below the gap.

    At each visit the age is exponential, cut by the gap since the visit before (memorylessness).
    """
    rng = np.random.default_rng(seed)
    times = SCALE * rng.weibull(SHAPE, sources)
    visits = 2 + (rng.exponential(mean_span, sources) / gap).astype(int)
    offsets = np.concatenate([[0], np.cumsum(visits)])
    owner = np.repeat(np.arange(sources), visits)
    place = np.arange(len(owner)) - offsets[owner]
    time = (place + (place > 0) * rng.uniform(-0.3, 0.3, len(owner))) * gap
    first = place == 0
    created = rng.exponential(1.0 / growth, sources) if growth else np.full(sources, np.inf)
    age = rng.exponential(times[owner])
    age[first] = np.minimum(age[first], created)
    updated = first | (age < np.diff(time, prepend=0.0))
    # The date seen is that of the last visit that found a new one.
    latest = np.maximum.accumulate(np.where(updated, np.arange(len(owner)), 0))
    columns = {"source": owner, "time": 20_000.0 + time}
    if dated:
        columns["last_modified"] = 20_000.0 + (time - age)[latest]
    else:
        columns["changed"] = [None if f else bool(u) for f, u in zip(first, updated, strict=True)]
    return VisitLog.from_columns(**columns, time_unit="d")


@pytest.fixture(scope="module")
def log():
    return synthetic_log(21)


@pytest.fixture(scope="module")
def answer(log):
    return fit_population(log)


def test_fits_recover_what_made_the_log(answer):
    fits = {fit.evidence: fit for fit in answer.fits}
    assert list(fits) == ["ages", "lifetimes as printed", "first lifetimes", "histories"]
    for name in ("ages", "first lifetimes", "histories"):
        assert covers(fits[name]), fits[name]
        assert fits[name].p_value > 0.01
    assert finds_growth(fits["ages"], GROWTH)
    assert not covers(fits["lifetimes as printed"])
    assert answer.best is fits["histories"]
    assert answer.best.shape == pytest.approx(SHAPE, rel=0.1)
    assert answer.best.scale == pytest.approx(SCALE, rel=0.1)
    # Histories lean on every visit and need no growth: theirs are by far the shortest intervals.
    lengths = {
        name: math.log(f.intervals["scale"][1] / f.intervals["scale"][0])
        for name, f in fits.items()
    }
    assert lengths["histories"] < 0.5 * lengths["ages"]


def test_aliasing_below_the_gap_is_felt_by_lifetimes_and_not_by_histories():
    description = describe(log := synthetic_log(22, growth=0.0, gap=20.0))
    seen = (description.lifetimes, description.lifetime_sources, description.spans)
    assert fit_lifetimes(*seen).shape > 1.1 * SHAPE
    assert covers(fit_lifetimes(*seen, bound=2 * description.median_gap))
    assert covers(fit_histories(Evidence.from_log(log)))


def test_histories_need_no_dates():
    undated = synthetic_log(23, dated=False)
    fit = fit_histories(Evidence.from_log(undated))
    assert covers(fit)
    answer = fit_population(undated)
    assert [f.evidence for f in answer.fits] == ["histories"]
    assert answer.notes == ()
    assert any("no visit has a date" in note for note in answer.description.notes)


def test_first_ages_are_for_collections_that_do_not_grow():
    growing, steady = (synthetic_log(24, sources=3_000, growth=g) for g in (0.005, 0.0))
    evidence = Evidence.from_log(growing, use_first_age=True)
    assert fit_histories(evidence).intervals["scale"][1] < SCALE
    assert covers(fit_histories(Evidence.from_log(steady, use_first_age=True)))


def test_histories_cover():
    rng = np.random.default_rng(25)
    hits = []
    for _ in range(12):
        rates = 1.0 / (SCALE * rng.weibull(SHAPE, (500, 1)))
        gaps = rng.exponential(10.0, (500, 15))
        changed = rng.random(gaps.shape) < -np.expm1(-rates * gaps)
        fit = fit_histories(Evidence.from_gaps(gaps, changed))
        ends = [*fit.intervals["shape"], *fit.intervals["scale"]]
        hits += [ends[0] <= SHAPE <= ends[1], ends[2] <= SCALE <= ends[3]]
    assert sum(hits) >= 18  # of 24; 22.8 expected, three standard errors (in pairs) are 4.5


def test_a_large_log_is_sampled():
    rng = np.random.default_rng(26)
    evidence = Evidence.from_gaps(np.full((500, 10), 30.0), rng.random((500, 10)) < 0.3)
    fit = fit_histories(evidence, most_sources=100)
    assert fit.sources == 100
    assert "sample of 100 of 500" in " ".join(fit.notes)
    assert repr(fit) == repr(fit_histories(evidence, most_sources=100))


def test_evidence_that_fixes_nothing_says_so():
    always = np.ones((50, 10))
    rng = np.random.default_rng(27)
    for fit in (
        fit_histories(Evidence.from_gaps(always, always > 0)),  # any rate would do, if it is high
        fit_histories(Evidence.from_gaps(always, rng.random((50, 10)) < 0.3)),  # one rate for all
        fit_ages(np.full(100, 5.0)),
    ):
        assert "does not fix" in " ".join(fit.notes)
        assert any(high == math.inf for _, high in fit.intervals.values())
        assert "never" in str(fit) or "inf" in str(fit)


def test_results_read_well_and_travel(answer):
    text = str(answer)
    for words in ("visits with a date", "growth", "B-14", "histories", "assumes no form"):
        assert words in text
    told = answer.to_dict()
    assert told["best"]["shape_low"] < told["best"]["shape"] < told["best"]["shape_high"]
    assert len(told["curves"]["hour_of_week"]) == 168
    table = answer.best.to_arrow()
    assert table.column_names == ["days", "observed", "fitted"]
    assert np.all(np.diff(answer.best.fitted) >= 0)
    assert answer.best.mean_times.interval_cdf(answer.best.median) == pytest.approx(0.5)
    assert answer.best.mean == pytest.approx(answer.best.mean_times.mean)


def test_errors_name_what_is_wrong():
    ages = np.ones(50)
    for bad, said in (
        (lambda: fit_ages([1.0, np.nan]), "finite"),
        (lambda: fit_ages(ages, method="guess"), "likelihood"),
        (lambda: fit_ages(ages, growth=-1.0), "growth"),
        (lambda: fit_ages(ages, confidence=95), "confidence"),
        (lambda: fit_lifetimes([1.0], [0, 1], [5.0]), "one for each"),
        (lambda: fit_lifetimes([1.0], [3], [5.0]), "places"),
        (lambda: fit_lifetimes([1.0], [0], [0.0, 5.0]), "span"),
        (lambda: fit_lifetimes([0.0], [0], [5.0]), "0 days"),
        (lambda: fit_lifetimes([1.0], [0], [5.0], bound=-1), "bound"),
    ):
        with pytest.raises(InputError, match=said):
            bad()
    with pytest.raises(EstimationError, match="20 or more"):
        fit_ages([1.0, 2.0])
    with pytest.raises(EstimationError, match="no visit found a change"):
        fit_histories(Evidence.from_gaps(np.ones((30, 3)), np.zeros((30, 3), bool)))
    lonely = VisitLog.from_columns(["a"], [1], time_unit="d")
    with pytest.raises(EstimationError, match="no population"):
        fit_population(lonely)


# Beside a prior that assumes no form -------------------------------------------------------------


def test_a_prior_made_of_weibull_weights_is_at_no_distance():
    rates = np.geomspace(1e-6, 1e2, 600)
    borders = 1.0 / np.sqrt(rates[1:] * rates[:-1])  # mean times fall as rates rise
    below = -np.expm1(-((borders / SCALE) ** SHAPE))
    weights = -np.diff(below, prepend=1.0, append=0.0)
    assert compare_prior(rates, weights, SHAPE, SCALE).distance < 1e-12
    assert compare_prior(rates, 7 * weights, SHAPE, 2 * SCALE).distance > 0.2


def test_the_prior_of_two_kinds_of_sources_is_no_weibull():
    rng = np.random.default_rng(30)
    rates = rng.choice([1.0, 0.002], (2_000, 1))
    gaps = np.full((2_000, 40), 1.0)
    changed = rng.random(gaps.shape) < -np.expm1(-rates * gaps)
    owner = np.repeat(np.arange(2_000), 41)
    log = VisitLog.from_columns(
        source=owner,
        time=np.tile(np.arange(41.0), 2_000),
        changed=[
            None if c < 0 else bool(c) for c in np.insert(changed.astype(int), 0, -1, 1).ravel()
        ],
        time_unit="d",
    )
    answer = fit_population(log)
    assert answer.prior.distance > 0.1
    assert "poor" in str(answer.prior)
    assert answer.best.p_value <= 0.01


def test_the_prior_of_a_weibull_population_is_near_it(answer):
    assert answer.prior.distance < 0.1
    assert "fair" in str(answer.prior)
    assert answer.to_dict()["prior"]["poor"] is False


def test_priors_that_cannot_be_compared():
    for rates, weights in (([1.0], [1.0]), ([1, 2], [1, 2, 3]), ([0, 1], [1, 1]), ([1, 2], [0, 0])):
        with pytest.raises(InputError, match=r"rates|weight"):
            compare_prior(rates, weights, 1.0, 1.0)


# Describing a log --------------------------------------------------------------------------------


def small_log(**columns):
    return VisitLog.from_columns(time_unit="d", **columns)


def test_lifetimes_ages_spans_and_ratios():
    log = small_log(
        source=["a"] * 6 + ["b"] * 3 + ["c"] * 2,
        time=[10, 12, 14, 16, 18, 20, 10, 15, 20, 13, 14],
        last_modified=[None, 9.5, 9.5, 15, 17, 17, 10, 14, 13, None, None],
        status=[200] * 9 + [200, 503],
        changed=[None] * 9 + [None, True],
    )
    shown = describe(log, least_visits=3)
    assert shown.ages.tolist() == [2.5, 0.0]  # at the first dated visit
    assert shown.lifetimes.tolist() == [5.5, 2.0, 4.0]
    assert shown.lifetime_sources.tolist() == [0, 0, 1]
    assert shown.spans.tolist() == [10.0, 10.0, 0.0]
    assert shown.dated_spans.tolist() == [8.0, 10.0, 0.0]
    assert shown.visits == 10
    assert shown.dated_visits == 8
    assert shown.unfinished == 2
    # a: two changes in four known comparisons (the first dated visit tells of none after 10);
    # b: one in two; c has one visit.
    np.testing.assert_allclose(shown.change_ratios, [2 / 5, 1 / 2])
    ratios, below = shown.change_ratio_cdf
    assert (ratios.tolist(), below.tolist()) == ([0.4, 0.5], [0.5, 1.0])
    notes = " ".join(shown.notes)
    assert "1 visits failed" in notes
    assert "1 dates of modification were older than the one before" in notes
    assert "3" in str(shown)


def test_hours_of_the_week_begin_on_monday():
    # 2024-01-01 was a Monday; each date counts once, however often it was seen.
    log = VisitLog.from_columns(
        source=["a", "a", "b", "b"],
        time=["2024-03-01", "2024-03-02", "2024-03-01", "2024-03-03"],
        last_modified=[
            "2024-01-01T00:30",
            "2024-01-01T00:30",
            "2024-01-07T23:59",
            "2024-03-02T01:00",
        ],
    )
    hours = describe(log).hours_of_week
    assert hours.sum() == 3
    assert np.flatnonzero(hours).tolist() == [0, 5 * 24 + 1, 167]


def test_undated_and_unchanged_logs():
    shown = describe(small_log(source=["a", "a"], time=[1, 2], changed=[None, False]))
    assert shown.ages.size == shown.lifetimes.size == 0
    assert len(shown.age_histogram) == 0
    assert "not known" in " ".join(shown.notes)
    assert shown.summary()["median_age_days"] is None
    assert shown.summary()["change_share_undated"] == 0.0
    assert "?" in str(shown)
    with pytest.raises(InputError, match="least_visits"):
        describe(small_log(source=["a"], time=[1]), least_visits=1)


@given(st.lists(st.floats(1e-4, 1e4), min_size=1, max_size=50), st.integers(1, 20))
def test_histograms_count_everything_once(days, per_decade):
    bins = Histogram.of(days, per_decade)
    assert bins.count.sum() == len(days)
    assert bins.cumulative[-1] == pytest.approx(1.0)
    assert (bins.density * (bins.right - bins.left)).sum() == pytest.approx(1.0)
    inside = (np.asarray(days)[:, None] >= bins.left * (1 - 1e-8)) & (
        np.asarray(days)[:, None] < bins.right * (1 + 1e-8)
    )
    assert inside.any(axis=1).all()


def test_the_synthetic_log_is_described_as_it_was_made(log):
    shown = describe(log)
    assert shown.dated_share == 1.0
    assert shown.median_gap == pytest.approx(5.0, abs=0.1)
    assert shown.spans.mean() == pytest.approx(80.0, rel=0.1)
    assert len(shown.ages) == shown.sources == 4_000
    expected = mixture.age_cdf(np.median(shown.ages), SHAPE, SCALE, GROWTH)
    assert expected == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(4_000))


# -- births, deaths and link rot ------------------------------------------------------------------


def mortal(mu, *, sources=600, days=400.0, gap=10.0, seed=1, born_later=0.5):
    """Visits at random times to sources that die at rate mu; half of them are born on the way."""
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(sources):
        born = rng.uniform(0, days) if k < born_later * sources else 0.0
        death = born + rng.exponential(1 / mu)
        at = born + rng.uniform(0, gap)
        while at < days:
            rows.append((f"s{k}", at, 200 if at < death else 404))
            at += rng.exponential(gap)
    source, time, status = zip(*rows, strict=True)
    unknown = [None] * len(rows)
    return VisitLog.from_columns(source, time, unknown, status=status, time_unit="d")


@pytest.mark.slow
@pytest.mark.parametrize("gap", [2.0, 30.0])
def test_link_rot_is_found_whatever_the_gaps(gap):
    """Deaths are seen late, between two visits; their rate is not late for that."""
    truth = 1 / 200
    found = [turnover(mortal(truth, gap=gap, seed=seed)) for seed in range(8)]
    inside = [one.death_low < truth < one.death_high for one in found]
    assert sum(inside) >= 6  # 95 % each: fewer in 8 has a chance of 0.6 %
    rates = np.array([one.death_rate for one in found])
    assert abs(rates.mean() / truth - 1) < 3 * rates.std(ddof=1) / truth / np.sqrt(8)
    half = np.interp(0.5, found[0].surviving[::-1], found[0].age[::-1])
    assert half == pytest.approx(np.log(2) / truth, rel=0.25)
    assert found[0].half_life == pytest.approx(np.log(2) / found[0].death_rate)


def test_births_and_deaths_are_counted_by_the_month():
    log = VisitLog.from_columns(
        ["a", "a", "a", "b", "b", "b", "c", "c", "c", "d"],
        [0, 40, 80, 1, 41, 81, 70, 75, 80, 79],
        [None] * 10,
        status=[200, 200, 410, 200, 404, 200, 200, 500, 0, 404],
        time_unit="d",
    )
    found = turnover(log)
    assert found.born.tolist() == [2, 0, 1]  # d was never there
    assert found.died.tolist() == [0, 1, 0]  # a, between day 40 and 80
    assert found.living.tolist() == [2, 1, 2]
    assert (found.sources, found.returned) == (3, 1)  # b came back; c fails, which is not gone
    # μ solves 40/(e^(40μ) − 1) = 40 + 80 + 0: three gaps of life and one of death
    assert found.death_rate == pytest.approx(np.log(1 + 40 / 120) / 40)
    assert "1 gone" in str(found)
    assert "1 came back" in str(found)


def test_where_nothing_died_the_rate_has_a_bound_and_without_status_nothing_is_said():
    alive = VisitLog.from_columns(
        ["a", "a"], [0, 100], [None, None], status=[200, 200], time_unit="d"
    )
    found = turnover(alive)
    assert (found.death_rate, found.death_high) == (0.0, pytest.approx(1.92073 / 100, rel=1e-4))
    assert "none is gone" in str(found)
    with pytest.raises(InputError, match="column status"):
        turnover(VisitLog.from_columns(["a"], [0], time_unit="d"))
