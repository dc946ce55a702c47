"""What an observer survives: a predecessor that was killed, a clock that was wrong, a database that
goes away and comes back, and others who visit the same source."""

import asyncio
import os
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from litestar.testing import TestClient

from observant.observer.config import Config
from observant.observer.loop import Observer
from observant.observer.program import describe
from observant.observer.transport import Guard, Politeness, Transport
from observant.service.access import Access
from observant.service.app import create_app
from observant.service.collection import Collection
from observant.store import (
    SHARDS,
    Source,
    StoreAwayError,
    StoreBusyError,
    UnknownSourceError,
    leases,
    open_store,
    sqlite,
)
from observant.store import leases as holder
from observant.store.patience import Patience

from .observer_world import Site, html
from .patience import PATIENCE, eventually, until
from .postgres_server import servers
from .store_worker import start_worker

DAY = 86_400.0
NOW = 1_800_000_000.0


@contextmanager
def killed(*arguments, lines=1):
    """A worker that has said so many lines, and was then killed; its lines."""
    worker = start_worker(*arguments)
    hanging = threading.Timer(PATIENCE, worker.kill)
    hanging.start()
    said = [worker.stdout.readline() for _ in range(lines)]
    hanging.cancel()
    os.kill(worker.pid, signal.SIGKILL)
    worker.communicate(timeout=PATIENCE)
    assert all(said), "the worker hung or died"
    yield [line.strip() for line in said]


# -- a predecessor that was killed ----------------------------------------------------------------


def test_the_shards_of_a_killed_process_are_free_at_once(place):
    with open_store(place) as store, killed("hold", place, "victim", "3600") as said:
        assert said == ["64"]
        assert len(store.leases.list()) == SHARDS
        assert store.leases.observers(living=True) == []
        assert len(store.leases.take("heir", SHARDS, seconds=60)) == SHARDS
        assert {lease.observer for lease in store.leases.list()} == {"heir"}


def test_a_zombie_is_dead(tmp_path):
    """Killed, and its parent has not yet taken note of it."""
    place = str(tmp_path / "s.db")
    with open_store(place) as store:
        worker = start_worker("hold", place, "victim", "3600")
        try:
            assert worker.stdout.readline() == "64\n"
            assert store.leases.take("heir", SHARDS, seconds=60) == {}  # it lives
            os.kill(worker.pid, signal.SIGKILL)
            deadline = time.monotonic() + PATIENCE
            while not store.leases.take("heir", SHARDS, seconds=60):
                assert time.monotonic() < deadline
        finally:
            worker.kill()
            worker.communicate(timeout=PATIENCE)


@pytest.mark.parametrize(
    ("other", "free_if_local", "free"),
    [
        ({}, False, False),  # this very process
        ({"began": 1}, True, True),  # the number was used again
        ({"space": "pid:[1]"}, False, False),  # another container: cannot be seen from here
        ({"boot": "another"}, True, False),  # of a local store: before the machine was restarted
        ({"boot": None, "machine": "another"}, False, False),
        ({"process": None}, False, False),
    ],
)
def test_only_who_is_surely_dead_is_dead(other, free_if_local, free):
    process = holder.this_process() | other
    assert holder.is_dead(process, local=True) is free_if_local
    assert holder.is_dead(process, local=False) is free


def test_an_observer_elsewhere_keeps_its_lease_to_the_end(store, monkeypatch):
    elsewhere = holder.this_process() | {"space": "pid:[1]"}
    with monkeypatch.context() as patched:
        patched.setattr(leases, "this_process", lambda: elsewhere)
        held = store.leases.take("elsewhere", 10, NOW, 60)
    assert store.leases.take("here", SHARDS, NOW + 59, 60).keys().isdisjoint(held)
    assert store.leases.take_one("check", next(iter(held)), NOW + 59) is None
    assert len(store.leases.take("here", SHARDS, NOW + 61, 60)) == SHARDS


def test_one_shard_can_be_held_for_one_visit(store):
    fence = store.leases.take_one("check", 7, NOW, 60)
    assert fence == 1
    assert store.leases.take_one("other", 7, NOW + 1, 60) is None
    assert 7 not in store.leases.take("observer", SHARDS, NOW + 1, 60)
    assert store.leases.release("check", {7: fence}) == 1
    assert store.leases.take("observer", SHARDS, NOW + 1, 60)[7] == fence + 1
    assert store.leases.observers(living=True, now=NOW + 1)[0].name == "observer"  # a check is none


# -- a clock that was wrong -----------------------------------------------------------------------


def test_a_lease_from_a_clock_that_was_ahead_binds_nobody(store, monkeypatch):
    """Made elsewhere, a month ahead: it would hold for a month."""
    monkeypatch.setattr(leases, "is_dead", lambda *_, **__: False)
    store.leases.take("ahead", SHARDS, NOW + 30 * DAY, 60)
    assert [row.name for row in store.leases.observers(since=NOW)] == ["ahead"]
    assert store.leases.observers(since=NOW, living=True, now=NOW) == []
    assert len(store.leases.take("heir", SHARDS, NOW, 60)) == SHARDS
    assert store.leases.take("late", SHARDS, NOW + 30, 60) == {}


def test_the_doctor_ends_leases_that_bind_nobody(store, monkeypatch):
    monkeypatch.setattr(leases, "is_dead", lambda *_, **__: False)
    store.leases.take("ahead", SHARDS, NOW + 30 * DAY, 60)
    (finding,) = store.doctor(now=NOW)
    assert (finding.check, finding.examples, finding.repaired) == ("void leases", ("ahead",), False)
    (finding,) = store.doctor(repair=True, now=NOW)
    assert finding.repaired
    assert store.leases.list() == []
    assert store.doctor(now=NOW) == []


@pytest.mark.parametrize("ahead", [0.0, 30 * DAY])
def test_after_a_kill_the_next_observer_visits_at_once(tmp_path, ahead):
    """Also when the clock of the killed one was a month ahead."""
    place = str(tmp_path / "o.db")
    names = [f"s{k}" for k in range(20)]
    with open_store(place) as store:
        store.sources.add([Source(name=n, kind="callable", host=n) for n in names])
        with killed("observe", place, str(ahead), lines=60) as said:
            assert set(said) == set(names)
        last = {row.id for row in store.visits.list(limit=1)}
        seen = []

        async def watch():
            observer = Observer(
                store,
                Config(
                    budget="1000/s",
                    host_delay=0,
                    defaults={"min_period": "100ms", "max_period": "1s"},
                ),
                functions=dict.fromkeys(names, lambda _: {"row": 1}),
            )

            def saw(visit):
                seen.append(visit.source)
                if set(seen) == set(names):
                    observer.stop()

            async with asyncio.timeout(PATIENCE):
                await observer.run(on_visit=saw)

        began = time.time()
        asyncio.run(watch())
        assert set(seen) == set(names)
        now = time.time()
        for row in store.visits.list(limit=len(seen)):
            assert row.id not in last
            assert began <= row.started_at <= now
        for source in store.sources.list(limit=100).sources:  # not the month ahead any more
            assert source.visited_at <= now
            assert source.good_at <= now
        assert {f.check for f in store.doctor()} <= {"clock"}


# -- a database that goes away and comes back -----------------------------------------------------


@pytest.fixture(scope="module")
def own_server():
    """A PostgreSQL of its own: others would not like it to be stopped."""
    yield from servers()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_who_has_patience_waits_for_the_database(own_server, mode):
    """And holds no thread meanwhile: a hundred who wait are in nobody's way."""
    with open_store(f"{own_server.url}&schema=patience_{mode}") as store:
        store.sources.add([Source(name="a")])

        async def main():
            patience = Patience(store)
            await asyncio.to_thread(own_server.stop, mode)
            with pytest.raises(StoreAwayError):
                await asyncio.to_thread(store.sources.get, "a")
            with pytest.raises(StoreAwayError):
                await asyncio.to_thread(store.settings.set, "key", "at once")
            waiting = [
                asyncio.create_task(patience.call(store.settings.set, f"key {k}", k))
                for k in range(100)
            ]
            await eventually(lambda: patience.away_since is not None)
            with pytest.raises(StoreAwayError):
                await asyncio.to_thread(store.settings.set, "key", "at once")
            assert not any(task.done() for task in waiting)
            await asyncio.to_thread(own_server.start)
            await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE)
            assert patience.away_since is None
            assert len(patience.absences) == 1
            assert await patience.call(store.settings.all) == {f"key {k}": k for k in range(100)}

        asyncio.run(main())


def test_patience_ends_when_it_is_given_up(own_server):
    with open_store(f"{own_server.url}&schema=given_up") as store:

        async def main():
            patience = Patience(store)
            await asyncio.to_thread(own_server.stop)
            try:
                waiting = asyncio.create_task(patience.call(store.settings.set, "key", "never"))
                await eventually(lambda: patience.away_since is not None)
                patience.give_up()
                with pytest.raises(StoreAwayError):
                    await asyncio.wait_for(waiting, PATIENCE)
            finally:
                await asyncio.to_thread(own_server.start)

        asyncio.run(main())


def test_somebody_who_holds_a_sqlite_file_for_long_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "_BUSY_SECONDS", 0.05)
    with open_store(tmp_path / "s.db") as store, open_store(tmp_path / "s.db") as other:
        holding, done = threading.Event(), threading.Event()

        def hold():
            def work(_session):
                holding.set()
                assert done.wait(PATIENCE)

            other.engine.write(work)

        async def main():
            patience = Patience(store)
            holds = asyncio.create_task(asyncio.to_thread(hold))
            assert await asyncio.to_thread(holding.wait, PATIENCE)
            with pytest.raises(StoreBusyError):
                await asyncio.to_thread(store.settings.set, "key", "at once")
            waiting = asyncio.create_task(patience.call(store.settings.set, "key", "later"))
            await eventually(lambda: patience.away_since is not None)
            done.set()
            await asyncio.wait_for(waiting, PATIENCE)
            await holds

        asyncio.run(main())
        assert store.settings.get("key") == "later"


class Counters:
    """Sources that change with every look: what was recorded can be counted against the looks."""

    def __init__(self, store, names):
        self.names, self.looks = names, Counter()
        store.sources.add([Source(name=n, kind="callable", host=n) for n in names])

    def functions(self):
        def counting(name):
            async def look(_previous):
                self.looks[name] += 1
                await asyncio.sleep(0.02)
                return {"look": self.looks[name]}

            return look

        return {name: counting(name) for name in self.names}


def busy(budget="300/s"):
    return Config(
        budget=budget, host_delay=0, defaults={"min_period": "50ms", "max_period": "300ms"}
    )


@pytest.mark.parametrize(("lease", "seconds"), [(60.0, 0.5), (1.5, 3.0)])
def test_observers_survive_a_database_that_goes_away(own_server, lease, seconds):
    """With short leases these run out meanwhile."""
    survive_stops(own_server, lease, seconds)


def survive_stops(server, lease, seconds):
    """Two observers, one database that crashes, and then is stopped: nothing is lost that was told,
    and nothing is there twice. Gives the visits, and the seconds until all sources had two more.
    """
    place = f"{server.url}&schema=away_{lease:.0f}_{1000 * seconds:.0f}"
    with open_store(place) as store, open_store(place) as second:
        world = Counters(store, [f"s{k}" for k in range(40)])
        told, back = Counter(), []

        async def main():
            observers = [
                Observer(s, busy(), functions=world.functions(), lease=lease, name=name)
                for s, name in ((store, "one"), (second, "two"))
            ]
            running = [
                asyncio.create_task(
                    observer.run(on_visit=lambda visit: told.update([visit.source]))
                )
                for observer in observers
            ]
            try:
                await eventually(lambda: min(told[n] for n in world.names) >= 2)
                for mode in ("immediate", "fast"):
                    await asyncio.to_thread(server.stop, mode)
                    await eventually(lambda: all(o.status().store_away for o in observers))
                    during = sum(told.values())
                    await asyncio.sleep(seconds)
                    assert sum(told.values()) == during
                    assert not any(task.done() for task in running)
                    await asyncio.to_thread(server.start)
                    began = time.monotonic()
                    wanted = {n: told[n] + 2 for n in world.names}
                    await eventually(lambda w=wanted: all(told[n] >= w[n] for n in w))
                    back.append(time.monotonic() - began)
                    await eventually(lambda: not any(o.status().store_away for o in observers))
            finally:
                for observer in observers:
                    observer.stop()
                await asyncio.gather(*running)

        asyncio.run(main())
        kept = Counter(row.source for row in store.visits.list(limit=100_000))
        assert kept == told
        for source in store.sources.list(limit=100).sources:
            visits = store.visits.list(source.name, limit=100_000)
            assert source.visits == len(visits) <= world.looks[source.name]
            assert not any(visit.outcome == "failed" for visit in visits)
            assert source.changes == len(visits) - 1
        events = [event.id for event in store.outbox.list(limit=100_000)]
        assert len(events) == len(set(events)) == store.totals().changes
        assert [f for f in store.doctor() if f.severity != "note"] == []
        assert "store-away" in {line.action for line in store.journal.list(limit=1000)}
        return sum(told.values()), back


def test_an_observer_can_be_stopped_while_the_database_is_away(own_server):
    with open_store(f"{own_server.url}&schema=stopped") as store:
        world = Counters(store, ["a", "b"])

        async def main():
            observer = Observer(store, busy(), functions=world.functions())
            running = asyncio.create_task(observer.run())
            await eventually(lambda: world.looks["a"] > 1)
            await asyncio.to_thread(own_server.stop)
            try:
                await eventually(lambda: observer.status().store_away)
                observer.stop()
                async with asyncio.timeout(PATIENCE):
                    await running
            finally:
                await asyncio.to_thread(own_server.start)

        asyncio.run(main())


def test_the_dashboard_says_that_the_database_is_away(own_server):
    with open_store(f"{own_server.url}&schema=dashboard") as store:
        store.sources.add([Source(name="a", kind="callable", host="a")])
        access = Access(store)
        app = create_app(Collection(store, Config()), access=access)
        with TestClient(app, raise_server_exceptions=False) as client:
            assert client.get("/api/v1/sources").status_code == 401
            own_server.stop()
            try:
                health = client.get("/health")
                assert health.status_code == 503
                assert any("database is away" in problem for problem in health.json()["problems"])
                client.cookies.set("observant_session", "x" * 40)
                for path, accept in (("/api/v1/sources", "application/json"), ("/", "text/html")):
                    answer = client.get(path, headers={"Accept": accept})
                    assert answer.status_code == 503
                    assert "database is away" in answer.text
                    assert int(answer.headers["retry-after"]) > 0
            finally:
                own_server.start()
            deadline = time.monotonic() + PATIENCE
            while any("away" in told for told in client.get("/health").json()["problems"]):
                assert time.monotonic() < deadline
                time.sleep(0.2)


# -- one visit of a source at a time --------------------------------------------------------------


class Page:
    """A page over HTTP that takes a while to answer, and knows how often it really changed."""

    def __init__(self):
        self.version, self.under_way, self.most, self.requests = 1, 0, 0, 0
        self.lock, self.open = threading.Lock(), threading.Event()
        self.open.set()

        self.site = Site(self._serve)
        self.url = self.site.url

    def _serve(self, _path):
        with self.lock:
            self.under_way += 1
            self.requests += 1
            self.most = max(self.most, self.under_way)
        self.open.wait(PATIENCE)
        time.sleep(0.05)
        with self.lock:
            self.under_way -= 1
        return html(f"Version {self.version}.")


@pytest.fixture
def page():
    made = Page()
    yield made
    made.open.set()
    made.site.close()


def on_loopback(**settings):
    return Config(allow=["127.0.0.0/8"], host_delay=0, **settings)


def plain_transport():
    return Transport(
        guard=Guard(allow=["127.0.0.0/8"]),
        politeness=Politeness(floor=0.0, latency_factor=0.0),
        proxies={},
        robots=False,
    )


def check_once(place, url):
    """As `observant check` does it, in a process of its own or as good as that."""

    async def main():
        with open_store(place) as store:
            async with plain_transport() as transport:
                return await Observer(store, on_loopback(), transport=transport).check(url)

    return asyncio.run(main())


def test_checks_at_once_make_one_visit_and_all_get_its_result(place, page):
    with open_store(place) as store:
        store.sources.add([describe(page.url)])
        check_once(place, page.url)
        for version in range(2, 5):
            page.version = version
            page.open.clear()
            requests = page.requests
            with ThreadPoolExecutor(6) as pool:
                checks = [pool.submit(check_once, place, page.url) for _ in range(6)]
                until(lambda r=requests: page.requests > r)  # the first is under way
                page.open.set()
                visits = [check.result(PATIENCE) for check in checks]
            changes = [visit for visit in visits if visit.changed]
            assert changes
            assert {visit.outcome for visit in visits} <= {"changed", "same"}
        source = store.sources.get(page.url)
        assert source.changes == 3
        assert len(store.outbox.list(limit=100)) == 3
        assert page.most == 1  # never two visits at once
        assert store.leases.list() == []


def test_check_beside_a_running_observer_gets_its_visit(place, page):
    """Also `visit_now`: five real changes are five recorded changes, and five messages."""
    with open_store(place) as store:
        store.sources.add([describe(page.url)])

        async def main():
            seen = []
            async with plain_transport() as transport:
                config = on_loopback(
                    budget="100/s", defaults={"min_period": "1d", "max_period": "30d"}
                )
                observer = Observer(store, config, transport=transport)
                running = asyncio.create_task(observer.run(on_visit=seen.append))
                await eventually(lambda: seen)
                try:
                    for version in range(2, 7):
                        page.version = version
                        checks = [
                            asyncio.to_thread(check_once, place, page.url) for _ in range(2)
                        ] + [observer.visit_now(page.url) for _ in range(3)]
                        await asyncio.wait_for(asyncio.gather(*checks), PATIENCE)
                        # They may have got a visit that was begun before the change.
                        await asyncio.wait_for(observer.visit_now(page.url), PATIENCE)
                finally:
                    observer.stop()
                    await running
            return seen

        seen = asyncio.run(main())
        source = store.sources.get(page.url)
        assert source.changes == sum(visit.outcome == "changed" for visit in seen) == 5
        assert source.visits == len(seen)  # the observer has made them all
        assert len(store.outbox.list(limit=100)) == 5
        assert page.most == 1
        assert store.requests.list() == []


def test_a_source_that_is_not_there_cannot_be_asked_for(store):
    with pytest.raises(UnknownSourceError):
        store.requests.add("nobody")
