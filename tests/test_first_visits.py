"""New sources are looked at at once, outside the budget, and the budget fits their number."""

import asyncio
import math
from itertools import pairwise

import pytest
from tests.observer_world import Site, html, transport_to

from observant.observer.config import Config, usual_budget
from observant.observer.first_visits import FirstVisits
from observant.observer.loop import Observer
from observant.observer.program import describe
from observant.observer.settings import settings_of
from observant.observer.transport.politeness import Host, Politeness
from observant.store import open_store


@pytest.fixture
def site():
    site = Site()
    yield site
    site.close()


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "o.db") as store:
        yield store


def watch(store, site, pages):
    for page in range(pages):
        site.serve(f"/{page}", html(f"page {page} of the site"))
    store.sources.add(
        [describe(f"http://h{page % 3}.example:{site.port}/{page}") for page in range(pages)]
    )


def run(store, site, config, **more):
    async def main():
        async with transport_to(site.port) as transport:
            observer = Observer(store, config, transport=transport)
            return await observer.run(**more), observer

    return asyncio.run(main())


def test_all_new_sources_are_seen_though_the_budget_buys_one_visit_a_year(store, site):
    watch(store, site, 20)
    config = Config(budget="1/365d", host_delay=0, spot_checks=0)
    status, observer = run(store, site, config, visits=20)
    assert (status.visits, status.unseen) == (20, 0)
    assert store.sources.unseen() == 0
    assert observer.schedule.spent <= 1


def test_a_command_that_only_looks_at_what_is_new_ends_by_itself(store, site):
    watch(store, site, 5)
    seen = []
    config = Config(host_delay=0)
    status, _ = run(store, site, config, firsts_only=True, on_visit=seen.append)
    assert {visit.outcome for visit in seen} == {"first"}
    assert status.visits == 5
    status, _ = run(store, site, config, firsts_only=True)
    assert status.visits == 0
    assert [row.rate for row in store.sources.each()] == [None] * 5  # one visit says nothing of it


def test_so_many_and_no_more(store, site):
    watch(store, site, 6)
    status, _ = run(store, site, Config(host_delay=0, first_visits=4), firsts_only=True)
    assert status.visits == 4
    assert store.sources.unseen() == 2


def test_what_fails_at_first_is_left_to_the_schedule(store, site):
    store.sources.add([describe(f"http://a.example:{site.port}/none")])
    status, _ = run(store, site, Config(host_delay=0), firsts_only=True)
    assert (status.visits, status.failures, status.unseen) == (1, 1, 0)


def test_pauses_are_shorter_among_first_visits_but_not_for_slow_hosts_or_strict_ones():
    host = Host("a.example", Politeness(floor=1.0, latency_factor=2.0))
    assert (host.delay, host.pause) == (1.0, 1.0)
    host.hurried = True
    assert (host.delay, host.pause) == (1.0, 0.25)
    host.latency = 3.0
    assert host.pause == 6.0
    host.latency, host.crawl_delay = 0.0, 20.0
    assert host.pause == 20.0


def test_the_budget_grows_with_the_sources_unless_somebody_says(store, site):
    assert usual_budget(0) == usual_budget(1) == 24
    budgets = [usual_budget(n) for n in range(1, 300)]
    assert all(b < a for b, a in pairwise(budgets))
    assert math.isclose(usual_budget(1_000_000) / 1_000_000, 1, rel_tol=0.01)
    watch(store, site, 3)
    assert settings_of(store, Config()).config.budget_per_day == 72
    assert settings_of(store, Config(budget="5/day")).config.budget_per_day == 5


def test_nothing_is_taken_while_there_is_no_room():
    firsts = FirstVisits(most=5)
    firsts.note("a")
    assert list(firsts.take(-3)) == []
    assert len(firsts) == 1
