"""What a replay measures is what the observer does: the same visits, in the same order."""

import asyncio
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from benchmarks.new_pages import errors as new_page_errors
from benchmarks.policies import known_mix
from scipy.special import exp1

from observant.errors import InputError
from observant.observer.clock import AcceleratedClock
from observant.observer.config import Config
from observant.observer.loop import Observer
from observant.observer.program import add_sources, describe
from observant.observer.schedule import Planned, Schedule
from observant.planning.policy import ObservantPolicy, make_scheduler
from observant.planning.schedule import Scheduler
from observant.simulation import world_of
from observant.simulation.traces import Trace
from observant.store import open_store
from observant.times import DAY

from .patience import in_simulated_time

START, DAYS, BUDGET, SEED = 20_000.0, 60.0, 24.0, 3
"""Days since 1970, days, visits a day."""


def recorded_world():
    """Sixty pages in three folders that change at rates of their own."""
    rng = np.random.default_rng(1)
    names = [f"https://{k % 3}.example/a/{k:02}" for k in range(60)]
    rates = np.exp(rng.normal(np.log(0.1), 1.0, len(names)))
    numbers = rng.poisson(rates * DAYS)
    times = START + rng.uniform(0, DAYS, numbers.sum())
    owner = np.repeat(names, numbers)
    silent = [(name, np.nan) for name in names]
    source, when = zip(*zip(owner, times, strict=True), *silent, strict=True)
    return Trace.from_columns(source, when, start=START, end=START + DAYS).grouped("prefix")


def watched(trace, order, tmp_path):
    """The visits of a live observer over the same world: names and days."""
    config = Config(
        first_visits=0,  # they are within the budget of the replay
        budget=f"{BUDGET}/day",
        host_delay=0,
        spot_checks=0,
        defaults={"compare": {"learn_noise": False}},
    )
    # Sources are asked in the order of their addition where they are equal; that of the replay.
    names = [trace.sources[k] for k in order]
    updates = {name: DAY * trace.updates[k] for name, k in zip(names, order, strict=True)}
    seen = []

    async def main():
        now = asyncio.get_running_loop().time
        begin = START - 0.5 / BUDGET  # a replay visits in the middle of a slot, we at its end
        clock = AcceleratedClock(speed=20_000.0, ticks=now, start=begin * DAY)

        def made(name):
            return lambda _: f"version {np.searchsorted(updates[name], clock.time())} of it"

        with open_store(tmp_path / "o.db", durable=False, clock=clock.time) as store:
            add_sources(store, config, [describe(name, kind="callable") for name in names])
            functions = {name: made(name) for name in names}
            observer = Observer(
                store, config, clock=clock, functions=functions, seed=SEED, lease=1e6
            )
            await observer.run(
                until=(START + DAYS) * DAY, on_visit=lambda v: seen.append((v.source, v.started_at))
            )

    in_simulated_time(main())
    return [name for name, _ in seen], np.array([at for _, at in seen]) / DAY


def replay_of(trace):
    """The visits of the replay, and the order in which it adds the sources."""
    world = world_of(trace, budget=BUDGET, seed=SEED, first_visit="counted")
    found = ObservantPolicy().replay(world)
    order = world.rng(1).permutation(world.sources)
    return [trace.sources[k] for k in found.source], found.time, order


def fresh_share(trace, names, when):
    """Share of the time, from the first visit on, in which the copies were up to date."""
    current = total = 0.0
    for k, name in enumerate(trace.sources):
        updates = trace.updates[k]
        own = [at for seen, at in zip(names, when, strict=True) if seen == name]
        for at, after in pairwise([*own, START + DAYS]):
            missed = updates[(updates > at) & (updates <= after)]
            current += (missed[0] if len(missed) else after) - at
            total += after - at
    return current / total


def test_the_schedule_of_the_observer_makes_the_visits_of_the_replay():
    """Asked for one source at the same moments, it names the same ones, to the last."""
    trace = recorded_world()
    wanted, _, order = replay_of(trace)
    schedule = Schedule(BUDGET, start=(START - 0.5 / BUDGET) * DAY, seed=SEED)
    schedule.add([Planned(name, "") for name in (trace.sources[k] for k in order)])
    updates = {name: trace.updates[k] for k, name in enumerate(trace.sources)}
    last, visits = {}, []
    while len(visits) < len(wanted):
        now = schedule.next_at() / DAY
        for name in schedule.due(now * DAY, 1):
            since = last.get(name)
            changed = None
            if since is not None:
                changed = bool(((updates[name] > since) & (updates[name] <= now)).any())
            schedule.visited(name, now * DAY, changed)
            last[name] = now
            visits.append(name)
            if schedule.wants_to_learn:
                schedule.learn()
    assert visits == wanted


@pytest.mark.slow
def test_the_observer_does_what_the_replay_does(tmp_path):
    """A live observer asks more often and learns beside its visits, so some visits change places.
    It begins alike, spends the same, visits everybody as often, and keeps copies as fresh.
    """
    trace = recorded_world()
    wanted, times, order = replay_of(trace)
    live, when = watched(trace, order, tmp_path)
    assert len(live) == len(wanted)
    assert live[: len(order)] == wanted[: len(order)]
    np.testing.assert_allclose(when, times, atol=60 / DAY)
    here, there = (Counter(visits) for visits in (live, wanted))
    apart = [abs(here[name] - there[name]) for name in trace.sources]
    assert max(apart) <= 5
    assert sum(apart) <= 0.03 * len(wanted)
    assert fresh_share(trace, live, when) == pytest.approx(
        fresh_share(trace, wanted, times), abs=0.01
    )


def folders_of_two_rates():
    """Forty pages each of a busy and a quiet folder."""
    rng = np.random.default_rng(4)
    source, time = [], []
    for folder, rate in (("busy", 0.5), ("quiet", 0.01)):
        for page in range(40):
            own = rng.uniform(0, 365, 1 + rng.poisson(365 * rate))
            source += [f"site:{folder}/{page}"] * len(own)
            time += own.tolist()
    return Trace.from_columns(source, time).window(0, 365).grouped("prefix")


def test_a_prior_that_is_given_is_used_as_it_is():
    """Of a folder of its own a new source has the mix of that folder, from its first day."""
    given = known_mix(folders_of_two_rates(), 10.0)
    assert set(given.groups) == {"site:busy", "site:quiet"}
    scheduler = make_scheduler(8.0, prior=given)
    scheduler.add(["one", "other"], group=["site:busy", "site:quiet"])
    rates = scheduler.beliefs().summary(())[0]
    assert rates[0] == pytest.approx(0.5, rel=0.3)
    assert 0.005 < rates[1] < 0.03  # drawn to the mix of all
    for day in range(1, 40):
        scheduler.visited("other", float(day), day > 1)
    assert not scheduler.wants_to_learn
    assert scheduler.prior is given


def test_what_a_folder_tells_of_a_new_page():
    """Without a visit, the folder says what the collection cannot; and so does the address."""
    collection, folder, address = new_page_errors(folders_of_two_rates())[0]
    assert folder < 0.6 * collection
    assert address < 0.6 * collection


def test_an_objective_of_ones_own_is_that_of_the_same_penalty():
    """Freshness given as a function makes the visits of freshness, and delay those of delay."""
    trace = recorded_world()
    for name, penalty in (("freshness", lambda x: -np.expm1(-x)), ("delay", lambda x: x)):
        visits = [
            ObservantPolicy(objective=one).replay(
                world_of(trace, budget=BUDGET, start=START, end=START + DAYS, seed=SEED)
            )
            for one in (name, penalty)
        ]
        counts = [np.bincount(one.source, minlength=60) for one in visits]
        assert np.corrcoef(*counts)[0, 1] > 0.99
        assert (visits[0].source == visits[1].source).mean() > 0.9


def test_an_objective_of_ones_own_is_checked():
    with pytest.raises(InputError, match="rise"):
        make_scheduler(1.0, objective=np.cos)
    with pytest.raises(InputError, match="prior"):
        Scheduler(1.0, objective=np.sqrt)
    with pytest.raises(InputError, match="grace"):
        make_scheduler(1.0, objective=np.sqrt, grace=1.0)
    own = make_scheduler(1.0, objective=np.sqrt)
    own.add(["a"])
    with pytest.raises(InputError, match="saved"):
        own.state()


def test_signals_count_for_an_objective_of_ones_own_as_for_the_same_one_with_a_name():
    """Harmonic staleness is Ein(λs) = E₁(λs) + ln λs + γ."""
    due = []
    for one in ("harmonic", lambda x: exp1(x) + np.log(x) + np.euler_gamma):
        scheduler = make_scheduler(2.0, objective=one)
        scheduler.add(["a", "b"], last=0.0)
        scheduler.signals.listen(["a", "b"], "feed", "here")
        scheduler.signals.receive(["b"], [0.5], "feed", "here")
        due.append([scheduler.due_at(name) for name in ("a", "b")])
    assert due[0][1] < due[0][0]
    assert due[1] == pytest.approx(due[0], rel=0.02)
