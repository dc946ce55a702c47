"""Li's sampling methods M1 to M6: against his formulas, simulation, and the direct double loop.

Statistical tests repeat a simulation and allow the mean of the runs 4.5 of its own standard errors
(estimated from the runs), which a right estimator passes all but a few times in 10,000; seeds are
fixed.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observant.errors import EstimationError, InputError
from observant.estimation.intervals import methods as theory
from observant.estimation.intervals.curves import (
    AgeCurve,
    difference_weights,
    flat_region,
    interval_curve,
    mean_by_step,
)
from observant.estimation.intervals.methods import (
    g_m4,
    ks,
    m1,
    m2,
    m3,
    m3_samples,
    m4,
    m5,
    m6,
    pair_counts,
    relative_error_of_mean,
    wmrd,
)
from observant.processes import Exponential, Pareto, Uniform, Weibull

LI = Pareto(shape=3.0, scale=1.0)
X = np.array([1.0, 2.0, 3.0, 5.0, 8.0])


def visits(updates, gaps, horizon, seed):
    """Times, outcomes and ages of visits to a source, both processes seen from a random moment."""
    rng = np.random.default_rng(seed)
    at = updates.sample(horizon, seed=rng).times
    # The update before the start: as long ago as the next one after a random moment is away.
    before = updates._draw_residuals(rng, 1)[0]
    at = np.concatenate([[-before], at])
    if isinstance(gaps, float):
        times = np.arange(rng.uniform(0, gaps), horizon, gaps)
    else:
        times = gaps.sample(horizon, seed=rng).times
    seen = np.searchsorted(at, times, side="right")
    return times, np.append(False, np.diff(seen) > 0), times - at[seen - 1]


def agrees(runs, truth, bias=0.0):
    """True where the mean of the runs (rows) is the truth, as far as the runs can tell."""
    runs = np.asarray(runs)
    error = runs.std(axis=0, ddof=1) / math.sqrt(len(runs))
    return bool((np.abs(runs.mean(axis=0) - truth) <= 4.5 * error + bias).all())


def test_the_means_of_m3_and_m4_for_pareto_updates_at_a_gap_of_one():
    assert theory.m3_mean(LI, 1.0) == pytest.approx(4 / 3, rel=1e-12)
    # Printed as 1.63, the mean of a simulation of a variable without variance (errata L-4).
    assert theory.m4_mean(LI, 1.0) == pytest.approx(math.pi**2 / 6, rel=1e-9)
    samples, cut = [], []
    for run in range(30):
        times, changed, _ = visits(LI, 1.0, 3000.0, run)
        samples.append(m3_samples(times, changed)[0].mean())
        curve = m4(times, changed)
        cut.append(1 + curve.age_sf(np.arange(1.0, 10)).sum())  # E[min(D₄, 10)], which has variance
    assert agrees(samples, 4 / 3, bias=0.01)  # cycles cut off by the end are long ones: −1/T
    # Visits before the first change are left out, a share 1/T of the long ages: hence the bias.
    assert agrees(cut, 1 + LI.age_sf(np.arange(1.0, 10)).sum(), bias=0.01)


@pytest.mark.parametrize("gaps", [1.0, 0.25, Exponential(1.0), Pareto(3.0, 2.0)], ids=str)
@pytest.mark.parametrize("updates", [LI, Weibull(0.6, 0.5), Uniform(0.2, 1.5)], ids=str)
def test_m1_keeps_the_share_and_the_tail_that_theory_says(updates, gaps):
    shares, tails = [], []
    for run in range(20):
        _, changed, ages = visits(updates, gaps, 2000.0, run)
        shares.append(changed[1:].mean())
        tails.append(m1(ages, changed).age_sf(X[:3]))
    assert agrees(shares, theory.changed_share(updates, gaps), bias=1e-3)
    assert agrees(tails, theory.m1_tail(updates, gaps, X[:3]), bias=2e-3)


def test_m3_measures_what_theory_says():
    tails = []
    for run in range(30):
        times, changed, _ = visits(LI, 1.0, 5000.0, run)
        tails.append(m3(times, changed).age_sf(X))
    expected = theory.m1_tail(LI, 1.0, X)  # X are whole gaps
    assert expected[0] == pytest.approx((1 / 4 - 1 / 9) / (3 / 4))
    assert agrees(tails, expected, bias=1e-3)
    # It is sandwiched between F and G (Li, IV.C), and neither.
    assert (expected > LI.interval_sf(X)).all()
    assert (expected < LI.age_sf(X)).all()


@pytest.mark.parametrize("updates", [LI, Weibull(0.6, 0.5), Uniform(0.2, 1.5)], ids=str)
def test_the_unbiased_methods_converge_to_the_age_distribution(updates):
    found = {"m2": [], "m4": [], "m5": [], "m6": []}
    for run in range(25):
        times, changed, ages = visits(updates, 1.0, 8000.0, run)
        samples, gap = m3_samples(times, changed)
        found["m4"].append(m4(times, changed).age_cdf(X))
        found["m5"].append(m5(samples, gap).age_cdf(X))
        times, changed, ages = visits(updates, Exponential(1.0), 8000.0, 100 + run)
        found["m2"].append(m2(ages).age_cdf(X))
        found["m6"].append(m6(times, changed, 0.05, 9.0).age_cdf(X))
    truth = updates.age_cdf(X)
    for method, runs in found.items():
        assert agrees(runs, truth, bias=1e-3), method
        # And the errors are small in themselves: a change of a fifth of them would be seen.
        assert np.abs(np.mean(runs, axis=0) - truth).max() < 0.006, method


def test_g_m4_converges_to_the_age_plus_an_exponential_gap():
    tails = []
    for run in range(25):
        times, changed, _ = visits(LI, Exponential(1.0), 4000.0, run)
        tails.append(g_m4(times, changed).age_sf(X))
    assert agrees(tails, theory.g_m4_tail(LI, 1.0, X), bias=1e-3)
    # Errata L-11: .650 where the tail of the age is .25.
    assert theory.g_m4_tail(LI, 1.0, 1.0) == pytest.approx(0.650, abs=5e-4)
    assert not agrees(tails, LI.age_sf(X), bias=0.1)


def test_m5_is_m4_on_complete_cycles_and_lower_when_divided_by_the_duration():
    times, changed, _ = visits(LI, 1.0, 300.0, 1)
    samples, gap = m3_samples(times, changed)
    found = np.flatnonzero(changed)
    whole = slice(found[0], found[-1])  # from the first change until before the last
    cycles = m4(times[whole.start - 1 : whole.stop], changed[whole.start - 1 : whole.stop])
    at = np.arange(1.0, 20.0)
    assert m5(samples, gap).age_cdf(at) == pytest.approx(cycles.age_cdf(at))
    literal = m5(samples, gap, duration=300.0)
    assert literal.age_cdf(at) == pytest.approx(m5(samples, gap).age_cdf(at) * samples.sum() / 300)


def double_loop(times, changed, step, bins):
    """Li (56) to (58) as printed; rounded up as `pair_counts` promises."""
    pairs, updated = np.zeros(bins, int), np.zeros(bins, int)
    for i in range(len(times)):
        seen = False
        for j in range(i + 1, len(times)):
            seen = seen or changed[j]
            place = math.ceil((times[j] - times[i]) / step - 1e-7) - 1
            if place < bins:
                pairs[place] += 1
                updated[place] += seen
    return pairs, updated


@st.composite
def small_logs(draw):
    size = draw(st.integers(2, 25))
    gaps = draw(
        st.lists(
            # whole multiples of a quarter step meet the edges; others do not
            st.one_of(st.integers(1, 12).map(lambda n: n / 40), st.floats(1e-3, 2.0)),
            min_size=size - 1,
            max_size=size - 1,
        )
    )
    start = draw(st.sampled_from([0.0, 20_000.0]))
    changed = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    return start + np.append(0.0, np.cumsum(gaps)), np.array(changed)


@pytest.mark.slow
@given(small_logs(), st.sampled_from([0.1, 0.05, 0.37]), st.integers(1, 60))
@settings(deadline=None, max_examples=150)
def test_m6_counts_the_pairs_of_the_direct_double_loop(log, step, bins):
    times, changed = log
    changed[0] = False
    off = np.subtract.outer(times, times) / step
    # Distances that are neither a multiple nor clearly off it are no fair question.
    near = np.abs(off - np.rint(off))
    if ((near > 1e-9) & (near < 1e-6)).any():
        return
    expected = double_loop(times, changed, step, bins)
    got = pair_counts(times, changed, step, bins)
    assert got[0].tolist() == expected[0].tolist()
    assert got[1].tolist() == expected[1].tolist()


@pytest.mark.slow
@given(small_logs(), st.integers(1, 40), st.sampled_from([(0.07, 1e-10), (0.025, 0.0)]))
@settings(deadline=None, max_examples=60)
def test_both_ways_of_counting_agree(log, bins, edges):
    # Without slack, distances of whole steps are a matter of the last digit: edges decide in both.
    from observant.estimation.intervals import kernels

    times, _ = log
    last = np.full(times.size, times.size)
    walked, swept = np.zeros(bins, np.int64), np.zeros(bins, np.int64)
    kernels.count_by_walking(times, last, *edges, walked)
    kernels.count_by_edges(times, last, *edges, swept)
    assert walked.tolist() == swept.tolist()


def test_m6_stands_at_the_middle_of_a_bin_or_literally_at_its_right_end():
    times, changed, _ = visits(LI, Exponential(1.0), 500.0, 3)
    middle = m6(times, changed, 0.05, 5.0)
    right = m6(times, changed, 0.05, 5.0, at="right")
    assert right.x == pytest.approx(middle.x + 0.025)
    assert right.values.tolist() == middle.values.tolist()
    assert middle.counts.sum() == middle.observations
    with pytest.raises(InputError, match="middle"):
        m6(times, changed, 0.05, 5.0, at="left")


@pytest.mark.parametrize("step", [0.05, 0.3, 1.0, 2.0])
def test_m6_with_a_constant_gap_stands_on_the_multiples_of_the_gap(step):
    times, changed, _ = visits(LI, 1.0, 2000.0, 3)
    curve = m6(times, changed, step, 6.0)
    expected = [1.5, 3.5, 5.5] if step == 2 else [1, 2, 3, 4, 5, 6]
    assert curve.x == pytest.approx(expected)
    assert any("not identified" in note for note in curve.notes)
    if step < 2:
        # the share of visits with a change within n gaps: the same question as M4's
        assert curve.values == pytest.approx(m4(times, changed).age_cdf(curve.x), abs=0.01)


def test_g_m4_with_a_constant_gap_is_m4():
    times, changed, _ = visits(LI, 1.0, 500.0, 3)
    x = np.arange(1.0, 8)
    assert g_m4(times, changed, step=1.0).age_cdf(x) == pytest.approx(m4(times, changed).age_cdf(x))


@pytest.mark.parametrize("factor", [1 / 24, 365.0])
def test_time_may_be_measured_in_any_unit(factor):
    times, changed, ages = visits(LI, Exponential(1.0), 300.0, 4)
    for curve, scaled in (
        (m2(ages), m2(ages * factor)),
        (g_m4(times, changed), g_m4(times * factor, changed)),
        (m6(times, changed), m6(times * factor, changed)),
    ):
        assert scaled.x == pytest.approx(curve.x * factor)
        assert scaled.values == pytest.approx(curve.values)
        mean, longer = interval_curve(curve)[2], interval_curve(scaled)[2]
        assert longer == pytest.approx(mean * factor, rel=1e-6)


def test_differences_are_exact_for_polynomials():
    for points in (2, 3, 5, 7):
        for place in range(points):
            for degree in range(points):
                x = np.arange(points) - place
                expected = 1.0 if degree == 1 else 0.0
                assert difference_weights(place, points) @ x**degree == pytest.approx(
                    expected, abs=1e-9
                )


def curve_of(process, step=0.01, maximum=20.0, observations=10**9):
    x = step * np.arange(1, round(maximum / step) + 1)
    return AgeCurve("exact", x, process.age_cdf(x), observations, step)


@pytest.mark.parametrize("process", [LI, Exponential(2.0), Weibull(1.5, 0.5)], ids=str)
def test_intervals_come_back_from_an_exact_age_distribution(process):
    x, F, mean, notes = interval_curve(curve_of(process))
    assert mean == pytest.approx(process.mean, rel=2e-3)
    assert pytest.approx(process.interval_cdf(x), abs=5e-3) == F
    assert F[0] == 0
    assert (np.diff(F) >= 0).all()
    assert any("flat region" in note for note in notes)


def test_the_mean_falls_with_the_step_and_settles():
    """Figure 9a: E[U] by h, M2 with 100 visits a day (errata L-10: as h shrinks)."""
    _, _, ages = visits(LI, 0.01, 3000.0, 5)
    curve = m2(ages)
    means = mean_by_step(curve, [1.6, 0.8, 0.4, 0.2, 0.1])
    assert (np.diff(means[:3]) < 0).all()
    assert means[3:] == pytest.approx([0.5, 0.5], rel=0.03)
    h, _ = flat_region(curve)
    assert curve.resolution <= h < 0.4
    # 6000 intervals: their mean itself is known to 1.7/√6000 = 2.2 %.
    assert interval_curve(curve)[2] == pytest.approx(0.5, rel=0.05)


def test_the_search_stops_at_the_resolution():
    """Errata L-12: below the bins of M6 the difference is noise."""
    times, changed, _ = visits(LI, Exponential(1.0), 20_000.0, 6)
    curve = m6(times, changed, 0.05, 10.0)
    assert flat_region(curve)[0] >= 0.05
    _, F, _, notes = interval_curve(curve, h=0.0125)
    assert any("resolution" in note for note in notes)
    assert np.isfinite(F).all()


def test_what_lies_below_the_resolution_is_not_looked_at():
    x = 0.05 * np.arange(1, 401)
    clean = AgeCurve("exact", x, LI.age_cdf(x), 10_000, 0.5)
    junk = AgeCurve("junk", x, np.where(x < 0.49, 0.0, clean.values), 10_000, 0.5)
    assert flat_region(junk) == flat_region(clean)


def test_noise_is_smoothed_without_lifting_the_level():
    slow = Exponential(0.05)
    x = 0.4 * np.arange(1, 101)
    noise = np.where(x > 4, np.random.default_rng(1).normal(0, 5e-4, x.size), 0.0)
    noisy = AgeCurve("noisy", x, slow.age_cdf(x) + noise, 10_000, 0.4)
    at, F, mean, _ = interval_curve(noisy, h=0.4)
    assert mean == pytest.approx(20, rel=1e-3)
    assert (np.diff(F) >= 0).all()
    # The noise of g is √130/12/h · 5e-4, and of F 20 times that, 0.024. A running maximum stays
    # at the highest of it, about two deviations up; the mean of 60 points is known to 0.003.
    middle = (at > 8) & (at < 32)
    assert abs(np.mean(F[middle] - slow.interval_cdf(at[middle]))) < 0.012


def test_intervals_from_m6():
    times, changed, _ = visits(LI, Exponential(1.0), 100_000.0, 7)
    x, F, mean, _ = interval_curve(m6(times, changed, 0.1, 10.0), h=0.4)
    # The noise of G in bins of 10,000 pairs is up to 0.005, of g(0) 62/12/0.4 of that: 3 %; h
    # makes E[U] about 8 % too long.
    assert mean == pytest.approx(0.5, rel=0.2)
    assert F[1:12] == pytest.approx(LI.interval_cdf(x[1:12]), abs=0.08)


def test_too_long_steps_and_curves_without_a_change_are_refused():
    curve = curve_of(LI)
    with pytest.raises(InputError, match="too long"):
        interval_curve(curve, h=10.0)
    with pytest.raises(InputError, match="two points"):
        interval_curve(curve, points=1)
    nothing = m6([0.0, 1.0, 3.0], [False] * 3, 0.5, 3.0)
    assert nothing.values.tolist() == [0.0, 0.0, 0.0]
    assert any("no change" in note for note in nothing.notes)
    with pytest.raises(EstimationError, match="no change"):
        interval_curve(nothing)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20),
)
def test_the_metrics_stay_in_their_ranges(points):
    H, G = np.array(points).T
    assert 0 <= wmrd(H, G) <= 2 + 1e-12
    assert 0 <= ks(H, G) <= 1
    assert wmrd(G, G) == ks(G, G) == 0
    assert wmrd(H, G) == wmrd(G, H)


def test_the_metrics_reach_the_ends_of_their_ranges_and_refuse_what_is_no_distribution():
    assert wmrd([0.0, 0.0], [1.0, 0.5]) == 2.0
    assert wmrd([0.0], [0.0]) == 0.0
    assert ks([0.0, 1.0], [1.0, 1.0]) == 1.0
    assert relative_error_of_mean([0.0, 0.0], 2.0) == 1.0
    assert relative_error_of_mean([6.0], 2.0) == 2.0
    for H, G in (([0.1], [0.1, 0.2]), ([np.nan], [0.5]), ([1.5], [0.5]), ([], [])):
        with pytest.raises(InputError):
            ks(H, G)
    for means, truth in (([], 1.0), ([np.inf], 1.0), ([1.0], 0.0)):
        with pytest.raises(InputError):
            relative_error_of_mean(means, truth)


METHODS = {
    "m3": m3,
    "m4": m4,
    "m5": lambda t, c: m5(*m3_samples(t, c)),
    "g_m4": g_m4,
    "m6": lambda t, c: m6(t, c, 0.5, 3.0),
}


@pytest.mark.parametrize("method", METHODS)
def test_bad_visits_are_refused_with_a_reason(method):
    run = METHODS[method]
    with pytest.raises(EstimationError, match="one visit"):
        run([1.0], [False])
    with pytest.raises(EstimationError, match="one visit"):
        run([], [])
    with pytest.raises(InputError, match="same time"):
        run([0.0, 1.0, 1.0], [False, True, True])
    with pytest.raises(InputError, match="sort"):
        run([0.0, 2.0, 1.0], [False, True, True])
    with pytest.raises(InputError, match="finite"):
        run([0.0, np.nan, 1.0], [False, True, True])
    with pytest.raises(InputError, match="one outcome"):
        run([0.0, 1.0], [True])
    with pytest.raises(InputError, match="unknown"):
        run([0.0, 1.0], [0.0, np.nan])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("outcome", ["never", "always", "once"])
def test_extreme_outcomes_give_a_finite_curve_or_a_reason(method, outcome):
    changed = {"never": [0, 0, 0, 0], "always": [1, 1, 1, 1], "once": [0, 0, 1, 0]}[outcome]
    try:
        curve = METHODS[method]([0.0, 1.0, 2.0, 3.0], changed)
    except EstimationError as error:
        assert "change was seen" in str(error)  # noqa: PT017
        assert outcome != "always"
        return
    assert np.isfinite(curve.values).all()
    assert np.isfinite(curve.x).all()
    assert (np.diff(curve.x) > 0).all()
    assert np.isfinite(curve.age_cdf([0.0, 0.1, 99.0])).all()
    assert curve.age_cdf(0.0) == 0.0
    if outcome == "always":
        assert curve.values == pytest.approx(np.ones(curve.x.size))


def test_the_first_outcome_is_ignored_and_the_caller_keeps_his_arrays():
    times, changed = np.array([0.0, 1.0, 2.0, 3.0]), np.array([True, False, True, True])
    assert m4(times, changed).observations == 2
    assert changed[0]


def test_random_gaps_are_refused_by_the_methods_for_constant_ones():
    for run in (m3, m4):
        with pytest.raises(InputError, match="use m6"):
            run([0.0, 1.0, 3.0], [False, True, True])
    assert m4([0.0, 1.001, 2.0, 3.001], [False, True, False, True]).resolution == pytest.approx(
        1, rel=1e-3
    )


def test_lags_beyond_the_log_and_empty_ranges_are_said():
    curve = m6([0.0, 0.7, 2.0], [False, False, True], 0.5, 50.0)
    assert any("cut at the log" in note for note in curve.notes)
    assert curve.x.max() < 2.0
    assert any("without a pair" in note for note in curve.notes)
    with pytest.raises(EstimationError, match="longer maximum"):
        m6([0.0, 10.0, 21.0], [False, True, True], 0.5, 1.0)
    with pytest.raises(InputError, match="too many"):
        m6([0.0, 10.0, 21.0], [False, True, True], 1e-9, 20.0)
    for step, maximum in ((0.0, 1.0), (-1.0, 1.0), (np.nan, 1.0), (0.1, np.inf)):
        with pytest.raises(InputError, match="above zero"):
            m6([0.0, 10.0, 21.0], [False, True, True], step, maximum)


def test_bad_ages_are_refused_with_a_reason():
    with pytest.raises(EstimationError, match="no visit was dated"):
        m2([np.nan, np.nan])
    with pytest.raises(EstimationError, match="no visit was dated"):
        m2([])
    with pytest.raises(EstimationError, match="every age is zero"):
        m2([0.0, 0.0])
    with pytest.raises(InputError, match="zero or more"):
        m2([1.0, -0.1])
    with pytest.raises(InputError, match="zero or more"):
        m2([1.0, np.inf])
    with pytest.raises(InputError, match="one outcome"):
        m1([1.0, 2.0], [True])
    with pytest.raises(EstimationError, match="no change"):
        m1([1.0, 2.0], [False, False])
    curve = m2([0.0, 1.0, np.nan], step=0.5, maximum=2.0)
    assert curve.values.tolist() == [0.5, 1.0, 1.0, 1.0]
    assert curve.notes == ("1 visit not dated, left out",)
    assert m2([0.0, 0.0, 1.0]).age_cdf([0.0, 1.0]).tolist() == [0.0, 1.0]


def test_bad_samples_of_m3_are_refused():
    with pytest.raises(InputError, match="multiples"):
        m5([1.5], 1.0)
    with pytest.raises(InputError, match="multiples"):
        m5([0.0], 1.0)
    with pytest.raises(EstimationError, match="at least one"):
        m5([], 1.0)
    with pytest.raises(InputError, match="more than duration"):
        m5([3.0, 4.0], 1.0, duration=5.0)
    with pytest.raises(EstimationError, match="only one change"):
        m3_samples([0.0, 1.0, 2.0], [False, True, False])
