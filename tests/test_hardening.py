"""Small holes that an attack found, each with its test."""

import json
import os
import subprocess
import sys
import threading

import pytest
from click.testing import CliRunner

from observant.cli import cli
from observant.errors import InputError, SignInError, StoreError, TooManyError
from observant.notifications.channels import check_channel
from observant.service.access import Access
from observant.service.collection import edits
from observant.store import Source, open_store

from .patience import PATIENCE
from .service_world import PASSWORD, World


@pytest.fixture(scope="module")
def world():
    made = World()
    yield made
    made.close()


def command(*arguments):
    return CliRunner(catch_exceptions=False).invoke(cli, arguments, standalone_mode=False)


# -- requests -----------------------------------------------------------------------------------

NESTED = b"[" * 7000


@pytest.mark.parametrize("inner", [NESTED, b'{"name":' * 1500, b'{"a":[' * 1000 + b"]}" * 1000])
def test_nested_json_is_a_bad_request(world, inner, caplog):
    headers = {"Content-Type": "application/json"}
    with world.client() as stranger, world.client("write") as program:
        for client, path in (
            (stranger, "/api/v1/session"),
            (program, "/api/v1/sources"),
            (program, "/api/v1/import"),
        ):
            answer = client.post(path, content=inner, headers=headers)
            assert answer.status_code in {400, 422}, path
    assert "Traceback" not in caplog.text


def test_who_is_turned_away_is_no_fault_in_the_log(world, caplog, monkeypatch):
    monkeypatch.setattr(edits, "_AT_ONCE", threading.BoundedSemaphore(1))
    with world.client("write") as program, edits.asked_for():
        added = program.post("/api/v1/sources", json={"url": "https://busy.example/"}).json()
        answer = program.post(f"/api/v1/sources/{added['source']['id']}/check")
        assert answer.status_code == 503
        assert "at once" in answer.json()["detail"]
    (said,) = (one for one in caplog.records if one.name == "observant.service")
    assert (said.levelname, said.exc_info) == ("WARNING", None)
    assert "at once" in said.reason


def test_nested_json_in_a_file_is_refused(tmp_path):
    file = tmp_path / "deep.json"
    file.write_bytes(b'{"sources":' + b"[" * 100_000)
    with pytest.raises(InputError, match="not an export"):
        command("settings", "import", str(file), "--store", str(tmp_path / "o.db"))


@pytest.mark.slow
def test_the_document_of_the_api_names_the_statuses_that_come(world):
    with world.client("write") as client:
        paths = client.get("/api/v1/openapi.json").json()["paths"]
        key = {"Idempotency-Key": "k"}
        entry = {"url": "https://a.example/"}
        asked = [
            client.post("/api/v1/sources", json=entry),
            client.post("/api/v1/import", json={"sources": [entry]}, headers=key),
            client.post("/api/v1/import", json={"sources": []}, headers=key),
            client.post("/api/v1/sources", content=b"{", headers={"Content-Type": "text/json"}),
            client.post("/api/v1/sources", content=b" " * (5 << 20)),
            client.post("/api/v1/sources", json={"url": "file:///etc/passwd"}),
            client.post("/api/v1/sources", json={"nonsense": 1}),
            client.get("/api/v1/sources?limit=x"),
            client.get("/api/v1/sources/999999"),
        ]
    statuses = [answer.status_code for answer in asked]
    assert {201, 409, 400, 413, 422, 404} <= set(statuses)
    for answer in asked:
        path = answer.url.path.replace("/999999", "/{number}")
        if path not in paths:
            path = next(p for p in paths if p.startswith("/api/v1/sources/{") and p.endswith("}"))
        told = paths[path][answer.request.method.lower()]["responses"]
        assert str(answer.status_code) in told, (path, answer.status_code)


def test_guessing_is_counted_across_processes_and_restarts():
    world = World()
    try:
        doors = [Access(world.store, log_n=4) for _ in range(3)]
        for k in range(6):  # one process after the other is asked
            with pytest.raises(SignInError):
                doors[k % 3].sign_in("owner", "wrong password", "1.2.3.4")
        with pytest.raises(TooManyError):
            Access(world.store, log_n=4).sign_in("owner", PASSWORD, "1.2.3.4")
        assert Access(world.store, log_n=4).sign_in("owner", PASSWORD, "5.6.7.8")
        kept = json.dumps(world.store.settings.all("access."))
        assert "owner" not in kept
        assert "1.2.3.4" not in kept
    finally:
        world.close()


# -- channels -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "channel",
    [
        "workflow://host:443/a/b/?template=/etc/observant.json",
        "msteams://a/b/c/d?TEMPLATE=x",
        "ntfy://host/topic?attach=file:///etc/passwd",
    ],
)
def test_apprise_opens_no_files_of_ours(channel):
    with pytest.raises(InputError, match="files of this machine"):
        check_channel(channel)


@pytest.mark.slow
def test_whatever_apprise_is_told_it_opens_no_file(tmp_path):
    """The worker is asked past all checks of addresses."""
    secret = tmp_path / "secret.json"
    secret.write_text('{"a": "b"}')
    task = {
        "channel": f"workflow://127.0.0.1:9/{'a' * 32}/{'b' * 32}/?template={secret}",
        "allow": ["127.0.0.0/8"],
        "title": "t",
        "body": "b",
    }
    worker = [sys.executable, "-m", "observant.notifications.channels.apprise_worker"]
    answer = subprocess.run(  # noqa: S603
        worker, input=json.dumps(task).encode(), capture_output=True, check=True, timeout=PATIENCE
    )
    told = json.loads(answer.stdout)
    assert not told["ok"]
    assert told["error"] == "refused: it would open a file of this machine"


# -- stores -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "place",
    [
        "mysql://me:hunter2@host/db",
        "postgresql:/me:hunter2@host/db",
        "postgres:me:hunter2@host",
        "POSTGRESQL://me:hunter2@host/db",
        "postgresql://me:hunter2@[bad/db",
        "postgresql://me:hunter2@127.0.0.1:1/db?nonsense=1",
    ],
)
def test_a_database_address_that_is_not_understood_is_not_repeated(place):
    with pytest.raises(StoreError) as refused:
        open_store(place, create=False)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("kind", ["text", "empty", "foreign", "cut"])
def test_restoring_a_bad_backup_leaves_no_store_behind(tmp_path, kind):
    backup, place = tmp_path / "backup.db", tmp_path / "new.db"
    with open_store(tmp_path / "o.db") as store:
        store.sources.add([Source(name=f"https://a.example/{k}") for k in range(500)])
        store.backup(backup)
    whole = backup.read_bytes()
    texts = {"text": b"no backup", "empty": b"", "cut": whole[: len(whole) // 2]}
    if kind == "foreign":
        import sqlite3
        from contextlib import closing

        backup.unlink()
        with closing(sqlite3.connect(backup)) as database:
            database.execute("CREATE TABLE a (b)")
            database.commit()
    else:
        backup.write_bytes(texts[kind])
    with pytest.raises(StoreError):
        command("store", "restore", str(backup), "--store", str(place))
    assert not list(tmp_path.glob("new.db*"))
    # A store that was there stays.
    with pytest.raises(StoreError):
        command("store", "restore", str(backup), "--store", str(tmp_path / "o.db"), "--replace")
    with open_store(tmp_path / "o.db") as store:
        assert store.sources.count() == 500


def test_a_store_that_may_only_be_read_can_be_listed(tmp_path, monkeypatch):
    place = tmp_path / "o.db"
    with open_store(place) as store:
        store.sources.add([Source(name="https://a.example/", host="a.example")])
    before = place.read_bytes()
    real = os.access
    # The tests may run as somebody who may write everything.
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and real(path, mode))
    assert "https://a.example/" in command("list", "--store", str(place)).stdout
    assert "https://a.example/" in command("show", "a.example", "--store", str(place)).stdout
    with open_store(place) as store:
        assert store.sources.count() == 1
        with pytest.raises(StoreError, match="may only be read"):
            store.sources.add([Source(name="https://b.example/")])
        store.backup(tmp_path / "copy.db")
    assert place.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "o.db"]
