"""Signals that publishers push: IndexNow, the limits of every way in, and what the store keeps."""

import numpy as np
import pytest

from observant.errors import InputError, TooManyError
from observant.observer import Config, add_sources, describe
from observant.planning.policy import make_scheduler
from observant.service.access.throttle import RateLimit
from observant.service.collection.entries import NewSignal
from observant.service.collection.signals import CollectionSignals
from observant.store import SHARDS
from observant.store.signals import Signal

from .service_world import World

KEY = "0123456789abcdef"
ALL = set(range(SHARDS))


@pytest.fixture(scope="module")
def world():
    made = World(config=Config(indexnow={"A.example": KEY, "c.example": "c" * 8})).fill()
    yield made
    made.close()


@pytest.fixture
def client(world):
    world.collection.signals = CollectionSignals(world.collection)
    world.store.signals.drop(before=1e11)
    with world.client() as made:
        yield made


def kinds(world, name):
    return [one.kind for one in world.store.signals.of(name)]


# -- IndexNow -------------------------------------------------------------------------------------


def test_one_page_is_announced(world, client):
    reply = client.get("/indexnow", params={"url": "https://A.example:443/", "key": KEY})
    assert (reply.status_code, reply.json()) == (200, {"signals": 1, "watched": 1})
    assert kinds(world, "https://a.example/") == ["indexnow"]


def test_many_pages_are_announced_and_those_that_are_not_watched_only_counted(world, client):
    body = {
        "host": "a.example",
        "key": KEY,
        "keyLocation": f"https://a.example/{KEY}.txt",
        "urlList": ["https://a.example/", "https://a.example/unknown"],
    }
    reply = client.post("/indexnow", json=body)
    assert (reply.status_code, reply.json()) == (200, {"signals": 2, "watched": 1})
    assert kinds(world, "https://a.example/") == ["indexnow"]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"key": "0123456789abcdeF"}, 403),
        ({"key": "c" * 8}, 403),  # that of another host
        ({"host": "b.example"}, 403),  # no key is set for it
        ({"urlList": ["https://b.example/"]}, 422),
        ({"urlList": ["https://a.example/", "https://a.example.evil.example/"]}, 422),
        ({"urlList": ["file:///etc/passwd"]}, 422),
        ({"urlList": []}, 422),
        ({"urlList": ["https://a.example/"] * 10_001}, 422),
        ({"keyLocation": "https://b.example/key.txt"}, 422),
        ({"urlList": "https://a.example/"}, 400),
        ({"key": None}, 400),
    ],
)
def test_what_is_wrong_has_the_status_of_the_protocol(world, client, change, status):
    body = {"host": "a.example", "key": KEY, "urlList": ["https://a.example/"]} | change
    assert client.post("/indexnow", json=body).status_code == status
    assert kinds(world, "https://a.example/") == []


def test_a_request_that_is_not_understood_is_400(client):
    for body in (b"", b"{", b"[]", b"[" * 100_000):
        assert client.post("/indexnow", content=body).status_code == 400
    assert client.get("/indexnow").status_code == 400
    assert client.get("/indexnow", params={"url": "https://a.example/"}).status_code == 400
    assert client.get("/indexnow", params={"url": "nonsense", "key": KEY}).status_code == 422
    assert client.post("/indexnow", content=bytes(5 << 20)).status_code == 413


def test_who_guesses_keys_has_to_wait(world, client, monkeypatch):
    # One more is allowed each second: no time passes here, however busy the machine is.
    monkeypatch.setattr(world.collection.signals.failures, "_clock", lambda: 0.0)
    given = {"url": "https://a.example/", "key": "x" * 16}
    statuses = [client.get("/indexnow", params=given).status_code for _ in range(102)]
    assert statuses[:100] == [403] * 100
    assert statuses[-1] == 429
    reply = client.get("/indexnow", params=given | {"key": KEY})  # not even with the right one
    assert reply.status_code == 429
    assert int(reply.headers["Retry-After"]) >= 1
    assert kinds(world, "https://a.example/") == []


@pytest.mark.parametrize("key", ["short", "x" * 129, "with space 1", "obs_underscore"])
def test_a_key_that_is_none_is_refused_by_the_configuration(key):
    with pytest.raises(InputError, match="the key of a"):
        Config(indexnow={"a.example": key})


# -- limits ---------------------------------------------------------------------------------------


def test_a_limit_lets_a_burst_through_and_then_so_many_a_second():
    now = [0.0]
    limit = RateLimit(burst=10, per_second=2, most=3, clock=lambda: now[0])
    limit.take("a", 10)
    with pytest.raises(TooManyError) as caught:
        limit.take("a", 4)
    assert caught.value.seconds == 2
    limit.take("b")  # another key has its own
    now[0] = 2.0
    limit.take("a", 4)
    for key in "cdef":
        limit.take(key)
    assert len(limit._left) == 3


@pytest.mark.slow
def test_who_sends_too_many_signals_is_told_when_to_come_again(world, client):
    client.headers["Authorization"] = f"Bearer {world.tokens['write']}"
    body = [{"url": "https://a.example/"}] * 10_000
    for _ in range(10):
        assert client.post("/api/v1/signals", json=body).status_code == 200
    reply = client.post("/api/v1/signals", json=body)
    assert reply.status_code == 429
    assert 1 <= int(reply.headers["Retry-After"]) <= 100
    assert kinds(world, "https://a.example/") == ["ping"]
    client.headers["Authorization"] = f"Bearer {world.tokens['admin']}"
    assert client.post("/api/v1/signals", json=body).status_code == 200  # others are not held up
    pages = {"url": "https://a.example/", "key": KEY}
    assert client.get("/indexnow", params=pages).status_code == 200


def test_the_command_line_has_no_limit(world):
    signals = CollectionSignals(world.collection)
    many = [NewSignal(url="https://a.example/", kind="cron")] * 150_000
    assert signals.add(many).watched == 150_000


def visits_of_others(flood, seed, *, honest_until=0, pages=40, rate=0.05, days=60):
    """Visits to the second of two hosts after day 30, and to both, while somebody floods the first
    with so many signals a page and day, after a time of true ones."""
    rng = np.random.default_rng(seed)
    scheduler = make_scheduler(2 * pages * 0.1, seed=seed)
    scheduler.add(range(2 * pages), last=-10 * rng.random(2 * pages))
    changed, visits, flooded = np.full(2 * pages, -np.inf), np.zeros(2), [*range(pages)]
    for day in range(1, days + 1):
        new = rng.random(2 * pages) < -np.expm1(-rate)
        changed[new] = day - rng.random(new.sum())
        if true := np.flatnonzero(new[:pages]).tolist() if day <= honest_until else []:
            scheduler.signals.receive(true, [float(day)] * len(true), "ping", "flooded")
        for part in range(flood):
            if day > honest_until:
                at = day + part / flood
                scheduler.signals.receive(flooded, [at] * pages, "ping", "flooded")
            while (now := scheduler.next_time()) < day + (part + 1) / flood:
                for i in scheduler.due(now):
                    scheduler.visited(i, now, bool(changed[i] > scheduler.last_visit(i)))
                    visits[i // pages] += day > days / 2
    return visits[1], visits.sum()


@pytest.mark.slow
@pytest.mark.parametrize(("flood", "honest_until"), [(24, 0), (24, 30), (1, 30)])
def test_a_flood_of_signals_for_one_host_leaves_the_visits_of_others_as_they_are(
    flood, honest_until
):
    """Even where the host was believed before: half of the visits go on being theirs."""
    for seed in (1, 2):
        theirs, both = visits_of_others(flood, seed, honest_until=honest_until)
        assert both == pytest.approx(30 * 8, rel=0.02)  # and no visit is added
        assert theirs > (0.47 if honest_until == 0 else 0.4) * both


# -- the store, on both engines -------------------------------------------------------------------


def test_what_is_said_again_within_a_minute_is_kept_once(store):
    add_sources(store, Config(), [describe("https://a.example/")])
    said = Signal(source="https://a.example/", received_at=1000.0)
    assert store.signals.add([said] * 5) == 5
    assert store.signals.add([said], now=1000.0) == 1
    later = [Signal(source="https://a.example/", received_at=at) for at in (1059.0, 1121.0)]
    for one in later:
        assert store.signals.add([one]) == 1
    store.signals.add([Signal(source="https://a.example/", kind="cms", received_at=1000.0)])
    found = [(one.kind, one.received_at) for one in store.signals.of("https://a.example/")]
    assert sorted(found) == [("cms", 1000.0), ("ping", 1000.0), ("ping", 1121.0)]


def test_subscriptions_to_hubs_live_in_either_store(store):
    page, hub = "https://a.example/", ("https://hub.example/", "https://a.example/feed")
    add_sources(store, Config(), [describe(page)])
    websub = store.websub
    websub.offer(page, *hub, now=0.0)
    websub.offer(page, *hub, now=5.0)
    websub.offer("https://unknown.example/", *hub, now=5.0)
    (row,) = websub.due(ALL, now=10.0)
    assert (row.source, row.state, row.due_at) == (page, "offered", 0.0)
    assert websub.due((), now=10.0) == []
    assert not websub.verify(row.path, "subscribe", row.topic, 600, now=10.0)  # nobody has asked
    assert websub.ask(row, now=10.0)
    assert not websub.ask(row, now=10.0)
    websub.note(row, "status 500")
    assert websub.verify(row.path, "subscribe", row.topic, 1000, now=20.0)
    one = websub.find(row.path)
    assert (one.state, one.expires_at, one.due_at, one.reason) == ("active", 1020, 820, "")
    assert websub.deliver(one, "d1", now=30.0)
    assert not websub.deliver(one, "d1", now=300.0)
    assert [s.kind for s in store.signals.of(page)] == ["websub"]
    assert websub.deny(one.path, one.topic, "no", now=40.0)
    assert (websub.list()[0].state, websub.list()[0].reason) == ("denied", "no")
    store.sources.remove(page)
    (gone,) = websub.due((), now=41.0)
    assert not gone.wanted
    assert not websub.ask(gone, now=41.0)  # that hub has nothing of ours
    assert websub.list() == []
    assert websub.find(row.path) is None
