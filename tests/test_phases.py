"""Best visiting times: the optimum by brute force, its condition, and the delay it achieves."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observant import VisitLog
from observant.errors import InputError
from observant.estimation.season import Season, estimate_seasons
from observant.planning.phases import best_times, mean_delay
from observant.processes import Seasonal

HOURS = np.arange(24)
OFFICE = np.where((HOURS >= 8) & (HOURS < 18), 1.0, 0.0)
weights = st.lists(st.floats(0, 5), min_size=2, max_size=8).filter(lambda w: sum(w) > 0.1)


@given(weights, st.lists(st.floats(0, 0.999), min_size=1, max_size=5, unique=True))
@settings(max_examples=40, deadline=None)
def test_mean_delay_is_the_average_over_updates(w, times):
    """The midpoint rule on n points errs by at most the visits and jumps, each one point."""
    n = 20_000
    u = (np.arange(n) + 0.5) / n
    density = np.asarray(w)[(u * len(w)).astype(int)]
    visits = np.sort(times)
    wait = np.append(visits, visits[0] + 1)[np.searchsorted(visits, u)] - u
    rough = np.average(wait, weights=density)
    peak = max(w) / np.mean(w)
    bound = (len(w) + len(times) + 2) * peak / n
    assert mean_delay(times, w, period=1) == pytest.approx(rough, abs=bound)


@pytest.mark.slow
@given(weights, st.integers(1, 3))
@settings(max_examples=12, deadline=None)
def test_best_times_beat_every_choice_on_a_grid(w, n):
    found = best_times(w, n, period=1)
    grid = np.arange(24) / 24
    least = min(mean_delay(times, w, period=1) for times in combinations(grid, n))
    assert found.delay <= least + 1e-9
    assert found.delay == pytest.approx(mean_delay(found.times, w, period=1))


@pytest.mark.slow
@given(weights, st.integers(1, 9))
@settings(max_examples=20, deadline=None)
def test_the_condition_of_sia_holds_at_the_best_times(w, n):
    """λ(t)(next − t) = ∫λ since the visit before; at a jump it lies between the two sides."""
    found = best_times(w, n, period=1)
    w = found.weights
    season = Seasonal(1.0, w.tolist(), 1.0)
    t = found.times
    gain = season.cumulative(t) - season.cumulative(np.append(t[-1] - 1, t[:-1]))
    ahead = np.append(t[1:], t[0] + 1) - t
    sides = [np.asarray(season.intensity(t + shift)) * ahead for shift in (-1e-6, 1e-6)]
    low, high = np.minimum(*sides), np.maximum(*sides)
    if n > 1:
        assert (gain >= low - 1e-4).all()
        assert (gain <= high + 1e-4).all()


@pytest.mark.slow
def test_many_visits_gain_less_but_never_lose():
    delays = [best_times(OFFICE + 0.1, n, period=1) for n in (1, 2, 4, 8, 24)]
    assert all(plan.delay < plan.even_delay for plan in delays)
    assert np.all(np.diff([plan.delay for plan in delays]) < 0)
    week = np.concatenate([OFFICE + 0.1] * 5 + [np.full(24, 0.1)] * 2)
    weekly, daily = best_times(week, 56), best_times(Season(week), 8, period=1)
    assert weekly.delay <= mean_delay(
        (daily.times + np.arange(7)[:, None]).ravel(), week, period=7
    ) + 1e-9  # fmt: skip


def test_the_shortest_gap_is_kept():
    free = best_times(OFFICE, 6, period=1)
    kept = best_times(OFFICE, 6, period=1, min_gap="3h")
    assert np.diff(kept.times).min() >= 3 / 24 - 1e-9
    assert kept.times[0] + 1 - kept.times[-1] >= 3 / 24 - 1e-9
    assert free.delay < kept.delay < kept.even_delay
    assert best_times(OFFICE, 8, period=1, min_gap="3h").delay <= 1.5 / 24 + 1e-9


def test_a_flat_source_is_visited_evenly():
    found = best_times(np.ones(24), 5, period=1)
    assert np.allclose(np.diff(found.times), 0.2, atol=1e-4)
    assert found.delay == pytest.approx(0.1, rel=1e-6)


@pytest.mark.slow
def test_office_hours_with_the_season_estimated():
    """At most 0.8 h, against 1.5 h evenly: 8 visits a day, learned from 60 days of visits.

    Mean over five learned plans, each judged on some 6,000 updates (standard error 0.01 h).
    """
    rng = np.random.default_rng(1)
    truth = Season(OFFICE, bins="hour-of-day")
    planned, even = [], []
    for _ in range(5):
        time = 20_000 + np.sort(60 * rng.random(480))
        seen = rng.random(479) < -np.expm1(-3.0 * truth.exposure(time[:-1], time[1:]))
        log = VisitLog.from_columns(["s"] * 480, time, [None, *seen.tolist()], time_unit="d")
        plan = best_times(estimate_seasons(log, "hour-of-day").season, 8)
        updates = truth.process(3.0).sample(2000, seed=rng, phase=0.0).times % 1.0
        for visits, found in ((plan.times, planned), ((np.arange(8) + rng.random()) / 8, even)):
            after = np.append(visits, visits[0] + 1)[np.searchsorted(visits, updates)]
            found.append(24 * np.mean(after - updates))
    assert np.mean(planned) <= 0.8
    assert np.mean(even) == pytest.approx(1.5, abs=0.15)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((OFFICE, 0), {}, "at least 1"),
        ((OFFICE, 2.5), {}, "whole number"),
        ((OFFICE, 9), {"period": 1, "min_gap": "3h"}, "do not fit"),
        (([0.0, 0.0], 2), {}, "above zero"),
        (([[1.0]], 2), {}, "one list"),
        ((Season(OFFICE, bins="hour-of-day"), 2), {"period": 3}, "every day or every week"),
        ((Seasonal(1.0, [1.0, 2.0], 1.0), 2), {"period": 7}, "repeats every 1"),
    ],
)
def test_what_cannot_be_used_is_refused(arguments, options, words):
    with pytest.raises(InputError, match=words):
        best_times(*arguments, **options)
