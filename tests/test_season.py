"""Seasons from visits: exact integrals, the likelihood by brute force, recovery, false alarms."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observant import VisitLog, estimate_rates
from observant.errors import InputError
from observant.estimation.season import BINS, Season, WallClock, estimate_seasons
from observant.estimation.season.shape import Likelihood, ObservedWindows, smooth_priors
from observant.estimation.season.table import flat_p_value, quadratic_tail

MONDAY = 19_723.0  # 2024-01-01
HOURS = np.arange(24)
OFFICE = Season(np.where((HOURS >= 8) & (HOURS < 18), 1.0, 0.1), bins="hour-of-day")
OFFICE_WEEK = Season(np.concatenate([OFFICE.weights] * 5 + [np.full(24, 0.25)] * 2))


def visited(rng, season, rates, times, *, dated=False):
    """A log of sources with this season; with `dated`, changes carry their dates."""
    rates = np.asarray(rates, float).reshape(-1, 1)
    changed = np.full(times.shape, None, object)
    source = np.repeat(np.char.mod("s%05d", np.arange(len(times))), times.shape[1])
    dates = None
    if dated:
        dates = np.full(times.shape, np.nan)
        for i, own in enumerate(times):
            process = season.process(float(rates[i, 0]))
            phase = (own[0] - MONDAY) % season.period
            updates = own[0] + process.sample(own[-1] - own[0], seed=rng, phase=phase).times
            last = np.searchsorted(updates, own, side="right") - 1
            known = last >= 0
            dates[i, known] = updates[last[known]]
            changed[i, 1:] = np.diff(last) > 0
        dates = [None if np.isnan(d) else datetime.fromtimestamp(d * 86400, UTC)
                 for d in dates.ravel()]  # fmt: skip
    else:
        chance = -np.expm1(-rates * season.exposure(times[:, :-1], times[:, 1:]))
        changed[:, 1:] = rng.random(chance.shape) < chance
    return VisitLog.from_columns(
        source, times.ravel(), changed.ravel().tolist(), dates, time_unit="d"
    )


def random_times(rng, sources, visits, gap):
    gaps = rng.exponential(gap, (sources, visits)) + 1e-3
    start = MONDAY + 7 * rng.random((sources, 1))
    return np.hstack([start, start + np.cumsum(gaps, axis=1)])


# -- the clock ------------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    bins=st.sampled_from(list(BINS)),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata", "America/New_York"]),
    start=st.floats(10_000, 22_000),
    length=st.floats(0, 40),
)
@settings(max_examples=30, deadline=None)
def test_exposure_is_the_integral_of_the_intensity(bins, zone, start, length):
    """The midpoint rule on n points errs by at most the jumps: Σ|Δw| × step / 2 a crossing."""
    season = Season(1 + np.arange(BINS[bins][0]) % 5, bins=bins, time_zone=zone)
    n = 20_000
    middle = start + length * (np.arange(n) + 0.5) / n
    rough = season.intensity(middle).mean() * length
    crossings = 2 + length * BINS[bins][0] / BINS[bins][1]
    exact = season.exposure(start, start + length)
    assert abs(exact - rough) <= crossings * np.ptp(season.weights) * length / n + 1e-9


def test_exposure_of_whole_weeks_is_their_length_and_it_adds_up():
    season = OFFICE_WEEK
    assert np.allclose(season.exposure(20_000.3, 20_000.3 + 7 * np.arange(4)), 7 * np.arange(4))
    t = np.sort(20_000 + 100 * np.random.default_rng(1).random(50))
    steps = season.exposure(t[:-1], t[1:])
    assert steps.sum() == pytest.approx(float(season.exposure(t[0], t[-1])), abs=1e-8)
    process = season.process(2.0)  # begins on a Monday
    assert np.allclose(2 * season.exposure(MONDAY, MONDAY + t - 20_000),
                       process.cumulative(t - 20_000))  # fmt: skip


@given(st.integers(0, 2**31), st.sampled_from(["UTC", "Europe/Berlin", "Australia/Adelaide"]))
@settings(max_examples=60, deadline=None)
def test_bins_are_those_that_the_calendar_shows(seconds, zone):
    local = datetime.fromtimestamp(seconds, ZoneInfo(zone))
    assert WallClock("hour-of-week", zone).bin(seconds / 86400) == 24 * local.weekday() + local.hour
    assert WallClock("weekday", zone).bin(seconds / 86400) == local.weekday()


def test_an_hour_that_the_clock_skips_is_not_there_and_one_that_it_repeats_is_there_twice():
    only = Season((HOURS == 2).astype(float), bins="hour-of-day", time_zone="Europe/Berlin")
    berlin = ZoneInfo("Europe/Berlin")

    def midnight(month, day):
        return datetime(2024, month, day, tzinfo=berlin).timestamp() / 86400

    days = [((3, 30), (3, 31)), ((3, 31), (4, 1)), ((10, 27), (10, 28)), ((3, 30), (10, 28))]
    exposure = [only.exposure(midnight(*a), midnight(*b)) for a, b in days]
    assert np.allclose(exposure, [1, 0, 2, 212], atol=1e-7)


# -- the likelihood -------------------------------------------------------------------------------


def brute_log_likelihood(windows, level, log_shape):
    """Σ log probability of every window, from exposures by `WallClock.integral`."""
    theta = np.exp(log_shape)
    clock, evidence = windows.clock, windows.evidence
    rate = np.repeat(level, evidence.counts)
    start, known, stop = (
        clock.integral(theta, t) for t in (windows.start, windows.known, windows.stop)
    )
    total = 0.0
    for i, kind in enumerate(evidence.kind):
        if kind == 3:
            density = rate[i] * theta[clock.bin(windows.known[i])]
            total += np.log(density) - rate[i] * (stop[i] - known[i])
        elif kind == 1:
            total += np.log(-np.expm1(-rate[i] * (stop[i] - start[i])))
        else:
            total -= rate[i] * (stop[i] - start[i])
    return total


@pytest.mark.parametrize("dated", [False, True])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_likelihood_and_gradient_agree_with_brute_force(dated, zone):
    rng = np.random.default_rng(2)
    times = random_times(rng, 3, 60, 2.5)
    log = visited(rng, OFFICE_WEEK, [0.5, 1.0, 0.1], times, dated=dated)
    windows = ObservedWindows.from_log(log, WallClock("hour-of-week", zone))
    likelihood = Likelihood(windows)
    shape = 0.5 * rng.normal(size=168)
    found = likelihood.at(shape)
    assert found.log_likelihood == pytest.approx(
        brute_log_likelihood(windows, found.level, shape), rel=1e-9
    )
    for b in (0, 9, 80, 167):
        nudge = np.zeros(168)
        nudge[b] = 1e-5
        slope = np.diff(
            [brute_log_likelihood(windows, found.level, shape + s * nudge) for s in (-1, 1)]
        )
        assert found.gradient[b] == pytest.approx(float(slope[0]) / 2e-5, abs=2e-4)


@pytest.mark.slow
def test_information_is_the_variance_of_the_score():
    """Over 400 logs; a variance estimated from 400 draws errs by √(2/400) = 7 %, five times that
    is allowed."""
    rng = np.random.default_rng(3)
    clock = WallClock("weekday")
    times = random_times(rng, 1, 80, 1.0)
    flat = Season(np.ones(7), bins="weekday")
    wave = np.cos(2 * np.pi * np.arange(7) / 7)
    scores, informations = [], []
    for _ in range(400):
        found = Likelihood(ObservedWindows.from_log(visited(rng, flat, [0.7], times), clock)).at(
            np.zeros(7), profile=True
        )
        scores.append(wave @ found.gradient)
        informations.append(wave @ found.information @ wave)
    assert np.var(scores) == pytest.approx(np.mean(informations), rel=0.35)


# -- recovery -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("visits", "day_within", "night_within", "repeats"),
    [(100, 0.03, 0.03, 12), (400, 0.02, 0.013, 12), (4000, 0.01, 0.006, 4)],
)
def test_day_and_night_are_recovered(visits, day_within, night_within, repeats):
    """Day .15, night .01 an hour. Plain EM: .13/.03, .14/.02, .143/.014; the tolerance is that
    error plus two to three standard errors of the mean over the repeats."""
    rng = np.random.default_rng(4)
    day = (HOURS >= 8) & (HOURS < 20)
    season = Season(np.where(day, 0.15, 0.01), bins="hour-of-day")
    found = []
    for _ in range(repeats):
        log = visited(rng, season, [24 * 0.08], random_times(rng, 1, visits, 6 / 24))
        answer = estimate_seasons(log, "hour-of-day", significance=1)
        hourly = answer.season.weights * answer.rate_per_day[0] / 24
        found.append((hourly[day].mean(), hourly[~day].mean()))
    means = np.mean(found, axis=0)
    assert means[0] == pytest.approx(0.15, abs=day_within)
    assert means[1] == pytest.approx(0.01, abs=night_within)


def test_a_shape_is_pooled_and_levels_are_kept_with_intervals_that_hold():
    rng = np.random.default_rng(5)
    rates = rng.gamma(2.0, 0.5, 60)
    log = visited(rng, OFFICE_WEEK, rates, random_times(rng, 60, 200, 0.5))
    answer = estimate_seasons(log)
    season = answer.season
    inside = (season.low <= OFFICE_WEEK.weights) & (season.high >= OFFICE_WEEK.weights)
    assert inside.mean() > 0.85  # 95 % wanted; bins are correlated
    assert season.weights.mean() == pytest.approx(1)
    assert np.sqrt(np.mean(np.log(season.weights / OFFICE_WEEK.weights) ** 2)) < 0.5
    held = (answer.rate_low <= rates) & (rates <= answer.rate_high)
    assert held.mean() > 0.85  # of 60: below with probability 3e-4 if 95 % hold
    assert answer.evidence[0] < 1e-6
    assert len(answer.to_arrow()) == 60


def test_dates_sharpen_the_shape():
    rng = np.random.default_rng(6)
    log = visited(rng, OFFICE, [2.0] * 5, random_times(rng, 5, 200, 0.6), dated=True)
    with_dates, without = (
        estimate_seasons(log, "hour-of-day", use_dates=use).season for use in (True, False)
    )
    errors = [np.sqrt(np.mean((s.weights - OFFICE.weights) ** 2)) for s in (with_dates, without)]
    assert errors[0] < 0.7 * errors[1]
    width = [np.mean(np.log(s.high / s.low)) for s in (with_dates, without)]
    assert width[0] < width[1]
    assert with_dates.visible > 2 * without.visible


def test_harmonics_find_a_wave():
    rng = np.random.default_rng(7)
    truth = Season(np.exp(np.cos(2 * np.pi * (HOURS - 14) / 24)), bins="hour-of-day")
    log = visited(rng, truth, [2.0] * 5, random_times(rng, 5, 400, 0.4))
    answer = estimate_seasons(log, "hour-of-day", harmonics=(2, 0))
    season = answer.season
    error = np.log(season.high / season.low) / (2 * 1.96)  # one standard error
    assert (np.abs(np.log(season.weights / truth.weights)) < 4 * error).all()
    # Four numbers are known better than 24.
    free = estimate_seasons(log, "hour-of-day").season
    assert np.mean(error) < np.mean(np.log(free.high / free.low)) / (2 * 1.96)
    assert answer.method == "2+0 harmonics"
    log_shape = np.log(season.weights)
    assert np.abs(np.fft.rfft(log_shape)[3:]).max() < 1e-8  # two waves and no more


def test_groups_have_their_own_seasons():
    rng = np.random.default_rng(8)
    night = Season(np.roll(OFFICE.weights, 12), bins="hour-of-day")
    times = random_times(rng, 8, 300, 0.4)
    logs = [visited(rng, s, [2.0] * 4, times[i : i + 4]) for i, s in ((0, OFFICE), (4, night))]
    tables = [log.to_arrow().to_pydict() for log in logs]
    source = [f"{'ab'[i]}{s}" for i, t in enumerate(tables) for s in t["source"]]
    columns = {k: [v for t in tables for v in t[k]] for k in ("time", "changed")}
    log = VisitLog.from_columns(source, columns["time"], columns["changed"],
                                group=[s[0] for s in source])  # fmt: skip
    answer = estimate_seasons(log, "hour-of-day", group="group")
    assert [season.name for season in answer.seasons] == ["a", "b"]
    busy = [int(np.argmax(np.convolve(np.tile(s.weights, 2), np.ones(10), "valid")[:24]))
            for s in answer.seasons]  # fmt: skip
    assert abs(busy[0] - 8) <= 2
    assert abs(busy[1] - 20) <= 2
    assert answer.of("bs00001").name == "b"
    with pytest.raises(InputError, match="2 seasons"):
        _ = answer.season


# -- flat sources and what cannot be seen ---------------------------------------------------------


@pytest.mark.slow
def test_p_values_of_flat_sources_are_uniform():
    """300 sources: a share near 5 % has a standard error of 1.3 %, near 50 % one of 2.9 %."""
    rng = np.random.default_rng(9)
    clock = WallClock("hour-of-day")
    priors, flat = smooth_priors(clock), Season(np.ones(24), bins="hour-of-day")
    p = np.array([
        flat_p_value(
            Likelihood(ObservedWindows.from_log(
                visited(rng, flat, [2.0], random_times(rng, 1, 150, 0.25)), clock)), priors)
        for _ in range(300)
    ])  # fmt: skip
    assert np.mean(p < 0.05) < 0.05 + 4 * 0.0126
    assert abs(np.mean(p < 0.5) - 0.5) < 4 * 0.029


def test_a_flat_source_is_flat_and_its_rate_that_of_a_constant_one():
    rng = np.random.default_rng(10)
    flat = Season(np.ones(168))
    log = visited(rng, flat, [1.0] * 3, random_times(rng, 3, 150, 0.4))
    answer = estimate_seasons(log)
    assert answer.season.flat
    assert (answer.season.weights == 1).all()
    assert any("no season was found" in note for note in answer.notes)
    plain = estimate_rates(log)
    assert np.allclose(answer.rate_per_day, plain.rate_per_day, rtol=1e-6)


@pytest.mark.parametrize(
    ("bins", "gap", "words"),
    [
        ("hour-of-day", 1.0, "all visits fall at about 06:00"),
        ("weekday", 7.0, "all visits fall at about the same day"),
    ],
)
def test_visits_at_one_hour_show_no_hours(bins, gap, words):
    rng = np.random.default_rng(11)
    times = MONDAY + 0.25 + gap * np.arange(200)[None, :] + 1e-4 * rng.random((1, 200))
    answer = estimate_seasons(visited(rng, OFFICE_WEEK, [0.5 / gap], times), bins)
    assert answer.season.flat
    assert answer.season.visible < 0.01
    assert words in answer.notes[0]


def test_levels_of_sources_are_not_mistaken_for_a_season():
    """Each source is compared within one hour of the day only: its level explains everything."""
    rng = np.random.default_rng(13)
    begin = MONDAY + np.arange(24)[:, None] / 24 + np.arange(100)
    times = np.stack([begin, begin + 1 / 24], axis=2).reshape(24, 200)
    changed = np.full(times.shape, None, object)
    changed[:, 1::2] = rng.random((24, 100)) < np.where(OFFICE.weights > 1, 0.6, 0.1)[:, None]
    source = np.repeat(np.char.mod("s%02d", np.arange(24)), 200)
    log = VisitLog.from_columns(source, times.ravel(), changed.ravel().tolist(), time_unit="d")
    windows = ObservedWindows.from_log(log, WallClock("hour-of-day"))
    information = [
        np.trace(Likelihood(windows).at(np.zeros(24), profile=p).information) for p in (True, False)
    ]
    assert information[0] < 1e-6 * information[1]
    answer = estimate_seasons(log, "hour-of-day")
    assert answer.season.flat
    assert answer.season.visible < 1e-6
    assert "cannot be seen" in answer.notes[0]


def test_a_season_needs_changes():
    log = VisitLog.from_columns(["a"] * 3, [0, 1, 2], [None, False, False], time_unit="d")
    answer = estimate_seasons(log)
    assert answer.season.flat
    assert "no change was seen" in answer.notes[0]


def test_tails_of_quadratic_forms():
    """Against the exact tail of χ² with even degrees of freedom, and against simulation."""
    for q in (1.0, 5.0, 30.0, 200.0):
        exact = np.exp(-q / 2) * (1 + q / 2)  # four degrees of freedom
        assert quadratic_tail(q, np.ones(4)) == pytest.approx(exact, rel=0.03)
    weights = 0.7 ** np.arange(12.0)
    draws = (np.random.default_rng(12).normal(size=(100_000, 12)) ** 2) @ weights
    for p in (0.5, 0.05, 0.01):
        assert quadratic_tail(float(np.quantile(draws, 1 - p)), weights) == pytest.approx(
            p, rel=0.1
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bins": "month"}, "unknown bins"),
        ({"time_zone": "Mars/Base"}, "no time zone"),
        ({"harmonics": (0, 0)}, "harmonics"),
        ({"significance": 2.0}, "significance"),
        ({"group": [1, 2, 3]}, "3 labels"),
        ({"group": "host"}, "group is"),
        ({"group": "group"}, "no groups"),
    ],
)
def test_what_cannot_be_used_is_refused(options, words):
    log = VisitLog.from_columns(["a"] * 3, [0, 1, 2], [None, True, False], time_unit="d")
    with pytest.raises(InputError, match=words):
        estimate_seasons(log, **options)


def test_figures_are_drawn():
    from observant.figures.season import season_figure, visit_times_figure
    from observant.planning.phases import best_times

    for season in (OFFICE, OFFICE_WEEK):
        assert season_figure(season).to_dict()["config"]
        drawn = visit_times_figure(best_times(season, 3)).to_dict()
        assert len(drawn["layer"]) == 4
