"""Subscribers are told: every event, at least once, by the right channel, and nobody else."""

import asyncio
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, chdir, closing, contextmanager, suppress
from datetime import UTC, datetime
from email import message_from_bytes
from email.policy import default as mail_policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest
import trustme
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from observant.cli.notify import TOPICS as CLI_TOPICS
from observant.errors import InputError, StoreError
from observant.names import TOPICS
from observant.notifications import (
    TOKENS,
    Deliverer,
    checked,
    masked,
    notifying,
    render,
    shown,
    updated,
    verify,
)
from observant.notifications.alarms import Alarms, silences
from observant.notifications.channels import SendResult
from observant.notifications.channels.mail import letter_of
from observant.notifications.messages import LARGEST, check_template, compose
from observant.notifications.subscriptions import MASK, due_at, quiet_until, wants
from observant.observer.clock import AcceleratedClock
from observant.observer.config import Config, Notify
from observant.observer.events import Standing, events_of
from observant.observer.metrics import Status
from observant.store import (
    Event,
    Filter,
    Posterior,
    Source,
    StoredEvent,
    StoredSource,
    Subscription,
    open_store,
)
from observant.store.visit import Comparison, Visit

from .patience import free_port, run, until

NOW = 1_800_000_000.0
SECRET = "whistle"  # noqa: S105
LOOPBACK = ("127.0.0.0/8", "::1/128")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)


# -- stand-ins ------------------------------------------------------------------------------------


class Receiver:
    """A webhook's other end on loopback. `answer` decides on the status of each request."""

    def __init__(self, answer=lambda _: 200, port=0):
        self.got = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {k.lower(): v for k, v in self.headers.items()}
                receiver.got.append((self.path, headers, body))
                status = answer(len(receiver.got))
                status, extra = status if isinstance(status, tuple) else (status, {})
                self.send_response(status)
                for key, value in extra.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}/hook/token"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def ids(self):
        return [headers["observant-event"] for _, headers, _ in self.got]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@contextmanager
def receiving(*args, **more):
    receiver = Receiver(*args, **more)
    try:
        yield receiver
    finally:
        receiver.close()


class Clock:
    """Stands still until it is told."""

    speed = 2.0  # not that of the world, so that the store is told our time

    def __init__(self, at=NOW):
        self.at = at

    def time(self):
        return self.at

    monotonic = time

    async def sleep(self, seconds):
        self.at += seconds


class Scripted:
    """A channel that answers by a script, and remembers what it was sent."""

    def __init__(self, *answers):
        self.answers, self.sent = list(answers), []

    async def send(self, _channel, _secret, message):
        self.sent.append(message)
        return self.answers.pop(0) if self.answers else SendResult(ok=True)

    async def close(self):
        pass


def subscription(name="me", channel="https://example.org/hook", **more):
    return Subscription(name=name, channel=channel, secret=SECRET, **more)


def event(number, topic="changed", at=NOW, **payload):
    told = {"source": "a", "title": "A page", "url": "https://a.example/", "at": at, **payload}
    return Event(id=f"event-{number}", topic=topic, payload=told)


def pending(topic="changed", **payload):
    return StoredEvent(id="e", topic=topic, payload=payload, source=None, created_at=NOW)


def deliverer(store, channel, clock, **notify):
    given = {"webhook": channel} if channel is not None else None
    config = Config(allow=LOOPBACK, notify=Notify(**notify))
    return Deliverer(store, config, clock=clock, channels=given, seed=1)


def states(store):
    return Counter(row.state for row in store.deliveries.list(limit=10_000))


# -- templates ------------------------------------------------------------------------------------

CORPUS = [
    "{{7*7}}",
    "{{config}}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{% for x in ().__class__.__base__.__subclasses__() %}{{x}}{% endfor %}",
    "{{request.application.__globals__.__builtins__.__import__('os').popen('id').read()}}",
    "${7*7}",
    "#{7*7}",
    "<%= 7*7 %>",
    "{0.__class__.__init__.__globals__}",
    "{title.__class__}",
    "%(title)s%n%x",
    "{{{{title}}}}",
    "{{secret}}",
    "{{title}}",
    "\\u007b\\u007btitle\\u007d\\u007d",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "\x1b]0;title\x07\x1b[31m",
    "a\r\nBcc: everybody@example.org\r\n\r\n<h1>",
    "\u202egnp.exe",
]


@pytest.mark.parametrize("hostile", CORPUS)
def test_what_strangers_write_stays_what_it_is(hostile):
    """CVE-2024-32651: a title that was run as a template."""
    values = dict.fromkeys(TOKENS, "") | {"title": hostile, "id": "the id"}
    text = render("[{{title}}]", values)
    assert text == f"[{''.join(c for c in hostile if c.isprintable() or c in chr(10)).strip()}]"
    assert "49" not in text
    assert "the id" not in text
    page = render("[{{title}}]", values, "html")
    assert not set(page) & set('<>"')
    line = render("{{title}}", values, "line")
    assert line.isprintable()


@pytest.mark.parametrize("template", [t for t in CORPUS if "{{" in t and t != "{{title}}"])
def test_a_template_can_name_values_and_nothing_else(template):
    with pytest.raises(InputError, match="there is no"):
        check_template(template)


@given(st.dictionaries(st.sampled_from(sorted(TOKENS)), st.text()), st.text(max_size=200))
def test_a_value_is_never_read_as_a_template(values, between):
    rendered = render("{{title}}" + between.replace("{", "").replace("\n", ""), values)
    alone = render("{{title}}", {"title": values.get("title")})
    assert rendered.startswith(alone)


def test_output_is_bounded_whatever_is_put_in():
    huge = "x" * 10_000_000
    assert len(render("{{title}}" * 1000, {"title": huge})) == LARGEST
    assert len(render("{{title}}", {"title": huge}, "line")) <= 200
    events = [pending(title=huge, added=huge, reason=huge, url="https://a.example/" + huge)] * 500
    message = compose("m", subscription(), events)
    assert len(message.text) <= LARGEST
    assert len(message.html) < 10 * LARGEST
    assert len(message.subject) <= 200


def test_a_template_says_what_its_author_means():
    check_template("{{title}} changed by {{ magnitude }}")
    with pytest.raises(InputError, match="did you mean magnitude"):
        check_template("{{magnitud}}")
    told = compose(
        "m",
        subscription(template="{{name}}|{{magnitude}}|{{tags}}|{{at}}", timezone="Europe/Berlin"),
        [pending(source="a", magnitude=0.123, tags=["x", "y"], at=NOW)],
    )
    assert told.text == "a|12 %|x, y|2027-01-15 09:00 CET"


# -- filters --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "payload", "yes"),
    [
        ({}, {}, True),
        ({"topics": ("changed",)}, {}, True),
        ({"topics": ("gone", "back")}, {}, False),
        ({"tags": ("news",)}, {"tags": ["x", "news"]}, True),
        ({"tags": ("news",)}, {"tags": ["new"]}, False),
        ({"tags": ("query:bees",)}, {"query": "bees"}, True),
        ({"hosts": ("a.example",)}, {"host": "a.example"}, True),
        ({"hosts": ("a.example",)}, {"host": "www.a.example"}, False),
        ({"hosts": (".a.example",)}, {"host": "www.a.example"}, True),
        ({"hosts": (".a.example",)}, {"host": "a.example"}, True),
        ({"hosts": (".a.example",)}, {"host": "bada.example"}, False),
        ({"hosts": ("a.example",)}, {}, False),
        ({"sources": ("s",)}, {"source": "s"}, True),
        ({"magnitude": 0.5}, {"magnitude": 0.4}, False),
        ({"magnitude": 0.5}, {"magnitude": 0.5}, True),
        ({"magnitude": 0.5}, {}, True),
        ({"terms": ("Data  Protection",)}, {"added": "on data protection."}, True),
        ({"terms": ("data protection",)}, {"added": "data of protection"}, False),
        ({"terms": ("art",)}, {"added": "article"}, False),
        ({"terms": ("art",)}, {"removed": "ART!"}, True),
    ],
)
def test_a_filter_lets_through_what_it_names(wanted, payload, yes):
    told = pending(**payload)
    text = "\n".join(payload.get(key, "") for key in ("added", "removed"))
    assert wants(Filter(**wanted), told, lambda: text) is yes


@pytest.mark.parametrize(
    "bad",
    [
        {"filter": Filter(topics=("change",))},
        {"filter": Filter(magnitude=2.0)},
        {"filter": Filter(terms=(" ",))},
        {"channel": "example.org"},
        {"channel": "https://user@@x/"},
        {"channel": "file:///etc/passwd"},
        {"channel": "syslog://"},
        {"channel": "mailto:me"},
        {"channel": "mailto:me@example.org?bcc=you@example.org"},
        {"channel": "mailto:me@example.org%0aBcc:you@example.org"},
        {"template": "{{x}}"},
        {"subject": "{{"},
        {"digest": "40d"},
        {"digest": "soon"},
        {"quiet": ("mon-sun",)},
        {"quiet": ("at night",)},
        {"timezone": "Moon/Base"},
    ],
)
def test_a_bad_subscription_is_refused_at_the_door(bad):
    with pytest.raises(InputError):
        checked(Subscription(**({"name": "n", "channel": "https://example.org/"} | bad)))


# -- when -----------------------------------------------------------------------------------------


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("more", "now", "due"),
    [
        ({}, "2026-07-01T10:20:00", "2026-07-01T10:20:00"),
        ({"digest": "1h"}, "2026-07-01T10:20:00", "2026-07-01T11:00:00"),
        ({"digest": "1d"}, "2026-07-01T10:20:00", "2026-07-02T00:00:00"),
        ({"digest": "1d", "timezone": "Asia/Tokyo"}, "2026-07-01T10:20:00", "2026-07-01T15:00:00"),
        ({"digest": "7d"}, "2026-07-01T10:20:00", "2026-07-06T00:00:00"),  # Monday
        ({"quiet": ("22:00-07:00",)}, "2026-07-01T23:00:00", "2026-07-02T07:00:00"),
        ({"quiet": ("22:00-07:00",)}, "2026-07-01T06:59:00", "2026-07-01T07:00:00"),
        ({"quiet": ("22:00-07:00",)}, "2026-07-01T07:00:00", "2026-07-01T07:00:00"),
        ({"quiet": ("sat,sun",)}, "2026-07-04T12:00:00", "2026-07-06T00:00:00"),
        (
            {"quiet": ("22:00-07:00", "sat,sun")},
            "2026-07-03T22:30:00",
            "2026-07-06T07:00:00",
        ),
        (
            {"quiet": ("22:00-07:00",), "timezone": "America/New_York"},
            "2026-07-01T03:00:00",
            "2026-07-01T11:00:00",
        ),
        # The night in which summer time ends has an hour more.
        (
            {"quiet": ("22:00-07:00",), "timezone": "Europe/Berlin"},
            "2026-10-24T21:00:00",
            "2026-10-25T06:00:00",
        ),
        (
            {"digest": "1d", "quiet": ("22:00-07:00",), "timezone": "Europe/Berlin"},
            "2026-07-01T10:20:00",
            "2026-07-02T05:00:00",
        ),
    ],
)
def test_events_wait_for_their_window_and_the_morning(more, now, due):
    found = due_at(subscription(**more), at(now))
    assert datetime.fromtimestamp(found, UTC) == datetime.fromtimestamp(at(due), UTC)


@given(
    st.floats(1.7e9, 1.9e9),
    st.lists(st.sampled_from(["22:00-07:00", "sat", "mon-fri 12:00-13:00", "00:00-23:59"])),
    st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Auckland"]),
    st.sampled_from([0, "15min", "1h", "1d", "7d"]),
)
def test_nothing_is_sent_early_or_in_quiet_hours(now, quiet, zone, digest):
    asked = subscription(quiet=tuple(quiet), timezone=zone, digest=digest)
    due = due_at(asked, now)
    assert due >= now
    assert quiet_until(asked, due) == due


# -- secrets --------------------------------------------------------------------------------------


def test_secrets_are_never_shown_again(store):
    channels = [
        "https://user:hunter2@hooks.example.org/services/T0KEN?key=hunter3",
        "tgram://123456:hunter2/42",
    ]
    for number, channel in enumerate(channels):
        kept = store.subscriptions.add(checked(subscription(str(number), channel)))
        told = repr(shown(kept)) + msgspec.json.encode(shown(kept)).decode()
        assert "hunter" not in told
        assert "T0KEN" not in told
        assert "whistle" not in told
    assert masked("https://hooks.example.org") == "https://hooks.example.org/"


def test_a_secret_does_not_follow_its_channel_to_another_host(store):
    """GHSA-jrxm-qjfh-g54f: a stored key sent to a host that was set later."""
    before = store.subscriptions.add(subscription(channel="https://a.example/secret-path"))
    masked_back = updated(before, channel=masked(before.channel), secret=MASK, digest="1h")
    assert masked_back == {"digest": "1h"}
    same_host = updated(before, channel="https://a.example/other")
    assert "secret" not in same_host
    moved = updated(before, channel="https://b.example/hook")
    assert moved["secret"] not in {"", "whistle"}
    given_ = updated(before, channel="https://b.example/", secret=SECRET[::-1])
    assert given_["secret"] == SECRET[::-1]
    with pytest.raises(InputError, match="written out"):
        updated(before, channel=f"https://b.example/{MASK}")
    after = store.subscriptions.update("me", **moved)
    assert (after.channel, after.secret) == (moved["channel"], moved["secret"])


def test_an_error_does_not_tell_the_channel(tmp_path):
    class Broken(Scripted):
        async def send(self, channel, secret, _message):
            raise RuntimeError(f"cannot reach {channel} with {secret}")

    with open_store(tmp_path / "s.db") as store:
        store.subscriptions.add(subscription(channel="https://a.example/T0KEN"), now=NOW)
        store.outbox.add([event(1)], now=NOW)
        asyncio.run(deliverer(store, Broken(), Clock()).deliver_due())
        (row,) = store.deliveries.list()
    assert "T0KEN" not in row.error
    assert "whistle" not in row.error
    assert "https://a.example/" in row.error


# -- the store ------------------------------------------------------------------------------------


def test_subscriptions_are_kept_as_they_were_given(store):
    given_ = subscription(
        filter=Filter(topics=("gone",), tags=("ü",), terms=("a b",), magnitude=0.25),
        subject="{{title}}",
        template="{{id}}\n",
        digest="1h",
        quiet=("22:00-07:00",),
        timezone="Europe/Paris",
        enabled=False,
    )
    kept = store.subscriptions.add(given_, now=NOW)
    assert all(getattr(kept, f) == getattr(given_, f) for f in Subscription.__struct_fields__)
    assert store.subscriptions.list() == [kept] == [store.subscriptions.get("me")]
    with pytest.raises(InputError, match="already"):
        store.subscriptions.add(given_)
    assert store.subscriptions.update("me", name="you", enabled=True).name == "you"
    with pytest.raises(InputError, match="has no colour"):
        store.subscriptions.update("you", colour="red")
    with pytest.raises(StoreError):
        store.subscriptions.get("me")
    assert store.subscriptions.remove("you")
    assert not store.subscriptions.remove("you")


def test_an_event_is_queued_once_and_leaves_the_outbox_with_it(store):
    one = store.subscriptions.add(subscription("one"), now=NOW)
    two = store.subscriptions.add(subscription("two"), now=NOW)
    store.outbox.add([event(1), event(2), event(3)], now=NOW)
    wanted = {"event-1": {one.id: NOW, two.id: NOW + 60}, "event-2": {}}
    assert store.deliveries.fan_out(wanted, now=NOW) == 2
    assert store.deliveries.fan_out(wanted, now=NOW) == 0
    assert [e.id for e in store.outbox.pending(now=NOW)] == ["event-3"]
    assert (
        store.deliveries.fan_out({"event-3": {999: NOW}}, now=NOW) == 0
    )  # a subscriber that is gone
    assert store.outbox.pending(now=NOW) == []
    assert store.deliveries.count() == {"one": {"waiting": 1}, "two": {"waiting": 1}}
    batch = store.deliveries.take(now=NOW)
    assert batch.subscription == one
    assert [d.event.id for d in batch.deliveries] == ["event-1"]
    assert batch.deliveries[0].event.payload["title"] == "A page"
    assert store.deliveries.take(now=NOW) is None  # taken, and the other is not due
    assert store.deliveries.take(now=NOW + 60).subscription == two
    assert store.deliveries.take(now=NOW + 119.9, seconds=120) is None
    assert store.deliveries.take(now=NOW + 121).subscription == one  # whoever took it has died


def test_a_delivery_is_sent_or_dead_or_waits(store):
    me = store.subscriptions.add(subscription(), now=NOW)
    store.outbox.add([event(n) for n in range(4)], now=NOW)
    store.deliveries.fan_out({f"event-{n}": {me.id: NOW} for n in range(4)}, now=NOW)
    batch = store.deliveries.take(now=NOW)
    first, second, third, fourth = (d.id for d in batch.deliveries)
    assert store.deliveries.sent([first], now=NOW) == 1
    assert store.deliveries.sent([first], now=NOW) == 0
    store.deliveries.failed([second], error="no\0", until=None, now=NOW)
    store.deliveries.failed([third], error="later", until=NOW + 50, now=NOW)
    store.deliveries.release(me.id, failures=1, rests_until=NOW + 5, error="x", now=NOW)
    assert store.subscriptions.get("me").failures == 1
    assert store.deliveries.take(now=NOW + 1) is None  # it rests
    assert [d.id for d in store.deliveries.take(now=NOW + 6).deliveries] == [fourth]
    store.deliveries.sent([fourth], now=NOW + 6)
    store.deliveries.release(me.id, now=NOW + 6)
    assert store.deliveries.take(now=NOW + 49) is None
    assert [d.attempts for d in store.deliveries.take(now=NOW + 50).deliveries] == [1]
    assert [(d.id, d.attempts) for d in store.deliveries.list(state="dead")] == [(second, 1)]
    assert store.outbox.prune(before=NOW + 10) == 2  # not what waits, not the dead letter
    assert [d.id for d in store.deliveries.list()] == [third, second]
    assert store.deliveries.retry(subscription="nobody", now=NOW + 60) == 0
    assert store.deliveries.retry([second], now=NOW + 60) == 1
    assert states(store) == {"waiting": 2}
    assert store.deliveries.bury(me.id, queued_before=NOW + 60, error="old", now=NOW + 60) == 1
    assert [(d.id, d.error) for d in store.deliveries.list(state="dead")] == [(third, "later")]
    assert store.subscriptions.remove("me")
    assert store.deliveries.list() == []


def test_parts_of_a_message_come_together(store):
    me = store.subscriptions.add(subscription(), now=NOW)
    store.outbox.add([event(n) for n in range(9)], now=NOW)
    store.deliveries.fan_out({f"event-{n}": {me.id: NOW} for n in range(9)}, now=NOW)
    ids = [d.id for d in store.deliveries.take(now=NOW).deliveries]
    store.deliveries.compose("digest", ids[:6])
    store.deliveries.release(me.id, now=NOW)
    batch = store.deliveries.take(limit=2, now=NOW)
    assert [d.id for d in batch.deliveries] == ids[:6]
    assert {d.message for d in batch.deliveries} == {"digest"}


def test_forgetting_a_source_forgets_what_was_told_of_it(store):
    me = store.subscriptions.add(subscription(), now=NOW)
    store.sources.add([Source(name="a")], now=NOW)
    store.outbox.add([event(1)], source="a", now=NOW)
    store.deliveries.fan_out({"event-1": {me.id: NOW}}, now=NOW)
    assert store.sources.remove("a", forget=True)
    assert store.deliveries.list() == []


def test_a_backup_holds_subscriptions_and_deliveries(store, tmp_path):
    me = store.subscriptions.add(subscription(), now=NOW)
    store.outbox.add([event(n) for n in range(3)], now=NOW)
    store.deliveries.fan_out({f"event-{n}": {me.id: NOW} for n in range(3)}, now=NOW)
    taken = store.deliveries.take(now=NOW)
    store.deliveries.sent([taken.deliveries[0].id], now=NOW)
    store.deliveries.failed([taken.deliveries[1].id], error="e", until=None, now=NOW)
    store.backup(tmp_path / "backup.db")
    with open_store(tmp_path / "other.db") as other:
        other.restore(tmp_path / "backup.db")
        assert other.subscriptions.list() == store.subscriptions.list()
        assert other.deliveries.list() == store.deliveries.list()
        # The lease ended with the store it belonged to.
        assert [d.event.id for d in other.deliveries.take(now=NOW).deliveries] == ["event-2"]
        assert other.subscriptions.add(subscription("new")).id > me.id
    store.restore(tmp_path / "backup.db", replace=True)
    assert states(store) == {"waiting": 1, "sent": 1, "dead": 1}
    assert store.subscriptions.add(subscription("new")).id > me.id


# -- delivering -----------------------------------------------------------------------------------


def test_an_event_is_told_to_those_who_want_it(store):
    async def main():
        clock, channel = Clock(), Scripted()
        store.subscriptions.add(subscription("all"), now=NOW)
        store.subscriptions.add(subscription("gone", filter=Filter(topics=("gone",))), now=NOW)
        store.subscriptions.add(subscription("off", enabled=False), now=NOW)
        store.outbox.add([event(0)], now=NOW - 1)  # before anybody asked
        store.outbox.add([event(1), event(2, "gone")], now=NOW)
        telling = deliverer(store, channel, clock)
        assert await telling.deliver_due() == 3
        assert await telling.deliver_due() == 0
        told = sorted((m.subscription, m.id) for m in channel.sent)
        assert told == [("all", "event-1"), ("all", "event-2"), ("gone", "event-2")]

    asyncio.run(main())
    assert states(store) == {"sent": 3}


def test_a_receiver_that_is_down_is_left_alone_longer_and_longer(store):
    async def main():
        down = SendResult(error="no connection", down=True)
        clock, channel = Clock(), Scripted(*[down] * 12)
        store.subscriptions.add(subscription(), now=NOW)
        store.outbox.add([event(n) for n in range(5)], now=NOW)
        telling = deliverer(store, channel, clock, retry="10s", longest_retry="10min")
        pauses = []
        while states(store)["sent"] < 5:
            await telling.deliver_due()
            until = store.subscriptions.get("me").rests_until
            if until > clock.at:
                pauses.append(until - clock.at)
                clock.at = until
        assert len(pauses) == 12
        for number, pause in enumerate(pauses):  # half to whole of 10 s, doubled each time
            whole = min(10 * 2**number, 600)
            assert whole / 2 <= pause <= whole
        assert len({round(p / min(10 * 2**n, 600), 3) for n, p in enumerate(pauses)}) > 6
        assert Counter(m.id for m in channel.sent[12:]) == {f"event-{n}": 1 for n in range(5)}

    asyncio.run(main())


def test_a_wish_for_rest_is_granted(store):
    async def main():
        clock, channel = Clock(), Scripted(SendResult(error="429", down=True, retry_after=777.0))
        store.subscriptions.add(subscription(), now=NOW)
        store.outbox.add([event(1)], now=NOW)
        telling = deliverer(store, channel, clock)
        await telling.deliver_due()
        clock.at = NOW + 776
        assert await telling.deliver_due() == 0
        clock.at = NOW + 777 * 1.1 + 1
        assert await telling.deliver_due() == 1

    asyncio.run(main())


def test_what_is_refused_again_and_again_becomes_a_dead_letter_and_can_be_retried(store):
    async def main():
        clock, channel = Clock(), Scripted(*[SendResult(error="status 400")] * 3)
        store.subscriptions.add(subscription(), now=NOW)
        store.outbox.add([event(1)], now=NOW)
        telling = deliverer(store, channel, clock, attempts=3)
        for _ in range(9):
            await telling.deliver_due()
            clock.at += 3600
        (dead,) = store.deliveries.list(state="dead")
        assert (dead.attempts, dead.error, len(channel.sent)) == (3, "status 400", 3)
        assert store.deliveries.retry(now=clock.at) == 1
        assert await telling.deliver_due() == 1
        assert {m.id for m in channel.sent} == {"event-1"}

    asyncio.run(main())


def test_one_message_that_is_refused_does_not_hold_up_the_others(store):
    async def main():
        clock, channel = Clock(), Scripted(SendResult(error="status 422"))
        store.subscriptions.add(subscription(), now=NOW)
        store.outbox.add([event(n) for n in range(3)], now=NOW)
        telling = deliverer(store, channel, clock)
        assert await telling.deliver_due() == 2
        clock.at += 60
        assert await telling.deliver_due() == 1

    asyncio.run(main())


def test_what_waits_for_days_for_a_dead_receiver_is_given_up(store):
    async def main():
        clock = Clock()
        channel = Scripted(*[SendResult(error="no connection", down=True)] * 500)
        store.subscriptions.add(subscription(), now=NOW)
        store.outbox.add([event(n) for n in range(50)], now=NOW)
        telling = deliverer(store, channel, clock, give_up="1d")
        for _ in range(40):
            await telling.deliver_due()
            clock.at += 3601
        assert states(store) == {"dead": 50}
        assert len(channel.sent) < 60  # one attempt at a time, not fifty

    asyncio.run(main())


def test_a_digest_is_one_message_and_the_same_on_every_attempt(store):
    async def main():
        clock = Clock(at("2027-01-15T10:20:00"))
        channel = Scripted(SendResult(error="down", down=True), SendResult(error="down", down=True))
        store.subscriptions.add(subscription(digest="1h"), now=clock.at)
        telling = deliverer(store, channel, clock)
        for number in range(7):
            store.outbox.add([event(number)], now=clock.at)
            assert await telling.deliver_due() == 0
            clock.at += 60
        clock.at = at("2027-01-15T11:00:00")
        await telling.deliver_due()
        store.outbox.add([event(7)], now=clock.at)  # of the next window, which ends ...
        await telling.deliver_due()
        clock.at = at("2027-01-15T12:30:00")  # ... before the receiver is up again
        await telling.deliver_due()
        clock.at = at("2027-01-15T14:00:00")
        assert await telling.deliver_due() == 2
        first = [message for message in channel.sent if len(message.events) == 7]
        assert len(first) == 3
        assert {message.id for message in first} == {channel.sent[0].id}
        assert all(m.event_ids == [f"event-{n}" for n in range(7)] for m in first)
        assert "7 events" in first[0].subject
        (second,) = [message for message in channel.sent if message not in first]
        assert second.event_ids == ["event-7"]

    asyncio.run(main())


def test_events_wait_through_quiet_hours_and_are_not_lost(store):
    async def main():
        clock, channel = Clock(at("2026-07-01T22:30:00")), Scripted()
        store.subscriptions.add(subscription(quiet=("22:00-07:00",)), now=clock.at)
        telling = deliverer(store, channel, clock)
        for number in range(8):
            store.outbox.add([event(number)], now=clock.at)
            assert await telling.deliver_due() == 0
            clock.at += 3600
        clock.at = at("2026-07-02T07:00:00")
        assert await telling.deliver_due() == 8
        # Somebody asks for quiet hours after events were queued: they count at once.
        clock.at = at("2026-07-02T12:00:00")
        store.outbox.add([event(9)], now=clock.at)
        await telling.fan_out()
        store.subscriptions.update("me", quiet=("11:00-13:00",))
        assert await telling.deliver_due() == 0
        clock.at = at("2026-07-02T13:00:00")
        assert await telling.deliver_due() == 1

    asyncio.run(main())


def test_terms_are_looked_for_in_the_whole_change_not_its_beginning(store):
    store.sources.add([Source(name="a")], now=NOW)
    filler = "\n".join(f"line {n} of filler" for n in range(500))
    for moment, text in ((NOW - 60, "old"), (NOW, f"old\n{filler}\nthe needle")):
        visit = Visit(source="a", started_at=moment, ended_at=moment + 1, outcome="changed")
        store.visits.record(visit, snapshot=text, now=moment)
    wanted = Filter(terms=("needle",))
    store.subscriptions.add(subscription(filter=wanted), now=NOW)
    store.subscriptions.add(subscription("no", filter=Filter(terms=("old",))), now=NOW)
    store.outbox.add([event(1, added=filler[:2000], removed="", cut=True)], now=NOW)
    channel = Scripted()
    asyncio.run(deliverer(store, channel, Clock()).deliver_due())
    assert [m.subscription for m in channel.sent] == ["me"]


def test_one_bad_subscription_does_not_stop_the_others(store):
    async def main():
        clock, channel = Clock(), Scripted()
        bad = Subscription(name="bad", channel="https://a.example/", digest="soon", timezone="x")
        store.subscriptions.add(bad, now=NOW)  # past our door: from a file somebody wrote
        store.subscriptions.add(subscription("good"), now=NOW)
        store.outbox.add([event(1)], now=NOW)
        assert await deliverer(store, channel, clock).deliver_due() == 1
        assert [m.subscription for m in channel.sent] == ["good"]
        assert "soon" in store.subscriptions.get("bad").error
        assert states(store) == {"sent": 1, "waiting": 1}

    asyncio.run(main())


def test_two_deliverers_on_one_store_tell_everything_once(store):
    async def main():
        clock, channel = Clock(), Scripted()
        for number in range(5):
            store.subscriptions.add(subscription(f"s{number}"), now=NOW)
        store.outbox.add([event(n) for n in range(20)], now=NOW)
        both = [deliverer(store, channel, clock) for _ in range(2)]
        await asyncio.gather(*(one.deliver_due() for one in both))
        told = Counter((m.subscription, m.id) for m in channel.sent)
        assert len(told) == 100
        assert set(told.values()) == {1}

    asyncio.run(main())


# -- webhooks -------------------------------------------------------------------------------------


def send(channel, message=None, config=None):
    """Send one message by the real channel of an address."""

    async def main():
        with closing(open_store(":memory:")) as store:
            kept = store.subscriptions.add(subscription(channel=channel))
            telling = Deliverer(store, config or Config(allow=LOOPBACK))
            try:
                events = [message or pending(title="A page", url="https://a.example/")]
                return await telling._send("the-id", kept, events)
            finally:
                await telling.close()

    return asyncio.run(main())


def test_a_webhook_is_signed_and_says_its_id_twice():
    with receiving() as receiver:
        assert send(receiver.url).ok
    ((path, headers, body),) = receiver.got
    assert path == "/hook/token"
    told = json.loads(body)
    assert headers["observant-event"] == told["id"] == "the-id"
    assert told["events"][0] == {
        "title": "A page",
        "url": "https://a.example/",
        "id": "e",
        "topic": "changed",
    }
    stamp, signature = headers["observant-timestamp"], headers["observant-signature"]
    assert verify("whistle", stamp, signature, body, now=time.time())
    for bad in (
        ("thistle", stamp, signature, body),
        ("whistle", str(int(stamp) + 1), signature, body),
        ("whistle", stamp, signature, body + b" "),
        ("whistle", stamp, "v1=" + "0" * 64, body),
        ("whistle", stamp, "", body),
        ("whistle", "soon", signature, body),
        ("whistle", "9" * 400, signature, body),
    ):
        assert not verify(*bad, now=time.time())


def test_a_webhook_goes_nowhere_the_guard_does_not_allow():
    with receiving() as receiver:
        answer = send(receiver.url, config=Config())
        assert not answer.ok
        assert "loopback" in answer.error
        for url in ("http://[::1]:80/", "http://169.254.169.254/", "http://0x7f.1:80/"):
            assert not send(url, config=Config()).ok
        assert not send(f"http://localhost:{receiver.port}/", config=Config()).ok
        assert receiver.got == []
        assert send(receiver.url, config=Config(notify=Notify(allow=LOOPBACK))).ok


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_webhook_does_not_follow_redirects(status):
    with receiving() as elsewhere:
        target = {"Location": elsewhere.url}
        with receiving(lambda _: (status, target)) as receiver:
            answer = send(receiver.url)
    assert not answer.ok
    assert "redirect" in answer.error
    assert elsewhere.got == []


def test_the_answers_of_a_webhook_are_understood():
    cases = {
        200: (True, False, False),
        204: (True, False, False),
        400: (False, False, False),
        410: (False, False, True),
        429: (False, True, False),
        500: (False, True, False),
        503: (False, True, False),
    }
    for status, (ok, down, final) in cases.items():
        with receiving(lambda _, s=status: (s, {"Retry-After": "120"})) as receiver:
            answer = send(receiver.url)
        assert (answer.ok, answer.down, answer.final) == (ok, down, final), status
        if status in {429, 503}:
            assert answer.retry_after == 120


WORKER = """
import asyncio, sys
from observant.notifications import Deliverer
from observant.observer.clock import AcceleratedClock
from observant.observer.config import Config, Notify
from observant.store import open_store

place, start, origin, speed = sys.argv[1], *map(float, sys.argv[2:])
clock = AcceleratedClock(speed=speed, start=start, origin=origin)
notify = Notify(retry="30s", longest_retry="10min")
with open_store(place) as store:
    config = Config(allow=("127.0.0.0/8",), notify=notify)
    asyncio.run(Deliverer(store, config, clock=clock, lease=1.0).run(asyncio.Event()))
"""


@pytest.mark.slow
def test_a_receiver_down_for_an_hour_and_two_murders_lose_nothing(place):
    """The receiver is down for an hour (of a fast clock). The deliverer is killed in that hour,
    and again in the middle of delivering, with a message under way that was received but not
    marked. Every event arrives, and what arrives twice has the same id both times.
    """
    speed, events = 900.0, 60
    port = free_port()
    origin, start = time.monotonic(), NOW
    clock = AcceleratedClock(speed=speed, start=start, origin=origin)

    def worker():
        arguments = [place, *map(str, (start, origin, speed))]
        return subprocess.Popen([sys.executable, "-c", WORKER, *arguments])  # noqa: S603

    process = None
    with open_store(place) as store:
        url = f"http://127.0.0.1:{port}/hook"
        store.subscriptions.add(subscription("each", url), now=NOW)
        store.subscriptions.add(subscription("digest", url, digest="30min"), now=NOW)
        try:
            process = worker()
            for number in range(events // 2):
                store.outbox.add([event(number)], now=clock.time())
            until(lambda: store.subscriptions.get("each").failures >= 3)
            process.send_signal(signal.SIGKILL)
            process.wait()
            for number in range(events // 2, events):
                store.outbox.add([event(number)], now=clock.time())
            process = worker()
            until(lambda: clock.time() > start + 3600)
            assert states(store)["sent"] == 0

            def answer(number):
                if number == 20:  # received, and nobody is left to mark it
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                return 200

            with receiving(answer, port=port) as receiver:
                until(lambda: process.poll() is not None)
                process = worker()
                until(lambda: states(store) == {"sent": 2 * events})
                got = [(h["observant-event"], json.loads(b)) for _, h, b in receiver.got]
        finally:
            if process is not None:
                process.kill()
                process.wait()
    assert all(header == body["id"] for header, body in got)
    each = Counter(body["id"] for _, body in got if body["subscription"] == "each")
    assert set(each) == {f"event-{n}" for n in range(events)}
    assert sum(each.values()) > events or len(got) > len({header for header, _ in got})
    digests = {body["id"]: body for _, body in got if body["subscription"] == "digest"}
    told = Counter(one["id"] for body in digests.values() for one in body["events"])
    assert told == {f"event-{n}": 1 for n in range(events)}
    for header, body in got:  # the same id is the same message
        assert body == next(other for same, other in got if same == header)


# -- e-mail ---------------------------------------------------------------------------------------


class Postbox:
    """A mail server on loopback that keeps every letter; with a certificate it offers TLS."""

    def __init__(self, certificate=None, accepts=True, implicit=False):
        self.letters, self.commands = [], []
        self._context = None
        self._accepts, self._implicit = accepts, implicit
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            certificate.configure_cert(self._context)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        self._server.close()

    def _serve(self):
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with suppress(OSError), ExitStack() as held:
                held.enter_context(connection)
                if self._implicit:
                    connection = self._context.wrap_socket(connection, server_side=True)
                    held.enter_context(connection)
                self._talk(connection, held)

    def _talk(self, connection, held):
        file = held.enter_context(connection.makefile("rwb"))
        tls = self._implicit

        def say(line):
            file.write(line.encode() + b"\r\n")
            file.flush()

        say("220 postbox")
        while line := file.readline():
            command = line.decode("latin-1").strip()
            self.commands.append(command.upper())
            word = command.split(" ")[0].upper()
            if word == "EHLO":
                say("250-postbox")
                if self._context is not None and not tls:
                    say("250-STARTTLS")
                say("250 AUTH PLAIN")
            elif word == "STARTTLS":
                say("220 go on")
                connection = self._context.wrap_socket(connection, server_side=True)
                held.enter_context(connection)
                file, tls = held.enter_context(connection.makefile("rwb")), True
            elif word == "AUTH":
                say("235 welcome" if self._accepts else "535 no")
            elif word == "RCPT" and "nobody@" in command:
                say("550 nobody of that name")
            elif word == "DATA":
                say("354 speak")
                parts = []
                while (part := file.readline()) != b".\r\n":
                    parts.append(part.removeprefix(b".") if part.startswith(b"..") else part)
                self.letters.append(b"".join(parts))
                say("250 kept")
            elif word == "QUIT":
                say("221 bye")
                return
            else:
                say("250 fine")


@contextmanager
def postbox(**more):
    box = Postbox(**more)
    try:
        yield box
    finally:
        box.close()


def mail_config(scheme, port, host="127.0.0.1", user="", allow=LOOPBACK):
    notify = Notify(mail=f"{scheme}://{user}{host}:{port}", sender="observant@example.org")
    return Config(allow=allow, notify=notify)


def test_a_letter_is_plain_text_and_escaped_html():
    hostile = pending(
        title='<script>alert("x")</script>\r\nBcc: everybody@example.org',
        url='https://a.example/"><script>',
        reason="<b>bold</b>",
        added="<img src=x onerror=alert(1)>",
    )
    with postbox() as box:
        config = mail_config("smtp+plain", box.port)
        assert send("mailto:me@example.org,you@example.org", hostile, config=config).ok
    (raw,) = box.letters
    letter = message_from_bytes(raw, policy=mail_policy)
    assert letter["To"] == "me@example.org, you@example.org"
    assert letter["Bcc"] is None
    assert "everybody" not in str(letter["To"])
    assert letter["Observant-Event"] == "the-id"
    assert letter["Message-ID"] == "<the-id@example.org>"
    assert "\n" not in letter["Subject"]
    assert "script" in letter["Subject"]
    assert [c for c in box.commands if c.startswith("RCPT")] == [
        "RCPT TO:<ME@EXAMPLE.ORG>",
        "RCPT TO:<YOU@EXAMPLE.ORG>",
    ]
    text = letter.get_body(("plain",)).get_content().replace("\r\n", "\n")
    page = letter.get_body(("html",)).get_content()
    assert "<script>" in text
    assert "events:\ne\n" in text
    assert "<script" not in page
    assert "<img" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;" in page


def test_mail_goes_by_tls_or_not_at_all(monkeypatch, tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    good, bad = authority.issue_cert("localhost"), trustme.CA().issue_cert("localhost")
    for certificate, trusted in ((good, True), (bad, False)):
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        for scheme, implicit in (("smtp", False), ("smtps", True)):
            with postbox(certificate=certificate, implicit=implicit) as box:
                config = mail_config(scheme, box.port, "localhost", "user:pass%20word@")
                answer = send("mailto:me@example.org", config=config)
                assert answer.ok is trusted, answer.error
                assert len(box.letters) == trusted
                if not trusted:
                    assert not any(command.startswith("AUTH") for command in box.commands)
    with postbox() as box:  # no TLS offered: the password stays here
        answer = send("mailto:me@example.org", config=mail_config("smtp", box.port, user="u:p@"))
        assert not answer.ok
        assert answer.down
        assert not any(command.startswith(("AUTH", "MAIL")) for command in box.commands)


def test_mail_goes_nowhere_the_guard_does_not_allow():
    with postbox() as box:
        answer = send("mailto:me@example.org", config=mail_config("smtp+plain", box.port, allow=()))
        assert not answer.ok
        assert "loopback" in answer.error
        assert box.commands == []
    assert "notify.mail" in send("mailto:me@example.org").error


def test_the_answers_of_a_mail_server_are_understood():
    with postbox(accepts=False) as box:
        config = mail_config("smtp+plain", box.port, user="me:hunter2@")
        answer = send("mailto:me@example.org", config=config)
        assert answer.down
        assert "user and password" in answer.error
        assert "hunter2" not in answer.error
    with postbox() as box:
        config = mail_config("smtp+plain", box.port)
        assert send("mailto:nobody@example.org", config=config).final
        partly = send("mailto:nobody@example.org,me@example.org", config=config)
        assert partly.ok
        assert "nobody@example.org" in partly.error
        until(lambda: box.letters)
        assert len(box.letters) == 1


def test_no_header_can_be_smuggled_into_a_letter():
    message = compose("x\r\nBcc: a@example.org", subscription(subject="{{title}}"), [pending()])
    message = msgspec.structs.replace(message, subject="fine")
    letter = letter_of(message, "me@example.org", ["you@example.org"], NOW)
    assert letter["Bcc"] is None
    assert b"\r\nBcc" not in letter.as_bytes().split(b"\r\n\r\n")[0]


# -- apprise --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_apprise_sends_through_the_guard_and_follows_no_redirect():
    pytest.importorskip("apprise")
    with receiving() as receiver:
        assert send(f"json://127.0.0.1:{receiver.port}/").ok
        assert "the-id" in receiver.got[0][2].decode()
        answer = send(f"json://127.0.0.1:{receiver.port}/", config=Config())
        assert not answer.ok
        assert "loopback" in answer.error
        assert len(receiver.got) == 1
        with receiving(lambda _: (302, {"Location": receiver.url})) as first:
            assert not send(f"json://127.0.0.1:{first.port}/").ok
        assert len(receiver.got) == 1


# -- events ---------------------------------------------------------------------------------------


def source_row(**more):
    given_ = {"id": 1, "shard": 1, "created_at": NOW, "updated_at": NOW, "url": "http://a.example/"}
    return StoredSource(**({"name": "a", "host": "a.example"} | given_ | more))


def outcomes(words, *, notify=None, step=3600.0, blamed=True):
    """The topics of the events of visits with these outcomes, one list a visit."""
    told, standing = [], Standing(good_at=NOW, changed_at=NOW)
    for number, word in enumerate(words, 1):
        gone = word == "still"
        comparison = Comparison(
            outcome="same" if gone else word, memory={"gone": True} if gone else {}
        )
        visit = Visit(
            source="a",
            started_at=NOW + number * step,
            ended_at=NOW + number * step + 1,
            outcome=comparison.outcome,
            changed=comparison.changed,
            error="http" if word == "failed" else None,
            comparison=comparison,
        )
        after = standing.after(visit, blamed=blamed)
        events = events_of(source_row(), visit, standing, after, notify or Notify())
        told.append([e.topic for e in events])
        standing = after
    return told


def test_failing_and_recovered_are_told_at_transitions_only():
    words = ["failed"] * 5 + ["same", "failed", "same", "failed", "failed", "failed", "changed"]
    quiet = []
    assert outcomes(words) == [
        *(quiet, quiet, ["failing"], quiet, quiet),
        *(["recovered"], quiet, quiet, quiet, quiet),
        *(["failing"], ["changed", "recovered"]),
    ]
    assert outcomes(["failed"] * 9 + ["same"], blamed=False) == [quiet] * 10  # our own outage


def test_an_observer_tells_transitions_across_restarts(store, tmp_path):
    from observant.observer.loop import Observer
    from observant.observer.program import add_sources, describe

    page = tmp_path / "page.txt"
    name = str(page)
    config = Config(files=(str(tmp_path),))
    add_sources(store, config, [describe(name, kind="file")])

    def look(times=1):
        for _ in range(times):
            asyncio.run(Observer(store, config).check(name))
        return [e.topic for e in store.outbox.pending()]

    page.write_text("one")
    look()
    page.unlink()
    page.mkdir()
    assert look(2) == []
    assert look(4) == ["failing"]
    page.rmdir()
    page.write_text("one")
    assert look(2) == ["failing", "recovered"]
    for number in range(1, 6):  # an outage of ours, of which nobody was told
        moment = time.time() - 0.001 * (6 - number)
        failed = Visit(source=name, started_at=moment, ended_at=moment, outcome="failed")
        store.visits.record(failed)
    assert store.sources.get(name).failed_in_row == 5
    assert look() == ["failing", "recovered"]


def test_gone_becomes_vanished_after_a_day_and_is_told_once(store):
    words = ["gone"] + ["still"] * 30 + ["back"]
    told = outcomes(words)
    assert told[0] == ["gone"]
    assert told[-1] == ["back"]
    assert all(topics == [] for topics in told[1:24])
    assert told[24] == ["vanished"]
    # Told again by every visit, with the same id: for the store it is one event.
    standing = Standing(good_at=NOW, changed_at=NOW)
    comparison = Comparison(outcome="same", memory={"gone": True})
    store.sources.add([Source(name="a")], now=NOW)
    for number in range(3):
        moment = NOW + 90_000 + number
        visit = Visit(
            source="a",
            started_at=moment,
            ended_at=moment,
            outcome="same",
            changed=False,
            comparison=comparison,
        )
        events = events_of(source_row(), visit, standing, standing, Notify())
        store.visits.record(visit, outbox=events, now=moment)
    assert [e.topic for e in store.outbox.list()] == ["vanished"]


def test_an_event_shows_what_changed_and_no_password():
    comparison = Comparison(outcome="changed", text="same\nnew words", reason="r", magnitude=0.5)
    visit = Visit(
        source="a", started_at=NOW, ended_at=NOW, outcome="changed", changed=True, magnitude=0.5,
        comparison=comparison,
    )  # fmt: skip
    row = source_row(url="https://user:hunter2@a.example/x", tags=("t",))
    (told,) = events_of(row, visit, Standing(), Standing(), Notify(), text_before="same\nold words")
    assert (told.payload["added"], told.payload["removed"]) == ("new words", "old words")
    assert told.payload["url"] == "https://a.example/x"
    assert "hunter2" not in json.dumps(told.payload)
    assert set(TOPICS) >= {told.topic}


def status(**more):
    values = dict.fromkeys(Status.__dataclass_fields__, 0.0)
    return Status(**(values | {"at": NOW, "budget_per_day": 2400.0} | more))


def test_the_lateness_alarm_does_not_flutter_and_survives_a_restart(store):
    alarms = Alarms(store, Notify(lateness="1h"))
    told = []
    for number, late in enumerate([0, 3500, 3700, 3500, 3700, 2000, 1700, 1900, 3000, 3700]):
        if number == 4:
            alarms = Alarms(store, Notify(lateness="1h"))
        events = alarms.look(status(at=NOW + number, lateness=float(late)))
        told.append([e.payload["state"] for e in events if e.payload["alarm"] == "lateness"])
    assert told == [[], [], ["on"], [], [], [], ["off"], [], [], ["on"]]
    assert len(store.outbox.pending()) == 3


def test_an_alarm_of_several_observers_is_one(store):
    """On with the first that is late, off when none is; one that is silent does not count."""
    one, two = (Alarms(store, Notify(lateness="1h"), name) for name in ("one", "two"))
    told = []
    for minute, (late, later) in enumerate(
        [(4000, 0), (4000, 5000), (0, 5000), (0, 2000), (0, 0), (5000, 0), (None, 0), (None, 0)]
    ):
        for alarms, seconds in ((one, late), (two, later)):
            if seconds is not None:
                events = alarms.look(status(at=NOW + 90 * minute, lateness=float(seconds)))
                told += [(minute, event.payload["state"]) for event in events]
    assert told == [(0, "on"), (4, "off"), (5, "on"), (7, "off")]


def test_the_budget_alarm_tells_of_too_little_currency_and_of_overspending(store):
    alarms = Alarms(store, Notify(currency=0.8))
    for alpha, state in ((0.9, None), (0.79, "on"), (0.81, None), (0.83, "off")):
        events = alarms.look(status(alpha_planned=alpha))
        assert [e.payload["state"] for e in events] == ([state] if state else [])
    alarms = Alarms(store, Notify())
    told = []
    for hour in range(8):
        spent = sum(150.0 if 3 <= h < 5 else 100.0 for h in range(hour))
        events = alarms.look(status(at=NOW + 3600 * hour, spent=spent, alpha_planned=0.5))
        told += [(hour, e.payload["state"]) for e in events]
    assert told == [(4, "on"), (6, "off")]


def test_a_silence_is_told_once(store):
    day = 86_400.0
    start = NOW - 100 * day
    store.sources.add([Source(name="silent"), Source(name="lively")], now=start)
    for name, silent_from in (("silent", 40), ("lively", 1000)):
        for number in range(90):
            outcome = "changed" if number % 2 and number < silent_from else "same"
            visit = Visit(
                source=name,
                started_at=start + number * day,
                ended_at=start + number * day + 1,
                outcome="first" if number == 0 else outcome,
                changed=None if number == 0 else outcome == "changed",
                status=200,
            )
            store.visits.record(
                visit, posterior=Posterior(data=b"", rate=0.5), now=visit.started_at
            )
    assert silences(store, 0.01, NOW) == 1
    assert silences(store, 0.01, NOW + day) == 0
    (told,) = store.outbox.pending(now=NOW + day)
    assert (told.topic, told.source) == ("overdue", "silent")
    assert told.payload["probability"] < 0.01
    assert silences(store, 0.0, NOW) == 0


# -- all together ---------------------------------------------------------------------------------


def test_an_observer_tells_of_a_change_by_webhook(tmp_path):
    from observant.observer.loop import Observer
    from observant.observer.program import add_sources, describe
    from observant.observer.schedule import warm_up

    warm_up()  # on a new clone the scheduler is compiled first, and that takes its time
    page, draft = tmp_path / "page.txt", tmp_path / "draft.txt"
    page.write_text("one two three")
    config = Config(
        budget="50/s",
        allow=LOOPBACK,
        files=(str(tmp_path),),
        host_delay=0,
        defaults={"min_period": "1ms"},
    )

    async def main(store):
        def sent():
            return [row.state for row in store.deliveries.list()] == ["sent"]

        observer = Observer(store, config)
        async with notifying(store, config, observer=observer):
            running = asyncio.create_task(observer.run())
            await asyncio.to_thread(until, lambda: store.sources.get(str(page)).visits >= 2)
            draft.write_text("one two four")
            draft.replace(page)  # at once: nobody may see half of it
            await asyncio.to_thread(until, sent)
            observer.stop()
            await running

    with receiving() as receiver, open_store(tmp_path / "s.db") as store:
        store.subscriptions.add(subscription(channel=receiver.url))
        add_sources(store, config, [describe(str(page), kind="file", tags=["t"])])
        run(main(store))
        (row,) = store.deliveries.list()
        assert row.state == "sent"
    told = json.loads(receiver.got[0][2])["events"][0]
    assert (told["topic"], told["tags"], told["added"]) == ("changed", ["t"], "one two four")


def observant(*words, folder, input=None):  # noqa: A002 (click's own word)
    from observant.cli.notify import notify

    assert words[0] == "notify"
    with chdir(folder):
        return CliRunner().invoke(notify, list(words[1:]), input=input)


def test_the_command_line_from_subscribing_to_dead_letters(tmp_path):
    with receiving() as receiver:
        assert list(CLI_TOPICS) == list(TOPICS)
        piped = observant(
            "notify", "add", "x", "-", folder=tmp_path, input="mailto:me@example.org\n"
        )
        assert "mailto:me@example.org" in piped.output
        observant("notify", "remove", "x", folder=tmp_path)
        made = observant(
            "notify", "add", "ops", receiver.url, "--topic", "failing", "--tag", "a",
            "--digest", "1h", "--quiet", "22:00-07:00", "--json", folder=tmp_path,
        )  # fmt: skip
        assert made.exit_code == 0, made.output
        told = json.loads(made.output)
        assert told["channel"] == f"http://127.0.0.1:{receiver.port}/{MASK}"
        assert len(told["secret"]) > 30
        listed = observant("notify", "--json", folder=tmp_path).output
        assert told["secret"] not in listed
        assert "token" not in listed
        assert json.loads(listed)[0]["filter"]["topics"] == ["failing"]
        assert "failing #a" in observant("notify", folder=tmp_path).output
        change = ("notify", "change", "ops", "--tag", "b", "--digest", "0s", "--pause")
        changed = json.loads(observant(*change, "--json", folder=tmp_path).output)
        assert changed["filter"] == told["filter"] | {"tags": ["b"]}
        assert (changed["enabled"], changed["digest"]) == (False, "0s")
        assert changed["secret"] == MASK
        moved = ("notify", "change", "ops", "--resume", "--channel", "https://b.example/")
        assert "shown this once" in observant(*moved, folder=tmp_path).output
        back = (*moved[:-1], receiver.url, "--secret", told["secret"], "--tag", "a")
        assert "shown this once" not in observant(*back, folder=tmp_path).output
        refused = observant("notify", "test", "ops", folder=tmp_path)
        assert refused.exit_code == 1
        assert "loopback" in refused.output
        allowed = ("notify", "test", "ops", "--allow", "127.0.0.0/8")
        assert ": delivered" in observant(*allowed, folder=tmp_path).output
    stamp, signature = (receiver.got[0][1][f"observant-{k}"] for k in ("timestamp", "signature"))
    assert verify(told["secret"], stamp, signature, receiver.got[0][2], now=time.time())
    with open_store(tmp_path / "observant.db") as store:
        me = store.subscriptions.get("ops")
        store.outbox.add([event(1, "failing")])
        store.deliveries.fan_out({"event-1": {me.id: NOW}})
        (row,) = store.deliveries.list()
        store.deliveries.failed([row.id], error="\x1b[31mno", until=None)
    shown_ = observant("notify", "log", "--state", "dead", folder=tmp_path).output
    assert "event" not in shown_
    assert "failing" in shown_
    assert "\x1b" not in shown_
    as_json = json.loads(observant("notify", "log", "--json", folder=tmp_path).output)
    assert (as_json[0]["state"], as_json[0]["event"]) == ("dead", "event-1")
    which = observant("notify", "log", "--retry", folder=tmp_path)
    assert which.exit_code == 2
    assert "ids, --subscription NAME, or --all" in which.output
    assert "1 delivery" in observant("notify", "log", "--retry", "--all", folder=tmp_path).output
    removed = observant("notify", "remove", "ops", folder=tmp_path)
    assert removed.exit_code == 0
    again = observant("notify", "remove", "ops", folder=tmp_path)
    assert isinstance(again.exception, InputError)
