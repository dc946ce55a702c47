"""Several observers of one store: one price of a visit, one prior, one budget."""

import asyncio
import math
from itertools import pairwise

import numpy as np
import pytest

from observant.estimation.belief import GRID, Likelihoods, first_prior
from observant.observer.clock import AcceleratedClock
from observant.observer.config import Config
from observant.observer.fleet import Offer, divide
from observant.observer.loop import Observer
from observant.observer.program import add_sources, describe
from observant.observer.schedule import Planned, Schedule
from observant.planning.schedule.learning import Lesson, learn_prior
from observant.store import Posterior, open_store
from observant.store.visit import Visit
from observant.testing import ScriptedFetcher, SimulatedClock, memory_store
from observant.times import DAY

from .patience import in_simulated_time

START, DAYS, BUDGET = 20_000.0, 100.0, 20.0
"""Days since 1970, days, visits a day."""
HOSTS = [(20, 0.5), (10, 3.0), (140, 0.01), (30, 0.05)]
"""Sources of each kind of host, and how often they change a day."""
NAMES = ["cat", "pen", "fox", "sun"]
"""Of the hosts: their shards are far apart."""


def offers(rng, many):
    return [Offer(*np.exp(rng.normal(0, 0.2, 2)), rng.uniform(0.3, 2.0), 0.0) for _ in range(many)]


@pytest.mark.parametrize("seed", range(5))
def test_shares_add_up_to_the_budget_at_one_price(seed):
    rng = np.random.default_rng(seed)
    some = offers(rng, 5)
    budget = sum(offer.spends for offer in some) * 1.1
    shares = [divide(own, some[:k] + some[k + 1 :], budget, 1.0) for k, own in enumerate(some)]
    assert sum(share.budget for share in shares) == pytest.approx(budget, rel=1e-6)
    assert [share.price for share in shares] == pytest.approx([shares[0].price] * 5, rel=1e-6)


def test_one_after_the_other_they_agree_as_all_at_once():
    """Each reads what the others have said before, or since: the price is the same."""
    some = offers(np.random.default_rng(7), 4)
    budget = sum(offer.spends for offer in some)
    at_once = divide(some[0], some[1:], budget, 1.0)
    said = list(some)
    for k in (1, 2, 3, 0):
        share = divide(said[k], said[:k] + said[k + 1 :], budget, 1.0)
        said[k] = Offer(share.spends, share.price, said[k].elasticity)
    assert said[0][:2] == pytest.approx([at_once.spends, at_once.price], rel=1e-6)
    assert sum(offer.spends for offer in said) == pytest.approx(budget, rel=1e-6)


def test_a_thousandfold_difference_is_levelled_step_by_step():
    said = [Offer(1.0, 1e-3, 1.0), Offer(1.0, 1.0, 1.0)]
    for _ in range(12):
        shares = [divide(said[k], [said[1 - k]], 2.0, 1.0) for k in (0, 1)]
        assert sum(share.budget for share in shares) == pytest.approx(2.0)
        said = [Offer(share.spends, share.price, 1.0) for share in shares]
    assert said[0].price == pytest.approx(said[1].price, rel=1e-3)
    assert said[1].spends / said[0].spends == pytest.approx(1000, rel=0.01)


def test_a_price_stays_a_number_however_much_budget_there_is():
    """An observer gets back what it had lost, again and again, where nobody needs all of it."""
    cheap, dear = Offer(1e-6, math.exp(-600), 0.1), Offer(1e6, math.exp(600), 0.1)
    for own, theirs in ((cheap, []), (cheap, [cheap]), (dear, [dear] * 3), (cheap, [dear])):
        price = own.price
        for _ in range(50):
            price = divide(own._replace(price=price), theirs, 1.0, 1.0).price
            assert math.exp(-601) < price < math.exp(601)
            assert Offer.of({"offer": own._replace(price=price)}) is not None


def test_new_sources_come_first_wherever_they_are():
    many, few = Offer(5.0, 1.0, 1.0, new=1000.0), Offer(5.0, 1.0, 1.0)
    assert divide(many, [few], 10.0, 1.0).budget == pytest.approx(10.0)
    assert divide(few, [many], 10.0, 1.0).budget == pytest.approx(0.0, abs=1e-4)
    a_bit = many._replace(new=5.0)  # half of what is spent until the next exchange
    assert divide(a_bit, [few], 10.0, 1.0).budget == pytest.approx(7.5)
    assert divide(few, [a_bit], 10.0, 1.0)[:2] == pytest.approx((2.5, 5.0))


@pytest.mark.parametrize(
    "given", [None, [], [1.0], "abcd", [1.0, 0.0, 1.0, 0.0], [1, math.inf, 1, 0], [1, 1, 1, -1, 0]]
)
def test_an_offer_that_makes_no_sense_is_none(given):
    assert Offer.of({"offer": given}) is None
    assert Offer.of({}) is None


def test_offers_are_read_from_the_store(store):
    now = START * DAY
    assert store.leases.exchange("a", [1.0, 2.0, 3.0, 4.0], now - 10, now) == []
    store.leases.take("a", 8, now + 1, offer=[5.0, 6.0, 7.0, 8.0])
    (seen,) = store.leases.exchange("b", None, now - 10, now + 2)
    assert (seen.name, Offer.of(seen.detail)) == ("a", Offer(5.0, 6.0, 7.0, 8.0))
    (seen,) = store.leases.exchange("a", None, now - 10, now + 3)
    assert (seen.name, Offer.of(seen.detail)) == ("b", None)
    store.journal.add("b", "stop", now=now + 4)
    assert store.leases.exchange("a", None, now - 10, now + 5) == []


# -- schedules that share -------------------------------------------------------------------------


def uneven_world(seed):
    """Updates of pages of hosts that differ a hundredfold, by name."""
    rng = np.random.default_rng(seed)
    updates = {}
    for (many, rate), host in zip(HOSTS, NAMES, strict=True):
        for k in range(many):
            own = rate * math.exp(rng.normal(0, 0.7))
            times = START + np.sort(rng.uniform(0, DAYS, rng.poisson(own * DAYS)))
            updates[f"https://{host}.example/{k:02}"] = times
    return updates


def test_a_price_found_while_others_have_the_whole_budget_is_that_of_ordinary_times():
    """Sources of others that are new take all of the budget for a while; and then somebody learns a
    prior, or adds a source, and the price is found anew.
    """
    schedule = Schedule(10.0, start=START * DAY)
    last = (START - 1) * DAY
    schedule.add(
        Planned(f"https://cat.example/{k}", "cat.example", last_at=last) for k in range(50)
    )
    before = schedule.price
    share = divide(schedule.offer(), [Offer(10.0, before, 1.0, new=1e6)], 20.0, 2 / DAY)
    assert share.budget < 1e-3
    schedule.take(share)
    for _ in schedule.settling():
        pass
    assert schedule.price == pytest.approx(before, rel=0.1)
    assert schedule.budget == share.budget


def visit_all(updates, parts, *, shared=False, lost_at=math.inf, taken_at=math.inf):
    """Visits (source, day) of schedules that have these hosts each, and the budget together.

    The first is lost on one day, and the second takes its sources up on another.
    """
    budget, every, exchanged = BUDGET / len(parts), 0.5, START
    schedules = [Schedule(budget, start=START * DAY, seed=k) for k in range(len(parts))]
    for schedule, hosts in zip(schedules, parts, strict=True):
        schedule.add(Planned(x, x.split("/")[2]) for x in updates if x.split("/")[2][:3] in hosts)
    alive, last, seen = list(schedules), {}, []
    while True:
        schedule = min(alive, key=Schedule.next_at)
        now = schedule.next_at() / DAY
        if shared and now >= exchanged:
            now, exchanged = exchanged, exchanged + every
            if now >= lost_at and len(alive) == len(schedules):
                del alive[0]
            if now >= taken_at:
                taken_at = math.inf
                lost = [x for x in updates if x in schedules[0]]
                alive[0].add(
                    Planned(
                        x,
                        x.split("/")[2],
                        last_at=schedules[0].last_at(x),
                        likelihood=schedules[0].likelihood(x),
                    )
                    for x in lost
                )
            offers = [own.offer() for own in alive]
            for k, own in enumerate(alive):
                own.take(divide(offers[k], offers[:k] + offers[k + 1 :], BUDGET, every))
            continue
        if now > START + DAYS:
            return seen
        for name in schedule.due(now * DAY, 1):
            since = last.get(name, math.nan)
            between = (updates[name] > since) & (updates[name] <= now)
            changed = None if math.isnan(since) else bool(between.any())
            schedule.visited(name, now * DAY, changed)
            last[name] = now
            seen.append((name, now))
            if schedule.wants_to_learn:
                schedule.learn()


def fresh_share(updates, seen):
    """Share of the second half of the time in which the copies were up to date."""
    half, end, current = START + DAYS / 2, START + DAYS, 0.0
    for name, times in updates.items():
        own = [at for source, at in seen if source == name]
        for at, after in pairwise([*own, end]):
            if after > half:
                missed = times[(times > at) & (times <= after)]
                current += max((missed[0] if len(missed) else after) - max(at, half), 0.0)
    return current / (len(updates) * (end - half))


@pytest.mark.slow
def test_four_schedules_with_one_price_are_as_good_as_one():
    """Also when one is lost at half-time, and its sources are taken up a day later.

    Which visits are made differs, and with it freshness, by half a point; so a point is allowed.
    """
    updates, parts = uneven_world(1), [[name] for name in NAMES]
    one = visit_all(updates, [NAMES])
    apart = visit_all(updates, parts)
    four = visit_all(updates, parts, shared=True)
    taken = visit_all(updates, parts, shared=True, lost_at=START + 50, taken_at=START + 51)
    for seen in (one, four, taken):
        assert len(seen) == pytest.approx(BUDGET * DAYS, rel=0.01)
    goal = fresh_share(updates, one) - 0.01
    assert fresh_share(updates, four) > goal
    assert fresh_share(updates, taken) > goal
    assert fresh_share(updates, apart) < goal - 0.02  # what equal shares of the budget achieve


# -- observers ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_observers_of_one_store_share_price_budget_and_prior(tmp_path):
    """One of them is killed: the other has all of it."""
    updates = uneven_world(1)
    config = Config(
        first_visits=0,
        budget=f"{BUDGET}/day",
        host_delay=0,
        spot_checks=0,
        defaults={"compare": {"learn_noise": False}},
    )
    days, seen, kept = 24.0, [], {}

    async def main():
        ticks = asyncio.get_running_loop().time
        clock = AcceleratedClock(speed=5_000.0, ticks=ticks, start=START * DAY)
        with open_store(tmp_path / "o.db", durable=False, clock=clock.time) as store:
            sources = [describe(x, kind="callable", host=x.split("/")[2]) for x in updates]
            add_sources(store, config, sources)

            def made(name):
                return lambda _: f"{np.searchsorted(updates[name] * DAY, clock.time())} updates"

            functions = {name: made(name) for name in updates}
            observers = [
                Observer(store, config, clock=clock, functions=functions, name=name, lease=20.0)
                for name in ("first", "second")
            ]
            for observer in observers:
                observer.ticks = ticks
            tasks = [
                asyncio.create_task(observer.run(until=(START + days) * DAY, on_visit=seen.append))
                for observer in observers
            ]
            await asyncio.sleep((days - 8) * DAY / clock.speed)
            for _ in range(200):  # one may have learned its prior, and not told its price yet
                offers = [o.schedule.offer() for o in observers]
                budgets = [o.schedule.budget for o in observers]
                if abs(offers[0].price / offers[1].price - 1) < 0.1:
                    break
                await asyncio.sleep(0.5)
            kept["two"] = [(len(o.watchlist), o.schedule.price) for o in observers]
            kept["budgets"] = budgets
            kept["taught"] = len(observers[1].prior._seen_elsewhere()[0])
            # As if its process was killed: it says no more, and gives nothing back.
            observers[0].patience.call = lambda *_: asyncio.sleep(1e9)
            tasks[0].cancel()
            await tasks[1]
            kept["one"] = len(observers[1].watchlist), observers[1].schedule.budget

    in_simulated_time(main())
    (many, first), (few, second) = kept["two"]
    assert many + few == len(updates)
    assert max(many, few) > 3 * min(many, few) > 0  # shards are equal, what is in them is not
    assert first == pytest.approx(second, rel=0.1)
    assert sum(kept["budgets"]) == pytest.approx(BUDGET, rel=0.1)  # one after the other
    assert kept["taught"] > 0.9 * many
    assert kept["one"] == (len(updates), BUDGET)
    # Half a lease long nobody knew that one of them was dead.
    unknown = 10.0 * 5_000.0 / DAY / days
    assert 0.97 - unknown < len(seen) / BUDGET / days < 1.03


def test_the_prior_is_that_of_all_sources():
    """What others have seen counts as if we had; for a sample of it, a sample of ours counts."""
    rng = np.random.default_rng(3)
    everybody = Likelihoods.empty(400)
    for row in range(400):
        rate = 0.05 if row < 300 else 2.0
        for changed in rng.random(12) < 1 - math.exp(-rate):
            everybody.learn(row, 1.0, bool(changed))

    def lesson(own, others, one_in=1):
        parts = [Likelihoods(everybody.values[x], everybody.place[x]) for x in (own, others)]
        rows = len(parts[0])
        nobody = np.full(rows, -1)
        given = (np.full(rows, -1.0), nobody, np.array([-1]), first_prior())
        return Lesson(parts[0], *given, parts[1], one_in)

    whole = learn_prior(lesson(slice(None), slice(0))).prior[0]
    split = learn_prior(lesson(slice(0, 300), slice(300, None))).prior[0]
    assert split == pytest.approx(whole, abs=1e-6)
    sampled = learn_prior(lesson(slice(0, 300), slice(300, None, 2), 2)).prior[0]
    fast = GRID > 0.3
    assert sampled[fast].sum() == pytest.approx(whole[fast].sum(), abs=0.08)
    alone = learn_prior(lesson(slice(0, 300), slice(0))).prior[0]
    assert alone[fast].sum() < 0.1


def test_likelihoods_are_sampled_from_shards(store):
    names = [f"https://{name}.example/{k}" for name in NAMES for k in range(4)]
    add_sources(store, Config(), [describe(name) for name in names])
    rows = {row.source.name: row.source for row in store.sources.scheduled()}
    assert store.sources.sampled_likelihoods(range(64)) == []
    for name in names:
        store.visits.record(
            Visit(source=name, started_at=1e9, ended_at=1e9, outcome="first"),
            posterior=Posterior(data=name.encode(), rate=1.0, rate_low=0.5, rate_high=2.0),
        )
    own = {rows[name].shard for name in names[:8]}
    rest = [name for name in names if rows[name].shard in own]
    found = store.sources.sampled_likelihoods(own)
    assert sorted(found) == sorted(name.encode() for name in rest)
    some = store.sources.sampled_likelihoods(own, 3)
    assert [name for name in rest if rows[name].id % 3 == 0] == [data.decode() for data in some]


def test_who_takes_over_keeps_the_shortest_period_after_a_visit_that_saw_nothing():
    """No schedule knows a failed visit but that of the observer that made it; the store does.

    What the guard refused asked nobody: it is due at once, since its network may be allowed now.
    """
    clock = SimulatedClock()
    config = Config(budget="100/s", defaults={"min_period": "1h"})
    pages = page, other, refused = [f"https://a.example/{n}" for n in (1, 2, 3)]
    web = ScriptedFetcher({name: ["text"] for name in pages}, clock)

    def record(store, name, hours, outcome, **more):
        at = clock.time() - 3600 * hours
        seen = {"started_at": at, "ended_at": at, "outcome": outcome}
        store.visits.record(Visit(source=name, **seen, **more), now=clock.time())

    async def begin(store):
        async with web:
            observer = Observer(store, config, clock=clock, transport=web)
            await observer._begin()
            due = [observer.schedule.due_at(name) for name in pages]
            await observer._finish()
            return due

    with memory_store(clock) as store:
        add_sources(store, config, [describe(name) for name in pages])
        for name in (page, other):
            record(store, name, 9.0, "first")
        record(store, page, 0.25, "failed", error="timeout")
        record(store, refused, 0.25, "failed", error="refused-address")
        failed, good, allowed = in_simulated_time(begin(store))
    assert failed == pytest.approx(clock.time() + 0.75 * 3600, abs=60)
    assert good <= clock.time()
    assert allowed <= clock.time()
