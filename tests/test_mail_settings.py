"""Channels are set up and tried from the dashboard; their secrets are never shown again."""

import pytest

from observant.notifications.channels.mail import KEPT, MailServer, with_server
from observant.observer.config import Config
from observant.store import Subscription, open_store

from .service_world import World
from .test_notifications import postbox

SERVER = {"host": "127.0.0.1", "security": "none", "sender": "observant@example.org"}
PASSWORD = "a very good one"  # noqa: S105


@pytest.fixture
def world(tmp_path):
    place = str(tmp_path / "o.db")
    made = World(config=Config(allow=("127.0.0.0/8",), store=place), store=open_store(place))
    yield made
    made.close()


@pytest.mark.slow
def test_a_server_is_entered_and_tried_on_the_page(world):
    with world.browser("owner") as client, postbox() as box:
        fields = SERVER | {"port": str(box.port)}
        assert client.post("/settings/mail", data=fields).url.query == b"told=saved"
        tried = client.post("/settings/mail/test", data={"to": "me@example.org"})
        assert "The test message was delivered." in tried.text
        assert len(box.letters) == 1
        world.store.subscriptions.add(Subscription(name="me", channel="mailto:me@example.org"))
        tried = client.post("/subscriptions/1/test")
        assert "The test message was delivered." in tried.text
        assert len(box.letters) == 2
    with world.browser("owner") as client:
        client.post("/settings/mail", data=SERVER | {"port": "1"})  # nobody is there
        tried = client.post("/settings/mail/test", data={"to": "me@example.org"})
        assert tried.status_code == 422
        assert "not delivered: nothing answers at this port of the mail server" in tried.text
        tried = client.post("/subscriptions/1/test")
        assert "me was not told: nothing answers at this port" in tried.text


@pytest.mark.slow
def test_a_password_is_sealed_and_shown_to_nobody_and_stays_with_its_server(world):
    signing_in = SERVER | {"user": "ada", "password": PASSWORD}
    with world.client("admin") as client:
        kept = client.put("/api/v1/mail", json=signing_in)
        assert kept.status_code == 200
        assert PASSWORD not in kept.text
        assert PASSWORD not in client.get("/api/v1/mail").text
        assert PASSWORD not in repr(world.store.settings.get(KEPT))
        given = world.collection.given
        assert f"ada:{PASSWORD.replace(' ', '%20')}@" in with_server(world.store, given).notify.mail
        again = client.put("/api/v1/mail", json=SERVER | {"user": "ada", "sender": "b@example.org"})
        assert again.status_code == 200  # left empty it stays
        assert PASSWORD.replace(" ", "%20") in with_server(world.store, given).notify.mail
        moved = client.put("/api/v1/mail", json=SERVER | {"user": "ada", "host": "evil.example"})
        assert moved.status_code == 422
        assert "enter the password too" in moved.json()["detail"]
        export = client.get("/api/v1/export?secrets=true").text
        assert PASSWORD not in export
        client.put("/api/v1/mail", json={})
        assert world.store.settings.get(KEPT) is None
    with world.browser("owner") as client:
        client.post("/settings/mail", data=signing_in)
        assert PASSWORD not in client.get("/settings").text


def test_who_does_not_administer_sees_and_sets_nothing_of_it(world):
    with world.browser("editor") as client:
        assert 'id="mail"' not in client.get("/settings").text
        assert client.post("/settings/mail", data=SERVER).status_code == 403
    with world.client("write") as client:
        assert client.get("/api/v1/mail").status_code == 403


@pytest.mark.slow
def test_without_a_file_for_the_key_a_password_is_refused_in_words():
    made = World(config=Config(store=":memory:"))
    with made.client("admin") as client:
        reply = client.put("/api/v1/mail", json=SERVER | {"user": "ada", "password": PASSWORD})
        assert reply.status_code == 422
        assert "there is no file for the key" in reply.json()["detail"]
    made.close()


@pytest.mark.parametrize(
    ("given", "url"),
    [
        (MailServer(host="m.example"), "smtp://m.example"),
        (MailServer(host="m.example", security="tls", port=7), "smtps://m.example:7"),
        (MailServer(host="::1", user="a@b", security="none"), "smtp+plain://a%40b:p%2F@[::1]"),
    ],
)
def test_an_entered_server_is_one_of_the_configuration(given, url):
    assert given.url("p/") == url


@pytest.mark.slow
def test_the_guards_of_channels_hold_for_test_messages(world):
    world.store.subscriptions.add(Subscription(name="in", channel="https://10.0.0.1/hook"))
    world.store.subscriptions.add(Subscription(name="f", channel="json://a.example?template=/x"))
    with world.client("write") as client:
        tried = client.post("/api/v1/subscriptions/1/test").json()
        assert tried["ok"] is False
        assert "10.0.0.1" in tried["error"]
        assert "private" in tried["error"]
        tried = client.post("/api/v1/subscriptions/2/test").json()
        assert "opens files of this machine" in tried["error"]
