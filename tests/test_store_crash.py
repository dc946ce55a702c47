"""A store survives the death of those who use it: no visit lost, none counted twice."""

import json
import os
import random
import signal
import time

import pytest

from observant.store import Source, open_store

from .patience import PATIENCE, until
from .store_worker import START, STEP, start_worker

SOURCES = 40
ROUNDS = int(os.environ.get("OBSERVANT_CRASHES", "40"))


def kill_at_random_moments(place, rounds, seed=0):
    """Let a process write, kill it, look at the store; returns visits, events and promises kept."""
    with open_store(place) as store:
        store.sources.add([Source(name=f"s{i}", host=f"h{i}") for i in range(SOURCES)], now=START)
    rng = random.Random(seed)  # noqa: S311
    told = dict.fromkeys((f"s{i}" for i in range(SOURCES)), 0)
    unfinished = 0
    for turn in range(rounds):
        told_now = _one_life(place, turn, rng.randrange(12), rng.uniform(0.0, 0.01))
        told |= told_now
        unfinished += _look(place, told)
    return sum(told.values()), unfinished


def _one_life(place, turn, commits, seconds):
    """Start a writer, kill it so long after so many commits, and give back what it said it had
    committed."""
    worker = start_worker("write", place, str(turn))
    assert worker.stdout.readline() == "ready\n"
    lines = [worker.stdout.readline() for _ in range(commits)]
    time.sleep(seconds)
    os.kill(worker.pid, signal.SIGKILL)
    lines += worker.stdout.read().splitlines()
    worker.wait(PATIENCE)
    assert worker.returncode == -signal.SIGKILL, "the writer died of itself"
    worker.stdout.close()
    told = {}
    for line in lines:
        try:
            told |= json.loads(line)
        except ValueError:
            assert line == lines[-1]  # cut off in the middle: it was committed before it was told
    return told


def _look(place, told):
    """Compare the store with what was promised; tells whether a commit was not told any more."""
    with open_store(place) as store:
        troubles = [f for f in store.doctor(now=START + 1e6) if f.severity != "note"]
        assert troubles == []
        beyond = 0
        visits = {}
        for row in store.visits.list(limit=10_000_000):
            visits.setdefault(row.source, []).append(row.started_at)
        events = {event.id for event in store.outbox.list(limit=10_000_000)}
        assert len(events) == len(store.outbox.list(limit=10_000_000))
        expected = set()
        past = store.sources.previous_many(told)
        for source in store.sources.list(limit=1000).sources:
            kept = sorted(visits.get(source.name, []))
            # numbered without a gap and without a double: nothing lost, nothing counted twice
            assert kept == [START + STEP * number for number in range(len(kept))]
            assert source.visits == len(kept) >= told[source.name]
            beyond += len(kept) - told[source.name]
            expected |= {f"{source.name} {n}" for n in range(0, len(kept), 3)}
            if kept:  # the state is that of the last visit, all of it
                last = len(kept) - 1
                memory = past[source.name]
                assert source.due_at == kept[-1] + STEP
                assert memory.posterior == str(last).encode()
                assert memory.memory == memory.record == {"number": last}
                assert memory.text.startswith(f"{source.name} {last - last % 3} ")
            told[source.name] = len(kept)
        assert events == expected
        assert beyond <= 20, "at most one group was committed and not told"
        return beyond > 0


def test_a_killed_writer_loses_nothing_and_doubles_nothing(place):
    rounds = ROUNDS if "postgres" not in place else max(ROUNDS // 3, 5)
    visits, _ = kill_at_random_moments(place, rounds)
    assert visits > rounds  # it did write


def test_the_killed_observers_shards_come_back(place):
    worker = start_worker("lease", place, "victim", "60")
    with open_store(place) as store:
        until(store.leases.list, "a lease")
        os.kill(worker.pid, signal.SIGKILL)
        worker.communicate(timeout=PATIENCE)
        until(lambda: len(store.leases.take("heir", 64, seconds=60)) == 64, "all shards")


@pytest.mark.parametrize("torn", [1, 100, 5000])
def test_a_torn_log_gives_back_a_state_that_was_committed(tmp_path, torn):
    """As after a loss of power without `durable`: the end of the WAL never reached the disk."""
    place = str(tmp_path / "s.db")
    with open_store(place) as store:
        store.sources.add([Source(name=f"s{i}", host=f"h{i}") for i in range(SOURCES)], now=START)
    _one_life(place, 1, 40, 0.0)
    wal = tmp_path / "s.db-wal"
    if wal.exists():
        os.truncate(wal, max(wal.stat().st_size - torn, 0))
    (tmp_path / "s.db-shm").unlink(missing_ok=True)
    with open_store(place) as store:
        assert [f for f in store.doctor(now=START + 1e6) if f.severity != "note"] == []
        for source in store.sources.list(limit=1000).sources:
            assert len(store.visits.list(source.name, limit=100_000)) == source.visits
