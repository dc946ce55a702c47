"""The scheduler against the exact allocation, a plain reference, and simulated Poisson sources.

With given rates, visits do not depend on the updates, so the expected freshness given their
times is exact (`freshness_of`): no sampling error enters the comparison with the optimum.
"""

import heapq
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observant.errors import InputError
from observant.estimation.belief import Likelihoods
from observant.estimation.online import OnlinePosterior
from observant.estimation.priors import Prior
from observant.planning import schedule
from observant.planning.allocation import plan
from observant.planning.objectives import OBJECTIVES, objective
from observant.planning.schedule import Scheduler
from observant.planning.schedule.crossing import crossing, cycle, signalled, signalled_crossing
from observant.planning.schedule.quality import SignalQuality, fit_signals

DAYS = st.floats(1e-3, 1e3)


def drive(scheduler, until, outcome=lambda _source, _time: False):
    """Visit whatever is due, until a time; return times and sources."""
    times, sources = [], []
    while (now := scheduler.next_time()) <= until:
        for source in scheduler.due(now):
            times.append(now)
            sources.append(source)
            scheduler.visited(source, now, outcome(source, now))
    return np.array(times), np.array(sources, np.int64)


def freshness_of(times, sources, rates, last, start, end):
    """Expected share of [start, end] in which each source is fresh, given the visits."""
    share = np.zeros(len(rates))
    for i, rate in enumerate(rates):
        visits = np.concatenate([[last[i]], times[sources == i], [end]])
        begin, stop = np.maximum(visits[:-1], start), visits[1:]
        counted = stop > begin
        since, until = (begin - visits[:-1])[counted], (stop - visits[:-1])[counted]
        share[i] = np.sum(np.exp(-rate * since) - np.exp(-rate * until)) / rate / (end - start)
    return share


def worst_window(times, budget, window, end):
    """Largest relative error of the spending over any window that ends before `end`."""
    starts = times[times + window <= end]
    visits = np.searchsorted(times, starts + window) - np.arange(len(starts))
    return np.abs(visits / (budget * window) - 1).max()


def population(n, seed):
    rng = np.random.default_rng(seed)
    return rng.random(n) + 0.01, rng.random(n) + 0.01, rng


def started(n, budget, seed=1, **options):
    """A scheduler in mid-life: last visits spread over the optimal periods."""
    rates, importance, rng = population(n, seed)
    best = plan(rates, budget=budget, importance=importance)
    last = -rng.random(n) * np.minimum(best.period_days, 30)
    scheduler = Scheduler(budget, max_period=np.inf, seed=seed, **options)
    scheduler.add(range(n), rate=rates, importance=importance, last=last)
    return scheduler, rates, importance, last, best


# -- the optimum ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("n", "budget"), [(60, 30.0), (400, 80.0), (400, 600.0)])
def test_reaches_the_optimum_and_spends_the_budget(n, budget):
    scheduler, rates, importance, last, best = started(n, budget)
    end = 160 * n / budget
    times, sources = drive(scheduler, end)
    share = freshness_of(times, sources, rates, last, end / 8, end)
    assert np.average(share, weights=importance) >= 0.999 * best.collection_alpha
    assert np.average(share, weights=importance) <= 1.002 * best.collection_alpha
    assert worst_window(times, budget, 100 * n / budget, end) < 0.01
    assert scheduler.price == pytest.approx(best.price, rel=0.1)


def test_cho_and_garcia_molina():
    """λ = 1 … 5 a day and five visits a day: f = (1.150, 1.358, 1.354, 1.138, 0)."""
    rates = np.arange(1.0, 6)
    scheduler = Scheduler(5.0, max_period=np.inf, jitter=0.02)
    scheduler.add(range(5), rate=rates, last=-np.linspace(0, 0.5, 5))
    times, sources = drive(scheduler, 1000.0)
    visits = np.bincount(sources, minlength=5) / 1000
    np.testing.assert_allclose(visits, [1.150, 1.358, 1.354, 1.138, 0], atol=0.03)
    share = freshness_of(times, sources, rates, np.zeros(5), 0, 1000)
    assert share.mean() >= 0.999 * 0.37389
    assert worst_window(times, 5.0, 100.0, 1000.0) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "grace"),
    [
        ("currency", 1.0),
        ("currency", np.linspace(0, 1, 150)),
        ("harmonic", 0),
        ("age", 0),
        ("delay", 0),
        ("detected", 0),
    ],
    ids=["currency", "own-graces", "harmonic", "age", "delay", "detected"],
)
def test_every_objective_reaches_its_optimum(name, grace):
    """The mean penalty of the visited gaps, Σ∫₀ᵍ c / Σg, against the plan's."""
    n, budget = 150, 60.0
    rates, importance, rng = population(n, 5)
    best = plan(rates, budget=budget, objective=name, grace=grace, importance=importance)
    own = {"grace": grace} if np.ndim(grace) else {}
    scheduler = Scheduler(budget, objective=name, grace=0 if own else grace, max_period=np.inf)
    last = -rng.random(n) * np.minimum(best.period_days, 10)
    scheduler.add(range(n), rate=rates, importance=importance, last=last, **own)
    times, sources = drive(scheduler, 400.0)
    law = objective(name, rates, grace)
    total = np.zeros(n)
    for i in range(n):
        gaps = np.diff(np.concatenate([[0.0], times[sources == i], [400.0]]))
        gaps = gaps[gaps > 0]
        total[i] = np.sum(gaps * law.select(np.array([i])).mean_penalty(gaps)) / 400
    assert np.average(total, weights=importance) <= 1.004 * best.penalty
    assert len(times) == pytest.approx(400 * budget, rel=0.01)


def test_a_grace_of_a_source_belongs_to_currency_and_is_checked():
    with pytest.raises(InputError, match="grace belongs to the objective currency"):
        Scheduler(10.0).add("a", rate=1.0, grace=1.0)
    with pytest.raises(InputError, match="grace"):
        Scheduler(10.0, objective="currency").add(["a", "b"], rate=1.0, grace=[0.0, -1.0])


def test_equals_a_plain_reference():
    """The same decisions as a plain heap that asks the objective itself, at a price that rests."""
    budget, n = 12.0, 40
    scheduler, rates, importance, last, _ = started(n, budget, jitter=0)
    scheduler._state.clock["gain"] = 0.0
    period = objective("freshness", rates).period_at(scheduler.price / importance)
    heap = [(last[i] + period[i], i) for i in range(n) if np.isfinite(period[i])]
    heapq.heapify(heap)
    purse, now, kinds = 0.0, 0.0, set()
    for _ in range(2000):
        key, i = heap[0]
        paid = now + max(1 - purse, 0) / budget
        full = now + (np.sqrt(n) - purse) / budget
        on_time = max(key, paid)
        kinds.add("early" if full < on_time else "late" if paid > key else "on time")
        then = scheduler.next_time()
        assert then == pytest.approx(min(on_time, full), abs=1e-8)
        assert scheduler.due(then) == [i]
        scheduler.visited(i, then, changed=False)
        purse, now = min(purse + budget * (then - now), np.sqrt(n)) - 1, then
        heapq.heapreplace(heap, (now + period[i], i))
    assert kinds == {"early", "late", "on time"}


@pytest.mark.slow
@given(st.sampled_from(sorted(OBJECTIVES)), DAYS, DAYS, st.floats(0, 10))
def test_crossing_is_that_of_the_objective(name, rate, price, grace):
    from observant.planning.schedule.crossing import CODES

    grace = grace if name == "currency" else 0.0
    expected = objective(name, [rate], grace).period_at(price)[0]
    found = crossing(CODES[name], np.array([rate]), np.ones(1), grace, price, 0.0)
    if not np.isclose(price, 1 / rate + grace, rtol=1e-6):  # the very edge of never
        assert found == pytest.approx(expected, rel=1e-8)


# -- the budget -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_changed_budget_takes_effect_at_once_and_never_bursts(factor):
    n, budget = 300, 90.0
    scheduler, rates, importance, last, _ = started(n, budget)
    before, who_before = drive(scheduler, 40.0)
    scheduler.set_budget(factor * budget)
    after, who_after = drive(scheduler, 200.0)
    burst = np.sqrt(n)
    ends = np.arange(len(after))
    for width in (1, 10, 100, 1000):  # visits i to i + width within the purse and the budget
        took = after[width:] - after[:-width]
        assert (width <= factor * budget * took + burst + 1e-6).all()
    first = after - 40.0
    assert (np.abs(ends + 1 - factor * budget * first) <= burst + 2).all()  # from the first moment
    best = plan(rates, budget=factor * budget, importance=importance)
    times, sources = np.append(before, after), np.append(who_before, who_after)
    share = freshness_of(times, sources, rates, last, 60.0, 200.0)
    assert np.average(share, weights=importance) >= 0.999 * best.collection_alpha


def test_a_backlog_does_not_burst():
    """Nobody asked for fifty days; everybody is late. The purse holds √n visits and no more."""
    n, budget = 400, 100.0
    scheduler, *_ = started(n, budget)
    drive(scheduler, 20.0)
    waiting = scheduler.due(70.0)
    assert len(waiting) <= np.sqrt(n)
    for source in waiting:
        scheduler.visited(source, 70.0, changed=True)
    times, _ = drive(scheduler, 72.0)
    assert len(times) <= 2 * budget + np.sqrt(n)
    assert len(times) >= 2 * budget - np.sqrt(n)


@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_the_price_finds_its_way_back(factor):
    """A wrong price, told to nobody: only what happens can mend it."""
    scheduler, rates, importance, last, best = started(300, 90.0)
    scheduler._state.clock["price"] *= factor
    times, sources = drive(scheduler, 120.0)
    assert scheduler.price == pytest.approx(best.price, rel=0.1)
    share = freshness_of(times, sources, rates, last, 60.0, 120.0)
    assert np.average(share, weights=importance) >= 0.998 * best.collection_alpha
    assert worst_window(times, 90.0, 20.0, 120.0) < 0.02


def test_costs_are_spent_not_visits():
    rates, importance, rng = population(200, 3)
    cost = rng.choice([0.5, 1.0, 4.0], 200)
    best = plan(rates, budget=100, importance=importance, cost=cost)
    scheduler = Scheduler(100, max_period=np.inf)
    last = -rng.random(200) * np.minimum(best.period_days, 10)
    scheduler.add(range(200), rate=rates, importance=importance, cost=cost, last=last)
    times, sources = drive(scheduler, 150.0)
    assert cost[sources].sum() == pytest.approx(100 * 150, rel=0.01)
    assert scheduler.spent == pytest.approx(cost[sources].sum())
    share = freshness_of(times, sources, rates, last, 30, 150)
    assert np.average(share, weights=importance) >= 0.999 * best.collection_alpha


# -- sources come, go and change ------------------------------------------------------------------


def test_new_sources_are_visited_at_the_pace_of_the_budget():
    scheduler = Scheduler(10.0)
    scheduler.add(range(100), rate=0.3)
    times, sources = drive(scheduler, 10.5)
    assert len(set(sources[:100].tolist())) == 100
    np.testing.assert_allclose(np.diff(times), 0.1, atol=1e-6)


def test_removed_sources_are_never_due_and_their_places_are_used_again():
    scheduler, *_ = started(50, 20.0)
    drive(scheduler, 5.0)
    for source in range(0, 50, 2):
        scheduler.remove(source)
    assert len(scheduler) == 25
    assert 0 not in scheduler
    assert 1 in scheduler
    _, sources = drive(scheduler, 20.0)
    assert (sources % 2 == 1).all()
    scheduler.add(["late"], rate=[1.0], importance=2.0)
    assert len(scheduler._state.names) == 50
    assert "late" in scheduler.due(scheduler.next_time())


def test_reweighting_moves_a_source_at_once():
    scheduler, *_ = started(50, 20.0)
    before = scheduler.due_at(7)
    scheduler.reweight(7, 50.0)
    assert scheduler.due_at(7) < before
    scheduler.reweight(7, 0.0)
    assert scheduler.due_at(7) == np.inf


def test_a_failed_visit_observes_nothing_and_is_tried_again_later_and_later():
    scheduler = Scheduler(5.0, retry=0.5)
    scheduler.add(["a"], rate=1.0)
    now, pauses = 0.0, []
    for _ in range(4):
        now = scheduler.next_time()
        assert scheduler.due(now) == ["a"]
        scheduler.visited("a", now, "failed")
        pauses.append(scheduler.due_at("a") - now)
    assert pauses == pytest.approx([0.5, 1.0, 2.0, 4.0])
    assert scheduler._state.sources["last"][0] == -np.inf


def test_a_visit_that_is_never_reported_is_offered_again():
    scheduler = Scheduler(5.0, lease=2.0)
    scheduler.add(["a"], rate=1.0)
    first = scheduler.next_time()
    assert scheduler.due(first) == ["a"]
    assert scheduler.due(first + 1.9) == []
    assert scheduler.due(first + 2.1) == ["a"]


# -- jitter, ceiling, exploration -----------------------------------------------------------------


def test_visits_do_not_lock_to_a_phase_and_nobody_is_forgotten():
    rates = np.append(np.full(30, 0.5), 50.0)  # the last one is not worth a visit
    scheduler = Scheduler(15.0, max_period=20.0, jitter=0.1)
    scheduler.add(range(31), rate=rates, last=-np.linspace(0, 2, 31))
    times, sources = drive(scheduler, 200.0)
    gaps = np.diff(times[sources == 3])
    assert 0.03 < gaps.std() / gaps.mean() < 0.12  # 0.1/√3 = 0.058, and what pacing adds
    forgotten = np.diff(times[sources == 30])
    assert len(forgotten) >= 8
    assert forgotten.max() <= 20.0 + 0.5


def test_minimum_periods_hold_when_there_is_budget_to_spare():
    scheduler = Scheduler(1000.0, min_period=1.0)
    scheduler.add(range(20), rate=1.0, last=-np.linspace(0, 1, 20))
    times, sources = drive(scheduler, 20.0)
    for i in range(20):
        assert np.diff(times[sources == i]).min() >= 1.0 - 1e-9
    assert len(times) == pytest.approx(400, abs=21)


def test_a_resting_host_brings_nobody_forward():
    """More budget than the shortest period allows to spend, and hosts that rest meanwhile."""
    scheduler = Scheduler(10_000.0, min_period=1.0, max_period=1.0, host_delay=0.1)
    names = [f"s{k}" for k in range(10)]
    scheduler.add(names, rate=0.1, host=names)
    seen = {name: [] for name in names}
    now = 0.0
    while now < 20.0:
        for name in scheduler.due(now):
            scheduler.visited(name, now, False)
            seen[name].append(now)
        now = min(max(scheduler.next_time(), now + 0.01), now + 0.05)
    for times in seen.values():
        gaps = np.diff(times)
        assert len(times) >= 18
        assert gaps.min() > 0.999
        assert gaps.max() < 1.1


def gamma_prior():
    grid = np.geomspace(0.01, 10, 40)
    weights = grid**0.6 * np.exp(-1.2 * grid)
    return Prior(grid, weights / weights.sum())


def poisson_outcomes(rates, seed):
    """Whether a source changed since it was last asked; updates are Poisson."""
    rng = np.random.default_rng(seed)
    last = {}

    def outcome(source, time):
        gap = time - last.get(source, 0.0)
        first = source not in last
        last[source] = time
        return None if first else bool(rng.random() < -np.expm1(-rates[source] * gap))

    return outcome


def test_learned_rates_are_those_of_the_online_posterior():
    prior = gamma_prior()
    scheduler = Scheduler(4.0, prior=prior)
    scheduler.add(["a"])
    alone = OnlinePosterior(prior, drift=np.inf)
    scheduler.visited("a", 1.0)
    for time, gap, changed in ((2.0, 1.0, True), (2.5, 0.5, False), (5.0, 2.5, True)):
        scheduler.visited("a", time, changed=changed)
        alone.visit(gap, changed)
    np.testing.assert_allclose(scheduler.beliefs(["a"]).weights, alone.beliefs.weights, atol=1e-14)
    assert scheduler.belief("a") == pytest.approx(alone.belief(), rel=1e-12)
    law = objective("freshness", alone.beliefs.rates[0])
    period = (scheduler.due_at("a") - 5.0) / (
        1 + 0.05 * (2 * scheduler._keys.chance(0, 0, 4, 0) - 1)
    )
    # Learned crossings lie between two times (`schedule.index_tables`): to a few per mille.
    index = np.sum(alone.beliefs.weights[0] * law.index(period))
    assert index == pytest.approx(scheduler.price, rel=0.004)


def test_learning_beats_uniform_and_comes_near_to_knowing():
    """Rates unknown at first; ± 0.005 covers the learning noise at this size (4 seeds: ± 0.002)."""
    n, budget, end = 300, 60.0, 250.0
    rng = np.random.default_rng(8)
    rates = np.clip(rng.gamma(0.6, 1 / 1.2, n), 0.01, 10)
    scheduler = Scheduler(budget, prior=gamma_prior())
    scheduler.add(range(n))
    times, sources = drive(scheduler, end, poisson_outcomes(rates, 9))
    share = freshness_of(times, sources, rates, np.full(n, -1e3), 0.6 * end, end).mean()
    best = plan(rates, budget=budget)
    assert share > best.uniform_alpha + 0.01
    assert share > 0.975 * best.collection_alpha
    assert worst_window(times, budget, 50.0, end) < 0.01


def test_uncertain_sources_are_explored():
    def visits_to_starved(explore):
        scheduler = Scheduler(10.0, prior=gamma_prior(), explore=explore, max_period=np.inf)
        scheduler.add(range(100), last=0.0)
        for source in range(20):  # seen to change twice, quickly: seem too fast to be worth a visit
            scheduler.visited(source, 1.0, changed=True)
            scheduler.visited(source, 2.0, changed=True)
        _, sources = drive(scheduler, 60.0)
        return (sources < 20).sum()

    assert visits_to_starved(0.5) > 1.2 * visits_to_starved(0.0)


@pytest.mark.parametrize(("share", "importance"), [(0.25, 1.0), (0.1, 1.0), (0.25, 0.5), (0.0, 1)])
def test_who_changes_too_often_to_be_kept_current_gets_its_least_share(share, importance):
    """All alike, a visit in two days; ten change a thousand times a day, and are seen to."""
    fast, n, budget, end = 10, 100, 50.0, 160.0
    scheduler = Scheduler(
        budget, prior=gamma_prior(), least_share=share, explore=0.0, jitter=0.0, max_period=1000.0
    )
    weights = np.where(np.arange(n) < fast, importance, 1.0)
    scheduler.add(range(n), importance=weights, last=0.0)
    for visit in range(1, 31):
        for source in range(fast):
            scheduler.visited(source, visit / 100, changed=True)
    rates = np.where(np.arange(n) < fast, 1000.0, 0.2)
    times, sources = drive(scheduler, end, poisson_outcomes(rates, 4))
    gaps = np.concatenate([np.diff(times[sources == source]) for source in range(fast)])
    if share == 0:
        assert (sources[times > end / 2] < fast).sum() == 0
        return
    longest = n / budget / share * weights.mean() / importance
    assert len(gaps) >= fast * (end / longest - 2)
    assert longest * 0.9 < gaps.max() < longest * 1.1
    assert (sources < fast).mean() < 1.2 * share * fast / n + 30 * fast / (budget * end)
    assert worst_window(times, budget, 50.0, end) < 0.02


# -- politeness -----------------------------------------------------------------------------------


def test_hosts_are_left_in_peace_and_their_share_goes_to_others():
    """Two of ten hosts are capped below what they are worth; the exact optimum is `plan`'s."""
    n, budget = 200, 60.0
    rates, importance, rng = population(n, 6)
    hosts = [f"host{i % 10}" for i in range(n)]
    importance[[h in {"host0", "host1"} for h in hosts]] *= 3
    caps = {f"host{k}": 3.0 if k < 2 else 1000.0 for k in range(10)}
    best = plan(rates, budget=budget, importance=importance, hosts=hosts, host_caps=caps)
    scheduler = Scheduler(budget, max_period=np.inf)
    for host, cap in caps.items():
        scheduler.set_host(host, cap=cap)
    last = -rng.random(n) * np.minimum(best.period_days, 10)
    scheduler.add(range(n), rate=rates, importance=importance, host=hosts, last=last)
    times, sources = drive(scheduler, 300.0)
    for k, host in enumerate(caps):
        there = times[sources % 10 == k]
        for width in (1, 10, 100):
            took = there[width:] - there[:-width]
            assert (width <= caps[host] * took + 4 + 1e-6).all()
    share = freshness_of(times, sources, rates, last, 60.0, 300.0)
    assert np.average(share, weights=importance) >= 0.995 * best.collection_alpha
    assert len(times) == pytest.approx(300 * budget, rel=0.01)


def test_a_host_rests_between_visits():
    scheduler = Scheduler(100.0, host_delay=0.1)
    scheduler.add(range(40), rate=1.0, host=["a", "b"] * 20)
    times, sources = drive(scheduler, 20.0)
    for k in (0, 1):
        assert np.diff(times[sources % 2 == k]).min() >= 0.1 - 1e-9
        assert (sources % 2 == k).sum() >= 195  # and no longer than it must


def test_sources_can_leave_the_queue_of_a_host():
    scheduler = Scheduler(100.0, host_delay=1.0)
    scheduler.add(range(10), rate=1.0, host="h")
    assert len(scheduler.due(1.0)) == 1
    assert scheduler.due(1.5) == []
    for source in range(2, 9):
        scheduler.remove(source)
    scheduler.add(["new"], rate=1.0, host="h")
    seen = []
    for now in np.arange(2.0, 8.0, 0.5):
        for source in scheduler.due(now):
            seen.append(source)
            scheduler.visited(source, now, "failed")
    assert set(seen[:2]) <= {0, 1, 9, "new"}
    assert {1, 9, "new"} <= set(seen)
    assert not set(range(2, 9)) & set(seen)


def test_a_visit_nobody_asked_for_counts():
    scheduler = Scheduler(100.0, host_delay=1.0, prior=gamma_prior())
    scheduler.add(range(3), host="h", last=0.0)
    drive(scheduler, 5.0)
    waiting = [
        i for i in range(3) if scheduler._state.sources["state"][i] == scheduler._state.codes.QUEUED
    ]
    assert waiting, "one stands in the queue of its host"
    before = scheduler.belief(waiting[0])
    scheduler.visited(waiting[0], 5.0, changed=True)
    assert scheduler.belief(waiting[0]) != before
    _, sources = drive(scheduler, 15.0)
    assert set(sources.tolist()) == {0, 1, 2}


# -- visits that were not made, or made by others -------------------------------------------------


def test_a_source_rests_and_its_visit_may_be_given_back():
    scheduler = Scheduler(10.0, burst=5.0)
    scheduler.add(["a", "b"], rate=1.0)
    assert set(scheduler.due(1.0)) == {"a", "b"}
    spent = scheduler.spent
    scheduler.rest("a", 5.0)
    scheduler.rest("b", 6.0, refund=False)
    assert scheduler.spent == spent - 1
    assert (scheduler.due_at("a"), scheduler.due_at("b")) == (5.0, 6.0)
    assert scheduler.due(4.9) == []
    assert scheduler.due(5.5) == ["a"]
    scheduler.visited("a", 5.5, changed=True)
    assert (scheduler.now, scheduler.last_visit("a"), scheduler.last_visit("b")) == (
        *(5.5, 5.5),
        -np.inf,
    )


def test_a_source_that_was_put_back_is_as_if_nobody_had_asked():
    scheduler = Scheduler(10.0, jitter=0)
    scheduler.add(["known", "new"], rate=1.0, last=[0.0, np.nan])
    before = scheduler.due_at("known")
    scheduler.due(3.0)
    for _ in range(3):
        scheduler.visited("known", 3.0, "failed")
    scheduler.put_back("known")
    scheduler.put_back("new")
    assert scheduler.due_at("known") == pytest.approx(before)
    assert scheduler.due_at("new") == 3.0
    scheduler.visited("known", 3.0, "failed")
    assert scheduler.due_at("known") == pytest.approx(3 + 1 / 24)  # the failures are forgotten


def test_a_source_that_waits_for_its_host_keeps_its_place():
    scheduler = Scheduler(100.0, host_delay=1.0, lease=100.0)
    scheduler.add(range(3), rate=1.0, host="h")
    (asked,) = scheduler.due(1.0)
    assert scheduler.due(1.5) == []
    *queue, head = sorted(set(range(3)) - {asked}, key=scheduler.due_at)
    for source in (head, *queue):
        scheduler.rest(source, 50.0)
        scheduler.put_back(source)
    assert scheduler.due(2.1) == [head]
    assert scheduler.due(3.2) == queue


def test_what_somebody_else_found_is_adopted_if_it_is_news():
    scheduler = Scheduler(1.0, prior=gamma_prior(), start=10.0)
    scheduler.add(["a", "b"], last=0.0)
    scheduler.visited("b", 9.0, changed=True)
    scheduler.adopt("a", 9.0, scheduler.likelihood_of("b"))
    assert scheduler.last_visit("a") == 9.0
    np.testing.assert_array_equal(*scheduler.beliefs(["a", "b"]).weights)
    scheduler.adopt("a", 8.0, None)
    assert scheduler.likelihood_of("a") == scheduler.likelihood_of("b")
    scheduler.adopt("a", 99.0, None)  # a clock that is ahead of ours
    assert scheduler.last_visit("a") == 10.0
    unknown = Likelihoods.empty(1)
    prior = unknown.under(scheduler.prior.rows()).weights[0]
    np.testing.assert_allclose(scheduler.beliefs(["a"]).weights[0], prior)
    scheduler.set_likelihood("b", None)
    np.testing.assert_allclose(scheduler.beliefs(["b"]).weights[0], prior)
    assert scheduler.likelihood_of("b") == unknown.pack(0)


def test_a_glance_takes_some_of_all():
    scheduler = Scheduler(10.0)
    names = [f"s{k}" for k in range(10)]
    scheduler.add(names, rate=1.0, importance=np.arange(10) + 1.0, last=0.0, max_period=0.5)
    scheduler.remove("s0")
    assert scheduler.sources == names[1:]
    assert scheduler.glance().importance.tolist() == [2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert scheduler.glance(4).importance.tolist() == [2, 5, 8]
    assert (scheduler.glance().period <= 0.5).all()
    assert len(Scheduler(1.0).glance().last) == 0


# -- signals, where rates are given ---------------------------------------------------------------


def with_signals(rates, importance, recall, false, budget, end, use, seed, learn_after=None):
    """Freshness of simulated sources whose changes emit signals; `use` None ignores them."""
    rng = np.random.default_rng(seed)
    n = len(rates)
    scheduler = Scheduler(budget, max_period=np.inf, jitter=0.02, seed=seed)
    scheduler.add(range(n), rate=rates, importance=importance, last=-2 * rng.random(n))
    for i in range(n if use else 0):
        scheduler.signals.listen([i], quality=use(i))
    events = []
    for i in range(n):
        changes = rng.random(rng.poisson(rates[i] * end)) * end
        told = rng.random(len(changes)) < recall[i]
        events += [(t, i, True, bool(h)) for t, h in zip(changes, told, strict=True)]
        events += [(t, i, False, True) for t in rng.random(rng.poisson(false[i] * end)) * end]
    fresh, since, total = np.ones(n, bool), np.zeros(n), np.zeros(n)
    begin = 0.25 * end
    for time, i, real, said in [*sorted(events), (end, 0, False, False)]:
        while (now := scheduler.next_time()) <= time:
            for source in scheduler.due(now):
                if fresh[source]:
                    total[source] += max(now - max(since[source], begin), 0)
                scheduler.visited(source, now, not fresh[source])
                fresh[source], since[source] = True, now
        if real and fresh[i]:
            total[i] += max(time - max(since[i], begin), 0)
            fresh[i] = False
        if said and use:
            scheduler.signals.receive([i], [time])
        if learn_after is not None and time > learn_after:
            scheduler.signals.learn()
            learn_after = None
    total += np.where(fresh, end - np.maximum(since, begin), 0)
    return np.average(total / (end - begin), weights=importance), scheduler


def signal_population(seed):
    """Frontier section 4: recall ~ Beta(¼, ¼), false signals ~ U(0.1, 0.6) a day."""
    rng = np.random.default_rng(seed)
    rates, importance = rng.random(100), rng.random(100)
    recall = np.clip(rng.beta(0.25, 0.25, 100), 1e-4, 0.999)
    return rates, importance, recall, rng.uniform(0.1, 0.6, 100)


def quality_of(rates, recall, false):
    return lambda i: SignalQuality(
        recall[i], recall[i] * rates[i] / (recall[i] * rates[i] + false[i])
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "budget", "gain"),
    [(5, 20.0, 0.0), (111, 20.0, 0.04), (2, 30.0, 0.04), (105, 30.0, 0.04)],
)
def test_noisy_signals_help(seed, budget, gain):
    """Mean precision 0.33 and recall 0.5; 100 sources for 600 days leave an error of about 0.004.

    What the exact optimum gains differs between populations of this setting: over thirty of them
    from 0.027 to 0.050 with 20 visits a day (0.037 on average), 0.037 to 0.068 with 30 (0.054).
    Frontier's single population had 0.554 without signals; that of seed 111 has 0.549,
    and was chosen for that: at this budget most populations cannot gain 4 points.
    """
    rates, importance, recall, false = signal_population(seed)
    setting = (rates, importance, recall, false, budget, 600.0)
    ignoring, _ = with_signals(*setting, None, 1)
    using, scheduler = with_signals(*setting, quality_of(rates, recall, false), 1)
    assert using >= ignoring + gain
    assert scheduler.spent == pytest.approx(budget * 600, rel=0.01)
    best = best_with_signals(rates, importance, recall, false, budget)
    assert best - 0.012 < using < best + 0.012


@pytest.mark.slow
def test_worthless_signals_do_no_harm():
    """Precision 0.05: most signals are false. Using them well is as good as ignoring them."""
    rates, importance, _, _ = signal_population(3)
    recall, false = np.full(100, 0.2), 0.2 * rates * 19
    setting = (rates, importance, recall, false, 20.0, 400.0)
    ignoring, _ = with_signals(*setting, None, 2)
    using, _ = with_signals(*setting, quality_of(rates, recall, false), 2)
    assert using >= ignoring - 0.004


@pytest.mark.slow
def test_precision_and_recall_are_learned():
    """From hardly any trust; 2,000 visits give recall and precision to ± 0.05."""
    rng = np.random.default_rng(12)
    rates, importance = rng.uniform(0.1, 1, 100), rng.random(100)
    recall = np.full(100, 0.8)
    false = recall * rates * (1 / 0.6 - 1)
    setting = (rates, importance, recall, false, 30.0, 400.0)
    ignoring, _ = with_signals(*setting, None, 3)
    learning, scheduler = with_signals(
        *setting, lambda _i: SignalQuality(0.001, 0.001), 3, learn_after=80.0
    )
    learned = scheduler.signals.learn()[None]
    assert learned.recall == pytest.approx(0.8, abs=0.06)
    assert learned.precision == pytest.approx(0.6, abs=0.06)
    assert learning > ignoring + 0.06


@pytest.mark.parametrize(("recall", "precision"), [(0.5, 0.33), (0.9, 0.84), (0.45, 0.18)])
def test_fit_of_signals(recall, precision):
    """20,000 visits: the standard errors of the regression are below 0.02."""
    rng = np.random.default_rng(7)
    expected = rng.uniform(0.2, 2, 20_000)
    true = rng.poisson(recall * expected)
    false = rng.poisson(recall * expected * (1 / precision - 1))
    silent = rng.poisson((1 - recall) * expected)
    fit = fit_signals(expected, true + false, true + silent > 0)
    assert fit.recall == pytest.approx(recall, abs=0.06)
    assert fit.precision == pytest.approx(precision, abs=0.06)


def test_a_cycle_with_signals_is_as_long_as_simulated():
    """ψ and w against 20,000 simulated cycles; their standard errors are about 0.01."""
    silent, signal, false, iota = 0.24, 0.56, 0.3, 6.0
    rng, worth = np.random.default_rng(1), np.log(0.56 / 0.3) / 0.24
    hints = np.cumsum(rng.exponential(1 / signal, (20_000, 40)), axis=1)
    effective = hints + worth * np.arange(1, 41)
    crossed = np.argmax(effective >= iota, axis=1)  # the hint that ends the cycle, if time did not
    end = np.minimum(hints[np.arange(20_000), crossed], iota - worth * crossed)
    real = np.where(rng.random(hints.shape) > false / signal, hints, np.inf).min(axis=1)
    changed = np.minimum(real, rng.exponential(1 / silent, 20_000))
    length, fresh = cycle(silent, signal, false, iota)
    assert length == pytest.approx(end.mean(), abs=0.04)
    assert fresh == pytest.approx(np.minimum(end, changed).mean(), abs=0.04)


@given(st.floats(0.01, 5), st.floats(0, 5), st.floats(0.01, 0.99))
def test_signals_that_mean_nothing_change_nothing(rate, false, share):
    """With recall 0, V is the index of freshness and the crossing that of the objective."""
    law = objective("freshness", [rate])
    price = share / rate
    assert signalled_crossing(rate, false, false, price) == pytest.approx(
        law.period_at(price)[0], rel=1e-6
    )
    s = law.period_at(price)[0]
    assert signalled(rate, false, false, s) == pytest.approx(law.index(s)[0], rel=1e-6)


def best_with_signals(rates, importance, recall, false, budget):
    """Exact optimum: every source visited at the ι where V(ι) is the price, prices by bisection."""
    silent, signal = (1 - recall) * rates, recall * rates + false
    low, high = np.log(1e-6), np.log(1e3)
    for _ in range(50):
        price = np.exp((low + high) / 2)
        cycles = []
        for i in range(len(rates)):
            iota = signalled_crossing(silent[i], signal[i], false[i], price / importance[i])
            never = (np.inf, 0.0)
            cycles.append(cycle(silent[i], signal[i], false[i], iota) if iota < np.inf else never)
        length, fresh = np.array(cycles).T
        low, high = (np.log(price), high) if (1 / length).sum() > budget else (low, np.log(price))
    return np.average(fresh / length, weights=importance)


def test_the_names_of_the_first_release_still_work_and_say_the_new_ones():
    def due(scheduler):
        return [scheduler.due_at(name) for name in "ab"], scheduler.next_time()

    new, old = (Scheduler(1.0, jitter=0) for _ in range(2))
    new.add(["a", "b"], rate=0.5, last=0.0)
    new.signals.listen(["a", "b"], quality=SignalQuality(0.5, 0.4))
    assert new.signals.receive(["a", "b"], [0.5, 0.4], about=[np.nan, -1.0]) == 1
    with pytest.warns(DeprecationWarning, match="set_hints is Scheduler.signals.listen now"):
        old.add(["a", "b"], rate=0.5, last=0.0, hints=SignalQuality(0.5, 0.4))
    with pytest.warns(DeprecationWarning, match="hint is Scheduler.signals.receive now"):
        old.hint("a", 0.5)
    assert due(old) == due(new)
    assert old.due_at("a") < old.due_at("b")
    with pytest.warns(DeprecationWarning, match="learn_hints is Scheduler.signals.learn now"):
        assert old.learn_hints() == new.signals.learn() == {}
    with pytest.warns(DeprecationWarning, match="SignalQuality now"):
        assert schedule.HintQuality is SignalQuality


# -- state and input ------------------------------------------------------------------------------


@pytest.mark.parametrize("learned", [False, True])
def test_state_is_saved_and_restored_exactly(learned):
    rates, importance, rng = population(80, 4)
    scheduler = Scheduler(30.0, prior=gamma_prior() if learned else None, host_delay=0.01)
    hosts = [f"h{i % 7}" for i in range(80)]
    rate = None if learned else rates
    scheduler.add(range(80), rate=rate, importance=importance, host=hosts, last=-rng.random(80))
    if not learned:
        scheduler.signals.listen(range(40), quality=SignalQuality(0.5, 0.4))
    drive(scheduler, 10.0, poisson_outcomes(rates, 1))
    scheduler.remove(5)
    scheduler.due(11.0)  # some are on their way
    text = json.dumps(scheduler.state(), allow_nan=False)
    again = Scheduler.restore(json.loads(text))
    for one in (scheduler, again):
        one.add([80], rate=None if learned else 2.0)
        one.signals.receive([7], [12.0])
        one.reweight(9, 3.0)
    first = drive(scheduler, 30.0, poisson_outcomes(np.append(rates, 1.0), 2))
    second = drive(again, 30.0, poisson_outcomes(np.append(rates, 1.0), 2))
    assert len(first[0]) > 500
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])
    assert json.dumps(scheduler.state()) == json.dumps(again.state())


def test_a_restored_scheduler_learns_its_prior_when_the_first_would_have():
    """What was known when a source was added counts as visits do."""
    taught = Scheduler(30.0, prior="learn")
    taught.add(range(20), last=-1.0)
    drive(taught, 20.0, poisson_outcomes(np.full(20, 1.0), 1))
    scheduler = Scheduler(30.0, prior="learn")
    scheduler.add(range(20), last=-1.0, likelihood=[taught.likelihood_of(i) for i in range(20)])
    drive(scheduler, 5.0, poisson_outcomes(np.full(20, 1.0), 2))
    again = Scheduler.restore(json.loads(json.dumps(scheduler.state(), allow_nan=False)))
    assert again._taught == scheduler._taught > again._seen


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 0.0}, "budget must be a finite number above 0"),
        ({"budget": np.inf}, "budget must be a finite number above 0"),
        ({"budget": np.nan}, "budget"),
        ({"budget": 1.0, "objective": "beauty"}, "no objective 'beauty'"),
        ({"budget": 1.0, "grace": 1.0}, "grace belongs to"),
        ({"budget": 1.0, "objective": "currency", "grace": -1.0}, "grace"),
        ({"budget": 1.0, "jitter": 2.0}, "jitter"),
        ({"budget": 1.0, "burst": 0.0}, "burst"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Scheduler(**options)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rate": [1.0, np.nan]}, "source 'b': rate"),
        ({"rate": [1.0, -1.0]}, "source 'b': rate"),
        ({"rate": [1.0, 2.0, 3.0]}, "3 values for 2 sources"),
        ({"rate": 1.0, "importance": [-1.0, 1.0]}, "source 'a': importance"),
        ({"rate": 1.0, "cost": 0.0}, "source 'a': cost"),
        ({"rate": 1.0, "min_period": 5.0, "max_period": 2.0}, "source 'a': min_period"),
        ({"rate": 1.0, "host": ["x"]}, "1 hosts for 2 sources"),
        ({}, "give the rate"),
    ],
)
def test_bad_sources_are_refused_and_nothing_is_added(given, message):
    scheduler = Scheduler(1.0)
    with pytest.raises(InputError, match=message):
        scheduler.add(["a", "b"], **given)
    assert len(scheduler) == 0
    assert scheduler.next_time() == np.inf


def test_bad_calls_are_refused():
    scheduler = Scheduler(1.0)
    scheduler.add(["a"], rate=1.0)
    scheduler.due(3.0)
    for call, message in [
        (lambda: scheduler.due(2.0), "time runs forward"),
        (lambda: scheduler.due(np.nan), "time runs forward"),
        (lambda: scheduler.visited("b", 3.0), "source 'b': this source is not scheduled"),
        (lambda: scheduler.visited("a", 3.0, "perhaps"), "True, False, None or 'failed'"),
        (lambda: scheduler.visited("a", np.nan), "not after the visit before"),
        (lambda: scheduler.add(["a"], rate=1.0), "already scheduled"),
        (lambda: scheduler.add(["c", "c"], rate=1.0), "named twice"),
        (lambda: scheduler.reweight("a", -1.0), "importance"),
        (lambda: scheduler.set_host("h", cap=0.0), "cap of a host"),
        (lambda: scheduler.set_host("h", delay=-1.0), "delay"),
        (lambda: Scheduler.restore({"type": "cheese"}), "not the state"),
        (lambda: SignalQuality(1.5, 0.5), "recall"),
        (lambda: SignalQuality(0.5, 0.0), "precision"),
        (lambda: fit_signals([1.0], [1.0, 2.0], [True]), "three columns"),
    ]:
        with pytest.raises(InputError, match=message):
            call()
    scheduler.visited("a", 3.5, changed=None)
    with pytest.raises(InputError, match="not after"):
        scheduler.visited("a", 3.0, changed=True)


@pytest.mark.parametrize("learned", [False, True])
def test_a_loop_that_asks_now_and_then_spends_the_whole_budget(learned):
    """A backlog makes the price rise. When it is gone, what the savings cannot hold is spent on
    visits before their time, until the price has come down.
    """
    rng, many = np.random.default_rng(0), 2000
    prior = Prior([0.1, 1.0, 4.0], [0.4, 0.4, 0.2])
    scheduler = Scheduler(float(many), prior=prior if learned else None)
    rates = rng.choice([0.1, 1.0, 4.0], many)
    rate = None if learned else rates
    scheduler.add(range(many), rate=rate, last=-2 * rng.random(many))
    now, visits = 0.0, 0
    for step in range(1, 241):
        now = step * 25 / many
        for source in scheduler.due(now, 100):
            scheduler.visited(source, now, bool(rng.random() < rates[source]))
            visits += 1
    assert visits == pytest.approx(240 * 25, rel=0.01)
