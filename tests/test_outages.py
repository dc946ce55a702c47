"""What an observer survives: a predecessor that was killed, a clock that was wrong, a database that
goes away and comes back, and others who visit the same source."""

import asyncio
import os
import signal
import threading
import time
from contextlib import contextmanager

import pytest

from observant.observer.config import Config
from observant.observer.loop import Observer
from observant.store import Source, holder, leases, open_store
from observant.store.types import SHARDS

from .patience import PATIENCE
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
    worker.communicate(timeout=30)
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
            worker.communicate(timeout=30)


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
