"""Short versions of the proofs in benchmarks/: load, many sources, a long day, kill -9; and what
the observer believes of servers."""

import asyncio
import importlib
import json
import tempfile
import time
from pathlib import Path

import msgspec
import pytest

from observant.errors import UnknownSourceError
from observant.observer.fetched import Fetched
from observant.observer.honesty import Audits, Dates
from observant.observer.schedule import Planned, Schedule
from observant.store import Member, Source, Visit, open_store
from observant.store.groups import GroupRead
from observant.store.visit import Comparison, Previous
from observant.times import DAY

from .patience import PATIENCE


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


# -- kill -9, a long day, many sources, load ------------------------------------------------------


def test_killed_observers_lose_nothing_and_learn_nothing_twice(benchmarks, tmp_path):
    """`python -m benchmarks.crash` kills two hundred."""
    visits, idle, far = benchmarks("lives").kill_at_random_moments(tmp_path / "o.db", 6, seed=3)
    assert idle < 6
    assert len(visits) > 40
    # A visit counted twice would double its likelihood: far more than rounding to 32 bits does.
    assert far < 0.02


def test_two_hours_leave_nothing_behind(benchmarks):
    """`python -m benchmarks.soak day` lets a whole day pass."""
    soak = benchmarks("soak")
    for seconds in (8.0, 24.0, 72.0):  # on a busy machine time must pass more slowly
        rows, status, budget = soak.day(
            seconds=seconds, sources=200, hours=2.0, visits_per_hour=1.5
        )
        if status.visits > 0.25 * budget:
            break
    assert status.visits > 0.25 * budget
    seen = dict(zip(soak.COLUMNS, rows.T, strict=True))
    late = seen["hour"] > 1.0
    for name, slack in (("threads", 8), ("descriptors", 40), ("tasks", 60), ("downloaders", 60)):
        assert seen[name][late].max() <= seen[name][~late].max() + slack, name
    assert seen["log"].max() < 40.0
    assert status.backlog == 0


def test_the_schedule_of_many_sources_is_quick(benchmarks):
    """`python -m benchmarks.soak many` takes a hundred thousand."""
    for what, told in benchmarks("soak").many(2000, 1.5):
        assert told["status"].sources == 2000, what
        assert told["status"].visits > 10
        steps = told["steps"].quantiles()
        _, _, (half, most, _) = steps["step"]  # of the processor: others may use this machine
        assert half < 2.0
        assert most < 10.0


def test_the_observer_of_the_load_benchmark_does_its_job(benchmarks):
    """Every phase finds what it must: `observants` itself complains otherwise."""
    load = benchmarks("load")
    pages = 256
    with load.serving() as server, tempfile.TemporaryDirectory() as folder:
        for number, phase in enumerate(load.PHASES):
            server.send({"version": number // 2, "etags": number >= 2})
            assert server.recv() == "ready"
            told = load.observants(server.port, folder, phase, pages)
            assert told["rate"] > pages / PATIENCE
        with open_store(f"{folder}/observant.db") as store:
            assert store.totals().visits >= 4 * pages
            assert store.totals().changes >= pages


# -- many looks back in one read ------------------------------------------------------------------


class Counting:
    def __init__(self, store):
        self.store, self.sources, self.reads = store, self, []

    def previous_many(self, names):
        self.reads.append(set(names))
        return self.store.sources.previous_many(names)

    @property
    def members(self):
        return self.store.members


def test_tasks_that_look_back_together_share_a_read(tmp_path):
    with open_store(tmp_path / "o.db", durable=False) as store:
        store.sources.add([Source(name=f"s{k}") for k in range(50)])
        counting = Counting(store)

        async def look():
            group = GroupRead(counting, most=30)
            names = [f"s{k % 50}" for k in range(60)] + ["nobody"]
            return await asyncio.gather(
                *(group.previous(name) for name in names), return_exceptions=True
            )

        found = asyncio.run(look())
        assert len(counting.reads) == 3
        assert all(known.visited_at is None for known in found[:-1])
        assert isinstance(found[-1], UnknownSourceError)


def test_nobody_is_asked_whose_result_a_page_is_where_there_are_no_results(tmp_path):
    """And as soon as there is one, the next look back knows."""
    with open_store(tmp_path / "o.db", durable=False) as store:
        store.sources.add([Source(name="list", kind="query"), Source(name="page")])
        asked, by_urls = [], store.members.by_urls
        store.members.by_urls = lambda urls: asked.append(set(urls)) or by_urls(urls)

        async def look(group):
            await group.previous("page")
            return [one.query for one in await group.memberships("page")]

        async def visits():
            group = GroupRead(store)
            before = await look(group)
            found = {"outcome": "first", "members": [Member(url="page")]}
            store.visits.record(Visit(source="list", started_at=1.0, ended_at=2.0, **found))
            return before, await look(group)

        assert asyncio.run(visits()) == ([], ["list"])
        assert asked == [{"page"}]


def test_a_store_that_fails_is_told_to_everybody_who_waits():
    class Broken:
        @property
        def sources(self):
            return self

        def previous_many(self, names):
            raise OSError(f"no disk for {len(names)}")

    async def look():
        group = GroupRead(Broken())
        first = await asyncio.gather(
            *(group.previous(name) for name in "ab"), return_exceptions=True
        )
        return [*first, *await asyncio.gather(group.previous("c"), return_exceptions=True)]

    assert [str(error) for error in asyncio.run(look())] == ["no disk for 2"] * 2 + [
        "no disk for 1"
    ]


# -- what servers say -----------------------------------------------------------------------------


def test_audits_that_find_the_same_make_audits_rarer_and_are_kept():
    audits, fresh = Audits(seed=1), Audits(seed=1)
    for _ in range(400):
        audits.found_same("a.example")
    often = sum(fresh.wanted("a.example") for _ in range(2000))
    again = Audits(seed=1)
    again.restore(json.loads(json.dumps(audits.state())))
    rarely = sum(again.wanted("a.example") for _ in range(2000))
    # A third of 2000 against a fiftieth: more than twenty standard errors apart.
    assert rarely < 100
    assert often > 500
    assert again.state() == audits.state()


def test_audits_of_an_older_version_are_taken_up():
    audits = Audits()
    audits.restore({"a.example": [3, 0], "b.example": [1, 1]})
    assert audits.lies == 1
    assert audits.state() == {"a.example": [3, 0, 0], "b.example": [1, 1, 0]}


def told(dates, visits):
    """Follow visits (time, outcome, Last-Modified) from the first one on; ages as they come."""
    ages, previous = [], None
    for at, outcome, modified in visits:
        page = Fetched(url="x:", status=200, started_at=at, ended_at=at, last_modified=modified)
        found = Comparison(outcome=outcome)
        if previous is not None:
            ages.append(dates.age(previous, page, found))
            dates = dates.after(previous, page, found)
        previous = Previous(visited_at=at, last_modified=modified)
    return ages, dates


def test_dates_are_believed_once_content_has_borne_them_out():
    ages, dates = told(
        Dates(),
        [
            (100.0, "first", 40.0),
            (200.0, "changed", 150.0),
            (300.0, "same", 150.0),
            (400.0, "changed", 333.0),
            (500.0, "changed", 480.0),
            (600.0, "same", 480.0),
        ],
    )
    assert ages == [None, None, None, 20.0, None]
    assert dates.believed
    assert msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(dates))), Dates) == dates


@pytest.mark.parametrize(
    "visits",
    [
        # "just now", whoever asks
        [(100.0, "first", 100.0), (200.0, "changed", 200.0), (300.0, "same", 300.0)],
        # the date of a template: the content moves without it
        [(100.0, "first", 40.0), (200.0, "same", 40.0), (300.0, "changed", 40.0)],
        # a date that moves back
        [(100.0, "first", 40.0), (200.0, "same", 30.0)],
        # dates that cease
        [(100.0, "first", 40.0), (200.0, "changed", None)],
    ],
)
def test_one_refuted_date_and_none_is_believed(visits):
    later = [(1000.0 + 100 * k, "changed", 950.0 + 100 * k) for k in range(6)]
    same = [(1600.0, "same", 1450.0)]
    ages, dates = told(Dates(), [*visits, *later, *same])
    assert dates.refuted >= 1
    assert not dates.believed
    assert set(ages) == {None}


def test_not_modified_and_failures_say_nothing_of_dates():
    before = Previous(visited_at=100.0, last_modified=40.0)
    same = Fetched(url="x:", status=304, not_modified=True, started_at=200.0)
    assert Dates(1, 1).after(before, same, Comparison(outcome="same")) == Dates(1, 1)
    lost = Fetched(url="x:", error="timeout", started_at=200.0)
    assert Dates(1, 1).after(before, lost, Comparison(outcome="failed")) == Dates(1, 1)


def test_a_dated_change_teaches_more_than_an_undated_one():
    """Changes that are always a hundredth of the period old: the rate is near a hundred."""
    beliefs = []
    for age in (None, 0.01 * DAY):
        schedule = Schedule(budget=1.0, start=0.0)
        schedule.add([Planned("a", "a.example")])
        for day in range(1, 12):
            schedule.visited("a", day * DAY, None if day == 1 else True, age)
        beliefs.append(schedule.belief("a"))
    undated, dated = beliefs
    assert dated.high / dated.low < 0.5 * undated.high / undated.low
    assert dated.low < 100.0 < dated.high


def test_an_honest_date_reaches_the_schedule(monkeypatch, tmp_path):
    from observant.observer.config import Config
    from observant.observer.loop import Observer
    from observant.observer.program import describe

    seen = []
    usual = Schedule.visited

    def visited(self, name, at, changed, age=None):
        seen.append((changed, age))
        usual(self, name, at, changed, age)

    monkeypatch.setattr(Schedule, "visited", visited)
    begin = time.time()
    answers = [(1, -500.0), (2, 150.0), (2, 150.0), (3, 350.0), (4, 440.0)]

    class Scripted:
        """A transport that answers every hundred seconds."""

        hosts: dict = {}  # noqa: RUF012

        def __init__(self):
            self.limits, self.asked, self.verified = None, 0, []

        async def fetch(self, url, *, verify, **_more):
            self.verified.append(verify)
            version, modified = answers[self.asked]
            at = begin + 100.0 * (self.asked + 1)
            self.asked += 1
            return Fetched(
                url=url,
                status=200,
                body=f"<p>number {version} of this page".encode(),
                content_type="text/html",
                started_at=at,
                ended_at=at,
                last_modified=begin + modified,
            )

    transport = Scripted()
    settings = {"verify": False, "compare": {"learn_noise": False}}  # one look at a time
    with open_store(tmp_path / "o.db", durable=False) as store:
        store.sources.add([describe("http://a.example/", settings=settings)])
        for _ in answers:
            observer = Observer(store, Config(), transport=transport)
            asyncio.run(observer.check("http://a.example/"))
    assert transport.verified == [False] * len(answers)
    changed, ages = zip(*seen, strict=True)
    assert changed == (None, True, False, True, True)
    # Believed from the third change on; its date lies a minute before the visit.
    assert ages[:4] == (None,) * 4
    assert ages[4] == pytest.approx(60.0, abs=1e-3)
