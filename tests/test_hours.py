"""The budget of a day is spent at the hours at which visits are worth most."""

import asyncio
import json
from itertools import pairwise

import numpy as np
import pytest

from observant.observer.config import Config
from observant.observer.loop import Observer
from observant.planning.phases import mean_delay
from observant.planning.policy import ObservantPolicy, make_scheduler
from observant.planning.schedule import hours
from observant.planning.schedule.pace import joined, visits_by_hour
from observant.planning.schedule.scheduler import Scheduler
from observant.simulation import simulate
from observant.simulation.traces import Trace
from observant.store import open_store

EVEN = np.full(24, 1 / 24)
OFFICE = np.repeat([0.1, 1.0, 0.1], [8, 10, 6])
DAYS = 60


def history(busy, seed, sources=40, rates=(0.5, 2.0), burst=1):
    """Sources that change at these hours; each update touches so many of them."""
    rng = np.random.default_rng(seed)
    through = np.concatenate([[0.0], np.cumsum(busy) / np.sum(busy)])
    source, time = [], []
    for i in range(0, sources, burst):
        many = rng.poisson(rng.choice(rates) * DAYS)
        inside = np.interp(rng.random(many), through, np.arange(25) / 24)
        at = np.sort(rng.integers(0, DAYS, many) + inside)
        for j in range(i, i + burst):
            source += [f"s{j:03}"] * many
            time += (at + 1e-4 * (j - i)).tolist()
    return Trace.from_columns(source, time)


def staleness(trace, budget, seed=1, **options):
    answer = simulate(
        trace,
        [ObservantPolicy(hours=False, name="even"), "observant"],
        budget=budget * len(trace),
        start=0,
        end=DAYS,
        score_from="half",
        seeds=[seed],
        **options,
    )
    return tuple(1 - answer[name].metrics["freshness"] for name in ("observant", "even"))


@pytest.mark.parametrize("n", [1.0, 4.0, 16.0])
def test_time_that_counts_visits_and_back(n):
    share, _ = hours.best_hours(OFFICE, n)
    through = hours.through_at(share)
    times = np.random.default_rng(1).uniform(20_000, 20_010, 200)
    there = np.array([hours.visit_time(through, t) for t in times])
    back = np.array([hours.real_time(through, v) for v in there])
    assert share.sum() == pytest.approx(1)
    assert np.abs(back - times).max() < 1e-9
    assert (np.diff(there[np.argsort(times)]) > 0).all()
    whole = [hours.visit_time(through, day) for day in range(3)]
    assert whole == [0, 1, 2]  # every day has its budget


def test_the_wait_is_that_of_drawn_visits():
    share, wait = hours.best_hours(OFFICE, 4.0)
    through = hours.through_at(share)
    drawn = []
    for n in (0.7 * 4, 4.0, 1.4 * 4):
        phases = (np.arange(200) + 0.5) / 200
        visits = np.arange(0, 30) / n  # in the time that counts visits, over days enough
        for phase in phases:
            at = np.array([hours.real_time(through, v + phase / n) for v in visits])
            u = 1 + (np.arange(240) + 0.5) / 240
            following = at[np.searchsorted(at, u)]
            drawn.append(np.average(following - u, weights=np.repeat(OFFICE, 10)))
    assert wait == pytest.approx(np.mean(drawn), rel=0.02)


def test_the_best_hours_are_after_the_busy_ones():
    even = hours.mean_wait(OFFICE, EVEN, 1.0)
    share, wait = hours.best_hours(OFFICE, 1.0)
    assert wait < 0.85 * even
    assert share[16:20].min() > 2 / 24
    assert share[6:12].max() < 0.5 / 24
    assert share.min() > 0.2 / 24
    assert share.max() <= 3.01 / 24
    # No hours of a whole collection are as good as a clock of one's own.
    assert wait > mean_delay([18 / 24], OFFICE, period=1)


def test_where_all_hours_are_alike_nothing_is_moved():
    for n in hours.PACES:
        _, wait = hours.best_hours(np.ones(24), n)
        assert wait > 0.99 * hours.mean_wait(np.ones(24), EVEN, n)


@pytest.mark.parametrize("dated", [False, True])
def test_the_hours_are_learned_from_visits(dated):
    """From visits at random, the shape of the day; a change is known to be between two of them."""
    rng = np.random.default_rng(2)
    daily, rate = np.zeros(1, hours.DAILY), 3.0
    busy = OFFICE / OFFICE.mean()
    for _ in range(60):
        visits = 100 + np.cumsum(rng.exponential(0.3, 400))
        days = rng.uniform(100, visits[-1], rng.poisson(3 * rate * (visits[-1] - 100)))
        kept = days[rng.random(len(days)) < busy[(days % 1 * 24).astype(int)] / 3]
        updates = np.sort(kept)
        for since, now in pairwise(visits):
            last = np.searchsorted(updates, now) - 1
            changed = last >= 0 and updates[last] > since
            age = now - updates[last] if dated and last >= 0 else np.nan
            if dated or now - since < 1:
                chance = -np.expm1(-rate * (now - since))
                hours.note_hours(daily[0], since, now, changed, chance, age)
    often = slice(1, None)  # of intervals below half a day: longer ones say next to nothing
    counts = (daily[name][0, often].sum(axis=(0, 1)) for name in ("found", "expected"))
    found = hours.hour_shape(*counts)
    inside = [hour for hour in range(24) if hour not in {7, 8, 17, 18}]  # neighbours are mixed
    if dated:
        assert np.abs(np.log(found / busy))[inside].max() < 0.25
    else:  # windows of seven hours on average: the edges blur, and the night looks less quiet
        assert found[:7].max() < 0.75
        assert found[9:17].min() > 1.4
    assert np.corrcoef(found, busy)[0, 1] > 0.9


def test_sources_teach_the_pace_at_which_they_are_visited_and_no_other():
    """Fast ones that change in the morning have the hours of fast ones; slow ones their own."""
    rng, scheduler = np.random.default_rng(4), make_scheduler(100.0)
    scheduler.add([f"fast {k}" for k in range(10)], last=0.0, max_period=0.1, min_period=0.05)
    scheduler.add([f"slow {k}" for k in range(90)], last=0.0, max_period=1.0, min_period=0.9)
    daily = scheduler._state.daily[0]
    for day in range(1, 60):
        for _ in range(60):
            fast, slow = day + rng.uniform(8, 10) / 24, day + rng.uniform(18, 20) / 24
            hours.note_hours(daily, fast - 0.01, fast + 0.02, True, 0.3, 0.02)
            hours.note_hours(daily, slow - 0.4, slow + 0.55, True, 0.3, 0.55)
            quiet = day + rng.uniform()
            hours.note_hours(daily, quiet - 0.03, quiet, False, 0.3, 0.03)
            hours.note_hours(daily, quiet - 0.95, quiet, False, 0.3, 0.95)
    scheduler.pace.follow(61.0)
    busiest = [int(np.argmax(np.diff(through))) for through in daily["through"]]
    assert 8 <= busiest[2] <= 11
    assert 18 <= busiest[0] <= 21
    assert np.ptp(np.diff(daily["through"][1])) < 1e-12  # nobody is visited at that pace


def test_an_age_of_no_time_says_nothing_of_the_hours():
    daily = np.zeros(1, hours.DAILY)
    hours.note_hours(daily[0], 10.0, 13.5, True, 0.5, 0.0)
    assert not daily["found"].any()


def test_less_is_stale_where_there_are_hours():
    """Over seeds 0.87 from visits alone, ±0.04 for one seed, and 0.83 ±0.01 where ages are told."""
    ratios = [np.divide(*staleness(history(OFFICE, seed), 4, seed)) for seed in (1, 2)]
    assert np.mean(ratios) < 0.94
    ours, even = staleness(history(OFFICE, 2), 1, evidence="dated")
    assert ours < 0.88 * even


def test_nothing_is_lost_where_there_are_none():
    ratios = [np.divide(*staleness(history(np.ones(24), seed), 4, seed)) for seed in (1, 2)]
    assert max(ratios) < 1.05
    ours, even = staleness(history(np.ones(24), 3, burst=20, rates=(0.2,)), 4)
    assert ours < 1.05 * even  # everything at once, at any hour


def learned(budget=160.0, **options):
    """A scheduler that has found out the hours, from ages that are told."""
    scheduler = make_scheduler(budget, burst=1.0, **options)
    scheduler.add(range(40), last=0.0)
    rng = np.random.default_rng(4)
    through = np.concatenate([[0.0], np.cumsum(OFFICE) / OFFICE.sum()])
    now = 0.0
    while now < 8:
        now = max(scheduler.next_time(), now)
        for source in scheduler.due(now):
            update = np.floor(now) + np.interp(rng.random(), through, np.arange(25) / 24)
            age = now - update if update < now else now - update + 1
            scheduler.visited(source, now, age < now - scheduler.last_visit(source), age)
    return scheduler


def spent_by_hour(scheduler, days=4):
    """Visits at each hour of so many days."""
    count, now = np.zeros(24), scheduler.now
    until = np.floor(now) + 1 + days
    began = np.floor(now) + 1
    while True:
        now = max(scheduler.next_time(), now)
        if now >= until:
            return count
        for source in scheduler.due(now):
            scheduler.visited(source, now, changed=False)
            count[int(now % 1 * 24)] += now >= began


def test_every_day_has_its_budget():
    scheduler = learned()
    assert scheduler.pace.hours.visits.max() > 1.3
    scheduler.pace.follows = False  # no other hours meanwhile
    before = scheduler.spent, scheduler.now
    count = spent_by_hour(scheduler)
    assert count.sum() == pytest.approx(4 * 160, rel=0.01)
    planned = scheduler.pace.hours.visits / 24
    assert np.abs(count / count.sum() - planned).max() < 0.02
    passed = scheduler.now - before[1]
    assert scheduler.spent - before[0] == pytest.approx(160 * passed, rel=0.02)


def test_with_few_visits_all_hours_are_alike_again():
    scheduler = learned()
    assert scheduler.pace.hours.visits.max() > 1.3
    scheduler.set_budget(0.1 * 40)
    scheduler.due(scheduler.now + 1)
    assert (scheduler.pace.hours.visits == 1).all()
    count = spent_by_hour(scheduler, days=20)
    assert count.sum() == pytest.approx(20 * 4, rel=0.03)


def test_without_hours_a_day_is_spent_evenly():
    scheduler = learned(hours=False)
    assert (scheduler.pace.hours.visits == 1).all()
    count = spent_by_hour(scheduler)
    assert np.abs(24 * count / count.sum() - 1).max() < 0.1


def test_what_was_learned_is_kept():
    scheduler = learned()
    again = Scheduler.restore(json.loads(json.dumps(scheduler.state())))
    assert again.next_time() == scheduler.next_time()
    assert (again.pace.hours.visits == scheduler.pace.hours.visits).all()
    fresh = make_scheduler(160.0)
    fresh.pace.restore(kept_by(scheduler))
    assert np.abs(fresh.pace.hours.busy - scheduler.pace.hours.busy).max() < 0.01


COUNTS = (2, len(hours.PACES), 2, 24)


def kept_by(scheduler, kept=None, now=8.0):
    """What a store holds after a scheduler has shared what it learned; it goes on from there."""
    pace = scheduler.pace
    kept = json.loads(json.dumps(joined(kept, pace.news(), now, pace.visits)))
    pace.restore(kept)
    return kept


def test_observers_add_up_what_they_learn():
    one, other = learned(), learned()
    alone = one.pace.news()
    kept = kept_by(other, kept_by(one))
    kept = kept_by(one, kept)  # it has nothing new, and hears of the other
    for scheduler in (one, other):
        assert scheduler.pace.news().max() == 0
        found = [scheduler._state.daily[name][0] for name in ("found", "expected")]
        assert np.array(found) == pytest.approx(2 * alone, abs=1e-4)
    again = make_scheduler(160.0)
    again.pace.restore(kept)  # a restart takes up all, and adds nothing twice
    assert kept_by(again, kept) == kept | {"visits": None}


def test_what_is_learned_while_it_is_kept_is_news():
    one = learned()
    sent = one.pace.news()
    kept = joined(None, sent, 8.0)
    one._state.daily["found"][0, 1, 0, 5] += 3.0  # meanwhile
    one.pace.restore(kept, one.pace.news() - sent)
    assert one.pace.news().sum() == pytest.approx(3.0)
    both = joined(kept, one.pace.news(), 8.0)["found"]
    assert both[1][0][5] == pytest.approx(sent[0, 1, 0, 5] + 3)


def test_a_collection_forgets_half_once_a_day():
    counts = np.full(COUNTS, 10_000.0)
    kept = joined(None, counts, 8.0)
    for now in (8.5, 9.0, 9.1, 9.2):  # two observers, both after midnight
        kept = joined(kept, np.zeros(COUNTS), now)
    assert np.array(kept["found"]) == pytest.approx(5000.0)
    few = joined(joined(None, counts / 100, 8.0), np.zeros(COUNTS), 9.0)
    assert np.array(few["found"]) == pytest.approx(100.0)


def test_with_many_changes_a_day_the_morning_is_known_in_the_evening():
    """A hundred thousand comparisons a day: what was learned at one hour stays for the others."""
    scheduler, busy = make_scheduler(1.0), np.where(np.arange(24) < 12, 1.5, 0.5)
    daily = scheduler._state.daily[0]
    for hour in range(48):
        for k in range(2000):
            changed = k % 20 < 10 * busy[hour % 24]
            hours.note_hours(daily, (hour + 0.2) / 24, (hour + 0.8) / 24, changed, 0.5, -1.0)
    scheduler.pace.follow(2.0)
    shape = scheduler.pace.hours.busy
    assert shape[2:10].min() > 1.3
    assert shape[14:22].max() < 0.7


def counts_of(**given):
    ones = np.ones(COUNTS[1:]).tolist()
    return {"day": 1, "found": ones, "expected": ones, **given}


@pytest.mark.parametrize(
    "kept",
    [
        *(None, [], {}, "hours", [[1, 2], [3, 4]]),
        *(counts_of(day="x"), counts_of(found=[[[-1.0] * 24] * 2] * 3)),
        *(counts_of(found=[[1.0] * 24] * 2), counts_of(expected=[[["nan"] * 24] * 2] * 3)),
    ],
)
def test_what_is_no_hours_is_left_aside(kept):
    scheduler = make_scheduler(1.0)
    scheduler.pace.restore(kept)
    assert (scheduler.pace.hours.busy == 1).all()
    news = np.ones(COUNTS)
    assert joined(kept, news, 3.0) == joined(None, news, 3.0)


@pytest.mark.parametrize("visits", [None, [1.0] * 23, [[1.0] * 24], ["x"] * 24, [-1.0] * 24])
def test_what_is_no_share_of_a_day_is_not_shown(visits):
    assert visits_by_hour(counts_of(visits=visits)) == []
    assert visits_by_hour(visits) == []


def test_two_observers_of_a_store_share_what_they_learn():
    async def main():
        with open_store(":memory:") as store:
            one, other, again = (Observer(store, Config(), name=name) for name in "abc")
            for each in (one, other):
                await each._restore()
                pace = each.schedule.pace
                pace.restore(pace.kept, np.full(COUNTS, 7.0))  # learned since then
            for each in (one, other, one):
                await each._save()
            await again._restore()
            return [o.schedule.pace._counts() for o in (one, other, again)]

    assert np.array(asyncio.run(main())) == pytest.approx(14.0)
