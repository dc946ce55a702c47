"""One history, sent every way it can come, is one rate, one interval and one P(changed by now)."""

import json

import numpy as np
import pytest

from observant import VisitLog, change_probability, estimate_rates
from observant.estimation.belief import (
    DRIFT,
    GRID,
    SIZE,
    Likelihoods,
    RateBelief,
    first_prior,
    regrid,
)
from observant.estimation.evidence import Evidence
from observant.estimation.online import OnlinePosterior
from observant.observer.config import Config
from observant.observer.imported import take_in
from observant.observer.schedule import Planned, Schedule
from observant.planning.policy import make_scheduler
from observant.service.collection import Collection
from observant.service.posteriors import beliefs_of
from observant.store import Source, open_store
from observant.times import DAY

NAME, HOST = "https://example.org/news", "example.org"
START = 20_000.0
"""Days since 1970."""


def history(seed=4, visits=60):
    """Times in whole seconds, as days; outcomes; and ages of the changes that are dated."""
    rng = np.random.default_rng(seed)
    seconds = np.cumsum(rng.integers(1_800, 4 * 86_400, visits))
    times = START + seconds / DAY
    changed = [None, *(bool(x) for x in rng.random(visits - 1) < 0.35)]
    gaps = np.diff(times, prepend=START)
    ages = [
        float(np.floor(rng.random() * gap * DAY) / DAY) if change and rng.random() < 0.5 else None
        for gap, change in zip(gaps, changed, strict=True)
    ]
    return times, changed, ages


def exact(times, changed, ages, drift=DRIFT):
    """The same posterior on a fine grid over all rates, in plain NumPy."""
    octaves = np.arange(-22 * 64, 26 * 64 + 1) / 64
    rates = 2.0**octaves
    prior = np.exp(-0.5 * ((np.log(rates) - np.log(0.1)) / 2.5) ** 2)
    prior /= prior.sum()
    likelihood = np.ones_like(rates)
    for gap, change, age in zip(np.diff(times), changed[1:], ages[1:], strict=True):
        kept = np.exp(-gap / drift)
        likelihood = kept * likelihood / (prior @ likelihood) + 1 - kept
        if not change:
            likelihood = likelihood * np.exp(-rates * gap)
        elif age is None:
            likelihood = likelihood * -np.expm1(-rates * gap)
        else:
            likelihood = likelihood * rates * np.exp(-rates * max(age, 0.5 / DAY))
        likelihood /= likelihood.max()
    posterior = prior * likelihood / (prior @ likelihood)
    below = np.cumsum(posterior) - posterior / 2
    low, high = 2.0 ** np.interp([0.025, 0.975], below, octaves)
    return RateBelief(float(2.0 ** (posterior @ octaves)), float(low), float(high)), (
        lambda days: float(posterior @ -np.expm1(-rates * days))
    )


def test_one_history_is_one_belief_whichever_way_it_comes():
    times, changed, ages = history()
    waited = 2.5
    now = times[-1] + waited

    online = OnlinePosterior()
    for gap, change, age in zip(np.diff(times), changed[1:], ages[1:], strict=True):
        online.visit(float(gap), change, age)
    wanted, chance = online.belief(), online.change_probability(waited)

    replayed = make_scheduler(1.0, start=START)
    replayed.add([NAME], group=HOST)
    live = Schedule(1.0, start=START * DAY)
    live.add([Planned(NAME, HOST)])
    for time, change, age in zip(times, changed, ages, strict=True):
        replayed.visited(NAME, time, change, age)
        live.visited(NAME, time * DAY, change, None if age is None else age * DAY)

    modified = [None if age is None else time - age for time, age in zip(times, ages, strict=True)]
    log = VisitLog.from_columns(
        [NAME] * len(times), times, changed, last_modified=modified, time_unit="d"
    )
    with open_store(":memory:") as store:
        store.sources.add([Source(name=NAME, host=HOST)])
        take_in(store, log, {NAME: NAME})
        collection = Collection(store, Config(), clock=lambda: now * DAY)
        row = collection.sources.get(NAME).source
        stored = store.sources.get(NAME)
        kept = store.sources.likelihoods([stored])
        shown = beliefs_of(store, [NAME], [HOST], kept)
    table = estimate_rates(log, "pooled")  # too few sources to learn a prior: the first

    beliefs = {
        "replay": replayed.belief(NAME),
        "observer": live.belief(NAME),
        "store": RateBelief(stored.rate, stored.rate_low, stored.rate_high),
        "service": shown.one(0),
        "API": RateBelief(row.rate, row.rate_low, row.rate_high),
        "estimate": RateBelief(table.rate_per_day[0], table.rate_low[0], table.rate_high[0]),
    }
    for way, belief in beliefs.items():
        assert belief == pytest.approx(wanted, rel=1e-9), way
    chances = {
        "replay": 1 - replayed.beliefs([NAME]).unchanged(waited)[0],
        "API": row.changed_probability,
        "overdue": change_probability(log, at=now * DAY).probability[0],
    }
    for way, found in chances.items():
        assert found == pytest.approx(chance, rel=1e-9), way


@pytest.mark.slow
@pytest.mark.parametrize("drift", [DRIFT, np.inf])
def test_the_belief_is_that_of_a_fine_grid(drift):
    """Points around the posterior, against 3,073 rates over 48 octaves."""
    for seed in range(6):
        times, changed, ages = history(seed, visits=20 + 30 * seed)
        online = OnlinePosterior(drift=drift)
        for gap, change, age in zip(np.diff(times), changed[1:], ages[1:], strict=True):
            online.visit(float(gap), change, age)
        wanted, chance = exact(times, changed, ages, drift)
        found = online.belief()
        assert found.rate == pytest.approx(wanted.rate, rel=0.01)
        # A bound among the long steps, where forgetting leaves a little of everything, is coarser.
        tolerance = 0.05 if drift == np.inf else 0.15
        assert found.low == pytest.approx(wanted.low, rel=tolerance)
        assert found.high == pytest.approx(wanted.high, rel=tolerance)
        assert online.change_probability(1.0) == pytest.approx(chance(1.0), abs=0.003)


def test_there_is_no_step_no_ceiling_and_no_floor():
    """Many visits at 30 a day: the interval is what they allow, and not a cell of a grid."""
    rng = np.random.default_rng(1)
    gaps = rng.uniform(0.5, 1.5, (1, 300_000)) / 30
    changed = rng.random(gaps.shape) < -np.expm1(-30 * gaps)
    lasting = Likelihoods.of(Evidence.from_gaps(gaps, changed), np.inf).under(first_prior()).one(0)
    assert lasting.rate == pytest.approx(30.0, rel=4 * 1.3 / np.sqrt(300_000))
    assert (lasting.high / lasting.low - 1) == pytest.approx(
        2 * 1.96 * 1.27 / np.sqrt(300_000), rel=0.15
    )
    seconds = np.full((1, 400), 4.0 / DAY)
    often = rng.random(seconds.shape) < -np.expm1(-43_200 * seconds)
    busy = Likelihoods.of(Evidence.from_gaps(seconds, often)).under(first_prior()).one(0)
    assert busy.low < 43_200 < busy.high
    months = np.full((1, 400), 30.0)
    silent = Likelihoods.of(Evidence.from_gaps(months, months < 0), np.inf).under(first_prior())
    assert silent.one(0).high < 4.2 / (400 * 30.0)


def test_likelihoods_are_small_and_survive_being_stored():
    times, changed, _ = history()
    evidence = Evidence.from_gaps(np.diff(times)[None, :], np.array([changed[1:]], bool))
    learned = Likelihoods.of(evidence)
    data = learned.pack(0)
    assert len(data) == SIZE <= 200
    again = Likelihoods.unpack([data, None, b"of another program"])
    assert again.pack(0) == data
    prior = again.under(first_prior())
    assert prior.one(1) == prior.one(2)
    np.testing.assert_allclose(
        prior.weights[1] @ np.log(prior.rates[1]), first_prior() @ np.log(GRID), atol=0.01
    )


def test_a_prior_on_other_rates_keeps_its_shape():
    rates = np.geomspace(1e-3, 1e2, 60)
    weights = np.exp(-0.5 * (np.log(rates / 0.3) / 1.2) ** 2)
    weights /= weights.sum()
    made = regrid(rates, weights)
    assert made.sum() == pytest.approx(1.0)
    assert made @ np.log(GRID) == pytest.approx(weights @ np.log(rates), abs=0.02)
    assert json.dumps(made.tolist())
