"""The client against a real server: every operation, over a real socket."""

import asyncio
import contextlib
import http.server
import inspect
import json
import os
import pathlib
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from observant.cli.access import access
from observant.cli.settings import settings
from observant.errors import InputError, ServiceError
from observant.observer.config import Config
from observant.observer.loop import Observer
from observant.service.access import Access
from observant.service.app import create_app
from observant.service.client import Client
from observant.service.collection import Collection, NewSource
from observant.service.server import Serving, serve
from observant.store import Posterior, Source, Visit, open_store

from .patience import PATIENCE, free_port, until


@contextlib.contextmanager
def served(store, config=None, *, observe=False, **serving) -> Iterator[tuple[str, Access]]:
    """The service in a thread of its own, on a free port of loopback."""
    ready, address, stop = threading.Event(), [], []
    failed = []

    async def run():
        until = asyncio.Event()
        stop.append((asyncio.get_running_loop(), until))

        def told(where, _):
            address.append(where)
            ready.set()

        made = config or Config()
        observer = Observer(store, made) if observe else None
        await serve(
            store, made, Serving(port=0, **serving), observer=observer, told=told, until=until
        )

    def work():
        try:
            asyncio.run(run())
        except Exception as error:  # noqa: BLE001 (told below)
            failed.append(error)
        ready.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        if failed:
            raise failed[0]
        yield address[0], Access(store, log_n=4)
    finally:
        loop, until = stop[0]
        loop.call_soon_threadsafe(until.set)
        thread.join(PATIENCE)
        assert not thread.is_alive()
    if failed:
        raise failed[0]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    place = tmp_path_factory.mktemp("service") / "store.db"
    with open_store(place) as store, served(store) as (address, access):
        yield store, address, access


def test_every_operation_of_the_document_is_a_method_of_the_client():
    with open_store(":memory:") as store:
        access = Access(store, log_n=4)
        collection = Collection(store, Config())
        document = create_app(collection, access=access).openapi_schema.to_schema()
        collection.cache.close()
    operations = {
        operation["operationId"]: operation
        for item in document["paths"].values()
        for operation in item.values()
    }
    assert len(operations) > 45
    for name, operation in operations.items():
        method = getattr(Client, name, None)
        assert method is not None, f"the client has no method {name}"
        assert method.__doc__
        known = set(inspect.signature(method).parameters)
        anything = any(
            p.kind is inspect.Parameter.VAR_KEYWORD
            for p in inspect.signature(method).parameters.values()
        )
        for parameter in operation.get("parameters", ()):
            word = parameter["name"].lower().replace("-", "_")
            fits = parameter["in"] == "path" or word in known or anything
            assert fits, f"{name} does not take {word}"


def test_the_client_does_all_of_it(service):
    store, address, access = service
    client = Client(address, access.new_token("all", "admin")[1])
    assert client.session().scope == "admin"
    added = client.add_source("https://a.example/", tags=["news"], importance=2.0)
    assert added.new
    number = added.source.id
    told = client.import_sources(
        ["https://b.example/", {"url": "https://c.example/", "title": "C"}, "file:///etc/passwd"],
        idempotency_key="once",
    )
    assert (told.added, len(told.refused)) == (2, 1)
    now = time.time()
    for k, text in enumerate(("one\n", "two\n")):
        store.visits.record(
            Visit(
                source="https://a.example/",
                started_at=now - 100 + k,
                ended_at=now - 100 + k,
                outcome="changed" if k else "first",
                changed=True if k else None,
            ),
            posterior=Posterior(data=b"", rate=1.0, rate_low=0.5, rate_high=2.0),
            snapshot=text,
        )
    assert client.list_sources(tag="news", sort="rate", descending=True).total == 1
    assert {row.name for row in client.all_sources(limit=1)} == {
        f"https://{name}.example/" for name in "abc"
    }
    detail = client.source(number)
    assert detail.source.rate == 1.0
    assert detail.source.created_at.tzinfo is not None
    assert client.update_source(number, title="T").title == "T"
    assert client.pause_source(number).state == "paused"
    assert client.resume_source(number).state == "active"
    assert client.change_sources("tag", value="x", all=True).sources == 3
    assert [item.tag for item in client.tags()] == ["news", "x"]
    assert len(client.source_visits(number, changed=True).visits) == 1
    assert len(client.visits(limit=1).visits) == 1
    versions = client.source_versions(number)
    assert client.snapshot(number, versions[0].digest) == b"two\n"
    assert client.diff(number, old=versions[1].digest, new=versions[0].digest).text
    assert client.members(number) == []
    assert client.overview(grace="1h").sources == 3
    assert len(client.hours(count=3)) == 3
    assert client.hosts() == []
    assert client.observers() == []
    assert client.events(topic="changed").events == []
    assert client.visit_log(format="csv").startswith(b'"source","time"')
    assert client.plan(budget="50/day").error == ""
    assert client.rivals().age_seconds >= 0
    assert client.population().age_seconds >= 0
    made = client.subscribe("me", "https://hooks.example/x", filter={"tags": ["news"]})
    assert client.subscription(made.subscription.id).filter.tags == ("news",)
    assert client.update_subscription(made.subscription.id, digest="1h").digest == "1h"
    assert [one.name for one in client.subscriptions()] == ["me"]
    assert client.deliveries(state="dead").deliveries == []
    assert client.retry_deliveries().deliveries == 0
    assert client.change_settings(budget="77/day").budget_per_day == 77
    assert client.settings().kept == ["budget"]
    document = client.export(secrets=True)
    assert client.import_document(document).known == 4
    client.unsubscribe(made.subscription.id)
    account = client.add_account("ada", "viewer", "a long password")
    assert client.update_account(account.id, role="editor").role == "editor"
    assert "ada" in [one.name for one in client.accounts()]
    assert client.sign_in("ada", "a long password").role == "editor"
    with pytest.raises(ServiceError, match="signed in"):
        client.change_password("a long password", "another password")
    client.sign_out()
    client.remove_account(account.id)
    robot = client.create_token("t", scope="read", days=1)
    assert robot.secret.startswith("obs_")
    assert robot.token in client.tokens()
    client.revoke_token(robot.token.id)
    assert robot.token not in client.tokens()
    health = client.health()
    assert not health.ok
    assert "observant_store_visits_total 2.0" in client.metrics()
    client.change_sources("pause", host="a.example")
    with pytest.raises(ServiceError, match="paused") as error:
        client.check_source(number)
    assert error.value.status == 422
    client.remove_source(number, forget=True)
    assert client.list_sources().total == 2


def test_errors_say_what_is_wrong(service):
    _, address, access = service
    with pytest.raises(ServiceError, match="sign in, or send a token") as error:
        Client(address, "wrong").tags()
    assert error.value.status == 401
    reader = Client(address, access.new_token("r", "read")[1])
    with pytest.raises(ServiceError, match="permission") as error:
        reader.add_source("https://x.example/")
    assert error.value.status == 403
    with pytest.raises(ServiceError, match="no source with the number 999"):
        reader.source(999)
    with pytest.raises(ServiceError, match="cannot be reached"):
        Client(f"http://127.0.0.1:{free_port()}/").tags()
    for bad in ("ftp://x/", "example.org", "http://user:pw@x/", "http://x/?q"):
        with pytest.raises(InputError):
            Client(bad)
    assert "wrong" not in repr(Client(address, "wrong"))


def test_the_token_is_not_carried_along_a_redirect():
    seen = []

    class Trap(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append((self.path, self.headers.get("Authorization")))
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Trap)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with pytest.raises(ServiceError) as error:
            Client(f"http://127.0.0.1:{server.server_port}/", "obs_secret").tags()
        assert error.value.status == 302
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert [path for path, _ in seen] == ["/api/v1/tags"]


def test_it_serves_below_a_prefix_and_believes_only_named_proxies(tmp_path):
    with open_store(tmp_path / "s.db") as store:
        with served(store, prefix="/observant") as (address, access):
            assert address.endswith("/observant/")
            secret = access.new_token("t", "read")[1]
            assert Client(address, secret).tags() == []
            reply = urllib.request.urlopen(  # noqa: S310
                urllib.request.Request(  # noqa: S310
                    f"{address}feeds/changes.json?token={secret}",
                    headers={"X-Forwarded-Proto": "https", "X-Forwarded-For": "6.6.6.6"},
                )
            )
            assert json.load(reply)["feed_url"].startswith("http://127.0.0.1")
        with served(store, proxies=("127.0.0.1",)) as (address, _):
            reply = urllib.request.urlopen(  # noqa: S310
                urllib.request.Request(  # noqa: S310
                    f"{address}feeds/changes.json?token={secret}",
                    headers={"X-Forwarded-Proto": "https"},
                )
            )
            assert json.load(reply)["feed_url"].startswith("https://127.0.0.1")


def test_an_observer_in_the_same_process_visits_and_is_seen(tmp_path):
    page = tmp_path / "page.txt"
    page.write_text("one")
    with open_store(tmp_path / "s.db") as store:
        store.sources.add([Source(name=str(page), kind="file", host="file")])
        config = Config(
            budget="2/s",
            host_delay=0.0,
            files=(str(tmp_path),),
            defaults={"min_period": "1h"},
        )
        with served(store, config, observe=True) as (address, access):
            client = Client(address, access.new_token("t", "write")[1])
            until(lambda: client.source(1).source.visits)
            page.write_text("two, and something else")
            assert client.check_source(1).visit.outcome == "changed"
            health = client.health()
            assert (health.ok, health.observing) == (True, True)
            overview = client.overview()
            assert overview.observing
            assert overview.alpha_planned is not None
            assert client.events().events[0].topic == "changed"
            assert "observant_alpha_planned" in client.metrics()
            assert len(client.observers()) == 1
        assert store.leases.list() == []  # it has given all back


def test_what_was_entered_goes_out_and_in_by_the_command_line(tmp_path):
    place, other, file = (str(tmp_path / name) for name in ("a.db", "b.db", "entered.json"))
    with open_store(place) as store:
        collection = Collection(store, Config())
        collection.sources.add(
            NewSource(url="/tmp/page", kind="file", settings={"max_period": "7d"}),  # noqa: S108
            trusted=True,
        )
        collection.cache.close()

    def command(*arguments):
        return CliRunner().invoke(settings, arguments)

    changed = command("change", "--budget", "77/day", "--store", place, "--json")
    assert json.loads(changed.output)["budget_per_day"] == 77
    assert "77/day  (kept)" in command("--store", place).output
    assert command("export", file, "--store", place).exit_code == 0
    assert stat.S_IMODE(pathlib.Path(file).stat().st_mode) == 0o600
    assert isinstance(command("export", file, "--store", place).exception, InputError)
    for expected in ("1 added, 0 changed, 0 as", "0 added, 0 changed, 1 as"):
        assert expected in command("import", file, "--store", other).output
    assert command("export", "-", "--store", other).output == pathlib.Path(file).read_text()
    forgotten = command("change", "--forget", "--store", other, "--json")
    assert json.loads(forgotten.output)["kept"] == []
    pathlib.Path(file).write_text('{"sources": 7}')
    assert isinstance(command("import", file, "--store", other).exception, InputError)


def test_a_taken_port_is_told_and_makes_no_account(tmp_path):
    with socket.socket() as taken, open_store(tmp_path / "s.db") as store:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        serving = Serving(port=taken.getsockname()[1])
        with pytest.raises(InputError, match="cannot be used"):
            asyncio.run(serve(store, Config(), serving))
        assert store.accounts.list() == []


def test_serve_and_its_accounts_and_tokens_from_the_command_line(tmp_path):
    place = str(tmp_path / "s.db")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

    def command(group, *arguments, typed=None):
        made = CliRunner().invoke(group, [*arguments, "--store", place], input=typed)
        assert made.exit_code == 0, made.output
        return made.output

    script = "from observant.cli.serve import serve; serve()"
    server = subprocess.Popen(  # noqa: S603
        [
            sys.executable,
            "-c",
            script,
            "--store",
            place,
            "--port",
            str(port),
            "--no-observer",
            "--json",
        ],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    try:
        text = ""
        while not text.endswith("}\n"):
            text += server.stdout.readline()
        told = json.loads(text)
        assert told["name"] == "owner"
        client = Client(told["address"])
        assert client.sign_in("owner", told["password"]).role == "owner"
        secret = command(access, "token", "robot", "--scope", "write").strip()
        assert Client(told["address"], secret).add_source("https://x.invalid/").new
        listed = json.loads(command(access, "token", "--list", "--json"))
        assert [row["name"] for row in listed] == ["robot"]
        command(access, "token", str(listed[0]["id"]), "--revoke")
        with pytest.raises(ServiceError):
            Client(told["address"], secret).tags()
        command(access, "add", "ada", "--role", "editor", typed="a long password\n")
        assert client.sign_in("ada", "a long password").role == "editor"
        command(access, "password", "ada", typed="another password\n")
        with pytest.raises(ServiceError):
            client.sign_in("ada", "a long password")
        assert [row["name"] for row in json.loads(command(access, "--json"))] == [
            "ada",
            "owner",
        ]
        command(access, "remove", "ada")
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(PATIENCE) == 0
        server.stdout.close()
