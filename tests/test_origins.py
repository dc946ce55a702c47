"""Secrets stay with the origins (scheme, host and port) they were entered for."""

import asyncio
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from observant.errors import InputError
from observant.observer.config import Config, load_config
from observant.observer.loop import Observer
from observant.observer.program import take_up_config
from observant.service.collection import NewSource, SourceChanges
from observant.service.collection.entries import MASK
from observant.store import open_store

from .service_world import World

SECRET = "Bearer top-secret"  # noqa: S105


@contextmanager
def listening():
    """A server on a port of its own, and the headers of every request."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(200)
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"text")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("table", ["defaults", "tags.api"])
@pytest.mark.parametrize("by", ["a source of the file", "origins"])
def test_tagging_a_source_of_ones_own_brings_no_secret(tmp_path, table, by):
    with listening() as (ours, seen_by_us), listening() as (theirs, seen_by_them):
        named = f'origins = ["{ours}"]\n' if by == "origins" else ""
        entry = f'[[sources]]\nurl = "{ours}/data"\ntags = ["api"]\n' if not named else ""
        file = tmp_path / "observant.toml"
        file.write_text(
            'allow = ["127.0.0.0/8"]\nhost_delay = 0\n'
            f'[{table}]\n{named}headers = {{Authorization = "{SECRET}", Accept-Language = "de"}}\n'
            + entry
        )
        config = load_config(str(file), {"store": str(tmp_path / "o.db")}, {})
        with open_store(config.store) as store:
            world = World(config=config, store=store)
            take_up_config(store, config)
            with world.browser("editor") as client:
                for place in (f"{theirs}/x", f"{ours}/data"):
                    answer = client.post("/api/v1/sources", json={"url": place, "tags": ["api"]})
                    assert answer.is_success
                    assert asyncio.run(Observer(store, config).check(place)).outcome == "first"
            sent = [h for h in seen_by_us if "accept-language" in h]
            assert [h["authorization"] for h in sent] == [SECRET]
            got = [h for h in seen_by_them if "accept-language" in h]  # not robots.txt
            assert len(got) == 1
            assert "authorization" not in got[0]
            world.collection.cache.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "place",
    [
        "https://a.example:8443/",
        "http://a.example/",
        "https://b.example/",
        "https://a.example.evil.example/",
    ],
)
def test_masked_credentials_follow_a_source_to_no_other_origin(place):
    world = World()
    try:
        headers = {"Authorization": SECRET}
        world.collection.sources.add(
            NewSource(url="https://ada:pw@a.example/", settings={"headers": headers})
        )
        with world.browser("editor") as client:
            for change in (
                {"url": place},
                {"url": place, "settings": {"headers": {"Authorization": MASK}}},
                {"url": place.replace("://", f"://{MASK}@"), "settings": {}},
            ):
                assert client.patch("/api/v1/sources/1", json=change).status_code in {400, 422}
        assert world.store.sources.numbered(1).url == "https://ada:pw@a.example/"
        # Within its origin it moves, and keeps what it has.
        change = SourceChanges(
            url=f"https://{MASK}@a.example:443/else", settings={"headers": {"Authorization": MASK}}
        )
        world.collection.sources.update(1, change)
        assert world.store.sources.numbered(1).config == {"headers": headers}
        assert world.store.sources.numbered(1).url.startswith("https://ada:pw@a.example")
    finally:
        world.close()


def test_origins_belong_to_tables_that_sources_share():
    with pytest.raises(InputError, match="origins belong"):
        Config().settings_of((), {"origins": ["https://a.example"]}, "a")
    for bad in ("example.org", "ftp://a.example", "*"):
        with pytest.raises(InputError, match="origins"):
            load_config(None, {"defaults": {"origins": [bad]}}, environment={})


def test_who_looks_at_a_source_sees_which_headers_are_sent():
    shared = {"api": {"headers": {"X-Key": "secret"}, "origins": ["https://a.example"]}}
    world = World(config=Config(tags=shared))
    try:
        for host in ("a", "b"):
            world.collection.sources.add(NewSource(url=f"https://{host}.example/", tags=("api",)))
        assert world.collection.sources.get(1).in_force["headers"] == {"X-Key": MASK}
        assert world.collection.sources.get(2).in_force["headers"] == {}
    finally:
        world.close()
