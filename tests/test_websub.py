"""WebSub against a hub that follows the specification strictly, over real HTTP."""

import asyncio
import hashlib
import hmac
import threading
import urllib.request
from contextlib import suppress
from itertools import pairwise
from types import SimpleNamespace

import pytest
import uvicorn

from observant.errors import InputError
from observant.observer import Config, Observer, add_sources, describe
from observant.observer.fetched import Fetched
from observant.observer.websub import HubSubscriber, hub_of
from observant.service.access import Access
from observant.service.app import create_app
from observant.service.collection import Collection
from observant.service.collection.signals import CollectionSignals
from observant.service.server import Serving, serve
from observant.store import SHARDS, open_store
from observant.store.patience import Patience
from observant.store.visit import Visit
from observant.store.websub import HubSubscription

from .observer_world import transport_to
from .patience import eventually, free_port, run, until
from .websub_hub import Hub, ask

DAY = 86_400.0
ALL = set(range(SHARDS))

# -- discovery ------------------------------------------------------------------------------------


def found_in(body="", *headers, status=200):
    return hub_of(
        Fetched(
            url="https://a.example/dir/feed",
            status=status,
            headers=tuple(("link", one) for one in headers),
            body=body.encode(),
        )
    )


BOTH = "https://hub.example/", "https://a.example/feed"


@pytest.mark.parametrize(
    "headers",
    [
        ['<https://hub.example/>; rel="hub", </feed>; rel="self"'],
        ["<https://hub.example/>;rel=hub", "<https://a.example/feed>; title=x; rel=self"],
        ['<https://hub.example/>; rel="other hub"', "<../feed>; rel=self", "</z>; rel=next"],
    ],
)
def test_link_headers_name_hub_and_topic(headers):
    assert found_in("", *headers) == BOTH


@pytest.mark.parametrize(
    "body",
    [
        '<feed><link rel="hub" href="https://hub.example/"/><link href="/feed" rel="self"/><entry>',
        "<rss><atom:link rel='self' href='/feed' /><atom:link rel='hub' href='https://hub.example/'/>",
        "<html><head><LINK REL=hub HREF=https://hub.example/><link rel=self href=../feed></head>",
    ],
)
def test_link_elements_name_hub_and_topic(body):
    assert found_in(body) == BOTH


def test_headers_go_before_elements_and_both_links_are_needed():
    body = '<link rel="hub" href="https://evil.example/"/><link rel="self" href="/other"/>'
    links = "<https://hub.example/>; rel=hub, </feed>; rel=self"
    assert found_in(body, links) == BOTH
    for lonely in ('<link rel="hub" href="https://hub.example/">', '<link rel=self href="/">', ""):
        assert found_in(lonely) == ("", "")


def test_what_stands_in_comments_articles_and_entries_names_no_hub():
    links = '<link rel="hub" href="https://hub.example/"/><link rel="self" href="/feed"/>'
    for before in ("<!-- ", "<html><head></head><body>", "<feed><entry>", "<channel><item>"):
        assert found_in(before + links) == ("", "")
    wild = '<link rel="hub" href="file:///etc/passwd"/><link rel="self" href="/feed"/>'
    assert found_in(wild) == ("", "")


def test_an_answer_without_a_body_says_nothing_of_hubs():
    assert found_in("", "<https://hub.example/>; rel=hub", status=500) is None
    assert hub_of(Fetched(url="https://a.example/", status=304, not_modified=True)) is None


def test_hostile_heads_are_read_in_linear_time():
    for part in ("<link ", "<!--", "rel=hub <link rel", "<link rel='hub' ", 'rel="' + "a " * 50):
        assert found_in(part * (200_000 // len(part))) == ("", "")


# -- the world of these tests ---------------------------------------------------------------------


class Service:
    """The service at a real port, on a clock of ours."""

    def __init__(self, store):
        self.now, self.store = 1_800_000_000.0, store
        port = free_port()
        self.public = f"http://127.0.0.1:{port}"
        self.config = Config(public_url=self.public)
        self.collection = Collection(store, self.config, clock=lambda: self.now)
        app = create_app(self.collection, access=Access(store, log_n=4))
        settings = uvicorn.Config(app, port=port, log_config=None, lifespan="off")
        self.server = uvicorn.Server(settings)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        until(lambda: self.server.started, "the service")

    def close(self):
        self.server.should_exit = True
        self.thread.join()
        self.collection.cache.close()


class Listening:
    """A source whose hub is known to the service, and a subscriber beside it."""

    def __init__(self, service, hub):
        self.service, self.hub, self.store = service, hub, service.store
        self.public, self.config = service.public, service.config
        self.collection = service.collection
        self.collection.signals = CollectionSignals(self.collection)  # nobody was slowed down yet
        add_sources(self.store, self.config, [describe(hub.topic, kind="feed")])

    @property
    def now(self):
        return self.service.now

    @now.setter
    def now(self, value):
        self.service.now = value

    def close(self):
        """The next hub may get the port of this one, and so the address of its topic."""
        for forget in ("DELETE FROM websub", "DELETE FROM signals"):
            self.store.engine.write(lambda session, text=forget: session.change(text, {}))

    async def _with(self, work, config=None):
        async with transport_to(0) as transport:
            watchlist = SimpleNamespace(
                store=self.store,
                patience=Patience(self.store),
                clock=SimpleNamespace(time=lambda: self.now),
                config=config or self.config,
            )
            connections = SimpleNamespace(get_transport=lambda: transport)
            return await work(HubSubscriber(watchlist, connections))

    def offer(self, hub=None, topic=None):
        """A visit has found a hub."""
        named = (hub or f"{self.hub.address}/hub", topic or self.hub.topic)
        visit = Visit(source=self.hub.topic, started_at=0, ended_at=0, outcome="same", hub=named)
        watched = SimpleNamespace(row=SimpleNamespace(name=self.hub.topic))
        run(self._with(lambda subscriber: subscriber.note(watched, visit)))

    def ask(self, *, answered=True, **more):
        """Let hubs be asked that are due, by an observer that knows only the store."""
        before = len(self.hub.verifications), len(self.hub.requests)
        run(self._with(lambda subscriber: subscriber.ask(ALL), **more))
        if answered:
            until(lambda: len(self.hub.verifications) > before[0], "a verification")
        return len(self.hub.requests) - before[1]

    @property
    def rows(self):
        return self.store.websub.list()

    def signals(self):
        return [one.kind for one in self.store.signals.of(self.hub.topic)]


@pytest.fixture
def hub():
    made = Hub()
    yield made
    made.close()


@pytest.fixture(scope="module")
def service():
    with open_store(":memory:") as store:
        made = Service(store)
        yield made
        made.close()


@pytest.fixture
def world(service, hub):
    made = Listening(service, hub)
    yield made
    made.close()


@pytest.fixture
def subscribed(world):
    world.offer()
    world.ask()
    assert world.hub.verifications == [("subscribe", world.hub.topic, 200, True)]
    return world


# -- subscribing ----------------------------------------------------------------------------------


def test_a_hub_is_asked_verified_and_its_deliveries_are_signals(subscribed):
    hub = subscribed.hub
    (asked,) = hub.requests
    assert asked["hub.callback"].startswith(f"{subscribed.public}/websub/")
    assert len(asked["hub.callback"].rpartition("/")[2]) >= 43  # 256 bits: nobody guesses that
    assert 32 <= len(asked["hub.secret"]) < 200
    (row,) = subscribed.rows
    assert (row.state, row.expires_at) == ("active", subscribed.now + hub.lease)
    for number, method in enumerate(("sha1", "sha256", "sha384", "sha512")):
        assert hub.publish(f"news {number}".encode(), method) == [202]
        subscribed.now += 120
    assert subscribed.signals() == ["websub"] * 4
    assert subscribed.store.snapshots.at(hub.topic) is None  # a delivery is no content


def test_nobody_is_asked_twice_and_a_restart_asks_nobody(subscribed):
    assert subscribed.ask(answered=False) == 0
    subscribed.offer()  # the next visit names the same hub
    assert subscribed.ask(answered=False) == 0
    assert len(subscribed.rows) == 1


def test_of_two_observers_one_asks(world):
    world.offer()
    (row,) = world.store.websub.due(ALL, now=world.now)
    assert world.store.websub.ask(row, now=world.now)
    assert not world.store.websub.ask(row, now=world.now)
    assert world.store.websub.due(ALL, now=world.now) == []
    shard = world.store.sources.get(world.hub.topic).shard
    later = world.now + 30 * DAY
    assert world.store.websub.due(ALL - {shard}, now=later) == []
    assert len(world.store.websub.due({shard}, now=later)) == 1


def test_a_lease_is_renewed_before_it_ends(subscribed):
    hub, begun = subscribed.hub, subscribed.now
    subscribed.now = begun + 0.79 * hub.lease
    assert subscribed.ask(answered=False) == 0
    subscribed.now = begun + 0.81 * hub.lease
    assert subscribed.ask() == 1
    assert hub.requests[0] == hub.requests[1]  # the same callback, topic and secret
    assert subscribed.rows[0].expires_at == subscribed.now + hub.lease
    assert hub.publish(b"after renewal") == [202]
    assert subscribed.signals() == ["websub"]


def test_a_hub_that_does_not_answer_is_asked_again_less_and_less(world):
    world.offer(hub="http://127.0.0.1:9/hub")  # nobody listens there
    times = []
    for _ in range(6):
        world.now = max(world.rows[0].due_at, world.now)
        times.append(world.now)
        world.ask(answered=False)
    gaps = [round(b - a) for a, b in pairwise(times)]
    assert gaps == [600, 2400, 9600, 38_400, 153_600]
    assert world.collection.signals.hubs()[0].reason


def test_a_short_lease_does_not_make_us_ask_all_the_time(world):
    world.hub.lease = 1
    world.offer()
    world.ask()
    assert world.rows[0].due_at == world.now + 300


def test_without_an_address_of_ours_nobody_is_asked_and_people_are_told(world):
    world.offer()
    silent = Config()
    turned = []

    async def turn(subscriber):
        subscriber.turn(ALL)
        turned.append(subscriber._asking)

    run(world._with(turn, config=silent))
    assert turned == [None]
    without = Collection(world.store, silent).signals.hubs()
    assert (without[0].state, without[0].reason) == (
        "offered",
        "public_url is not set, so the hub could not call",
    )


@pytest.mark.parametrize(
    "url", ["ftp://a.example/", "a.example", "https://u:p@a.example/", "https://a.example/?x=1"]
)
def test_an_address_that_hubs_cannot_call_is_refused(url):
    with pytest.raises(InputError, match="public_url"):
        Config(public_url=url)


# -- verification of intent -----------------------------------------------------------------------


def callback_of(world):
    return f"{world.public}/websub/{world.rows[0].path}"


@pytest.mark.parametrize(
    "twist",
    [
        {"hub.topic": "https://other.example/feed"},
        {"hub.mode": "unsubscribe"},
        {"hub.mode": "publish"},
        {"hub.challenge": ""},
        {"hub.challenge": "x" * 5000},
        {"hub.lease_seconds": ""},
        {"hub.lease_seconds": "0"},
        {"hub.lease_seconds": "-5"},
        {"hub.lease_seconds": "soon"},
    ],
)
def test_what_we_did_not_ask_for_is_not_confirmed(world, twist):
    world.hub.twist = twist
    world.offer()
    world.ask()
    ((_, _, status, echoed),) = world.hub.verifications
    assert (status, echoed) == (404, False)
    assert world.rows[0].state == "offered"
    assert not world.hub.subscribers


def test_a_verification_that_nobody_waits_for_is_refused(subscribed):
    topic, callback = subscribed.hub.topic, callback_of(subscribed)
    given = f"hub.topic={topic}&hub.challenge=c&hub.lease_seconds=99"
    before = subscribed.rows
    for mode in ("subscribe", "unsubscribe"):
        assert ask("GET", f"{callback}?hub.mode={mode}&{given}")[0] == 404
    assert ask("GET", f"{subscribed.public}/websub/guess?hub.mode=subscribe&{given}")[0] == 404
    assert subscribed.rows == before


def test_a_challenge_is_never_a_page(world):
    world.offer()
    (row,) = world.store.websub.due(ALL, now=world.now)
    assert world.store.websub.ask(row, now=world.now)
    query = f"hub.mode=subscribe&hub.topic={world.hub.topic}&hub.lease_seconds=9"
    address = f"{callback_of(world)}?{query}&hub.challenge=%3Cscript%3E"
    with urllib.request.urlopen(address) as reply:  # noqa: S310
        assert reply.headers["Content-Type"].startswith("text/plain")
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.read() == b"<script>"


def test_a_denial_is_kept_with_its_reason_and_tried_again_after_a_week(world):
    world.hub.deny = "we do not know you"
    world.offer()
    world.ask()
    assert world.hub.verifications[0][2] == 200
    (told,) = world.collection.signals.hubs()
    assert (told.state, told.reason) == ("denied", "we do not know you")
    world.now += 6 * DAY
    assert world.ask(answered=False) == 0
    world.now += 2 * DAY
    world.hub.deny = ""
    assert world.ask() == 1
    assert world.rows[0].state == "active"


def test_a_denial_about_another_topic_counts_nothing(subscribed):
    callback = callback_of(subscribed)
    assert ask("GET", f"{callback}?hub.mode=denied&hub.topic=https://x.example/")[0] == 404
    assert subscribed.rows[0].state == "active"


# -- leaving --------------------------------------------------------------------------------------


def test_the_hub_of_a_removed_source_is_left(subscribed):
    hub = subscribed.hub
    subscribed.store.sources.remove(hub.topic)
    callback = callback_of(subscribed)
    assert ask("POST", callback, b"late")[0] == 410
    assert subscribed.ask() == 1
    assert hub.requests[-1]["hub.mode"] == "unsubscribe"
    assert (hub.verifications[-1][0], hub.verifications[-1][3]) == ("unsubscribe", True)
    assert (subscribed.rows, hub.subscribers) == ([], {})


def test_a_hub_that_never_lets_go_is_forgotten(subscribed):
    subscribed.hub.twist = {"hub.topic": "https://other.example/"}
    subscribed.hub.lease = 1e9
    subscribed.store.sources.remove(subscribed.hub.topic)
    for _ in range(5):
        if subscribed.rows:
            subscribed.ask(answered=False)
            subscribed.now = subscribed.now + 100
            subscribed.now = max([subscribed.now, *(row.due_at for row in subscribed.rows)])
    assert subscribed.rows == []
    assert len(subscribed.hub.requests) <= 4


def test_another_hub_takes_the_place_of_the_old_one_but_not_with_every_visit(subscribed):
    other = Hub()
    try:
        subscribed.offer(f"{other.address}/hub", other.topic)
        left = subscribed.ask()
        assert left == 1  # the old one is left at once
        assert subscribed.hub.requests[-1]["hub.mode"] == "unsubscribe"
        assert other.requests == []
        for _ in range(5):  # a page that names another hub at every visit
            subscribed.offer(f"{other.address}/hub?{_}", other.topic)
            subscribed.ask(answered=False)
        assert other.requests == []
        subscribed.now += DAY + 1
        subscribed.offer(f"{other.address}/hub", other.topic)
        subscribed.ask(answered=False)
        assert len(other.requests) <= 1
    finally:
        other.close()


# -- deliveries -----------------------------------------------------------------------------------


@pytest.mark.parametrize("signature", ["", "sha256=", "sha256=00", "md5=00", "sha256", "=", "ü=ü"])
def test_a_bad_signature_is_acknowledged_and_ignored(subscribed, signature):
    signature = signature.encode("utf-8").decode("latin-1")
    assert subscribed.hub.publish(b"forged", signature=signature) == [202]
    assert subscribed.signals() == []
    assert subscribed.hub.publish(b"true") == [202]
    assert subscribed.signals() == ["websub"]


def test_a_signature_of_other_content_is_ignored(subscribed):
    hub = subscribed.hub
    (secret,) = hub.subscribers.values()
    right = hmac.new(secret.encode(), b"true", hashlib.sha256).hexdigest()
    assert hub.publish(b"false", signature=f"sha256={right}") == [202]
    assert hub.publish(b"true", signature=f"sha1={right}") == [202]
    assert subscribed.signals() == []


def test_the_same_delivery_twice_is_one_signal(subscribed):
    for _ in range(3):
        assert subscribed.hub.publish(b"again") == [202]
        subscribed.now += 3600
    assert subscribed.signals() == ["websub"]


def test_a_flood_of_deliveries_is_bounded(subscribed):
    statuses = [subscribed.hub.publish(f"n{n}".encode())[0] for n in range(70)]
    assert statuses.count(429) >= 9
    assert set(statuses) == {202, 429}
    assert subscribed.signals() == ["websub"]  # said again within a minute


def test_large_deliveries_are_taken_without_being_kept_and_huge_ones_refused(subscribed):
    assert subscribed.hub.publish(bytes(5 << 20)) == [202]
    assert subscribed.signals() == ["websub"]
    with suppress(OSError):  # the connection may end before all was sent
        assert subscribed.hub.publish(bytes(17 << 20)) == [413]
    assert subscribed.signals() == ["websub"]


def test_paths_that_are_guessed_say_nothing_and_are_slowed_down(world):
    world.offer()
    for _ in range(100):
        assert ask("POST", f"{world.public}/websub/guess", b"x")[0] == 410
    statuses = {ask("POST", f"{world.public}/websub/guess", b"x")[0] for _ in range(5)}
    assert 429 in statuses


# -- all together ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_observer_finds_a_hub_subscribes_and_hears_it(hub, tmp_path):
    port = free_port()
    config = Config(
        public_url=f"http://127.0.0.1:{port}",
        allow=("127.0.0.0/8",),
        host_delay=0.0,
        budget="100/day",
    )

    async def watch(store):
        stop = asyncio.Event()
        observer = Observer(store, config)
        serving = Serving(port=port)
        task = asyncio.create_task(serve(store, config, serving, observer=observer, until=stop))
        await eventually(lambda: hub.subscribers or task.done(), "the subscription")
        assert await asyncio.to_thread(hub.publish, b"news") == [202]
        channels = observer.schedule.signals.reliability
        await eventually(lambda: [c.kind for c in channels()] == ["websub"], "the signal")
        stop.set()
        await task

    with open_store(tmp_path / "o.db") as store:
        add_sources(store, config, [describe(hub.topic, kind="feed")])
        run(watch(store))
        assert [one.kind for one in store.signals.of(hub.topic)] == ["websub"]
        assert hub.verifications == [("subscribe", hub.topic, 200, True)]


def test_a_hub_over_plain_http_gets_no_secret(world, monkeypatch):
    """Its secret would be everybody's; what comes at its callback is believed as it is."""
    hubs = {"https://hub.example/": True, "http://hub.example/": False, "http://[::1]/": True}
    fields = dict.fromkeys(HubSubscription.__struct_fields__)
    assert {hub: HubSubscription(**{**fields, "hub": hub}).signed for hub in hubs} == hubs
    monkeypatch.setattr(HubSubscription, "signed", property(lambda _: False))
    world.offer()
    world.ask()
    (asked,) = world.hub.requests
    assert "hub.secret" not in asked
    assert world.hub.publish(b"news", signature="") == [202]
    assert world.signals() == ["websub"]
