"""What visits cost: measured, kept, and spent by plan, schedule, replay and observer."""

import asyncio
import time
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec.structs import replace

from observant import plan, simulate
from observant.errors import InputError, UnitError
from observant.observer.browser.need import RENDERED
from observant.observer.clock import AcceleratedClock
from observant.observer.config import Config, SourceSettings
from observant.observer.content import Comparer
from observant.observer.costs import Spent, VisitCosts, cost_of
from observant.observer.fetched import Fetched
from observant.observer.loop import Observer
from observant.observer.program import add_sources, describe
from observant.observer.schedule import Planned, Schedule
from observant.observer.tasks import read
from observant.processes import Poisson
from observant.service.collection import NewSource
from observant.service.plan import what_if
from observant.service.studies import plan_study
from observant.simulation.comparison import world_of
from observant.simulation.policies import Clairvoyant, UniformPolicy, named
from observant.simulation.replay import replay
from observant.simulation.traces import Trace, read_trace, write_trace
from observant.store import Entry, open_store
from observant.store.visit import Comparison, Visit
from observant.times import DAY
from observant.units import counts_cost, parse_budget

from .patience import in_simulated_time
from .service_world import World

DEAR = 20.0


def trace_with_costs(n=120, seed=5):
    rates = np.geomspace(0.02, 1.0, n)
    trace = Trace.sample(Poisson(1.0), rates, horizon=200, seed=seed)
    cost = np.where(np.arange(n) % 4 == 0, DEAR, 1.0)
    return Trace(trace.sources, trace.updates, 0.0, 200.0, cost=cost)


# -- budgets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "per_day", "cost"),
    [
        ("500/h", 12_000.0, False),
        ("500 visits/h", 12_000.0, False),
        ("500 cost/h", 12_000.0, True),
        ("2.5COST/d", 2.5, True),
        ("40 cost", 40.0, True),
        (40, 40.0, False),
    ],
)
def test_a_budget_says_what_it_counts(text, per_day, cost):
    assert parse_budget(text) == per_day
    assert counts_cost(text) is cost


@pytest.mark.parametrize("text", ["cost/h", "5 costs/h", "5 cost visits/h", "5/cost"])
def test_what_is_no_budget_is_refused(text):
    with pytest.raises(UnitError):
        parse_budget(text)


# -- what a visit costs ---------------------------------------------------------------------------


def visit(size, cpu=None, outcome="same"):
    way = RENDERED if cpu is not None else ""
    found = Comparison(outcome=outcome, selection_version="v" + way)
    return Visit(
        source="a",
        started_at=0.0,
        ended_at=1.0,
        outcome=outcome,
        bytes=size,
        cpu=cpu,
        comparison=found,
    )


def test_a_source_begins_with_the_cost_of_its_kind_and_comes_to_its_own():
    costs = VisitCosts()
    once = costs.after(None, "", visit(500_000))
    assert 1.0 < once < 2.0  # its own would be 5.5
    cost = once
    for _ in range(30):
        cost = costs.after(cost, "v", visit(500_000))
    assert cost == pytest.approx(cost_of(500_000, None), rel=0.01)
    assert costs.first(browser=False) > 1.5  # the kind has learned from it
    rendered = costs.after(cost, "v", visit(500_000, cpu=0.2))
    assert 60 < rendered < 100  # another way, another kind: not the average of both
    assert costs.after(rendered, f"v{RENDERED}", visit(0, cpu=9.0, outcome="failed")) == rendered
    again = VisitCosts()
    again.restore(costs.state())
    assert again.state() == costs.state()
    again.restore({"plain": "much"})
    assert again.state() == costs.state()


def test_a_visit_is_metered_whoever_did_the_work():
    """What a task does itself, and what a worker reads for it; not what others do meanwhile."""

    def busy(seconds):
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    async def visit(seconds):
        for _ in range(4):
            busy(seconds / 4)
            await asyncio.sleep(0)

    async def both():
        little, much = Spent(), Spent()
        await asyncio.gather(little.by(visit(0.02)), much.by(visit(0.2)))
        page = Fetched(url="x:", status=200, body=b"<p>word " * 40_000, content_type="text/html")
        read_here = Spent()
        await read_here.by(read(Comparer(), None, page))
        return little.seconds, much.seconds, read_here.seconds

    little, much, reading = asyncio.run(both())
    assert 0.02 <= little < 0.1
    assert much >= 0.2
    assert reading > 0.01  # it was read in a worker


# -- spent by plan, schedule and replay -----------------------------------------------------------


def test_the_schedule_of_an_observer_pays_what_visits_cost():
    """With equal sources, the index at a cost of c is W/c: the theory of `plan` gives the share."""
    n, budget, days = 40, 80.0, 120
    cost = np.where(np.arange(n) < 10, DEAR, 1.0)
    schedule = Schedule(budget=budget, start=0.0)
    schedule.add(
        Planned(f"https://a.example/{k}", "", cost=float(cost[k]), max_period=1e6) for k in range(n)
    )
    rng = np.random.default_rng(1)
    rate, last, now, visits = 0.5, np.zeros(n), 0.0, []
    while now < days * DAY:
        for name in schedule.due(now):
            k = int(name.rsplit("/", 1)[1])
            changed = bool(rng.random() < -np.expm1(-rate * (now - last[k]) / DAY))
            schedule.visited(name, now, changed if last[k] else None)
            visits.append((now, k))
            last[k] = now
        now = max(schedule.next_at(), now + 1.0)
    which = np.array([k for _, k in visits])
    assert cost[which].sum() == pytest.approx(budget * days, rel=0.03)
    late = np.array([k for at, k in visits if at > 50 * DAY])
    often = np.bincount(late, minlength=n) / (days - 50)
    best = plan(np.full(n, rate), budget=budget, cost=cost).visits_per_day
    # Rates are learned, so the shares are a little off.
    assert often[10:].mean() == pytest.approx(best[10:].mean(), rel=0.15)
    assert often[:10].mean() == pytest.approx(best[:10].mean(), rel=0.3)


def test_a_cost_that_changes_moves_the_next_visit():
    schedule = Schedule(budget=10.0, start=0.0)
    schedule.add([Planned("https://a.example/", "", last_at=0.0)])
    before = schedule.due_at("https://a.example/")
    schedule.set_cost("https://a.example/", 5.0)
    assert schedule.due_at("https://a.example/") > before
    schedule.set_cost("https://unknown.example/", 5.0)  # removed meanwhile: nothing happens


@pytest.mark.slow
def test_a_replay_spends_cost():
    trace = trace_with_costs()
    world = world_of(trace, budget=100.0, seed=3)
    spent = {}
    for policy in (UniformPolicy(), Clairvoyant(), named("observant"), named("nutch")):
        visits = replay(policy, world)
        spent[policy.name] = float(trace.cost[visits.source].sum())
        assert (np.diff(np.sort(visits.time)) >= 0).all()
        assert visits.time.max() < world.end
    # Everything is spent, but for what the last visit could not pay.
    for total in spent.values():
        assert 100.0 * 200 - 2 * DEAR <= total <= 100.0 * 200 + DEAR
    best = plan(world.rates, budget=100.0, cost=trace.cost)
    paid = np.bincount(replay(Clairvoyant(), world).source, minlength=len(trace)) / 200
    often = best.visits_per_day > 0.1
    np.testing.assert_allclose(paid[often], best.visits_per_day[often], rtol=0.15)


@pytest.mark.slow
def test_knowing_the_cost_pays():
    trace = trace_with_costs()
    answer = simulate(trace, ["observant"], budget=100.0, score_from="half", jobs=1)
    fresh = {row["policy"]: row["freshness"] for row in answer.rows()}
    # Seven seeds gave 0.045 to 0.06 more than uniform visits, 0.01 to 0.02 less than clairvoyant.
    assert fresh["uniform"] + 0.02 < fresh["observant"] < fresh["clairvoyant"] + 0.01
    with pytest.raises(InputError, match="cho-improved counts visits"):
        simulate(trace, ["cho-improved"], budget=100.0, jobs=1)


@pytest.mark.slow
def test_costs_of_one_are_visits():
    plain = trace_with_costs()
    ones = Trace(plain.sources, plain.updates, 0.0, 200.0, cost=np.ones(len(plain)))
    without = Trace(plain.sources, plain.updates, 0.0, 200.0)
    for name in ("uniform", "observant", "nutch", "clairvoyant"):
        first, second = (
            replay(named(name), world_of(trace, budget=60.0, seed=2)) for trace in (ones, without)
        )
        np.testing.assert_allclose(first.time, second.time, rtol=0, atol=1e-9)
        assert (first.source == second.source).all()


def test_a_trace_keeps_its_costs(tmp_path):
    trace = trace_with_costs(12)
    write_trace(trace, tmp_path / "trace.csv")
    assert (read_trace(tmp_path / "trace.csv").cost == trace.cost).all()
    assert (trace.select([0, 1]).cost == [DEAR, 1.0]).all()
    (tmp_path / "bad.csv").write_text("source,time,cost\na,2020-01-01,0\n")
    with pytest.raises(InputError, match="cost"):
        read_trace(tmp_path / "bad.csv")


# -- the observer ---------------------------------------------------------------------------------


async def _as_it_is(work):
    return await work


@pytest.mark.slow
def test_the_observer_measures_costs_keeps_them_and_plans_with_them(monkeypatch):
    """Ten pages of 5 kB and two of 500 kB that change alike, for a budget of cost.

    The processor time of this machine is left out: 5 ms are taken for each visit.
    """
    monkeypatch.setattr(
        "observant.observer.visitor.Spent", lambda: SimpleNamespace(by=_as_it_is, seconds=0.0)
    )
    texts = {f"small {k}": 5_000 for k in range(10)} | {"large 0": 500_000, "large 1": 500_000}

    async def main():
        clock = AcceleratedClock(speed=200_000.0, ticks=asyncio.get_running_loop().time)
        rng = np.random.default_rng(2)

        def look(size):
            return lambda _previous: f"{rng.random() if rng.random() < 0.5 else ''}".ljust(
                size, "x"
            )

        config = Config(budget="40 cost/day", host_delay=0, spot_checks=0.02)
        with open_store(":memory:", clock=clock.time) as store:
            add_sources(store, config, [describe(n, kind="callable", host=n) for n in texts])
            functions = {name: look(size) for name, size in texts.items()}
            observer = Observer(store, config, clock=clock, functions=functions)
            await observer.run(seconds=20 * DAY)
            rows = {row.name: row for row in store.sources.list(limit=100).sources}
            columns = store.sources.columns()
            assert dict(zip(columns.name, columns.cost, strict=True)) == {
                name: row.cost for name, row in rows.items()
            }
            assert store.settings.get("observer.costs")["plain"] > 0
            return rows, observer.status()

    rows, status = in_simulated_time(main())
    small, large = ([r for n, r in rows.items() if n.startswith(k)] for k in ("small", "large"))
    for row in (*small, *large):
        own = cost_of(texts[row.name], None)  # after some visits what its kind says counts little
        assert 0.75 * own < row.cost < 1.25 * own
    spent = sum(row.cost * row.visits for row in rows.values())
    assert spent == pytest.approx(40 * 20, rel=0.15)
    assert status.spent == pytest.approx(0.98 * 40 * 20, rel=0.15)
    often = np.mean([row.visits for row in small]), np.mean([row.visits for row in large])
    assert often[1] < 0.4 * often[0]


def test_a_budget_of_visits_counts_visits():
    with open_store(":memory:") as store:
        watched = SimpleNamespace(cost=50.0, settings=SourceSettings(render="always"))
        new = SimpleNamespace(cost=None, settings=watched.settings)
        for budget, costs in (("10/day", (1.0, 1.0)), ("10 cost/day", (50.0, 100.0))):
            watchlist = Observer(store, Config(budget=budget)).watchlist
            assert (watchlist.cost(watched), watchlist.cost(new)) == costs


def test_where_visits_count_only_some_are_measured_and_the_others_teach_nothing_of_costs():
    """Measuring takes time itself. A source is measured at its first visit, and now and then."""
    known, new = SimpleNamespace(cost=2.0, selection=""), SimpleNamespace(cost=None, selection="")
    with open_store(":memory:") as store:
        for budget, share in (("10/day", 1 / 8), ("10 cost/day", 1.0)):
            observer = Observer(store, Config(budget=budget))
            measured = [observer.visitor._is_metered(known) for _ in range(800)]
            assert sum(measured) == 800 * share
            assert all(observer.visitor._is_metered(new) for _ in range(20))
        watchlist = Observer(store, Config(budget="10/day")).watchlist
        plain = replace(visit(50_000), cpu=None)
        watchlist.pay(known, plain)
        assert known.cost == 2.0
        watchlist.pay(known, replace(plain, cpu=0.005))
        assert known.cost == pytest.approx(1.8)


# -- what people see ------------------------------------------------------------------------------


def collection_with_a_browser(budget):
    world = World(config=Config(budget=budget, defaults={"max_period": "1000d"}))
    now, memory = world.collection.now(), {"browser": {"cpu": 0.1, "bytes": 2e5, "looks": 4}}
    for k in range(30):
        name = f"https://p{k}.example/"
        world.collection.sources.add(NewSource(url=name))
        way = RENDERED if k == 0 else ""
        found = Comparison(outcome="first", memory=memory, selection_version=f"v{way}")
        looked = visit(1000, cpu=0.1 if k == 0 else None)
        looked = replace(looked, source=name, started_at=now - 60, ended_at=now, outcome="first")
        entry = Entry(visit=replace(looked, comparison=found), due_at=now + DAY)
        world.store.visits.record_many([replace(entry, cost=12.0 if k == 0 else 1.0)])
    return world


@pytest.mark.slow
def test_the_dashboard_says_what_a_browser_costs_the_others():
    world = collection_with_a_browser("60 cost/day")
    with world.client("read") as client:
        answer = plan_study(world.collection, wait=600.0).value.answer
        assert answer.counts_cost
        told = client.get("/api/v1/plan").json()
        assert told["paid_for_browsers"] == pytest.approx(answer.paid_for_browsers)
        assert answer.paid_for_browsers > 0
        detail = client.get("/api/v1/sources/1").json()
        lost = detail["rendering"]["freshness_elsewhere"]
        assert detail["rendering"]["plain_visits"] == 12.0
    # Against theory: so much less for the others, as if the budget were that much smaller.
    period = (world.store.sources.get("https://p0.example/").due_at - world.collection.now()) / DAY
    beliefs = world.collection.beliefs()
    less = what_if(beliefs, budget=60.0 - 11.0 / period, cost=True).alpha
    assert lost == pytest.approx(answer.alpha - less, rel=0.15)
    with world.browser("viewer") as person:
        page = person.get("/sources/1").text
        assert "as much as 12 plain visits" in page
        assert "points of freshness" in page
        assert "Paid for browsers" in person.get("/plan").text
        assert "plain visits" in person.get("/").text
    world.close()


@pytest.mark.slow
def test_a_budget_of_visits_takes_nothing_from_the_others():
    world = collection_with_a_browser("60/day")
    with world.browser("viewer") as person:
        assert plan_study(world.collection, wait=600.0).value.answer.paid_for_browsers == 0.0
        assert "takes nothing from the others" in person.get("/sources/1").text
        assert "Paid for browsers" not in person.get("/plan").text
        asked = person.get("/api/v1/plan", params={"budget": "60 cost/day"}).json()
        assert asked["counts_cost"]
        assert asked["paid_for_browsers"] > 0
    world.close()
