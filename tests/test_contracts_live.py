"""What every part of a family promises, checked because the part exists: whatever meets the world.

As in test_contracts.py. The examples of docs/architecture.md, installed as the package of somebody
else, pass the same checks as the parts that are built in.
"""

import asyncio
import contextlib
import inspect
import re
import socket
import sqlite3
import sys
import time
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from observant import plugins
from observant.errors import InputError, StoreError
from observant.formats import FORMATS
from observant.formats.imports import Importer, importers
from observant.notifications.channels import WAYS, SendResult, check_channel, class_of, way_of, ways
from observant.notifications.messages import Message
from observant.observer.clock import SteadyClock
from observant.observer.config import Config, Notify, SourceSettings
from observant.observer.content import Comparer
from observant.observer.content.rules import Rules
from observant.observer.loop import Observer
from observant.observer.program import add_sources, describe
from observant.observer.sources import KINDS, Surroundings, kinds, make_source
from observant.observer.sources.base import Compared
from observant.observer.transport import Guard, Transport
from observant.store import ENGINES, open_store
from observant.store.engine import Engine, migrations, statements
from observant.store.sqlite import SqliteEngine, SqliteSession
from observant.store.visit import Error, Outcome

from .discovery import able_to, concrete, modules
from .patience import PATIENCE
from .postgres_server import ENGINE_NAMES

ROOT = Path(__file__).resolve().parents[1]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
EXAMPLES = dict(
    re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', ARCHITECTURE, re.MULTILINE | re.DOTALL)
)


def loaded(registry):
    """The classes that a registry of module:attribute names."""
    return {plugins.load(where) for where in registry.values()}


@pytest.fixture
def extras(tmp_path, monkeypatch):
    """The package of docs/architecture.md, installed beside observant; returns its entry points."""
    project = tomllib.loads(EXAMPLES["pyproject.toml"])["project"]
    folder = tmp_path / "site-packages"
    about = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {where}" for name, where in entries.items())]
    (about / "entry_points.txt").write_text("\n".join(lines))
    for name, text in EXAMPLES.items():
        if name.endswith(".py"):
            (folder / name).write_text(text, "utf-8")
            monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    monkeypatch.syspath_prepend(folder)
    for cache in (kinds, importers, ways):
        cache.cache_clear()
    yield project["entry-points"]
    monkeypatch.undo()
    for cache in (kinds, importers, ways):
        cache.cache_clear()


def test_every_group_of_entry_points_has_an_example():
    assert set(tomllib.loads(EXAMPLES["pyproject.toml"])["project"]["entry-points"]) == set(
        plugins.GROUPS
    )
    for group in plugins.GROUPS:
        assert f"`{group}`" in ARCHITECTURE


# -- sources --------------------------------------------------------------------------------------

NOWHERE = (
    "http://127.0.0.1:9/",
    "https://[::1]/",
    "nowhere at all",
    "/no/such/place",
    "",
    "a:b",
    "\0",
)


def check_source(kind, url):
    """The world's faults are outcomes of a visit, never exceptions."""

    async def visit():
        async with Transport(guard=Guard(), robots=False) as transport:
            around = Surroundings(transport, time=time.time, trusted=True)
            try:
                source = make_source(kind, "it", url, SourceSettings(), Comparer(Rules()), around)
            except InputError:  # refused at the door: nothing to visit
                return None
            return await source.visit(None)

    seen = asyncio.run(visit())
    if seen is None:
        return
    assert seen.source == "it"
    assert seen.outcome in get_args(Outcome)
    assert seen.outcome in {"failed", "gone"}
    assert seen.error in get_args(Error)
    assert seen.ended_at >= seen.started_at > 0


def test_every_kind_of_source_is_registered():
    found = concrete(Compared, "observant.observer.sources")
    leaves = {kind for kind in found if not any(kind in other.__mro__[1:] for other in found)}
    assert leaves <= loaded(KINDS)
    assert loaded(KINDS) <= found


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source(kind):
    for url in NOWHERE:
        check_source(kind, url)


def test_broken_sources_are_found_out(monkeypatch):
    from observant.observer import sources

    class Exploding(Compared):
        async def visit(self, _previous):
            raise OSError("the world is bad")

    class Dreaming(Compared):
        async def visit(self, _previous):
            from observant.store.visit import Visit

            return Visit(source="another", started_at=1.0, ended_at=2.0, outcome="same")

    for broken, trouble in ((Exploding, OSError), (Dreaming, AssertionError)):
        monkeypatch.setattr(sources, "kinds", lambda broken=broken: {"broken": broken})
        with pytest.raises(trouble):
            check_source("broken", "anywhere")


def test_the_kind_of_source_of_the_page(extras, tmp_path):
    for kind in extras["observant.sources"]:
        assert kind in kinds()
        for url in NOWHERE:
            check_source(kind, url)
    database = sqlite3.connect(tmp_path / "shop.db")
    database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, price REAL)")
    database.execute("INSERT INTO items VALUES (7, 9.5)")
    database.commit()
    place = f"{tmp_path / 'shop.db'}#7"
    with open_store(":memory:") as store:
        config = Config(kinds=("row",))
        add_sources(store, config, [describe(place, kind="row", name="seven")])
        outcomes = []
        for change in ("SELECT 1", "SELECT 1", "UPDATE items SET price = 8", "DELETE FROM items"):
            database.execute(change)
            database.commit()
            outcomes.append(asyncio.run(Observer(store, config).check("seven")).outcome)
    database.close()
    assert outcomes == ["first", "same", "changed", "gone"]


# -- formats --------------------------------------------------------------------------------------


def check_importer(importer):
    """It says what it is, and no file surprises it; test_imports.py reads a sample of each."""
    assert isinstance(importer, Importer)
    assert re.fullmatch(r"[a-z0-9-]+", importer.name)
    assert importer.title
    assert importer.evidence in {"V", "C", "S", "D"}
    assert all(ending == ending.lower() for ending in importer.endings)
    assert bool(importer.assumption) == bool(importer.assumes) == (importer.evidence == "C")
    hostile = b"", b"\0" * 99, b"\xff\xfe<", b"{" * 4096, b"PK\x03\x04\n", b"PAR1\n", b"a,b\n1,2\n"
    for head in hostile:
        for name in ("", "file", "folder/", "x.bin"):
            assert importer.sniff(head, name) is False


def test_every_importer_is_found_by_its_module():
    """A class that reads files and stands in no IMPORTERS would never be asked."""
    assert able_to("observant.formats.imports", "sniff", "read") == {
        type(importer) for importer in importers().values()
    }


@pytest.mark.parametrize("name", importers())
def test_every_importer(name):
    assert importers()[name].name == name
    check_importer(importers()[name])


def test_broken_importers_are_found_out():
    known = importers()["opml"]

    class Greedy(type(known)):
        def sniff(self, head, name):
            return name.endswith("/") or not head

    class Nameless(type(known)):
        name = "A list of feeds"

    class Silent(type(known)):
        assumption = "something"

    check_importer(known)
    for broken in (Greedy, Nameless, Silent):
        with pytest.raises(AssertionError):
            check_importer(broken())


def test_the_importer_of_the_page(extras, tmp_path):
    from observant.formats.imports import import_visits

    for name in extras["observant.importers"]:
        check_importer(importers()[name])
    file = tmp_path / "log"
    file.write_text(
        "# checks\n2026-01-31T12:00:00Z changed https://example.org/\nnonsense\n"
        "2026-02-01T12:00:00Z same https://example.org/\n"
    )
    visits = import_visits(file)
    assert [row["changed"] for batch in visits for row in batch.to_pylist()] == [True, False]
    assert (visits.report.formats, visits.report.malformed_rows) == ({"checks": 1}, 1)


def test_every_format_is_registered():
    """test_formats.py writes and reads every one of them."""
    found = {
        module.__name__.rpartition(".")[2]
        for module in modules("observant.formats")
        if inspect.isfunction(getattr(module, "read", None))
        and inspect.isfunction(getattr(module, "write", None))
    }
    assert found == set(FORMATS.values())


# -- channels -------------------------------------------------------------------------------------

REFUSED = {  # addresses of this machine, which the guard does not allow
    "webhook": "http://127.0.0.1:8080/hook",
    "mail": "mailto:me@example.org",
    "apprise": "json://127.0.0.1:9/",
    "udp": "udp://127.0.0.1:9",
}
MESSAGE = Message(id="1", subscription="me", subject="news", text="news", html="news", events=())


def check_way(way):
    """It refuses what cannot work, asks the guard, and answers whatever the world does."""
    carrier, address = class_of(way), REFUSED[way]
    assert way_of(address) == way
    check_channel(address)
    scheme = address.partition(":")[0]
    for nonsense in ("", f"{scheme}:", f"{scheme}://", "\n", "x" * 10_000):
        with pytest.raises(InputError):
            check_channel(nonsense)
    config = Config(notify=Notify(mail="smtp+plain://127.0.0.1:9", sender="us@example.org"))

    async def send():
        channel = carrier.made(Guard(), SteadyClock(), config)
        try:
            return await channel.send(address, "secret", MESSAGE)
        finally:
            await channel.close()

    answer = asyncio.run(send())
    assert isinstance(answer, SendResult)
    assert not answer.ok
    assert answer.error


def test_every_channel_is_registered():
    found = able_to("observant.notifications.channels", "send", "close")
    assert found == loaded(WAYS)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_every_channel(way):
    check_way(way)


def test_broken_channels_are_found_out(monkeypatch):
    from observant.notifications import channels

    class Careless(class_of("webhook")):  # says that all is well
        async def send(self, *_message):
            return SendResult(ok=True)

    class Exploding(class_of("webhook")):
        async def send(self, *_message):
            raise OSError("the line is dead")

    class Credulous(class_of("webhook")):
        check = staticmethod(lambda _channel: None)

    for broken, trouble in (
        (Careless, AssertionError),
        (Exploding, OSError),
        (Credulous, pytest.fail.Exception),
    ):
        monkeypatch.setattr(channels, "load", lambda _where, broken=broken: broken)
        monkeypatch.setattr(sys.modules[__name__], "class_of", lambda _way, broken=broken: broken)
        with pytest.raises(trouble):
            check_way("webhook")


def test_the_channel_of_the_page(extras):
    for way in extras["observant.channels"]:
        check_way(way)

    async def told():
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
            receiver.bind(("127.0.0.1", 0))
            receiver.setblocking(False)
            channel = class_of("udp").made(Guard(allow=["127.0.0.0/8"]), SteadyClock(), Config())
            address = f"udp://127.0.0.1:{receiver.getsockname()[1]}"
            assert (await channel.send(address, "", MESSAGE)).ok
            return await asyncio.wait_for(loop.sock_recv(receiver, 100), PATIENCE)

    assert asyncio.run(told()) == b"news"


# -- stores ---------------------------------------------------------------------------------------


STORE = ROOT / "src" / "observant" / "store"


def check_store(place):
    """A transaction is whole or nothing, a reader sees one state; test_store.py has the rest."""
    with open_store(place, durable=False) as store:
        engine = store.engine
        assert engine.version() == migrations(engine.name)[-1].number
        assert str(engine)

        def spoiled(session):
            session.run("set_setting", key="spoiled", value="1", now=0)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            engine.write(spoiled)
        assert store.settings.get("spoiled") is None
        store.settings.set("before", 1)
        with engine.snapshot() as session:
            before = session.all("settings")
            store.settings.set("after", 2)
            assert session.all("settings") == before
        assert store.settings.get("after") == 2
        assert [found for found in store.doctor() if found.severity == "error"] == []
    with pytest.raises(StoreError):
        store.settings.get("after")
    with open_store(place, create=False) as store:
        assert store.settings.get("after") == 2


def test_every_engine_is_registered_and_has_its_sql():
    found = concrete(Engine, "observant.store")
    assert found == loaded(ENGINES)
    assert sorted(engine.name for engine in found) == ENGINE_NAMES
    steps = {engine.name: [step[:2] for step in migrations(engine.name)] for engine in found}
    assert len({tuple(numbers) for numbers in steps.values()}) == 1, steps
    known = {engine.name: set(statements(engine.name)) for engine in found}
    code = {file.stem: file.read_text("utf-8") for file in STORE.glob("*.py")}
    for name in set.union(*known.values()) - set.intersection(*known.values()):
        (only,) = [engine for engine, own in known.items() if name in own]
        assert [file for file, text in code.items() if f'"{name}"' in text] == [only]


def test_every_store(place):
    check_store(place)


def test_broken_stores_are_found_out(tmp_path, monkeypatch):
    class Careless(SqliteEngine):  # keeps what a failed transaction did
        def write(self, work):
            with self._writing:
                return work(SqliteSession(self._writer))

    class Blurred(SqliteEngine):  # every question sees another state
        def snapshot(self):
            return contextlib.nullcontext(SqliteSession(self._writer))

    for number, broken in enumerate((Careless, Blurred)):
        monkeypatch.setattr("observant.store.load", lambda _where, broken=broken: broken)
        with pytest.raises(AssertionError):
            check_store(str(tmp_path / f"{number}.db"))


def test_the_store_of_the_page(extras, tmp_path, monkeypatch, caplog):
    for scheme in extras["observant.stores"]:
        place = f"{scheme}://{tmp_path / 'store.db'}"
        check_store(place)
        assert caplog.messages == []
        monkeypatch.setattr("extras_timed.SLOW", 0.0)
        with open_store(place) as store:
            store.settings.set("slow", 1)
        assert "a commit took" in caplog.text
