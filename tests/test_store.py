"""The store keeps what it promises, the same on SQLite and on PostgreSQL."""

import asyncio
import json
import os
import sqlite3
import threading
from contextlib import closing
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from observant import estimate_rates, read_visits
from observant.errors import (
    BackupError,
    FenceError,
    InputError,
    StoreBusyError,
    StoreError,
    StoreVersionError,
    UnknownSourceError,
)
from observant.store import (
    SHARDS,
    Entry,
    Event,
    GroupCommit,
    Posterior,
    Recorded,
    Source,
    Validators,
    open_store,
    shard_of,
)
from observant.store import sqlite as sqlite_engine
from observant.store.backup import columns_of
from observant.store.engine import Engine, migrations, statements
from observant.store.snapshots import packed, unpacked
from observant.store.sqlite import filesystem_of
from observant.store.visit import Comparison, Visit

from .patience import PATIENCE, until
from .postgres_server import ENGINE_NAMES, new_place
from .store_worker import start_worker

NOW = 1_800_000_000.0


def visit(source, at=NOW, outcome="same", **fields):
    changed = {"same": False, "changed": True}.get(outcome)
    given = {"changed": changed, "status": 200} | fields
    return Visit(source=source, started_at=at, ended_at=at + 1, outcome=outcome, **given)


def healthy(store, now=NOW):
    return [f for f in store.doctor(now=now) if f.severity != "note"] == []


# -- sources ----------------------------------------------------------------------------------


def test_a_source_comes_back_as_it_was_given(store):
    given = Source(
        name="https://example.org/ü?q=%00",
        kind="feed",
        url="https://example.org/feed",
        host="Example.org",
        title="Ein Beispiel",
        tags=("news", "a"),
        importance=2.5,
        due_at=NOW + 5,
        config={"css": "#main", "headers": {"X": ["1"]}, "period": None},
    )
    assert store.sources.add([given], now=NOW) == 1
    kept = store.sources.get(given.name)
    assert kept.tags == ("a", "news")
    assert kept.host == "example.org"
    assert kept.shard == shard_of("example.org")
    for field in ("name", "kind", "url", "title", "importance", "state", "due_at", "config"):
        assert getattr(kept, field) == getattr(given, field)
    assert (kept.visits, kept.visited_at, kept.created_at) == (0, None, NOW)
    assert store.sources.add([given], now=NOW + 1) == 0  # it is there already
    assert store.sources.get(given.name).created_at == NOW


def test_a_new_source_is_due_at_once_and_updates_keep_the_rest(store):
    store.sources.add([Source(name="a", host="h", tags=("x",), title="T")], now=NOW)
    assert store.sources.get("a").due_at == NOW
    changed = store.sources.update("a", state="paused", due_at=None, now=NOW + 1)
    assert (changed.state, changed.due_at, changed.title, changed.tags) == (
        "paused",
        None,
        "T",
        ("x",),
    )
    assert store.sources.update("a", tags=("y", "z")).tags == ("y", "z")
    assert store.sources.tags() == {"y": 1, "z": 1}
    assert store.sources.update("a", host="other").shard == shard_of("other")
    with pytest.raises(InputError, match="no field colour"):
        store.sources.update("a", colour="red")
    with pytest.raises(InputError, match="no state"):
        store.sources.update("a", state="removed")
    with pytest.raises(UnknownSourceError):
        store.sources.update("b", state="paused")


@pytest.mark.parametrize(
    "bad",
    [
        {"name": ""},
        {"name": "a\nb"},
        {"name": "a\0"},
        {"name": "\ud800"},
        {"name": "x" * 2001},
        {"importance": -1.0},
        {"importance": float("nan")},
        {"state": "sleeping"},
        {"tags": ("",)},
        {"due_at": float("inf")},
        {"config": {"f": object()}},
    ],
)
def test_a_bad_source_refuses_all_and_is_named(store, bad):
    with pytest.raises(InputError):
        store.sources.add([Source(name="good"), Source(**({"name": "bad"} | bad))])
    assert store.sources.count() == 0


def test_a_removed_source_keeps_its_visits_and_can_come_back(store):
    store.sources.add([Source(name="a", tags=("x",)), Source(name="b")], now=NOW)
    store.visits.record(visit("a", outcome="first"))
    assert store.sources.remove("a")
    assert not store.sources.remove("a")
    assert not store.sources.remove("nobody")
    assert store.sources.count() == 1
    assert store.sources.tags() == {}
    with pytest.raises(UnknownSourceError):
        store.sources.get("a")
    with pytest.raises(UnknownSourceError):
        store.visits.record(visit("a", NOW + 5))
    assert len(store.visits.list("a")) == 1  # the log outlives it
    assert len(store.visits.log()) == 1
    assert store.sources.add([Source(name="a", title="again", tags=("y",))], now=NOW + 9) == 1
    back = store.sources.get("a")
    assert (back.title, back.visits, back.tags, back.due_at) == ("again", 1, ("y",), NOW + 9)
    assert healthy(store)


def test_forgetting_leaves_nothing(store):
    store.sources.add([Source(name="a", tags=("x",))], now=NOW)
    store.visits.record(
        visit(
            "a",
            outcome="changed",
            digest=b"d" * 32,
            comparison=Comparison(outcome="changed", record={"x": 1}, memory={"y": 2}, text="text"),
        ),
        posterior=b"p",
        outbox=[Event(id="e")],
    )
    assert store.sources.remove("a", forget=True)
    assert store.totals().visits == store.totals().snapshots == store.totals().pending == 0
    assert store.outbox.list() == []
    assert not store.sources.remove("a", forget=True)
    assert healthy(store)


def test_pages_follow_each_other_in_every_order(store):
    store.sources.add(
        [
            Source(
                name=f"s{i:02}",
                host=f"h{i % 3}",
                importance=i % 4,
                kind="feed" if i % 5 == 0 else "http",
                tags=("odd",) if i % 2 else (),
                title=f"Straße {i}",
            )
            for i in range(23)
        ],
        now=NOW,
    )
    for i in range(0, 23, 3):
        store.visits.record(
            visit(f"s{i:02}", NOW + i % 7, "changed"),
            due_at=None if i % 2 else NOW + i,
            posterior=Posterior(data=b"", rate=float(i % 5)),
        )
    everything = {s.name: s for s in store.sources.list(limit=100).sources}
    for sort in ("name", "due_at", "visited_at", "changed_at", "importance", "rate", "visits"):
        for descending in (False, True):
            found, cursor = [], None
            while True:
                page = store.sources.list(sort=sort, descending=descending, limit=4, after=cursor)
                found += page.sources
                cursor = page.next
                if cursor is None:
                    break
            assert {s.name for s in found} == set(everything)
            assert len(found) == 23
            keys = [getattr(s, sort) for s in found]
            valued = [key for key in keys if key is not None]
            assert keys[: len(valued)] == valued, "what has no value comes last"
            assert valued == sorted(valued, reverse=descending)
            jumped = [
                s.name
                for start in range(0, 23, 4)
                for s in store.sources.list(
                    sort=sort, descending=descending, limit=4, offset=start
                ).sources
            ]
            assert jumped == [s.name for s in found]
    assert store.sources.count(tag="odd") == 11
    assert store.sources.count(host="H1") == 8
    assert store.sources.count(kind="feed", tag="odd") == 2
    assert store.sources.count(search="strasse s01") == 1  # case folded, every word
    assert store.sources.count(state="paused") == 0
    assert [s.name for s in store.sources.list(search="s2").sources] == ["s20", "s21", "s22"]
    with pytest.raises(InputError, match="sorted by"):
        store.sources.list(sort="colour")
    cursor = store.sources.list(limit=4).next
    with pytest.raises(InputError, match="another way"):
        store.sources.list(sort="rate", after=cursor)
    for nonsense in ("", "x", "é", "WzFd", cursor[:-4]):
        with pytest.raises(InputError):
            store.sources.list(after=nonsense)


def test_a_source_can_be_found_by_a_part_of_its_name(store):
    store.sources.add([Source(name="https://a.org/x"), Source(name="https://a.org/xy")])
    assert store.sources.find("https://a.org/x").name == "https://a.org/x"
    assert store.sources.find("XY").name == "https://a.org/xy"
    with pytest.raises(UnknownSourceError, match="several"):
        store.sources.find("a.org")
    with pytest.raises(UnknownSourceError, match="no source"):
        store.sources.find("b.org")


def test_due_sources_come_longest_due_first(store):
    store.sources.add(
        [Source(name=f"s{i}", host=f"h{i}", due_at=NOW - i) for i in range(5)], now=NOW
    )
    store.sources.update("s4", state="paused")
    assert [s.name for s in store.sources.due(now=NOW - 1)] == ["s3", "s2", "s1"]
    assert [s.name for s in store.sources.due(now=NOW, limit=1)] == ["s3"]
    assert [s.name for s in store.sources.due(now=NOW, shards=[shard_of("h2")])] == ["s2"]
    store.sources.set_due({"s3": NOW + 10, "s2": None})
    assert [s.name for s in store.sources.due(now=NOW)] == ["s1", "s0"]
    store.visits.record(visit("s1"), posterior=b"what is known", due_at=NOW + 1)
    rows = {one.source.name: one.posterior for one in store.sources.scheduled()}
    assert rows == {"s0": None, "s1": b"what is known", "s2": None, "s3": None}
    assert [r.source.name for r in store.sources.scheduled([shard_of("h0")])] == ["s0"]
    store.sources.update("s1", state="paused", now=NOW + 3600)
    both = {shard_of("h0"), shard_of("h1")}
    edited = store.sources.scheduled(both, states=("active", "paused"), since=NOW + 1800)
    assert [row.source.name for row in edited] == ["s1"]
    assert store.sources.active(range(SHARDS)) == store.sources.active()
    assert store.sources.active([shard_of("h1")]) == 0
    assert store.sources.active([shard_of("h0")]) == 1


# -- recording --------------------------------------------------------------------------------


def test_a_visit_and_all_that_belongs_to_it_is_kept(store):
    store.sources.add([Source(name="a", host="h")], now=NOW)
    comparison = Comparison(
        outcome="changed",
        digest_raw=b"r" * 32,
        digest_text=b"t" * 32,
        magnitude=0.25,
        angle=0.1,
        attributes=("title", "links"),
        record={"title": "Hello", "links": 3},
        back_to=b"o" * 32,
        text="the text ü",
        memory={"noise": [{"field": "date"}]},
        selection_version="v1",
        complete=True,
        reason="the title changed",
    )
    seen = Visit(
        source="a",
        started_at=NOW + 0.123456,
        ended_at=NOW + 2,
        outcome="changed",
        changed=True,
        status=200,
        last_modified=NOW - 60,
        digest=b"t" * 32,
        magnitude=0.25,
        bytes=4321,
        comparison=comparison,
        validators=Validators(url="https://h/a", etag='W/"1"', last_modified="Thu"),
    )
    told = store.visits.record(
        seen,
        posterior=Posterior(data=b"\0\1", rate=0.5, rate_low=0.25, rate_high=2.0),
        due_at=NOW + 3600,
        outbox=[Event(id="e1", payload={"n": 1}), Event(id="e2", not_before=NOW + 100)],
        now=NOW + 3,
    )
    assert told is Recorded.NEW
    source = store.sources.get("a")
    assert (source.visits, source.changes, source.failures) == (1, 1, 0)
    assert source.visited_at == source.good_at == source.changed_at == NOW + 0.123456
    assert (source.due_at, source.outcome, source.status) == (NOW + 3600, "changed", 200)
    assert (source.rate, source.rate_low, source.rate_high) == (0.5, 0.25, 2.0)
    assert (source.digest, source.last_modified) == (b"t" * 32, NOW - 60)
    past = store.sources.previous("a")
    assert past.text == "the text ü"
    assert past.validators == Validators(url="https://h/a", etag='W/"1"', last_modified="Thu")
    for field in ("digest_raw", "digest_text", "record", "memory", "selection_version"):
        assert getattr(past, field) == getattr(comparison, field)
    assert (past.posterior, past.visited_at) == (b"\0\1", NOW + 0.123456)
    assert store.sources.previous("a", text=False).text is None
    (kept,) = store.visits.list("a", details=True)
    for field in ("started_at", "ended_at", "outcome", "changed", "status", "digest", "bytes"):
        assert getattr(kept, field) == getattr(seen, field)
    assert kept.detail["attributes"] == ["title", "links"]
    assert kept.detail["back_to"] == (b"o" * 32).hex()
    assert kept.detail["record"] == comparison.record
    assert [e.id for e in store.outbox.pending(now=NOW + 3)] == ["e1"]
    assert [e.payload for e in store.outbox.pending(now=NOW + 200)] == [{"n": 1}, None]
    assert store.snapshots.at("a") == "the text ü".encode()
    assert healthy(store)


def test_none_clears_and_silence_keeps(store):
    store.sources.add([Source(name="a")], now=NOW)
    full = Comparison(
        outcome="first", digest_raw=b"1", record={"x": 1}, memory={"m": 1}, text="one"
    )
    told = {"comparison": full, "validators": Validators(url="u", etag="e")}
    store.visits.record(
        visit("a", NOW, "first", last_modified=NOW - 5, digest=b"d", **told),
        posterior=Posterior(data=b"p", rate=1.0),
        due_at=NOW + 9,
    )
    before = store.sources.previous("a")
    store.visits.record(visit("a", NOW + 1, "same"))  # a 304: nothing new to know
    store.visits.record(visit("a", NOW + 2, "failed", status=0, error="timeout"))
    after = store.sources.previous("a")
    assert after.visited_at == NOW + 1
    for field in ("digest_raw", "record", "memory", "text", "validators", "posterior"):
        assert getattr(after, field) == getattr(before, field)
    source = store.sources.get("a")
    assert (source.due_at, source.rate, source.last_modified) == (NOW + 9, 1.0, NOW - 5)
    assert (source.visits, source.failures, source.failed_in_row) == (3, 1, 1)
    assert (source.error, source.digest) == ("timeout", b"d")
    store.visits.record(
        visit("a", NOW + 3, "changed", validators=None), posterior=None, due_at=None, snapshot=None
    )
    gone = store.sources.previous("a")
    assert (gone.posterior, gone.validators, gone.text) == (None, None, "one")
    source = store.sources.get("a")
    assert (source.due_at, source.rate, source.last_modified, source.error) == (
        None,
        None,
        None,
        None,
    )
    assert source.failed_in_row == 0


def test_a_visit_told_twice_counts_once(store):
    store.sources.add([Source(name="a")], now=NOW)
    record = partial(store.visits.record_many, now=NOW + 10)
    entry = Entry(visit=visit("a", outcome="changed"), outbox=[Event(id="e")], due_at=NOW + 1)
    assert record([entry, entry]) == [Recorded.NEW, Recorded.KNOWN]
    assert record([entry]) == [Recorded.KNOWN]
    later = Entry(visit=visit("a", NOW + 5))
    earlier = Entry(visit=visit("a", NOW - 5))  # the clock was set back
    assert record([later, earlier, entry, earlier]) == [
        Recorded.NEW,
        Recorded.NEW,
        Recorded.KNOWN,
        Recorded.KNOWN,
    ]
    assert record([later, earlier]) == [Recorded.KNOWN] * 2
    source = store.sources.get("a")
    assert (source.visits, source.changes, source.visited_at) == (3, 1, NOW + 5)
    assert len(store.outbox.pending(now=NOW + 10)) == 1
    assert healthy(store)


def test_an_event_told_by_two_visits_is_delivered_once(store):
    store.sources.add([Source(name="a")], now=NOW)
    for at in (NOW, NOW + 1):
        store.visits.record(visit("a", at), outbox=[Event(id="same", payload=at)])
    (event,) = store.outbox.pending()
    assert (event.payload, event.source) == (NOW, "a")


def test_a_group_is_one_transaction_and_refusals_do_not_stop_it(store):
    store.sources.add([Source(name="a", host="h"), Source(name="b", host="h")], now=NOW)
    fences = store.leases.take("me", SHARDS, now=NOW)
    good = fences[shard_of("h")]
    told = store.visits.record_many(
        [
            Entry(visit=visit("a", outcome="changed"), fence=good),
            Entry(visit=visit("nobody"), fence=good),
            Entry(visit=visit("b", outcome="changed"), fence=good + 1, outbox=[Event(id="never")]),
            Entry(visit=visit("a", NOW + 1), fence=good),
        ],
        now=NOW,
    )
    assert told == [Recorded.NEW, Recorded.UNKNOWN, Recorded.FENCED, Recorded.NEW]
    assert store.sources.get("a").visits == 2
    assert store.sources.get("b").visits == 0
    assert store.outbox.pending() == []
    with pytest.raises(InputError):  # what cannot be kept refuses the whole group
        store.visits.record_many(
            [Entry(visit=visit("b", NOW + 7)), Entry(visit=visit("a", float("nan")))], now=NOW
        )
    assert store.sources.get("b").visits == 0
    with pytest.raises(InputError):
        store.visits.record_many(
            [Entry(visit=visit("b")), Entry(visit=visit("a", NOW + 9), outbox=[Event(id="")])]
        )
    assert store.sources.get("b").visits == 0


@pytest.mark.parametrize(
    "bad", [{"status": 40_000}, {"status": -1}, {"bytes": 1 << 63}, {"digest": "no hex"}]
)
def test_numbers_that_no_column_can_hold_are_refused_at_the_door(store, bad):
    store.sources.add([Source(name="a")], now=NOW)
    with pytest.raises(InputError):
        store.visits.record_many([Entry(visit=visit("a", **bad))])
    assert store.totals().visits == 0
    store.visits.record(visit("a", magnitude=float("nan"), digest="00ff"))
    (kept,) = store.visits.list("a")
    assert (kept.magnitude, kept.digest) == (None, b"\x00\xff")


def test_the_comparers_memory_follows_every_comparison(store):
    store.sources.add([Source(name="a")], now=NOW)
    told = Comparison(outcome="same", memory={"k": 1}, noise=({"field": "date"},))
    store.visits.record(visit("a", comparison=told))
    assert store.sources.previous("a").memory == {"k": 1}
    assert store.visits.list("a", details=True)[0].detail is None  # nothing that is news
    store.visits.record(visit("a", NOW + 1, comparison=Comparison(outcome="same", memory={})))
    assert store.sources.previous("a").memory == {}


def test_odd_texts_of_the_world_do_no_harm(store):
    store.sources.add([Source(name="a")], now=NOW)
    odd = "nul \0, half a pair \ud83d, quote ' \" ; DROP TABLE visits; -- %s :name"
    found = Comparison(outcome="failed", reason=odd, record={"title": odd, odd: [odd]}, text=odd)
    store.visits.record(
        visit("a", outcome="failed", error=odd, status=0, comparison=found),
        outbox=[Event(id=odd.replace("\0", "").replace("\ud83d", ""), payload=odd)],
    )
    (kept,) = store.visits.list("a", details=True)
    assert "DROP TABLE" in kept.error
    assert "half a pair" in kept.detail["reason"]
    assert "half a pair" in store.sources.previous("a").text
    assert store.sources.count(search="%s") == 0
    assert healthy(store)


# -- reading visits ---------------------------------------------------------------------------


def test_visits_are_read_in_pages(store):
    store.sources.add([Source(name="a"), Source(name="b")], now=NOW)
    for i in range(10):
        store.visits.record(visit("ab"[i % 2], NOW + i, "changed" if i % 3 == 0 else "same"))
    times = [v.started_at - NOW for v in store.visits.list("a", limit=3)]
    assert times == [8, 6, 4]
    last = store.visits.list("a", limit=3)[-1]
    assert [v.started_at - NOW for v in store.visits.list("a", after=last.id)] == [2, 0]
    assert [v.started_at - NOW for v in store.visits.list("a", oldest_first=True, limit=2)] == [
        0,
        2,
    ]
    assert [v.started_at - NOW for v in store.visits.list(since=NOW + 7)] == [9, 8, 7]
    assert [v.started_at - NOW for v in store.visits.list("b", until=NOW + 4)] == [3, 1]
    assert [v.started_at - NOW for v in store.visits.list(changed=True)] == [9, 6, 3, 0]
    with pytest.raises(UnknownSourceError):
        store.visits.list("c")


def test_the_log_is_exported_as_estimators_read_it(store, tmp_path):
    store.sources.add([Source(name="a"), Source(name="b")], now=NOW)
    store.visits.record(
        visit("a", NOW, "first", digest=b"1" * 32, bytes=10, last_modified=NOW - 100)
    )
    store.visits.record(visit("a", NOW + 10, "failed", status=200, error="content"))
    store.visits.record(visit("a", NOW + 20, "unconfirmed"))
    store.visits.record(visit("a", NOW + 30, "changed", digest=b"2" * 32, magnitude=0.5))
    store.visits.record(visit("b", NOW + 5, "failed", status=503))
    store.visits.record(visit("b", NOW + 15, "first", status=None))
    file = tmp_path / "visits.parquet"
    seen = []
    assert store.visits.export(file, progress=seen.append) == 6
    assert seen == [6]
    assert pq.read_schema(file).names[-1] == "outcome"
    log = read_visits(file)
    assert log.sources.to_pylist() == ["a", "b"]
    # what saw nothing is a failed visit to every reader, so the interval runs on
    assert log.succeeded.tolist() == [True, False, False, True, False, True]
    assert log.changed.tolist() == [-1, -1, -1, 1, -1, -1]
    assert log.extras["digest"].to_pylist()[0] == b"1" * 32
    assert store.visits.export(tmp_path / "visits.csv", since=NOW + 15) == 3
    assert repr(store.visits.log()) == repr(log)
    assert [b.num_rows for b in store.visits.batches(rows=4)] == [4, 2]


def test_gone_and_back_are_changes_after_export_too(store, tmp_path):
    store.sources.add([Source(name="a")], now=NOW)
    store.visits.record(visit("a", NOW, "first", digest=b"1" * 32))
    for k in range(7):
        at = NOW + 100 * k
        store.visits.record(visit("a", at + 10, "gone", status=404, changed=True))
        store.visits.record(visit("a", at + 20, "same", status=404))  # still not there
        store.visits.record(visit("a", at + 30, "failed", status=503, error="http"))
        store.visits.record(visit("a", at + 40, "back", digest=b"1" * 32, changed=True))
    for name in ("visits.parquet", "visits.csv"):
        store.visits.export(tmp_path / name)
        log = read_visits(tmp_path / name)
        assert np.count_nonzero(log.changed == 1) == 14 == store.sources.get("a").changes
        # Visits that found it still gone, and those that failed, observe nothing.
        assert np.count_nonzero(log.changed == 0) == 0
        assert np.count_nonzero(~log.succeeded) == 14
        assert log.extras["status"].to_pylist()[1] == 404
        assert estimate_rates(log, "naive").changes.tolist() == [14]


def test_an_empty_store_exports_an_empty_file(store, tmp_path):
    assert store.visits.export(tmp_path / "none.parquet") == 0
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


def test_the_export_is_one_moment_while_visits_go_on(store):
    store.sources.add([Source(name="a")], now=NOW)
    store.visits.record_many([Entry(visit=visit("a", NOW + i)) for i in range(10)])
    batches = store.visits.batches(rows=4)
    first = next(batches)
    store.visits.record(visit("a", NOW + 100))  # is not kept waiting, and not seen
    assert first.num_rows + sum(b.num_rows for b in batches) == 10
    assert store.sources.get("a").visits == 11


# -- snapshots --------------------------------------------------------------------------------


def test_contents_are_kept_once_and_known_by_their_digest(store):
    store.sources.add([Source(name="a"), Source(name="b")], now=NOW)
    store.visits.record(visit("a"), snapshot={"text": "same", "body": b"\0\xff"})
    store.visits.record(visit("b"), snapshot="same")
    store.visits.record(visit("a", NOW + 10), snapshot="other")
    assert store.totals().snapshots == 3
    newest, oldest = store.snapshots.versions("a")
    assert (newest.at, oldest.at, oldest.size) == (NOW + 10, NOW, 4)
    assert store.snapshots.get(oldest.digest) == b"same"
    assert store.snapshots.at("a", NOW + 9) == b"same"
    assert store.snapshots.at("a", NOW - 1) is None
    assert store.snapshots.at("a", kind="body") == b"\0\xff"
    with pytest.raises(KeyError):
        store.snapshots.get(b"\0" * 32)
    with pytest.raises(UnknownSourceError):
        store.snapshots.versions("c")
    store.sources.remove("a", forget=True)
    assert store.snapshots.at("b") == b"same"
    assert store.totals().snapshots == 1


def test_retention_by_age_count_and_bytes(store):
    store.sources.add([Source(name=n) for n in "abc"], now=NOW)
    rng_text = [os.urandom(2000).hex() for _ in range(30)]
    for i in range(30):
        store.visits.record(visit("abc"[i % 3], NOW + i, "changed"), snapshot=rng_text[i])
    assert store.snapshots.retain(now=NOW) == store.snapshots.retain(
        max_age=1e9, max_versions=99, max_bytes=1 << 40, now=NOW
    )
    swept = store.snapshots.retain(max_age=10.0, now=NOW + 29)
    assert (swept.versions, swept.snapshots) == (19, 19)
    assert swept.bytes > 19 * 1000
    assert [v.at - NOW for v in store.snapshots.versions("a")] == [27, 24, 21]
    swept = store.snapshots.retain(max_versions=2)
    assert (swept.versions, len(store.snapshots.versions("a"))) == (5, 2)
    before = store.totals().snapshot_bytes
    store.snapshots.retain(max_bytes=before - 1)
    assert store.totals().snapshots == 5
    assert [v.at - NOW for v in store.snapshots.versions("a")] == [27]  # the oldest of all went
    store.snapshots.retain(max_bytes=0, max_age=0, max_versions=1, now=NOW + 1e6)
    assert [len(store.snapshots.versions(n)) for n in "abc"] == [1, 1, 1]  # the latest always stays
    assert store.totals().visits == 30
    assert len(store.visits.log()) == 30
    assert healthy(store)
    with pytest.raises(InputError):
        store.snapshots.retain(max_versions=0)
    with pytest.raises(InputError):
        store.snapshots.retain(max_bytes=-1)


def test_a_content_that_lies_about_its_size_is_not_unpacked():
    bomb = zstandard.ZstdCompressor().compress(b"\0" * 50_000_000)
    with pytest.raises(StoreError, match="expected"):
        unpacked(bomb, 10)
    one = packed(b"")
    assert unpacked(one.content, 0, one.digest) == b""
    with pytest.raises(StoreError, match="name"):
        unpacked(one.content, 0, b"\1" * 32)


# -- outbox and settings ----------------------------------------------------------------------


@pytest.mark.slow
def test_events_wait_until_they_are_delivered(store):
    assert store.outbox.add([Event(id="b", topic="t"), Event(id="a")], now=NOW) == 2
    assert store.outbox.add([Event(id="a"), Event(id="c", not_before=NOW + 50)], now=NOW + 1) == 1
    assert {e.id for e in store.outbox.pending(now=NOW + 1)} == {"a", "b"}
    assert [e.id for e in store.outbox.pending(now=NOW + 1, topic="t")] == ["b"]
    taken = store.outbox.take(limit=1, seconds=30, now=NOW + 1)
    assert len(taken) == 1
    assert {e.id for e in store.outbox.take(seconds=30, now=NOW + 1)} | {taken[0].id} == {"a", "b"}
    assert store.outbox.take(now=NOW + 30) == []
    assert len(store.outbox.take(seconds=1, now=NOW + 32)) == 2  # who took them has died
    store.outbox.postpone("a", until=NOW + 500, error="no answer")
    assert [e.id for e in store.outbox.pending(now=NOW + 100)] == ["b", "c"]
    assert store.outbox.delivered(["a", "b", "nobody"], now=NOW + 60) == 2
    assert store.outbox.delivered(["a"], now=NOW + 61) == 0
    log = {e.id: e for e in store.outbox.list()}
    assert (log["a"].attempts, log["a"].delivered_at, log["c"].delivered_at) == (1, NOW + 60, None)
    assert store.outbox.add([Event(id="a")]) == 0  # also once it was delivered
    assert store.outbox.prune(before=NOW + 61) == 2
    assert [e.id for e in store.outbox.list()] == ["c"]
    with pytest.raises(UnknownSourceError):
        store.outbox.add([Event(id="x")], source="nobody")


def test_settings_keep_any_json_value(store):
    assert store.settings.get("a") is None
    assert store.settings.get("a", 5) == 5
    store.settings.set("a.x", {"k": [1, 2.5, None, "ü"]})
    store.settings.set("a.y", 0)
    store.settings.set("b", False)
    assert store.settings.all("a.") == {"a.x": {"k": [1, 2.5, None, "ü"]}, "a.y": 0}
    assert store.settings.get("b", True) is False
    store.settings.set("a.y", None)
    assert set(store.settings.all()) == {"a.x", "b"}


# -- leases -----------------------------------------------------------------------------------


def test_shards_are_leased_renewed_taken_over_and_given_back(store):
    one = store.leases.take("one", 40, NOW, 60)
    two = store.leases.take("two", 40, NOW, 60)
    assert len(one) == 40
    assert len(two) == SHARDS - 40
    assert not set(one) & set(two)
    assert store.leases.take("one", 40, NOW + 30, 60) == one  # renewed, same fences
    assert store.leases.take("two", 64, NOW + 70, 60).keys() == two.keys()  # one holds until 90
    assert store.leases.take("one", 0, NOW + 89, 60) == one
    three = store.leases.take("three", 64, NOW + 200, 60)  # everybody else has died
    assert set(three) == set(range(SHARDS))
    assert all(three[shard] > fence for shard, fence in (one | two).items())
    assert store.leases.renew("one", one, NOW + 201) == {}
    kept = {0: three[0], 1: three[1]}
    assert store.leases.renew("three", kept, NOW + 230, 100) == kept
    assert store.leases.release("three", kept) == 2
    assert store.leases.release("three", kept) == 0
    assert store.leases.take("four", 64, NOW + 231).keys() == kept.keys()
    assert store.leases.release("three") == SHARDS - 2
    assert {lease.observer for lease in store.leases.list()} == {"four"}
    actions = [(note.observer, note.action) for note in store.journal.list(limit=100)]
    assert ("one", "lost") in actions
    assert store.journal.list(observer="three")[-1].detail["from"] == ["one", "two"]
    assert [o.name for o in store.leases.observers(since=NOW + 230)] == ["four", "three"]
    with pytest.raises(InputError):
        store.leases.take("one", 65)


def test_a_lease_that_ran_out_cannot_be_renewed(store):
    old = store.leases.take("me", 1, NOW, 60)
    assert store.leases.renew("me", old, NOW + 60) == {}  # nobody took it, but somebody could have
    new = store.leases.take("me", 1, NOW + 61, 60)
    assert old.keys() == new.keys()
    assert store.leases.renew("me", old, NOW + 62) == {}  # mine again, under another fence
    assert store.leases.release("me", old) == 0
    assert store.leases.renew("me", new, NOW + 62) == new


def test_a_commit_with_an_expired_or_foreign_fence_is_refused(store):
    store.sources.add([Source(name="a", host="h")], now=NOW)
    shard = shard_of("h")
    old = store.leases.take("old", SHARDS, NOW, 60)[shard]
    assert store.visits.record(visit("a", NOW), fence=old, now=NOW + 59) is Recorded.NEW
    with pytest.raises(FenceError):  # over, although nobody took it
        store.visits.record(visit("a", NOW + 60), fence=old, now=NOW + 60)
    new = store.leases.take("new", SHARDS, NOW + 61, 60)[shard]
    with pytest.raises(FenceError):
        store.visits.record(visit("a", NOW + 61), fence=old, outbox=[Event(id="e")], now=NOW + 62)
    assert store.visits.record(visit("a", NOW), fence=old, now=NOW + 62) is Recorded.KNOWN
    assert store.visits.record(visit("a", NOW + 62), fence=new, now=NOW + 63) is Recorded.NEW
    assert store.sources.get("a").visits == 2
    assert store.outbox.pending(now=NOW + 99) == []
    store.leases.release("new", now=NOW + 64)
    with pytest.raises(FenceError):
        store.visits.record(visit("a", NOW + 64), fence=new, now=NOW + 65)


@pytest.mark.slow
def test_several_processes_never_hold_the_same_shard(place):
    open_store(place).close()
    workers = [start_worker("lease", place, f"observer {i}", "4") for i in range(3)]
    told = {}
    for i, worker in enumerate(workers):
        output, _ = worker.communicate(timeout=PATIENCE)
        assert worker.returncode == 0
        told[f"observer {i}"] = json.loads(output)
    owners, spans = {}, {}
    for name, held in told.items():
        for shard, fence, begin, end in held:
            assert owners.setdefault((shard, fence), name) == name, "one fence, one owner"
            spans[shard, fence] = (begin, end)
    handed_over = 0
    by_shard = {}
    for (shard, fence), (begin, end) in spans.items():
        by_shard.setdefault(shard, []).append((fence, begin, end, owners[shard, fence]))
    for held in by_shard.values():
        held.sort()
        for (_, _, end, before), (_, begin, _, after) in pairwise(held):
            handed_over += before != after
            # from the answer to a lease until its end (or its return) it is the holder's alone
            assert begin >= end
    assert handed_over > 0


# -- opening, migrating ------------------------------------------------------------------------


def test_a_store_is_as_it_was_when_opened_again(place):
    with open_store(place) as first:
        first.sources.add([Source(name="a")], now=NOW)
        first.visits.record(visit("a"), due_at=NOW + 5)
    with pytest.raises(StoreError, match="closed"):
        first.sources.count()
    with pytest.raises(StoreError, match="closed"):
        first.sources.add([])
    with open_store(place, create=False) as again:
        assert again.sources.get("a").due_at == NOW + 5


def test_nothing_is_made_where_nothing_was_to_be_made(place, tmp_path):
    with pytest.raises(StoreError, match=r"there is no store|create"):
        open_store(place, create=False)
    assert list(tmp_path.iterdir()) == []


def _at_version(place, number):
    """A store as an older observant made it, with rows in it."""
    engine = open_store(place).engine  # the newest; its tables are made again below

    def work(session):
        session.script(_drop_all(engine.name))
        session.script(statements(engine.name)["create_migrations"])
        for step in migrations(engine.name)[:number]:
            session.script(step.sql)
            session.run("migrated", number=step.number, name=step.name, now=0)
        session.script(
            "INSERT INTO sources (id, name, kind, url, host, shard, title, importance, state,"
            " created_at, updated_at, due_at, visits, tags, config, searched)"
            " VALUES (7, 'old', 'http', '', 'h', 3, '', 1.0, 'active', 1, 1, 5000000, 1, '[]',"
            " '{}', 'old');\n"
            "INSERT INTO visits (source, started_at, took, outcome)"
            " VALUES (7, 1000000, 5, 'first');\n"
            "UPDATE sources SET visited_at = 1000000;\n"
            "INSERT INTO events (event, topic, source, created_at, due_at, payload)"
            " VALUES ('e', 't', 7, 1, 1, '{}');\n"
        )

    engine.write(work)
    engine.close()


def _drop_all(engine):
    tables = reversed(columns_of())  # in the order of their making, the last refer to the first
    cascade = " CASCADE" if engine == "postgres" else ""
    drops = [f"DROP TABLE {table}{cascade};" for table in tables]
    return "\n".join(["DROP VIEW visit_log;", *drops])


@pytest.mark.parametrize("number", [1])
def test_a_store_of_an_older_version_is_brought_forward(place, number, tmp_path):
    _at_version(place, number)
    with open_store(place) as store:
        assert store.engine.version() == migrations("sqlite")[-1].number
        assert store.sources.get("old").due_at == 5.0
        assert [v.started_at for v in store.visits.list("old")] == [1.0]
        assert [e.id for e in store.outbox.pending()] == ["e"]
        store.journal.add("me", "looked")
        assert healthy(store)
        store.backup(tmp_path / "backup.db")


def test_a_backup_of_an_older_version_is_restored(store, tmp_path):
    old = str(tmp_path / "old.db")
    _at_version(old, 1)
    assert store.restore(old) == 1
    assert [e.id for e in store.outbox.pending()] == ["e"]
    with closing(sqlite3.connect(old)) as untouched:
        assert untouched.execute("SELECT max(number) FROM migrations").fetchone() == (1,)


def test_a_store_of_a_newer_version_is_refused(place):
    with open_store(place) as store:
        store.engine.write(lambda s: s.run("migrated", number=99, name="future", now=0))
    with pytest.raises(StoreVersionError, match="newer observant"):
        open_store(place)


def test_both_engines_have_the_same_migrations_and_columns(postgres):
    assert [step[:2] for step in migrations("sqlite")] == [s[:2] for s in migrations("postgres")]
    with (
        open_store(f"{postgres}&schema=test_columns") as store,
        store.engine.snapshot() as session,
    ):
        rows = session.sql(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = 'test_columns' ORDER BY table_name, ordinal_position",
            {},
        )
    found = {}
    for table, column in rows:
        found.setdefault(table, []).append(column)
    with open_store(":memory:") as store, store.engine.snapshot() as session:
        for table, columns in found.items():
            names = [row[1] for row in session.sql(f"PRAGMA table_info({table})", {})]
            assert names == columns, table


def test_every_piece_says_what_it_promises():
    with open_store(":memory:") as store:
        pieces = [piece for name, piece in vars(store).items() if name != "engine"]
        promises = [
            getattr(type(piece), name)
            for piece in (store, *pieces)
            for name in vars(type(piece))
            if not name.startswith("_")
        ]
    assert len(pieces) >= 14
    assert len(promises) > 80
    assert [promise.__qualname__ for promise in promises if not promise.__doc__] == []
    assert issubclass(sqlite_engine.SqliteEngine, Engine)


# -- SQLite alone ------------------------------------------------------------------------------


def test_other_peoples_files_are_left_alone(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("these are notes, and long enough for a page of a database" * 100)
    with pytest.raises(StoreError, match="not a SQLite database"):
        open_store(text)
    foreign = tmp_path / "foreign.db"
    with closing(sqlite3.connect(foreign)) as database:
        database.execute("CREATE TABLE sources (x)")
    before = foreign.read_bytes()
    with pytest.raises(StoreError, match="not an observant store"):
        open_store(foreign)
    assert foreign.read_bytes() == before
    with pytest.raises(StoreError, match="no folder"):
        open_store(tmp_path / "no" / "where.db")


def test_a_new_file_is_for_its_owner_only(tmp_path):
    open_store(tmp_path / "store.db").close()
    assert (tmp_path / "store.db").stat().st_mode & 0o077 == 0


def test_a_network_filesystem_is_refused(tmp_path, monkeypatch):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
        f"30 22 0:40 / {tmp_path}/far\\040away rw shared:1 - nfs4 server:/export rw\n"
    )
    (tmp_path / "far away").mkdir()
    assert filesystem_of(tmp_path / "far away" / "x.db", str(mounts)) == "nfs4"
    assert filesystem_of(tmp_path / "far awayness", str(mounts)) == "ext4"
    assert filesystem_of(tmp_path, str(tmp_path / "none")) is None
    monkeypatch.setattr(
        sqlite_engine, "filesystem_of", lambda path: filesystem_of(path, str(mounts))
    )
    with pytest.raises(StoreError, match=r"network filesystem \(nfs4\)"):
        open_store(tmp_path / "far away" / "x.db")
    with open_store(tmp_path / "far away" / "x.db", allow_network_filesystem=True) as store:
        assert "filesystem" in {finding.check for finding in store.doctor()}


def test_a_busy_file_is_told_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_engine, "_BUSY_SECONDS", 0.1)
    with open_store(tmp_path / "s.db") as store:
        store.sources.add([Source(name="a")])
        with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreBusyError, match="nothing was written"):
                store.visits.record(visit("a"))
            assert store.sources.get("a").visits == 0  # readers are not in anybody's way
            other.execute("ROLLBACK")
        assert store.visits.record(visit("a")) is Recorded.NEW


def test_a_full_disk_is_told_and_the_store_stays_sound(tmp_path):
    with open_store(tmp_path / "s.db") as store:
        store.sources.add([Source(name="a")])
        pages = store.engine._writer.execute("PRAGMA page_count").fetchone()[0]
        store.engine._writer.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StoreError, match="disk is full"):
            store.visits.record(visit("a"), snapshot=os.urandom(100_000))
        assert store.sources.get("a").visits == 0
        store.engine._writer.execute("PRAGMA max_page_count = 1000000")
        assert store.visits.record(visit("a")) is Recorded.NEW
        assert healthy(store)


def test_people_can_read_the_log_with_sql(tmp_path):
    with open_store(tmp_path / "s.db") as store:
        store.sources.add([Source(name="a")])
        store.visits.record(visit("a", 86_400.0, outcome="changed"))
        with closing(sqlite3.connect(tmp_path / "s.db")) as database:
            rows = database.execute(
                "SELECT source, time, changed, status FROM visit_log"
            ).fetchall()
    assert rows == [("a", "1970-01-02T00:00:00Z", 1, 200)]


# -- PostgreSQL alone --------------------------------------------------------------------------


def test_a_lost_connection_is_opened_again(postgres):
    with open_store(f"{postgres}&schema=test_lost") as store:
        store.sources.add([Source(name="a")], now=NOW)
        for _ in range(2):
            store.engine.write(lambda _: None)
            store.sources.count()
            with open_store(f"{postgres}&schema=test_other") as other:
                other.engine.write(
                    lambda s: s.sql(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE application_name = 'observant' AND pid <> pg_backend_pid()",
                        {},
                    )
                )
            assert store.visits.record(visit("a")) in {Recorded.NEW, Recorded.KNOWN}
            assert store.sources.count() == 1
        assert store.sources.get("a").visits == 1


def test_a_bad_url_is_told(postgres):
    with pytest.raises(StoreError, match="schema"):
        open_store(f"{postgres}&schema=a;b")
    with pytest.raises(StoreError) as told:
        open_store("postgresql://me:secret@127.0.0.1:1/nowhere")
    assert "secret" not in str(told.value)


# -- threads and tasks -------------------------------------------------------------------------


def test_many_threads_write_and_read_at_once(store):
    store.sources.add([Source(name=f"s{i}") for i in range(8)], now=NOW)
    troubles = []

    def work(i):
        try:
            for turn in range(15):
                store.visits.record(
                    visit(f"s{i}", NOW + turn, "changed"), outbox=[Event(id=f"{i}.{turn}")]
                )
                store.sources.list(limit=3)
                store.sources.previous(f"s{i}")
        except Exception as error:  # noqa: BLE001 - told below
            troubles.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert troubles == []
    assert store.totals().visits == store.totals().pending == 120
    assert healthy(store)


def test_an_error_in_the_middle_leaves_nothing(store):
    store.sources.add([Source(name="a")], now=NOW)

    def work(session):
        session.run("set_setting", key="k", value="1")
        session.run("remove_source", name="a", now=0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.engine.write(work)
    assert store.settings.get("k") is None
    assert store.sources.count() == 1


def test_two_who_write_to_one_place_wait_for_each_other(place):
    names = [f"s{i}" for i in range(4)]
    with open_store(place, durable=False) as one, open_store(place, durable=False) as two:
        one.sources.add([Source(name=name, host=name) for name in names], now=NOW)
        troubles = []

        def work(store, mine):
            try:
                for turn in range(40):
                    store.visits.record_many(
                        [
                            Entry(visit=visit(name, NOW + turn, "changed"), snapshot=f"{turn}")
                            for name in mine
                        ]
                    )
            except Exception as error:  # noqa: BLE001 - told below
                troubles.append(error)

        threads = [
            threading.Thread(target=work, args=(store, mine))
            for store, mine in ((one, names[:2]), (two, names[:1:-1]))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert troubles == []
        assert (one.totals().visits, two.totals().snapshots) == (160, 40)
        assert healthy(one)


def test_nobody_who_reads_waits_for_those_who_write(store):
    store.sources.add([Source(name="a")], now=NOW)
    in_the_middle, go_on = threading.Event(), threading.Event()

    def slow(session):
        session.run("set_setting", key="k", value="1")
        in_the_middle.set()
        go_on.wait(PATIENCE)

    writer = threading.Thread(target=store.engine.write, args=(slow,))
    writer.start()
    try:
        assert in_the_middle.wait(PATIENCE)
        reader = threading.Thread(target=store.sources.count)
        reader.start()
        reader.join(PATIENCE / 2)
        assert not reader.is_alive()
        assert store.settings.get("k") is None  # and sees nothing of what is not committed
    finally:
        go_on.set()
        writer.join(PATIENCE)
    assert store.settings.get("k") == 1


def test_a_group_commit_tells_each_task_its_own(store, monkeypatch):
    store.sources.add([Source(name=f"s{i}") for i in range(50)], now=NOW)
    calls = []
    record_many = store.visits.record_many
    monkeypatch.setattr(
        store.visits, "record_many", lambda es: calls.append(len(es)) or record_many(es)
    )

    async def work():
        group = GroupCommit(store)
        entries = [Entry(visit=visit(f"s{i}")) for i in range(50)]
        entries[7] = Entry(visit=visit("nobody"))
        told = await asyncio.gather(*map(group.record, entries))
        bad = Entry(visit=visit("s1", float("nan")))
        mixed = await asyncio.gather(
            group.record(bad),
            group.record(Entry(visit=visit("s1", NOW + 1))),
            return_exceptions=True,
        )
        waiting = asyncio.create_task(group.record(Entry(visit=visit("s2", NOW + 1))))
        await asyncio.sleep(0)
        await group.close()
        assert await waiting is Recorded.NEW
        with pytest.raises(StoreError, match="closing"):
            await group.record(entries[0])
        return told, mixed

    told, mixed = asyncio.run(work())
    assert told.count(Recorded.NEW) == 49
    assert told[7] is Recorded.UNKNOWN
    assert calls[0] == 50
    assert isinstance(mixed[0], InputError)
    assert mixed[1] is Recorded.NEW
    assert store.totals().visits == 51


def test_when_the_store_fails_every_task_is_told_at_once(store, monkeypatch):
    calls = []

    def fail(entries):
        calls.append(len(entries))
        raise StoreError("the disk is full")

    monkeypatch.setattr(store.visits, "record_many", fail)

    async def work():
        group = GroupCommit(store)
        entries = [Entry(visit=visit(f"s{i}")) for i in range(9)]
        return await asyncio.gather(*map(group.record, entries), return_exceptions=True)

    told = asyncio.run(work())
    assert calls == [9]
    assert {str(error) for error in told} == {"the disk is full"}


# -- backup and restore ------------------------------------------------------------------------


def _filled(store):
    store.sources.add(
        [Source(name=f"s{i}", host=f"h{i}", tags=("t",), config={"i": i}) for i in range(5)],
        now=NOW,
    )
    store.sources.remove("s4")
    fences = store.leases.take("me", SHARDS, NOW)
    for i in range(20):
        name = f"s{i % 4}"
        found = Comparison(
            outcome="changed", record={"i": i}, attributes=("a",), text=f"text {i // 2}"
        )
        told = {"digest": bytes([i]) * 32, "magnitude": 0.5, "comparison": found}
        store.visits.record(
            visit(name, NOW + i, "changed", **told),
            posterior=Posterior(data=bytes([i]), rate=float(i)),
            due_at=NOW + 100 + i,
            outbox=[Event(id=f"e{i}", payload={"i": i})],
            fence=fences[shard_of(f"h{i % 4}")],
            now=NOW,
        )
    store.outbox.delivered(["e3"], now=NOW)
    store.settings.set("k", {"v": 1})


def _contents(store):
    return {
        "sources": store.sources.list().sources,
        "visits": store.visits.list(details=True),
        "past": store.sources.previous_many([f"s{i}" for i in range(4)]),
        "versions": [store.snapshots.versions(f"s{i}") for i in range(4)],
        "events": store.outbox.list(),
        "settings": store.settings.all(),
        "audit": store.journal.list(),
        "totals": store.totals(),
        "tags": store.sources.tags(),
    }


@pytest.mark.parametrize("target", ENGINE_NAMES)
def test_a_backup_is_restored_into_any_engine(store, target, tmp_path, request):
    _filled(store)
    file = tmp_path / "backup.db"
    assert store.backup(file) == file.stat().st_size > 0
    assert sorted(p.name for p in tmp_path.iterdir() if "backup" in p.name or p.name[0] == ".") == [
        "backup.db"
    ]
    (tmp_path / "target").mkdir()
    with open_store(new_place(target, request, tmp_path / "target")) as other:
        assert other.restore(file) == 20
        assert _contents(other) == _contents(store)
        assert healthy(other)
        # life goes on: new keys after the old ones, and no fence is valid twice
        other.sources.add([Source(name="new")], now=NOW)
        other.visits.record(visit("new"), snapshot="new", outbox=[Event(id="new")])
        old = {lease.shard: lease.fence for lease in store.leases.list()}
        new = other.leases.take("other", SHARDS, NOW)
        assert all(new[shard] > fence for shard, fence in old.items())
        with pytest.raises(StoreError, match="not empty"):
            other.restore(file)
        assert other.restore(file, replace=True) == 20
        assert _contents(other) == _contents(store)
    with open_store(file) as opened:  # a backup is itself a store
        assert _contents(opened) == _contents(store)
    with pytest.raises(InputError, match="already"):
        store.backup(file)
    with pytest.raises(InputError, match="folder"):
        store.backup(tmp_path / "no" / "where.db")


def test_a_backup_while_visits_go_on_is_one_moment(store, tmp_path):
    store.sources.add([Source(name="a")], now=NOW)
    stop, failed = threading.Event(), []

    def write():
        turn = 0
        while not stop.is_set():
            turn += 1
            try:
                store.visits.record(visit("a", NOW + turn, "changed"), outbox=[Event(id=str(turn))])
            except Exception as error:  # noqa: BLE001 - told below
                failed.append(error)
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for turn in range(3):
            before = store.totals().visits
            until(lambda before=before: store.totals().visits > before)
            store.backup(tmp_path / f"{turn}.db")
    finally:
        stop.set()
        writer.join(PATIENCE)
    assert failed == []
    for turn in range(3):
        with open_store(tmp_path / f"{turn}.db") as copy:
            totals = copy.totals()
            assert totals.visits == totals.changes == totals.pending > 0
            assert healthy(copy)


def _spoil(file, *statements_):
    with closing(sqlite3.connect(file)) as database:
        for statement in statements_:
            database.execute(statement)
        database.commit()


SPOILED = {
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON sources BEGIN DELETE FROM visits; END",
    "a view": "CREATE VIEW evil AS SELECT 1",
    "a table": "CREATE TABLE evil (x)",
    "a column": "ALTER TABLE sources ADD COLUMN evil TEXT",
    "a name": "UPDATE sources SET name = 'a' || char(10) || 'b' WHERE name = 's1'",
    "a long name": "UPDATE sources SET name = hex(zeroblob(1500)) WHERE id = 1",
    "a config": "UPDATE sources SET config = '{' WHERE name = 's1'",
    "a tag": "UPDATE tags SET tag = char(1) WHERE source = 1",
    "an event": "UPDATE events SET payload = 'x'",
    "a setting": "UPDATE settings SET value = 'x'",
    "a content": "UPDATE snapshots SET content = x'00' WHERE id = 1",
    "another content": "UPDATE snapshots SET digest = zeroblob(32) WHERE id = 1",
    "a size": "UPDATE snapshots SET size = 99999999999 WHERE id = 1",
    "a path": "UPDATE snapshots SET digest = CAST('../../etc/passwd' AS BLOB) WHERE id = 1",
    "no version": "DELETE FROM migrations",
    "another application": "PRAGMA application_id = 1",
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_backup_with_something_strange_is_refused(store, tmp_path, how):
    with open_store(":memory:") as good:
        _filled(good)
        good.backup(tmp_path / "bad.db")
    _spoil(tmp_path / "bad.db", SPOILED[how])
    store.sources.add([Source(name="mine")], now=NOW)
    with pytest.raises(BackupError):
        store.restore(tmp_path / "bad.db", replace=True)
    assert [s.name for s in store.sources.list().sources] == ["mine"]  # nothing happened


@pytest.mark.slow
def test_a_bomb_in_a_backup_does_not_go_off(store, tmp_path):
    with open_store(":memory:") as good:
        _filled(good)
        good.backup(tmp_path / "bad.db")
    bomb = zstandard.ZstdCompressor(level=1).compress(b"\0" * (300 << 20))
    with closing(sqlite3.connect(tmp_path / "bad.db")) as database:
        database.execute(
            "UPDATE snapshots SET content = ?, size = ? WHERE id = 1", [bomb, 300 << 20]
        )
        database.commit()
    with pytest.raises(BackupError, match="size"):
        store.restore(tmp_path / "bad.db")


def test_a_damaged_or_foreign_backup_is_refused(store, tmp_path):
    with pytest.raises(BackupError, match="cannot be read"):
        store.restore(tmp_path / "nothing.db")
    (tmp_path / "text.db").write_text("no database at all")
    with pytest.raises(BackupError, match="not a backup"):
        store.restore(tmp_path / "text.db")
    with open_store(":memory:") as good:
        _filled(good)
        good.backup(tmp_path / "good.db")
    whole = (tmp_path / "good.db").read_bytes()
    (tmp_path / "half.db").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BackupError):
        store.restore(tmp_path / "half.db")
    _spoil(tmp_path / "good.db", "INSERT INTO migrations VALUES (99, 'future', 0)")
    with pytest.raises(StoreVersionError):
        store.restore(tmp_path / "good.db")
    assert store.totals().visits == 0


# -- doctor ------------------------------------------------------------------------------------


def _checks(store, **options):
    return {finding.check: finding for finding in store.doctor(now=NOW + 1000, **options)}


def test_the_doctor_finds_what_is_wrong_and_mends_what_can_be_mended(store):
    store.sources.add([Source(name="a", due_at=NOW), Source(name="b", due_at=NOW)], now=NOW)
    store.visits.record(visit("a"), snapshot="one", outbox=[Event(id="e")], now=NOW)
    assert _checks(store) == {}

    def spoil(*texts):
        store.engine.write(lambda session: [session.change(text, {}) for text in texts])

    spoil(
        "UPDATE sources SET visits = 7 WHERE name = 'a'",
        "UPDATE sources SET due_at = NULL WHERE name = 'b'",
        "DELETE FROM versions",
    )
    found = _checks(store)
    assert set(found) == {"counts", "schedule", "orphans"}
    assert found["counts"].examples == ("a",)
    assert (found["counts"].severity, found["schedule"].examples) == ("error", ("b",))
    assert all(finding.repaired for finding in store.doctor(repair=True, now=NOW + 1000))
    assert _checks(store) == {}
    assert store.sources.get("a").visits == 1
    assert store.sources.get("b").due_at == NOW + 1000

    store.visits.record(visit("a", NOW + 9999), snapshot="two", now=NOW)
    store.visits.record(visit("a", NOW + 500), now=NOW)
    store.outbox.postpone("e", until=NOW + 10, error="refused")
    spoil(
        "UPDATE events SET created_at = 0",
        "UPDATE snapshots SET content = '\\x00'"
        if store.engine.name == "postgres"
        else "UPDATE snapshots SET content = x'00'",
    )
    store.leases.take("dead", 3, NOW, 10)
    found = _checks(store)
    assert set(found) == {"clock", "outbox", "damaged", "leases"}
    assert found["leases"].severity == "note"
    jumps = [f for f in store.doctor(now=NOW + 1e6) if f.check == "clock"]
    assert len(jumps) == 1
    assert "jumped back 1 time" in jumps[0].message


def test_the_doctor_sees_a_damaged_file(tmp_path):
    file = tmp_path / "s.db"
    with open_store(file) as store:
        store.sources.add([Source(name=f"s{i}" * 20) for i in range(500)], now=NOW)
        store.visits.record_many([Entry(visit=visit(f"s{i}" * 20)) for i in range(500)])
    raw = bytearray(file.read_bytes())
    page = 4096
    for start in range(20 * page, len(raw) - page, 7 * page):
        raw[start + 100 : start + 300] = b"\xff" * 200
    file.write_bytes(raw)
    try:
        with open_store(file) as store:
            assert "integrity" in {finding.check for finding in store.doctor(now=NOW)}
    except StoreError as error:  # so damaged that not even the tables can be read
        assert "malformed" in str(error) or "damaged" in str(error)  # noqa: PT017


# -- against a model ---------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c"])
TIMES = st.integers(0, 12)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), NAMES),
        st.tuples(st.just("remove"), NAMES, st.booleans()),
        st.tuples(
            st.just("record"),
            st.lists(
                st.tuples(
                    NAMES,
                    TIMES,
                    st.sampled_from(["same", "changed", "failed"]),
                    st.one_of(st.none(), st.integers(0, 3)),  # snapshot
                    st.one_of(st.none(), st.integers(0, 5)),  # event
                    st.sampled_from([None, "good", "bad"]),  # fence
                ),
                min_size=1,
                max_size=4,
            ),
        ),
        st.tuples(st.just("deliver"), st.integers(0, 5)),
        st.tuples(st.just("state"), NAMES, st.sampled_from(["active", "paused", "gone"])),
        st.tuples(st.just("retain"), st.integers(1, 2)),
        st.tuples(st.just("lease")),
    ),
    max_size=14,
)


class Model:
    """The same store, as dictionaries."""

    def __init__(self):
        self.sources, self.visits, self.versions, self.events = {}, {}, {}, {}
        self.fences = dict.fromkeys(range(SHARDS), 0)

    def add(self, name):
        if self.sources.get(name, "removed") == "removed":
            self.sources[name] = "active"

    def remove(self, name, forget):
        if name not in self.sources:
            return
        self.sources[name] = "removed"
        if forget:
            del self.sources[name]
            for table in (self.visits, self.versions):
                for key in [key for key in table if key[0] == name]:
                    del table[key]
            for event in [e for e, (source, _) in self.events.items() if source == name]:
                del self.events[event]

    def record(self, name, at, outcome, snapshot, event, fence):
        if self.sources.get(name, "removed") == "removed":
            return Recorded.UNKNOWN
        if (name, at) in self.visits:
            return Recorded.KNOWN
        if fence == "bad" or (fence == "good" and not self.fences[shard_of(name)]):
            return Recorded.FENCED
        self.visits[name, at] = outcome
        if snapshot is not None:
            self.versions[name, at] = str(snapshot)
        if event is not None:
            self.events.setdefault(str(event), (name, False))
        return Recorded.NEW

    def retain(self, most):
        for name in {name for name, _ in self.versions}:
            times = sorted(at for one, at in self.versions if one == name)
            for at in times[:-most]:
                del self.versions[name, at]


def _check_model(store, model):
    names = {name for name, state in model.sources.items() if state != "removed"}
    listed = store.sources.list().sources
    assert {s.name: s.state for s in listed} == {name: model.sources[name] for name in names}
    rows = store.visits.list(limit=1000)
    assert {(v.source, round(v.started_at - NOW)): v.outcome for v in rows} == model.visits
    assert len(rows) == len(model.visits)
    for source in listed:
        mine = {at: outcome for (name, at), outcome in model.visits.items() if name == source.name}
        assert source.visits == len(mine)
        assert source.changes == sum(outcome == "changed" for outcome in mine.values())
        assert source.failures == sum(outcome == "failed" for outcome in mine.values())
        assert source.visited_at == (NOW + max(mine) if mine else None)
    for name in model.sources:
        kept = {
            round(v.at - NOW): store.snapshots.get(v.digest).decode()
            for v in store.snapshots.versions(name)
        }
        assert kept == {at: text for (one, at), text in model.versions.items() if one == name}
    assert store.totals().snapshots == len(set(model.versions.values()))
    told = {e.id: (e.source, e.delivered_at is not None) for e in store.outbox.list()}
    assert told == model.events
    assert healthy(store, NOW + 20)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_random_operations_agree_with_a_model(engine, tmp_path, request):
    url = new_place(engine, request, tmp_path)
    with open_store(url, durable=False) as store, open_store(":memory:") as empty:
        empty.backup(tmp_path / "empty.db")

        @settings(
            max_examples=60 if engine == "sqlite" else 40,
            suppress_health_check=[HealthCheck.too_slow],
        )
        @given(OPERATIONS)
        def agree(operations):
            store.restore(tmp_path / "empty.db", replace=True)
            model = Model()
            fences = {}
            for operation, *details in operations:
                if operation == "add":
                    store.sources.add([Source(name=details[0])], now=NOW)
                    model.add(*details)
                elif operation == "remove":
                    store.sources.remove(details[0], forget=details[1])
                    model.remove(*details)
                elif operation == "record":
                    entries = [
                        Entry(
                            visit=visit(name, NOW + at, outcome),
                            snapshot=None if snapshot is None else str(snapshot),
                            outbox=() if event is None else [Event(id=str(event))],
                            fence=None
                            if fence is None
                            else fences.get(shard_of(name), -1)
                            if fence == "good"
                            else -1,
                        )
                        for name, at, outcome, snapshot, event, fence in details[0]
                    ]
                    told = store.visits.record_many(entries, now=NOW)
                    assert told == [model.record(*one) for one in details[0]]
                elif operation == "deliver":
                    store.outbox.delivered([str(details[0])], now=NOW)
                    if str(details[0]) in model.events:
                        model.events[str(details[0])] = (model.events[str(details[0])][0], True)
                elif operation == "state":
                    if model.sources.get(details[0], "removed") != "removed":
                        store.sources.update(details[0], state=details[1])
                        model.sources[details[0]] = details[1]
                elif operation == "retain":
                    store.snapshots.retain(max_versions=details[0])
                    model.retain(details[0])
                else:
                    fences = store.leases.take("me", SHARDS, NOW, 60)
                    model.fences = dict.fromkeys(fences, 1)
            _check_model(store, model)

        agree()
