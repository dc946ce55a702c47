"""Singh's windows, the estimators in them, predictions, and rates of the calendar.

Simulated means are compared with theory within five standard errors of the simulation.
"""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from observant.errors import InputError
from observant.estimation.windows import (
    ESTIMATORS,
    calendar_rates,
    consistent_windows,
    estimate_windows,
    predict_next,
    roll_forward,
    update_points,
)
from observant.estimation.windows import consistent as windows_module
from observant.estimation.windows.points import from_updates
from observant.estimation.windows.weibull_rate import (
    log_sum,
    mse,
    rate_interval,
    rates_at_points,
    shape_interval,
    trend_p_value,
)
from observant.processes import Poisson, PowerLaw
from observant.processes.updates import Updates
from observant.visits import VisitLog

from .patience import cpu_within


def power_law(n, shape, sources, seed, scale=1.0):
    """Histories that end with their nth update: (t/η)^β is a Poisson process of rate one."""
    rng = np.random.default_rng(seed)
    reached = np.cumsum(rng.standard_exponential((sources, n)), axis=1)
    return Updates(
        (scale * reached ** (1 / shape)).ravel(), np.arange(0, sources * n + 1, n)
    ), shape * reached[:, -1] / (scale * reached[:, -1] ** (1 / shape))


def whole(updates, start=0.0):
    """Each history as one window."""
    return consistent_windows(update_points(updates, start=start), threshold=np.inf)


def at_end(windows, estimator):
    return rates_at_points(windows, estimator)[windows.offsets[1:] - 1]


def close(values, mean, errors=5):
    error = values.std(ddof=1) / np.sqrt(values.size)
    assert abs(values.mean() - mean) < errors * error, (values.mean(), mean, error)


# -- update points --------------------------------------------------------------------------------


@pytest.fixture
def log():
    return VisitLog.from_columns(
        source=["a"] * 6 + ["b"] * 3,
        time=[0, 2, 4, 6, 10, 12, 1, 3, 5],
        changed=[None, 1, 0, 1, 1, 0, None, 0, 0],
        last_modified=[None, 1.5, None, None, 9.75, 9.75, None, None, None],
        status=[200, 200, 200, 200, 200, 200, 200, 200, 500],
        time_unit="d",
    )


def test_points_are_dates_or_places_in_the_gap(log):
    assert update_points(log).times.tolist() == [1.5, 5.0, 9.75]
    assert update_points(log, place="end").times.tolist() == [1.5, 6.0, 9.75]
    drawn = update_points(log, place="random", seed=4).times
    assert drawn[[0, 2]].tolist() == [1.5, 9.75]
    assert 4 < drawn[1] <= 6
    points = update_points(log)
    assert (points.start.tolist(), points.until.tolist()) == ([0.0, 1.0], [12.0, 3.0])
    assert points.counts.tolist() == [3, 0]
    assert "1 change without a date" in points.notes[-1]


def test_a_date_that_contradicts_the_visits_is_set_aside():
    """The visit on day 4 saw a change, dated before the visit on day 2 that did not see it."""
    log = VisitLog.from_columns(
        ["a"] * 4, [0, 2, 4, 6], [None, 0, 1, 1], [None, 0.5, 1.0, 5.5], time_unit="d"
    )
    assert update_points(log).times.tolist() == [3.0, 5.5]


def test_the_first_update_is_the_start_unless_one_is_given():
    updates = Updates.from_lists([[3.0, 4.0, 4.0, 7.0], [], [2.0]])
    points = update_points(updates)
    assert points.times.tolist() == [4.0, 7.0]
    assert points.counts.tolist() == [2, 0, 0]
    assert points.start[0] == 3.0
    assert "1 update at the time of another" in points.notes[0]
    assert update_points(updates, start=1.0).counts.tolist() == [3, 0, 1]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: update_points([1.0, 2.0], place="left"), "place is one of"),
        (lambda: update_points([1.0, 2.0], start=1.5), "updated before the start"),
        (lambda: update_points([1.0, 2.0], until=1.5), "watching is said to have ended"),
        (lambda: update_points([2.0, 1.0]), "sorted within a source"),
        (lambda: update_points("visits.csv"), "neither a VisitLog nor update times"),
        (lambda: update_points([[1.0]]), "flat list"),
        (lambda: estimate_windows([1.0, 2.0], estimator="wrong"), "unknown estimator"),
        (
            lambda: estimate_windows([1.0, 2.0], measure="wrong"),
            "measure is one of gap, cumulative",
        ),
        (
            lambda: estimate_windows([1.0, 2.0], limit="wrong"),
            "limit is one of points, each, total",
        ),
        (lambda: estimate_windows([1.0, 2.0], direction="up"), "direction is one of"),
        (lambda: estimate_windows([1.0, 2.0], threshold=-1.0), "must not be negative"),
        (lambda: estimate_windows([1.0, 2.0], smallest=0), "at least 1 point"),
        (lambda: estimate_windows([1.0, 2.0], unit=0.0), "positive number of days"),
        (lambda: estimate_windows([1.0, 2.0], confidence=1.0), "between 0 and 1"),
        (lambda: estimate_windows([1.0, 2.0], tau=0.0), "must be a positive number"),
        (lambda: predict_next([1.0, 2.0], now=1.5), "now lies before the last update"),
        (lambda: predict_next([1.0, 2.0], model="duane"), "model is one of"),
        (lambda: roll_forward(whole([1.0, 2.0]), "linear"), "can be rolled forward"),
        (lambda: calendar_rates([1.0, 2.0], "soon"), "not a stretch of the calendar"),
        (lambda: calendar_rates([1.0, 2.0], "2026-13"), "no such date"),
        (lambda: calendar_rates([1.0, 2.0], "2026-02..2026-01"), "ends before it begins"),
        (lambda: calendar_rates([1.0, 2.0], []), "no stretch of the calendar"),
    ],
)
def test_mistakes_are_told(call, told):
    with pytest.raises(InputError, match=told):
        call()


# -- windows --------------------------------------------------------------------------------------


def cut_by_hand(gaps, *, threshold, measure, limit, backward, unit, tolerance, smallest):
    """Section 4 word by word, with lists; windows as lists of gap numbers, and their states."""
    order = list(range(len(gaps)))[:: -1 if backward else 1]

    def values(window):
        found = [gaps[k] for k in window]
        if measure == "cumulative":
            found = [sum(found[: i + 1]) / (i + 1) for i in range(len(found))]
        return found

    found = []
    for k in order:
        if found and len(found[-1]) < 3:
            found[-1].append(k)
            continue
        if found and _fits([*found[-1], k], values, threshold, limit, unit, tolerance):
            found[-1].append(k)
        else:
            found.append([k])
    states = [_sign(values(window[:3]), tolerance * unit) for window in found]
    windows = list(zip(found, states, strict=True))
    kept = []
    while windows:
        window, state = windows.pop(0)
        if len(window) >= smallest or (not windows and not kept):
            kept.append((window, state))
        elif not windows:
            kept[-1][0].extend(window)
        else:
            half = len(window) // 2 if kept else 0
            if kept:
                kept[-1][0].extend(window[:half])
            windows[0] = (window[half:] + windows[0][0], windows[0][1])
    kept = [(sorted(window), state if backward else -state) for window, state in kept]
    return sorted(kept)


def _sign(values, equal):
    change = values[-1] - values[0]
    return 0 if abs(change) <= equal else int(np.sign(change))


def _fits(window, values, threshold, limit, unit, tolerance):
    m = values(window)
    state = _sign(m[:3], tolerance * unit)
    steps = np.diff(m[2:])
    against = np.abs(steps) if state == 0 else -steps * state
    against = against[against > tolerance * unit]
    if limit == "each":
        return (against <= threshold * unit).all()
    return (len(against) if limit == "points" else against.sum() / unit) <= threshold


@given(
    gaps=st.lists(st.integers(1, 9).map(float), min_size=1, max_size=30),
    threshold=st.sampled_from([0.0, 0.75, 1.0, 3.0]),
    measure=st.sampled_from(windows_module.MEASURES),
    limit=st.sampled_from(list(windows_module.LIMITS)),
    direction=st.sampled_from(windows_module.DIRECTIONS),
    tolerance=st.sampled_from([0.0, 0.3]),
    smallest=st.sampled_from([1, 4]),
)
def test_windows_are_those_of_section_4(
    gaps, threshold, measure, limit, direction, tolerance, smallest
):
    points = update_points(np.cumsum(gaps), start=0.0)
    options = {"threshold": threshold, "measure": measure, "limit": limit}
    options |= {"tolerance": tolerance, "smallest": smallest, "unit": 2.0}
    ours = consistent_windows(points, direction=direction, **options)
    backward = direction == "backward"
    expected = cut_by_hand(gaps, backward=backward, **options)
    assert [window[0] for window, _ in expected] == ours.offsets[:-1].tolist()
    assert [state for _, state in expected] == ours.state.tolist()
    assert ours.n.sum() == len(gaps)
    assert (ours.n >= min(smallest, len(gaps))).all()


def test_windows_name_what_the_rate_does():
    slower = estimate_windows(np.cumsum([1.0, 2, 3, 4, 5, 6]))
    faster = estimate_windows(np.cumsum([6.0, 5, 4, 3, 2, 1]))
    clock = estimate_windows(np.arange(8.0))
    assert [answer.state.tolist() for answer in (slower, faster, clock)] == [
        ["decreasing"],
        ["increasing"],
        ["constant"],
    ]
    turning = estimate_windows(np.cumsum([6.0, 5, 4, 3, 2, 1, 2, 3, 4, 5, 6, 7, 8]), threshold=1)
    assert turning.state.tolist() == ["increasing", "decreasing"]


def test_small_windows_are_shared_by_halves():
    # Five that fall, three that end above where they began, six that fall; no violation allowed.
    gaps = [5.0, 4, 3, 2, 1, 8, 3, 9, 7, 6, 5, 4, 3, 2]
    plain = consistent_windows(update_points(np.cumsum(gaps), start=0.0), threshold=0, smallest=1)
    shared = consistent_windows(update_points(np.cumsum(gaps), start=0.0), threshold=0)
    assert plain.n.tolist() == [5, 3, 6]
    assert shared.n.tolist() == [6, 8]  # one point to the left, two to the right


@pytest.mark.parametrize(("last", "windows"), [(1.6, 1), (1.55, 2)])
def test_the_unit_is_the_mean_gap(last, windows):
    """The fourth gap is shorter by 18.4 or 18.45; three mean gaps are 18.45 and 18.41."""
    points = update_points(np.cumsum([1.0, 2.0, 20.0, last]), start=0.0)
    assert len(consistent_windows(points, limit="each", smallest=1)) == windows


@pytest.mark.slow
def test_compiled_and_plain_windows_are_the_same(monkeypatch):
    updates = PowerLaw.with_expected(40, 100, 0.7).sample(100.0, 300, seed=8)
    points = update_points(updates, start=0.0)
    plain = [
        consistent_windows(points, limit=limit, direction=direction)
        for limit in windows_module.LIMITS
        for direction in windows_module.DIRECTIONS
    ]
    rolled = roll_forward(plain[0], "duane")
    monkeypatch.setattr(windows_module, "COMPILED_FROM", 1)
    monkeypatch.setattr("observant.estimation.windows.prediction.COMPILED_FROM", 1)
    fast = [
        consistent_windows(points, limit=limit, direction=direction)
        for limit in windows_module.LIMITS
        for direction in windows_module.DIRECTIONS
    ]
    for a, b in zip(plain, fast, strict=True):
        assert np.array_equal(a.offsets, b.offsets)
        assert np.array_equal(a.state, b.state)
    assert roll_forward(plain[0], "duane") == rolled


@pytest.mark.slow
@given(st.sampled_from([1e-3, 24.0, 365.0]), st.integers(0, 10))
def test_the_unit_of_time_does_not_matter(factor, seed):
    times = np.cumsum(np.random.default_rng(seed).exponential(size=60))
    one, other = estimate_windows(times), estimate_windows(factor * times)
    assert one.points.tolist() == other.points.tolist()
    np.testing.assert_allclose(one.beta, other.beta, rtol=1e-9)
    np.testing.assert_allclose(one.rate_at_end, factor * other.rate_at_end, rtol=1e-9)


@pytest.mark.slow
def test_a_small_history_needs_no_compiler():
    code = (
        "import sys; from observant.estimation.windows import estimate_windows, predict_next;"
        "estimate_windows([1.0, 2, 4, 8, 16]); predict_next([1.0, 2, 4, 8]); "
        "print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "False"


# -- estimators -----------------------------------------------------------------------------------


def test_estimators_on_paper():
    """One window, t = 1, 3, 4, 8, computed by hand from the formulas."""
    windows = whole([1.0, 3.0, 4.0, 8.0])
    t, n, end = np.array([1.0, 3, 4, 8]), 4, 8.0
    s = np.log(end / t).sum()
    hat, tilde = n / s, (n - 2) / s
    gamma, a = np.polyfit(np.log(t), np.log(t / np.arange(1, 5)), 1)
    slope, level = np.polyfit(t, np.diff([0, *t]), 1)
    expected = {
        "count": np.full(4, 0.5),
        "weibull": (n - 3) / (n - 2) * n * tilde * t ** (tilde - 1) / end**tilde,
        "weibull-ml": n * hat * t ** (hat - 1) / end**hat,
        "weibull-bar": (n - 3) * hat * t ** (hat - 1) / end**hat,
        "weibull-corrected": (n - 1) * tilde * t ** (tilde - 1) / end**tilde,
        "duane": t**-gamma / np.exp(a),
        "duane-instantaneous": (1 - gamma) * t**-gamma / np.exp(a),
        "linear": 1 / (level + slope * t),
        "cho": np.full(4, -np.log((8 - 4 + 0.5) / 8.5)),
        "matloff": np.full(4, -np.log(1 - 4 / 8)),
    }
    assert set(expected) == set(ESTIMATORS)
    for name, rates in expected.items():
        np.testing.assert_allclose(rates_at_points(windows, name), rates, rtol=1e-12, err_msg=name)
    corrected = (n - 1) * (n - 2) * hat / (n * end)  # the form of erratum S-3
    assert at_end(windows, "weibull-corrected")[0] == pytest.approx(corrected)


def test_errors_on_paper():
    windows = whole([1.0, 3.0, 4.0, 8.0])
    rates = np.array([1.0, 0.5, 0.5, 0.25])  # gaps foretold: 1, 2, 2, 4; seen: 1, 2, 1, 4
    assert mse(windows, rates).tolist() == [1 / 4]
    assert mse(windows, rates, "position").tolist() == [2 / 4]
    linear = rates_at_points(windows, "linear")
    assert (1 / linear - windows.gaps).sum() == pytest.approx(0.0, abs=1e-12)  # Singh 3.5
    with pytest.raises(InputError, match="gap or position"):
        mse(windows, rates, "count")


def test_cho_and_matloff_count_intervals_with_an_update():
    windows = whole([0.5, 0.75, 1.0, 2.5])  # (0, 1] three times, (2, 3] once: X = 2 of n = 3
    assert at_end(windows, "cho")[0] == pytest.approx(-np.log(1.5 / 3.5))
    assert at_end(windows, "matloff")[0] == pytest.approx(-np.log(1 / 3))
    assert np.isinf(at_end(whole([0.5, 1.5, 2.5]), "matloff"))[0]


@pytest.mark.slow
@pytest.mark.parametrize("shape", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("n", [4, 5, 10])
def test_lemma_1_and_what_is_unbiased(n, shape):
    """β̃ is unbiased; λ̌ and λ̄ at tₙ are not (erratum S-3); the corrected rate is."""
    updates, truth = power_law(n, shape, 60_000, seed=n)
    windows = whole(updates)
    s = log_sum(windows)
    close(n / s, n / (n - 2) * shape)
    close((n - 2) / s, shape)
    biased = n * (n - 3) / ((n - 1) * (n - 2))
    assert biased == pytest.approx({4: 0.667, 5: 0.833, 10: 0.972}[n], abs=5e-4)
    close(at_end(windows, "weibull") / truth, biased)
    close(at_end(windows, "weibull-bar") / truth, biased)
    close(at_end(windows, "weibull-corrected") / truth, 1.0)
    # And λ̌ is seen to be biased: the test could tell 1 from what it is.
    ratio = at_end(windows, "weibull") / truth
    assert ratio.mean() < 1 - 5 * ratio.std() / np.sqrt(ratio.size)


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 4, 12, 300])
def test_intervals_hold_what_they_promise(n):
    """Exact ones: misses of 20,000 are binomial."""
    updates, truth = power_law(n, 1.7, 20_000, seed=n, scale=30.0)
    windows = whole(updates)
    s = log_sum(windows)
    for (low, high), value in (
        (shape_interval(n, s, 0.9), 1.7),
        (rate_interval(windows.n, s, windows.end, 0.9), truth),
    ):
        for miss in (value < low, value > high):
            assert abs(miss.mean() - 0.05) < 5 * np.sqrt(0.05 * 0.95 / 20_000)


@pytest.mark.parametrize("n", [3, 20])
def test_the_rate_interval_against_quadrature(n):
    low, high = rate_interval(n, 1.0, 1.0, 0.99)

    def below(value):
        return integrate.quad(
            lambda x: stats.gamma.pdf(x, n - 1) * stats.gamma.cdf(value / x, n), 0, 200
        )[0]

    assert below(float(low)) == pytest.approx(0.005, rel=1e-5)
    assert below(float(high)) == pytest.approx(0.995, rel=1e-5)


def test_p_values_are_uniform_without_a_trend_and_small_with_one():
    flat = log_sum(whole(power_law(8, 1.0, 20_000, seed=2)[0]))
    p = trend_p_value(8, flat)
    assert stats.kstest(p, "uniform").pvalue > 1e-3
    steep = log_sum(whole(power_law(40, 2.5, 500, seed=3)[0]))
    assert (trend_p_value(40, steep) < 0.05).mean() > 0.99
    assert np.isnan(trend_p_value(1, 0.0))


def test_a_silence_at_the_end_counts_in_the_verdict():
    """Watched until day 60: uniform p-values at a constant rate; a page that died is falling."""
    updates = Poisson(0.2).sample(60.0, 20_000, seed=6)
    points = update_points(updates, start=0.0, until=60.0)
    overall = estimate_windows(points).overall
    known = overall.points >= 3
    assert stats.kstest(overall.p_value[known], "uniform").pvalue > 1e-3
    close(overall.beta[overall.points >= 6], 1.0)
    died = np.arange(1.0, 21.0)
    assert estimate_windows(died, start=0.0).overall.trend.tolist() == ["none"]
    later = estimate_windows(update_points(died, start=0.0, until=80.0)).overall
    assert later.trend.tolist() == ["falling"]
    assert later.points.tolist() == [20]


def test_verdicts():
    for shape, verdict in ((0.4, "falling"), (2.5, "rising")):
        answer = estimate_windows(power_law(60, shape, 1, seed=1)[0], start=0.0)
        assert answer.overall.trend.tolist() == [verdict]
        assert answer.overall.beta_low[0] < shape < answer.overall.beta_high[0]
    clock = estimate_windows(np.arange(30.0))
    assert clock.overall.p_value[0] > 0.05
    assert clock.overall.trend.tolist() == ["none"]


# -- answers --------------------------------------------------------------------------------------


def test_an_answer_travels(log):
    answer = estimate_windows(log)
    (row,) = answer.rows()
    assert row["source"] == "a"
    assert row["points"] == 3
    assert row["start"].isoformat() == "1970-01-01T00:00:00+00:00"
    assert row["end"].isoformat() == "1970-01-10T18:00:00+00:00"
    assert row["mtbu_days"] == pytest.approx(1 / row["rate_at_end"])
    assert row["cumulative_mtbu_days"] == pytest.approx(9.75 / 3)
    assert row["next_low"] < row["predicted_next"] < row["next_high"]
    assert "no update to go by: 1 source" in answer.notes
    assert answer.to_arrow().column_names == list(answer.columns)
    assert "1 window of 1 source" in repr(answer)
    assert str(answer).splitlines()[1].startswith("a  ")


def test_windows_too_short_for_the_estimator_get_a_rate_all_the_same():
    answer = estimate_windows([0.0, 2.0, 4.0], estimator="weibull")
    assert answer.rate_at_end.tolist() == [0.5]
    assert any("N(t)/t" in note for note in answer.notes)


def test_a_rate_that_jumps_is_seen_in_the_latest_window():
    rng = np.random.default_rng(5)
    times = np.cumsum(np.concatenate([rng.exponential(5.0, 60), rng.exponential(0.25, 60)]))
    answer = estimate_windows(times)
    assert answer.rate_low[-1] < 4.0 < answer.rate_high[-1]
    assert answer.mean_rate[0] < 1.0


@pytest.mark.slow
def test_many_points_in_seconds():
    updates = Poisson(0.25).sample(100.0, 40_000, seed=1)
    assert updates.times.size > 900_000
    estimate_windows(updates, start=0.0)  # compiles, if no one did
    with cpu_within(15):
        answer = estimate_windows(updates, start=0.0)
    assert answer.points.sum() == updates.times.size


# -- prediction -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [0.6, 1.0, 2.0])
def test_predictions_are_calibrated(shape):
    """The next update falls below the median half of the time, above the interval 5 %."""
    n, sources = 6, 20_000
    updates, _ = power_law(n + 1, shape, sources, seed=9)
    table = updates.times.reshape(sources, n + 1)
    known = Updates(table[:, :n].ravel(), np.arange(0, sources * n + 1, n))
    answer = predict_next(known, start=0.0, confidence=0.9, threshold=np.inf)
    for name, share in (("next_low", 0.05), ("next_update", 0.5), ("next_high", 0.95)):
        below = (table[:, n] <= answer.days[name]).mean()
        assert abs(below - share) < 5 * np.sqrt(share * (1 - share) / sources)


@pytest.mark.parametrize("model", ["weibull", "count"])
def test_a_silence_is_taken_into_account(model):
    """Among histories still silent, the prediction given the silence is calibrated.

    Exactly so when the silence is measured in the model's own terms: as a share of tₙ for a
    constant rate, of S in logarithms for the power law.
    """
    n, sources = 6, 40_000
    updates, _ = power_law(n + 1, 1.0, sources, seed=10)
    table = updates.times.reshape(sources, n + 1)
    s = np.log(table[:, [n - 1]] / table[:, :n]).sum(axis=1)
    now = table[:, n - 1] * (1.1 if model == "count" else np.exp(0.02 * s))
    silent = table[:, n] > now
    known = Updates(table[silent, :n].ravel(), np.arange(0, silent.sum() * n + 1, n))
    answer = predict_next(known, start=0.0, now=now[silent], model=model, threshold=np.inf)
    assert (answer.days["next_low"] >= now[silent]).all()
    below = (table[silent, n] <= answer.days["next_update"]).mean()
    assert abs(below - 0.5) < 5 * 0.5 / np.sqrt(silent.sum())
    # And the probability of the silence itself is the share that was silent.
    assert np.ptp(answer.silence_probability) < 1e-9
    share = answer.silence_probability[0]
    assert abs(silent.mean() - share) < 5 * np.sqrt(share * (1 - share) / sources)


def test_predictions_of_a_log(log):
    answer = predict_next(log)
    rows = list(answer.rows())
    assert [row["points"] for row in rows] == [3, 0]
    assert rows[0]["now"].isoformat() == "1970-01-13T00:00:00+00:00"
    assert rows[0]["next_update"] > rows[0]["now"]
    assert rows[1]["next_update"] is None


def test_now_may_be_the_last_update_itself():
    """No rounding stands between them, whatever the start was."""
    updates = Poisson(0.25).sample(100.0, 2_000, seed=1)
    answer = predict_next(updates, start=0.0)
    assert np.nanmax(np.abs(answer.days["now"] - answer.days["last_update"])) == 0
    assert answer.silence_probability[answer.points > 0].min() == 1.0


def test_rolling_forward_by_hand():
    """Every day for ever: N(t)/t predicts each next update to the moment it comes."""
    windows = consistent_windows(update_points(np.arange(0.0, 21.0)))
    rolled = roll_forward(windows, "count")
    assert (rolled.updates, rolled.visits, rolled.detections) == (10, 10, 10)
    assert (rolled.observed, rolled.precision, rolled.premature) == (1.0, 1.0, 0.0)
    # Twice as slow sees every second one; twice as fast makes every second visit in vain.
    slow = roll_forward(windows, "count", stretch=2.0)
    assert slow.precision == 1.0
    assert slow.detections < rolled.detections
    fast = roll_forward(windows, "count", stretch=0.5)
    assert fast.premature == pytest.approx(0.5, abs=0.06)
    assert fast.observed == 1.0


@pytest.mark.parametrize("estimator", ["weibull", "weibull-corrected", "duane", "cho", "matloff"])
def test_the_rolled_rate_is_that_of_the_window(estimator):
    """The first visit falls where the estimator says, so one point more or less decides it."""
    opening = np.array([1.3, 2.1, 4.9, 6.2])
    rate = at_end(whole(opening), estimator)[0]
    due = 6.2 + 1 / rate
    for moved, seen in ((-1e-6, 1), (1e-6, 0)):
        times = np.append(opening, [due + moved, due + 1e-5])
        windows = consistent_windows(update_points(times, start=0.0), threshold=np.inf)
        rolled = roll_forward(windows, estimator, most=4)
        assert rolled.updates == 2
        assert rolled.detections == seen


# -- the calendar ---------------------------------------------------------------------------------


def test_stretches_of_the_calendar():
    days = 20_454 + np.arange(0.0, 400.0)  # from 2026-01-01, daily
    answer = calendar_rates(days, ["2026-01", "2026-01-15", "2026", "2026-02..2026-03"])
    assert answer.window.tolist() == ["2026-01", "2026-01-15", "2026", "2026-02..2026-03"]
    assert answer.observed_days.tolist() == [31.0, 1.0, 365.0, 59.0]
    assert answer.rate_per_day.tolist() == [1.0] * 4
    assert [row["start"].date().isoformat() for row in answer.rows()] == [
        "2026-01-01",
        "2026-01-15",
        "2026-01-01",
        "2026-02-01",
    ]
    low, high = stats.chi2.ppf([0.025, 0.975], [62, 64]) / 2 / 31
    assert answer.rate_low[0] == pytest.approx(low)
    assert answer.rate_high[0] == pytest.approx(high)


def test_the_same_month_over_the_years():
    days = 20_000 + np.arange(0.0, 1500.0)  # from 2024-10-04 to 2028-11-11
    answer = calendar_rates(days, "*-01")
    assert answer.window.tolist() == ["2025-01", "2026-01", "2027-01", "2028-01"]


def test_gaps_within_the_stretch_alone_are_an_ordinary_estimate():
    from observant import estimate_rates

    rng = np.random.default_rng(3)
    time = 20_454 + np.arange(31.0)
    log = VisitLog.from_columns(["p"] * 31, time, rng.random(31) < 0.4, time_unit="d")
    inside = calendar_rates(log, "2026-01")
    plain = estimate_rates(log)
    assert inside.rate_per_day[0] == pytest.approx(plain.rate_per_day[0])
    assert inside.rate_low[0] == pytest.approx(plain.rate_low[0])
    assert inside.rate_high[0] == pytest.approx(plain.rate_high[0])


def straddling(changed, date=None):
    """Visits on 27 December and 6 January, five days either side of the edge, then quiet."""
    dates = None if date is None else [None, date, date]
    return VisitLog.from_columns(
        ["p"] * 3,
        ["2025-12-27", "2026-01-06", "2026-01-16"],
        [None, changed, False],
        dates,
    )


def test_a_gap_over_the_edge_is_shared():
    quiet = calendar_rates(straddling(False), "2026-01")
    assert quiet.observed_days.tolist() == [15.0]
    assert quiet.rate_high[0] == pytest.approx(-np.log(0.025) / 15)
    undated = calendar_rates(straddling(True), "2026-01")
    assert undated.changes.tolist() == [0.5]
    assert undated.rate_low[0] == 0.0  # the change may have been in December
    assert undated.rate_high[0] > quiet.rate_high[0]
    assert undated.rate_per_day[0] > 0


@pytest.mark.parametrize(
    ("date", "observed", "changes"),
    [("2026-01-03", 15.0, 1.0), ("2025-12-30", 15.0, 0.0)],
)
def test_a_date_says_on_which_side(date, observed, changes):
    january = calendar_rates(straddling(True, date), "2026-01")
    assert january.changes.tolist() == [changes]
    assert january.observed_days.tolist() == [observed]
    december = calendar_rates(straddling(True, date), "2025-12")
    # A later date hides what happened in December; an earlier one is a change there.
    assert december.changes.tolist() == [1.0 - changes]
    assert december.observed_days.tolist() == [0.0 if changes else 5.0]


def test_dates_on_the_edge_leave_dated_evidence():
    """Dated before the month: five quiet days of a source whose changes are dated, no less."""
    from observant.estimation.evidence import Evidence
    from observant.estimation.firth import bias_reduced_rates

    log = VisitLog.from_columns(
        ["p"] * 4,
        ["2025-12-27", "2026-01-06", "2026-01-16", "2026-01-26"],
        [None, True, True, True],
        [None, "2025-12-30", "2026-01-10", "2026-01-25"],
    )
    by_hand = Evidence.from_gaps([5.0, 10.0, 10.0], [False, True, True], [0.0, 6.0, 1.0])
    answer = calendar_rates(log, "2026-01")
    assert answer.rate_per_day[0] == pytest.approx(bias_reduced_rates(by_hand)[0], rel=1e-9)


def test_the_rate_of_a_month_is_unbiased_over_its_edges():
    """A constant rate, gaps that straddle both edges: the mean estimate is the rate.

    Bias reduction leaves less than 2 % here; that and five standard errors are allowed.
    """
    rng = np.random.default_rng(12)
    sources, rate = 4_000, 0.3
    steps = rng.uniform(1.0, 7.0, (sources, 40))
    time = 20_400 + np.cumsum(steps, axis=1)
    changed = rng.random((sources, 40)) < -np.expm1(-rate * steps)
    log = VisitLog.from_columns(
        np.repeat(np.arange(sources), 40), time.ravel(), changed.ravel(), time_unit="d"
    )
    answer = calendar_rates(log, "2026-01")
    estimates = answer.rate_per_day
    error = estimates.std() / np.sqrt(sources)
    assert abs(estimates.mean() - rate) < 0.02 * rate + 5 * error
    covered = (answer.rate_low <= rate) & (rate <= answer.rate_high)
    assert covered.mean() > 0.94


def test_a_stretch_without_visits_says_nothing():
    answer = calendar_rates(straddling(True), "2020")
    assert answer.evidence.tolist() == ["too-few"]
    assert np.isnan(answer.rate_per_day[0])
    nothing = calendar_rates([20_454.0, 20_455.0], "2020")
    assert nothing.evidence.tolist() == ["too-few"]


def test_ids_and_sources_of_updates():
    import pyarrow as pa

    updates = Updates.from_lists([[1.0, 2.0, 3.0], [1.0, 5.0]])
    points = from_updates(updates, ids=pa.array(["x", "y"]))
    assert estimate_windows(points).source.to_pylist() == ["x", "y"]
    assert estimate_windows(updates).source.to_pylist() == ["0", "1"]
    assert repr(points) == "<UpdatePoints: 3 points of 2 sources>"
