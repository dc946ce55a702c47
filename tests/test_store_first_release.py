"""A store that release 0.1 wrote opens, is brought to this version, and keeps everything.

`tests/corpus/store-0.1.sql` was written by that release's own code (commit 96fc2b8): five sources
of all sorts and one that its observer visited, visits, versions, events, subscriptions, accounts,
a token, leases, and settings that it accepted and could not start with.
"""

import asyncio
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from observant.observer.config import Config
from observant.observer.loop import Observer
from observant.observer.settings import settings_of
from observant.service.access import Access
from observant.store import open_store
from observant.store.engine import migrations

DUMP = Path(__file__).parent / "corpus" / "store-0.1.sql"
NEWS = "https://a.example/news"


def written_by_the_first_release(place):
    with closing(sqlite3.connect(place)) as database:
        database.executescript(DUMP.read_text("utf-8"))
        database.execute("PRAGMA journal_mode = WAL")
    return place


def rows(place):
    """Every row of the tables that the first release had, by table; of the columns it had."""
    with closing(sqlite3.connect(":memory:")) as first:
        first.executescript(DUMP.read_text("utf-8"))
        tables = [
            name
            for (name,) in first.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if name not in {"migrations", "sqlite_sequence"}
        ]
        columns = {
            table: [row[1] for row in first.execute(f"PRAGMA table_info({table})")]
            for table in tables
        }
    with closing(sqlite3.connect(place)) as database:
        return {
            table: sorted(
                map(repr, database.execute(f"SELECT {', '.join(names)} FROM {table}"))  # noqa: S608
            )
            for table, names in columns.items()
        }


def version_of(place):
    with closing(sqlite3.connect(place)) as database:
        return database.execute("SELECT max(number) FROM migrations").fetchone()[0]


def check_contents(store):
    """What a person would miss, read by today's code."""
    assert store.sources.count() == 6
    news = store.sources.get(NEWS)
    assert (news.title, news.tags, news.importance) == ("News — Überschrift", ("news", "ü"), 3.0)
    assert news.config["headers"] == {"Authorization": "Bearer s3cret"}
    assert (news.visits, news.changes, news.rate) == (12, 2, 13.0)
    assert store.sources.get("My feed").url == "https://ada:pw@b.example/feed"
    assert store.sources.get("https://d.example/").state == "paused"
    assert [v.outcome for v in store.visits.list("My feed", limit=100)].count("failed") == 1
    versions = store.snapshots.versions(NEWS)
    texts = {store.snapshots.get(version.digest).decode() for version in versions}
    assert texts == {f"version {k} of {NEWS}\nwith a line more" for k in range(3)}
    assert store.sources.previous("row").text == "another text of a page, and longer"
    assert len(store.outbox.list(limit=100)) == 7
    assert {one.name for one in store.subscriptions.list()} == {"hook", "mail"}
    access = Access(store, log_n=4)
    assert access.sign_in("mary", "correct horse battery", "127.0.0.1")


def test_the_dump_is_of_an_older_version():
    with closing(sqlite3.connect(":memory:")) as first:
        first.executescript(DUMP.read_text("utf-8"))
        assert first.execute("SELECT max(number) FROM migrations").fetchone()[0] == 4
    assert migrations("sqlite")[-1].number > 4


def test_a_store_of_the_first_release_opens_and_keeps_everything(tmp_path):
    place = written_by_the_first_release(tmp_path / "o.db")
    before = rows(place)
    with open_store(place) as store:
        assert version_of(place) == migrations("sqlite")[-1].number
        assert rows(place) == before
        check_contents(store)
        assert [f for f in store.doctor() if f.severity == "error"] == []
        # The settings that ended the first release's service are told, and end nothing.
        found = settings_of(store, Config())
        assert found.config.budget_per_day == 77
        assert set(found.refused) == {"grace"}
        status = asyncio.run(
            Observer(store, Config(), functions={"row": lambda _: "a third text"}).run(seconds=0.5)
        )
        assert status.sources == 5  # all but the one that is paused


def test_its_backup_goes_into_both_engines(store, tmp_path):
    place = written_by_the_first_release(tmp_path / "backup.db")
    assert store.restore(place) == 27
    check_contents(store)
    assert version_of(place) == 4  # the backup itself stays as it was


@pytest.mark.slow
def test_a_migration_that_is_killed_at_any_moment_loses_nothing(tmp_path):
    place = written_by_the_first_release(tmp_path / "o.db")
    before, newest = rows(place), migrations("sqlite")[-1].number
    killed = 0
    for moment in range(1, 500):
        if open_until_killed(place, moment):
            killed += 1
            assert version_of(place) in {4, newest}  # never between two versions
            assert rows(place) == before
        else:
            break
    assert killed > 10
    assert version_of(place) == newest
    with open_store(place) as store:
        assert rows(place) == before
        check_contents(store)
        assert [f for f in store.doctor() if f.severity == "error"] == []


def open_until_killed(place, moment):
    """Open the store in another process that dies by SIGKILL at its n-th statement; whether it did.

    The store stays as it is left, so later moments begin where the earlier ones ended.
    """
    child = os.fork()
    if child == 0:
        try:
            from observant.store.sqlite import SqliteEngine

            real, seen = SqliteEngine._connect, [0]

            def traced(engine):
                connection = real(engine)

                def count(_statement):
                    seen[0] += 1
                    if seen[0] == moment:
                        os.kill(os.getpid(), signal.SIGKILL)

                connection.set_trace_callback(count)
                return connection

            SqliteEngine._connect = traced
            open_store(place).close()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False
